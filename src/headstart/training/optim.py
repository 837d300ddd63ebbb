"""AdamW, SGD and Muon as functions over flat parameters, with schedules, decay groups and clipping.

All trainable tensors of a model live in one flat buffer: a step is then a handful of operations whatever the number of
tensors, which matters for small models.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, model_validator
from torch import nn

from headstart.errors import BadInput
from headstart.models.norms import BatchNorm
from headstart.parameters import biases, leaves, select
from headstart.spec import Spec, neutral, spec_of_kind
from headstart.text import many, plain
from headstart.training.optimizers import OPTIMIZERS
from headstart.training.schedules import ENDLESS, SCHEDULES, FrozenShares, RateCourse, ScheduleSpec, read_schedule

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Of x, x^3 and x^5: each of `ROUNDS` rounds brings singular values nearer to 1 (Jordan et al. 2024)."""
ROUNDS = 5
MATCH = 0.2
"""Root mean square of a step of Muon at rate 1, near that of AdamW, so that one rate serves both (Liu et al. 2025)."""


_NAMES = {"adamw": "AdamW", "sgd": "SGD", "muon": "Muon for matrices and AdamW for other weights,"}
"""Optimisers in words."""
ScheduleField = Annotated[
    Literal["cosine", "constant", "linear", "inverse_sqrt", "stable_decay"] | SerializeAsAny[ScheduleSpec],
    BeforeValidator(read_schedule),
]


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
    schedule: ScheduleField = "cosine"
    """After the warm-up: `cosine` and `linear` fall to `final_share` of the peak at the end of the budget, `constant`
    stays, `inverse_sqrt` falls with the square root of the step, `stable_decay` stays and falls over the last
    `cooldown_share` of the steps. A table names one of your own."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly from 0 to its peak."""
    warmup_share: float = Field(default=0.0, ge=0, le=1)
    """The same as a share of all steps of the stage; give one of the two."""
    final_share: float = Field(default=0.0, ge=0, le=1)
    """Of the peak learning rate, what is left at the end of a schedule that falls."""
    cooldown_share: float = neutral(0.2, gt=0, le=1)
    """Share of all steps over which the schedule `stable_decay` falls, in a straight line."""
    accumulate: int = neutral(1, ge=1)
    """Parts that a batch is divided into, so that it takes less memory: their gradients are added up, and the step is
    that of the whole batch. It has to divide `batch_size`."""
    average: float | None = neutral(None, gt=0, lt=1)
    """Weights are averaged, too: after each step the average keeps this share of itself. The average is what validation
    scores and what `best` weights are; `last` are the plain ones."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay: decoupled for AdamW and Muon, part of the gradient for SGD."""
    decay: str = "all-kernel"
    """The parts that weight decay shrinks, in the algebra of parts; `bias` is all biases, as in `all-norm-bias`."""
    rate_shares: Annotated[dict[str, Annotated[float, Field(gt=0)]], AfterValidator(FrozenShares)] = neutral(
        {}, validate_default=True
    )
    """Part = the share of the rate at which it learns: `{ encoder = 0.1, "mixer[0]" = 0.5 }`; no weight twice."""
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
        if self.schedule in ENDLESS and self.final_share:
            raise ValueError(
                f"final_share {self.final_share:g} is where schedule 'cosine' ends, and schedule is "
                f"{self.schedule!r}; set final_share = 0, or schedule = 'cosine'"
            )
        if self.schedule == "inverse_sqrt" and not (self.warmup_steps or self.warmup_share):
            raise ValueError(
                "schedule 'inverse_sqrt' falls from the end of the warm-up on, and there is none; give warmup_steps or "
                "warmup_share"
            )
        if self.schedule != "stable_decay" and self.cooldown_share != type(self).model_fields["cooldown_share"].default:
            raise ValueError(
                f"cooldown_share is for the schedule 'stable_decay', and schedule is {self.schedule!r}; leave it out"
            )
        if self.batch_size % self.accumulate:
            near = max(n for n in range(1, min(self.accumulate, 1 << 10)) if not self.batch_size % n)
            raise ValueError(
                f"accumulate {self.accumulate} does not divide batch_size {self.batch_size}; give a divisor of it, "
                f"such as {near}, or batch_size = {-(-self.batch_size // self.accumulate) * self.accumulate}"
            )
        return self

    def describe(self) -> str:
        """`AdamW`, `SGD with momentum 0.9`, ..."""
        if self.kind not in _NAMES:
            return str(self.kind)
        return _NAMES[self.kind] + ("" if self.kind == "adamw" else f" with momentum {plain(self.inertia)}")

    def describe_schedule(self) -> str:
        """`cosine schedule`, ..."""
        name = self.schedule if isinstance(self.schedule, str) else self.schedule.kind
        text = f"{name.replace('_', ' ')} schedule"
        falls = f", falling over the last {plain(100 * self.cooldown_share)} % of the steps"
        return text + (falls if self.schedule == "stable_decay" else "")

    @property
    def alone(self) -> str:
        """Why its steps are not taken together with other stages; empty where they may be."""
        if self.accumulate > 1:
            return "gradients are accumulated over parts of a batch"
        return "weights are averaged over steps" if self.average is not None else ""

    @property
    def inertia(self) -> float:
        """The momentum in force."""
        return (0.95 if self.kind == "muon" else 0.9) if self.momentum is None else self.momentum

    def check_total(self, total: int) -> None:
        """Raises: BadInput where the warm-up is longer than the whole training, so that `lr` is never reached; where
        it and the fall at the end together are; and where an average of weights would be one of its beginning."""
        if total and self.warmup_steps > total:
            raise BadInput(
                f"optim.warmup_steps: {self.warmup_steps:,} is more than the {many(total, 'step')} of the budget, "
                f"in which the rate would rise to {self.lr * self.factor(total - 1, total):.2g} of lr = "
                f"{plain(self.lr)}; give at most {total:,}, or warmup_share"
            )
        warm = self.warm_steps(total)
        if total and self.schedule == "stable_decay" and warm + round(self.cooldown_share * total) > total:
            raise BadInput(
                f"optim.cooldown_share: {plain(self.cooldown_share)} of the {many(total, 'step')} of the budget and a "
                f"warm-up of {warm:,} are more than all; give at most {plain(_below(1 - warm / total))}"
            )
        if total and self.average is not None and (1 - self.average) * total < 1 - 1e-9:
            steps = 1 / (1 - self.average)
            raise BadInput(
                f"optim.average: {plain(self.average)} averages over about {steps:,.0f} steps, and the budget has "
                f"{total:,}: it would mostly hold the weights of the start; give at most {plain(_below(1 - 1 / total))}"
            )

    def warm_steps(self, total: int) -> int:
        """Steps of the warm-up."""
        return self.warmup_steps or round(self.warmup_share * total)

    def factor(self, step: int, total: int) -> float:
        """Share of the peak rate at step 0, 1, ..., total - 1."""
        warm = self.warm_steps(total)
        if step < warm:
            return (step + 1) / warm
        course = RateCourse(warm, total, self.final_share, self.cooldown_share)
        if isinstance(self.schedule, ScheduleSpec):
            return float(self.schedule.factor(step, course))
        share: float = SCHEDULES[self.schedule].load()(step, course)
        return share


class OwnOptimSpec(OptimSpec):
    """Base of an optimiser of a person's own, which a plugin registers.

    It has two numbers of memory for each weight, `first` and `second`, which are saved with a state: nothing else is
    kept. Clipping, warm-up, schedule and (decoupled) weight decay are done for it. It is not recorded, nor stacked.
    """

    kind: str  # type: ignore[assignment]

    def update(
        self,
        weights: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        grad: torch.Tensor,
        rate: float,
        step: int,
    ) -> None:
        """Change weights, first and second (P,) in place, each weight by its own numbers alone. step: from 1."""
        raise NotImplementedError

    @property
    def alone(self) -> str:
        """As of every optimiser."""
        return f"the optimiser {self.kind!r} is of your own"


def _read_optim(value: Any) -> Any:
    own = isinstance(value, Mapping) and str(value.get("kind", "adamw")) not in _NAMES
    return spec_of_kind(OPTIMIZERS, value) if own or isinstance(value, OwnOptimSpec) else value


OptimField = Annotated[SerializeAsAny[OptimSpec], BeforeValidator(_read_optim)]
"""A field that holds an optimiser, of headstart's or of a person's own."""


def _below(share: float) -> float:
    """A share in three digits, rounded down."""
    return math.floor(1000 * share) / 1000


@dataclass(frozen=True)
class Group:
    """A slice of the flat buffer: its own peak rate (None: the spec's), and whether it decays.

    matrix: its rows and columns, where it is one tensor that Muon changes. share: of the rate.
    """

    first: int
    last: int
    rate: float | None
    decays: bool
    matrix: tuple[int, int] | None = None
    share: float = 1.0

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
    own = isinstance(spec, OwnOptimSpec)
    first = step + 1.0 if own else math.sqrt(1 - spec.beta2 ** (step + 1))
    numbers = [first, math.inf if spec.clip is None else spec.clip]
    for group in groups:
        rate = (spec.lr if group.rate is None else group.rate) * group.share * factor
        decay = spec.weight_decay if group.decays else 0.0
        if own:
            numbers += [1 - rate * decay, rate]
        elif spec.kind == "sgd":
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
        if isinstance(spec, OwnOptimSpec):
            if spec.weight_decay and group.decays:
                part.mul_(own[2])
            spec.update(part, first, second, slope, own[3], int(own[0]))
        elif spec.kind == "sgd":
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
        shares: Mapping[str, float] | None = None,
    ) -> None:
        shares, every = shares or {}, dict[str, torch.Tensor](model.named_parameters())
        for tensor in every.values():
            tensor.requires_grad_(False)
        ordered = sorted(names, key=lambda n: (rates.get(n, 0.0), shares.get(n, 1.0), n in decayed))
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
        self.average: torch.Tensor | None = None
        """(P,) the running average of the weights, where there is one."""
        self.groups: list[Group] = []
        first = 0
        for name, tensor in self.tensors.items():
            last = first + tensor.numel()
            if not self.weights.is_meta:  # a plan has no numbers to lay out
                self.weights[first:last].copy_(tensor.reshape(-1))
                tensor.data = self.weights[first:last].view(tensor.shape)
            tensor.requires_grad_(True)
            matrix = (tensor.shape[0], tensor.shape[1]) if name in matrices else None
            self._extend_group(Group(first, last, rates.get(name), name in decayed, matrix, shares.get(name, 1.0)))
            first = last

    @torch.no_grad()
    def average_(self, share: float) -> None:
        """After a step: the average keeps this share of itself, and takes the rest from the weights."""
        if self.average is not None:
            self.average.lerp_(self.weights, 1 - share)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The average in place of the weights, where there is one."""
        if self.average is None:
            yield
            return
        plain_weights = self.weights.clone()
        with torch.no_grad():
            self.weights.copy_(self.average)
        try:
            yield
        finally:
            with torch.no_grad():
                self.weights.copy_(plain_weights)

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
    parts = leaves(model) if read or spec.kind == "muon" or spec.rate_shares else {}
    chosen = select(spec.decay, parts, "optim.decay", {"bias": biases(parts)}) if read else []
    decayed = set(chosen) - undecayed if spec.weight_decay else set[str]()
    matrices: set[str] = set()
    if spec.kind == "muon":  # matrices of mixers and feed-forward layers without a rate of their own
        hidden = set(select("mixer+feed_forward-kernel", parts, "optim.kind")) - set(rates)
        matrices = {name for name, tensor in model.named_parameters() if name in hidden and tensor.ndim == 2}
    norms = (BatchNorm, nn.modules.batchnorm._BatchNorm)
    if spec.accumulate > 1 and any(isinstance(layer, norms) for layer in model.modules()):
        raise BadInput(
            f"optim.accumulate: {spec.accumulate} parts of a batch are not the whole one to a batch norm, which takes "
            "its mean over the part; set accumulate = 1, or another norm"
        )
    flat = FlatParameters(model, names, decayed, rates, matrices, _shares(spec, parts))
    flat.average = None if spec.average is None else flat.weights.clone()
    return flat


def _shares(spec: OptimSpec, parts: Mapping[str, str]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part, share in spec.rate_shares.items():
        chosen = select(part, parts, "optim.rate_shares", {"bias": biases(parts)})
        if both := shares.keys() & set(chosen):
            raise BadInput(f"optim.rate_shares: {part!r} and one before it both hold {min(both)}; subtract one of them")
        shares |= dict.fromkeys(chosen, share)
    return shares


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
        if not own_rates and not own_undecayed:
            continue
        for name in names:
            for prefix, rate in own_rates.items():
                if name.startswith(start + prefix):
                    rates[name] = rate
            if any(name.startswith(start + prefix) for prefix in own_undecayed):
                undecayed.add(name)
    return rates, undecayed
