"""RWKV-7's time mixing: a matrix state per head under a generalised delta rule (Peng et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad

from headstart.models.mixers.delta_net import read_states, solved, unit
from headstart.models.mixers.mixer import LAYER_PARTS, head_width, joined, split
from headstart.models.mixers.recurrent import RecurrentSpec
from headstart.models.mixers.rwkv import HEAD_EPSILON
from headstart.models.scan import in_chunks, precise

RWKV7_CHUNK = 32
"""Positions of a chunk. Fades are above exp(-0.61), so that over half a chunk no number grows beyond 16,500 times."""
STEEPEST = math.exp(-0.5)
"""Largest fade of a step, as published: its logarithm is -0.61 times a sigmoid."""


class RWKV7Spec(RecurrentSpec):
    """`heads` heads of width D / H (64 as published). Raises: BadInput where `heads` does not divide the width.

    First values are those of the first of many layers in the released code, in which values are not mixed with the
    first layer's: a mixer knows no other one. Ranks grow with the width as they do there.
    """

    kind: Literal["rwkv7"] = "rwkv7"
    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""

    example: ClassVar[Mapping[str, Any]] = {"heads": 2}
    uncounted: ClassVar[str] = "the triangular systems of the chunks"

    def layer(self, width: int, length: int) -> nn.Module:
        head_width(self.heads, width)
        return DeltaTimeMixing(width, self.heads)

    def layer_flops(self, width: int, length: int) -> float:
        """Four layers of 2 L D^2, those of low rank, and of the chunks: seven products, the systems, the state's."""
        chunk = min(RWKV7_CHUNK, length)
        padded = -(-length // chunk) * chunk
        rank, gate_rank = ranks_of(width)
        layers = 2.0 * length * width * (4 * width + 4 * rank + 2 * gate_rank)
        return layers + 16.0 * padded * chunk * width + 8.0 * padded * width**2 / self.heads


def ranks_of(width: int) -> tuple[int, int]:
    """Ranks of the layers of fades and rates, and of the gate: multiples of 32."""
    return max(32, 32 * round(1.8 * width**0.5 / 32)), max(32, 32 * round(0.6 * width**0.8 / 32))


class DeltaTimeMixing(nn.Module):
    """S <- diag(w) S - (a c)^T (c S) + k'^T v, o = r S + (r . (bonus k')) v per head; o is normed and gated.

    c is the removal key k * removal of length 1, a = sigmoid(...) how much of it goes, k' = k (1 + (a - 1) renewal)
    what is written, w = exp(-exp(-0.5) sigmoid(...)). Receptance r, key, value, fade, rate a and gate each read their
    own mixture of x and of x one position before. Shapes: x (B, L, D) -> (B, L, D). Cost O(L D (D + c + D / H)) for
    chunks of c positions, L / c steps one after another.
    Source: Peng et al. 2025, "RWKV-7 Goose with expressive dynamic state evolution", section 4.
    """

    parts: Mapping[str, str] = {**LAYER_PARTS, "norm": "norm", "norm_bias": "norm"}
    per_position = ("fade_into", "fade_back", "rate_into", "rate_back", "gate_into", "gate_back")

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        channel, (rank, gate_rank) = torch.arange(width) / width, ranks_of(width)
        # Of receptance, fade, key, value, rate and gate.
        self.shares = nn.Parameter(torch.stack([1 - channel**power for power in (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)]))
        self.fade = nn.Parameter(-6.5 + 5 * (torch.arange(width) / max(width - 1, 1)) ** 0.85)
        self.fade_into, self.fade_back = _low_rank(width, rank)
        self.rate = nn.Parameter(torch.zeros(width))
        self.rate_into, self.rate_back = _low_rank(width, rank)
        self.gate_into, self.gate_back = _low_rank(width, gate_rank)
        self.removal, self.renewal = nn.Parameter(torch.full((width,), 0.85)), nn.Parameter(torch.ones(width))
        self.bonus = nn.Parameter(torch.zeros(width))
        layers = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.query, self.key, self.value, self.output = layers
        self.norm, self.norm_bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        before = pad(x[:, :-1], (0, 0, 1, 0)) - x
        asked, faded, keyed, valued, rated, gate = (x + before * share for share in self.shares.unbind())
        fade = -STEEPEST * torch.sigmoid(precise(self.fade + torch.tanh(faded @ self.fade_into) @ self.fade_back))
        rate = torch.sigmoid(precise(self.rate + rated @ self.rate_into @ self.rate_back))
        query, key, value = precise(self.query(asked)), precise(self.key(keyed)), precise(self.value(valued))
        gate = torch.sigmoid(gate @ self.gate_into) @ self.gate_back
        with torch.autocast(x.device.type, enabled=False):
            removed, written = split(key * self.removal, self.heads), key * (1 + (rate - 1) * self.renewal)
            removed = unit(removed)
            own = split(query * self.bonus * written, self.heads).sum(-1, keepdim=True)
            query, written, value, fade, rate = (
                split(part, self.heads) for part in (query, written, value, fade, rate)
            )
            mixed = renewed_sums(query, written, value, removed, rate * removed, fade, RWKV7_CHUNK)
            normed = joined(layer_norm(mixed, mixed.shape[-1:], eps=HEAD_EPSILON)) * self.norm + self.norm_bias
            out = normed + joined(own * value)
        return self.output(out * gate)


def _low_rank(width: int, rank: int) -> tuple[nn.Parameter, nn.Parameter]:
    """D -> rank, which starts at 0, and back, a tenth of an orthogonal matrix."""
    back = torch.empty(rank, width)
    nn.init.orthogonal_(back, 0.1 * max(1.0, rank / width) ** 0.5)
    return nn.Parameter(torch.zeros(width, rank)), nn.Parameter(back)


def renewed_sums(
    query: Tensor, key: Tensor, value: Tensor, removed: Tensor, removal: Tensor, fade: Tensor, chunk: int
) -> Tensor:
    """q[i] S[i] of S[i] = diag(exp(fade[i])) S[i-1] - removal[i]^T (removed[i] S[i-1]) + k[i]^T v[i], from 0.

    Shapes: value (..., L, V), all others (..., L, K), fade from -0.61 to 0 -> (..., L, V). What is removed in a chunk,
    u = removed S, solves a triangular system, as in `delta_sums`. What fades between two positions is a product of two
    powers, taken from the middle of the chunk, so that both stay near 1.
    """
    length = query.shape[-2]
    chunk = min(chunk, length)
    query, key, value, removed, removal, fade = (
        in_chunks(x, chunk) for x in (query, key, value, removed, removal, fade)
    )
    total = fade.cumsum(-2)
    middle = total - total[..., chunk // 2, None, :]
    asking, looking = query * middle.exp(), removed * (middle - fade).exp()
    written, taken = key * (-middle).exp(), removal * (-middle).exp()
    into = (looking @ written.mT).tril(-1) @ value
    lower = (looking @ taken.mT).tril(-1)
    both = solved(lower, torch.cat([removed * (total - fade).exp(), into], -1))
    by_state, by_value = torch.split(both, [key.shape[-1], value.shape[-1]], -1)
    until = (total[..., -1:, :] - total).exp()
    end = total[..., -1:, :].exp().mT
    more = (key * until).mT @ value
    own = (asking @ written.mT).tril() @ value
    # read_states takes u with a minus: what is removed is -u.
    within = (asking @ taken.mT).tril()
    out = read_states(query * total.exp(), within, removal * until, -by_value, by_state, end, more)
    return (torch.stack(out, -3) + own).flatten(-3, -2)[..., :length, :]
