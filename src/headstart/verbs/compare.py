"""`compare`: two stages, or two studies or reports, side by side."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rich.text import Text

from headstart.errors import BadInput
from headstart.store import Store, store_folder
from headstart.study.compare import Section, compare_stages, compare_studies
from headstart.verbs.terminal import console, table


def print_comparison(first: str, second: str, store: str | None, data: str | None, scale: str | None) -> None:
    """`headstart compare A B`: stages by their ids, studies by file or name, reports by folder.

    Raises: BadInput where one is a stage and the other is none, or one cannot be read.
    """
    are_stages = [_is_stage(word) for word in (first, second)]
    if are_stages[0] != are_stages[1]:
        stage, other = (first, second) if are_stages[0] else (second, first)
        raise BadInput(f"compare: {stage!r} is a stage and {other!r} is none; name two stages, or two studies")
    if are_stages[0]:
        runs = Store(store_folder(store))
        console().print(f"store {runs.root}")
        _print(compare_stages(runs, runs.find(first), runs.find(second)))
        return
    from headstart.api import Study

    sources = [_source(word) for word in (first, second)]
    studies = [Study(source, store=store or folder, data=data, scale=scale) for source, folder in sources]
    names = (first, second) if first != second else (f"{first} (A)", f"{second} (B)")
    for name, study in zip(names, studies, strict=True):
        console().print(Text(f"{name}: store {study.store.root}"))
    results = [study.results(baselines=False) for study in studies]
    _print(compare_studies([s.plan for s in studies], results, [s.store for s in studies], names))


def _is_stage(word: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{4,16}", word)) and not os.path.exists(word)


def _source(word: str) -> tuple[str, str | None]:
    """The study that a word names, and the store of a report: `runs` of `runs/reports/digits`."""
    path = Path(word)
    path = path / "study.toml" if path.is_dir() else path
    reports = path.absolute().parent.parent
    is_report = path.name == "study.toml" and reports.name == "reports"
    return str(path) if path.is_file() else word, str(reports.parent) if is_report and path.is_file() else None


def _print(sections: list[Section]) -> None:
    out = console()
    for section in sections:
        out.print(Text(f"\n{section.title}:" if section.rows else f"\n{section.title}: {section.empty}"))
        if section.rows:
            numbers = range(1, len(section.heads)) if section.heads[0] in ("step", "number") else ()
            out.print(table(list(section.heads), [list(row) for row in section.rows], right=numbers))
