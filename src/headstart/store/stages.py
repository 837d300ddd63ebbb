"""The store: one folder per stage, named by its identity; what is whole in it is true.

`runs/<identity>/` holds `stage.json`, `records.jsonl` and, while partial, the newest two
`state-<step>.safetensors`; when done `best`, `last` and `predictions` (safetensors), frozen tensors in `frozen/`,
which stages share (`tensors.py`), and, written last, `result.json` with the digest of each. Reading JSON imports
neither torch nor numpy.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headstart import disk
from headstart.atomic import publish
from headstart.documents import from_json, misfits
from headstart.errors import BadInput, Damaged
from headstart.store.claim import ClaimedStage
from headstart.store.files import (
    DONE,
    IDENTITY,
    NOTES,
    RECORDS,
    RESULT,
    STAGE,
    foreign,
    optional_json,
    problem,
    publish_json,
    read_json,
    seal,
    unseal,
    weights_digest,
)
from headstart.store.forms import RECORD_FORM
from headstart.store.locks import Lock, Locks
from headstart.store.plain import MOST_RECORDS, check_inside, check_tree, inside, read_plain
from headstart.store.tensors import TENSOR_INDEX, read
from headstart.ways import argument

if TYPE_CHECKING:
    import torch

Status = Literal["absent", "partial", "running", "complete", "diverged", "failed", "cut"]
Which = Literal["best", "last"]

REPORTS, UNPACKED = "reports", ".unpacked"
"""Folders of a store beside its stages: of reports, and the one in which files are unpacked."""


def _there(folder: Path) -> bool:
    """Whether a folder is there: most stages of a plan are not, and their files need no looking for. Raises: OSError
    where the disk does not say."""
    try:
        os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def store_folder(option: str | os.PathLike[str] | None) -> Path:
    """`--store`, else HEADSTART_STORE, else ./runs. Raises: BadInput where a file is in the way."""
    folder = Path(option or os.environ.get("HEADSTART_STORE") or "runs")
    for path in (folder, *folder.parents):
        if os.path.lexists(path) and not os.path.isdir(path):
            raise BadInput(f"{argument('store')}: {str(path)!r} is not a folder; name another one")
    return folder


def store_of(file: Path) -> Path | None:
    """The store of a report's `study.toml`: `runs` of `runs/reports/digits/study.toml`; None for any other file."""
    reports = file.absolute().parent.parent
    return reports.parent if file.name == "study.toml" and reports.name == "reports" and file.is_file() else None


def store_folder_for(study: str, option: str | os.PathLike[str] | None) -> Path:
    """The store of a study's run: as `store_folder` says, but a report's own `study.toml` finds the store around it."""
    # The command on a report's page is given in the report's folder.
    around = None if option or os.environ.get("HEADSTART_STORE") else store_of(Path(study))
    return store_folder(option or around)


@dataclass(frozen=True)
class StageEntry:
    """One stage of a listing. `stage` and `result` are the JSON of their files, None where absent."""

    identity: str
    status: Status
    stage: dict[str, Any] | None
    result: dict[str, Any] | None
    message: str = ""


class Store:
    """A folder of stages. Cheap to make; nothing is read or created before it is asked for."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._locks = Locks(self.root / ".locks")

    def folder(self, identity: str) -> Path:
        """Where a stage lies.

        Raises: BadInput if this is not an identity (16 hex digits).
        """
        if not IDENTITY.fullmatch(identity):
            raise BadInput(f"stage: {identity!r} is not an identity (16 hex digits); see `headstart ls`")
        return self.root / identity

    def status(self, identity: str) -> Status:
        """absent, partial, running, complete, diverged, failed (tried again) or cut (by a time limit)."""
        return self.entry(identity).status

    def finished(self, identity: str) -> bool:
        """Whether a stage is done and is not tried again: complete, or diverged."""
        return self.status(identity) in DONE

    @staticmethod
    def root_of(option: str | os.PathLike[str] | None) -> Path:
        """Where a store is: what is named, else HEADSTART_STORE, else ./runs."""
        return store_folder(option)

    @staticmethod
    def save_document(path: Path, document: Mapping[str, Any]) -> None:
        """Publish JSON beside stages, whole or not at all, with a digest."""
        publish_json(path, document)

    @staticmethod
    def read_document(path: Path) -> dict[str, Any]:
        """JSON of `save_document`. Raises: FileNotFoundError; Damaged where it is not what was written; BadInput where
        its format is newer."""
        return {name: value for name, value in read_json(path).items() if name != "format"}

    def entry(self, identity: str) -> StageEntry:
        """What the JSON of one stage says."""
        folder = self.folder(identity)
        try:
            result, stage = (self.result(identity), self.stage(identity)) if _there(folder) else (None, None)
        except Damaged as damage:
            return StageEntry(identity, "failed", None, None, f"{damage}; run its study again: it is done anew")
        if result is not None:
            return StageEntry(identity, result["status"], stage, result)
        if self._locks.held(identity):
            return StageEntry(identity, "running", stage, None)
        if stage is None:
            return StageEntry(identity, "absent", None, None)
        for status in ("failed", "cut"):
            note = folder / NOTES[status]
            with contextlib.suppress(FileNotFoundError, Damaged):
                first = read_plain(note).decode("utf-8", errors="replace").partition("\n")[0]
                return StageEntry(identity, status, stage, None, first)
        return StageEntry(identity, "partial", stage, None)

    def damaged(self, identities: Iterable[str]) -> list[str]:
        """What is wrong with those of these stages that are finished, but for a result which cannot be read."""
        entries = (self.entry(name) for name in identities if os.path.lexists(self.folder(name) / RESULT))
        return [entry.message for entry in entries if entry.result is None]

    def listing(self) -> list[StageEntry]:
        """All stages, oldest first."""
        entries = [entry for name in self.names() if (entry := self.entry(name)).status != "absent"]
        return sorted(entries, key=lambda e: (str((e.stage or {}).get("started", "")), e.identity))

    def find(self, prefix: str) -> str:
        """The identity that starts with these digits.

        Raises: BadInput if none or several do, or one of them is a link.
        """
        names = self.names()
        matches = sorted(name for name in names if name.startswith(prefix))
        if not matches:
            close = difflib.get_close_matches(prefix, names, n=1)
            way = f"`headstart ls` lists its {len(names)} stages" if names else "it is empty"
            way = f"did you mean {close[0]!r}?" if close else way
            raise BadInput(f"store {self.root}: no stage's id begins with {prefix!r}; {way}")
        if len(matches) > 1:
            raise BadInput(f"store {self.root}: {prefix!r} is the start of {', '.join(matches[:5])}; give more")
        return matches[0]

    def stage(self, identity: str) -> dict[str, Any] | None:
        """`stage.json`: `name`, `spec`, `parent` (identity or None), `attempts`, `started`; or None."""
        return optional_json(inside(self.root, f"{self.folder(identity).name}/{STAGE}"))

    def result(self, identity: str) -> dict[str, Any] | None:
        """`result.json`, or None while there is none.

        Raises: Damaged where it is not what was written, or is of another stage; BadInput where its format is newer.
        """
        result = optional_json(inside(self.root, f"{self.folder(identity).name}/{RESULT}"))
        if result is not None and result.get("identity") != identity:
            raise Damaged(f"{self.folder(identity) / RESULT}: {foreign(result)}")
        return result

    def records(self, identity: str) -> list[dict[str, Any]]:
        """The records so far; a last line that is still being written is left out.

        Raises: Damaged where a line is not JSON, or the stage is finished and they are not those that it wrote.
        """
        path, result = self.folder(identity) / RECORDS, self.result(identity)
        try:
            content = read_plain(path, MOST_RECORDS)
        except FileNotFoundError:
            return []
        if result is not None and result["files"].get(RECORDS) not in (None, hashlib.sha256(content).hexdigest()):
            raise Damaged(f"{path}: its digest does not fit")
        lines = content.split(b"\n")[:-1]
        try:
            records = [from_json(line) for line in lines]
        except ValueError as error:
            raise Damaged(f"{path}: not readable as JSON ({error})") from None
        if wrong := next(misfits(records, [RECORD_FORM], "records"), None):
            raise Damaged(f"{path}: {wrong}")
        return records

    def weights(self, identity: str, which: Which = "best") -> dict[str, torch.Tensor]:
        """Weights of a finished stage on the CPU, its parents' frozen ones included.

        Raises: BadInput if it is not finished; Damaged if a file is not what was written.
        """
        result = self._finished(identity)
        path = self.folder(identity) / f"{which}.safetensors"
        tensors = _unsealed(path, {"identity": identity, "weights": which})
        tensors |= read(self.folder(identity), result.get("tensors", {}))
        parents: dict[tuple[str, Which], dict[str, torch.Tensor]] = {}
        for name, source in result.get("references", {}).items():
            key = (source["identity"], source["weights"])
            if key not in parents:
                parents[key] = self.weights(*key)
            tensors[name] = parents[key][name]
        return tensors

    def weights_digest(self, identity: str, which: Which = "best") -> str:
        """What tells the weights of a finished stage from others, its parents' frozen ones included."""
        return weights_digest(self.folder(identity), which)

    def predictions(self, identity: str) -> dict[str, torch.Tensor]:
        """Outputs on val and test of a finished stage. Raises: as `weights`."""
        self._finished(identity)
        return _unsealed(self.folder(identity) / "predictions.safetensors", {"identity": identity})

    def problem(self, identity: str) -> str | None:
        """What is wrong with a finished stage (a digest that does not fit, a parent that is gone), or None."""
        return problem(self.folder(identity))

    @contextlib.contextmanager
    def claim(self, identity: str, document: Mapping[str, Any]) -> Iterator[ClaimedStage | None]:
        """The stage's folder for one process alone, or None while another has it.

        `document` goes into `stage.json`: `name`, `spec` and `parent`.
        """
        path = self.folder(identity)
        self.check([identity])
        disk.make_folder(self.root)
        with self.lock(identity) as lock:
            if lock is None:
                yield None
                return
            folder = ClaimedStage(path, document, lock)
            try:
                yield folder
            finally:
                folder.close()

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[Lock | None]:
        """The lock of a stage, or of other work on the store, for one process; None while another has it."""
        lock = self._locks.acquire(name)
        try:
            yield lock
        finally:
            if lock is not None:
                lock.release()

    def busy(self, name: str) -> bool:
        """Whether a process has this lock."""
        return self._locks.held(name)

    def names(self) -> list[str]:
        """Identities of the stages that have a folder, sorted. Raises: BadInput where one of these is a link."""
        if not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:
            folders = {entry.name: entry.is_symlink() for entry in entries if IDENTITY.fullmatch(entry.name)}
        check_inside(self.root, *(name for name, is_link in folders.items() if is_link))
        return sorted(folders)

    def check(self, identities: Iterable[str] = ()) -> None:
        """Look at all that work on these stages writes to or deletes, which a store of somebody else's may have put
        elsewhere.

        Raises: BadInput where a part of the store, or something in the folder of one of these stages, is a link, or a
        pipe or a device where no damaged stage is.
        """
        check_inside(self.root, REPORTS, "data", "tracking")
        for name in (self._locks.folder.name, TENSOR_INDEX, UNPACKED, "plans"):
            check_tree(self.root, name)
        for name in identities:
            check_tree(self.root, name, links=os.path.lexists(self.folder(name) / RESULT))

    def _finished(self, identity: str) -> dict[str, Any]:
        result = self.result(identity)
        if result is None:
            raise BadInput(f"stage {identity}: is {self.status(identity)}, not finished; run its study first")
        return result


def export_stage(store: Store, prefix: str, file: str | os.PathLike[str], which: Which = "best") -> tuple[Path, int]:
    """Write all weights of a finished stage, those that its parent holds included, with its spec; (file, its bytes).

    The file is safetensors; the key `headstart` of its metadata is JSON, whose `meta` holds `identity`, `name`,
    `weights`, `spec`, `plugins` (name -> digest) and `scores`.
    Raises: BadInput for an unknown or unfinished stage, or one without weights; OSError.
    """
    identity, path = store.find(prefix), Path(file)
    if path.suffix != ".safetensors":
        raise BadInput(
            f"-o: {str(path)!r} is not a .safetensors file; give one, as in -o {path.stem or 'stage'}.safetensors"
        )
    tensors = store.weights(identity, which)
    if not tensors:
        raise BadInput(f"stage {identity}: has no weights, only scores; name another stage")
    stage, result = store.stage(identity) or {}, store.result(identity) or {}
    meta = {"identity": identity, "weights": which, "scores": result["scores"][which]}
    meta |= {name: stage[name] for name in ("name", "spec", "plugins") if name in stage}
    content = seal(tensors, meta)
    publish(path, content)
    return path, len(content)


def _unsealed(path: Path, expected: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    try:
        tensors, meta = unseal(path)
    except FileNotFoundError:
        raise Damaged(f"{path}: is missing") from None
    if meta != expected:
        raise Damaged(f"{path}: belongs to {meta}")
    return tensors
