"""The contract of a mixer: a spec that builds a module which mixes along L."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from headstart.errors import BadInput
from headstart.spec import Spec
from headstart.text import plain

PARTS = ("query_key", "value_output", "kernel", "norm", "mixer_rest")
"""Leaf parts that a mixer's tensors can belong to."""
ALWAYS = ("window", "state")
"""Settings that a description names though they have their usual values."""


class MixerSpec(Spec):
    """Base of mixer specs.

    `build(width, length, causal)` gives an nn.Module with `forward(x, valid, draw=None) -> x`: x (B, L, D),
    valid (B, L) bool, or None where every position is valid (known before the forward, so that nothing is
    masked for nothing); draw a `seeds.Draw` in training and None in evaluation. Padding stands at the end and
    may hold any finite number. The forward is pure: no state is kept between calls and no Python branch
    depends on data, so that many models train at once by stacking.

    The module may have `parts: dict[str, str]`, from a prefix of its own parameter names to one of PARTS;
    what it does not name is `mixer_rest`. `undecayed: set[str]` (prefixes) and `rates: dict[str, float]`
    (prefix -> its own learning rate) are read by the optimiser. A parameter that never learns has
    `requires_grad` False; a buffer that is a constant is not persistent. A mixer that can turn queries and
    keys sets `rotary = True` and takes `theta` in `build`; one that cannot be causal sets
    `can_be_causal = False`, and its `build` refuses `causal`.

    What else the module may have is used where it is there: `kernel(length)` -> (C, D, L), the convolution that a
    report draws; `attention(x, valid)` -> `attend.AttentionView`, whose maps it draws; `exportable(length)` -> the
    module that an ONNX file states for at most that many positions, or BadInput with the reason (without it: its own
    forward).

    `models/contract.py` holds every mixer to this. It builds the spec with the fields of `example`, for D 16
    and L up to 64; `uncounted` says in words which work `flops` counts and a count of matrix products,
    convolutions and FFTs misses ("": none, both agree within 5 %).
    """

    kind: str
    rotary: ClassVar[bool] = False
    can_be_causal: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {}
    uncounted: ClassVar[str] = ""

    def describe(self) -> str:
        """`local_attention (4 heads, window 9)`: its window and state, and whatever is not as usual."""
        return self.in_words({})

    def in_words(self, texts: Mapping[str, str], inner: str = "") -> str:
        """The same, with texts for some settings (empty: the setting is left out) and a text behind the kind."""
        settings = []
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            usual = value == info.get_default(call_default_factory=True)
            if name in texts:
                settings.append(texts[name])
            elif name != "kind" and (name in ALWAYS or not usual):
                settings.append(f"{name} {plain(value)}")
        listed = ", ".join(text for text in settings if text)
        return self.kind + inner + (f" ({listed})" if listed else "")

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module for inputs (B, L, width) with L at most `length`."""
        del width, length, causal
        raise BadInput(f"model.mixer.kind: {self.kind!r} builds nothing")

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Multiply-adds times two of one forward pass over one sequence of `length`, in closed form."""
        del width, length, causal
        raise BadInput(f"model.mixer.kind: {self.kind!r} states no FLOPs")
