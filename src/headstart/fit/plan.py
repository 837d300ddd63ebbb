"""The plan of a fit: a study that fits into the time, kept as a file that the same command finds again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms import ARMS, foreign_arms, without_gradients
from headstart.fit.arms.arm import Frame
from headstart.fit.arms.backbone import BACKBONE, TUNED
from headstart.fit.budget import (
    cost_of,
    fewest_steps,
    least_steps,
    left_out,
    scaled_down,
    scaled_with_backbone,
    seconds_of_one,
    side_by_side,
    stage_seconds,
    wanted_steps,
    whole_amount,
)
from headstart.fit.known import Amount, Known
from headstart.fit.settings import FILES, LITTLE, FitPlan, FitSettings
from headstart.runner.events import StepTime
from headstart.runner.machine import version
from headstart.spec import digest
from headstart.stage import TrainStage
from headstart.study.language.plan import Plan, PlannedStage, make_plan
from headstart.study.language.spec import read_study
from headstart.text import listed
from headstart.words import duration, many

SAFE = 0.7
"""Share of the time left that is planned: a few timed steps promise nothing."""
START = 8.0
"""Seconds that worker processes need until they train, and the report until it is written."""
SUPPOSED = {name: StepTime(0.02, 0.001) for name in ("pretrain", "finetune", *foreign_arms())}
"""What steps and scores are supposed to take where there is no time left to measure it."""
SQUEEZES = (1, 2, 4)
"""How many times fewer positions are tried where time is short."""
COLUMN = "data"


def made_for(content: str | None, task: Mapping[str, Any], settings: FitSettings, known: Known) -> str:
    """What a plan belongs to: the data and the weights to start from by content, and the settings but the time."""
    plain = {name: value for name, value in task.items() if name not in FILES}
    read = {name: arm.weights(known) for name, arm in ARMS.items()}
    more = {name: weights.content for name, weights in read.items() if weights is not None}
    return digest({"content": content, "task": plain, "settings": settings.document(), **more})


def plan_for(
    known: Known, settings: FitSettings, made_for: str, spent: float, slots: int, device: str, *, timed: bool = True
) -> FitPlan:
    """The largest training that fits into the time left after `spent` seconds; all of the default's without a limit.

    timed False, where there is no limit: no step is taken to tell how long it will last.
    """
    begun, best = time.monotonic() - spent, None
    share = side_by_side(slots) if timed and device == "cpu" else 1.0
    for squeeze in SQUEEZES:
        shape = defaults.shape_of(known.kind, known.lengths, squeeze)
        if best is not None and shape == defaults.shape_of(known.kind, known.lengths, squeeze // 2):
            continue
        late = settings.time is not None and time.monotonic() - begun + START > settings.time
        if best is not None and late:
            break
        seconds = {} if not timed else SUPPOSED if late else _timed(known, shape, settings, device)
        best = _fitted(known, shape, settings, made_for, seconds, time.monotonic() - begun, share)
        if best[1]:
            break
    assert best is not None
    return best[0]


def _fitted(
    known: Known,
    shape: defaults.Shape,
    settings: FitSettings,
    made_for: str,
    seconds: Mapping[str, StepTime],
    spent: float,
    share: float,
    why: str = "",
    second: bool = True,
) -> tuple[FitPlan, bool]:
    """The plan for one way to read the sequences, and whether its networks train long enough to have seen something.

    why: self-pretraining is left out, in words. second: whether there may be a network of another mixer.
    """
    whole = whole_amount(known, settings)
    whole = replace(whole, second=whole.second and second)
    left = math.inf if settings.time is None else max(0.0, SAFE * (settings.time - spent - START))

    def cost(amount: Amount) -> float:
        return cost_of(known, settings, amount, seconds, share)

    if known.kind != "numbers" and not settings.asks_for_network:
        of_one = seconds_of_one(known, settings, seconds, share)
        if of_one > left:
            return _without_networks(known, settings, made_for, of_one / SAFE + spent + START), False
    rates = [whole.rates] if settings.rates is not None else [defaults.RATES, defaults.ONE_RATE]
    amount, enough = whole, False
    for tried in rates:
        scaled = scaled_down if known.backbone is None else scaled_with_backbone
        amount = scaled(replace(whole, rates=tried), left, cost, settings)
        enough = fewest_steps(known, amount) >= min(wanted_steps(known), whole.steps)
        if enough:
            break
    leaves = left_out(known, settings, amount, whole) if settings.pretrains else ""
    short = amount.steps < defaults.WORTH * whole.steps or cost(amount) > left
    # What is not expected to help goes first: self-pretraining, then the second mixer.
    if amount.second and short and not (leaves and not defaults.expects_gain(known.labelled, known.rows)):
        return _fitted(known, shape, settings, made_for, seconds, spent, share, why, second=False)
    if leaves:
        why = f"self-pretraining is skipped: {leaves}; --pretrain forces it"
        alone = replace(settings, pretrain=False)
        return _fitted(known, shape, alone, made_for, seconds, spent, share, why)
    study = study_table(known, shape, settings, amount)
    resolved = make_plan(read_study(with_places(study, known), settings.overrides), known.data)
    asked = _resolved(resolved, amount)
    by_plan = asked == amount
    texts = _texts(known, shape, settings, asked, whole if by_plan else asked, enough or not by_plan, resolved, why)
    plan = FitPlan(
        made_for=made_for,
        study=study,
        seconds=round(cost(asked) + START, 1),
        texts=tuple(texts),
        made_by=version("headstart"),
    )
    return plan, enough


def _without_networks(known: Known, settings: FitSettings, made_for: str, enough: float) -> FitPlan:
    """The plan where the time is too little for a network; `enough` seconds would do."""
    table = study_without_networks(known, settings, settings.runs[0])
    axes = {"seed": list(settings.runs)}
    table |= {"title": "Models without a network on the same sequences", "axes": axes}
    time = f"{math.ceil(enough)}s" if enough < 100 else f"{math.ceil(enough / 60)}m"
    text = (
        f"no network is trained: the time of {duration(settings.time)} is too little for "
        f"{least_steps(known, settings):,} steps of training, and with fewer a network loses to n-grams; --time {time} "
        "would do, and --serve network or --pretrain trains one in any case"
    )
    bare = known.rows > known.labelled
    more = [f"nothing is pretrained: {defaults.expectation(known.labelled, known.rows)}"] if bare else []
    texts = (*([f"split: {known.split}"] if known.split else []), text, *more)
    return FitPlan(made_for=made_for, study=table, seconds=0.0, texts=texts, made_by=version("headstart"))


def _resolved(plan: Plan, amount: Amount) -> Amount:
    """The amount, with the rates and steps that settings of the study's own put in its place."""
    steps: dict[str, int] = {}
    for stage, spec in _networks(plan):
        if spec.budget.steps is not None:
            name = next((arm for arm in stage.arms if arm in (BACKBONE, TUNED)), stage.name)
            steps[name] = spec.budget.steps
    rates = dict.fromkeys(spec.optim.lr for stage, spec in _networks(plan) if stage.name == "finetune")
    return Amount(
        tuple(rates),
        steps.get("finetune", amount.steps),
        steps.get("pretrain", amount.pretrain_steps),
        steps.get(BACKBONE, 0),
        steps.get(TUNED, 0),
        amount.second,
    )


def _networks(plan: Plan) -> list[tuple[PlannedStage, TrainStage]]:
    """The stages of the networks, each with its spec."""
    return [(stage, stage.spec) for stage in plan.stages.values() if isinstance(stage.spec, TrainStage)]


def with_places(table: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """A plan's study with the files of today, wherever they lay when it was made."""
    column, read = table["columns"][COLUMN], [arm.weights(known) for arm in ARMS.values()]
    sources = {weights.content: weights.source for weights in read if weights is not None}

    def placed(key: str, tables: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {**table, key: {**table[key], "source": sources[content]}}
            if (content := table.get(key, {}).get("content")) in sources
            else table
            for name, table in tables.items()
        }

    columns = {COLUMN: {**column, "task": {**column["task"], **known.places}}}
    stages, arms = placed("checkpoint", table["stages"]), placed("model", table["arms"])
    return {**table, "stages": stages, "columns": columns, "arms": arms}


def study_table(known: Known, shape: defaults.Shape, settings: FitSettings, amount: Amount) -> dict[str, Any]:
    """The study of the networks, as a file would hold it, but for where its data are."""
    size = defaults.batch_size(known.labelled, known.rows)
    frame, stages, arms = Frame(known, shape, settings, amount), dict[str, Any](), dict[str, Any]()

    def optim(lr: float) -> dict[str, Any]:
        return {"lr": lr, "batch_size": size, "warmup_share": 0.1, "clip": 1.0, "weight_decay": 0.01}

    for arm in ARMS.values():
        stages = {**arm.stages(known), **stages}
        arms |= arm.tables(frame)
    stages["pretrain"] = {
        "objective": {"kind": "masked", "mask_rate": defaults.KINDS[known.kind].mask_rate},
        "optim": optim(defaults.PRETRAIN_RATE),
        "budget": frame.budget(amount.pretrain_steps, "val"),
    }
    stages["finetune"] = {
        "objective": defaults.objective_table(known.signature, known.weights),
        "optim": optim(amount.rates[0]),
        "budget": frame.budget(amount.steps),
    }
    model = defaults.model_table(known.kind, known.labelled, known.lengths)
    return {
        "name": "fit",
        "title": "Training from scratch and from self-pretraining on the same sequences"
        + "".join(arm.title(known) for arm in ARMS.values()),
        "stages": stages,
        "columns": {COLUMN: {"task": dict(known.task), "model": {"kind": "sequence", **model}}},
        "arms": arms,
        "axes": {"finetune.optim.lr": list(amount.rates), "seed": list(settings.runs)},
        "report": {"choose": ["finetune.optim.lr"], "against": "scratch", "baselines": False},
    }


def study_without_networks(known: Known, settings: FitSettings, seed: int, *, slow: bool = False) -> dict[str, Any]:
    """The arms without gradients of the same study, with one seed: the same stages as in the whole of it. slow: those
    that are fitted after the others."""
    table = study_table(known, defaults.Shape(), settings, Amount(defaults.ONE_RATE, 1, 0))
    names = [name for arm in ARMS.values() if not arm.network and arm.slow == slow for name in arm.names]
    return {
        **table,
        "stages": {"finetune": table["stages"]["finetune"]},
        "arms": {name: arm for name, arm in table["arms"].items() if name in names},
        "axes": {"seed": [seed]},
        "report": {"choose": [], "baselines": False},
    }


def _texts(
    known: Known,
    shape: defaults.Shape,
    settings: FitSettings,
    amount: Amount,
    whole: Amount,
    enough: bool,
    plan: Plan,
    why: str = "",
) -> list[str]:
    """What was decided, in words."""
    last = next(spec for stage, spec in _networks(plan) if stage.name == "finetune")
    size, model = last.optim.batch_size, last.model
    mixers = " and ".join(dict.fromkeys(mixer.kind for mixer in model.mixers))
    lines = [f"split: {known.split}"] if known.split else []
    if known.kind == "numbers":
        lines.append("numbers are standardised by the mean and deviation of train")
    lines.append(
        f"network: {many(model.blocks, 'block')} of {mixers}, width {model.width}, {model.norm} norm, "
        f"{model.pool} over positions"
    )
    frame, networks = Frame(known, shape, settings, amount, why), _networks(plan)
    for arm in ARMS.values():
        lines += arm.beside(frame, networks)
    lines += shape.texts(known.lengths)
    singly = [name for arm in ARMS.values() for name in arm.singly(frame)]
    if singly and shape.alone is not None and shape.alone != shape.longest:
        lines.append(f"{listed(singly)}: no positions are joined, and the first {shape.alone:,} are read")
    rates = ", ".join(f"{rate:g}" for rate in amount.rates)
    loss = (
        "squared error"
        if known.signature.target == "number"
        else "cross-entropy" + (", each class weighing the same" if known.weights else "")
    )
    lines.append(
        f"training: {amount.steps:,} steps of {size} sequences, rates {rates}, "
        f"{many(len(settings.runs), 'seed')}; {loss}"
    )
    for arm in ARMS.values():
        lines += arm.lines(frame, networks)
    if settings.time is not None and amount.steps < whole.steps:
        lines.append(
            f"the time of {duration(settings.time)} leaves {amount.steps / whole.steps:.0%} of the steps that "
            "would be taken with more time"
        )
    if not enough and fewest_steps(known, amount) < min(defaults.LEAST_STEPS, whole.steps):
        few = f"{LITTLE} (at least {defaults.LEAST_STEPS} steps are)"
        lines.append(f"{few}: give more --time")
    elif not enough:
        lines.append(f"with fewer than {wanted_steps(known):,} steps networks often lose to n-grams: give more --time")
    return lines


def _timed(known: Known, shape: defaults.Shape, settings: FitSettings, device: str) -> dict[str, StepTime]:
    """Seconds of a step of each stage on this machine."""
    more = defaults.STEPS[1] if known.backbone is not None else 0
    before = defaults.PRETRAIN_STEPS[1] if settings.pretrains else 0
    second = whole_amount(known, settings).second
    few = Amount(defaults.ONE_RATE, defaults.STEPS[1], before, more, more, second)  # a few are taken
    table = study_table(known, shape, replace(settings, seeds=settings.runs[:1]), few)
    table["arms"] = {name: arm for name, arm in table["arms"].items() if name not in without_gradients()}
    overrides = [word for word in settings.overrides if not word.startswith(("seed=", "finetune.optim.lr="))]
    study = read_study(with_places(table, known), overrides)
    return stage_seconds(study, known.data, device)
