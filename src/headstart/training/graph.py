"""Training steps recorded as CUDA graphs, and replayed.

A step of a small model is some hundred kernels of a few microseconds each, which Python starts more slowly than a
GPU does them. Recorded as a CUDA graph they are one launch. What changes from step to step (which examples, AdamW's
numbers, the epoch) is then read from tables on the device, filled once an epoch; examples that each epoch has of its
own are copied to where the first epoch's were. Sequences of different length have a graph for each of some padded
lengths (`batches.bucket`). It is runtime, not identity: the same numbers come out, to rounding (to the bit on a CPU,
where nothing is recorded).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from headstart.errors import first_line
from headstart.sequence import Batch
from headstart.training.batches import Batches, Held, bucket, refill, send

WARM = 3
"""Steps of a padded length that are taken one kernel at a time first: libraries choose their kernels meanwhile."""
ROOM = 0.1
"""Share of positions more than an epoch has, for those of later epochs, whose sequences may be longer."""

Step = Callable[[], None]
Recorder = Callable[[Step], Step]
"""Records a step, performs it once, and gives what performs it again."""


def cuda_graph(step: Step) -> Step:
    """Record a step as a CUDA graph. Raises: RuntimeError where the step asks the GPU for a number, or copies to it."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # Other threads may use the GPU meanwhile: one that makes the next epoch's examples does.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
    finally:
        # A capture that fails leaves its own stream as the current one (torch 2.11).
        torch.cuda.set_stream(stream)
    graph.replay()
    return graph.replay


RECORDERS: dict[str, Recorder] = {"cuda": cuda_graph}
"""By kind of device; a CPU starts an operation faster than it does it, and gains nothing."""
SWITCH = "HEADSTART_GRAPHS"
"""In the environment: 0 records no step."""

RecordChoice = Recorder | Literal["auto"] | None
"""How steps are recorded: as the device can, in no way, or by a recorder of one's own."""


def choose_recorder(record: RecordChoice, batches: Batches, *, trained: bool, alone: bool) -> Recorder | str:
    """What records the steps of a stage, or why they are taken plainly.

    trained: whether any tensor is. alone: on one rank.
    """
    if record == "auto":
        record = RECORDERS.get(batches.device.type)
        if record is None:
            return "steps are not recorded on this device"
        if os.environ.get(SWITCH) == "0":
            return f"{SWITCH}=0 asks for it"
    if record is None:
        return "asked for"
    if not trained:
        return "nothing is trained"
    if not alone:
        return "several ranks share it"
    if not batches.fits:
        return "the examples are too many to be held on the device"
    return record


class GraphedStep:
    """Takes the steps of full batches by replaying recorded ones, where that can be; `how` says whether, or why not.

    step: one step on a batch with the numbers, the seed and the epoch. numbers: AdamW's numbers of each step of the
    stage. longest: positions that no example exceeds. size: units of a full batch. per_epoch: steps of an epoch.
    record: from `choose_recorder`.
    Tables: `rows` (per_epoch, rows of a batch) int64, of `batches`; `numbers` (per_epoch, columns); `position` (1,),
    the step of the epoch, moved on by each call. `replays`: what performs a step again, by padded length. `own`: the
    examples of an epoch that has its own, in memory that stays where it is.
    """

    def __init__(
        self,
        step: Callable[[Batch, torch.Tensor, torch.Tensor, torch.Tensor], None],
        batches: Batches,
        numbers: Callable[[int], list[float]],
        seed: int,
        longest: int,
        size: int,
        per_epoch: int,
        record: Recorder | str,
    ) -> None:
        self.step, self.batches, self.numbers_at, self.size, self.per_epoch = step, batches, numbers, size, per_epoch
        self.record = None if isinstance(record, str) else record
        self.how = f"plain: {record}" if isinstance(record, str) else "recorded"
        self.longest, self.lengths = longest, list[int]()
        self.replays: dict[int, Step] = {}
        self.taken: dict[int, int] = {}
        self.next_position = -1
        self.own: Held | None = None
        if self.record is None:
            return
        table: dict[str, Any] = {"device": batches.device, "dtype": torch.int64}
        self.rows = torch.zeros(per_epoch, size * (2 if batches.examples.paired else 1), **table)
        self.numbers = torch.zeros(per_epoch, len(numbers(0)), device=batches.device, dtype=batches.dtype)
        self.position = torch.zeros(1, **table)
        self.seed = torch.full((), seed, **table)
        self.epoch = torch.zeros((), **table)

    def start_epoch(self, epoch: int, order: list[np.ndarray], source: Batches) -> None:
        """Fill the tables for an epoch: batches of these places of `source`.

        Rows of a batch that is not full stay 0: it is never taken here.
        """
        if self.record is None:
            return
        self.lengths = []
        if source is not self.batches and not self._hold(source):
            return
        rows = np.zeros(self.rows.shape, dtype=np.int64)
        for position, units in enumerate(order):
            if len(units) == self.size:
                rows[position] = source.rows(units)
        numbers = [self.numbers_at(epoch * self.per_epoch + position) for position in range(self.per_epoch)]
        send(torch.from_numpy(rows), self.rows)
        send(torch.tensor(numbers, dtype=self.numbers.dtype), self.numbers)
        self.epoch.fill_(epoch)
        self.lengths = [bucket(int(source.lengths[units].max()), self.longest) for units in order]

    def _hold(self, source: Batches) -> bool:
        """Put an epoch's own examples where the recorded steps look for them; False where they do not fit."""
        if source.held is None:
            return False
        if self.own is None or not refill(self.own, source.held):
            self.own = source.held.widened(ROOM)
            self.replays.clear()
        return True

    def __call__(self, length: int) -> None:
        """The step at `position`, padded to `length`: tensors that stay where they are, nothing from Python."""
        rows = self.rows.index_select(0, self.position)[0]
        batch = (self.own or self.batches).picked(rows, length)
        self.step(batch, self.numbers.index_select(0, self.position)[0], self.seed, self.epoch)
        self.position.add_(1)

    def take(self, position: int, units: np.ndarray) -> bool:
        """Take the step at this position of the epoch; False where it must be taken plainly."""
        if self.record is None or not self.lengths or len(units) != self.size:
            return False
        if position != self.next_position:
            self.position.fill_(position)
        self.next_position = position + 1
        length = self.lengths[position]
        if length in self.replays:
            self.replays[length]()
        elif self.taken.get(length, 0) < WARM:
            self.taken[length] = self.taken.get(length, 0) + 1
            self(length)
        else:
            return self._record(self.record, length)
        return True

    def _record(self, record: Recorder, length: int) -> bool:
        try:
            self.replays[length] = record(partial(self, length))
        except RuntimeError as error:
            # Kernels that cannot be recorded are not a mistake of the study: nothing was performed, so go on plainly.
            self.how, self.record = f"plain: a step could not be recorded ({first_line(error)})", None
            # Their memory is what the plain steps need.
            self.replays.clear()
            self.own = None
            return False
        return True
