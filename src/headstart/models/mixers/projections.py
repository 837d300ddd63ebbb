"""What every attention-like mixer has: query, key, value and output layers, heads, and rotary turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.positions import rotary_table, turned
from headstart.text import many

Init = Literal["independent", "tied"]

PARTS = {"query": "query_key", "key": "query_key", "value": "value_output", "output": "value_output"}
"""Leaf parts of the four layers, by the names that they have in every mixer."""


class HeadsSpec(MixerSpec):
    """Base of attention-like specs, with `heads` heads of width E = D / heads.

    init: `independent` draws query, key, value and output apart; `tied` starts the four with equal values, as
    the code of Amos et al. does (they train apart). bias: whether the four layers have one.
    """

    heads: int = Field(default=4, ge=1)
    bias: bool = True
    init: Init = "independent"

    def describe(self) -> str:
        """With its heads, and how their layers start."""
        texts = {"heads": many(self.heads, "head")}
        if self.init == "tied":
            texts["init"] = "query, key, value and output starting as equal copies"
        return self.in_words(texts)

    def head_width(self, width: int, theta: float | None = None) -> int:
        """E. Raises: BadInput where heads do not divide the width, or have no planes for rotary positions."""
        if width % self.heads:
            divisors = [h for h in range(1, width + 1) if width % h == 0]
            best = min(divisors, key=lambda h: abs(h - self.heads))
            raise BadInput(
                f"model.mixer.heads: {self.heads} heads do not divide a model width of {width}; "
                f"{best} do, or take a width of {self.heads * max(1, round(width / self.heads))}"
            )
        if theta is not None and width // self.heads % 2:
            raise BadInput(
                f"model.mixer.heads: rotary positions need heads of even width, "
                f"{width} / {self.heads} is {width // self.heads}; take another number of heads"
            )
        return width // self.heads

    def layers(self, count: int, width: int) -> Iterator[nn.Linear]:
        """`count` layers D -> D, drawn apart, or with equal values in separate tensors (`tied`)."""
        leader: nn.Linear | None = None
        for _ in range(count):
            layer = nn.Linear(width, width, bias=self.bias)
            if self.init == "tied" and leader is not None:
                layer.load_state_dict(leader.state_dict())
            leader = leader or layer
            yield layer


def split(x: Tensor, heads: int) -> Tensor:
    """(B, L, D) -> (B, H, L, D / H)."""
    return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """(B, H, L, E) -> (B, L, H E)."""
    return x.transpose(1, 2).flatten(-2)


def precise(x: Tensor) -> Tensor:
    """Half-precision numbers as float32, for sums and exponents that 8 bits would spoil."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def everywhere(x: Tensor, valid: Tensor | None) -> Tensor:
    """`valid`, or where it is None a mask (B, L) that is true everywhere."""
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if valid is None else valid


class Rotary(nn.Module):
    """Turns queries and keys (B, H, L, E) by their position, or leaves them as they are where theta is None."""

    table: Tensor

    def __init__(self, length: int, width: int, theta: float | None) -> None:
        super().__init__()
        self.theta = theta
        if theta is not None:
            table = rotary_table(length, width, theta).to(torch.get_default_dtype())
            self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.theta is None:
            return x
        table = self.table
        if x.shape[-2] > table.shape[1]:
            table = rotary_table(x.shape[-2], x.shape[-1], self.theta).to(x)
        return turned(x, table)
