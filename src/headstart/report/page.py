"""The report of a study as files: one self-contained page, the table in three forms, the figures.

Nothing is trained; what is not finished is shown as such. Every file is published whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headstart.report.answer import leader
from headstart.report.content import SOURCE, Content, command, read_content, results_page
from headstart.report.figures.collect import drawings
from headstart.report.figures.style import Drawing, png
from headstart.report.page_context import Anchors, page_stages, page_table, row_evidence
from headstart.report.tables.model import to_csv, to_latex, to_markdown
from headstart.store import publish
from headstart.study import words
from headstart.study.files import to_toml

if TYPE_CHECKING:
    from jinja2 import Environment

    from headstart.store import Store
    from headstart.study.plan import Plan
    from headstart.study.results import Results

TEMPLATE, STYLE = (Path(__file__).with_name(name) for name in ("page.html", "style.css"))
FORMS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def write_report(plan: Plan, results: Results, store: Store, folder: Path) -> Path:
    """Write page.html, results.md, the tables in three forms, study.toml and the figures as PNG; returns the page.

    The tables are `table`, `beside` where the study has a paper's cells, and `sweep` where it asks for test there.
    `source/` has the code of plugins that the study used.
    Raises: OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = read_content(plan, results, store)
    publish(folder / "study.toml", to_toml(plan.study.model_dump(mode="json")).encode())
    for plugin in plan.plugins:
        for name, source in plugin.sources.items():
            (folder / SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
            publish(folder / SOURCE / name, source)
    for name, table in content.files().items():
        for ending, form in FORMS.items():
            publish(folder / f"{name}.{ending}", form(table).encode())
    every, undrawn = drawings(plan, results, store)
    figures = {drawing: figure for drawing in every if (figure := _publish_figure(drawing, folder)) is not None}
    publish(folder / "results.md", results_page(content, list(figures), undrawn).encode())
    page = folder / "page.html"
    publish(page, _render(content, store, list(figures.values()), undrawn).encode())
    return page


def _publish_figure(drawing: Drawing, folder: Path) -> Mapping[str, str] | None:
    """The figure as a PNG file, and embedded for the page in light and dark; None where there is nothing to draw."""
    alone = drawing.figure(alone=True)
    if alone is None:
        return None
    publish(folder / drawing.file, png(alone))
    return drawing.on_page(None if drawing.headline else alone)


def environment() -> Environment:
    """Templates in which text is escaped, a missing name is an error, and `style` is the style sheet."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    templates = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    templates.filters.update(score=words.score, duration=words.duration, count=words.count, plain=words.plain)
    templates.globals["style"] = Markup(STYLE.read_text(encoding="utf-8"))  # noqa: S704 -- the package's own file
    return templates


def _render(content: Content, store: Store, figures: Sequence[Mapping[str, str]], undrawn: Sequence[str]) -> str:
    """The page as HTML; every foreign text is escaped by the template. `undrawn` says which figures are missing."""
    results = content.results
    anchors = Anchors(results)
    rows = [row for row in results.table if row.val is not None and row.test is not None]
    versions = dict.fromkeys(
        str(result.get("provenance", {}).get("versions", {}).get("headstart", ""))
        for result in content.finished.values()
    )
    return (
        environment()
        .from_string(TEMPLATE.read_text(encoding="utf-8"))
        .render(
            content=content,
            results=results,
            table=page_table(content.table, results, anchors),
            more=[page_table(table, results, anchors) for table in content.more.values()],
            paper=page_table(content.beside, results, anchors) if content.beside is not None else None,
            lead=anchors.row(leader(rows).key) if rows else "",
            anchors=anchors,
            figures=figures,
            undrawn=undrawn,
            stages=page_stages(content.plan, results, store),
            evidence=[row_evidence(row, results, anchors) for row in results.table],
            command=command(content.plan),
            metrics=words.metric,
            version=", ".join(filter(None, versions)),
        )
    )
