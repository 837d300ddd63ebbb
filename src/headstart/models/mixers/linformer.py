"""Linformer: attention to a learned projection of the length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.attend import attend
from headstart.models.mixers.projections import PARTS, HeadsSpec, joined, split
from headstart.seeds import Draw


class LinformerSpec(HeadsSpec):
    """Attention of `heads` heads to `rank` mixtures of all positions (256 in the source; LRA's code has 16).

    shared: one projection of the length for keys and values, or one for each; the heads share it.
    Raises: BadInput where it should be causal (a mixture of all positions holds later ones too), and where
    `heads` does not divide the width.
    """

    kind: Literal["linformer"] = "linformer"
    rank: int = Field(default=256, ge=1)
    shared: bool = True

    can_be_causal: ClassVar[bool] = False
    example: ClassVar[Mapping[str, Any]] = {"rank": 5}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module, for at most `length` positions."""
        if causal:
            raise BadInput(
                "model.mixer.kind: 'linformer' cannot be causal, since it attends to mixtures of "
                "all positions; set model.causal = false or take 'linear_attention', say"
            )
        self.head_width(width)
        return Linformer(self, width, length)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, two projections of the length, two products of L x R."""
        del causal
        return 8.0 * length * width**2 + 8.0 * length * self.rank * width


class Linformer(nn.Module):
    """softmax(Q (P K)^T / sqrt(E)) P V with P (R, L) learned: cost O(L R D).

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). A shorter sequence uses the first L columns
    of P; keys and values of padded positions are 0 before they are mixed. P starts normal with deviation
    1 / sqrt(length), so that a mixture of independent keys is as large as a key.
    Raises: BadInput where a sequence is longer than the projection.
    Source: Wang et al. 2020, "Linformer", eq. 7; sharing: section 4, "key-value".
    """

    parts = PARTS

    def __init__(self, spec: LinformerSpec, width: int, length: int) -> None:
        super().__init__()
        self.heads, self.length, self.shared = spec.heads, length, spec.shared
        self.query, self.key, self.value, self.output = spec.layers(4, width)
        self.key_mixture = nn.Parameter(torch.randn(spec.rank, length) * length**-0.5)
        if not spec.shared:
            self.value_mixture = nn.Parameter(torch.randn(spec.rank, length) * length**-0.5)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        length = x.shape[1]
        if length > self.length:
            raise BadInput(
                f"model.mixer: 'linformer' is built for {self.length} positions, a sequence has "
                f"{length}; set model.position.length = {length}"
            )
        q, k, v = (split(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        if valid is not None:
            hidden = ~valid[:, None, :, None]
            k, v = k.masked_fill(hidden, 0.0), v.masked_fill(hidden, 0.0)
        of_values = self.key_mixture if self.shared else self.value_mixture
        mixed = attend(q, self.key_mixture[:, :length] @ k, of_values[:, :length] @ v)
        out: Tensor = self.output(joined(mixed))
        return out
