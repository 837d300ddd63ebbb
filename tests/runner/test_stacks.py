"""Stages as a stack, in the runner: each with its own folder, records, states and result, and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.made_tasks import MadeSpec
from support.stand_ins import ENGINE, stage

from headstart.errors import BadInput, StackTooLarge
from headstart.runner import perform as perform_module
from headstart.runner.events import Failed, Finished, Notice, StageProgress, Started, Stopped
from headstart.runner.job import Runtime, training
from headstart.runner.perform import Interrupted, perform
from headstart.runner.stacks import read_stack
from headstart.spec import merge
from headstart.stage import identity, read_stage
from headstart.store import Store
from headstart.training import stack as stacks

BASE: dict[str, Any] = {
    "objective": {"kind": "classify"},
    "budget": {"steps": 24, "evaluate_every": 6},
    "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
    "optim": {"lr": 1e-3, "batch_size": 12, "epsilon": 1e-4, "precision": "float64"},
}


def planned(name: str = "train", **own: Any) -> Any:
    spec = read_stage({**merge(BASE, own), "task": MadeSpec()})
    return SimpleNamespace(name=name, spec=spec, identity=identity(spec, Path("none")))


def sweep(count: int = 5, **own: Any) -> list[Any]:
    return [planned(seed=seed, optim={"lr": 1e-3 * (1 + seed % 2)}, **own) for seed in range(count)]


def run(store: Store, stages: list[Any], engine: Any = None, **runtime: Any) -> list[Any]:
    settings = {"data": Path("none"), "device": "cpu", "save_every": 0.0, **runtime}
    return list(perform(stages, store, Runtime(**settings), engine))


def agree(first: Store, second: Store, stages: list[Any]) -> None:
    """Weights, records and scores of stages are those of another store, within the rounding of float64."""
    for each in stages:
        mine, theirs = (store.weights(each.identity, "last") for store in (first, second))
        assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) <= 1e-10
        rows, others = (store.records(each.identity) for store in (first, second))
        assert [row["step"] for row in rows] == [row["step"] for row in others]
        assert [row["val"]["loss"] for row in rows] == pytest.approx([row["val"]["loss"] for row in others], 1e-9)


def way(store: Store, each: Any) -> str:
    result = store.result(each.identity)
    assert result is not None
    return str(result["provenance"].get("way", "alone"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The sweep, one stage after another."""
    store = Store(tmp_path_factory.mktemp("alone"))
    run(store, sweep(), save_every=20.0)
    return store


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_sweep_as_a_stack_is_the_sweep_one_by_one(tmp_path: Path, alone: Store, workers: int) -> None:
    store, stages = Store(tmp_path), sweep()
    events = run(store, stages, stack=3, workers=workers, save_every=20.0)
    assert sum(isinstance(event, Finished) for event in events) == 5
    assert not [event for event in events if isinstance(event, (Failed, Notice))]
    agree(store, alone, stages)
    assert {way(store, each) for each in stages} == {"stack"}
    assert {way(alone, each) for each in stages} == {"alone"}
    # The fourth and the fifth begin as places get free, in this process; two workers divide the sweep.
    begun = [type(event).__name__ for event in events if not isinstance(event, StageProgress)]
    assert begun[:4] == ["Started", "Started", "Started", "Finished"] or workers
    result = store.result(stages[0].identity)
    assert result is not None
    assert result["budget"]["steps"] == 24
    assert result["provenance"]["threads"] == 1
    assert [type(event).__name__ for event in run(store, stages, stack=3)] == ["Skipped"] * 5


@pytest.mark.parametrize("then", [2, 5, "off"])
def test_a_stack_that_is_cut_goes_on_in_another_way(tmp_path: Path, alone: Store, then: Any) -> None:
    store, stages = Store(tmp_path), sweep()
    stop = iter([None] * 40 + ["limit"] * 1000)
    engine, runtime = training(), Runtime(data=Path("none"), device="cpu", save_every=0.0, stack=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perform_module._Run, "reason", lambda _: next(stop))
        events = list(perform(stages, store, runtime, engine))
    cut = [event for event in events if isinstance(event, Stopped)]
    assert len(cut) == 5
    assert {store.status(each.identity) for each in stages[:3]} == {"cut"}
    resumed = run(store, stages, stack=then)
    steps = {event.identity: event.step for event in resumed if isinstance(event, Started)}
    assert all(steps[each.identity] > 0 for each in stages[:3])
    agree(store, alone, stages)
    assert way(store, stages[0]) == ("stack then alone" if then == "off" else "stack")
    texts = [event.text for event in resumed if isinstance(event, Notice)]
    assert ("way changed within the stage (stack then alone)" in " ".join(texts)) == (then == "off")


def test_a_stage_begun_alone_goes_on_in_a_stack_and_says_so(tmp_path: Path, alone: Store) -> None:
    store, stages = Store(tmp_path), sweep()
    run(store, stages[:1], limit=0.3)
    run(store, stages, stack=5)
    agree(store, alone, stages)
    assert way(store, stages[0]) in ("alone then stack", "stack", "alone")  # as far as it came in 0.3 s
    assert way(store, stages[1]) == "stack"


def test_ctrl_c_saves_every_stage_of_a_stack(tmp_path: Path, alone: Store) -> None:
    store, stages = Store(tmp_path), sweep()
    runtime, asked = Runtime(data=Path("none"), device="cpu", save_every=60.0, stack=5), list[bool]()

    def interrupted() -> None:
        for event in perform(stages, store, runtime):
            if isinstance(event, StageProgress) and event.step >= 6 and not asked:
                asked.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="5 of 5 stages are left"):
        interrupted()
    assert {store.status(each.identity) for each in stages} == {"partial"}
    events = run(store, stages, stack=5)
    assert all(event.step >= 6 for event in events if isinstance(event, Started))
    agree(store, alone, stages)


def test_a_stage_that_diverges_ends_alone_and_the_others_are_what_they_were(tmp_path: Path, alone: Store) -> None:
    store, stages = Store(tmp_path), sweep()
    wild = planned(seed=9, optim={"lr": 1e300, "schedule": "constant"})
    run(store, [stages[0], wild, *stages[1:]], stack=3)
    assert store.status(wild.identity) == "diverged"
    agree(store, alone, stages)


def test_a_mixer_that_cannot_be_stacked_trains_alone_and_the_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, stages = Store(tmp_path), sweep(2)
    cls = type(stages[0].spec.model.mixers[0])
    monkeypatch.setattr(cls, "stackable", False)
    monkeypatch.setattr(cls, "unstackable", "it keeps a count of its own", raising=False)
    events = run(store, stages, stack=2)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == ["trains alone: mixer 'attention' cannot be stacked: it keeps a count of its own"]
    assert {way(store, each) for each in stages} == {"alone"}
    assert not [event for event in run(Store(tmp_path / "off"), stages) if isinstance(event, Notice)]


def test_what_cannot_be_mapped_is_said_once_and_trained_one_by_one(
    tmp_path: Path, alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise RuntimeError("no rule for this")

    monkeypatch.setattr(stacks._Rows, "_forward", refused)
    store, stages = Store(tmp_path), sweep()
    events = run(store, stages, stack=5)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == ["these stages cannot train as a stack and go on one by one: no rule for this"]
    assert {way(store, each) for each in stages} == {"alone"}
    agree(store, alone, stages)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_stack_that_exceeds_memory_is_one_message_and_nothing_is_lost(
    tmp_path: Path, alone: Store, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    store, stages = Store(tmp_path), sweep()
    engine = replace(training(), stack=Small)
    with pytest.raises(BadInput) as error:
        run(store, stages, engine, stack=5, workers=workers)
    assert str(error.value) == (
        "--stack: 5 models at a time do not fit into the memory of cpu; give --stack 2, or --stack off. What was saved is "
        "kept, and the same study goes on from there"
    )
    run(store, stages, engine, stack=2, workers=workers)
    agree(store, alone, stages)
    assert {way(store, each) for each in stages} == {"stack"}


class Small(stacks.Stack):
    """Has no memory for more than three models."""

    def _advance(self) -> None:
        if len(self.members) > 3:
            raise StackTooLarge(len(self.members))
        super()._advance()


@pytest.mark.slow
def test_a_worker_that_is_killed_with_a_stack_leaves_its_stages_to_be_done_alone(tmp_path: Path) -> None:
    engine = replace(ENGINE, stack_key=fake_key, stack=FakeStack)
    store = Store(tmp_path / "runs")
    stages = [stage("killed", trouble="kill once", scratch=str(tmp_path)), stage("other", seed=1)]
    runtime = Runtime(device="cpu", workers=1, save_every=0.0, stack=2)
    events = list(perform(stages, store, runtime, engine))
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices[0] == (
        "its worker was killed by SIGKILL (by the system if memory ran out; give fewer models to --stack then); the 2 "
        "stages of its stack are, each alone, tried once more"
    )
    assert [store.status(each.identity) for each in stages] == ["complete", "complete"]
    assert [event.step for event in events if isinstance(event, Started)][2:] == [4, 4]


def fake_key(spec: Any) -> tuple[str, str]:
    return "all", ""


class FakeStack:
    """Stages in turns, without a common step."""

    def __init__(self) -> None:
        self.members: list[Any] = []
        self.refusal, self.steps = "", 0


class Clock:
    """Counts what is timed; `most` models fit into the memory of the fake GPU."""

    def __init__(self, alone: float, each: float, most: int) -> None:
        self.alone, self.each, self.most = alone, each, most
        self.asked: list[int] = []

    def __call__(self, runs: list[Any]) -> float:
        self.asked.append(len(runs))
        if len(runs) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.alone if len(runs) == 1 else self.each * len(runs)


@pytest.mark.parametrize(
    ("clock", "asked", "models", "text"),
    [
        (Clock(0.01, 0.002, 99), [1, 5], 5, "as a stack, 5 at a time: 2 ms in a stack and 10 ms alone, for each step"),
        (
            Clock(0.01, 0.002, 3),
            [1, 5, 2],
            2,
            "as a stack, 2 at a time: 2 ms in a stack and 10 ms alone, for each step",
        ),
        (Clock(0.01, 0.02, 99), [1, 5], 0, "one by one: 20 ms in a stack and 10 ms alone, for each step"),
        (Clock(0.01, 0.02, 1), [1, 5, 2], 0, "one by one: a stack of two exceeds the memory"),
    ],
)
def test_a_gpu_times_both_ways_once_and_later_runs_take_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, asked: list[int], models: int, text: str
) -> None:
    clock.asked = []
    monkeypatch.setattr(perform_module, "gpus", lambda _: ["cpu"])  # a CPU that is taken for one
    store, file = Store(tmp_path), tmp_path / "reports" / "study" / "stacks.json"
    engine, settings = replace(training(), seconds=clock, probe_task=probe), {"stack": "auto", "stacks": file}
    stages = sweep(budget={"steps": 72})  # the limit has room for the choice, not for all of these
    begun = run(store, stages, engine, **settings, limit=0.5)
    assert clock.asked == asked
    notices = [event.text for event in begun if isinstance(event, Notice)]
    assert len(notices) == 1
    assert text in notices[0]
    assert notices[0].endswith(f"kept in {file}")
    (choice,) = json.loads(file.read_text())["stacks"].values()
    assert choice["models"] == models
    events = run(store, stages, engine, **settings)
    assert clock.asked == asked
    assert not [e for e in events if isinstance(e, Notice) and " ms " in e.text]
    assert {way(store, each) for each in stages} == {"stack" if models else "alone"}


def probe(spec: Any, data: Path, units: int, scored: int) -> Any:
    from headstart.tasks import open_task

    return open_task(spec, data)


def test_on_a_cpu_auto_is_off(tmp_path: Path) -> None:
    store, stages, clock = Store(tmp_path), sweep(2), Clock(1.0, 0.1, 9)
    run(store, stages, replace(training(), seconds=clock), stack="auto")
    assert not clock.asked
    assert {way(store, each) for each in stages} == {"alone"}


def test_stages_that_differ_in_more_than_numbers_are_stacks_of_their_own(tmp_path: Path) -> None:
    key = training().stack_key
    assert key is not None
    same = [{}, {"seed": 3}, {"optim": {"lr": 0.1, "clip": 1.0, "warmup_steps": 4, "schedule": "constant"}}]
    same += [{"model": {"dropout": 0.5}}, {"budget": {"steps": 3}}, {"start": ["draw(head, 0.1)"]}]
    other = [{"model": {"width": 16}}, {"optim": {"batch_size": 8}}, {"optim": {"weight_decay": 0.1}}]
    other += [{"trainable": "head"}, {"objective": {"label_smoothing": 0.1}}]
    assert len({key(planned(**own).spec) for own in same}) == 1
    assert len({key(planned(**own).spec) for own in [{}, *other]}) == 1 + len(other)


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "²"])
def test_a_wrong_word_for_the_stack_says_what_there_is(text: str) -> None:
    with pytest.raises(BadInput, match="is none of auto, off or a number of models from 2 on"):
        read_stack(text)
    assert [read_stack(word) for word in ("auto", "off", "1", "15")] == ["auto", "off", "off", 15]


DRIVER = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from test_stacks import run, sweep
from headstart.store import Store
from headstart.runner.events import StageProgress
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from pathlib import Path
runtime = Runtime(data=Path("none"), device="cpu", save_every=0.0, stack=4)
for event in perform(sweep(), Store(sys.argv[3]), runtime):
    if isinstance(event, StageProgress):
        print(event.step, flush=True)
"""


@pytest.mark.slow
def test_a_stack_whose_process_is_killed_goes_on_with_another_number_of_models(tmp_path: Path, alone: Store) -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", DRIVER, str(tests), str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        while int(driver.stdout.readline()) < 12:
            pass
        driver.kill()
    store, stages = Store(tmp_path), sweep()
    assert [store.status(each.identity) for each in stages] == ["partial"] * 4 + ["absent"]
    events = run(store, stages, stack=2)
    steps = {event.identity: event.step for event in events if isinstance(event, Started)}
    assert all(steps[each.identity] >= 11 for each in stages[:4])
    agree(store, alone, stages)
