"""Where the heads of a model look: attention weights averaged over examples, and how far they reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headstart.models.mixers.attend import AttentionView
from headstart.models.mixers.mixer import everywhere
from headstart.models.model import SequenceModel
from headstart.sequence import Batch


@dataclass(frozen=True)
class AttentionMap:
    """One head. `mixer` is where it stands within the block: "mixer", or "mixer.mixers.1" of mixers side by side.

    weights: (L, L) float64, row i how much position i attends to each position, averaged over the examples in
    which i is valid (each such row sums to 1); NaN in rows that are valid in no example.
    distance: mean over valid positions of sum_j w_ij |i - j|, in positions.
    level: the same of a head that weighs all positions that it sees alike.
    by_distance: (L,) mean weight of a pair that a head sees at each distance |i - j|; NaN where there is none.
    """

    block: int
    mixer: str
    head: int
    weights: np.ndarray
    distance: float
    level: float
    by_distance: np.ndarray


@torch.no_grad()
def attention_maps(model: SequenceModel, batch: Batch) -> Iterator[AttentionMap]:
    """The maps of all heads of all mixers that have an `attention(x, valid)`, block by block, one at a time.

    Padding and the future (where causal) have weight 0. Cost O(B L^2 D) over all heads, memory O(L^2), in float64.
    """
    for block, path, module, inputs in _mixer_inputs(model, batch):
        view: AttentionView = module.attention(*inputs)
        valid = inputs[1]
        pairs = _pairs(view.seen, valid)
        for head in range(view.heads):
            yield _map(block, path, head, view, pairs)


@torch.no_grad()
def first_layer_map(model: SequenceModel, batch: Batch) -> tuple[int, int, np.ndarray]:
    """(block, heads, weights) of the first mixer that has attention: (n, n) float64 over the n valid positions of the
    first example, the mean over its heads, as figures 3 to 5 of Lu et al. 2021 show it."""
    block, _, module, inputs = _mixer_inputs(model, batch)[0]
    view: AttentionView = module.attention(*inputs)
    there = inputs[1][0]
    mean = torch.stack([view.weights(0, head).double() for head in range(view.heads)]).mean(0)
    return block, view.heads, mean[there][:, there].cpu().numpy()


def _mixer_inputs(model: SequenceModel, batch: Batch) -> list[tuple[int, str, Any, tuple[Tensor, ...]]]:
    """(block, path, mixer, inputs) of each mixer with attention, from one forward pass.

    inputs: x (B, L, D), valid (B, L) and, where the mixer was handed one, the bias (H, L, L) of its scores.
    """
    inputs: list[tuple[int, str, Any, tuple[Tensor, ...]]] = []

    def hook(block: int, path: str) -> Any:
        def note(module: Any, arguments: tuple[Any, ...]) -> None:
            x, valid, *more = arguments
            inputs.append((block, path, module, (x.detach(), everywhere(x, valid), *more[1:])))

        return note

    with ExitStack() as hooks:
        for number, block in enumerate(model.blocks):
            for path, module in block.named_modules():
                if callable(getattr(module, "attention", None)):
                    hooks.enter_context(module.register_forward_pre_hook(hook(number, path)))
        model.embed(batch)
    return inputs


@dataclass(frozen=True)
class _Pairs:
    """What all heads of a mixer share. queries: (L,) how many examples have a valid position there.

    counts: (L,) pairs seen at each distance. distance: (L, L). level: as in AttentionMap.
    """

    queries: Tensor
    counts: Tensor
    distance: Tensor
    level: float


def _pairs(seen: Tensor, valid: Tensor) -> _Pairs:
    """`seen` (B, L, L): who sees whom; `valid` (B, L)."""
    position = torch.arange(valid.shape[1], device=valid.device)
    distance = (position[:, None] - position).abs()
    counts, level = torch.zeros_like(position), 0.0
    for visible in seen:
        counts += torch.bincount(distance[visible], minlength=len(position))
        level += float(((distance * visible).sum(-1).double() / visible.sum(-1).clamp_min(1)).sum())
    return _Pairs(valid.sum(0), counts, distance, level / int(valid.sum()))


def _map(block: int, path: str, head: int, view: AttentionView, pairs: _Pairs) -> AttentionMap:
    """One head's map, example by example: one L x L table at a time."""
    total = torch.zeros_like(pairs.distance, dtype=torch.float64)
    for example in range(view.query.shape[0]):
        total += view.weights(example, head)
    mass = torch.bincount(pairs.distance.flatten(), total.flatten(), len(total))
    far = (mass * torch.arange(len(mass), device=mass.device)).sum() / pairs.queries.sum()
    # Divided by 0, a row that is valid nowhere and a distance at which no pair stands become NaN.
    return AttentionMap(
        block,
        path,
        head,
        (total / pairs.queries[:, None]).cpu().numpy(),
        float(far),
        pairs.level,
        (mass / pairs.counts).cpu().numpy(),
    )
