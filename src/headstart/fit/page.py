"""The page of a fit: the answer, the table, the evidence; one self-contained file that loads nothing and runs nothing.

It holds no sequence, id or name of a file, unless examples are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.baselines.measures import reliability
from headstart.data.card import CHANNELS, CLASSES
from headstart.fit import wording
from headstart.fit.confusion import ConfusionMatrix, confusion_matrix
from headstart.fit.figures import looks, numbers, reliable, single
from headstart.fit.outcome import Candidate, Outcome
from headstart.report.figures.curves import TRAIN, curves
from headstart.report.figures.reconstruction import caption, read_predictions, reconstruction
from headstart.report.figures.style import embedded
from headstart.report.page import environment
from headstart.study import words
from headstart.study.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = Path(__file__).with_name("page.html")


def write_page(outcome: Outcome, examples: Mapping[str, np.ndarray] | None = None) -> str:
    """The page as HTML; every foreign text is escaped by the template.

    examples: predictions of a masked stage on validation (see `reconstruction.read_predictions`), shown beside what was
    filled in; the one way in which data come into the page.
    """
    template = environment().from_string(TEMPLATE.read_text(encoding="utf-8"))
    tested = wording.labelled(outcome.test)
    matrix = None
    if outcome.labels and len(tested.target):
        matrix = confusion_matrix(tested.target, tested.predicted.argmax(1), outcome.labels)
    return template.render(
        o=outcome,
        heads=_heads(outcome),
        lines=[_line(candidate, outcome) for candidate in outcome.candidates],
        explained=[wording.EXPLAINED[name] for name in wording.measures(outcome)],
        own=wording.own_score(outcome),
        compared=_compared(outcome),
        served=wording.served_words(outcome),
        takes=wording.input_words(outcome),
        chosen=wording.how_chosen(outcome),
        caveats=wording.caveats(outcome),
        matrix=matrix,
        matrix_caption=_matrix_caption(matrix),
        right=[figure for figure in (_numbers(outcome),) if figure],
        figures=[figure for figure in (_reliable(outcome), _looks(outcome), _curves(outcome)) if figure],
        filled=_filled(outcome, examples),
        filling=wording.filling_score(outcome),
        examples=examples is not None,
        pairs=wording.data_pairs(outcome),
        findings=wording.data_findings(outcome),
        tables=[part for part in ((CLASSES, outcome.card.classes), (CHANNELS, outcome.card.channels)) if part[1]],
        runs=[_runs(row, outcome) for row in outcome.results.table if row.runs],
        about=_about(outcome),
        predict=wording.predict_command(outcome),
        dash=words.NONE,
    )


def _heads(outcome: Outcome) -> list[tuple[str, bool]]:
    """Heads of the table of models, and whether they head numbers."""
    first, *more = wording.measures(outcome)
    name = words.metric(first)
    heads = [("model", False), (f"val {name}", True)]
    if _has_test(outcome):
        heads += [(f"test {name}", True)]
        heads += [("difference to scratch", True)] if _compared(outcome) else []
        heads += [(f"test {words.metric(measure)}", True) for measure in more]
    return [*heads, ("n", True), ("time", True)]


def _line(candidate: Candidate, outcome: Outcome) -> dict[str, Any]:
    """A candidate's cells under those heads."""
    cells = [words.plus_minus(candidate.val)]
    if _has_test(outcome):
        cells += [words.plus_minus(candidate.test)]
        cells += [words.difference(candidate.difference)] if _compared(outcome) else []
        cells += [words.plus_minus(candidate.more.get(name)) for name in wording.measures(outcome)[1:]]
    cells += [str(candidate.n), words.duration(candidate.seconds)]
    chosen = wording.chosen_words(candidate.chosen)
    badges = [
        text
        for text, holds in (
            ("best on validation", candidate.name == outcome.winner),
            ("served", candidate.name == outcome.serves),
        )
        if holds
    ]
    text = f"{candidate.text}; {chosen}" if chosen else candidate.text
    return {
        "name": candidate.name,
        "text": text,
        "cells": cells,
        "badges": badges,
        "best": candidate.name == outcome.winner,
        "quiet": candidate.name == "majority",
    }


def _has_test(outcome: Outcome) -> bool:
    return any(candidate.test is not None for candidate in outcome.candidates)


def _compared(outcome: Outcome) -> bool:
    return any(candidate.difference is not None for candidate in outcome.candidates)


def _matrix_caption(matrix: ConfusionMatrix | None) -> str:
    if matrix is None:
        return ""
    if not matrix.lines:
        return (
            f"There are {len(matrix.classes)} classes, too many for a matrix: the commonest mistakes on test, each "
            "with its share of the sequences of the true class."
        )
    names = " Columns have the numbers of the rows." if matrix.numbered else ""
    return (
        "Each row is a true class and counts its test sequences by the class that the model predicted, with the share "
        f"of the row below each count.{names} Correct predictions are on the diagonal. Recall: the share of a class's "
        "sequences that were predicted correctly. Precision, in the last row: the share of the sequences predicted as "
        "a class that belong to it."
    )


def _figure(title: str, text: str, draw: Callable[[bool], Figure | None]) -> dict[str, Any] | None:
    """A figure in light and dark, or None where there is nothing to draw."""
    light = draw(False)
    if light is None:
        return None
    return {
        "title": title,
        "said": text,
        "light": embedded(light),
        "dark": embedded(draw(True)),
        "width": round(100 * light.get_figwidth()),
    }


def _reliable(outcome: Outcome) -> dict[str, Any] | None:
    """How far the probabilities of the served model can be taken at their word."""
    tested = wording.labelled(outcome.test)
    if not outcome.labels or not len(tested.target):
        return None
    after, before = reliability(tested.target, tested.predicted), None
    error = (
        f"The expected calibration error, the mean distance from that line over all test sequences, is "
        f"{words.score(after.error)}"
    )
    if outcome.uncalibrated is not None:
        raw = outcome.uncalibrated[outcome.test.target >= 0]
        before = reliability(tested.target, raw)
        error += (
            f"; without calibration (one temperature, {_temperature(outcome)}, chosen on validation, by which "
            f"scores are divided) it is {words.score(before.error)}"
        )
    text = (
        "Of the test sequences to whose class the model gives about 80 %, about 80 % should be right: points on "
        "the dotted line. Points below it are answers that are surer than they should be; larger points stand "
        f"for more sequences, and the bars count them. {error}."
    )
    return _figure("Can its probabilities be believed?", text, lambda dark: reliable(after, before, dark))


def _temperature(outcome: Outcome) -> str:
    config = outcome.served.config
    if wording.is_network(outcome.serves):
        return f"{config.network.temperature:.3g}" if config.network is not None else words.NONE
    return f"{config.classics[outcome.serves].temperature:.3g}"


def _numbers(outcome: Outcome) -> dict[str, Any] | None:
    tested = wording.labelled(outcome.test)
    if outcome.labels or not len(tested.target):
        return None
    text = (
        "Left: each point is a test sequence, its true number across and the prediction of the served model upwards; "
        "on the dotted line it is right. Right: how many errors there are of each size; above 0 the prediction is "
        "too high."
    )
    return _figure("Right and wrong on test", text, lambda dark: numbers(tested.target, tested.predicted, dark))


def _looks(outcome: Outcome) -> dict[str, Any] | None:
    occlusion = outcome.occlusion
    if occlusion is None:
        return None
    classes = bool(outcome.labels)
    verb = "falls" if classes else "grows"
    cost = f"how much the {occlusion.what} {verb} on average" + ("" if classes else ", in the target's unit")
    text = (
        f"Of {words.many(occlusion.rows, 'sequence')}, one of {len(occlusion.drop)} equal windows at a time was "
        f"replaced by what another sequence has in that place. The height is {cost}: where it is high, the served "
        "model relies on what stands there; near 0 it does not, or finds the same elsewhere. Lines are ± one standard "
        "error over sequences."
    )
    return _figure("Where the model looks", text, lambda dark: looks(occlusion, classes, dark))


def _curves(outcome: Outcome) -> dict[str, Any] | None:
    results = outcome.results
    if not results.columns or not results.in_column(results.columns[0]):
        return None

    def draw(dark: bool) -> Figure | None:
        return curves(results, results.columns[0], lambda identity: outcome.records.get(identity, []), dark)

    both = any(len(run.stages) > 1 for row in results.table for run in row.runs)
    before = " pretrain is the self-pretraining before it, which hides values and asks for them back." if both else ""
    text = (
        "How the networks learnt, at the settings that validation chose: mean over seeds, with a band of one "
        f"standard error; {TRAIN}. finetune is training on the labels.{before} Where validation gets worse while "
        "train gets better, the best weights on validation are kept."
    )
    return _figure("How the networks learnt", text, draw)


def _filled(outcome: Outcome, examples: Mapping[str, np.ndarray] | None) -> dict[str, Any] | None:
    """Masked inputs beside their reconstruction, of examples that were given."""
    filled = read_predictions(examples) if examples is not None else None
    if filled is None:
        return None
    known = outcome.served.config.preparation
    whole = single(filled, known.patch)
    text = caption(filled, False)
    text += " Values are standardised." if known.mean else ""
    text += f" Shown is the first of {len(known.channels)} channels." if len(known.channels) > 1 else ""
    text += " Missing values stand at 0." if known.missing else ""
    return _figure("What self-pretraining learnt to fill in", text, lambda dark: reconstruction(whole, None, dark))


def _runs(row: Row, outcome: Outcome) -> dict[str, Any]:
    """Every seed of a network at its chosen settings, and the settings that were tried."""
    gaps: dict[int, float] = {}
    base = outcome.results.row("scratch", row.column)
    if base is not None and base is not row:
        others = base.by_seed()
        gaps = {seed: value - others[seed] for seed, value in row.by_seed().items() if seed in others}
    return {
        "name": row.arm,
        "metric": words.metric(row.metric),
        "compared": bool(gaps),
        "seeds": [
            (run.seed, words.score(run.val), words.score(run.test), words.signed(gaps.get(run.seed)))
            for run in row.runs
        ],
        "points": [
            (
                wording.chosen_words(point.settings),
                words.plus_minus(point.val),
                len(point.runs),
                point.settings == row.chosen,
            )
            for point in row.points
        ]
        if len(row.points) > 1
        else [],
    }


def _about(outcome: Outcome) -> list[tuple[str, str]]:
    pairs = [("seeds", words.listed([str(seed) for seed in outcome.seeds]))] if outcome.seeds else []
    return [*pairs, *outcome.versions.items()]
