"""What Python users call: `run`, `load`, `Study`. The command line goes the same way."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np

from headstart.errors import BadInput, nearest, reworded
from headstart.models.mixers import MIXERS
from headstart.plugins import load_class, load_plugins
from headstart.report.measures import measured
from headstart.report.views import ReportViews
from headstart.runner.events import Event, Failed
from headstart.runner.job import Runtime, StackChoice, close_tasks
from headstart.runner.machine import default_workers
from headstart.runner.perform import perform
from headstart.runner.ranks import ranks_of
from headstart.sequence import Batch, Signature, collate
from headstart.spec import digest, read
from headstart.stage import look_again
from headstart.store import DONE, Store, store_folder, store_folder_for, store_of
from headstart.study.language.estimate import Cost, survey
from headstart.study.language.files import as_given, origin_of, studies_folder, study_path
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import StudySpec, read_study
from headstart.study.language.twins import idle_twins, with_mixer, without_arms
from headstart.study.paper.summary import summarise
from headstart.study.results.answers import read_answers
from headstart.study.results.collect import gather
from headstart.study.results.results import Results, TaskFacts
from headstart.tasks import TASKS, TaskSpec, data_folder, open_task
from headstart.tasks.task import SPLITS
from headstart.tracking import Track, Tracking

if TYPE_CHECKING:
    from headstart.study.results.searching import Searched


class Ways(TypedDict, total=False):
    """Keywords of `run`, `Study.perform` and `Study.runtime`: how stages are performed, see `Study.runtime`."""

    workers: int | None
    threads: int
    device: str
    stack: StackChoice
    on: str
    gpus_per_stage: float | None
    ranks: int | None


StudySource = str | os.PathLike[str] | Mapping[str, Any]
"""A study: a file, the name of a built-in one, or a table as TOML would give it."""
RUN: Ways = {"workers": 0, "stack": "auto"}
"""What `run` takes where nothing is said."""


class Study:
    """A study bound to a store and a data folder.

    `plan` holds its runs and distinct stages; `perform` trains what is missing; `results` says what is there.
    plugins: files or modules of your own that register kinds (`headstart.register_mixer` and so on). mixer: a mixer of
    your own as `module:Class`; each arm gets a twin with it (`notes` says which are left out, and why). scale: `tiny`,
    `small` or `paper`, of a study that has scales (default: tiny). absent: what is done with stages whose data are not
    in the data folder: they are refused, or planned with an open identity (to look at, not to train).
    Raises: BadInput where the study, its data or its stages do not fit.
    """

    def __init__(
        self,
        source: StudySource,
        overrides: Sequence[str] = (),
        *,
        store: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        plugins: Sequence[str | os.PathLike[str]] = (),
        mixer: str | None = None,
        scale: str | None = None,
        absent: Literal["refuse", "open"] = "refuse",
    ) -> None:
        self.data = data_folder(data)
        self.mixer = mixer
        self.source = "" if isinstance(source, Mapping) else str(source)
        self.overrides = (overrides,) if isinstance(overrides, str) else tuple(overrides)
        self.notes: list[str] = []
        load_plugins(plugins)
        look_again()
        close_tasks()
        self.store = Store(store_folder_for(self.source, store))
        self.searched: Searched | None = None
        """Of a study that searches: what is drawn and chosen as its trials finish."""
        self.spec, self.plan = self._planned(source, scale, absent)
        if self.spec.search is not None:
            from headstart.study.results.searching import Searched  # Optuna, which a search alone takes

            try:
                self.searched = Searched(self.plan, absent)
            except BadInput as error:
                raise reworded(error, as_given(str(error), self.source or {}, self.overrides)) from None
            self.grow()
        self.notes += filter(None, [self.spec.without])
        self._facts: Mapping[str, TaskFacts] | None = None
        self.origin = self._origin()  # now: the file may be gone when the report is written
        if self.report_folder.name.endswith(f"-{digest(self.origin)[:8]}"):
            before = self.report_folder.with_name(self.report_folder.name[:-9])
            self.notes.append(
                f"{before} holds the report of {origin_of(before)}, another study named {self.spec.name!r}: the report "
                f"of this one goes to {self.report_folder.name}; give one of them another name"
            )

    def _planned(
        self, source: StudySource, scale: str | None, absent: Literal["refuse", "open"]
    ) -> tuple[StudySpec, Plan]:
        """The study and its runs: with twins that say something of their own, and with the plugins that it requires."""
        source = _with_kinds(source) if isinstance(source, Mapping) else str(source)
        words = [_word_with_kinds(word) for word in self.overrides]
        twins, own = set[str](), None
        if self.mixer is not None:
            kind = load_class(self.mixer, "--mixer", "mixer")
            cls = MIXERS[kind].load()
            inside = {name for name, able in (("rotary", cls.rotary), ("relative", cls.takes_bias)) if able}

            def own(table: Mapping[str, Any]) -> Mapping[str, Any]:
                twinned = with_mixer(table, kind, inside)
                twins.update(twinned["arms"].keys() - table.get("arms", {}).keys())
                return twinned

        spec = read_study(source, words, scale=scale, data=self.data, change=own)
        try:
            plan = make_plan(spec, self.data, absent=absent)
        except BadInput as error:
            raise reworded(error, as_given(str(error), source, words)) from None
        if twins & spec.arms.keys():
            reasons = idle_twins(plan, twins & spec.arms.keys())
            self.notes = [f"the arm {name!r} is left out: {reason}" for name, reason in reasons.items()]
            if reasons:
                plan = make_plan(without_arms(spec, reasons), self.data, absent=absent)
        requires = {plugin.name: plugin.digest for plugin in plan.plugins}
        spec = plan.study.model_copy(update={"requires": requires})
        return spec, dataclasses.replace(plan, study=spec)

    def grow(self) -> bool:
        """Draw what the finished trials of a search lead to, into `plan`; returns whether there is more to perform."""
        if self.searched is None:
            return False
        before, store = self.plan.stages.keys(), self.store
        self.plan = self.searched.plan(lambda name: store.entry(name).result)
        return not self.plan.stages.keys() <= before

    @property
    def progress(self) -> str:
        """Of a search: `12 of 80 trials are finished`; empty of any other study."""
        if self.searched is None:
            return ""
        status = self.store.status
        finished = sum(not cell.last.open and status(cell.last.identity) in DONE for cell in self.plan.trials)
        return f"{finished} of {self.searched.trials} trials are finished"

    def survey(self) -> list[Cost]:
        """What each of its stages costs. Raises: BadInput with file and place where parts of a stage do not fit."""
        try:
            return survey(self.plan)
        except BadInput as error:
            raise reworded(error, as_given(str(error), self.source or {}, self.overrides)) from None

    def runtime(
        self,
        *,
        workers: int | None = None,
        threads: int = 1,
        device: str = "auto",
        stack: StackChoice = "off",
        on: str = "",
        gpus_per_stage: float | None = None,
        ranks: int | None = 1,
    ) -> Runtime:
        """How its stages are performed. workers: processes (default: one per GPU, or core; 0: this one).

        stack: how many stages that differ in numbers alone train as one stack (`auto`: as is fastest; off on a CPU).
        on: `ray` or `ray://HOST:PORT`, a cluster; gpus_per_stage: what a stage takes of its GPUs. workers is then how
        many stages are under way at most (default: as many as there is room for), and each is a task of its own.
        ranks: processes that train each stage together (None: as many as torchrun has started, else 1).
        Raises: BadInput for gpus_per_stage without a cluster, a stack or ranks on one, or another number of ranks than
        torchrun has started.
        """
        count, launched = ranks_of(ranks)
        if launched and self.searched is not None:
            raise BadInput("search: stages are drawn as others finish, which torchrun does not follow; take --ranks")
        if on:
            for name, value, none in (("stack", stack, ("off", "auto")), ("ranks", count, (1,))):
                if value not in none:
                    raise BadInput(
                        f"--{name}: {value}: on a cluster each stage is a task of its own; leave --{name} out"
                    )
            return Runtime(self.data, device, workers or 0, threads, on=on, gpus_per_stage=gpus_per_stage)
        if gpus_per_stage is not None:
            raise BadInput(
                f"--gpus-per-stage: {gpus_per_stage:g} needs a cluster, which --on names; here --device says which "
                "GPUs are used"
            )
        stack = "off" if count > 1 and stack == "auto" else stack
        slots = workers
        if slots is None and count > 1:
            slots = 0
        elif slots is None:
            cells = any(plugin.top is None for plugin in self.plan.plugins)
            slots = 0 if cells else default_workers(device, len(self.plan.every_stage))
        return Runtime(
            self.data,
            device,
            slots,
            threads,
            stack=stack,
            stacks=self.report_folder / "stacks.json",
            ranks=count,
            launched=launched,
        )

    def perform(
        self,
        *,
        probes: Mapping[str, Any] | None = None,
        tracking: Tracking | None = None,
        **ways: Unpack[Ways],
    ) -> Iterable[Event]:
        """Train what is missing, yielding events; of the stages in `probes` a few steps are timed first.

        tracking: where records are passed on to. ways: how, see `runtime`.
        """
        return self.perform_with(self.runtime(**ways), probes=probes, tracking=tracking)

    def perform_with(
        self,
        runtime: Runtime,
        *,
        probes: Mapping[str, Any] | None = None,
        tracking: Tracking | None = None,
        on_growth: Callable[[], None] = lambda: None,
    ) -> Iterable[Event]:
        """The same in a runtime. on_growth: called when a search has drawn further stages."""
        tracking = Tracking((), self.plan, self.store) if tracking is None else tracking
        return tracking.through(self._events(runtime, probes, tracking, on_growth))

    def _events(
        self,
        runtime: Runtime,
        probes: Mapping[str, Any] | None,
        tracking: Tracking,
        on_growth: Callable[[], None],
    ) -> Iterator[Event]:
        stages = self.plan.every_stage
        yield from perform(stages.values(), self.store, runtime, probes=probes)
        while self.grow():
            stages, before = self.plan.every_stage, stages
            tracking.follow(self.plan)
            on_growth()
            new = [planned for identity, planned in stages.items() if identity not in before]
            yield from perform(new, self.store, runtime)

    @property
    def facts(self) -> Mapping[str, TaskFacts]:
        """Sizes and chance levels of the study's tasks."""
        if self._facts is None:
            self._facts = gather(self.plan)
        return self._facts

    @property
    def report_folder(self) -> Path:
        """Where the page goes: a study with other settings than its file's has a folder of its own, and so has a study
        whose name that of another file has taken.

        The `study.toml` that a report wrote reports to where it lies.
        """
        changed = [*self.overrides, *([self.mixer] if self.mixer else [])]
        reports, file = self.store.root / "reports", Path(self.source)
        if file.name == "study.toml" and file.absolute().parent.parent == reports.absolute() and not changed:
            return file.parent
        name = "-".join(
            [
                self.spec.name,
                *([self.spec.scale] if self.spec.scale else []),
                *([digest(changed)[:8]] if changed else []),
            ]
        )
        before = origin_of(reports / name, self.store.root)
        return reports / (name if before in (None, self.origin) else f"{name}-{digest(self.origin)[:8]}")

    def _origin(self) -> str:
        """What tells it from another study of its name: its file, as it lies from the store's folder, or its kind."""
        if not self.source:
            return "a study in Python"
        file = study_path(self.source)
        if file.is_relative_to(studies_folder()):
            return f"the built-in study {file.stem}"
        if store_of(file) is not None and (before := origin_of(file.parent)):
            return before
        return os.path.relpath(file.resolve(), self.store.root.resolve())

    def results(self, *, baselines: bool = True) -> Results:
        """What is finished so far, with its caveats. baselines: with sizes and chance levels, which opens the tasks,
        and with intervals over test examples, which reads predictions."""
        if not self.plan.cells:
            raise BadInput(f"search: nothing is chosen yet: {self.progress}; `headstart run {self.source}` goes on")
        facts, answers = (self.facts, read_answers(self.store.predictions)) if baselines else (None, None)
        store = self.store
        results = summarise(
            self.plan, lambda name: store.entry(name).result, store.status, facts, store.records, answers
        )
        views = ReportViews(self.plan, self.store, self.origin)
        return dataclasses.replace(measured(self.plan, results, self.store), views=views)

    def __repr__(self) -> str:
        return (
            f"Study({self.spec.name!r}: {len(self.plan.cells)} runs of {len(self.plan.every_stage)} stages, "
            f"store {str(self.store.root)!r})"
        )


def run(
    study: StudySource | Study,
    overrides: Sequence[str] = (),
    *,
    store: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    scale: str | None = None,
    plugins: Sequence[str | os.PathLike[str]] = (),
    on_event: Callable[[Event], None] | None = None,
    track: Track | Sequence[Track] = (),
    **ways: Unpack[Ways],
) -> Results:
    """Perform a study and return its results; what is finished in the store is not done again.

    ways: `workers`, `threads`, `device`, `stack`, `on`, `gpus_per_stage` and `ranks`, as `Study.runtime` has them, but
    that stages are performed in this process (`workers=0`) and as stacks where that is faster (`stack="auto"`).
    scale: `tiny`, `small` or `paper`, of a study that has scales.
    plugins: files or modules of your own whose kinds the study uses.
    on_event: called with every event (a log, a progress bar); what it raises ends the run.
    track: where records are passed on to as they come: `tensorboard`, `wandb`, `mlflow`, or a function that gets
    copies of all events. None of them can change a result, and one that fails is dropped.
    Raises: BadInput for a wrong study, or a tracker that is not installed; RuntimeError naming stages that failed.
    """
    bound = (
        study
        if isinstance(study, Study)
        else Study(study, overrides, store=store, data=data, scale=scale, plugins=plugins)
    )
    tracking, failed = Tracking(track, bound.plan, bound.store), list[str]()
    for event in bound.perform(**(RUN | ways), tracking=tracking):
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
    plugins: Sequence[str | os.PathLike[str]] = (),
) -> Any:
    """The model of a finished stage (its id or the start of it): a network in evaluation, or a fitted model.

    A network takes arrays or tensors, (B, L) token ids, (B, L) or (B, L, F) floats, NaN where missing, with
    `lengths=(B,)` where rows end earlier, or a `sequence.Batch`; a fitted model's `predict` takes `sequence.Examples`.
    plugins: files or modules of your own that the stage was made with; the copy of their source in the stage's folder
    is there to be read, and is never run.
    Raises: BadInput for an unknown id, a stage without weights, or a plugin that is not loaded or not what it was.
    """
    from headstart.stage.finished import open_stage

    if weights not in ("best", "last"):
        raise BadInput(f"weights: no {weights!r}; there are 'best' and 'last'")
    load_plugins(plugins)
    stage = open_stage(Store(store_folder(store)), identity, data_folder(data))
    model = stage.model(weights)
    if hasattr(model, "register_forward_pre_hook"):
        model.register_forward_pre_hook(functools.partial(_as_batch, stage.task.signature), with_kwargs=True)
    return model


class Arrays(NamedTuple):
    """Sequences in memory, as `Examples.from_arrays`, `train` and the estimators take them.

    X: (n, L) token ids, or (n, L, F) floats, NaN where missing. y: (n,) or (n, T); where something is asked for each
    position (n, L) or (n, L, T), with -100 (NaN among numbers) where nothing is; None without labels. lengths: (n,);
    what stands behind the end of a row is 0.
    """

    X: np.ndarray
    y: np.ndarray | None
    lengths: np.ndarray


def arrays(
    task: str | TaskSpec,
    split: Literal["train", "val", "test"] = "train",
    *,
    data: str | os.PathLike[str] | None = None,
    plugins: Sequence[str | os.PathLike[str]] = (),
    **settings: Any,
) -> Arrays:
    """A split of a task as arrays: `X, y, lengths = headstart.arrays("mqar", "test", length=128)`.

    task: a kind, or a spec. settings: those of the kind. Of a task of pairs rows 2 i and 2 i + 1 belong to y[i].
    Raises: BadInput for an unknown kind, split or setting, or data that are not there.
    """
    load_plugins(plugins)
    if split not in SPLITS:
        raise BadInput(f"split: {nearest(split, SPLITS)}")
    if isinstance(task, str):
        kind = load_class(task, "task") if ":" in task else task
        if kind not in TASKS:
            raise BadInput(f"task: {nearest(kind, TASKS)}")
        spec: TaskSpec = read(TASKS[kind].load(), {"kind": kind, **settings}, "task")
    elif settings:
        raise BadInput(f"task: a spec has settings of its own; leave out {', '.join(settings)}, or give {task.kind!r}")
    else:
        spec = task
    examples = open_task(spec, data_folder(data)).split(split)
    batch = collate(examples, np.arange(examples.units))
    X, y = batch.inputs.numpy(), None if batch.target is None else batch.target.numpy()
    if batch.observed is not None:
        missing = ~batch.observed.numpy() & batch.valid.numpy()[..., None]
        X = np.where(missing, np.nan, X).astype(X.dtype)
    return Arrays(X, y, examples.lengths)


def _as_batch(
    signature: Signature, model: Any, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Arguments of a network's forward, plain inputs as a batch on the device and in the type of its weights.

    Raises: BadInput for inputs of another kind than the model was trained on.
    """
    if not inputs or isinstance(inputs[0], Batch):
        return inputs, settings
    weight = next(model.parameters())
    batch = Batch.of(inputs[0], settings.get("lengths")).to(weight.device, weight.dtype)
    x = batch.inputs
    if signature.input == "tokens" and (
        x.is_floating_point() or x.ndim != 2 or not 0 <= x.min() <= x.max() <= signature.width
    ):
        raise BadInput(f"inputs: the model was trained on tokens; give (B, L) integers from 0 to {signature.width - 1}")
    if signature.input == "floats" and (not x.is_floating_point() or x.shape[-1] != signature.width):
        shape = "(B, L) or (B, L, 1)" if signature.width == 1 else f"(B, L, {signature.width})"
        raise BadInput(f"inputs: the model was trained on numbers; give floats of the shape {shape}, NaN where missing")
    return (batch, *inputs[1:]), {name: value for name, value in settings.items() if name != "lengths"}


def _with_kinds(settings: Any) -> Any:
    """A study's table in which each `kind = "module:Class"` is registered and stands by its own kind.

    So a person names code in Python, and on the command line (`_word_with_kinds`), never in a file.
    Raises: BadInput where a class cannot be had.
    """
    if isinstance(settings, Mapping):
        return {
            key: load_class(value, "kind") if key == "kind" and ":" in str(value) else _with_kinds(value)
            for key, value in settings.items()
        }
    return [_with_kinds(item) for item in settings] if isinstance(settings, list) else settings


def _word_with_kinds(word: str) -> str:
    """The same for a `name=value` word of the command line."""
    path, equals, value = word.partition("=")
    before = "" if path.strip().split(".")[-1] == "kind" else r"""kind["']?\s*=\s*"""
    pattern = rf"""({before})["']?([\w./-]+:[^\W\d]\w*)["']?"""
    return path + equals + re.sub(pattern, lambda hit: hit[1] + json.dumps(load_class(hit[2], path.strip())), value)
