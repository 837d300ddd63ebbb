"""Damage to files: bytes changed, cut, doubled, spliced and written over, files lost and exchanged."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

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


CHANGES = st.tuples(
    st.sampled_from(("byte", "write", "insert", "delete", "double", "splice", "cut", "lose", "exchange")),
    st.integers(0, 2**20),
    st.integers(0, 2**20),
    st.one_of(st.sampled_from(WORDS), st.sampled_from(_numbers()), st.binary(max_size=8)),
)


def _change(content: bytes, kind: str, first: int, second: int, word: bytes) -> bytes:
    size = len(content)
    at = first % (size + 1)
    length = second % 24
    if kind == "byte":
        return content[:at] + bytes([second % 256]) + content[at + 1 :]
    if kind == "write":
        return content[:at] + word + content[at + len(word) :]
    if kind == "insert":
        return content[:at] + word + content[at:]
    if kind == "delete":
        return content[:at] + content[at + length :]
    if kind == "double":
        return content[: at + length] + content[at:]
    if kind == "splice":
        start = second % (size + 1)
        return content[:at] + content[start : start + 40] + content[at:]
    return content[:at]


def apply(files: Files, changes: Sequence[Any]) -> Files:
    """The files after each change in turn; one file at least is left."""
    out = dict(files)
    for (kind, first, second, word), which in changes:
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


def damaged(samples: Sequence[Files]) -> st.SearchStrategy[Files]:
    """Files of one of the samples after one to six changes of bytes, or with other values; digests are often right."""
    sample = st.sampled_from(list(samples))
    changes = st.lists(st.tuples(CHANGES, st.integers(0, 63)), min_size=1, max_size=6)
    numbers = st.integers(0, 2**32)
    files = st.one_of(st.builds(apply, sample, changes), st.builds(with_other_values, sample, numbers))
    return st.builds(
        lambda files, right: sealed(files) if right else files, files, st.sampled_from((True, True, False))
    )


def with_other_values(files: Files, number: int) -> Files:
    """The files, in one of which one to three values are others, by a number."""
    return changed_files(files, Random(number))
