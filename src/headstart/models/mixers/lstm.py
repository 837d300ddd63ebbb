"""LSTM as a mixer (Hochreiter and Schmidhuber 1997; as in Lu et al. 2021, one layer to a block)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.mixers.state_space import directions_of
from headstart.models.recurrence import lstm


class LSTMSpec(MixerSpec):
    """One LSTM layer from a zero state; several are several blocks.

    `state` is N per direction; None is the width shared out among the directions. Where the states do not
    fill the width, a linear output follows.
    """

    kind: Literal["lstm"] = "lstm"
    state: int | None = Field(default=None, ge=1)
    directions: Literal[1, 2] = 1

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        del length
        directions_of(self.directions, causal)
        return LSTM(width, self.state_of(width), self.directions)

    def flops(self, width: int, length: int, causal: bool) -> float:
        del causal
        state = self.state_of(width)
        filled = state * self.directions
        output = 0 if filled == width else filled * width
        return 2.0 * length * (4 * filled * (width + state) + output)

    def state_of(self, width: int) -> int:
        """N of each direction. Raises: BadInput where the directions do not divide the width."""
        if self.state is None and width % self.directions:
            raise BadInput(
                f"model.mixer.state: a width of {width} cannot be shared by {self.directions} "
                f"directions; set a state or a width of {width + 1}"
            )
        return self.state or width // self.directions


class LSTM(nn.Module):
    """x (B, L, D), valid (B, L) bool, valid positions first, or None -> (B, L, D).

    The second direction reads each row from its own last valid position, by a gather, and is gathered back.
    All weights start uniform in +-1 / sqrt(N). Cost O(B L N (D + N)), L steps one after another.
    """

    def __init__(self, width: int, state: int, directions: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(state)
        self.input = nn.Parameter(torch.empty(directions, width, 4 * state).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(directions, 4 * state).uniform_(-bound, bound))
        self.recurrent = nn.Parameter(torch.empty(directions, state, 4 * state).uniform_(-bound, bound))
        self.output = None if state * directions == width else nn.Linear(state * directions, width)

    def forward(self, x: Tensor, valid: Tensor | None, draw: object = None) -> Tensor:
        del draw
        two = self.input.shape[0] == 2
        inputs = torch.stack([x, turn(x, valid)] if two else [x])
        gates = torch.einsum("gbld,gdn->lgbn", inputs, self.input) + self.bias[:, None]
        hidden = lstm(gates, self.recurrent)
        ahead = hidden[:, 0].transpose(0, 1)
        if two:
            ahead = torch.cat([ahead, turn(hidden[:, 1].transpose(0, 1), valid)], -1)
        return ahead if self.output is None else self.output(ahead)


def turn(x: Tensor, valid: Tensor | None) -> Tensor:
    """x (B, L, D) with each row's valid positions turned round and its padding left: its own inverse."""
    if valid is None:
        return x.flip(1)
    at = torch.arange(valid.shape[1], device=valid.device)
    places = torch.where(valid, valid.sum(1, keepdim=True) - 1 - at, at)
    return x.gather(1, places.unsqueeze(-1).expand_as(x))
