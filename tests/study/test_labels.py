"""Names say what was run: numbers in titles, notes and names are those of the plan, and stand-ins are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.planning import has_scales
from support.thinned import thinned

from headstart.report.tables.paper import STAND_IN, beside
from headstart.report.tables.scores import make_table
from headstart.stage import TrainStage
from headstart.study.language.budgets import Outlines
from headstart.study.language.files import built_in_studies
from headstart.study.language.papers import read_paper
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.scales import DATA_KEYS
from headstart.study.language.spec import StudySpec, read_study
from headstart.study.paper.summary import summarise
from headstart.tasks.outline import outlined

NOWHERE = Path("/nonexistent")
STUDIES = [name for name in built_in_studies() if has_scales(name)]
COUNTS = {
    word: i
    for i, word in enumerate(
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
_ONE = rf"\d[\d,]*|{'|'.join(COUNTS)}"
LABELS = {
    "blocks": rf"\b({_ONE})(?: (?:and|or) ({_ONE}))? blocks?\b",
    "width": rf"\bwidth ({_ONE})(?: and ({_ONE}))?\b",
    "epochs": rf"\b({_ONE})(?: (?:and|or|\+) ({_ONE}))? epochs?\b",
    "steps": rf"\b({_ONE})(?: (?:and|or|to) ({_ONE}))? steps\b",
    "labels": rf"\b({_ONE}) label(?:s|led)\b",
    "positions": rf"(?<!steps of )(?<!sizes of )(?<![\w,])({_ONE}) positions\b",
    "parameters": rf"\b({_ONE})(?: and ({_ONE}))? parameters\b",
    "seeds": rf"\b({_ONE}) seeds?\b",
}
IN_NAMES = {
    "epochs": r"epochs_(\d+)$",
    "blocks": r"(?:^|_)(\d+)_blocks?$",
    "parameters": r"(?:^|_)(\d+[km])$",
}
PARAMETERS = (LABELS["parameters"], IN_NAMES["parameters"])
TOLERANCE = 0.25
"""Of a number of parameters, which labels round."""


def study_at(name: str, scale: str, there: bool) -> StudySpec:
    return read_study(name, ["seed=[0]"], scale=scale, at_hand=lambda task: there or task.generated)


def numbers(label: str, text: str) -> list[float]:
    out: list[float] = []
    for match in re.finditer(label, text):
        for word in filter(None, match.groups()):
            times = {"k": 1e3, "m": 1e6}.get(word[-1], 1.0) if word[0].isdigit() else 1.0
            out.append(COUNTS[word] if word in COUNTS else float(word.rstrip("km").replace(",", "")) * times)
    return out


@cache
def outlines() -> Outlines:
    """Sizes of stages without data: those of one study are mostly those of another."""
    return Outlines(NOWHERE)


def facts(plan: Plan, seeds: int, sized: bool) -> dict[str, set[float]]:
    """What the stages of a plan are: the numbers that a label may say. sized: parameters are counted, which takes most of the time."""
    out: dict[str, set[float]] = {name: set() for name in LABELS}
    out["seeds"] = {seeds}
    for cell in plan.cells:
        budgets = [planned.spec.budget for planned in cell.chain if isinstance(planned.spec, TrainStage)]
        out["epochs"] |= {round(budget.epochs, 6) for budget in budgets if budget.epochs}
        out["epochs"].add(round(sum(budget.epochs or 0.0 for budget in budgets), 6))
        out["steps"] |= {float(budget.steps) for budget in budgets if budget.steps}
    own = [planned.spec for planned in plan.stages.values() if isinstance(planned.spec, TrainStage)]
    specs: dict[str, TrainStage] = {repr((spec.model, spec.task)): spec for spec in own}
    for spec in specs.values():
        out["blocks"].add(spec.model.blocks)
        out["width"].add(spec.model.width)
        out["labels"] |= {spec.task.labelled} if spec.task.labelled else set()
        task, size = outlined(spec.task, NOWHERE), outlines().size(spec) if sized else None
        out["positions"] |= {task.signature.length, getattr(spec.task, "max_length", 0)} if task else set()
        out["parameters"] |= {size.parameters} if size else set()
    return out


def texts(study: StudySpec) -> Iterator[str]:
    """Title, claims and the first sentence of the note, without what they say of the paper in brackets."""
    claims = read_paper(study.paper).claims if study.paper else ()
    for text in (study.title, study.scale_note.split(". ")[0], *(claim.says for claim in (*claims, *study.claims))):
        yield re.sub(r"\([^()]*\bpaper\b[^()]*\)", "", text).lower()


def misleading(study: StudySpec, plan: Plan, seeds: int) -> list[tuple[str, str, float, list[float]]]:
    """(text, what, number, those of the plan) of each label that says another size than the plan has."""
    names, wrong = [*study.columns, *study.arms], []
    sized = any(numbers(label, text) for label in PARAMETERS for text in (*names, *texts(study)))
    values = facts(plan, seeds, sized)
    for what, label in [*LABELS.items(), *IN_NAMES.items()]:
        for text in names if label in IN_NAMES.values() else texts(study):
            for number in numbers(label, text):
                near = TOLERANCE * number if what == "parameters" else 0
                if not any(abs(number - value) <= near for value in values[what]):
                    wrong.append((text, what, number, sorted(values[what])))
    return wrong


def test_a_label_that_a_plan_contradicts_is_found() -> None:
    assert numbers(LABELS["blocks"], "six blocks or twelve") == [6]
    assert numbers(LABELS["epochs"], "10 epochs of pretraining, then 20 + 30 epochs") == [10, 20, 30]
    assert numbers(LABELS["parameters"], "models of 100,000 and 300,000 parameters") == [1e5, 3e5]
    assert numbers(IN_NAMES["parameters"], "100k") == [1e5]
    assert numbers(IN_NAMES["epochs"], "epochs_200") == [200]


CASES = [(name, scale, there) for name in STUDIES for scale in ("tiny", "small") for there in (True, False)]


@pytest.mark.parametrize(("name", "scale", "there"), thinned(CASES, 3))
def test_no_label_says_another_size_than_the_plan_has_and_other_data_are_marked_in_every_table(
    name: str, scale: str, there: bool
) -> None:
    study, own = study_at(name, scale, there), read_study(name, ["seed=[0]"], scale="paper")
    for column, bundle in study.columns.items():
        if column not in own.columns:  # asked at this scale alone: what is meant is what is read where it is at hand
            own = study_at(name, scale, True)
        for stage in study.stages:
            here, meant = (
                {**table.stages[stage].get("task", {}), **part.get("task", {}), **part.get(stage, {}).get("task", {})}
                for table, part in ((study, bundle), (own, own.columns[column]))
            )
            other = [here.get(key) for key in DATA_KEYS] != [meant.get(key) for key in DATA_KEYS]
            assert (stage in study.stood_in.get(column, {})) == other, (column, stage)
    plan = make_plan(study, NOWHERE, absent="open")
    assert not there or not misleading(study, plan, len(read_study(name, scale=scale).axes["seed"]))
    used = {planned.name for cell in plan.cells for planned in cell.chain}
    if study.paper is None or not any(used & set(stages) for stages in study.stood_in.values()):
        return
    results = summarise(plan, lambda _: None)
    assert results.stood_in
    assert results.stood_in in results.heading
    for line in make_table(results).lines if len(results.columns) > 1 else ():
        column = line.cells["column"].text.split(" (")[0]
        rows = results.in_column(column.removesuffix(", stand-in"))
        assert column.endswith(", stand-in") == (bool(rows) and all(row.stand_in for row in rows))
    table = beside(results)
    for line in table.lines if table else ():
        row = results.row(line.cells["arm"].text.split(" [")[0], line.cells["column"].text.split(" (paper")[0])
        if row is not None and row.stand_in:
            assert (line.cells["ours"].text, line.status) == ("\N{EM DASH}", STAND_IN)
