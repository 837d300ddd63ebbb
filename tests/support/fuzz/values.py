"""Other values in a document that stays one: what damage of bytes seldom reaches, behind its parser and its digest."""

from __future__ import annotations

import ast
import bz2
import contextlib
import copy
import gzip
import io
import json
import lzma
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import tomli_w

from support.fuzz.archive import changed_tar, zip_of

HUGE = int("9" * 400)
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**31, 2**63, HUGE, -HUGE, 0.5, -0.0, 1e-320, 1e308, float("inf"), float("nan")),
    *(
        "",
        " ",
        "nan",
        "../../etc",
        "/dev/zero",
        "a\0b",
        "\x1b[2J",
        "\u202egnp",
        "=1+1",
        "{0.__class__}",
        "<b>&amp;",
        "x" * 10_000,
    ),
    *([], {}, [[]], [None], {"": None}, {"kind": "os:system"}, list(range(1000))),
)
"""What stands for a value. A document of JSON may hold any number."""


DEEP = "lists in 5000 lists"
"""Is written as them."""


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value."""
    if path:
        yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def changed_value(document: Any, random: Random) -> Any:
    """A copy in which one to three values are others, lack, stand twice, or have another name."""
    out = json.loads(json.dumps(document))
    for _ in range(random.randint(1, 3)):
        ways = list(places(out))
        if not ways:
            break
        # As often near the root as deep in a long list.
        depth = random.randint(1, max(map(len, ways)))
        *above, key = random.choice([way for way in ways if len(way) == depth])
        owner = out
        for part in above:
            owner = owner[part]
        how = random.randrange(8)
        if how == 0:
            del owner[key]
        elif how == 1 and isinstance(owner, dict):
            owner[str(random.choice(ODD))[:50]] = owner.pop(key)
        elif how == 2 and isinstance(owner, list):
            owner.insert(0, owner[key])
        elif how == 3:
            owner[key] = DEEP
        elif how == 4 and isinstance(owner[key], (int, float)) and not isinstance(owner[key], bool):
            factor, more = random.choice((-1, 10, 10**6, 10**12)), random.choice((0, 1, 0.5))
            with contextlib.suppress(OverflowError):  # a whole number that no float holds
                owner[key] = owner[key] * factor + more
        else:
            owner[key] = copy.deepcopy(random.choice(ODD))  # a shared list could come into itself
    return out


def text_of(document: Any, dumped: Callable[[Any], str] = json.dumps) -> bytes:
    """As JSON, or as `dumped` writes it."""
    return dumped(document).replace(f'"{DEEP}"', "[" * 5000 + "]" * 5000).encode()


def changed_files(files: Mapping[str, bytes], random: Random) -> dict[str, bytes]:
    """The files, in one of which a value is another and which is still a file of its format; so is one that lies in a
    packed file, of which the sums are right again."""
    name = random.choice(sorted(files))
    return {**files, name: _changed_file(name, files[name], random)}


def _changed_file(name: str, content: bytes, random: Random) -> bytes:
    ending = name.rpartition(".")[2].lower()
    if ending in _PACKERS:
        pack, unpack = _PACKERS[ending]
        return pack(_changed_file(name.rpartition(".")[0], unpack(content), random))
    if content.startswith(b"PK\x03\x04"):
        return zip_of(changed_files(_members(content), random), random)
    try:
        if content[257:262] == b"ustar":
            return changed_tar(content, random)
        if ending == "toml":
            return text_of(changed_value(tomllib.loads(content.decode()), random), tomli_w.dumps)
        if ending in ("json", "vhdr") or content[:1] in (b"{", b"["):
            lines = content.splitlines() if ending == "jsonl" else [content]
            number = random.randrange(len(lines))
            lines[number] = text_of(changed_value(json.loads(lines[number]), random))
            return b"\n".join(lines)
        if ending == "safetensors":
            return _changed_tensors(content, random)
        if content.startswith(b"\x93NUMPY"):
            return _changed_array(content, random)
    except (
        TypeError,
        ValueError,
        LookupError,
        tarfile.TarError,
    ):  # TOML has no null, a text that is none stays damaged
        pass
    return _changed_text(content, random)


def _changed_tensors(content: bytes, random: Random) -> bytes:
    """Another value in the head, whose length is right, or in what our own files note of themselves."""
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    note = head.get("__metadata__", {}).get("headstart")
    if note is not None and random.random() < 0.5:
        head["__metadata__"]["headstart"] = text_of(changed_value(json.loads(note), random)).decode()
        text = json.dumps(head).encode()
    else:
        text = text_of(changed_value(head, random))
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _changed_array(content: bytes, random: Random) -> bytes:
    """Another value in the head of an array of numpy, whose length is right."""
    size = int.from_bytes(content[8:10], "little")
    head = ast.literal_eval(content[10 : 10 + size].decode("latin-1"))
    key = random.choice(sorted(head))
    shapes: tuple[Any, ...] = ((2**62,), (2**31, 2**31), (0,), (-1, 4), (2**40, 0), (1,) * 70, (True,), 4, "x", (0.5,))
    types: tuple[Any, ...] = ("|O", "<f8", ">f2", "<c16", "|V1000000000", "<U100000000", "<M8[ns]", "|b1", "?", 5, "")
    head[key] = random.choice({"shape": shapes, "descr": types}.get(key, (True, False, 1, "x")))
    text = repr(head).encode().ljust(size - 1) + b"\n"
    return content[:8] + (len(text) % 2**16).to_bytes(2, "little") + text + content[10 + size :]


def _changed_text(content: bytes, random: Random) -> bytes:
    """Another word or number where one stands, so that a text keeps its form."""
    words = [match.span() for match in re.finditer(rb"[\w.+-]+", content)][:10_000]
    for _ in range(random.randint(1, 3) if words else 0):
        start, end = random.choice(words)
        word = random.choice((*ODD, *(0, 1, 2, 65_535, 10**6, 10**9)))
        text = word if isinstance(word, str) else json.dumps(word)
        content = content[:start] + text.encode("utf-8", "replace") + content[end:]
        words = [match.span() for match in re.finditer(rb"[\w.+-]+", content)][:10_000]
        if not words:
            break
    return content


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        return {info.filename: packed.read(info) for info in packed.infolist()}


_PACKERS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gz": (gzip.compress, gzip.decompress),
    "xz": (lzma.compress, lzma.decompress),
    "bz2": (bz2.compress, bz2.decompress),
    "tgz": (gzip.compress, gzip.decompress),
    "tbz2": (bz2.compress, bz2.decompress),
}
