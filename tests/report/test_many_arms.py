"""A study of very many arms has a page, and no figure that nobody can read."""

from support.finished import study, written
from support.made_up import LR


def test_a_study_of_more_arms_than_a_figure_shows_has_a_page_that_says_which_to_name(tmp_path, monkeypatch):
    monkeypatch.setattr("headstart.report.figures.collect.MOST_DRAWN_ARMS", 3)
    arms = {f"a{i}": {"finetune": {"optim": {"weight_decay": 0.001 * (i + 1)}}} for i in range(4)}
    more = study(arms=arms, axes={LR: [1e-3], "seed": [0, 1]}, report={"choose": [LR], "against": "a0"})
    _, results, page = written(tmp_path, more)
    sentence = "4 arms are more than a figure shows (3); arms=['a0', 'a1', ...] draws those that are named"
    for text in (page.read_text("utf-8"), page.with_name("results.md").read_text("utf-8")):
        assert sentence in text.replace("&#39;", "'").replace("\\[", "[").replace("\\]", "]")
    assert not [*page.parent.glob("*.svg")]
    assert {row.arm for row in results.table} == set(arms)
