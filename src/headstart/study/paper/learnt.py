"""How well the stages that others start from learnt, from their own scores on validation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.objectives.reconstruction import Reconstruction
from headstart.statistics import estimate, mean
from headstart.study.results.collect import Find, score_of
from headstart.study.results.results import Results
from headstart.study.results.rows import sharing_stage
from headstart.words import Texts

if TYPE_CHECKING:
    from headstart.study.language.plan import Plan

EXPLAINED_R2 = 0.01
"""R2 below which a stage has explained nothing, whatever its loss: of black images, black is the median."""


def learnt_nothing(results: Results, find: Find) -> Texts:
    """Stages to start from that explain nothing of what they were to predict: there is nothing to take over."""
    groups: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for column, name, identities, arms in _parents(results):
        every = [score_of(find(identity), "val", "r2") for identity in identities]
        scores = [score for score in every if score is not None]
        if scores and mean(scores) < EXPLAINED_R2:
            groups.setdefault((column, name), []).append((words.listed(arms), mean(scores)))
    for (column, name), each in groups.items():
        if len(each) == 1:
            who, share = each[0][0], f"R² {words.score(each[0][1])}; the mean has 0"
        else:
            who, share = (
                words.listed([f"{arms} (R² {words.score(value)})" for arms, value in each]),
                "its mean has R² 0",
            )
        yield (
            column,
            f"{who}: stage {name} learnt next to nothing. On validation it predicts no better than a constant "
            f"({share}), so that what is seen here says little of a start that learnt.",
        )


def learnt(results: Results, plan: Plan, find: Find) -> Texts:
    """Of each stage to start from its mean score on validation over seeds, beside that of an answer without input."""
    groups: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
    for column, name, identities, arms in _parents(results):
        planned = plan.every_stage.get(identities[0])
        if planned is None or planned.spec.model.kind == "checkpoint":  # what it was trained on is not known here
            continue
        spec = planned.spec
        scores = [score for i in identities if (score := _score(find(i), spec)) is not None]
        value = estimate(number for _, number, _ in scores)
        if value is None:
            continue
        head, _, unit = scores[0]
        data = "the file" if spec.task.kind == "own" else spec.task.kind
        seeds = words.many(value.n, results.run_noun)
        key = (column, name, data, head, unit, seeds, _blind(spec, head))
        groups.setdefault(key, []).append((arms, words.plus_minus(value)))
    for (column, name, data, head, unit, seeds, blind), each in groups.items():
        if len(each) == 1:
            arms, own = each[0]
            who = words.arms(arms, [row.arm for row in results.in_column(column)])
            starts = "starts" if len(arms) == 1 or who.startswith("every arm") else "start"
            text = (
                f"Stage {name}, from which {who} {starts}, was trained on {data}: {head}{own}{unit} ({seeds}){blind}."
            )
        else:
            listed = words.listed([f"{own} ({words.listed(arms)})" for arms, own in each])
            text = f"Stage {name}, another one for each of these arms, was trained on {data}: {head}{listed}{unit} "
            text += f"({seeds} each){blind}."
        yield column, text


def _parents(results: Results) -> Iterator[tuple[str, str, tuple[str, ...], list[str]]]:
    """(column, name of a stage, its identities over seeds at the chosen settings, the arms that start from it)."""
    for column in results.columns:
        rows = results.in_column(column)
        for name in dict.fromkeys(name for row in rows for run in row.runs for name, _ in run.stages[:-1]):
            yield from ((column, name, *shared) for shared in sharing_stage(rows, name).items())


def _score(result: Mapping[str, Any] | None, spec: Any) -> tuple[str, float, str] | None:
    """(what stands before the number, the number, its unit): of tokens bits, else the score that chose the weights."""
    if result is None or "monitor" not in result:
        return None
    loss = score_of(result, "val", "loss")
    reconstructs = isinstance(spec.objective, Reconstruction)
    if reconstructs and loss is not None and score_of(result, "val", "accuracy") is not None:
        unit = "value" if spec.objective.loss == "levels" else "token"
        return "", loss / math.log(2), f" bits per {unit} on validation"
    metric = str(result["monitor"]["name"])
    value = score_of(result, "val", metric)
    return None if value is None else (f"validation {words.metric(metric)} ", value, "")


def _blind(spec: Any, head: str) -> str:
    """What an answer that looks at no input has, where that is known."""
    if words.metric("r2") in head:
        return "; the mean has 0"
    if not spec.objective.uses_target:  # an objective of a plugin: what it asks has other classes than the task
        return ""
    outline = None if spec.task.class_count else spec.task.outline()
    classes = spec.task.class_count if outline is None else outline.signature.classes
    return f"; a guess has {words.score(1 / classes)}" if classes and " accuracy" in head else ""
