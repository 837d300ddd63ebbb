"""Attention of any pattern, as a mask over all pairs of positions: all, windows, sliding, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.attention import Attention
from headstart.models.mixers.bigbird import BigBird, pattern
from headstart.models.mixers.local_attention import LocalAttention
from headstart.models.mixers.longformer import Longformer
from headstart.models.mixers.projections import joined, split
from headstart.serve.forms.shared import places, turn_by, weights

LARGEST = 2**26
"""Entries of a table of blocks (bigbird) that a file may carry: 64 MB."""


class Dense(nn.Module):
    """Attention of any pattern, as a mask over all pairs of positions.

    sees: (valid (B, L), place (L,)) -> bool, broadcasts to (B, H, L, L). Shapes: as the mixer's.
    """

    def __init__(self, of: Any, sees: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.of, self.sees = of, sees

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        of = self.of
        query, key, value = (split(layer(x), of.heads) for layer in (of.query, of.key, of.value))
        seen = self.sees(valid, places(x))
        mixed = weights(turn_by(of.turn, query), turn_by(of.turn, key), seen) @ value
        out: Tensor = of.output(joined(mixed))
        return out


def _all(causal: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Every valid position, or every earlier one (padding stands at the end)."""

    def sees(valid: Tensor, place: Tensor) -> Tensor:
        return (place[:, None] >= place)[None, None] if causal else valid[:, None, None, :]

    return sees


def every_pair(of: Attention, length: int) -> nn.Module:
    """Plain attention."""
    del length
    return Dense(of, _all(of.causal))


def local_attention(of: LocalAttention, length: int) -> nn.Module:
    """Windows that see themselves and their neighbours; one window is plain attention."""
    if of.window >= length:
        return Dense(of, _all(of.causal))

    def sees(valid: Tensor, place: Tensor) -> Tensor:
        window = place // of.window
        apart = window[:, None] - window
        if of.causal:
            return ((apart <= 1) & (place[:, None] >= place))[None, None]
        return (apart.abs() <= 1) & valid[:, None, None, :]

    return Dense(of, sees)


class SlidingAndGlobal(Dense):
    """Longformer: the window by its mask, and its first positions, which see all, apart."""

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        of, place = self.of, places(x)
        query, key, value = (split(layer(x), of.heads) for layer in (of.query, of.key, of.value))
        query, key = turn_by(of.turn, query), turn_by(of.turn, key)
        mixed = weights(query, key, self.sees(valid, place)) @ value
        if of.some and not of.causal:
            if of.separate:
                query = turn_by(of.turn, split(of.query_global(x), of.heads))
                key, value = turn_by(of.turn, split(of.key_global(x), of.heads)), split(of.value_global(x), of.heads)
            first = torch.arange(of.some).minimum(place[-1])
            of_all = weights(query[:, :, first], key, valid[:, None, None, :]) @ value
            mixed = torch.where((place < of.some)[:, None], of_all[:, :, place.clamp(max=of.some - 1)], mixed)
        out: Tensor = of.output(joined(mixed))
        return out


def longformer(of: Longformer, length: int) -> nn.Module:
    """A sliding window and global positions."""
    del length

    def sees(valid: Tensor, place: Tensor) -> Tensor:
        apart = place[:, None] - place
        seen = (apart.abs() <= of.window) | (place < of.some)
        return (seen & (apart >= 0) if of.causal else seen) & valid[:, None, None, :]

    return SlidingAndGlobal(of, sees)


def bigbird(of: BigBird, length: int) -> nn.Module:
    """Blocks, by a table of which sees which. Raises: BadInput as `blocks_seen`."""
    table, size = blocks_seen(of, length), of.spec.block

    def sees(valid: Tensor, place: Tensor) -> Tensor:
        block = place // size
        last = torch.where(valid, block, 0).amax(1)
        seen = (table if of.causal else table[last])[:, :, block][..., block] & valid[:, None, None, :]
        return seen & (place[:, None] >= place) if of.causal else seen

    return Dense(of, sees)


def blocks_seen(of: BigBird, length: int) -> Tensor:
    """(C, H, C, C) bool: whether a block sees another in a row whose last block is the first index (causal: (1, ...)).

    Raises: BadInput where the table would be larger than `LARGEST`.
    """
    count, ends = -(-length // of.spec.block), of.spec.global_blocks
    if of.heads * count**3 > LARGEST:
        raise BadInput(
            f"model.mixer.block: bigbird's pattern of {count:,} blocks, for every length, would fill "
            f"{of.heads * count**3 / 2**20:,.0f} MB of an ONNX file; fit with larger blocks, or with another mixer"
        )
    rows = torch.tensor([count]) if of.causal else torch.arange(1, count + 1)
    blocks, named = pattern(rows, count, of.heads, of.spec, of.causal)
    seen = torch.zeros(len(rows), of.heads, count, count, dtype=torch.int64)
    seen = seen.scatter_add(-1, blocks, named.long()) > 0
    if of.causal:
        return seen
    own = torch.arange(count)
    sees_all = (own < ends) | (own >= rows[:, None] - ends)
    return seen | sees_all[:, None, :, None]
