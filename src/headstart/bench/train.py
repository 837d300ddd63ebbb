"""Training steps of whole models: ours, beside a plain PyTorch loop with the same module, and where time goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headstart.bench.machine import matrix_peak, wait_for
from headstart.bench.process import Failed, Measurement
from headstart.bench.shares import shares
from headstart.errors import BadInput, nearest
from headstart.models import MODELS
from headstart.models.counting import training_flops
from headstart.models.kind import with_kind
from headstart.models.mixers import MIXERS
from headstart.models.model import ModelSpec, Network
from headstart.objectives import ClassifySpec
from headstart.plugins import load_plugins, own_kinds, own_networks, place_of
from headstart.runner.machine import keep_freed_memory
from headstart.seeds import Draw, bits
from headstart.sequence import Examples, Signature, collate
from headstart.spec import read, spec_of_kind
from headstart.training.batches import Batches
from headstart.training.graph import RECORDERS, WARM
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import FlatParameters, OptimSpec


@dataclass(frozen=True)
class Example:
    """A model at a published size, and a batch of full length for it.

    `batch` is one sequence where a step would else take longer than a person waits: tokens/s hardly depend on it there.
    epoch: train sequences of the task.
    """

    model: dict[str, Any]
    signature: Signature
    batch: int
    epoch: int
    source: str

    @property
    def spec(self) -> ModelSpec:
        """The model's spec."""
        return read(ModelSpec, self.model, name="model")


def _attention(width: int, blocks: int, heads: int, feed_forward: int) -> dict[str, Any]:
    return {
        "width": width,
        "blocks": blocks,
        "mixer": {"kind": "attention", "heads": heads},
        "feed_forward": {"width": feed_forward},
        "position": {"kind": "rotary"},
    }


EXAMPLES: dict[str, Example] = {
    "digits": Example(
        _attention(32, 2, 4, 128),
        Signature("floats", 1, 64, 64, "class", classes=10),
        32,
        1_097,
        "the built-in study `digits`",
    ),
    "image": Example(
        _attention(64, 3, 4, 128),
        Signature("floats", 1, 1024, 1024, "class", classes=10),
        32,
        45_000,
        "Amos et al. 2023, table 4",
    ),
    "text": Example(
        _attention(512, 6, 8, 1024),
        Signature("tokens", 135, 2048, 2048, "class", classes=2),
        1,
        25_000,
        "Amos et al. 2023, table 4",
    ),
    "listops": Example(
        _attention(512, 6, 8, 1024),
        Signature("tokens", 15, 2000, 2000, "class", classes=10),
        1,
        96_000,
        "Amos et al. 2023, table 4",
    ),
}


@dataclass(frozen=True)
class Case:
    """One row: a model of EXAMPLES or, on its batch, a plugin's mixer in its blocks, or a plugin's whole model."""

    model: str
    own: str | None = None
    plugin: str | None = None

    @property
    def name(self) -> str:
        """`image`, `my_conv on image`."""
        return self.model if self.own is None else f"{self.own} on {self.model}"

    @property
    def spec(self) -> Any:
        """The spec of the model. Raises: BadInput where it has none of this kind."""
        table = EXAMPLES[self.model].model
        if self.own in MIXERS:
            rotary = MIXERS[self.own].load().rotary
            table = {**table, "mixer": {"kind": self.own}} | ({} if rotary else {"position": {"kind": "sinusoidal"}})
        elif self.own is not None:
            table = {"kind": self.own}
        return spec_of_kind(MODELS, with_kind(table))

    def network(self) -> Network:
        """The model with fresh weights, the same each time. Raises: BadInput where it does not suit the batch."""
        signature = EXAMPLES[self.model].signature
        network: Network = self.spec.network(signature, OBJECTIVE.output(signature), 0)
        return network


def read_models(text: str, plugins: Sequence[str] = ()) -> list[Case]:
    """`digits,image` as cases, each followed by those of the plugins' mixers and networks. Raises: BadInput."""
    own = [
        (kind, source)
        for source, plugin in zip(plugins, load_plugins(plugins), strict=True)
        for kind in (*own_kinds([plugin], "mixer"), *own_networks([plugin]))
    ]
    if plugins and not own:
        raise BadInput("--plugin: registers no mixer and no network that could be measured; leave it out")
    cases = []
    for name in (word.strip() for word in text.split(",")):
        if name not in EXAMPLES:
            raise BadInput(f"--models: {nearest(name, EXAMPLES)}")
        cases += [Case(name), *(Case(name, *item) for item in own)]
    for case in cases:
        if case.own is not None:
            try:
                case.network()
            except Exception as error:
                why = f"{place_of(error)}{error}"
                raise BadInput(
                    f"--models: {case.own!r} does not suit the batch of {case.model!r} ({why}); name others, such as "
                    "--models digits,image (numbers) or text,listops (tokens)"
                ) from None
    return cases


def made_up(example: Example) -> Examples:
    """One batch of random examples."""
    signature, units = example.signature, example.batch
    total = units * signature.length
    offsets = np.arange(units + 1, dtype=np.int64) * signature.length
    noise = bits(0, "bench/values", np.arange(total))
    values = (
        (noise % signature.width).astype(np.int64)
        if signature.input == "tokens"
        else ((noise % 256)[:, None].astype(np.float32) / 128 - 1)
    )
    target = (bits(0, "bench/target", np.arange(units)) % signature.classes).astype(np.int64)
    return Examples(values, offsets, target, np.arange(units))


OBJECTIVE = ClassifySpec()


LEAST, MOST, ENOUGH = 3, 100, 6.0
"""Rounds of one step each way: at least 3, and until 6 s or 100 rounds."""
PROFILED = 1.0
"""Seconds of steps that are profiled, at least one step and at most ten."""
STEPS_OF_EPOCH = 100
RATE = 1e-3


@dataclass(frozen=True)
class Speed:
    """What was measured of one model. Seconds are medians; shares are of the time of profiled steps of ours.

    peak: FLOP/s of the machine's matrix products, flops: closed form, of one step. epoch: sequences of one.
    trainer_seconds: of the Trainer of transformers, where that is installed. how: whether steps were recorded.
    """

    model: str
    device: str
    parameters: int = 0
    batch: int = 0
    length: int = 0
    epoch: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float | None = None
    plain_seconds: float | None = None
    trainer_seconds: float | None = None
    steps: int = 0
    how: str = ""
    peak: float = 0.0
    shares: dict[str, float] | None = None
    failed: str | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Valid positions trained on in a second."""
        return None if self.seconds is None else self.tokens / self.seconds

    @property
    def epoch_seconds(self) -> float | None:
        """Seconds of an epoch of the task at full length, evaluation left out."""
        return None if self.seconds is None else self.seconds * self.epoch / self.batch

    @property
    def share_of_peak(self) -> float | None:
        """Closed-form FLOP/s of a step over those of large matrix products."""
        return None if self.seconds is None else self.flops / self.seconds / self.peak


def survey(cases: Iterable[Case], device: str, threads: int, limit: float) -> Iterator[Speed]:
    """Measure model after model. Ours and the plain loop take turns, each in a process of its own."""
    for case in cases:
        job = {"case": asdict(case), "device": device, "threads": threads}
        try:
            yield _beside(case.name, job, limit)
        except Failed as error:
            yield Speed(case.name, device, failed=str(error))


def trainer_installed() -> bool:
    """Whether the Trainer of transformers can be measured (see `trainer.py`); it is no dependency of ours."""
    return all(find_spec(name) for name in ("transformers", "accelerate"))


def _beside(name: str, job: dict[str, Any], limit: float) -> Speed:
    """The ways take turns; `trainer` is one of them where it is installed."""
    ways = ["headstart.bench.train:ours", "headstart.bench.train:plain"]
    ways += ["headstart.bench.trainer:trainer"] if trainer_installed() else []
    with ExitStack() as stack:
        each = [stack.enter_context(Measurement(way, job, limit)) for way in ways]
        facts, *_ = [way.ask() for way in each]
        times: list[list[float]] = [[] for _ in each]
        while len(times[0]) < LEAST or (sum(map(sum, times)) < ENOUGH and len(times[0]) < MOST):
            for way, mine in zip(each, times, strict=True):
                mine.append(way.ask())
        facts["shares"] = each[0].ask("shares")
    ours, plain, *others = map(statistics.median, times)
    return Speed(
        name,
        job["device"],
        seconds=ours,
        plain_seconds=plain,
        trainer_seconds=others[0] if others else None,
        steps=len(times[0]),
        **facts,
    )


def case_of(job: Mapping[str, Any]) -> tuple[Case, Example, Network]:
    """What is measured in this process; both processes have the same fresh weights."""
    torch.set_num_threads(job["threads"])
    case = Case(**job["case"])
    if case.plugin is not None:
        load_plugins([case.plugin])
    return case, EXAMPLES[case.model], case.network().to(job["device"])


def ours(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: facts after a warm step; then, each time, seconds of a step; the shares when asked.

    A step is what a stage does: order, batch, objective, forward, backward, optimiser.
    """
    keep_freed_memory()  # As the processes do that stages are trained in.
    (case, example, model), device = case_of(job), job["device"]
    examples = made_up(example)
    # Epochs of many steps: what an epoch costs anew does not count, as with the Trainer.
    units = np.tile(np.arange(len(examples)), STEPS_OF_EPOCH)
    feed = Batches(examples, units, torch.device(device), torch.float32)
    # Far more steps than are asked for, so that no evaluation falls among them.
    config = TrainConfig(
        OBJECTIVE,
        example.signature,
        OptimSpec(lr=RATE, batch_size=example.batch),
        BudgetSpec(steps=10**6, evaluate_every=10**6),
        0,
        feed,
        feed,
    )
    flat = FlatParameters(model, [name for name, _ in model.named_parameters()], set(), {})
    progress = Progress(model, flat)
    ticks = train(config, progress)
    for _ in range(WARM + 2 if torch.device(device).type in RECORDERS else 1):
        next(ticks)
    wait_for(device)
    asked, last = (yield _facts(case, model, device) | {"how": progress.how}), PROFILED
    while True:
        if asked == "shares":
            # Taken one kernel at a time: those of a recorded step do not say what called them.
            steps = min(10, max(1, round(PROFILED / last)))
            asked = yield shares(partial(next, train(replace(config, record=None), progress)), feed, device, steps)
            continue
        start = time.perf_counter()
        next(ticks)
        wait_for(device)
        last = time.perf_counter() - start
        asked = yield last


def _facts(case: Case, model: Network, device: str) -> dict[str, Any]:
    """What is known without timing steps, and the machine's peak."""
    example = EXAMPLES[case.model]
    examples, signature, spec = made_up(example), example.signature, case.spec
    output, names = OBJECTIVE.output(signature), dict(model.named_parameters())
    flops = sum(
        training_flops(model, spec.layer_flops(signature, output, n), names, n, spec.kernel_flops(n), example.batch)
        for n in examples.lengths.tolist()
    )
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": example.batch,
        "length": signature.length,
        "epoch": example.epoch,
        "tokens": int(examples.lengths.sum()),
        "flops": flops,
        "peak": matrix_peak(device),
    }


def plain(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: the loop that one would write, with one batch that is already there."""
    (_, example, model), device = case_of(job), job["device"]
    examples = made_up(example)
    batch = collate(examples, np.arange(example.batch)).to(torch.device(device))
    assert batch.target is not None
    draw = Draw(0, 0, batch.index)  # In training, as ours: dropout drops, and a batch norm counts.
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    first = True
    while True:
        start = time.perf_counter()
        loss = F.cross_entropy(model(batch, draw), batch.target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        loss.item()  # A loop that one would write looks at its loss.
        wait_for(device)
        yield None if first else time.perf_counter() - start
        first = False
