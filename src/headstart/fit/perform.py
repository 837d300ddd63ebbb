"""A fit from beginning to end: read, plan, train, compare, choose; each step by itself, so that it can be shown."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from headstart import words
from headstart.baselines.linear import FEWER
from headstart.baselines.measures import balanced_weights, softmax
from headstart.data import Card, Profile, data_card
from headstart.errors import BadInput
from headstart.fit import plan as planning
from headstart.fit.again import Again, planned_again, reserved, served_again
from headstart.fit.arms import ARMS, check_served
from headstart.fit.budget import AFTER, LONG, REPORT, whole_amount
from headstart.fit.compared import Compared, compared
from headstart.fit.defaults import ONE_RATE, shape_of
from headstart.fit.known import Amount, Known
from headstart.fit.occlusion import affordable, looked
from headstart.fit.outcome import Outcome, distinct, weights_of
from headstart.fit.reading import Backbone, SeriesModel, asked_backbone, find_start
from headstart.fit.settings import FILES, FitPlan, FitSettings
from headstart.fit.source import Source, in_folds, read_source
from headstart.fit.wording import answer, notes, split_in_words, title
from headstart.limits import check_memory
from headstart.runner.events import Event, Failed, Started
from headstart.runner.job import Runtime, close_tasks
from headstart.runner.machine import choose_device, default_workers, release, version
from headstart.runner.perform import perform
from headstart.sequence import IGNORE
from headstart.serve.config import ENSEMBLE, NETWORK
from headstart.serve.model import of_examples
from headstart.serve.network import check_servable
from headstart.spec import read
from headstart.stage import ReadStage, look_again
from headstart.store import DONE, Store, store_folder
from headstart.study.language.estimate import survey
from headstart.study.language.files import to_toml
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.caveats import caveats
from headstart.study.paper.summary import summarise
from headstart.study.results.collect import of_task, task_key
from headstart.study.results.results import Results
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import Task, content, open_task
from headstart.text import listed


class Fit:
    """One fit, step by step: the constructor reads the data, then `fit_baselines`, `make_plan`, `train`, `outcome`.

    out: the folder of the model, where the plan is kept (None: nowhere). store: of the stages. spent: seconds of the
    time that are gone already. Nothing is printed.
    Raises: BadInput for whatever is wrong with the data or settings, before anything is trained.
    """

    def __init__(
        self, source: Source, settings: FitSettings, store: Path, out: Path | None, device: str, spent: float = 0.0
    ) -> None:
        self.begun = time.monotonic() - spent
        self.source, self.settings, self.out = source, settings, out
        self.store, self.data = Store(store), (store / "data").absolute()
        self.store.check()
        self.device = choose_device(device)
        look_again()
        close_tasks()
        self.spec = read(OwnSpec, dict(source.task), "task")
        self.card: Card = data_card(source.sequences)
        self.task: Task = open_task(self.spec, self.data)
        self.facts = self.spec.facts(self.data)
        self.settings, self.splits = in_folds(settings, self.spec, self.task, self.data)
        self.baseline_seconds, self.waiting, self.usable = 0.0, 0.0, False
        self.failed, self.broken = list[str](), list[str]()
        self.compared: Compared | None = None
        self.again: Again | None = None
        self.alone = ""
        self.plan: FitPlan | None = None
        self.study: Plan | None = None
        self._check()

    def fit_baselines(self) -> Iterator[str]:
        """Fit the models without gradients, in this process: they take seconds, and train has the rest of the time.

        Yields a line as each begins, and one on the first model that could serve. With a limit of time, further seeds
        may take a fifth of it, further folds two thirds: a choice on one fold of few rows is a guess.
        """
        limit, runs = self.settings.time or float("inf"), self.settings.runs
        begun = last = time.monotonic()
        for i, seed in enumerate(runs, 1):
            stages = yield from self._fitted_here(seed)
            now = time.monotonic()
            if not self.usable and any(self.store.status(identity) in DONE for identity in stages):
                self.usable = True
                yield f"a first usable model after {words.duration(now - self.begun)}; from now on Ctrl-C keeps one"
            if i == 1 and now - self.begun > limit:
                yield f"these models alone took longer than the limit of {words.duration(limit)}"
            if i < len(runs) and 2 * now - begun - last > limit * (2 / 3 if len(self.splits) > 1 else 1 / 5):
                self.waiting = (len(runs) - i) * (now - last)  # the others run beside the networks
                break
            last = now  # the next run is taken to be as long as this one
        table = planning.study_without_networks(self.known, self.settings, self.settings.runs[0], slow=True)
        for seed in self.settings.runs if table["arms"] else ():
            yield from self._fitted_here(seed, slow=True)
            if time.monotonic() - begun > limit / 2:
                break
        self.baseline_seconds = time.monotonic() - begun

    def _fitted_here(self, seed: int, *, slow: bool = False) -> Generator[str, None, list[str]]:
        """Fit the models of one run. Yields a line as each begins, in later runs of the first alone; returns stages."""
        table = planning.study_without_networks(self.known, self.settings, seed, slow=slow)
        stages = make_plan(read_study(planning.with_places(table, self.known)), self.data).stages
        runs, more = self.settings.runs, ""
        for event in self._noted(perform(stages.values(), self.store, Runtime(self.data, "cpu"))):
            if isinstance(event, Started) and not more:
                more = "" if seed == runs[0] else f", run {runs.index(seed) + 1} of {len(runs)}"
                yield f"fitting {words.listed(list(stages[event.identity].arms))}{more} ..."
        return list(stages)

    def make_plan(self, slots: int, *, keep: bool = True, timed: bool = True) -> FitPlan:
        """The plan that an earlier run of the same command left, or a new one for `slots` processes, which is kept.

        timed: steps are taken, where there is a limit of time, to tell how many fit into it.
        """
        plan = FitPlan.load(self.folder, self.wanted, self.settings)
        if plan is None:
            spent = time.monotonic() - self.begun + self.waiting / max(slots, 1)
            timed = timed and (self.settings.time is not None or self.out is not None)
            plan = planning.plan_for(self.known, self.settings, self.wanted, spent, slots, self.device, timed=timed)
            if keep:
                plan.save(self.folder, self.settings)
        self.plan = plan
        table = planning.with_places(plan.study, self.known)
        self.study = make_plan(read_study(table, self.settings.overrides), self.data)
        return plan

    def _check(self) -> None:
        """Raises: BadInput for settings that are none, what could not be served, and a plan of something else."""
        known, spec = self.known, self.spec
        shape = shape_of(known.kind, known.lengths)
        if known.backbone is not None:
            longest = shape.alone or int(known.lengths.max())
            known.backbone.check(-(-longest // shape.patch), self.task.symbols)
        check_served(self.settings, known)
        if known.start is not None:
            known.start.check(known.kind, self.task.symbols)
        self._check_memory()
        second = whole_amount(known, self.settings).second
        table = planning.study_table(known, shape, self.settings, Amount(ONE_RATE, 1, 1, 1, 1, second=second))
        study = make_plan(read_study(planning.with_places(table, known), self.settings.overrides), self.data)
        survey(study)
        for stage in study.stages.values():
            if isinstance(stage.spec, ReadStage):
                continue
            model, objective = stage.spec.model, stage.spec.objective
            if objective is not None and objective.source_digest and stage.name != "pretrain":
                raise BadInput(
                    f"override: {stage.name}: the objective {objective.kind!r} comes from a plugin, and what is served "
                    "must answer with classes or numbers as 'classify' and 'regress' do; name it as "
                    f"pretrain.objective.kind={objective.kind}, or compare it with others by `headstart run`"
                )
            if model.source_digest and model.kind not in self.settings.models:
                raise BadInput(
                    f"override: {stage.name}: {model.kind!r} comes from a plugin, and of its models a fit serves "
                    "networks; compare it with others by `headstart run`"
                )
            if model.source_digest:
                check_servable(model, objective, self.task)
        self.wanted = planning.made_for(content(spec, self.data), spec.document(places=False), self.settings, known)
        self.folder = self.out or self.store.root / "plans" / self.wanted
        FitPlan.load(self.folder, self.wanted, self.settings)

    def _check_memory(self) -> None:
        """Raises: BadInput where a model without gradients takes more than there is: it would end this process."""
        known = self.known
        table = planning.study_without_networks(known, self.settings, self.settings.runs[0])
        stages = make_plan(read_study(planning.with_places(table, known)), self.data).stages
        labels = known.labelled + known.val  # what serves is fitted again on both
        most = max(stage.spec.model.memory(labels, known.signature, known.lengths) for stage in stages.values())
        check_memory(f"{self.source.known_as}: fitting {labels:,} labelled sequences", most, FEWER)

    def train(self, workers: int = 0, threads: int = 1) -> Iterator[Event]:
        """Train what is not there yet, until all is done or the time is over.

        Where it is over already nothing is trained, unless nothing could be served then, or a network was asked for.
        """
        assert self.study is not None, "make_plan comes first"
        assert self.plan is not None
        limit = None
        if self.settings.time is not None:
            # Whatever the plan promised: what is left of the time, less what comparing and writing take. To find where
            # a model without gradients looks is about half the work of having fitted it, and what serves is fitted
            # again: a model without gradients, or one of the networks.
            after = AFTER + (0.5 + 1 / len(self.settings.runs)) * self.baseline_seconds
            after += reserved(self.study, self.plan.seconds, max(workers, 1))
            least = 0.0 if self.usable and self.settings.serve not in (NETWORK, ENSEMBLE) else 1.0
            limit = max(least, self.settings.time - (time.monotonic() - self.begun) - after)
            if not limit:
                return
        runtime = Runtime(self.data, self.device, workers, threads, limit=limit)
        yield from self._noted(perform(self.study.stages.values(), self.store, runtime))

    def _noted(self, events: Iterator[Event]) -> Iterator[Event]:
        """The same events; what failed is kept for the notes."""
        for event in events:
            if isinstance(event, Failed):
                # The message may name files of this machine, and what is noted travels with the page.
                self.failed.append(event.name if event.tried else f"{event.name}, whose parent failed or diverged")
                self.broken += [f"{event.name}: {event.message}"] if event.tried else []
            yield event

    def results(self) -> Results:
        """The results of the study so far. Its arm `majority` is the baseline that others are held against."""
        assert self.study is not None, "make_plan comes first"
        # Networks may read patches or a cut of a sequence: another task by its key, of the same rows.
        keys = {task_key(cell.chain[-1].spec) for cell in self.study.cells}
        facts = dict.fromkeys(keys, of_task("own", self.task))
        results = summarise(self.study, self.store.result, self.store.status, facts, self.store.records)
        floors = [row for row in results.table if row.arm == "majority" and row.test is not None]
        results = replace(results, baselines=tuple(replace(row, task=key) for row in floors for key in sorted(keys)))
        results = replace(results, caveats=tuple(caveats(results, self.study, self.store.result)))
        return replace(results, table=tuple(map(distinct, results.table)))

    def fit_again(self, threads: int = 1) -> Iterator[str]:
        """Fit what serves on train and validation together, where the time suffices: nothing is left to choose then.

        Yields a line before it begins. Raises: BadInput where what is to be served was not trained to its end.
        """
        assert self.study is not None, "make_plan comes first"
        self.compared = self._compare()
        again = planned_again(self.study, self.compared.serves, self.store)
        left = None if self.settings.time is None else self.settings.time + self.begun - time.monotonic()
        self.alone = again.obstacle(left)
        if not self.alone:
            yield from [again.text] if again.seconds else []
            runtime = Runtime(self.data, self.device, 0, threads, limit=None if left is None else max(LONG, left))
            list(self._noted(perform(again.stages, self.store, runtime)))
            self.alone = "" if again.complete(self.store) else "this was not done to its end"
        self.again = None if self.alone else again

    def _compare(self) -> Compared:
        assert self.study is not None, "make_plan comes first"
        return compared(self.results(), self.store, self.facts, self.settings, self.known, self.study.study.arms)

    def outcome(self, interrupted: bool = False) -> Outcome:
        """What was compared and chosen, and what is served, put together.

        interrupted: in the least time, from what is finished; the notes say what was left out.
        """
        assert self.plan is not None, "make_plan comes first"
        assert self.study is not None
        chosen = self.compared or self._compare()
        results, candidates, best, serves, _ = chosen
        folds, layout, where = len(self.splits), self.source.layout, (self.store, self.data)
        profile, weights = Profile.of(self.source.sequences), weights_of(self.facts, self.settings.balanced)
        served = served_again(chosen, self.again, self.facts, layout, *where, profile, folds, weights, self.device)
        model, labels = serves.best(), self.facts.labels
        split, answers = self.task.test, model.test
        if not len(answers.target):
            split, answers = self.task.val, model.val
            if folds > 1:  # a run's own fold, which is a further repetition from so many seeds on
                split = open_task(self.spec.model_copy(update={"folds": folds, "fold": model.seed}), self.data).val
        stages = dict.fromkeys(identity for row in results.table for identity in row.stages)
        train, looked_at = self.task.train, 0 if interrupted else affordable(served)
        seconds = max((self.settings.time or np.inf) - (time.monotonic() - self.begun) - REPORT, 0.0)
        left = sum(self.store.status(identity) not in DONE for identity in self.study.stages)
        remarks = notes(
            results,
            serves,
            left,
            labels,
            train.target,
            self.failed,
            interrupted=interrupted,
            alone=self.alone,
            spare=0.0 if self.settings.time is None else seconds,
            little=self.plan.too_little,
        )
        return Outcome(
            title=title(self.facts),
            card=self.card,
            labels=labels,
            candidates=tuple(candidates),
            winner=best.name,
            serves=serves.name,
            served=served,
            test=model.test,
            uncalibrated=softmax(model.raw) if model.raw is not None and labels and len(model.raw) else None,
            results=results,
            answer=answer(candidates, best, serves, self.plan.study["arms"], results.folds),
            plan=self.plan.texts,
            notes=tuple(remarks),
            sizes={name: self.task.split(name).units for name in ("train", "val", "test")}
            | {"labelled": len(train.labelled_units())},
            occlusion=looked(
                partial(of_examples, served), split, answers.target, bool(labels), most=looked_at, seconds=seconds
            ),
            records={identity: list(self.store.records(identity)) for identity in stages},
            versions={"headstart": release(), **{name: version(name) for name in ("torch", "numpy")}},
            seeds=tuple(sorted({cell.seed for cell in self.study.cells})),
            again=self.again is not None,
        )

    def study_file(self) -> str:
        """The study that was run, as `headstart run` reads it. It may be passed on: files are named from the folder on
        that holds them all, weights from theirs on.

        Its arm `served` is the served model, where that was fitted on train and validation.
        """
        assert self.study is not None, "make_plan comes first"
        requires = {plugin.name: plugin.digest for plugin in self.study.plugins}
        arms = {**self.study.study.arms, **(self.again.arms if self.again else {})}
        study = self.study.study.model_copy(update={"requires": requires, "arms": arms}).model_dump(mode="json")
        paths = [Path(path) for path in self.source.places.values()]
        folder = os.path.commonpath([path.parent for path in paths])
        names = {str(path): path.relative_to(folder).as_posix() for path in paths}
        used = [arm.weights(self.known) for arm in ARMS.values()]
        weights = {each.source: Path(each.source).name for each in used if each is not None}
        more = " --weights FOLDER, which holds the weights" if any(map(os.path.isabs, weights)) else ""
        head = f"# headstart run THIS_FILE --data FOLDER, which holds {listed([*names.values()])}{more}\n"
        return head + to_toml(_renamed(study, {**names, **weights}))

    def examples(self) -> dict[str, np.ndarray] | None:
        """What self-pretraining fills in on validation, of the first chosen run; None where nothing was pretrained."""
        row = self.results().row("self_pretrained", planning.COLUMN)
        runs = [run for run in row.runs if run.val is not None] if row is not None else []
        tensors = self.store.predictions(runs[0].stages[0][1]) if runs else {}
        return {name: tensor.numpy() for name, tensor in tensors.items()} or None

    def _split(self) -> str:
        grouped = self.source.sequences.groups is not None and self.settings.by_group
        return split_in_words(self.task, self.settings, splits=len(self.splits), grouped=grouped)

    @cached_property
    def known(self) -> Known:
        """What a plan is made from."""
        task, splits, target = self.task, self.splits, self.task.train.target
        # Of all splits: how long a sequence is says nothing of its class, and each is read whichever split it is in.
        lengths = np.concatenate([task.split(name).lengths for name in ("train", "val", "test")])
        weights: tuple[float, ...] = ()
        backbone = asked_backbone(self.settings, task, self.facts.kind)
        if self.settings.balanced and self.facts.labels and target is not None:
            classes = target[target != IGNORE].astype(np.int64)
            weights = tuple(balanced_weights(classes, len(self.facts.labels)).tolist())
        return Known(
            task={name: value for name, value in self.source.task.items() if name not in FILES}
            | ({"folds": len(splits), "fold": "seed"} if len(splits) > 1 else {}),
            kind=self.facts.kind,
            signature=task.signature,
            labelled=min(len(split.train.labelled_units()) for split in splits),
            rows=min(split.train.units for split in splits),
            val=max(split.val.units for split in splits),
            test=task.test.units,
            lengths=lengths,
            weights=weights,
            data=self.data,
            places=self.source.places,
            split=self._split(),
            backbone=backbone if isinstance(backbone, Backbone) else None,
            series=backbone if isinstance(backbone, SeriesModel) else None,
            start=None if self.settings.start is None else find_start(self.settings.start, self.store, self.data),
        )


def fit_sequences(
    data: Any,
    settings: FitSettings,
    *,
    labels: Any = None,
    groups: Any = None,
    unlabelled: Any = None,
    out: Path | None = None,
    store: Path | None = None,
    workers: int | None = 0,
    threads: int = 1,
    device: str = "auto",
    on_event: Callable[[Event], None] | None = None,
) -> Outcome:
    """Fit the sequences of a file or folder (by its path) or of memory, and compare what was fitted.

    labels, groups: one per sequence, of data in memory. unlabelled: sequences for self-pretraining alone. out: where
    the plan is kept, so that the same call goes on from it. store: of the stages (None: a folder that is deleted at the
    end, or, of a file, HEADSTART_STORE or ./runs). workers: processes (0: this one; None: one per GPU, or core).
    Raises: BadInput for wrong data or settings; RuntimeError where no network could be trained.
    """
    with _store(data, store) as root:
        begun = time.monotonic()
        source = read_source(data, settings, root, labels, groups, unlabelled)
        fit = Fit(source, settings, root, out, device, time.monotonic() - begun)
        slots = default_workers(device) if workers is None else workers
        list(fit.fit_baselines())
        fit.make_plan(max(slots, 1))
        for event in fit.train(slots, threads):
            if on_event is not None:
                on_event(event)
        if fit.broken:
            raise RuntimeError("stages failed:\n" + "\n".join(fit.broken))
        list(fit.fit_again(threads))
        return fit.outcome()


@contextmanager
def _store(data: Any, store: Path | None) -> Iterator[Path]:
    if store is not None or isinstance(data, (str, os.PathLike)):
        yield Path(store_folder(store))
        return
    with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
        yield Path(folder)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same with texts that are keys of `names` replaced."""
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
