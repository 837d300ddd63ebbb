"""Layers that read a sequence from left to right, and mixers made of one, or of one for each direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from headstart.models.mixers.mixer import LAYER_PARTS, MixerSpec, directions_of, joined, prefixed, split
from headstart.models.scan import precise
from headstart.seeds import Draw


class RecurrentSpec(MixerSpec):
    """Base of mixers made of a causal layer; in two directions two layers with weights of their own, added."""

    directions: Literal[1, 2] | None = None
    """Left out means two, or one where causal."""

    def layer(self, width: int, length: int) -> nn.Module:
        """The causal layer: forward(x (B, L, D)) -> (B, L, D), for L at most `length`."""
        raise NotImplementedError

    def layer_flops(self, width: int, length: int) -> float:
        """Multiply-adds times two of one layer over one sequence."""
        raise NotImplementedError

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Recurrent([self.layer(width, length) for _ in range(directions_of(self.directions, causal))])

    def flops(self, width: int, length: int, causal: bool) -> float:
        return directions_of(self.directions, causal) * self.layer_flops(width, length)


class Recurrent(nn.Module):
    """The sum of a causal layer, and of another one that reads each row from its last valid position back.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Padding stands at the end: no layer sees it.
    """

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.parts: dict[str, str] = prefixed("layers", layers, "parts")
        self.rates: dict[str, float] = prefixed("layers", layers, "rates")
        self.undecayed = set(prefixed("layers", layers, "undecayed"))

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        # Layers read no padding, but a transform of huge numbers would round those that are near.
        x = x if valid is None else x.masked_fill(~valid.unsqueeze(-1), 0.0)
        out: Tensor = self.layers[0](x)
        return out if len(self.layers) == 1 else out + turn(self.layers[1](turn(x, valid)), valid)


def turn(x: Tensor, valid: Tensor | None) -> Tensor:
    """x (B, L, D) with each row's valid positions turned round and its padding left: its own inverse."""
    if valid is None:
        return x.flip(1)
    position = torch.arange(valid.shape[1], device=valid.device)
    source = torch.where(valid, valid.sum(1, keepdim=True) - 1 - position, position)
    return x.gather(1, source.unsqueeze(-1).expand_as(x))


class RecurrentHeads(nn.Module):
    """Base of layers whose heads have a matrix as state: `mix`, which each layer writes, then a norm of each head.

    With `gated` the normed heads are multiplied by silu of one more layer of x. Shapes: x (B, L, D) -> (B, L, D).
    """

    parts: Mapping[str, str] = {**LAYER_PARTS, "norm": "norm"}

    def __init__(self, width: int, heads: int, key: int, value: int, gated: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, key, bias=False), nn.Linear(width, key, bias=False)
        self.value, self.output = nn.Linear(width, value, bias=False), nn.Linear(value, width, bias=False)
        self.gate = nn.Linear(width, value, bias=False) if gated else None
        self.norm = nn.RMSNorm(value // heads, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (split(part, self.heads) for part in self.projected(x))
        mixed = joined(self.norm(precise(self.mix(x, query, key, value))))
        return self.output(mixed if self.gate is None else mixed * silu(self.gate(x)))

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys (B, L, H K), values (B, L, H V)."""
        # The norm of a head turns a score near 0 into a direction, which half of the digits would draw by lot.
        with torch.autocast(x.device.type, enabled=False):
            query, key = self.query(precise(x)), self.key(precise(x))
        return query, key, self.value(x)

    def mix(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """x (B, L, D), query and key (B, H, L, K), value (B, H, L, V) -> (B, H, L, V)."""
        raise NotImplementedError
