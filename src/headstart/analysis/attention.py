"""Where the heads of a model look: attention weights averaged over examples, and how far they reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headstart.models.mixers.attention import Attention
from headstart.models.mixers.local_attention import LocalAttention
from headstart.models.mixers.projections import everywhere, split
from headstart.models.model import SequenceModel
from headstart.sequence import Batch


@dataclass(frozen=True)
class AttentionMap:
    """One head. `place` is its mixer within the block: "mixer", or "mixer.mixers.1" of mixers side by side.

    weights: (L, L) float64, row i how much position i attends to each position, averaged over the examples in
    which i is valid (each such row sums to 1); NaN in rows that are valid in no example.
    distance: mean over valid positions of sum_j w_ij |i - j|, in positions.
    level: the same of a head that weighs all positions that it sees alike.
    by_distance: (L,) mean weight of a pair that a head sees at each distance |i - j|; NaN where there is none.
    """

    block: int
    place: str
    head: int
    weights: np.ndarray
    distance: float
    level: float
    by_distance: np.ndarray


@dataclass(frozen=True)
class _Heard:
    """What an attention mixer was given: x (B, L, D) and valid (B, L)."""

    block: int
    place: str
    module: Attention | LocalAttention
    x: Tensor
    valid: Tensor


def attention_maps(model: SequenceModel, batch: Batch) -> list[AttentionMap]:
    """The maps of all heads of all blocks with `attention` or `local_attention`, in their order.

    Padding and the future (where causal) have weight 0. Memory O(heads L^2): see `each_map` for long inputs.
    """
    return list(each_map(model, batch))


@torch.no_grad()
def each_map(model: SequenceModel, batch: Batch) -> Iterator[AttentionMap]:
    """The same maps, one at a time: cost O(B L^2 D) over all heads, memory O(L^2). Softmaxes are in float64."""
    for heard in _listen(model, batch):
        ground = _ground(heard)
        module = heard.module
        query, key = (module.turn(split(layer(heard.x), module.heads)).double() for layer in (module.query, module.key))
        for head in range(module.heads):
            yield _map(heard, head, query[:, head], key[:, head], ground)


def _listen(model: SequenceModel, batch: Batch) -> list[_Heard]:
    """One forward pass, with what each attention mixer is given in it."""
    heard: list[_Heard] = []
    handles = []

    def hook(block: int, place: str) -> Any:
        def note(module: Any, given: tuple[Any, ...]) -> None:
            x, valid = given[0].detach(), given[1]
            heard.append(_Heard(block, place, module, x, everywhere(x, valid)))

        return note

    for number, block in enumerate(model.blocks):
        for place, module in block.named_modules():
            if isinstance(module, (Attention, LocalAttention)):
                handles.append(module.register_forward_pre_hook(hook(number, place)))
    try:
        model.embed(batch)
    finally:
        for handle in handles:
            handle.remove()
    return heard


@dataclass(frozen=True)
class _Ground:
    """What all heads of a mixer share. seen: (B, L, L) bool, position i of an example attends to j.

    asks: (B, L) whose rows count (invalid queries are no one's). pairs: (L,) pairs seen at each distance. apart:
    (L, L) distances. level: as in AttentionMap.
    """

    seen: Tensor
    asks: Tensor
    pairs: Tensor
    apart: Tensor
    level: float


def _ground(heard: _Heard) -> _Ground:
    module, valid, length = heard.module, heard.valid, heard.x.shape[1]
    place = torch.arange(length, device=valid.device)
    apart = (place[:, None] - place).abs()
    near = torch.ones_like(apart, dtype=torch.bool)
    if isinstance(module, LocalAttention):
        window = place // min(module.window, length)
        near = (window[:, None] - window).abs() <= 1
    if module.causal:
        near = near & (place <= place[:, None])
    seen = near & valid[:, None, :] & valid[:, :, None]
    pairs, level = torch.zeros_like(place), 0.0
    for here in seen:
        pairs += torch.bincount(apart[here], minlength=length)
        level += float(((apart * here).sum(-1).double() / here.sum(-1).clamp_min(1)).sum())
    return _Ground(seen, valid, pairs, apart, level / int(valid.sum()))


def _map(heard: _Heard, head: int, query: Tensor, key: Tensor, ground: _Ground) -> AttentionMap:
    """One head's map from its queries and keys (B, L, E), example by example: one L x L table at a time."""
    length = query.shape[1]
    total = query.new_zeros(length, length)
    for asked, told, here in zip(query, key, ground.seen, strict=True):
        scores = (asked @ told.T * asked.shape[-1] ** -0.5).masked_fill(~here, -torch.inf)
        total += scores.softmax(-1).masked_fill(~here, 0.0)
    mass = torch.bincount(ground.apart.flatten(), total.flatten(), length)
    far = (mass * torch.arange(length, device=mass.device)).sum() / ground.asks.sum()
    # Divided by 0, a row that is valid nowhere and a distance at which no pair stands become NaN.
    return AttentionMap(
        heard.block,
        heard.place,
        head,
        (total / ground.asks.sum(0)[:, None]).cpu().numpy(),
        float(far),
        ground.level,
        (mass / ground.pairs).cpu().numpy(),
    )
