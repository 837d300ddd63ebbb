"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import model_validator
from torch import Tensor, nn

from headstart.models.mixers.attend import AttentionView, attend, visible_pairs
from headstart.models.mixers.mixer import LAYER_PARTS, HeadsMixer, HeadsSpec, joined, split
from headstart.models.scan import precise
from headstart.seeds import Draw
from headstart.spec import neutral
from headstart.text import listed

SHORT_LENGTH = 64
"""Up to this length, where no position is hidden from an earlier one, plain matrix products are used on a CPU: forward
and backward of 16 x 4 heads of 64 x 64 scores take 1.48 ms with them and 1.56 ms with the fused kernel; of 32 x 4 heads
of 128 x 128 it is 14.0 and 10.9 ms, and of 16 x 4 causal ones of 64 x 64 it is 2.2 and 1.6 ms (1 thread, AVX-512,
2026-11-26)."""


class AttentionSpec(HeadsSpec):
    """softmax(Q K^T / sqrt(E)) V in each of `heads` heads of width E = D / heads, then an output layer.

    Raises: BadInput where the width does not divide into heads, or into planes for rotary positions.
    """

    kind: Literal["attention"] = "attention"
    scale: bool = neutral(True)
    """Whether scores are divided by sqrt(E), which T5 leaves out."""
    head_width: int | None = neutral(None, ge=1)
    """E, where heads are not as wide together as the model."""
    key_heads: int | None = neutral(None, ge=1)
    """Heads of keys and values, each for `heads / key_heads` heads of queries (Ainslie et al. 2023; 1: Shazeer 2019);
    left out: as many as heads."""
    query_key_norm: bool = neutral(False)
    """Whether each head's queries and keys are divided by their root mean square, with learned scales, before they turn
    (Henry et al. 2020, with the norm of Qwen 3)."""

    rotary: ClassVar[bool] = True
    partial_rotary: ClassVar[bool] = True
    takes_bias: ClassVar[bool] = True

    @model_validator(mode="after")
    def _of_layers_that_are_drawn_apart(self) -> AttentionSpec:
        for name in ("head_width", "key_heads"):
            if getattr(self, name) is not None and self.init == "tied":
                raise ValueError(
                    f"{name} makes layers of two shapes, which cannot start equal (init 'tied'); leave one out"
                )
        if self.key_heads is not None and self.heads % self.key_heads:
            divisors = [str(count) for count in range(1, self.heads + 1) if self.heads % count == 0]
            raise ValueError(
                f"key_heads {self.key_heads} do not divide {self.heads} heads; take one of {listed(divisors, 'or')}"
            )
        return self

    @property
    def grouped(self) -> int:
        """Heads of keys and values."""
        return self.key_heads or self.heads

    def layers(self, count: int, width: int) -> Iterator[nn.Linear]:
        if self.key_heads is None:
            yield from super().layers(count, width)
            return
        inner = self.inner(width)
        shared = inner // self.heads * self.key_heads
        for ends in ((width, inner), (width, shared), (width, shared), (inner, width))[:count]:
            yield nn.Linear(*ends, bias=self.bias)

    def inner(self, width: int) -> int:
        return width if self.head_width is None else self.heads * self.head_width

    def build(self, width: int, length: int, causal: bool, theta: float | None = None, share: float = 1.0) -> nn.Module:
        return Attention(self, width, length, causal, theta, share)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D H E, of keys and values by their heads, and two products of 2 L^2 H E (causal ones
        compute the whole square too)."""
        layers = 4.0 * length * width * self.inner(width) * (1 + self.grouped / self.heads)
        return layers + 4.0 * length**2 * self.inner(width)


class Attention(HeadsMixer):
    """Scaled dot-product attention. Cost O(L^2 D + L D^2).

    Source: Vaswani et al. 2017; rotary positions: Su et al. 2021; over a part of a head: Black et al. 2022.
    """

    def __init__(
        self, spec: AttentionSpec, width: int, length: int, causal: bool, theta: float | None, share: float
    ) -> None:
        super().__init__(spec, width, length, causal, theta, share)
        self.scale, self.groups, self.query_norm, self.key_norm = spec.scale, spec.heads // spec.grouped, None, None
        if spec.query_key_norm:
            each = spec.inner(width) // spec.heads
            self.query_norm, self.key_norm = nn.RMSNorm(each, eps=1e-6), nn.RMSNorm(each, eps=1e-6)
            self.parts = {**LAYER_PARTS, "query_norm": "norm", "key_norm": "norm"}

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None, bias: Tensor | None = None) -> Tensor:
        (query, key), value = self.queries_keys(x), self._for_all(split(self.value(x), self.heads // self.groups))
        # Padding stands at the end: causal positions never see it.
        seen = None if valid is None or self.causal else valid[:, None, None, :]
        mixed = attend(query, key, value, seen, self.causal, 0 if self.causal else SHORT_LENGTH, bias, run=True)
        return self.output(joined(mixed).to(value.dtype))

    def queries_keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        query, key = split(self.query(x), self.heads), split(self.key(x), self.heads // self.groups)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(precise(query)).to(query), self.key_norm(precise(key)).to(key)
        query, key = self.turn(query), self._for_all(self.turn(key))
        # All scores are divided by sqrt(E) where they are computed.
        return (query, key) if self.scale else (query * query.shape[-1] ** 0.5, key)

    def _for_all(self, x: Tensor) -> Tensor:
        """(B, key heads, L, E) -> (B, H, L, E)."""
        return x if self.groups == 1 else x.unsqueeze(2).expand(-1, -1, self.groups, -1, -1).flatten(1, 2)

    def attention(self, x: Tensor, valid: Tensor, bias: Tensor | None = None) -> AttentionView:
        """What the heads attend with."""
        return AttentionView(*self.queries_keys(x), visible_pairs(valid, self.causal), bias)

    def exportable(self, length: int) -> nn.Module:
        """Itself, at any length."""
        return self
