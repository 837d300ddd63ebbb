"""The report of a study as files: one self-contained page, the table in three forms, the figures.

Nothing is trained; what is not finished is shown as such. Every file is published whole.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.errors import BadInput
from headstart.files import Damaged, publish
from headstart.report.answer import answer, leader
from headstart.report.evidence import Anchors, page_stages, sweep_rows
from headstart.report.methods import methods
from headstart.report.pictures import Filled, caption, read_predictions, reconstruction
from headstart.report.plots import curves, png, svg
from headstart.report.sweeps import sweep, sweep_sentence
from headstart.report.tables import make_table, to_csv, to_latex, to_markdown
from headstart.report.toml import to_toml
from headstart.spec import digest
from headstart.study import words
from headstart.study.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from headstart.store import Store
    from headstart.study.plan import Plan
    from headstart.tasks import Task

TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True)
class Drawn:
    """A figure of the page: `draw(dark, titled)` makes it; `said` is its caption and its alternative text.

    `titled`: the PNG, which stands alone, carries its sentence; on the page the caption has it.
    """

    name: str
    title: str
    said: str
    draw: Callable[[bool, bool], Figure | None]
    titled: bool = False


def write_report(plan: Plan, results: Results, store: Store, folder: Path) -> Path:
    """Write page.html, table.md, table.csv, table.tex, study.toml and the figures as PNG; returns the page.

    Raises: OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = make_table(results)
    texts = {"table.md": to_markdown(table), "table.csv": to_csv(table), "table.tex": to_latex(table),
             "study.toml": to_toml(_document(plan))}
    for name, text in texts.items():
        publish(folder / name, text.encode())
    figures = []
    for drawn in _figures(plan, results, store):
        figure = drawn.draw(False, drawn.titled)
        if figure is None:
            continue
        publish(folder / f"{drawn.name}.png", png(figure))
        light = drawn.draw(False, False) if drawn.titled else figure
        figures.append({
            "title": drawn.title, "said": drawn.said, "light": _embedded(light),
            "dark": _embedded(drawn.draw(True, False)), "width": str(round(100 * figure.get_figwidth())),
        })
    page = folder / "page.html"
    publish(page, render(plan, results, store, figures).encode())
    return page


def _document(plan: Plan) -> Mapping[str, Any]:
    found: Mapping[str, Any] = plan.study.model_dump(mode="json")
    return found


def _embedded(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return "data:image/svg+xml;base64," + b64encode(svg(figure)).decode()


def _figures(plan: Plan, results: Results, store: Store) -> list[Drawn]:
    """Per column: the sweep, the learning curves, and a picture of what a masked stage fills in."""
    out = []
    for column in results.columns:
        name, of = _file_name(column), f" on {column}" if len(results.columns) > 1 else ""
        sentence = sweep_sentence(results, column)
        if sentence:
            out.append(Drawn(
                f"sweep-{name}", f"The sweep{of}",
                f"{sentence} Points are means over seeds with one standard error; the chosen value is ringed.",
                lambda dark, titled, c=column: sweep(results, c, dark, titled),  # type: ignore[misc]
                titled=True,
            ))
        out.append(Drawn(
            f"curves-{name}", f"Learning curves{of}",
            "Each arm at its chosen settings: mean over seeds, band of one standard error; train is dashed.",
            lambda dark, _, c=column: curves(results, c, _records(store), dark),  # type: ignore[misc]
        ))
        picture = _picture(plan, results, store, column)
        if picture is not None:
            found, task = picture
            draw = task.picture if task is not None else None
            out.append(Drawn(
                f"reconstruction-{name}", f"What pretraining learnt to fill in{of}",
                caption(found, draw is not None),
                lambda dark, _, f=found, d=draw: reconstruction(f, d, dark),  # type: ignore[misc]
            ))
    return out


def _file_name(column: str) -> str:
    """A column's name as a file's: one that had to be changed is told apart by a few digits of its hash."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in column)
    return plain if plain == column and plain else f"{plain}-{digest(column)[:6]}"


def _records(store: Store) -> Callable[[str], list[dict[str, Any]]]:
    def records(identity: str) -> list[dict[str, Any]]:
        try:
            return store.records(identity)
        except Damaged:
            # The curve of a damaged stage is not drawn; the next run sets the stage aside and says so.
            return []

    return records


def _picture(plan: Plan, results: Results, store: Store, column: str) -> tuple[Filled, Task | None] | None:
    """Masked examples of the first parent that has them, in the row that leads on validation."""
    rows = [row for row in results.in_column(column) if row.val is not None]
    rows = [leader(results, rows), *rows] if rows else []
    for row in rows:
        for run in row.runs:
            for _, identity in run.stages[:-1]:
                found = _filled(plan, store, identity)
                if found is not None:
                    return found
    return None


def _filled(plan: Plan, store: Store, identity: str) -> tuple[Filled, Task | None] | None:
    from headstart.tasks import open_task

    if store.result(identity) is None:
        return None
    try:
        arrays = {name: tensor.numpy() for name, tensor in store.predictions(identity).items()}
    except Damaged:
        return None
    if "val/masked" not in arrays:
        return None
    try:
        task: Task | None = open_task(plan.stages[identity].spec.task, plan.data)
    except (BadInput, OSError):
        # A report is made from the store alone where the data are not at hand: curves instead of images.
        task = None
    found = read_predictions(arrays, task.signature if task is not None else None)
    return None if found is None else (found, task)


def render(plan: Plan, results: Results, store: Store, figures: list[dict[str, str]]) -> str:
    """The page as HTML; every foreign text is escaped by the template."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(score=words.score, duration=words.duration, count=words.count, plain=words.plain)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    anchors = Anchors(results)
    stages = page_stages(plan, results, store)
    rows = [row for row in results.table if row.val is not None and row.test is not None]
    return template.render(
        results=results, table=_cells(results, anchors), answer=answer(results), note=make_table(results).note,
        lead=anchors.row(leader(results, rows).key) if rows else "", anchors=anchors, figures=figures,
        methods=methods(plan, results, [s.result for s in stages if s.result]), stages=stages,
        evidence=[sweep_rows(row, results, anchors) for row in results.table],
        command=f"headstart run {_command(plan)}", metrics=words.metric,
        version=_versions([s.result for s in stages if s.result]),
    )


def _command(plan: Plan) -> str:
    """The built-in study by its name where nothing was overridden, else the file beside the page."""
    from headstart.study.files import built_in_studies
    from headstart.study.spec import read_study

    name = plan.study.name
    return name if name in built_in_studies() and read_study(name) == plan.study else "study.toml"


def _versions(stages: list[Mapping[str, Any]]) -> str:
    found = dict.fromkeys(str(s.get("provenance", {}).get("versions", {}).get("headstart", "")) for s in stages)
    return ", ".join(v for v in found if v)


def _cells(results: Results, anchors: Anchors) -> dict[str, Any]:
    """The table for the template: each cell's text, its head, and the anchor of what stands behind it."""
    table = make_table(results)
    grouped = len(results.columns) > 1
    lines, before = [], ""
    for line in table.lines:
        column = str(line.cells[0].values.get("column", "")) if grouped else ""
        at = column or (results.columns[0] if results.columns else "")
        link = anchors.row(line.key) if line.key else (anchors.facts(at) if line.kind == "baseline" else "evidence")
        cells = [
            {"parts": cell.text.split(", ") if "chosen" in cell.values else [cell.text], "head": head,
             "link": link if (numeric or "chosen" in cell.values) and cell.text != words.NONE else "",
             "numeric": numeric, "name": "arm" in cell.values, "empty": cell.text == words.NONE}
            for cell, head, numeric in zip(line.cells, table.heads, table.numeric, strict=True)
        ]
        group = line.cells[0].text if grouped and column != before else ""
        lines.append({"kind": line.kind, "best": line.best, "group": group, "cells": cells[int(grouped):]})
        before = column
    heads = list(zip(table.heads, table.numeric, strict=True))
    return {"heads": heads[int(grouped):], "lines": lines}
