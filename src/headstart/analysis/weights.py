"""What training made of weights: how far it moved each part, and how far a block's convolution looks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headstart.errors import BadInput
from headstart.models.encoders import there
from headstart.models.model import SequenceModel
from headstart.parameters import LEAVES, block_of, leaves
from headstart.sequence import Batch


@dataclass(frozen=True)
class Deviation:
    """The parameters W of one leaf of one block (None: of none), beside W0, those that training began with.

    numbers: how many. size, start, apart: root mean square of W, of W0 and of W - W0.
    """

    block: int | None
    leaf: str
    numbers: int
    size: float
    start: float
    apart: float

    @property
    def moved(self) -> float:
        """|W - W0| / |W0|: 0 where nothing moved, infinite where W0 is 0 and W is not."""
        return _share(self.apart, self.start)


def deviations(model: SequenceModel, start: SequenceModel) -> list[Deviation]:
    """One value per block and leaf, blocks in order, then what is in no block. Computed in float64.

    Running statistics are not parameters and are left out.
    Raises: BadInput where the two models differ in their parameters.
    """
    before = dict(start.named_parameters())
    of = leaves(model)
    groups: dict[tuple[int | None, str], list[tuple[Tensor, Tensor]]] = {}
    for name, value in model.named_parameters():
        if name not in before or before[name].shape != value.shape:
            raise BadInput(f"start: no tensor {name!r} of shape {tuple(value.shape)}; give the model that it began as")
        pair = (value.detach().double(), before[name].detach().double().to(value.device))
        groups.setdefault((block_of(name), of[name]), []).append(pair)
    last = len(model.blocks)
    order = sorted(groups, key=lambda key: (last if key[0] is None else key[0], LEAVES.index(key[1])))
    return [_deviation(block, leaf, groups[block, leaf]) for block, leaf in order]


def _deviation(block: int | None, leaf: str, pairs: list[tuple[Tensor, Tensor]]) -> Deviation:
    numbers = sum(now.numel() for now, _ in pairs)
    size, start, apart = (
        math.sqrt(sum(float(x.square().sum()) for x in values) / numbers)
        for values in ((now for now, _ in pairs), (old for _, old in pairs), (now - old for now, old in pairs))
    )
    return Deviation(block, leaf, numbers, size, start, apart)


def moved(deviations: Iterable[Deviation]) -> float:
    """|W - W0| / |W0| over several leaves together."""
    rows = list(deviations)
    apart, start = (
        sum(d.numbers * x**2 for d, x in zip(rows, values, strict=True))
        for values in ([d.apart for d in rows], [d.start for d in rows])
    )
    return _share(math.sqrt(apart), math.sqrt(start))


def _share(apart: float, start: float) -> float:
    return 0.0 if apart == 0 else (apart / start if start else math.inf)


@dataclass(frozen=True)
class Spread:
    """The numbers of one tensor of one block. layer: its layer's name within the block (`mixer.query`).

    bias: whether it is one; else it is a weight. deviation: standard deviation of its numbers (population's).
    Source: figure 6 of Lu et al. 2021.
    """

    block: int
    layer: str
    bias: bool
    deviation: float


def spreads(model: SequenceModel) -> list[Spread]:
    """One value per weight and bias of the mixers and feed-forward layers, blocks in order. Computed in float64."""
    of = leaves(model)
    out = []
    for name, value in model.named_parameters():
        block = block_of(name)
        if block is not None and of[name] != "norm":
            layer = re.sub(r"[._]?(weight|bias)$", "", name.split(".", 2)[2])
            out.append(Spread(block, layer, name.endswith("bias"), float(value.detach().double().std(correction=0))))
    return sorted(out, key=lambda spread: spread.block)


@torch.no_grad()
def activations(model: SequenceModel, batch: Batch) -> list[float]:
    """Standard deviation of each block's output over valid positions and channels together (population's)."""
    spreads: list[float] = []
    valid = there(batch, model.patch)

    def note(module: Any, inputs: Any, x: Tensor) -> None:
        del module, inputs
        values = x if valid is None else x[valid]
        spreads.append(float(values.double().std(correction=0)))

    with ExitStack() as hooks:
        for block in model.blocks:
            hooks.enter_context(block.register_forward_hook(note))
        model.embed(batch)
    return spreads


@dataclass(frozen=True)
class Kernel:
    """One convolution of a block: `largest` (L,) float64 is max |K[c, d, l]| over directions c and channels d.

    K is the kernel alone, without the skip path. The l-th number of the forward kernel weighs the input l
    positions before, that of the backward kernel the input l + 1 positions after (the present one counts once).
    `mixer` is where the convolution stands within its block: "mixer", or "mixer.mixers.0" of mixers side by side.
    Source: Amos et al. 2023, section 3.6 and figure 4 (K_max).
    """

    block: int
    mixer: str
    directions: int
    largest: np.ndarray

    @property
    def half(self) -> int:
        """How many positions, nearest first, hold at least half of the sum of `largest`: a reach in one number."""
        total = np.cumsum(self.largest)
        return int(np.searchsorted(total, total[-1] / 2)) + 1

    @property
    def distance(self) -> float:
        """Mean distance in positions, weighed by `largest`."""
        return float(self.largest @ np.arange(len(self.largest)) / self.largest.sum())


@torch.no_grad()
def kernels(model: SequenceModel, length: int) -> list[Kernel]:
    """The kernels of all mixers that have a `kernel(length)`, alone or side by side, block by block.

    length: L, positions of the kernels. Nothing of the model is changed.
    Raises: BadInput for a length below 1, or above what an s4 was built for.
    """
    if length < 1:
        raise BadInput(f"length: {length} is below 1; give the positions that a kernel should have")
    out = []
    for number, block in enumerate(model.blocks):
        for path, module in block.named_modules():
            kernel = getattr(module, "kernel", None)
            if callable(kernel):
                values: torch.Tensor = kernel(length)
                largest = values.abs().amax((0, 1)).double().cpu().numpy()
                out.append(Kernel(number, path, values.shape[0], largest))
    return out


def changes(learnt: Sequence[Kernel], start: Sequence[Kernel], row: int = 0) -> dict[str, float]:
    """What training made of kernels, in numbers; those that are not finite numbers are left out.

    narrowing: positions by which their mean distance is shorter, mean over kernels. spread: how differently they decay,
    the standard deviation over kernels of the logarithm of that distance, more than at the start (two kernels at
    least). rows: how much they peak at whole rows of an image of `row` positions each (0: of none), see `peaks`, more
    than at the start.
    """
    out: dict[str, float] = {}
    if learnt and start:
        with np.errstate(divide="ignore", invalid="ignore"):
            far, first = (np.array([kernel.distance for kernel in of]) for of in (learnt, start))
            out["narrowing"] = float(np.mean(first - far))
            if len(learnt) > 1:
                out["spread"] = float(np.std(np.log(far), ddof=1) - np.std(np.log(first), ddof=1))
            if row:
                high, before = (np.mean([peaks(kernel, row) for kernel in of]) for of in (learnt, start))
                out["rows"] = float(high - before)
    return {name: value for name, value in out.items() if math.isfinite(value)}


def peaks(kernel: Kernel, row: int) -> float:
    """Mean over distances of whole rows of ln(K there / mean K within half a row of there); K is `largest`.

    The backward kernel is one position ahead (see `Kernel`), so that the larger of the two places counts.
    """
    half = row // 2
    heights = []
    for at in range(row, len(kernel.largest) - half, row):
        around = kernel.largest[at - half : at + half + 1]
        heights.append(float(np.log(kernel.largest[at - 1 : at + 1].max() / around.mean())))
    return float(np.mean(heights)) if heights else math.nan
