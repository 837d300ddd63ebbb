"""What a task gives away without a sequence model: sizes, chance, trivial scores.

Computed once per task on the train examples that keep their label, and kept as JSON in the store's folder
`baselines`. scikit-learn is imported only where something has to be computed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.sequence import IGNORE, Examples
from headstart.spec import digest
from headstart.store import Damaged, publish_json, read_json
from headstart.study.fairness import task_key
from headstart.study.features import describe
from headstart.study.results import Baseline, Facts
from headstart.tasks.task import Task, TaskSpec, content, open_task

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.study.plan import Plan

VERSION = 1
"""Raised when a baseline would score otherwise: scores that were kept before are then computed anew."""

MOST = 5_000
"""Labelled train examples that a baseline is fitted on at most; its name says where it was fewer than all."""

Predict = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(train features, train target, features) -> predicted target."""


def gather(plan: Plan, store: Store) -> dict[str, Facts]:
    """Facts of every task that a plan reports on, by `fairness.task_key`.

    Raises: BadInput where a task's data cannot be read.
    """
    reported = {task_key(cell.chain[-1].spec): cell.chain[-1].spec for cell in plan.cells}
    return {
        key: measure(spec.task, plan.data, store.root, scored=spec.objective.uses_target)
        for key, spec in reported.items()
    }


def measure(spec: TaskSpec, data: Path, store: Path, scored: bool = True) -> Facts:
    """Facts of one task, from the store's folder where they are kept, else computed and kept there.

    `scored` False leaves out chance and baselines: an objective without a target has none.
    """
    said = spec.document(places=False)
    document = {"version": VERSION, "task": said, "content": content(spec, data), "scored": scored}
    path = store / "baselines" / f"{digest(document)}.json"
    try:
        return _from_json(read_json(path))
    except FileNotFoundError:
        pass
    except (Damaged, KeyError, TypeError):
        path.unlink(missing_ok=True)
    facts = of_task(spec.kind, open_task(spec, data), scored)
    path.parent.mkdir(parents=True, exist_ok=True)
    publish_json(path, {**_to_json(facts), "spec": said})
    return facts


def of_task(kind: str, task: Task, scored: bool = True) -> Facts:
    """Facts of an open task: sizes in units (pairs where there are pairs), chance, baselines, notes."""
    sizes = {name: task.split(name).units for name in ("train", "val", "test")}
    sizes["labelled"] = len(task.train.labelled_units())
    if not scored or task.signature.target == "none":
        return Facts(kind, sizes, notes=task.notes, labels=task.labels)
    classed = task.signature.target == "class"
    metric = "accuracy" if classed else "r2"
    chance = {metric: 1 / task.signature.classes if classed else 0.0}
    rows = _position_rows(task, metric) if task.signature.per_position else _unit_rows(task, metric)
    for own in task.baselines:
        given = {"val": own.val, "test": own.test}
        scores = {split: {metric: value} for split, value in given.items() if value is not None}
        rows.append(Baseline(own.name, scores, own.source))
    return Facts(kind, sizes, chance, tuple(rows), task.notes, task.labels)


@dataclass(frozen=True)
class _Method:
    name: str
    predict: Predict
    looks: bool
    """Whether it looks at the inputs."""


def _methods(classed: bool) -> tuple[_Method, ...]:
    if classed:
        return (
            _Method("majority class", _majority, False),
            _Method("logistic regression", _logistic, True),
            _Method("1-nearest neighbour", _nearest, True),
        )
    return (
        _Method("mean of train", _mean, False),
        _Method("ridge regression", _ridge, True),
        _Method("1-nearest neighbour", _nearest, True),
    )


def _unit_rows(task: Task, metric: str) -> list[Baseline]:
    """One target (or T numbers) per sequence or pair."""
    labelled = task.train.labelled_units()
    if not len(labelled):
        return []
    places = np.linspace(0, len(labelled) - 1, min(MOST, len(labelled))).astype(int)
    kept = labelled[places]
    sets = {"train": task.train.take(kept), "val": task.val, "test": task.test}
    what, features = describe(sets, task.signature)
    targets = {name: _targets(x) for name, x in sets.items()}
    part = "" if len(kept) == len(labelled) else f", {len(kept):,} of {len(labelled):,} labels"
    out = []
    for method in _methods(metric == "accuracy"):
        scores = {}
        for split in ("val", "test"):
            said = np.stack(
                [
                    _on_present(method.predict, features["train"], targets["train"][:, t], features[split])
                    for t in range(targets["train"].shape[1])
                ],
                axis=1,
            )
            scores[split] = {metric: _score(said, targets[split], metric)}
        out.append(Baseline(f"{method.name} on {what}{part}" if method.looks else method.name, scores))
    return out


def _position_rows(task: Task, metric: str) -> list[Baseline]:
    """One target per position: what the commonest class, or the mean, scores."""
    method = _methods(metric == "accuracy")[0]
    targets = {name: _targets(task.split(name)) for name in ("train", "val", "test")}
    scores = {}
    for split in ("val", "test"):
        empty = np.zeros((len(targets[split]), 0))
        said = np.stack(
            [
                _on_present(method.predict, np.zeros((len(targets["train"]), 0)), column, empty)
                for column in targets["train"].T
            ],
            axis=1,
        )
        scores[split] = {metric: _score(said, targets[split], metric)}
    return [Baseline(method.name, scores)]


def _targets(x: Examples) -> np.ndarray:
    """(units or positions, T) targets."""
    target = np.zeros(0) if x.target is None else x.target
    target = target[::2] if x.paired and not x.per_position else target
    return target.reshape(len(target), -1)


def _there(target: np.ndarray) -> np.ndarray:
    there: np.ndarray = ~np.isnan(target) if target.dtype.kind == "f" else target != IGNORE
    return there


def _on_present(predict: Predict, x: np.ndarray, target: np.ndarray, asked: np.ndarray) -> np.ndarray:
    there = _there(target)
    if not there.any():
        # A target without one label: the methods have nothing to learn from.
        return np.zeros(len(asked), dtype=target.dtype)
    return predict(x[there], target[there], asked)


def _score(said: np.ndarray, target: np.ndarray, metric: str) -> float:
    """Accuracy over targets that are there, or R2 averaged over the targets that vary (as objectives do)."""
    there = _there(target)
    if metric == "accuracy":
        return float((said == target)[there].mean())
    found = []
    for t in range(target.shape[1]):
        truth = target[there[:, t], t].astype(np.float64)
        total = ((truth - truth.mean()) ** 2).sum() if len(truth) else 0.0
        if total > 1e-12:
            found.append(1 - ((said[there[:, t], t] - truth) ** 2).sum() / total)
    return float(np.mean(found)) if found else 0.0


def _majority(_: np.ndarray, target: np.ndarray, asked: np.ndarray) -> np.ndarray:
    values, counts = np.unique(target, return_counts=True)
    return np.full(len(asked), values[counts.argmax()])


def _mean(_: np.ndarray, target: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.full(len(asked), target.astype(np.float64).mean())


def _logistic(x: np.ndarray, target: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Multinomial, L2 with C = 1, on standardised features."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(np.unique(target)) < 2:
        return _majority(x, target, asked)
    with warnings.catch_warnings():
        # 300 steps are enough for a yardstick; whether the last digit has settled is no news to a reader.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x, target)
    return np.asarray(model.predict(asked))


def _ridge(x: np.ndarray, target: np.ndarray, asked: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return np.asarray(make_pipeline(StandardScaler(), Ridge()).fit(x, target).predict(asked))


def _nearest(x: np.ndarray, target: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The target of the nearest train example (Euclid)."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(x).kneighbors(asked, return_distance=False)
    return np.asarray(target[near[:, 0]])


def _to_json(facts: Facts) -> dict[str, Any]:
    rows = [{"name": b.name, "scores": b.scores, "source": b.source} for b in facts.baselines]
    return {
        "kind": facts.kind,
        "sizes": dict(facts.sizes),
        "chance": dict(facts.chance),
        "baselines": rows,
        "notes": list(facts.notes),
        "labels": list(facts.labels),
    }


def _from_json(given: Mapping[str, Any]) -> Facts:
    rows = tuple(Baseline(b["name"], b["scores"], b["source"]) for b in given["baselines"])
    return Facts(given["kind"], given["sizes"], given["chance"], rows, tuple(given["notes"]), tuple(given["labels"]))
