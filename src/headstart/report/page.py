"""The report of a study as files: one self-contained page, the table in three forms, the figures.

Nothing is trained; what is not finished is shown as such. Every file is published whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart import disk, words
from headstart.atomic import publish
from headstart.errors import Damaged
from headstart.report.answer import leader
from headstart.report.content import Content, command, read_content
from headstart.report.figures.collect import drawings
from headstart.report.figures.style import FIGURE_FORMATS, Drawing
from headstart.report.results_page import FIRST_FIGURES, results_page
from headstart.report.tables.report_table import (
    PRINTED_LINES,
    ReportTable,
    TableLine,
    excerpt,
    to_csv,
    to_latex,
    to_markdown,
)
from headstart.report.tables.report_table import TableCell as TableCell
from headstart.study.language.files import PLUGIN_SOURCES, publish_study
from headstart.study.paper.snapshot import Snapshot
from headstart.study.results.results import Results
from headstart.study.results.rows import BUDGET_AMOUNTS, Point, Row
from headstart.text import escaped, json_lines

if TYPE_CHECKING:
    from jinja2 import Environment

    from headstart.store import Store
    from headstart.study.language.plan import Cell, Plan, PlannedStage

PAGE_TEMPLATE, PAGE_STYLE = (Path(__file__).with_name(name) for name in ("page.html", "style.css"))
TABLE_FORMS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def write_report(
    plan: Plan,
    results: Results,
    store: Store | Snapshot,
    folder: Path,
    width: float | None = None,
    pivot: bool = False,
    origin: str = "",
) -> Path:
    """Write page.html, results.md, the tables in three forms, study.toml and the figures; returns the page.

    The tables are `table`, `beside` where the study has a paper's cells, `sweep` where it asks for test there, and
    `pivot` (arms by columns) where that is asked for.
    `source/` has the code of plugins that the study used.
    Figures are PNG, SVG and PDF; those of the report that stood there before and are no more are deleted.
    width: of the figures that are files, in inches (None: as they stand on the page). origin: of the study (see
    `headstart.api.Study`), which is noted above study.toml.
    Raises: OSError if the folder cannot be written.
    """
    publish_study(plan.study.model_dump(mode="json"), folder, origin)
    content = read_content(plan, results, store, pivot)
    for plugin in plan.plugins:
        for name, source in plugin.sources.items():
            disk.make_folder((folder / PLUGIN_SOURCES / name).parent)
            publish(folder / PLUGIN_SOURCES / name, source)
    for name, table in content.files().items():
        for ending, form in TABLE_FORMS.items():
            publish(folder / f"{name}.{ending}", form(table).encode())
    every, undrawn = drawings(plan, results, store)
    figures = {drawing: figure for drawing in every if (figure := _publish_figure(drawing, folder, width)) is not None}
    _remove_figures(folder, figures)
    publish(folder / "results.md", results_page(content, list(figures), undrawn).encode())
    page = folder / "page.html"
    publish(page, _render(content, store, figures, undrawn).encode())
    return page


def publish_page(snapshot: Snapshot, page: Path, pivot: bool = False, content: Content | None = None) -> list[Path]:
    """Write a page of Markdown, `NAME.md`, the results that it is made of beside it, `NAME.json`, and its figures as
    `figures/NAME-FIGURE.png`; those of the page that stood there before and are no more are deleted.

    content: of the snapshot, where it is there already. Returns what was written. Raises: OSError if the folder cannot
    be written.
    """
    content = content or read_content(snapshot.plan, snapshot.results(), snapshot, pivot)
    results, figures = content.results, page.parent / "figures"
    every, undrawn = drawings(snapshot.plan, results, snapshot)
    images = {drawing: png for drawing in every for png in drawing.files(formats=["png"]).values()}
    link = f"{figures.name}/{page.stem}-"
    before = page.read_text("utf-8") if page.exists() else ""
    for name in re.findall(rf"\]\({re.escape(link)}([\w-]+\.png)\)", before):
        disk.unlink(figures / f"{page.stem}-{name}", missing_ok=True)
    disk.make_folder(figures)
    files = {figures / f"{page.stem}-{drawing.file}": png for drawing, png in images.items()}
    document = snapshot.document(results, [verdict.document() for verdict in content.verdicts])
    files |= {
        page.with_suffix(".json"): json_lines(document).encode(),
        page: results_page(content, list(images), undrawn, link, f"{page.stem}.json").encode(),
    }
    for path, data in files.items():
        publish(path, data)
    return [*reversed(files)]


def _publish_figure(drawing: Drawing, folder: Path, width: float | None) -> Mapping[str, str] | None:
    """The figure as files, and embedded for the page in light and dark; None where nothing is to be drawn."""
    on_page = drawing.figure()
    if on_page is None:
        return None
    files = drawing.files(width, None if width else on_page)
    for name, data in files.items():
        publish(folder / name, data)
    return drawing.on_page(on_page, None if width else files[f"{drawing.name}.svg"])


def _remove_figures(folder: Path, drawings: Iterable[Drawing]) -> None:
    """Delete the figures that the last report of this folder named and this one does not have."""
    page = folder / "results.md"
    names = re.findall(r"\]\(([\w-]+)\.png\)", page.read_text(encoding="utf-8")) if page.is_file() else []
    for name in set(names) - {drawing.name for drawing in drawings}:
        for ending in FIGURE_FORMATS:
            disk.unlink(folder / f"{name}.{ending}", missing_ok=True)


def _render(
    content: Content, store: Store | Snapshot, figures: Mapping[Drawing, Mapping[str, str]], undrawn: Sequence[str]
) -> str:
    """The page as HTML. `undrawn` says which figures are missing."""
    results, anchors = content.results, Anchors(content.results)
    first = [shown for drawing, shown in figures.items() if drawing.name.startswith(FIRST_FIGURES[0])]
    scored = [row for row in results.table if row.val is not None and row.test is not None]
    versions = dict.fromkeys(
        str(result.get("provenance", {}).get("versions", {}).get("headstart", ""))
        for result in content.finished.values()
    )
    context = {
        "title": results.title or results.name,
        "answer": content.answer,
        "lead": anchors.row(leader(scored).key) if scored else "",
        "caveats": results.caveats,
        "first_figures": first,
        "figures": [shown for shown in figures.values() if shown not in first],
        "undrawn": undrawn,
        "version": ", ".join(filter(None, versions)),
        "content": content,
        "pivot": page_table(content.pivot, results, anchors) if content.pivot is not None else None,
        "more": [page_table(table, results, anchors) for table in content.more.values()],
        "paper": page_table(content.beside, results, anchors) if content.beside is not None else None,
        "stages": page_stages(content.plan, results, store) if anchors.stages else [],
        "command": command(content.plan),
        "metrics": words.metric,
    }
    return fill_template(PAGE_TEMPLATE, content.table, results, anchors, context)


def fill_template(
    template: Path, table: ReportTable, results: Results, anchors: Anchors, context: Mapping[str, Any]
) -> str:
    """A page as HTML, of the template of studies or of one that extends it; every foreign text is escaped.

    context: what the template names besides the table and the runs behind it.
    Raises: jinja2.UndefinedError for a name that is not there.
    """
    return filled(
        template,
        results=results,
        anchors=anchors,
        table=page_table(table, results, anchors),
        evidence=[row_evidence(row, results, anchors) for row in results.table if anchors.row(row.key)],
        **context,
    )


def filled(template: Path, **context: Any) -> str:
    """A template with this context and the style of all pages; every foreign text is escaped.

    Raises: jinja2.UndefinedError for a name that is not there.
    """
    from markupsafe import Markup

    style = Markup(PAGE_STYLE.read_text(encoding="utf-8"))  # noqa: S704 -- the package's own file
    return _templates(template.parent).get_template(template.name).render(style=style, **context)


@cache
def _templates(folder: Path) -> Environment:
    """Those of a folder, and of all pages: once a process, since to compile one takes longer than to fill it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader([folder, PAGE_TEMPLATE.parent]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_marks,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(score=words.score, whole=_whole)
    return templates


def _without_marks(value: Any) -> Any:
    """A text (markup stays markup) in which no mark of direction turns what stands beside it around."""
    return type(value)(escaped(value)) if isinstance(value, str) else value


def _whole(text: str) -> Any:
    """A text, escaped, whose options (`--time`) are not broken at their hyphens."""
    from markupsafe import Markup, escape

    spans = re.sub(r"(?<![\w-])--[a-z][\w-]*", r'<span class="option">\g<0></span>', str(escape(text)))
    return Markup(spans)  # noqa: S704 -- escaped above


class Anchors:
    """Names of positions in the page: numbered, so that no foreign text stands in a link. Of a study of more rows than
    a table prints, runs and stages are not on the page, and nothing leads there."""

    def __init__(self, results: Results, stages: bool = True) -> None:
        whole = len(results.table) <= PRINTED_LINES
        self.stages = stages and whole
        self._rows = {row.key: f"row-{i}" for i, row in enumerate(results.table, start=1) if whole}
        self._facts = {column: f"task-{i}" for i, column in enumerate(results.columns, start=1)}

    def row(self, key: str) -> str:
        """Of the runs behind a row; empty where the page does not show them."""
        return self._rows.get(key, "")

    def facts(self, column: str) -> str:
        """Of what is known of a column's task."""
        return self._facts.get(column, "")

    def stage(self, identity: str) -> str:
        """Of a stage; empty where the page does not show stages."""
        return f"stage-{identity}" if self.stages else ""


def page_table(table: ReportTable, results: Results, anchors: Anchors) -> dict[str, Any]:
    """A table for the template: each cell's text, its head, and the anchor of what stands behind it."""
    table, grouped = excerpt(table), bool(table.heads) and table.heads[0] == "column"
    lines, before = [], ""
    for line in table.lines:
        column = str(line.cells["column"].values.get("column", "")) if grouped else ""
        link = _link(line, column or next(iter(results.columns), ""), anchors)
        cells = [
            {
                "parts": [cell.text] if i == int(grouped) or _is_whole(cell) else cell.text.split(", "),
                "head": head,
                "link": _behind(cell, link, anchors) if numeric or "chosen" in cell.values else "",
                "best": cell.best,
                "numeric": numeric,
                "name": i == int(grouped),
                "empty": cell.text == words.NONE,
            }
            for i, (cell, head, numeric) in enumerate(zip(line.cells.values(), table.heads, table.numeric, strict=True))
        ]
        group = line.cells["column"].text if column != before else ""
        lines.append({"kind": line.kind, "best": line.best, "group": group, "cells": cells[int(grouped) :]})
        before = column
    heads = list(zip(table.heads, table.numeric, strict=True))
    return {"title": table.title, "heads": heads[int(grouped) :], "lines": lines, "note": table.note}


def _is_whole(cell: TableCell) -> bool:
    """Whether the commas of a cell do not part it: those of an interval do not."""
    return "chosen" not in cell.values and "[" in cell.text


def _behind(cell: TableCell, link: str, anchors: Anchors) -> str:
    """Where a cell leads: to the row behind it, else where its line does; nowhere without a number."""
    if cell.text == words.NONE:
        return ""
    return anchors.row(cell.key) if cell.key else link


def _link(line: TableLine, column: str, anchors: Anchors) -> str:
    """Where a number of a line leads; a cell of a paper that is not run here leads nowhere."""
    if line.key:
        return anchors.row(line.key)
    if line.kind == "baseline":
        return anchors.facts(column)
    return "evidence" if line.kind == "average" else ""


def page_stages(plan: Plan, results: Results, store: Store | Snapshot) -> list[dict[str, Any]]:
    """All stages of a plan, parents first, with the rows that each serves in its title.

    `chosen`: a reported number rests on it; the others are listed.
    """
    chosen = {identity for row in (*results.table, *results.baselines) for identity in row.stages}
    serves: dict[str, dict[str, None]] = {}
    settings: dict[str, dict[str, None]] = {}
    for cell in (*plan.cells, *plan.baselines):
        for planned in cell.chain:
            serves.setdefault(planned.identity, {})[_title(cell, results)] = None
            own = {
                k: v
                for k, v in cell.settings.items()
                if k.startswith(f"{planned.name}.") or k.split(".")[0] not in plan.study.stages
            }
            settings.setdefault(planned.identity, {})[words.settings(own, results.names)] = None
    out = []
    for identity, planned in plan.every_stage.items():
        texts = [text for text in settings.get(identity, {}) if text != words.NONE]
        title = ", ".join([words.listed(list(serves.get(identity, {}))), *texts])
        out.append(_stage(planned, title, identity in chosen, store))
    return out


def _title(item: Cell | Row, results: Results) -> str:
    return f"{item.arm} on {item.column}" if len(results.columns) > 1 else item.arm


def _stage(planned: PlannedStage, title: str, chosen: bool, store: Store | Snapshot) -> dict[str, Any]:
    try:
        entry = store.entry(planned.identity)
        status, result = str(entry.status), entry.result or {}
        parent = str((entry.stage or {}).get("parent") or "")
    except Damaged:
        status, result, parent = "failed", {}, ""
    spec = {**planned.spec.model_dump(mode="json"), "parent": parent or None}
    monitor = result.get("monitor", {}).get("name", "")
    best = result.get("scores", {}).get("best", {}).get("val", {}).get(monitor)
    scores, metrics = _scores(result)
    return {
        "identity": planned.identity,
        "name": planned.name,
        "title": title,
        "status": status,
        "chosen": chosen,
        "seed": planned.spec.seed,
        "monitored": f"{words.metric(monitor)} {words.score(best)}" if monitor else "",
        "parent": parent,
        "spec": json.dumps(spec, indent=1, ensure_ascii=False),
        "result": result,
        "scores": scores,
        "metrics": metrics,
        "budget": _budget(result),
        "provenance": _provenance(result),
        "account": result.get("parameters", {}).get("account", ()),
        "files": list(result.get("files", {}).items()),
    }


def _scores(result: Mapping[str, Any]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Lines (weights and split -> scores as text) and the names of the scores."""
    tables = [
        (f"{weights} (epoch {words.plain(scores.get('epoch'))}), {split}", scores[split])
        for weights, scores in sorted(result.get("scores", {}).items())
        for split in ("train", "val", "test")
        if split in scores
    ]
    names = list(dict.fromkeys(name for _, scores in tables for name in scores))
    lines = [(title, [words.score(scores.get(name)) for name in names]) for title, scores in tables]
    return lines, [words.metric(name) for name in names]


def _budget(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    budget, parameters = result.get("budget", {}), result.get("parameters", {})
    out = [(_amount(name), _size(name, budget[name])) for name in BUDGET_AMOUNTS if budget.get(name) is not None]
    out += [("peak memory", words.measure(budget["peak_memory"], "B"))] if budget.get("peak_memory") else []
    counts = (("parameters", "total"), ("of them trained", "trainable"))
    return out + [(name, f"{parameters.get(key, 0):,}") for name, key in counts if parameters]


def _amount(name: str) -> str:
    return "time" if name == "seconds" else name


def _size(name: str, value: float | None) -> str:
    return words.duration(value) if name == "seconds" else words.count(value)


def _provenance(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    values = dict(result.get("provenance", {}))
    versions = ", ".join(f"{name} {version}" for name, version in values.pop("versions", {}).items())
    return [*((name, words.plain(value)) for name, value in values.items()), *[("versions", versions)] * bool(versions)]


def row_evidence(row: Row, results: Results, anchors: Anchors) -> dict[str, Any]:
    """The evidence of one row for the template: its runs by seed, its paired differences, its sweep."""
    base = results.row(results.against, row.column) if results.against and results.against != row.arm else None
    theirs = base.by_seed() if base is not None else {}
    runs = [
        {
            "seed": run.seed,
            "status": run.status,
            "val": words.score(run.val),
            "test": words.score(run.test),
            "gap": words.signed(run.test - theirs[run.seed])
            if run.test is not None and run.seed in theirs
            else words.NONE,
            "time": words.duration(run.budget.get("seconds")),
            "stages": _links(run.stages, anchors),
        }
        for run in row.runs
    ]
    budgets = (row.budget, row.last, row.tried)
    return {
        "anchor": anchors.row(row.key),
        "title": _title(row, results),
        "row": row,
        "runs": runs,
        "chosen": words.settings(row.chosen, results.names),
        "metric": words.metric(row.metric),
        "against": results.against if base is not None else "",
        "other": anchors.row(base.key) if base is not None else "",
        "points": [_point(point, row, results, anchors) for point in row.points] if len(row.points) > 1 else [],
        "amounts": [(_amount(name), *(_size(name, budget.get(name)) for budget in budgets)) for name in BUDGET_AMOUNTS],
    }


def _point(point: Point, row: Row, results: Results, anchors: Anchors) -> dict[str, Any]:
    return {
        "settings": words.settings(point.settings, results.names),
        "val": words.plus_minus(point.val),
        "n": point.val.n if point.val else 0,
        "status": point.status,
        "chosen": point.settings == row.chosen,
        "stages": _links([run.stages[-1] for run in point.runs], anchors),
    }


def _links(stages: Sequence[tuple[str, str]], anchors: Anchors) -> list[dict[str, str]]:
    return [{"name": name, "identity": identity, "anchor": anchors.stage(identity)} for name, identity in stages]
