"""What validation chooses in a study, and what arms have that train on validation too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headstart.study.spec import StudySpec


def chosen_axes(study: StudySpec) -> tuple[str, ...]:
    """`report.choose`, or every axis but seed and those of the model: what is compared is reported side by side."""
    if study.report.choose is not None:
        return study.report.choose
    return tuple(path for path in study.axes if path != "seed" and "model" not in path.split(".")[:2])


def settled(study: StudySpec, arm: str) -> dict[str, Any]:
    """Axes that an arm without validation sets itself: nothing can choose there, so that it has its value alone."""
    table = study.arms[arm]
    task = {**table.get("task", {}), **table.get(study.reported, {}).get("task", {})}
    own = {path: value for path in study.axes if (value := _inner(table, path.split("."))) is not None}
    return {} if task.get("validation", 1) else own


def _inner(table: Any, keys: Sequence[str]) -> Any:
    """What the tables in a table hold under these keys; None where that is nothing."""
    if not keys:
        return table
    return _inner(table.get(keys[0]), keys[1:]) if isinstance(table, Mapping) else None
