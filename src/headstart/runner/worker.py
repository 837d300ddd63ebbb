"""What a worker does with one stage: claim it, resume it, train it, publish it; or time a few of its steps."""

from __future__ import annotations

import platform
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headstart.atomic import disk_full, refused
from headstart.documents import as_json
from headstart.errors import (
    NO_PROCESSES,
    BadInput,
    Damaged,
    MemoryChanged,
    StackTooLarge,
    first_line,
    lacks_memory,
    lacks_processes,
)
from headstart.plugins import Plugin, place_of
from headstart.runner import events
from headstart.runner.events import Event, StepTime, StopReason
from headstart.runner.job import Engine, Job, Probe, Runtime, loaded_task
from headstart.runner.local import Stop
from headstart.runner.machine import choose_device, instructions, machine, release, torch_settings, use_device, version
from headstart.store import ClaimedStage, LostLock, SaveTimes, Store
from headstart.store.saving import SAVING_SHARE
from headstart.training.batches import sparing
from headstart.training.distributed import ALONE, LostRank, RankFailed, Ranks, joined, own_device

_LONGEST_SAVE = 60.0  # seconds: a state that costs little is saved at least this often, whatever `save_every` says
_SHOW_EVERY = 0.2  # seconds between two signs of progress without a record
_THEN = " then "  # between what a stage began with and what it went on with
_OTHER_PARENT = "has been trained again and has other weights now, so that the stage starts again at step 0"
_MANY = 10**6  # steps of a probe, of which a few are taken
_PROBE_UNITS = 64  # scored by a probe
_PROBE_BATCHES = 32  # that the train examples of a probe fill, at most


def never() -> str | None:
    """Goes on to the end."""
    return None


def perform_one(
    job: Job, store: Store, runtime: Runtime, engine: Engine, stop: Stop = never
) -> Generator[Event, None, None]:
    """Do one stage in this process, saving as it goes; events say how it went. Only signals are raised."""
    yield from (event for event in _performed(job, store, runtime, engine, stop, None) if event is not None)


def perform_stack(
    jobs: Sequence[Job], size: int, store: Store, runtime: Runtime, engine: Engine, stop: Stop = never
) -> Generator[Event, None, None]:
    """Do stages as one stack, `size` at a time: each as `perform_one` does it, in turns, but their steps are common.

    A place that gets free is the next stage's. Where a common step exceeds the memory, the last event says so.
    """
    assert engine.stack is not None, "only an engine that has stacks is asked for one"
    waiting, live, stack = list(jobs), list[Generator[Event | None, None, None]](), engine.stack()
    company = _Company(stack, size)
    refusal = ""
    try:
        # Each stage sets the number of threads while it runs, and sets back what it met: here the same.
        with torch_settings(runtime.threads):
            while waiting or live:
                while waiting and len(live) < size:
                    turn = _performed(waiting.pop(0), store, runtime, engine, stop, company)
                    joined = len(stack.members)
                    for event in turn:  # until it has joined, so that the next common step is one of all
                        if event is not None:
                            yield event
                        elif len(stack.members) > joined:
                            live.append(turn)
                            break
                for turn in list(live):
                    for event in turn:
                        if event is None:
                            break
                        yield event
                    else:
                        live.remove(turn)
                if stack.refusal != refusal:
                    refusal = stack.refusal
                    text = f"these stages cannot train as a stack and go on one by one: {refusal}"
                    yield events.Notice(jobs[0].identity, jobs[0].name, text)
    except StackTooLarge:
        yield events.TooLarge(jobs[0].identity, jobs[0].name, len(live))
    finally:
        for turn in live:
            turn.close()


@dataclass(frozen=True)
class _Company:
    """The stack that a stage takes its steps in, of at most `size` models."""

    stack: Any
    size: int

    @property
    def way(self) -> str:
        """How a stage of it is trained, as its provenance says."""
        if not self.stack.refusal:
            return "stack"
        return f"stack{_THEN}alone" if self.stack.steps else "alone"


def _performed(
    job: Job, store: Store, runtime: Runtime, engine: Engine, stop: Stop, company: _Company | None
) -> Generator[Event | None, None, None]:
    """As `perform_one`; in company None after each step, when it is another stage's turn."""
    try:
        with store.claim(job.identity, job.document) as folder:
            if folder is None:
                yield events.Waiting(job.identity, job.name)
            else:
                yield from _claimed(job, folder, store, runtime, engine, stop, company)
    except LostLock:
        yield events.Waiting(job.identity, job.name)
    except StackTooLarge:
        raise
    except Exception as error:  # the store itself cannot be used: the event is all that can be said
        yield events.Failed(job.identity, job.name, explain(error, store.root))


def _claimed(
    job: Job,
    folder: ClaimedStage,
    store: Store,
    runtime: Runtime,
    engine: Engine,
    stop: Stop,
    company: _Company | None,
) -> Iterator[Event | None]:
    try:
        result = folder.finished()
        if result is not None:
            yield events.Skipped(job.identity, job.name, result)
            return
        if reason := stop():
            yield events.Stopped(job.identity, job.name, cast(StopReason, reason))
            return
        state = folder.begin()
        job = job.ready(engine.identity, runtime.data)
        yield from (events.Notice(job.identity, job.name, text) for text in folder.notices)
        # A stack has one number of threads, whatever its stages began with.
        begun = runtime.threads if state is None or company is not None else state[1]["ran"]["threads"]
        with torch_settings(begun) as threads, sparing(runtime.sparing):
            attempt = _Attempt(job, folder, runtime, threads, state, company)
            yield from attempt.perform(store, engine, stop)
    except (LostLock, StackTooLarge):
        raise
    except Exception as error:
        message = explain(error, folder.path, job.plugins)
        folder.fail(message, traceback.format_exc())
        yield events.Failed(job.identity, job.name, message)


def time_one(probe: Probe, runtime: Runtime, engine: Engine) -> Generator[Event, None, None]:
    """Time a few steps of a stage on a part of its task; the data are not needed where their sizes are known."""
    spec = probe.spec
    assert engine.probe_task is not None, "only an engine that has tasks is timed"
    task = engine.probe_task(spec.task, runtime.data, _PROBE_BATCHES * spec.optim.batch_size, _PROBE_UNITS)
    # No evaluation falls on a timed step, and weights to start from do not change how long a step takes.
    budget = {"epochs": None, "tokens": None, "steps": _MANY, "evaluate_every": float(_MANY), "patience": None}
    short = spec.model_copy(update={"parent": None, "start": (), "budget": spec.budget.model_copy(update=budget)})
    device, unit = choose_device(runtime.device), 0.0
    use_device(device)
    with torch_settings(runtime.threads):
        if not probe.models:
            step, unit = engine.begin(short, task, None, device, None).seconds()
        else:
            assert engine.seconds is not None, "only an engine that has stacks is timed so"
            try:
                runs = [engine.begin(short, task, None, device, None) for _ in range(probe.models)]
                step = engine.seconds(runs)
            except Exception as error:
                if not isinstance(error, StackTooLarge) and not lacks_memory(error):
                    raise
                yield events.TooLarge(probe.kind, probe.kind, probe.models)
                return
    if step:
        yield events.Timed(probe.kind, probe.kind, StepTime(step, unit))


class _Attempt:
    """One attempt at a claimed stage: from its newest state to its end, or to the next stop."""

    def __init__(
        self,
        job: Job,
        folder: ClaimedStage,
        runtime: Runtime,
        threads: int,
        state: Any,
        company: _Company | None = None,
    ) -> None:
        self.job, self.folder, self.runtime, self.state = job, folder, runtime, state
        self.company, self.parent = company, ""  # what tells the parent's weights from others
        self.before: dict[int, dict[str, Any]] = {}
        device = choose_device(runtime.device)
        self.shared = runtime.ranks > 1 and job.spec.model.way == "trained"
        device = own_device(device) if self.shared else device
        self.now = {"device": device.partition(":")[0], "threads": threads, "torch": version("torch")}
        self.device = device
        use_device(device)

    @property
    def ran(self) -> dict[str, Any]:
        """What bits depend on: the first name stands, and changes are added. `way`: alone, on ranks, or in a stack."""
        backend = "gloo" if self.device == "cpu" else "nccl"
        alone = str(Ranks(0, self.runtime.ranks, backend)) if self.shared else str(ALONE)
        now = {**self.now, "way": alone if self.company is None else self.company.way}
        before = {"way": "alone", **self.state[1]["ran"]} if self.state is not None else now
        if self.company is not None:
            before = {**before, "threads": now["threads"]}
        return {key: _joined(before[key], now[key]) for key in now}

    def perform(self, store: Store, engine: Engine, stop: Stop) -> Iterator[Event | None]:
        """Train and publish."""
        yield from self._differences()
        job = self.job
        task = loaded_task(job.spec, self.runtime.data, engine, job.identity)
        parent = None
        if job.parent is not None:
            self.parent = store.weights_digest(job.parent, job.spec.weights)
            parent = store.weights(job.parent, job.spec.weights)
        if self.state is not None and self.state[1].get("parent", self.parent) != self.parent:
            yield events.Notice(job.identity, job.name, f"{job.parent}, from which it starts, {_OTHER_PARENT}")
            self.state = None
            self.folder.forget()
        resume = None if self.state is None else (self.state[0], self.state[1]["run"])
        run = engine.begin(job.spec, task, parent, self.device, resume)
        if self.company is not None:
            run.join(self.company.stack)
        step = 0 if self.state is None else self.state[1]["step"]
        if self._repeats():
            self.before = {record["step"]: record for record in self.folder.records_cut if "step" in record}
        yield events.Started(job.identity, job.name, self.folder.attempts, step)
        with self._ticks(run, parent) as ticks:
            stopped = yield from self._train(ticks, stop)
        if stopped:
            return
        outcome = run.finish()
        result = {
            "status": outcome.status,
            "name": job.name,
            "monitor": outcome.monitor,
            "scores": outcome.scores,
            "budget": outcome.budget,
            "parameters": outcome.account,
            **{name: value for name in ("title", "model") if (value := getattr(outcome, name, None))},
            **({"remarks": outcome.remarks} if job.plugins and outcome.remarks is not None else {}),
            "provenance": self._provenance(outcome),
        }
        references = _references(job, outcome, parent)
        sources = {path: source for plugin in job.plugins for path, source in plugin.sources.items()}
        whole = self.folder.finish(
            result,
            outcome.best,
            outcome.last,
            outcome.predictions,
            references,
            sources,
            outcome.frozen,
            {} if job.parent is None else {f"{job.parent}/{job.spec.weights}": self.parent},
        )
        yield events.Finished(job.identity, job.name, whole)

    @contextmanager
    def _ticks(self, run: Any, parent: Any) -> Iterator[Iterator[Any]]:
        """The steps of a run, taken by all ranks where it is shared: each begins as this one has."""
        if not self.shared:
            yield run.steps()
            return
        tensors, meta = ({}, None) if self.state is None else (self.state[0], self.state[1]["run"])
        order = {
            "identity": self.job.identity,
            "spec": self.job.document["spec"],
            "state": meta,
            "threads": self.ran["threads"],
            "versions": {name: version(name) for name in ("headstart", "torch")},
        }
        with joined().group(self.device) as ranks:
            ranks.stage(order, {"state": tensors, **({} if parent is None else {"parent": parent})})
            run.share(ranks)
            yield ranks.in_step(run.steps())

    def _train(self, ticks: Iterator[Any], stop: Stop) -> Generator[Event | None, None, bool]:
        """All ticks; returns whether it was stopped before the end."""
        name = (self.job.identity, self.job.name)
        reported = time.monotonic()
        share = SAVING_SHARE / (1 if self.company is None else self.company.size)
        saves = SaveTimes(min(self.runtime.save_every, _LONGEST_SAVE), reported, share)
        for tick in ticks:
            if tick.record is not None:
                self._check_again(tick.record)
                self.folder.append(tick.record)
            now = time.monotonic()
            reason = stop()
            if reason or saves.due(now):
                self._save(tick, saves, at_once=reason is not None)
            if tick.record is not None or now - reported >= _SHOW_EVERY:
                reported = now
                yield events.StageProgress(*name, tick.step, tick.steps, tick.record)
            if reason:
                if reason == "limit":
                    self.folder.cut(f"step {tick.step}: the time limit of {self.runtime.limit} s was reached")
                yield events.Stopped(*name, cast(StopReason, reason))
                return True
            if self.company is not None:
                yield None
        return False

    def _save(self, tick: Any, saves: SaveTimes, at_once: bool) -> None:
        """Save a state, unless it turns out to cost too much for now."""
        began = time.monotonic()
        tensors, meta = tick.state()
        if at_once or saves.affordable(tensors, began):
            now = {"ran": self.ran, "parent": self.parent, "on": self.on, "attempt": self.folder.attempts}
            self.folder.save(tick.step, tensors, {"run": meta, "step": tick.step, **now})
            saves.saved(began, time.monotonic())

    @property
    def on(self) -> str:
        """What computes: only there are equal bits promised."""
        import torch

        return f"{machine(self.device)}, {torch.backends.cpu.get_cpu_capability()}"

    def _repeats(self) -> bool:
        """Whether what the attempt before computed after its last state has to come out again, bit for bit."""
        meta = {} if self.state is None else self.state[1]
        before = (meta.get("attempt"), meta.get("on"), meta.get("ran"))
        alone = self.company is None and not self.shared and self.device == "cpu"
        return alone and before == (self.folder.attempts - 1, self.on, self.ran)

    def _check_again(self, record: dict[str, Any]) -> None:
        """Raises: MemoryChanged where a record is not the one of this step before the break."""
        before = self.before.pop(record["step"], None)
        now = as_json(record)
        names = [name for name in now if name != "seconds" and before is not None and now[name] != before.get(name)]
        if names:
            raise MemoryChanged(
                f"the record of step {record['step']}, computed again, has another {names[0]!r}: numbers have changed"
            )

    def _differences(self) -> Iterator[Event]:
        """Say where equal bits are no longer promised, or are kept against what was asked."""
        name, ran = (self.job.identity, self.job.name), self.ran
        for key in ("device", "torch", "way"):
            if _THEN in ran[key]:
                yield events.Notice(
                    *name,
                    f"{key} changed within the stage ({ran[key]}): its bits may differ from those of a run in one go",
                )
        if ran["threads"] != self.runtime.threads and self.company is None:
            yield events.Notice(
                *name,
                f"goes on with {ran['threads']} threads, as it began "
                f"(not {self.runtime.threads}: its bits depend on it)",
            )

    def _provenance(self, outcome: Any) -> dict[str, Any]:
        names = ("headstart", "torch", "numpy", "safetensors")
        versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
        ran = self.ran
        versions |= {"headstart": release(), "torch": ran["torch"]}
        return {
            "versions": versions,
            "machine": machine(self.device),
            "instructions": instructions(),
            "device": ran["device"],
            "threads": ran["threads"],
            "precision": getattr(self.job.spec, "precision", "float32"),
            "started": self.folder.started,
            "attempts": self.folder.attempts,
            **({"plugins": [plugin.record() for plugin in self.job.plugins]} if self.job.plugins else {}),
            **({"way": ran["way"]} if ran["way"] != "alone" else {}),
            # A CPU takes every step in the one plain way; a GPU may record one and play it.
            **({"steps": outcome.how} if outcome.how and self.device != "cpu" else {}),
        }


def _joined(before: Any, now: Any) -> Any:
    """`a`, or `a then b` where it changed."""
    if isinstance(now, int) or before.split(_THEN)[-1] == now:
        return before
    return f"{before}{_THEN}{now}"


def _references(job: Job, outcome: Any, parent: Any) -> dict[str, dict[str, str]]:
    """Frozen tensors that are the parent's, bit for bit: they are not stored twice."""
    import torch

    if parent is None or job.parent is None:
        return {}

    def same(name: str, weights: Any) -> bool:
        own, theirs = weights[name], parent[name]
        return own.dtype == theirs.dtype and torch.equal(own, theirs)

    names = [name for name in outcome.frozen if name in parent]
    source = {"identity": job.parent, "weights": job.spec.weights}
    return {name: source for name in names if same(name, outcome.best) and same(name, outcome.last)}


def explain(error: BaseException, path: Path, plugins: Sequence[Plugin] = ()) -> str:
    """One line for a person: what went wrong and, where it is known, the way out. plugins: whose code was at work."""
    if disk_full(error):
        return (
            f"{path}: the disk is full ({getattr(error, 'strerror', error)}); what was saved before is "
            "kept. Make room, or move the store and name it with --store; give the same command again"
        )
    if isinstance(error, OSError) and error.filename and path.parent in Path(str(error.filename)).parents:
        return f"{refused(error)}; what was saved before is kept"
    if isinstance(error, Damaged):
        return f"{error}; give the same command again and that stage is done anew"
    if isinstance(error, (BadInput, LostRank, RankFailed)):
        return str(error)
    if lacks_processes(str(error)):
        return NO_PROCESSES
    at = place_of(error)
    message = at + first_line(error, typed=True)
    if plugins and not at:
        file = plugins[0].file
        message += f"; the stage runs {file}: `headstart check --plugin {file}` looks for the cause"
    if lacks_memory(error):
        message += "; use fewer --workers, a smaller optim.batch_size, or another --device"
    return message
