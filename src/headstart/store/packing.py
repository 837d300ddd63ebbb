"""Finished stages of a study as one zip file, and such a file back into a store.

The file has the names of a store: `<identity>/result.json` and so on, `reports/<name>/study.toml`, and the tensors that
stages share, once, as `.tensors/<digest>.safetensors`. Its `manifest.json` says the size and the digest of each. Other
people's files are read as data alone: everything is checked before a byte is written, and nothing in them is run.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from headstart import disk
from headstart.atomic import Writable, disk_full, naming, publish, published, refused, sync_folder, write_all
from headstart.documents import from_json, from_toml
from headstart.errors import BadInput, Damaged
from headstart.store import tensors as shared
from headstart.store.files import DONE, RESULT, STAGE, UNREADABLE, file_digest, lost_parents, read_json
from headstart.store.plain import check_inside, inside, opened, read_plain
from headstart.store.stages import UNPACKED, Store

PACK_FORMAT = 1
"""Of the manifest. Raised when an older reader would misread a newer file."""
MANIFEST = "manifest.json"
UNPACKING = "unpacking"
"""The lock of the process that unpacks files into a store."""
LARGEST_TEXT = 2**24
"""Bytes of a JSON or TOML file, or one of a plugin, in a packed one."""

_CHUNK = 2**20
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # equal stages give equal bytes, whenever they are packed
_IN_STAGE = re.compile(
    r"[0-9a-f]{16}/(result\.json|stage\.json|records\.jsonl|(best|last|predictions)\.safetensors|source/.+)"
)
_SHARED = re.compile(rf"{re.escape(shared.TENSOR_INDEX)}/[0-9a-f]{{64}}\.safetensors")
_STUDY = re.compile(r"reports/[^/.][^/]*/study\.toml")
_UNPACKABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, *UNREADABLE)
"""What reading a file of somebody else's can raise (NotImplementedError is a RuntimeError)."""


@dataclass
class Unpacked:
    """What became of the stages of a packed file: taken, there before (with their state), and refused, in words."""

    study: str
    stages: int
    taken: list[str] = field(default_factory=list)
    there: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    report: Path | None = None


def pack(store: Store, identities: Sequence[str], name: str, study: bytes, file: Path) -> tuple[int, int]:
    """Write finished stages (parents first) and the TOML of their study into `file`; (files in it, its bytes).

    name: of the report's folder. Every byte is compared with its digest on the way.
    Raises: Damaged where a stage is not what was written; OSError. An older `file` is then untouched.
    """
    members: dict[str, tuple[Path | bytes, int, str]] = {}
    for identity in identities:
        folder = store.folder(identity)
        result = folder / RESULT
        text = read_plain(result)
        members[f"{identity}/{RESULT}"] = text, len(text), hashlib.sha256(text).hexdigest()
        for inner, digest in read_json(result)["files"].items():
            path = inside(folder, inner)
            if not path.is_file():
                raise Damaged(f"{path}: is missing")
            outer = (
                f"{shared.TENSOR_INDEX}/{path.name}" if inner.startswith(f"{shared.FROZEN}/") else f"{identity}/{inner}"
            )
            members[outer] = path, path.stat().st_size, digest
    members[f"reports/{name}/study.toml"] = study, len(study), hashlib.sha256(study).hexdigest()
    manifest = {
        "format": PACK_FORMAT,
        "study": name,
        "stages": list(identities),
        "files": {member: {"size": size, "digest": digest} for member, (_, size, digest) in members.items()},
    }
    with (
        published(file) as descriptor,
        io.BufferedWriter(Writable(descriptor)) as out,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
    ):
        packed.writestr(_info(MANIFEST), json.dumps(manifest, indent=1).encode(), zipfile.ZIP_STORED)
        for member, (source, size, digest) in members.items():
            with contextlib.ExitStack() as stack:
                content = io.BytesIO(source) if isinstance(source, bytes) else stack.enter_context(opened(source))
                into = stack.enter_context(packed.open(_info(member), "w", force_zip64=size >= 2**31))
                if _copy(content, into.write) != digest:
                    raise Damaged(f"{source if isinstance(source, Path) else member}: its digest does not fit")
    return len(members), file.stat().st_size


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EARLIEST)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
    return info


def _copy(source: Any, write: Any) -> str:
    """The digest of all bytes, which are written on the way."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        write(chunk)
    return digest.hexdigest()


def unpack(store: Store, file: Path, check: Callable[[Store], object] = Store.listing) -> Unpacked:
    """Take the stages of a packed file into a store, each whole or not at all. A stage that is there stays as it is.

    A stage whose files are not what the manifest says is refused, and the others are taken. So is one that `check`
    cannot read, by itself in a store: a value of another type would stop every listing of the store that took it.
    Raises: BadInput, before anything is written, where the file is not a packed one, is of a newer format, holds what
    a packed file does not (links, devices, other paths, more than it declares), or is too large for the disk.
    """
    try:
        with opened(file, follow=True):  # a pipe would be waited for
            packed = zipfile.ZipFile(file)
    except FileNotFoundError:
        raise BadInput(f"unpack: no file {str(file)!r}; name one that `headstart store pack` wrote") from None
    except Damaged as error:
        raise BadInput(f"unpack: {error}; name one that `headstart store pack` wrote") from None
    except (*_UNPACKABLE, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise BadInput(
            f"unpack: {file}: is not a file of `headstart store pack`, or is cut short ({error}); copy it again"
        ) from None
    with packed:
        manifest = _manifest(packed, file)
        store.check()
        disk.make_folder(store.root)
        with store.lock(UNPACKING) as lock:
            if lock is None:
                raise BadInput(f"unpack: another process unpacks into {store.root}; wait until it is done")
            aside = store.root / UNPACKED
            disk.remove_tree(aside, ignore_errors=True)  # what a kill left there
            try:
                return _Unpacking(store, packed, manifest, aside).all(check)
            finally:
                disk.remove_tree(aside, ignore_errors=True)


def _manifest(packed: zipfile.ZipFile, file: Path) -> dict[str, Any]:
    """The manifest, once every member is what it says. Raises: BadInput naming the file and the member."""

    def refuse(what: str) -> BadInput:
        return BadInput(f"unpack: {file}: {what}; it was not made by `headstart store pack`, and nothing of it is used")

    members = {info.filename: info for info in packed.infolist()}
    if len(members) != len(packed.infolist()):
        raise refuse("has two members of the same name")
    for info in packed.infolist():
        if problem := _improper(info):
            raise refuse(f"{info.orig_filename!r} {problem}")
    if sum(info.compress_size for info in packed.infolist()) > file.stat().st_size:
        raise refuse("has members that lie in each other")
    head = members.pop(MANIFEST, None)
    if head is None or head.compress_type != zipfile.ZIP_STORED:
        raise refuse(f"has no {MANIFEST}")
    try:
        manifest = from_json(packed.read(head))
        written = manifest["format"]
        if isinstance(written, int) and written > PACK_FORMAT:
            raise BadInput(
                f"unpack: {file}: format {written} is newer than this headstart reads ({PACK_FORMAT}); install a newer "
                "one"
            )
        sizes = {name: (int(facts["size"]), str(facts["digest"])) for name, facts in manifest["files"].items()}
        stages, study = [str(name) for name in manifest["stages"]], str(manifest["study"])
    except (*_UNPACKABLE, OSError) as error:
        if isinstance(error, BadInput):
            raise
        raise refuse(f"its {MANIFEST} cannot be read ({type(error).__name__})") from None
    if written != PACK_FORMAT:
        raise refuse(f"its format is {written!r}")
    for name in sizes.keys() ^ members.keys():
        raise refuse(f"{name!r} is {'declared and not there' if name in sizes else 'there and not declared'}")
    for name, info in members.items():
        if info.file_size != sizes[name][0]:
            raise refuse(f"{name!r} has {info.file_size:,} bytes and declares {sizes[name][0]:,}")
        if (name.endswith((".json", ".toml")) or "/source/" in name) and info.file_size > LARGEST_TEXT:
            raise refuse(f"{name!r} has {info.file_size:,} bytes, more than {LARGEST_TEXT:,}")
    owners = {name.partition("/")[0] for name in members} - {shared.TENSOR_INDEX, "reports"}
    if owners != set(stages) or len(stages) != len(owners):
        raise refuse("its list of stages is not that of its files")
    paths = {PurePosixPath(name) for name in members}
    for path in paths:
        if not paths.isdisjoint(path.parents):
            raise refuse(f"{str(path)!r} lies in a file")
    return {"files": sizes, "stages": stages, "study": study}


def _improper(info: zipfile.ZipInfo) -> str:
    """Why a member cannot be one of a packed file, or nothing."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    is_folder = info.filename.endswith("/")
    if kind not in (0, stat.S_IFREG) or is_folder:
        names = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        return f"is a {names.get(stat.S_IFDIR if is_folder else kind, 'device')}, not a file"
    name = info.orig_filename
    if name != info.filename or "\\" in name or "\0" in name or not name.isprintable():
        return "has a name that is not a plain path"
    if name.startswith("/") or any(part in ("", ".", "..") or len(part) > 200 for part in name.split("/")):
        return "leads out of the store"
    if name != MANIFEST and not any(form.fullmatch(name) for form in (_IN_STAGE, _SHARED, _STUDY)):
        return "is not a file of a store"
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is encrypted, or compressed in another way than by deflate"
    return ""


class _Unpacking:
    """One packed file on its way into a store, by way of a folder of the store that no reader looks into."""

    def __init__(self, store: Store, packed: zipfile.ZipFile, manifest: Mapping[str, Any], aside: Path) -> None:
        self.store, self.packed, self.aside = store, packed, aside
        self.files: Mapping[str, tuple[int, str]] = manifest["files"]
        self.stages: list[str] = manifest["stages"]
        self.outcome = Unpacked(manifest["study"], len(self.stages))

    def all(self, check: Callable[[Store], object]) -> Unpacked:
        """Every stage, parents first, then the study. Raises: BadInput where the disk has no room for them."""
        states = {name: self.store.status(name) for name in self.stages}
        there = {name for name in self.stages if os.path.lexists(self.store.folder(name))}
        needed = sum(size for name, (size, _) in self.files.items() if name.partition("/")[0] not in there)
        if needed > (free := shutil.disk_usage(self.store.root).free):
            raise BadInput(
                f"unpack: {self.packed.filename}: needs {needed:,} bytes and the disk of {self.store.root} has "
                f"{free:,}; make room, or name a store on another disk with --store"
            )
        disk.make_folder(self.aside, new=True)
        for name in self.stages:
            if name in there:
                self.outcome.there[name] = states[name]
                continue
            with self.store.lock(name) as lock:
                if lock is None or os.path.lexists(self.store.folder(name)):
                    self.outcome.there[name] = "running" if lock is None else self.store.status(name)
                    continue
                try:
                    self._take(name, check)
                    self.outcome.taken.append(name)
                except (*_UNPACKABLE, Damaged, OSError) as error:
                    if disk_full(error):
                        raise
                    self.outcome.refused[name] = self._reason(error)
                    disk.remove_tree(self.aside / name, ignore_errors=True)
        self._take_studies()
        return self.outcome

    def _reason(self, error: Exception) -> str:
        """An error in words, with the names that the file has."""
        if isinstance(error, (Damaged, BadInput, OSError)):
            text = refused(error) if isinstance(error, OSError) and error.filename is not None else str(error)
            return text.replace(f"{self.aside}{os.sep}", "")
        return f"its files cannot be read ({type(error).__name__}: {error})"

    def _take(self, name: str, check: Callable[[Store], object]) -> None:
        """Unpack a stage aside, check it, and give it its name."""
        folder = self.aside / name
        for member in self.files:
            if member.startswith(f"{name}/"):
                self._extract(member, self.aside / member)
        result = read_json(folder / RESULT)
        files: dict[str, str] = result["files"]
        own = {member.partition("/")[2] for member in self.files if member.startswith(f"{name}/")} - {RESULT}
        frozen = {inner for inner in files if inner.startswith(f"{shared.FROZEN}/")}
        if result["identity"] != name or result["status"] not in DONE or own != files.keys() - frozen:
            raise Damaged(f"{name}/{RESULT}: is not the result of these files")
        if read_json(folder / STAGE)["identity"] != name:
            raise Damaged(f"{name}/{STAGE}: is of another stage")
        for inner in own:
            if self.files[f"{name}/{inner}"][1] != files[inner]:
                raise Damaged(f"{name}/{inner}: its digest does not fit")
        for inner in frozen:
            member = f"{shared.TENSOR_INDEX}/{inner.removeprefix(f'{shared.FROZEN}/')}"
            if self.files[member][1] != files[inner] or inner != f"{shared.FROZEN}/{files[inner]}.safetensors":
                raise Damaged(f"{name}/{inner}: its digest does not fit")
            shared.put(self.store.root, folder / inner, partial(self._extract, member))
        for wrong in lost_parents(result, name, self.store.root):
            raise Damaged(wrong.partition(": ")[2])
        check(Store(self.aside))
        for top, _, _ in os.walk(folder):
            sync_folder(Path(top))
        disk.rename(folder, self.store.folder(name))
        sync_folder(self.store.root)

    def _extract(self, member: str, path: Path) -> None:
        """Write a member whose bytes have the declared digest. Raises: Damaged where they have not."""
        disk.make_folder(path.parent)
        file = disk.create(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with naming(path), self.packed.open(member) as source:
                digest = _copy(source, lambda chunk: write_all(file, chunk))
            with naming(path):
                disk.sync(file)
        finally:
            os.close(file)
        if digest != self.files[member][1]:
            raise Damaged(f"{member}: its digest does not fit")

    def _take_studies(self) -> None:
        """The studies' own files, so that the store knows to whom the stages belong."""
        for member, (_, digest) in self.files.items():
            path, parts = self.store.root / member, PurePosixPath(member).parts
            if not _STUDY.fullmatch(member) or len(self.outcome.refused) == len(self.stages):
                continue
            check_inside(self.store.root, member)
            if path.exists() and file_digest(path) != digest:
                # Another study of that name is at home here.
                path = path.parent.with_name(f"{parts[1]}-{digest[:8]}") / path.name
                check_inside(self.store.root, f"{parts[0]}/{path.parent.name}/{path.name}")
            self.outcome.report = path
            if path.exists():
                continue
            try:
                content = self.packed.read(member)
                from_toml(content.decode())
                if hashlib.sha256(content).hexdigest() != digest:
                    raise Damaged("its digest does not fit")
            except (*_UNPACKABLE, Damaged) as error:
                self.outcome.refused[member] = self._reason(error)
                continue
            disk.make_folder(path.parent)
            publish(path, content)
