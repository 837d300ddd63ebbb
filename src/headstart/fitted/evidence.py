"""What a fit's page shows besides a study's: reliability, errors, occlusion, and what was filled in.

Figures can be drawn for a light or a dark page. Nothing in them is foreign text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from headstart import words
from headstart.analysis.occlusion import Occlusion
from headstart.baselines.measures import reliability
from headstart.fitted.outcome import Outcome
from headstart.report.figures.curves import curves, curves_told
from headstart.report.figures.predictions import errors_figure, occlusion_figure, reliability_figure
from headstart.report.figures.reconstruction import Filled, caption, read_predictions, reconstruction
from headstart.report.figures.style import Drawing
from headstart.serve.config import ENSEMBLE

if TYPE_CHECKING:
    pass


def drawings(outcome: Outcome) -> Iterator[Drawing]:
    """The figures of the page, but for what was filled in."""
    answers, split = outcome.held_out
    if outcome.labels and split == "test":
        yield _reliability(outcome)
    elif not outcome.labels and len(answers.target):
        text = (
            f"Left: each point is a {split} sequence, its true number across and the prediction upwards; on the dotted "
            "line it is right. Right: how many errors there are of each size; above 0 the prediction is too high."
        )
        yield Drawing(
            "errors", f"Right and wrong on {split}", text, partial(errors_figure, answers.target, answers.predicted)
        )
    if outcome.occlusion is not None:
        yield _occlusion(outcome.occlusion, bool(outcome.labels))
    results = outcome.results
    if any(row.runs for row in results.table):
        both = any(name == "pretrain" for row in results.table for run in row.runs for name, _ in run.stages)
        before = (
            " pretrain is the self-pretraining before it, which hides values and asks for them back." if both else ""
        )
        trained = {identity for row in results.table for identity in row.stages if outcome.records.get(identity)}
        rows = tuple(row for row in results.table if trained & set(row.stages) and row.arm != ENSEMBLE)
        shown, column = replace(results, table=rows), results.columns[0]
        text = (
            f"How the networks learnt, at the settings that validation chose: {curves_told(shown, column)}. finetune "
            f"is training on the labels.{before} Where validation gets worse while train gets better, the best weights "
            "on validation are kept."
        )
        draw = partial(curves, shown, column, lambda i: outcome.records.get(i, []))
        yield Drawing("curves", "How the networks learnt", text, draw)


def _reliability(outcome: Outcome) -> Drawing:
    """How far the probabilities of the model that was chosen can be taken at their word."""
    tested = outcome.test.labelled
    after, before = reliability(tested.target, tested.predicted), None
    error = (
        "The expected calibration error, the mean distance from that line over all test sequences, is "
        f"{words.score(after.error)}"
    )
    if outcome.uncalibrated is not None:
        raw = outcome.uncalibrated[outcome.test.target >= 0]
        before = reliability(tested.target, raw)
        temperature = outcome.candidate(outcome.serves).best().temperature
        error += (
            f"; without calibration (one temperature, {temperature:.3g}, chosen on validation, by which scores are "
            f"divided) it is {words.score(before.error)}"
        )
    text = (
        "Of the test sequences to whose class the model gives about 80 %, about 80 % should be right: points on "
        "the dotted line. Points below it are answers that are surer than they should be; larger points stand "
        f"for more sequences, and the bars count them. {error}."
    )
    draw = partial(reliability_figure, after, before)
    return Drawing("reliability", "Can its probabilities be believed?", text, draw)


def _occlusion(occlusion: Occlusion, classes: bool) -> Drawing:
    verb = "falls" if classes else "grows"
    cost = f"how much the {occlusion.what} {verb} on average" + ("" if classes else ", in the target's unit")
    text = (
        f"Of {words.many(occlusion.rows, 'sequence')}, one of {len(occlusion.drop)} equal windows at a time was "
        f"replaced by what another sequence has in that place. The height is {cost}: where it is high, the served "
        "model relies on what stands there; near 0 it does not, or finds the same elsewhere. Lines are ± one standard "
        "error over sequences."
    )
    return Drawing("occlusion", "Where the model looks", text, partial(occlusion_figure, occlusion, classes))


def filled_in(outcome: Outcome, examples: Mapping[str, np.ndarray]) -> Drawing | None:
    """Masked inputs beside their reconstruction, of the predictions of a masked stage."""
    filled = read_predictions(examples)
    if filled is None:
        return None
    preparation = outcome.served.config.preparation
    text = caption(filled, False)
    text += " Values are standardised." if preparation.mean else ""
    text += f" Shown is the first of {len(preparation.channels)} channels." if len(preparation.channels) > 1 else ""
    text += " Missing values stand at 0." if preparation.missing else ""
    draw = partial(reconstruction, single(filled, preparation.patch), None)
    return Drawing("filled", "What self-pretraining learnt to fill in", text, draw)


def single(filled: Filled, patch: int) -> Filled:
    """Examples whose patches are positions again: (n, L, patch x F) -> (n, L x patch, F)."""
    if patch == 1 or filled.inputs.ndim == 2:
        return filled
    n, length, size = filled.inputs.shape
    shape = (n, length * patch, size // patch)
    return Filled(
        filled.inputs.reshape(shape),
        filled.filled.reshape(shape),
        filled.masked.repeat(patch, axis=1),
        filled.valid.repeat(patch, axis=1),
    )
