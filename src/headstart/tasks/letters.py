"""Sequences of letters: amino acids and bases as ids, and FASTA files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from headstart.tasks.mistakes import Mistakes

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
