"""AdamW, SGD and Muon as functions over flat parameters, with schedules, decay groups and clipping.

All trainable tensors of a model live in one flat buffer: a step is then a handful of operations whatever the number of
tensors, which matters for small models.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import nn

from headstart.errors import BadInput
from headstart.parameters import leaves, select
from headstart.spec import Spec, neutral
from headstart.text import many, plain

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Of x, x^3 and x^5: each of `ROUNDS` rounds brings singular values nearer to 1 (Jordan et al. 2024)."""
ROUNDS = 5
MATCH = 0.2
"""Root mean square of a step of Muon at rate 1, near that of AdamW, so that one rate serves both (Liu et al. 2025)."""


class OptimSpec(Spec):
    """How weights are changed."""

    kind: Literal["adamw", "sgd", "muon"] = neutral("adamw")
    """`adamw`; `sgd` with momentum, whose weight decay is added to the gradient (beta1, beta2 and epsilon mean nothing
    then); `muon` for the matrices of mixers and feed-forward layers, and AdamW for everything else."""
    momentum: float | None = neutral(None, ge=0, lt=1)
    """Of SGD (default 0.9) and Muon (0.95, Nesterov's)."""
    lr: float = Field(default=1e-3, gt=0)
    """Peak learning rate."""
    batch_size: int = Field(default=32, ge=1)
    """Examples in a batch."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """`cosine` falls to `final_share` of the peak at the end of the budget, `constant` stays."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly from 0 to its peak."""
    warmup_share: float = Field(default=0.0, ge=0, le=1)
    """The same as a share of all steps of the stage; give one of the two."""
    final_share: float = Field(default=0.0, ge=0, le=1)
    """Of the peak learning rate, what is left at the end of a cosine schedule."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay: decoupled for AdamW and Muon, part of the gradient for SGD."""
    decay: str = "all-kernel"
    """The parts that weight decay shrinks, in the algebra of parts."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the running mean of gradients."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the running mean of squared gradients."""
    epsilon: float = Field(default=1e-8, gt=0)
    """Added to the denominator of the update."""
    clip: float | None = Field(default=None, gt=0)
    """Largest norm of the whole gradient."""
    length_pool: int = Field(default=0, ge=0)
    """Batches per pool of like lengths (0: no buckets)."""
    precision: Literal["float32", "bfloat16", "float64"] = "float32"
    """Of the forward pass; bfloat16 is mixed precision, its weights stay float32."""

    @model_validator(mode="after")
    def _one_warmup(self) -> OptimSpec:
        if self.warmup_steps and self.warmup_share:
            raise ValueError("warmup_steps and warmup_share are two ways to say one thing; give one of them")
        if self.kind == "adamw" and self.momentum is not None:
            raise ValueError("momentum is for the kinds 'sgd' and 'muon'; leave it out, or set beta1")
        if self.kind == "sgd":
            for name in ("beta1", "beta2", "epsilon"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} means nothing for the kind 'sgd'; leave it out")
        if self.schedule == "constant" and self.final_share:
            raise ValueError(
                f"final_share {self.final_share:g} is where schedule 'cosine' ends, and schedule is 'constant'; set "
                "final_share = 0, or schedule = 'cosine'"
            )
        return self

    def describe(self) -> str:
        """`AdamW`, `SGD with momentum 0.9`, ..."""
        names = {"adamw": "AdamW", "sgd": "SGD", "muon": "Muon for matrices and AdamW for other weights,"}
        return names[self.kind] + ("" if self.kind == "adamw" else f" with momentum {plain(self.inertia)}")

    @property
    def inertia(self) -> float:
        """The momentum in force."""
        return (0.95 if self.kind == "muon" else 0.9) if self.momentum is None else self.momentum

    def check_total(self, total: int) -> None:
        """Raises: BadInput where the warm-up is longer than the whole training, so that `lr` is never reached."""
        if total and self.warmup_steps > total:
            raise BadInput(
                f"optim.warmup_steps: {self.warmup_steps:,} is more than the {many(total, 'step')} of the budget, "
                f"in which the rate would rise to {self.lr * self.factor(total - 1, total):.2g} of lr = "
                f"{plain(self.lr)}; give at most {total:,}, or warmup_share"
            )

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
    """A slice of the flat buffer: its own peak rate (None: the spec's), and whether it decays.

    matrix: its rows and columns, where it is one tensor that Muon changes.
    """

    first: int
    last: int
    rate: float | None
    decays: bool
    matrix: tuple[int, int] | None = None

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        """Its numbers."""
        return flat[..., self.first : self.last]


Numbers = Sequence[float] | torch.Tensor
"""What `step_numbers` gives, as Python's numbers or as a tensor on the device."""


class Weights(NamedTuple):
    """Trained weights: `flat` (P,), and `tensors` by name, which are views of it and ask for gradients."""

    flat: torch.Tensor
    tensors: dict[str, torch.Tensor]


class Moments(NamedTuple):
    """Running means of the gradient (`first`) and of its square (`second`, AdamW's alone), flat."""

    first: torch.Tensor
    second: torch.Tensor


def step_numbers(spec: OptimSpec, groups: Sequence[Group], total: int, step: int) -> list[float]:
    """All numbers of the optimiser that change from step to step (0 to total - 1) or from model to model.

    sqrt(1 - beta2^t), the largest norm of the gradient, and for each group two: 1 - rate * decay and -rate / (1 -
    beta1^t), where t = step + 1; of SGD decay and -rate; of Muon's matrices 1 - rate * decay and -rate times a size.
    """
    factor = spec.factor(step, total)
    numbers = [math.sqrt(1 - spec.beta2 ** (step + 1)), math.inf if spec.clip is None else spec.clip]
    for group in groups:
        rate = (spec.lr if group.rate is None else group.rate) * factor
        decay = spec.weight_decay if group.decays else 0.0
        if spec.kind == "sgd":
            numbers += [decay, -rate]
        elif group.matrix is None:
            numbers += [1 - rate * decay, -rate / (1 - spec.beta1 ** (step + 1))]
        else:
            numbers += [1 - rate * decay, -rate * MATCH * math.sqrt(max(group.matrix))]
    return numbers


@torch.no_grad()
def update_(
    weights: torch.Tensor,
    moments: Moments,
    grad: torch.Tensor,
    numbers: Numbers,
    spec: OptimSpec,
    groups: Sequence[Group],
) -> None:
    """One step in place. weights, moments, grad (..., P); each number of `step_numbers` a scalar or (..., 1).

    Source: Loshchilov and Hutter 2019, algorithm 2; torch.optim.SGD; Jordan et al. 2024, "Muon". All with torch's order
    of operations.
    """
    if spec.clip is not None:
        norm = grad.norm(dim=-1, keepdim=True)
        grad = grad * ((norm + 1e-6).reciprocal() * numbers[1]).clamp(max=1.0)
    if spec.kind == "adamw":
        _adamw_(weights, moments, grad, numbers, spec, groups)
        return
    for number, group in enumerate(groups):
        own: list[Any] = [numbers[0], numbers[1], numbers[2 + 2 * number], numbers[3 + 2 * number]]
        part, first, second, slope = (group.of(x) for x in (weights, *moments, grad))
        if spec.kind == "sgd":
            if spec.weight_decay and group.decays:
                slope = slope + part * own[2]
            part.add_(first.mul_(spec.inertia).add_(slope) * own[3])
        elif group.matrix is None:
            whole = replace(group, first=0, last=group.last - group.first)
            _adamw_(part, Moments(first, second), slope, own, spec, [whole])
        else:
            if spec.weight_decay and group.decays:
                part.mul_(own[2])
            first.lerp_(slope, 1 - spec.inertia)
            ahead = torch.unflatten(torch.lerp(slope, first, spec.inertia), -1, group.matrix)
            part.add_(orthogonal(ahead).flatten(-2) * own[3])


def _adamw_(
    weights: torch.Tensor,
    moments: Moments,
    grad: torch.Tensor,
    numbers: Numbers,
    spec: OptimSpec,
    groups: Sequence[Group],
) -> None:
    moments.first.lerp_(grad, 1 - spec.beta1)
    moments.second.mul_(spec.beta2).addcmul_(grad, grad, value=1 - spec.beta2)
    denominator = moments.second.sqrt().div_(numbers[0]).add_(spec.epsilon)
    for number, group in enumerate(groups):
        part = group.of(weights)
        if spec.weight_decay and group.decays:
            part.mul_(numbers[2 + 2 * number])
        part.addcdiv_(group.of(moments.first) * numbers[3 + 2 * number], group.of(denominator))


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """(..., R, C) with about the same singular vectors, and singular values near 1, by rounds of Newton and Schulz."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x: torch.Tensor = matrix.mT if tall else matrix
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    linear, cubic, quintic = NEWTON_SCHULZ
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = linear * x + (cubic * square + quintic * square @ square) @ x
    return x.mT if tall else x


class FlatParameters:
    """Trainable tensors of a model, from now on views of one flat buffer, and their moments.

    Tensors are laid out in groups of equal rate and decay, each of `matrices` (names) in one of its own.
    Raises: BadInput where tensors differ in type.
    """

    def __init__(
        self,
        model: nn.Module,
        names: Sequence[str],
        decayed: set[str],
        rates: Mapping[str, float],
        matrices: Collection[str] = (),
    ) -> None:
        every: dict[str, torch.Tensor] = dict(model.named_parameters())
        for tensor in every.values():
            tensor.requires_grad_(False)
        ordered = sorted(names, key=lambda name: (rates.get(name, 0.0), name in decayed))
        self.tensors = {name: every[name] for name in ordered}
        dtypes = {tensor.dtype for tensor in self.tensors.values()}
        if len(dtypes) > 1:
            raise BadInput(
                f"model: trainable tensors of several types {sorted(map(str, dtypes))}; "
                "store complex or half parameters as real float32"
            )
        like = next(iter((self.tensors or every).values()))
        size = sum(tensor.numel() for tensor in self.tensors.values())
        self.weights = torch.empty(size, dtype=like.dtype, device=like.device)
        self.moments = Moments(torch.zeros_like(self.weights), torch.zeros_like(self.weights))
        self.groups: list[Group] = []
        first = 0
        for name, tensor in self.tensors.items():
            last = first + tensor.numel()
            self.weights[first:last].copy_(tensor.reshape(-1))
            tensor.data = self.weights[first:last].view(tensor.shape)
            tensor.requires_grad_(True)
            matrix = (tensor.shape[0], tensor.shape[1]) if name in matrices else None
            self._extend_group(Group(first, last, rates.get(name), name in decayed, matrix))
            first = last

    def move_to(self, weights: torch.Tensor, moments: Moments) -> None:
        """Keep the numbers in these tensors, (P,) each, from now on: rows of a stack's."""
        for new, old in zip((weights, *moments), (self.weights, *self.moments), strict=True):
            new.copy_(old)
        self.weights, self.moments, first = weights, moments, 0
        for tensor in self.tensors.values():
            tensor.data = weights[first : first + tensor.numel()].view(tensor.shape)
            first += tensor.numel()

    def _extend_group(self, group: Group) -> None:
        """Add a group, to the one before where they are alike."""
        before = self.groups[-1] if self.groups else None
        if before and group.matrix is None and replace(before, first=group.first, last=group.last) == group:
            group = replace(group, first=self.groups.pop().first)
        self.groups.append(group)


def flat_parameters(model: nn.Module, names: Sequence[str], spec: OptimSpec) -> FlatParameters:
    """These parameters of a model, flat, with the rates and the decay that the spec and its mixers ask for."""
    rates, undecayed = rates_and_undecayed(model)
    # What is written is read even where nothing decays; the default selects nothing of a model that is one kernel.
    read = spec.weight_decay or spec.decay != OptimSpec().decay
    chosen = select(spec.decay, leaves(model), "optim.decay") if read else []
    decayed = set(chosen) - undecayed if spec.weight_decay else set[str]()
    matrices: set[str] = set()
    if spec.kind == "muon":  # matrices of mixers and feed-forward layers without a rate of their own
        hidden = set(select("mixer+feed_forward-kernel", leaves(model), "optim.kind")) - set(rates)
        matrices = {name for name, tensor in model.named_parameters() if name in hidden and tensor.ndim == 2}
    return FlatParameters(model, names, decayed, rates, matrices)


def rates_and_undecayed(model: nn.Module) -> tuple[dict[str, float], set[str]]:
    """Tensor names with a rate of their own, and those that never decay, as mixers declare.

    Attributes of these names in a whole model of a person's own (`recordable` is False) mean something else.
    """
    names = [name for name, _ in model.named_parameters()]
    rates: dict[str, float] = {}
    undecayed: set[str] = set()
    for path, module in model.named_modules():
        if not getattr(model, "recordable", True) and not type(module).__module__.startswith("headstart."):
            continue
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
