"""Heads: pooling and output for one objective, per sequence, per position or per pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from headstart.errors import BadInput

PoolKind = Literal["mean", "max", "last"]


@dataclass(frozen=True)
class Output:
    """What an objective asks of a head: one vector of `size` per sequence, position or pair.

    bare: no layer at all; the first `size` of a position's D numbers are the answer, the others count as wrong ones.
    """

    kind: Literal["sequence", "position", "pair"]
    size: int
    bare: bool = False


def pooled(x: torch.Tensor, valid: torch.Tensor | None, pool: PoolKind) -> torch.Tensor:
    """Pool over valid positions only. x (B, L, D), valid (B, L) bool or None (all valid) -> (B, D)."""
    if valid is None:
        if pool == "mean":
            return x.mean(1)
        return x.amax(1) if pool == "max" else x[:, -1]
    if pool == "mean":
        values = x.masked_fill(~valid[:, :, None], 0.0)
        return values.sum(1) / valid.sum(1, keepdim=True).to(x.dtype)
    if pool == "max":
        return x.masked_fill(~valid[:, :, None], float("-inf")).amax(1)
    last = (valid.sum(1) - 1)[:, None, None].expand(-1, 1, x.shape[2])
    return x.gather(1, last).squeeze(1)


class SequenceHead(nn.Module):
    """One output per sequence: pool, then a linear layer.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, size).
    """

    def __init__(self, width: int, size: int, pool: PoolKind) -> None:
        super().__init__()
        self.pool: PoolKind = pool
        self.output = nn.Linear(width, size)

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.output(pooled(x, valid, self.pool))


class PositionHead(nn.Module):
    """One output per position (of padded ones it means nothing). Shapes: x (B, L, D) -> (B, L, size)."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, size)

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.output(x)


class BareHead(nn.Module):
    """No layer: the model's own D numbers of a position are its answer. Shapes: x (B, L, D) -> (B, L, D).

    Source: the released code of Amos et al. 2023, whose masked pretraining on tokens has lost its last layer.
    """

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return x


class PairHead(nn.Module):
    """One output per pair of rows, pooled to a and b: [a, b, a - b, a * b] -> D -> GELU -> size.

    Shapes: x (B, L, D) with B even -> (B / 2, size).
    Source: Tay et al. 2021 (Long Range Arena), the head of the retrieval task.
    """

    def __init__(self, width: int, size: int, pool: PoolKind) -> None:
        super().__init__()
        self.pool: PoolKind = pool
        self.hidden = nn.Linear(4 * width, width)
        self.output = nn.Linear(width, size)

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        both = pooled(x, valid, self.pool)
        a, b = both[0::2], both[1::2]
        features = torch.cat([a, b, a - b, a * b], dim=-1)
        return self.output(nn.functional.gelu(self.hidden(features)))


def build_head(output: Output, width: int, pool: PoolKind) -> nn.Module:
    """The head that an objective asks for. Raises: BadInput where a bare one has fewer numbers than answers."""
    if output.bare:
        if width < output.size:
            raise BadInput(
                f"model.width: {width} is less than the {output.size} answers that an objective without a "
                'head reads off it; make it wider, or set objective.head = "linear"'
            )
        return BareHead()
    if output.kind == "position":
        return PositionHead(width, output.size)
    return (PairHead if output.kind == "pair" else SequenceHead)(width, output.size, pool)


def head_flops(output: Output, width: int, length: int) -> float:
    """Multiply-adds times two of the head for one sequence (of a pair: half of the pair's)."""
    if output.bare:
        return 0.0
    if output.kind == "position":
        return 2.0 * length * width * output.size
    if output.kind == "pair":
        return 4.0 * width * width + 1.0 * width * output.size
    return 2.0 * width * output.size
