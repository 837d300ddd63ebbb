"""Gated DeltaNet: the delta rule on a matrix state per head that also fades (Yang, Kautz and Hatamizadeh 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from headstart.models.mixers.delta_net import DELTA_CHUNK, FILTER, read_states, solved, unit
from headstart.models.mixers.mamba import step_bias
from headstart.models.mixers.mixer import head_width
from headstart.models.mixers.recurrent import RecurrentHeads, RecurrentSpec
from headstart.models.scan import in_chunks, precise, short_convolution


class GatedDeltaNetSpec(RecurrentSpec):
    """`heads` heads with keys of width D / H and values of width 2 D / H, twice as wide as published.

    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["gated_delta_net"] = "gated_delta_net"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2}
    uncounted: ClassVar[str] = "the triangular systems of the chunks"

    def layer(self, width: int, length: int) -> nn.Module:
        head_width(self.heads, width)
        return GatedDeltaNet(width, self.heads)

    def layer_flops(self, width: int, length: int) -> float:
        """Layers and filters, and of the chunks: two products of keys, one of values, the systems, and the state's."""
        chunk = min(DELTA_CHUNK, length)
        padded = -(-length // chunk) * chunk
        layers = 2.0 * length * width * (8 * width + 2 * self.heads + 4 * FILTER)
        return layers + 11.0 * padded * chunk * width + 12.0 * padded * width**2 / self.heads


class GatedDeltaNet(RecurrentHeads):
    """S <- S' + b k^T (v - k S') with S' = exp(-a dt) S, o = q S / sqrt(K) per head; o is normed and gated.

    Keys and queries have length 1, b = sigmoid(W x), dt = softplus(W x + bias) with the first values of Mamba-2's, and
    queries, keys and values pass a short convolution and silu. Cost O(L D (D + c + D / H)) for chunks of c positions,
    L / c steps one after another. Source: Yang, Kautz and Hatamizadeh 2024, "Gated delta networks", eq. 10 and
    section 3.3 and 3.4.
    """

    undecayed = frozenset({"log_decay", "fade_bias"})

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, width, 2 * width, gated=True)
        self.step, self.fade = nn.Linear(width, heads, bias=False), nn.Linear(width, heads, bias=False)
        self.fade_bias = nn.Parameter(step_bias(heads, 1e-3, 0.1))
        self.log_decay = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        self.filters = nn.Parameter(torch.empty(4 * width, FILTER).uniform_(-(FILTER**-0.5), FILTER**-0.5))

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        width = x.shape[-1]
        both = torch.cat([self.query(x), self.key(x), self.value(x)], -1)
        query, key, value = torch.split(silu(short_convolution(both, self.filters)), [width, width, 2 * width], -1)
        return query, key, value

    def mix(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        step = torch.sigmoid(precise(self.step(x))).transpose(1, 2).unsqueeze(-1)
        fade = -torch.exp(self.log_decay) * softplus(precise(self.fade(x)) + self.fade_bias)
        with torch.autocast(x.device.type, enabled=False):
            query, key = unit(precise(query)) * query.shape[-1] ** -0.5, unit(precise(key))
            return gated_delta_sums(query, key, precise(value), step, fade.transpose(1, 2).unsqueeze(-1), DELTA_CHUNK)


def gated_delta_sums(query: Tensor, key: Tensor, value: Tensor, step: Tensor, fade: Tensor, chunk: int) -> Tensor:
    """q[i] S[i] of S[i] = S + step[i] k[i]^T (v[i] - k[i] S) with S = exp(fade[i]) S[i-1], from 0.

    Shapes: query and key (..., L, K), value (..., L, V), step and fade (..., L, 1), fade at most 0 -> (..., L, V). As
    `delta_sums`, each product of two positions weighted by what fades between them: no exponent is above 0.
    """
    length = query.shape[-2]
    chunk = min(chunk, length)
    query, key, value, step, fade = (in_chunks(x, chunk) for x in (query, key, value, step, fade))
    total = fade.cumsum(-2)
    later = torch.ones(chunk, chunk, dtype=torch.bool, device=query.device).triu(1)
    weight = (total - total.mT).masked_fill(later, -torch.inf).exp()
    since = total.exp()
    lower = (step * (key @ key.mT) * weight).tril(-1)
    both = solved(lower, step * torch.cat([key * since, value], -1))
    by_key, by_value = torch.split(both, [key.shape[-1], value.shape[-1]], -1)
    within = (query @ key.mT) * weight
    until = (total[..., -1:, :] - total).exp()
    out = read_states(query * since, within, key * until, by_value, by_key, keep=since[..., -1:, :])
    return torch.cat(out, -2)[..., :length, :]
