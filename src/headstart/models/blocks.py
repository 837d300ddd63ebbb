"""One block: a mixer and a feed-forward layer, each with its norm, dropout and residual path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import nn

from headstart.models.norms import Tensors
from headstart.seeds import Draw
from headstart.spec import Spec, neutral

Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
ACTIVATIONS: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}
GPT2_SPREAD, GPT2_WIDTH = 0.02, 768
"""Standard deviation of fresh weights (Radford et al. 2019; `initializer_range` of the released models)."""


class FeedForwardSpec(Spec):
    """What follows each mixer, at each position by itself."""

    kind: Literal["mlp", "glu", "none"] = "mlp"
    """`mlp` (D -> width -> GELU -> D), `glu` (a gate(b), a and b of `width` each, then back to D) or `none`."""
    width: int | None = Field(default=None, ge=1)
    """Default 4 D for `mlp`. For `glu` the default is D without a layer back, the gated linear unit of S4's blocks (2
    D^2 weights)."""
    activation: Activation = neutral("gelu")
    """That of `mlp`; `gelu_tanh` is GPT-2's approximation of the GELU."""
    bias: bool = neutral(True)
    """Whether its linear layers have one."""
    gate: Literal["sigmoid", "gelu", "gelu_tanh", "relu", "silu"] = neutral("sigmoid")
    """That of `glu`."""

    @model_validator(mode="after")
    def _of_layers_that_there_are(self) -> FeedForwardSpec:
        if self.activation != "gelu" and self.kind != "mlp":
            raise ValueError(f"activation {self.activation!r} is for kind 'mlp', not {self.kind!r}; leave it out")
        if self.gate != "sigmoid" and self.kind != "glu":
            raise ValueError(f"gate {self.gate!r} is for kind 'glu', not {self.kind!r}; leave it out")
        if not self.bias and self.kind == "none":
            raise ValueError("bias is of the layers of kind 'mlp' or 'glu', not of 'none'; leave it out")
        return self

    def describe(self) -> str:
        """`an MLP of width 12 as feed-forward layer`."""
        if self.kind == "none":
            return "no feed-forward layer"
        name = {"mlp": "an MLP", "glu": "a gated linear unit"}[self.kind]
        width = f" of width {self.width}" if self.width else ""
        activation = f" with {self.activation}" if self.activation != "gelu" else ""
        activation += f" gated by {self.gate}" if self.gate != "sigmoid" else ""
        return f"{name}{width}{activation}{'' if self.bias else ' without biases'} as feed-forward layer"


class MLP(nn.Module):
    """Two linear layers around an activation. Shapes: (B, L, D) -> (B, L, D).

    Source: the GELU and its approximation by tanh: Hendrycks and Gimpel 2016.
    """

    def __init__(self, width: int, hidden: int, activation: Activation, bias: bool) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.into = nn.Linear(width, hidden, bias)
        self.back = nn.Linear(hidden, width, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.back(self.activation(self.into(x)))


class GLU(nn.Module):
    """a gate(b), with [a, b] one linear layer of x; then a linear layer back where `hidden` is given.

    Shapes: (B, L, D) -> (B, L, D). Source: Dauphin et al. 2017; other gates than the sigmoid: Shazeer 2020.
    """

    def __init__(self, width: int, hidden: int | None, bias: bool, gate: str = "sigmoid") -> None:
        super().__init__()
        self.gate = ACTIVATIONS.get(gate)  # type: ignore[call-overload]
        self.into = nn.Linear(width, 2 * (hidden or width), bias)
        self.back = None if hidden is None else nn.Linear(hidden, width, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gate is None:
            gated = F.glu(self.into(x), dim=-1)
        else:
            held, gate = self.into(x).chunk(2, dim=-1)
            gated = held * self.gate(gate)
        return gated if self.back is None else self.back(gated)


def build_feed_forward(spec: FeedForwardSpec, width: int) -> nn.Module | None:
    """The feed-forward layer, or None where there is none."""
    if spec.kind == "none":
        return None
    if spec.kind == "glu":
        return GLU(width, spec.width, spec.bias, spec.gate)
    return MLP(width, spec.width or 4 * width, spec.activation, spec.bias)


def scaled_spread(width: int) -> float:
    """GPT-2's deviation, by the width that it was made for: 0.02 sqrt(768 / width) below 768.

    0.02 is about 0.55 / sqrt(768). At a small width it leaves a random block nearly without mixing: of the last
    position's state, 0.0073 depends on the others at width 64, 0.115 at GPT-2's own, and 0.076 with this deviation.
    """
    return GPT2_SPREAD * math.sqrt(max(GPT2_WIDTH / width, 1.0))


def small_start(stage: Any) -> str:
    """What to say of a stage that pretrains from GPT-2's deviation at a width for which it is small; else nothing."""
    model, width = getattr(stage, "model", None), getattr(getattr(stage, "model", None), "width", GPT2_WIDTH)
    trained = stage is not None and not getattr(getattr(stage, "budget", None), "empty", False)
    if not trained or getattr(model, "init", "") != "gpt2" or getattr(stage, "start", ()) or width >= GPT2_WIDTH:
        return ""
    return (
        f"pretraining began with GPT-2's deviation of {GPT2_SPREAD} at width {width}; with one that grows as the width "
        f'falls ({scaled_spread(width):.2g}, model.init = "gpt2_scaled" of that stage) it may learn more.'
    )


def gpt2_start(blocks: Iterable[nn.Module], count: int, spread: float = GPT2_SPREAD) -> None:
    """Draw the linear layers of attention and MLPs as GPT-2 does, in place.

    Weights are N(0, spread^2) and biases 0; layers that end on the residual path are divided by sqrt(2 blocks).
    Source: Radford et al. 2019, section 2.3 (0.02, at widths from 768).
    """
    for block in blocks:
        for name, layer in block.named_modules():
            if isinstance(layer, nn.Linear):
                last = name.rpartition(".")[2] in ("output", "back")
                nn.init.normal_(layer.weight, std=spread / (math.sqrt(2 * count) if last else 1.0))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


def feed_forward_flops(spec: FeedForwardSpec, width: int, length: int) -> float:
    """Multiply-adds times two for one sequence."""
    if spec.kind == "none":
        return 0.0
    if spec.kind == "mlp":
        return 4.0 * length * width * (spec.width or 4 * width)
    if spec.width is None:
        return 4.0 * length * width**2
    return 6.0 * length * width * spec.width


def dropout(x: torch.Tensor, rate: float, draw: Draw | None, name: str) -> torch.Tensor:
    """Zero a share `rate` of the numbers of x (B, L, D) and scale up the rest; nothing without `draw`.

    `name` keys the random numbers: each layer of the model has its own.
    """
    if draw is None or (rate == 0.0 and draw.dropout is None):
        return x
    numbers = draw(f"dropout/{name}", x.shape)
    if draw.dropout is not None:
        own: torch.Tensor = draw.dropout
        return x * ((numbers >= own.to(numbers.dtype)).to(x.dtype) / (1.0 - own).to(x.dtype))
    return x * ((numbers >= rate).to(x.dtype) / (1.0 - rate))


class Block(nn.Module):
    """x + mixer(norm(x)), then x + feed_forward(norm(x)); with norms after, norm(x + mixer(x)) and so on.

    `parallel`: x + mixer(norm(x)) + feed_forward(norm'(x)), as in GPT-NeoX (Black et al. 2022). Shapes: x (B, L, D),
    valid (B, L) bool or None (all valid), bias (H, L, L) of the scores of a mixer that takes one, or None -> (B, L, D).
    `name` is the block's full name.
    """

    def __init__(
        self,
        mixer: nn.Module,
        feed_forward: nn.Module | None,
        norms: tuple[nn.Module, nn.Module],
        norm_place: Literal["before", "after"],
        residual: bool,
        parallel: bool,
        rate: float,
        name: str,
        takes_bias: bool,
    ) -> None:
        super().__init__()
        self.norm_mixer, self.mixer = norms[0], mixer
        if feed_forward is not None:
            self.norm_feed_forward, self.feed_forward = norms[1], feed_forward
        self.fed, self.before, self.residual = feed_forward is not None, norm_place == "before", residual
        self.parallel, self.takes_bias = parallel, takes_bias
        self.rate, self.name = rate, name

    def forward(
        self,
        x: torch.Tensor,
        valid: torch.Tensor | None,
        draw: Draw | None,
        statistics: Tensors | None,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        within = None if draw is None else draw.within(self.name)
        more = (bias,) if self.takes_bias and bias is not None else ()
        start, inputs = x, self.norm_mixer(x, valid, statistics) if self.before else x
        new = dropout(self.mixer(inputs, valid, within, *more), self.rate, draw, f"{self.name}.mixer")
        x = x + new if self.residual else new
        if not self.before:
            x = self.norm_mixer(x, valid, statistics)
        if not self.fed:
            return x
        inputs = start if self.parallel else x
        inputs = self.norm_feed_forward(inputs, valid, statistics) if self.before else inputs
        new = dropout(self.feed_forward(inputs), self.rate, draw, f"{self.name}.feed_forward")
        x = x + new if self.residual else new
        return x if self.before else self.norm_feed_forward(x, valid, statistics)
