"""Models of series: what a pretrained encoder makes of each channel of a sequence, by patches, as one vector.

Letters: C channels, L positions, N patches, D the width of the blocks, P features of a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from headstart.checkpoints.family import TensorShape
from headstart.checkpoints.fields import Fields
from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.sequence import Signature
from headstart.spec import Spec
from headstart.text import many

Reader = Callable[[Tensor, Tensor], Tensor]
"""Values (C, L) float64, gaps crossed, and where they were observed (C, L) bool -> (C, P) in the weights' precision.

A channel's features depend on no other channel; of a model of images those of as many channels as it has colours are
one row.
"""
SERIES_EPSILON = 1e-5
"""What Chronos-Bolt and MOMENT take for the deviation of a constant, or add to it."""
STILL = 1e-7
"""A deviation below this share of the mean is rounding: the channel is constant."""


class SeriesModelSpec(Spec):
    """Base of models of series, without their weights."""

    kind: str
    length: int = Field(ge=1, le=2**16)
    """Positions of a sequence that are read at most."""
    reads: ClassVar[str] = "each channel of a series of any length"

    @property
    def colours(self) -> int:
        """Channels of an image that are read as one; 0: channels are read one by one."""
        return 0

    @property
    def size(self) -> int:
        """P."""
        raise NotImplementedError

    @property
    def tokens(self) -> int:
        """Vectors that pass the blocks, of the longest sequence."""
        raise NotImplementedError

    def shapes(self) -> dict[str, TensorShape]:
        """Of each tensor, by our names. Raises: BadInput where sizes contradict each other."""
        raise NotImplementedError

    def reader(self, weights: Mapping[str, Tensor]) -> Reader:
        """What makes features, with these weights."""
        raise NotImplementedError

    @property
    def flops(self) -> float:
        """About what one channel of the longest sequence costs: each number multiplies each vector once."""
        return 2.0 * self.tokens * sum(prod(shape) for shape in self.shapes().values())


@dataclass(frozen=True)
class SeriesFields(Fields):
    """Those of a model of series. `model` describes its blocks, and no model of ours is made of it."""

    series: SeriesModelSpec = field(kw_only=True)

    def describe(self) -> str:
        """What it makes of a sequence, in words."""
        size, blocks = self.series.size, many(self.spec.blocks, "block")
        return f"{blocks}, width {self.spec.width}; {size:,} features of {self.series.reads}"

    def shapes(self) -> dict[str, TensorShape]:
        return self.series.shapes()

    @property
    def document(self) -> list[Any]:
        """The settings of the reader."""
        return [self.series.document()]


class PatchedSpec(SeriesModelSpec):
    """Patches of `patch` positions through a layer, and blocks of T5 above them.

    Source: Ansari et al. 2024, released code. moment: longer sequences are stretched to `length` in straight lines;
    a patch with a missing position is not seen, unless a channel has no other: then its gaps are crossed in straight
    lines, and the first value stands before it. Features: the mean over the patches that are seen. Source: Goswami et
    al. 2024, released code.
    """

    kind: Literal["chronos_bolt", "moment"]
    model: dict[str, Any]
    """Fields of a `ModelSpec`. chronos_bolt: the last `length` positions; values less their mean over their deviation;
    missing ones are 0, and each position says beside its value whether it is there; patches without any are not seen.
    Behind the patches stands a learned vector, the register. Features: the mean over the vectors of the patches that
    are seen, and the register's."""
    patch: int = Field(ge=1, le=2**12)

    @property
    def registered(self) -> bool:
        """Whether a register stands behind the patches."""
        return self.kind == "chronos_bolt"

    @property
    def _fields(self) -> Fields:
        return Fields("t5", self.model, None)

    @property
    def size(self) -> int:
        return self._fields.spec.width * (1 + self.registered)

    @property
    def tokens(self) -> int:
        return -(-self.length // self.patch) + self.registered

    def shapes(self) -> dict[str, TensorShape]:
        spec = self._fields.spec
        for mixer in spec.mixers:
            if mixer.kind != "attention":
                raise BadInput(f"model.mixer.kind: {mixer.kind!r}, the blocks of T5 have 'attention'; save it again")
        return self._fields.shapes() | self._input_shapes(spec)

    def _input_shapes(self, spec: ModelSpec) -> dict[str, TensorShape]:
        """Of what stands before the blocks, whose model is `spec`."""
        width, inputs = spec.width, 2 * self.patch
        own: dict[str, TensorShape] = {
            "input.value.weight": (width, self.patch),
            "input.position": (self.tokens, width),
        }
        if self.kind == "chronos_bolt":
            hidden = spec.feed_forward.width or 4 * width
            layers = {"hidden": (hidden, inputs), "output": (width, hidden), "residual": (width, inputs)}
            own = {f"input.{name}.weight": shape for name, shape in layers.items()}
            own |= {f"input.{name}.bias": shape[:1] for name, shape in layers.items()}
            own["input.register"] = (width,)
        return own

    def reader(self, weights: Mapping[str, Tensor]) -> Reader:
        spec, inputs = self._fields.spec, {n: x for n, x in weights.items() if n.startswith("input.")}
        signature = Signature("floats", spec.width, self.tokens, 1, "class", classes=2)
        model = build_model(spec, signature, Output("sequence", 2), 0).to(next(iter(weights.values())).dtype).eval()
        blocks = {name: x for name, x in weights.items() if name not in inputs}
        model.load_state_dict({**model.state_dict(), **blocks})
        return partial(self._read, model, inputs)

    def _read(self, model: SequenceModel, inputs: Mapping[str, Tensor], x: Tensor, seen: Tensor) -> Tensor:
        vectors, valid = self._patches(inputs, x, seen)
        count, levels = valid.shape[1] - self.registered, (0, len(model.blocks) + 1)
        out = model.through(vectors, None if bool(valid.all()) else valid, levels, None, None)
        there = valid[:, :count, None]
        mean = (out[:, :count] * there).sum(1) / there.sum(1).clamp_min(1)
        return torch.cat([mean, out[:, -1]], 1) if self.registered else mean

    def _patches(self, inputs: Mapping[str, Tensor], x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (C, N, D) of patches, the register behind them, and (C, N) bool of those that are seen."""
        return (_bolt_patches if self.kind == "chronos_bolt" else _moment_patches)(self, inputs, x, seen)


def _bolt_patches(spec: PatchedSpec, inputs: Mapping[str, Tensor], x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """(C, N, D) and (C, N) bool, the register behind the patches."""
    x, seen = x[:, -spec.length :], seen[:, -spec.length :]
    mean, deviation = _moments(x, seen)
    x = torch.where(seen, (x - mean) / torch.where(deviation == 0, SERIES_EPSILON, deviation), 0.0)
    empty = (-x.shape[1] % spec.patch, 0)
    x, there = (torch.unflatten(F.pad(part, empty), 1, (-1, spec.patch)) for part in (x, seen))
    weight = inputs["input.hidden.weight"]
    both = torch.cat([x, there], -1).to(weight.dtype)
    vectors = F.linear(
        F.linear(both, weight, inputs["input.hidden.bias"]).relu(),
        inputs["input.output.weight"],
        inputs["input.output.bias"],
    )
    vectors = vectors + F.linear(both, inputs["input.residual.weight"], inputs["input.residual.bias"])
    register = inputs["input.register"].expand(len(x), 1, -1)
    return torch.cat([vectors, register], 1), F.pad(there.any(-1), (0, 1), value=True)


def _moment_patches(spec: PatchedSpec, inputs: Mapping[str, Tensor], x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """(C, N, D) and (C, N) bool; the last patch ends with the sequence, and has the last of the positions."""
    if x.shape[1] > spec.length:
        x, seen = stretched(x, spec.length), torch.ones(len(x), spec.length, dtype=torch.bool)
    mean, deviation = _moments(x, seen)
    x = (x - mean) / (deviation + SERIES_EPSILON)
    before = -x.shape[1] % spec.patch
    x = torch.unflatten(torch.cat([x[:, :1].expand(-1, before), x], 1), 1, (-1, spec.patch))
    valid = torch.unflatten(F.pad(seen, (before, 0)), 1, (-1, spec.patch)).all(-1)
    weight = inputs["input.value.weight"]
    vectors = F.linear(x.to(weight.dtype), weight) + inputs["input.position"][-x.shape[1] :]
    return vectors, valid | ~valid.any(1, keepdim=True)


def _moments(x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """(C, 1) mean and deviation of what was observed; 0 where nothing was, and a deviation of 0 of a constant."""
    count = seen.sum(1, keepdim=True).clamp_min(1)
    mean = (x * seen).sum(1, keepdim=True) / count
    deviation = (((x - mean) * seen).square().sum(1, keepdim=True) / count).sqrt()
    return mean, torch.where(deviation > STILL * mean.abs(), deviation, 0.0)


def stretched(x: Tensor, length: int) -> Tensor:
    """x (C, L) at `length` positions spread evenly over it, in straight lines between neighbours."""
    return F.interpolate(x[None], length, mode="linear", align_corners=False)[0]
