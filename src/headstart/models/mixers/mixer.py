"""The contract of a mixer, a spec that builds a module which mixes along L, and what attention-like mixers share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.positions import Rotary
from headstart.seeds import Draw
from headstart.spec import Spec
from headstart.text import many, plain

MIXER_PARTS = ("query_key", "value_output", "kernel", "norm", "mixer_rest")
"""Leaf parts that a mixer's tensors can belong to."""
LAYER_PARTS = {"query": "query_key", "key": "query_key", "value": "value_output", "output": "value_output"}
"""Leaf parts of the four layers of attention-like mixers."""
ALWAYS = ("window", "state")
"""Settings that a description names though they have their usual values."""


class MixerSpec(Spec):
    """Base of mixer specs.

    `build(width, length, causal)` gives an nn.Module with `forward(x, valid, draw=None) -> x`: x (B, L, D),
    valid (B, L) bool, or None where every position is valid (known before the forward, so that nothing is
    masked for nothing); draw a `seeds.Draw` in training and None in evaluation. Padding stands at the end and
    may hold any finite number. The forward is pure: no state is kept between calls and no Python branch
    depends on data, so that many models train at once by stacking.

    The module may have `parts: dict[str, str]`, from a prefix of its own parameter names to one of MIXER_PARTS;
    what it does not name is `mixer_rest`. `undecayed: set[str]` (prefixes) and `rates: dict[str, float]`
    (prefix -> its own learning rate) are read by the optimiser. A parameter that never learns has
    `requires_grad` False; a buffer that is a constant is not persistent. A mixer that can turn queries and
    keys sets `rotary = True` and takes `theta` in `build`, and with `partial_rotary = True` also `share`, how much of
    each head turns; one that cannot be causal sets `can_be_causal = False`, and its `build` refuses `causal`. With
    `takes_bias = True` a spec has `heads`, and its module's forward takes `bias` (H, L, L) after `draw`, or None, and
    adds it to the scores of its heads.

    What else the module may have is used where it is there: `kernel(length)` -> (C, D, L), the convolution that a
    report draws; `attention(x, valid)` (and `bias`) -> `attend.AttentionView`, whose maps it draws;
    `exportable(length)` -> the module that an ONNX file states for at most that many positions, or BadInput with the
    reason (without it: its own forward); `per_position`: names of parameters besides those of linear layers that
    multiply each position, by which the FLOPs of training a part of a model are counted.

    `models/contract.py` holds every mixer to this. It builds the spec with the fields of `example`, for D 16
    and L up to 64; `uncounted` says in words which work `flops` counts and a count of matrix products,
    convolutions and FFTs misses ("": none, both agree within 5 %).

    stackable: whether models of it can take their steps as a stack (`training/stack.py`), which `check` shows; a class
    of a plugin says so itself, `stackable = True`. unstackable: why it cannot. mixed_version: raised where results in
    mixed precision change, and those of full precision do not.
    """

    kind: str
    rotary: ClassVar[bool] = False
    partial_rotary: ClassVar[bool] = False
    takes_bias: ClassVar[bool] = False
    can_be_causal: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {}
    uncounted: ClassVar[str] = ""
    stackable: ClassVar[bool] = True
    unstackable: ClassVar[str] = ""
    mixed_version: ClassVar[int] = 1

    @property
    def alone(self) -> str:
        """Why models of it are trained one by one, or empty where they can be stacked."""
        cls = type(self)
        if not self.stackable:
            return f"mixer {self.kind!r} cannot be stacked: {self.unstackable or 'so its class says'}"
        if not cls.__module__.startswith("headstart.") and "stackable" not in vars(cls):
            return f"mixer {self.kind!r} is of a plugin, whose class does not say stackable = True"
        return ""

    def describe(self) -> str:
        """`local_attention (4 heads, window 9)`: its heads, window and state, and whatever is not as usual."""
        return self.in_words({})

    def in_words(self, texts: Mapping[str, str], inner: str = "") -> str:
        """The same, with texts for some settings (empty: the setting is left out) and a text behind the kind."""
        settings = []
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            usual = value == info.get_default(call_default_factory=True)
            if name in texts:
                settings.append(texts[name])
            elif name == "heads":
                settings.append(many(value, "head"))
            elif name != "kind" and ((name in ALWAYS and value is not None) or not usual):
                settings.append(f"{name} {plain(value)}")
        listed = ", ".join(text for text in settings if text)
        return self.kind + inner + (f" ({listed})" if listed else "")

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        """The module for inputs (B, L, width) with L at most `length`."""
        raise BadInput(f"model.mixer.kind: {self.kind!r} builds nothing; give its class `build`, as in the guide")

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Multiply-adds times two of one forward pass over one sequence of `length`, in closed form."""
        raise BadInput(f"model.mixer.kind: {self.kind!r} states no FLOPs; give its class `flops`, as in the guide")

    def kernel_flops(self, width: int, length: int, causal: bool) -> float:
        """Of `flops`, what makes a kernel out of parameters alone: that is done once for a batch, whatever it holds."""
        return 0.0


class HeadsSpec(MixerSpec):
    """Base of attention-like specs, with `heads` heads of width E = D / heads."""

    heads: int = Field(default=4, ge=1)
    """Heads, which divide the width."""
    bias: bool = True
    """Whether the four layers have one."""
    init: Literal["independent", "tied"] = "independent"
    """`independent` draws query, key, value and output apart; `tied` starts the four with equal values, as the code of
    Amos et al. does (they train apart)."""

    def describe(self) -> str:
        tied = {"init": "query, key, value and output starting as equal copies"}
        return self.in_words(tied if self.init == "tied" else {})

    def inner(self, width: int) -> int:
        """H E: how wide all heads are together."""
        return width

    def layers(self, count: int, width: int) -> Iterator[nn.Linear]:
        """`count` layers D -> H E, of four the last one back, drawn apart, or with equal values in separate tensors
        (`tied`)."""
        leader: nn.Linear | None = None
        for number in range(count):
            ends = (width, self.inner(width))
            layer = nn.Linear(*(ends[::-1] if number == len(LAYER_PARTS) - 1 else ends), bias=self.bias)
            if self.init == "tied" and leader is not None:
                layer.load_state_dict(leader.state_dict())
            leader = leader or layer
            yield layer


def head_width(heads: int, width: int, theta: float | None = None, share: float = 1.0) -> int:
    """E. Raises: BadInput where heads do not divide the width, or have no planes for rotary positions."""
    if width % heads:
        divisors = [h for h in range(1, width + 1) if width % h == 0]
        best = min(divisors, key=lambda h: abs(h - heads))
        raise BadInput(
            f"model.mixer.heads: {heads} heads do not divide model.width = {width}; "
            f"{best} do, or take a width of {heads * max(1, round(width / heads))}"
        )
    if theta is not None and width // heads % 2:
        raise BadInput(
            f"model.mixer.heads: rotary positions need heads of even width, "
            f"{width} / {heads} is {width // heads}; take another number of heads"
        )
    if theta is not None and (turned := int(width // heads * share)) % 2 + (turned == 0):
        raise BadInput(
            f"model.position.share: {share:g} of heads of width {width // heads} are {turned} numbers, and rotary "
            "positions turn pairs; take another share"
        )
    return width // heads


def directions_of(directions: int | None, causal: bool) -> int:
    """One direction where causal, else two, unless the spec says.

    Raises: BadInput where two directions are asked of a causal model.
    """
    if causal and directions == 2:
        raise BadInput("model.mixer.directions: 2 cannot be causal; leave it out or set 1")
    return directions or (1 if causal else 2)


def prefixed(name: str, modules: Iterable[nn.Module], what: str) -> dict[str, Any]:
    """What each module of a list `name` says of its parameters (`parts`, `rates`, `undecayed`), by their full names."""
    table: dict[str, Any] = {}
    for number, module in enumerate(modules):
        entries: Mapping[str, Any] | set[str] = getattr(module, what, {})
        values = entries if isinstance(entries, Mapping) else dict.fromkeys(entries)
        table.update({f"{name}.{number}.{prefix}": value for prefix, value in values.items()})
    return table


def split(x: Tensor, heads: int) -> Tensor:
    """(B, L, D) -> (B, H, L, D / H)."""
    return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """(B, H, L, E) -> (B, L, H E)."""
    return x.transpose(1, 2).flatten(-2)


def everywhere(x: Tensor, valid: Tensor | None) -> Tensor:
    """`valid`, or where it is None a mask (B, L) that is true everywhere."""
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if valid is None else valid


class HeadsMixer(nn.Module):
    """Base of attention-like mixers: query, key, value and output layers around `mix`, which each mixer writes.

    Shapes: x (B, L, D), valid (B, L) bool or None (all valid) -> (B, L, D). With `theta` queries and keys turn with
    their position, the first `share` of each head.
    """

    parts: Mapping[str, str] = LAYER_PARTS

    def __init__(
        self, spec: HeadsSpec, width: int, length: int, causal: bool, theta: float | None = None, share: float = 1.0
    ) -> None:
        super().__init__()
        self.heads, self.causal = spec.heads, causal
        each = head_width(spec.heads, spec.inner(width), theta, share)
        self.query, self.key, self.value, self.output = spec.layers(4, width)
        self.turn = Rotary(length, int(each * share), theta)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        (query, key), value = self.queries_keys(x), split(self.value(x), self.heads)
        return self.output(joined(self.mix(query, key, value, valid)).to(value.dtype))

    def queries_keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Turned queries and keys: (B, H, L, E) each."""
        return self.turn(split(self.query(x), self.heads)), self.turn(split(self.key(x), self.heads))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        """What each position takes from the values: (B, H, L, E) each, valid (B, L) or None -> (B, H, L, E)."""
        raise NotImplementedError
