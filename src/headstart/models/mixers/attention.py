"""Scaled dot-product attention, bidirectional or causal, with or without rotary positions."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.positions import rotary_table, turned
from headstart.seeds import Draw

SHORT = 128
"""Up to this length plain matrix products are used: on a CPU they are as fast as the fused kernel (measured,
1 thread, head width 8, L 64: both 3.2 ms forward and backward; L 1,024: fused 30 ms, plain 40 to 90), and
they have batching rules for stacks of models, which the fused CPU kernel has not."""


class AttentionSpec(MixerSpec):
    """softmax(Q K^T / sqrt(E)) V in each of `heads` heads of width E = D / heads, then an output layer.

    init: `independent` draws query, key, value and output apart; `tied` starts the four with equal values, as
    the code of Amos et al. does (they train apart). bias: whether the four layers have one.
    """

    kind: Literal["attention"] = "attention"
    heads: int = Field(default=4, ge=1)
    bias: bool = True
    init: Literal["independent", "tied"] = "independent"

    rotary: ClassVar[bool] = True

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        """The module; with `theta` its queries and keys turn with their place.

        Raises: BadInput where the width does not divide into heads, or into planes for rotary positions.
        """
        if width % self.heads:
            near = [h for h in range(1, width + 1) if width % h == 0]
            best = min(near, key=lambda h: abs(h - self.heads))
            raise BadInput(f"model.mixer.heads: {self.heads} heads do not divide a model width of {width}; "
                           f"{best} do, or take a width of {self.heads * max(1, round(width / self.heads))}")
        if theta is not None and width // self.heads % 2:
            raise BadInput(f"model.mixer.heads: rotary positions need heads of even width, "
                           f"{width} / {self.heads} is {width // self.heads}; take another number of heads")
        return Attention(width, length, causal, self, theta)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2 and two products of 2 L^2 D (causal ones compute the whole square too)."""
        del causal
        return 8.0 * length * width**2 + 4.0 * length**2 * width


class Attention(nn.Module):
    """Scaled dot-product attention.

    Shapes: x (B, L, D), valid (B, L) bool or None (all valid) -> (B, L, D). Cost O(L^2 D + L D^2).
    Source: Vaswani et al. 2017; rotary positions: Su et al. 2021, over the whole head width.
    """

    parts: ClassVar[dict[str, str]] = {
        "query": "query_key", "key": "query_key", "value": "value_output", "output": "value_output",
    }

    turns: Tensor

    def __init__(
        self, width: int, length: int, causal: bool, spec: AttentionSpec, theta: float | None
    ) -> None:
        super().__init__()
        self.heads, self.causal, self.theta = spec.heads, causal, theta
        layers = [nn.Linear(width, width, bias=spec.bias) for _ in range(4)]
        self.query, self.key, self.value, self.output = layers
        if spec.init == "tied":
            for layer in layers[1:]:
                layer.load_state_dict(self.query.state_dict())
        if theta is not None:
            table = rotary_table(length, width // spec.heads, theta).to(torch.get_default_dtype())
            self.register_buffer("turns", table, persistent=False)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        del draw
        B, L, D = x.shape
        query, key, value = (
            layer(x).view(B, L, self.heads, D // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if self.theta is not None:
            table = self._turns(L, query)
            query, key = turned(query, table), turned(key, table)
        mixed = self._attend(query, key, value, valid)
        answer: Tensor = self.output(mixed.transpose(1, 2).reshape(B, L, D))
        return answer

    def _turns(self, length: int, like: Tensor) -> Tensor:
        table = self.turns
        if length <= table.shape[1] or self.theta is None:
            return table
        return rotary_table(length, like.shape[-1], self.theta).to(like)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        """(B, H, L, E) each -> (B, H, L, E). Padding stands at the end: causal positions never see it."""
        length = query.shape[2]
        seen = None if valid is None or self.causal else valid[:, None, None, :]
        if length > SHORT or query.device.type != "cpu":
            return F.scaled_dot_product_attention(query, key, value, attn_mask=seen, is_causal=self.causal)
        scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
        if self.causal:
            seen = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        if seen is not None:
            scores = scores.masked_fill(~seen, float("-inf"))
        return torch.matmul(scores.softmax(-1), value)
