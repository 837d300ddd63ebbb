"""What several forms have: places, softmax weights under a mask, and rotary turns by the table that is there."""

from __future__ import annotations

import torch
from torch import Tensor

from headstart.models.mixers.projections import Rotary
from headstart.models.positions import turned


def places(x: Tensor) -> Tensor:
    """(L,) numbers of the positions of x (B, L, ...)."""
    return torch.arange(x.shape[1])


def weights(query: Tensor, key: Tensor, seen: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(E)) over the keys that are seen; a query that sees none (padding) weighs all alike.

    Shapes: (B, H, L, E) twice, seen broadcasts to (B, H, L, L) -> (B, H, L, L).
    """
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)


def turn_by(rotary: Rotary, x: Tensor) -> Tensor:
    """Rotary turns of x (B, H, L, E), by the table that the module holds."""
    return x if rotary.theta is None else turned(x, rotary.table[:, torch.arange(x.shape[2])])
