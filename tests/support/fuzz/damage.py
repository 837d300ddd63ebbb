"""Damage to files: bytes changed, cut, doubled, spliced and written over, files lost and exchanged."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from support.fuzz.parser import Files
from support.fuzz.seals import sealed
from support.fuzz.values import changed_files

WORDS = (
    *(b"", b"0", b"-1", b"1e400", b"-0.0", b"nan", b"inf", b"None", b"true", b"99999999999999999999", b"4294967296"),
    *(
        b"1_000",
        b"0x10",
        b"1,5",
        b"\xef\xbc\x91",
        b"\xd9\xa1",
        b'"',
        b"'",
        b'""',
        b"\n",
        b"\r",
        b"\r\n",
        b"\t",
        b";",
        b",,",
    ),
    *(b"\x00", b"\x1b[31m", b"\xff\xfe", b"\xe2\x80\xae", b"\xed\xa0\x80", b"[", b"]", b"[[", b"{", b"}", b"{}", b"[]"),
    *(b"../", b"/etc/passwd", b"@data", b":", b"?", b">", b"#", b"=", b"\\", b"\\u0000", b"[bold]", b"1970-01-01"),
)
"""What parsers stumble over."""
NUMBERS = (0, 1, 2, 255, 256, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


def _numbers() -> list[bytes]:
    """Whole numbers as headers of binary files hold them."""
    forms = [
        (form, bits) for bits, letter in ((16, "H"), (32, "I"), (64, "Q")) for form in (f"<{letter}", f">{letter}")
    ]
    return [struct.pack(form, number) for form, bits in forms for number in NUMBERS if number < 2**bits]


NUMERALS = _numbers()
KINDS = ("byte", "write", "insert", "delete", "double", "splice", "cut", "lose", "exchange", "nest")
Change = tuple[str, int, int, bytes]
"""Kind, two places, and a word."""


def _nested(random: Random) -> bytes:
    """Brackets in brackets, closed again or not, and numbers of very many digits."""
    count = random.choice((20, 99, 101, 1_000, 20_000))
    first, last = random.choice(
        (
            (b"[", b"]"),
            (b'{"a":', b"}"),
            (b"{a = ", b"}"),
            (b"[[", b"]]"),
            (b'[{"a": [', b"]}]"),
            (b"a.", b""),
            (b"9", b""),
            (b"0", b"1"),
            (b"\n[a.b", b"]"),
            (b"(", b")"),
            (b'"""', b""),
            (b"\\", b""),
        )
    )
    return first * count + random.choice((b"", b"1", b"x")) + random.choice((b"", last * count))


def _one_change(random: Random) -> Change:
    kind = random.choice(KINDS)
    words: tuple[Callable[[], bytes], ...] = (
        lambda: random.choice(WORDS),
        lambda: random.choice(NUMERALS),
        lambda: random.randbytes(random.randrange(9)),
    )
    word = _nested(random) if kind == "nest" else random.choice(words)()
    return kind, random.randrange(2**20), random.randrange(2**20), word


def _change(content: bytes, kind: str, first: int, second: int, word: bytes) -> bytes:
    size = len(content)
    at = first % (size + 1)
    length = second % 24
    if kind == "byte":
        return content[:at] + bytes([second % 256]) + content[at + 1 :]
    if kind == "write":
        return content[:at] + word + content[at + len(word) :]
    if kind in ("insert", "nest"):
        return content[:at] + word + content[at:]
    if kind == "delete":
        return content[:at] + content[at + length :]
    if kind == "double":
        return content[: at + length] + content[at:]
    if kind == "splice":
        start = second % (size + 1)
        return content[:at] + content[start : start + 40] + content[at:]
    return content[:at]


@dataclass(frozen=True)
class Damage:
    """A good sample, what is done to its files in turn (a change and which file, or the number of other values), and
    whether digests are right again afterwards."""

    sample: Files
    changes: tuple[tuple[Change, int] | int, ...]
    right: bool

    def files(self) -> Files:
        """The damaged files."""
        out = dict(self.sample)
        for change in self.changes:
            if isinstance(change, int):
                out = changed_files(out, Random(change))
            else:
                out = _applied(out, *change)
        return sealed(out) if self.right else out

    def without(self, change: tuple[Change, int] | int) -> Damage:
        """All but one of the changes."""
        return replace(self, changes=tuple(other for other in self.changes if other is not change))


def damage(samples: Sequence[Files], random: Random) -> Damage:
    """One of the samples after one to six changes of bytes, or with other values; digests are often right."""
    changes: list[tuple[Change, int] | int] = [random.randrange(2**32)]
    if random.random() < 0.5:
        changes = [(_one_change(random), random.randrange(64)) for _ in range(random.randint(1, 6))]
    return Damage(random.choice(samples), tuple(changes), random.random() < 2 / 3)


def _applied(files: dict[str, bytes], change: Change, which: int) -> dict[str, bytes]:
    """The files after a change to one of them; one file at least is left."""
    out, (kind, first, second, word) = dict(files), change
    names = list(out)
    name, other = names[which % len(names)], names[second % len(names)]
    if kind == "lose":
        if len(names) > 1:
            del out[name]
    elif kind == "exchange":
        out[name], out[other] = out[other], out[name]
    else:
        out[name] = _change(out[name], kind, first, second, word)
    return out
