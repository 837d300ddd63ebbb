"""Linformer: attention to a learned projection of the length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.attend import attend
from headstart.models.mixers.mixer import HeadsMixer, HeadsSpec


class LinformerSpec(HeadsSpec):
    """Attention of `heads` heads to `rank` mixtures of all positions (256 in the source; LRA's code has 16).

    Raises: BadInput where it should be causal (a mixture of all positions holds later ones too), and where `heads`
    does not divide the width.
    """

    kind: Literal["linformer"] = "linformer"
    rank: int = Field(default=256, ge=1)
    """Length that keys and values are projected to."""
    shared: bool = True
    """One projection of the length for keys and values, or one for each; the heads share it."""

    can_be_causal: ClassVar[bool] = False
    example: ClassVar[Mapping[str, Any]] = {"rank": 5}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        if causal:
            raise BadInput(
                "model.mixer.kind: 'linformer' cannot be causal, since it attends to mixtures of "
                "all positions; set model.causal = false or take 'linear_attention', say"
            )
        return Linformer(self, width, length)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, two projections of the length, two products of L x R."""
        return 8.0 * length * width**2 + 8.0 * length * self.rank * width


class Linformer(HeadsMixer):
    """softmax(Q (P K)^T / sqrt(E)) P V with P (R, L) learned: cost O(L R D).

    A shorter sequence uses the first L columns of P; keys and values of padded positions are 0 before they are mixed.
    P starts normal with deviation 1 / sqrt(length), so that a mixture of independent keys is as large as a key.
    Raises: BadInput where a sequence is longer than the projection.
    Source: Wang et al. 2020, "Linformer", eq. 7; sharing: section 4, "key-value".
    """

    def __init__(self, spec: LinformerSpec, width: int, length: int) -> None:
        super().__init__(spec, width, length, False)
        self.length, self.shared = length, spec.shared
        self.key_mixture = nn.Parameter(torch.randn(spec.rank, length) * length**-0.5)
        if not spec.shared:
            self.value_mixture = nn.Parameter(torch.randn(spec.rank, length) * length**-0.5)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        length = query.shape[2]
        if length > self.length:
            raise BadInput(
                f"model.mixer: 'linformer' is built for {self.length} positions, a sequence has "
                f"{length}; set model.position.length = {length}"
            )
        if valid is not None:
            hidden = ~valid[:, None, :, None]
            key, value = key.masked_fill(hidden, 0.0), value.masked_fill(hidden, 0.0)
        of_values = self.key_mixture if self.shared else self.value_mixture
        return attend(query, self.key_mixture[:, :length] @ key, of_values[:, :length] @ value)
