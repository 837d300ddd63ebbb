"""The data card: what a person should know of their sequences before training, as lines and as JSON material."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.data.doubts import doubts
from headstart.data.layout import SOUNDS
from headstart.data.sequences import Sequences, target_doubt
from headstart.data.text import printable
from headstart.text import counted, many
from headstart.ways import option

MOST_LISTED = 20
"""Classes and channels that are listed."""
FAR_TIMES = 10
"""Times the median length from which on a sequence is far longer than the rest."""
TAIL = 3
"""Equal values at the end of a sequence that may be padding."""
SMALL_CLASS = 5
"""Rows below which a class can hardly be split into train, validation and test."""

FINE = 3e-6
"""Share of a channel's range below which a change is lost in single precision: 50 times what it resolves there."""


@dataclass(frozen=True)
class Card:
    """`head` are pairs of a name and what is said of it; `classes` and `channels` rows of tables under `CLASS_COLUMNS`
    and `CHANNEL_COLUMNS`; `findings` sentences on what may be wrong with the data, with places. `facts` is the same as
    JSON material without places, ids or names of files. All texts have control characters made visible.
    """

    head: tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, ...], ...]
    channels: tuple[tuple[str, ...], ...]
    findings: tuple[str, ...]
    facts: dict[str, Any]

    @property
    def tables(self) -> tuple[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], ...]:
        """(heads, rows) of the classes and of the channels, where there are any."""
        return tuple(
            (heads, rows) for heads, rows in ((CLASS_COLUMNS, self.classes), (CHANNEL_COLUMNS, self.channels)) if rows
        )


CLASS_COLUMNS = ("class", "rows", "share")
CHANNEL_COLUMNS = ("channel", "missing", "min", "mean", "max", "deviation")


def data_card(sequences: Sequences) -> Card:
    """The card of these sequences."""
    facts = card_facts(sequences)
    return Card(
        _head(sequences, facts), _class_rows(facts), _channel_rows(facts), tuple(_findings(sequences, facts)), facts
    )


def _head(s: Sequences, facts: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    lengths, count = facts["lengths"], facts["rows"]
    channels = f", {len(s.channels)} {'channel' if len(s.channels) == 1 else 'channels'}" if s.kind == "numbers" else ""
    symbols = f" ({facts['symbols']} symbols)" if s.kind == "tokens" else ""
    spread = f"{lengths['min']:,}"
    if lengths["min"] != lengths["max"]:
        spread += f" to {lengths['max']:,}, median {lengths['median']:,.0f}"
    labelled = "all" if facts["labelled"] == count else f"{facts['labelled']:,}" if facts["labelled"] else "none"
    pairs = [
        ("layout", s.layout.said),
        ("kind", f"{SOUNDS[s.kind]}{symbols}{channels}"),
        ("sequences", f"{count:,}, {labelled} of them labelled"),
        ("length", spread),
    ]
    if s.observed is not None:
        gaps = int(np.add.reduceat((~s.observed).any(1), s.offsets[:-1]).astype(bool).sum())
        pairs.append(("missing", f"{_share(facts['missing'])} of the values, in {many(gaps, 'sequence')}"))
    pairs.append(("target", _target(s, facts["target"])))
    if s.groups is not None:
        pairs.append(("groups", f"{facts['groups']:,}"))
    pairs += [("note", note) for note in s.notes]
    return tuple((name, printable(text)) for name, text in pairs)


def _target(s: Sequences, target: dict[str, Any]) -> str:
    if target["kind"] == "class":
        return f"{len(target['classes'])} {'class' if len(target['classes']) == 1 else 'classes'}"
    if target["kind"] == "number":
        return (
            f"a number, {target['min']:.4g} to {target['max']:.4g}, mean {target['mean']:.4g}, deviation "
            f"{target['deviation']:.4g}"
        )
    if s.layout.target is not None:
        return f"no row has one in {s.layout.target!r}"
    return f"none: every sequence can serve pretraining alone; name a column with {option('target')}"


def _class_rows(facts: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    counts = facts["target"].get("classes", {})
    total = max(sum(counts.values()), 1)
    rows = [(_short(name), f"{count:,}", _share(count / total)) for name, count in counts.items()]
    more = (f"and {len(rows) - MOST_LISTED} more", "", "")
    return tuple(rows[:MOST_LISTED] + [more] * (len(rows) > MOST_LISTED))


def _channel_rows(facts: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = []
    for channel in facts["channels"][:MOST_LISTED]:
        figures = [
            "" if channel[name] is None else f"{channel[name]:.4g}" for name in ("min", "mean", "max", "deviation")
        ]
        rows.append((_short(channel["name"]), _share(channel["missing"]) if channel["missing"] else "0", *figures))
    if len(facts["channels"]) > MOST_LISTED:
        rows.append((f"and {len(facts['channels']) - MOST_LISTED} more", *[""] * 5))
    return tuple(rows)


def _findings(s: Sequences, facts: dict[str, Any]) -> list[str]:
    out = [*s.layout.doubts, *([doubt] if (doubt := target_doubt(s)) else [])]
    out += [
        *_of_copies(s, facts["copies"]),
        *_of_classes(facts),
        *_of_lengths(s, facts),
        *_of_ends(s),
        *_of_channels(facts),
    ]
    out += facts["doubts"]
    if facts["repeated ids"] and s.ids is not None:
        name, count = Counter(s.ids).most_common(1)[0]
        rows = [row for row, other in enumerate(s.ids) if other == name][:2]
        way = f"; where rows of one id belong together, give {option('group', s.layout.id)}" if s.layout.id else ""
        out.append(
            f"{counted(facts['repeated ids'], 'id stands', 'ids stand')} in several rows, {name!r} in "
            f"{count:,} ({_places(s, rows)})"
            f"{way if s.groups is None else ''}"
        )
    return [printable(text) for text in out]


def _of_copies(s: Sequences, copies: dict[str, int]) -> list[str]:
    first, out = s.copies(), []
    if copies["rows"]:
        row = int(np.flatnonzero(first != np.arange(len(s)))[0])
        out.append(
            f"{counted(copies['rows'], 'sequence is', 'sequences are')} an exact copy of an earlier one "
            f"({_places(s, [int(first[row]), row])}); copies must not stand in train and test"
        )
    if copies["with other labels"]:
        row, before = _clashes(first, s.labels)[0]
        out.append(
            f"{counted(copies['with other labels'], 'sequence has', 'sequences have')} copies with another label "
            f"({s.labels[before]!r} in {s.places.of(before)}, {s.labels[row]!r} in {s.places.of(row)})"
        )
    if copies["in two groups"]:
        row, before = _clashes(first, s.groups)[0]
        out.append(
            f"{counted(copies['in two groups'], 'sequence stands', 'sequences stand')} in two groups, so that groups "
            f"leak ({_places(s, [before, row])})"
        )
    return out


def _of_classes(facts: dict[str, Any]) -> list[str]:
    counts = facts["target"].get("classes", {})
    if len(counts) < 2:
        return [f"every label is {name!r}; a classifier needs two classes or more" for name in counts]
    out = []
    alone = [name for name, count in counts.items() if count == 1]
    few = [name for name, count in counts.items() if 1 < count < SMALL_CLASS]
    if alone:
        out.append(
            f"{counted(len(alone), 'class has', 'classes have')} one member ({_some(alone)}), which cannot be both "
            "learned and tested; give more, or join it with another"
        )
    if few:
        out.append(f"{counted(len(few), 'class has', 'classes have')} fewer than {SMALL_CLASS} members ({_some(few)})")
    if max(counts.values()) > 10 * min(counts.values()) and not alone:
        out.append(
            "the largest class has more than 10 times the rows of the smallest; read balanced accuracy and "
            "macro-F1 beside accuracy"
        )
    return out


def _of_lengths(s: Sequences, facts: dict[str, Any]) -> list[str]:
    lengths, out = s.lengths, []
    far = int((lengths > FAR_TIMES * max(facts["lengths"]["median"], 1)).sum())
    if far:
        longest = int(lengths.argmax())
        out.append(
            f"{counted(far, 'sequence is', 'sequences are')} more than {FAR_TIMES} times as long as the median, the "
            f"longest with {many(int(lengths[longest]), 'position')} ({s.places.of(longest)})"
        )
    short = np.flatnonzero(lengths == 1).tolist()
    if short:
        out.append(f"{counted(len(short), 'sequence has', 'sequences have')} one position ({_places(s, short[:2])})")
    return out


def _of_ends(s: Sequences) -> list[str]:
    """Whether most sequences end in the same value over and over, as those do that were filled up to one length."""
    if s.kind != "numbers":
        return []
    starts, ends = s.offsets[:-1], s.offsets[1:]
    values = s.values if s.observed is None else np.where(s.observed, s.values, np.float32(np.nan))
    differs = (values != np.repeat(values[ends - 1], s.lengths, axis=0)).any(1)
    last = np.maximum.reduceat(np.where(differs, np.arange(len(differs)), -1), starts)
    tails = np.where(last < starts, 0, ends - 1 - last)  # one that never changes is no tail
    many = tails >= TAIL
    if 2 * many.sum() <= len(s):
        return []
    what = "zeros" if not values[(ends - 1)[many]].any() else "equal values"
    row = int(many.argmax())
    return [
        f"{int(many.sum()):,} of {len(s):,} sequences end in {TAIL} or more {what} ({s.places.of(row)}: {tails[row]:,})"
        "; where they are padding, leave the cells empty"
    ]


def _of_channels(facts: dict[str, Any]) -> list[str]:
    channels, out = facts["channels"], []
    gone = [channel["name"] for channel in channels if channel["min"] is None]
    still = [channel["name"] for channel in channels if channel["min"] is not None and channel["min"] == channel["max"]]
    flat = [channel["name"] for channel in channels if channel["constant within"] and channel["name"] not in still]
    if gone:
        out.append(f"{counted(len(gone), 'channel is', 'channels are')} missing everywhere ({_some(gone)})")
    if still:
        out.append(f"{counted(len(still), 'channel is', 'channels are')} constant ({_some(still)})")
    if flat:
        out.append(
            f"{counted(len(flat), 'channel does', 'channels do')} not change within any sequence ({_some(flat)}); "
            f"where it is the label, name it with {option('target')}"
        )
    for channel in channels:
        if channel["lost steps"]:
            step, reach = channel["lost steps"]
            out.append(
                f"channel {_short(channel['name'])!r} changes by about {step:.2g} from position to position, while its "
                f"values lie {reach:.2g} apart, so that models in single precision hardly see the changes; where they "
                "matter, subtract its own level from each sequence"
            )
    if facts["constant positions"] and not still:
        out.append(f"at {many(facts['constant positions'], 'position')} every sequence has the same value")
    return out


def _places(s: Sequences, rows: Sequence[int]) -> str:
    """Where rows stand; of lines of one file the others by their numbers alone."""
    if s.places.lines is None:
        return " and ".join(s.places.of(row) for row in rows)
    return " and ".join([s.places.of(rows[0]), *(str(int(s.places.lines[row])) for row in rows[1:])])


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(repr(_short(name)) for name in names[:most]) + (", ..." if len(names) > most else "")


def _short(text: str) -> str:
    plain = printable(text)
    return plain if len(plain) <= 40 else plain[:39] + "…"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "under 0.1 %"


def card_facts(s: Sequences) -> dict[str, Any]:
    """What the card says, as JSON material: counts and figures, names of classes and channels; no row, id or file."""
    lengths, target = s.lengths, _target_facts(s)
    first = s.copies()
    return {
        "kind": s.kind,
        "rows": len(s),
        "labelled": int(s.labelled.sum()),
        "lengths": {"min": int(lengths.min()), "median": float(np.median(lengths)), "max": int(lengths.max())},
        "symbols": s.width if s.kind != "numbers" else None,
        "channels": _channel_facts(s),
        "missing": 0.0 if s.observed is None else float(1 - s.observed.mean()),
        "target": target,
        "groups": None if s.groups is None else len(set(s.groups)),
        "copies": {
            "rows": int((first != np.arange(len(s))).sum()),
            "with other labels": 0 if s.per_position else len(_clashes(first, s.labels)),
            "in two groups": len(_clashes(first, s.groups)),
        },
        "repeated ids": sum(count > 1 for count in Counter(s.ids or ()).values()),
        "constant positions": _constant_positions(s),
        "doubts": doubts(s, target.get("classes", {})),
        "notes": list(s.notes),
    }


def _channel_facts(s: Sequences) -> list[dict[str, Any]]:
    if s.kind != "numbers":
        return []
    out = []
    for f, name in enumerate(s.channels):
        column = s.values[:, f]
        there = column if s.observed is None else column[s.observed[:, f]]
        gaps = column if s.observed is None else np.where(s.observed[:, f], column, np.nan)
        within = np.delete(np.diff(gaps), s.offsets[1:-1] - 1)
        steps = np.abs(within[np.isfinite(within) & (within != 0)])
        step, reach = float(np.median(steps)) if len(steps) else 0.0, float(np.ptp(there)) if len(there) else 0.0
        out.append(
            {
                "name": name,
                "constant within": bool(len(within) > 0 and (within == 0).all()),
                "missing": float(1 - len(there) / len(column)),
                "lost steps": [step, reach] if 0 < step < FINE * reach else None,
                **_moments(there.astype(np.float64)),
            }
        )
    return out


def _moments(x: np.ndarray) -> dict[str, float | None]:
    if not len(x):
        return dict.fromkeys(("min", "mean", "max", "deviation"))
    return {"min": float(x.min()), "mean": float(x.mean()), "max": float(x.max()), "deviation": float(x.std())}


def _target_facts(s: Sequences) -> dict[str, Any]:
    if s.target == "class":
        counts = Counter(label for label in s.labels if label is not None)
        return {"kind": "class", "classes": {name: counts[name] for name in s.classes}}
    if s.target == "number":
        numbers = s.numbers()
        return {"kind": "number", **_moments(numbers[~np.isnan(numbers)])}
    return {"kind": "none"}


def _clashes(first: np.ndarray, names: Sequence[str | None] | None) -> list[tuple[int, int]]:
    """(a row, an earlier one) of equal sequences with different names, the first of each set of copies."""
    known: dict[int, int] = {}
    out: dict[int, tuple[int, int]] = {}
    for row, (copy, name) in enumerate(zip(first.tolist(), names or [None] * len(first), strict=True)):
        if name is not None and names is not None and names[before := known.setdefault(copy, row)] != name:
            out.setdefault(copy, (row, before))
    return list(out.values())


def _constant_positions(s: Sequences) -> int:
    """Positions (of sequences of one length) at which every row has the same value."""
    lengths = s.lengths
    if s.kind != "numbers" or len(s) < 2 or lengths.min() != lengths.max() or s.observed is not None:
        return 0
    table = s.values.reshape(len(s), int(lengths[0]), -1)
    return int((table == table[:1]).all((0, 2)).sum())
