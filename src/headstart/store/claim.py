"""One claimed stage of the store: what may be written into its folder, in the order in which it is.

Every file is published whole; records are appended and cut on resume to what the state in use has seen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart import disk
from headstart.atomic import disk_full, naming, publish, sync_folder, write_all
from headstart.documents import as_json
from headstart.errors import Damaged
from headstart.store import tensors as shared
from headstart.store.files import (
    FILE_FORMAT,
    NOTES,
    RECORDS,
    RESULT,
    SHARING,
    STAGE,
    file_digest,
    optional_json,
    problem,
    publish_json,
    read_json,
    seal,
    states,
    tidy,
    unseal,
)
from headstart.store.locks import Lock
from headstart.store.plain import check_inside, opened
from headstart.store.transfer import check_files

if TYPE_CHECKING:
    import torch

_KEPT_STATES = 2
_FILES = ("best.safetensors", "last.safetensors", "predictions.safetensors", RECORDS, STAGE)


class ClaimedStage:
    """One claimed stage: what may be written, in the order in which it is.

    `notices` collects what a person should hear (damage, states that were given up), `records_cut` the records after
    the state that is gone on from, which are computed again.
    """

    def __init__(self, path: Path, document: Mapping[str, Any], lock: Lock) -> None:
        self.path, self.identity = path, path.name
        self.notices: list[str] = []
        self.records_cut: list[dict[str, Any]] = []
        self.attempts = 0
        self.started = ""
        self._document, self._lock = document, lock
        self._records = _Records()

    def finished(self) -> dict[str, Any] | None:
        """The result if the stage is done and sound. A damaged one is set aside, and said; then None."""
        if not os.path.lexists(self.path / RESULT):
            return None
        damage = problem(self.path)
        if damage is None:
            return read_json(self.path / RESULT)
        aside = _free_name(self.path)
        disk.rename(self.path, aside)
        sync_folder(self.path.parent)
        self.notices.append(f"{damage}; the damaged stage is kept as {aside.name} and is done again")
        return None

    def begin(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Count an attempt; give the newest sound state (tensors, meta), or None to start afresh.

        Records after that state are cut; younger and damaged states are deleted, and that is said.
        """
        if not self.path.is_dir():
            disk.make_folder(self.path, new=True)
            sync_folder(self.path.parent)
        for path in self.path.glob(".*.tmp"):
            disk.unlink(path, missing_ok=True)
        self._count_attempt()
        for name in NOTES.values():
            disk.unlink(self.path / name, missing_ok=True)
        state = self._newest_state()
        length = state[1]["records"]["bytes"] if state else 0
        self.records_cut = _records_after(self.path / RECORDS, length)
        self._records.open(self.path / RECORDS, length)
        return (state[0], state[1]["meta"]) if state else None

    def forget(self) -> None:
        """Start again at step 0: no state and no record is of use."""
        self._records.close()
        for path in states(self.path):
            disk.unlink(path)
        self._records.open(self.path / RECORDS, 0)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record. It is safe once a state or the result has been saved after it."""
        self._records.append(json.dumps(as_json(record), allow_nan=False).encode() + b"\n")

    def save(self, step: int, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]) -> None:
        """Publish a state of this moment, records so far included; the newest two are kept.

        Raises: OSError if it cannot be written; the states before it are then untouched.
        """
        self._lock.check()
        whole = {"identity": self.identity, "step": step, "records": self._records.sync(), "meta": meta}
        publish(self.path / f"state-{step}.safetensors", seal(tensors, whole))
        for old in states(self.path)[_KEPT_STATES:]:
            disk.unlink(old)

    def finish(
        self,
        result: Mapping[str, Any],
        best: Mapping[str, torch.Tensor],
        last: Mapping[str, torch.Tensor],
        predictions: Mapping[str, torch.Tensor],
        references: Mapping[str, Mapping[str, str]] | None = None,
        sources: Mapping[str, bytes] | None = None,
        frozen: Collection[str] = (),
        parents: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Publish weights and predictions, then the result with their digests; then delete the states.

        `references` says of a frozen tensor which stage and weights hold it; those are not stored again. Of the
        others, `frozen` names those that no step has changed: they are kept once per content (`tensors.py`).
        `parents`: IDENTITY/WEIGHTS -> `weights_digest` of what `references` names, as it was when this stage began.
        `sources`: files of plugins by their paths, kept in `source/` to be looked at: nothing ever imports them.
        """
        self._lock.check()
        elsewhere = dict(references or {})
        common = shared.shared_names(best, last, set(frozen) - elsewhere.keys())
        tensors = shared.keep(self.path, {name: best[name] for name in common})
        for which, weights in (("best", best), ("last", last)):
            own = {name: value for name, value in weights.items() if name not in elsewhere and name not in tensors}
            meta = {"identity": self.identity, "weights": which}
            publish(self.path / f"{which}.safetensors", seal(own, meta))
        publish(self.path / "predictions.safetensors", seal(predictions, {"identity": self.identity}))
        code = {f"source/{name}": content for name, content in (sources or {}).items()}
        for name, content in code.items():
            disk.make_folder((self.path / name).parent)
            publish(self.path / name, content)
        self._records.sync()
        whole = {
            **result,
            "identity": self.identity,
            "files": {name: file_digest(self.path / name) for name in (*_FILES, *code)}
            | {file: Path(file).stem for file in tensors.values()},
            "references": elsewhere,
            **({"parents": dict(parents or {})} if elsewhere else {}),
            **({"tensors": tensors} if tensors else {}),
        }
        self._lock.check()
        publish_json(self.path / RESULT, whole, SHARING if tensors else FILE_FORMAT)
        tidy(self.path)
        shared.prune(self.path.parent)
        return read_json(self.path / RESULT)

    def receive(self, files: Mapping[str, bytes], names: Collection[str]) -> None:
        """Publish files that another machine wrote for this stage; with a `result.json`, which goes last, it is done.

        names: states and notes that the other machine has; those here that are not among them go.
        Raises: Damaged, before anything is written, where they are not files of this stage or their digests differ.
        """
        self._lock.check()
        check_files(self.identity, files)
        # The records before the state that counts on them; the result when all that it names is there.
        for name in sorted(files, key=lambda name: (name == RESULT, name.startswith("state-"))):
            check_inside(self.path, name)
            path = self.path / name
            disk.make_folder(path.parent)
            if path.parent.name == shared.FROZEN:
                shared.put(self.path.parent, path, partial(publish, data=files[name]))
            else:
                publish(path, files[name])
        for path in [*states(self.path), *(self.path / note for note in NOTES.values())]:
            if path.name not in names:
                disk.unlink(path, missing_ok=True)
        if RESULT in files:
            shared.prune(self.path.parent)

    def fail(self, message: str, details: str) -> None:
        """Say why in `failure.txt` (a full disk may keep it out): the message, then details. States stay."""
        name = self._document.get("name", self.identity)
        self._note("failed", f"{message}\n\n{name}, attempt {self.attempts}\n{details}\n")

    def cut(self, message: str) -> None:
        """Say that a limit ended the attempt; the next one goes on from the last state."""
        self._note("cut", f"{message}\n")

    def close(self) -> None:
        """Close the records."""
        self._records.close()

    def _note(self, status: str, text: str) -> None:
        try:
            disk.make_folder(self.path)
            publish(self.path / NOTES[status], text.encode("utf-8", errors="replace"))
        except OSError as error:
            if not disk_full(error):
                raise

    def _count_attempt(self) -> None:
        before: dict[str, Any] = {}
        try:
            before = optional_json(self.path / STAGE) or {}
        except Damaged as damage:
            self.notices.append(f"{damage}; it is written anew and attempts are counted from 1")
        self.attempts = before.get("attempts", 0) + 1
        self.started = before.get("started") or datetime.now(UTC).isoformat(timespec="seconds")
        count = {"attempts": self.attempts, "started": self.started}
        publish_json(self.path / STAGE, {"identity": self.identity, **self._document, **count})

    def _newest_state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        damaged: dict[Path, str] = {}
        state = None
        for path in states(self.path):
            try:
                tensors, whole = unseal(path)
                self._check_state(path, whole)
            except (Damaged, FileNotFoundError) as error:
                damaged[path] = str(error)
                continue
            state = (tensors, whole)
            break
        for path in damaged:
            disk.unlink(path, missing_ok=True)
        way = f"the state of step {state[1]['step']} is used" if state else "the stage starts again at step 0"
        self.notices += [f"{damage}; {way}" for damage in damaged.values()]
        return state

    def _check_state(self, path: Path, whole: dict[str, Any]) -> None:
        """Raises: Damaged where a state is of another stage, or the records it counts on are not there."""
        if whole.get("identity") != self.identity:
            raise Damaged(f"{path}: is a state of stage {whole.get('identity')}")
        try:
            with opened(self.path / RECORDS) as file:
                records = file.read(whole["records"]["bytes"])
        except FileNotFoundError:
            records = b""
        if hashlib.sha256(records).hexdigest() != whole["records"]["sha256"]:
            raise Damaged(f"{path}: the records before it are damaged")


def _records_after(path: Path, length: int) -> list[dict[str, Any]]:
    """The whole records behind so many bytes; what a kill or damage left of others is no record."""
    try:
        with opened(path) as file:
            file.seek(length)
            lines = file.read().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    records = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            records.append(json.loads(line) if line.endswith(b"\n") else None)
    return [record for record in records if isinstance(record, dict)]


class _Records:
    """The open `records.jsonl`: appended to, with the length and the digest of all that is in it."""

    def __init__(self) -> None:
        self._path, self._file = Path(), -1
        self._length = 0
        self._hash = hashlib.sha256()

    def open(self, path: Path, length: int) -> None:
        """Open, and cut to so many bytes."""
        self._path, self._file = path, disk.create(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
        with naming(path):
            disk.truncate(self._file, length)
        self._length, self._hash = length, hashlib.sha256(path.read_bytes())

    def append(self, line: bytes) -> None:
        """Add a line. One that a full disk cuts short counts for nothing, and a resume removes it."""
        with naming(self._path):
            write_all(self._file, line)
        self._hash.update(line)
        self._length += len(line)

    def sync(self) -> dict[str, Any]:
        """Make all lines survive a power cut; their length and digest."""
        with naming(self._path):
            disk.sync(self._file)
        return {"bytes": self._length, "sha256": self._hash.hexdigest()}

    def close(self) -> None:
        """Close the file; once is enough."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside
