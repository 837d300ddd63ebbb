"""Sequences of letters: amino acids and bases as ids, and FASTA files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.problems import Mistakes
from headstart.data.table import Column, Places, Table
from headstart.data.text import text_lines
from headstart.errors import BadInput

ALPHABETS = {"protein": "ABCDEFGHIKLMNOPQRSTUVWXYZ", "dna": "ACGTRYSWKMBDHVN"}
"""Letters in the order of their ids: the 20 amino acids with B, O, U, X and Z (25); the bases with IUPAC's 11 letters
for several (15)."""
NAMES = {"protein": "amino acid", "dna": "base"}


def encode(text: str, letters: str, place: str, mistakes: Mistakes) -> np.ndarray | None:
    """Ids (L,) uint8 of a text in letters of either size; None and a mistake for the first that is none."""
    known = _TABLES[letters]
    raw = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    ids = known[np.minimum(raw, 127)]
    wrong = np.flatnonzero(ids == _NONE)
    if len(wrong):
        mistakes.add(
            place,
            f"letter {wrong[0] + 1} is {text[wrong[0]]!r}, no {NAMES[letters]} "
            f"({ALPHABETS[letters]}); correct it, or leave the sequence out",
        )
        return None
    return np.asarray(ids)


def spoken(letters: str) -> Callable[[np.ndarray], str]:
    """What turns ids back into letters."""
    table = ALPHABETS[letters]
    return lambda ids: "".join(table[int(i)] for i in ids)


def read_fasta(
    lines: Iterator[tuple[str, str]], letters: str, mistakes: Mistakes
) -> Iterator[tuple[str, str, np.ndarray]]:
    """(place of the header, header without `>`, ids) of each entry; lines that begin with `;` are comments.

    An entry with a wrong letter or without a sequence is a mistake and is left out.
    """
    header: tuple[str, str] | None = None
    parts: list[np.ndarray | None] = []
    for place, line in lines:
        text = line.strip()
        if text.startswith(">"):
            yield from _entry(header, parts, mistakes)
            header, parts = (place, text[1:].strip()), []
        elif text and not text.startswith(";"):
            if header is None:
                mistakes.add(place, "comes before the first header (a line that begins with >); give a FASTA file")
                return
            parts.append(encode(text, letters, place, mistakes))
    yield from _entry(header, parts, mistakes)


def _entry(
    header: tuple[str, str] | None, parts: list[np.ndarray | None], mistakes: Mistakes
) -> Iterator[tuple[str, str, np.ndarray]]:
    if header is None:
        return
    whole = [part for part in parts if part is not None]
    if not parts:
        mistakes.add(header[0], f"{header[1][:40]!r} has a header and no sequence; leave it out")
    elif len(whole) == len(parts):
        yield *header, np.concatenate(whole)


_NONE = 255


def _table(letters: str) -> np.ndarray:
    table = np.full(128, _NONE, dtype=np.uint8)
    for i, letter in enumerate(letters):
        table[[ord(letter), ord(letter.lower())]] = i
    return table


_TABLES = {name: _table(letters) for name, letters in ALPHABETS.items()}


WORDS = 6
"""Words of a FASTA header that are columns; most have one to three."""


def read_fasta_file(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A FASTA file: the first word of a header is the id, the others are columns `word 2`, `word 3` and so on.

    Lines that begin with `;` are comments. An entry without a sequence is a mistake.
    """
    headers: list[str] = []
    parts: list[list[str]] = []
    lines: list[int] = []
    for number, line in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        text = line.strip()
        if text.startswith(">"):
            headers.append(text[1:].strip())
            parts.append([])
            lines.append(number)
        elif text and not text.startswith(";"):
            if not parts:
                mistakes.add(
                    f"{path}:{number}", "comes before the first header (a line that begins with >); give a FASTA file"
                )
                mistakes.check()
            parts[-1].append(text)
    if not headers:
        raise BadInput(f"{path}: is empty; give a FASTA file, whose entries begin with >")
    for header, part, number in zip(headers, parts, lines, strict=True):
        if not part:
            mistakes.add(f"{path}:{number}", f"{header[:40]!r} has a header and no sequence; leave it out")
    places = Places(str(path), lines=np.array(lines, dtype=np.int64))
    columns = _header_words(headers)
    columns["sequence"] = Column("sequence", "text", cells=["".join(part) for part in parts])
    return Table(columns, len(headers), places, "FASTA", shape="text")


def _header_words(headers: list[str]) -> dict[str, Column]:
    cut = [header.split() for header in headers]
    most = min(max(map(len, cut)), WORDS)
    names = ["id", *(f"word {i}" for i in range(2, most + 1))] if most else []
    return {
        name: Column(name, "text", cells=[row[i] if i < len(row) else None for row in cut])
        for i, name in enumerate(names)
    }
