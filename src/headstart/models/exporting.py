"""The part of a model that an ONNX file states: as far as possible the forward that is trained.

A graph has no loops and no branches on the length. A mixer that needs none of them exports itself; any other runs at
the one length that is known beforehand (`AtLength`). What ONNX has no operator for, the mixer replaces in its
`exportable(length)`: kernels are made once, tables are filled, or it refuses with the reason. Letters: B batch, L
length, D width, N the longest length.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def exportable(mixer: nn.Module, length: int) -> nn.Module:
    """The module that is exported in place of a mixer, for at most `length` positions and a `valid` that is given.

    A mixer has its say by a method `exportable(length)`; without one its forward is exported as it is, `AtLength`.
    Raises: BadInput where the mixer refuses.
    """
    own: Callable[[int], nn.Module] | None = getattr(mixer, "exportable", None)
    return AtLength(mixer, length) if own is None else own(length)


def exportable_network(network: nn.Module, length: int) -> nn.Module:
    """A copy of a network, for batches of at most `length` positions whose `valid` is given.

    One that is not made of blocks has its say by a method `exportable(length)`.
    Raises: BadInput where one of its mixers refuses.
    """
    out = copy.deepcopy(network).eval().requires_grad_(False)
    own: Callable[[int], nn.Module] | None = getattr(out, "exportable", None)
    if own is not None:
        return own(length)
    length = -(-length // int(out.patch))  # type: ignore[arg-type]
    for block in out.get_submodule("blocks").children():
        block.mixer = exportable(block.get_submodule("mixer"), length)
    return out


def replaced(module: M, **parts: nn.Module | Tensor) -> M:
    """A copy of a module, some of whose submodules or attributes are others."""
    out = copy.deepcopy(module)
    for name, part in parts.items():
        setattr(out, name, part)
    return out


def first(table: Tensor, length: int, dim: int = 0) -> Tensor:
    """The first `length` positions of a table along `dim`."""
    if torch.compiler.is_exporting():
        # Picked and not cut: torch 2.11 does not know that what it cuts is as long as it should be.
        return table.index_select(dim, torch.arange(length))
    return table.narrow(dim, 0, length)


class AtLength(nn.Module):
    """A mixer's own forward on inputs that are padded to `length` positions, so that the graph has fixed shapes.

    Shapes: x (B, L, D), valid (B, L) with L at most `length` -> (B, L, D).
    """

    def __init__(self, mixer: nn.Module, length: int) -> None:
        super().__init__()
        self.mixer, self.length = mixer, length

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        positions, padded = torch.arange(x.shape[1]), torch.arange(self.length)
        index = torch.minimum(padded, positions[-1])
        out: Tensor = self.mixer(x[:, index], valid[:, index] & (padded <= positions[-1]))
        return out[:, positions]


class FixedKernel(nn.Module):
    """The kernel of a convolution made beforehand for the longest input: forward(L) -> (C, D, L)."""

    values: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values.detach())

    def forward(self, length: int) -> Tensor:
        return first(self.values, length, -1)
