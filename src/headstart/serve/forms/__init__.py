"""A network in a form that has a graph: the same numbers without chunks, loops or FFTs, which no file could state.

Each mixer of the library is written here once more, as sums over all pairs of positions (a mask says which count) or
as one convolution with its kernel, made beforehand for the longest sequence that the network takes. Cost O(L^2 D)
whatever the mixer's own is. Letters: B batch, L length, D width, H heads, E = D / H, N the longest length.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.attention import Attention
from headstart.models.mixers.bigbird import BigBird
from headstart.models.mixers.linear_attention import LinearAttention
from headstart.models.mixers.linformer import Linformer
from headstart.models.mixers.local_attention import LocalAttention
from headstart.models.mixers.longformer import Longformer
from headstart.models.mixers.lstm import LSTM
from headstart.models.mixers.mega import Mega
from headstart.models.mixers.parallel import Parallel
from headstart.models.mixers.performer import Performer
from headstart.models.mixers.reformer import Reformer
from headstart.models.mixers.state_space import StateSpace
from headstart.models.model import SequenceModel
from headstart.models.positions import Learned, Sinusoidal
from headstart.serve.forms.kernels import Convolved, GatedAverage, Recurrent
from headstart.serve.forms.patterns import bigbird, every_pair, local_attention, longformer
from headstart.serve.forms.shared import places
from headstart.serve.forms.sums import InBuckets, Products, Projected, linear_features, performer_features

Form = Callable[[Any, int], nn.Module]
"""(mixer, longest length) -> the mixer's form."""


def exportable(network: SequenceModel, length: int) -> SequenceModel:
    """A copy of the network, for batches of at most `length` positions whose `valid` is given.

    Raises: BadInput naming a mixer that has no such form.
    """
    out = copy.deepcopy(network).eval().requires_grad_(False)
    if isinstance(out.position, Sinusoidal | Learned):
        out.position = Added(out.position.table.detach())
    for block in out.blocks:
        block.mixer = form_of(block.get_submodule("mixer"), length)
    return out


def form_of(mixer: nn.Module, length: int) -> nn.Module:
    """A mixer's form. Raises: BadInput where it has none."""
    if type(mixer) not in FORMS:
        raise BadInput(
            f"model.mixer: {type(mixer).__name__} has no ONNX form, which is written for each built-in mixer "
            "(headstart ls mixers); fit with one of them, or serve this model with `headstart predict`"
        )
    return FORMS[type(mixer)](mixer, length)


class Added(nn.Module):
    """Adds a table's vector at each place. Shapes: x (B, L, D), table (at least L, D) -> (B, L, D)."""

    table: Tensor

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[places(x)]


class SideBySide(nn.Module):
    """Mixers on one input, their outputs added or joined."""

    def __init__(self, of: Parallel, length: int) -> None:
        super().__init__()
        self.mixers = nn.ModuleList(form_of(mixer, length) for mixer in of.mixers)
        self.norms, self.joint = of.norms, of.joint

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        outputs: list[Tensor] = [mixer(x, valid) for mixer in self.mixers]
        if self.norms:
            outputs = [norm(y) for norm, y in zip(self.norms, outputs, strict=True)]
        if self.joint is None:
            return torch.stack(outputs).sum(0)
        out: Tensor = self.joint(torch.cat(outputs, -1))
        return out


FORMS: dict[type[nn.Module], Form] = {
    Attention: every_pair,
    BigBird: bigbird,
    LinearAttention: lambda of, _: Products(of, linear_features),
    Linformer: Projected,
    LocalAttention: local_attention,
    Longformer: longformer,
    LSTM: Recurrent,
    Mega: GatedAverage,
    Parallel: SideBySide,
    Performer: lambda of, _: Products(of, performer_features),
    Reformer: InBuckets,
    StateSpace: Convolved,
}
"""Mixers by the class of their module: s4, s4d and dlr are all StateSpace."""
