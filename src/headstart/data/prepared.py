"""Prepared arrays of a data set: built once, published whole, then opened memory-mapped."""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
import platformdirs
from filelock import FileLock

from headstart import disk
from headstart.atomic import PRIVATE, PRIVATE_FOLDER, disk_full, publish, stamps, sync_folder, way_out
from headstart.errors import BadInput, BadMachine, Damaged, DiskFull, first_line
from headstart.sequence import Examples
from headstart.spec import digest
from headstart.store.plain import check_inside, inside, read_plain

_LOG = logging.getLogger("headstart.cache")

FINGERPRINTS = "fingerprints"
"""The folder in the cache with digests of files."""
PREPARED, SEAL = "prepared", "prepared.json"
"""The folder in the cache with folders of arrays; of each, the file that is written last."""

SPLIT_ARRAYS = ("values", "offsets", "target", "index", "observed")
"""The arrays of a split, fields of `Examples`; `target` and `observed` are written where there are any."""

_UNREADABLE = (
    *(FileNotFoundError, NotADirectoryError, ValueError, LookupError, TypeError, AttributeError, RecursionError),
    EOFError,
    TokenError,  # of numpy, for the head of an array
    Damaged,
)
"""What opening a folder that is absent or damaged can raise."""

BYTES_AT_ONCE = 2**22
"""Bytes that are gathered before they are written."""

progress: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("progress", default=None)
"""Called as (what is prepared, items done, items in all) while something is built; None: nobody watches."""


@dataclass(frozen=True)
class Prepared:
    """What a folder of prepared arrays holds: `arrays` memory-mapped and read-only, `facts` as JSON.

    `fingerprint` is the SHA-256 of the arrays' names, types, shapes and bytes.
    """

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    fingerprint: str

    def split(self, name: str, **facts: Any) -> Examples:
        """A split that was written, memory-mapped; facts: further fields of `Examples` (`paired`, `scale`, ...)."""
        arrays = {
            part: np.asarray(self.arrays[key]) for part in SPLIT_ARRAYS if (key := f"{name}_{part}") in self.arrays
        }
        fields: dict[str, Any] = {"target": None, **arrays, **facts}
        return Examples(**fields)


def split_arrays(name: str, examples: Examples) -> dict[str, np.ndarray]:
    """The arrays of a split by the names under which `Prepared.split` opens them."""
    return {f"{name}_{part}": array for part in SPLIT_ARRAYS if (array := getattr(examples, part)) is not None}


class Builder:
    """The open folder that a build fills; array by array, so that none has to fit into memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    def empty(self, array: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """A new array on disk of this shape, to be filled in place. Raises: OSError where the disk is full."""
        return disk.new_array(self.folder / f"{array}.npy", shape, dtype)

    def drop(self, array: str) -> None:
        """Remove an array that was only needed on the way."""
        disk.unlink(self.folder / f"{array}.npy")

    def written(self) -> Prepared:
        """What is written so far, without facts."""
        files = self.folder.glob("*.npy")
        return Prepared({file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in files}, {}, "")

    def save(self, array: str, values: np.ndarray) -> None:
        """Write a whole array. Raises: as `empty`."""
        values = np.ascontiguousarray(values)
        self.empty(array, values.shape, values.dtype)[:] = values

    def save_split(self, name: str, examples: Examples) -> None:
        """Write the arrays of a split, which `Prepared.split` opens."""
        for array, values in split_arrays(name, examples).items():
            self.save(array, values)

    def report(self, done: int, total: int) -> None:
        """Tell whoever watches how far the build is."""
        watch = progress.get()
        if watch is not None:
            watch(self.name, done, total)


Build = Callable[[Builder], Mapping[str, Any]]
"""Fills the builder's folder with arrays and returns facts (JSON) to keep beside them."""


def cache_folder() -> Path:
    """The folder of prepared arrays: HEADSTART_CACHE, else the user's cache folder; a log line says when it is made.

    Where the user has no folder that can be written, it is one of this process and its workers, gone in the end.
    Raises: BadMachine where the one that HEADSTART_CACHE names cannot be made.
    """
    named = os.environ.get("HEADSTART_CACHE")
    folder = Path(named or _users_cache())
    made = os.path.isdir(folder)  # False where nobody may look, too
    if not made or not named:
        try:
            if not folder.is_absolute() and not named:  # a user without a home
                raise OSError(errno.ENOENT, "no home folder")
            if not made:
                disk.make_folder(folder, PRIVATE_FOLDER)
            elif not os.access(folder, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            if disk_full(error):
                raise DiskFull(folder) from None
            if not named:
                return _passing_folder(folder, error.strerror or str(error))
            raise BadMachine(
                f"{folder}: cannot be made ({error.strerror or error}); name another cache folder with HEADSTART_CACHE"
            ) from None
    if not made:
        _LOG.warning(
            "Prepared data are cached in %s. Set HEADSTART_CACHE to use another folder; `headstart prepare --list` "
            "shows what it holds.",
            folder,
        )
    return folder


def _users_cache() -> str:
    """The user's cache folder; a relative one where there is neither a home nor an account of this user's number."""
    try:
        return platformdirs.user_cache_dir("headstart")
    except RuntimeError:
        return "~/.cache/headstart"


def _passing_folder(refused: Path, why: str) -> Path:
    """A cache for this process and those that it starts."""
    passing = tempfile.TemporaryDirectory(prefix="headstart-", ignore_cleanup_errors=True)
    atexit.register(passing.cleanup)
    os.environ["HEADSTART_CACHE"] = passing.name
    _LOG.warning(
        "Prepared data are cached until this ends, since %s cannot be written (%s). Set HEADSTART_CACHE to a folder "
        "that keeps them.",
        refused,
        why,
    )
    return Path(passing.name)


def prepared(name: str, document: Mapping[str, Any], build: Build, *, private: bool = False) -> Prepared:
    """The arrays that `document` stands for: opened where they are prepared, else built and published.

    `name` (letters, digits, - and _) begins the folder's name; `document` is everything that can change the
    arrays, the version of the code that builds them among it. Two processes that ask at once build once: the second
    waits for the first. A folder in which a byte differs from what was written is built again; that is seen by their
    digests, which each process takes once of a content.
    private: nobody else may read what is written.
    Raises: what `build` raises, after removing what it left; BadInput where nothing can be written, or the folder is a
    link.
    """
    key = f"{name}-{digest(dict(document))}"
    final = cache_folder() / PREPARED / key
    check_inside(cache_folder(), f"{PREPARED}/{key}", f"{PREPARED}/.{key}.lock")
    try:
        result = _open(final, document)
        if result is None:
            disk.make_folder(final.parent)
            lock = FileLock(final.with_name(f".{key}.lock"))
            with disk.locking(Path(lock.lock_file), lock.acquire):
                result = _open(final, document)
                if result is None:
                    return _build(final, name, document, build, private)
        if (reused := _reused.get()) is not None:
            reused.append(final)
        return result
    except OSError as error:
        if disk_full(error):
            raise DiskFull(final) from None
        raise BadMachine(
            f"{final}: cannot be prepared ({error.strerror or error}); {way_out(error, _OTHER_CACHE)}"
        ) from error


_reused: ContextVar[list[Path] | None] = ContextVar("folders that were prepared before", default=None)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Make `what` of prepared arrays. Their digests find damage; whoever may write into a cache can write those, too.

    Raises: BadInput for arrays prepared before that whoever reads them stumbles over.
    """
    folders: list[Path] = []
    before = _reused.set(folders)
    try:
        yield
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if not folders:
            raise
        raise BadInput(
            f"{folders[-1]}: {what} cannot be made of it, though it is as its digests say "
            f"({first_line(error, typed=True)}); `headstart prepare --clear` empties the cache; it is prepared again"
        ) from error
    finally:
        _reused.reset(before)


_OTHER_CACHE = (
    "make room (`headstart prepare --clear` empties the cache), or name another cache folder with HEADSTART_CACHE"
)


class CacheEntry(NamedTuple):
    """One folder of prepared arrays: its name, its size in bytes, and when it was built (seconds since 1970)."""

    name: str
    size: int
    time: float


def cache_entries() -> list[CacheEntry]:
    """What the cache holds, the largest first; unfinished builds are among it."""
    check_inside(cache_folder(), PREPARED)
    folders = [path for path in (cache_folder() / PREPARED).glob("*") if path.is_dir() and not path.is_symlink()]
    entries = [
        CacheEntry(path.name, sum(f.lstat().st_size for f in path.rglob("*") if f.is_file()), path.stat().st_mtime)
        for path in folders
    ]
    return sorted(entries, key=lambda entry: (-entry.size, entry.name))


def clear_cache() -> list[CacheEntry]:
    """Remove everything prepared; gives what was removed. Other files of the folder stay."""
    entries = cache_entries()
    for name in (PREPARED, FINGERPRINTS):
        disk.remove_tree(cache_folder() / name, ignore_errors=True)
    return entries


def remembered(document: Mapping[str, Any], take: Callable[[], str]) -> str:
    """A digest (16 or 64 hex digits) that takes long: what the cache holds of `document`, or `take` and noted there.

    document: all that it follows from, with `stamps` of the files. A note holds the digest of both, too.
    """
    key, folder = digest(dict(document)), cache_folder()
    check_inside(folder, f"{FINGERPRINTS}/{key}")
    path = folder / FINGERPRINTS / key
    with suppress(OSError, ValueError, Damaged):
        text, _, check = read_plain(path).decode("ascii").strip().partition(" ")
        if len(text) in (16, 64) and check == digest({"key": key, "digest": text}):
            return text
    text = take()
    disk.make_folder(path.parent)
    publish(path, f"{text} {digest({'key': key, 'digest': text})}\n".encode())
    return text


def _build(final: Path, name: str, document: Mapping[str, Any], build: Build, private: bool) -> Prepared:
    for left in final.parent.glob(f".{final.name}.*.tmp"):  # of builds that were killed
        disk.remove_tree(left, ignore_errors=True)
    folder = final.parent / f".{final.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    disk.make_folder(folder, PRIVATE_FOLDER if private else 0o777, new=True)
    try:
        facts = dict(build(Builder(folder, name)))
        _seal(folder, document, facts)
        for file in folder.iterdir() if private else ():  # the folder has been closed to others from the beginning
            disk.change_mode(file, PRIVATE)
        if final.exists():  # damaged, or published by a process that took no lock
            result = _open(final, document)
            if result is not None:
                return result
            disk.remove_tree(final)
        disk.rename(folder, final)
        sync_folder(final.parent)
    finally:
        disk.remove_tree(folder, ignore_errors=True)
    result = _open(final, document)
    if result is None:
        raise BadInput(f"{final}: was written and cannot be read back; check the disk, then try again")
    return result


def _seal(folder: Path, document: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Flush every array to disk and write the seal over them, with a digest of all else in it."""
    arrays, sizes = {}, {}
    for file in folder.glob("*.npy"):
        arrays[file.stem] = np.load(file, mmap_mode="r", allow_pickle=False)
        sizes[file.stem] = file.stat().st_size
        sync_folder(file)
    seal = {"document": dict(document), "facts": dict(facts), "sizes": sizes, "fingerprint": _fingerprint(arrays)}
    seal = json.loads(json.dumps({"format": 2, **seal}))
    publish(folder / SEAL, json.dumps({**seal, "digest": _digest(seal)}, indent=1, sort_keys=True).encode())


def _digest(seal: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(seal, sort_keys=True).encode()).hexdigest()


def _fingerprint(arrays: Mapping[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays, key=lambda name: f"{name}.npy"):
        array: Any = arrays[name]
        total.update(f"{name}/{array.dtype.str}/{array.shape}".encode())
        if array.size:
            total.update(memoryview(array.reshape(-1)).cast("B"))
    return total.hexdigest()


_verified: dict[str, list[tuple[str, int, int, int]]] = {}
"""Fingerprint -> `stamps` of files that had it, by which this process knows them again."""


def _open(folder: Path, document: Mapping[str, Any]) -> Prepared | None:
    """What a published folder holds, or None where it is absent, damaged or of an older format."""
    try:
        seal = json.loads(read_plain(folder / SEAL))
        arrays = {}
        if seal.pop("digest") != _digest(seal) or seal["document"] != json.loads(json.dumps(dict(document))):
            return None
        files = [inside(folder, f"{array}.npy") for array in seal["sizes"]]
        for file, size in zip(files, seal["sizes"].values(), strict=True):
            if file.lstat().st_size != size:
                return None
            arrays[file.stem] = np.load(file, mmap_mode="r", allow_pickle=False)
        fingerprint, stand = seal["fingerprint"], stamps(files)
        if _verified.get(fingerprint) != stand:
            if _fingerprint(arrays) != fingerprint:
                return None
            _verified[fingerprint] = stand
        return Prepared(arrays, seal["facts"], fingerprint)
    except _UNREADABLE:
        return None


class Writer:
    """Writes the sequences of one split as they come, so that memory holds a few of them at a time."""

    def __init__(self, builder: Builder, split: str, dtype: Any = np.uint8) -> None:
        self._builder, self._split, self._dtype = builder, split, np.dtype(dtype)
        self._path = builder.folder / f"{split}.part"
        self._waiting: list[bytes] = []
        self._size = 0
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, sequence: np.ndarray) -> None:
        """One more sequence (L,)."""
        self._waiting.append(np.ascontiguousarray(sequence, dtype=self._dtype).tobytes())
        self._size += len(self._waiting[-1])
        self._lengths.append(len(sequence))
        if self._size > BYTES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        disk.append(self._path, b"".join(self._waiting))
        self._waiting, self._size = [], 0

    def finish(self, target: np.ndarray, index: np.ndarray) -> None:
        """Write the arrays of the split."""
        self._flush()
        # An empty file has no memory map.
        values = np.memmap(self._path, self._dtype, "r") if any(self._lengths) else np.zeros(0, self._dtype)
        offsets = np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64)
        examples = Examples(values, offsets, target.astype(np.int64), index.astype(np.int64))
        self._builder.save_split(self._split, examples)
        disk.unlink(self._path)


class UnequalSizes(ValueError):
    """Arrays of a split are not of one number of examples."""


def check_sizes(name: str, x: Examples) -> None:
    """Raises: UnequalSizes where the arrays of a split are not of one number of examples."""
    targets = (len(x), len(x.values)) if x.per_position else (len(x),)
    offsets = np.asarray(x.offsets)
    rising = offsets.ndim == 1 and offsets.dtype.kind in "iu" and not (offsets[1:] < offsets[:-1]).any()
    if not rising or (offsets[0], offsets[-1], len(x.index)) != (0, len(x.values), len(x)):
        raise UnequalSizes(f"the values or numbers of {name} are not those of {len(x)} examples")
    if x.target is not None and len(x.target) not in targets:
        raise UnequalSizes(f"{len(x.target)} targets of {name} are not those of {len(x)} examples")
