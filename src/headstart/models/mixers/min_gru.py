"""minGRU: a GRU whose gate does not see the state, so that it is a linear recurrence (Feng et al. 2024)."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.models.mixers.recurrent import RecurrentSpec
from headstart.models.scan import recurrence


class MinGRUSpec(RecurrentSpec):
    """One minGRU layer of `state` numbers (None: the model's width); a linear output follows where they differ."""

    kind: Literal["min_gru"] = "min_gru"
    state: int | None = Field(default=None, ge=1)
    """Size of the state (of each channel, where channels have their own)."""

    def layer(self, width: int, length: int) -> nn.Module:
        return MinGRU(width, self.state or width)

    def layer_flops(self, width: int, length: int) -> float:
        state = self.state or width
        return 2.0 * length * width * (2 * state + (0 if state == width else state))


class MinGRU(nn.Module):
    """h <- (1 - z) h + z g(W x + b), z = sigmoid(V x + c), from a zero state; g(a) is a + 1/2 above 0, else sigmoid(a).

    Shapes: x (B, L, D) -> (B, L, D). Cost O(L D N). Source: Feng et al. 2024, "Were RNNs all we needed?", appendix B.
    """

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        self.gate, self.candidate = nn.Linear(width, state), nn.Linear(width, state)
        self.output = None if state == width else nn.Linear(state, width)

    def forward(self, x: Tensor) -> Tensor:
        update, candidate = torch.sigmoid(self.gate(x)), self.candidate(x)
        candidate = torch.where(candidate > 0, candidate + 0.5, torch.sigmoid(candidate))
        hidden = recurrence(1 - update, update * candidate)
        return hidden if self.output is None else self.output(hidden)
