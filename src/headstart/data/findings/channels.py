"""What may be wrong with the values of channels: filling, marks of missing values, sensors that are clipped or dead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headstart.data.findings.finding import Finding, cell, share_words, short, some
from headstart.data.findings.marks import sentinels
from headstart.data.padding import equal_neighbours, equal_tails, filled
from headstart.data.sequences import Sequences
from headstart.data.text import number_name
from headstart.text import counted, many
from headstart.ways import option

TAIL = 3
"""Equal values at the end of a sequence that may be filling."""
SAME_INSIDE = {"zeros": 0.05, "front": 0.05, "both": 0.05, "last": 0.2}
"""Share of neighbours inside of sequences that are as equal as in the filling; from it on such runs are how the data
are: the silence of a recording, the margin of an image."""
FEW_FILLED, FILLED_SHARE, RARELY = 3, 0.05, 0.02
"""Sequences that are filled up where most are not: so many and this share at least, and which share of neighbours
inside of sequences may be equal then."""
CLIPPED, CLIPPED_RUN, LEAST_LEVELS = 0.01, 3, 30
"""Share of a channel's values that are clipped, equal ones in a row of each, and levels of a channel that can be."""
FLOOR_TIMES = 3
"""Times as many values at the bottom as at the top from which on a bottom of 0 is the floor."""
NEAR_END, BESIDE_END = 0.02, 3
"""Share of a channel's range beside its end, and by how many times the end itself must be more frequent than that."""
STILL_POSITIONS, LIVELY = 8, 0.8
"""Positions of a sequence in which a dead channel does not change, and share of positions at which it
changes elsewhere."""
STUCK, MOST_STUCK = 20, 0.2
"""Equal values in a row of a sensor that is stuck, and share of a channel that such runs are at most."""
MOST_DROPPED, DROPPED_RUN, FAR_FROM_ZERO = 0.3, 2, 0.3
"""Share of zeros of a channel that loses contact, zeros in a row, and share of its median that its least values are."""
LEAST_MAGNITUDE = 1e-35
"""Distance from 0 below which numbers cannot be standardised in float32: its smallest number of all digits is 1e-38."""
LOOKED_VALUES = 10_000
"""Values of a channel whose levels are counted."""
MOST_NAMED = 6
"""Channels that a command names."""


def padding(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Sequences end in the same value over and over, or begin with zeros, as those do that were filled up."""
    if s.kind != "numbers" or facts["lengths"]["max"] < TAIL:
        return
    values = s.values if s.observed is None else np.where(s.observed, s.values, np.float32(np.nan))
    if not _may_be_padded(values, s.offsets):
        return
    same = equal_neighbours(values, s.offsets)
    zeros = same & np.array((values[1:] == 0).all(1), dtype=bool)
    tails, heads = equal_tails(values, s.offsets) + 1, filled(values, s.offsets, "front")
    heads[heads >= s.lengths - 1] = 0  # one of zeros alone has no beginning of them
    ends = values[(s.offsets[1:] - 1)[tails >= TAIL]]
    way = "last" if ends.any() else "zeros"
    kinds = [(way, tails, same), ("front", heads, zeros)]
    if way == "zeros" and 2 * ((tails >= TAIL) & (heads >= TAIL)).sum() > len(s):
        kinds = [("both", np.minimum(tails, heads), zeros)]
    for way, filling, pairs in kinds:
        rows, counted_in = filling >= TAIL, (tails, heads) if way == "both" else (filling,)
        of_filling = sum(int(np.maximum(part - 1, 0).sum()) for part in counted_in)
        if not _is_filling(int(rows.sum()), len(s), of_filling, int(pairs.sum()), len(pairs), SAME_INSIDE[way]):
            continue
        row, what = int(rows.argmax()), "equal values" if way == "last" else "zeros"
        verb = {"front": "begin with", "both": "begin and end in"}.get(way, "end in")
        yield Finding.located(
            f"{int(rows.sum()):,} of {len(s):,} sequences {verb} {TAIL} or more {what}",
            f"{s.places.of(row)}: {filling[row]:,}",
            f"; where they are padding, {_without_padding(ends, way)} cuts it off",
        )
        return


def _is_filling(rows: int, of: int, of_filling: int, equal: int, pairs: int, most_inside: float) -> bool:
    """Whether so many of all rows are filled up: most of them, where neighbours inside of sequences are seldom equal;
    some, where they hardly ever are. of_filling: pairs of equal neighbours in the filling; equal: all of them."""
    inside = equal - of_filling
    if 2 * rows > of:
        return inside <= most_inside * (pairs - of_filling)
    return rows >= max(FEW_FILLED, FILLED_SHARE * of) and inside <= min(RARELY * (pairs - of_filling), of_filling)


def _without_padding(ends: np.ndarray, way: str) -> str:
    """The option that cuts padding off: where all sequences end (n, F) in one number, that is no value."""
    alike = way == "last" and len(ends) > 1 and (ends == ends[0, 0]).all()
    return option("na", number_name(float(f"{ends[0, 0]:.7g}"))) if alike else option("padding", way)


def _may_be_padded(values: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether some sequences end or begin alike, which is looked at first since most data do not."""
    long = np.diff(offsets) >= TAIL
    starts, ends = offsets[:-1][long], offsets[1:][long]
    last = np.all([(values[ends - 1] == values[ends - 1 - step]).all(1) for step in range(1, TAIL)], axis=0)
    first = np.all([(values[starts + step] == 0).all(1) for step in range(TAIL)], axis=0)
    return bool(max(last.sum(), first.sum()) >= max(FEW_FILLED, FILLED_SHARE * len(long)))


def missing_channels(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels without any value."""
    gone = [f for f, channel in enumerate(facts["channels"]) if channel["min"] is None]
    if gone:
        verb = counted(len(gone), "channel is", "channels are")
        yield Finding(f"{verb} missing everywhere ({some([s.channels[f] for f in gone])}){without(s, gone)}")


def constant_channels(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels with one value, and those that do not change within any sequence."""
    channels = facts["channels"]
    still = [f for f, c in enumerate(channels) if c["min"] is not None and c["min"] == c["max"]]
    flat = [c["name"] for f, c in enumerate(channels) if c["constant within"] and f not in still]
    if still:
        verb = counted(len(still), "channel is", "channels are")
        yield Finding(f"{verb} constant ({some([s.channels[f] for f in still])}){without(s, still)}")
    if flat:
        yield Finding(
            f"{counted(len(flat), 'channel does', 'channels do')} not change within any sequence ({some(flat)}); "
            f"where it is the label, name it with {option('target')}"
        )
    if facts["constant positions"] and not still:
        yield Finding(f"at {many(facts['constant positions'], 'position')} every sequence has the same value")


def too_small(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels whose numbers are so small that standardising takes them for 0; a fit refuses them."""
    for name, channel in zip(s.channels, facts["channels"], strict=s.kind == "numbers"):
        if channel["min"] is not None and (words := small_words(channel["min"], channel["max"])):
            yield Finding(f"channel {short(name)!r}: {words}")


def small_words(low: float, high: float) -> str:
    """What is wrong with a channel whose numbers lie between these, none of them far enough from 0; else empty."""
    most = max(abs(low), abs(high))
    if not 0 < most < LEAST_MAGNITUDE:
        return ""
    return (
        f"no number is further from 0 than {most:.1e}, and below {LEAST_MAGNITUDE:.0e} a fit takes all for 0; "
        "multiply them"
    )


def without(s: Sequences, channels: list[int]) -> str:
    """The option that leaves channels out, where the others are columns that a command can name."""
    rest = [channel for f, channel in enumerate(s.layout.channels) if f not in channels]
    names = [channel.pattern or channel.columns[0] for channel in rest if channel.pattern or len(channel.columns) == 1]
    if len(s.layout.channels) != len(s.channels) or not 0 < len(names) == len(rest) <= MOST_NAMED:
        return ""
    return f"; {option('values', *names)} {'leaves it out' if len(channels) == 1 else 'leaves them out'}"


def lost_steps(_: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels whose changes single precision hardly holds."""
    for channel in facts["channels"]:
        if channel["lost steps"]:
            step, reach = channel["lost steps"]
            yield Finding(
                f"channel {short(channel['name'])!r} changes by about {step:.2g} from position to position, while its "
                f"values lie {reach:.2g} apart, so that models in single precision hardly see the changes; where they "
                "matter, subtract its own level from each sequence"
            )


def missing_marks(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Numbers that stand for a missing value: -9999, and whatever is repeated far outside."""
    for f, name in enumerate(s.channels if s.kind == "numbers" else ()):
        x = s.values[:, f]
        there = x if s.observed is None else x[s.observed[:, f]]
        for value, count in sentinels(there).items():
            where = np.flatnonzero(x == value)
            rows = len(np.unique(np.searchsorted(s.offsets, where, side="right")))
            text = number_name(float(f"{value:.7g}"))
            yield Finding.located(
                f"channel {short(name)!r} holds {text} in {rows:,} of {many(len(s), 'sequence')}, {count:,} times",
                cell(s, int(where[0]), f),
                f", far from all others, as programs write what is missing: {option('na', text)} reads it so",
            )


def dropouts(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Zeros in a row inside of sequences, in a channel whose other values lie far from 0: a heart rate of 0."""
    for f, name in enumerate(s.channels if s.kind == "numbers" else ()):
        x = s.values[:, f]
        there = np.ones(len(x), dtype=bool) if s.observed is None else s.observed[:, f]
        zeros = (x == 0) & there
        if not 0 < zeros.sum() < MOST_DROPPED * len(x) or x[there].min() < 0 < x[there].max() or not x[there].any():
            continue
        rest = np.abs(x[there & ~zeros])
        low, middle = np.quantile(rest, [0.01, 0.5])
        if (
            low < FAR_FROM_ZERO * middle
            or (rest < low / 2).sum() * BESIDE_END > zeros.sum()
            or 0.0 in sentinels(x[there])
            or _counted(rest)
        ):
            continue
        begins, ends = _runs(zeros)
        inside = ~np.isin(begins, s.offsets) & ~np.isin(ends, s.offsets) & (ends - begins >= DROPPED_RUN)
        if not inside.any():
            continue
        usual = number_name(float(f"{np.median(x[there & ~zeros]):.3g}"))
        yield Finding.located(
            f"channel {short(name)!r} is 0 in {counted(int(inside.sum()), 'run', 'runs')} of {DROPPED_RUN} or more, "
            f"while its other values lie around {usual}",
            cell(s, int(begins[inside.argmax()]), f),
            f", as a sensor does that has lost contact; {option('na', '0')} reads 0 as missing",
        )


def _counted(rest: np.ndarray) -> bool:
    """Whether 0 is as near to the other values of a channel as these are to each other, as it is among counts."""
    levels = np.unique(rest[:LOOKED_VALUES])
    return len(levels) > 1 and bool(levels[0] <= 2 * np.median(np.diff(levels)))


def _runs(there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of true values begin, and where each has ended."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]])))
    return edges[::2], edges[1::2]


def saturation(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels that stand at their largest or smallest value in runs, as a sensor does beyond its range.

    The end is more frequent than the values beside it. A smallest value of 0 is one only where the largest is, too,
    nearly as often: else it is the floor of powers, counts and rectified signals, or the background of images; nor is
    the smallest one where no value is above 0, which is the floor of decibels.
    """
    for f, channel in enumerate(facts["channels"]):
        low, high = channel["min"], channel["max"]
        if low is None or low == high or channel["constant within"]:
            continue
        top = 0
        for what, value in (("largest", high), ("smallest", low)):
            if what == "smallest" and (high <= 0 or (low == 0 and not top)):
                break
            clipped, location = _clipped(s, f, value, high - low)
            if what == "largest":
                top = clipped
            elif low == 0 and clipped > FLOOR_TIMES * top:  # the background of an image
                break
            if clipped:
                text = number_name(float(f"{value:.7g}"))
                yield Finding.located(
                    f"channel {short(s.channels[f])!r} stands at its {what} value {text} in runs of {CLIPPED_RUN} or "
                    f"more, {share_words(clipped / len(s.values))} of its values",
                    location,
                    f", as a sensor does that is clipped; {option('na', text)} reads these as missing",
                )


def _clipped(s: Sequences, f: int, value: float, reach: float) -> tuple[int, str]:
    """How many values of a channel are clipped at an end of it, and where the first are; 0 where none are."""
    x = s.values[:, f]
    at = x == value if s.observed is None else (x == value) & s.observed[:, f]
    count = int(at.sum())
    if count < CLIPPED * len(x):
        return 0, ""
    joined = at[1:] & at[:-1]
    joined[s.offsets[1:-1] - 1] = False
    begins, ends = _runs(joined)
    lengths = ends - begins + 1
    runs = lengths >= CLIPPED_RUN
    inside = int(lengths[runs].sum())
    if inside < CLIPPED * len(x) or 2 * inside < count:
        return 0, ""
    off = np.abs(x - value) / reach
    off = off if s.observed is None else off[s.observed[:, f]]
    beside = int((off < NEAR_END).sum()) - count
    reached = (off < 5 * NEAR_END).sum() > count
    if count < BESIDE_END * beside or not reached or len(np.unique(x[:LOOKED_VALUES])) < LEAST_LEVELS:
        return 0, ""
    return inside, cell(s, int(begins[runs.argmax()]), f)


def dead_rows(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels that do not change in some sequences, while they seldom stay the same from position to position in the
    others."""
    if s.kind != "numbers" or len(s) < 2 or facts["lengths"]["max"] < STILL_POSITIONS:
        return
    starts = s.offsets[:-1]
    for f, channel in enumerate(facts["channels"]):
        if channel["min"] == channel["max"] or channel["constant within"]:
            continue
        x = s.values[:, f]
        moves = np.concatenate([[False], x[1:] != x[:-1]])
        moves[starts] = False
        count = np.add.reduceat(moves, starts, dtype=np.int64)
        there = s.lengths if s.observed is None else np.add.reduceat(s.observed[:, f], starts, dtype=np.int64)
        dead = (count == 0) & (there == s.lengths) & (s.lengths >= STILL_POSITIONS)
        live = ~dead & (s.lengths >= STILL_POSITIONS)
        if not dead.any() or not live.any() or count[live].sum() < LIVELY * (s.lengths[live] - 1).sum():
            continue
        some = int(np.flatnonzero(live)[:LOOKED_VALUES][-1]) + 1
        looked = x[: s.offsets[some]][np.repeat(live[:some], s.lengths[:some])][:LOOKED_VALUES]
        if len(np.unique(looked)) < LEAST_LEVELS:
            continue
        row = int(dead.argmax())
        yield Finding.located(
            f"channel {short(channel['name'])!r} does not change in {int(dead.sum()):,} of {len(s):,} sequences",
            f"{s.places.of(row)}: {number_name(float(f'{x[starts[row]]:.7g}'))} throughout",
            ", as a dead sensor does; leave these rows out where it is one",
        )


def stuck(s: Sequences, facts: dict[str, Any]) -> Iterator[Finding]:
    """Channels that keep one value for a while within some sequences, while neighbours are hardly ever equal else."""
    if s.kind != "numbers" or facts["lengths"]["max"] <= STUCK:
        return
    ends: tuple[np.ndarray, np.ndarray] | None = None
    for f, channel in enumerate(facts["channels"]):
        if channel["min"] == channel["max"] or channel["constant within"]:
            continue
        x = s.values[:, f]
        same = x[1:] == x[:-1]
        same[s.offsets[1:-1] - 1] = False
        same = same if s.observed is None else same & s.observed[1:, f] & s.observed[:-1, f]
        begins, behind = _runs(same)
        lengths = behind - begins + 1
        begins, lengths = begins[lengths >= STUCK], lengths[lengths >= STUCK]
        rows = np.searchsorted(s.offsets, begins, side="right") - 1
        inside = (lengths < s.lengths[rows]) & (x[begins] != channel["min"]) & (x[begins] != channel["max"])
        if inside.any():
            ends = ends or (filled(s.values, s.offsets, "last") + 1, filled(s.values, s.offsets, "front"))
            filling = (begins + lengths == s.offsets[rows + 1]) & (lengths <= ends[0][rows])
            filling |= (begins == s.offsets[rows]) & (lengths <= ends[1][rows])
            inside &= ~filling | (filling.sum() < max(FEW_FILLED, FILLED_SHARE * len(s)))  # several are padding
        equal = int(same.sum() - (lengths - 1).sum())
        if not inside.any() or equal > RARELY * len(x) or lengths[inside].sum() > MOST_STUCK * len(x):
            continue
        if len(np.unique(x[:LOOKED_VALUES])) < LEAST_LEVELS:
            continue
        at, count = int(inside.argmax()), len(np.unique(rows[inside]))
        if count > max(FEW_FILLED, len(s) // 2):  # most sequences: a hold of a programme, as the data are
            continue
        yield Finding.located(
            f"channel {short(channel['name'])!r} keeps one value for {STUCK} positions or more in {count:,} of "
            f"{many(len(s), 'sequence')}",
            f"{cell(s, int(begins[at]), f)}: {number_name(float(f'{x[begins[at]]:.7g}'))} for {lengths[at]:,}",
            ", as a sensor does that is stuck; leave these values empty where it is",
        )
