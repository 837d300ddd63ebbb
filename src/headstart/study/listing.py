"""The stages of a store as rows: what `headstart ls` prints, filters and writes as JSON; and plans whose stages are all
finished, as `run --dry-run` printed them. Read from JSON alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from headstart.errors import BadInput, nearest
from headstart.store import DONE, StageEntry, Store
from headstart.store.files import canonical, stamps
from headstart.store.index import read_derived, summaries, write_derived

COLUMNS = ("id", "state", "stage", "arm", "task", "seed", "rate", "val", "test", "metric", "date", "epochs", "seconds")
"""Of a listing, the most wanted first: a narrow terminal leaves out the last."""

_FORM = ",".join(COLUMNS)

PLANS, KEPT = ".dry-runs", 4
"""Beside the index, and derived like it: the last plans that were printed when all of their stages were finished."""
STATE = 3
"""Number of the column of a printed plan that has the state of each stage."""


def stage_rows(store: Store, filters: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row per stage, oldest first: a value, or None, under each of COLUMNS.

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
        if name not in COLUMNS:
            raise BadInput(f"ls: {word}: {nearest(name, COLUMNS)}")
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


@dataclass(frozen=True)
class PrintedPlan:
    """A plan as `run --dry-run` prints it. rows: cells of the stages under `heads`; above, below: lines around them."""

    above: list[str]
    heads: list[str]
    rows: list[list[str]]
    below: list[str]


def plan_key(options: Sequence[Any]) -> str:
    """What tells a command from another one, or from itself in another folder, environment or version of this package.

    Of the package's own files time and size count, so that a plan made before a change of the code is not shown.
    """
    root = Path(str(resources.files("headstart")))
    own = [Path(folder, file) for folder, _, files in os.walk(root) for file in files if not file.endswith(".pyc")]
    environment = {name: value for name, value in os.environ.items() if name.startswith("HEADSTART_")}
    document = [options, os.getcwd(), environment, sorted(stamps(own))]
    return hashlib.sha256(canonical(document)).hexdigest()


def remember_plan(store: Store, key: str, plan: PrintedPlan, identities: Sequence[str], files: Iterable[Path]) -> None:
    """Keep a plan whose stages are all finished. identities: of its rows; files: all that it was made of."""
    known = read_derived(store.root / PLANS, "plans")
    entry = {"plan": asdict(plan), "identities": list(identities), "files": stamps(sorted(set(files)))}
    others = [(name, value) for name, value in known.items() if name != key][1 - KEPT :]
    write_derived(store.root / PLANS, "plans", dict([*others, (key, entry)]))


def recall_plan(store: Store, key: str) -> PrintedPlan | None:
    """The plan that was kept under this key, with the states as they are now; None where a file that it was made of has
    changed, or a stage is not finished any more."""
    entry = read_derived(store.root / PLANS, "plans").get(key)
    try:
        if (
            entry is None
            or [list(stamp) for stamp in stamps(Path(path) for path, *_ in entry["files"])] != entry["files"]
        ):
            return None
    except OSError:
        return None
    now = states(store, entry["identities"])
    if any(state not in DONE for state in now.values()):
        return None
    plan = PrintedPlan(**entry["plan"])
    for identity, row in zip(entry["identities"], plan.rows, strict=True):
        row[STATE] = now[identity]
    return plan
