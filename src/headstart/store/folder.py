"""What lies in a stage's folder: its files by name, its states, and whether a finished one is sound."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from headstart.store.files import Damaged, file_digest, read_json

DONE = ("complete", "diverged")
"""Statuses that stay: the stage is not tried again."""
NOTES = {"failed": "failure.txt", "cut": "cut.txt"}
"""Statuses that a text file records."""
RECORDS, RESULT, STAGE = "records.jsonl", "result.json", "stage.json"

_STATE = re.compile(r"state-(\d+)\.safetensors")
_checked: dict[Path, tuple[Any, str | None]] = {}  # folder -> (stamps of its files, problem), once a process


def optional_json(path: Path) -> dict[str, Any] | None:
    """`read_json`, or None where there is no such file."""
    try:
        return read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def states(folder: Path) -> list[Path]:
    """Files of states, the newest first."""
    numbered = [(int(match[1]), path) for path in folder.glob("state-*") if (match := _STATE.fullmatch(path.name))]
    return [path for _, path in sorted(numbered, reverse=True)]


def tidy(folder: Path) -> None:
    """Delete what a finished stage no longer needs (a kill may have come before it could)."""
    for path in [*states(folder), *folder.glob(".*.tmp")]:
        path.unlink(missing_ok=True)


def problem(folder: Path) -> str | None:
    """What is wrong with a finished stage (a digest that does not fit, a parent that is gone), or None.

    Each file is hashed once per process, and again only if it looks changed.
    """
    stamps = _stamps(folder)
    known = _checked.get(folder.resolve())
    if known is None or known[0] != stamps:
        known = _checked[folder.resolve()] = (stamps, _check(folder))
    if known[1] is None:
        references = (optional_json(folder / RESULT) or {}).get("references", {})
        for parent in sorted({source["identity"] for source in references.values()}):
            if not _is_done(folder.with_name(parent)):
                return f"{folder}: its frozen weights are those of stage {parent}, which is not there"
    return known[1]


def _is_done(folder: Path) -> bool:
    try:
        return (optional_json(folder / RESULT) or {}).get("status") in DONE
    except Damaged:
        return False


def _check(folder: Path) -> str | None:
    try:
        for name, digest in read_json(folder / RESULT)["files"].items():
            if file_digest(folder / name) != digest:
                return f"{folder / name}: its digest does not fit"
    except FileNotFoundError as error:
        return f"{error.filename}: is missing"
    except (Damaged, OSError) as error:
        return str(error)
    return None


def _stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    if not folder.is_dir():
        return []
    with os.scandir(folder) as files:
        stats = [(file.name, file.stat()) for file in files]
    return sorted((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats)
