"""Clocks of recordings: the unit of their times, recordings without an id, and one rate for all channels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from headstart.data.layout import LayoutSpec, by_role
from headstart.data.order import ROWS_EACH, WORDS, Ordered, clock_name, clock_rank, counter_name
from headstart.data.table import Column, Table, arrow_texts
from headstart.data.times import dated
from headstart.errors import BadInput
from headstart.text import listed, many
from headstart.ways import asked, field_name, option, settings

TIME_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
# fmt: off
_NAMES = {"ns": "ns nanos nanosecond nanoseconds nsec", "us": "us usec micros microsecond microseconds",
    "ms": "ms msec msecs millis millisecond milliseconds", "s": "s sec secs second seconds",
    "min": "min mins minute minutes", "h": "h hour hours"}
# fmt: on
UNIT_NAMES = {word: TIME_UNITS[unit] for unit, words in _NAMES.items() for word in words.split()}
UNIT_WORDS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}
RECORDING = "recording"
"""The column that names recordings which have no id."""
RATE_BEFORE, STEP_BEFORE = "the rate of the recordings as they were made", "the step of time as it was recorded"
"""What still shows in recordings that were brought to one rate: which frequencies there are."""
MOST_ON_CLOCK = 2**27
NO_TIMES = np.zeros(0)
SHORTEST = 1e-300
"""Seconds of a step of which no rate can be told."""
NEAR, EVEN, OTHER_RATE = 0.05, 0.9, 1.5
"""Share by which equal steps differ, share of the steps of a recording that are equal, and how much longer the steps of
another rate are."""


def seconds_in(column: Column, times: np.ndarray, spec: LayoutSpec) -> float | None:
    """Seconds of a unit of the times of a column: as it was set, as its name says, 1 of dates and times of day and of
    numbers with a fraction; None of whole numbers, which may be anything."""
    if spec.time_unit is not None:
        return TIME_UNITS[spec.time_unit]
    if column.type == "time" or (column.type == "text" and np.isnan(column.floats).all()):
        return 1.0
    words = [*WORDS.findall(column.name), *WORDS.findall(column.unit.replace("µ", "u").replace("μ", "u"))]
    units = [UNIT_NAMES[word.lower()] for word in words if word.lower() in UNIT_NAMES]
    if units:
        return units[-1]
    there = times[np.isfinite(times)]
    return 1.0 if (there != there.round()).any() else None


def step_words(step: float) -> str:
    """A step of a clock in digits: 0.02, 3,600."""
    return f"{step:,.0f}" if step >= 1000 else f"{step:.4g}"


def ask_unit(source: str, column: str, times: np.ndarray) -> BadInput:
    """What asks in which unit whole numbers count."""
    steps = np.diff(np.unique(times[:10_000]))
    step = f" (its steps are {step_words(float(np.median(steps)))})" if len(steps) else ""
    units = ["ms", "s", "us", "ns"]
    if len(steps):  # a tenth or a hundredth of a second is usual
        usual = float(np.median(steps))
        units.sort(key=lambda unit: abs(np.log10(usual * TIME_UNITS[unit]) + 1.5))
    first, second = sorted(units[:2], key=lambda unit: TIME_UNITS[unit])
    question = f"{source}: {column!r} may be in {UNIT_WORDS[first]} or in {UNIT_WORDS[second]}{step}"
    return BadInput(asked(question, {"time_unit": first}, {"time_unit": second}))


def as_they_come(column: Column, times: np.ndarray, spec: LayoutSpec) -> str:
    """What takes rows as they come, whose times (n,) have too few digits, with the rate that lengths in time need."""
    steps = np.diff(times)
    going = steps >= 0
    if not (isinstance(spec.window, str) or spec.rate) or not steps[going].sum():
        return option("time", "")
    rate = going.sum() / (steps[going].sum() * (seconds_in(column, times, spec) or 1.0))
    return settings({"time": "", "rate": f"{rate:.4g}"})


def on_clock(
    source: str, values: np.ndarray, offsets: np.ndarray, times: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, offsets, rows): recordings (S, F) at `rate` positions a second, from the first time of each on; `rows`
    is the last position at or before each. times: (S,) seconds, ascending within a recording.

    A channel of a higher rate is averaged over each step, one of a lower rate is interpolated between its neighbours;
    where they are further apart than one and a half of its steps the value is missing.
    """
    ends = [(begin, end, times[end - 1] - times[begin]) for begin, end in pairwise(offsets.tolist())]
    total = sum(span * rate + 1 for _, _, span in ends)
    if total > MOST_ON_CLOCK:
        raise BadInput(
            f"{source}: {field_name('rate')}: {rate:g} a second would make {total:,.0f} positions, at most "
            f"{MOST_ON_CLOCK:,} are "
            f"read; give a lower one, or the unit of the times with {option('time_unit')}"
        )
    parts, rows, lengths = [], [], [0]
    for begin, end, span in ends:
        own = times[begin:end] - times[begin]
        grid = np.arange(int(np.floor(span * rate + 1e-6)) + 1) / rate
        parts.append(np.stack([_brought(own, x, grid, rate) for x in values[begin:end].T], 1))
        rows.append(begin + np.searchsorted(own, grid + 1e-6 / rate, side="right") - 1)
        lengths.append(len(grid))
    return np.concatenate(parts), np.cumsum(lengths).astype(np.int64), np.concatenate(rows)


def _brought(times: np.ndarray, x: np.ndarray, grid: np.ndarray, rate: float) -> np.ndarray:
    """(positions,) one channel at the times of the grid, NaN in its gaps."""
    there = ~np.isnan(x)
    times, x = times[there], x[there]
    if not len(x):
        return np.full(len(grid), np.nan)
    step, slot = float(np.median(np.diff(times))) if len(times) > 1 else 0.0, 1 / rate
    if OTHER_RATE * step < slot and len(times) > 1:
        at = np.floor(times * rate + 0.5).astype(np.int64)
        at, x = at[at < len(grid)], x[at < len(grid)]
        count = np.bincount(at, minlength=len(grid))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.bincount(at, x, len(grid)) / np.where(count, count, np.nan))
    after = np.clip(np.searchsorted(times, grid), 0, len(times) - 1)
    before = np.maximum(after - (times[after] > grid), 0)
    inside = (
        (times[before] <= grid)
        & (grid <= times[after])
        & (times[after] - times[before] <= OTHER_RATE * max(step, slot))
    )
    nearest = np.minimum(np.abs(times[before] - grid), np.abs(times[after] - grid))
    return np.where(inside | (nearest <= 1e-3 * slot), np.interp(grid, times, x), np.nan)


def equal_steps(times: np.ndarray, offsets: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(n,) share of the steps of each recording that are equal to its usual one (n,)."""
    out = np.zeros(len(steps))
    for i, (begin, end) in enumerate(pairwise(offsets.tolist())):
        if end - begin > 1:
            out[i] = float((np.abs(np.diff(times[begin:end]) - steps[i]) <= NEAR * steps[i]).mean())
    return out


def check_one_rate(
    source: str,
    names: Sequence[str],
    steps: np.ndarray,
    even: np.ndarray,
    clock: tuple[str, float | None],
    ids: str = "",
) -> None:
    """Raises: BadInput where recordings with equal steps within each have steps of other lengths than others have.

    steps: (n,) the usual one of each; even: (n,) the share of its steps that are equal to that. clock: the column of
    the times, and seconds of its unit. ids: the column of the ids, of a long table.
    """
    time, unit = clock
    timed = np.flatnonzero(np.isfinite(steps) & (steps > 0))
    if not len(timed) or (even[timed] < EVEN).any() or steps[timed].max() < OTHER_RATE * steps[timed].min():
        return
    least, most = timed[steps[timed].argmin()], timed[steps[timed].argmax()]
    middle = (steps[least] * steps[most]) ** 0.5
    counts = [int((steps[timed] < middle).sum()), int((steps[timed] >= middle).sum())]
    texts = [
        f"{step_words(float(steps[i]))} in {many(n, 'recording')} (such as {names[i]!r})"
        for i, n in zip((least, most), counts, strict=True)
    ]
    seconds = 0.0 if unit is None else float(steps[least]) * unit
    rate = option("rate", f"{1 / seconds:.6g}") if seconds > SHORTEST else option("rate")
    more = "" if unit is not None else f", with the unit of the times ({option('time_unit')})"
    plainly = settings({"shape": "long", "id": ids, "time": ""} if ids else {"time": ""})
    raise BadInput(
        f"{source}: recordings have several rates: steps of {time!r} are {' and '.join(texts)}; {rate} brings all onto "
        f"one clock{more}, and {plainly} takes rows as they come"
    )


def with_recordings(table: Table, spec: LayoutSpec) -> LayoutSpec:
    """The layout of a table of which windows are cut; where a row is a position and no column says of which recording,
    the table gets one that does: its rows are one recording, or a new one begins where the clock begins anew."""
    if spec.window is None or table.shape is not None or any(c.type == "list" for c in table.columns.values()):
        return spec
    if spec.id and (spec.id != RECORDING or spec.id in table.columns) and not (spec.optional and spec.shape == "long"):
        return spec
    if spec.id and all(part.strip() in table.columns for part in spec.id.split(",")):
        return spec
    if spec.shape not in ("auto", "long"):
        return spec
    columns = [Ordered(column, "," if table.decimal == "," else ".") for column in table.columns.values()]
    if spec.id is None:
        named = [c for c in columns if c.name in by_role("id", list(table.columns)) and 2 * c.kinds <= table.rows]
        run = sum(column.column.type == "number" for column in columns)
        texts = [column for column in columns if column.column.type == "text" and column.kinds == table.rows > 1]
        if any(not dated(column.column.top) for column in texts):  # a name for each row: rows are recordings
            return spec
        if named or (spec.shape == "auto" and isinstance(spec.window, int) and run >= spec.window):
            return spec
    clock = None
    if spec.time:
        clock = next((column for column in columns if column.name == spec.time), None)
    elif spec.time is None:
        clocks = [c for c in columns if c.values is not None and (c.never_falls or c.begins_anew)]
        clock = next(
            (c for c in sorted(clocks, key=lambda c: clock_rank(c.name)) if clock_name(c.name) or c.even), None
        )
    # A subject or a counted piece that changes is another recording, and would tell the label as a value.
    groups = by_role("group", list(table.columns))
    pieces = [c for c in columns if c.name in groups or (counter_name(c.name) and c.once)]
    pieces = [c for c in pieces if c.name != spec.target and c.whole and c.kinds > 1 and c.rows_each >= ROWS_EACH]
    new = np.zeros(table.rows, dtype=bool)
    if clock is not None and clock.values is not None and not clock.never_falls:
        new = np.diff(clock.values, prepend=clock.values[:1]) < 0
    for piece in pieces:
        new |= np.diff(piece.codes, prepend=0) != 0
    number = np.cumsum(new)
    words = [f"{i + 1}" for i in number.tolist()]
    table.columns[RECORDING] = Column(RECORDING, "text", arrow_texts(words))
    count = int(number[-1]) + 1 if len(number) else 0
    names = [repr(column.name) for column in pieces]
    names += [repr(clock.name)] if clock is not None and not clock.never_falls else []
    what = f"the rows are {count:,}, each until {listed(names, 'or')} begins anew" if count > 1 else "the rows are one"
    table.notes.append(f"no column names recordings: {what} ({option('id')} names a column)")
    time = {"time": clock.name} if clock is not None else {}
    return spec.model_copy(update={"shape": "long", "id": RECORDING, **time})
