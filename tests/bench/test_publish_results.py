"""Which studies have no page yet, what a page is called, and the list of pages."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import publish_results

from headstart.report import answer


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """An empty folder of pages."""
    monkeypatch.setattr(publish_results, "RESULTS", tmp_path)
    return tmp_path


def test_missing_are_all_studies_with_scales_and_released_code_only_if_asked_for(pages):
    described = publish_results.missing("tiny", published=False)
    assert {"coser-1", "amos-f3", "rothermel-1", "tied-start"} <= set(described)
    assert not {"digits", "mixers"} & set(described), "these have no scales"
    assert not [name for name in described if name.endswith(("-published", "-described"))]
    every = publish_results.missing("tiny", published=True)
    assert set(described) < set(every)
    assert "coser-1-published" in every
    for name in ("coser-1", "coser-2-published", "coser-3-small"):
        (pages / f"{name}.md").write_text("")
    left = publish_results.missing("tiny", published=True)
    assert set(every) - set(left) == {"coser-1", "coser-2-published"}
    assert "coser-3" not in publish_results.missing("small", published=False)
    assert "coser-1" in publish_results.missing("small", published=False)


def test_a_page_keeps_the_name_of_released_code_and_of_a_scale(pages):
    assert publish_results.page_name("coser-1-described", "tiny") == "coser-1"
    assert publish_results.page_name("coser-1-published", "tiny") == "coser-1-published"
    assert publish_results.page_name("coser-1-published", "small") == "coser-1-published-small"
    assert publish_results.page_name("digits", "none") == "digits"


def test_the_list_has_a_table_of_each_kind_with_sums(pages):
    here = "that the paper claims and that could be checked here"
    page = {
        "b": f"Of 3 directions {here}, 1 holds and 2 are undecided. A beats.",
        "a": f"With stand-in data in 1 of 2 columns: the one direction {here} holds. A beats.",
        "a-published": f"With stand-in data: of 2 directions {here}, 2 are the other way round. 3 are not seen.",
        "a-small": "No direction that the paper claims could be checked here. A beats.",
        "q": "The one direction that the study asks about and that could be checked here is not seen. A beats.",
        "own": "On 29 sets. Little.",
    }
    for name, text in page.items():
        (pages / f"{name}.md").write_text(f"# Title of {name}\n\n{text}\n\nMore.\n")
    publish_results.index()
    kinds = [part.strip().splitlines() for part in (pages / "README.md").read_text().split("\n## ")[1:]]
    assert [lines[0] for lines in kinds] == list(publish_results.KINDS)
    assert kinds[0][2:] == [
        "| page | what | stand-in data | holds | the other way round | does not hold | undecided |",
        "|---|---|---|---:|---:|---:|---:|",
        "| [a](a.md) | Title of a | 1 of 2 columns | 1 | — | — | — |",
        "| [b](b.md) | Title of b | — | 1 | — | — | 2 |",
        "| **together** | 4 directions on 2 pages | | 2 | — | — | 2 |",
    ]
    assert "| [a-published](a-published.md) | Title of a-published | yes | — | 2 | — | — |" in kinds[1]
    assert "| [q](q.md) | Title of q | — | — | — | — | 1 |" in kinds[2]
    assert "| [a-small](a-small.md) | Title of a-small | — | — | — | — | — |" in kinds[3]
    assert kinds[4][-1] == "- [own](own.md): Title of own. On 29 sets. Little."


@pytest.mark.parametrize(
    "verdicts",
    [
        *({outcome: 1} for outcome in answer.OUTCOME_VERBS),
        *({outcome: 12} for outcome in answer.OUTCOME_VERBS),
        {"holds": 1, "not seen": 2},
        dict.fromkeys(answer.OUTCOME_VERBS, 1),
        dict.fromkeys(answer.OUTCOME_VERBS, 3),
        {"not measured": 2},
        {},
    ],
)
def test_the_list_counts_what_the_answer_says(verdicts, monkeypatch):
    parts = [
        SimpleNamespace(outcome=outcome, uncorrected=None)
        for outcome, number in verdicts.items()
        for _ in range(number)
    ]
    monkeypatch.setattr(answer, "verdicts", lambda *_: [SimpleNamespace(parts=parts)])
    text = answer._claims(SimpleNamespace(paper=None))
    verdicts = {outcome: number for outcome, number in verdicts.items() if outcome in answer.OUTCOME_VERBS}
    assert publish_results.outcomes(f"With stand-in data: {text}. 7 hold, 8 are not seen.") == verdicts


def test_a_page_brings_its_figures_under_its_own_name(pages, tmp_path):
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "curves.png").write_bytes(b"png")
    (folder / "results.md").write_text("![Curves](curves.png)\n")
    page = publish_results.publish(SimpleNamespace(report_folder=folder), "a-published")
    assert page.read_text() == "![Curves](figures/a-published-curves.png)\n"
    assert (pages / "figures" / "a-published-curves.png").read_bytes() == b"png"


@pytest.mark.parametrize("words", [[], ["--published"], ["--published", "coser-1"]])
def test_no_study_and_released_code_without_missing_are_refused(pages, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["publish_results.py", *words])
    with pytest.raises(SystemExit, match="2"):
        publish_results.main()
    assert "--missing" in capsys.readouterr().err
