"""DeltaNet: a matrix state per head that replaces what a key held (Yang et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import silu

from headstart.models.mixers.mixer import head_width
from headstart.models.mixers.recurrent import RecurrentHeads, RecurrentSpec
from headstart.models.scan import in_chunks, precise, short_convolution

DELTA_CHUNK = 64
"""Positions of a chunk, whose updates are found together by one triangular system."""
FILTER = 4
"""Positions that the short convolutions of queries, keys and values see, as published."""


class DeltaNetSpec(RecurrentSpec):
    """`heads` heads of width D / H. Raises: BadInput where `heads` does not divide the width."""

    kind: Literal["delta_net"] = "delta_net"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2}
    uncounted: ClassVar[str] = "the triangular systems of the chunks"

    def layer(self, width: int, length: int) -> nn.Module:
        head_width(self.heads, width)
        return DeltaNet(width, self.heads)

    def layer_flops(self, width: int, length: int) -> float:
        """Layers and filters, and of the chunks: three products of c x c, the systems, three with the state."""
        chunk = min(DELTA_CHUNK, length)
        padded = -(-length // chunk) * chunk
        layers = 2.0 * length * width * (4 * width + self.heads + 3 * FILTER)
        return layers + 8.0 * padded * chunk * width + 6.0 * padded * width**2 / self.heads


class DeltaNet(RecurrentHeads):
    """S <- S + b k^T (v - k S), o = q S / sqrt(K) per head, with keys and queries of length 1 and b = sigmoid(W x).

    Queries, keys and values pass a short convolution and silu; o is normed. Cost O(L D (D + c + D / H)) for chunks of c
    positions, L / c steps one after another.
    Source: Yang et al. 2024, "Parallelizing linear transformers with the delta rule", eq. 7 to 11 and section 3.3.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, width, width, gated=False)
        self.step = nn.Linear(width, heads, bias=False)
        self.filters = nn.Parameter(torch.empty(3, width, FILTER).uniform_(-(FILTER**-0.5), FILTER**-0.5))

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = (
            silu(short_convolution(layer(x), weight))
            for layer, weight in zip((self.query, self.key, self.value), self.filters.unbind(), strict=True)
        )
        return query, key, value

    def mix(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        step = torch.sigmoid(precise(self.step(x))).transpose(1, 2).unsqueeze(-1)
        with torch.autocast(x.device.type, enabled=False):
            query, key = unit(precise(query)) * query.shape[-1] ** -0.5, unit(precise(key))
            return delta_sums(query, key, precise(value), step, DELTA_CHUNK)


def unit(x: Tensor) -> Tensor:
    """Vectors (..., E) of length 1; 0 stays 0."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def delta_sums(query: Tensor, key: Tensor, value: Tensor, step: Tensor, chunk: int) -> Tensor:
    """q[i] S[i] of the state S[i] = S[i-1] + step[i] k[i]^T (v[i] - k[i] S[i-1]), from 0.

    Shapes: query and key (..., L, K), value (..., L, V), step (..., L, 1) -> (..., L, V). A chunk adds k^T u to the
    state, whose u solve (1 + lower(step k k^T)) u = step (v - k S) for the state S before the chunk.
    """
    length = query.shape[-2]
    chunk = min(chunk, length)
    query, key, value, step = (in_chunks(x, chunk) for x in (query, key, value, step))
    lower = (step * (key @ key.mT)).tril(-1)
    both = solved(lower, step * torch.cat([key, value], -1))
    by_key, by_value = torch.split(both, [key.shape[-1], value.shape[-1]], -1)
    within = (query @ key.mT).tril()
    return torch.cat(read_states(query, within, key, by_value, by_key), -2)[..., :length, :]


def read_states(
    query: Tensor,
    within: Tensor,
    key: Tensor,
    by_value: Tensor,
    by_key: Tensor,
    keep: Tensor | None = None,
    more: Tensor | None = None,
) -> list[Tensor]:
    """Of each chunk q S + within u with u = by_value - by_key S, after which S <- keep S + k^T u + more, from 0.

    Shapes: query, key and by_key (..., n, c, K), within (..., n, c, c), by_value (..., n, c, V), keep (..., n, K or 1,
    1), more (..., n, K, V) -> n of (..., c, V).
    """
    state, out = torch.zeros_like(key[..., 0, :, :].mT @ by_value[..., 0, :, :]), []
    parts = (part.unbind(-3) for part in (query, within, key, by_value, by_key))
    for number, (q, own, k, u, w) in enumerate(zip(*parts, strict=True)):
        new = u - w @ state
        out.append(q @ state + own @ new)
        state = state if keep is None else keep[..., number, :, :] * state
        state = state + k.mT @ new
        state = state if more is None else state + more[..., number, :, :]
    return out


def solved(lower: Tensor, right: Tensor) -> Tensor:
    """x of (1 + lower) x = right, lower (..., c, c) below the diagonal only, right (..., c, E)."""
    if not torch.compiler.is_exporting():
        return torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)
    rows = [right[..., 0, :]]
    for number in range(1, lower.shape[-1]):
        before = lower[..., number, None, :number] @ torch.stack(rows, -2)
        rows.append(right[..., number, :] - before.squeeze(-2))
    return torch.stack(rows, -2)
