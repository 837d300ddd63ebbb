"""The plan of a fit: a study that fits into the time, kept as a file that the same command finds again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headstart.core import Plan, Runtime, StepTime, plan_study
from headstart.fit import defaults
from headstart.fit.arms import arms, foreign_arms
from headstart.fit.arms.arm import Frame, Networks, Offer
from headstart.fit.basis import Amount, Basis
from headstart.fit.budget import SAFE, Shares, cost_of, shared, stage_seconds, whole_amount
from headstart.fit.plan_file import LITTLE, FitPlan
from headstart.request.settings import FitSettings
from headstart.spec import digest
from headstart.tasks.own import FILE_FIELDS
from headstart.ways import argument
from headstart.words import duration, many, percent

START = 8.0
"""Seconds that worker processes need until they train, and the report until it is written."""
SUPPOSED = StepTime(0.02, 0.001)
"""What steps and scores are supposed to take where there is no time left to measure it."""
SQUEEZES = (1, 2, 4)
"""How many times fewer positions are tried where time is short."""
COLUMN = "data"


@dataclass(frozen=True)
class Planned:
    """A plan, and its study with the files of today."""

    plan: FitPlan
    study: Plan


def made_for(content: str | None, task: Mapping[str, Any], settings: FitSettings, basis: Basis) -> str:
    """What a plan belongs to: the data and the weights to start from by content, and the settings but the time."""
    plain = {name: value for name, value in task.items() if name not in FILE_FIELDS}
    read = {name: arm.weights(basis) for name, arm in arms().items()}
    more = {name: weights.content for name, weights in read.items() if weights is not None}
    return digest({"content": content, "task": plain, "settings": settings.document(), **more})


def plan_for(
    basis: Basis, settings: FitSettings, made_for: str, spent: float, slots: int, device: str, *, timed: bool = True
) -> FitPlan:
    """The largest training that fits into the time left after `spent` seconds; all of the default's without a limit.

    timed False, where there is no limit: no step is taken to tell how long it will last.
    """
    begun, best = time.monotonic() - spent, None
    supposed = dict.fromkeys(("pretrain", "finetune", *foreign_arms()), SUPPOSED)
    share = Runtime.processes_worth(slots) if timed and device == "cpu" else 1.0
    for squeeze in SQUEEZES:
        shape = defaults.shape_of(basis.kind, basis.lengths, squeeze)
        if best is not None and shape == defaults.shape_of(basis.kind, basis.lengths, squeeze // 2):
            continue
        left = math.inf if settings.time is None else settings.time - START - (time.monotonic() - begun)
        if best is not None and left < 0:
            break
        seconds = {} if not timed else supposed if left < 0 else _timed(basis, shape, settings, device, left)
        best = _fitted(basis, shape, settings, made_for, seconds, time.monotonic() - begun, share)
        if best[1]:
            break
    assert best is not None
    return best[0]


def _fitted(
    basis: Basis,
    shape: defaults.ModelShape,
    settings: FitSettings,
    made_for: str,
    seconds: Mapping[str, StepTime],
    spent: float,
    share: float,
) -> tuple[FitPlan, bool]:
    """The plan for one way to read the sequences, and whether its networks train long enough to have seen something."""
    left = math.inf if settings.time is None else max(0.0, SAFE * (settings.time - spent - START))

    def cost(amount: Amount) -> float:
        return cost_of(basis, settings, amount, seconds, share)

    shares = shared(basis, settings, left, spent + START, cost)
    study = study_table(basis, shape, settings, shares.amount)
    resolved = plan_study(with_places(study, basis), basis.data, settings.overrides)
    asked = _resolved(resolved, shares.amount)
    if asked != shares.amount:  # settings of the study's own are no matter of the time
        shares = replace(shares, amount=asked, whole=asked, enough=True)
    networks = resolved.networks
    plan = FitPlan(
        made_for=made_for,
        study=study,
        seconds=round(cost(asked) + START, 1) if networks else 0.0,
        learnt=basis.learnt,
        texts=tuple(_texts(basis, shape, settings, shares, networks)),
        made_by=Runtime.version("headstart"),
    )
    return plan, shares.enough


def _resolved(plan: Plan, amount: Amount) -> Amount:
    """The amount, with the rates and steps that settings of the study's own put in its place."""
    steps: dict[str, int] = {}
    for stage, spec in plan.networks:
        if spec.budget.steps is not None:
            steps[next((arm for arm in stage.arms if arm in amount.apart), stage.name)] = spec.budget.steps
    rates = dict.fromkeys(spec.optim.lr for stage, spec in plan.networks if stage.name == "finetune")
    return replace(
        amount,
        rates=tuple(rates) or amount.rates,
        steps=steps.get("finetune", amount.steps),
        pretrain_steps=steps.get("pretrain", amount.pretrain_steps),
        apart={name: steps.get(name, number) for name, number in amount.apart.items()},
    )


def with_places(table: Mapping[str, Any], basis: Basis) -> dict[str, Any]:
    """A plan's study with the files of today, wherever they lay when it was made."""
    column, read = table["columns"][COLUMN], [arm.weights(basis) for arm in arms().values()]
    sources = {weights.content: weights.source for weights in read if weights is not None}

    def placed(key: str, tables: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {**table, key: {**table[key], "source": sources[content]}}
            if (content := table.get(key, {}).get("content")) in sources
            else table
            for name, table in tables.items()
        }

    columns = {COLUMN: {**column, "task": {**column["task"], **basis.places}}}
    stages, tables = placed("checkpoint", table["stages"]), placed("model", table["arms"])
    return {**table, "stages": stages, "columns": columns, "arms": tables}


def study_table(basis: Basis, shape: defaults.ModelShape, settings: FitSettings, amount: Amount) -> dict[str, Any]:
    """The study of the arms that take part, as a file would hold it, but for where its data are."""
    size = defaults.batch_size(basis.labelled, basis.rows)
    frame, stages, tables = Frame(basis, shape, settings, amount), dict[str, Any](), dict[str, Any]()
    parts = [arm for name, arm in arms().items() if name in amount.arms]

    def optim(lr: float) -> dict[str, Any]:
        return {"lr": lr, "batch_size": size, "warmup_share": 0.1, "clip": 1.0, "weight_decay": 0.01}

    for arm in parts:
        stages = {**arm.stages(basis), **stages}
        own = arm.tables(frame)
        if basis.learnt is not None and not arm.network:
            own = {
                name: {**table, "task": {**table.get("task", {}), "rows": basis.learnt}} for name, table in own.items()
            }
        tables |= own
    networks = any(arm.network for arm in parts)
    if networks:
        stages["pretrain"] = {
            "objective": {"kind": "masked", "mask_rate": defaults.INPUT_KINDS[basis.kind].mask_rate},
            "optim": optim(defaults.PRETRAIN_RATE),
            "budget": frame.budget(amount.pretrain_steps, "val"),
        }
    stages["finetune"] = {
        "objective": defaults.objective_table(basis.signature, basis.class_weights),
        "optim": optim(amount.rates[0]),
        "budget": frame.budget(max(1, amount.steps)),
    }
    model = defaults.model_table(basis.kind, basis.labelled, basis.lengths)
    title = "Training from scratch and from self-pretraining on the same sequences"
    rate = "finetune.optim.lr"
    return {
        "name": "fit",
        "title": title + "".join(arm.title(basis) for arm in parts)
        if networks
        else "Models without a network on the same sequences",
        "stages": stages,
        "columns": {COLUMN: {"task": dict(basis.task), "model": {"kind": "sequence", **model}}},
        "arms": tables,
        "axes": {**({rate: list(amount.rates)} if networks else {}), "seed": list(settings.runs)},
        "report": {"choose": [rate], "against": next(arm.names[0] for arm in parts if arm.base), "baselines": False}
        if networks
        else {"choose": [], "baselines": False},
    }


def study_without_networks(basis: Basis, settings: FitSettings, seed: int, *, slow: bool = False) -> dict[str, Any]:
    """The arms without gradients of the same study, with one seed: the same stages as in the whole of it. slow: those
    that are fitted after the others."""
    offer = Offer(basis, settings)
    names = [
        name
        for name, arm in arms().items()
        if not arm.network and arm.slow == slow and arm.wanted(basis, settings) and not arm.lacks(offer)
    ]
    amount = Amount(defaults.ONE_RATE, 1, arms=tuple(names))
    return study_table(basis, defaults.ModelShape(), replace(settings, seeds=(seed,)), amount)


def _texts(
    basis: Basis, shape: defaults.ModelShape, settings: FitSettings, shares: Shares, networks: Networks
) -> list[str]:
    """What was decided, in words."""
    amount, lines = shares.amount, [f"split: {basis.split}"] if basis.split else []
    if basis.learnt is not None:
        lines.append(
            f"models without a network learn from {basis.learnt:,} of {basis.rows:,} train sequences, each class in "
            f"proportion: {argument('time')} and {argument('memory')} leave no room for more"
        )
    if (scored := basis.task.get("scored")) is not None:
        lines.append(f"scores are of {scored:,} sequences of validation, and of as many of test, at most")
    lines += _of_networks(basis, shape, settings, amount, networks)
    frame = Frame(basis, shape, settings, amount)
    for name, arm in arms().items():
        lines += arm.lines(frame, networks) if name in amount.arms else shares.left_out.get(name, ())
    if not networks:
        return lines
    whole = shares.whole.steps
    if settings.time is not None and amount.steps < whole:
        lines.append(
            f"the time of {duration(settings.time)} leaves {percent(amount.steps / whole)} of the steps that "
            "would be taken with more time"
        )
    if not shares.enough and min([amount.steps, *amount.apart.values()]) < min(defaults.LEAST_STEPS, whole):
        few = f"{LITTLE} (at least {defaults.LEAST_STEPS} steps are)"
        lines.append(f"{few}: give more --time")
    elif not shares.enough:
        steps = defaults.wanted_steps(basis.kind)
        lines.append(f"with fewer than {steps:,} steps networks often lose to n-grams: give more --time")
    return lines


def _of_networks(
    basis: Basis, shape: defaults.ModelShape, settings: FitSettings, amount: Amount, networks: Networks
) -> list[str]:
    """What the networks of headstart have in common, in words; nothing where none is trained."""
    last = next((spec for stage, spec in networks if stage.name == "finetune"), None)
    if last is None:
        return []
    model, size = last.model, last.optim.batch_size
    mixers = " and ".join(dict.fromkeys(mixer.kind for mixer in model.mixers))
    rates = ", ".join(f"{rate:g}" for rate in amount.rates)
    loss = (
        "squared error"
        if basis.signature.target == "number"
        else "cross-entropy" + (", each class weighing the same" if basis.class_weights else "")
    )
    return [
        *(["numbers are standardised by the mean and deviation of train"] if basis.kind == "numbers" else []),
        f"network: {many(model.blocks, 'block')} of {mixers}, width {model.width}, {model.norm} norm, "
        f"{model.pool} over positions",
        *shape.texts(basis.lengths),
        f"training: {amount.steps:,} steps of {size} sequences, rates {rates}, "
        f"{many(len(settings.runs), 'seed')}; {loss}",
    ]


def _timed(
    basis: Basis, shape: defaults.ModelShape, settings: FitSettings, device: str, left: float
) -> dict[str, StepTime]:
    """Seconds of a step of each stage on this machine, by FLOPs where twice the `left` seconds are too few for all."""
    few = whole_amount(basis, settings).short(defaults.STEPS[1], defaults.PRETRAIN_STEPS[1])  # a few are taken
    few = replace(few, arms=tuple(name for name, arm in arms().items() if arm.network and name in few.arms))
    table = study_table(basis, shape, replace(settings, seeds=settings.runs[:1]), few)
    overrides = [word for word in settings.overrides if not word.startswith(("seed=", "finetune.optim.lr="))]
    most = 2 * left / defaults.wanted_steps(basis.kind)
    return stage_seconds(plan_study(with_places(table, basis), basis.data, overrides), device, most)
