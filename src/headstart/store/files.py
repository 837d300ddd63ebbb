"""Files that are whole or absent: one atomic write, JSON and tensors with format and digest; those of a stage's folder.

Nothing here imports torch or numpy before a tensor is asked for, so that reading JSON stays quick.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import io
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar

from headstart.documents import TABLE, from_json, misfits
from headstart.errors import BadInput, DiskFull, lacks_memory
from headstart.store.forms import STAGE_FORM, result_form
from headstart.store.plain import Damaged as Damaged
from headstart.store.plain import inside, opened, read_plain

if TYPE_CHECKING:
    import numpy as np
    import torch

T = TypeVar("T")

FORMAT = 1
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
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""Modes of copies of a person's own data, whatever the mode of the file that they are of."""
_checked: dict[Path, tuple[Any, str | None]] = {}  # folder -> (stamps of its files, problem), once a process
_digests: dict[tuple[int, ...], str] = {}  # device, inode, time and size of a file that stages share -> its digest
_KEY = "headstart"  # the one key of a tensor file's metadata: with several, their order would vary by run
_UNREADABLE = (ValueError, LookupError, TypeError, RuntimeError, OverflowError, AttributeError, MemoryError)
"""What reading bytes that were overwritten can raise (RecursionError is a RuntimeError)."""
LARGEST_HEAD = 10**8
"""Bytes that the head of a file of tensors may have, as safetensors itself says."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no room (disk, quota or limit of a file's size)."""
    return isinstance(error, OSError) and error.errno in _FULL


@contextlib.contextmanager
def writing(path: Path, what: str = "", other: str = "file") -> Iterator[None]:
    """Raises: BadInput where the system lets nobody write `path`, DiskFull among it. what, other: of the message."""
    try:
        yield
    except OSError as error:
        if disk_full(error):
            raise DiskFull(path) from None
        raise BadInput(
            f"{path}: {what}cannot be written ({error.strerror or error}); give access there, or name another {other}"
        ) from None


def write_all(file: int, data: bytes | memoryview) -> None:
    """Write all bytes to a file descriptor; every byte the store writes goes through here."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def publish(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that a reader, or a crash at any moment, sees the old one or the new one whole.

    mode: of the new one.
    Raises: OSError (a full disk, say); the old file is then untouched and nothing is left beside it.
    """
    with published(path, mode) as file:
        write_all(file, data)


@contextlib.contextmanager
def published(path: Path, mode: int = 0o644) -> Iterator[int]:
    """The descriptor of a new file, to be written bit by bit; it gets its name, as in `publish`, at the end.

    Until then it has one that nobody can guess: no link waits there, and no other writer has it, in whatever container.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        try:
            yield file
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished(path: Path, file: int) -> None:
    """Remove what processes that were killed left of `path`, and lock `file`, its own beginning, while it is open."""
    with contextlib.suppress(OSError):  # a file system without locks: nothing says who is alive
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"):
            with contextlib.suppress(OSError):  # another one is at it, or has just removed it
                other = os.open(left, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    left.unlink()
                finally:
                    os.close(other)


class Writable(io.RawIOBase):
    """The descriptor of `published` as a file, for what writes to one."""

    def __init__(self, file: int) -> None:
        self.descriptor = file

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of the bytes."""
        write_all(self.descriptor, data)
        return len(data)


def sync_folder(folder: Path) -> None:
    """Make names that were added to or removed from a folder survive a power cut."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:  # some network file systems cannot; the names are then as safe as they get
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(file)


def plain(value: Any) -> Any:
    """JSON material: keys as text, tuples as lists, numbers that JSON does not have (NaN, inf) as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def stamps(files: Iterable[Path]) -> list[tuple[str, int, int, int]]:
    """(path, size, two times) of each file: what tells that nothing was changed since it was read.

    A program may set back the time of a change to the content, but not that of a change to the file.
    """
    out = []
    for file in files:
        known = os.stat(file)
        out.append((os.path.abspath(file), known.st_size, known.st_mtime_ns, known.st_ctime_ns))
    return out


def canonical(document: Any) -> bytes:
    """Sorted JSON without spaces: equal documents have equal bytes."""
    return _sorted(plain(document))


def _sorted(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def publish_json(path: Path, document: Mapping[str, Any], version: int = FORMAT) -> None:
    """Publish a document with its `format` and a digest of all else in it."""
    whole = plain({**document, "format": version})
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
        content = _sorted(document)
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
    form = {RESULT: result_form(document), STAGE: STAGE_FORM}.get(path.name, TABLE)
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
    note = {"format": FORMAT, "digest": _digest(copies, meta, _bytes_of), "meta": plain(meta)}
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
    except (*_UNREADABLE, SafetensorError) as error:
        if lacks_memory(error):
            raise
        raise Damaged(f"{path}: cut short or overwritten ({type(error).__name__})") from None
    if written != FORMAT or not isinstance(meta, dict) or digest != _digest(tensors, meta, content, types):
        raise Damaged(f"{path}: its digest does not fit")
    return tensors, meta


def _fits(data: bytes, length: int) -> bool:
    """Whether the head of a file of tensors asks for as many bytes as there are: then memory is all that can lack."""
    with contextlib.suppress(*_UNREADABLE):
        size = int.from_bytes(data[:8], "little")
        head = {name: entry for name, entry in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}
        return 8 + size + max((entry["data_offsets"][1] for entry in head.values()), default=0) == length
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
    """Delete what a finished stage no longer needs (a kill may have come before it could)."""
    for path in [*states(folder), *folder.glob(".*.tmp")]:
        path.unlink(missing_ok=True)


def problem(folder: Path) -> str | None:
    """What is wrong with a finished stage (a digest that does not fit, a parent that is gone), or None.

    Each file is hashed once per process, and again only if it looks changed.
    Raises: OSError where a file is there and cannot be read, which is no damage.
    """
    stamps = _stamps(folder)
    known = _checked.get(folder.resolve())
    if known is None or known[0] != stamps:
        known = _checked[folder.resolve()] = (stamps, next(_damaged_files(folder), None))
    return known[1] or next(lost_parents(optional_json(folder / RESULT) or {}, folder, folder.parent), None)


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
    known = result.get("parents", {})
    for parent, which in sorted(sources):
        whose = f"{name}: its frozen weights are those of stage {parent}, which"
        if not IDENTITY.fullmatch(str(parent)) or not _is_done(store / parent):
            yield f"{whose} is not there"
        elif known.get(f"{parent}/{which}") not in (None, weights_digest(store / parent, which)):
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
    if stat.st_nlink == 1 or not S_ISREG(stat.st_mode):
        return file_digest(path)
    key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    if key not in _digests:
        _digests[key] = file_digest(path)
    return _digests[key]


def _stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    stamps = []
    for top, _, names in os.walk(folder):
        stats = [(os.path.join(top, name), os.lstat(os.path.join(top, name))) for name in names]
        stamps += [(name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats]
    return sorted(stamps)
