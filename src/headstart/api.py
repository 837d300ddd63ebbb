"""What Python users call: `run`, `load`, `Study`. The command line goes the same way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.models.mixers.own import adopt
from headstart.report.measures import measured
from headstart.runner.events import Event, Failed
from headstart.runner.job import Runtime
from headstart.runner.machine import default_workers
from headstart.runner.perform import perform
from headstart.runner.worker import close_tasks
from headstart.spec import digest
from headstart.stage import look_again
from headstart.store import Store, store_folder
from headstart.study.facts import gather
from headstart.study.plan import Plan, make_plan
from headstart.study.results import Facts, Results
from headstart.study.selection import summarise
from headstart.study.spec import StudySpec, read_study, with_mixer
from headstart.tasks import data_folder

Given = str | os.PathLike[str] | Mapping[str, Any]
"""A study: a file, the name of a built-in one, or a table as TOML would give it."""


class Study:
    """A study bound to a store and a data folder.

    `plan` holds its runs and distinct stages; `perform` trains what is missing; `results` says what is there.
    mixer: a mixer of your own as `module:Class`; each arm gets a twin with it. scale: `tiny`, `small` or `paper`, of
    a study that has scales (default: tiny). absent: what is done with stages whose data are not in the data folder:
    they are refused, or planned with an open identity (to look at, not to train).
    Raises: BadInput where the study, its data or its stages do not fit.
    """

    def __init__(
        self,
        given: Given,
        overrides: Sequence[str] = (),
        *,
        store: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        mixer: str | None = None,
        scale: str | None = None,
        absent: Literal["refuse", "open"] = "refuse",
    ) -> None:
        source = given if isinstance(given, Mapping) else str(given)
        self.data = data_folder(data)
        self.spec: StudySpec = read_study(source, overrides, scale=scale, data=self.data)
        self.mixer = mixer
        if mixer is not None:
            kind = adopt(mixer)
            self.spec = with_mixer(self.spec, kind, MIXERS[kind].load().rotary)
        self.given = "" if isinstance(given, Mapping) else str(given)
        self.overrides = tuple(overrides)
        look_again()
        close_tasks()
        self.store = Store(store_folder(store))
        self.plan: Plan = make_plan(self.spec, self.data, absent=absent)
        self._facts: Mapping[str, Facts] | None = None

    def runtime(self, *, workers: int | None = None, threads: int = 1, device: str = "auto") -> Runtime:
        """How its stages are performed. workers: processes (default: one per GPU, or core; 0: this one)."""
        return Runtime(
            self.data, device, default_workers(device, len(self.plan.stages)) if workers is None else workers, threads
        )

    def perform(
        self,
        *,
        workers: int | None = None,
        threads: int = 1,
        device: str = "auto",
        probes: Mapping[str, Any] | None = None,
    ) -> Iterable[Event]:
        """Train what is missing, yielding events; of the stages in `probes` a few steps are timed first."""
        runtime = self.runtime(workers=workers, threads=threads, device=device)
        return perform(self.plan.every_stage.values(), self.store, runtime, probes=probes)

    @property
    def facts(self) -> Mapping[str, Facts]:
        """Sizes and chance levels of the study's tasks."""
        if self._facts is None:
            self._facts = gather(self.plan)
        return self._facts

    @property
    def report_folder(self) -> Path:
        """Where the page goes: a study with other settings than its file's has a folder of its own.

        The `study.toml` that a report wrote reports to where it lies.
        """
        changed = [*self.overrides, *([self.mixer] if self.mixer else [])]
        reports, given = self.store.root / "reports", Path(self.given)
        if given.name == "study.toml" and given.absolute().parent.parent == reports.absolute() and not changed:
            return given.parent
        name = "-".join(
            [
                self.spec.name,
                *([self.spec.scale] if self.spec.scale else []),
                *([digest(changed)[:8]] if changed else []),
            ]
        )
        return reports / name

    def results(self, *, baselines: bool = True) -> Results:
        """What is finished so far, with its caveats. baselines: with sizes and chance levels, which opens the tasks."""
        facts = self.facts if baselines else None
        found = summarise(self.plan, self.store.result, self.store.status, facts, self.store.records)
        return measured(self.plan, found, self.store)

    def __repr__(self) -> str:
        return (
            f"Study({self.spec.name!r}: {len(self.plan.cells)} runs of {len(self.plan.stages)} stages, "
            f"store {str(self.store.root)!r})"
        )


def run(
    study: Given | Study,
    overrides: Sequence[str] = (),
    *,
    store: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    workers: int | None = 0,
    threads: int = 1,
    device: str = "auto",
    scale: str | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Results:
    """Perform a study and return its results; what is finished in the store is not done again.

    workers: processes (0: this one; None: one per core).
    scale: `tiny`, `small` or `paper`, of a study that has scales.
    on_event: called with every event (a log, a progress bar).
    Raises: BadInput for a wrong study; RuntimeError naming stages that failed.
    """
    bound = study if isinstance(study, Study) else Study(study, overrides, store=store, data=data, scale=scale)
    failed = []
    for event in bound.perform(workers=workers, threads=threads, device=device):
        if on_event is not None:
            on_event(event)
        if isinstance(event, Failed):
            failed.append(f"{event.name} {event.identity}: {event.message}")
    if failed:
        raise RuntimeError("stages failed; the others are in the store:\n" + "\n".join(failed))
    return bound.results()


def load(
    identity: str,
    *,
    weights: Literal["best", "last"] = "best",
    store: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> Any:
    """The model of a finished stage (its id or the start of it): a network in evaluation, or a fitted model.

    A network's forward takes a `sequence.Batch`; a fitted model's `predict` takes `sequence.Examples`.
    Raises: BadInput for an unknown id, or a stage without weights.
    """
    from headstart.stage.finished import open_stage

    if weights not in ("best", "last"):
        raise BadInput(f"weights: no {weights!r}; there are 'best' and 'last'")
    return open_stage(Store(store_folder(store)), identity, data_folder(data)).model(weights)
