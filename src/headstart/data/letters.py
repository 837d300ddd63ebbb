"""Texts as ids: bytes, amino acids, bases, tokens out of a list of symbols; and FASTA files."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from headstart.data.alphabets import ALPHABETS, LETTER_NAMES
from headstart.data.layout import LayoutSpec
from headstart.data.table import Column, Table, Words, arrow_texts
from headstart.data.text import text_lines, text_of
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few, in_order, many
from headstart.ways import option

_COMPLEMENT = np.array(["ACGTRYSWKMBDHVN".index(letter) for letter in "TGCAYRSWMKVHDBN"], dtype=np.uint8)
"""Ids of the complements of bases: R (A or G) pairs with Y (C or T), K with M, B with V, D with H."""
HEADER_WORDS = 6
"""Words of a FASTA header that are columns; most have one to three."""
MOST_SYMBOLS = 65_536
FEW_SYMBOLS, MOST_ALONE = 20, 0.8
"""Symbols that are never taken for numbers; share of different cells from which on they are."""
_MARKED_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[\d.,+<>=~≈≤≥±/*$€£¥%\s-]+")
"""Numbers with marks that no number has: ~5, 5±0.1, 120/80, 0x1F."""
_BASES = "ACGTUNacgtun"
_AMINO = f"{ALPHABETS['protein']}J*"
"""Letters that proteins are told by: with J (leucine or isoleucine), which has no id and is refused by its place."""
FEW_ODD = 0.99
"""Share of the letters of proteins that are those of amino acids."""
WAY = "correct it, or leave the sequence out"


def encode(text: str, letters: str, location: str, mistakes: Mistakes, way: str = WAY) -> np.ndarray | None:
    """Ids (L,) uint8 of a text in letters of either size; None and a mistake for the first that is none."""
    table = _TABLES[letters]
    raw = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    ids = table[np.minimum(raw, 127)]
    wrong = np.flatnonzero(ids == _NONE)
    if len(wrong):
        mistakes.add(
            location,
            f"letter {wrong[0] + 1} is {text[wrong[0]]!r}, no {LETTER_NAMES[letters]} ({ALPHABETS[letters]}); {way}",
        )
        return None
    return np.asarray(ids)


def spoken(kind: str, symbols: Sequence[str] = ()) -> Callable[[np.ndarray], str]:
    """What turns ids of a text, of letters or of tokens back into what a person wrote."""
    if kind == "text":
        return lambda ids: ids.astype(np.uint8).tobytes().decode(errors="replace")
    if kind == "tokens":
        return lambda ids: " ".join(symbols[int(i)] for i in ids)
    table = ALPHABETS[kind]
    return lambda ids: "".join(table[int(i)] for i in ids)


def text_kind(words: Words) -> Literal["text", "dna", "protein"]:
    """DNA where nearly all letters are bases, proteins where nearly all are capital letters of amino acids, else text.

    A few odd letters make no text of a file: who reads it names them.
    """
    texts = [word for word in words[:1000] if word and word.strip()]
    counts = Counter("".join("".join(texts).split()))
    total = max(counts.total(), 1)
    size = total / max(len(texts), 1)
    bases, amino = (sum(counts[letter] for letter in letters) for letters in (_BASES, _AMINO))
    if size >= 8 and bases >= 0.9 * total:
        return "dna"
    spaces = any(" " in text.strip() for text in texts)
    return "protein" if size >= 15 and len(counts) >= 10 and amino >= FEW_ODD * total and not spaces else "text"


def letters_of(
    words: Words,
    kind: Literal["text", "dna", "protein"],
    places: Places,
    column: str,
    mistakes: Mistakes,
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray]:
    """(ids (S,) uint8, offsets (n + 1,)) of texts; an empty one, and a letter that is none, is a mistake."""
    parts, uracil, small = [], 0, 0
    for row, word in enumerate(words):
        location = places.cell(row, column)
        if word is None or not word.strip():
            mistakes.add(location, "the text is empty; leave the row out")
            continue
        if kind == "text":
            content = text_of(word, location, mistakes)
            ids = None if content is None else np.frombuffer(content, dtype=np.uint8)
        else:
            plain = "".join(word.split())
            if kind == "dna" and ("U" in plain or "u" in plain):
                uracil += 1
                plain = plain.replace("U", "T").replace("u", "t")
            if kind == "protein":
                plain = plain.removesuffix("*")  # marks the end
            small += plain != plain.upper()
            ids = encode(plain, kind, location, mistakes, f"{WAY} ({option('kind', 'text')} reads all as text)")
        if ids is not None:
            parts.append(ids)
    if uracil:
        notes.append(f"U is read as T in {many(uracil, 'sequence')}")
    if small:
        notes.append(f"small letters are read as capital ones in {many(small, 'sequence')}")
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8), offsets


def other_strand(ids: np.ndarray) -> np.ndarray:
    """The reverse complement (L,) of ids of bases (L,)."""
    return np.asarray(_COMPLEMENT[ids[::-1]])


def one_strand(ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Ids of DNA (S,), of each sequence those of the strand that comes first in the order of the letters."""
    out = ids.copy()
    for begin, end in itertools.pairwise(offsets.tolist()):
        other = other_strand(ids[begin:end])
        if other.tobytes() < ids[begin:end].tobytes():
            out[begin:end] = other
    return out


def both_strands(ids: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ids (2 S,), offsets (n + 1,)): behind each sequence its reverse complement."""
    pairs = [(ids[a:b], other_strand(ids[a:b])) for a, b in itertools.pairwise(offsets.tolist())]
    return np.concatenate([ids[:0], *(part for pair in pairs for part in pair)]), 2 * offsets


def check_symbols(words: Sequence[str | None], source: str, column: str) -> None:
    """Look at words that are taken for symbols by their being no numbers. Raises: BadInput where they may be numbers:
    they hold digits, and nearly each is another one, or they are digits with marks, such as ~5 or 120/80."""
    cells = [word.strip() for word in words if word and word.strip()]
    kinds = dict.fromkeys(cells)
    if len(kinds) <= FEW_SYMBOLS or 2 * sum(any(map(str.isdigit, kind)) for kind in kinds) <= len(kinds):
        return
    if len(kinds) > MOST_ALONE * len(cells) or all(map(_MARKED_NUMBER.fullmatch, kinds)):
        some = first_few([repr(kind[:40]) for kind in kinds], 2)
        raise BadInput(
            f"{source}: column {column!r} would be symbols, {len(kinds):,} different ones in {len(cells):,} cells "
            f"({some}), which are no numbers as they are written; write them as numbers, name other columns with "
            f"{option('values')}, or give {option('kind', 'tokens')} where each is a symbol"
        )


def coded(
    words: Sequence[str | None], symbols: tuple[str, ...], places: Places, column: str, mistakes: Mistakes
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(ids (S,), symbols in the order of their ids) of words; a missing one, or one that is none of `symbols`, is a
    mistake."""
    code_of = {word: i for i, word in enumerate(symbols or in_order({word.strip() for word in words if word} - {""}))}
    if len(code_of) > MOST_SYMBOLS:
        raise BadInput(
            f"{places.source}: column {column!r} holds {len(code_of):,} different words, at most {MOST_SYMBOLS:,} "
            "are tokens; give texts, or numbers"
        )
    ids = np.zeros(len(words), dtype=np.uint16)
    wrong: dict[str, list[int]] = {}
    for i, word in enumerate(words):
        code = code_of.get((word or "").strip())
        if code is None:
            wrong.setdefault((word or "").strip(), []).append(i)
        else:
            ids[i] = code
    for word, where in wrong.items():
        many = f", {len(where):,} of them" if len(where) > 1 else ""
        unknown = f"{word[:40]!r} is none of the {len(code_of):,} symbols ({', '.join(list(code_of)[:8])})"
        what = unknown if word else "a token is missing"
        mistakes.add(places.cell(where[0], column), f"{what}{many}; correct it, or leave the row out")
    return ids, tuple(code_of)


def read_fasta(
    lines: Iterable[tuple[str, str]], letters: str, mistakes: Mistakes
) -> Iterator[tuple[str, str, np.ndarray]]:
    """(place of the header, header without `>`, ids) of each entry; lines that begin with `;` are comments.

    An entry with a wrong letter or without a sequence is a mistake and is left out.
    """
    for location, header, parts in _entries(lines, mistakes):
        ids = [encode(text, letters, where, mistakes) for where, text in parts]
        whole = [part for part in ids if part is not None]
        if len(whole) == len(parts):
            yield location, header, np.concatenate(whole)


def _entries(lines: Iterable[tuple[str, str]], mistakes: Mistakes) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """(place of the header, header, (place, text) of each line of the sequence) of each entry that has a sequence."""
    entry: tuple[str, str, list[tuple[str, str]]] | None = None
    for location, line in itertools.chain(lines, [("", ">")]):
        text = line.strip()
        if text.startswith(">"):
            if entry is not None and entry[2]:
                yield entry
            elif entry is not None:
                mistakes.add(entry[0], f"{entry[1][:40]!r} has a header and no sequence; leave it out")
            entry = (location, text[1:].strip(), [])
        elif text and not text.startswith(";"):
            if entry is None:
                mistakes.add(location, "comes before the first header (a line that begins with >); give a FASTA file")
                return
            entry[2].append((location, text))


def read_fasta_file(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A FASTA file: the first word of a header is the id, the others are columns `word 2`, `word 3` and so on;
    words are between blanks, or, where there is none, between bars."""
    numbered = ((f"{path}:{n}", line) for n, line in enumerate(text_lines(path, spec.encoding, mistakes), 1))
    entries = list(_entries(numbered, mistakes))
    mistakes.check()
    if not entries:
        raise BadInput(f"{path}: is empty; give a FASTA file, whose entries begin with >")
    places = Places(str(path), lines=np.array([int(location.rpartition(":")[2]) for location, _, _ in entries]))
    columns = header_words([header for _, header, _ in entries])
    columns["sequence"] = Column(
        "sequence", "text", arrow_texts(["".join(text for _, text in parts) for _, _, parts in entries])
    )
    return Table(columns, len(entries), places, "FASTA", shape="text")


DATABASES = ("sp|", "tr|", "gi|", "ref|", "gb|", "emb|", "dbj|", "pdb|", "lcl|", "gnl|", "pir|")
"""How names of databases begin, whose bars are part of an id."""


def header_words(headers: list[str]) -> dict[str, Column]:
    cut = [header.split() for header in headers]
    bars = {header.count("|") for header in headers}
    if all(len(row) == 1 for row in cut) and len(bars) == 1 and bars != {0} and not headers[0].startswith(DATABASES):
        cut = [header.split("|") for header in headers]
    most = min(max(map(len, cut)), HEADER_WORDS)
    names = ["id", *(f"word {i}" for i in range(2, most + 1))] if most else []
    return {
        name: Column(name, "text", arrow_texts([row[i] if i < len(row) else None for row in cut]))
        for i, name in enumerate(names)
    }


_NONE = 255


def _table(letters: str) -> np.ndarray:
    table = np.full(128, _NONE, dtype=np.uint8)
    for i, letter in enumerate(letters):
        table[[ord(letter), ord(letter.lower())]] = i
    return table


_TABLES = {name: _table(letters) for name, letters in ALPHABETS.items()}
