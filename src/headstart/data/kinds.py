"""Kinds of data: texts as bytes, DNA and proteins as letters, tokens as places in a list of symbols."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from headstart.data.letters import ALPHABETS, encode
from headstart.data.numbers import is_number
from headstart.data.problems import Mistakes
from headstart.data.rows import text_of
from headstart.data.sequences import Sequences
from headstart.data.table import Places, Words, number_name
from headstart.errors import BadInput

PLAIN_TOKENS = 10
"""Different whole numbers up to which one channel of numbers is taken for tokens."""
MOST_SYMBOLS = 65_536
_BASES = re.compile(r"^[ACGTUNacgtun\s]*$")
_AMINO = re.compile(rf"^[{ALPHABETS['protein']}\s*]*$")


def text_kind(words: Words) -> Literal["text", "dna", "protein"]:
    """DNA where nearly all letters are bases, proteins where all are capital letters of amino acids, else text."""
    texts = [word for word in words[:1000] if word and word.strip()]
    size = sum(map(len, texts)) / max(len(texts), 1)
    letters = {letter for text in texts for letter in text}
    bases = sum(_BASES.match(text) is not None for text in texts)
    every = set(ALPHABETS["dna"]) | set(ALPHABETS["dna"].lower()) | set("Uu \n\r\t")
    if size >= 8 and bases >= 0.9 * len(texts) and letters <= every:
        return "dna"
    if (
        size >= 15
        and len(letters) >= 10
        and all(_AMINO.match(text) for text in texts)
        and not any(" " in text.strip() for text in texts)
    ):
        return "protein"
    return "text"


def letters_of(
    words: Words,
    kind: Literal["text", "dna", "protein"],
    places: Places,
    column: str,
    mistakes: Mistakes,
    notes: list[str],
) -> tuple[np.ndarray, np.ndarray]:
    """(ids (S,) uint8, offsets (n + 1,)) of texts; an empty one, and a letter that is none, is a mistake."""
    parts, uracil = [], 0
    for row, word in enumerate(words):
        place = places.cell(row, column)
        if word is None or not word.strip():
            mistakes.add(place, "the text is empty; leave the row out")
            continue
        if kind == "text":
            content = text_of(word, place, mistakes)
            found = None if content is None else np.frombuffer(content, dtype=np.uint8)
        else:
            plain = "".join(word.split())
            if kind == "dna" and ("U" in plain or "u" in plain):
                uracil += 1
                plain = plain.replace("U", "T").replace("u", "t")
            if kind == "protein":
                plain = plain.removesuffix("*")  # marks the end
            found = encode(plain, kind, place, mistakes)
        if found is not None:
            parts.append(found)
    if uracil:
        notes.append(f"U is read as T in {uracil:,} sequences")
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8), offsets


def coded(
    words: Sequence[str | None], symbols: tuple[str, ...], places: Places, column: str, mistakes: Mistakes
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(ids (S,), symbols in the order of their ids) of words; a missing one, or one that is none of `symbols`, is a
    mistake."""
    known = {word: i for i, word in enumerate(symbols or _ordered({word.strip() for word in words if word}))}
    if len(known) > MOST_SYMBOLS:
        raise BadInput(
            f"{places.source}: column {column!r} holds {len(known):,} different words, at most {MOST_SYMBOLS:,} "
            "are tokens; give texts, or numbers"
        )
    ids = np.zeros(len(words), dtype=np.uint16)
    wrong: dict[str, list[int]] = {}
    for i, word in enumerate(words):
        found = known.get((word or "").strip())
        if found is None:
            wrong.setdefault((word or "").strip(), []).append(i)
        else:
            ids[i] = found
    for word, where in wrong.items():
        many = f", {len(where):,} of them" if len(where) > 1 else ""
        what = f"{word[:40]!r} is none of the {len(known):,} symbols" if word else "a token is missing"
        mistakes.add(places.cell(where[0], column), f"{what}{many}; correct it, or leave the row out")
    return ids, tuple(known)


def to_tokens(whole: Sequences, notes: list[str]) -> Sequences:
    """The same as tokens, where that was asked for or is plain: one channel, nothing missing, few whole numbers.

    Raises: BadInput where it was asked for and cannot be, and for numbers that are none of the symbols that were set.
    """
    spec = whole.layout.spec
    asked = spec.kind == "tokens"
    if spec.kind not in ("auto", "tokens"):
        return whole
    if whole.values.shape[1] != 1 or whole.observed is not None:
        if asked:
            what = "a value is missing" if whole.observed is not None else f"there are {whole.values.shape[1]} channels"
            raise BadInput(
                f"{whole.layout.source}: kind: tokens need one channel without gaps, and {what}; set kind to "
                "numbers, or name one channel with --values"
            )
        return whole
    flat = whole.values[:, 0]
    if not asked and not (flat[:1000] == flat[:1000].round()).all():
        return whole
    found = np.unique(flat)
    if not asked and not _plainly(found, len(flat)):
        return whole
    names = tuple(number_name(value) for value in found.tolist())
    symbols = spec.symbols or names
    place = {name: i for i, name in enumerate(symbols)}
    _refuse_unknown(whole, found, names, place)
    if len(symbols) > MOST_SYMBOLS:
        raise BadInput(
            f"{whole.layout.source}: kind: {len(symbols):,} different values, at most {MOST_SYMBOLS:,} are tokens; "
            "set kind to numbers"
        )
    ids = np.array([place[name] for name in names], dtype=np.uint16)[np.searchsorted(found, flat)]
    if not asked:
        notes.append(
            f"whole numbers with {len(names)} values are read as tokens (--kind numbers reads them as numbers)"
        )
    return replace(whole, values=ids, layout=replace(whole.layout, kind="tokens", symbols=symbols))


def _plainly(found: np.ndarray, count: int) -> bool:
    return bool(1 < len(found) <= PLAIN_TOKENS and (found == found.round()).all() and count >= 20 * len(found))


def _refuse_unknown(whole: Sequences, found: np.ndarray, names: tuple[str, ...], place: dict[str, int]) -> None:
    mistakes = Mistakes()
    for value, name in zip(found.tolist(), names, strict=True):
        if name not in place:
            first = int(np.argmax(whole.values[:, 0] == value))
            row = int(np.searchsorted(whole.offsets, first, side="right")) - 1
            mistakes.add(
                whole.places.of(row),
                f"{name} is none of the {len(place)} symbols ({', '.join(list(place)[:8])}); "
                "correct it, or leave the row out",
            )
    mistakes.check()


def _ordered(words: set[str]) -> list[str]:
    words.discard("")
    return sorted(words, key=float) if all(map(is_number, words)) else sorted(words)
