"""What a data card says, as JSON material: counts and figures without rows, ids, places or names of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from headstart.data.sequences import Sequences


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
