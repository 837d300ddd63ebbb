"""The data card: what a person should know of their sequences before training, as lines and as JSON material."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.data.layout import SOUNDS
from headstart.data.sequences import Sequences
from headstart.data.text import printable

MOST = 20
"""Classes and channels that are listed."""
FAR = 10
"""Times the median length from which on a sequence is far longer than the rest."""
SMALL = 5
"""Rows below which a class can hardly be split into train, validation and test."""


@dataclass(frozen=True)
class Card:
    """`head` are pairs of a name and what is said of it; `classes` and `channels` rows of tables under `CLASSES` and
    `CHANNELS`; `findings` sentences on what may be wrong with the data, with places. `facts` is the same as JSON
    material without places, ids or names of files. All texts have control characters made visible.
    """

    head: tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, ...], ...]
    channels: tuple[tuple[str, ...], ...]
    findings: tuple[str, ...]
    facts: dict[str, Any]

    def lines(self) -> list[str]:
        """The card as plain text."""
        wide = max(len(name) for name, _ in self.head)
        out = [f"{name:<{wide}}  {text}" for name, text in self.head]
        for heads, rows in ((CLASSES, self.classes), (CHANNELS, self.channels)):
            out += ["", *_aligned([heads, *rows])] if rows else []
        out += ["", "worth a look:" if self.findings else "nothing looks wrong"]
        return out + [f"  - {finding}" for finding in self.findings]


CLASSES = ("class", "rows", "share")
CHANNELS = ("channel", "missing", "min", "mean", "max", "deviation")


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
    spread = (
        f"{lengths['min']:,}"
        if lengths["min"] == lengths["max"]
        else (f"{lengths['min']:,} to {lengths['max']:,}, median {lengths['median']:,.0f}")
    )
    labelled = "all" if facts["labelled"] == count else f"{facts['labelled']:,}" if facts["labelled"] else "none"
    pairs = [
        ("layout", s.layout.said),
        ("kind", f"{SOUNDS[s.kind]}{symbols}{channels}"),
        ("sequences", f"{count:,}, {labelled} of them labelled"),
        ("length", spread),
    ]
    if s.observed is not None:
        gaps = int(np.add.reduceat((~s.observed).any(1), s.offsets[:-1]).astype(bool).sum())
        pairs.append(("missing", f"{_share(facts['missing'])} of the values, in {gaps:,} sequences"))
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
    return "none: every sequence can serve pretraining alone; name a column with --target"


def _class_rows(facts: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    counts = facts["target"].get("classes", {})
    total = max(sum(counts.values()), 1)
    rows = [(_short(name), f"{count:,}", _share(count / total)) for name, count in counts.items()]
    more = (f"and {len(rows) - MOST} more", "", "")
    return tuple(rows[:MOST] + [more] * (len(rows) > MOST))


def _channel_rows(facts: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = []
    for one in facts["channels"][:MOST]:
        figures = ["" if one[name] is None else f"{one[name]:.4g}" for name in ("min", "mean", "max", "deviation")]
        rows.append((_short(one["name"]), _share(one["missing"]) if one["missing"] else "0", *figures))
    if len(facts["channels"]) > MOST:
        rows.append((f"and {len(facts['channels']) - MOST} more", *[""] * 5))
    return tuple(rows)


def _findings(s: Sequences, facts: dict[str, Any]) -> list[str]:
    first = s.copies()
    out = [*_of_copies(s, facts, first), *_of_classes(facts), *_of_lengths(s, facts), *_of_channels(facts)]
    if facts["repeated ids"] and s.ids is not None:
        name, count = Counter(s.ids).most_common(1)[0]
        rows = [i for i, one in enumerate(s.ids) if one == name][:2]
        way = (
            f"; where rows of one id belong together, give --group {s.layout.id}"
            if s.groups is None and s.layout.id
            else ""
        )
        out.append(
            f"{facts['repeated ids']:,} ids stand in several rows, {name!r} in {count:,} ({_places(s, rows)}){way}"
        )
    return [printable(text) for text in out]


def _of_copies(s: Sequences, facts: dict[str, Any], first: np.ndarray) -> list[str]:
    out, copies = [], facts["copies"]
    if copies["rows"]:
        row = int(np.flatnonzero(first != np.arange(len(s)))[0])
        out.append(
            f"{copies['rows']:,} {_plural(copies['rows'], 'sequence is', 'sequences are')} an exact copy of an "
            f"earlier one ({_places(s, [int(first[row]), row])}); copies must not stand in train and test"
        )
    if copies["with other labels"]:
        row, before = at_odds(s, first)[0]
        out.append(
            f"{copies['with other labels']:,} {_plural(copies['with other labels'], 'sequence has', 'sequences have')} "
            f"copies with another label ({s.labels[before]!r} in {s.places.of(before)}, {s.labels[row]!r} in "
            f"{s.places.of(row)})"
        )
    if copies["in two groups"]:
        row, before = leaks(s, first)[0]
        out.append(
            f"{copies['in two groups']:,} {_plural(copies['in two groups'], 'sequence stands', 'sequences stand')} in "
            f"two groups, so that groups leak ({_places(s, [before, row])})"
        )
    return out


def _of_classes(facts: dict[str, Any]) -> list[str]:
    counts = facts["target"].get("classes", {})
    if not counts:
        return []
    if len(counts) == 1:
        return [f"every label is {next(iter(counts))!r}; a classifier needs two classes or more"]
    out = []
    alone = [name for name, count in counts.items() if count == 1]
    few = [name for name, count in counts.items() if 1 < count < SMALL]
    if alone:
        out.append(
            f"{len(alone)} {_plural(len(alone), 'class has', 'classes have')} one member ({_some(alone)}), which "
            "cannot be both learned and tested; give more, or join it with another"
        )
    if few:
        out.append(
            f"{len(few)} {_plural(len(few), 'class has', 'classes have')} fewer than {SMALL} members ({_some(few)})"
        )
    if max(counts.values()) > 10 * min(counts.values()) and not alone:
        out.append(
            "the largest class has more than 10 times the rows of the smallest; read balanced accuracy and "
            "macro-F1 beside accuracy"
        )
    return out


def _of_lengths(s: Sequences, facts: dict[str, Any]) -> list[str]:
    lengths, out = s.lengths, []
    far = np.flatnonzero(lengths > FAR * max(facts["lengths"]["median"], 1))
    if len(far):
        longest = int(lengths.argmax())
        out.append(
            f"{len(far):,} {_plural(len(far), 'sequence is', 'sequences are')} more than {FAR} times as long as the "
            f"median, the longest with {int(lengths[longest]):,} positions ({s.places.of(longest)})"
        )
    short = np.flatnonzero(lengths == 1)
    if len(short):
        out.append(
            f"{len(short):,} {_plural(len(short), 'sequence has', 'sequences have')} one position "
            f"({_places(s, short[:2].tolist())})"
        )
    return out


def _of_channels(facts: dict[str, Any]) -> list[str]:
    gone = [one["name"] for one in facts["channels"] if one["min"] is None]
    still = [one["name"] for one in facts["channels"] if one["min"] is not None and one["min"] == one["max"]]
    out = []
    if gone:
        out.append(f"{len(gone)} {_plural(len(gone), 'channel is', 'channels are')} missing everywhere ({_some(gone)})")
    if still:
        out.append(f"{len(still)} {_plural(len(still), 'channel is', 'channels are')} constant ({_some(still)})")
    flat = [one["name"] for one in facts["channels"] if one["constant within"] and one["name"] not in still]
    if flat:
        out.append(
            f"{len(flat)} {_plural(len(flat), 'channel does', 'channels do')} not change within any sequence "
            f"({_some(flat)}); where it is the label, name it with --target"
        )
    if facts["constant positions"] and not still:
        out.append(f"at {facts['constant positions']:,} positions every sequence has the same value")
    return out


def _places(s: Sequences, rows: Sequence[int]) -> str:
    """Where rows stand; of lines of one file the others by their numbers alone."""
    if s.places.lines is None:
        return " and ".join(s.places.of(row) for row in rows)
    return " and ".join([s.places.of(rows[0]), *(str(int(s.places.lines[row])) for row in rows[1:])])


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(repr(_short(name)) for name in names[:most]) + (", ..." if len(names) > most else "")


def _short(text: str) -> str:
    plain = printable(text)
    return plain if len(plain) <= 40 else plain[:39] + "…"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "under 0.1 %"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(wide[0]), *(cell.rjust(width) for cell, width in zip(row[1:], wide[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]


def card_facts(s: Sequences) -> dict[str, Any]:
    """What the card says, as JSON material: counts and figures, names of classes and channels; no row, id or file."""
    lengths = s.lengths
    first = s.copies()
    return {
        "kind": s.kind,
        "rows": len(s),
        "labelled": int(s.labelled.sum()),
        "lengths": {"min": int(lengths.min()), "median": float(np.median(lengths)), "max": int(lengths.max())},
        "symbols": s.width if s.kind != "numbers" else None,
        "channels": _channel_facts(s),
        "missing": 0.0 if s.observed is None else float(1 - s.observed.mean()),
        "target": _target_facts(s),
        "groups": None if s.groups is None else len(set(s.groups)),
        "copies": {
            "rows": int((first != np.arange(len(s))).sum()),
            "with other labels": len(at_odds(s, first)),
            "in two groups": len(leaks(s, first)),
        },
        "repeated ids": _repeated(s.ids),
        "constant positions": _constant_positions(s),
        "notes": list(s.notes),
    }


def _channel_facts(s: Sequences) -> list[dict[str, Any]]:
    if s.kind != "numbers":
        return []
    out = []
    for f, name in enumerate(s.channels):
        column = s.values[:, f]
        there = column if s.observed is None else column[s.observed[:, f]]
        wide = there.astype(np.float64)
        steps = np.diff(np.where(s.observed[:, f], column, np.nan) if s.observed is not None else column)
        within = np.delete(steps, s.offsets[1:-1] - 1)
        out.append(
            {
                "name": name,
                "constant within": bool(len(within) > 0 and (within == 0).all()),
                "missing": float(1 - len(there) / len(column)),
                "min": float(wide.min()) if len(wide) else None,
                "mean": float(wide.mean()) if len(wide) else None,
                "max": float(wide.max()) if len(wide) else None,
                "deviation": float(wide.std()) if len(wide) else None,
            }
        )
    return out


def _target_facts(s: Sequences) -> dict[str, Any]:
    if s.target == "class":
        counts = Counter(label for label in s.labels if label is not None)
        return {"kind": "class", "classes": {name: counts[name] for name in s.classes}}
    if s.target == "number":
        found = s.numbers()
        there = found[~np.isnan(found)]
        return {
            "kind": "number",
            "min": float(there.min()),
            "mean": float(there.mean()),
            "max": float(there.max()),
            "deviation": float(there.std()),
        }
    return {"kind": "none"}


def at_odds(s: Sequences, first: np.ndarray) -> list[tuple[int, int]]:
    """(a row, an earlier one) of equal sequences with different labels, the first of each set of copies."""
    known: dict[int, int] = {}
    out: dict[int, tuple[int, int]] = {}
    for row, (copy, label) in enumerate(zip(first.tolist(), s.labels, strict=True)):
        if label is None:
            continue
        before = known.setdefault(copy, row)
        if s.labels[before] != label:
            out.setdefault(copy, (row, before))
    return list(out.values())


def leaks(s: Sequences, first: np.ndarray) -> list[tuple[int, int]]:
    """(a row, an earlier one) of equal sequences in different groups, the first of each set of copies."""
    if s.groups is None:
        return []
    out: dict[int, tuple[int, int]] = {}
    for row, copy in enumerate(first.tolist()):
        if s.groups[row] != s.groups[copy]:
            out.setdefault(copy, (row, copy))
    return list(out.values())


def _repeated(names: Sequence[str] | None) -> int:
    return 0 if names is None else sum(count > 1 for count in Counter(names).values())


def _constant_positions(s: Sequences) -> int:
    """Positions (of sequences of one length) at which every row has the same value."""
    lengths = s.lengths
    if s.kind != "numbers" or len(s) < 2 or lengths.min() != lengths.max() or s.observed is not None:
        return 0
    table = s.values.reshape(len(s), int(lengths[0]), -1)
    return int((table == table[:1]).all((0, 2)).sum())
