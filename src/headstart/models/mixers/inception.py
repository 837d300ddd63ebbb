"""Inception: convolutions of several lengths side by side, for series (Ismail Fawaz et al. 2020)."""

from __future__ import annotations

from functools import reduce
from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn.functional import pad, relu

from headstart.models.mixers.mixer import MixerSpec

POOL_POSITIONS = 3
"""Positions of which the last branch takes the largest number, as published."""
BOTTLENECK_DIVISOR = 4
"""The width is divided by it for the convolutions, as published: 32 of 128."""
LONGEST_CONVOLUTION = 1024
"""Longest convolution: each position is multiplied with all of it, and from there on S4D or Hyena cost less."""


class InceptionSpec(MixerSpec):
    """Convolutions over each of `lengths` positions and the largest of three neighbours, side by side."""

    kind: Literal["inception"] = "inception"
    lengths: tuple[int, ...] = Field(default=(9, 19, 39), min_length=1)
    """Of the convolutions, in positions; one over 39 sees 19 to each side."""
    bottleneck: int | None = Field(default=None, ge=1)
    """Channels that each convolution reads and gives (left out: a quarter of the width)."""

    @field_validator("lengths")
    @classmethod
    def _each_length(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        for length in lengths:
            if not 1 <= length <= LONGEST_CONVOLUTION:
                raise ValueError(f"names {length}; a convolution is over 1 to {LONGEST_CONVOLUTION:,} positions")
        if len(set(lengths)) != len(lengths):
            raise ValueError("names a length twice; leave one out")
        return lengths

    def channels(self, width: int) -> int:
        """Of each branch."""
        return self.bottleneck or max(1, width // BOTTLENECK_DIVISOR)

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Inception(self, width, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """The convolutions, the layers before them and before the last branch, and the output."""
        channels = self.channels(width)
        layers = (2 + len(self.lengths) + 1) * channels * width
        return 2.0 * length * (layers + channels**2 * sum(self.lengths))


class Inception(nn.Module):
    """output(ReLU([conv_1(narrow x), ..., conv_n(narrow x), largest of three neighbours of peak x])).

    A convolution over K positions sees (K - 1) / 2 to each side (of an even number one more behind), or the last K
    where causal; beyond both ends, and where there is padding, stand zeros. Published modules take the largest of x
    before the layer `peak`, which costs four times as much; the block's norm (`batch`, as published) stands for their
    norm behind the branches, and its residual for their shortcut around three modules.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D), for any L. Cost O(B L M (D + M K)), M channels of a
    branch, K the sum of the lengths.
    Source: Ismail Fawaz et al. 2020, "InceptionTime", section 3.1 and figure 2; lengths as in their released code.
    """

    def __init__(self, spec: InceptionSpec, width: int, causal: bool) -> None:
        super().__init__()
        self.causal, self.lengths = causal, spec.lengths
        channels = spec.channels(width)
        self.narrow = nn.Linear(width, channels, bias=False)
        self.convolutions = nn.ModuleList(Along(channels, channels, length) for length in spec.lengths)
        self.peak = nn.Linear(width, channels, bias=False)
        self.output = nn.Linear((len(spec.lengths) + 1) * channels, width)

    def forward(self, x: Tensor, valid: Tensor | None, draw: object = None) -> Tensor:
        x = x if valid is None else x.masked_fill(~valid.unsqueeze(-1), 0.0)
        narrow, peak = self.narrow(x).transpose(1, 2), self.peak(x).transpose(1, 2)
        pairs = zip(self.convolutions, self.lengths, strict=True)
        branches = [layer(self._widened(narrow, length)) for layer, length in pairs]
        beyond = self._widened(peak, POOL_POSITIONS)
        near = [beyond.narrow(-1, first, x.shape[1]) for first in range(POOL_POSITIONS)]
        joined = torch.cat([*branches, reduce(torch.maximum, near)], 1)
        out: Tensor = self.output(relu(joined.transpose(1, 2)))
        return out

    def _widened(self, line: Tensor, length: int) -> Tensor:
        """(B, C, L) -> (B, C, L + length - 1): zeros where a convolution over `length` looks beyond the ends."""
        behind = length - 1 if self.causal else length // 2
        return pad(line, (behind, length - 1 - behind))


class Along(nn.Conv1d):
    """A convolution along the length, whose weights multiply each position: (B, C, L + K - 1) -> (B, C, L)."""

    per_position = ("weight",)
