"""`report --all`: every study of a store with its answer, in the terminal and on one page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rich.text import Text

from headstart.api import Study
from headstart.atomic import publish
from headstart.errors import BadInput, Damaged
from headstart.plugins import load_plugins
from headstart.report.answer import answer, runs_done
from headstart.report.page import PAGE_TEMPLATE, filled
from headstart.store import store_folder
from headstart.store.stages import REPORTS
from headstart.text import counted
from headstart.verbs.options import FolderOptions
from headstart.verbs.terminal import console, hanging

STUDIES_TEMPLATE = PAGE_TEMPLATE.with_name("studies.html")


@dataclass(frozen=True)
class StudyLine:
    """A study of a store. runs: `12 of 18`, empty where it cannot be read; begun: the day on which its last run began,
    in ISO 8601; link: its page, from the folder of all reports, empty where there is none."""

    name: str
    title: str
    answer: str
    runs: str = ""
    begun: str = ""
    link: str = ""


def study_lines(root: Path, data: str | None = None) -> list[StudyLine]:
    """A line for each study that a store has a report of, the newest first; one that cannot be read says why."""
    files = sorted((root / REPORTS).glob("*/study.toml"))
    return sorted((_line(file, data) for file in files), key=lambda line: line.begun, reverse=True)


def _line(file: Path, data: str | None) -> StudyLine:
    name = file.parent.name
    try:
        study = Study(file, data=data, absent="open")
        if not study.plan.cells:
            return StudyLine(name, study.spec.title or name, f"Nothing is chosen yet: {study.progress}.")
        results = study.results(baselines=False)
    except (BadInput, Damaged, OSError) as error:
        return StudyLine(name, name, f"It cannot be read: {error}")
    runs = (run for row in results.table for point in row.points for run in point.runs)
    begun = max((run.started for run in runs if run.started), default="")
    done, planned = runs_done(results)
    link = f"./{quote(name)}/page.html" if file.with_name("page.html").is_file() else ""
    return StudyLine(name, results.heading, answer(results), f"{done} of {planned}", begun[:10], link)


def report_all(
    words: Sequence[str], folders: FolderOptions, plugins: Sequence[str], other: Mapping[str, object]
) -> None:
    """Print the answer of each study of a store and write `reports/index.html`.

    other: options that belong to one study. Raises: BadInput for words or such an option, or a store without a report.
    """
    for name in [*words[:1], *(f"--{option.replace('_', '-')}" for option, value in other.items() if value)]:
        raise BadInput(f"report --all: {name} belongs to one study; leave it out, or leave --all out")
    load_plugins(plugins)
    root = Path(store_folder(folders.store))
    lines, out = study_lines(root, folders.data), console()
    if not lines:
        raise BadInput(f"report --all: store {root} has no report yet; `headstart run STUDY` writes one")
    page = root / REPORTS / "index.html"
    number = counted(len(lines), "study", "studies")
    out.print(Text(f"store {root}: {number}"))
    if os.access(page.parent, os.W_OK):
        publish(page, filled(STUDIES_TEMPLATE, title=number, store=str(root), lines=lines).encode())
        out.print(Text(f"page {page}"))
    for text in _texts(lines):
        out.print(hanging(text))


def _texts(lines: list[StudyLine]) -> Iterator[str]:
    for line in lines:
        facts = ", ".join(filter(None, [f"{line.runs} runs done" if line.runs else "", line.begun]))
        yield f"{line.name}{f' ({facts})' if facts else ''}: {line.answer}"
