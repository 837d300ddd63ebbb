"""What travels between tasks, objectives and models: signatures, ragged examples, batches.

Letters: B batch, L length, F features, V vocabulary, K classes, T targets, n examples, S positions of all
examples together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headstart.errors import BadInput
from headstart.seeds import bits, permutation

if TYPE_CHECKING:
    import torch

UNKNOWN = "<unk>"
IGNORE = -100
"""A class target that is not there: never trained on, never scored. A missing number target is NaN."""


@dataclass(frozen=True)
class Signature:
    """What a model must know of a task before it sees data.

    `width` is V for tokens (ids 0..V-1; padding and masks need no id) and F for floats. `length` and
    `shortest` are the longest and shortest example, in positions (patches where there are patches).
    `per_position` says that the target has one entry per position. `levels` is the number of grey levels or
    the like that a float input takes (0 = continuous): level = round(input * level_scale + level_shift).
    """

    input: Literal["tokens", "floats"]
    width: int
    length: int
    shortest: int
    target: Literal["class", "number", "none"]
    classes: int = 0
    targets: int = 1
    per_position: bool = False
    paired: bool = False
    missing: bool = False
    levels: int = 0
    level_scale: float = 1.0
    level_shift: float = 0.0

    def patched(self, patch: int) -> Signature:
        """Of the same data with `patch` positions joined into one."""
        length, shortest = (-(-size // patch) for size in (self.length, self.shortest))
        return replace(self, width=patch * self.width, length=length, shortest=shortest)

    def levels_of(self, values: torch.Tensor) -> torch.Tensor:
        """Level of each float input, in [0, levels): int64 of the shape of `values`."""
        level = (values.float() * self.level_scale + self.level_shift).round()
        return level.clamp(0, self.levels - 1).long()


@dataclass(frozen=True)
class Examples:
    """Sequences of any length, one after another.

    `values` (S,) integers or (S, F) float32; `offsets` (n + 1,) int64; `target` (n,), (n, T), or per position
    (S,), (S, T), or None; `observed` (S, F) bool or None where nothing is missing; `index` (n,) int64, the
    example's own number, which keys its masks and order. Where `paired`, rows 2i and 2i + 1 are one unit.
    Where `scale` is given, `values` (S, F) are numbers kept as small integers (the bytes of an image), and a
    model sees `value * scale + shift` as float32.
    """

    values: np.ndarray
    offsets: np.ndarray
    target: np.ndarray | None
    index: np.ndarray
    observed: np.ndarray | None = None
    per_position: bool = False
    paired: bool = False
    scale: float | None = None
    shift: float = 0.0

    @classmethod
    def from_arrays(cls, X: Any, y: Any = None, lengths: Any = None, per_position: bool | None = None) -> Examples:
        """Examples out of arrays in memory, numbered from 0.

        X: (n, L) integers, which are tokens from 0 up; (n, L) or (n, L, F) floats, NaN where a value is missing; or n
        such sequences of any length each. y: (n,) classes from 0 up (-100: no label) or floats (NaN: no label); (n, T)
        floats, T numbers of each sequence; for a target at each position (n, L), (n, L, T) floats, or n sequences of
        them; or None. lengths: (n,) how many positions of each sequence are used, the first ones (default: all).
        per_position: whether y has a target at each position (default: where it has as many for each sequence of X as
        that has positions; say False for T numbers of a sequence where T is also its length).
        Raises: BadInput where shapes, types or lengths do not fit each other.
        """
        # A data frame gives the names of its columns when it is iterated.
        rows = [np.asarray(row) for row in (X.to_numpy() if hasattr(X, "to_numpy") else X)]
        if not rows:
            raise BadInput("X: holds no sequence; give at least one")
        shapes = {(row.ndim, row.shape[1:], row.dtype.kind in "biu") for row in rows if len(np.atleast_1d(row))}
        if len(shapes) != 1 or rows[0].ndim not in (1, 2):
            raise BadInput("X: give (n, L) or (n, L, F) numbers, or n sequences of numbers, all of one type and width")
        used = np.array([len(row) for row in rows] if lengths is None else lengths)
        if used.shape != (len(rows),) or used.dtype.kind not in "iu" or any(map(_does_not_fit, used, rows)):
            raise BadInput(f"lengths: give {len(rows)} whole numbers, each from 1 to the length of its sequence in X")
        values, offsets = ragged([row[:count] for row, count in zip(rows, used, strict=True)])
        observed = None
        if values.dtype.kind not in "biuf":
            raise BadInput(f"X: has values of type {values.dtype}; give integers (tokens) or floats")
        if values.dtype.kind == "f" or values.ndim == 2:
            values = values.astype(np.float32).reshape(len(values), -1)
            observed = ~np.isnan(values) if np.isnan(values).any() else None
            values = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        if (values.dtype.kind in "bi" and values.min() < 0) or not np.isfinite(values).all():
            raise BadInput(
                "X: has a negative token or an infinite number; give tokens from 0 up, and NaN where missing"
            )
        target, each = (None, False) if y is None else _targets(y, rows, used, per_position)
        return cls(values, offsets, target, np.arange(len(rows), dtype=np.int64), observed, each)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def as_seen(self, values: np.ndarray) -> np.ndarray:
        """Stored values (..., F) or (...) as a model sees them: int64 ids, or float32."""
        if self.scale is not None:
            seen = values.astype(np.float32)
            seen *= np.float32(self.scale)
            seen += np.float32(self.shift)
            return seen
        return values.astype(np.int64 if values.dtype.kind in "iu" else np.float32, copy=False)

    def inputs(self, row: int) -> np.ndarray:
        """One example as a model sees it: (L,) int64 or (L, F) float32."""
        return self.as_seen(self.values[self.offsets[row] : self.offsets[row + 1]])

    @property
    def lengths(self) -> np.ndarray:
        """(n,) positions of each example."""
        return np.diff(self.offsets)

    @cached_property
    def length_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) the distinct lengths in ascending order, and how many examples have each."""
        return np.unique(self.lengths, return_counts=True)

    @property
    def units(self) -> int:
        """How many things are trained on: examples, or pairs of them."""
        return len(self) // 2 if self.paired else len(self)

    @property
    def unit_lengths(self) -> np.ndarray:
        """(units,) positions of each unit: of a pair, its longer half."""
        return self.lengths.reshape(-1, 2).max(1) if self.paired else self.lengths

    def rows(self, units: np.ndarray) -> np.ndarray:
        """Rows of these units."""
        return np.stack([2 * units, 2 * units + 1], 1).reshape(-1) if self.paired else units

    def take(self, units: np.ndarray) -> Examples:
        """These units, in this order, as a new set (copies)."""
        rows = self.rows(np.asarray(units))
        lengths = self.lengths[rows]
        pick = _picker(self.offsets[rows], lengths, rows)
        target = self.target
        if target is not None:
            target = pick(target) if self.per_position else target[rows]
        return replace(
            self,
            values=pick(self.values),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            target=target,
            index=self.index[rows],
            observed=None if self.observed is None else pick(self.observed),
        )

    def followed_by(self, other: Examples) -> Examples:
        """These units, then those of another set of the same kind (copies)."""

        def both(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
            return None if first is None or second is None else np.concatenate([first, second])

        missing = self.observed is not None or other.observed is not None
        seen = [np.ones(x.values.shape, bool) if x.observed is None else x.observed for x in (self, other)]
        return replace(
            self,
            values=np.concatenate([self.values, other.values]),
            offsets=np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]),
            target=both(self.target, other.target),
            index=np.concatenate([self.index, other.index]),
            observed=np.concatenate(seen) if missing else None,
        )

    def patched(self, patch: int, missing: bool) -> Examples:
        """Join `patch` neighbouring positions (S, F) into one of patch x F values; the room of a last short patch is 0.

        missing: that room counts as missing, with or without other gaps; else only where there are gaps.
        """
        counts = -(-self.lengths // patch)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

        def joined(flat: np.ndarray) -> np.ndarray:
            out = flat  # whole patches as they stand, on disk or in memory
            if (self.lengths % patch).any():
                out = np.zeros((int(offsets[-1]) * patch, flat.shape[1]), dtype=flat.dtype)
                out[np.repeat(offsets[:-1] * patch - self.offsets[:-1], self.lengths) + np.arange(len(flat))] = flat
            return out.reshape(int(offsets[-1]), patch * flat.shape[1])

        seen = np.ones(self.values.shape, dtype=bool) if self.observed is None and missing else self.observed
        return replace(
            self, values=joined(self.values), offsets=offsets, observed=None if seen is None else joined(seen)
        )

    def cut(self, most: int | None) -> Examples:
        """The same with at most the first `most` positions of each (None: all); without a target per position."""
        if most is None or not len(self) or int(self.lengths.max()) <= most:
            return self
        keep = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths) < most
        offsets = np.concatenate([[0], np.cumsum(np.minimum(self.lengths, most))]).astype(np.int64)
        seen = None if self.observed is None else self.observed[keep]
        return replace(self, values=self.values[keep], offsets=offsets, observed=seen)

    def labelled_units(self) -> np.ndarray:
        """Units that have at least one target."""
        return self._labelled

    @cached_property
    def _labelled(self) -> np.ndarray:
        if self.target is None:
            return np.zeros(0, dtype=np.int64)
        if self.target.size and not any(self.target.strides):  # one number in memory, of a task that is not at hand
            return np.arange(self.units if has_target(self.target[:1])[0] else 0, dtype=np.int64)
        there = has_target(self.target)
        if self.per_position:
            # maximum.reduceat cannot take empty examples; every example has at least one position.
            there = np.maximum.reduceat(there, self.offsets[:-1])
        if self.paired:
            there = there[::2]
        return np.flatnonzero(there).astype(np.int64)


def _does_not_fit(count: int, row: np.ndarray) -> bool:
    return not 1 <= count <= len(row)


def _targets(y: Any, rows: list[np.ndarray], used: np.ndarray, per_position: bool | None) -> tuple[np.ndarray, bool]:
    """Targets of sequences (n,) or (n, T), or of their positions (S,) or (S, T), as int64 classes or float32 numbers;
    and whether they are of positions."""
    parts = [np.asarray(part) for part in y]
    shapes = {part.shape for part in parts}
    positions = [part.shape[:1] for part in parts] == [row.shape[:1] for row in rows]
    alike = len({(part.ndim, part.shape[1:]) for part in parts}) == 1 and parts[0].ndim < 3
    each = per_position is not False and positions and alike
    whole = per_position is not True and len(shapes) == 1 and parts[0].ndim < 2
    if len(parts) != len(rows) or not (each or whole):
        raise BadInput(
            f"y: give {len(rows)} targets, one for each sequence of X (or T numbers for each), or one for each of its "
            "positions"
        )
    targets = [part[:count] for part, count in zip(parts, used, strict=True)] if each else parts
    target = np.concatenate(targets) if each else np.array(targets)
    if target.dtype.kind not in "biuf":
        raise BadInput(
            f"y: has values of type {target.dtype}; give class numbers from 0 up (np.unique(y, return_inverse=True) "
            "gives names and numbers), or floats"
        )
    if target.dtype.kind != "f" and target.ndim > 1:
        of = "position" if each else "sequence"
        raise BadInput(f"y: has {target.shape[1]} whole numbers for each {of}; give one class, or floats")
    if target.dtype.kind != "f" and ((target < 0) & (target != IGNORE)).any():
        raise BadInput(f"y: has a negative class; give classes from 0 up, and {IGNORE} where there is no label")
    return target.astype(np.float32 if target.dtype.kind == "f" else np.int64), each


def has_target(target: np.ndarray) -> np.ndarray:
    """(n,) bool: rows with at least one target that is there."""
    there = ~np.isnan(target) if target.dtype.kind == "f" else target != IGNORE
    rows: np.ndarray = there.any(axis=tuple(range(1, there.ndim))) if there.ndim > 1 else there
    return rows


def ragged(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(values, offsets) of sequences laid one after another."""
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sequences])]).astype(np.int64)
    return np.concatenate(sequences), offsets


def _positions(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Places of all positions of examples that begin at `starts`: no loop over examples."""
    begin = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return begin + np.arange(int(lengths.sum()))


def _picker(starts: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """What copies the positions of these rows, one example after another, out of a flat array.

    Rows of a table are picked as rows: their positions would take eight bytes for each byte of an image.
    """
    length = int(lengths[0]) if len(lengths) else 0
    if length and (lengths == length).all() and (starts == rows * length).all():

        def pick(flat: np.ndarray) -> np.ndarray:
            table = flat[: len(flat) // length * length].reshape(-1, length, *flat.shape[1:])
            return np.asarray(table[rows].reshape(-1, *flat.shape[1:]))

        return pick
    positions = _positions(starts, lengths)
    return lambda flat: np.asarray(flat[positions])


@dataclass(frozen=True)
class Batch:
    """One batch: what a model sees of some examples, padded to the longest of them.

    Shapes: inputs (B, L) int64 or (B, L, F) float; valid (B, L) bool; observed (B, L, F) bool or None;
    masked (B, L) bool or None; target (B,), (B, T), (B, L) or (B, L, T), or None; index (B,) int64. Where the
    task has pairs, rows 2i and 2i + 1 are one, and both carry its target.
    features (B, L, D), or pooled (B, 1, D): what the first `level` blocks of a `SequenceModel` make of the inputs,
    where it is known; the model then goes on from there.
    """

    inputs: torch.Tensor
    valid: torch.Tensor
    index: torch.Tensor
    target: torch.Tensor | None = None
    observed: torch.Tensor | None = None
    masked: torch.Tensor | None = None
    full: bool = False
    """True: every position is valid (known when the batch is made, so that no forward has to ask)."""
    features: torch.Tensor | None = None
    level: int = 0

    @classmethod
    def of(cls, inputs: Any, lengths: Any = None) -> Batch:
        """A batch of plain arrays or tensors: (B, L) token ids, or (B, L) or (B, L, F) floats, NaN where missing.

        lengths: (B,) how many positions of each row are there, the first ones (default: all).
        Raises: BadInput where shapes or lengths do not fit.
        """
        import torch

        x = torch.as_tensor(inputs)
        if x.ndim not in (2, 3) or not x.numel():
            raise BadInput(
                f"inputs: have the shape {tuple(x.shape)}; give (B, L) token ids, or (B, L) or (B, L, F) floats"
            )
        length = x.shape[1]
        used = torch.full((len(x),), length) if lengths is None else torch.as_tensor(lengths).cpu()
        if used.shape != (len(x),) or not bool(((used >= 1) & (used <= length)).all()):
            raise BadInput(f"lengths: {used.tolist()}; give {len(x)} whole numbers from 1 to {length}")
        valid = torch.arange(length) < used[:, None]
        observed = None
        if x.is_floating_point():
            x = x.unsqueeze(-1) if x.ndim == 2 else x
            observed = ~x.isnan() if bool(x.isnan().any()) else None
        x = x.nan_to_num(nan=0.0) if x.is_floating_point() else x.long()
        return cls(
            x, valid.to(x.device), torch.arange(len(x), device=x.device), observed=observed, full=bool(valid.all())
        )

    def __len__(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def tokens(self) -> int:
        """Valid positions of the batch (what a budget in tokens counts)."""
        return int(self.valid.sum())

    def tensors(self) -> dict[str, torch.Tensor]:
        """What of it is there, by name."""
        names = ("inputs", "valid", "index", "target", "observed", "masked", "features")
        return {name: x for name in names if (x := getattr(self, name)) is not None}

    def mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        """The same with each tensor changed."""
        changed: dict[str, Any] = {name: change(x) for name, x in self.tensors().items()}
        return replace(self, **changed)

    def parts(self, count: int, rows: int = 1) -> list[Batch]:
        """About equal pieces, `count` of them or fewer, in order; `rows` rows in turn (2 of a pair) stay together."""
        size = -(-len(self) // (rows * count)) * rows
        return [self.mapped(itemgetter(slice(i, i + size))) for i in range(0, len(self), size)]

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Batch:
        """The same batch on a device; floats in `dtype` where it is given."""

        def move(x: torch.Tensor) -> torch.Tensor:
            x = x.to(device, non_blocking=True)
            return x.to(dtype) if dtype is not None and x.is_floating_point() else x

        return self.mapped(move)


def collate(examples: Examples, units: np.ndarray, length: int | None = None) -> Batch:
    """These units as a batch, padded with zeros to `length` (default: the longest of them)."""
    import torch

    rows = examples.rows(np.asarray(units))
    starts = examples.offsets[rows]
    lengths = examples.offsets[rows + 1] - starts
    longest = int(lengths.max()) if length is None else length
    valid = np.arange(longest)[None, :] < lengths[:, None]
    full = bool((lengths == longest).all())
    pick = _picker(starts, lengths, rows)

    def spread(flat: np.ndarray, empty: float, convert: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        picked = convert(pick(flat))
        if full:
            return picked.reshape(len(rows), longest, *flat.shape[1:])
        out: np.ndarray = np.full((len(rows), longest, *flat.shape[1:]), empty, dtype=picked.dtype)
        out[valid] = picked
        return out

    target = examples.target
    if target is not None:
        there = np.float32 if target.dtype.kind == "f" else np.int64
        empty = np.nan if target.dtype.kind == "f" else IGNORE
        target = (
            spread(target, empty, lambda x: x.astype(there)) if examples.per_position else target[rows].astype(there)
        )
    observed = examples.observed
    return Batch(
        inputs=torch.from_numpy(spread(examples.values, 0, examples.as_seen)),
        valid=torch.from_numpy(valid),
        index=torch.from_numpy(examples.index[rows].astype(np.int64)),
        target=None if target is None else torch.from_numpy(target),
        observed=None if observed is None else torch.from_numpy(spread(observed, False, np.asarray)),
        full=full,
    )


def epoch_batches(lengths: np.ndarray, batch_size: int, seed: int, epoch: int, pool: int = 0) -> list[np.ndarray]:
    """The batches of one epoch, each an array of units: a function of (seed, epoch) alone.

    `pool` > 0 sorts by length within pools of that many batches and then shuffles the batches, so that
    sequences of like length meet and little is padded. The last batch may be smaller.
    """
    order = np.argsort(bits(seed, "order", epoch, np.arange(len(lengths))), kind="stable")
    if pool:
        size = pool * batch_size
        pools = [order[i : i + size] for i in range(0, len(order), size)]
        order = np.concatenate([p[np.argsort(lengths[p], kind="stable")] for p in pools])
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    if pool:
        batches = [batches[i] for i in permutation(seed, f"order/batches/{epoch}", len(batches))]
    return batches


def rows_of_symbols(symbols: Iterable[str], vocabulary: Sequence[str]) -> list[int | None]:
    """The row that a vocabulary has for each symbol, that of `<unk>` for one that it lacks; None without either."""
    rows = {symbol: row for row, symbol in enumerate(vocabulary)}
    return [rows.get(symbol, rows.get(UNKNOWN)) for symbol in symbols]


def one_hot(labels: np.ndarray) -> bool:
    """Whether labels (n, K) are a column for each class, with a one in a single one of them."""
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "biuf":
        return False
    return bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all())
