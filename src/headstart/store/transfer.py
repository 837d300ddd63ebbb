"""A stage's files on their way to another machine and back: names, bytes and digests, just as they lie in a store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from headstart.documents import from_json
from headstart.errors import Damaged
from headstart.store.files import NOTES, RECORDS, RESULT, STAGE, decode_json, read_json, states
from headstart.store.plain import inside, read_plain

Stamp = tuple[int, int, int]
"""Inode, time and size of a file."""

_PARTIAL = re.compile(rf"state-\d+\.safetensors|{'|'.join(map(re.escape, (STAGE, RECORDS, *NOTES.values())))}")
_LENGTH = 8  # bytes that say how long the head of a message is


def pack(head: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """One message: a head as JSON, and files, each with its digest."""
    sizes = [[name, len(content), hashlib.sha256(content).hexdigest()] for name, content in files.items()]
    text = json.dumps({"head": head, "files": sizes}).encode()
    return b"".join((len(text).to_bytes(_LENGTH, "big"), hashlib.sha256(text).digest(), text, *files.values()))


def unpack(message: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """(head, files) of `pack`. Raises: Damaged where a byte differs from what was packed."""
    start = _LENGTH + hashlib.sha256().digest_size
    at = start + int.from_bytes(message[:_LENGTH], "big")
    if hashlib.sha256(message[start:at]).digest() != message[_LENGTH:start]:
        raise Damaged("a message: its digest does not fit")
    document = from_json(message[start:at])
    files = {}
    for name, size, digest in document["files"]:
        files[name] = message[at : at + size]
        at += size
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise Damaged(f"{name}: its digest does not fit")
    if at != len(message):
        raise Damaged("a message: is cut short, or longer than it says")
    return document["head"], files


def partial_files(folder: Path) -> dict[str, bytes]:
    """What another machine needs to go on with a stage: its states, the records before them, its attempts."""
    paths = states(folder)
    names = [STAGE, *([RECORDS] if paths else []), *(path.name for path in paths)]
    return {name: read_plain(folder / name, None) for name in names if (folder / name).is_file()}


def finished_files(folder: Path) -> dict[str, bytes]:
    """Every file of a finished stage."""
    return {name: read_plain(inside(folder, name), None) for name in (RESULT, *read_json(folder / RESULT)["files"])}


class News:
    """What a stage's folder has that nobody has been sent yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sent: dict[str, Stamp] = self._stamps()

    def names(self) -> list[str]:
        """Of files that a stage has before its end."""
        return sorted(path.name for path in self.folder.glob("*") if _PARTIAL.fullmatch(path.name))

    def files(self) -> dict[str, bytes]:
        """Files that are new or have changed since the last call; records only where a state counts on them."""
        if (self.folder / RESULT).exists():
            return finished_files(self.folder)
        before, self._sent = self._sent, self._stamps()
        names = [name for name, stamp in self._sent.items() if before.get(name) != stamp and name != RECORDS]
        if any(name.startswith("state-") for name in names):
            names.append(RECORDS)
        return {name: (self.folder / name).read_bytes() for name in names}

    def _stamps(self) -> dict[str, Stamp]:
        stats = {name: (self.folder / name).stat() for name in self.names()}
        return {name: (stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}


def check_files(identity: str, files: Mapping[str, bytes]) -> None:
    """Raises: Damaged where these cannot be files of the stage, or are not what its result says of them."""
    if RESULT not in files:
        if strange := [name for name in files if not _PARTIAL.fullmatch(name)]:
            raise Damaged(f"{identity}/{strange[0]}: is not a file of a stage at work")
        if STAGE in files and decode_json(files[STAGE], Path(identity, STAGE)).get("identity") != identity:
            raise Damaged(f"{identity}/{STAGE}: is of another stage")
        return
    result = decode_json(files[RESULT], Path(identity, RESULT))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name != RESULT}
    if result.get("identity") != identity or digests != result.get("files"):
        raise Damaged(f"{identity}/{RESULT}: is not the result of these files")
    for name in digests:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name:
            raise Damaged(f"{identity}/{name}: leads out of the stage's folder")
