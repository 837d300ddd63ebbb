"""Which rows of a person's own file train, choose and test: classes in proportion, what belongs together kept so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headstart.errors import BadInput
from headstart.seeds import bits
from headstart.sequence import IGNORE


def joined(*kinds: np.ndarray) -> np.ndarray:
    """(n,) the first row that each row belongs with, where rows of one number in any of `kinds` (n,) do."""
    first = list(range(len(kinds[0])))

    def root(row: int) -> int:
        while first[row] != row:
            first[row] = first[first[row]]
            row = first[row]
        return row

    for kind in kinds:
        known: dict[int, int] = {}
        for row, number in enumerate(kind.tolist()):
            one, other = root(known.setdefault(number, row)), root(row)
            first[max(one, other)] = min(one, other)
    return np.array([root(row) for row in range(len(first))], dtype=np.int64)


def dealt(target: np.ndarray, block: np.ndarray, shares: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    """Rows of each side, in ascending order; what is left over goes to `train`, the first side.

    target: (n,) class of each row (one class where nothing is stratified), IGNORE without a label. block: (n,) equal
    where rows stay together. Each block goes to the side that lacks most of its classes, large blocks first, else by
    the split's seed. A single row of a class of which every side lacks less than a row waits, and goes to the side that
    lacks most in all; the first row of a class goes to train: so classes of two rows reach every side. A block without
    a label goes to train; rows without a label whose block goes elsewhere are on no side at all, so that train has
    nothing that belongs with a row of val or test.
    """
    names, (blocks, place) = ["train", *shares], np.unique(block, return_inverse=True)
    labelled, classes = target != IGNORE, int(target.max(initial=0)) + 1
    counts = np.zeros((len(blocks), classes), dtype=np.int64)
    np.add.at(counts, (place[labelled], target[labelled]), 1)
    total, sizes = counts.sum(0), counts.sum(1)
    parts = np.array([1 - sum(shares.values()), *shares.values()])
    left = parts[:, None] * total  # rows of each class that each side still lacks
    side, waiting = np.zeros(len(blocks), dtype=np.int64), []
    learnt = np.zeros(classes, dtype=bool)

    def give(one: int, to: int) -> None:
        side[one] = to
        left[to] -= counts[one]
        learnt[counts[one] > 0] |= to == 0

    for one in np.lexsort((bits(seed, "task/sides", np.arange(len(blocks))), -sizes)).tolist():
        there = np.flatnonzero(counts[one])
        if sizes[one] == 1 and left[:, there].max().round(9) < 1:
            waiting.append((one, int(there[0])))
        elif len(there):
            # Rounded, so that what is a tie on paper is a tie here: then the side that lacks most in all has it.
            lacks = (left[:, there] * (counts[one, there] / total[there])).sum(1).round(9)
            give(one, int(np.lexsort((-left.sum(1).round(9), -lacks))[0]))
    for one, of in waiting:
        give(one, int(np.argmax(left.sum(1).round(9))) if learnt[of] else 0)
    return {name: np.flatnonzero((side[place] == i) & (labelled | (i == 0))) for i, name in enumerate(names)}


def check_sides(
    rows: Mapping[str, np.ndarray],
    target: np.ndarray,
    labels: tuple[str, ...],
    settings: Mapping[str, float],
    blocks: int,
) -> None:
    """Raises: BadInput where a side has no labelled row, or a class none in train. `settings`: drawn sides' shares."""
    labelled = int((target != IGNORE).sum())
    for side in ("train", *settings):
        if not (target[rows[side]] != IGNORE).any():
            said = " and ".join(f"task.{name}_share: {share:g}" for name, share in settings.items())
            raise BadInput(
                f"{said} of {labelled:,} labelled sequences, {blocks:,} of them apart from each other, leave none for "
                f"{side}; give more sequences, other shares, or by_group=false where a group holds too much"
            )
    lost = sorted({label for i, label in enumerate(labels) if not (target[rows["train"]] == i).any()})
    if lost:
        raise BadInput(
            f"task.split_seed: no train sequence is left of {'class' if len(lost) == 1 else 'classes'} "
            f"{', '.join(map(repr, lost[:5]))}{' and others' if len(lost) > 5 else ''}, whose sequences belong with "
            "others; take another split_seed, smaller shares, or by_group=false"
        )
