"""What may be wrong with data that could be read: a table of findings, one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headstart.data.findings import channels, groups, labels, leaks, rows
from headstart.data.findings.finding import Finding
from headstart.data.sequences import Sequences

FINDINGS: dict[str, Callable[[Sequences, dict[str, Any]], Iterator[Finding]]] = {
    "layout": rows.layout_doubts,
    "leaks": leaks.leaks,
    "class or number": labels.class_or_number,
    "copies": rows.copies,
    "class sizes": labels.class_sizes,
    "lengths": rows.lengths,
    "unshared symbols": rows.unshared_symbols,
    "padding": channels.padding,
    "missing channels": channels.missing_channels,
    "constant channels": channels.constant_channels,
    "small numbers": channels.too_small,
    "lost steps": channels.lost_steps,
    "missing words": labels.missing_words,
    "alike names": labels.alike_names,
    "odd targets": labels.odd_targets,
    "missing marks": channels.missing_marks,
    "dropouts": channels.dropouts,
    "saturation": channels.saturation,
    "dead rows": channels.dead_rows,
    "stuck": channels.stuck,
    "neighbours": rows.neighbours,
    "order": rows.order,
    "near copies": rows.near_copies,
    "both strands": rows.both_strands,
    "subjects": rows.subjects,
    "splits": rows.splits,
    "groups": groups.groups,
    "repeated ids": rows.repeated_ids,
}
"""In the order in which a card names them. Each takes the sequences and the facts of their card."""


def findings_of(s: Sequences, facts: dict[str, Any]) -> list[Finding]:
    """All findings; `facts` are the counts of the card."""
    return [finding for find in FINDINGS.values() for finding in find(s, facts)]
