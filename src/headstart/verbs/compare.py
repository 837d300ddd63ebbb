"""`compare`: two stages, or two studies or reports, side by side; gains pooled over files of results."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from headstart.atomic import publish
from headstart.errors import BadInput
from headstart.plugins import load_plugins
from headstart.report.tables.report_table import text_table, to_markdown
from headstart.store import Store, store_folder, store_of
from headstart.study.paper.compare import (
    POOLED_NOTE,
    SnapshotSection,
    compare_stages,
    compare_studies,
    gains,
    over_sets,
    over_sets_line,
    pooled,
)
from headstart.study.paper.snapshot import read_snapshot
from headstart.text import json_lines
from headstart.verbs.terminal import console, table


def print_comparison(
    first: str, second: str, store: str | None, data: str | None, scale: str | None, plugins: Sequence[str] = ()
) -> None:
    """`headstart compare A B`: stages by their ids, studies by file or name, reports by folder, files of results.

    plugins: files and modules whose kinds the studies use.

    Raises: BadInput where one is a stage and the other is none, or one cannot be read.
    """
    are_stages = [bool(re.fullmatch(r"[0-9a-f]{4,16}", w)) and not os.path.exists(w) for w in (first, second)]
    if are_stages[0] != are_stages[1]:
        stage, other = (first, second) if are_stages[0] else (second, first)
        raise BadInput(f"compare: {stage!r} is a stage and {other!r} is none; name two stages, or two studies")
    if are_stages[0]:
        runs = Store(store_folder(store))
        console().print(f"store {runs.root}")
        _print(compare_stages(runs, runs.find(first), runs.find(second)))
        return
    from headstart.api import Study

    load_plugins(plugins)
    names = (first, second) if first != second else (f"{first} (A)", f"{second} (B)")
    plans, results, records = [], [], []
    for name, word in zip(names, (first, second), strict=True):
        if word.endswith(".json"):
            snapshot = read_snapshot([word], option="compare")
            plans.append(snapshot.plan)
            results.append(snapshot.results())
            records.append(snapshot.records)
            continue
        file = Path(word, "study.toml") if os.path.isdir(word) else Path(word)
        study = Study(str(file) if file.is_file() else word, store=store or store_of(file), data=data, scale=scale)
        console().print(Text(f"{name}: store {study.store.root}"))
        plans.append(study.plan)
        results.append(study.results(baselines=False))
        records.append(study.store.records)
    _print(compare_studies(plans, results, records, names))


def print_pooled(files: Sequence[str], page: Path | None, json: Path | None) -> None:
    """`headstart report --from FILE ... --pool`: gains of self-pretraining over all files; those of a study are joined.

    page: where the table goes as Markdown too; json: where its comparisons go.
    Raises: BadInput for a file that cannot be read, or where there is no gain.
    """
    studies: dict[tuple[str, str | None], list[str]] = {}
    for file in files:
        study = read_snapshot([file]).plan.study
        studies.setdefault((study.name, study.scale), []).append(file)
    every = [gain for part in map(read_snapshot, studies.values()) for gain in gains(part.plan, part.results())]
    section, whole = pooled(every), over_sets_line(over_sets(every))
    note = " ".join(filter(None, [whole, POOLED_NOTE]))
    if not section.rows:
        raise BadInput(f"--pool: {section.empty}; name files of studies that have both")
    if page is not None:
        command = f"headstart report --from {' '.join(files)} --pool"
        written = replace(text_table(section.heads, section.rows, section.title, names=2), note=note)
        publish(page, f"{to_markdown(written)}\n```\n{command}\n```\n".encode())
    if json is not None:
        gap = over_sets(every)
        numbers = gap and {"gain": gap.mean, "interval": list(gap.interval or ()), "sets": gap.n}
        publish(json, json_lines({"over_sets": numbers, "comparisons": [gain.document() for gain in every]}).encode())
    _print([section])
    console().print(Text(note))


def _print(sections: list[SnapshotSection]) -> None:
    out = console()
    for section in sections:
        out.print(Text(f"\n{section.title}:" if section.rows else f"\n{section.title}: {section.empty}"))
        if section.rows:
            numbers = range(1, len(section.heads)) if section.heads[0] in ("step", "number") else ()
            out.print(table(list(section.heads), [list(row) for row in section.rows], right=numbers))
