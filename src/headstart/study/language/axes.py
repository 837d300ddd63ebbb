"""What validation chooses in a study, which axes each arm has, and where a setting is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headstart.errors import BadInput
from headstart.study.language.scales import VARIANTS, names_of, set_by
from headstart.study.language.spec import StudySpec

MOST_RUNS = 100_000
"""Runs that a study may ask for, counted before any is planned: four axes of a hundred values are 10^8."""


def chosen_axes(study: StudySpec) -> tuple[str, ...]:
    """What is searched, or `report.choose`, or every axis but seed and those of the model: what is compared is reported
    side by side."""
    if study.search is not None:
        return tuple(study.search.over)
    if study.report.choose is not None:
        return study.report.choose
    return tuple(path for path in study.axes if path != "seed" and "model" not in path.split(".")[:2])


def check_number(study: StudySpec) -> None:
    """Raises: BadInput for more runs than a study may ask for."""
    axes_by_arm = {arm: axes_of(study, arm).values() for arm in study.arms}
    number = max(len(study.columns), 1) * sum(math.prod(map(len, values)) for values in axes_by_arm.values())
    if number > MOST_RUNS:
        raise BadInput(
            f"axes: arms, columns and values make {number:,} runs, and a study has at most {MOST_RUNS:,}; take "
            "values out, or let [search] draw some of them"
        )


def axes_of(study: StudySpec, arm: str) -> dict[str, list[Any]]:
    """The axes that an arm's runs go through. One without validation, where nothing can choose, has the value alone
    that it sets itself."""
    table, axes = study.arms[arm], {path: list(values) for path, values in study.axes.items()}
    task = {**table.get("task", {}), **table.get(study.reported, {}).get("task", {})}
    if not task.get("validation", 1):
        axes |= {path: [value] for path in axes if (value := _inner(table, path.split("."))) is not None}
    return axes


def place_of(study: StudySpec, arm: str, column: str, setting: str) -> str:
    """Where a setting of a stage is written; empty where it is nowhere."""
    for axis, values in study.axes.items():
        if set_by(study.stages, axis, values, setting):
            return f"axes.{axis}"
    for name in study.search.over if study.search else ():
        if set_by(study.stages, name, [None], setting):
            return f"search.over.{name}"
    path = setting.partition(".")[2]
    bundle = study.columns.get(column, {})
    sources = {f"arms.{arm}": study.arms.get(arm, {})}
    for variant in names_of(sources[f"arms.{arm}"].get("variant", ())):
        sources[f"columns.{column}.{VARIANTS}.{variant}"] = bundle.get(VARIANTS, {}).get(variant, {})
    for name, table in {**sources, f"columns.{column}": bundle, "stages": study.stages}.items():
        for inner in (setting, path) if name != "stages" else (setting,):
            if path and _inner(table, inner.split(".")) is not None:
                return f"{name}.{inner}"
    return ""


def _inner(table: Any, keys: Sequence[str]) -> Any:
    """What the tables in a table hold under these keys; None where that is nothing."""
    if not keys:
        return table
    return _inner(table.get(keys[0]), keys[1:]) if isinstance(table, Mapping) else None
