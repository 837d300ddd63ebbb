"""Which rows train, choose and test: classes in proportion, copies and groups on one side; copies across splits.

`dealt` splits a person's own file, whose rows may belong together in blocks. `hold_out` takes an exact number of rows
out of an official train set, as the papers do; splits that it has drawn are part of the identity of stored stages, so
that it is not expressed by `dealt`, which would draw others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from headstart.data.copies import each_mark, groups, marks
from headstart.errors import BadInput
from headstart.seeds import bits, permutation
from headstart.sequence import IGNORE, Examples
from headstart.text import counted, first_few, many
from headstart.ways import option

T = TypeVar("T")

SHARED_VALUES = 0.05
"""Share of the values that neighbouring rows have in common from which on it is said."""
ACROSS = "also stand in"
"""Words of a note on sequences of one split that are in an earlier one, too."""
TELLS = "scores may show how sequences were recorded"
"""Words of a note on what tells the label though it was not measured."""
SHUFFLED = (
    "The labels of train and val are dealt out anew among their examples: a control, in which no arm can do better on "
    "test than a guess"
)
"""The note of a task with `shuffled_labels`."""


def occurs_once(group: np.ndarray) -> np.ndarray:
    """(n,) bool: nothing else has this content."""
    _, number, count = np.unique(group, return_inverse=True, return_counts=True)
    once: np.ndarray = count[number] == 1
    return once


def hold_out(target: np.ndarray, may: np.ndarray, count: int, seed: int, field: str) -> np.ndarray:
    """`count` units, each class in proportion to `target` (n,), in ascending order, by the split's seed.

    Only units that `may` (n,) be held out are: those whose content occurs once, so that no copy of them
    stays behind. Raises: BadInput naming the field where a class has too few, or none would stay.
    """
    noise, classes = bits(seed, "task/val", np.arange(len(target))), np.unique(target)
    exact = np.array([count * float((target == c).sum()) / len(target) for c in classes])
    share = np.floor(exact).astype(np.int64)
    share[np.argsort(share - exact, kind="stable")[: count - int(share.sum())]] += 1
    chosen = []
    for value, some in zip(classes, share, strict=True):
        members = np.flatnonzero((target == value) & may)
        if some > len(members) or some >= (target == value).sum():
            raise BadInput(
                f"{field}: holding out {count} takes {some} of class {value}, which has "
                f"{len(members)} without a copy in train; take fewer"
            )
        chosen.append(members[np.argsort(noise[members], kind="stable")[:some]])
    return np.sort(np.concatenate(chosen))


def shuffled(items: Sequence[T], what: str, seed: int) -> list[T]:
    """Items that a split takes whole, in an order that its seed draws; what: their name, a part of the draw."""
    return [items[i] for i in permutation(seed, f"task/{what}", len(items))]


def stratified_order(target: np.ndarray | None, units: int, seed: int) -> np.ndarray:
    """One order of units whose every prefix holds each class in proportion: nested subsets are prefixes.

    A unit's place is (its rank within its class + a half) / (size of the class); ties go to random bits.
    """
    noise = bits(seed, "task/order", np.arange(units))
    if target is None or target.dtype.kind == "f":
        return np.argsort(noise, kind="stable").astype(np.int64)
    rank = np.empty(units)
    for value in np.unique(target):
        members = np.flatnonzero(target == value)
        ranks = np.argsort(np.argsort(noise[members], kind="stable"), kind="stable")
        rank[members] = (ranks + 0.5) / len(members)
    return np.lexsort((noise, rank)).astype(np.int64)


def with_shuffled_labels(split: Examples, seed: int, name: str) -> Examples:
    """The split with its labels dealt out anew among the units (positions, where these have one) that have a label.

    What had one class gets each class in proportion, so that new labels tell nothing of the old ones: of 1,000 in two
    classes a plain shuffle leaves 52 % or more as they were one time in nine, from which a model learns.
    """
    if split.target is None:
        raise BadInput("task.shuffled_labels: the task has no target; leave it out")
    labels = split.target.copy()
    units = labels.reshape(-1, 2 if split.paired else 1, *labels.shape[1:])
    lacks = np.isnan(units) if units.dtype.kind == "f" else units == IGNORE
    have = np.flatnonzero(~lacks.all(tuple(range(1, units.ndim))))
    target = units[have, 0] if units.ndim == 2 and units.dtype.kind != "f" else None
    noise = bits(seed, f"task/labels/{name}", np.arange(len(have)))
    places = np.argsort(noise, kind="stable") if target is None else np.lexsort((noise, target))
    units[have[places]] = units[have[stratified_order(target, len(have), seed)]]
    return replace(split, target=labels)


def stratified_split(
    target: np.ndarray | None, sizes: Mapping[str, int], seed: int, units: int
) -> dict[str, np.ndarray]:
    """Disjoint stratified sets of the given sizes, each in ascending order of the unit's number."""
    order, out, first = stratified_order(target, units, seed), {}, 0
    for name, size in sizes.items():
        out[name] = np.sort(order[first : first + size])
        first += size
    if first > units:
        raise BadInput(f"task: splits of {dict(sizes)} need {first} units, there are {units}")
    return out


def drawn(
    target: np.ndarray, group: np.ndarray, free: np.ndarray, shares: Mapping[str, float], seed: int
) -> dict[str, np.ndarray]:
    """Rows of each split of `shares` out of the rows `free`, and of `train`, the rest; each class in proportion.

    `target` and `group` (n,) are of all rows; of rows with equal content all that are free stay in train. A share is of
    what the splits before it left. Raises: BadInput naming `task.<split>_share` where a class has too few rows.
    """
    once, out = occurs_once(group), {}
    for split, share in shares.items():
        count = max(1, round(share * len(free)))
        out[split] = free[hold_out(target[free], once[free], count, seed, f"task.{split}_share")]
        free = np.setdiff1d(free, out[split])
    return {"train": free, **out}


def joined(*kinds: np.ndarray) -> np.ndarray:
    """(n,) the first row that each row belongs with, where rows of one number in any of `kinds` (n,) do."""
    if len(kinds) == 1:
        _, begins, number = np.unique(kinds[0], return_index=True, return_inverse=True)
        return np.asarray(begins[number], dtype=np.int64)
    first = list(range(len(kinds[0])))

    def root(row: int) -> int:
        while first[row] != row:
            first[row] = first[first[row]]
            row = first[row]
        return row

    for kind in kinds:
        row_of: dict[int, int] = {}
        for row, number in enumerate(kind.tolist()):
            row_root, other = root(row_of.setdefault(number, row)), root(row)
            first[max(row_root, other)] = min(row_root, other)
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
    names, (blocks, block_of) = ["train", *shares], np.unique(block, return_inverse=True)
    labelled, classes = target != IGNORE, int(target.max(initial=0)) + 1
    counts = np.zeros((len(blocks), classes), dtype=np.int64)
    np.add.at(counts, (block_of[labelled], target[labelled]), 1)
    total, sizes = counts.sum(0), counts.sum(1)
    parts = np.array([1 - sum(shares.values()), *shares.values()])
    left = parts[:, None] * total  # rows of each class that each side still lacks
    side, waiting = np.zeros(len(blocks), dtype=np.int64), []
    learnt = np.zeros(classes, dtype=bool)

    def give(unit: int, to: int) -> None:
        side[unit] = to
        left[to] -= counts[unit]
        learnt[counts[unit] > 0] |= to == 0

    order = np.lexsort((bits(seed, "task/sides", np.arange(len(blocks))), -sizes))
    for unit in order[sizes[order] > 1].tolist():
        there = np.flatnonzero(counts[unit])
        # Rounded, so that what is a tie on paper is a tie here: then the side that lacks most in all has it.
        lacks = (left[:, there] * (counts[unit, there] / total[there])).sum(1).round(9)
        give(unit, int(np.lexsort((-left.sum(1).round(9), -lacks))[0]))
    # The same of single rows, of which there may be a million, in numbers of Python.
    single, of_class, weight = order[sizes[order] == 1], counts.argmax(1), (1 / np.maximum(total, 1)).tolist()
    lack = left.T.tolist()
    for unit, of in zip(single.tolist(), of_class[single].tolist(), strict=True):
        own = lack[of]
        if round(max(own) * 1e9) < 1e9:
            waiting.append((unit, of))
            continue
        parts_of = [round(rows * weight[of] * 1e9) for rows in own]
        to = parts_of.index(most := max(parts_of))
        if parts_of.count(most) > 1:
            all_of = np.where(np.array(parts_of) == most, left.sum(1).round(9), -np.inf)
            to = int(all_of.argmax())
        side[unit], learnt[of] = to, learnt[of] or to == 0
        own[to] -= 1
        left[to, of] = own[to]
    for unit, of in waiting:
        give(unit, int(np.argmax(left.sum(1).round(9))) if learnt[of] else 0)
    return {name: np.flatnonzero((side[block_of] == i) & (labelled | (i == 0))) for i, name in enumerate(names)}


def dealt_in_time(
    target: np.ndarray, block: np.ndarray, times: np.ndarray, shares: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """As `dealt`, in the order of `times` (n,): train ends before the next side begins, and so on.

    Rows of one time are on one side. What belongs with a row of an earlier side is on no side, and neither is what has
    no label and is later than train.
    """
    order = np.sort(times[target != IGNORE])
    begin = np.round(len(order) * np.cumsum([1 - sum(shares.values()), *shares.values()][:-1])).astype(np.int64)
    side = np.searchsorted(order[np.minimum(begin, len(order) - 1)], times, side="right")
    blocks, block_of = np.unique(block, return_inverse=True)
    first = np.full(len(blocks), len(shares))
    np.minimum.at(first, block_of, side)
    there = (side == first[block_of]) & ((target != IGNORE) | (side == 0))
    return {name: np.flatnonzero(there & (side == i)) for i, name in enumerate(["train", *shares])}


def fold_of(target: np.ndarray, block: np.ndarray, folds: int, fold: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that train and rows that choose, in ascending order: fold number `fold` of `folds`, each dealt out once.

    As many folds as there are rows or blocks with a label leave one of them out each.
    target, block: (n,) as in `dealt`. A fold number from `folds` on counts another repetition, which deals anew. Rows
    without a label train, unless they belong with a row that chooses; so do the rows of a class that no other fold has.
    """
    repetition, which = divmod(fold, folds)
    drawn = int(bits(seed, "task/folds", np.array([repetition]))[0])
    labelled = np.flatnonzero(np.isin(block, block[target != IGNORE]))
    shares = {str(i): 1 / folds for i in range(1, folds)}
    sides = list(dealt(target[labelled], block[labelled], shares, drawn).values())
    units = np.unique(block[labelled])
    if folds == len(units) and not all(map(len, sides)):  # in proportion to the classes some folds have two units
        sides = [np.flatnonzero(block[labelled] == units[i]) for i in permutation(drawn, "task/folds", folds)]
    chosen = labelled[sides[which]]
    chosen = chosen[target[chosen] != IGNORE]
    train = np.flatnonzero(~np.isin(block, block[chosen]))
    lost = np.setdiff1d(target[chosen], target[train])
    if len(lost):
        chosen = chosen[~np.isin(block[chosen], block[np.isin(target, lost)])]
        train = np.flatnonzero(~np.isin(block, block[chosen]))
    return train, chosen


def in_fold(
    splits: tuple[Examples, Examples],
    targets: Callable[[Examples], np.ndarray | None],
    blocks: np.ndarray | None,
    folds: int,
    fold: int,
    seed: int,
) -> tuple[Examples, Examples]:
    """Train and val dealt out anew, by `fold_of`.

    targets: of units. blocks: equal for units (those of train first) that stay together, as copies do in any case.
    Raises: BadInput for a fold without a labelled unit.
    """
    both = splits[0].followed_by(splits[1])
    target, labelled = targets(both), np.isin(np.arange(both.units), both.labelled_units())
    classed = target is not None and target.dtype.kind != "f"
    classes = np.where(labelled | (both.target is None), np.asarray(target) if classed else 0, IGNORE)
    copies = groups(marks(both))
    block = copies if blocks is None else joined(copies, blocks)
    train, val = fold_of(classes, block, folds, fold, seed)
    if not len(val):
        units = len(np.unique(block[classes != IGNORE]))
        way = "" if folds == units else f", or {units} to leave one out each"
        raise BadInput(
            f"task.folds: {folds:,} folds of {units:,} labelled sequences or groups, of which fold {fold} has none; "
            f"give fewer folds{way}"
        )
    return both.take(train), both.take(val)


def check_sides(
    rows: Mapping[str, np.ndarray],
    target: np.ndarray,
    labels: tuple[str, ...],
    settings: Mapping[str, float],
    blocks: int,
    different: int,
) -> None:
    """Raises: BadInput where a side has no labelled row, or a class none in train. `settings`: drawn sides' shares.
    blocks, different: labelled sequences that may be apart, and that are not copies of another."""
    labelled = int((target != IGNORE).sum())
    for side in ("train", *settings):
        if not (target[rows[side]] != IGNORE).any():
            shares = " and ".join(f"task.{name}_share: {share:g}" for name, share in settings.items())
            if blocks == 1:
                what, why, way = "sequences", "equal", ""
                if different > 1:
                    what, why, way = "groups", "of one group", ", or by_group=false"
                raise BadInput(
                    f"{what}: all {labelled:,} labelled sequences are {why}, which leaves none for {side}; give "
                    f"different {what}{way}"
                )
            if labels and np.bincount(target[target != IGNORE]).max(initial=0) == 1:
                raise BadInput(
                    f"labels: each of {labelled:,} classes has one labelled sequence, which leaves none for {side}; "
                    "give at least two of each class, or labels of fewer classes"
                )
            raise BadInput(
                f"{shares} of {labelled:,} labelled sequences, {blocks:,} of them apart from each other, leave none "
                f"for {side}; give more sequences, other shares, or by_group=false where a group holds too much"
            )
    lost = sorted({label for i, label in enumerate(labels) if not (target[rows["train"]] == i).any()})
    if lost:
        raise BadInput(
            f"task.split_seed: no train sequence is left of {'class' if len(lost) == 1 else 'classes'} "
            f"{first_few(list(map(repr, lost)))}, whose sequences belong with "
            "others; take another split_seed, smaller shares, or by_group=false"
        )


def copies_note(group: np.ndarray, rows: Mapping[str, np.ndarray], what: str) -> list[str]:
    """A note for each earlier split that official val or test sequences also stand in."""
    notes = []
    for later, earlier in (("val", ("train",)), ("test", ("train", "val"))):
        counts = {name: int(np.isin(group[rows[later]], group[rows[name]]).sum()) for name in earlier}
        counts_text = [f"{count} {ACROSS} {name}" for name, count in counts.items() if count]
        if counts_text:
            notes.append(f"of the {len(rows[later])} {later} {what}, {' and '.join(counts_text)}")
    return notes


def about_labels(own: np.ndarray, rows: Mapping[str, np.ndarray], lost: int, unscored: Mapping[str, int]) -> list[str]:
    """How many sequences lack a label; `lost` of them, and `unscored` ones of a val or test file, are on no side."""
    bare, train = int((own[rows["train"]] == IGNORE).sum()), len(rows["train"])
    copies = "each is a copy of one of val or test, or of a group that is there"
    notes = {
        f"{bare:,} of {train:,} train sequences have no label and serve pretraining alone": bare,
        f"{counted(lost, 'sequence without a label is', 'sequences without a label are')} left out: {copies}": lost,
    }
    for name, count in unscored.items():
        file = f"of the {name} file"
        text = counted(count, f"sequence {file} has no label and is", f"sequences {file} have no label and are")
        notes[f"{text} left out"] = count
    return [note for note, count in notes.items() if count]


def about_copies(
    labels: Sequence[str | None], copies: np.ndarray, rows: Mapping[str, np.ndarray], files: Sequence[str]
) -> list[str]:
    """How many sequences are copies, stand in two splits, or have copies with another label."""
    again = copies != np.arange(len(copies))
    notes = copies_note(copies, rows, "sequences") if files else []
    drawn = np.concatenate([rows[name] for name in rows if name not in files])
    own = int(again[drawn].sum()) if files else int(again.sum())
    if own:
        apart = "".join(f", the {name} file's apart" for name in files)
        notes.append(
            f"{counted(own, 'sequence is an exact copy of another', 'sequences are exact copies of others')}; copies "
            f"are kept in one split{apart}"
        )
    names: dict[int, set[str]] = {}
    for row, label in zip(copies.tolist(), labels, strict=bool(labels)) if again.any() else ():
        if label is not None:
            names.setdefault(row, set()).add(label)
    odd = sum(len(several) > 1 for several in names.values())
    return [*notes, f"{counted(odd, 'sequence has', 'sequences have')} copies with another label"] if odd else notes


def about_groups(
    groups: np.ndarray | None, rows: Mapping[str, np.ndarray], by_group: bool, files: Sequence[str]
) -> list[str]:
    """Whether subjects that are learned from are chosen or tested on too."""
    if groups is None:
        return []
    notes = []
    why = " and ".join(f"the {name} file's own rows" for name in files) or "by_group is false"
    for name, earlier in (("val", ("train",)), ("test", ("train", "val"))):
        own, rows_before = np.unique(groups[rows[name]]), np.concatenate([rows[split] for split in earlier])
        shared = len(np.intersect1d(own, groups[rows_before]))
        if (shared and name in files) or (name == "test" and (shared or not by_group)):
            notes.append(
                f"{shared:,} of the {len(own):,} groups of {name} {ACROSS} {' or '.join(earlier)} ({why}): the "
                "score says less of new groups"
            )
    return notes or [f"{many(len(np.unique(groups)), 'group')}, each in one split"]


def about_neighbours(share: float) -> list[str]:
    """What is said of rows without groups that have this share of their values in common with the row before."""
    if share < SHARED_VALUES:
        return []
    return [
        f"neighbouring rows have {100 * share:.0f} % of their values in common, as windows of one recording that "
        f"overlap: without a group that keeps them together values of test {ACROSS} train, and every score is "
        f"optimistic; name the recording with {option('group')}"
    ]


class Splits(Protocol):
    """Anything with the examples of `train`, `val` and `test`, a task for one."""

    def split(self, name: str) -> Examples:
        """The examples of one split."""


def overlaps(task: Splits, **facts: Any) -> dict[tuple[str, str], int]:
    """How many units of the later split stand in the earlier one, for each two splits; facts: fields that they lack."""
    train, val, test = (each_mark(replace(task.split(name), **facts)) for name in ("train", "val", "test"))
    later = {"val": list(val), "test": list(test)}
    held = {mark for own in later.values() for mark in own}
    shared = {mark for mark in train if mark in held}  # train, which may not fit into memory, is held nowhere
    out = {("train", name): sum(mark in shared for mark in own) for name, own in later.items()}
    first = set(later["val"])
    return {**out, ("val", "test"): sum(mark in first for mark in later["test"])}


def flatters(note: str) -> bool:
    """Whether a note says that scores are too good: sequences stand on both sides of a split, or the label shows in
    what was not measured."""
    return ACROSS in note or TELLS in note
