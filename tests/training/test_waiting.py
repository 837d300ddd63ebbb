"""A GPU is never waited for in the steps between evaluations, and what it needs next is made while it computes.

The GPU is torch's device without numbers: an operation that needs one is counted, and gets 1 in its arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.thinned import thinned
from torch.utils._python_dispatch import TorchDispatchMode

from headstart.models.model import ModelSpec, build_model
from headstart.objectives import ClassifySpec, MaskedSpec, ObjectiveSpec
from headstart.sequence import Examples, Signature
from headstart.spec import read
from headstart.training import batches, evaluate
from headstart.training.batches import Ahead, Batches, batches_ahead
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import FlatParameters, OptimSpec

META = torch.device("meta")
LENGTH, UNITS = 12, 22


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations for which a CPU would wait for the GPU: numbers that it reads, and copies back."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, function.overloadpacket.__name__
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        on_gpu = any(x.device == META for x in tensors)
        there = name == "copy_" and tensors[0].device == META != tensors[1].device and not (args[2:] or [False])[0]
        there |= name == "_to_copy" and not on_gpu and str(kwargs.get("device")) == "meta"
        if there and not kwargs.get("non_blocking"):
            self.names.append(name)
        back = name == "_to_copy" and str(kwargs.get("device", META)) == "cpu"
        if on_gpu and (back or name in ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")):
            self.names.append(name)
            return torch.ones(args[0].shape) if back else 1.0
        return function(*args, **kwargs)


def stage(objective: ObjectiveSpec, ragged: bool, own: dict[str, Any]) -> tuple[TrainConfig, Progress]:
    draw = np.random.default_rng(0)
    lengths = draw.integers(5, LENGTH + 1, UNITS) if ragged else np.full(UNITS, LENGTH)
    values = draw.standard_normal((int(lengths.sum()), 2)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    feed = Batches(
        Examples(values, offsets, draw.integers(0, 3, UNITS), np.arange(UNITS)), np.arange(UNITS), META, torch.float32
    )
    signature = Signature("floats", 2, LENGTH, 5, "class", classes=3)
    spec = read(ModelSpec, {"width": 16, "blocks": 1, **own})
    model = build_model(spec, signature, objective.output(signature), 0).to(META)
    flat = FlatParameters(model, [name for name, _ in model.named_parameters()], set(), {})
    optim = read(OptimSpec, {"batch_size": 4, "lr": 1e-2, "clip": 1.0})
    budget = BudgetSpec(steps=1000, evaluate_every=1000)
    return TrainConfig(objective, signature, optim, budget, 7, feed, feed, record=None), Progress(model, flat)


def called(step: Callable[[], None]) -> Callable[[], None]:
    """A recorder that records nothing: what a step reads from tables is read, and the tables are filled."""
    step()
    return step


def steps(config: TrainConfig, progress: Progress, count: int = 21) -> Iterator[int]:
    ticks = train(config, progress)
    for _ in range(count):
        yield next(ticks).step


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A GPU whose numbers are never there yet; counts how often one is sent on its way."""
    asked: list[int] = []

    def read_later(number: torch.Tensor) -> Callable[[], float | None]:
        asked.append(number.numel())
        return lambda: None

    def autocast(device: str, **named: Any) -> Any:
        """torch has none for the device without numbers."""
        return real("cpu" if device == "meta" else device, **named)

    real = torch.autocast
    monkeypatch.setattr(torch, "autocast", autocast)
    monkeypatch.setattr(evaluate, "read_later", read_later)
    return asked


MODELS = {
    "attention": {"dropout": 0.1, "position": {"kind": "rotary"}},
    "batch norm": {"norm": "batch"},
    "s4d": {"mixer": {"kind": "s4d"}},
    "mamba": {"mixer": {"kind": "mamba"}},
}


OBJECTIVES = {"equal": ClassifySpec(), "ragged": MaskedSpec(mask_rate=0.5, loss="l1")}
CASES = [("attention", lengths, fits) for lengths in OBJECTIVES for fits in ("plain", "called", "")]
CASES += [("batch norm", "ragged", "called"), ("s4d", "ragged", "plain"), ("mamba", "equal", "plain")]


@pytest.mark.parametrize(("name", "lengths", "fits"), thinned(CASES, 4))
def test_no_step_between_evaluations_waits_for_the_gpu(name, lengths, fits, slow, monkeypatch):
    monkeypatch.setattr(batches, "room", lambda _: 2.0**31 * bool(fits))
    config, progress = stage(OBJECTIVES[lengths], lengths == "ragged", MODELS[name])
    config = replace(config, record=called if fits == "called" else None)
    with Waits() as waits:
        assert list(steps(config, progress)) == list(range(1, 22))
    assert (progress.how == "recorded") == (fits == "called")
    assert waits.names == []
    assert slow == [1], "the loss is asked for every twenty steps"


def test_a_step_that_reads_a_number_is_counted(slow, monkeypatch):
    real = ClassifySpec.measure

    def reading(*arguments):
        sums = real(*arguments)
        assert float(sums["loss"].detach()) == 1.0
        return sums

    monkeypatch.setattr(ClassifySpec, "measure", reading)
    with Waits() as waits:
        list(steps(*stage(ClassifySpec(), False, {}), 3))
    assert waits.names.count("_local_scalar_dense") == 3


def test_a_loss_is_seen_once_it_has_arrived(monkeypatch):
    metrics = evaluate.TrainMetrics(torch.device("cpu"))
    metrics.add({"loss": torch.tensor(2.0), "count": torch.tensor(1.0)})
    on_their_way: list[list[float]] = []

    def read_later(number: torch.Tensor) -> Callable[[], float | None]:
        arrived: list[float] = []
        on_their_way.append(arrived)
        return lambda: arrived[0] if arrived else None

    monkeypatch.setattr(evaluate, "read_later", read_later)
    assert metrics.glance() == 0.0
    on_their_way[0].append(float("nan"))
    assert np.isnan(metrics.glance())
    monkeypatch.undo()
    assert metrics.glance() == metrics.loss == 2.0


def test_what_comes_next_is_made_by_a_thread_while_the_caller_computes():
    made: list[tuple[int, bool]] = []
    ready = threading.Event()

    def make(number: int) -> int:
        made.append((number, threading.current_thread() is threading.main_thread()))
        if number == 1:
            ready.set()
        if number == 4:
            raise ValueError("four")
        return number * number

    ahead = Ahead(make, 5)
    assert ahead(0) == 0
    assert ready.wait(10), "the next one is made without being asked for"
    assert ahead(1) == 1
    assert ahead(3) == 9, "out of turn"
    with pytest.raises(ValueError, match="four"):
        ahead(4)
    ahead.thread.shutdown()
    assert sorted(made) == [(number, False) for number in range(5)]


def test_batches_that_a_gpu_does_not_hold_are_those_of_the_arrays(monkeypatch):
    config, _ = stage(ClassifySpec(), True, {})
    feed, order = config.train, [np.arange(4), np.arange(4, 9), np.array([20, 3])]
    assert batches_ahead(feed, order) is None, "it is held"
    monkeypatch.setattr(batches, "room", lambda _: 0.0)
    feed = Batches(feed.examples, feed.units, META, torch.float32)
    ahead = batches_ahead(feed, order)
    assert ahead is not None
    for position, units in enumerate(order):
        expected = feed.gathered(units)
        batch = ahead(position)
        assert {name: x.shape for name, x in batch.tensors().items()} == {
            name: x.shape for name, x in expected.tensors().items()
        }
        assert {x.device for x in batch.tensors().values()} == {META}
    assert batches_ahead(replace_device(feed), order) is None, "a CPU has nothing to wait for"


def replace_device(feed: Batches) -> Batches:
    return Batches(feed.examples, feed.units, torch.device("cpu"), torch.float32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("ragged", [False, True])
def test_torch_sees_no_waiting_on_a_gpu(ragged):
    config, progress = stage(ClassifySpec(), ragged, {})
    feed = Batches(config.train.examples, config.train.units, torch.device("cuda"), torch.float32)
    model = build_model(
        read(ModelSpec, {"width": 16, "blocks": 2}), config.signature, config.objective.output(config.signature), 0
    ).cuda()
    progress = Progress(model, FlatParameters(model, [name for name, _ in model.named_parameters()], set(), {}))
    ticks = train(replace(config, train=feed, val=feed, record="auto"), progress)
    for _ in range(12):  # The first epoch fills its tables, and steps are recorded.
        next(ticks)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            next(ticks)
    finally:
        torch.cuda.set_sync_debug_mode("default")
