"""How recordings were made (rate, channels, form of the samples, step of the values) tells the label of noise: it is
named, though the values were brought to one form; classes that differ in size alone are not accused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile
from support.made_tables import write

from headstart.data import LayoutSpec, read_sequences
from headstart.data.findings.leaks import about_leaks
from headstart.data.findings.traits import traits

ROWS = 40
Make = Callable[[np.random.Generator, int], np.ndarray]


def levels(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.normal(size=shape) * 3000).astype(np.int16)


def sounds(path: Path, make: Make, rates: tuple[int, int] = (8000, 8000), seed: int = 0, mix: bool = False) -> Path:
    """A folder of recordings of two classes of noise; make: the samples of one. mix: classes are drawn, and tell nothing
    of how a recording was made."""
    rng = np.random.default_rng(seed)
    for i in range(ROWS):
        kind = int(rng.integers(2)) if mix else i % 2
        folder = path / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        wavfile.write(folder / f"{i}.wav", rates[kind], make(rng, kind))
    return path


def two_rates(rng: np.random.Generator, kind: int) -> np.ndarray:
    return levels(rng, 800 * (1 + kind))


def stereo(rng: np.random.Generator, kind: int) -> np.ndarray:
    return levels(rng, 800, 2) if kind else levels(rng, 800)


def eight_bits(rng: np.random.Generator, kind: int) -> np.ndarray:
    return (levels(rng, 800) // 256 + 128).astype(np.uint8) if kind else levels(rng, 800)


def eight_of_sixteen(rng: np.random.Generator, kind: int) -> np.ndarray:
    return levels(rng, 800) // 256 * 256 if kind else levels(rng, 800)


RATE = "the rate of the recordings as they were made"
CASES: dict[str, tuple[Make, tuple[int, int], int | None]] = {
    RATE: (two_rates, (8000, 16000), 8000),
    "the number of channels of the files": (stereo, (8000, 8000), 8000),
    "the form of the files": (eight_bits, (8000, 8000), None),
    "the step between values": (eight_of_sixteen, (8000, 8000), None),
}


@pytest.mark.parametrize("name", CASES)
def test_how_files_were_recorded_is_named_where_it_tells_the_class_of_noise(name: str, tmp_path: Path) -> None:
    make, rates, rate = CASES[name]
    (text,) = about_leaks(read_sequences(sounds(tmp_path, make, rates), LayoutSpec(rate=rate)))
    assert text.startswith(f"{name} alone tells the class of 40 of 40 sequences (the commonest class: 20)")
    windows = read_sequences(tmp_path, LayoutSpec(rate=rate, window=100))
    assert about_leaks(windows)[0].startswith(f"{name} alone tells the class of 320 of 320 sequences")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_files_recorded_in_several_ways_in_each_class_are_not_accused(name: str, seed: int, tmp_path: Path) -> None:
    make, rates, rate = CASES[name]
    assert not about_leaks(read_sequences(sounds(tmp_path, make, rates, seed, mix=True), LayoutSpec(rate=rate)))


def long(path: Path) -> Path:
    """Recordings of a second of noise, of class b with half of the positions."""
    rng, lines = np.random.default_rng(0), ["id,time,x,label"]
    for i in range(ROWS):
        step = 0.01 * (1 + i % 2)
        lines += [f"r{i},{t * step:.2f},{rng.normal():.4f},{'ab'[i % 2]}" for t in range(round(1 / step) + 1)]
    return write(path / "f.csv", "\n".join(lines))


def folder_of_tables(path: Path) -> Path:
    rng = np.random.default_rng(0)
    for i in range(ROWS):
        step, folder = 0.01 * (1 + i % 2), path / "tables" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        cells = [f"{t * step:.2f},{rng.normal():.4f}" for t in range(round(1 / step) + 1)]
        write(folder / f"{i}.csv", "\n".join(["time,x", *cells]))
    return path / "tables"


@pytest.mark.parametrize("make", [long, folder_of_tables])
def test_the_step_that_recordings_had_before_they_were_brought_to_one_rate_is_looked_at(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    (text,) = about_leaks(read_sequences(make(tmp_path), LayoutSpec(rate=50)))
    assert text.startswith("the step of time as it was recorded alone tells the class of 40 of 40 sequences")


def written(path: Path, form: Callable[[float, int], str], size: tuple[float, float] = (1.0, 1.0)) -> Path:
    """A wide table of noise of two classes of these sizes, each written in its own form."""
    rng, lines = np.random.default_rng(1), [",".join(["label", *(f"x{i}" for i in range(30))])]
    for i in range(ROWS):
        lines.append(",".join(["ab"[i % 2], *(form(x, i % 2) for x in rng.normal(size=30) * size[i % 2])]))
    return write(path / "f.csv", "\n".join(lines))


def test_classes_whose_values_are_rounded_otherwise_are_named(tmp_path: Path) -> None:
    (text,) = about_leaks(read_sequences(written(tmp_path, lambda x, kind: f"{x:.{2 + 2 * kind}f}")))
    assert text.startswith("the number of decimals alone tells the class of 40 of 40 sequences")
    coarse = written(tmp_path, lambda x, kind: f"{4 * int(x * 50) if kind else int(x * 200)}")
    (text,) = about_leaks(read_sequences(coarse))
    assert text.startswith("the step between values alone tells the class of 40 of 40 sequences")


FORMS = {"digits": "{:.6g}", "decimals": "{:.3f}", "whole": "{:.0f}", "science": "{:.4e}", "all": "{!r}"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(1.2, 50.0), (30.0, 1000.0), (0.01, 0.3), (200.0, 200.0)])
def test_classes_that_differ_in_size_are_not_said_to_be_written_otherwise(
    form: str, size: tuple[float, float], tmp_path: Path
) -> None:
    assert not about_leaks(read_sequences(written(tmp_path, lambda x, _: FORMS[form].format(float(x)), size)))


def test_many_different_words_of_a_fact_stay_different() -> None:
    words = np.array([f"device {i:04d}" for i in range(2_000)])
    s = replace(read_sequences(np.random.default_rng(0).normal(size=(2_000, 4))), made={"the device": words})
    (trait,) = [trait for sort in traits(s) for trait in sort if trait.name == "the device"]
    assert len(np.unique(trait.values)) == 2_000
