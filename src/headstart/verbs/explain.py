"""`headstart predict --explain`: where a model looks in each sequence, as a table and as a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headstart.analysis import occlusion
from headstart.atomic import publish, writing
from headstart.data import Sequences
from headstart.errors import BadInput
from headstart.report.page import PAGE_TEMPLATE, filled
from headstart.serve.model import Served, of_examples
from headstart.serve.predictions import Predictions, check_path, predictions_of, write_predictions

EXPLAIN_TEMPLATE = PAGE_TEMPLATE.with_name("explain.html")
FIRST_COLUMN, LAST_COLUMN, DROP_COLUMN = "first", "last", "drop"
"""Names of columns: the positions of a window, counted from 1, and what the answer loses without its values."""
SHOWN_SEQUENCES = 100
"""Sequences on the page; the table has all."""
FALLS, RISES = "0 90 181", "220 50 32"
"""Colours of a window without which the answer falls, and of one without which it rises."""


def page_of(table: Path) -> Path:
    """The page beside a table of explanations. Raises: BadInput for an ending that no table has."""
    ending = check_path(table)
    name = table.name[: table.name.lower().rindex(ending)]
    return table.with_name(f"{name}.html")


def write_explanations(served: Served, name: str, s: Sequences, answers: np.ndarray, path: Path) -> str:
    """Write where the model `name` looks in each of these sequences to `path`, a row for each window, and to the page
    beside it. answers: what it says of them. Returns a sentence on both.

    Raises: BadInput where there is one sequence alone, and where there is no room or no right to write.
    """
    if len(s) < 2:
        raise BadInput(
            f"--explain: {s.layout.source or 'the file'} holds one sequence, and a window is explained by another "
            "sequence's values; give at least two"
        )
    classes = served.config.preparation.classes
    x = served.examples(s, patched=False)
    explained = occlusion.explained(lambda some: of_examples(served, some, name), x, answers, bool(classes))
    predictions = predictions_of(s, answers, classes)
    write_predictions(_table(predictions, explained), path)
    page = page_of(path)
    with writing(page, "the page "):
        publish(page, _page(predictions, explained, name, bool(classes), path.name).encode())
    return (
        f"where {name} looks in {len(s):,} sequences: {path}, and the first {min(len(s), SHOWN_SEQUENCES):,} on {page}"
    )


def _table(predictions: Predictions, explained: occlusion.Explained) -> Predictions:
    """A row for each window that a sequence has positions in."""
    row, window = np.nonzero(~np.isnan(explained.drop))
    columns = {FIRST_COLUMN: explained.first, LAST_COLUMN: explained.last, DROP_COLUMN: explained.drop}
    answers = predictions.predicted
    return Predictions(
        predictions.key,
        [predictions.keys[i] for i in row.tolist()],
        answers[row] if isinstance(answers, np.ndarray) else [answers[i] for i in row.tolist()],
        {name: column[row, window].astype(np.float64) for name, column in columns.items()},
        {name: column[row] for name, column in predictions.within.items()},
    )


def _page(predictions: Predictions, explained: occlusion.Explained, name: str, classes: bool, table: str) -> str:
    """The page as HTML."""
    drops = explained.drop[:SHOWN_SEQUENCES]
    largest = float(np.nanmax(np.abs(drops))) or 1.0
    rows = []
    for i, (key, within, answer, _) in zip(range(len(drops)), predictions.rows(), strict=False):
        places = [
            f"{a} to {b}" if b > a else f"{a}" for a, b in zip(explained.first[i], explained.last[i], strict=True)
        ]
        cells = [
            (
                FALLS if drop >= 0 else RISES,
                f"{(abs(drop) / largest) ** 0.5:.3f}",
                f"positions {positions}: {drop:+.3g}",
            )
            for drop, positions in zip(np.nan_to_num(drops[i]).tolist(), places, strict=True)
        ]
        most = int(np.nanargmax(drops[i]))
        of = f"{key}, {' to '.join(f'{time:g}' for time in within)}" if within else key
        row = {"key": of, "answer": answer if isinstance(answer, str) else f"{answer:.6g}", "cells": cells}
        rows.append({**row, "most": f"{places[most]} ({drops[i, most]:.3g})" if drops[i, most] > 0 else "none alone"})
    if classes:
        change = "the probability of the predicted class falls"
        hint = "Blue: without the window's own values the probability falls; red: it rises"
    else:
        change, hint = "the predicted number moves", "The darker a window, the more the number moves"
    return filled(
        EXPLAIN_TEMPLATE,
        title=f"Where the model “{name}” looks",
        answer=f"The colours say by how much {change} where a window of the sequence holds another sequence's values, "
        f"on average over {occlusion.DRAWS} other sequences of the same file.",
        hint=f"{hint}; the strongest colour stands for {largest:.3g}. Where several windows say the same, none of them "
        f"costs the model anything alone. Positions count from 1; {table} has all numbers.",
        key=predictions.key,
        windows=drops.shape[1],
        rows=rows,
    )
