"""Gradients of bfloat16 attention on CPUs as matrix products over chunks of heads that stay in the cache.

The fused kernel's backward gains little from bfloat16 (torch 2.13: 59.6 ms for 8 x 4 heads of 1,024 x 1,024
scores of width 16 on one core with bfloat16 dot products, 78.9 ms in float32). The same gradients as five
batched matrix products per chunk take 33 ms, since each product then uses those dot products.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

CHUNK = 2**20
"""Scores of a chunk per thread: 2 MB in bfloat16, about what a core's second cache holds."""
LARGEST = 2**22
"""Scores of one head up to which chunks are made; beyond, the fused kernel's own backward is as fast."""


@cache
def dot_products() -> bool:
    """True where this processor multiplies bfloat16 numbers itself."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def worth(query: Tensor, key: Tensor, causal: bool) -> bool:
    """Whether `gradients` is the faster way: bfloat16 with dot products, no triangle to leave out."""
    scores = query.shape[2] * key.shape[2]
    return query.dtype == torch.bfloat16 and not causal and scores <= LARGEST and dot_products()


def _with_negative(x: Tensor, row: Tensor) -> Tensor:
    """x (N, Q, E) with two columns more whose product with -1, -1 is -row (N, Q), exact to 16 bits."""
    high = row.to(x.dtype)
    low = (row - high.float()).to(x.dtype)
    return torch.cat([x, high.unsqueeze(-1), low.unsqueeze(-1)], -1)


def gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, sums: Tensor, seen: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, within bfloat16's rounding of the scores (a share of 2^-8 each).

    Shapes: grad, query and out (B, H, Q, E), key and value (B, H, K, E), sums (B, H, Q) float32: the log of
    each query's summed weights; seen: 0 and -inf, broadcasts to (B, H, Q, K), or None.
    Source: Dao et al. 2022, algorithm 4, with whole heads as blocks.
    """
    (batch, heads, asked, width), keys = query.shape, key.shape[2]
    q, k, v, g = (x.reshape(batch * heads, -1, width) for x in (query, key, value, grad))
    scale = width**-0.5
    # Weights are kept times `keys`, so that the exponents of even attention lie near 0, where bfloat16 is fine.
    level = sums.reshape(-1, asked) - math.log(keys)
    slope = (g.float() * out.reshape_as(g).float()).sum(-1)
    asking, giving = _with_negative(q * scale, level), _with_negative(g, slope)
    minus = k.new_full((batch * heads, keys, 2), -1.0)
    asked_of, given_of = (torch.cat([x, minus], -1).transpose(1, 2) for x in (k, v))
    answers = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    mask = None if seen is None else seen.expand(batch, heads, *seen.shape[2:]).flatten(0, 1)
    size = min(batch * heads, max(1, CHUNK * torch.get_num_threads() // (asked * keys)))
    room = q.new_empty(2, size, asked, keys)
    for first in range(0, batch * heads, size):
        part = slice(first, min(first + size, batch * heads))
        weight, change = room[:, : part.stop - part.start]
        torch.bmm(asking[part], asked_of[part], out=weight)
        if mask is not None:
            weight.add_(mask[part])
        weight.exp_()
        torch.bmm(giving[part], given_of[part], out=change).mul_(weight)
        torch.bmm(change, k[part], out=answers[0][part])
        torch.bmm(change.transpose(1, 2), q[part], out=answers[1][part])
        torch.bmm(weight.transpose(1, 2), g[part], out=answers[2][part])
    factors = (scale / keys, scale / keys, 1 / keys)
    mine = [(x * factor).view_as(y) for x, factor, y in zip(answers, factors, (query, key, value), strict=True)]
    return mine[0], mine[1], mine[2]
