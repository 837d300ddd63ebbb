"""The stages of a store as rows: what `headstart ls` prints, filters and writes as JSON. Read from JSON alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from headstart.errors import BadInput, nearest
from headstart.store import StageEntry, Store
from headstart.store.index import summaries

LISTING_COLUMNS = (
    "id",
    "state",
    "stage",
    "arm",
    "task",
    "seed",
    "rate",
    "val",
    "test",
    "metric",
    "date",
    "epochs",
    "seconds",
)
"""Of a listing, the most wanted first: a narrow terminal leaves out the last."""

_FORM = ",".join(LISTING_COLUMNS)


def stage_rows(store: Store, filters: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row per stage, oldest first: a value, or None, under each of LISTING_COLUMNS.

    filters: `arm=scratch`, `task=list*`, `state=complete`: rows are kept that fit all, whose patterns are a shell's.
    `arm` is that of the study that began the stage; several are joined by commas, and each may fit. `date=2026-11-24`
    is all that began on that day.
    Raises: BadInput for a filter that is not `column=pattern`, or names no column.
    """
    wanted = []
    for word in filters:
        name, _, pattern = word.partition("=")
        if not pattern:
            raise BadInput(f"ls: {word!r} is not column=pattern (for example arm=scratch, or task=list*)")
        if name not in LISTING_COLUMNS:
            raise BadInput(f"ls: {word}: {nearest(name, LISTING_COLUMNS)}")
        wanted.append((name, f"{pattern}*" if name == "date" else pattern))
    rows = [row for row in summaries(store, _row, _FORM).values() if row["state"] != "absent"]
    rows.sort(key=lambda row: (str(row["date"] or ""), row["id"]))
    return [row for row in rows if all(_fits(row[name], pattern) for name, pattern in wanted)]


def states(store: Store, identities: Iterable[str]) -> dict[str, str]:
    """The states of stages, as `Store.status` says them."""
    return {name: row["state"] for name, row in summaries(store, _row, _FORM, identities).items()}


def _fits(value: Any, pattern: str) -> bool:
    if isinstance(value, float):
        return fnmatchcase(f"{value:g}", pattern) or fnmatchcase(str(value), pattern)
    return value is not None and any(fnmatchcase(text, pattern) for text in str(value).split(", "))


def _row(entry: StageEntry) -> dict[str, Any]:
    stage, result = entry.stage or {}, entry.result or {}
    spec, budget = stage.get("spec", {}), result.get("budget", {})
    metric = result.get("monitor", {}).get("name")
    scores: Mapping[str, Any] = result.get("scores", {}).get("best", {})
    kind = spec.get("checkpoint", spec.get("model", {})).get("kind", "sequence")
    return {
        "id": entry.identity,
        "state": entry.status,
        "stage": f"{stage.get('name', '')} ({kind})" if kind != "sequence" else stage.get("name"),
        "arm": ", ".join(stage.get("arms", ())) or None,
        "task": spec.get("task", {}).get("kind"),
        "seed": spec.get("seed"),
        "rate": spec.get("optim", {}).get("lr"),
        "val": (scores.get("val") or {}).get(metric),
        "test": (scores.get("test") or {}).get(metric),
        "metric": metric,
        "date": stage.get("started"),
        "epochs": budget.get("epochs"),
        "seconds": budget.get("seconds"),
    }
