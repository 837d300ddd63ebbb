"""Positions: sinusoidal or learned vectors added to the encoded input, or rotary and relative ones inside mixers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.exporting import first
from headstart.spec import Spec, neutral

LEARNED_SPREAD = 0.02
"""Standard deviation of fresh learned positions (Radford et al. 2018)."""


class PositionSpec(Spec):
    """How a model knows positions."""

    kind: Literal["none", "sinusoidal", "learned", "rotary", "relative"] = "sinusoidal"
    """`sinusoidal` and `learned` add a vector per position, `rotary` turns the queries and keys of mixers that have
    them, `relative` adds a learned number per head and bucket of distances to the scores of attention, the same in all
    blocks (T5), `none` adds nothing."""
    theta: float = Field(default=10_000.0, gt=0)
    """Longest wavelength over 2 pi (sinusoidal and rotary)."""
    length: int | None = Field(default=None, ge=1)
    """Positions that the model is built for (default: the task's longest sequence)."""
    share: float = neutral(1.0, gt=0, le=1)
    """Of each head's numbers, what rotary positions turn, the first ones."""
    buckets: int = neutral(32, ge=4, le=1024)
    """How many buckets of distances relative positions have, half of them for later positions, unless the model is
    causal."""
    far: int = neutral(128, ge=2, le=2**16)
    """Distance from which on all are in one bucket."""

    @model_validator(mode="after")
    def _settings_of_their_kind(self) -> PositionSpec:
        owners = {"share": "rotary", "buckets": "relative", "far": "relative"}
        for name, owner in owners.items():
            if self.kind != owner and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is of kind {owner!r}, not {self.kind!r}; leave it out")
        if self.far <= self.buckets // 2:
            raise ValueError(f"far {self.far} is too near for {self.buckets} buckets; take {self.buckets} or more")
        return self


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


class Relative(nn.Module):
    """Leaves x as it is; `bias` gives what attention adds to its scores, learned, N(0, 0.02^2) at first.

    A distance below half of a direction's buckets has one of its own; the others share the rest, evenly by their
    logarithm, up to `far`. Source: Raffel et al. 2020, section 2.1; released code for the buckets.
    """

    bucket: Tensor

    def __init__(self, spec: PositionSpec, heads: int, causal: bool) -> None:
        super().__init__()
        self.causal, self.ways = causal, spec.buckets // (1 if causal else 2)
        self.table = nn.Parameter(torch.randn(spec.buckets, heads) * LEARNED_SPREAD)
        rows = torch.tensor(distance_buckets(self.ways, spec.far), device="cpu")
        self.register_buffer("bucket", rows.to(self.table.device), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def bias(self, length: int) -> Tensor:
        """(H, L, L): of each query i and key j."""
        position = torch.arange(length, device=self.table.device)
        ahead = position - position[:, None]
        distance = ahead.clamp_max(0).neg() if self.causal else ahead.abs()
        rows = self.bucket[distance.clamp_max(self.bucket.shape[0] - 1)]
        return self.table[rows if self.causal else rows + self.ways * (ahead > 0)].permute(2, 0, 1)


def distance_buckets(count: int, far: int) -> list[int]:
    """The bucket, of `count`, of each distance 0 to `far`. Whole numbers alone: rounding differs between machines."""
    single = count // 2
    wide = count - single

    def reaches(distance: int, k: int) -> bool:
        """log(distance / single) / log(far / single) >= k / wide."""
        return bool(distance**wide * single**k >= far**k * single**wide)

    first_of = [bisect_left(range(far), True, key=partial(reaches, k=k)) for k in range(1, wide)]
    return [distance if distance < single else single + bisect_right(first_of, distance) for distance in range(far + 1)]


def build_position(spec: PositionSpec, length: int, width: int, heads: int = 1, causal: bool = False) -> nn.Module:
    """What is added to the encoded input; rotary and relative positions and none add nothing."""
    if spec.kind == "sinusoidal":
        return Sinusoidal(length, width, spec.theta)
    if spec.kind == "relative":
        return Relative(spec, heads, causal)
    return Learned(length, width) if spec.kind == "learned" else nn.Identity()


def rotary_table(length: int, width: int, theta: float) -> torch.Tensor:
    """(2, length, width) float64: cosines and sines of the angles by which pairs (i, i + width / 2) turn; the sines of
    the first half are negative.

    Source: Su et al. 2021, with the halves of a head as the two axes of its planes.
    """
    rate = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    signed = torch.stack([angle.sin() * -1.0, angle.sin()], 1).flatten(1)
    return torch.stack([angle.cos().repeat(1, 2), signed])


def turned(x: torch.Tensor, table: torch.Tensor, heads: int = 1) -> torch.Tensor:
    """Turn each pair (i, i + E / 2) of each head by the angles of its position.

    Shapes: x (..., L, heads * E), table (2, >= L, E), from `rotary_table`.
    The table is repeated for all heads: a loop over E numbers at a time takes two to three times as long in bfloat16.
    Halves are stacked anew, which is 2 to 4.5 times as fast as `flip` on a CPU.
    """
    cosine, sine = first(table, x.shape[-2], 1).to(x.dtype).repeat(1, 1, heads)
    lower, upper = torch.unflatten(x, -1, (heads, 2, -1)).unbind(-2)
    halves = torch.stack([upper, lower], -2).flatten(-3)
    return torch.addcmul(x * cosine, halves, sine)


class Rotary(nn.Module):
    """Turns the first `width` numbers of queries and keys (B, H, L, E) by their position; none where theta is None."""

    table: Tensor

    def __init__(self, length: int, width: int, theta: float | None) -> None:
        super().__init__()
        self.theta, self.width = theta, width
        if theta is not None:
            table = rotary_table(length, width, theta).to(torch.get_default_dtype())
            self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.theta is None:
            return x
        table = self.table
        if x.shape[-2] > table.shape[1]:
            table = rotary_table(x.shape[-2], self.width, self.theta).to(x)
        heads, rows = x.shape[1], x.transpose(1, 2)
        out = turned(rows[..., : self.width].flatten(2), table, heads)
        few = torch.unflatten(out, 2, (heads, -1)).transpose(1, 2)
        return few if x.shape[-1] == self.width else torch.cat([few, x[..., self.width :]], -1)
