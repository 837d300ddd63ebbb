"""Attention whose weights are products of positive features: sums over keys instead of an L x L matrix.

Letters: m features, c positions in a chunk, n chunks. Shared by linear attention and performer.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

CHUNK = 128  # positions whose weights are written out at once in the causal form: c x c beside m x d states


def weighted_sums(
    queries: Tensor, keys: Tensor, values: Tensor, causal: bool, scale: Tensor | None = None
) -> Tensor:
    """sum_j w_ij v_j / sum_j w_ij with w_ij = exp(scale_j) queries_i . keys_j; causal: over j <= i only.

    Shapes: queries, keys (B, H, L, m), none below 0; values (B, H, L, d); scale (B, H, L) -> (B, H, L, d).
    A key whose features are all 0 is not there (padding). A query that no key answers gives 0. `scale`
    (causal only) keeps features in range where they differ by more than a float holds: no weight of an
    earlier position is ever compared with a later key. Cost O(L m d), causal O(L (m d + c m + c d)).
    """
    # A column of ones beside the values makes the sum of the weights.
    values = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    if not causal:
        total = queries @ (keys.transpose(-1, -2) @ values)
    else:
        total = _prefix(queries, keys, values, scale)
    weight = total[..., -1:]
    return total[..., :-1] / torch.where(weight > 0, weight, torch.ones_like(weight))


def flops(length: int, features: int, width: int, causal: bool) -> float:
    """Of the products of one head of `weighted_sums` for values of `width`; positions padded to chunks."""
    if not causal:
        return 4.0 * length * features * (width + 1)
    chunk = min(CHUNK, length)
    padded = -(-length // chunk) * chunk
    return 2.0 * padded * (chunk * features + chunk * (width + 1) + 2 * features * (width + 1))


def _prefix(queries: Tensor, keys: Tensor, values: Tensor, scale: Tensor | None) -> Tensor:
    """(B, H, L, d): sums over j <= i, chunk by chunk: what came before a chunk enters as one m x d state."""
    length = queries.shape[-2]
    chunk = min(CHUNK, length)
    missing = -length % chunk
    queries, keys, values = (
        torch.unflatten(pad(x, (0, 0, 0, missing)), -2, (-1, chunk)) for x in (queries, keys, values)
    )
    inside = (queries @ keys.transpose(-1, -2)).tril()
    if scale is None:
        states = (keys.transpose(-1, -2) @ values).cumsum(-3)
        # A chunk's own state is shifted away, not subtracted: a difference would leave a trace of it.
        before = queries @ pad(states[..., :-1, :, :], (0, 0, 0, 0, 1, 0))
    else:
        # A padded position takes the last scale, which changes no running maximum.
        scale = torch.cat([scale, scale[..., -1:].expand(*scale.shape[:-1], missing)], -1)
        highest = torch.unflatten(scale.cummax(-1).values, -1, (-1, chunk))
        scale = torch.unflatten(scale, -1, (-1, chunk))
        # Above the diagonal the difference may be huge; it is cut before exp, not after (0 x inf is NaN).
        inside = inside * (scale[..., None, :] - highest[..., None]).clamp(max=0).exp()
        before = _scaled_states(queries, keys, values, scale, highest)
    return (inside @ values + before).flatten(-3, -2)[..., :length, :]


def _scaled_states(queries: Tensor, keys: Tensor, values: Tensor, scale: Tensor, highest: Tensor) -> Tensor:
    """What chunks before its own give to each query, in units of exp(highest scale up to the query)."""
    top = scale.amax(-1)
    own = (keys * (scale - top[..., None]).exp()[..., None]).transpose(-1, -2) @ values
    end = highest[..., -1]  # (B, H, n): highest scale up to the end of each chunk
    state, out = torch.zeros_like(own[..., 0, :, :]), [torch.zeros_like(values[..., 0, :, :])]
    for i in range(1, own.shape[-3]):
        last = end[..., i - 1]
        fade = (end[..., max(i - 2, 0)] - last).exp()[..., None, None]
        state = state * fade + own[..., i - 1, :, :] * (top[..., i - 1] - last).exp()[..., None, None]
        seen = (last[..., None] - highest[..., i, :]).exp()[..., None]
        out.append(queries[..., i, :, :] @ state * seen)
    return torch.stack(out, -3)
