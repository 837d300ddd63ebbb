"""A training step as a function of tensors that stay where they are, so that a GPU records it once and plays it again.

A step of a small model is some hundred kernels of a few microseconds each, which Python starts more slowly than a
GPU does them. Recorded as a CUDA graph they are one launch. What changes from step to step (which examples, the rate,
the bias corrections, the epoch) is then read from tables on the device, filled once an epoch. It is runtime, not
identity: the same numbers come out, to rounding (to the bit on a CPU, where nothing is recorded).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from headstart.models.model import SequenceModel
from headstart.objectives import Sums
from headstart.seeds import Draw
from headstart.sequence import Batch
from headstart.training.evaluate import forward_precision
from headstart.training.metrics import TrainMetrics
from headstart.training.optim import Flat, OptimSpec

if TYPE_CHECKING:
    from headstart.training.loop import Progress, TrainConfig

WARM = 3
"""Steps that are taken one kernel at a time before one is recorded: libraries choose their kernels meanwhile."""

Step = Callable[[], None]
Recorder = Callable[[Step], Step]
"""Records a step, performs it once, and gives what performs it again."""


def cuda_graph(step: Step) -> Step:
    """Record a step as a CUDA graph. Raises: RuntimeError where the step asks the GPU for a number, or copies to it."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph):
            step()
    finally:
        # A capture that fails leaves its own stream as the current one (torch 2.11).
        torch.cuda.set_stream(stream)
    graph.replay()
    return graph.replay


RECORDERS: dict[str, Recorder] = {"cuda": cuda_graph}
"""By kind of device; a CPU starts an operation faster than it does it, and gains nothing."""

Record = Recorder | Literal["auto"] | None
"""How steps are recorded: as the device can, in no way, or by a recorder of one's own."""


def on_device(number: int, device: torch.device) -> Any:
    """A whole number that a GPU can read without being waited for; on a CPU the number itself."""
    return number if device.type == "cpu" else torch.full((), number, dtype=torch.int64, device=device)


def measured(setting: TrainConfig, model: SequenceModel, batch: Batch, seed: Any, epoch: Any) -> tuple[Sums, Sums]:
    """Sums of one forward pass in training, and the running statistics that it leaves."""
    batch = setting.objective.prepare(batch, setting.signature, seed, epoch)
    statistics: Sums = {}
    with forward_precision(batch.inputs.device, setting.optim.precision):
        output = model(batch, Draw(seed, epoch, batch.index), statistics)
    return setting.objective.measure(output, batch, setting.signature), statistics


def noted(running: TrainMetrics, buffers: dict[str, torch.Tensor], sums: Sums, statistics: Sums) -> None:
    """Write running statistics to their buffers, and add the sums to `running`."""
    for name, value in statistics.items():
        buffers[name].copy_(value.detach())
    running.add(sums)


def step_numbers(spec: OptimSpec, flat: Flat, step: int, total: int) -> list[float]:
    """What changes in AdamW from step to step (from 0): sqrt(1 - beta2^t), then per group 1 - rate decay, and
    -rate / (1 - beta1^t)."""
    numbers, factor = [math.sqrt(1 - spec.beta2 ** (step + 1))], spec.factor(step, total)
    for group in flat.groups:
        rate = (spec.lr if group.rate is None else group.rate) * factor
        decay = spec.weight_decay if group.decays else 0.0
        numbers += [1 - rate * decay, -rate / (1 - spec.beta1 ** (step + 1))]
    return numbers


@torch.no_grad()
def adamw_by_numbers_(flat: Flat, gradient: torch.Tensor, spec: OptimSpec, numbers: torch.Tensor) -> None:
    """`Flat.step` with `step_numbers` (columns,) on the device, in the order of operations of `optim.adamw_`."""
    if spec.clip is not None:
        gradient = gradient * (spec.clip / (gradient.norm() + 1e-6)).clamp(max=1.0)
    root = numbers[0]
    for place, group in enumerate(flat.groups):
        cut = slice(group.first, group.last)
        weights, first, second, slope = flat.weights[cut], flat.first[cut], flat.second[cut], gradient[cut]
        if spec.weight_decay and group.decays:
            weights.mul_(numbers[1 + 2 * place])
        first.lerp_(slope, 1 - spec.beta1)
        second.mul_(spec.beta2).addcmul_(slope, slope, value=1 - spec.beta2)
        spread = second.sqrt().div_(root).add_(spec.epsilon)
        weights.add_((first * numbers[2 + 2 * place]).div_(spread))


class GraphedStep:
    """One step on a full batch: tensors in, the same tensors changed, nothing from Python.

    `rows` (steps of an epoch, rows of a batch) int64: which rows of the feed each step takes; `numbers` (steps of an
    epoch, columns): what AdamW takes; `place` (1,): the step of the epoch, moved on by each call.
    """

    def __init__(self, setting: TrainConfig, progress: Progress, total: int) -> None:
        self.setting, self.progress, self.total = setting, progress, total
        self.feed, flat = setting.train, progress.flat
        here = {"device": self.feed.device, "dtype": torch.int64}
        size = setting.optim.batch_size * (2 if self.feed.examples.paired else 1)
        self.rows = torch.zeros(setting.per_epoch, size, **here)  # type: ignore[call-overload]
        self.numbers = flat.weights.new_zeros(setting.per_epoch, 1 + 2 * len(flat.groups))
        self.place = torch.zeros(1, **here)  # type: ignore[call-overload]
        self.seed = torch.full((), setting.seed, **here)  # type: ignore[call-overload]
        self.epoch = torch.zeros((), **here)  # type: ignore[call-overload]
        tensors = dict(progress.model.named_parameters())
        self.parameters = [tensors[name] for name in flat.names]
        self.buffers = dict(progress.model.named_buffers())

    def turn_to(self, epoch: int, batches: list[np.ndarray]) -> None:
        """Fill the tables for an epoch. Rows of a batch that is not full stay 0: it is never taken here."""
        flat, optim, per_epoch = self.progress.flat, self.setting.optim, self.setting.per_epoch
        rows = np.zeros(self.rows.shape, dtype=np.int64)
        for place, batch in enumerate(batches):
            if len(batch) == optim.batch_size:
                rows[place] = self.feed.rows(batch)
        first = epoch * per_epoch
        numbers = [step_numbers(optim, flat, min(first + i, self.total - 1), self.total) for i in range(per_epoch)]
        self.rows.copy_(torch.from_numpy(rows))
        self.numbers.copy_(torch.tensor(numbers, dtype=self.numbers.dtype))
        self.epoch.fill_(epoch)

    def __call__(self) -> None:
        batch = self.feed.picked(self.rows.index_select(0, self.place)[0])
        sums, statistics = measured(self.setting, self.progress.model, batch, self.seed, self.epoch)
        loss = sums["loss"] / sums["count"].clamp_min(1)
        slopes = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        gradient = torch.cat([slope.reshape(-1) for slope in slopes])
        flat = self.progress.flat
        adamw_by_numbers_(flat, gradient, self.setting.optim, self.numbers.index_select(0, self.place)[0])
        noted(self.progress.running, self.buffers, sums, statistics)
        self.place.add_(1)


class Recorded:
    """Takes a stage's steps by playing a recorded one, where that can be; `how` says whether, and why not."""

    def __init__(self, setting: TrainConfig, progress: Progress, total: int) -> None:
        self.size, self.done, self.at = setting.optim.batch_size, 0, -1
        self.record = RECORDERS.get(setting.train.device.type) if setting.record == "auto" else setting.record
        reason = _why_not(setting, progress, self.record)
        self.how = "recorded" if reason is None else f"plain: {reason}"
        self.step = GraphedStep(setting, progress, total) if reason is None else None
        self.replay: Step | None = None

    def turn_to(self, epoch: int, batches: list[np.ndarray]) -> None:
        """A new epoch begins."""
        if self.step is not None:
            self.step.turn_to(epoch, batches)

    def take(self, place: int, units: np.ndarray) -> bool:
        """Take the step at this place of the epoch; False where it must be taken plainly."""
        if self.step is None or len(units) != self.size:
            return False
        if place != self.at:
            self.step.place.fill_(place)
        self.at = place + 1
        self.done += 1
        if self.replay is not None:
            self.replay()
        elif self.done <= WARM:
            self.step()
        else:
            return self._begin(self.step)
        return True

    def _begin(self, step: GraphedStep) -> bool:
        assert self.record is not None
        try:
            self.replay = self.record(step)
        except RuntimeError as error:
            # Kernels that cannot be recorded are no mistake of the study: nothing has been performed, so go on plainly.
            text = str(error).strip().partition("\n")[0]
            self.how, self.step = f"plain: a step could not be recorded ({text})", None
            return False
        return True


def _why_not(setting: TrainConfig, progress: Progress, record: Any) -> str | None:
    """Why the steps of a stage are not recorded, or None where they are."""
    if record is None:
        return "steps are not recorded on this device" if setting.record == "auto" else "asked for"
    if not progress.flat.names:
        return "nothing is trained"
    if setting.fresh is not None:
        return "each epoch has examples of its own"
    if setting.train.whole() is None:
        return "sequences differ in length, or are too many to be held on the device"
    return None
