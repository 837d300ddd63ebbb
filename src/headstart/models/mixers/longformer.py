"""Longformer: a sliding window, and a few positions that see all and are seen by all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.models.mixers.attend import attend
from headstart.models.mixers.local_attention import beside, cut, sewn
from headstart.models.mixers.projections import PARTS, HeadsSpec, Rotary, everywhere, joined, split
from headstart.seeds import Draw

GLOBAL_PARTS = {"query_global": "query_key", "key_global": "query_key", "value_global": "value_output"}


class LongformerSpec(HeadsSpec):
    """Attention of `heads` heads to `window` positions on each side and to global ones.

    256 on each side is the source's and LRA's (Tay et al. 2020; its code has no global positions by default).
    global_positions: how many first positions see all and are seen by all (1: where a class token stands).
    separate: what the global positions see goes through query, key and value layers of its own, as in the
    source. Causal: the window behind and the global positions before; nothing is separate there, since what
    stands before a global position stands before any other.
    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["longformer"] = "longformer"
    window: int = Field(default=256, ge=1)
    global_positions: int = Field(default=1, ge=0)
    separate: bool = True

    rotary: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {"window": 2, "global_positions": 2}

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        """The module; with `theta` queries and keys turn with their position."""
        return Longformer(self, width, length, causal, theta)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, blocks of queries times the three blocks and global keys that they may see.

        What a mask hides within those blocks is computed too.
        """
        some = min(self.global_positions, length)
        asked = 0 if causal else some
        block = min(self.window, length)
        count = -(-length // block)
        keys = (block if count == 1 else 3 * block) + some
        total = 8.0 * length * width**2 + 4.0 * count * block * keys * width + 4.0 * asked * length * width
        if asked and self.separate:
            total += 2.0 * (asked + 2 * length) * width**2
        return total


class Longformer(nn.Module):
    """Scaled dot-product attention in a sliding window, with global positions.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Position i sees |i - j| <= window and the
    global positions, each once; a global position sees all. Cost O(L W D), memory O(L (D + W)).
    Source: Beltagy et al. 2020, "Longformer", section 3.1.
    """

    def __init__(self, spec: LongformerSpec, width: int, length: int, causal: bool, theta: float | None) -> None:
        super().__init__()
        self.heads, self.window, self.causal = spec.heads, spec.window, causal
        self.some = spec.global_positions
        self.separate = spec.separate and self.some > 0 and not causal
        self.parts = {**PARTS, **(GLOBAL_PARTS if self.separate else {})}
        self.query, self.key, self.value, self.output = spec.layers(4, width)
        if self.separate:
            self.query_global, self.key_global, self.value_global = spec.layers(3, width)
        self.turn = Rotary(length, spec.head_width(width, theta), theta)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        valid = everywhere(x, valid)
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        q, k = self.turn(q), self.turn(k)
        some = min(self.some, x.shape[1])
        mixed = sliding(q, k, v, valid, self.window, some, self.causal)
        if some and not self.causal:
            mixed = torch.cat([self._of_global(x, (q, k, v), valid, some), mixed[:, :, some:]], 2)
        out: Tensor = self.output(joined(mixed))
        return out

    def _of_global(self, x: Tensor, own: tuple[Tensor, Tensor, Tensor], valid: Tensor, some: int) -> Tensor:
        """(B, H, some, E): the first positions see all."""
        q, k, v = own
        if self.separate:
            q = self.turn(split(self.query_global(x[:, :some]), self.heads))
            k = self.turn(split(self.key_global(x), self.heads))
            v = split(self.value_global(x), self.heads)
        return attend(q[:, :, :some], k, v, valid[:, None, None, :])


def sliding(query: Tensor, key: Tensor, value: Tensor, valid: Tensor, window: int, some: int, causal: bool) -> Tensor:
    """Attention of each position to those at most `window` away and to the first `some`.

    Shapes: query, key, value (B, H, L, E), valid (B, L) -> (B, H, L, E). Queries stand in blocks as long as
    the window, so that what they see lies in their own block and the two beside it.
    """
    batch, _, length, _ = query.shape
    block = min(window, length)
    queries, keys, values = cut(query, block).flatten(0, 1), cut(key, block), cut(value, block)
    valid_keys = torch.unflatten(pad(valid, (0, -length % block)), 1, (-1, block))
    count = valid_keys.shape[1]
    position = torch.arange(count * block, device=query.device).view(count, block)
    offsets = position[0]
    if count > 1:
        keys, values = beside(keys), beside(values)
        valid_keys = beside(valid_keys[:, :, None, :, None])[:, :, 0, :, 0]
        offsets = torch.arange(-block, 2 * block, device=query.device)
    key_position = (position[:, :1] + offsets)[:, None, :]  # (n, 1, K), of each key of a block
    seen = sees(position[:, :, None], key_position, window, some, causal) & valid_keys[:, :, None, :]
    if some:
        first = torch.arange(some, device=query.device)
        reach = position[:, :, None] if causal else torch.full_like(position[:, :, None], length)
        seen = torch.cat([seen, (first <= reach) & valid[:, None, None, :some]], -1)
        keys, values = (
            torch.cat([x, of[:, None, :, :some].expand(-1, count, -1, -1, -1)], -2)
            for x, of in ((keys, key), (values, value))
        )
    mixed = attend(queries, keys.flatten(0, 1), values.flatten(0, 1), seen.flatten(0, 1)[:, None])
    return sewn(mixed, batch)[:, :, :length]


def sees(query: Tensor, key: Tensor, window: int, some: int, causal: bool) -> Tensor:
    """Whether the window of a query's position holds a key's; the first `some` keys are counted elsewhere."""
    near = ((query - key).abs() <= window) & (key >= some)
    return near & (key <= query) if causal else near
