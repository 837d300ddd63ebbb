"""Where a model looks: how much worse it answers when one window of a sequence holds another sequence's values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headstart.baselines.embedding import Embedding
from headstart.baselines.encoded import Encoded, Joined
from headstart.models.model import ModelSpec
from headstart.seeds import permutation
from headstart.sequence import IGNORE, Examples
from headstart.serve.config import NETWORK
from headstart.serve.model import Served

Answer = Callable[[Examples], np.ndarray]
"""Examples -> (n, K) probabilities or (n,) numbers."""

WINDOWS = 20
MOST_EXPLAINED = 200
"""Sequences that are looked at; each is answered once per window."""
DRAWS = 3
"""Partners of each sequence where every one is explained: one alone may hold what the sequence holds."""
FLOPS, FEWEST_SEQUENCES = 4e11, 10
"""What all answers of a checkpoint's layers may cost, about ten seconds of one core; below so many sequences nothing is
looked at."""


@dataclass(frozen=True)
class Occlusion:
    """Where a model looks: `drop` (windows,) mean loss of its score where that window of a sequence, from its start
    (0) to its end (1), holds another sequence's values; `error` (windows,) its standard error over sequences.

    what: the score in words (`probability of the true class`).
    """

    drop: np.ndarray
    error: np.ndarray
    what: str
    rows: int


@dataclass(frozen=True)
class Explained:
    """Where a model looks in each of n sequences.

    drop: (n, windows) by how much the probability of the predicted class falls, or the predicted number moves, where
    that window holds another sequence's values; NaN where a short sequence has no position in it. first, last:
    (n, windows) the window's positions, counted from 1.
    """

    drop: np.ndarray
    first: np.ndarray
    last: np.ndarray


def affordable(served: Served) -> int:
    """How many sequences at most are looked at: the layers of a checkpoint may be a thousand times our own."""
    return min(_affordable(served, name) for name in served.members())


def _affordable(served: Served, name: str) -> int:
    network, fitted = served.config.network, served.classics.get(name)
    features = getattr(fitted, "features", None)
    if isinstance(features, (Embedding, Encoded, Joined)):
        return _few(features.encoder.flops * getattr(features, "channels", 1))
    if name != NETWORK or network is None or not isinstance(network.model, ModelSpec):
        return MOST_EXPLAINED
    return _few(network.flops(served.config.signature))


def _few(flops: float) -> int:
    """How many sequences are looked at, where an answer costs so much."""
    count = int(FLOPS / (WINDOWS + 1) / max(flops, 1.0))
    return min(MOST_EXPLAINED, count) if count >= FEWEST_SEQUENCES else 0


def looked(
    answer: Answer,
    x: Examples,
    target: np.ndarray,
    classes: bool,
    windows: int = WINDOWS,
    seed: int = 0,
    most: int = MOST_EXPLAINED,
    seconds: float | None = None,
) -> Occlusion | None:
    """Where anything that answers looks, on up to `most` of these sequences.

    x: prepared but not patched, as `of_examples` takes them. target: (n,) classes, or numbers in their own unit; rows
    without one are left out. windows: at most; none is shorter than a position of the longest sequence. seconds: how
    long that may take; fewer sequences are looked at where more would not fit. None where fewer than two sequences are
    left, which cannot lend each other values, or may be looked at.
    """
    there = np.flatnonzero(target != IGNORE if classes else ~np.isnan(target))
    if min(len(there), most) < 2:
        return None
    rows = there[np.sort(permutation(seed, "looking/rows", len(there))[:most])]
    x, target = replace(x.take(rows), target=None), target[rows]
    windows = min(windows, int(x.lengths.max()))
    window = _windows(x, windows)
    if seconds is not None and np.isfinite(seconds):
        few, begun = x.take(np.arange(min(len(x), FEWEST_SEQUENCES))), time.monotonic()
        if seconds > 0:
            answer(few)
        fit = int(seconds / max((time.monotonic() - begun) / len(few) * windows, 1e-9))
        if fit < min(FEWEST_SEQUENCES, len(x)) or seconds <= 0:
            return None
        if fit < len(x):
            sample = np.linspace(0, len(x) - 1, fit).astype(np.int64)
            x, target = x.take(sample), target[sample]
            window = _windows(x, windows := min(windows, int(x.lengths.max())))
    best = _scores(answer(x), target, classes)
    drop, error = np.zeros(windows), np.full(windows, np.nan)
    for number in range(windows):
        lost = best - _scores(answer(exchanged(x, window == number, _partners(len(x), seed, number))), target, classes)
        # Sequences shorter than the longest may have no position in a narrow window: it says nothing of them.
        lost = lost[np.add.reduceat(window == number, x.offsets[:-1]) > 0]
        drop[number] = lost.mean()
        error[number] = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.nan
    what = "probability of the true class" if classes else "absolute error"
    return Occlusion(drop, error, what, len(x))


def explained(answer: Answer, x: Examples, answers: np.ndarray, classes: bool, seed: int = 0) -> Explained:
    """Where anything that answers looks in each of at least two sequences. answers: what it says of them as they are.

    Each is answered windows x DRAWS times more.
    """
    target = answers.argmax(axis=1) if classes else answers
    windows = min(WINDOWS, int(x.lengths.max()))
    window, best = _windows(x, windows), _scores(answers, target, classes)
    count = np.stack([np.add.reduceat(window == number, x.offsets[:-1]) for number in range(windows)], axis=1)
    drop = np.zeros(count.shape)
    for number in range(windows):
        for draw in range(DRAWS):
            other = exchanged(x, window == number, _partners(len(x), seed, number + draw * windows))
            drop[:, number] += (best - _scores(answer(other), target, classes)) / DRAWS
    last = count.cumsum(axis=1)
    return Explained(np.where(count > 0, drop, np.nan), last - count + 1, last)


def exchanged(x: Examples, where: np.ndarray, partner: np.ndarray) -> Examples:
    """Each sequence with the values of its partner at `where` (S,) bool, from the same place between start and end.

    partner: (n,) rows. What is missing there is missing here. The order along the sequence is kept.
    """
    lengths = x.lengths
    row = np.repeat(np.arange(len(x)), lengths)
    at = np.arange(len(x.values)) - x.offsets[:-1][row]
    lender = partner[row]
    source = x.offsets[:-1][lender] + (2 * at + 1) * lengths[lender] // (2 * lengths[row])
    source = np.where(where, source, np.arange(len(x.values)))
    return replace(x, values=x.values[source], observed=None if x.observed is None else x.observed[source])


def _windows(x: Examples, windows: int) -> np.ndarray:
    """(S,) number of the window that the middle of each position falls in."""
    lengths = np.repeat(x.lengths, x.lengths)
    at = np.arange(len(x.values)) - np.repeat(x.offsets[:-1], x.lengths)
    return np.asarray((2 * at + 1) * windows // (2 * lengths))


def _partners(size: int, seed: int, window: int) -> np.ndarray:
    """(n,) another row for each row, every row once: the next in a random order."""
    order = permutation(seed, f"looking/{window}", size)
    out = np.empty(size, dtype=np.int64)
    out[order] = np.roll(order, -1)
    return out


def _scores(answers: np.ndarray, target: np.ndarray, classes: bool) -> np.ndarray:
    """(n,) more is better: the probability of the true class, or the absolute error below 0."""
    if classes:
        return np.asarray(answers[np.arange(len(target)), target.astype(np.int64)])
    return np.asarray(-np.abs(answers - target))
