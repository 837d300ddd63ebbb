"""softmax(Q K^T / sqrt(E)) V: the one place where attention scores are computed.

`attention_weights` writes the score matrix out: for short inputs, scores with a bias, maps of heads and graphs.
`attend` runs the fused kernel wherever it may. On CPUs that kernel has no batching rule (torch 2.13), so that a stack
of models falls back to a loop with a warning. Here it stands in a function that has one: it folds the stacked axis
into the batch. On a GPU torch's own call is used, which chooses a kernel; of a stack it is given the folded tensors.

In bfloat16 the fused kernel's backward gains little (torch 2.13: 59.6 ms for 8 x 4 heads of 1,024 x 1,024 scores of
width 16 on one core with bfloat16 dot products, 78.9 ms in float32). The same gradients as five batched matrix products
per chunk of heads that stays in the cache take 33 ms, since each product then uses those dot products. Where the
weights are few enough to be kept from the forward pass, which then goes through the same chunks, one of the five is
spared: 32 x 4 heads of 256 x 256 scores take 23 ms forward and backward in place of 30 (AMD EPYC, 2026-11-26).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from headstart.models.mixers.flash import applies, flash
from headstart.models.scan import Gradient, folded

CHUNK_SCORES = 2**20
"""bfloat16 scores of a chunk per thread: 2 MB, about what a core's second cache holds."""
KEPT = 2**24
"""bfloat16 weights of a call that are kept for its gradients: 32 MB a layer, as many as one of 256 positions has in a
batch of 64 with 4 heads; of more they are computed again."""
CHUNKED_SCORES = 2**22
"""Scores of one head up to which chunks are made; beyond, the fused kernel's own backward is as fast."""

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def attention_weights(
    query: Tensor, key: Tensor, seen: Tensor | None = None, causal: bool = False, bias: Tensor | None = None
) -> Tensor:
    """softmax(Q K^T / sqrt(E) + bias) over the keys that each query sees, written out.

    Shapes: query (..., Q, E), key (..., K, E) -> (..., Q, K); `seen` and `bias` broadcast to it. `causal`: query i sees
    keys 0..i (not together with `seen`). A query that sees no key (padding) sees all, so that nothing becomes NaN.
    """
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    scores = scores if bias is None else scores + bias.to(scores.dtype)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    elif seen is not None:
        seen = _or_all(seen)
    return (scores if seen is None else scores.masked_fill(~seen, -torch.inf)).softmax(-1)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Tensor | None = None,
    causal: bool = False,
    short: int = 0,
    bias: Tensor | None = None,
    run: bool = False,
) -> Tensor:
    """Each query's softmax-weighted mean of the values of the keys that it sees.

    Shapes: query (B, H, Q, E), key and value (B, H, K, E) -> (B, H, Q, E); the rest as in `attention_weights`. `short`:
    up to this many queries plain matrix products are used on a CPU, and always with a `bias` (the fused kernel gives a
    mask no gradient). Memory O(Q + K) beside `seen`, in bfloat16 at most 16 MB or 4 MB per thread more for gradients,
    and 32 MB of kept weights; O(Q K) where the weights are written out. `run`: all queries of a row see the same keys,
    which lie side by side (or, where K > Q, key i + K - Q and all before it), so that the flash kernel may be taken
    (see `flash.py`).
    """
    cpu = query.device.type == "cpu"
    if torch.compiler.is_exporting() or bias is not None or (cpu and query.shape[2] <= short):
        return torch.matmul(attention_weights(query, key, seen, causal, bias), value)
    if run and seen is not None and applies(query):
        band = seen.shape[-2] > 1
        row = None if band else seen[:, 0, 0].expand(len(query), -1)
        return flash(query, key, value, row, causal=band)
    seen = None if seen is None else _or_all(seen)
    if not cpu:
        return fused(query, key, value, seen, causal)
    if seen is not None:
        zero = torch.zeros((), dtype=query.dtype)
        seen = torch.where(seen, zero, zero - torch.inf)
    keep = torch.is_grad_enabled()
    return _Fused.apply(query, key, value, seen, causal, keep)[0]  # type: ignore[no-untyped-call]


def fused(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool) -> Tensor:
    """torch's fused attention; a stack of models is one larger batch for it. seen: bool, as of `attend`."""
    if any(map(torch._C._functorch.is_batchedtensor, (query, key, value))):
        return _Folded.apply(query, key, value, seen, causal)[0]  # type: ignore[no-untyped-call]
    return scaled_dot_product_attention(query, key, value, attn_mask=seen, is_causal=causal)


class _Folded(torch.autograd.Function):
    """`fused` of a stack, whose gradients are those of torch's own call on the folded tensors."""

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool) -> Any:
        return (fused(query, key, value, seen, causal),)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept: the rule below never comes here."""

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> Any:
        *tensors, seen, causal = inputs
        query, key, value = folded(tensors, dims[:3], info.batch_size, (0, 0, 0))
        batch = query.shape[0] // info.batch_size
        out = fused(query, key, value, _fold_mask(seen, dims[3], info.batch_size, batch), causal)
        return (torch.unflatten(out, 0, (info.batch_size, batch)),), (0,)


def _or_all(seen: Tensor) -> Tensor:
    return seen | ~seen.any(-1, keepdim=True)


def _fold_mask(seen: Tensor | None, dim: int | None, size: int, batch: int) -> Tensor | None:
    """`folded` of a mask, whose batch axis may be 1 and then stays so where the stack shares it."""
    if seen is None or (dim is None and seen.shape[0] == 1):
        return seen
    seen = seen.expand(size, *seen.shape) if dim is None else seen.movedim(dim, 0)
    return seen.expand(size, batch, *seen.shape[2:]).flatten(0, 1)


def _stacked(function: Any, count: int, info: Any, dims: tuple[int | None, ...], inputs: tuple[Any, ...]) -> Any:
    """`function` of `count` tensors, a mask and settings, with the stacked axis folded into the batch."""
    tensors, seen, settings = inputs[:count], inputs[count], inputs[count + 1 :]
    rows = folded(tensors, dims[:count], info.batch_size, (0,) * count)
    batch = rows[0].shape[0] // info.batch_size
    out = function.apply(*rows, _fold_mask(seen, dims[count], info.batch_size, batch), *settings)
    return tuple(torch.unflatten(x, 0, (info.batch_size, batch)) for x in out), (0,) * len(out)


class _Fused(torch.autograd.Function):
    """(query, key, value, mask of 0 and -inf or None, causal, keep) -> output (B, H, Q, E), and what gradients need.

    That is the weights (B, H, Q, K) where they are kept, else log sums (B, H, Q).
    """

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool, keep: bool) -> Any:
        scores = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        if keep and scores <= KEPT and worth_chunks(query, key, causal):
            return chunked_means(query, key, value, seen)
        out, sums = _forward(query, key, value, 0.0, causal, attn_mask=seen)
        return out, sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        query, key, value, seen, ctx.causal, _ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, seen, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        query, key, value, seen, out, sums = ctx.saved_tensors
        inputs = (grad, query, key, value, out, sums, seen, ctx.causal)
        grads = _FusedBackward.apply(*inputs)  # type: ignore[no-untyped-call]
        return *grads, None, None, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _stacked(_Fused, 3, info, dims, inputs)


class _FusedBackward(Gradient):
    """Gradients of query, key and value."""

    @staticmethod
    def forward(
        grad: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        sums: Tensor,
        seen: Tensor | None,
        causal: bool,
    ) -> Any:
        if sums.dim() == 4 or worth_chunks(query, key, causal):
            return chunked_gradients(grad, query, key, value, out, sums, seen)
        return tuple(_backward(grad, query, key, value, out, sums, 0.0, causal, attn_mask=seen))

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _stacked(_FusedBackward, 6, info, dims, inputs)


@cache
def dot_products() -> bool:
    """True where this processor multiplies bfloat16 numbers itself."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def worth_chunks(query: Tensor, key: Tensor, causal: bool) -> bool:
    """Whether chunks of heads are the faster way: bfloat16 with dot products, no triangle to leave out."""
    scores = query.shape[2] * key.shape[2]
    return query.dtype == torch.bfloat16 and not causal and scores <= CHUNKED_SCORES and dot_products()


def _chunks(rows: int, scores: int) -> list[slice]:
    """Slices of so many heads with so many scores each, of which one has at most `CHUNK_SCORES` per thread."""
    size = min(rows, max(1, CHUNK_SCORES * torch.get_num_threads() // scores))
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


def _mask_of_heads(seen: Tensor | None, batch: int, heads: int) -> Tensor | None:
    return None if seen is None else seen.expand(batch, heads, *seen.shape[2:]).flatten(0, 1)


def _with_negative(x: Tensor, row: Tensor) -> Tensor:
    """x (N, Q, E) with two columns more whose product with -1, -1 is -row (N, Q), exact to 16 bits."""
    high = row.to(x.dtype)
    low = (row - high.float()).to(x.dtype)
    return torch.cat([x, high.unsqueeze(-1), low.unsqueeze(-1)], -1)


def chunked_means(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """Each query's weighted mean of the values, and all weights; scores are float32, the weights alone are rounded.

    Shapes: query (B, H, Q, E), key and value (B, H, K, E) -> (B, H, Q, E), (B, H, Q, K); seen: 0 and -inf, broadcasts
    to the weights, or None.
    """
    (batch, heads, queries, width), keys = query.shape, key.shape[2]
    q, k, v = (x.reshape(batch * heads, -1, width) for x in (query.float() * width**-0.5, key.float(), value))
    mask, turned = _mask_of_heads(seen, batch, heads), k.transpose(1, 2)
    out, weights = (v.new_empty(len(q), queries, size) for size in (width, keys))
    parts = _chunks(len(q), 2 * queries * keys)
    buffer = q.new_empty(parts[0].stop, queries, keys)
    for part in parts:
        scores = torch.bmm(q[part], turned[part], out=buffer[: part.stop - part.start])
        if mask is not None:
            scores.add_(mask[part])
        weights[part] = torch.softmax(scores, -1, out=scores)
        torch.bmm(weights[part], v[part], out=out[part])
    return out.view(batch, heads, queries, width), weights.view(batch, heads, queries, keys)


def chunked_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, sums: Tensor, seen: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, within bfloat16's rounding of the scores (a share of 2^-8 each).

    Shapes: grad, query and out (B, H, Q, E), key and value (B, H, K, E); sums: the weights (B, H, Q, K), or (B, H, Q)
    float32, the log of each query's summed weights; seen: 0 and -inf, broadcasts to the weights, or None.
    Source: Dao et al. 2022, algorithm 4, with whole heads as blocks.
    """
    (batch, heads, queries, width), keys = query.shape, key.shape[2]
    q, k, v, g = (x.reshape(batch * heads, -1, width) for x in (query, key, value, grad))
    scale, mask = width**-0.5, _mask_of_heads(seen, batch, heads)
    minus = k.new_full((batch * heads, keys, 2), -1.0)
    k_wide, v_wide = (torch.cat([x, minus], -1).transpose(1, 2) for x in (k, v))
    slope = (g.float() * out.reshape_as(g).float()).sum(-1)
    g_wide = _with_negative(g, slope)
    again = sums.dim() == 3
    if again:
        # Weights are computed times `keys`, so that the exponents of even attention lie near 0, where bfloat16 is fine.
        q_wide = _with_negative(q * scale, sums.reshape(-1, queries) - math.log(keys))
    grads = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    parts = _chunks(batch * heads, queries * keys)
    buffers = q.new_empty(1 + again, parts[0].stop, queries, keys)
    for part in parts:
        change = buffers[0, : part.stop - part.start]
        weight = buffers[1, : part.stop - part.start] if again else sums.flatten(0, 1)[part]
        if again:
            torch.bmm(q_wide[part], k_wide[part], out=weight)
            if mask is not None:
                weight.add_(mask[part])
            weight.exp_()
        torch.bmm(g_wide[part], v_wide[part], out=change).mul_(weight)
        torch.bmm(change, k[part], out=grads[0][part])
        torch.bmm(change.transpose(1, 2), q[part], out=grads[1][part])
        torch.bmm(weight.transpose(1, 2), g[part], out=grads[2][part])
    times = keys if again else 1
    factors = (scale / times, scale / times, 1 / times)
    scaled = [(x * factor).view_as(y) for x, factor, y in zip(grads, factors, (query, key, value), strict=True)]
    return scaled[0], scaled[1], scaled[2]


@dataclass(frozen=True)
class AttentionView:
    """What a mixer's heads attend with: query and key (B, H, L, E), and who sees whom, seen (B, L, L) bool.

    An invalid position sees nothing and is seen by none. bias: (H, L, L), added to the scores, or None.
    """

    query: Tensor
    key: Tensor
    seen: Tensor
    bias: Tensor | None = None

    @property
    def heads(self) -> int:
        """H."""
        return self.query.shape[1]

    def weights(self, example: int, head: int) -> Tensor:
        """(L, L) float64: how much each position attends to each; 0 where it does not see it."""
        seen = self.seen[example]
        query, key = (x[example, head].double() for x in (self.query, self.key))
        bias = None if self.bias is None else self.bias[head]
        return attention_weights(query, key, seen, bias=bias).masked_fill(~seen, 0.0)


def visible_pairs(valid: Tensor, causal: bool) -> Tensor:
    """(B, L, L) bool: valid positions see valid ones (valid (B, L)), and no later ones where causal."""
    seen = valid[:, None, :] & valid[:, :, None]
    return seen.tril() if causal else seen
