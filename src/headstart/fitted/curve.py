"""What more labels would bring: the served model fitted again on nested samples of train, and scored on test.

Letters: D draws, S sizes of samples, n test sequences.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart import words
from headstart.core import FinishedStage, Store, Task
from headstart.fitted.outcome import FitCandidate
from headstart.sequence import IGNORE, Examples, Signature
from headstart.statistics import t_quantile

SAMPLE_PARTS = (4, 2, 1)
"""Samples are this part of train."""
SAMPLE_DRAWS, LEAST_LABELS = 5, 10
"""Nested samples that are drawn, and labels of the smallest."""
NORMAL_REACH = 1.96
"""Standard errors that a 95 % interval over many sequences reaches to each side."""
CURVE_SECONDS = 60.0
"""What a curve may take where there is no limit of time."""
SCORED_FOR_CURVE = 2_000
"""Test sequences that are answered at most."""
MORE_LABELS = 100
"""Labels more that are told of."""


@dataclass(frozen=True)
class LearningCurve:
    """right: (D, S, n) for each draw, size and test sequence 1 where it is right and 0 where not, or the squared error
    in units of the variance of test, less from 1. labels: (S,) of each size. name: of the model. classes: there are."""

    name: str
    labels: tuple[int, ...]
    right: np.ndarray
    classes: bool = True

    @property
    def scores(self) -> tuple[float, ...]:
        """(S,) accuracy, or R², the mean over draws."""
        return tuple(self.right.mean(axis=(0, 2)).tolist())

    def gain(self, more: int = MORE_LABELS) -> tuple[float, float, float]:
        """(mean, low, high): what so many labels more would bring of the score, with its 95 % interval, over draws and
        test sequences: the slope of the score over the logarithm of labels, which goes on."""
        x = np.log2(self.labels) - np.mean(np.log2(self.labels))
        slopes = np.einsum("dsn,s->dn", self.right, x) / (x @ x)
        mean, (draws, count) = float(slopes.mean()), slopes.shape
        by_draw = slopes.mean(axis=1).std(ddof=1) / draws**0.5 if draws > 1 else 0.0
        by_row = slopes.mean(axis=0).std(ddof=1) / count**0.5 if count > 1 else 0.0
        reach = max(t_quantile(draws - 1) * by_draw if draws > 1 else 0.0, NORMAL_REACH * float(by_row))
        far = math.log2((self.labels[-1] + more) / self.labels[-1])
        return far * mean, far * (mean - reach), far * (mean + reach)

    def text(self, more: int = MORE_LABELS) -> str:
        """The curve in a sentence."""
        mean, low, high = self.gain(more)
        metric, draws = "accuracy" if self.classes else "R²", words.many(len(self.right), "draw")
        shown = words.listed([words.score(value) for value in self.scores])
        sizes = words.listed([f"{count:,}" for count in self.labels])
        more_labels = f"{more:,} more labels like these"
        interval = f"(95 % interval {low:+.3f} to {high:+.3f})"
        lead = f"With {sizes} labelled train sequences {self.name} has a test {metric} of {shown} ({draws}):"
        if low > 0:
            return f"{lead} {more_labels} would bring about {mean:+.3f} {interval}."
        return f"{lead} that {more_labels} would help is not shown, {mean:+.3f} {interval}."


def learning_curve(
    name: str,
    spec: Any,
    train: Examples,
    test: Examples,
    signature: Signature,
    seconds: float = CURVE_SECONDS,
    class_weights: np.ndarray | None = None,
) -> LearningCurve | None:
    """The curve of a model without gradients, with what it has chosen; None where there are too few labels, or no time
    for two draws of it. Samples are nested in each draw, each class in proportion."""
    labelled, scored = train.labelled_units(), test.labelled_units()[:SCORED_FOR_CURVE]
    sizes = tuple(dict.fromkeys(len(labelled) // part for part in SAMPLE_PARTS))
    classes = signature.target == "class"
    if sizes[0] < LEAST_LABELS or len(scored) < 2 or signature.per_position or signature.targets > 1:
        return None
    train, test, begun = train.take(labelled), test.take(scored), time.monotonic()
    target = train.target[:: 1 + train.paired] if train.target is not None else np.zeros(len(labelled))
    none, draws = train.take(np.arange(0)), list[list[np.ndarray]]()
    whole: np.ndarray | None = None
    most = float(spec.seconds(sizes[0], len(scored), signature, train.lengths))
    for draw in range(SAMPLE_DRAWS):
        order, rows = _order(target, classes, draw), list[np.ndarray]()
        for size in sizes:
            last = size == sizes[-1]
            if last and whole is not None:
                rows.append(whole)
                continue
            if time.monotonic() - begun + most >= seconds:
                break
            before = time.monotonic()
            model = spec.fit(train.take(np.sort(order[:size])), none, signature, 0, class_weights)
            rows.append(_right(model.predict(test), test, classes))
            most = max(most, (time.monotonic() - before) * (2 if size != sizes[-1] and whole is None else 1))
            whole = rows[-1] if last else whole
        if len(rows) < len(sizes):
            break
        draws.append(rows)
    return LearningCurve(name, sizes, np.array(draws), classes) if len(draws) > 1 else None


def curve_text(curve: LearningCurve | None) -> list[str]:
    """What is said of a curve; nothing without one."""
    return [] if curve is None else [curve.text()]


def _order(target: np.ndarray, classes: bool, draw: int) -> np.ndarray:
    """(m,) all units, so that each beginning of them has each class in proportion."""
    random = np.random.default_rng(draw).permutation(len(target))
    if not classes:
        return random
    share = np.zeros(len(target))
    for kind in np.unique(target[target != IGNORE]):
        own = random[target[random] == kind]
        share[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.argsort(share, kind="stable")


def _right(answers: np.ndarray, test: Examples, classes: bool) -> np.ndarray:
    target = np.asarray(test.target)[:: 1 + test.paired].reshape(len(answers))
    if classes:
        return np.asarray(answers.argmax(axis=1) == target, dtype=np.float64)
    return np.asarray(1 - (answers - target) ** 2 / max(float(target.var()), 1e-30))


def curve_of(
    candidates: Sequence[FitCandidate],
    serves: FitCandidate,
    store: Store,
    data: Any,
    task: Task,
    weights: Sequence[float],
    seconds: float,
) -> LearningCurve | None:
    """The curve of the model that serves; of an average or a network that of its first, or of the best, model without
    gradients. seconds: of which it may take a fourth. None where nothing is held out for a test, or train was cut."""
    by_name = {item.name: item for item in candidates if not item.is_network and not item.members}
    own = [name for name in (serves.name, *serves.members) if name in by_name]
    seconds = min(seconds / 4, CURVE_SECONDS)
    item = by_name[own[0]] if own else max(by_name.values(), key=lambda item: item.worth, default=None)
    if item is None or not len(task.test) or len(by_name) < 2:
        return None
    stage = FinishedStage.opened(store, item.best().identity, data)
    model: Any = stage.spec.model
    if stage.spec.task.rows is not None:
        return None
    spec = model.model_copy(update=model.choices(stage.model().facts))
    each = np.array(weights) if len(weights) else None
    return learning_curve(item.name, spec, task.train, task.test, task.signature, seconds, each)
