"""Based: linear attention by a Taylor series, and softmax attention in short windows (Arora et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.linear_attention import sums_flops, weighted_sums
from headstart.models.mixers.local_attention import LongformerSpec
from headstart.models.mixers.mixer import LAYER_PARTS, MixerSpec, head_width, joined, prefixed, split
from headstart.models.scan import precise
from headstart.seeds import Draw


class BasedSpec(MixerSpec):
    """`heads` heads of linear attention over `features` numbers of each query and key, and windows beside them.

    The source puts the two in layers of their own, one after the other, with layers of convolutions between; here they
    read the same input and are added. `window = 0` is its linear attention alone, which a list of mixers may put
    between others. Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["based"] = "based"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""
    features: int = Field(default=16, ge=1)
    """Numbers of each query and key of the linear attention, of which all products of two are taken."""
    window: int = Field(default=64, ge=0)
    """Positions that a query of the windows sees on each side (causal: before it); 0: no windows."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2, "features": 3, "window": 2}

    @property
    def near(self) -> LongformerSpec:
        """Attention in sliding windows, without global positions."""
        return LongformerSpec(heads=self.heads, window=self.window, global_positions=0, bias=False)

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        head_width(self.heads, width)
        return Based(self, width, length, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """The four layers, per head the sums over the features, and the windows."""
        layers = 4.0 * length * width * (self.heads * self.features + width)
        sums = self.heads * sums_flops(length, taylor_features(self.features), width // self.heads, causal)
        return layers + sums + (self.near.flops(width, length, causal) if self.window else 0.0)


def taylor_features(size: int) -> int:
    """How many features `taylor` makes of `size` numbers."""
    return 1 + size + size * (size + 1) // 2


def taylor(x: Tensor) -> Tensor:
    """(..., E) -> (..., 1 + E + E (E + 1) / 2): features whose products are 1 + s + s^2 / 2 with s = q . k / sqrt(E).

    Each product of two different numbers stands once, with the weight of both of its places.
    """
    x = x * x.shape[-1] ** -0.25
    first, second = torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device)
    weight = torch.where(first == second, 0.5, 1.0).to(x.dtype).sqrt()
    return torch.cat([torch.ones_like(x[..., :1]), x, x[..., first] * x[..., second] * weight], -1)


class Based(nn.Module):
    """Attention with weights 1 + s + s^2 / 2 over their sum, s = q . k / sqrt(E), plus attention in sliding windows.

    The weights are the first terms of exp(s), and at least 1/2. Shapes: x (B, L, D), valid (B, L) bool or None -> the
    same. Cost O(L D (D + H E^2 + W)) for windows of W; causal by prefix sums of chunks.
    Source: Arora et al. 2024, "Simple linear attention language models balance the recall-throughput tradeoff",
    section 4.
    """

    def __init__(self, spec: BasedSpec, width: int, length: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal, inner = spec.heads, causal, spec.heads * spec.features
        self.query, self.key = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.value, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.near = nn.ModuleList([spec.near.build(width, length, causal)] if spec.window else [])
        self.parts: dict[str, str] = {**LAYER_PARTS, **prefixed("near", self.near, "parts")}

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        query, key, value = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        with torch.autocast(x.device.type, enabled=False):
            keys = taylor(precise(key))
            keys = keys if valid is None else keys * valid[:, None, :, None]
            mixed = weighted_sums(taylor(precise(query)), keys, precise(value), self.causal)
        out: Tensor = self.output(joined(mixed))
        for near in self.near:
            out = out + near(x, valid, draw)
        return out
