"""Traits of sequences that were not measured: length, clock, gaps, settings, and how each was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headstart.data.findings.channels import SAME_INSIDE, without
from headstart.data.padding import equal_neighbours, equal_tails
from headstart.data.sequences import Sequences
from headstart.ways import option

SINGLE_DIGITS, OFF_STEP, MOST_BITS = 2e6, 0.2, 23
"""Steps of a value that single precision tells apart, by which share of one it may be off, and bits behind the point of
sound."""
LOOKED_FOR_STEPS, FEWEST_CHANGES, MOST_ROUGH = 500_000, 8, 0.05
"""Values in which the step is looked for, changes of a sequence below which its step says little, and the share of such
sequences."""


@dataclass(frozen=True)
class Trait:
    """Something of each sequence that was not measured: its name with the article, values (n,), and what makes all
    sequences alike in it, empty where no option does. also: (n,) what must tell as much for it to count."""

    name: str
    values: np.ndarray
    way: str = ""
    also: np.ndarray | None = None


def traits(s: Sequences) -> Iterator[list[Trait]]:
    """Traits of these sequences, those of one sort together; the simplest stands first."""
    numbers, shortest = s.kind == "numbers", int(s.lengths.min())
    cut = f"{option('window', str(shortest))} cuts pieces of one length" if s.windows is None and shortest > 1 else ""
    sort = [Trait("the length", s.lengths.astype(np.float64), cut)]
    if numbers:
        values = s.values if s.observed is None else np.where(s.observed, s.values, np.nan)
        tails, same = equal_tails(values, s.offsets), equal_neighbours(values, s.offsets)
        if int(same.sum() - tails.sum()) <= SAME_INSIDE["last"] * (len(same) - int(tails.sum())):
            way = f"{option('padding', 'last')} cuts them off"
            sort.append(Trait("the number of equal values at the end", tails.astype(np.float64), way))
    yield sort
    if s.steps is not None:
        yield [Trait("the step of time", _rounded(s.steps), f"{option('rate')} brings all onto one clock")]
    if s.observed is not None:
        yield list(_gaps(s))
    if numbers:
        yield list(_settings(s))
    if s.kind == "text" and s.windows is None:
        yield list(_endings(s))
    yield [*_recorded(s), *(_resolution(s) if numbers else ())]


def _endings(s: Sequences) -> Iterator[Trait]:
    """What of texts nobody sees: carriage returns at the ends of lines, and blanks or empty lines at the end."""
    returns = np.logical_or.reduceat(s.values == ord("\r"), s.offsets[:-1])
    yield Trait(
        "a carriage return at the ends of lines", returns.astype(float), "save all texts with the same line endings"
    )
    blank = np.isin(s.values[s.offsets[1:] - 1], [ord(mark) for mark in " \t\r\n"])
    yield Trait("a blank or an empty line at the end", blank.astype(float), "strip blanks at the ends of the texts")


def _recorded(s: Sequences) -> Iterator[Trait]:
    """What the files say of how each sequence was recorded."""
    for name, facts in s.made.items():
        of_words = facts.dtype.kind != "f"
        values = np.unique(facts, return_inverse=True)[1].astype(float) if of_words else _rounded(facts)
        yield Trait(name, values, "record all classes alike")


def _rounded(values: np.ndarray) -> np.ndarray:
    """To three digits: clocks, and decimals, jitter."""
    return np.array([float(f"{value:.3g}") for value in values.tolist()])


def _gaps(s: Sequences) -> Iterator[Trait]:
    """How much is missing in all and in each channel, and how long the longest gap is."""
    assert s.observed is not None
    gone, first, way = ~s.observed, s.offsets[:-1], "give all sequences the same gaps, or fill them before"
    yield Trait("the share of missing values", np.add.reduceat(gone.mean(1), first) / s.lengths, way)
    none = np.asarray(gone.any(1))
    begins = np.flatnonzero(none & ~np.concatenate([[False], none[:-1]]))
    count = np.zeros(len(gone))
    count[begins] = 1
    yield Trait("the number of gaps", np.add.reduceat(count, first), way)
    if gone.shape[1] > 1:
        for f, channel in enumerate(s.channels):
            share = np.add.reduceat(gone[:, f].astype(np.float64), first) / s.lengths
            yield Trait(f"the share of missing values of {channel!r}", share, way)


def _settings(s: Sequences) -> Iterator[Trait]:
    """Channels that do not change within any sequence."""
    rest, within = [], len(s.values) > len(s)
    for f, channel in enumerate(s.channels):
        x = s.values[:, f] if s.observed is None else np.where(s.observed[:, f], s.values[:, f], np.nan)
        changes = x[1:] != x[:-1]
        changes[s.offsets[1:-1] - 1] = False
        if within and not changes.any():
            rest.append((f, channel, x[s.offsets[:-1]].astype(np.float64)))
    still = [f for f, *_ in rest]
    for _, channel, x in rest:
        yield Trait(
            f"the channel {channel!r}, which does not change within any sequence,",
            x,
            without(s, still).removeprefix("; "),
        )


def _resolution(s: Sequences) -> Iterator[Trait]:
    """How coarse the values of each sequence are: the step of which all are multiples, in decimals or bits.

    Where digits are rounded, larger values have a coarser step and as many digits; where decimals are, they have the
    same step and more digits. Only where both differ is one sequence coarser than another.
    """
    values = s.values if s.observed is None else np.where(s.observed, s.values, 0)
    lengths = np.minimum(s.lengths, max(FEWEST_CHANGES, LOOKED_FOR_STEPS // values.size * len(values)))
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    x = values[np.repeat(s.offsets[:-1] - begins, lengths) + np.arange(lengths.sum())].astype(np.float64)
    largest = np.maximum.reduceat(np.abs(x).max(1), begins)
    scale = 10 ** np.floor(np.log10(SINGLE_DIGITS / np.where(largest > 0, largest, 1)))
    step = _common_step(x, begins, lengths, scale, OFF_STEP)
    step[step < np.quantile(1 / scale, 1 - MOST_ROUGH)] = np.nan  # of large values it is not known
    bits = np.isnan(step).mean() > 0.5
    if bits and 2.0**-MOST_BITS < largest.max() <= 1:
        step = _common_step(x, begins, lengths, np.full(len(s), 2.0**MOST_BITS), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        digits = np.log10(largest / step)
        decimals = np.maximum(np.ceil(-np.log10(step) - 1e-6), 0)
        fine = np.floor(np.log2(largest / step) + 1e-6)
    rough = (digits < 1) | (np.add.reduceat(np.abs(np.diff(x, axis=0, prepend=x[:1])).any(1), begins) < FEWEST_CHANGES)
    if np.isnan(step).all() or rough.mean() > MOST_ROUGH:
        return
    way = "write the values of all classes with the same resolution"
    if not bits:
        yield Trait("the number of decimals", decimals, way, np.floor(digits + 1e-6))
    if bits or (decimals == np.median(decimals)).mean() > 1 - MOST_ROUGH:
        yield Trait("the step between values", step, way, fine)


def _common_step(
    x: np.ndarray, begins: np.ndarray, lengths: np.ndarray, scale: np.ndarray, beside: float
) -> np.ndarray:
    """(n,) the largest step of which all values (S, F) of a sequence are multiples, NaN where it is below 1 / scale.
    beside: by which share of that they may be off it."""
    scaled = x * np.repeat(scale, lengths)[:, None]
    whole = np.rint(scaled)
    on = np.logical_and.reduceat((np.abs(scaled - whole) <= beside).all(1), begins)
    common = np.gcd.reduceat(np.gcd.reduce(whole.astype(np.int64), axis=1), begins)
    return np.where(on & (common > 0), common / scale, np.nan)
