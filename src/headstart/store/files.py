"""JSON and tensors with format and digest, and the files of a stage's folder.

Nothing here imports torch or numpy before a tensor is asked for, so that reading JSON stays quick.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar

from headstart import disk
from headstart.atomic import publish
from headstart.documents import ANY_TABLE, as_json, canonical, from_json, misfits, sorted_json
from headstart.errors import BadInput, Damaged, lacks_memory
from headstart.store.forms import STAGE_FORM, result_form
from headstart.store.plain import JSON_BYTES, MOST_RECORDS, inside, opened, read_plain

if TYPE_CHECKING:
    import numpy as np
    import torch

T = TypeVar("T")

FILE_FORMAT = 1
"""Of every file that is written here. Raised when an older reader would misread a newer file."""
SHARING = 2
"""Format of a `result.json` whose stage has tensors in files of their own."""

DONE = ("complete", "diverged")
"""Statuses that stay: the stage is not tried again."""
NOTES = {"failed": "failure.txt", "cut": "cut.txt"}
"""Statuses that a text file records."""
RECORDS, RESULT, STAGE = "records.jsonl", "result.json", "stage.json"

IDENTITY = re.compile(r"[0-9a-f]{16}")
"""The names of stages' folders."""
_STATE = re.compile(r"state-(\d+)\.safetensors")
_checked: dict[Path, tuple[Any, str | None]] = {}  # folder -> (stamps of its files, problem), once a process
_digests: dict[tuple[int, ...], str] = {}  # device, inode, time and size of a file that stages share -> its digest
_KEY = "headstart"  # the one key of a tensor file's metadata: with several, their order would vary by run
UNREADABLE = (ValueError, LookupError, TypeError, RuntimeError, OverflowError, AttributeError, MemoryError)
"""What reading bytes that were overwritten can raise (RecursionError is a RuntimeError)."""
LARGEST_HEAD = 10**8
"""Bytes that the head of a file of tensors may have, as safetensors itself says."""


def publish_json(path: Path, document: Mapping[str, Any], version: int = FILE_FORMAT) -> None:
    """Publish a document with its `format` and a digest of all else in it."""
    whole = as_json({**document, "format": version})
    whole["digest"] = hashlib.sha256(canonical(whole)).hexdigest()
    publish(path, (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path, *, follow: bool = False) -> dict[str, Any]:
    """Read a document of `publish_json`, without its digest. follow: the file may be a link, which a person named.

    Raises: FileNotFoundError; Damaged where it is not what was written; BadInput where its format is newer.
    """
    return decode_json(read_plain(path, follow=follow), path)


def decode_json(data: bytes, path: Path) -> dict[str, Any]:
    """The same of the bytes of a file, which messages call `path`."""
    try:
        document = from_json(data)
        if not isinstance(document, dict):
            raise Damaged(f"{path}: not a JSON object")
        digest = document.pop("digest", None)
        content = sorted_json(document)
    except ValueError as error:
        raise Damaged(f"{path}: not readable as JSON ({error})") from None
    written = document.get("format")
    if isinstance(written, int) and written > SHARING:
        raise BadInput(
            f"{path}: format {written} is newer than this headstart reads ({SHARING}); "
            "install a newer headstart, or give another folder with --store"
        )
    if digest != hashlib.sha256(content).hexdigest():
        raise Damaged(f"{path}: its digest does not fit")
    form = {RESULT: result_form(document), STAGE: STAGE_FORM}.get(path.name, ANY_TABLE)
    if wrong := next(misfits(document, form), None):
        raise Damaged(f"{path}: {wrong}")
    return document


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits. Raises: Damaged where it is no plain file."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any]) -> bytes:
    """A safetensors file whose metadata hold `meta` and a digest of names, types, shapes, bytes and `meta`.

    Equal tensors and meta give equal bytes. Tensors may share memory and lie on any device.
    """
    from safetensors.torch import save

    # A copy each: safetensors refuses tensors that share memory, as the best and the current weights may.
    copies = {name: tensors[name].detach().cpu().contiguous().clone() for name in sorted(tensors)}
    note = {"format": FILE_FORMAT, "digest": _digest(copies, meta, _bytes_of), "meta": as_json(meta)}
    return bytes(save(copies, {_KEY: json.dumps(note, sort_keys=True, allow_nan=False)}))


def unseal(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors (on the CPU, their own memory) and `meta` of a file of `seal`.

    Raises: FileNotFoundError; Damaged where anything differs from what was sealed.
    """
    from safetensors.torch import load

    return _unsealed(path, lambda data: {name: tensor.clone() for name, tensor in load(data).items()}, _bytes_of)


def unseal_arrays(path: Path, *, follow: bool = False) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """As `unseal`, as arrays of numpy, which has fewer types; without torch. follow: the file may be a link."""
    from safetensors.numpy import load

    def content(array: np.ndarray) -> Any:
        return array.reshape(-1).view("u1").data

    def own(data: bytes) -> dict[str, np.ndarray]:
        return {name: x.copy() for name, x in load(data).items()}

    return _unsealed(path, own, content, "torch.", follow=follow)


def _unsealed(
    path: Path,
    load: Callable[[bytes], dict[str, T]],
    content: Callable[[T], Any],
    types: str = "",
    *,
    follow: bool = False,
) -> tuple[dict[str, T], dict[str, Any]]:
    from safetensors import SafetensorError

    # What keeps it from being read, a disk or a network, is no damage.
    with opened(path, follow=follow) as file:
        length, data = os.fstat(file.fileno()).st_size, file.read(8)
        data += file.read(min(int.from_bytes(data, "little"), LARGEST_HEAD))
        if not _fits(data, length):
            raise Damaged(f"{path}: cut short or overwritten (its head asks for other than its {length:,} bytes)")
        data += file.read()
    try:
        size = int.from_bytes(data[:8], "little")
        note = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_KEY])
        meta, digest, written = note["meta"], note["digest"], note["format"]
        tensors = load(data)
    except (*UNREADABLE, SafetensorError) as error:
        if lacks_memory(error):
            raise
        raise Damaged(f"{path}: cut short or overwritten ({type(error).__name__})") from None
    if written != FILE_FORMAT or not isinstance(meta, dict) or digest != _digest(tensors, meta, content, types):
        raise Damaged(f"{path}: its digest does not fit")
    return tensors, meta


def _fits(data: bytes, length: int) -> bool:
    """Whether the head of a file of tensors asks for as many bytes as there are: then memory is all that can lack."""
    with contextlib.suppress(*UNREADABLE):
        size = int.from_bytes(data[:8], "little")
        head = {name: tensor for name, tensor in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}
        return 8 + size + max((tensor["data_offsets"][1] for tensor in head.values()), default=0) == length
    return False


def _bytes_of(tensor: torch.Tensor) -> Any:
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _digest(tensors: Mapping[str, T], meta: Mapping[str, Any], content: Callable[[T], Any], types: str = "") -> str:
    """Of names, types (which begin with `types` besides), shapes, bytes (`content`) and `meta`."""
    total = hashlib.sha256(canonical(meta))
    for name in sorted(tensors):
        tensor: Any = tensors[name]
        total.update(canonical([name, f"{types}{tensor.dtype}", list(tensor.shape)]))
        total.update(content(tensor))
    return total.hexdigest()


def optional_json(path: Path, *, follow: bool = False) -> dict[str, Any] | None:
    """`read_json`, or None where there is no such file."""
    try:
        return read_json(path, follow=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None


def states(folder: Path) -> list[Path]:
    """Files of states, the newest first."""
    numbered = [(int(match[1]), path) for path in folder.glob("state-*") if (match := _STATE.fullmatch(path.name))]
    return [path for _, path in sorted(numbered, reverse=True)]


def tidy(folder: Path) -> None:
    """Delete what a finished stage no longer needs, as far as that can be (a kill may have come before it could)."""
    for path in [*states(folder), *folder.glob(".*.tmp"), *(folder / note for note in NOTES.values())]:
        with contextlib.suppress(OSError):
            disk.unlink(path, missing_ok=True)


def problem(folder: Path) -> str | None:
    """What is wrong with a finished stage (a digest that does not fit, a parent that is gone), or None.

    Each file is hashed once per process, and again only if it looks changed.
    Raises: OSError where a file is there and cannot be read, which is no damage.
    """
    stamps = _stamps(folder)
    checked = _checked.get(folder.resolve())
    if checked is None or checked[0] != stamps:
        checked = _checked[folder.resolve()] = (stamps, next(_damaged_files(folder), None))
    return checked[1] or next(lost_parents(optional_json(folder / RESULT) or {}, folder, folder.parent), None)


def damages(folder: Path) -> Iterator[str]:
    """All that is wrong with a finished stage, a line for each file; everything is read anew."""
    try:
        yield from _damaged_files(folder)
    except OSError as error:
        yield str(error)
    with contextlib.suppress(Damaged, OSError):
        yield from lost_parents(optional_json(folder / RESULT) or {}, folder, folder.parent)


def _damaged_files(folder: Path) -> Iterator[str]:
    try:
        result = read_json(folder / RESULT)
    except FileNotFoundError as error:
        yield f"{error.filename}: is missing"
        return
    except Damaged as error:
        yield str(error)
        return
    if IDENTITY.fullmatch(folder.name) and result["identity"] != folder.name:
        yield f"{folder / RESULT}: {foreign(result)}"
        return
    for name, digest in result["files"].items():
        try:
            if known_digest(inside(folder, name)) != digest:
                yield f"{folder / name}: its digest does not fit"
        except Damaged as error:
            yield str(error)
        except (FileNotFoundError, NotADirectoryError):
            yield f"{folder / name}: is missing"


def foreign(result: Mapping[str, Any]) -> str:
    """What is said of a result that lies in another stage's folder."""
    return f"is the result of stage {result.get('identity')}: give the folders their own names again"


def lost_parents(result: Mapping[str, Any], name: str | Path, store: Path) -> Iterator[str]:
    """What is wrong with the stages of a store that hold frozen weights of a finished stage, a line for each.

    Results of before 2026-11-26 do not say which weights those were.
    """
    sources = {(source["identity"], source["weights"]) for source in result.get("references", {}).values()}
    digests = result.get("parents", {})
    for parent, which in sorted(sources):
        whose = f"{name}: its frozen weights are those of stage {parent}, which"
        if not IDENTITY.fullmatch(str(parent)) or not _is_done(store / parent):
            yield f"{whose} is not there"
        elif digests.get(f"{parent}/{which}") not in (None, weights_digest(store / parent, which)):
            yield f"{whose} has been trained again and has other weights now"


def weights_digest(folder: Path, which: str) -> str:
    """What tells a finished stage's weights from others: digests of all files that hold them, its parents' too."""
    result = read_json(folder / RESULT)
    if "digests" in result:  # of a copy for a child on another machine
        return str(result["digests"][which])
    own = [result["files"].get(f"{which}.safetensors"), *(result.get(key, {}) for key in ("tensors", "references"))]
    return hashlib.sha256(canonical([*own, result.get("parents", {})])).hexdigest()


def _is_done(folder: Path) -> bool:
    try:
        return (optional_json(inside(folder.parent, f"{folder.name}/{RESULT}")) or {}).get("status") in DONE
    except Damaged:
        return False


def known_digest(path: Path) -> str:
    """`file_digest`; a file that several stages hold is hashed once a process, and again only if it looks changed."""
    stat = path.lstat()
    if stat.st_size > JSON_BYTES:
        _check_size(path)
    if stat.st_nlink == 1 or not S_ISREG(stat.st_mode):
        return file_digest(path)
    key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    if key not in _digests:
        _digests[key] = file_digest(path)
    return _digests[key]


def _check_size(path: Path) -> None:
    """Raises: Damaged for a large file that none of ours can be: a stranger's may have no end, and to hash it takes
    as long."""
    with opened(path) as file:
        length, data = os.fstat(file.fileno()).st_size, file.read(8)
        if path.suffix == ".safetensors":
            data += file.read(min(int.from_bytes(data, "little"), LARGEST_HEAD))
            if not _fits(data, length):
                raise Damaged(f"{path}: its head asks for other than its {length:,} bytes")
        elif length > MOST_RECORDS:
            raise Damaged(f"{path}: has {length:,} bytes, more than {MOST_RECORDS:,}")


def _stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    stamps = []
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            with contextlib.suppress(FileNotFoundError):  # another process has deleted it meanwhile
                stat = os.lstat(path)
                stamps.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return sorted(stamps)
