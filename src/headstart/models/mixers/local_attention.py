"""Attention in windows that see their neighbours; Longformer: a sliding window, and global positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.models.mixers.attend import AttentionView, attend, visible_pairs
from headstart.models.mixers.mixer import LAYER_PARTS, HeadsMixer, HeadsSpec, everywhere, joined, split
from headstart.models.scan import in_chunks
from headstart.seeds import Draw

GLOBAL_PARTS = {"query_global": "query_key", "key_global": "query_key", "value_global": "value_output"}


class LocalAttentionSpec(HeadsSpec):
    """Attention of `heads` heads in windows of `window` positions (PathX 4,096, speech 4,000).

    Windows begin at the first position; the length need not divide. Causal: itself and the window before.
    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["local_attention"] = "local_attention"
    window: int = Field(default=4096, ge=1)
    """Positions of a window; a query sees its own window and the one on either side."""

    rotary: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {"window": 4}

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        return LocalAttention(self, width, length, causal, theta)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2 and two products of each window with the windows that it sees.

        The windows before the first and after the last (empty) are computed too, and so is the masked half
        of a causal window.
        """
        window = min(self.window, length)
        count = -(-length // window)
        seen = 1 if count == 1 else (2 * count - 1 if causal else 3 * count)
        return 8.0 * length * width**2 + 4.0 * width * window**2 * seen


class LocalAttention(HeadsMixer):
    """Scaled dot-product attention in non-overlapping windows, each seeing itself and its neighbours.

    Cost O(L W D), memory O(L D): the fused kernel never writes scores down, and no mask is larger than W x 2W.
    Source: Amos et al. 2023, section 2 (for inputs of 16K and more). The local attention of LRA (Tay et al.
    2020) has windows without neighbours and is another model.
    """

    def __init__(self, spec: LocalAttentionSpec, width: int, length: int, causal: bool, theta: float | None) -> None:
        super().__init__(spec, width, length, causal, theta)
        self.window = spec.window

    def mix(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        if self.causal:
            return causal_windows(query, key, value, self.window)
        return windows(query, key, value, everywhere(query[:, 0], valid), self.window)

    def attention(self, x: Tensor, valid: Tensor) -> AttentionView:
        """What the heads attend with."""
        number = torch.arange(x.shape[1], device=x.device) // min(self.window, x.shape[1])
        near = (number[:, None] - number).abs() <= 1
        return AttentionView(*self.queries_keys(x), visible_pairs(valid, self.causal) & near)


def windows(query: Tensor, key: Tensor, value: Tensor, valid: Tensor, window: int) -> Tensor:
    """Attention of each window to itself and the windows beside it.

    Shapes: query, key, value (B, H, L, E), valid (B, L) -> (B, H, L, E).
    """
    batch, _, length, _ = query.shape
    window = min(window, length)
    if window == length:
        return attend(query, key, value, valid[:, None, None, :], run=True)
    queries, keys, values = (cut(x, window) for x in (query, key, value))
    valid = torch.unflatten(pad(valid, (0, -length % window)), 1, (-1, window))
    # All queries of a window see the same keys, so that the mask is one row per window.
    seen = beside(valid[:, :, None, :, None])[..., 0].flatten(0, 1)[:, None]
    near, of_near = (beside(x).flatten(0, 1) for x in (keys, values))
    mixed = attend(queries.flatten(0, 1), near, of_near, seen, run=True)
    return sewn(mixed, batch)[:, :, :length]


def causal_windows(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """The causal form: each position sees what came before it in its own window and in the one before.

    Padding stands at the end, so that no valid position sees it.
    """
    batch, _, length, _ = query.shape
    window = min(window, length)
    leading = attend(query[:, :, :window], key[:, :, :window], value[:, :, :window], causal=True)
    if window == length:
        return leading
    queries, keys, values = (cut(x, window) for x in (query, key, value))
    keys, values = (torch.cat([x[:, :-1], x[:, 1:]], -2).flatten(0, 1) for x in (keys, values))
    position = torch.arange(2 * window, device=query.device)
    seen = (position <= position[window:, None])[None, None]
    mixed = attend(queries[:, 1:].flatten(0, 1), keys, values, seen, run=True)
    return torch.cat([leading, sewn(mixed, batch)], 2)[:, :, :length]


def cut(x: Tensor, window: int) -> Tensor:
    """(B, H, L, E) -> (B, n, H, W, E): windows, the last one filled up with zeros."""
    return in_chunks(x, window).transpose(1, 2)


def sewn(x: Tensor, batch: int) -> Tensor:
    """(B n, H, W, E) -> (B, H, n W, E)."""
    return torch.unflatten(x, 0, (batch, -1)).transpose(1, 2).flatten(2, 3)


def beside(x: Tensor) -> Tensor:
    """(B, n, H, W, E) -> (B, n, H, 3 W, E): each window between its neighbours, zeros where there is none."""
    around = pad(x, (0, 0, 0, 0, 0, 0, 1, 1))
    return torch.cat([around[:, :-2], x, around[:, 2:]], -2)


class LongformerSpec(HeadsSpec):
    """Attention of `heads` heads to `window` positions on each side and to global ones.

    256 on each side is the source's and LRA's (Tay et al. 2020; its code has no global positions by default).
    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["longformer"] = "longformer"
    window: int = Field(default=256, ge=1)
    """Positions that a query sees on each side."""
    global_positions: int = Field(default=1, ge=0)
    """How many first positions see all and are seen by all (1: where a class token stands)."""
    separate: bool = True
    """What the global positions see goes through query, key and value layers of its own, as in the source. Causal: the
    window behind and the global positions before; nothing is separate there, since what stands before a global position
    stands before any other."""

    rotary: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {"window": 2, "global_positions": 2}

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
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


class Longformer(HeadsMixer):
    """Scaled dot-product attention in a sliding window, with global positions.

    Position i sees |i - j| <= window and the global positions, each once; a global position sees all.
    Cost O(L W D), memory O(L (D + W)). Source: Beltagy et al. 2020, "Longformer", section 3.1.
    """

    def __init__(self, spec: LongformerSpec, width: int, length: int, causal: bool, theta: float | None) -> None:
        super().__init__(spec, width, length, causal, theta)
        self.window, self.some = spec.window, spec.global_positions
        self.separate = spec.separate and self.some > 0 and not causal
        if self.separate:
            self.parts = LAYER_PARTS | GLOBAL_PARTS
            self.query_global, self.key_global, self.value_global = spec.layers(3, width)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        valid, some = everywhere(x, valid), min(self.some, x.shape[1])
        (q, k), v = self.queries_keys(x), split(self.value(x), self.heads)
        mixed = sliding(q, k, v, valid, self.window, some, self.causal)
        if some and not self.causal:
            mixed = torch.cat([self._of_global(x, (q, k, v), valid, some), mixed[:, :, some:]], 2)
        return self.output(joined(mixed))

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
