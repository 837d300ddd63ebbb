"""The report of a study as files: one self-contained page, the table in three forms, the figures.

Nothing is trained; what is not finished is shown as such. Every file is published whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.report.answer import answer, leader
from headstart.report.beside import beside
from headstart.report.evidence import Anchors, page_stages, sweep_rows
from headstart.report.figures.collect import drawings
from headstart.report.figures.style import Drawing, png
from headstart.report.lines import Line, Table
from headstart.report.methods import methods
from headstart.report.quantities import tried
from headstart.report.results_page import asked_sweep, command, more_tables, results_page
from headstart.report.tables import make_table, to_csv, to_latex, to_markdown
from headstart.report.template import environment
from headstart.report.toml import to_toml
from headstart.report.verdicts import asked, unprinted, verdicts
from headstart.store.files import publish
from headstart.study import words
from headstart.study.results import Results

if TYPE_CHECKING:
    from headstart.store.stages import Store
    from headstart.study.plan import Plan

TEMPLATE = Path(__file__).with_name("page.html")


def write_report(plan: Plan, results: Results, store: Store, folder: Path) -> Path:
    """Write page.html, results.md, the tables in three forms, study.toml and the figures as PNG; returns the page.

    The tables are `table`, `beside` where the study has a paper's cells, and `sweep` where it asks for test there.
    Raises: OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    publish(folder / "study.toml", to_toml(_document(plan)).encode())
    tables = {"table": make_table(results)}
    if results.paper is not None and (cells := beside(results, results.paper)).lines:
        tables["beside"] = cells
    if (swept := asked_sweep(plan, results)) is not None:
        tables["sweep"] = swept
    for name, table in tables.items():
        for ending, written in (("md", to_markdown), ("csv", to_csv), ("tex", to_latex)):
            publish(folder / f"{name}.{ending}", written(table).encode())
    figures, captions = [], []
    every, undrawn = drawings(plan, results, store)
    for drawing in every:
        figure = _publish_figure(drawing, folder)
        if figure is not None:
            figures.append(figure)
            captions.append((f"{drawing.name}.png", drawing.title, drawing.caption))
    publish(folder / "results.md", results_page(plan, results, store, captions, undrawn).encode())
    page = folder / "page.html"
    publish(page, render(plan, results, store, figures, undrawn).encode())
    return page


def _publish_figure(drawing: Drawing, folder: Path) -> dict[str, str] | None:
    """The figure as a PNG file, and embedded for the page in light and dark; None where there is nothing to draw."""
    alone = drawing.figure(alone=True)
    if alone is None:
        return None
    publish(folder / f"{drawing.name}.png", png(alone))
    return drawing.on_page(None if drawing.headline else alone)


def _document(plan: Plan) -> Mapping[str, Any]:
    found: Mapping[str, Any] = plan.study.model_dump(mode="json")
    return found


def render(
    plan: Plan, results: Results, store: Store, figures: Sequence[Mapping[str, str]], undrawn: Sequence[str] = ()
) -> str:
    """The page as HTML; every foreign text is escaped by the template. `undrawn` says which figures are missing."""
    template = environment().from_string(TEMPLATE.read_text(encoding="utf-8"))
    anchors = Anchors(results)
    stages = page_stages(plan, results, store)
    done = [s.result for s in stages if s.result]
    rows = [row for row in results.table if row.val is not None and row.test is not None]
    paper = results.paper
    return template.render(
        results=results,
        table=_cells(make_table(results), results, anchors),
        answer=answer(results),
        besides=[_cells(table, results, anchors) for table in more_tables(plan, results)],
        paper=_cells(beside(results, paper), results, anchors) if paper is not None else None,
        verdicts=verdicts(results, paper),
        asked=asked(results),
        unprinted=unprinted(results),
        lead=anchors.row(leader(rows).key) if rows else "",
        anchors=anchors,
        figures=figures,
        undrawn=undrawn,
        methods=f"{methods(plan, results, done)} {tried(results)}",
        stages=stages,
        evidence=[sweep_rows(row, results, anchors) for row in results.table],
        command=command(plan),
        metrics=words.metric,
        version=_versions(done),
    )


def _versions(stages: list[Mapping[str, Any]]) -> str:
    found = dict.fromkeys(str(s.get("provenance", {}).get("versions", {}).get("headstart", "")) for s in stages)
    return ", ".join(v for v in found if v)


def _cells(table: Table, results: Results, anchors: Anchors) -> dict[str, Any]:
    """A table for the template: each cell's text, its head, and the anchor of what stands behind it."""
    grouped = bool(table.heads) and table.heads[0] == "column"
    lines, before = [], ""
    for line in table.lines:
        column = str(line.cells[0].values.get("column", "")) if grouped else ""
        cells = [
            {
                "parts": cell.text.split(", ") if "chosen" in cell.values else [cell.text],
                "head": head,
                "link": _link(line, column, results, anchors)
                if (numeric or "chosen" in cell.values) and cell.text != words.NONE
                else "",
                "numeric": numeric,
                "name": "arm" in cell.values,
                "empty": cell.text == words.NONE,
            }
            for cell, head, numeric in zip(line.cells, table.heads, table.numeric, strict=True)
        ]
        group = line.cells[0].text if grouped and column != before else ""
        lines.append({"kind": line.kind, "best": line.best, "group": group, "cells": cells[int(grouped) :]})
        before = column
    heads = list(zip(table.heads, table.numeric, strict=True))
    return {"title": table.title, "heads": heads[int(grouped) :], "lines": lines, "note": table.note}


def _link(line: Line, column: str, results: Results, anchors: Anchors) -> str:
    """Where a number of a line leads; a cell of a paper that is not run here leads nowhere."""
    if line.key:
        return anchors.row(line.key)
    if line.kind == "baseline":
        return anchors.facts(column or (results.columns[0] if results.columns else ""))
    return "evidence" if line.kind == "average" else ""
