"""One functional AdamW over flat parameters, with schedules, decay groups and clipping.

All trainable tensors live in one flat buffer per model, and their gradients in another: a step is then a
handful of operations whatever the number of tensors, which matters for small models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import nn

from headstart.errors import BadInput
from headstart.spec import Spec


class OptimSpec(Spec):
    """How weights are changed.

    lr: peak learning rate. schedule: `cosine` falls to `final_share` of the peak at the end of the budget,
    `constant` stays. warmup_steps or warmup_share (of all steps): linear rise from 0 to the peak. decay: the
    parts that weight decay shrinks, in the algebra of parts. clip: largest norm of the whole gradient.
    length_pool: batches per pool of like lengths (0: no buckets). precision: of the forward pass; bfloat16 is
    mixed precision, its weights stay float32.
    """

    lr: float = Field(default=1e-3, gt=0)
    batch_size: int = Field(default=32, ge=1)
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_steps: int = Field(default=0, ge=0)
    warmup_share: float = Field(default=0.0, ge=0, le=1)
    final_share: float = Field(default=0.0, ge=0, le=1)
    weight_decay: float = Field(default=0.0, ge=0)
    decay: str = "all-kernel"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0)
    clip: float | None = Field(default=None, gt=0)
    length_pool: int = Field(default=0, ge=0)
    precision: Literal["float32", "bfloat16", "float64"] = "float32"

    @model_validator(mode="after")
    def _one_warmup(self) -> OptimSpec:
        if self.warmup_steps and self.warmup_share:
            raise ValueError("warmup_steps and warmup_share are two ways to say one thing; give one of them")
        return self

    def factor(self, step: int, total: int) -> float:
        """Share of the peak rate at step 0, 1, ..., total - 1."""
        warm = self.warmup_steps or round(self.warmup_share * total)
        if step < warm:
            return (step + 1) / warm
        if self.schedule == "constant":
            return 1.0
        done = (step - warm) / max(total - warm, 1)
        return self.final_share + (1 - self.final_share) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Group:
    """A slice of the flat buffer: its own peak rate (None: the spec's), and whether it decays."""

    first: int
    last: int
    rate: float | None
    decays: bool


def adamw_(
    weights: torch.Tensor,
    gradient: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    *,
    step: int,
    rate: float,
    decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    """One AdamW step in place, `step` counted from 1. All tensors of one shape.

    Source: Loshchilov and Hutter 2019, algorithm 2, with torch's order of operations.
    """
    if decay:
        weights.mul_(1 - rate * decay)
    first.lerp_(gradient, 1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    spread = second.sqrt().div_(math.sqrt(1 - beta2**step)).add_(epsilon)
    weights.addcdiv_(first, spread, value=-rate / (1 - beta1**step))


class Flat:
    """Trainable tensors of a model as views of one flat buffer, with gradients and moments beside it.

    Names are laid in groups of equal rate and decay. Raises: BadInput where tensors differ in type.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], decayed: set[str], rates: Mapping[str, float]) -> None:
        tensors = dict(model.named_parameters())
        for tensor in tensors.values():
            tensor.requires_grad_(False)
            tensor.grad = None
        self.names = sorted(names, key=lambda n: (rates.get(n, 0.0), n in decayed))
        like = tensors[self.names[0]] if self.names else next(iter(tensors.values()))
        kinds = {tensors[n].dtype for n in self.names}
        if len(kinds) > 1:
            raise BadInput(
                f"model: trainable tensors of several types {sorted(map(str, kinds))}; "
                "store complex or half parameters as real float32"
            )
        size = sum(tensors[n].numel() for n in self.names)
        self.weights = torch.empty(size, dtype=like.dtype, device=like.device)
        self.gradient = torch.zeros_like(self.weights)
        self.first = torch.zeros_like(self.weights)
        self.second = torch.zeros_like(self.weights)
        self.groups: list[Group] = []
        self.places: dict[str, tuple[int, torch.Size]] = {}
        place = 0
        for name in self.names:
            tensor = tensors[name]
            end = place + tensor.numel()
            self.weights[place:end].copy_(tensor.detach().reshape(-1))
            tensor.data = self.weights[place:end].view(tensor.shape)
            tensor.requires_grad_(True)
            tensor.grad = self.gradient[place:end].view(tensor.shape)
            self._extend_group(place, end, rates.get(name), name in decayed)
            self.places[name] = (place, tensor.shape)
            place = end

    def _extend_group(self, first: int, last: int, rate: float | None, decays: bool) -> None:
        if self.groups and (self.groups[-1].rate, self.groups[-1].decays) == (rate, decays):
            first = self.groups.pop().first
        self.groups.append(Group(first, last, rate, decays))

    def named(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """A flat buffer cut into tensors by name (copies)."""
        return {
            name: flat[place : place + shape.numel()].reshape(shape).clone()
            for name, (place, shape) in self.places.items()
        }

    def step(self, spec: OptimSpec, step: int, total: int) -> None:
        """One optimiser step (counted from 0) from the gradients gathered, which are then cleared."""
        if spec.clip is not None:
            norm = self.gradient.norm()
            self.gradient.mul_((spec.clip / (norm + 1e-6)).clamp(max=1.0))
        factor = spec.factor(step, total)
        for group in self.groups:
            cut = slice(group.first, group.last)
            adamw_(
                self.weights[cut],
                self.gradient[cut],
                self.first[cut],
                self.second[cut],
                step=step + 1,
                rate=(spec.lr if group.rate is None else group.rate) * factor,
                decay=spec.weight_decay if group.decays else 0.0,
                beta1=spec.beta1,
                beta2=spec.beta2,
                epsilon=spec.epsilon,
            )
        self.gradient.zero_()


def rates_and_undecayed(model: nn.Module) -> tuple[dict[str, float], set[str]]:
    """Tensor names with a rate of their own, and those that never decay, as the mixers declare."""
    names = [name for name, _ in model.named_parameters()]
    rates: dict[str, float] = {}
    undecayed: set[str] = set()
    for path, module in model.named_modules():
        start = f"{path}." if path else ""
        own_rates: dict[str, float] = getattr(module, "rates", None) or {}
        own_undecayed: set[str] = getattr(module, "undecayed", None) or set()
        for name in names:
            for prefix, rate in own_rates.items():
                if name.startswith(start + prefix):
                    rates[name] = rate
            if any(name.startswith(start + prefix) for prefix in own_undecayed):
                undecayed.add(name)
    return rates, undecayed
