"""`run --dry-run`: the distinct stages of a study, their parameters and what they would cost here."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rich.text import Text

from headstart.api import Study
from headstart.runner.job import Runtime
from headstart.runner.machine import choose_device
from headstart.stage import StageSpec, TrainStage
from headstart.store import DONE
from headstart.study.language.budgets import Absences
from headstart.study.language.costs import Speed, speed_here
from headstart.study.language.estimate import Cost, measure, survey
from headstart.study.language.search import PRUNED
from headstart.study.language.time_left import TimeLeft
from headstart.study.results.listing import states as stored_states
from headstart.study.results.searching import Searched
from headstart.text import many
from headstart.verbs.checks import print_absent
from headstart.verbs.run import scale_lines
from headstart.verbs.terminal import console, table
from headstart.words import count, duration

GPU_FLOPS = 1e13
"""FLOPs a second that training reached on one H100 in coser-1: 11 to 12 TFLOP/s (docs/results/coser-1.md)."""
WORTHLESS_SECONDS = 30 * 24 * 3600.0
"""Seconds from which on the time of this machine's workers says nothing to anybody."""


def dry_run_study(study: Study, runtime: Runtime, *, measured: bool = False) -> None:
    """The distinct stages, their parameters and what they would cost. Needs no data where sizes are known.

    Times follow from FLOPs; measured: a few steps of each kind of stage are timed here.
    """
    runtime = replace(runtime, device=choose_device(runtime.device))
    slots, plan = max(runtime.workers, 1), study.plan
    stages = plan.every_stage
    uses = Counter(planned.identity for cell in plan.every_cell for planned in cell.chain)
    absences = Absences(study.data)
    absent = {identity: absences.of(p.spec) for identity, p in stages.items() if p.open}
    stored = stored_states(study.store, (identity for identity in stages if identity not in absent))
    states = {i: stored.get(i) or ("no data" if absent[i].data else "no weights") for i in stages}
    done = {identity for identity, state in states.items() if state in DONE}
    for line in (f"store {study.store.root}", *scale_lines(study)):
        console().print(Text(line))
    costs, speed = study.survey(), speed_here()
    if measured:
        costs, speed = measure(costs, runtime, speed, done)
    by_identity = {cost.planned.identity: cost for cost in costs}
    rows = []
    for i, p in stages.items():
        arm = "" if not p.arms else p.arms[0] + (f" +{len(p.arms) - 1}" if len(p.arms) > 1 else "")
        about = [p.label, arm, "open" if p.open else i, states[i], str(uses[i])]
        rows.append([*about, *_costs_of(p.spec, by_identity.get(i), speed)])
    rest = [cost for cost in costs if cost.planned.identity not in done]
    seconds = TimeLeft(rest, plan.chains, slots, speed).predicted()
    apart = [identity for identity, lack in absent.items() if lack.data]
    unknown = len(stages) - len(costs)
    flops = sum(cost.flops for cost in rest)
    lines = [
        f"{many(len(plan.cells), 'run')}, {many(len(stages), 'distinct stage')}, {len(done):,} finished; "
        f"{count(flops)}FLOP to do",
        _time(flops, seconds, slots),
    ]
    kinds, timed = ({cost.kind for cost in rest if cost.steps and (cost.time or every)} for every in (True, False))
    if kinds and measured:
        others = "; the rest follows from FLOPs" if kinds - timed else ""
        lines.append(f"Steps of {len(timed)} of {len(kinds)} kinds of stages were timed just now{others}.")
    elif kinds:
        lines.append("Times follow from FLOPs; --measure times a few steps of each kind of stage here.")
    if study.searched is not None:
        lines += _of_search(study, study.searched, speed, slots)
    if apart:
        lines.append(f"The data of {many(len(apart), 'stage')} are not in {study.data}; sizes are those of the papers.")
    console().print(table(DRY_RUN_COLUMNS, rows, right=(4, 6, 7, 8, 9, 10, 11, 12, 13)))
    for line in lines:
        console().print(Text(line))
    print_absent(absent.values())
    if unknown:
        console().print(
            f"The cost of {many(unknown, 'stage')} is unknown until what they read is there, and is not counted."
        )


DRY_RUN_COLUMNS = ["stage", "arm", "id", "state", "runs", "task", "seed", "rate", "time", "steps", "FLOP", "examples"]
DRY_RUN_COLUMNS += ["parameters", "trained"]


def _of_search(study: Study, searched: Searched, speed: Speed, slots: int) -> list[str]:
    """How many stages a search comes to in all, and what they cost at the settings as they are written."""
    costs = survey(searched.written)
    times = searched.times(short=1 / PRUNED)
    stages = round(sum(searched.times().values()))
    flops = sum(cost.flops * times.get(cost.planned.identity, 0) for cost in costs)
    seconds = sum(sum(cost.seconds_at(speed)) * times.get(cost.planned.identity, 0) for cost in costs) / slots
    return [
        f"Search: {study.progress}, drawn {searched.search.batch} at a time for each arm and column; the stages above "
        "are those drawn by now.",
        f"The whole search and its fresh seeds are {many(stages, 'stage')} and {count(flops)}FLOP at the "
        f"settings as written. {_time(flops, seconds, slots)}",
    ]


def _time(flops: float, seconds: float, slots: int) -> str:
    """What it takes on a GPU, from an hour on, and here."""
    hours = flops / GPU_FLOPS / 3600
    here = f"about {duration(seconds)} with {slots} worker(s) here (an estimate for this machine)"
    if hours < 1:
        return f"Time: {here}."
    gpu = f"about {many(round(hours), 'GPU hour')}, at the {count(GPU_FLOPS)}FLOP/s that small models reach on an H100"
    return f"Time: {gpu}." if seconds > WORTHLESS_SECONDS else f"Time: {gpu}; {here}."


def _costs_of(spec: StageSpec, cost: Cost | None, speed: Speed) -> list[str]:
    """The cells of a stage: what it is, and what it costs."""
    rate = f"{spec.optim.lr:g}" if isinstance(spec, TrainStage) else ""
    head = ["" if spec.task is None else spec.task.kind, str(spec.seed) if spec.seeded else "", rate]
    if cost is None:
        return [*head, *["unknown"] * 6]
    sizes = f"{cost.steps:,}", count(cost.flops), count(cost.examples), f"{cost.parameters:,}", f"{cost.trainable:,}"
    return [*head, duration(sum(cost.seconds_at(speed))), *sizes]
