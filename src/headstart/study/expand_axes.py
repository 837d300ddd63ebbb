"""The columns of a table: those of the study, times the axis values that nothing is chosen over."""

from __future__ import annotations

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
        # Arm -> text of its values of those axes -> the values, and its runs at them.
        groups: dict[str, dict[str, tuple[dict[str, Any], list[Cell]]]] = {}
        for cell in (cell for cell in plan.cells if cell.column == column):
            values = {name: value for name, value in cell.settings.items() if name in wide}
            groups.setdefault(cell.arm, {}).setdefault(repr(values), (values, []))[1].append(cell)
        every = {key: values for group in groups.values() for key, (values, _) in group.items()}
        for key, values in every.items():
            part = any(values.items() < other.items() for other in every.values())
            if part and not any(key in group and len(group) > 1 for group in groups.values()):
                continue
            label = " ".join([column, *(f"{names[k]}={plain(v)}".replace(" ", "") for k, v in values.items())])
            for arm, group in groups.items():
                # The arm's runs at these values; without such an axis, its only ones.
                fitting = [(own, cells) for own, cells in group.values() if own.items() <= values.items()]
                if fitting:
                    labels[label, arm] = max(fitting, key=lambda pair: len(pair[0]))[1]
    return labels


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
