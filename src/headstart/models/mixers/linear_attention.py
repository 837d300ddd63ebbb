"""Attention without a softmax, by products of positive features: linear attention, and Performer (FAVOR+).

Letters: m features, c positions in a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.models.mixers.mixer import HeadsMixer, HeadsSpec, everywhere, head_width
from headstart.models.scan import gated_sums, gated_sums_flops, precise
from headstart.seeds import normal

FEATURE_CHUNK = 128  # positions whose weights are written out at once in the causal form: c x c beside m x d states


class LinearAttentionSpec(HeadsSpec):
    """Attention of `heads` heads without a softmax, at the cost of L D^2 / H.

    Raises: BadInput where `heads` does not divide the width.
    """

    kind: Literal["linear_attention"] = "linear_attention"

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return LinearAttention(self, width, length, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, and per head the sums of E x (E + 1) products."""
        each = width // self.heads
        return 8.0 * length * width**2 + self.heads * sums_flops(length, each, each, causal)


class LinearAttention(HeadsMixer):
    """Attention with weights phi(q_i) . phi(k_j), phi(x) = elu(x) + 1, divided by their sum.

    Cost O(L D^2 / H); causal by prefix sums of chunks.
    Source: Katharopoulos et al. 2020, "Transformers are RNNs", eq. 5 to 10; there is no factor 1 / sqrt(E).
    """

    def mix(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        with torch.autocast(value.device.type, enabled=False):
            key = positive(precise(key))
            key = key if valid is None else key * valid[:, None, :, None]
            return weighted_sums(positive(precise(query)), key, precise(value), self.causal)


def positive(x: Tensor) -> Tensor:
    """elu(x) + 1, written so that it never rounds to 0: expm1(x) + 1 is 0 in float32 below -17."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def weighted_sums(queries: Tensor, keys: Tensor, values: Tensor, causal: bool, scale: Tensor | None = None) -> Tensor:
    """sum_j w_ij v_j / sum_j w_ij with w_ij = exp(scale_j) queries_i . keys_j; causal: over j <= i only.

    Shapes: queries, keys (B, H, L, m), none below 0; values (B, H, L, d); scale (B, H, L) -> (B, H, L, d).
    A key whose features are all 0 is not there (padding). A query that no key answers, with a sum of weights
    below the root of the smallest float, gives 0. `scale` (causal only) keeps features in range where they
    differ by more than a float holds: sums are kept in units of the highest scale so far, so that no weight of an
    earlier position is ever compared with a later key. Cost O(L m d), causal O(L (m d + c m + c d)).
    """
    # A column of ones beside the values makes the sum of the weights.
    values = torch.cat([values, torch.ones_like(values[..., :1])], -1)
    if not causal:
        total = queries @ (keys.transpose(-1, -2) @ values)
    else:
        fade = torch.zeros_like(values[..., :1])
        if scale is not None:
            highest = running_maximum(scale)
            keys = keys * (scale - highest).exp()[..., None]
            fade = pad(highest[..., :-1] - highest[..., 1:], (1, 0))[..., None]
        total = gated_sums(queries, keys, values, fade, FEATURE_CHUNK)
    weight = total[..., -1:]
    answered = weight > torch.finfo(weight.dtype).tiny ** 0.5
    return total[..., :-1] * answered / torch.where(answered, weight, torch.ones_like(weight))


def sums_flops(length: int, features: int, width: int, causal: bool) -> float:
    """Of the products of one head of `weighted_sums` for values of `width`; positions padded to chunks."""
    if not causal:
        return 4.0 * length * features * (width + 1)
    return gated_sums_flops(length, FEATURE_CHUNK, features, width + 1)


def running_maximum(x: Tensor) -> Tensor:
    """(..., L): the largest of x (..., L) up to each position, of which no gradient is taken; ONNX has no cummax."""
    x, reach = x.detach(), 1
    while reach < x.shape[-1]:
        x = torch.cat([x[..., :reach], torch.maximum(x[..., reach:], x[..., :-reach])], -1)
        reach *= 2
    return x


class PerformerSpec(HeadsSpec):
    """Attention of `heads` heads with `features` random features each, 256 as in LRA (Tay et al. 2020).

    LRA's released code runs the source's ReLU kernel by default; this is its softmax kernel.

    The features are a function of the head width alone, not of the stage's seed: weights
    that move to another stage meet the same features there. Raises: BadInput where `heads` does not divide.
    """

    kind: Literal["performer"] = "performer"
    features: int = Field(default=256, ge=1)
    """Random features."""

    former: ClassVar[Mapping[str, Any]] = {"features_seed": 0}
    example: ClassVar[Mapping[str, Any]] = {"features": 24}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Performer(self, width, length, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, the features of queries and keys, and per head the sums over them."""
        each = width // self.heads
        features = 4.0 * length * width * self.features
        return 8.0 * length * width**2 + features + self.heads * sums_flops(length, self.features, each, causal)


class Performer(HeadsMixer):
    """Weights phi(q_i) . phi(k_j) with phi(x) = exp(W x - |x|^2 / 2), x = q or k over E^(1/4).

    Cost O(L D M) for M features. The mean of phi(q) . phi(k) over W is exp(q . k / sqrt(E)): it tends to softmax
    attention as features grow. Each head has the same W. No small number is added to the features, as released code
    does: the highest exponent is taken out of each query, and out of all keys (causal: of those up to the query),
    which cancels exactly.
    Source: Choromanski et al. 2021, "Rethinking attention with Performers", lemma 1 and section 2.4.
    """

    directions: Tensor

    def __init__(self, spec: PerformerSpec, width: int, length: int, causal: bool) -> None:
        super().__init__(spec, width, length, causal)
        directions = orthogonal_features(spec.features, head_width(spec.heads, width))
        # Not learned and rebuilt from the spec: no part of the saved weights.
        self.register_buffer("directions", directions.to(torch.get_default_dtype()), persistent=False)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        with torch.autocast(value.device.type, enabled=False):
            there = everywhere(value[:, 0], valid)[:, None, :]
            return self._mixed(precise(query), precise(key), precise(value), there)

    def _mixed(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor) -> Tensor:
        """(B, H, L, E) each, valid (B, 1, L) -> (B, H, L, E)."""
        query, key = (part * part.shape[-1] ** -0.25 for part in (query, key))
        directions = self.directions.to(query.dtype).T
        # |q|^2 / 2 and the highest exponent are the same for every feature of a query, and cancel.
        queries = query @ directions
        queries = (queries - queries.detach().amax(-1, keepdim=True)).exp()
        keys = key @ directions - key.square().sum(-1, keepdim=True) / 2
        low = torch.full((), torch.finfo(keys.dtype).min / 4, dtype=keys.dtype)
        highest = torch.where(valid, keys.detach().amax(-1), low)
        top = highest if self.causal else highest.amax(-1, keepdim=True)
        keys = (keys - top[..., None]).clamp(max=0).exp() * valid[..., None]
        return weighted_sums(queries, keys, value, self.causal, highest if self.causal else None)


def orthogonal_features(features: int, width: int, seed: int = 0) -> Tensor:
    """(features, width) float64: rows in blocks of `width` orthogonal ones, each as long as a normal vector.

    Within a block the directions are uniform on the sphere (QR of a normal matrix with positive diagonal).
    """
    blocks = -(-features // width)
    grid = np.ix_(np.arange(blocks), np.arange(width), np.arange(width))
    q, r = np.linalg.qr(normal(seed, "performer/directions", *grid))
    turned = q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[:, None, :]
    rows = np.swapaxes(turned, -1, -2).reshape(blocks * width, width)[:features]
    lengths = normal(seed, "performer/lengths", *np.ix_(np.arange(features), np.arange(width)))
    return torch.from_numpy(rows * np.sqrt((lengths**2).sum(-1, keepdims=True)))
