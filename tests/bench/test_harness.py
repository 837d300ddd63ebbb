"""What the scripts of benchmarks/ share: a result is measured once, and a page is text with numbers in their places."""

from __future__ import annotations

import string
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import harness


def test_a_result_is_measured_once_and_then_read(tmp_path: Path) -> None:
    calls = []
    path = tmp_path / "results" / "a.json"
    for _ in range(2):
        assert harness.once(path, lambda: calls.append(1) or {"rows": (1, 2)}) == {"rows": [1, 2]}
    assert calls == [1]


def test_a_measurement_that_fails_leaves_no_result(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        harness.once(tmp_path / "a.json", lambda: 1 / 0)
    assert not list(tmp_path.iterdir())


def test_a_page_has_its_numbers_and_no_empty_paragraphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("# A\n\n{table}\n\n{note}\n\n{count:,} of them.\n")
    monkeypatch.setattr(harness, "HERE", tmp_path)
    table = harness.markdown(["a", "b"], [["x", "1"]])
    assert harness.filled("a", table=table, note="", count=1234) == (
        "# A\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n\n1,234 of them.\n"
    )
    with pytest.raises(KeyError, match="note"):
        harness.filled("a", table=table, count=1)


@pytest.mark.parametrize(
    ("page", "after"),
    [
        ("# T\n\nhead\n", "# T\n\nhead\n\n## B\n\nnew\n"),
        ("# T\n\n## B\n\nold\n\n## C\n\nlast\n", "# T\n\n## B\n\nnew\n\n## C\n\nlast\n"),
        ("# T\n\n## A\n\nfirst\n\n## B\n\nold\n", "# T\n\n## A\n\nfirst\n\n## B\n\nnew\n"),
    ],
)
def test_a_section_takes_the_place_of_the_one_of_its_heading(page: str, after: str) -> None:
    assert harness.with_section(page, "B", "new") == after


def test_the_head_of_a_page_is_replaced_and_its_sections_stay() -> None:
    assert harness.with_head("# Old\n\nold\n\n## A\n\nfirst\n", "# New\n\nnew\n") == "# New\n\nnew\n\n## A\n\nfirst\n"
    assert harness.with_head("", "# New\n") == "# New\n"


def test_a_gain_has_the_interval_over_its_sets() -> None:
    assert harness.gain_text(np.array([0.1, 0.1, 0.1])) == "+0.100 [+0.100, +0.100]"
    assert harness.gain_text(np.array([-0.1, 0.1])) == "+0.000 [\N{MINUS SIGN}1.271, +1.271]"
    assert harness.days_of(["2026-01-02", "2026-01-01", "2026-01-02"]) == "2026-01-01 to 2026-01-02"


@pytest.mark.parametrize("path", sorted((harness.HERE / "texts").glob("*.md")), ids=lambda path: path.stem)
def test_a_text_is_one_that_a_script_fills(path: Path) -> None:
    fields = [name for _, name, _, _ in string.Formatter().parse(path.read_text("utf-8")) if name]
    assert fields
    scripts = [script.read_text("utf-8") for script in harness.HERE.glob("*.py")]
    constant = 'NAME = "pretraining-pays"'
    assert any(f'"{path.stem}",' in text or (path.stem in constant and constant in text) for text in scripts)
