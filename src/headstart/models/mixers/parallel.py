"""Mixers side by side on the same input, their outputs added or joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.exporting import exportable, replaced
from headstart.models.mixers import MIXERS
from headstart.models.mixers.mixer import MixerSpec, prefixed
from headstart.seeds import Draw
from headstart.spec import kind_field, spec_of_kind
from headstart.text import listed


def _default() -> tuple[MixerSpec, ...]:
    return tuple(spec_of_kind(MIXERS, {"kind": kind}) for kind in ("s4", "local_attention"))


def _as_tuple(value: Any) -> Any:
    """TOML knows lists only."""
    return tuple(value) if isinstance(value, list) else value


class ParallelSpec(MixerSpec):
    """Several mixers on one input.

    Raises: BadInput where a number in `frozen` names no mixer.
    """

    kind: Literal["parallel"] = "parallel"
    mixers: Annotated[
        tuple[kind_field(MixerSpec, MIXERS), ...], BeforeValidator(_as_tuple)  # type: ignore[valid-type]
    ] = Field(default_factory=_default, min_length=1)
    """The mixers that stand side by side, each `{ kind = ... }`."""
    combine: Literal["sum", "concat"] = "concat"
    """`sum` adds their outputs, `concat` joins them and projects (n D) to D."""
    norm: bool = True
    """Each output has a layer norm first (part `norm`), so that none drowns the others."""
    frozen: Annotated[tuple[int, ...], BeforeValidator(_as_tuple)] = ()
    """Numbers of mixers that keep their fresh weights and do not learn. SPADE's first block is `mixers = [{ kind = "s4"
    }, { kind = "local_attention" }], frozen = [0]`, its others local attention. Those two mixers are the default."""

    example: ClassVar[Mapping[str, Any]] = {
        "mixers": ({"kind": "s4d", "state": 4}, {"kind": "local_attention", "window": 4}),
        "frozen": (0,),
    }

    def describe(self) -> str:
        return self.in_words({"mixers": ""}, f" of {listed([mixer.describe() for mixer in self.mixers])}")

    @property
    def rotary(self) -> bool:  # type: ignore[override]
        """Whether any of the mixers turns queries and keys."""
        return any(spec.rotary for spec in self.mixers)

    @property
    def alone(self) -> str:
        return next((reason for spec in self.mixers if (reason := spec.alone)), super().alone)

    @property
    def can_be_causal(self) -> bool:  # type: ignore[override]
        """Whether all of the mixers can."""
        return all(spec.can_be_causal for spec in self.mixers)

    @property
    def mixed_version(self) -> int:  # type: ignore[override]
        """The highest of the mixers."""
        return max(spec.mixed_version for spec in self.mixers)

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        """The module; `theta` goes to the mixers that take it."""
        count = len(self.mixers)
        for number in self.frozen:
            if not 0 <= number < count:
                raise BadInput(f"model.mixer.frozen: no mixer {number}; there are {count}, 0 to {count - 1}")
        built = []
        for spec in self.mixers:
            turning = {"theta": theta} if spec.rotary and theta is not None else {}
            built.append(spec.build(width, length, causal, **turning))
        return Parallel(self, built, width)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Those of the mixers, and of the layer that joins them."""
        total: float = sum(spec.flops(width, length, causal) for spec in self.mixers)
        return total + (2.0 * length * len(self.mixers) * width**2 if self.combine == "concat" else 0.0)

    def kernel_flops(self, width: int, length: int, causal: bool) -> float:
        return float(sum(spec.kernel_flops(width, length, causal) for spec in self.mixers))


class Parallel(nn.Module):
    """The sum, or a projection of the concatenation, of the (normed) outputs of several mixers.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D).
    Source: Zuo et al. 2022, "Efficient long sequence modeling via state space augmented transformer" (SPADE),
    section 3.2; frozen by default in its released code.
    """

    def __init__(self, spec: ParallelSpec, mixers: list[nn.Module], width: int) -> None:
        super().__init__()
        self.mixers = nn.ModuleList(mixers)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in mixers if spec.norm)
        self.joint = nn.Linear(len(mixers) * width, width) if spec.combine == "concat" else None
        for number in spec.frozen:
            mixers[number].requires_grad_(False)
        self.parts: dict[str, str] = {"norms": "norm", **prefixed("mixers", mixers, "parts")}
        self.rates: dict[str, float] = prefixed("mixers", mixers, "rates")
        self.undecayed = set(prefixed("mixers", mixers, "undecayed"))

    def exportable(self, length: int) -> nn.Module:
        """Itself, of what its mixers export."""
        return replaced(self, mixers=nn.ModuleList(exportable(mixer, length) for mixer in self.mixers))

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        outputs: list[Tensor] = [mixer(x, valid, draw) for mixer in self.mixers]
        if self.norms:
            outputs = [norm(y) for norm, y in zip(self.norms, outputs, strict=True)]
        if self.joint is None:
            return torch.stack(outputs).sum(0)
        return self.joint(torch.cat(outputs, -1))
