"""Random convolution kernels: what outputs above biases are like, as features of a sequence.

After MiniRocket: Dempster, Schmidt and Webb 2021. 84 fixed kernels of length 9 at dilations spread over the length;
each output is compared with biases that are quantiles of outputs of training examples; a feature is the share of
outputs above one bias. After MultiRocket (Tan, Dempster, Bergmeir and Webb 2022) there are three features more of each
bias, and the same of the steps from one position to the next. What is chosen by chance is a function of the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.baselines.convolve import (
    POOLED_BIASES,
    POOLS,
    REACH,
    WEIGHT_PLACES,
    Counter,
    KernelBlock,
    Pooler,
    convolutions,
)
from headstart.baselines.features import Features, FeatureTable, Tabled, Together, filled, moments, steps_of
from headstart.baselines.fitting import SECONDS_AT_LEAST, FittedFacts, Shapes
from headstart.baselines.hydra import Hydra, fit_hydra, hydra_size
from headstart.baselines.linear import PenalisedSpec
from headstart.baselines.ngrams import Ngrams, best_ngrams, ngrams_bytes, ngrams_seconds
from headstart.baselines.patches import PATCH_SECONDS, PATCHES, Patches, fit_patches
from headstart.baselines.quant import Quant, fit_quant, quant_size
from headstart.baselines.ridge import ridge_bytes, ridge_seconds
from headstart.errors import BadInput
from headstart.seeds import below, permutation, uniform
from headstart.sequence import Examples, Signature
from headstart.spec import neutral

KERNELS = len(WEIGHT_PLACES)
FEATURES = 9_996
"""119 of each kernel: the published size."""
MANY_UNITS = 8_000
"""Labelled units above which there are fewer kernel features: the ridge regression's time grows with their cube."""
FEW_FEATURES = 2_520
"""30 of each kernel."""
DILATIONS = 32
"""Dilations at most."""
SHORT_SHARE = 0.25
"""The longest kernel fits into all training sequences but this share of the shortest."""
KERNEL_CHANNELS = 9
"""Channels that one kernel sums, at most."""
BLOCK_POSITIONS, BLOCK_SHARES = 1 << 17, 1 << 17
"""Positions of a block of sequences, and shares that are handed on at once: these arrays stay in a core's cache."""
MOST_BLOCK_NUMBERS = 1 << 22
"""Numbers of a block of sequences of many channels."""
POSITION_SECONDS, HYDRA_TIMES = 5e-7, 4
"""Processor seconds of a position of a sequence of numbers (twice that with `FEW_FEATURES`), and how many features of
random kernels one of competing ones takes as long as (2-core AMD EPYC)."""
_GOLDEN = (5**0.5 + 1) / 2
# On five folds of train rows of ten choosing sets competing kernels beside random ones gained 0.004 [-0.006, 0.014],
# quantiles -0.013 and both -0.003 (docs/benchmarks/fit-features.md). They became the default by an earlier measurement:
# 0.029 on ArrowHead, 0.015 on OSULeaf and 0.010 on ECG200, nothing on Coffee, Trace and SyntheticControl. Patches
# beside both gained 0.015 [0.009, 0.021] on MNIST and 0.071 [0.052, 0.089] on CIFAR-10 (docs/benchmarks/fit-images.md).
ALSO, ALSO_OF_IMAGES = ("hydra",), ("hydra", "patches")
MANY_POSITIONS = 1 << 22
"""Positions of all sequences above which random kernels stand alone: competing ones take as long as the rest."""
KERNEL_SECONDS, FEW_SECONDS, ALSO_SECONDS, ALSO_CHANNELS = 2.7, 1.0, 4.7, 20.0
"""Processor seconds per million positions of random kernels, of `FEW_FEATURES` of them, and of competing ones of one
and of several channels (2-core AMD EPYC)."""
KERNEL_SHARE = 1 / 3
"""Of the time of a fit, for the features of kernels, and for a regression on all of them; else there are fewer."""
PATCH_SHARE, PATCH_MORE = 0.18, 0.75
"""Of the time of a fit, and seconds besides, for features of kernels and patches together: 15 % of what it may last."""
PATCH_BYTES = 2.5e9
"""Memory of a regression on patches and kernels, of all rows, above which kernels stand without them."""


@dataclass(frozen=True)
class KernelModel(Tabled):
    """What is fitted. Letters: F channels, D dilations, B biases.

    dilations, each (D,) int64; each (84 of them) has `each[i]` biases at dilation i. biases (B,) float32, by
    dilation, kernel and quantile. channels (D, 84, C) int64: what a kernel sums (-1: none), None where F = 1. mean,
    spread (F,) float64 of the channels, by which they are standardised. pools: features of a bias, 1 (the share above
    it) or 4 (`Pooler`, by dilation and pool). kind: `steps` where they see the steps from one position to the next,
    the first of which is 0.
    """

    dilations: np.ndarray
    each: np.ndarray
    biases: np.ndarray
    channels: np.ndarray | None
    mean: np.ndarray
    spread: np.ndarray
    kind: str = "kernels"
    pools: int = 1

    @property
    def size(self) -> int:
        return self.pools * len(self.biases)

    @property
    def sizes(self) -> dict[str, int]:
        """D, and C (0: no channels are drawn); pools where there are several."""
        own = {"dilations": len(self.dilations), "channels": 0 if self.channels is None else self.channels.shape[2]}
        return own | ({"pools": self.pools} if self.pools > 1 else {})

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        dilations, channels = (facts.sizes.get(name, 0) for name in ("dilations", "channels"))
        pools = facts.sizes.get("pools", 1)
        facts.check(channels == (min(facts.width, KERNEL_CHANNELS) if facts.width > 1 else 0), "channels")
        facts.check(pools in (1, POOLS) and facts.size % pools == 0, "pools")
        own: Shapes = {
            "dilations": ("int64", (dilations,)),
            "each": ("int64", (dilations,)),
            "biases": ("float32", (facts.size // pools,)),
            "mean": ("float64", (facts.width,)),
            "spread": ("float64", (facts.width,)),
        }
        return {**own, "channels": ("int64", (dilations, KERNELS, channels))} if channels else own

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> KernelModel:
        each, channels, pools = arrays["each"], arrays.get("channels"), facts.sizes.get("pools", 1)
        facts.check(bool((arrays["spread"] > 0).all()), "spread")
        facts.check(bool(((arrays["dilations"] >= 1) & (arrays["dilations"] < 1 << 31)).all()), "dilations")
        facts.check(bool((each >= 0).all()) and pools * KERNELS * int(each.sum()) == facts.size, "each")
        if channels is not None:
            right = (channels >= -1) & (channels < facts.width)
            facts.check(bool(right.all() and (channels[:, :, 0] >= 0).all()), "channels")
        own = (arrays["dilations"], each, arrays["biases"], channels, arrays["mean"], arrays["spread"])
        return cls(*own, kind=facts.features, pools=pools)

    @property
    def held(self) -> int:
        """Those of one kernel."""
        return int(self.each.max(initial=1))

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        """A sequence's row does not depend on the sequences beside it."""
        if self.pools > 1:
            yield from self._pooled(examples)
            return
        for rows, block in _blocks(self.values(examples), examples.offsets):
            count, first = Counter(block.values.shape[1] * len(rows)), 0
            for at, (dilation, each) in enumerate(zip(self.dilations.tolist(), self.each.tolist(), strict=True)):
                split = int(np.searchsorted(block.lengths, REACH * dilation, side="right"))
                for columns in (slice(0, split), slice(split, len(rows))):
                    if columns.start < columns.stop:
                        for begin, shares in _shares(self, block.columns(columns), at, count):
                            yield rows[columns], first + begin, shares.T
                first += KERNELS * each

    def values(self, examples: Examples) -> np.ndarray:
        """(S, F) float32: what the kernels see of all positions."""
        values = filled(examples, self.mean, self.spread)
        return values if self.kind == "kernels" else steps_of(values, examples.offsets)

    def _pooled(self, examples: Examples) -> Iterator[FeatureTable]:
        """All features of a dilation at a time, of few sequences."""
        for rows, block in _blocks(self.values(examples), examples.offsets):
            for at, (dilation, each) in enumerate(zip(self.dilations.tolist(), self.each.tolist(), strict=True)):
                first = POOLS * KERNELS * int(self.each[:at].sum())
                split = int(np.searchsorted(block.lengths, REACH * dilation, side="right"))
                most = max(1, 2 * POOLED_BIASES // (KERNELS * max(each, 1)))
                ends = sorted({split, len(rows), *range(most, len(rows), most)})
                for begin, end in zip([0, *ends], ends, strict=False):
                    if begin < end:
                        yield rows[begin:end], first, _pools(self, block.columns(slice(begin, end)), at).T


class KernelsAndMore(Together):
    """Random kernels, and beside them those of steps, competing kernels or quantiles."""

    names: ClassVar[Mapping[str, str]] = {
        "steps": "the same of steps",
        "hydra": "competing kernels",
        "quant": "quantiles of intervals",
        "patches": "random patches of images",
    }
    kinds: ClassVar[Mapping[str, type[Features]]] = {
        "kernels": KernelModel,
        "steps": KernelModel,
        "hydra": Hydra,
        "quant": Quant,
        "patches": Patches,
    }

    @classmethod
    def shapes(cls, facts: FittedFacts) -> Shapes:
        here = [kind for kind in cls.kinds if f"{kind}.size" in facts.sizes]
        parts = {kind: cls.facts_of(facts, kind) for kind in here}
        facts.check(facts.size == sum(part.size for part in parts.values()), "size")
        own = {kind: cls.kinds[kind].shapes(part) for kind, part in parts.items()}
        return {f"{kind}.{name}": shape for kind, shapes in own.items() for name, shape in shapes.items()}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> KernelsAndMore:
        parts = []
        for kind, features in cls.kinds.items():
            own = {name.partition(".")[2]: x for name, x in arrays.items() if name.partition(".")[0] == kind}
            if own:
                parts.append(features.from_arrays(cls.facts_of(facts, kind), own))
        return cls(tuple(parts))


class KernelsSpec(PenalisedSpec):
    """Ridge on random convolution kernels; of tokens, logistic regression on n-grams (see `ngrams`).

    Source: Dempster et al. 2021, 2023 (`hydra`), 2024 (`quant`).
    """

    version: ClassVar[int] = 2
    kind: Literal["kernels"] = "kernels"
    features: int | None = Field(default=None, ge=KERNELS)
    """Wanted of each sequence; left out: the published 9,996, or 2,520 above 8,000 labels. Halves of pairs have a
    quarter of them."""
    pools: Literal[1, 4] = neutral(1)
    """Features of each comparison of a kernel's outputs with a bias: the share of outputs above it, or also how far
    they are above it, where, and their longest stretch. `features` counts them all."""
    also: tuple[Literal["steps", "hydra", "quant", "patches"], ...] = neutral((), strict=False)
    """Further features in the same regression, of numbers: `steps`, as many kernels on the steps from one position to
    the next, `hydra`, competing kernels, `quant`, quantiles of intervals, and `patches`, random patches of square
    images, row by row. Tokens are not numbers. Kernels over
    one-hot channels were tried for small vocabularies, at ten times the cost: on validation rows n-grams were better on
    three sets of promoters and on splice junctions (0.95 to 0.78, by places), kernels on proteins (0.58 to 0.54)."""
    rough: bool = neutral(False)
    """Of tokens: n-grams are tried apart by rough place, too, as those of `ngrams`."""
    seeded: ClassVar[bool] = True
    reads: ClassVar[Mapping[str, type[Features]]] = {
        "kernels": KernelModel,
        "ngrams": Ngrams,
        "together": KernelsAndMore,
    }
    squared: ClassVar[bool] = True

    def choices(self, facts: FittedFacts) -> dict[str, Any]:
        """And how many features were wanted of so many labels."""
        return super().choices(facts) | ({"features": self._wanted(facts.labels)} if facts.input == "floats" else {})

    def _wanted(self, labels: int) -> int:
        return self.features or (FEATURES if labels <= MANY_UNITS else FEW_FEATURES)

    def memory(self, labels: int, signature: Signature, lengths: np.ndarray) -> float:
        """That of the ridge regression; of tokens that of n-grams."""
        if signature.input == "tokens":
            return ngrams_bytes(labels, signature, lengths, self.rough)
        return ridge_bytes(labels, self._columns(labels, signature, lengths))

    def seconds(self, labels: int, scored: int, signature: Signature, lengths: np.ndarray) -> float:
        """Features of all, and the ridge regression."""
        if signature.input == "tokens":
            return SECONDS_AT_LEAST + ngrams_seconds(labels, scored, signature, lengths, self.rough)
        columns = self._columns(labels, signature, lengths)
        slow = (HYDRA_TIMES - 1) * hydra_size(lengths) if "hydra" in self.also else 0
        each = POSITION_SECONDS * (1 + (columns + slow) / FEW_FEATURES) * (1 if signature.width == 1 else 2)
        return SECONDS_AT_LEAST + each * float(lengths.mean()) * (labels + scored) + ridge_seconds(labels, columns)

    def _columns(self, labels: int, signature: Signature, lengths: np.ndarray) -> int:
        """Features of a sequence."""
        wanted = self._wanted(labels)
        sizes = {"steps": wanted, "hydra": hydra_size(lengths), "quant": quant_size(lengths, signature.width)}
        sizes["patches"] = PATCHES
        return wanted + sum(sizes[kind] for kind in set(self.also))

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        """The seed draws biases and channels."""
        if signature.input == "tokens":
            yield from best_ngrams(train, signature, self.sizes, self.rough)
            return
        wanted = self._wanted(facts.labels)
        wanted = max(KERNELS * self.pools, wanted // 4) if signature.paired else wanted
        single = replace(train, paired=False)
        kernels = fit_kernels(single, seed, wanted, self.pools)
        if not self.also:
            yield kernels
            return
        more: dict[str, Callable[[], Features]] = {
            "steps": lambda: fit_kernels(single, seed, wanted, self.pools, "steps"),
            "hydra": lambda: fit_hydra(single, seed),
            "quant": lambda: fit_quant(single),
            "patches": lambda: fit_patches(single, seed),
        }
        yield KernelsAndMore((kernels, *(more[kind]() for kind in dict.fromkeys(self.also))))

    def describe(self) -> str:
        more = "".join(f", {KernelsAndMore.names[kind]}" for kind in self.also)
        return f"a ridge regression on random convolution kernels{more} (n-grams of tokens)"


def fields_within(
    lengths: np.ndarray, channels: int, seconds: float | None, labelled: int, *, images: bool
) -> dict[str, Any]:
    """Fields of a `KernelsSpec` for sequences of these lengths (n,), within a fit of so many seconds (None: any).

    Where the features, or the regression on them of so many labelled rows, would take much of the time, there are
    fewer.
    """
    millions, left = float(lengths.sum()) / 1e6, KERNEL_SHARE * (math.inf if seconds is None else seconds)
    fewer = math.inf if seconds is None else PATCH_SHARE * seconds + PATCH_MORE
    competing = KERNEL_SECONDS + (ALSO_SECONDS if channels == 1 else ALSO_CHANNELS)

    def within(each: float, columns: int, *, patches: bool = False) -> bool:
        rows = len(lengths) if patches else labelled  # what serves is fitted again on more than train
        if patches:
            each, columns = each + PATCH_SECONDS, columns + PATCHES
            if ridge_bytes(rows, columns) > PATCH_BYTES or millions * each > fewer:
                return False
        return max(millions * each, ridge_seconds(rows, columns)) <= left

    both = FEATURES + hydra_size(lengths)
    if lengths.sum() <= MANY_POSITIONS and within(competing, both, patches=images):
        return {"also": list(ALSO_OF_IMAGES if images else ALSO)}
    if images and within(KERNEL_SECONDS, FEATURES, patches=True):
        return {"also": ["patches"]}
    if images and within(FEW_SECONDS, FEW_FEATURES, patches=True):
        return {"features": FEW_FEATURES, "also": ["patches"]}
    if images and lengths.sum() <= MANY_POSITIONS and within(competing, both):
        return {"also": list(ALSO)}
    return {} if within(KERNEL_SECONDS, FEATURES) else {"features": FEW_FEATURES}


def fit_kernels(
    examples: Examples,
    seed: int,
    features: int = FEATURES,
    pools: int = 1,
    kind: Literal["kernels", "steps"] = "kernels",
) -> KernelModel:
    """Dilations from the lengths, biases from outputs of examples drawn by the seed; labels are not looked at.

    features: how many are wanted; there are as many as a whole number of biases per kernel gives.
    Raises: BadInput for fewer features than kernels have.
    """
    least = KERNELS * pools
    if features < least:
        more = "" if pools == 1 else f" with {pools} features each"
        raise BadInput(
            f"classic.kernels.features: {features} is fewer than the {KERNELS} kernels{more}; give {least} or more"
        )
    mean, spread = moments(examples)
    # A dilation is of use where most sequences hold its kernel whole; what is shorter is padded.
    length = int(np.sort(examples.lengths)[int(SHORT_SHARE * len(examples))])
    dilations, each = spread_dilations(length, features // least)
    channels = draw_channels(len(dilations), len(mean), seed) if len(mean) > 1 else None
    bare = KernelModel(dilations, each, np.zeros(0, dtype=np.float32), channels, mean, spread, kind, pools)
    return replace(bare, biases=_draw_biases(bare, examples, seed))


def spread_dilations(length: int, per_kernel: int) -> tuple[np.ndarray, np.ndarray]:
    """(dilations (D,), biases at each (D,)): powers of two spread evenly, whole numbers of them, most at the small.

    The largest kernel spans at most `length` (of 9 or more). The biases of a kernel sum to `per_kernel`.
    """
    places = min(per_kernel, DILATIONS)
    highest = np.log2(max(length - 1, REACH) / REACH)
    dilations, counts = np.unique(np.logspace(0, highest, places, base=2.0).astype(np.int64), return_counts=True)
    each = counts * per_kernel // places
    each[np.arange(per_kernel - each.sum()) % len(each)] += 1
    return dilations, each


def draw_channels(dilations: int, channels: int, seed: int) -> np.ndarray:
    """(D, 84, C) the channels of each kernel, -1 where there are no more: few more often than many."""
    most = min(channels, KERNEL_CHANNELS)
    out = np.full((dilations, KERNELS, most), -1, dtype=np.int64)
    for at in range(dilations):
        for kernel in range(KERNELS):
            power = float(uniform(seed, "classic/channels/count", at, kernel)) * np.log2(most + 1)
            count = int(2.0**power)
            out[at, kernel, :count] = permutation(seed, f"classic/channels/{at}/{kernel}", channels)[:count]
    return out


def padded_kernels(at: int) -> np.ndarray:
    """(84,) bool: kernels that see zeros beyond the ends: every second one, and the others at the next dilation."""
    return np.asarray((np.arange(KERNELS) + at) % 2 == 0)


def _draw_biases(kernels: KernelModel, examples: Examples, seed: int) -> np.ndarray:
    """(P,) quantiles, at multiples of the golden ratio, of each kernel's outputs on an example of its own."""
    drawn = below(seed, "classic/bias", len(examples), np.arange(len(kernels.dilations))[:, None], np.arange(KERNELS))
    few = examples.take(np.unique(drawn))
    values, example = kernels.values(few), np.searchsorted(np.unique(drawn), drawn)
    quantiles = np.arange(1, KERNELS * int(kernels.each.sum()) + 1) * _GOLDEN % 1
    out, first = [], 0
    for at, each in enumerate(kernels.each.tolist()):
        asked = quantiles[first : first + KERNELS * each].reshape(KERNELS, each)
        chosen = np.empty((KERNELS, each))
        for row in np.unique(example[at]):
            sequence = values[few.offsets[row] : few.offsets[row + 1]]
            which = np.flatnonzero(example[at] == row).tolist()
            block = KernelBlock(sequence.T[:, :, None], np.array([len(sequence)]))
            for kernel, outputs in zip(which, _outputs(kernels, block, at, which), strict=True):
                chosen[kernel] = np.quantile(outputs, asked[kernel])
        out.append(chosen.reshape(-1))
        first += KERNELS * each
    return np.concatenate(out).astype(np.float32)


def _outputs(kernels: KernelModel, block: KernelBlock, at: int, which: Sequence[int]) -> Iterator[np.ndarray]:
    """Outputs at one dilation. A block whose sequences are shorter than the kernel is padded for all kernels."""
    dilation = int(kernels.dilations[at])
    padded = padded_kernels(at) if _held(block, dilation) else np.ones(KERNELS, dtype=bool)
    return convolutions(block, dilation, which, padded, None if kernels.channels is None else kernels.channels[at])


def _held(block: KernelBlock, dilation: int) -> bool:
    return bool(block.lengths.min() > REACH * dilation)


def _shares(kernels: KernelModel, block: KernelBlock, at: int, count: Counter) -> Iterator[tuple[int, np.ndarray]]:
    """(first feature, (features, n) float32) of some kernels at a time, of one dilation; one array for all."""
    dilation, each, n = int(kernels.dilations[at]), int(kernels.each[at]), len(block.lengths)
    first = KERNELS * int(kernels.each[:at].sum())
    biases = kernels.biases[first : first + KERNELS * each].reshape(KERNELS, each)
    padded = padded_kernels(at) | (not _held(block, dilation))
    lengths = np.where(padded[:, None], block.lengths, block.lengths - REACH * dilation).astype(np.float32)
    some = min(max(1, BLOCK_SHARES // max(1, each * n)), KERNELS)
    out = np.empty((some, each, n), dtype=np.float32)
    for kernel, outputs in enumerate(_outputs(kernels, block, at, range(KERNELS))):
        last = kernel % some + 1
        count(outputs, biases[kernel], out[last - 1])
        if last == some or kernel == KERNELS - 1:
            begin = kernel + 1 - last
            shares = np.divide(out[:last], lengths[begin : kernel + 1, None], out=out[:last])
            yield begin * each, shares.reshape(last * each, n)


def _pools(kernels: KernelModel, block: KernelBlock, at: int) -> np.ndarray:
    """(features, n) float32 of one dilation, by pool, kernel and bias."""
    dilation, each, n = int(kernels.dilations[at]), int(kernels.each[at]), len(block.lengths)
    first = KERNELS * int(kernels.each[:at].sum())
    biases = kernels.biases[first : first + KERNELS * each].reshape(KERNELS, each)
    padded = padded_kernels(at) | (not _held(block, dilation))
    out = np.empty((POOLS, KERNELS, each, n), dtype=np.float32)
    for side in (True, False):
        which = np.flatnonzero(padded == side)
        lengths = block.lengths - (0 if side else REACH * dilation)
        if not len(which):
            continue
        outputs = np.empty((int(lengths.max()), len(which), n), dtype=np.float32)
        for number, some in enumerate(_outputs(kernels, block, at, which.tolist())):
            outputs[:, number] = some
        shape = (each, len(which), n)
        pools = np.empty((POOLS, *shape), dtype=np.float32)
        Pooler(len(outputs), shape)(outputs, biases[which], lengths.astype(np.float32), pools)
        out[:, which] = pools.swapaxes(1, 2)
    return out.reshape(-1, n)


def _blocks(values: np.ndarray, offsets: np.ndarray) -> Iterator[tuple[np.ndarray, KernelBlock]]:
    """(rows, those sequences side by side), from the shortest to the longest; `values` (S, F)."""
    lengths, channels = np.diff(offsets), values.shape[1]
    order = np.argsort(lengths, kind="stable")
    most = max(1, min(BLOCK_POSITIONS, MOST_BLOCK_NUMBERS // channels))
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * lengths[order[last]] <= most:
            last += 1
        rows = order[first:last]
        held = lengths[rows]
        there = np.arange(held[-1]) < held[:, None]
        wide = np.zeros((len(rows), int(held[-1]), channels), dtype=np.float32)
        wide[there] = np.concatenate([values[offsets[row] : offsets[row + 1]] for row in rows.tolist()])
        yield rows, KernelBlock(np.ascontiguousarray(wide.transpose(2, 1, 0)), held)
        first = last
