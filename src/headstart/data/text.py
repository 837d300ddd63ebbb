"""Text files as lines: packed or not, with or without a byte order mark; lines that cannot be decoded are named."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headstart.data.archives import DAMAGED, unpacked
from headstart.data.problems import Mistakes
from headstart.errors import BadInput

LINE = 2**26
"""Characters that one line may have."""

BINARY = {
    b"PK\x03\x04": "a zip file or a spreadsheet",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x93NUMPY": "a .npy file",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"%PDF": "a PDF file",
}
"""How files begin that are no text, whatever their name."""
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever keeps a file from being read becomes a BadInput that names it."""
    try:
        yield
    except BadInput:
        raise
    except DAMAGED as error:
        raise BadInput(f"{path}: is cut short or damaged ({error}); give the file again") from None
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror or error}); give access to it, or name another file"
        ) from None
    except MemoryError:
        raise BadInput(f"{path}: does not fit into memory; give it in parts") from None


def text_lines(path: Path, encoding: str, mistakes: Mistakes) -> Iterator[str]:
    """Lines with their ends, as an editor counts them (a line ends at a newline, a return, or both).

    A line that is not of this encoding is a mistake; it is given with what stands in for the wrong bytes, so that
    lines stay counted. Raises: BadInput for what is no text at all.
    """
    with reading(path):
        with unpacked(path) as file:
            start = file.read(4096)
        check_text(path, start, encoding)
        with unpacked(path) as file:
            name = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
            wide = name.startswith(("utf-16", "utf-32"))
            text = io.TextIOWrapper(file, name, newline="", errors="strict" if wide else "surrogateescape")
            try:
                yield from _checked(path, text, encoding, mistakes)
            except UnicodeError as error:
                raise BadInput(
                    f"{path}: is not {encoding} ({error}); save it as UTF-8, or give its --encoding"
                ) from None


def check_text(path: Path, start: bytes, encoding: str) -> None:
    """Raises: BadInput where a file begins as no text does, or its encoding is not known."""
    try:
        wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
        "".encode(encoding)
    except LookupError:
        raise BadInput(
            f"layout.encoding: {encoding!r} is no encoding of text; utf-8, latin-1 and utf-16 are some"
        ) from None
    for magic, what in BINARY.items():
        if start.startswith(magic):
            raise BadInput(f"{path}: is {what}, not text; give it the ending that says so, or save it as CSV")
    if start.startswith(WIDE) and not wide:
        raise BadInput(f"{path}: is UTF-16; save it as UTF-8, or give --encoding utf-16")
    if b"\0" in start and not wide:
        raise BadInput(f"{path}: is not text (byte {start.index(0)} is 0); give a text file, or its --encoding")


def _checked(path: Path, text: io.TextIOWrapper, encoding: str, mistakes: Mistakes) -> Iterator[str]:
    count, wrong, first, what = 0, 0, "", ""
    while line := text.readline(LINE + 1):
        count += 1
        if len(line) > LINE:
            raise BadInput(f"{path}:{count}: has more than {LINE} characters; give one row a line")
        if not line.isascii():
            try:
                line.encode("utf-8", "strict")
            except UnicodeEncodeError as error:
                wrong += 1
                what = what or f"byte {ord(line[error.start]) - 0xDC00:#04x} after {line[: error.start][-20:]!r}"
                first = first or f"{path}:{count}"
        yield line
    if wrong:
        many = f", {wrong:,} such lines" if wrong > 1 else ""
        mistakes.add(
            first, f"is not {encoding} ({what}{many}); save the file as UTF-8, or give its --encoding (latin-1, say)"
        )


def printable(text: str) -> str:
    """The text with control characters written as escapes, so that no terminal obeys them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
