"""Attention without a softmax: weights that are products of positive features, of linear attention and performer.

Letters: m features, c positions in a chunk, n chunks.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.models.mixers.projections import PARTS, HeadsSpec, everywhere, joined, precise, split
from headstart.seeds import Draw

CHUNK = 128  # positions whose weights are written out at once in the causal form: c x c beside m x d states


class LinearAttentionSpec(HeadsSpec):
    """Attention of `heads` heads without a softmax, at the cost of L D^2 / H.

    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["linear_attention"] = "linear_attention"

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module, for any length."""
        del length
        return LinearAttention(self, width, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, and per head the sums of E x (E + 1) products."""
        each = width // self.heads
        return 8.0 * length * width**2 + self.heads * sums_flops(length, each, each, causal)


class LinearAttention(nn.Module):
    """Attention with weights phi(q_i) . phi(k_j), phi(x) = elu(x) + 1, divided by their sum.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Cost O(L D^2 / H); causal by prefix
    sums of chunks.
    Source: Katharopoulos et al. 2020, "Transformers are RNNs", eq. 5 to 10; there is no factor 1 / sqrt(E).
    """

    parts = PARTS

    def __init__(self, spec: LinearAttentionSpec, width: int, causal: bool) -> None:
        super().__init__()
        spec.head_width(width)
        self.heads, self.causal = spec.heads, causal
        self.query, self.key, self.value, self.output = spec.layers(4, width)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        with torch.autocast(x.device.type, enabled=False):
            keys = positive(precise(k)) * everywhere(x, valid)[:, None, :, None]
            mixed = weighted_sums(positive(precise(q)), keys, precise(v), self.causal)
        out: Tensor = self.output(joined(mixed).to(v.dtype))
        return out


def positive(x: Tensor) -> Tensor:
    """elu(x) + 1, written so that it never rounds to 0: expm1(x) + 1 is 0 in float32 below -17."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def weighted_sums(queries: Tensor, keys: Tensor, values: Tensor, causal: bool, scale: Tensor | None = None) -> Tensor:
    """sum_j w_ij v_j / sum_j w_ij with w_ij = exp(scale_j) queries_i . keys_j; causal: over j <= i only.

    Shapes: queries, keys (B, H, L, m), none below 0; values (B, H, L, d); scale (B, H, L) -> (B, H, L, d).
    A key whose features are all 0 is not there (padding). A query that no key answers, with a sum of weights
    below the root of the smallest float, gives 0. `scale` (causal only) keeps features in range where they
    differ by more than a float holds: no weight of an earlier position is ever compared with a later key.
    Cost O(L m d), causal O(L (m d + c m + c d)).
    """
    # A column of ones beside the values makes the sum of the weights.
    values = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    if not causal:
        total = queries @ (keys.transpose(-1, -2) @ values)
    else:
        total = _prefix(queries, keys, values, scale)
    weight = total[..., -1:]
    answered = weight > torch.finfo(weight.dtype).tiny ** 0.5
    mean: Tensor = total[..., :-1] * answered / torch.where(answered, weight, torch.ones_like(weight))
    return mean


def sums_flops(length: int, features: int, width: int, causal: bool) -> float:
    """Of the products of one head of `weighted_sums` for values of `width`; positions padded to chunks."""
    if not causal:
        return 4.0 * length * features * (width + 1)
    chunk = min(CHUNK, length)
    padded = -(-length // chunk) * chunk
    inside = 2.0 * padded * chunk * (features + width + 1)
    return inside + 4.0 * (padded - chunk) * features * (width + 1)


def _prefix(queries: Tensor, keys: Tensor, values: Tensor, scale: Tensor | None) -> Tensor:
    """(B, H, L, d): sums over j <= i, chunk by chunk: what came before a chunk enters as one m x d state."""
    length = queries.shape[-2]
    chunk = min(CHUNK, length)
    missing = -length % chunk
    queries, keys, values = (
        torch.unflatten(pad(x, (0, 0, 0, missing)), -2, (-1, chunk)) for x in (queries, keys, values)
    )
    inside = (queries @ keys.transpose(-1, -2)).tril()
    highest = None
    if scale is not None:
        # A padded position takes the last scale, which changes no running maximum.
        scale = torch.cat([scale, scale[..., -1:].expand(*scale.shape[:-1], missing)], -1)
        highest = torch.unflatten(running_maximum(scale), -1, (-1, chunk))
        scale = torch.unflatten(scale, -1, (-1, chunk))
        # Above the diagonal the difference may be huge; it is cut before exp, not after (0 x inf is NaN).
        inside = inside * (scale[..., None, :] - highest[..., None]).clamp(max=0).exp()
    total = inside @ values
    if queries.shape[-3] > 1:
        if scale is None or highest is None:
            states = (keys[..., :-1, :, :].transpose(-1, -2) @ values[..., :-1, :, :]).cumsum(-3)
            before = queries[..., 1:, :, :] @ states
        else:
            before = _scaled(queries, keys, values, scale, highest)
        total = total + pad(before, (0, 0, 0, 0, 1, 0))
    return total.flatten(-3, -2)[..., :length, :]


def running_maximum(x: Tensor) -> Tensor:
    """(..., L): the largest of x (..., L) up to each position, of which no gradient is taken; ONNX has no cummax."""
    x, reach = x.detach(), 1
    while reach < x.shape[-1]:
        x = torch.cat([x[..., :reach], torch.maximum(x[..., reach:], x[..., :-reach])], -1)
        reach *= 2
    return x


def _scaled(queries: Tensor, keys: Tensor, values: Tensor, scale: Tensor, highest: Tensor) -> Tensor:
    """(B, H, n - 1, c, d): what earlier chunks give, in units of exp(highest scale up to the query)."""
    scale = scale[..., :-1, :]
    top = scale.amax(-1)
    weighted = keys[..., :-1, :, :] * (scale - top[..., None]).exp()[..., None]
    own = weighted.transpose(-1, -2) @ values[..., :-1, :, :]
    end = highest[..., -1]  # (B, H, n): highest scale up to the end of each chunk
    state, out = torch.zeros_like(own[..., 0, :, :]), []
    for i in range(own.shape[-3]):
        fade = (end[..., max(i - 1, 0)] - end[..., i]).exp()[..., None, None]
        state = state * fade + own[..., i, :, :] * (top[..., i] - end[..., i]).exp()[..., None, None]
        seen = (end[..., i, None] - highest[..., i + 1, :]).exp()[..., None]
        out.append(queries[..., i + 1, :, :] @ state * seen)
    return torch.stack(out, -3)
