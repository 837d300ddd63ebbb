"""Guessing which column is the target, the id, the time and the group, where that was not set."""

from __future__ import annotations

from headstart.data.layout import Shape
from headstart.data.names import TEXTS, plain
from headstart.data.table import Column
from headstart.data.view import View, column_names, mean_length, spread, whole
from headstart.errors import BadInput

ROLES = ("target", "id", "time", "group")


def settle(view: View) -> None:
    """Take the roles as they were set, or as the format says them. Raises: BadInput for a name that is not there."""
    for role in ROLES:
        given = getattr(view.spec, role)
        if given:
            if given not in view.table.columns and not (view.spec.optional and role != "time"):
                view.table.column(given, role)
            view.roles[role] = given if given in view.table.columns else None
        elif given == "":
            view.roles[role] = None
        elif role in view.table.roles:
            view.roles[role] = view.table.roles[role]


def name_roles(view: View, shape: Shape) -> None:
    """Guess the roles that are not settled; those that stay open are None."""
    if shape == "long":
        _name_long(view)
    if "target" not in view.roles:
        found = [name for name in view.named("target") if shape != "long" or _one_each(view, name)]
        name = found[0] if found else _of_fasta(view) if view.table.written == "FASTA" else _target(view, shape)
        if name is not None:
            view.take("target", name)
    if "id" not in view.roles:
        found = view.named("id") or _index(view)
        if view.table.written == "FASTA":  # first words of descriptions repeat, those of names do not
            found = [name for name in found if view.count(name) > 0.9 * view.table.rows]
        if found:
            view.take("id", found[0])
    if "group" not in view.roles:
        found = [name for name in view.named("group") if 1 < view.count(name) < view.table.rows]
        found = [name for name in found if shape != "long" or _one_each(view, name)]
        if found:
            view.take("group", found[0])
    for role in ROLES:
        view.roles.setdefault(role, None)


def repeating(view: View) -> list[str]:
    """Columns that may be the id of a long table: by name, and with at most half as many values as rows."""
    names = [*view.named("id"), *view.named("group")]
    return [name for name in names if 0 < 2 * view.count(name) <= view.table.rows]


def _name_long(view: View) -> None:
    if view.roles.get("id") is None:
        no_id = "id" in view.roles
        ids = (
            []
            if no_id
            else repeating(view)
            or [
                column.name
                for column in view.free()
                if column.type == "text" and 2 * view.count(column.name) <= view.table.rows
            ]
        )
        if not ids or no_id:
            raise BadInput(
                f"{view.source}: no column says which rows are one sequence; name it with --id (columns: "
                f"{column_names(view.table)})"
            )
        view.take("id", ids[0])
    if "time" not in view.roles:
        found = view.named("time") + [column.name for column in view.free() if column.type == "time"]
        if found:
            view.take("time", found[0])


def _target(view: View, shape: Shape) -> str | None:
    """A column of few texts; where columns have no names of their own, a first or last one of few whole numbers."""
    free = [column for column in view.free() if column.type in ("number", "text")]
    texts = [
        column
        for column in free
        if column.type == "text" and view.few(column) and plain(column.name) not in ("id", "file", "name", *TEXTS)
    ]
    if shape == "text":
        longest = max(view.texts(free), key=mean_length, default=None)
        texts = [column for column in texts if column is not longest]
    if shape == "long":
        texts = [column for column in texts if _one_each(view, column.name)]
    if len(texts) == 1:
        return texts[0].name
    if shape != "wide" or len(free) < 3 or view.spec.values:
        return None
    if view.table.header is False or all(column.name.isdecimal() for column in free):
        return _at_an_end(view, free)
    left = _beside_the_run(view, free)
    return left[0].name if len(left) == 1 and view.few_whole(left[0]) else None


def _one_each(view: View, name: str) -> bool:
    """Whether a column of a long table has one value for each sequence, empty cells apart."""
    known: dict[str | None, str] = {}
    ids, words = view.table.columns[str(view.roles["id"])].words, view.table.columns[name].words
    return all(known.setdefault(one, word) == word for one, word in zip(ids, words, strict=True) if word)


def _of_fasta(view: View) -> str | None:
    """The second word of the headers, where every header has it and it repeats as names of classes do."""
    column = view.table.columns.get("word 2")
    return column.name if column is not None and all(column.words) and view.few(column) else None


def _at_an_end(view: View, free: list[Column]) -> str | None:
    """The first or last column, where it alone is whole, or where all are and it has the fewest values."""
    for column, other in ((free[0], free[-1]), (free[-1], free[0])):
        rest = [one for one in free if one is not column][:50]
        alone = not all(whole(one) for one in rest)
        if view.few_whole(column) and (alone or (column is free[0] and spread(column) < spread(other))):
            return column.name
    return None


def _beside_the_run(view: View, free: list[Column]) -> list[Column]:
    """Columns of numbers that stand beside the longest run of numbered ones."""
    run = {name for _, names in view.longest(free) for name in names}
    return [column for column in free if column.type == "number" and column.name not in run] if run else []


def _index(view: View) -> list[str]:
    """A first column that is the index of a table of pandas."""
    first = next(iter(view.table.columns.values()))
    known = first.name in ("column 1", "Unnamed: 0") or first.name.startswith("__index_level")
    if not known or first.type in ("list", "other") or first not in view.free():
        return []
    return [first.name] * (len({word for word in first.words if word}) == view.table.rows)
