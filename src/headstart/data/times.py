"""Times as people and instruments write them: dates, times of day, minutes and seconds, counts since an epoch."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Sequence
from datetime import UTC, datetime

import numpy as np

from headstart.data.layout import Layout
from headstart.data.table import Column, Table, Words, parse
from headstart.errors import BadInput, Mistakes
from headstart.text import is_number, many
from headstart.ways import option

DAY_LENGTH, HOUR_LENGTH = 86_400, 3_600
MOST_HOURS, NEAR_STEP = 1_000, 0.25
"""Steps back that are looked at, and share of its usual step by which a step back of an hour may be off."""
FIRST_OF_LAST_CENTURY = "69"
"""A year in two digits from which on it is one of the 20th century, as POSIX reads it."""
EXACT = 2**53
"""Whole numbers from which on not each has a float of its own: nanoseconds since 1970 lie beyond."""
_TIME_OF_DAY = re.compile(
    r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2}(?:[.,]\d+|(?<=\d:\d\d:\d\d):\d{3})?)(?:\s*([AaPp])\.?[Mm]\.?)?"
)
_MONTH = re.compile(r"(\d{4})[-/](0?[1-9]|1[0-2])|(0?[1-9]|1[0-2])/((?:19|20)\d\d)|((?:19|20)\d\d)-?Q([1-4])")
MONTH_LENGTH = 365.2425 / 12 * DAY_LENGTH
"""Seconds of a month on the average, so that months count evenly."""
# fmt: off
_MONTHS = {name: number for number, names in enumerate(("jan ene gen", "feb fev", "mar mrz maa mrt", "apr avr abr",
    "may mai mei mag", "jun juin giu", "jul juil lug", "aug aou ago", "sep set", "oct okt ott out", "nov",
    "dec dez dic"), 1) for name in names.split()}
"""How months begin in English, German, French, Spanish, Italian, Portuguese and Dutch, without accents."""
# fmt: on
_LETTERS = r"[^\W\d_]{3,}"
_NAMED_MONTH = re.compile(
    rf"(\d{{1,2}})(?:\.|st|nd|rd|th|º)?[-/ .](?:de )?({_LETTERS})[-/ .,]+(?:de )?(\d{{4}}|\d\d)(?!\d)"
)
_MONTH_FIRST = re.compile(rf"({_LETTERS})\.? (\d{{1,2}}),? (\d{{4}})(?!\d)")
_ELAPSED = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:[.,]\d+)?)S)?)?(?<=[DHMS])"
    r"|(?P<days>\d+) days?,? (?P<hours>\d{1,2}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)"
)
"""PT1M30S as ISO 8601 has it, and `0 days 00:01:30` of pandas, `1 day, 0:01:30` of Python."""
_SPOKEN = re.compile(
    r"(?:(\d+(?:[.,]\d+)?) ?(?:d|days?|Tage?) ?)?(?:(\d+(?:[.,]\d+)?) ?(?:h|hrs?|hours?|Std\.?) ?)?"
    r"(?:(\d+(?:[.,]\d+)?) ?(?:m|min|mins|minutes?) ?)?(?:(\d+(?:[.,]\d+)?) ?(?:s|secs?|seconds?) ?)?"
)
"""5 min, 1h 30m, 90 s."""
_ORDINAL = re.compile(r"((?:19|20)\d\d)-([0-3]\d\d)")
"""The 31st day of 2024: 2024-031."""
LEAP = re.compile(r"(?<=:59:)60(?!\d)")
"""A second that is put in, between the last one of a minute and the next minute."""
_UNITS, _LONG = (DAY_LENGTH, HOUR_LENGTH, 60, 1), ("days", "hours", "minutes", "seconds")
_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})[./-](\d{1,4})(?:[ T,]+(\S.*))?")


def iso_seconds(words: Words) -> np.ndarray:
    """(n,) seconds of dates (2024-05-01 12:30:00), or of months (2024-05), since the first of them; NaN where a cell
    is none."""
    if _MONTH.fullmatch(next((word.strip() for word in words if word and word.strip()), "")):
        return _month_seconds(words)
    first: datetime | None = None
    out = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        try:
            date = datetime.fromisoformat(LEAP.sub("59", (word or "").strip()))
        except ValueError:
            continue
        date = date.replace(tzinfo=UTC) if date.tzinfo is None else date
        first = first or date
        out[row] = (date - first).total_seconds() + bool(LEAP.search(word or "")) / 2
    return out


def _month_seconds(words: Words) -> np.ndarray:
    """(n,) seconds of months, all of one length, since the first of them; NaN where a cell is none."""
    out = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        if match := _MONTH.fullmatch((word or "").strip()):
            out[row] = 12 * int(match[1] or match[4] or match[5]) + int(match[2] or match[3] or 3 * int(match[6]) - 2)
    return np.asarray((out - out[np.isfinite(out)][0]) * MONTH_LENGTH)


def _seconds(word: str, of_day: bool = False) -> float:
    """Seconds of 10:00:05.5, 00:30.0 or 1:05 PM; NaN where a cell is none. of_day: 10:30 are hours and minutes."""
    match = _TIME_OF_DAY.fullmatch(word.strip())
    if not match:
        return float("nan")
    hours, minutes, seconds, half = match.groups()
    if hours is None and (half or (of_day and seconds.isdecimal())):  # 1:05 PM has no seconds
        hours, minutes, seconds = minutes, seconds, "0"
    if half:
        hours = str(int(hours) % 12 + 12 * (half in "Pp"))
    return 3600 * int(hours or 0) + 60 * float(minutes) + float(seconds.replace(",", ".").replace(":", "."))


def day_seconds(words: Words) -> np.ndarray:
    """(n,) seconds of times of day, or of minutes and seconds; NaN where a cell is none."""
    return np.array([_seconds(word or "") for word in words])


def duration_seconds(words: Words) -> np.ndarray:
    """(n,) seconds of durations such as PT1M30S and `0 days 00:01:30`; NaN where a cell is none."""
    out = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        if match := _ELAPSED.fullmatch((word or "").strip()):
            parts = [match[name] or match[other] or "0" for name, other in zip("dhms", _LONG, strict=True)]
            out[row] = sum(float(part.replace(",", ".")) * unit for part, unit in zip(parts, _UNITS, strict=True))
    return out


def spoken_seconds(words: Words) -> np.ndarray:
    """(n,) seconds of 5 min, 1h 30m or 2024-031, times where a column of times has them; NaN of others."""
    out = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        plain = (word or "").strip()
        if match := _ORDINAL.fullmatch(plain):
            out[row] = datetime(int(match[1]), 1, 1, tzinfo=UTC).timestamp() + (int(match[2]) - 1) * DAY_LENGTH
        elif plain and (match := _SPOKEN.fullmatch(plain)):
            parts = [(part or "0").replace(",", ".") for part in match.groups()]
            out[row] = sum(float(part) * unit for part, unit in zip(parts, _UNITS, strict=True))
    return out


def _month(word: str) -> int:
    """The number of a month by its name, 0 of other words."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c))
    return _MONTHS.get(letters[:4], _MONTHS.get(letters[:3], 0))


def _with_month(word: str | None) -> str:
    """01-Mar-2024, 1. März 2024 and Mar 1, 2024 as 2024-3-01, which no country reads otherwise; other words as they
    are."""
    plain = (word or "").strip()
    if (match := _MONTH_FIRST.match(plain)) and (month := _month(match[1])):
        return f"{match[3]}-{month}-{match[2]}{plain[match.end() :]}"
    if (match := _NAMED_MONTH.match(plain)) and (month := _month(match[2])):
        century = "" if len(match[3]) == 4 else "20" if match[3] < FIRST_OF_LAST_CENTURY else "19"
        return f"{century}{match[3]}-{month}-{match[1]}{plain[match.end() :]}"
    return plain


def date_seconds(words: Words, day_first: bool | None = None) -> np.ndarray:
    """(n,) seconds of dates in other forms: 31.03.2024 10:00, 3/31/2024 1:05 PM; NaN where a cell is none.

    day_first: whether the day comes before the month; None: it does before a dot, or where a number above 12 says so.
    """
    matches = [_DATE.fullmatch(_with_month(word)) for word in words]
    if day_first is None:
        day_first = _day_first([match for match in matches if match]) is True
    out = np.full(len(words), np.nan)
    for row, match in enumerate(matches):
        if match is None:
            continue
        first, second, third = (int(match[k]) for k in (1, 3, 4))
        year, month, day = (third, second, first) if day_first else (third, first, second)
        if len(match[1]) == 4:
            year, month, day = first, second, third
        try:
            date = datetime(year if year > 99 else 2000 + year, month, day, tzinfo=UTC)
        except ValueError:
            continue
        out[row] = date.timestamp() + (_seconds(match[5], of_day=True) if match[5] else 0)
    return out


def _day_first(matches: Sequence[re.Match[str]]) -> bool | None:
    """Whether the day comes before the month; None where no date says so."""
    if any(match[2] == "." or int(match[1]) > 12 for match in matches if len(match[1]) < 4):
        return True
    if any(len(match[1]) == 4 or int(match[3]) > 12 or (match[5] or "").lower().endswith("m") for match in matches):
        return False
    return None


TIME_FORMS = (iso_seconds, date_seconds, day_seconds, duration_seconds)


def dated(words: Words) -> bool:
    """Whether the first cells that are not empty are dates or times, whatever their form."""
    first = _first(words)
    return bool(first) and any(np.isfinite(read(first)).all() for read in TIME_FORMS)


def _first(words: Words) -> Words:
    first: Words = [word for word in words[:200] if word and word.strip()]
    return first[:20]


def times_of(
    table: Table, layout: Layout, codes: np.ndarray | None, mistakes: Mistakes, notes: list[str]
) -> np.ndarray:
    """(n,) float64 of the column of times, to sort by: numbers as they are, else seconds.

    codes: (n,) numbers of the sequences of a long table, within which a clock that passes midnight goes on.
    A cell that is no time is a mistake. Raises: BadInput where days and months cannot be told apart.
    """
    column = table.columns[str(layout.time)]
    decimal = "," if layout.decimal == "," else "."
    first, numeric = _first(column.top), False
    text = "is neither a number nor a date or time (2024-05-01 12:30:00, 12:30:00.5)"
    if layout.spec.time_format is not None:
        times = _as_set(column.words, layout.spec.time_format)
        if layout.beside is not None:
            times = _together(table, layout, column, codes, notes)
        text = f"is not written as {layout.spec.time_format!r} says"
    elif column.numbers is not None or 2 * sum(is_number(word or "", decimal) for word in first) > len(first):
        times, numeric = _counted(column, decimal), True
    elif layout.beside is not None:
        times = _together(table, layout, column, codes, notes)
    elif np.isfinite(iso_seconds(first)).all():
        times = iso_seconds(column.words)
    elif np.isfinite(date_seconds(first)).any():
        times = _dates(table, column, codes)
    elif np.isfinite(duration_seconds(first)).all():
        times = duration_seconds(column.words)
    elif np.isfinite(spoken_seconds(first)).all():
        times = spoken_seconds(column.words)
    else:
        times = day_seconds(column.words)
        if codes is not None:
            times = _beyond_midnight(times, column.words, codes, column.name, notes)
    if codes is not None and not numeric and np.isfinite(times).all():
        times = _without_summer_time(times, codes, column.name, notes)
    for row in np.flatnonzero(~np.isfinite(times)).tolist():
        mistakes.add(
            table.places.cell(row, column.name),
            f"the time {column.words[row] or ''!r} {text}; correct it, or give {option('time', '')} to take rows as "
            "they come",
        )
    return times


def _without_summer_time(times: np.ndarray, codes: np.ndarray, name: str, notes: list[str]) -> np.ndarray:
    """Times of which those behind the one step of a sequence that goes back by an hour, less its usual step, are an
    hour later, as clocks are set back in autumn: in the order of such times the two hours would be mixed."""
    order = np.argsort(codes, kind="stable")
    steps = np.diff(times[order])
    within = np.diff(codes[order]) == 0
    falls = np.flatnonzero(within & (steps < 0))
    if not len(falls) or len(falls) > MOST_HOURS:
        return times
    out, count = times.copy(), 0
    for at in falls.tolist():
        rows = order[codes[order] == codes[order[at]]]
        own = np.diff(times[rows])
        usual = float(np.median(own))
        if (own < 0).sum() == 1 and usual > 0 and abs(steps[at] + HOUR_LENGTH - usual) <= NEAR_STEP * usual:
            begin = int(np.flatnonzero(own < 0)[0]) + 1
            out[rows[begin:]] += HOUR_LENGTH
            count += 1
    if count:
        notes.append(
            f"{name!r} goes back by an hour in {many(count, 'sequence')}, as clocks do in autumn; what follows is read "
            "as an hour later"
        )
    return out


def _as_set(words: Words, form: str) -> np.ndarray:
    """(n,) seconds of times of this form. Raises: BadInput where it is none."""
    out = np.full(len(words), np.nan)
    for row, word in enumerate(words):
        try:
            date = datetime.strptime((word or "").strip(), form)
        except ValueError as error:
            if "bad directive" in str(error) or "stray" in str(error):
                raise BadInput(
                    f"layout.time_format: {form!r} is no form of times ({error}); give one such as "
                    f"{option('time_format', '%d.%m.%Y %H:%M:%S')}"
                ) from None
            continue
        date = date.replace(tzinfo=UTC) if date.tzinfo is None else date
        out[row] = (date - datetime(1900, 1, 1, tzinfo=UTC)).total_seconds()
    return out


def _counted(column: Column, decimal: str) -> np.ndarray:
    """(n,) numbers; whole ones beyond what a float holds exactly are counted from the smallest."""
    times = column.floats if decimal == "." else parse(column.data, decimal)
    if not len(times) or not np.nanmax(np.abs(times), initial=0) >= EXACT or not np.isfinite(times).all():
        return times
    if column.numbers is not None:
        numbers = column.numbers
        return np.asarray(numbers - numbers.min(), dtype=np.float64) if numbers.dtype.kind in "iu" else times
    try:
        whole = [int(word or "") for word in column.words]
    except ValueError:
        return times
    least = min(whole)
    return np.array([number - least for number in whole], dtype=np.float64)


def _dates(table: Table, column: Column, codes: np.ndarray | None) -> np.ndarray:
    """(n,) seconds of dates that are not ISO's. Raises: BadInput where the month may be the day and that matters."""
    matches = [match for word in column.words if (match := _DATE.fullmatch(_with_month(word)))]
    day_first = _day_first(matches)
    if day_first is not None:
        return date_seconds(column.words, day_first)
    ways = [date_seconds(column.words, way) for way in (True, False)]
    groups = np.zeros(len(ways[0]), dtype=np.int64) if codes is None else codes
    steps = [np.diff(way[np.argsort(groups, kind="stable")])[np.diff(np.sort(groups)) == 0] for way in ways]
    if np.array_equal(steps[0], steps[1], equal_nan=True):
        return ways[0]
    word, mark, time = matches[0][0], matches[0][2], matches[0][5] or ""
    rest = {0: "", 1: " %H:%M"}.get(time.count(":"), " %H:%M:%S" + (".%f" if "." in time else ""))
    raise BadInput(
        f"{table.places.cell(0, column.name)}: {word!r} may begin with the day or with the month; give "
        f"{option('time_format', f'%d{mark}%m{mark}%Y{rest}')} or {option('time_format', f'%m{mark}%d{mark}%Y{rest}')}"
    )


def _together(table: Table, layout: Layout, column: Column, codes: np.ndarray | None, notes: list[str]) -> np.ndarray:
    """(n,) seconds of a column of dates and one of times of day, whichever of them is that of the times."""
    other = table.columns[str(layout.beside)]
    days, hours = (column, other) if _days(column, layout.spec.time_format) is not None else (other, column)
    notes.append(f"the times are those of {days.name!r} and {hours.name!r} together")
    if layout.spec.time_format is not None:
        dates = _as_set(days.words, layout.spec.time_format)
    else:
        dates = iso_seconds(days.words)
        dates = dates if np.isfinite(dates).any() else _dates(table, days, codes)
    return np.asarray(dates + _hours(hours.words))


def beside(table: Table, time: str, used: Container[str | None], time_format: str | None) -> str | None:
    """The one column without a use that holds the dates of times of day, or the times of day of dates alone."""
    column = table.columns[time]
    if column.type not in ("text", "time"):
        return None
    dates = _days(column, time_format) is None
    if dates and not np.isfinite(day_seconds(_first(column.words))).all():
        return None
    result = []
    for other in table.columns.values():
        if other.name == time or other.name in used or other.type not in ("text", "time"):
            continue
        if _days(other, time_format) is not None if dates else np.isfinite(_hours(other.words)).all():
            result.append(other.name)
    return result[0] if len(result) == 1 else None


def _days(column: Column, time_format: str | None) -> np.ndarray | None:
    """(n,) seconds of dates without a time of day; None where a cell is none."""
    first = _first(column.words)
    forms = (iso_seconds, date_seconds) if time_format is None else (lambda words: _as_set(words, time_format),)
    for read in forms:
        if not first or not np.isfinite(read(first)).all():
            continue
        values = read(column.words)
        if np.isfinite(values).all() and not ((values - values[0]) % DAY_LENGTH).any():
            return values
    return None


def _hours(words: Words) -> np.ndarray:
    """(n,) seconds of times of day beside a date, 10:30 as hours and minutes; NaN where a cell is none."""
    return np.array([_seconds(word or "", of_day=True) for word in words])


def _beyond_midnight(times: np.ndarray, words: Words, codes: np.ndarray, name: str, notes: list[str]) -> np.ndarray:
    """Times of day that go on after midnight within a sequence, where all of its rows are in order then; of minutes and
    seconds those that go on after a full hour."""
    three = any((word or "").count(":") > 1 for word in words)
    period = DAY_LENGTH if three or any((word or "").strip().lower().endswith("m") for word in words) else HOUR_LENGTH
    plain = not any(re.search("[.,]", word or "") for word in words)
    if period == HOUR_LENGTH and plain and np.nanmax(times, initial=0) < DAY_LENGTH / 60:
        period = DAY_LENGTH // 60  # 23:55 and 00:05 are hours and minutes
    order = np.argsort(codes, kind="stable")
    same = np.concatenate([[False], np.diff(codes[order]) == 0])
    steps = np.diff(times[order], prepend=0.0)
    falls = same & (steps < -period / 2)
    if not falls.any() or (same & (steps < 0) & ~falls).any():
        return times
    begins = np.flatnonzero(~same)
    turns = np.cumsum(falls)
    turns = turns - np.repeat(turns[begins] - falls[begins], np.diff([*begins, len(turns)]))
    out = times.copy()
    out[order] += period * turns
    what = "midnight" if period != HOUR_LENGTH else "a full hour"
    count = int(np.count_nonzero(turns[[*(begins[1:] - 1), len(turns) - 1]]))
    notes.append(f"{name!r} passes {what} in {many(count, 'sequence')}")
    return out
