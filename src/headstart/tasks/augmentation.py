"""Sequences of numbers as training sees them in one epoch: with noise, scaled, or with a window of time warped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from headstart.data.layout import SOUNDS, Kind
from headstart.errors import BadInput
from headstart.seeds import below, normal, uniform
from headstart.sequence import Examples
from headstart.tasks.task import Augment

Change = Literal["jitter", "scale", "warp"]
CHANGES: tuple[str, ...] = get_args(Change)
JITTER, SCALE = 0.03, 0.1
"""Standard deviations of the noise that is added to each standardised value, and of the factor of each channel around 1
(Um et al. 2017; the values of Iwana and Uchida 2021)."""
WINDOW, FACTORS = 0.1, np.array([0.5, 2.0])
"""Share of a sequence that is warped, and the factors of which one multiplies its length (Le Guennec et al. 2016)."""
AT_ONCE = 1 << 15
"""Positions that are changed at a time: what is computed on the way stays small."""


def check_changes(changes: Sequence[Change], kind: Kind, *, per_position: bool) -> None:
    """Raises: BadInput where sequences of this kind, or with a target at each position, cannot be changed so."""
    if changes and kind != "numbers":
        raise BadInput(
            f"task.augment: {list(changes)} is for sequences of numbers, and these are {SOUNDS[kind]}; leave it out"
        )
    if "warp" in changes and per_position:
        raise BadInput("task.augment: 'warp' moves positions, each of which has a target here; leave 'warp' out")


def augmenter(changes: Sequence[Change], seed: int, patch: int = 1) -> Augment:
    """`Task.augment` for sequences of numbers, `patch` positions of which are joined into one.

    A sequence is warped first, then scaled, then jittered; how depends on (seed, epoch, its index) alone. Missing
    values stay missing: noise leaves them as they are, and a gap moves and stretches with the positions around it.
    """

    def augment(examples: Examples, epoch: int) -> Examples:
        shape = examples.values.shape
        apart = replace(
            examples,
            values=examples.values.reshape(shape[0] * patch, -1),
            offsets=examples.offsets * patch,
            observed=None if examples.observed is None else examples.observed.reshape(shape[0] * patch, -1),
        )
        values = np.empty(apart.values.shape, np.float32)
        observed = None if apart.observed is None else np.empty(values.shape, bool)
        for first, last in _parts(apart.offsets):
            rows = slice(apart.offsets[first], apart.offsets[last])
            values[rows], part = _changed(apart.take(np.arange(first, last)), changes, seed, epoch, patch)
            if observed is not None:
                observed[rows] = part
        return replace(
            examples, values=values.reshape(shape), observed=None if observed is None else observed.reshape(shape)
        )

    return augment


def _parts(offsets: np.ndarray) -> list[tuple[int, int]]:
    """Rows from and up to which whole sequences have about `AT_ONCE` positions."""
    ends = np.searchsorted(offsets, np.arange(AT_ONCE, offsets[-1] + AT_ONCE, AT_ONCE))
    return list(pairwise(np.unique([0, *np.minimum(ends, len(offsets) - 1)]).tolist()))


def _changed(
    examples: Examples, changes: Sequence[Change], seed: int, epoch: int, patch: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """(S, F) values and what of them is observed."""
    values, observed, index = examples.values, examples.observed, examples.index
    lengths, channel = examples.lengths, np.arange(values.shape[1])
    starts = np.repeat(examples.offsets[:-1], lengths)
    position = np.arange(len(values)) - starts
    if "warp" in changes:
        begin = uniform(seed, "augment/window", epoch, index)
        factor = FACTORS[below(seed, "augment/factor", len(FACTORS), epoch, index)]
        last = lengths - 1 - _room(observed, examples.offsets, patch)
        last, begin, factor = (np.repeat(x, lengths) for x in (last, begin, factor))
        values, observed = _sampled(values, observed, _sources(position, last, begin, factor), starts, last)
    if "scale" in changes:
        factor = 1 + SCALE * normal(seed, "augment/scale", epoch, index[:, None], channel)
        values = values * np.repeat(factor.astype(np.float32), lengths, axis=0)
    if "jitter" in changes:
        number = np.repeat(index, lengths)[:, None]
        noise = JITTER * normal(seed, "augment/jitter", epoch, number, position[:, None], channel)
        values = values + (noise if observed is None else noise * observed).astype(np.float32)
    return values, observed


def _room(observed: np.ndarray | None, offsets: np.ndarray, patch: int) -> np.ndarray:
    """(n,) positions at the end of each sequence's last patch where nothing is observed: they are no part of it."""
    room = np.zeros(len(offsets) - 1, dtype=np.int64)
    if observed is not None:
        empty, behind = np.logical_not(observed.any(axis=1)), np.ones(len(room), dtype=bool)
        for back in range(1, patch):
            behind &= empty[offsets[1:] - back]
            room += behind
    return room


def _sources(position: np.ndarray, last: np.ndarray, begin: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """(S,) float64 position in the old sequence, between two as a rule, that each position of the warped one shows.

    position (S,): of each value in its sequence, from 0; last (S,): the last one of that sequence. The window begins at
    the share `begin` of where it may, its length is multiplied by `factor`, and the whole has the old length again.
    """
    width = WINDOW * last
    start, more = begin * (last - width), width * (factor - 1)
    moved = position * (1 + more / np.maximum(last, 1))
    inside = start + (moved - start) / factor
    source = np.where(moved < start, moved, np.where(moved < start + width + more, inside, moved - more))
    return np.where(position > last, position, np.minimum(source, last))


def _sampled(
    values: np.ndarray, observed: np.ndarray | None, source: np.ndarray, starts: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Values (S, F) between positions in a straight line; beside a gap that of the nearer one, which may be missing.

    source, starts, last (S,): the position in its sequence, where that begins in `values`, and its last position.
    """
    before = np.floor(source).astype(np.int64)
    share = (source - before).astype(np.float32)[:, None]
    low, high = starts + before, starts + np.minimum(before + 1, last)
    if observed is None:
        return values[low] + share * (values[high] - values[low]), None
    there = np.where(share >= 0.5, observed[high], observed[low])
    share = np.where(observed[low] & observed[high], share, share >= 0.5).astype(np.float32)
    return (values[low] + share * (values[high] - values[low])) * there, there
