"""`ls` and `show`: what there is. Stages are read from JSON alone, tables of kinds without importing them."""

from __future__ import annotations

import contextlib
import difflib
import json as json_module
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headstart.atomic import publish
from headstart.errors import BadInput, nearest
from headstart.kinds import SORTS
from headstart.spec import read
from headstart.store import Store, store_folder
from headstart.study.results.listing import LISTING_COLUMNS, stage_rows
from headstart.verbs.data import show_file
from headstart.verbs.options import LayoutOptions
from headstart.verbs.terminal import check_replaceable, console, table, writable_file
from headstart.words import count, duration

if TYPE_CHECKING:
    from headstart.study.language.costs import StudyCost

WIDE_TERMINAL, WIDEST_TERMINAL = 120, 146
"""Columns of a terminal from which on a list of studies has room for questions, and one of stages for times of day."""
LIST_WORDS = ("stages", *(f"{noun}s" for noun in SORTS), "studies")


STUDY_TABLES = ("model", "optim", "budget", "task", "report")
"""Tables of a study that are shown by their names, whatever folder of that name there is."""


def print_listing(
    what: Sequence[str],
    store: str | None,
    json: str | None = None,
    data: str | None = None,
    plugins: Sequence[str] = (),
) -> None:
    """`headstart ls [LIST] [column=pattern ...]`, a list of `LIST_WORDS`; filters and `--json` are for stages.

    plugins: files of a person's own, whose kinds are listed too.
    """
    _load(plugins)
    filters = [word for word in what if "=" in word]
    names = [word for word in what if word not in filters] or ["stages"]
    for name in names:
        if name not in LIST_WORDS:
            raise BadInput(f"ls: {nearest(name, LIST_WORDS)}; stages are filtered by column=pattern, as in arm=scratch")
    if len(names) > 1:
        raise BadInput(f"ls: {' and '.join(names)} are two lists; name one of them")
    if names[0] == "stages":
        return _stages(store, filters, json)
    if filters or json is not None:
        option = f"the filter {filters[0]!r}" if filters else "--json"
        raise BadInput(f"ls: {option} is for stages; leave it out, or list stages")
    return _studies(store, data) if names[0] == "studies" else _kinds(names[0].removesuffix("s"))


def _load(plugins: Sequence[str]) -> None:
    if plugins:  # they import torch
        from headstart.plugins import load_plugins

        load_plugins(plugins)


def _stages(store: str | None, filters: Sequence[str], json: str | None) -> None:
    folder = store_folder(store)
    rows = stage_rows(Store(folder), filters)
    if json is not None:
        text = json_module.dumps(rows, indent=2) + "\n"
        if json == "-":
            sys.stdout.write(text)
        else:
            path = writable_file("--json", json)
            check_replaceable("--json", path, ['"arm"', '"metric"'], store=Path(folder))
            publish(path, text.encode())
        return
    out = console()
    out.print(f"store {folder}")
    if not rows:
        out.print("no stage fits" if filters else "no stages yet; `headstart demo` makes some")
        return
    cells = [printed_cells(row, 16 if out.width >= WIDEST_TERMINAL else 10) for row in rows]
    out.print(table(LISTING_COLUMNS, cells, right=(5, 6, 7, 8, 11, 12)))


def printed_cells(row: Mapping[str, Any], letters: int = 16) -> list[str]:
    """The values of a stage as they are printed. letters: of the date, 10 for the day alone."""
    forms = {"val": ".4f", "test": ".4f", "rate": ".4g", "epochs": ".4g", "seconds": ".4g"}
    texts = {name: "" if row[name] is None else format(row[name], forms.get(name, "")) for name in LISTING_COLUMNS}
    return list({**texts, "date": texts["date"][:letters].replace("T", " ")}.values())


def _kinds(noun: str) -> None:
    """A line per kind of a sort, with what its table says of it beside a summary."""
    rows = []
    heads = {"mixer": ["cost in L", "causal"], "reader": ["endings"]}.get(noun, [])
    for name, line in SORTS[noun].entries.items():
        facts = [line.facts.get(head.partition(" ")[0], "") for head in heads]
        texts = ["yes" if fact is True else "no" if fact is False else str(fact) for fact in facts]
        rows.append([name, line.summary, *texts, line.source])
    if noun == "checkpoint":
        from headstart.verbs.checkpoints import list_checkpoints

        list_checkpoints()
        noun = "family"
    console().print(table([noun, "what it is", *heads, "source"], rows))


def _studies(store: str | None, data: str | None) -> None:
    """One line per study and scale, for the data at hand. Time: of one core, by finished stages if there are."""
    from headstart.study.language.costs import speed_here, speed_of, study_costs
    from headstart.study.language.files import built_in_studies, short_name, title_of
    from headstart.tasks import data_folder

    folder = data_folder(data)
    guess = speed_here()
    measured = speed_of((entry.result for entry in Store(store_folder(store)).listing() if entry.result), guess)
    pace = measured or guess
    paths = built_in_studies()
    out = console()
    wide = out.width >= WIDE_TERMINAL
    rows, before = [], ""
    for cost in study_costs(lambda name: _at_hand(name, folder)):
        new = cost.study != before
        question = [title_of(paths[cost.study]) if new else ""] if wide else []
        rows.append(
            [
                short_name(cost.study) if new else "",
                cost.scale,
                str(cost.stages),
                count(cost.examples),
                count(cost.flops),
                " ".join(duration(pace.seconds(cost.steps, cost.flops + cost.scoring)).split()[:2]),
                _read(cost, wide),
                *question,
            ]
        )
        before = cost.study
    heads = ["study", "scale", "stages", "examples", "FLOP", "time here", "data"] + ["question"] * wide
    out.print(table(heads, rows, right=(2, 3, 4, 5)))
    if not wide:
        out.print(f"the question of each: `headstart show STUDY`, or this list in {WIDE_TERMINAL} columns")
    source = (
        "as the median of the store's finished stages has it"
        if measured
        else "a third of a matrix product timed just now"
    )
    out.print(
        f"Time: an estimate for one core of this machine, at {1000 * pace.step:.3g} ms a step and "
        f"{count(pace.rate)}FLOP/s, {source}, with the data that are in {folder}"
    )


def _at_hand(name: str, folder: Path) -> bool:
    """Whether a data set, `image` or `speech:digits`, is in the data folder."""
    from headstart.tasks import TASKS, TaskSpec
    from headstart.tasks.task import available

    kind, _, source = name.partition(":")
    if "file" in TASKS[kind].load().model_fields:
        return (folder / source).exists()
    spec: TaskSpec = read(TASKS[kind].load(), {"kind": kind, **({"source": source} if source else {})})
    return available(spec, folder)


def _read(cost: StudyCost, wide: bool) -> str:
    """`image, text`, `stand-in` where other data stand in for some of them, `lacks image`, or `generated`.

    wide: with names of data sets; else `read`, `stand-in` and `lacks` say which kinds there are.
    """
    there = [name for name in cost.reads if name not in cost.absent]
    if not wide:
        return "lacks" if cost.absent else "stand-in" if cost.stood_in else "read" if there else "generated"
    parts = [", ".join(there), "stand-in" * bool(cost.stood_in), f"lacks {', '.join(cost.absent)}" * bool(cost.absent)]
    return "; ".join(filter(None, parts)) or "generated"


def print_one(
    what: str,
    overrides: Sequence[str],
    store: str | None,
    data: str | None,
    layout: LayoutOptions,
    json: bool = False,
    plugins: Sequence[str] = (),
) -> None:
    """`headstart show WHAT`: a stage's id, a study, a task, a mixer, a table or kind of a study, a checkpoint, or a
    data file.

    `layout` are options of a data file; where one is given, `what` is a file. json: of a data file. plugins: files of
    a person's own, whose kinds are shown too.
    """
    _load(plugins)
    if layout != LayoutOptions() or json:
        return show_file(what, layout, [word for word in overrides if word != "-"] if json else overrides, json)
    if re.fullmatch(r"[0-9a-f]{4,16}", what):
        try:
            return _show_stage(Store(store_folder(store)), what)
        except BadInput:
            if not os.path.exists(what):  # a folder of data may be called face, or edf1
                raise
            return show_file(what, layout, overrides)
    from headstart.models.mixers import MIXERS
    from headstart.study.language.files import built_in_studies, is_built_in, short_name

    if is_built_in(what) and not overrides and what not in _task_names():
        return _show_study(what)
    if what in _task_names():
        from headstart.verbs.checks import show_task

        try:
            show_task(what, overrides, data)
        finally:  # also where its data are absent
            _show_keys(what, overrides)
            _show_lines(what)
            if os.path.exists(what):
                console().print(f"{what} is a task; the folder or file of this name: headstart show ./{what}")
        return _show_study(what) if what in built_in_studies() else None
    if what in MIXERS:
        return _show_mixer(what)
    if what.endswith(".toml"):
        return _show_study(what)
    from headstart.verbs.checkpoints import is_checkpoint, show_checkpoint

    if is_checkpoint(what) and what not in STUDY_TABLES:  # `model/` is the folder
        return show_checkpoint(what)
    if (head := what.partition(".")[0]) in STUDY_TABLES and head != what and not os.path.exists(what):
        raise BadInput(f"show: {what!r} is a key of a study; `headstart show {head}` prints all keys of {head}")
    if os.path.splitext(what)[1]:  # before the names of sections: those import torch
        return show_file(what, layout, overrides)
    from headstart.study.language.reference import section_names

    if what in section_names():
        _show_keys(what)
        return _show_lines(what)
    if os.path.exists(what):
        return show_file(what, layout, overrides)
    if any(what in SORTS[noun].entries for noun in SHOWN_BY_LINE):
        return _show_lines(what)
    if what in SORTS["checkpoint"].entries:
        from headstart.verbs.checkpoints import show_family

        return show_family(what)
    kinds = (name for sort in SORTS.values() for name in sort.entries)
    names = [*section_names(), *map(short_name, built_in_studies()), *kinds]
    close = difflib.get_close_matches(what, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise BadInput(
        f"show: no {what!r}; {guess}`headstart ls`, {', '.join(f'`ls {name}`' for name in LIST_WORDS[1:])} list what "
        "can be shown, besides data files and tables of a study such as optim or model"
    )


def _task_names() -> list[str]:
    from headstart.tasks import TASKS

    return list(TASKS)


def _show_stage(store: Store, prefix: str) -> None:
    import json

    out = console()
    identity = store.find(prefix)
    entry = store.entry(identity)
    stage, result = entry.stage or {}, entry.result
    out.print(f"{identity}  {entry.status}  {stage.get('name', '')}  {entry.message}".rstrip())
    out.print(f"folder   {store.folder(identity)}")
    if stage.get("parent"):
        out.print(f"parent   {stage['parent']}")
    for name, digest in stage.get("plugins", {}).items():
        where = f"{store.folder(identity)}/source" if result is not None else "with --plugin"
        out.print(f"plugin   {name} {digest}, its source: {where}")
    if result is not None and "scores" in result:  # what `headstart.train` keeps has none
        _show_result(result)
    records = store.records(identity)
    if records:
        rows = [
            [
                r["step"],
                _number(r.get("epoch"), "g"),
                _number(r.get("rate"), ".3g"),
                _scores(r.get("train")),
                _scores(r.get("val")),
            ]
            for r in records[-12:]
        ]
        out.print(table(["step", "epoch", "rate", "train, running", "val"], rows, right=(0, 1, 2)))
    out.print("spec")
    out.print(json.dumps(stage.get("spec", {}), indent=2))


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _scores(scores: Mapping[str, float | None] | None) -> str:
    """`loss 0.5123  accuracy 0.8400`: the scores that are numbers."""
    return "  ".join(f"{name} {value:.4f}" for name, value in (scores or {}).items() if value is not None)


def _show_result(result: dict[str, Any]) -> None:
    out = console()
    rows = []
    for which in ("best", "last"):
        scores = result["scores"][which]
        for split in ("train", "val", "test"):
            first = [which, f"{scores['epoch']:g}"] if split == "train" else ["", ""]
            rows.append([*first, split, _scores(scores.get(split))])
    out.print(table(["weights", "epoch", "split", "scores"], rows))
    budget = result["budget"]
    out.print(
        f"budget   {budget['epochs']:g} epochs, {budget['steps']:,} steps, {count(budget['tokens'])} tokens, "
        f"{count(budget['flops'])}FLOP, {duration(budget['seconds'])}"
    )
    account = result["parameters"]["account"]
    heads = ["taken", "matched", "drawn", "fresh", "frozen"]
    out.print(
        table(
            ["part", "total", *heads],
            [[a["part"], *(f"{a[h]:,}" for h in ["total", *heads])] for a in account],
            right=range(1, 7),
        )
    )
    made = result["provenance"]
    versions = ", ".join(f"{k} {v}" for k, v in made.get("versions", {}).items())
    out.print(
        f"made on  {made.get('machine', '')}, {made.get('device', '')}, {made.get('threads', '')} thread(s), "
        f"attempt {made.get('attempts', '')}; {versions}"
    )


def _show_mixer(name: str) -> None:
    import inspect

    from headstart.models.contract import FACTS_LENGTH, FACTS_WIDTH, measured_facts
    from headstart.models.mixers import MIXERS

    kind = MIXERS[name]
    spec = kind.load()
    out = console()
    out.print(f"{name}: {kind.summary}\n\n{inspect.getdoc(spec) or ''}\n\nsource   {kind.source}")
    facts = measured_facts(spec)
    out.print(
        f"cost     grows as {facts['cost']} with the length L\ncausal   {'yes' if facts['causal'] else 'no'}\n"
        f"size     {facts['parameters']:,} parameters at width {FACTS_WIDTH} and length {FACTS_LENGTH:,}"
    )
    _show_keys(name)


def _show_lines(name: str) -> None:
    """What kinds of this name say of themselves that have no keys of a study; nothing where there is none."""
    for noun, show in SHOWN_BY_LINE.items():
        if name in SORTS[noun].entries:
            show(name)


def _show_of_optim(noun: str, name: str) -> None:
    """An optimiser or a schedule: what it says of itself, and how a study asks for it."""
    import inspect

    cls, out = SORTS[noun].entries[name].load(), console()
    own = inspect.isclass(cls) and issubclass(cls, SORTS[noun].cls)
    out.print(Text(f"{SORTS[noun].summary_of(name)}\n"))
    if own or inspect.isfunction(cls):
        out.print(Text(f"{inspect.getdoc(cls) or ''}\n"))
    value = f'{{ kind = "{name}" }}' if own else f'"{name}"'
    out.print(Text(f'optim = {{ kind = "{name}" }}' if noun == "optimizer" else f"optim = {{ schedule = {value} }}"))
    out.print(Text("`headstart show optim` prints the keys beside it"))


def _show_arm(name: str) -> None:
    """An arm of a fit: what it says of itself, and how it is asked for."""
    import inspect

    line, out = SORTS["arm"].entries[name], console()
    arm = line.load()()
    out.print(Text(f"\n{SORTS['arm'].summary_of(name)}\n\n{inspect.getdoc(arm) or ''}\n"))
    out.print(Text(f"models   {', '.join(arm.names) or 'those of the plugins'}"))
    out.print(Text(f"trains   {'as networks' if arm.network else 'without gradients'}"))
    if arm.option:
        out.print(Text(f"option   --{arm.option}"))
    out.print(Text(f"served   {'with --serve, by name' if arm.servable else 'where it is the best on validation'}"))


def _show_reader(name: str) -> None:
    """A format of data files: what its reader says of itself, and how files of it are told."""
    import inspect

    line, out = SORTS["reader"].entries[name], console()
    out.print(Text(f"{SORTS['reader'].summary_of(name)}\n\n{inspect.getdoc(line.load()) or ''}\n"))
    if line.facts["endings"]:
        out.print(Text("endings  " + " ".join(f".{ending}" for ending in line.facts["endings"].split())))
    signs = {"magic": "begins", "begins": "begins, where the name says nothing", "sign": "begins, in a file of text"}
    for key, words in signs.items():
        if key in line.facts:
            out.print(Text(f"{words}: {line.facts[key]!r}"))
    out.print(Text(f'in a study: task = {{ kind = "own", source = "...", layout = {{ format = "{name}" }} }}'))


SHOWN_BY_LINE: dict[str, Callable[[str], None]] = {
    **{"reader": _show_reader, "arm": _show_arm},
    **{noun: partial(_show_of_optim, noun) for noun in ("optimizer", "schedule")},
}
"""Sorts of kinds that have no keys of a study, and how one is shown."""


def _show_keys(name: str, overrides: Sequence[str] = ()) -> None:
    """The keys of a table of a study, or of a kind: type, default and what each does. overrides: settings of a task."""
    from headstart.study.language.reference import inline_toml, sections_named

    out = console()
    if overrides:
        from headstart.verbs.checks import settings_of, task_spec

        with contextlib.suppress(BadInput):  # said already
            task_spec(name, overrides)
            out.print(Text(f"\nIn a study:\ntask = {inline_toml(settings_of(name, overrides, 'task'))}"))
    for part in sections_named(name):
        out.print(Text(f"\n{part.where}\n{part.summary}"))
        if part.keys:
            out.print(table(["key", "type", "default", "what it does"], [astuple(key) for key in part.keys]))


def _show_study(name: str) -> None:
    from headstart.study.language.files import study_path, study_text

    path = study_path(name)
    out = console()
    out.print(f"study {path}\n")
    out.print(study_text(path))
