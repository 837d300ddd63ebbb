"""The page of coverage: its rows are those of the predictions, and its set of numbers is made alike every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import interval_coverage

from headstart.data import LayoutSpec


def test_coverage_and_size_are_those_of_the_predictions(tmp_path: Path, monkeypatch) -> None:
    for part in ("TRAIN", "TEST"):
        (tmp_path / f"Two_{part}.tsv").write_text("1\t0.5\t1\n2\t0.7\t0\n1.0\t0.1\t1\n2\t0.2\t2\n")

    def headstart(*words: str) -> str:
        if words[0] == "predict":
            (tmp_path / "Two.csv").write_text("id,in_1,in_2\na,1,0\nb,1,1\nc,0,1\nd,0,1\n")
        else:
            assert {"layout.header=false", 'layout.target="1"'} <= set(words)
        return "conformal, by 1,200 sequences held out (folds): the truth is inside\n"

    monkeypatch.setattr(interval_coverage, "_headstart", headstart)
    files = (tmp_path / "Two_TRAIN.tsv", tmp_path / "Two_TEST.tsv")
    layout = LayoutSpec(header=False, target="1", target_kind="class")
    rows = list(interval_coverage.measured("Two", files, layout, tmp_path, "9s"))
    assert rows[1] == ["Two", "4", "4", "0.9", "0.750 ± 0.217", "1.25 classes", "1,200 of folds"]
    text = interval_coverage.page(rows, ["Two"], "9s", True, ["2026-11-26", "2026-11-27"])
    assert "Coverage was 0.750 to 0.750 where 0.8 was asked and 0.750 to 0.750 where 0.9 was asked." in text
    assert "--time 9s Two`, 2026-11-26 to 2026-11-27, " in text
    assert "On Two coverage" not in text, "0.75 of four rows may be 0.9"
    assert "On Two coverage was below" in interval_coverage.page(
        [[*rows[1][:4], "0.750 ± 0.017", *rows[1][5:]]] * 2 + [rows[0]], [], "9s", True, ["d"]
    )
    assert "other work had the processors, too" in text
    assert "did nothing else" in interval_coverage.page(rows, [], "9s", False, ["2026-11-26"])


def test_a_level_that_too_few_sequences_allow_is_said(tmp_path: Path, monkeypatch) -> None:
    for part in ("TRAIN", "TEST"):
        (tmp_path / f"Two_{part}.tsv").write_text("1\t0.5\t1\n2\t0.7\t0\n")

    def headstart(*words: str) -> str:
        if "0.9" in words:
            few = "headstart: --confidence: 0.9 is more than 7 held-out sequences allow; give at most 0.87"
            raise subprocess.CalledProcessError(2, words, stderr=few)
        (tmp_path / "Two.csv").write_text("id,in_1,in_2\na,1,0\nb,1,1\n")
        return "conformal, by 7 sequences held out (folds): the truth is inside\n"

    monkeypatch.setattr(interval_coverage, "_headstart", headstart)
    files = (tmp_path / "Two_TRAIN.tsv", tmp_path / "Two_TEST.tsv")
    layout = LayoutSpec(header=False, target="1", target_kind="class")
    rows = list(interval_coverage.measured("Two", files, layout, tmp_path, "9s"))
    assert rows[1][3:] == ["0.9", "refused", "\N{EM DASH}", "7, too few"]
    text = interval_coverage.page([*rows, ["One", "2", "2", "0.9", "1.000 ± 0.000", "1", ""]], [], "9s", True, ["d"])
    assert "Coverage was 1.000 to 1.000 where 0.8 was asked and 1.000 to 1.000 where 0.9 was asked. `refused`" in text


def test_the_made_set_of_numbers_repeats_itself(tmp_path: Path) -> None:
    files = []
    for _ in range(2):
        interval_coverage.write_waves(tmp_path, {"TRAIN": 20, "TEST": 30})
        files.append([(tmp_path / f"waves (made)_{part}.tsv").read_bytes() for part in ("TRAIN", "TEST")])
    assert files[0] == files[1]
    values = np.loadtxt(tmp_path / "waves (made)_TEST.tsv")
    assert values.shape == (30, 61)
    assert 1 < values[:, 0].min() < values[:, 0].max() < 10
