"""What a fit is made from, read and checked: a value that the steps of the fit hand on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headstart.baselines.linear import FEWER
from headstart.baselines.measures import balanced_weights
from headstart.core import NetworkSpec, Plan, Store, Task, begin, plan_study
from headstart.data import Card, data_card
from headstart.errors import BadInput
from headstart.fit import plan as planning
from headstart.fit.arms import check_served
from headstart.fit.arms.read import read_weights
from headstart.fit.basis import Basis
from headstart.fit.budget import whole_amount
from headstart.fit.defaults import shape_of
from headstart.fit.settings import FitPlan, FitSettings
from headstart.fit.source import FitSource, in_folds
from headstart.fitted.wording import split_in_words
from headstart.limits import check_memory
from headstart.sequence import IGNORE
from headstart.spec import read
from headstart.tasks.own import FILE_FIELDS, OwnFacts, OwnSpec

OTHERWISE = "compare it with others in a study of your own (`headstart run`)"
"""The way out with code that a fit does not serve."""


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

    @property
    def spent(self) -> float:
        """Seconds that are gone."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float | None:
        """Seconds of the time that are left, below 0 where it is over; None without a limit."""
        return None if self.settings.time is None else self.settings.time - self.spent

    def studied(self, table: dict[str, object], overrides: tuple[str, ...] = ()) -> Plan:
        """The plan of a study of its networks, or of models beside them."""
        return plan_study(planning.with_places(table, self.basis), self.data, overrides)

    def without_networks(self, seed: int, *, slow: bool = False) -> Plan:
        """The plan of the models without gradients, in one run. slow: of those that are fitted after the others."""
        return self.studied(planning.study_without_networks(self.basis, self.settings, seed, slow=slow))


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
    settings, splits = in_folds(settings, spec, task, data)
    basis = _basis(source, settings, opened, data, task, splits, facts)
    for weights in basis.read:
        weights.check(basis, task.symbols)
    check_served(settings, basis)
    _check_memory(basis, settings, data, source.known_as)
    _check_study(basis, settings, task, data)
    wanted = planning.made_for(spec.content(data), spec.document(places=False), settings, basis)
    folder = out or opened.root / "plans" / wanted
    FitPlan.load(folder, wanted, settings)
    return Fit(begun, source, settings, opened, data, device, spec, task, splits, facts, card, basis, wanted, folder)


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
        split=split_in_words(
            task,
            by_time=settings.split == "time",
            grouped=grouped,
            folds=len(splits),
            files=[name for name in ("val", "test") if getattr(settings, name) is not None],
        ),
        read=read_weights(settings, task, facts.kind, store, data),
    )


def _check_memory(basis: Basis, settings: FitSettings, data: Path, name: str) -> None:
    """Raises: BadInput where a model without gradients takes more than there is: it would end this process."""
    table = planning.study_without_networks(basis, settings, settings.runs[0])
    stages = plan_study(planning.with_places(table, basis), data).stages
    labels = basis.labelled + basis.val  # what serves is fitted again on both
    most = max(stage.spec.model.memory(labels, basis.signature, basis.lengths) for stage in stages.values())
    check_memory(f"{name}: fitting {labels:,} labelled sequences", most, FEWER)


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
