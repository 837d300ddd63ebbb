"""Performer: softmax attention estimated without bias from positive orthogonal random features (FAVOR+)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.linear_attention import sums_flops, weighted_sums
from headstart.models.mixers.projections import PARTS, HeadsSpec, everywhere, joined, precise, split
from headstart.seeds import Draw, normal
from headstart.spec import Seed


class PerformerSpec(HeadsSpec):
    """Attention of `heads` heads with `features` random features each, 256 as in LRA (Tay et al. 2020).

    LRA's released code runs the source's ReLU kernel by default; this is its softmax kernel.

    The features are a function of `features_seed` and the head width alone, not of the stage's seed: weights
    that move to another stage meet the same features there. Raises: BadInput where `heads` does not divide.
    """

    kind: Literal["performer"] = "performer"
    features: int = Field(default=256, ge=1)
    features_seed: Seed = 0

    example: ClassVar[Mapping[str, Any]] = {"features": 24}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module, for any length."""
        del length
        return Performer(self, width, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, the features of queries and keys, and per head the sums over them."""
        each = width // self.heads
        features = 4.0 * length * width * self.features
        return 8.0 * length * width**2 + features + self.heads * sums_flops(length, self.features, each, causal)


class Performer(nn.Module):
    """Weights phi(q_i) . phi(k_j) with phi(x) = exp(W x - |x|^2 / 2), x = q or k over E^(1/4).

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Cost O(L D M) for M features. The mean of
    phi(q) . phi(k) over W is exp(q . k / sqrt(E)): it tends to softmax attention as features grow. Each head
    has the same W. No small number is added to the features, as released code does: the highest exponent is
    taken out of each query, and out of all keys (causal: of those up to the query), which cancels exactly.
    Source: Choromanski et al. 2021, "Rethinking attention with Performers", lemma 1 and section 2.4.
    """

    parts = PARTS
    directions: Tensor

    def __init__(self, spec: PerformerSpec, width: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = spec.heads, causal
        self.query, self.key, self.value, self.output = spec.layers(4, width)
        directions = orthogonal_features(spec.features, spec.head_width(width), spec.features_seed)
        # Not learned and rebuilt from the spec: no part of the saved weights.
        self.register_buffer("directions", directions.to(torch.get_default_dtype()), persistent=False)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        with torch.autocast(x.device.type, enabled=False):
            mixed = self._mixed(precise(q), precise(k), precise(v), everywhere(x, valid)[:, None, :])
        out: Tensor = self.output(joined(mixed).to(v.dtype))
        return out

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


def orthogonal_features(features: int, width: int, seed: int) -> Tensor:
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
