"""What the columns of a table mean: its shape, its channels, and which column is the target, id, time or group. Names
are looked at first, then cells and their order. What was set stands; what was guessed is listed, with why."""

from __future__ import annotations

import re
from itertools import pairwise

from headstart.data.clock import NO_TIMES, seconds_in
from headstart.data.labels import check_one_group, check_one_target
from headstart.data.layout import (
    PLAIN_TARGET,
    ROLES,
    Channel,
    Decision,
    Layout,
    LayoutSpec,
    TableShape,
    by_role,
    numbered,
    plain,
    run_of,
    set_channels,
)
from headstart.data.likely import at_an_end, letter_columns, likely_target, likely_text, word_of_fasta
from headstart.data.order import ROWS_EACH, Evidence, Ordered, axis_name, clock_name, counter_name, evidence, goes_on
from headstart.data.table import Column, Table, arrow_texts, unread
from headstart.data.text import looks_like_list
from headstart.data.times import beside, dated
from headstart.data.two_clocks import check_one_clock
from headstart.data.view import View, check_no_sensor, names_position
from headstart.errors import BadInput
from headstart.text import is_number
from headstart.ways import asked, field_name, option, settings

STAMPS = ("time", "timestamp", "datetime", "date", "epoch")
"""Names of the times of rows, which are no values of a row."""
POSITION_COLUMNS = 12
"""Columns without names from which on they are positions rather than channels."""
LEAST_DATES = 3
"""Columns with dates or times for names from which on they are positions."""


def infer(table: Table, spec: LayoutSpec, labelled: bool = False) -> Layout:
    """The layout of a table. `labelled`: labels are given beside it, so that no column is taken for the target.

    Raises: BadInput for a name that is not there, or where nothing looks like a sequence.
    """
    spec = spec if table.shape is None else _of_format(table, spec)
    view = View(table, spec)
    _settle(view)
    if labelled:
        view.roles["target"] = None
    shape = _ordered(view, _shape(view))
    _name_roles(view, shape)
    names, taken = list(table.columns), set(view.roles.values())
    if problem := unread(table.columns[name] for name in spec.values if name in names):
        raise BadInput(f"{view.source}: {field_name('values')}: {problem}")
    channels = set_channels(view.source, spec.values, names, taken, shape) if spec.values else _channels(view, shape)
    used = {name for channel in channels for name in channel.columns} | set(view.roles.values())
    time = view.roles["time"] if shape == "long" else None
    neighbour = None if time is None else beside(table, time, used, spec.time_format)
    used.add(neighbour)
    return Layout(
        view.source,
        shape,
        channels,
        spec,
        unused=tuple(name for name in table.columns if name not in used),
        guessed=tuple(decision.role for decision in view.decisions),
        decisions=tuple(view.decisions),
        doubts=tuple(view.doubts),
        written=table.written,
        header=table.header,
        decimal=table.decimal,
        by_format=table.shape is not None,
        columns=sum(map(str.isdecimal, table.columns)) or None if table.header is False else None,
        rate=table.rate,
        clock=table.clock,
        time_axis=table.time_axis,
        seconds=table.unit if time is None else seconds_in(table.columns[time], NO_TIMES, spec),
        target=view.roles["target"],
        id=view.roles["id"],
        time=view.roles["time"],
        beside=neighbour,
        group=view.roles["group"],
    )


def _of_format(table: Table, spec: LayoutSpec) -> LayoutSpec:
    """What was set, where the format itself has a shape. Raises: BadInput where another one was set.

    A layout that was fixed by other data gives way, so that a model of a CSV file serves arrays too.
    """
    if spec.optional:
        wanted = [name for name in spec.values if name in table.columns]
        shape = "columns" if spec.shape == "columns" else "auto"
        return spec.model_copy(update={"shape": shape, "values": tuple(wanted)})
    if spec.shape not in ("auto", "columns", table.shape):
        raise BadInput(
            f"{table.places.source}: layout: {spec.shape!r} was set, but {table.written} is {table.shape!r}; leave "
            "it out"
        )
    return spec


def _settle(view: View) -> None:
    """Take the roles as they were set, or as the format says them. Raises: BadInput for a name that is not there."""
    for role in ROLES:
        name = getattr(view.spec, role)
        if name and (role, name) != ("time", view.table.clock):  # which is no longer a column
            if (
                "," in name
                and name not in view.table.columns
                and all(part in view.table.columns for part in parts(name))
            ):
                if role != "id":
                    raise BadInput(
                        f"{view.source}: {role}: {name!r} names several columns; name one, and fit each by itself"
                    )
                _join(view, name)
            if not (view.spec.optional and role != "time"):
                view.table.column(name, role)
            view.roles[role] = name if name in view.table.columns else None
        elif name == "":
            view.roles[role] = None
        elif role in view.table.roles:
            view.roles[role] = view.table.roles[role] or None


def parts(name: str) -> list[str]:
    """The columns that `subject,trial` names together."""
    return [part.strip() for part in name.split(",")]


def _join(view: View, name: str) -> None:
    """Make a column of the cells of several, `p1/3`; one is empty where one of them is."""
    cells = zip(*(view.table.columns[part].words for part in parts(name)), strict=True)
    words = ["/".join(map(str, row)) if all(row) else None for row in cells]
    view.table.columns[name] = Column(name, "text", arrow_texts(words))
    view.aside += [part for part in parts(name) if not by_role("group", [part])]


def _shape(view: View) -> TableShape:
    """The shape as it was set, as the format has it, or as it looks."""
    spec, table = view.spec, view.table
    if spec.shape != "auto" and spec.shape != "columns":
        return spec.shape
    if table.shape is not None:
        return table.shape
    if not spec.values:
        view.decisions.append(Decision("shape", None, "the names of the columns and what stands in them"))
    columns = [table.columns[name] for name in view.wanted() if name in table.columns] or view.free()
    run = max((len(names) for _, names in view.longest(columns)), default=0)
    if spec.kind in ("text", "dna", "protein"):
        return "text"
    if any(column.type == "list" for column in columns):
        return "list"
    if _is_long(view, run, columns):
        return "long"
    texts = [column for column in columns if column.type == "text"]
    if run:
        return "wide"
    if any(looks_like_list(column.words) for column in texts):
        return "list"
    named = {name for role in ROLES for name in by_role(role, table.columns)}
    numbers = [column for column in columns if column.type in ("number", "empty") and column.name not in named]
    return "text" if view.texts(texts) and (len(numbers) < 3 or letter_columns(view, texts)) else "wide"


def _is_long(view: View, run: int, columns: list[Column]) -> bool:
    """Whether there is an id that repeats and a time beside it; or a long stretch of rows of each id and no run."""
    if "id" in view.roles and view.roles["id"] is None:
        return False
    ids = [view.roles["id"]] if view.roles.get("id") else view.repeating()
    if not ids or ids[0] is None or 2 * view.count(ids[0]) > view.table.rows:
        return False
    if "id" not in view.roles and any(view.files(c) and view.count(c.name) == view.table.rows for c in columns):
        return False
    if view.roles.get("time") or [name for name in view.named("time") if name != ids[0]]:
        return True
    if run > 2 or "time" in view.roles or view.table.rows < 5 * view.count(ids[0]):
        return False
    return 1 + sum(a != b for a, b in pairwise(view.table.columns[ids[0]].words)) == view.count(ids[0])


def _ordered(view: View, shape: TableShape) -> TableShape:
    """The shape, where the order of the rows says that a row is a position; its id and time are settled then.

    Raises: BadInput where each row is a sample of a recording, and no column says which rows are one sequence.
    """
    table, spec = view.table, view.spec
    if shape != "wide" or spec.shape != "auto" or spec.values or table.shape is not None:
        return shape
    columns, run = _beside_positions(view)
    labels = _labels(view)
    ids = by_role("id", list(table.columns))
    grouping = [*ids, *by_role("group", list(table.columns))]
    unique = [name for name in ids if view.count(name) == table.rows]
    set_id = view.roles.get("id")
    if set_id is not None:
        columns = [*columns, table.columns[set_id]]
    elif run and unique:
        return shape
    result = evidence(view.ordered(columns), labels, grouping, run)
    if len(result.ways) == 1:
        again = next(label for label in labels if label.comes_again)
        numbers = [column for column in view.free() if column.type == "number" and column.name != again.name]
        if len(numbers) > POSITION_COLUMNS and not goes_on(view.ordered(numbers), again):
            result = Evidence()
    if result.id is not None and set_id in (None, result.id) and ("id" not in view.roles or set_id):
        for role, name, why in (("id", result.id, result.why_id), ("time", result.time, result.why_time)):
            if role not in view.roles and name is not None:
                view.take(role, [name], why)
        return "long"
    if result.row_id is not None and "id" not in view.roles:
        view.take("id", [result.row_id], f"{result.row_id!r} numbers the rows")
    elif result.clock is not None and set_id is not None and not run:
        view.aside.append(result.clock)
    elif len(result.ways) > 1:
        way = result.ways[0]
        rest = [c for c in view.free() if c.type == "number" and c.name not in (way["id"], way.get("time"))]
        if "time" in way and len(rest) < 2:  # which is no sequence in a row
            view.take("id", [way["id"]], result.says)
            view.take("time", [way["time"]], result.says)
            return "long"
        question = f"{view.source}: {result.says}, so that these may be one sequence each, or none"
        raise BadInput(asked(question, *result.ways))
    elif result.ways:
        raise BadInput(
            f"{view.source}: {result.says}, as samples of a long recording do, and no column says which rows are one "
            f"sequence; number the pieces in a column and name it with {option('id')}, or, where each row is an "
            f"example of its own, give {settings(result.ways[0])}"
        )
    elif result.says and not result.certain:
        if run and not labels and (clock_name(result.clock or "") or axis_name(result.clock or "")):
            question = f"{view.source}: {result.says}, so that recordings may stand in columns, or in rows"
            raise BadInput(asked(question, {"shape": "columns"}, {"shape": "wide"}))
        view.doubts.append(
            f"{result.says}; where rows are samples of a recording, give them an id ({option('id')}), and where "
            f"recordings stand in columns, give {option('shape', 'columns')}"
        )
    elif result.clock is not None:
        sides = f"; where each column is a recording, give {option('shape', 'columns')}" if run and not labels else ""
        raise BadInput(f"{view.source}: {result.refusal}{sides}")
    if not run:
        _put_aside(view, columns)
    return shape


def _beside_positions(view: View) -> tuple[list[Column], bool]:
    """The free columns that are not positions by their names, and whether a run of numbered names holds a sequence.

    Of columns without names of their own the first three, where ids, times and labels stand.
    """
    free = view.free()
    if view.table.header is False or all(column.name.isdecimal() for column in free):
        return free[:3], False
    run = {name for _, names in view.longest(free) for name in names}
    runs = numbered([column.name for column in free if column.type == "number"])
    inside = run | {name for pattern, names in runs.items() if pattern.endswith("*") for name in names}
    return [column for column in free if column.name not in inside and not names_position(column.name)], bool(run)


def _labels(view: View) -> list[Ordered]:
    """Columns that may be the target, or the one that was set."""
    target = view.roles.get("target")
    if "target" in view.roles:
        return view.ordered([view.table.columns[target]] if target else [])
    named, free = view.targets(), view.free()
    labels = [column for column in free if column.name in named or view.classes(column)]
    if not labels and view.table.header is False and len(free) > POSITION_COLUMNS:
        labels = [view.table.columns[name] for name in at_an_end(view, free)]
    return view.ordered(labels)


def _name_roles(view: View, shape: TableShape) -> None:
    """Guess the roles that are not settled; those that stay open are None."""
    fasta, rows = view.table.written in ("FASTA", "FASTQ", "a folder of FASTA"), view.table.rows
    if shape == "long":
        _name_long(view)
    if "target" not in view.roles:
        names = [name for name in view.targets() if shape != "long" or view.one_label(name)]
        columns = view.table.columns
        check_one_target(view.source, {name: columns[name].words for name in names if plain(name) in PLAIN_TARGET})
        view.take("target", names or (word_of_fasta(view) if fasta else likely_target(view, shape)))
    if "id" not in view.roles:
        persons = [name for name in view.named("group") if view.count(name) == rows > 1] if shape == "wide" else []
        names = view.named("id") or _index(view) or persons
        # First words of descriptions of FASTA repeat, those of names do not.
        names = [name for name in names if not fasta or view.count(name) > 0.9 * rows]
        subject = _counted_anew(view, names[0]) if names and shape == "wide" else ""
        if subject:
            _join(view, f"{subject},{names[0]}")
            view.take("id", [f"{subject},{names[0]}"], f"{names[0]!r} counts anew in each value of {subject!r}")
            if "group" not in view.roles and not view.named("group"):
                view.take("group", [subject], f"{names[0]!r} counts anew in each value of {subject!r}")
        view.take("id", [] if subject else names)
        if not names and shape == "wide":
            names = view.unique()
            view.take("id", names, f"{names[0]!r} holds another text in each row" if names else "")
    if "group" not in view.roles:
        names = [name for name in view.named("group") if 1 < view.count(name) < rows]
        view.take("group", [name for name in names if shape != "long" or view.one_each(name)])
    if shape == "long" and not view.spec.values:
        check_one_clock(view)
        _put_aside(view, view.free(), Ordered(view.table.columns[str(view.roles["id"])]))
        if "target" not in view.roles:
            _ask_life(view)
    for role in ROLES:
        view.roles.setdefault(role, None)


def _ask_life(view: View) -> None:
    """Raises: BadInput where a column counts down in each sequence to its end, and may be what is to be learnt: as a
    channel it would tell where the end is."""
    ids, free = view.roles["id"], view.ordered(view.free())
    life = next((column.name for column in free if column.counts_down), None)
    rest = [c.name for c in free if c.name != life and c.column.type == "number"]
    if life is None or not rest or view.one_each(life):
        return
    length = str(max(2, min(30, view.table.rows // view.count(str(ids)) // 2)))
    time = view.roles.get("time")
    roles: dict[str, str] = {"shape": "long", "id": str(ids)} | ({"time": time} if time else {})
    raise BadInput(
        asked(
            f"{view.source}: {life!r} counts down in each value of {ids!r}, as the rest of a life does, so that it may "
            "be the target at the end of each window, or serve nothing",
            roles | {"target": life, "target_kind": "number", "window": length, "window_label": "end", "values": rest},
            roles | {"values": rest, "target": ""},
        )
    )


def _name_long(view: View) -> None:
    if view.roles.get("id") is None:
        texts = [column.name for column in view.free() if column.type == "text"]
        ids = view.repeating() or [name for name in texts if 2 * view.count(name) <= view.table.rows]
        if not ids or "id" in view.roles:
            raise BadInput(
                f"{view.source}: no column says which rows are one sequence; name it with {option('id')} "
                f"(columns: {view.names})"
            )
        groups = [name for name in view.named("group") if name != ids[0] and not view.one_each(name, ids[0])]
        if groups and 2 * _pairs(view, ids[0], groups[0]) <= view.table.rows:
            name = f"{groups[0]},{ids[0]}"
            _join(view, name)
            view.take("id", [name], f"{ids[0]!r} counts anew in each value of {groups[0]!r}")
        else:
            view.take("id", ids)
            check_one_group(view.source, ids[0], groups)
    if "time" not in view.roles:
        names = view.named("time") + [column.name for column in view.free() if column.type == "time"]
        clocks = [] if names else _clocks(view)
        why = f"{clocks[0]!r} counts on within each value of {view.roles['id']!r}" if clocks else ""
        view.take("time", names or clocks, why)


def _counted_anew(view: View, name: str) -> str:
    """The column that makes an id that comes again unique, as a subject does whose trials are numbered anew: it stands
    in runs, and in more of them than there are labels. "" where there is none."""
    target = view.roles.get("target")
    if view.count(name) == view.table.rows or target is None:
        return ""
    for column in view.ordered([column for column in view.free() if column.name != name]):
        runs = column.whole and column.once and view.count(target) < column.kinds <= view.table.rows // 2
        if runs and _pairs(view, name, column.name) == view.table.rows:
            return column.name
    return ""


def _pairs(view: View, name: str, other: str) -> int:
    """How many different pairs of cells two columns have."""
    return len(set(zip(view.table.columns[name].words, view.table.columns[other].words, strict=True)))


def _clocks(view: View) -> list[str]:
    """Free columns that count on within the rows of each id, those with names of clocks first; else those that number
    rows in another order."""
    ids = Ordered(view.table.columns[str(view.roles["id"])])
    used = {name for role in ("target", "group") for name in by_role(role, list(view.table.columns))}
    free = [column for column in view.ordered(view.free()) if column.name not in used]
    free.sort(key=lambda column: not clock_name(column.name))
    clocks = [column.name for column in free if column.rises_within(ids.codes)]
    return clocks or [column.name for column in free if column.counts_within(ids.codes)]


def _put_aside(view: View, columns: list[Column], ids: Ordered | None = None) -> None:
    """Leave out what counts sequences and is no value: a number that several of them share is the group, where there is
    none. `ids`: those of a long table, of which further clocks are left out too."""
    free = {column.name for column in view.free()}
    for column in view.ordered([column for column in columns if column.name in free]):
        rows = len(column.codes) if ids is None else ids.kinds
        shared = column.rows_each >= ROWS_EACH if ids is None else column.one_within(ids.codes)
        if ids is not None and (column.counts_rows or column.clock_within(ids.codes)):
            view.aside.append(column.name)
        elif (
            ids is None and plain(column.name) in STAMPS and column.column.type == "number" and "time" not in view.roles
        ):
            view.take("time", [column.name], f"{column.name!r} is named as times of rows are, which are no values")
        elif ids is None and column.identifies and "id" not in view.roles and not view.named("id"):
            view.take("id", [column.name], f"{column.name!r} numbers the rows")
        elif shared and column.whole and counter_name(column.name) and column.once and column.kinds > 1:
            if "group" not in view.roles and column.kinds < rows:
                view.take("group", [column.name], f"{column.name!r} stands in {column.kinds:,} runs of equal values")
            else:
                view.aside.append(column.name)


def _index(view: View) -> list[str]:
    """A first column that is the index of a table of pandas."""
    first = next(iter(view.table.columns.values()))
    if first.name not in ("column 1", "Unnamed: 0") or first.type in ("list", "other") or first not in view.free():
        return []
    return [first.name] if view.count(first.name) == view.table.rows else []


def _channels(view: View, shape: TableShape) -> tuple[Channel, ...]:
    """The columns that look like the sequence. Raises: BadInput where none does."""
    free = [
        column
        for column in view.free()
        if column.type not in ("other", "time") and not (column.type == "text" and dated(column.top))
    ]
    if shape == "wide":
        return _wide(view, free)
    if shape == "text":
        texts = view.texts(free) or [column for column in free if column.type == "text" and not view.files(column)]
        chosen = likely_text(view, texts)
    elif shape == "list":
        lists = [column for column in free if column.type == "list" or looks_like_list(column.words)]
        words = [column for column in lists if column.has_words]
        chosen = [column for column in lists if column not in words] or words[:1]
    else:
        chosen = [column for column in free if column.type in ("number", "empty")]
        chosen = chosen or [column for column in free if column.type == "text" and not view.files(column)][:1]
    if not chosen:
        raise _nothing(view, shape)
    return tuple(Channel(column.name, (column.name,)) for column in chosen)


def _wide(view: View, free: list[Column]) -> tuple[Channel, ...]:
    """The longest run of numbered columns (several of equal length are channels), else all columns of numbers."""
    numbers = tuple(column.name for column in free if column.type in ("number", "empty"))
    runs = view.longest(free)
    if runs and 2 * sum(len(names) for _, names in runs) >= len(numbers):
        return tuple(run_of(view.source, pattern, names, list(view.table.columns)) for pattern, names in runs)
    named = tuple(name for name in numbers if names_position(name))
    enough = POSITION_COLUMNS if any(map(is_number, named)) else LEAST_DATES
    if len(named) >= enough and 2 * len(named) > len(numbers):  # wavelengths or days, beside other measurements
        numbers = named
    if len(numbers) < 2:
        raise _nothing(view, "wide")
    check_no_sensor(view, numbers)
    if view.table.header and not re.search(r"\d", "".join(numbers)) and view.spec.shape == "auto":
        view.doubts.append(
            f"the columns {numbers[0]!r} to {numbers[-1]!r} have names that do not count up, and are taken for the "
            f"{len(numbers):,} positions of one sequence ({option('shape', 'wide')} says that they are); where they "
            "are measures of a row without an order, models of tables suit them better"
        )
    return (Channel("values", numbers),)


def _nothing(view: View, shape: str) -> BadInput:
    if problem := unread(view.table.columns.values()):
        return BadInput(f"{view.source}: no column looks like a sequence ({shape}), and {problem}")
    files = next((repr(column.name) for column in view.table.columns.values() if view.files(column)), None)
    if files:
        return BadInput(
            f"{view.source}: the cells of {files} are names of files, which no table brings along; name the folder "
            "that holds these files, with this table in it, in place of the table"
        )
    texts = [
        column.name
        for column in view.table.columns.values()
        if column.type == "text" and all(is_number(word) for word in column.coded[1] if word)
    ]
    if len(texts) > 1:
        named = [pattern for pattern, names in numbered(texts).items() if len(names) == len(texts)] or texts[:5]
        return BadInput(
            f"{view.source}: no column looks like a sequence ({shape}), and {len(texts):,} hold numbers that are "
            f"written as texts; {option('values', *named)} reads them"
        )
    lone = len(view.table.columns) == 1 and view.table.header is not None
    way = f"where cells are separated by another mark, give {option('delimiter')}; else name" if lone else "name"
    columns, half = list(view.table.columns.values()), view.table.rows // 2
    repeats = (column.name for column in columns if column.type == "text" and len(column.coded[1]) <= half)
    may_be_long = not lone and shape != "text" and any(column.type == "number" for column in columns)
    if may_be_long and (ids := next(repeats, "")):
        long = settings({"shape": "long", "id": ids})
        way = f"where each row is a position of the recording that {ids!r} names, give {long}; else name"
    return BadInput(
        f"{view.source}: no column looks like a sequence ({shape}; columns: {view.names}); {way} "
        f"the columns with {option('values')}, and their {option('shape')} (wide, text, list, long or columns; "
        "docs/guide/which-form.md has a picture of each)"
    )
