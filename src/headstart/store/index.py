"""A summary of every finished stage in one file, so that listing many of them reads one file instead of thousands.

`<store>/.index` is derived: a summary is used only while `result.json` and `stage.json` are the files that it was made
of (time, size and number of each), and the file may be deleted at any time. Its first line holds the digest of the
second, so that a damaged one is made again. Processes that write it at once leave one of the two whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from headstart.atomic import publish
from headstart.errors import Damaged
from headstart.store.files import DONE, RESULT, STAGE
from headstart.store.plain import read_plain
from headstart.store.stages import StageEntry, Store

INDEX_FOLDER = ".index"
INDEX_FORMAT = 1

IndexRow = dict[str, Any]


def summaries(
    store: Store, make: Callable[[StageEntry], IndexRow], form: str, names: Iterable[str] | None = None
) -> dict[str, IndexRow]:
    """Identity -> what `make` says of the stage, from the index where that is current; the index is brought up to date.

    make: JSON material of an entry; what it makes has the form that `form` names, and an index of another is not used.
    names: of the stages (None: all of the store).
    """
    path = store.root / INDEX_FOLDER
    indexed: Mapping[str, list[Any]] = read_derived(path, form)
    fresh: dict[str, list[Any]] = {}
    rows: dict[str, IndexRow] = {}
    for name in store.names() if names is None else names:
        key = _key(store.root / name)  # before the files are read: a change in between is seen the next time
        if key is not None and name in indexed and indexed[name][0] == key:
            rows[name] = indexed[name][1]
            continue
        entry = store.entry(name)
        rows[name] = make(entry)
        if key is not None and entry.status in DONE:
            fresh[name] = [key, rows[name]]
    gone = indexed.keys() - rows.keys() if names is None else set[str]()
    if fresh or gone:
        write_derived(path, form, {name: item for name, item in {**indexed, **fresh}.items() if name not in gone})
    return rows


def _key(folder: Path) -> list[int] | None:
    """What tells the files of a finished stage from changed ones; None where there is no result."""
    key: list[int] = []
    for file in (RESULT, STAGE):
        try:
            stat = os.stat(f"{folder}/{file}")
        except OSError:
            if file == RESULT:
                return None
            continue
        key += (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return key


def read_derived(path: Path, form: str) -> Mapping[str, Any]:
    """What a derived file holds; nothing where it is absent, damaged or of another form."""
    try:
        head, _, body = read_plain(path, None).partition(b"\n")
        note = json.loads(head)
        if note == {"format": INDEX_FORMAT, "form": form, "digest": hashlib.sha256(body).hexdigest()}:
            content: dict[str, Any] = json.loads(body)
            return content
    except (OSError, ValueError, RecursionError, Damaged):
        pass
    return {}


def write_derived(path: Path, form: str, content: Mapping[str, Any]) -> None:
    """Publish a derived file; a store that cannot be written stays without."""
    body = json.dumps(content, separators=(",", ":")).encode()
    head = {"format": INDEX_FORMAT, "form": form, "digest": hashlib.sha256(body).hexdigest()}
    with contextlib.suppress(OSError):
        publish(path, json.dumps(head).encode() + b"\n" + body)
