"""Columns that may say whose a sequence is, in which split, or how it was recorded, and are not used."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import numpy as np

from headstart.data.layout import SPLIT_WORDS, Layout
from headstart.data.table import Column, Table, Words
from headstart.text import is_number

_WORDS = (
    "subj|patient|person|participant|proband|user|animal|rat|mouse|donor|speaker|volunteer|wearer|child|driver|rider|"
    "worker|individual|specimen|machine|engine|device|operator|recording|session"
)
_SUBJECT = re.compile(f"(?i)(?<![a-z])({_WORDS}|vpn?(?![a-z]))")
"""Words in names of columns that say whose a sequence is."""
_NUMBERED = re.compile(r"[A-Za-z]{1,12}[ _-]?\d{1,6}")
_NUMBERED_SUBJECT = re.compile(rf"(?i)(sub|pat|vp|{_WORDS})[a-z]*[ _-]?\d{{1,6}}")
_SPLIT = re.compile(f"(?i)(public|private)?[ _-]?({'|'.join(SPLIT_WORDS)})[ _-]?(set|data|split)?")
_RECORDED = re.compile(
    r"(?i)(?<![a-z])(device|camera|scanner|sensor|instrument|recorder|microphone|phone|machine|operator|technician|"
    r"experimenter|annotator|rater|site|hospital|clinic|cent(er|re)|lab|laboratory|room|batch|plate|day|date|weekday|"
    r"firmware|software)(?![a-rt-z])"
)
"""Words in names of columns that say by what, by whom, where or when a sequence was recorded."""
NAMES_FROM = 4
"""Different words from which on they may be names of persons, and not kinds of something."""


def says_subject(name: str) -> bool:
    """Whether a name of a column says that it holds whose a sequence is."""
    return bool(_SUBJECT.search(name))


def looks_like_subject(column: Column) -> bool:
    """Whether all cells are names of subjects with numbers: rat07, user_3."""
    words = [word for word in column.coded[1] if word]
    return len(words) > 2 and all(_NUMBERED_SUBJECT.fullmatch(word.strip()) for word in words)


def names_splits(column: Column) -> bool:
    """Whether the cells say to which split a row belongs, such as train and test."""
    words = {word.strip() for word in column.coded[1] if word}
    return 1 < len(words) < 6 and all(map(_SPLIT.fullmatch, words))


def splits_of(table: Table, layout: Layout) -> tuple[tuple[str, str], ...]:
    """Columns that are not used and name the split of a row, with what they hold and how often."""
    out = []
    for column in (table.columns[name] for name in layout.unused if not layout.spec.optional):
        if column.type == "text" and names_splits(column):
            counts = Counter(word for word in column.words if word)
            out.append((column.name, ", ".join(f"{word} {count:,}" for word, count in counts.most_common())))
    return tuple(out)


def how_recorded(table: Table, layout: Layout) -> dict[str, np.ndarray]:
    """Cells (rows of the table) of columns that are not used and say how sequences were recorded, by what they are."""
    columns = [table.columns[name] for name in layout.unused if _RECORDED.search(name) and not layout.spec.optional]
    return {
        f"the column {column.name!r}, which is not used,": np.array([word or "" for word in column.words])
        for column in columns
        if column.type in ("text", "number")
    }


def subjects_of(table: Table, layout: Layout, rows: np.ndarray, labels: Words) -> tuple[tuple[str, int], ...]:
    """Columns that are not used and look like the subject of a sequence, with how many different ones there are: by a
    word of the name, or texts with numbers (S01, S02), each of several sequences; or single words, each of several
    sequences with several labels; or texts that stand in runs of rows, each with one label."""
    out = []
    for column in (table.columns[name] for name in layout.unused if not layout.spec.optional):
        if column.type not in ("text", "number") or not (column.type == "text" or column.whole):
            continue
        words = [(word or "").strip() for word in (column.words[row] for row in rows.tolist())]
        kinds = len(set(words))
        named = says_subject(column.name)
        named = named or (len(labels) == len(words) and (_persons(words, labels) or _nested(words, labels)))
        if (named or all(map(_NUMBERED.fullmatch, words))) and kinds > 2 and 2 * kinds <= len(words) and all(words):
            out.append((column.name, kinds))
    return tuple(out)


def _nested(words: list[str], labels: Words) -> bool:
    """Whether texts may be subjects of one label each: twice as many as labels, each beside one label of several rows
    that stand one after another."""
    kinds, pairs = set(words), {pair for pair in zip(words, labels, strict=True) if pair[1] is not None}
    runs = 1 + sum(word != before for before, word in pairwise(words))
    several = 2 * len({label for _, label in pairs}) <= len(kinds) == len(pairs) == runs <= len(words) // 3
    return several and len(kinds) >= NAMES_FROM and not any(map(is_number, kinds))


def _persons(words: list[str], labels: Words) -> bool:
    """Whether words may be names of persons: each stands beside several labels, and each label beside several."""
    kinds = set(words)
    if not NAMES_FROM <= len(kinds) <= len(words) // 3 or not all(map(str.isalpha, kinds)):
        return False
    pairs = {(word, label) for word, label in zip(words, labels, strict=True) if label is not None}
    of_words, of_labels = Counter(word for word, _ in pairs), Counter(label for _, label in pairs)
    return len(of_labels) > 1 and min(of_words.values()) > 1 and min(of_labels.values()) > 1
