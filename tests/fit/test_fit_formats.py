"""Whole fits of files that have a reader of their own, and predictions: of all of the file, and of one sequence alone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.made_files import needs, signals, tone, workbook

from headstart.cli import main

COUNT = 60
RNG = np.random.default_rng(0)
LABELS = [("slow", "fast")[i % 2] for i in range(COUNT)]


def wave(i: int, length: int = 50) -> np.ndarray:
    """One channel or two of a frequency that its class has."""
    phase = RNG.uniform(0, 6, 2)
    return (np.sin(np.arange(length)[:, None] * (0.3, 0.7)[i % 2] + phase) + RNG.normal(size=(length, 2)) / 4).round(4)


def _sounds(folder: Path) -> tuple[str, str]:
    for i, label in enumerate(LABELS):
        tone(folder / "data" / label / f"{i:02}.flac", 2_000, pitch=(300, 700)[i % 2] + float(RNG.normal()))
    return "data", "data/slow/00.flac"


def _signals(folder: Path) -> tuple[str, str]:
    for i, label in enumerate(LABELS):
        signals(folder / "data" / label / f"{i:02}.edf", wave(i, 200))
    return "data", "data/slow/00.edf"


def _workbook(folder: Path) -> tuple[str, str]:
    rows = [["id", "label", *range(50)], *([f"s{i}", name, *wave(i)[:, 0].tolist()] for i, name in enumerate(LABELS))]
    for name, some in (("data.xlsx", rows), ("one.xlsx", [rows[0], rows[1]])):
        workbook(folder / name, {"Data": [[f"t{x}" if isinstance(x, int) else x for x in row] for row in some]})
    return "data.xlsx", "one.xlsx"


GROUPS: dict[str, tuple[str, Callable[[Path], tuple[str, str]]]] = {
    "recordings of sound": ("sound", _sounds),
    "a workbook": ("xlsx", _workbook),
    "recordings of signals": ("edf", _signals),
}
"""The reader, and what writes data and one sequence of them, the first of its class."""


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_sixty_sequences_are_fitted_in_seconds_and_one_alone_is_predicted_as_among_all(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, make = GROUPS[group]
    needs(form)
    data, single = make(tmp_path)
    monkeypatch.chdir(tmp_path)
    answers = []
    for words in (
        ["fit", data, "-o", "model", "--time", "5s", "--workers", "0", "--store", "runs"],
        ["predict", "model", data, "-o", "all.csv"],
        ["predict", "model", single, "-o", "one.csv"],
    ):
        with pytest.raises(SystemExit) as done:
            main(words)
        assert not done.value.code
    for name in ("all.csv", "one.csv"):
        with open(name, newline="") as file:
            answers.append(list(csv.DictReader(file)))
    whole, (alone,) = answers
    assert len(whole) == COUNT
    first = next(
        row for row in whole if row.get("file", "").endswith("slow/" + Path(single).name) or row.get("id") == "s0"
    )
    assert alone["prediction"] == first["prediction"] == "slow"
    assert float(alone["p_slow"]) == pytest.approx(float(first["p_slow"]), abs=1e-6)
