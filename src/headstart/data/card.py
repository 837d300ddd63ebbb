"""The data card: what a person should know of their sequences before training, as lines and as JSON material."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.data.findings import findings_of
from headstart.data.findings.finding import share_words, short
from headstart.data.findings.rows import clashes
from headstart.data.layout import SOUNDS
from headstart.data.sequences import Sequences
from headstart.data.text import printable
from headstart.text import many
from headstart.ways import option

MOST_LISTED, SUMMED_AT_ONCE = 20, 2**20
"""Classes and channels that are listed; numbers whose moments are taken at a time."""
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
    findings = findings_of(sequences, facts)
    facts["doubts"] = [finding.plain for finding in findings if finding.plain]
    texts = tuple(printable(finding.text) for finding in findings)
    return Card(_head(sequences, facts), _class_rows(facts), _channel_rows(facts), texts, facts)


def _head(s: Sequences, facts: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    lengths, count = facts["lengths"], facts["rows"]
    channels = f", {len(s.channels)} {'channel' if len(s.channels) == 1 else 'channels'}" if s.kind == "numbers" else ""
    symbols = f" ({facts['symbols']} symbols)" if s.kind == "tokens" else ""
    spread = f"{lengths['min']:,}"
    if lengths["min"] != lengths["max"]:
        spread += f" to {lengths['max']:,}, median {lengths['median']:,.0f}"
    labelled = "all" if facts["labelled"] == count else f"{facts['labelled']:,}" if facts["labelled"] else "none"
    pairs = [
        ("layout", s.layout.sentence),
        ("kind", f"{SOUNDS[s.kind]}{symbols}{channels}"),
        ("sequences", f"{count:,}, {labelled} of them labelled"),
        ("length", spread),
    ]
    if s.observed is not None:
        gaps = int(np.add.reduceat((~s.observed).any(1), s.offsets[:-1]).astype(bool).sum())
        pairs.append(("missing", f"{share_words(facts['missing'])} of the values, in {many(gaps, 'sequence')}"))
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
    rows = [(short(name), f"{count:,}", share_words(count / total)) for name, count in counts.items()]
    more = (f"and {len(rows) - MOST_LISTED} more", "", "")
    return tuple(rows[:MOST_LISTED] + [more] * (len(rows) > MOST_LISTED))


def _channel_rows(facts: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = []
    for channel in facts["channels"][:MOST_LISTED]:
        figures = [
            "" if channel[name] is None else f"{channel[name]:.4g}" for name in ("min", "mean", "max", "deviation")
        ]
        rows.append((short(channel["name"]), share_words(channel["missing"]) if channel["missing"] else "0", *figures))
    if len(facts["channels"]) > MOST_LISTED:
        rows.append((f"and {len(facts['channels']) - MOST_LISTED} more", *[""] * 5))
    return tuple(rows)


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
            "with other labels": 0 if s.per_position else len(clashes(first, s.labels)),
            "in two groups": len(clashes(first, s.groups)),
        },
        "repeated ids": sum(count > 1 for count in Counter(s.ids or ()).values()),
        "constant positions": _constant_positions(s),
        "doubts": [],
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
        with np.errstate(over="ignore"):  # an infinite step is none
            within = np.diff(gaps)
        within[s.offsets[1:-1] - 1] = 0  # none from one sequence to the next
        still, steps = not within.any(), within[np.isfinite(within) & (within != 0)]
        del within
        step = float(np.median(np.abs(steps, out=steps), overwrite_input=True)) if len(steps) else 0.0
        del steps
        reach = float(there.max()) - float(there.min()) if len(there) else 0.0
        out.append(
            {
                "name": name,
                "constant within": still and len(column) > len(s),
                "missing": float(1 - len(there) / len(column)),
                "lost steps": [step, reach] if 0 < step < FINE * reach else None,
                **_moments(there),
            }
        )
    return out


def _moments(x: np.ndarray) -> dict[str, float | None]:
    if not len(x):
        return dict.fromkeys(("min", "mean", "max", "deviation"))
    # In float64 all of them, and their squares, would take six times the memory.
    parts = np.array_split(x, math.ceil(len(x) / SUMMED_AT_ONCE))
    mean = sum(float(part.sum(dtype=np.float64)) for part in parts) / len(x)
    square = sum(float(np.square(part.astype(np.float64) - mean).sum()) for part in parts)
    return {"min": float(x.min()), "mean": mean, "max": float(x.max()), "deviation": math.sqrt(square / len(x))}


def _target_facts(s: Sequences) -> dict[str, Any]:
    if s.target == "class":
        counts = Counter(label for label in s.labels if label is not None)
        return {"kind": "class", "classes": {name: counts[name] for name in s.classes}}
    if s.target == "number":
        numbers = s.numbers()
        return {"kind": "number", **_moments(numbers[~np.isnan(numbers)])}
    return {"kind": "none"}


def _constant_positions(s: Sequences) -> int:
    """Positions (of sequences of one length) at which every row has the same value."""
    lengths = s.lengths
    if s.kind != "numbers" or len(s) < 2 or lengths.min() != lengths.max() or s.observed is not None:
        return 0
    table = s.values.reshape(len(s), int(lengths[0]), -1)
    return int((table == table[:1]).all((0, 2)).sum())
