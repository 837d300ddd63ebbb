"""Which column a table is likely to have for its target, where no name says it."""

from __future__ import annotations

from collections.abc import Sequence

from headstart.data.file_labels import SUBJECTS
from headstart.data.layout import TEXTS, TableShape, plain
from headstart.data.order import Ordered, clock_name, counter_name
from headstart.data.subjects import looks_like_subject, says_subject
from headstart.data.table import Column
from headstart.data.view import View
from headstart.errors import BadInput
from headstart.text import listed
from headstart.ways import asked

ARM_NAMES = ("group", "groups")
"""Names of columns that hold what a split keeps together, or the arms of a trial."""


def likely_target(view: View, shape: TableShape) -> list[str]:
    """A column of few texts; where columns have no names of their own, a first or last one of few whole numbers."""
    free = [column for column in view.free() if column.type in ("number", "text")]
    texts = [column for column in free if view.classes(column)]
    if shape == "text":
        longest = max(view.texts(free), key=lambda column: column.mean_length, default=None)
        texts = [column for column in texts if column is not longest]
    if shape == "long":
        texts = [column for column in texts if view.one_label(column.name)]
    groups = view.named("group")
    texts = [column for column in texts if not looks_like_subject(column)]
    texts = [column for column in texts if not says_subject(column.name)] or texts
    arms = [column for column in texts if column.name in groups and _arms(column)]
    texts = [column for column in texts if column.name not in groups] or texts
    if len(texts) == 1 and arms and texts[0] is not arms[0]:
        question = (
            f"{view.source}: {texts[0].name!r} and {arms[0].name!r} ({listed(_arms(arms[0]))}) may each be the target"
        )
        raise BadInput(asked(question, {"target": arms[0].name}, {"target": texts[0].name, "group": ""}))
    if len(texts) == 1 and shape == "wide" and (last := _behind(view, free, texts[0])):
        if texts[0].name in groups:
            return [last]
        question = f"{view.source}: {texts[0].name!r} and {last!r} stand before and behind the sequence"
        raise BadInput(asked(f"{question}, and either may be the target", {"target": texts[0].name}, {"target": last}))
    if len(texts) == 1:
        return [texts[0].name]
    if shape == "list" and not texts:
        whole = [column for column in free if view.few_whole(column) and column.name not in groups]
        return [whole[0].name] if len(whole) == 1 else []
    if shape != "wide" or len(free) < 3 or view.spec.values:
        return []
    free = [column for column in free if not (column.whole and view.count(column.name) == view.table.rows)]
    if free and (view.table.header is False or all(column.name.isdecimal() for column in free)):
        return at_an_end(view, free)
    run = {name for _, names in view.longest(free) for name in names}
    beside = [column for column in free if column.type == "number" and column.name not in run] if run else []
    return [beside[0].name] if len(beside) == 1 and view.few_whole(beside[0]) else []


def _arms(column: Column) -> list[str]:
    """The words of a column that is named group and holds the arms of a trial (control, patient) rather than what a
    split keeps together: they are too few for one, and have no number; else none."""
    words = [word for word in column.coded[1] if word] if plain(column.name) in ARM_NAMES else []
    return words if 1 < len(words) < SUBJECTS and "".join(words).isalpha() else []


def _behind(view: View, free: list[Column], text: Column) -> str:
    """The number that stands alone behind a run of numbered columns, as a result does, where the text stands before
    the run; else ""."""
    names = list(view.table.columns)
    run = {name for _, run in view.longest(free) for name in run}
    last = view.table.columns[names[-1]]
    if not run or last not in free or last.type != "number" or view.spec.values or view.table.header is False:
        return ""
    plainly = not (last.name in run or clock_name(last.name) or counter_name(last.name))
    return last.name if plainly and names.index(text.name) < min(map(names.index, run)) else ""


def letter_columns(view: View, texts: Sequence[Column]) -> list[Column]:
    """Columns of letters without blanks under names that sequences have, of many kinds: CDR3, peptide."""
    named = [column for column in texts if plain(column.name) in TEXTS and not view.few(column)]
    return [column for column in named if "".join(word or "" for word in column.top).isalpha()]


def likely_text(view: View, texts: Sequence[Column]) -> list[Column]:
    """The column whose texts are the sequences: by its name, else the longest. Raises: BadInput with each where several
    hold letters under names that sequences have."""
    if len(several := letter_columns(view, texts)) > 1:
        question = f"{view.source}: has several columns of letters that may each be the sequence"
        raise BadInput(asked(question, *({"values": column.name} for column in several)))
    named = several or [column for column in texts if plain(column.name) in TEXTS]
    return sorted(named or texts, key=lambda column: column.mean_length)[-1:]


def word_of_fasta(view: View) -> list[str]:
    """The second word of the headers, or the first of several, where every header has it and it repeats as names of
    classes do."""
    columns = [view.table.columns.get(name) for name in ("word 2", "id" if "word 2" in view.table.columns else "")]
    return [c.name for c in columns if c is not None and all(c.words) and view.few(c)][:1]


def at_an_end(view: View, free: list[Column]) -> list[str]:
    """The first or last column, where it alone is whole, or where all are and it has the fewest values."""
    for column, other in ((free[0], free[-1]), (free[-1], free[0])):
        rest = [neighbour for neighbour in free if neighbour is not column][:50]
        alone = not all(neighbour.whole for neighbour in rest)
        if view.few_whole(column) and (alone or (column is free[0] and Ordered(column).reach < Ordered(other).reach)):
            return [column.name]
    return []
