"""Which studies have no page yet, what a page is called, and the list of pages."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import publish_results


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


def test_the_list_has_the_paper_first_and_released_code_after_it(pages):
    for name in ("b", "a-published", "a", "a-small"):
        (pages / f"{name}.md").write_text(f"# Title of {name}\n\nThe answer. Of {name}.\n\nMore.\n")
    publish_results.index()
    lines = [line for line in (pages / "README.md").read_text().splitlines() if line.startswith("- ")]
    assert lines[0] == "- [a](a.md): Title of a. The answer. Of a."
    assert [line.split("]")[0] for line in lines] == ["- [a", "- [a-published", "- [a-small", "- [b"]


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
