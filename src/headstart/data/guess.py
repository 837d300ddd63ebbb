"""Guessing what the columns of a table mean: the shape of the table, its channels, and the roles of the rest.

Names are looked at first, then cells. Whatever was set stands; what was guessed is listed.
"""

from __future__ import annotations

from itertools import pairwise

from headstart.data.layout import Channel, Layout, LayoutSpec, Shape
from headstart.data.names import TEXTS, lost, matching, plain
from headstart.data.naming import name_roles, repeating, settle
from headstart.data.numbers import looks_like_list
from headstart.data.table import Column, Table
from headstart.data.view import View, column_names, mean_length, of_words
from headstart.errors import BadInput, nearest


def guess(table: Table, spec: LayoutSpec, labelled: bool = False) -> Layout:
    """The layout of a table. `labelled`: labels are given beside it, so that no column is taken for the target.

    Raises: BadInput for a name that is not there, or where nothing looks like a sequence.
    """
    if table.shape is not None:
        spec = _of_format(table, spec)
    view = View(table, spec)
    settle(view)
    if labelled:
        view.roles["target"] = None
    shape = _shape(view)
    name_roles(view, shape)
    channels = _set_channels(view, shape) if spec.values else _channels(view, shape)
    used = {name for channel in channels for name in channel.columns} | set(view.roles.values())
    unused = tuple(name for name in table.columns if name not in used)
    return Layout(
        view.source,
        shape,
        channels,
        spec,
        unused=unused,
        guessed=tuple(view.guessed),
        written=table.written,
        header=table.header,
        decimal=table.decimal,
        by_format=table.shape is not None,
        target=view.roles["target"],
        id=view.roles["id"],
        time=view.roles["time"],
        group=view.roles["group"],
    )


def _of_format(table: Table, spec: LayoutSpec) -> LayoutSpec:
    """What was set, where the format itself has a shape. Raises: BadInput where another one was set.

    A layout that was fixed by other data gives way, so that a model of a CSV file serves arrays too.
    """
    if spec.optional:
        wanted = [name for name in spec.values if name in table.columns]
        return spec.model_copy(update={"shape": "auto", "values": tuple(wanted)})
    if spec.shape not in ("auto", table.shape):
        raise BadInput(
            f"{table.places.source}: layout: {spec.shape!r} was set, but {table.written} is {table.shape!r}; leave "
            "it out"
        )
    return spec


def _shape(view: View) -> Shape:
    """The shape as it was set, as the format has it, or as it looks."""
    spec, table = view.spec, view.table
    if spec.shape != "auto":
        return spec.shape
    if table.shape is not None:
        return table.shape
    if not spec.values:
        view.guessed.append("shape")
    columns = [table.columns[name] for name in view.wanted() if name in table.columns] or view.free()
    run = max((len(names) for _, names in view.longest(columns)), default=0)
    if spec.kind in ("text", "dna", "protein"):
        return "text"
    if any(column.type == "list" for column in columns):
        return "list"
    if _is_long(view, run):
        return "long"
    texts = [column for column in columns if column.type == "text"]
    if run:
        return "wide"
    if any(looks_like_list(column.words) for column in texts):
        return "list"
    named = view.named_roles()
    numbers = [column for column in columns if column.type in ("number", "empty") and column.name not in named]
    return "text" if view.texts(texts) and len(numbers) < 3 else "wide"


def _is_long(view: View, run: int) -> bool:
    """Whether there is an id that repeats and a time beside it; or a long stretch of rows of each id and no run."""
    if "id" in view.roles and view.roles["id"] is None:
        return False
    ids = [view.roles["id"]] if view.roles.get("id") else repeating(view)
    if not ids or ids[0] is None or 2 * view.count(ids[0]) > view.table.rows:
        return False
    if view.roles.get("time") or [name for name in view.named("time") if name != ids[0]]:
        return True
    if run > 2 or "time" in view.roles or view.table.rows < 5 * view.count(ids[0]):
        return False
    words = view.table.columns[ids[0]].words
    return 1 + sum(a != b for a, b in pairwise(words)) == view.count(ids[0])


def _channels(view: View, shape: Shape) -> tuple[Channel, ...]:
    """The columns that look like the sequence. Raises: BadInput where none does."""
    free = [column for column in view.free() if column.type not in ("other", "time")]
    if shape == "wide":
        return _wide(view, free)
    if shape == "text":
        texts = view.texts(free) or [column for column in free if column.type == "text"]
        named = [column for column in texts if plain(column.name) in TEXTS]
        found = sorted(named or texts, key=mean_length)[-1:]
    elif shape == "list":
        lists = [column for column in free if column.type == "list" or looks_like_list(column.words)]
        words = [column for column in lists if of_words(column)]
        found = [column for column in lists if column not in words] or words[:1]
    else:
        found = [column for column in free if column.type in ("number", "empty")]
        found = found or [column for column in free if column.type == "text"][:1]
    if not found:
        raise _nothing(view, shape)
    return tuple(Channel(column.name, (column.name,)) for column in found)


def _wide(view: View, free: list[Column]) -> tuple[Channel, ...]:
    """The longest run of numbered columns (several of equal length are channels), else all columns of numbers."""
    numbers = tuple(column.name for column in free if column.type in ("number", "empty"))
    runs = view.longest(free)
    if runs and 2 * sum(len(names) for _, names in runs) >= len(numbers):
        return tuple(_run(view, pattern, names) for pattern, names in runs)
    if len(numbers) < 2:
        raise _nothing(view, "wide")
    return (Channel("values", numbers),)


def _run(view: View, pattern: str, names: list[str]) -> Channel:
    gone = [name for name in lost(pattern, names) if name not in view.table.columns]
    if gone:
        raise BadInput(
            f"{view.source}: values: {pattern!r} has no column {gone[0]!r}"
            + (f" and {len(gone) - 1} more" if len(gone) > 1 else "")
            + f" between {names[0]!r} and {names[-1]!r}, so that later values would stand one place too early; add it "
            "(its cells may be empty), or name the columns one by one with --values"
        )
    return Channel(pattern.replace("*", "").strip("_-. ") or "values", tuple(names), pattern)


def _set_channels(view: View, shape: Shape) -> tuple[Channel, ...]:
    """The columns that were set as values. Raises: BadInput naming one that is not there."""
    out: list[Channel] = []
    plainly: list[str] = []
    for one in view.spec.values:
        if "*" not in one or one in view.table.columns:
            plainly.append(view.table.column(one, "values").name)
            continue
        names = [name for name in matching(one, view.table.columns) if name not in view.roles.values()]
        if not names:
            raise BadInput(
                f"{view.source}: values: no column is like {one!r}, where * is a whole number; "
                f"{nearest(one, view.table.columns)}"
            )
        out.append(_run(view, one, names))
    if plainly and shape == "wide":
        out.append(Channel("values", tuple(plainly)))
    elif plainly:
        out += [Channel(name, (name,)) for name in plainly]
    if len({channel.name for channel in out}) < len(out):
        out = [Channel(channel.pattern or channel.name, channel.columns, channel.pattern) for channel in out]
    if shape == "text" and len(out) > 1:
        raise BadInput(f"{view.source}: values: {len(out)} columns of text; name one")
    return tuple(out)


def _nothing(view: View, shape: str) -> BadInput:
    lone = len(view.table.columns) == 1 and view.table.header is not None
    way = "where cells are separated by another mark, give --delimiter; else name" if lone else "name"
    return BadInput(
        f"{view.source}: no column looks like a sequence ({shape}; columns: {column_names(view.table)}); {way} "
        "the columns with --values, and their --layout (wide, text, list or long)"
    )
