"""A stage of counted tokens: fitted to the inputs, and scored as a network that predicts them is."""

from __future__ import annotations

import time

import numpy as np
import torch

from headstart.baselines.tokens import NO_TOKEN, TokenCounts
from headstart.sequence import Batch, Examples, collate
from headstart.stage.fitted import SCORED_UNITS, FittedRun, outcome_without_steps
from headstart.stage.spec import Size, StageOutcome, finite
from headstart.training.evaluate import TrainMetrics

SHARES_AT_ONCE = 2**22
"""Probabilities that are made at once: 32 MB."""


class CountedRun(FittedRun):
    """A stage of a model of `baselines.tokens`, for objectives that ask for tokens of the input."""

    def check(self) -> None:
        """Raises: BadInput where the inputs are no tokens."""
        self.spec.objective.output(self.task.signature)
        self.spec.model.check(self.task.signature)

    def finish(self) -> StageOutcome:
        """Count, and score train (at most `SCORED_UNITS` units of it), val and test."""
        spec, task = self.spec, self.task
        begun = time.perf_counter()
        fitted = spec.model.fit(task.train, task.val, task.signature, spec.seed)
        seconds = time.perf_counter() - begun
        count = task.train.units
        some = np.linspace(0, count - 1, min(SCORED_UNITS, count)).astype(int)
        units = {"train": some, "val": np.arange(task.val.units), "test": np.arange(task.test.units)}
        return outcome_without_steps(
            self,
            {name: finite(self._score(fitted, task.split(name), rows)) for name, rows in units.items()},
            {},
            {name: torch.from_numpy(np.array(value)) for name, value in fitted.arrays().items()},
            amounts={"examples": count, "tokens": int(task.train.lengths.sum()), "seconds": seconds},
            title=spec.model.title(fitted.facts),
            model=fitted.facts.model_dump(mode="json"),
        )

    def size(self) -> Size:
        """What is read."""
        return Size(examples=self.task.train.units)

    def _score(self, fitted: TokenCounts, examples: Examples, units: np.ndarray) -> dict[str, float]:
        """Scores by the objective, with the masks of a network's validation (those of epoch 0)."""
        objective, signature = self.spec.objective, self.task.signature
        if not len(units):
            return {}
        metrics = TrainMetrics(torch.device("cpu"))
        rows = 2 if signature.paired else 1
        step = max(1, SHARES_AT_ONCE // (rows * signature.length * signature.width))
        for first in range(0, len(units), step):
            batch = objective.prepare(collate(examples, units[first : first + step]), signature, self.spec.seed, 0)
            before = _before(batch)
            predicted = torch.from_numpy(np.log(fitted.after(before.flatten().numpy())))
            metrics.add(objective.measure(predicted.view(*before.shape, -1), batch, signature))
        scores: dict[str, float] = objective.scores(metrics.totals())
        return scores


def _before(batch: Batch) -> torch.Tensor:
    """(B, L) what is seen of the token before the one that each output answers: of masked ones its left neighbour,
    unless that is hidden, and else, where each output answers for the next position, the token itself."""
    if batch.masked is None:
        return batch.inputs
    seen = batch.inputs.masked_fill(batch.masked | ~batch.valid, NO_TOKEN)
    return torch.cat([torch.full_like(seen[:, :1], NO_TOKEN), seen[:, :-1]], 1)
