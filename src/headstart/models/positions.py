"""Positions: sinusoidal or learned vectors added to the encoded input, or rotary ones inside mixers."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.exporting import first
from headstart.spec import Spec

LEARNED_SPREAD = 0.02
"""Standard deviation of fresh learned positions (Radford et al. 2018)."""


class PositionSpec(Spec):
    """How a model knows positions.

    kind: `sinusoidal` and `learned` add a vector per position, `rotary` turns the queries and keys of mixers
    that have them, `none` adds nothing. theta: longest wavelength over 2 pi (sinusoidal and rotary).
    length: positions that the model is built for (default: the task's longest sequence).
    """

    kind: Literal["none", "sinusoidal", "learned", "rotary"] = "sinusoidal"
    theta: float = Field(default=10_000.0, gt=0)
    length: int | None = Field(default=None, ge=1)


def sinusoids(length: int, width: int, theta: float) -> torch.Tensor:
    """(length, width) float64: sines in even columns, cosines in odd ones.

    Source: Vaswani et al. 2017, section 3.5.
    """
    rate = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


class Sinusoidal(nn.Module):
    """Adds a fixed vector to each position, at any length. Shapes: x (B, L, D) -> (B, L, D)."""

    table: torch.Tensor

    def __init__(self, length: int, width: int, theta: float) -> None:
        super().__init__()
        self.theta = theta
        table = sinusoids(length, width, theta).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        if length > self.table.shape[0]:
            return x + sinusoids(length, x.shape[2], self.theta).to(x)
        return x + first(self.table, length)


class Learned(nn.Module):
    """Adds a learned vector to each position, N(0, 0.02^2) at first. Shapes: x (B, L, D) -> (B, L, D).

    Raises: BadInput where a sequence is longer than the table.
    """

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, width) * LEARNED_SPREAD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        if length > self.table.shape[0]:
            raise BadInput(
                f"model.position.length: a sequence of {length} positions, places are learned for "
                f"{self.table.shape[0]}; set position.length = {length} or kind = 'sinusoidal'"
            )
        return x + first(self.table, length)


def build_position(spec: PositionSpec, length: int, width: int) -> nn.Module:
    """What is added to the encoded input; rotary positions and none add nothing."""
    if spec.kind == "sinusoidal":
        return Sinusoidal(length, width, spec.theta)
    return Learned(length, width) if spec.kind == "learned" else nn.Identity()


def rotary_table(length: int, width: int, theta: float) -> torch.Tensor:
    """(2, length, width) float64: cosines and sines of the angles by which pairs (i, i + width / 2) turn.

    Source: Su et al. 2021, with the halves of a head as the two axes of its planes.
    """
    rate = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = (torch.arange(length, dtype=torch.float64)[:, None] * rate).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()])


def turned(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Turn each pair (i, i + E / 2) of x (..., L, E) by the angles of its position; table (2, >= L, E)."""
    cosine, sine = first(table, x.shape[-2], 1).to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.addcmul(x * cosine, torch.cat([-right, left], dim=-1), sine)


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
