"""Whether sequences have one target each that can be learned: several of them in one cell or in columns are refused."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np

from headstart.data.layout import TARGET, by_role, plain
from headstart.data.order import FEW_VALUES, clock_name
from headstart.data.sequences import Sequences, check_ids, check_target_kind
from headstart.errors import BadInput
from headstart.text import first_few
from headstart.ways import asked, option

MOST_ASKED = 4
"""Columns that nothing uses of which each is offered as the target."""
MARKS = ("|", ";", ",")
"""What separates several targets in one cell."""


def check_targets(s: Sequences, name: str) -> None:
    """Raises: BadInput, by the name of the source, unless each sequence has one target or none, at least one has one,
    and what it is is beyond doubt."""
    if s.per_position:
        raise BadInput(
            f"{name}: per_position: fit learns one target of each sequence; a target per position is learnt by a study "
            "of task own, with `headstart run`"
        )
    check_ids(s)
    several = _several_targets(s)
    if several:
        raise BadInput(
            f"{name}: {several}, and fit learns one target of a sequence; fit each target by itself, from a "
            f"column of its own, named with {option('target')} (yes or no for each label)"
        )
    check_target_kind(s)
    if s.target == "none" or not s.labelled.any():
        if s.layout.target is not None:
            way = f"fill it, or name another column with {option('target')}"
            raise BadInput(f"{name}: no row has a label in {s.layout.target!r}; {way}")
        unused = [column for column in s.layout.unused if column and not clock_name(column)]
        constant = _constant(s)
        unused = [*constant, *unused][: max(len(constant), MOST_ASKED)] if constant else unused
        if 0 < len(unused) <= MOST_ASKED:
            raise BadInput(asked(f"{name}: has no target to learn", *({"target": column} for column in unused)))
        there = f" (columns that are not used: {first_few(unused)})" if unused else ""
        raise BadInput(f"{name}: has no target to learn; name its column with {option('target')}{there}")
    if s.target == "class" and len(s.classes) == 1:
        raise BadInput(f"{name}: every label is {s.classes[0]!r}; give two classes or more")


def _constant(s: Sequences) -> list[str]:
    """Channels of a long table with one value in each sequence, and few of them, as a label has."""
    if s.layout.shape != "long" or s.values.dtype.kind != "f" or s.values.ndim != 2:
        return []
    first = s.values[s.offsets[:-1]]
    same = (s.values == np.repeat(first, s.lengths, axis=0)).all(0)
    kinds = [len(np.unique(first[:, k])) for k in range(first.shape[1])]
    there = zip(s.layout.channels, same.tolist(), kinds, strict=True)
    return [channel.name for channel, fixed, kind in there if fixed and 1 < kind <= FEW_VALUES][:MOST_ASKED]


def _several_targets(s: Sequences) -> str:
    """Where sequences have several targets each, in words: in one cell, or in columns of which nobody named one."""
    layout = s.layout
    beside = layout.target is None and any(label is not None for label in s.labels)  # no column, but given with X
    if layout.spec.target is None and not beside:
        names = [name for name in (layout.target, *layout.unused) if name and plain(name).startswith(TARGET[:3])]
        exact = by_role("target", names)
        if exact and layout.target is None:
            return f"column {exact[0]!r} holds a list for each sequence"
        if len(names) > 1 and not exact:
            return f"columns {', '.join(map(repr, sorted(names)[:5]))} look like several targets"
    if layout.spec.target_kind != "auto" or s.target != "class":
        return ""
    labels, as_one = (
        {label for label in s.labels if label is not None},
        f"{option('target_kind', 'class')} takes each such label",
    )
    lists = {label for label in labels if len(_listed_in(label)) > 1}
    if lists:
        return f"labels such as {_first_of(s, lists)} are lists of several targets ({as_one} for one class)"
    for mark in MARKS:
        parts = {label: [part.strip() for part in label.split(mark)] for label in labels if mark in label}
        counts = Counter(part for label in labels for part in parts.get(label, [label]))
        # Names of classes may hold a mark too ("walking, upstairs"); labels recur beside others, or stand alone.
        recur = len(labels) < counts.total() - 1 and 2 * sum(count > 1 for count in counts.values()) > len(counts)
        joined = {label for label, several in parts.items() if labels.issuperset(several)}
        if recur or joined:
            example = _first_of(s, joined or set(parts))
            return f"labels such as {example} look like several targets separated by {mark!r} ({as_one} for one class)"
    return ""


def _first_of(s: Sequences, labels: set[str]) -> str:
    """The first of these labels, and where it stands."""
    row = next(row for row, label in enumerate(s.labels) if label in labels)
    return f"{s.labels[row]!r} ({s.places.of(row)})"


def _listed_in(label: str) -> list[object]:
    """What a label lists as JSON or Python writes it (`["a", "b"]`); nothing where it is no list."""
    if not label.startswith("["):
        return []
    try:
        values = json.loads(label.replace("'", '"'))
    except (ValueError, RecursionError):
        return []
    return values if isinstance(values, list) else []
