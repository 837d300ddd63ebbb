"""A study of very many arms has a page, and no table and no figure that nobody can read."""

import re
from pathlib import Path

import pytest
from support.finished import study, written
from support.html_reader import Reader
from support.made_up import LR

from headstart.report.figures.collect import MOST_DRAWN

ARMS = {f"a{i}": {"finetune": {"optim": {"weight_decay": 0.001 * (i + 1)}}} for i in range(4)}


def plain(page: Path) -> str:
    return page.read_text("utf-8").replace("&#39;", "'").replace("\\", "")


@pytest.mark.parametrize(
    ("noun", "more", "sentence"),
    [
        ("arms", {"arms": ARMS}, "arms=['a0', 'a1', ...] draws those that are named"),
        ("columns", {"axes": {"finetune.optim.clip": [1, 2, 3, 4]}}, "axes of fewer values make fewer"),
    ],
)
def test_a_study_of_more_arms_or_columns_than_a_figure_shows_has_a_page_that_says_which_to_name(
    noun, more, sentence, tmp_path, monkeypatch
):
    monkeypatch.setitem(MOST_DRAWN, noun, 3)
    axes = {LR: [1e-3], "seed": [0, 1], **more.get("axes", {})}
    whole = study(**more | {"axes": axes}, report={"choose": [LR], "against": next(iter(more.get("arms", {})), None)})
    _, results, page = written(tmp_path, whole)
    for text in map(plain, (page, page.with_name("results.md"))):
        assert f"4 {noun} are more than a figure shows (3); {sentence}" in text
    assert not [*page.parent.glob("*.svg")]
    assert len(results.table) == {"arms": 4, "columns": 8}[noun]


def test_a_table_of_very_many_lines_prints_the_best_and_the_first_and_says_how_many_there_are(tmp_path, monkeypatch):
    for module in ("tables.report_table", "page", "methods"):
        monkeypatch.setattr(f"headstart.report.{module}.PRINTED_LINES", 2)
    more = study(arms=ARMS, axes={LR: [1e-3], "seed": [0, 1]}, report={"choose": [LR], "against": "a0"})
    monkeypatch.setattr("support.finished.score", lambda cell: (0.9 if cell.arm == "a3" else 0.5, 0.5))
    *_, page = written(tmp_path, more)
    table = page.with_name("table.md").read_text("utf-8")
    assert re.findall(r"^\| \**(a\d)", table, re.MULTILINE) == ["a0", "a3"]
    sentence = "2 of 7 lines, the best among them; a file of `--json` has all."
    for name in ("page.html", "results.md", "table.md", "table.tex"):
        assert sentence in plain(page.with_name(name)), name
    assert page.with_name("table.csv").read_text().count("\narm,") == 4
    assert "4 rows" in plain(page)
    assert "Models and training of 4 rows are not told here" in plain(page)
    reader = Reader(page.read_text("utf-8"))
    assert {link for link in reader.links if link.startswith("#")} <= {f"#{name}" for name in reader.ids}
