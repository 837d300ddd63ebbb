"""Training steps of whole models: ours, beside a plain PyTorch loop with the same module, and where time goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headstart.bench.machine import matrix_peak, wait_for
from headstart.bench.models import EXAMPLES, OBJECTIVE, Example, made_up
from headstart.bench.process import Failed, Measurement
from headstart.bench.shares import shares
from headstart.models.model import SequenceModel, build_model, model_flops
from headstart.runner.machine import keep_freed_memory
from headstart.sequence import collate
from headstart.stage.trained import TRAIN_FLOPS
from headstart.training.batches import Batches
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import FlatParameters, OptimSpec

LEAST, MOST, ENOUGH = 3, 100, 6.0
"""Pairs of steps, one of ours and one of the plain loop: at least 3, and until 6 s or 100 pairs."""
PROFILED = 1.0
"""Seconds of steps that are profiled, at least one step and at most ten."""
RATE = 1e-3


@dataclass(frozen=True)
class Speed:
    """What was measured of one model. Seconds are medians; shares are of the time of profiled steps of ours.

    peak: FLOP/s of the machine's matrix products, flops: closed form, of one step.
    """

    model: str
    device: str
    parameters: int = 0
    batch: int = 0
    length: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float | None = None
    plain_seconds: float | None = None
    steps: int = 0
    peak: float = 0.0
    shares: dict[str, float] | None = None
    failed: str | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Valid positions trained on in a second."""
        return None if self.seconds is None else self.tokens / self.seconds

    @property
    def share_of_peak(self) -> float | None:
        """Closed-form FLOP/s of a step over those of large matrix products."""
        return None if self.seconds is None else self.flops / self.seconds / self.peak


def survey(models: list[str], device: str, threads: int, limit: float) -> Iterator[Speed]:
    """Measure model after model. Ours and the plain loop take turns, each in a process of its own."""
    for name in models:
        job = {"model": name, "device": device, "threads": threads}
        try:
            yield _beside(name, job, limit)
        except Failed as error:
            yield Speed(name, device, failed=str(error))


def _beside(name: str, job: dict[str, Any], limit: float) -> Speed:
    with (
        Measurement("headstart.bench.train:ours", job, limit) as ours,
        Measurement("headstart.bench.train:plain", job, limit) as plain,
    ):
        facts, _ = ours.ask(), plain.ask()
        mine: list[float] = []
        theirs: list[float] = []
        while len(mine) < LEAST or (sum(mine) + sum(theirs) < ENOUGH and len(mine) < MOST):
            mine.append(ours.ask())
            theirs.append(plain.ask())
        facts["shares"] = ours.ask("shares")
    return Speed(
        name,
        job["device"],
        seconds=statistics.median(mine),
        plain_seconds=statistics.median(theirs),
        steps=len(mine),
        **facts,
    )


def _model(example: Example, device: str) -> SequenceModel:
    """The same fresh weights for both."""
    signature = example.signature
    return build_model(example.spec, signature, OBJECTIVE.output(signature), 0).to(device)


def ours(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: facts after a warm step; then, each time, seconds of a step; the shares when asked.

    A step is what a stage does: order, batch, objective, forward, backward, optimiser.
    """
    torch.set_num_threads(job["threads"])
    keep_freed_memory()  # As the processes do that stages are trained in.
    example, device = EXAMPLES[job["model"]], job["device"]
    model = _model(example, device)
    examples = made_up(example)
    feed = Batches(examples, np.arange(len(examples)), torch.device(device), torch.float32)
    # Far more steps than are asked for, so that no evaluation falls among them.
    setting = TrainConfig(
        OBJECTIVE,
        example.signature,
        OptimSpec(lr=RATE, batch_size=example.batch),
        BudgetSpec(steps=10**6, evaluate_every=10**6),
        0,
        feed,
        feed,
        record=None,
    )
    flat = FlatParameters(model, [name for name, _ in model.named_parameters()], set(), {})
    ticks = train(setting, Progress(model, flat))
    next(ticks)
    wait_for(device)
    asked, last = (yield _facts(model, example, device)), PROFILED
    while True:
        if asked == "shares":
            steps = min(10, max(1, round(PROFILED / last)))
            asked = yield shares(lambda: next(ticks), feed, device, steps)
            continue
        start = time.perf_counter()
        next(ticks)
        wait_for(device)
        last = time.perf_counter() - start
        asked = yield last


def _facts(model: SequenceModel, example: Example, device: str) -> dict[str, Any]:
    """What is known without timing steps, and the machine's peak."""
    examples, signature = made_up(example), example.signature
    flops = sum(model_flops(example.spec, signature, OBJECTIVE.output(signature), int(n)) for n in examples.lengths)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": example.batch,
        "length": signature.length,
        "tokens": int(examples.lengths.sum()),
        "flops": TRAIN_FLOPS * flops,
        "peak": matrix_peak(device),
    }


def plain(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: the loop that one would write, with one batch that is already there."""
    torch.set_num_threads(job["threads"])
    example, device = EXAMPLES[job["model"]], job["device"]
    model = _model(example, device)
    examples = made_up(example)
    batch = collate(examples, np.arange(example.batch)).to(torch.device(device))
    assert batch.target is not None
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    first = True
    while True:
        start = time.perf_counter()
        loss = F.cross_entropy(model(batch), batch.target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        loss.item()  # A loop that one would write looks at its loss.
        wait_for(device)
        yield None if first else time.perf_counter() - start
        first = False
