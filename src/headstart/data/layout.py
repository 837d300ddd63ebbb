"""How a file or table holds sequences: what can be set, what was set or inferred, and what names of columns tell."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from headstart.data.readers import READERS
from headstart.data.spans import WindowLength
from headstart.errors import BadInput, nearest
from headstart.spec import Spec, neutral
from headstart.text import first_few, listed
from headstart.ways import field_name, option

TableShape = Literal["wide", "text", "list", "long"]
SequenceKind = Literal["numbers", "text", "dna", "protein", "tokens"]

SOUNDS = {
    "numbers": "numbers",
    "text": "text, as bytes of UTF-8",
    "dna": "DNA, letter by letter",
    "protein": "proteins, letter by letter",
    "tokens": "tokens",
}
"""Kinds of data in words."""


ColumnName = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) is int else name)]
"""The name of a column; of a file without a header its number, as a word or as a number."""


if TYPE_CHECKING:
    Format = str
else:
    Format = Literal["auto", *READERS]


class LayoutSpec(Spec):
    """What is known of a file before it is read; whatever is left out is guessed, and the guess is said."""

    format: Format = "auto"
    """Format of the file; `auto`: by its name."""
    shape: Literal["auto", "wide", "text", "list", "long", "columns"] = "auto"
    """`wide`, a row per sequence and a column per position; `text`, a column of texts; `list`, columns whose cells hold
    whole sequences (one column per channel); `long`, a row per position, with an id and a time; `columns`, a row per
    position and a column per sequence."""
    target: ColumnName | None = None
    """Column of the target (its number from 1 without a header; of FASTA `word 2`); `""`: none."""
    id: ColumnName | None = None
    """Column of the ids, named as `target` is; `""`: none."""
    time: ColumnName | None = None
    """Column of the times, which order the rows of a long table; `""`: none."""
    group: ColumnName | None = None
    """Column of the groups, whose rows stay in one split; `""`: none."""
    values: tuple[ColumnName, ...] = ()
    """Columns that hold the sequence. In a wide table `x_*` stands for x_0, x_1, ... in the order of their numbers and
    is a channel of its own; columns without `*` are one channel together."""
    kind: Literal["auto", "numbers", "text", "dna", "protein", "tokens"] = "auto"
    """What the values are. Whole numbers with few values are tokens only where that is plain, or set here."""
    symbols: tuple[str, ...] = ()
    """The tokens, in the order of their ids; others are refused."""
    target_kind: Literal["auto", "class", "number"] = "auto"
    """Whether the target is a class or a number."""
    per_position: bool = neutral(False)
    """Whether every position has a target of its own: a list of the sequence's length in the column of the target, or,
    in a long table, the column as it stands."""
    optional: bool = False
    """Columns named as target, id or group may be absent (as they are where a model is served)."""
    na: tuple[str, ...] = ()
    """Words that stand for a missing value, besides an empty cell and nan."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """What separates the cells of a text file."""
    quote: Literal['"', "'", ""] = '"'
    """What stands around a text that holds the delimiter; `""`: nothing does."""
    decimal: Literal["auto", ".", ","] = "auto"
    """What stands before the decimals."""
    header: bool | None = None
    """Whether the first line names the columns."""
    encoding: str = "utf-8"
    """The encoding of a text file."""
    channels_first: bool = False
    """Arrays are (n, F, L), not (n, L, F)."""
    ends: Literal["cut", "missing"] = "cut"
    """Whether missing values at the end of a sequence are cut off or stay as missing positions."""
    rate: int | float | None = Field(default=None, gt=0, le=192_000)
    """Positions per second that every recording is brought to; channels of sound are mixed into one."""
    columns: int | None = neutral(None, ge=1)
    """Cells of a row of the file that the layout was made of, where it has no header."""
    skip: int | None = neutral(None, ge=0)
    """Lines above the header of a text table, or above its first row, which are passed over; else told by the cells."""
    units_row: int | None = neutral(None, ge=0, le=9)
    """Rows below the header that hold units or types, and no values; else told from the cells."""
    comment: str | None = neutral(None)
    """How lines begin that are passed over wherever they stand; `""`: none does."""
    thousands: Literal["", ".", ",", " ", "'"] | None = neutral(None)
    """What stands between thousands (a blank for narrow ones, too); `""`: nothing does. Else told by the cells."""
    time_format: str | None = neutral(None)
    """How times are written, as Python's strptime has it: `%d.%m.%Y %H:%M:%S`. Else told from the cells."""
    sheet: str | None = neutral(None)
    """The sheet of a workbook, where several hold cells."""
    label_from: str | None = neutral(None)
    """Where the label stands in the names of the files of a folder: `{speaker}_{label}_{take}.wav`, where braces name
    parts."""
    padding: Literal["", "zeros", "last", "front", "both"] = neutral("")
    """What fills sequences up to one length, and is cut off: `zeros` at the end, the `last` value over and over,
    zeros at the `front`, or at `both` ends; `""`: nothing does."""
    label_case: Literal["", "fold"] = neutral("")
    """`fold`: classes whose names differ in case, blanks, - and _, unseen marks or encoding are one, in small ones."""
    strand: Literal["", "one", "both"] = neutral("")
    """`one`: of DNA and its reverse complement the one that comes first in the order of the letters is read, so that
    both strands are the same sequence; `both`: that one and behind it the other, so that what stands on either is
    read, and a sequence and its reverse complement are the same. Other letters are refused."""
    window: WindowLength = neutral(None)
    """Length of the windows that recordings are cut into: in positions (500), or in time (`5s`)."""
    step: WindowLength = neutral(None)
    """From the begin of a window to that of the next, as `window`; else windows do not overlap."""
    window_label: Literal["majority", "end", "drop"] = neutral("majority")
    """The label of a window in which it changes: the most frequent one (of numbers the mean), that of its last
    position, or none: the window is left out."""
    time_unit: Literal["ns", "us", "ms", "s", "min", "h"] | None = neutral(None)
    """What numbers in the column of the times count; else told by its name."""
    time_axis: Literal["", "first", "second"] = neutral("")
    """Which axis of the matrix of each sequence is time (`second`: as `channels_first`); `""`: their sizes tell."""
    double: bool = neutral(False)
    """Numbers stay in double precision until standardised, as they do where single precision would lose a signal."""

    @property
    def sideways(self) -> bool:
        """Whether sequences were set to be (F, L)."""
        return self.channels_first or self.time_axis == "second"


@dataclass(frozen=True)
class Decision:
    """What a column is taken for, and why; `shape` is of the whole table.

    role: shape, id, time, target, group, values, or "" of a column that is not used. `by`: what decided, the names of
    columns, what stands in them, the format of the file, or a setting. `last` and `count` are of a run of columns.
    `otherwise`: what its cells would let it be, too.
    """

    role: str
    column: str | None
    why: str
    by: Literal["name", "content", "format", "setting"] = "name"
    last: str | None = None
    count: int = 1
    otherwise: tuple[str, ...] = ()
    confidence: Literal["certain", "likely", "unsure"] = "likely"

    @property
    def option(self) -> str:
        """The option that sets it; of a column that is not used the one that would use it."""
        return option(self.role or next(iter(self.otherwise), "values"))


@dataclass(frozen=True)
class Channel:
    """One channel: its name and the columns that hold it (of a wide table one per position, else one)."""

    name: str
    columns: tuple[str, ...]
    pattern: str = ""
    """What stands for the columns in `values`, where they are numbered: `t*`."""


@dataclass(frozen=True)
class Layout:
    """How sequences were read: each part as it was set or guessed; `guessed` names the latter, `decisions` say why.
    `doubts` are sentences on what may be otherwise.

    `written` says how the file is written (`comma-separated with a header`). `kind`, `symbols` and `target_kind` are
    known once the values are read, and so is `double`: whether numbers are in double precision. `by_format`: the
    format itself says the shape. `beside`: of a table with dates and times of day in two columns, the one that is
    not `time`. `rate`: samples per second of recordings of one channel. `subjects`: columns that look like the
    subject of a row and are not used, with how many different ones they name.
    """

    source: str
    shape: TableShape
    channels: tuple[Channel, ...]
    spec: LayoutSpec
    target: str | None = None
    id: str | None = None
    time: str | None = None
    beside: str | None = None
    group: str | None = None
    unused: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    doubts: tuple[str, ...] = ()
    written: str = ""
    header: bool | None = None
    decimal: Literal["auto", ".", ","] = "auto"
    by_format: bool = False
    columns: int | None = None
    rate: int | float | None = None
    kind: SequenceKind = "numbers"
    symbols: tuple[str, ...] = ()
    target_kind: Literal["class", "number", "none"] = "none"
    double: bool = False
    thousands: str = ""
    clock: str | None = None
    """The column of the times in each of several tables, which is looked for anew in others."""
    subjects: tuple[tuple[str, int], ...] = ()
    splits: tuple[tuple[str, str], ...] = ()
    """Columns that name the split of a row and are not used, with what they hold."""
    time_axis: Literal["", "first", "second"] = ""
    """Which axis of matrices is time, in files of a folder."""
    seconds: float | None = None
    """Seconds of a unit of the times, where dates or the name of their column say it."""

    @property
    def sentence(self) -> str:
        """The layout in one sentence, with what was guessed."""
        parts = [part for part in (self.written, self._shape(), self._roles()) if part]
        if self.unused:
            parts.append(f"not used: {first_few([repr(name) for name in self.unused], 6)}")
        if self.guessed:
            flags = [option(name) for name in self.guessed]
            parts.append(f"guessed; set with {', '.join(flags)}")
        return f"{self.source}: {'; '.join(parts)}."

    @property
    def reasons(self) -> list[str]:
        """What the content of columns decided, in words; what names decided needs none."""
        return [
            f"{decision.why}: taken for the {decision.role} ({decision.option} names another column)"
            for decision in self.decisions
            if decision.by == "content"
        ]

    def fixed(self) -> LayoutSpec:
        """What reads other files of the same layout without guessing; target, id and group may be absent there.

        Recordings of another rate are resampled to that of these.
        """
        values = tuple(
            column
            for channel in self.channels
            # Without a header each column of another use is a number, too, and would be like the pattern.
            for column in ([channel.pattern] if channel.pattern and self.header is not False else channel.columns)
        )
        return self.spec.model_copy(
            update={
                "format": "auto",
                "shape": "columns" if self.spec.shape == "columns" else self.shape,
                "values": values,
                "target": self.target or "",
                "id": self.id or "",
                "time": (self.time or "") if self.shape == "long" else None if self.clock else "",
                "group": self.group or "",
                "kind": self.kind,
                "symbols": self.symbols,
                "target_kind": "auto" if self.target_kind == "none" else self.target_kind,
                "optional": True,
                "header": self.header,
                "decimal": self.decimal,
                "thousands": self.thousands or self.spec.thousands,
                "delimiter": None,
                "columns": self.columns or self.spec.columns,
                "rate": self.rate or self.spec.rate,
                "double": self.double,
                "time_axis": self.time_axis or self.spec.time_axis,
            }
        )

    def _shape(self) -> str:
        count, first = len(self.channels), self.channels[0]
        if self.shape == "long":
            both = f"{self.time!r} and {self.beside!r}" if self.beside else repr(self.time)
            order = f"in the order of {both}" if self.time else "in the order of the rows"
            return f"a row per position, {order}, in {_named('channel', [c.name for c in self.channels])}"
        if self.by_format and count == 1:
            return ""
        if self.shape == "text":
            return f"a row per sequence, whose text is in {first.columns[0]!r}"
        if self.shape == "list":
            return f"a row per sequence, whole in {_named('column', [c.columns[0] for c in self.channels])}"
        columns = f"{len(first.columns)} columns {first.columns[0]!r} to {first.columns[-1]!r}"
        columns = columns if len(first.columns) > 1 else f"column {first.columns[0]!r}"
        if count > 1:
            names = first_few([repr(channel.name) for channel in self.channels], 6)
            return f"a row per sequence, in {count} channels ({names}) of {columns}"
        return f"a row per sequence, in the {columns}"

    def _roles(self) -> str:
        each = " of each position" if self.spec.per_position else ""
        parts = [f"target {self.target!r}{each}" if self.target else "no target"]
        parts += [f"{name} {value!r}" for name, value in (("ids", self.id), ("groups", self.group)) if value]
        return ", ".join(parts)


def _named(noun: str, names: list[str]) -> str:
    texts = [repr(name) for name in names]
    return f"{noun} {texts[0]}" if len(texts) == 1 else f"{len(texts)} {noun}s ({first_few(texts, 6)})"


# fmt: off
TARGET = ("label", "target", "class", "y", "category", "outcome", "diagnosis", "labels", "targets", "classlabel",
    "classname", "classid")
PLAIN_TARGET = ("label", "target", "class", "labels", "targets", "classlabel")
IDS = ("id", "ids", "uid", "uuid", "key", "sampleid", "seriesid", "sequenceid", "seqid", "recordid", "record",
    "caseid", "case", "rowid", "series", "sample", "accession", "filename", "file", "path", "name", "trial",
    "trialid", "episode", "session", "sessionid", "visit", "visitid", "recording", "recordingid", "run", "segment",
    "window", "beat")
TIME = ("time", "timestamp", "datetime", "date", "t", "step", "timestep", "position", "pos", "index", "frame",
    "tick", "seconds", "second", "sec", "ms", "minute", "hour", "day", "order")
GROUP_NAMES = ("group", "groups", "subject", "patient", "participant", "person", "speaker", "user", "animal", "donor",
    "subjectid", "patientid", "participantid", "personid", "speakerid", "userid", "animalid", "groupid", "donorid",
    "batch", "batchid", "lot", "lotid", "plate", "plateid", "site", "siteid")
TEXTS = ("text", "sequence", "seq", "review", "sentence", "content", "document", "comment", "message", "body", "dna",
    "protein", "peptide", "smiles", "cdr3", "rna", "primary")
SPLIT_WORDS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "evaluation",
    "holdout")
"""Names of splits, which are no classes."""
# fmt: on
ROLES = {"target": TARGET, "id": IDS, "time": TIME, "group": GROUP_NAMES}

_PARTS, _FRACTION = re.compile(r"\d+"), re.compile(r"(?<![\d.])(\d{1,17})\.(\d{1,17})(?![\d.])")


@lru_cache(maxsize=100_000)
def plain(name: str) -> str:
    """A name without case and marks: `Patient_ID` is `patientid`."""
    return re.sub(r"[\W_]+", "", name.lower())


def is_role(name: str) -> bool:
    """Whether a name is one that targets, ids, times or groups have."""
    return any(plain(name) in names for names in ROLES.values())


def by_role(role: str, names: Iterable[str]) -> list[str]:
    """Those of the names that are used for a role, the likelier first."""
    usual = ROLES[role]
    return sorted((name for name in names if plain(name) in usual), key=lambda name: usual.index(plain(name)))


_ONE_NUMBER = re.compile(r"\d+(?:[,:/.-]\d+)+")
"""A name that is a number with a fraction, a time or a date: 400,5 or 00:15."""


def numbered(names: Sequence[str]) -> dict[str, list[str]]:
    """Runs of names that differ in one whole number, as `pattern -> names in the order of their numbers`.

    `t*` stands for t0, t1, ... Where names hold two numbers (t0_x1) the one that makes fewer and longer runs counts.
    Times in equal steps (x@0.98s, x@1.00s) are one number each. Names that are numbers with a fraction, times or dates
    make none.
    """
    return {pattern: [*run] for pattern, run in _numbered(tuple(names)).items()}


@lru_cache(maxsize=4)
def _numbered(names: Sequence[str]) -> dict[str, list[str]]:
    timed = _fractions(names)
    inside = {name for run in timed.values() for name in run}
    names = [name for name in names if name not in inside] if timed else names
    names = [name for name in names if not _ONE_NUMBER.fullmatch(name.strip())]
    first, last = _runs(names, 0), _runs(names, -1)
    return timed | (first if len(first) < len(last) else last)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Names that `pattern` stands for, where `*` is a whole number (or, where none is, one with a fraction), in the
    order of their numbers."""
    every, numbers = list(names), list[tuple[float, str]]()
    *first, last = map(re.escape, pattern.split("*"))
    for number in (r"\d+", r"\d+\.\d+"):  # all but the last take every digit: else a long name takes for ever
        rule = re.compile(f"((?>{number}))".join(first) + f"({number}){last}")
        numbers = numbers or [(float(match[1]), name) for name in every if (match := rule.fullmatch(name)) is not None]
    return [name for _, name in sorted(numbers, key=lambda pair: pair[0])]


def lost(pattern: str, names: Sequence[str]) -> list[str]:
    """Names that a run of numbers lacks between its first and its last, where it lacks few: a run of 0, 1, 2, 4 has
    lost 3, one of 0, 5, 10 or of 3, 17, 20 has its own steps."""
    rule = re.compile("(\\d+)".join(re.escape(part) for part in pattern.split("*")))
    numbers = [int(match[1]) for name in names if (match := rule.fullmatch(name)) is not None]
    if len(numbers) < 5 or numbers[-1] - numbers[0] + 1 - len(numbers) > max(1, len(numbers) // 10):
        return []
    gone = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))
    width = len(names[0]) - len(pattern) + 1 if len({len(name) for name in names}) == 1 else 1
    return [pattern.replace("*", f"{number:0{width}}") for number in gone]


def _runs(names: Sequence[str], which: int) -> dict[str, list[str]]:
    runs: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        parts = list(_PARTS.finditer(name))
        if not parts or _is_fraction(name):
            continue
        number = parts[which]
        if len(number[0]) <= 18 and "*" not in name:
            pattern = f"{name[: number.start()]}*{name[number.end() :]}"
            runs.setdefault(pattern, []).append((int(number[0]), name))
    return {
        pattern: [name for _, name in sorted(run, key=lambda pair: pair[0])]
        for pattern, run in runs.items()
        if len(run) > 1
    }


def _fractions(names: Sequence[str]) -> dict[str, list[str]]:
    """Runs of names that differ in one number with a fraction, in equal steps: `x@*s` of x@0.00s, x@0.02s.

    Steps of one in the last place may be those of two whole numbers (ch1.0, ch1.1), unless a unit follows or a mark
    stands before.
    """
    runs: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        part = _FRACTION.search(name)
        if part is None or "*" in name or _is_fraction(name):
            continue
        pattern = f"{name[: part.start()]}*{name[part.end() :]}"
        runs.setdefault(pattern, []).append((int(part[1] + part[2]), name))
    out = {}
    for pattern, run in runs.items():
        run.sort(key=lambda pair: pair[0])
        if len(run) < 3:
            continue
        steps = {b[0] - a[0] for a, b in pairwise(run)}
        widths = {len(name.rpartition(".")[2]) for _, name in run}
        before, _, after = pattern.partition("*")
        marked = after[:1].isalpha() or bool(before and not before[-1].isalnum() and before[-1] not in "._")
        near = max(steps) - min(steps) <= (1 if max(steps) > 9 else 0)  # 0.033, 0.067, 0.100 are rounded
        even = len(run) > 2 and min(steps) > 0 and near
        if even and len(widths) == 1 and (marked or steps != {1}):
            out[pattern] = [name for _, name in run]
    return out


def _is_fraction(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return not name.strip().isdecimal()


def run_of(source: str, pattern: str, run: Sequence[str], names: Sequence[str]) -> Channel:
    """The channel of a run of numbered columns, out of these names. Raises: BadInput where it lacks one of few."""
    gone = [name for name in lost(pattern, run) if name not in names]
    if gone:
        raise BadInput(
            f"{source}: {field_name('values')}: {pattern!r} has no column {first_few(list(map(repr, gone)), 1)} "
            f"between {run[0]!r} and {run[-1]!r}, so that later values would stand one place too early; add it (its "
            f"cells may be empty), or name the columns one by one with {option('values')}"
        )
    return Channel(pattern.replace("*", "").strip("_-. ") or "values", tuple(run), pattern)


def set_channels(
    source: str, values: Sequence[str], names: Sequence[str], taken: Container[str | None], shape: TableShape
) -> tuple[Channel, ...]:
    """The columns that were set as values; `taken` have another role. Raises: BadInput naming one that is not there."""
    out: list[Channel] = []
    plainly: list[str] = []
    begun = f"{source}: {field_name('values')}"
    for value in values:
        if "*" not in value or value in names:
            plainly.append(value)
            if value not in names:
                raise BadInput(f"{begun}: no column {nearest(value, names).removeprefix('no ')}")
            continue
        run = [name for name in matching(value, names) if name not in taken]
        if not run:
            way = nearest(value, names)
            raise BadInput(f"{begun}: no column is like {value!r}, where * is a whole number; {way}")
        out.append(run_of(source, value, run, names))
    if plainly and shape == "wide":
        out.append(Channel("values", tuple(plainly)))
    else:
        out += [Channel(name, (name,)) for name in plainly]
    if len({channel.name for channel in out}) < len(out):
        out = [Channel(channel.pattern or channel.name, channel.columns, channel.pattern) for channel in out]
    if shape == "text" and len(out) > 1:
        raise BadInput(f"{begun}: {len(out)} columns of text; name one")
    return tuple(out)


def check_names(names: Iterable[str], location: str) -> list[str]:
    """Names of columns, each once. Raises: BadInput naming those that are there twice."""
    seen: dict[str, list[int]] = {}
    for number, name in enumerate(names, 1):
        seen.setdefault(name, []).append(number)
    twice = {name: listed(list(map(str, numbers))) for name, numbers in seen.items() if len(numbers) > 1}
    if len(twice) == 1:
        ((name, places),) = twice.items()
        raise BadInput(f"{location}: column {name!r} is there twice (columns {places}); rename one")
    if twice:
        some = first_few([f"{name!r} (columns {places})" for name, places in twice.items()])
        raise BadInput(f"{location}: columns are there twice: {some}; rename one of each")
    return list(seen)
