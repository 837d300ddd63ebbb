"""What a fit is made from, read and checked: a value that the steps of the fit hand on."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart.baselines.kernels import KERNEL_SECONDS
from headstart.baselines.linear import FEWER
from headstart.baselines.measures import balanced_weights
from headstart.baselines.patches import image_side
from headstart.baselines.pieces import TRAIN_SCORED, Pieces, sizes_of
from headstart.core import NetworkSpec, Plan, Store, Task, begin, plan_study
from headstart.data import Card, data_card
from headstart.errors import BadInput, BadMachine
from headstart.fit import plan as planning
from headstart.fit.arms import check_served
from headstart.fit.arms.embedding import FrozenModel
from headstart.fit.arms.weights import read_weights
from headstart.fit.basis import Basis
from headstart.fit.budget import LATE, LATE_SECONDS, REPORT, whole_amount
from headstart.fit.defaults import FEW_ROWS, FOLDS, shape_of
from headstart.fit.plan_file import FitPlan
from headstart.fitted.wording import split_in_words
from headstart.limits import check_memory, give_back, memory
from headstart.request.settings import FitSettings
from headstart.request.source import FitSource
from headstart.sequence import IGNORE
from headstart.spec import read
from headstart.tasks.own import FILE_FIELDS, OwnFacts, OwnSpec

OTHERWISE = "compare it with others in a study of your own (`headstart run`)"
"""The way out with code that a fit does not serve."""

SCORED_SHARE, LEAST_SCORED, LEAST_SCORED_POSITIONS, SCORED_LENGTH = 0.05, (20, 1_000), 1 << 19, 50
"""Of the time, so much is for one model's answers to validation and test. Of 1,000 sequences of each a score is true
within 0.03: as many are answered whatever the time, but of long ones no more than have so many positions. A short one
takes as long as one of `SCORED_LENGTH`, since it has as many features."""


@dataclass(frozen=True)
class Fit:
    """What a fit is made from. Nothing of it changes while the fit goes."""

    begun: float
    """When, by `time.monotonic`."""
    source: FitSource
    settings: FitSettings
    """With folds and seeds written out."""
    store: Store
    """Of the stages."""
    data: Path
    """The folder of data sets that the store has."""
    device: str
    spec: OwnSpec
    task: Task
    splits: tuple[Task, ...]
    """The task as each fold deals it; one, without folds."""
    facts: OwnFacts
    card: Card
    basis: Basis
    made_for: str
    """What the plan belongs to (`plan.made_for`)."""
    folder: Path
    """Where the plan is kept."""
    sizes: tuple[int, ...] = ()
    """Rows of train that models without gradients may learn from, in descending order."""
    ready: float = 0.0
    """Seconds that were gone when it was made."""

    @property
    def spent(self) -> float:
        """Seconds that are gone."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float | None:
        """Seconds of the time that are left, below 0 where it is over; None without a limit."""
        return None if self.settings.time is None else self.settings.time - self.spent

    @property
    def rest(self) -> float | None:
        """Seconds until the page has to be begun, so that all ends when it must; None without a limit."""
        return None if self.settings.time is None else LATE * self.settings.time + LATE_SECONDS - REPORT - self.spent

    def studied(self, table: dict[str, object], overrides: tuple[str, ...] = ()) -> Plan:
        """The plan of a study of its networks, or of models beside them."""
        return plan_study(planning.with_places(table, self.basis), self.data, overrides)

    def without_networks(self, seed: int, *, slow: bool = False, learnt: int | None = None) -> Plan:
        """The plan of the models without gradients, in one run. slow: of those that are fitted after the others.
        learnt: rows of train that they are fitted on (None: all)."""
        basis = self.basis if learnt is None else replace(self.basis, learnt=self.part(learnt))
        return self.studied(planning.study_without_networks(basis, self.settings, seed, slow=slow))

    def part(self, learnt: int) -> int | None:
        """So many rows of train where that is a part of them, None where they are all."""
        return learnt if learnt < self.basis.rows else None

    def fitting_sizes(self) -> tuple[int, ...]:
        """Rows of train, all and parts of them, that memory has room for. Raises: BadInput where it has none for the
        smallest part."""
        basis, room, least = self.basis, memory(), 2 * len(self.facts.labels)
        models = [*self._models(), *(each.spec for each in basis.read if isinstance(each, FrozenModel))]

        def bytes_of(rows: int) -> float:
            # What serves is fitted again on validation too, where all of train was learnt.
            labels = rows if self.part(rows) else len(self.source.sequences)
            return float(max(model.memory(labels, basis.signature, basis.lengths) for model in models))

        sizes = sizes_of(basis.rows, least, lambda rows: room is None or bytes_of(rows) <= room.size)
        check_memory(f"{self.source.known_as}: fitting {sizes[-1]:,} labelled sequences", bytes_of(sizes[-1]), FEWER)
        return tuple(sizes)

    def pieces(self) -> Pieces:
        """The models without gradients, of parts of train and of all."""
        basis, models = self.basis, self._models()

        def seconds(rows: int) -> float:
            scored = basis.val + basis.test + min(rows, TRAIN_SCORED)
            return float(sum(model.seconds(rows, scored, basis.signature, basis.lengths) for model in models))

        return Pieces(self.sizes, seconds)

    def _models(self) -> list[Any]:
        """Specs of the models without gradients."""
        return [stage.spec.model for stage in self.without_networks(self.settings.runs[0]).stages.values()]


def prepare(
    source: FitSource, settings: FitSettings, store: Path, out: Path | None, device: str, spent: float = 0.0
) -> Fit:
    """Open the data, and check everything.

    out: the folder of the model, where the plan is kept (None: in the store). store: of the stages. spent: seconds of
    the time that are gone already.
    Raises: BadInput for whatever is wrong with the data or settings, before anything is trained.
    """
    begun, data = time.monotonic() - spent, (store / "data").absolute()
    opened, device = begin(store, device)
    spec = read(OwnSpec, dict(source.task), "task")
    card = data_card(source.sequences)
    task, facts = spec.opened(data), spec.facts(data)
    if (scored := _scored(task, settings)) is not None:
        source = replace(source, task={**source.task, "scored": scored})
        spec = read(OwnSpec, dict(source.task), "task")
        task = spec.opened(data)
    settings, splits = in_folds(settings, spec, task, data)
    basis = _basis(source, settings, opened, data, task, splits, facts)
    for weights in basis.read:
        weights.check(basis, task.symbols)
    check_served(settings, basis)
    _check_study(basis, settings, task, data)
    whole = spec.model_copy(update={"scored": None}).document(places=False)
    wanted = planning.made_for(spec.content(data), whole, settings, basis)
    folder = out or opened.root / "plans" / wanted
    FitPlan.load(folder, wanted, settings, part=source.part is not None)
    fit = Fit(begun, source, settings, opened, data, device, spec, task, splits, facts, card, basis, wanted, folder)
    give_back(cycles=True)
    return replace(fit, sizes=fit.fitting_sizes(), ready=fit.spent)


def in_folds(settings: FitSettings, spec: OwnSpec, task: Task, data: Path) -> tuple[FitSettings, tuple[Task, ...]]:
    """The settings with folds and seeds written out, and the task as each fold deals it (one, without folds).

    Where rows belong together in few groups there are as few folds. Raises: BadInput where one that was asked for is
    empty.
    """
    labelled = sum(len(split.labelled_units()) for split in (task.train, task.val))
    few = labelled < FEW_ROWS and settings.val is None and settings.split == "random"
    for folds in [settings.folds] if settings.folds is not None else [*range(FOLDS if few else 1, 0, -1)]:
        seeds = settings.seeds or (tuple(range(folds)) if folds > 1 else settings.runs)
        try:
            dealt = [spec.model_copy(update={"folds": folds, "fold": i}) for i in range(folds)]
            splits = [each.opened(data) for each in dealt] if folds > 1 else [task]
        except BadInput as error:
            if settings.folds is not None or isinstance(error, BadMachine):
                raise
            continue
        return replace(settings, folds=folds, seeds=seeds), tuple(splits)
    raise AssertionError("one fold is always there")


def _scored(task: Task, settings: FitSettings) -> int | None:
    """Sequences of validation, and of test, that are scored at most; None where there is time for all of them."""
    if settings.time is None:
        return None
    positions = int(task.val.lengths.sum() + task.test.lengths.sum())
    most = SCORED_SHARE * settings.time * 1e6 / KERNEL_SECONDS
    each = max(positions / max(task.val.units + task.test.units, 1), 1.0)
    least = min(max(int(LEAST_SCORED_POSITIONS / each), LEAST_SCORED[0]), LEAST_SCORED[1])
    few = max(least, int(most / max(each, SCORED_LENGTH) / 2))
    return few if few < max(task.val.units, task.test.units) else None


def _basis(
    source: FitSource,
    settings: FitSettings,
    store: Store,
    data: Path,
    task: Task,
    splits: tuple[Task, ...],
    facts: OwnFacts,
) -> Basis:
    """What a plan is made from."""
    target, weights = task.train.target, tuple[float, ...]()
    # Of all splits: how long a sequence is says nothing of its class, and each is read whichever split it is in.
    lengths = np.concatenate([task.split(name).lengths for name in ("train", "val", "test")])
    if settings.balanced and facts.labels and target is not None:
        classes = target[target != IGNORE].astype(np.int64)
        weights = tuple(balanced_weights(classes, len(facts.labels)).tolist())
    grouped = source.sequences.groups is not None and settings.by_group
    return Basis(
        task={name: value for name, value in source.task.items() if name not in FILE_FIELDS}
        | ({"folds": len(splits), "fold": "seed"} if len(splits) > 1 else {}),
        kind=facts.kind,
        signature=task.signature,
        labelled=min(len(split.train.labelled_units()) for split in splits),
        rows=min(split.train.units for split in splits),
        val=max(split.val.units for split in splits),
        test=task.test.units,
        lengths=lengths,
        class_weights=weights,
        data=data,
        places=source.places,
        split=("" if source.part is None else f"{source.part.text}; ")
        + split_in_words(
            task,
            by_time=settings.split == "time",
            grouped=grouped,
            folds=len(splits),
            files=[name for name in ("val", "test") if getattr(settings, name) is not None],
        ),
        side=image_side(task.train, lengths),
        read=read_weights(settings, task, facts.kind, store, data),
    )


def _check_study(basis: Basis, settings: FitSettings, task: Task, data: Path) -> None:
    """Raises: BadInput for settings of the study that are none, or that lead to what a fit cannot serve."""
    least = whole_amount(basis, settings).short(1, 1)
    table = planning.study_table(basis, shape_of(basis.kind, basis.lengths), settings, least)
    study = plan_study(planning.with_places(table, basis), data, settings.overrides, fits=True)
    for stage in study.stages.values():
        if stage.reads:
            continue
        model, objective = stage.spec.model, stage.spec.objective
        if objective is not None and objective.source_digest and stage.name != "pretrain":
            raise BadInput(
                f"override: {stage.name}: the objective {objective.kind!r} comes from a plugin, and what is served "
                "must answer with classes or numbers as 'classify' and 'regress' do; name it as "
                f"pretrain.objective.kind={objective.kind}, or {OTHERWISE}"
            )
        if model.source_digest and model.kind not in settings.models:
            raise BadInput(
                f"override: {stage.name}: {model.kind!r} comes from a plugin, and of its models a fit serves "
                f"networks; {OTHERWISE}"
            )
        if model.source_digest:
            NetworkSpec(model=model, objective=objective, length=task.signature.length).check_servable(task)
