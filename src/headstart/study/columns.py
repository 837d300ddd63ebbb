"""The columns of a table: those of the study, times the axis values that nothing is chosen over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headstart.study.words import plain, short_names

if TYPE_CHECKING:
    from headstart.study.plan import Cell, Plan


def side_by_side(plan: Plan) -> dict[tuple[str, str], list[Cell]]:
    """(column, arm) -> runs. An axis that is not chosen over makes a column of each of its values, named so:
    `digits fraction=0.1`. An arm without that axis stands, the same, in each of them.
    """
    wide = _wide_axes(plan)
    names = short_names(wide)
    labels: dict[tuple[str, str], list[Cell]] = {}
    for column in dict.fromkeys(cell.column for cell in plan.cells):
        cells = [cell for cell in plan.cells if cell.column == column]
        held: dict[str, dict[str, dict[str, Any]]] = {}
        for cell in cells:
            at = {k: v for k, v in cell.settings.items() if k in wide}
            held.setdefault(cell.arm, {})[repr(at)] = at
        for key, at in {k: v for found in held.values() for k, v in found.items()}.items():
            others = [o for found in held.values() for o in found.values()]
            part = any(at.items() < o.items() for o in others)
            if part and not any(key in found and len(found) > 1 for found in held.values()):
                continue
            label = " ".join([column, *(f"{names[k]}={plain(v)}".replace(" ", "") for k, v in at.items())])
            for arm, found in held.items():
                # The arm's runs at these values; without such an axis, its only ones.
                fitting = [o for o in found.values() if o.items() <= at.items()]
                if fitting:
                    mine = max(fitting, key=len)
                    labels[label, arm] = [
                        c for c in cells if c.arm == arm and {k: v for k, v in c.settings.items() if k in wide} == mine
                    ]
    return labels


def made_of(column: str, base: str) -> bool:
    """A column of a table is the study's column `base`, or one of several that an axis made of it."""
    return column == base or column.startswith(f"{base} ")


def base_of(column: str, bases: Iterable[str]) -> str:
    """The study's own name of a column, of those that are known; its first word where none fits."""
    return max((base for base in bases if made_of(column, base)), key=len, default=column.split(" ")[0])


def _wide_axes(plan: Plan) -> list[str]:
    """Axes that nothing is chosen over and that make a difference: several values, or a value at which an arm
    loses the stage (a pretraining of 0 epochs)."""
    out = []
    for name in dict.fromkeys(name for cell in plan.cells for name in cell.settings):
        values = {repr(cell.settings[name]) for cell in plan.cells if name in cell.settings}
        having = {cell.arm for cell in plan.cells if name in cell.settings}
        lost = any(cell.arm in having and name not in cell.settings for cell in plan.cells)
        if name not in plan.choose and (len(values) > 1 or lost):
            out.append(name)
    return out
