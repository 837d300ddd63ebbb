"""Counts of long tests that add up in one JSON file over several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headstart.bench.machine import setting


def read_counts(path: Path | None) -> dict[str, Any]:
    """What earlier runs have counted."""
    document: dict[str, Any] = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
    return document


def write_counts(path: Path | None, document: dict[str, Any]) -> None:
    """Write the counts, where a file was named."""
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def add_run(document: dict[str, Any], what: str, minutes: float) -> None:
    """Note when, where and for how long a run has added to the counts."""
    where = setting("cpu", 1)
    facts = {name: where[name] for name in ("date", "machine", "torch")}
    document.setdefault("runs", []).append({**facts, "what": what, "minutes": minutes})
