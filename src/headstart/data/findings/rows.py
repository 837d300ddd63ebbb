"""What may be wrong with rows beside each other: copies, both strands, rows that continue each other, ids, lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headstart.data.alike import among
from headstart.data.alike import near_copies as about_alike
from headstart.data.findings.finding import Finding, places, short
from headstart.data.letters import other_strand
from headstart.data.neighbours import about_order, about_pieces
from headstart.data.sequences import Sequences
from headstart.data.splits import ACROSS
from headstart.text import counted, many
from headstart.ways import option

FAR_TIMES = 10
"""Times the median length from which on a sequence is far longer than the rest."""
STRANDS = 10_000
"""Sequences whose other strand is looked for."""


def layout_doubts(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """What the table itself lets doubt."""
    for doubt in s.layout.doubts:
        yield Finding(doubt)


def copies(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Sequences that stand there twice, with one label or two, in one group or two."""
    counts = facts["copies"]
    if not counts["rows"]:
        return
    first = s.copies()
    row = int(np.flatnonzero(first != np.arange(len(s)))[0])
    yield Finding(
        f"{counted(counts['rows'], 'sequence is', 'sequences are')} an exact copy of an earlier one "
        f"({places(s, [int(first[row]), row])}); copies must not stand in train and test"
    )
    if counts["with other labels"]:
        row, before = clashes(first, s.labels)[0]
        yield Finding(
            f"{counted(counts['with other labels'], 'sequence has', 'sequences have')} copies with another label "
            f"({s.labels[before]!r} in {s.places.of(before)}, {s.labels[row]!r} in {s.places.of(row)}); correct one of "
            "the labels, or leave both out"
        )
    if counts["in two groups"]:
        row, before = clashes(first, s.groups)[0]
        yield Finding(
            f"{counted(counts['in two groups'], 'sequence stands', 'sequences stand')} in two groups, so that groups "
            f"leak ({places(s, [before, row])}); give both one group, or leave one of them out"
        )


def clashes(first: np.ndarray, names: Sequence[str | None] | None) -> list[tuple[int, int]]:
    """(a row, an earlier one) of equal sequences with different names, the first of each set of copies."""
    rows: dict[int, int] = {}
    out: dict[int, tuple[int, int]] = {}
    for row, (copy, name) in enumerate(zip(first.tolist(), names or [None] * len(first), strict=True)):
        if name is not None and names is not None and names[before := rows.setdefault(copy, row)] != name:
            out.setdefault(copy, (row, before))
    return list(out.values())


def lengths(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Sequences that are far longer than the others, and those of one position."""
    sizes = s.lengths
    may_be_cut = s.windows is None and sizes.min() > 1
    far = int((sizes > FAR_TIMES * max(facts["lengths"]["median"], 1)).sum())
    if far:
        longest = int(sizes.argmax())
        yield Finding(
            f"{counted(far, 'sequence is', 'sequences are')} more than {FAR_TIMES} times as long as the median, the "
            f"longest with {many(int(sizes[longest]), 'position')} ({s.places.of(longest)}); leave mistakes out"
            + (f", or {option('window', str(sizes.min()))} cuts pieces of one length" if may_be_cut else "")
        )
    alone = np.flatnonzero(sizes == 1).tolist()
    if alone:
        verb = counted(len(alone), "sequence has", "sequences have")
        yield Finding(f"{verb} one position ({places(s, alone[:2])}); leave out what is no sequence")


def unshared_symbols(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Tokens of which none stands in two sequences, as measurements do that were read as tokens."""
    if s.kind != "tokens" or not 1 < len(s) <= s.width:  # fewer symbols than sequences: some share one
        return
    row = np.repeat(np.arange(len(s)), s.lengths)
    symbols, last = s.values.astype(np.int64, copy=False), np.zeros(s.width, np.int64)
    last[symbols] = row
    if (last[symbols] == row).all():
        yield Finding.everywhere(
            f"no symbol stands in two of {many(len(s), 'sequence')}, so that none tells anything of others; where the "
            f"symbols are measurements, {option('kind', 'numbers')} reads them so"
        )


def both_strands(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """DNA of which a sequence is the reverse complement of another: the same molecule twice."""
    if s.kind != "dna":
        return
    rows = [s.values[begin:end] for begin, end in pairwise(s.offsets.tolist())]
    row_of: dict[bytes, int] = {}
    for row, values in enumerate(rows):
        row_of.setdefault(values.tobytes(), row)
    looked = rows[:STRANDS]
    pairs = [(row, row_of.get(other_strand(values).tobytes(), row)) for row, values in enumerate(looked)]
    pairs = [(row, other) for row, other in pairs if not np.array_equal(looked[row], rows[other])]
    if pairs:
        of = f"{len(looked):,} sequences" if len(looked) == len(s) else f"the first {len(looked):,} sequences"
        yield Finding.located(
            f"{len(pairs):,} of {of} are the reverse complement of another",
            places(s, pairs[0]),
            f", so that test may hold the other strand of train; {option('strand', 'one')} reads both strands alike",
        )


def neighbours(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Rows that are pieces of one recording: they overlap, or go on where the one before ends."""
    for text in about_pieces(s):
        yield Finding.everywhere(text)


def order(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Rows that are like those beside them, as rows of one session are."""
    for text in about_order(s) if not about_pieces(s) else ():
        yield Finding.everywhere(text)


def near_copies(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Rows that are far nearer to a few others than to the rest, as copies with noise are."""
    alike = about_alike(s) if s.target != "none" else None
    if alike is not None and alike.frequent and not about_pieces(s):
        yield Finding.located(
            f"{alike.near:,} of {many(alike.asked, 'row')} looked at{among(s)} are far nearer to a few others "
            "than to the rest",
            places(s, alike.pair),
            ", as copies with noise are, or several recordings of one thing: without a group that keeps them together "
            f"rows of test {ACROSS} train but for some noise, and every score is optimistic; name what they are "
            f"of with {option('group')}, or leave the copies out",
        )


def subjects(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Columns that look like the subject of a row and are not used."""
    if s.groups is not None:
        return
    for name, kinds in s.layout.subjects[:2]:
        yield Finding.everywhere(
            f"column {short(name)!r} ({kinds:,} different in {many(len(s), 'sequence')}) is not used and may say whose "
            f"a sequence is, so that one subject may stand in train and test; {option('group', name)} keeps each in "
            "one split"
        )


def splits(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Columns that name the split of a row and are not used."""
    for name, words in s.layout.splits:
        yield Finding.everywhere(
            f"column {short(name)!r} names splits ({words}) and is not used, so that other ones are drawn; where those "
            f"of the column shall hold, put their rows into files, and give fit {option('val')} and {option('test')}"
        )


def repeated_ids(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Ids of several rows."""
    if facts["repeated ids"] and s.ids is not None:
        name, count = Counter(s.ids).most_common(1)[0]
        rows = [row for row, other in enumerate(s.ids) if other == name][:2]
        way = f"; where rows of one id belong together, give {option('group', s.layout.id)}" if s.layout.id else ""
        yield Finding(
            f"{counted(facts['repeated ids'], 'id stands', 'ids stand')} in several rows, {name!r} in "
            f"{count:,} ({places(s, rows)}){way if s.groups is None else ''}"
        )
