"""The page of a fit: a study's page with sections of its own; one self-contained file that loads nothing, runs nothing.

It holds no id or name of a file, and no sequence unless recordings or examples are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from headstart import words
from headstart.fitted import wording
from headstart.fitted.evidence import drawings, filled_in
from headstart.fitted.outcome import Outcome
from headstart.fitted.recordings import Shown
from headstart.report.figures.predictions import confusion_of
from headstart.report.page import Anchors, fill_template, page_table
from headstart.report.tables.report_table import text_table

TEMPLATE = Path(__file__).with_name("fit.html")


def write_page(
    outcome: Outcome, examples: Mapping[str, np.ndarray] | None = None, recordings: Shown | None = None
) -> str:
    """The page as HTML; every foreign text is escaped by the template.

    examples: predictions of a masked stage on validation (see `reconstruction.read_predictions`), shown beside what was
    filled in. recordings: of each class, and the surest mistakes. Data come into the page by these two alone.
    """
    results, anchors = outcome.results, Anchors(outcome.results, stages=False)
    tested, split = outcome.held_out
    classed = outcome.labels and len(tested.target)
    matrix = confusion_of(tested.target, tested.predicted.argmax(1), outcome.labels, split) if classed else None
    tables = [text_table(heads, rows) for heads, rows in outcome.card.tables]
    seeds = [("seeds", words.listed([str(seed) for seed in outcome.seeds]))] if outcome.seeds else []
    filled = filled_in(outcome, examples) if examples is not None else None
    figures = [(item.name, shown) for item in drawings(outcome) if (shown := item.on_page()) is not None]
    context = {
        "title": outcome.title,
        "answer": outcome.answer,
        "lead": anchors.row(outcome.candidate(outcome.serves).row.key),
        "caveats": wording.caveats(outcome),
        "recordings": recordings,
        "brief": wording.in_short(outcome),
        "gravest": outcome.gravest,
        "split": split,
        "numbers": not outcome.labels,
        "states": wording.STATES,
        "errors": [figure for name, figure in figures if name == "errors"],
        "figures": [figure for name, figure in figures if name != "errors"],
        "undrawn": (),
        "version": outcome.versions.get("headstart", ""),
        "outcome": outcome,
        "explained": [wording.EXPLAINED[name] for name in wording.measures_of(outcome)],
        "own": wording.own_score(outcome),
        "predict": wording.predict_command(outcome),
        "served": wording.served_words(outcome),
        "takes": wording.input_words(outcome),
        "chosen": wording.how_chosen(outcome),
        "matrix": matrix,
        "mistakes": [page_table(table, results, anchors) for table in matrix.tables] if matrix else [],
        "filled": filled.on_page() if filled is not None else None,
        "filling": wording.filling_score(outcome),
        "examples": examples is not None,
        "pairs": wording.data_pairs(outcome),
        "findings": wording.data_findings(outcome),
        "data": [page_table(table, results, anchors) for table in tables],
        "about": [*seeds, *outcome.versions.items()],
    }
    return fill_template(TEMPLATE, wording.models_table(outcome), results, anchors, context)
