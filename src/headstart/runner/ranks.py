"""Stages on several ranks: the processes of a run with `--ranks`, and what each does that is not rank 0."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from headstart.errors import BadInput
from headstart.plugins import Plugin, ready_plugin
from headstart.runner import events
from headstart.runner.job import Engine, Runtime, loaded_task, training
from headstart.runner.local import Stop, Work, WorkerDied, WorkerMessage, WorkerReport, Workers
from headstart.runner.machine import choose_device, gpus, torch_settings, use_device, version
from headstart.runner.worker import explain
from headstart.training.distributed import LostRank, RankFailed, Ranks, World, joined, launch, meeting_place, own_device

_GRACE = 10  # seconds that rank 0 has to save after SIGTERM


def ranks_of(wanted: int | None) -> tuple[int, bool]:
    """How many ranks a run has, and whether torchrun has started them. wanted: None for as many as it has, or 1.

    Raises: BadInput where torchrun has started another number.
    """
    placed = launch() if wanted != 1 else None
    if placed is None:
        return wanted or 1, False
    if wanted not in (None, placed.count):
        raise BadInput(f"--ranks: {wanted}, but torchrun has started {placed.count} ranks; leave --ranks out")
    return placed.count, True


def follows(runtime: Runtime) -> bool:
    """Whether this process is one that torchrun has started as another than rank 0."""
    placed = launch() if runtime.launched else None
    return placed is not None and placed.rank > 0


def check_ranks(runtime: Runtime, stages: Iterable[Any]) -> None:
    """Raises: BadInput where these stages (each with `name` and `spec`) cannot run on so many ranks here."""
    if runtime.ranks == 1:
        return
    if runtime.workers > 1:
        raise BadInput(
            f"--workers: {runtime.workers} with {runtime.ranks} ranks, which do one stage after another; "
            "leave --workers or --ranks out"
        )
    if runtime.stack != "off":
        raise BadInput(
            f"--stack: {runtime.stack} with {runtime.ranks} ranks, which do a stage at a time; leave one out"
        )
    device, placed = choose_device(runtime.device), launch() if runtime.launched else None
    here = runtime.ranks if placed is None else placed.local_count
    if device != "cpu" and here > (count := len(gpus(device))):
        many = f"{count} GPU{'s' if count > 1 else ''} ({device})"
        raise BadInput(
            f"--ranks: {here} on {many}, and each rank takes a GPU of its own; give at most {count}, or --device cpu"
        )
    for stage in stages:
        if not stage.spec.model.splits:
            raise BadInput(
                f"--ranks: stage {stage.name!r} trains {stage.spec.model.kind!r}, a whole model of your own, which may "
                "look at a batch as a whole (batch norm) or draw torch's random numbers (dropout); leave --ranks out"
            )


class RankProcesses:
    """A pool of one slot, whose `count` processes on this machine train a stage together.

    Rank 0 does the work and reports; the others follow it from stage to stage. All are ended when one of them dies, and
    started afresh with the next job. They meet at 127.0.0.1.
    """

    def __init__(self, count: int, work: Work, runtime: Runtime, plugins: tuple[Plugin, ...]) -> None:
        self._count, self._work, self._follow = count, work, (runtime, plugins)
        self._runtime = runtime
        self._key, self._failed = "", False
        self._ranks: list[Workers] = []
        self._store: Any = None

    @property
    def free(self) -> int:
        """As `Pool`."""
        return int(not self._key)

    @property
    def busy(self) -> int:
        """As `Pool`."""
        return 1 - self.free

    def start(self, key: str, job: Any) -> None:
        """Give the free slot a job."""
        if self._failed or not self._ranks:
            self.close()
            self._assemble()
        self._key, self._failed = key, False
        self._ranks[0].start(key, job)

    def _assemble(self) -> None:
        self._store, places = meeting_place(self._count)
        for rank, variables in enumerate(places):
            work = follow if rank else self._work
            self._ranks.append(Workers(1, work, self._runtime.threads, variables))
        for rank, process in enumerate(self._ranks[1:], 1):
            process.start(f"rank {rank}", self._follow)

    def wait(self, timeout: float) -> list[WorkerReport]:
        """What rank 0 has said since the last call; or that a rank is gone, whatever rank 0 has noticed of that."""
        reports = self._ranks[0].wait(timeout) if self._ranks else []
        ended = any(not isinstance(report, WorkerMessage) for report in reports)
        failed = any(isinstance(r, WorkerMessage) and isinstance(r.message, events.Failed) for r in reports)
        lost = [report for process in self._ranks[1:] for report in process.wait(0)]
        self._failed |= failed or bool(lost) or any(isinstance(report, WorkerDied) for report in reports)
        key = self._key
        if lost and key and (failed or not ended):
            self.close()
            return [replace(self._named(lost[0], lost[0].key), key=key)]
        if ended:
            self._key = ""
        return [self._named(report, "rank 0") for report in reports]

    def _named(self, report: WorkerReport, rank: str) -> WorkerReport:
        return (
            replace(report, why=f"({rank} of {self._count}) {report.why}") if isinstance(report, WorkerDied) else report
        )

    def stop(self, reason: str) -> None:
        """Ask rank 0 to save and stop; the others stop with it."""
        for process in self._ranks[:1]:
            process.stop(reason)

    def close(self) -> None:
        """End all ranks at once, whatever they do."""
        for process in self._ranks:
            process.close()
        self._ranks, self._store, self._key = [], None, ""


def follow(item: tuple[Runtime, tuple[Plugin, ...]], stop: Stop) -> Generator[Any, None, None]:
    """The work of a process that is not rank 0."""
    del stop
    runtime, plugins = item
    for plugin in plugins:
        ready_plugin(plugin)
    take_part(runtime)
    yield from ()


def take_part(runtime: Runtime) -> None:
    """Take part in stage after stage, as rank 0 asks, until the run is over.

    What goes wrong here is rank 0's to tell: with gloo it notices that a connection was closed, and takes the message
    from the store. With NCCL it would wait; there this process ends, and who started it ends the others.
    """
    engine, device = training(), own_device(choose_device(runtime.device))
    use_device(device)
    world = joined()
    while world.awaits():
        try:
            with world.group(device) as ranks:
                _share_stage(ranks, world, runtime, engine, device)
        except (LostRank, RankFailed):
            continue
        except Exception:
            if device != "cpu":
                raise


def _share_stage(ranks: Ranks, world: World, runtime: Runtime, engine: Engine, device: str) -> None:
    from headstart.stage import read_stage

    try:
        order, tensors = ranks.stage({}, {})
        for name, wanted in order["versions"].items():
            if version(name) != wanted:
                raise BadInput(f"{name} is {version(name)} here and {wanted} on rank 0; install one version everywhere")
        spec = read_stage(order["spec"])
        if engine.identity(spec, runtime.data) != order["identity"]:
            raise BadInput(
                f"the data in {runtime.data}, or the code, are not those of rank 0; give every machine the same data "
                "(--data), the same plugins and the same version of headstart"
            )
        with torch_settings(order["threads"]):
            task = loaded_task(spec, runtime.data, engine, order["identity"])
            resume = None if order["state"] is None else (tensors["state"], order["state"])
            run = engine.begin(spec, task, tensors.get("parent"), device, resume)
            run.share(ranks)
            for _ in ranks.in_step(run.steps()):
                pass
    except LostRank:
        raise
    except Exception as error:
        world.fail(explain(error, runtime.data))
        raise


def take_part_as_launched(runtime: Runtime) -> None:
    """`take_part` as all that a process of torchrun's does. Rank 0 alone heeds Ctrl-C, and is given time to save."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_GRACE))
    take_part(runtime)
