"""Local attention: windows that attend to themselves and to one window on each side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.models.mixers.attend import AttentionView, attend, visible_pairs
from headstart.models.mixers.projections import PARTS, HeadsSpec, Rotary, everywhere, joined, split
from headstart.seeds import Draw


class LocalAttentionSpec(HeadsSpec):
    """Attention of `heads` heads in windows of `window` positions (PathX 4,096, speech 4,000).

    Windows begin at the first position; the length need not divide. Causal: itself and the window before.
    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["local_attention"] = "local_attention"
    window: int = Field(default=4096, ge=1)

    rotary: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {"window": 4}

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        """The module; with `theta` queries and keys turn with their position."""
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


class LocalAttention(nn.Module):
    """Scaled dot-product attention in non-overlapping windows, each seeing itself and its neighbours.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Cost O(L W D), memory O(L D): the fused
    kernel never writes scores down, and no mask is larger than W x 2W.
    Source: Amos et al. 2023, section 2 (for inputs of 16K and more). The local attention of LRA (Tay et al.
    2020) has windows without neighbours and is another model.
    """

    parts = PARTS

    def __init__(self, spec: LocalAttentionSpec, width: int, length: int, causal: bool, theta: float | None) -> None:
        super().__init__()
        self.heads, self.window, self.causal = spec.heads, spec.window, causal
        self.query, self.key, self.value, self.output = spec.layers(4, width)
        self.turn = Rotary(length, spec.head_width(width, theta), theta)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        q, k = self.turn(q), self.turn(k)
        if self.causal:
            mixed = causal_windows(q, k, v, self.window)
        else:
            mixed = windows(q, k, v, everywhere(x, valid), self.window)
        out: Tensor = self.output(joined(mixed))
        return out

    def attention(self, x: Tensor, valid: Tensor) -> AttentionView:
        """What the heads attend with."""
        query, key = (self.turn(split(layer(x), self.heads)) for layer in (self.query, self.key))
        number = torch.arange(x.shape[1], device=x.device) // min(self.window, x.shape[1])
        near = (number[:, None] - number).abs() <= 1
        return AttentionView(query, key, visible_pairs(valid, self.causal) & near)


def windows(query: Tensor, key: Tensor, value: Tensor, valid: Tensor, window: int) -> Tensor:
    """Attention of each window to itself and the windows beside it.

    Shapes: query, key, value (B, H, L, E), valid (B, L) -> (B, H, L, E).
    """
    batch, _, length, _ = query.shape
    window = min(window, length)
    if window == length:
        return attend(query, key, value, valid[:, None, None, :])
    queries, keys, values = (cut(x, window) for x in (query, key, value))
    valid = torch.unflatten(pad(valid, (0, -length % window)), 1, (-1, window))
    # All queries of a window see the same keys, so that the mask is one row per window.
    seen = beside(valid[:, :, None, :, None])[..., 0].flatten(0, 1)[:, None]
    mixed = attend(queries.flatten(0, 1), beside(keys).flatten(0, 1), beside(values).flatten(0, 1), seen)
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
    mixed = attend(queries[:, 1:].flatten(0, 1), keys, values, seen)
    return torch.cat([leading, sewn(mixed, batch)], 2)[:, :, :length]


def cut(x: Tensor, window: int) -> Tensor:
    """(B, H, L, E) -> (B, n, H, W, E): windows, the last one filled up with zeros."""
    return torch.unflatten(pad(x, (0, 0, 0, -x.shape[2] % window)), 2, (-1, window)).transpose(1, 2)


def sewn(x: Tensor, batch: int) -> Tensor:
    """(B n, H, W, E) -> (B, H, n W, E)."""
    return torch.unflatten(x, 0, (batch, -1)).transpose(1, 2).flatten(2, 3)


def beside(x: Tensor) -> Tensor:
    """(B, n, H, W, E) -> (B, n, H, 3 W, E): each window between its neighbours, zeros where there is none."""
    around = pad(x, (0, 0, 0, 0, 0, 0, 1, 1))
    return torch.cat([around[:, :-2], x, around[:, 2:]], -2)
