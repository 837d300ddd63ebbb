"""How far training moved a model, per block and part, and how large its activations are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headstart.errors import BadInput
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

    Running statistics are no parameters and are left out.
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


@torch.no_grad()
def activations(model: SequenceModel, batch: Batch) -> list[float]:
    """Standard deviation of each block's output over valid positions and channels together (population's)."""
    spreads: list[float] = []

    def note(module: Any, inputs: Any, x: Tensor) -> None:
        del module, inputs
        kept = x[batch.valid] if not batch.full else x
        spreads.append(float(kept.double().std(correction=0)))

    handles = [block.register_forward_hook(note) for block in model.blocks]
    try:
        model.embed(batch)
    finally:
        for handle in handles:
            handle.remove()
    return spreads
