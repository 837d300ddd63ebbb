"""The flash kernel for queries that see a run of keys: ragged batches, windows. Only GPUs have it, in half precision.

torch's own fused attention takes a mask there, and with a mask it takes a slower kernel that reads the mask. The flash
kernel knows no mask, but sequences of different lengths that lie one after another. The keys of each row are therefore
told to it as three sequences, before the run, the run, and after it; all queries of the row belong to the second. No
number is read back from the GPU and no shape depends on data, so that a step can be recorded.

It is off unless the environment says `HEADSTART_FLASH=1`: unmeasured (docs/benchmarks/gpu.md).
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

WIDEST_HEAD = 256
"""Width of a head up to which the kernel is made; it takes multiples of 8."""


def applies(query: Tensor) -> bool:
    """Whether the kernel is asked for, and has a form for these queries (B, H, Q, E), which no stack holds."""
    if os.environ.get("HEADSTART_FLASH") != "1" or not query.is_cuda:
        return False
    if torch._C._functorch.is_batchedtensor(query) or torch.compiler.is_exporting():
        return False
    width = query.shape[-1]
    return precision(query) in (torch.bfloat16, torch.float16) and width % 8 == 0 and width <= WIDEST_HEAD


def precision(x: Tensor) -> torch.dtype:
    """The type that a product of `x` has here: mixed precision's, where that is on."""
    return torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype


def runs(seen: Tensor) -> tuple[Tensor, Tensor]:
    """Where the run of seen keys begins in each row of seen (N, K) bool, and how long it is; all keys where none is."""
    count = seen.sum(-1)
    first = torch.where(count > 0, seen.int().argmax(-1), 0)
    return first, torch.where(count > 0, count, seen.shape[-1])


def boundaries(first: Tensor, count: Tensor, keys: int, queries: int) -> tuple[Tensor, Tensor]:
    """Cumulative lengths (3 N + 1,) int32, of keys and of queries, of the three sequences of each of N rows."""
    none = torch.zeros_like(first)
    of_keys = torch.stack([first, count, keys - first - count], 1)
    of_queries = torch.stack([none, none + queries, none], 1)
    ends = (torch.cat([none[:1], x.reshape(-1).cumsum(0)]) for x in (of_keys, of_queries))
    keys_end, queries_end = (x.to(torch.int32) for x in ends)
    return keys_end, queries_end


def varlen(query: Tensor, key: Tensor, value: Tensor, *ends_and_sizes: Any, causal: bool) -> Tensor:
    """torch's flash kernel on sequences that lie one after another: (T, H, E); causal ones end together."""
    from torch.nn.attention.varlen import varlen_attn

    out = varlen_attn(query, key, value, *ends_and_sizes, window_size=(-1, 0) if causal else (-1, -1))
    assert isinstance(out, Tensor)
    return out


def flash(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, causal: bool) -> Tensor:
    """Attention of all queries of a row to one run of its keys.

    Shapes: query (B, H, Q, E), key and value (B, H, K, E) -> (B, H, Q, E). seen: (B, K) bool, True side by side, or
    None for all keys. causal: query i sees keys up to i + K - Q, so that the last sees the last.
    """
    batch, _, queries, _ = query.shape
    keys, dtype = key.shape[2], precision(query)
    if seen is None:
        seen = torch.ones(batch, keys, dtype=torch.bool, device=query.device)
    keys_end, queries_end = boundaries(*runs(seen), keys, queries)
    packed = (x.transpose(1, 2).flatten(0, 1).to(dtype) for x in (query, key, value))
    out = varlen(*packed, queries_end, keys_end, queries, keys, causal=causal)
    return torch.unflatten(out, 0, (batch, queries)).transpose(1, 2)
