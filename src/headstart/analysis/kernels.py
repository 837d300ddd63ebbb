"""How far a block's convolution looks: the largest absolute value of its kernel at each distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headstart.errors import BadInput
from headstart.models.model import SequenceModel


@dataclass(frozen=True)
class Kernel:
    """One convolution of a block: `largest` (L,) float64 is max |K[c, d, l]| over directions c and channels d.

    K is the kernel alone, without the skip path. The l-th number of the forward kernel weighs the input l
    positions before, that of the backward kernel the input l + 1 positions after (the present one counts once).
    `place` is the convolution's mixer within its block: "mixer", or "mixer.mixers.0" of mixers side by side.
    Source: Amos et al. 2023, section 3.6 and figure 4 (K_max).
    """

    block: int
    place: str
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
    """What training made of kernels, in numbers; those that are no finite numbers are left out.

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
