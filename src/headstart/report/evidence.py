"""What stands behind a number of the page: the runs of a row, its sweep, and each stage with its account."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.store.files import Damaged
from headstart.study import words
from headstart.study.fairness import by_seed, reference
from headstart.study.results import AMOUNTS, Point, Results, Row

if TYPE_CHECKING:
    from headstart.store.stages import Store
    from headstart.study.plan import Plan


class Anchors:
    """Names of places in the page: numbered, so that no foreign text stands in a link."""

    def __init__(self, results: Results) -> None:
        self._rows = {row.key: f"row-{i}" for i, row in enumerate(results.table, start=1)}
        self._facts = {column: f"task-{i}" for i, column in enumerate(results.columns, start=1)}

    def row(self, key: str) -> str:
        """Of the runs behind a row."""
        return self._rows[key]

    def facts(self, column: str) -> str:
        """Of what is known of a column's task."""
        return self._facts.get(column, "")

    @staticmethod
    def stage(identity: str) -> str:
        """Of a stage."""
        return f"stage-{identity}"


@dataclass(frozen=True)
class PageStage:
    """A stage as the page shows it. `chosen`: a reported number rests on it; the others are listed."""

    identity: str
    name: str
    title: str
    status: str
    chosen: bool
    seed: int
    monitored: str
    parent: str
    spec: str
    result: Mapping[str, Any]
    scores: tuple[tuple[str, tuple[str, ...]], ...]
    metrics: tuple[str, ...]
    budget: tuple[tuple[str, str], ...]
    provenance: tuple[tuple[str, str], ...]
    account: tuple[Mapping[str, Any], ...]
    files: tuple[tuple[str, str], ...]


def page_stages(plan: Plan, results: Results, store: Store) -> list[PageStage]:
    """All stages of a plan, parents first, with the rows that each serves in its title."""
    chosen = {identity for row in results.table for identity in row.stages}
    serves: dict[str, dict[str, None]] = {}
    settings: dict[str, dict[str, None]] = {}
    for cell in plan.cells:
        for planned in cell.chain:
            serves.setdefault(planned.identity, {})[_served(cell, results)] = None
            own = {
                k: v
                for k, v in cell.settings.items()
                if k.startswith(f"{planned.name}.") or k.split(".")[0] not in plan.study.stages
            }
            text = words.settings(own, results.names)
            if text != words.NONE:
                settings.setdefault(planned.identity, {})[text] = None
    out = []
    for identity, planned in plan.stages.items():
        title = [words.listed(list(serves.get(identity, {}))), *settings.get(identity, {})]
        out.append(_stage(identity, planned, ", ".join(title), identity in chosen, store))
    return out


def _served(cell: Any, results: Results) -> str:
    return f"{cell.arm} on {cell.column}" if len(results.columns) > 1 else str(cell.arm)


def _stage(identity: str, planned: Any, title: str, chosen: bool, store: Store) -> PageStage:
    try:
        entry = store.entry(identity)
        status, result = entry.status, entry.result or {}
        parent = str((entry.stage or {}).get("parent") or "")
    except Damaged:
        status, result, parent = "failed", {}, ""
    spec = planned.spec.model_dump(mode="json")
    spec["parent"] = parent or None
    monitor = result.get("monitor", {}).get("name", "")
    best = result.get("scores", {}).get("best", {}).get("val", {}).get(monitor)
    return PageStage(
        identity,
        planned.name,
        title,
        str(status),
        chosen,
        int(planned.spec.seed),
        f"{words.metric(monitor)} {words.score(best)}" if monitor else "",
        parent,
        json.dumps(spec, indent=1, ensure_ascii=False),
        result,
        *_scores(result),
        _budget(result),
        _provenance(result),
        tuple(result.get("parameters", {}).get("account", ())),
        tuple(result.get("files", {}).items()),
    )


def _scores(result: Mapping[str, Any]) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    """Lines (weights and split -> scores as text) and the names of the scores."""
    scores = result.get("scores", {})
    names = list(dict.fromkeys(n for w in scores.values() for s in ("train", "val", "test") for n in w.get(s, {})))
    lines = [
        (
            f"{weights} (epoch {words.plain(found.get('epoch'))}), {split}",
            tuple(words.score(found[split].get(name)) for name in names),
        )
        for weights, found in sorted(scores.items())
        for split in ("train", "val", "test")
        if split in found
    ]
    return tuple(lines), tuple(words.metric(n) for n in names)


def _budget(result: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = result.get("budget", {})
    out = [
        (name, words.duration(given[name]) if name == "seconds" else words.count(given[name]))
        for name in AMOUNTS
        if given.get(name) is not None
    ]
    if given.get("peak_memory"):
        out.append(("peak memory", words.measure(given["peak_memory"], "B")))
    total = result.get("parameters", {})
    if total:
        out.append(("parameters", f"{total.get('total', 0):,}"))
        out.append(("of them trained", f"{total.get('trainable', 0):,}"))
    return tuple(("time" if k == "seconds" else k, v) for k, v in out)


def _provenance(result: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = dict(result.get("provenance", {}))
    versions = given.pop("versions", {})
    out = [(name, words.plain(value)) for name, value in given.items()]
    if versions:
        out.append(("versions", ", ".join(f"{k} {v}" for k, v in versions.items())))
    return tuple(out)


def sweep_rows(row: Row, results: Results, anchors: Anchors) -> dict[str, Any]:
    """The evidence of one row for the template: its runs by seed, its paired differences, its sweep."""
    other = reference(row, results.table, results.against)
    theirs = by_seed(other) if other is not None else {}
    runs = [
        {
            "seed": run.seed,
            "status": run.status,
            "val": words.score(run.val),
            "test": words.score(run.test),
            "gap": words.signed(run.test - theirs[run.seed])
            if run.test is not None and run.seed in theirs
            else words.NONE,
            "time": words.duration(run.budget.get("seconds")),
            "stages": _links(run.stages),
        }
        for run in row.runs
    ]
    title = f"{row.arm} on {row.column}" if len(results.columns) > 1 else row.arm
    return {
        "anchor": anchors.row(row.key),
        "title": title,
        "row": row,
        "runs": runs,
        "chosen": words.settings(row.chosen, results.names),
        "metric": words.metric(row.metric),
        "against": results.against if other is not None else "",
        "other": anchors.row(other.key) if other is not None else "",
        "points": [_point(point, row, results) for point in row.points] if len(row.points) > 1 else [],
        "amounts": [
            (name, *(_amount(name, a.get(name)) for a in (row.budget, row.last, row.tried))) for name in AMOUNTS
        ],
    }


def _amount(name: str, value: float | None) -> str:
    return words.duration(value) if name == "seconds" else words.count(value)


def _point(point: Point, row: Row, results: Results) -> dict[str, Any]:
    return {
        "settings": words.settings(point.settings, results.names),
        "val": words.plus_minus(point.val),
        "n": point.val.n if point.val else 0,
        "status": point.status,
        "chosen": point.settings == row.chosen,
        "stages": _links([run.stages[-1] for run in point.runs]),
    }


def _links(stages: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "identity": identity, "anchor": Anchors.stage(identity)} for name, identity in stages]
