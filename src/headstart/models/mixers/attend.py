"""softmax(Q K^T / sqrt(E)) V without a written score matrix, for one model and for stacks of models.

On CPUs the fused kernel of `scaled_dot_product_attention` has no batching rule (torch 2.13), so that a
stack of models falls back to a loop with a warning. Here the kernel stands in a function that has one: it
folds the stacked axis into the batch. Elsewhere torch's own call is used, which batches by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from headstart.models.mixers import half

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None = None, causal: bool = False) -> Tensor:
    """Each query's softmax-weighted mean of the values of the keys that it sees.

    Shapes: query (B, H, Q, E), key and value (B, H, K, E) -> (B, H, Q, E). `seen`: bool, broadcasts to
    (B, H, Q, K), True where a query sees a key; a query that sees none (padding) sees all, so that nothing
    becomes NaN. `causal`: query i sees keys 0..i (not together with `seen`). Memory O(Q + K) beside `seen`,
    and in bfloat16 at most 16 MB or 4 MB per thread for gradients (`half.py`).
    """
    if seen is not None:
        seen = seen | ~seen.any(-1, keepdim=True)
    if query.device.type != "cpu":
        return scaled_dot_product_attention(query, key, value, attn_mask=seen, is_causal=causal)
    if seen is not None:
        nothing = torch.zeros((), dtype=query.dtype)
        seen = torch.where(seen, nothing, nothing - torch.inf)
    out: Tensor = _Fused.apply(query, key, value, seen, causal)[0]  # type: ignore[no-untyped-call]
    return out


def _fold(tensors: Any, dims: Any, size: int) -> list[Tensor]:
    """Tensors (B, ...) with a stacked axis at `dims` (None: shared by the stack) as (size B, ...)."""
    return [
        (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        for x, dim in zip(tensors, dims, strict=True)
    ]


def _fold_mask(seen: Tensor | None, dim: int | None, size: int, batch: int) -> Tensor | None:
    """The same for a mask, whose batch axis may be 1 and then stays so where the stack shares it."""
    if seen is None or (dim is None and seen.shape[0] == 1):
        return seen
    seen = seen.expand(size, *seen.shape) if dim is None else seen.movedim(dim, 0)
    return seen.expand(size, batch, *seen.shape[2:]).flatten(0, 1)


class _Fused(torch.autograd.Function):
    """(query, key, value, mask of 0 and -inf or None, causal) -> output (B, H, Q, E), log sums (B, H, Q)."""

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool) -> Any:
        out, sums = _forward(query, key, value, 0.0, causal, attn_mask=seen)
        return out, sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        query, key, value, seen, ctx.causal = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(query, key, value, seen, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        query, key, value, seen, out, sums = ctx.saved_tensors
        given = (grad, query, key, value, out, sums, seen, ctx.causal)
        grads = _FusedBackward.apply(*given)  # type: ignore[no-untyped-call]
        return *grads, None, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> Any:
        query, key, value, seen, causal = inputs
        folded = _fold((query, key, value), dims[:3], info.batch_size)
        batch = folded[0].shape[0] // info.batch_size
        seen = _fold_mask(seen, dims[3], info.batch_size, batch)
        out, sums = _Fused.apply(*folded, seen, causal)  # type: ignore[no-untyped-call]
        return tuple(torch.unflatten(x, 0, (info.batch_size, batch)) for x in (out, sums)), (0, 0)


class _FusedBackward(torch.autograd.Function):
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
        if half.worth(query, key, causal):
            return half.gradients(grad, query, key, value, out, sums, seen)
        return tuple(_backward(grad, query, key, value, out, sums, 0.0, causal, attn_mask=seen))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept: there are no second derivatives."""

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise NotImplementedError("attention has no second derivatives")

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Any) -> Any:
        *tensors, seen, causal = inputs
        folded = _fold(tensors, dims[:6], info.batch_size)
        batch = folded[0].shape[0] // info.batch_size
        seen = _fold_mask(seen, dims[6], info.batch_size, batch)
        grads = _FusedBackward.apply(*folded, seen, causal)  # type: ignore[no-untyped-call]
        return tuple(torch.unflatten(x, 0, (info.batch_size, batch)) for x in grads), (0, 0, 0)
