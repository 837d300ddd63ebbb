"""A stack: models that differ in numbers alone take their steps together, mapped over a leading model axis.

Weights, moments, running statistics and sums of the members stand in rows of common tensors, and those of each member's
own model are views of its row. All but the step is therefore done as for a stage alone, by the same code: a member's
order, masks, numbers of the optimiser, evaluations, best weights and states are its own. A member joins with its first
step and leaves after its last; nothing that happens to it, a loss that is no number included, reaches another row. On a
CPU no bit of a member depends on its company.

The mapped step is the pure step of `step.py` under `torch.func.vmap`, with gradients taken outside of it. Operators
without a batching rule in torch bring one along: they fold the model axis into the batch (`mixers/attend.py`) or into
the groups (`mixers/lstm.py`). A result agrees with that of a stage alone within 1e-5 of scale after 20 steps in float32
and 1e-10 in float64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headstart.errors import StackTooLarge, first_line, lacks_memory
from headstart.models.norms import Tensors
from headstart.objectives import Sums
from headstart.sequence import Batch
from headstart.training.batches import Batches, Held, pick_alike, picked_together, put_together, refill, send
from headstart.training.graph import ROOM, WARM, Step, choose_recorder
from headstart.training.loop import Course, Progress, StepInfo, TrainConfig, finish_step, train
from headstart.training.optim import Moments, OptimSpec, step_numbers, update_
from headstart.training.step import StackedPrecision, TrainStep, mean_loss


@dataclass(eq=False)
class _Member:
    """A stage in a stack. taken: its next step has been taken and not been looked at; share: the seconds it counts."""

    config: TrainConfig
    progress: Progress
    course: Course = field(init=False)
    taken: bool = False
    share: float = 0.0

    def __post_init__(self) -> None:
        self.course = Course(self.config)

    def numbers(self) -> list[float]:
        """Of the optimiser, at its own step of its own budget."""
        config, progress = self.config, self.progress
        return step_numbers(config.optim, progress.flat.groups, config.total, progress.step)


class Stack:
    """Stages that train together, each driven through its own `ticks`; a step is taken once all have asked for it.

    refusal: why the members go on alone, where their step cannot be mapped; empty else. steps: taken by now. shared:
    what members hold once for all, by what they tell it from others.
    """

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.refusal, self.steps = "", 0
        self.shared: dict[Any, Any] = {}
        self._rows: _Rows | None = None

    def ticks(self, config: TrainConfig, progress: Progress) -> Iterator[StepInfo]:
        """As `train`, in company: a tick as the stage joins, then one a step. The others are driven in turns with it.

        Raises: StackTooLarge; ValueError where a stage is of another kind than the others.
        """
        member = _Member(config, progress)
        if self.members and not _alike(self.members[0], member):
            raise ValueError("stack: stages of one stack differ in numbers alone; these differ in more")
        self.members.append(member)
        self._rows = None
        try:
            yield StepInfo(progress.step, config.total, progress.step / config.per_epoch, None, progress.state)
            while not config.ended(progress):
                if not member.taken and not self.refusal:
                    self._advance()
                if not member.taken:
                    break
                member.taken = False
                began = time.perf_counter() - member.share
                yield finish_step(config, progress, member.course, self.how, began)
        finally:
            self.members.remove(member)
            self._rows = None
        if self.refusal:
            yield from train(config, progress)

    @property
    def how(self) -> str:
        """How the last step was taken."""
        played = self._rows is not None and self._rows.recorded is not None
        return f"stacked, {len(self.members)} models{', recorded' if played else ''}"

    def _advance(self) -> None:
        """One step of every member that has not ended. Those whose batches have as many rows take theirs at once."""
        began = time.perf_counter()
        groups: dict[int, list[int]] = {}
        for number, member in enumerate(self.members):
            if not member.config.ended(member.progress):
                member.course.move_to(member.progress.step)
                groups.setdefault(len(member.course.units), []).append(number)
        try:
            self._rows = self._rows or _Rows(self.members)
            for numbers in groups.values():
                members = [self.members[number] for number in numbers]
                self._rows.step(members, numbers)
                self.steps += 1
                for member in members:
                    member.taken = True
        except Exception as error:
            if lacks_memory(error):
                raise StackTooLarge(len(self.members)) from error
            # Nothing of those that were to take it has changed: what fails for one will fail again, under its own name.
            self.refusal = first_line(error)
        for member in self.members:
            member.share = (time.perf_counter() - began) / sum(map(len, groups.values()))


class _Rows:
    """The numbers of the members (M of them) in common tensors: weights and moments (M, P), statistics (M, ...).

    Tensors that no step changes are shared where they are equal. Made anew whenever a member comes or goes.
    """

    def __init__(self, members: Sequence[_Member]) -> None:
        flats, like = [member.progress.flat for member in members], members[0].progress
        self.weights = torch.empty(len(members), *like.flat.weights.shape).to(like.flat.weights)
        self.moments = Moments(torch.empty_like(self.weights), torch.empty_like(self.weights))
        for row, flat in enumerate(flats):
            flat.move_to(self.weights[row], Moments(*(moment[row] for moment in self.moments)))
        self.statistics: Tensors = {}
        for name in like.statistics:
            own = [member.progress.statistics[name] for member in members]
            self.statistics[name] = torch.stack(own)
            for value, row in zip(own, self.statistics[name], strict=True):
                value.data = row
        self.frozen: Tensors = {}
        for name in dict(like.model.named_parameters()).keys() - like.flat.tensors.keys():
            values = [member.progress.model.get_parameter(name).detach() for member in members]
            if not all(torch.equal(values[0], value) for value in values[1:]):
                self.frozen[name] = torch.stack(values)
        rates = [float(getattr(member.progress.model, "rate", 0.0)) for member in members]
        self.dropout = None if len(set(rates)) == 1 else torch.tensor(rates, dtype=torch.float64).to(self.device)
        config = members[0].config
        # Per model are numbers alone: who does not clip has an infinite norm, who does not decay a factor of 1.
        optim = config.optim.model_copy(
            update={
                "clip": max((m.config.optim.clip or 0.0 for m in members), default=0.0) or None,
                "weight_decay": max(m.config.optim.weight_decay for m in members),
            }
        )
        own_tensors = (like.flat.tensors, like.statistics)
        self.model_step = TrainStep(
            like.model, config.objective, config.signature, optim, own_tensors, like.flat.groups
        )
        self.sums: Tensor | None = None
        self.members = members
        self.record = choose_recorder(
            config.record if like.model.recordable else None, config.train, trained=bool(like.flat.tensors), alone=True
        )
        pair = 2 if config.train.examples.paired else 1
        self.rows_of_full = (len(members), pair * optim.batch_size)
        self.recorded: tuple[Step, _Inputs] | None = None
        self.taken = 0
        # Of members whose epochs have examples of their own: those of the epoch, where a recorded step looks for them.
        self.held: dict[int, tuple[Batches, Held]] = {}

    @property
    def device(self) -> torch.device:
        """Where all of it is."""
        return self.weights.device

    def step(self, members: Sequence[_Member], numbers: Sequence[int]) -> None:
        """One step of these members, whose rows these are; either nothing has changed or all of it has.

        Raises: what the forward or the backward pass raises.
        """
        if len(members) == 1:
            # A stack of one would compute in another order: bits must not depend on the company.
            members, numbers = [*members] * 2, [*numbers] * 2
        inputs = _Inputs.of(members, self.weights.dtype)
        whole = list(numbers) == list(range(len(self.members)))
        if not whole or not self._play(inputs):
            rows = None if whole else torch.tensor(numbers, device=self.device)
            self._take(members, inputs.on(self.device), rows, [member.course.batches for member in members])

    def _play(self, inputs: _Inputs) -> bool:
        """Take the step of all members by playing a recorded one; False where it must be taken plainly."""
        same = inputs.rows is not None and inputs.rows.shape == self.rows_of_full
        if isinstance(self.record, str) or not same or not self._hold():
            return False
        if self.recorded is not None:
            replay, read = self.recorded
            inputs.send_to(read)
            replay()
            return True
        self.taken += 1
        if self.taken <= WARM:
            return False
        read = inputs.on(self.device)
        try:
            feeds = [self.held[at][1] if at in self.held else m.config.train for at, m in enumerate(self.members)]
            self.recorded = self.record(partial(self._take, self.members, read, None, feeds)), read
        except RuntimeError as error:
            self.record = first_line(error)
        return self.recorded is not None

    def _hold(self) -> bool:
        """Put an epoch's own examples where a recorded step looks for them; False where they do not fit."""
        for number, member in enumerate(self.members):
            batches, held = self.held.get(number, (member.config.train, None))
            feed = member.course.batches
            if feed is batches:
                continue
            if feed.held is None:
                return False
            if held is None or not refill(held, feed.held):
                held, self.recorded = feed.held.widened(ROOM), None
            self.held[number] = feed, held
        return True

    def _take(
        self, members: Sequence[_Member], inputs: _Inputs, rows: Tensor | None, feeds: Sequence[Batches | Held]
    ) -> None:
        """One step of these members, on inputs that are on the device; rows (models,): theirs, None for all."""
        weights, moments = _picked(self.weights, rows), Moments(*(_picked(x, rows) for x in self.moments))
        tensors = _views(weights, members[0].progress.flat.tensors)
        statistics = {name: _picked(x, rows) for name, x in self.statistics.items()}
        sums, updates = self._forward(members, inputs, (tensors, statistics), rows, feeds)
        if tensors:
            loss = mean_loss(sums["loss"], sums["count"]).sum()
            grads = torch.autograd.grad(loss, list(tensors.values()), materialize_grads=True)
            grad = torch.cat([grad.flatten(1) for grad in grads], 1)
            step = self.model_step
            update_(weights, moments, grad, inputs.numbers, step.optim, step.groups)
        self._keep(members, (weights, moments, sums, updates), rows)

    def _forward(
        self, members: Sequence[_Member], inputs: _Inputs, own: tuple[Tensors, Tensors], rows: Tensor | None, feeds: Any
    ) -> tuple[Sums, Tensors]:
        """The sums (models, ...) of one forward pass, new running statistics; own: what trains, statistics."""
        length = self.model_step.signature.length
        if inputs.rows is None:
            fields, more = put_together(feeds, [member.course.units for member in members], length)
        else:
            fields, more = picked_together(feeds, inputs.rows, length)
        dropout = None if self.dropout is None else _picked(self.dropout, rows)
        frozen = {name: _picked(x, rows) for name, x in self.frozen.items()}

        def forward(tensors: Tensors, statistics: Tensors, fields: Tensors, seed: Any, epoch: Any, dropout: Any) -> Any:
            batch: Any = {**fields, **more}
            return self.model_step.forward_loss(tensors, statistics, Batch(**batch), seed, epoch, dropout)

        mapped = vmap(forward, in_dims=(0, 0, 0, 0, 0, None if dropout is None else 0))
        with StackedPrecision() if self.model_step.optim.precision == "bfloat16" else _Biases():
            sums, updates = mapped({**own[0], **frozen}, own[1], fields, inputs.seeds, inputs.epochs, dropout)
        return sums, updates

    @torch.no_grad()
    def _keep(
        self, members: Sequence[_Member], results: tuple[Tensor, Moments, Sums, Tensors], rows: Tensor | None
    ) -> None:
        """Write what a step has made to the members' rows."""
        weights, moments, sums, updates = results
        if rows is not None:
            for whole, part in zip((self.weights, *self.moments), (weights, *moments), strict=True):
                whole[rows] = part
        for name, value in updates.items():
            self.statistics[name][slice(None) if rows is None else rows] = value.to(self.statistics[name])
        if self.sums is None:
            for member in self.members:
                member.progress.metrics.expect({name: x.shape[1:] for name, x in sums.items()})
            self.sums = torch.stack([member.progress.metrics.flat for member in self.members])
            for member, row in zip(self.members, self.sums, strict=True):
                member.progress.metrics.flat = row
        names = members[0].progress.metrics.shapes
        new = torch.cat([sums[name].detach().double().reshape(len(members), -1) for name in names], 1)
        if rows is None:
            self.sums += new
        else:
            self.sums[rows] += new


class _Biases(TorchFunctionMode):
    """Adds the bias of a linear layer as it is: `vmap` multiplies it and its product by 1, and their gradients too."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        x, weight, bias = (*args, *(kwargs or {}).values(), None)[:3] if func is functional.linear else (None,) * 3
        if x is None or bias is None or x.ndim < 2:
            return func(*args, **(kwargs or {}))
        return (x.flatten(0, -2) @ weight.mT + bias).unflatten(0, x.shape[:-1])


def _alike(first: _Member, second: _Member) -> bool:
    """Whether two stages differ in numbers alone: their tensors, and what their optimisers do with them, are alike."""

    def form(member: _Member) -> Any:
        flat, config = member.progress.flat, member.config
        shapes = {name: (x.shape, x.dtype, x.device) for name, x in member.progress.model.state_dict().items()}
        return shapes, list(flat.tensors), flat.groups, common(config.optim), config.objective, config.signature

    return bool(form(first) == form(second))


MEMBER_SETTINGS = ("lr", "schedule", "warmup_steps", "warmup_share", "final_share", "cooldown_share", "clip")
"""Settings of an optimiser that members of a stack have of their own, and `weight_decay`, where all have some."""


def common(optim: OptimSpec) -> dict[str, Any]:
    """The settings of an optimiser that all members of a stack share, and whether there is weight decay."""
    document = optim.document()
    return {name: value for name, value in document.items() if name not in (*MEMBER_SETTINGS, "weight_decay")} | {
        "decays": optim.weight_decay > 0
    }


def _picked(x: Tensor, rows: Tensor | None) -> Tensor:
    return x if rows is None else x.index_select(0, rows)


def _views(weights: Tensor, like: Mapping[str, Tensor]) -> Tensors:
    """Tensors (models, ...) by name, views of weights (models, P), that ask for gradients."""
    tensors, first = {}, 0
    for name, tensor in like.items():
        part = weights[:, first : first + tensor.numel()]
        tensors[name] = torch.unflatten(part, 1, tensor.shape or (1,)).reshape(len(weights), *tensor.shape).detach()
        tensors[name].requires_grad_()
        first += tensor.numel()
    return tensors


@dataclass(frozen=True)
class _Inputs:
    """What a step reads that is another at each step.

    rows (models, n) int64: of the sets that are held, or None where batches are put together from the arrays; numbers
    (columns, models, 1): of the optimiser; seeds, epochs (models,) int64.
    """

    rows: Tensor | None
    numbers: Tensor
    seeds: Tensor
    epochs: Tensor

    @staticmethod
    def of(members: Sequence[_Member], dtype: torch.dtype) -> _Inputs:
        """Those of the next step, on the CPU."""
        courses = [member.course for member in members]
        feeds, rows = [course.batches for course in courses], None
        if pick_alike(feeds):
            rows = torch.from_numpy(np.stack([feed.rows(c.units) for feed, c in zip(feeds, courses, strict=True)]))
        numbers = torch.tensor([member.numbers() for member in members], dtype=dtype)
        counters = ([member.config.seed for member in members], [course.epoch for course in courses])
        seeds, epochs = (torch.tensor(values, dtype=torch.int64) for values in counters)
        return _Inputs(rows, numbers.T.unsqueeze(2), seeds, epochs)

    def on(self, device: torch.device) -> _Inputs:
        """The same on a device, which nobody waits for."""
        rows = None if self.rows is None else self.rows.to(device, non_blocking=True)
        others = (self.numbers, self.seeds, self.epochs)
        return _Inputs(rows, *(x.to(device, non_blocking=True) for x in others))

    def send_to(self, other: _Inputs) -> None:
        """Copy into the tensors of another, where a recorded step looks for them."""
        for mine, theirs in ((self.numbers, other.numbers), (self.seeds, other.seeds), (self.epochs, other.epochs)):
            send(mine, theirs)
        if self.rows is not None and other.rows is not None:
            send(self.rows, other.rows)
