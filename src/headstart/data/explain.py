"""What was decided of a table in words: each column with its role, why, how surely, and what else it could be."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from headstart.data.layout import ROLES, Channel, Decision, Layout, LayoutSpec, by_role
from headstart.data.order import Ordered
from headstart.data.table import Column, Table
from headstart.data.view import View, names_position

EXPLAINED_ROWS = 20_000
"""Rows that are looked at for what else a column could be."""
EXPLAINED_COLUMNS = 300
"""Columns outside of runs of which that is said."""


def explained(table: Table, layout: Layout) -> tuple[Decision, ...]:
    """What each column (or run of columns) is taken for, why, and what else it could be; the table as a whole first.

    `layout` is what `infer` says of the table.
    """
    rows = min(table.rows, EXPLAINED_ROWS)
    columns = {name: Column(name, column.type, column.data[:rows]) for name, column in table.columns.items()}
    view = View(replace(table, columns=columns, rows=rows), layout.spec)
    ids = Ordered(columns[layout.id]) if layout.shape == "long" and layout.id is not None else None
    made = {decision.role: decision for decision in layout.decisions}
    roles = {name: role for role in ROLES if (name := getattr(layout, role)) is not None}
    runs = {c.columns[0]: c for c in layout.channels if len(c.columns) > 1 and (_is_run(c) or table.header is False)}
    inner = {name for run in runs.values() for name in run.columns[1:]}
    values = {name for channel in layout.channels for name in channel.columns}
    out = [_of_shape(layout)]
    for name, column in columns.items():
        if len(out) > EXPLAINED_COLUMNS:
            break
        if name in runs:
            out.append(_of_run(runs[name], layout.spec))
        elif name not in inner:
            role = "values" if name in values else roles.get(name, "")
            if name == layout.beside:
                facts = f"{view.facts(column, ids)}, read together with {layout.time!r}"
                out.append(Decision("time", name, facts, "content"))
                continue
            out.append(_of_column(view, column, ids, role, made.get(role)))
    return tuple(out)


def _of_shape(layout: Layout) -> Decision:
    """What a row is."""
    if layout.by_format:
        return Decision("shape", None, f"the format, {layout.written}, has it so", "format", confidence="certain")
    if layout.spec.shape != "auto":
        return Decision("shape", None, "was set", "setting", confidence="certain")
    whys = {
        "wide": "several columns of numbers, and no id that repeats beside a time",
        "text": "a column of texts, and no columns of numbers that hold a sequence",
        "list": "cells hold whole lists",
        "long": "an id stands in many rows, and the rows of one id follow each other",
    }
    others = {"wide": "long", "long": "wide"}.get(layout.shape, "")
    unsure = bool(layout.doubts)
    return Decision(
        "shape",
        None,
        f"{whys[layout.shape]}{f'; {layout.doubts[0]}' if unsure else ''}",
        "content",
        otherwise=(others,) if others and unsure else (),
        confidence="unsure" if unsure else "likely",
    )


def _is_run(channel: Channel) -> bool:
    """Whether the columns of a channel are named after their positions."""
    return bool(channel.pattern) or all(map(names_position, channel.columns))


def _of_run(channel: Channel, spec: LayoutSpec) -> Decision:
    """A run of columns, which is a channel."""
    why, by = ("were set", "setting") if spec.values else ("numbers, under names that count up", "content")
    if not channel.pattern:
        side = "numbers, under names that are positions" if _is_run(channel) else "numbers side by side"
        why = "were set" if spec.values else side
    first, last, count = channel.columns[0], channel.columns[-1], len(channel.columns)
    return Decision("values", first, why, by, last, count, confidence="certain")  # type: ignore[arg-type]


def _of_column(view: View, column: Column, ids: Ordered | None, role: str, made: Decision | None) -> Decision:
    """One column. made: what was decided of its role, if that was a guess."""
    spec, name, facts = view.spec, column.name, view.facts(column, ids)
    if role and (bool(spec.values) if role == "values" else getattr(spec, role)):
        return Decision(role, name, f"was set: {facts}", "setting", confidence="certain")
    if role in view.table.roles and made is None:
        return Decision(role, name, f"the format has it so: {facts}", "format", confidence="certain")
    fits = view.readings(column, ids)
    rest = tuple(fit for fit in fits if fit != role)
    named = role in ROLES and bool(by_role(role, [name]))
    if made is not None and made.by == "content":
        facts = made.why
    elif named:
        facts += f", and named as {'times' if role == 'time' else f'{role}s'} are"
    fit = role in fits
    certain = (fit or not role) and not rest
    unsure = bool(role) and (not fit or (bool(rest) and not named and made is not None and made.by == "name"))
    sure: Literal["certain", "likely", "unsure"] = "certain" if certain else "unsure" if unsure else "likely"
    return Decision(role, name, facts, "name" if named else "content", otherwise=rest, confidence=sure)
