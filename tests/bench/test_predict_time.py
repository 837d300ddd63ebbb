"""The page of what a prediction takes: its first table is measured anew, and earlier figures stay."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import predict_time
from harness import SOURCE, Took

EARLIER = "## Earlier figures"


def test_versions_are_measured_in_turn_and_the_least_of_each_figure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, sources = tmp_path / "page.md", []

    def headstart(folder: Path, *words: str, source: Path = SOURCE) -> Took:
        if words[0] == "fit":
            return Took(0.0, 0.0, 0.0)
        assert (folder / words[2]).read_text().count("\n") == 4
        sources.append(source)
        return Took(9.0 + len(sources), 8.0 - len(sources), 100.0)

    page.write_text(f"# Old\n\nold\n\n{EARLIER}\n\nas they stand\n")
    monkeypatch.setattr(predict_time, "headstart", headstart)
    words = ["predict_time.py", "--before", str(tmp_path), "--times", "2", "--rows", "3", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", words)
    predict_time.main()
    assert sources == [tmp_path / "src", SOURCE] * 6
    text = page.read_text()
    assert "old" not in text.lower().partition("earlier")[0]
    assert "| 3 | kernels | 10.00 s (11.00) | 5.00 s | 100 MiB | 11.00 s (12.00) | 4.00 s | 100 MiB |\n" in text
    assert text.endswith(f"\n\n{EARLIER}\n\nas they stand\n")


def test_an_aim_is_missed_by_what_the_least_run_took_longer() -> None:
    lines = [["2", "n-grams", "0.55 s (0.57)", "0.6 s", "9 MiB"], ["10,000", "kernels", "2.93 s", "4 s", "9 MiB"]]
    text = predict_time.aims([*lines, ["100,000", "kernels", "20 s", "4 s", "9 MiB"]])
    assert text == (
        "Aims, by the least run: n-grams, 2 rows, 0.5 s: missed by 0.05 s; kernels, 10,000 rows, 3 s: reached."
    )


def test_a_run_that_fails_is_no_figure_and_one_that_succeeds_has_all_three(tmp_path: Path) -> None:
    took = predict_time.headstart(tmp_path, "--version")
    assert took.processor > 0
    assert took.wall > 0
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # a child counts from its fork, as large as we are
    assert 1 < took.memory < max(1_000, 1.1 * own)
    with pytest.raises(RuntimeError, match="no such folder"):
        predict_time.headstart(tmp_path, "predict", "nowhere", "no.csv")
