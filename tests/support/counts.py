"""Counts of long tests that add up in one JSON file over several runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
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


@contextlib.contextmanager
def changed(path: Path | None, document: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """The counts of a file, to be changed: of runs at once each sees what the others have added, and each has seeds of
    its own. document: that is changed where no file was named."""
    if path is None:
        yield {} if document is None else document
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        counts = read_counts(path)
        yield counts
        write_counts(path, counts)
    finally:
        os.close(folder)


def seeds(document: dict[str, Any], name: str, first: int = 0, number: int = 1) -> int:
    """The first of so many seeds that no other run has. document: of seeds by name, which is changed."""
    seed: int = document.get(name, first)
    document[name] = seed + number
    return seed


def add_run(document: dict[str, Any], what: str, minutes: float) -> None:
    """Note when, where and for how long a run has added to the counts."""
    where = setting("cpu", 1)
    facts = {name: where[name] for name in ("date", "machine", "torch")}
    runs = document.setdefault("runs", [])
    if runs and {**runs[-1], "minutes": 0} == {**facts, "what": what, "minutes": 0}:  # it goes on
        minutes = round(minutes + runs.pop()["minutes"], 2)
    runs.append({**facts, "what": what, "minutes": minutes})
