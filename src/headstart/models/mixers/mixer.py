"""The contract of a mixer: a spec that builds a module which mixes along L."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from headstart.errors import BadInput
from headstart.spec import Spec


class MixerSpec(Spec):
    """Base of mixer specs.

    `build(width, length, causal)` gives an nn.Module with `forward(x, valid, draw=None) -> x`: x (B, L, D),
    valid (B, L) bool, draw a `seeds.Draw` in training and None in evaluation. The forward is pure: no state is
    kept between calls and no Python branch depends on data, so that many models train at once by stacking.
    The module may have `parts: dict[str, str]`, from a prefix of its own parameter names to a leaf part
    (query_key, value_output, kernel, norm); what it does not name is `mixer_rest`. `undecayed: set[str]` (prefixes)
    and `rates: dict[str, float]` (prefix -> its own learning rate) are read by the optimiser.
    A mixer that can turn queries and keys sets `rotary = True` and takes `theta` in `build`.
    """

    kind: str
    rotary: ClassVar[bool] = False
    can_be_causal: ClassVar[bool] = True

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module for inputs (B, L, width) with L at most `length`."""
        raise BadInput(f"model.mixer.kind: {self.kind!r} builds nothing")

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Multiply-adds times two of one forward pass over one sequence of `length`, in closed form."""
        raise BadInput(f"model.mixer.kind: {self.kind!r} states no FLOPs")
