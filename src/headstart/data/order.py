"""What the order of rows tells of a table: a column that counts on is a clock, one that stands in runs is an id.

Names are asked only where order leaves a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headstart.data.layout import by_role
from headstart.data.table import Column, parse
from headstart.data.times import TIME_FORMS, dated
from headstart.ways import option

ENOUGH_ROWS = 8
"""Rows from which on order is no chance: 8 numbers rise by chance once in 40,320 tables."""
FEW_VALUES = 20
"""Values that a class may have without a doubt."""
ROWS_EACH, ROWS_ALONE = 3, 5
"""Rows that a run of equal values has on the average, beside a clock and without one."""
NEAR_SHARE = 0.25
"""Steps within this share of the median are equal to it: clocks of telephones tremble."""
# fmt: off
CLOCKS = frozenset(("time", "times", "timestamp", "timestamps", "datetime", "date", "elapsed", "clock", "epoch", "t",
    "sec", "secs", "second", "seconds", "ms", "msec", "millis", "us", "ns", "minute", "minutes", "hour", "hours", "day",
    "days", "zeit", "uhrzeit", "zeitpunkt", "datum", "heure", "tiempo", "fecha", "hora", "cycle", "cycles",
    "tick", "ticks", "frame", "frames", "step", "timestep"))
COUNTS = frozenset(("cycle", "cycles", "tick", "ticks", "frame", "frames", "step", "timestep"))
COUNTERS = frozenset(("id", "ids", "no", "nr", "num", "number", "idx", "index", "counter", "segment", "trial", "bout",
    "track", "instance", "rep", "repetition", "recording", "record", "session", "run", "window", "episode", "unit",
    "case", "sample", "pt", "point", "subject", "patient", "participant", "user", "person", "series"))
AXES = frozenset(("wavelength", "wavelengths", "lambda", "wavenumber", "wavenumbers", "nm", "frequency", "freq", "hz",
    "khz", "mz", "angle", "theta", "energy", "ev", "depth", "distance", "position", "shift", "potential", "voltage"))
# fmt: on
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBER = re.compile(r"\d+")


def clock_name(name: str) -> bool:
    """Whether a word of the name is one that clocks have: `time (s)`, `elapsed_ms`, `Run 1: Time`."""
    return any(word.lower() in CLOCKS for word in WORDS.findall(name))


def clock_rank(name: str) -> int:
    """0 of a name that clocks have, 1 of one that counts what a clock has measured (frames, cycles), 2 of others."""
    words = {word.lower() for word in WORDS.findall(name)} & CLOCKS
    return 2 if not words else int(words <= COUNTS)


def axis_name(name: str) -> bool:
    """Whether a word of the name is one that an axis of recordings beside each other has: `wavelength`, `Freq (Hz)`."""
    return any(word.lower() in AXES for word in WORDS.findall(name))


def counter_name(name: str) -> bool:
    """Whether a word of the name is one that ids and counters have: `bout_no`, `segmentId`."""
    return any(word.lower() in COUNTERS for word in WORDS.findall(name))


@dataclass
class Ordered:
    """A column as its order is looked at. `decimal`: the mark in its numbers."""

    column: Column
    decimal: str = "."

    @property
    def name(self) -> str:
        """Of the column."""
        return self.column.name

    @cached_property
    def values(self) -> np.ndarray | None:
        """(n,) float64 numbers, or seconds of dates and times of day; None where a tenth of the cells is none of these.

        Where a cell is empty, the value lies between its neighbours'.
        """
        column = self.column
        if column.type == "number":
            return _without_gaps(column.floats if self.decimal == "." else parse(column.data, self.decimal))
        if column.type not in ("text", "time") or not dated(column.top):
            return None
        return next((values for read in TIME_FORMS if (values := _without_gaps(read(column.words))) is not None), None)

    @cached_property
    def codes(self) -> np.ndarray:
        """(n,) number of each row's cell among the different ones, in the order in which they come first."""
        return self.column.coded[0]

    @property
    def kinds(self) -> int:
        """How many different cells there are."""
        return int(self.codes.max()) + 1 if len(self.codes) else 0

    @cached_property
    def begins(self) -> np.ndarray:
        """Rows at which a run of equal cells begins."""
        return np.flatnonzero(np.diff(self.codes, prepend=-1))

    @property
    def numbered(self) -> bool:
        """Whether its cells are one word with different numbers: r01, r02."""
        words = {word for word in self.column.coded[1] if word}
        return len({_NUMBER.sub("*", word) for word in words}) == 1 < len(words)

    @property
    def once(self) -> bool:
        """Whether no cell comes again once another stood below it: each kind is one run."""
        return len(self.begins) == self.kinds

    @property
    def rows_each(self) -> float:
        """Rows of a run, on the average."""
        return len(self.codes) / max(len(self.begins), 1)

    @property
    def whole(self) -> bool:
        """Whether it may count: texts, or whole numbers."""
        return self.column.type == "text" or (self.column.type == "number" and self.column.whole)

    @property
    def identifies(self) -> bool:
        """Whether it gives every row a whole number of its own under the name of an id: patient_id, sampleNo."""
        words = WORDS.findall(self.name)
        named = bool(words) and words[-1].lower() in ("id", "no", "nr")
        return named and self.whole and 1 < self.kinds == len(self.codes)

    @property
    def comes_again(self) -> bool:
        """Whether its cells stand in runs that return, three times as long as chance would have them."""
        share = np.bincount(self.codes) / max(len(self.codes), 1)
        chance = 1 / max(1 - float((share**2).sum()), 1e-9)
        return not self.once and self.rows_each >= max(ROWS_ALONE, 3 * chance)

    @cached_property
    def spread(self) -> np.ndarray:
        """Steps between its different values, from the smallest on."""
        return np.zeros(0) if self.values is None else np.diff(np.unique(self.values))

    @property
    def reach(self) -> float:
        """From its smallest value to the largest."""
        return float(self.spread.sum())

    @property
    def even(self) -> bool:
        """Whether its different values, in whatever order, stand in nearly equal steps, as a clock's do."""
        return len(self.spread) > 2 and _even(self.spread)

    @property
    def counts_rows(self) -> bool:
        """Whether it numbers the rows from 0 or 1 on, in whatever order."""
        values = self.values
        if values is None or len(self.spread) + 1 < len(values) or self.column.type != "number":
            return False
        return bool((self.spread == 1).all() and values.min() in (0, 1))

    @cached_property
    def never_falls(self) -> bool:
        """Whether it rises over the file and never falls (or the other way round), and has no value for many rows."""
        if self.values is None or len(self.spread) < ENOUGH_ROWS - 1:
            return False
        often = len(self.values) // (2 if not clock_name(self.name) else 50)
        steps = np.diff(self.values)
        return bool((steps >= 0).all() or (steps <= 0).all()) and len(self.spread) >= min(often, len(steps))

    @cached_property
    def begins_anew(self) -> int:
        """How often it falls, where it counts on in equal steps between, or rises nearly always; else 0."""
        if self.values is None or len(self.values) < ENOUGH_ROWS:
            return 0
        steps = np.diff(self.values)
        falls, rises = int((steps < 0).sum()), int((steps > 0).sum())
        equal = clock_name(self.name) and 4 * falls <= len(steps) and _even(steps[steps >= 0])
        return falls if equal or (20 * rises >= 19 * len(steps) and len(steps) >= 5 * ENOUGH_ROWS) else 0

    @property
    def counts_down(self) -> bool:
        """Whether it falls by equal steps and begins anew, as what is left of a life does, and no id."""
        if self.values is None or len(self.values) < ENOUGH_ROWS:
            return False
        steps = np.diff(self.values)
        falls = steps[steps < 0]
        return 2 * len(falls) > len(steps) and _even(-falls)

    def counts(self, named: bool) -> str:
        """In what way it counts like a clock, in words; "" where it does not. `named`: it has the name of one."""
        if self.never_falls:
            down = self.values is not None and self.values[-1] < self.values[0]
            return f"{self.name!r} never {'rises' if down else 'falls'} from row to row"
        if self.begins_anew:
            return f"{self.name!r} counts on from row to row and begins anew {self.begins_anew:,} times"
        each = self.values is not None and len(self.spread) + 1 == len(self.values)
        return f"{self.name!r} stands in equal steps" if each and self.even and named and not self.whole else ""

    def rises_within(self, codes: np.ndarray) -> bool:
        """Whether it rises, in the order of the rows, within the rows of each code, in nearly equal steps.

        A name of a clock excuses unequal ones.
        """
        if self.values is None:
            return False
        order = np.argsort(codes, kind="stable")
        within = np.diff(codes[order]) == 0
        steps = np.diff(self.values[order])[within]
        return len(steps) >= ENOUGH_ROWS - 1 and bool((steps > 0).all()) and (_even(steps) or clock_name(self.name))

    def clock_within(self, codes: np.ndarray) -> bool:
        """Whether it has the name of a clock and counts on within the rows of each code, as a day (20240501) does in
        steps of many rows, or begins anew there, as a time of day (2300) does."""
        if not clock_name(self.name) or self.values is None or self.kinds < 2:
            return False
        return self.rises_within(codes) or not self.falls_within(codes) or bool(self.begins_anew)

    def crosses(self, codes: np.ndarray) -> bool:
        """Whether rows in any order may be positions of the codes: no value twice in one, and the same in many."""
        if self.values is None or 2 * len(self.spread) > len(self.values):
            return False
        order = np.lexsort((self.values, codes))
        steps = np.diff(self.values[order])[np.diff(codes[order]) == 0]
        return len(steps) >= ENOUGH_ROWS - 1 and bool((steps > 0).all()) and _even(steps)

    def counts_within(self, codes: np.ndarray) -> bool:
        """Whether rows in any order are numbered within each code: whole numbers, each once, all in one step."""
        if self.values is None or not self.whole or self.column.type != "number":
            return False
        order = np.lexsort((self.values, codes))
        steps = np.diff(self.values[order])[np.diff(codes[order]) == 0]
        return len(steps) >= ENOUGH_ROWS - 1 and bool((steps == steps[0]).all()) and bool(steps[0] > 0)

    def falls_within(self, codes: np.ndarray) -> bool:
        """Whether it falls somewhere within the rows of one code."""
        if self.values is None:
            return False
        order = np.argsort(codes, kind="stable")
        return bool((np.diff(self.values[order])[np.diff(codes[order]) == 0] < 0).any())

    def changes_within(self, codes: np.ndarray) -> int | None:
        """The first row whose cell is not the first one of its code, empty ones apart."""
        rows = changes(self.column, codes)
        return int(rows[0]) if len(rows) else None

    def one_within(self, codes: np.ndarray) -> bool:
        """Whether the rows of each code have one cell, empty ones apart."""
        return self.changes_within(codes) is None


def changes(column: Column, codes: np.ndarray) -> np.ndarray:
    """Rows whose cell is not the first one of their code (n,), empty ones apart."""
    cells, kinds = column.coded
    rows = np.flatnonzero(~np.isin(cells, [k for k, word in enumerate(kinds) if not word]))
    first = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[rows[::-1]]] = cells[rows[::-1]]
    other: np.ndarray = rows[cells[rows] != first[codes[rows]]]
    return other


def _even(steps: np.ndarray) -> bool:
    """Whether three of four steps lie near the median, which is above 0."""
    middle = float(np.median(steps)) if len(steps) else 0.0
    return middle > 0 and float((np.abs(steps - middle) <= NEAR_SHARE * middle).mean()) >= 0.75


def _without_gaps(values: np.ndarray) -> np.ndarray | None:
    """Values with those that are missing put between their neighbours; None where a tenth or more is missing."""
    there = np.isfinite(values)
    if there.all() or 10 * int(there.sum()) <= 9 * len(values):
        return values if there.all() else None
    return np.asarray(np.interp(np.arange(len(values)), np.flatnonzero(there), values[there]))


@dataclass(frozen=True)
class Evidence:
    """What the order of rows tells: `id` and `time` of a long table, each with why; or `row_id`, which numbers the
    rows; or `clock`, which makes each row a sample of a recording without an id, in the words of `says`.

    `certain`: beyond doubt. `ways`: settings of which each makes one of two readings that are about equally likely.
    `pieces`: a column that may be the id.
    """

    id: str | None = None
    why_id: str = ""
    time: str | None = None
    why_time: str = ""
    row_id: str | None = None
    clock: str | None = None
    says: str = ""
    certain: bool = True
    ways: tuple[dict[str, str], ...] = ()
    pieces: str | None = None

    @property
    def refusal(self) -> str:
        """Why the rows are no sequences, and the ways out."""
        pieces = ""
        if self.pieces:
            pieces = f"give {option('id', self.pieces)} where its rows of one value are one sequence; or "
        return (
            f"{self.says}, as a clock does, and no column says which rows are one sequence, so that each row would be "
            f"one; {pieces}cut recordings into windows with {option('window', '5s')} or {option('window', '100')}, or "
            f"number the pieces in a column, and name it with {option('id')}, or, where each row is an example of its "
            f"own, name its columns with {option('values')}"
        )


def evidence(columns: Sequence[Ordered], labels: Sequence[Ordered], grouping: Sequence[str], run: bool) -> Evidence:
    """What the order of the rows says of these columns, which are not positions by their names.

    labels: columns that may be the target. grouping: names that ids and groups have, which are no clocks.
    run: whether a run of numbered columns is there, so that a row may be a sequence.
    """
    names = {label.name for label in labels}
    rest = [column for column in columns if column.name not in names]
    clocks = [column for column in rest if column.name not in grouping and column.values is not None]
    clocks.sort(key=lambda clock: clock_rank(clock.name))
    ids = [column for column in columns if column.whole and (not clock_name(column.name) or counter_name(column.name))]
    ids = [column for column in ids if not column.counts_down]
    ids = [column for column in ids if column.name not in names or not by_role("target", [column.name])]
    inner = [clock for clock in clocks if not run or clock_name(clock.name)]
    result = _long(ids, inner, labels, run) or _rows(clocks, rest, labels, run)
    if run or result not in (Evidence(), Evidence(row_id=result.row_id)):
        return result
    doubt = _doubt([column for column in ids if column.name != result.row_id], clocks, labels)
    return doubt if result.row_id is None or any("time" in way for way in doubt.ways) else result


def _long(ids: Sequence[Ordered], clocks: Sequence[Ordered], labels: Sequence[Ordered], run: bool) -> Evidence | None:
    """An id and its clock, the finest id first: the clock counts on within the rows of each value and shows the same
    times in several, or rows of one value stand together, and the label is one within them."""
    for column in sorted(ids, key=lambda column: -column.kinds):
        rows, kinds, codes = len(column.codes), column.kinds, column.codes
        if kinds < 2 or rows < max(ROWS_EACH * kinds, ENOUGH_ROWS) or not all(column.column.words):
            continue
        others = [label for label in labels if label.name != column.name]
        alike = [label for label in others if label.one_within(codes)]
        if others and not alike:
            continue
        blocks = [] if column.once else [other for other in ids if other.once and other.column.type == "number"]
        if any(column.rises_within(o.codes) and all(x.one_within(o.codes) for x in alike) for o in blocks):
            continue  # it counts the rows of each block
        within = [clock for clock in clocks if clock is not column and clock.rises_within(codes)]
        anew = [clock for clock in within if not clock.never_falls or 2 * len(clock.spread) < rows]
        coarser = any(1 < label.kinds < kinds for label in alike)
        text = column.column.type == "text"
        many = kinds > FEW_VALUES and (text or not labels)
        plain = coarser or (not others and (many or counter_name(column.name) or (column.numbered and text)))
        if not plain and text:  # a label, as far as its cells tell
            continue
        together = column.once and plain and not _broken(column, clocks)
        enough = bool(within) or (not run and column.rows_each >= ROWS_ALONE)
        if not anew and not (together and enough):
            continue
        clock = next(iter(anew or within), None)
        why = f"{column.name!r} stands in {kinds:,} runs of equal values"
        if not column.once and clock is not None:
            why = f"{clock.name!r} counts on within each value of {column.name!r}"
        if clock is None:
            return Evidence(column.name, why)
        return Evidence(column.name, why, clock.name, f"{clock.name!r} never falls within a value of {column.name!r}")
    return None


def _broken(ids: Ordered, clocks: Sequence[Ordered]) -> bool:
    """Whether a clock begins anew within a run of one value, so that the run joins several recordings."""
    return any(
        clock is not ids and (clock.begins_anew or clock_name(clock.name)) and clock.falls_within(ids.codes)
        for clock in clocks
    )


def _rows(clocks: Sequence[Ordered], columns: Sequence[Ordered], labels: Sequence[Ordered], run: bool) -> Evidence:
    """Whether a row is a sample of a recording without an id."""
    blocks = any(label.rows_each >= ROWS_ALONE for label in labels)
    named_rows = any(c.column.type == "text" and c.values is None and c.kinds == len(c.codes) for c in columns)
    for clock in clocks:
        named = clock_name(clock.name) or (run and not labels and axis_name(clock.name) and clock.never_falls)
        if len(clock.codes) < ENOUGH_ROWS or (named_rows and not named):
            continue
        if clock.counts_rows and not named and not blocks:
            if run:
                continue
            return Evidence(row_id=clock.name)
        says = clock.counts(named)
        if not says:
            continue
        # A row may have a time of its own: that of a sample goes on in fractions, or beside blocks of one label.
        if run:
            fine = clock.even and bool(np.median(clock.spread) % 1)
            certain = named and clock.never_falls and (fine or blocks)
            if not certain and not (named and not labels) and not (fine and clock.never_falls):
                continue
        else:
            certain = named or clock.even or blocks or not labels
        return Evidence(clock=clock.name, says=says, certain=certain, pieces=_pieces(clock, [*columns, *labels]))
    return Evidence()


def _pieces(clock: Ordered, columns: Sequence[Ordered]) -> str | None:
    """The column of the most values that stand in runs of their own, no more than the clock begins anew, as ids of
    recordings do: beyond what classes have, or with another column that is one in each of them."""
    ids = [c for c in columns if c is not clock and c.whole and c.once and 1 < c.kinds <= clock.begins_anew + 1]
    ids = [c for c in ids if c.rows_each >= ROWS_EACH]
    fits = [
        c for c in ids if c.kinds > FEW_VALUES or any(1 < o.kinds < c.kinds and o.one_within(c.codes) for o in columns)
    ]
    return max(fits, key=lambda column: column.kinds).name if fits else None


def goes_on(columns: Sequence[Ordered], label: Ordered) -> bool:
    """Whether the values of a row go on in the next one of its run of equal labels, as samples of a recording do.

    They do where neighbouring rows differ by less than half of what rows of that label differ by that do not follow
    each other, in the median of the columns. Rows that are examples of their own may stand in any order.
    """
    order = np.argsort(label.codes, kind="stable")
    within = np.flatnonzero(np.diff(label.codes[order]) == 0)
    next_to = within[order[within + 1] == order[within] + 1]
    shuffled = np.random.default_rng(0).permutation(order)
    far = np.flatnonzero(label.codes[shuffled[:-1]] == label.codes[shuffled[1:]])
    if not len(next_to) or not len(far):
        return True
    shares = []
    for column in columns:
        if column.values is not None and np.ptp(column.values) > 0:
            near = np.abs(column.values[order[next_to]] - column.values[order[next_to + 1]]).mean()
            other = np.abs(column.values[shuffled[far]] - column.values[shuffled[far + 1]]).mean()
            shares.append(near / other if other else 1.0)
    return not shares or float(np.median(shares)) < 0.5


def _doubt(ids: Sequence[Ordered], clocks: Sequence[Ordered], labels: Sequence[Ordered]) -> Evidence:
    """What hints at rows that are samples, in shuffled rows or without a clock, and the ways to read them."""
    for column in ids:
        if column.kinds < 2 or ROWS_EACH * column.kinds > len(column.codes):
            continue
        others = [label for label in labels if label.name != column.name and label.one_within(column.codes)]
        for clock in clocks if others else []:
            if clock.name != column.name and clock.crosses(column.codes):
                says = f"{clock.name!r} has the same values, each once, within those of {column.name!r}"
                long = {"id": column.name, "time": clock.name}
                wide = {"group": column.name, "time": clock.name, "shape": "wide"}
                return Evidence(says=says, certain=False, ways=(long, wide))
        if column.once and column.rows_each >= ROWS_ALONE and not labels:
            says = f"{column.name!r} stands in {column.kinds:,} runs of equal values"
            return Evidence(says=says, certain=False, ways=({"id": column.name}, {"target": column.name}))
    again = next((label for label in labels if label.comes_again), None)
    if again is None:
        return Evidence()
    says = f"{again.name!r} stands in {len(again.begins):,} runs of equal values that come again"
    return Evidence(says=says, certain=False, ways=({"shape": "wide"},))
