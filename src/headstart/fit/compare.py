"""The models of a fit side by side: networks from their stages, classic ones fitted here, all measured alike."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headstart.baselines import METHODS, Fitted
from headstart.baselines.measures import fit_temperature, scores_of, softmax
from headstart.fit.outcome import Candidate, Scored
from headstart.sequence import Examples
from headstart.store.stages import Store
from headstart.study.results import Results, Row, Run
from headstart.study.statistics import Estimate, estimate
from headstart.tasks.own import OwnFacts
from headstart.tasks.task import Task

SIMPLEST = ("majority", "summary", "kernels", "scratch", "self_pretrained")
"""Of models with equal validation scores the first of these is taken."""
SAID = {
    "floats": {"kernels": "random convolution kernels with ridge", "summary": "a linear model of summary features"},
    "tokens": {"kernels": "a linear model of n-grams", "summary": "a linear model of single symbols and pairs"},
}
"""What a classic method is, by its input."""
SEEDED = ("kernels",)
"""Classic methods that draw random numbers."""
SLOW = 20.0
"""Seconds of one fit from which on a classic method is fitted with one seed alone."""


@dataclass(frozen=True)
class Made:
    """One trained model: what it says on val and test (probabilities, or numbers in the target's own unit)."""

    seed: int
    val: Scored
    test: Scored
    temperature: float = 1.0
    identity: str = ""
    fitted: Fitted | None = None
    raw: np.ndarray | None = None
    """(n, K) scores of a network on test, before temperature."""


@dataclass(frozen=True)
class Line:
    """A line of the table, and the models behind it."""

    candidate: Candidate
    made: tuple[Made, ...]

    def best(self, metric: str) -> Made:
        """The model with the best validation score; of equals the one with the least loss there, then the earliest."""
        return max(self.made, key=lambda one: (worth(one.val, metric), -measured(one.val).get("log_loss", 0.0)))


def worth(found: Scored, metric: str) -> float:
    """What models are chosen by, the greater the better. R² of one split falls as its squared error grows, and where
    all its targets are equal there is only the latter."""
    scores = measured(found)
    return -(scores["rmse"] ** 2) if metric == "r2" else scores[metric]


def metric_of(facts: OwnFacts, balanced: bool) -> str:
    """What is compared and chosen by."""
    if not facts.labels:
        return "r2"
    return "balanced_accuracy" if balanced else "accuracy"


def measured(found: Scored) -> dict[str, float]:
    """Every measure of a split; none of an empty one."""
    if not len(found.target):
        return {}
    classes = found.said.shape[1] if found.said.ndim == 2 else 0
    return scores_of(found.target, found.said, classes)


def classic_lines(task: Task, facts: OwnFacts, metric: str, seeds: Sequence[int], balanced: bool) -> list[Line]:
    """Every classic method, fitted on train, its penalty and temperature chosen on val."""
    out = []
    for name, method in METHODS.items():
        made: list[Made] = []
        begun = time.perf_counter()
        for seed in seeds:
            fitted = method.fit(task.train, task.val, task.signature, seed, balanced)
            val, test = (_said(fitted.predict(x), x, facts) for x in (task.val, task.test))
            made.append(Made(seed, val, test, fitted=fitted))
            if name not in SEEDED or time.perf_counter() - begun > SLOW:
                break
        seconds = (time.perf_counter() - begun) / len(made)
        said = SAID[task.signature.input].get(name, method.summary)
        out.append(Line(_candidate(name, said, made, metric, seconds=seconds), tuple(made)))
    return out


def network_lines(results: Results, store: Store, facts: OwnFacts, metric: str, balanced: bool = False) -> list[Line]:
    """The networks of a study, at the settings that validation chose; arms without a finished run are left out.

    balanced: temperatures are fitted as if all classes were equally frequent, as those of the classic models are.
    """
    counts = np.array(facts.counts, dtype=np.float64)
    weights = counts.sum() / (len(counts) * np.maximum(counts, 1)) if balanced and len(counts) else None
    out = []
    for row in results.table:
        done = [run for run in row.runs if run.status == "complete" and run.val is not None]
        made = [_network(run, store, facts, weights) for run in done]
        if made:
            line = _candidate(row.arm, NETWORKS[row.arm], made, metric, row=row)
            out.append(Line(line, tuple(made)))
    return out


NETWORKS = {"scratch": "network, from random weights", "self_pretrained": "network, self-pretrained on the sequences"}


def winner(lines: Sequence[Line], metric: str) -> Line:
    """The best on validation, by the mean over its seeds; of equals the simplest."""
    order = sorted(lines, key=lambda line: SIMPLEST.index(line.candidate.name))
    return max(order, key=lambda line: float(np.mean([worth(one.val, metric) for one in line.made])))


def _network(run: Run, store: Store, facts: OwnFacts, weights: np.ndarray | None) -> Made:
    identity = run.stages[-1][1]
    held = {name: tensor.numpy() for name, tensor in store.predictions(identity).items()}
    temperature = 1.0
    if facts.labels:
        temperature = fit_temperature(held["val/output"], held["val/target"].astype(np.int64), True, weights)
    val, test = (_from_store(held, split, facts, temperature) for split in ("val", "test"))
    return Made(run.seed, val, test, temperature, identity, raw=held.get("test/output"))


def _from_store(held: Mapping[str, np.ndarray], split: str, facts: OwnFacts, temperature: float) -> Scored:
    output, target = held.get(f"{split}/output"), held.get(f"{split}/target")
    if output is None or target is None:
        return Scored(np.zeros(0), np.zeros((0, len(facts.labels)) if facts.labels else 0))
    if facts.labels:
        return Scored(target.astype(np.int64), softmax(output, temperature))
    return Scored(own_unit(target.reshape(-1), facts), own_unit(output.reshape(-1), facts))


def _said(said: np.ndarray, x: Examples, facts: OwnFacts) -> Scored:
    """What a classic model said of a split, its target beside it."""
    assert x.target is not None
    if facts.labels:
        return Scored(x.target.astype(np.int64), said)
    return Scored(own_unit(x.target, facts), own_unit(said, facts))


def own_unit(numbers: np.ndarray, facts: OwnFacts) -> np.ndarray:
    """(n,) numbers as a task scales them, in the target's own unit."""
    if facts.low is None or facts.high is None:
        return numbers.astype(np.float64)
    return (numbers.astype(np.float64) + 1) / 2 * (facts.high - facts.low) + facts.low


def _candidate(
    name: str, said: str, made: Sequence[Made], metric: str, *, row: Row | None = None, seconds: float = 0.0
) -> Candidate:
    vals, tests = [measured(one.val) for one in made], [measured(one.test) for one in made]
    found = Candidate(
        name,
        said,
        len(made),
        _over(vals, metric),
        _over(tests, metric),
        {key: over for key in tests[0] if (over := _over(tests, key)) is not None},
        seconds=seconds,
    )
    if row is None:
        return found
    return replace(found, chosen=row.chosen, seconds=row.budget.get("seconds", 0.0))


def _over(scores: Sequence[Mapping[str, float]], name: str) -> Estimate | None:
    values = [one[name] for one in scores if name in one and np.isfinite(one[name])]
    return estimate(values) if values else None
