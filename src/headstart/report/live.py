"""A page of a study that runs: its stages, its table and its curves, from the records in the store alone."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.report.answer import answer
from headstart.report.figures.collect import MOST_DRAWN, curve_drawings
from headstart.report.figures.curves import TOGETHER, curves_together, curves_told
from headstart.report.figures.style import Drawing
from headstart.report.figures.trained import stand_in_of
from headstart.report.page import PAGE_TEMPLATE, Anchors, filled, page_table
from headstart.report.tables.scores import make_table
from headstart.store import DONE
from headstart.study.paper.summary import summarise
from headstart.study.results.collect import ReadRecords, undamaged
from headstart.study.results.results import Results
from headstart.study.results.rows import Row
from headstart.text import counted

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.store.stages import StageEntry
    from headstart.study.language.plan import Plan

LIVE_TEMPLATE = PAGE_TEMPLATE.with_name("live.html")
RENEWED_EVERY = 3.0
"""Seconds from one look of an open page to its next."""
UNCHOSEN = "where nothing is chosen yet, at the settings that have come furthest"


def live_page(plan: Plan, store: Store, nonce: str = "", ended: str = "") -> str:
    """The page as HTML, of what the store holds now; every foreign text is escaped.

    nonce: with which the page's one script, that renews it, may run. ended: said where the run is over.
    """
    stages, runs, records = plan.every_stage, plan.runs_of(), functools.cache(undamaged(store.records))
    entries = {identity: store.entry(identity) for identity in stages}
    names = {
        identity: {"identity": identity, "name": stages[identity].name, "run": runs[identity]} for identity in runs
    }
    context: dict[str, Any] = {"answer": "", "table": None, "setting": "", "figures": []}
    if plan.cells:  # a search that has chosen nothing has none
        results = summarise(plan, lambda name: entries[name].result, lambda name: entries[name].status, {}, records)
        context = {
            "answer": answer(results),
            "table": _unlinked(page_table(make_table(results), results, Anchors(results))),
            "setting": words.sentences(results.setting),
            "figures": [image for drawing in _drawings(results) if (image := drawing.on_page()) is not None],
        }
    return filled(
        LIVE_TEMPLATE,
        name=plan.study.name,
        title=plan.study.title or plan.study.name,
        store=str(store.root),
        counted=_counted(entries),
        running=list(_running(names, records, entries)),
        failed=[names[i] | {"message": entry.message} for i, entry in entries.items() if entry.status == "failed"],
        nonce=nonce,
        every=round(1000 * RENEWED_EVERY),
        ended=ended,
        **context,
    )


def _counted(entries: Mapping[str, StageEntry]) -> str:
    """`12 of 40 stages are done, 2 run, 1 failed.`"""
    states = Counter("done" if entry.status in DONE else str(entry.status) for entry in entries.values())
    parts = [f"{states['done']} of {counted(len(entries), 'stage', 'stages')} done", f"{states['running']} running"]
    parts += [f"{states[name]} {name}" for name in ("failed", "cut") if states[name]]
    return f"{', '.join(parts)}."


def _running(
    names: Mapping[str, dict[str, str]], records: ReadRecords, entries: Mapping[str, StageEntry]
) -> Iterator[dict[str, str]]:
    """What runs now, with its last evaluation. names: what each stage is, and of which run."""
    for identity, entry in entries.items():
        if entry.status == "running":
            last = next(iter(reversed(records(identity))), {})
            scores = ", ".join(
                f"{words.metric(name)} {words.score(value)}" for name, value in last.get("val", {}).items()
            )
            yield names[identity] | {
                "epoch": words.plain(last["epoch"]) if last.get("epoch") is not None else words.NONE,
                "scores": scores,
            }


def _unlinked(table: dict[str, Any]) -> dict[str, Any]:
    """The table without links to the runs behind it, which this page does not have."""
    for line in table["lines"]:
        for cell in line["cells"]:
            cell["link"] = ""
    return table


def _drawings(results: Results) -> Iterator[Drawing]:
    """Learning curves as the report has them, of what has records."""
    if len(results.arms) > MOST_DRAWN["arms"] or len(results.columns) > MOST_DRAWN["columns"]:
        return
    assert results.records is not None, "they are read with their records"
    records = results.records
    results = replace(results, table=tuple(_furthest(row, records) for row in results.table))
    if len(results.columns) > TOGETHER:
        text = f"The reported score of each arm: {curves_told(results, *results.columns)}; {UNCHOSEN}."
        draw = partial(curves_together, results, records)
        yield Drawing("curves", "Learning curves of all columns", text, draw, stand_in_of(results.stood_in))
        return
    for column in results.columns:
        yield from curve_drawings(results, column, records, f"Each arm at its chosen settings, and, {UNCHOSEN}")


def _furthest(row: Row, records: Any) -> Row:
    """The row with the runs of its chosen settings; before a choice, of the settings that have most records."""
    if row.runs:
        return row
    amounts = [sum(len(records(name)) for run in point.runs for _, name in run.stages) for point in row.points]
    best = max(range(len(amounts)), key=amounts.__getitem__, default=None)
    return row if best is None or not amounts[best] else replace(row, runs=tuple(row.points[best].runs))
