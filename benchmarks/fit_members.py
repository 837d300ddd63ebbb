"""Which models stand beside each other in a fit, and how one answer is made of them, on the sets that defaults are chosen on.

    python benchmarks/fit_members.py --data DIR [--work DIR]

Each model is fitted once, what it answers is kept, and everything else is chosen on these answers. The rules stand in
docs/benchmarks/fit-members.md, and were committed before the first run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Set, all_sets, files_of, interval_text, markdown, once, over_sets, parser_of, sets_of

from headstart.baselines.average import LEAST_MEMBER, gains, greedy_shares
from headstart.baselines.features import Features
from headstart.baselines.hydra import fit_hydra
from headstart.baselines.kernels import fit_kernels
from headstart.baselines.linear import Split, ridge_classes
from headstart.baselines.measures import fit_temperature, heated, reliability, softmax
from headstart.baselines.quant import fit_quant
from headstart.baselines.summary import SummarySpec
from headstart.sequence import Examples, Signature

SEEDS = (0, 1, 2)
HALF, FULL = 84 * 4 * 15, 84 * 4 * 30
FEATURES: dict[str, Callable[[Examples, int], Features]] = {
    "shares": lambda x, seed: fit_kernels(x, seed),
    "pools": lambda x, seed: fit_kernels(x, seed, FULL, 4),
    "pools of steps": lambda x, seed: fit_kernels(x, seed, FULL, 4, "steps"),
    "half pools": lambda x, seed: fit_kernels(x, seed, HALF, 4),
    "half pools of steps": lambda x, seed: fit_kernels(x, seed, HALF, 4, "steps"),
    "competing": fit_hydra,
    "quantiles": lambda x, _: fit_quant(x),
}
"""What is computed once."""
TODAY = "shares, competing"
TOGETHER = {
    "shares": ("shares",),
    TODAY: ("shares", "competing"),
    "pools, steps": ("pools", "pools of steps"),
    "pools, steps, competing": ("pools", "pools of steps", "competing"),
    "half pools, steps": ("half pools", "half pools of steps"),
    "half pools, steps, competing": ("half pools", "half pools of steps", "competing"),
    "shares, half pools of steps, competing": ("shares", "half pools of steps", "competing"),
    "half pools, steps, competing, quantiles": ("half pools", "half pools of steps", "competing", "quantiles"),
}
"""What stands in one regression."""


def rows_of(path: Path) -> Examples:
    """A file of UCR as one channel, labels as they stand."""
    table = np.loadtxt(path, delimiter="\t", dtype=np.float64, ndmin=2)
    values = table[:, 1:].astype(np.float32)
    n, length = values.shape
    seen = np.isfinite(values).reshape(-1, 1)
    return Examples(
        np.nan_to_num(values).reshape(-1, 1),
        np.arange(n + 1) * length,
        table[:, 0],
        np.arange(n),
        observed=None if seen.all() else seen,
    )


def classes_of(train: Examples, test: Examples) -> tuple[np.ndarray, np.ndarray, int]:
    """Labels of both as numbers from 0."""
    names, target = np.unique(np.asarray(train.target), return_inverse=True)
    return target, np.searchsorted(names, np.asarray(test.target)), len(names)


def kernels_of(dataset: Set, work: Path) -> dict[str, Any]:
    """Test probabilities of each of `TOGETHER` by seed, and processor seconds of all features per million positions."""
    train, test = (rows_of(path) for path in files_of(dataset, work)[:2] if path is not None)
    target, truth, classes = classes_of(train, test)
    millions = (train.lengths.sum() + test.lengths.sum()) / 1e6
    answers: dict[str, list[Any]] = {name: [] for name in TOGETHER}
    seconds = dict.fromkeys(FEATURES, 0.0)
    for seed in SEEDS:
        tables = {}
        for name, fit in FEATURES.items():
            begun = time.process_time()
            features: Features = fit(train, seed)
            tables[name] = features.transform(train), features.transform(test)
            seconds[name] += (time.process_time() - begun) / millions / len(SEEDS)
        for name, parts in TOGETHER.items():
            sides = [np.concatenate([tables[part][side] for part in parts], axis=1) for side in (0, 1)]
            nothing = Split(sides[0][:0], target[:0])
            readout = ridge_classes(Split(sides[0], target), nothing, classes)
            answers[name].append(softmax(readout.scores(sides[1]), readout.temperature).round(6).tolist())
    return {"target": truth.tolist(), "answers": answers, "seconds": seconds}


MEMBERS: dict[str, tuple[str, ...]] = {
    "kernels": ("shares",),
    "both": ("shares", "competing"),
    "pools": ("pools", "pools of steps"),
    "half pools": ("half pools", "half pools of steps"),
    "competing": ("competing",),
    "quantiles": ("quantiles",),
}
"""Features of each model that may stand beside the others."""


def members_of(dataset: Set, work: Path) -> dict[str, Any]:
    """Out-of-fold probabilities of train rows, and those of test rows after a fit on all train rows, by member."""
    train, test = (rows_of(path) for path in files_of(dataset, work)[:2] if path is not None)
    target, truth, classes = classes_of(train, test)
    folds = list(dealt_folds(target))
    sides = [{name: fit(train, 0).transform(x) for name, fit in FEATURES.items()} for x in (train, test)]
    out: dict[str, dict[str, Any]] = {"out": {}, "test": {}}
    for name, parts in MEMBERS.items():
        rows, other = (np.concatenate([side[part] for part in parts], axis=1) for side in sides)
        unseen = np.zeros((len(target), classes))
        for held_out in folds:
            seen = np.setdiff1d(np.arange(len(target)), held_out)
            unseen[held_out] = answer(rows[seen], target[seen], rows[held_out], classes)
        out["out"][name], out["test"][name] = unseen.tolist(), answer(rows, target, other, classes).tolist()
    length = int(train.lengths[0])
    spec, of = SummarySpec(), Signature("floats", 1, length, length, "class", classes)
    labelled = replace(train, target=target)
    unseen = np.zeros((len(target), classes))
    for held_out in folds:
        seen = np.setdiff1d(np.arange(len(target)), held_out)
        model = spec.fit(labelled.take(seen), labelled.take(held_out), of, 0)
        unseen[held_out] = model.predict(labelled.take(held_out))
    model = spec.fit(labelled, labelled.take(np.zeros(0, np.int64)), of, 0)
    out["out"]["summary"], out["test"]["summary"] = unseen.tolist(), model.predict(test).tolist()
    return out | {"target": target.tolist(), "truth": truth.tolist()}


def dealt_folds(target: np.ndarray, folds: int = 5) -> Iterator[np.ndarray]:
    """Rows of each fold, each class in turn."""
    order = np.random.default_rng(0).permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    for number in range(folds):
        yield np.sort(order[number::folds])


def answer(rows: np.ndarray, target: np.ndarray, other: np.ndarray, classes: int) -> np.ndarray:
    """Probabilities of other rows."""
    readout = ridge_classes(Split(rows, target), Split(rows[:0], target[:0]), classes)
    return softmax(readout.scores(other), readout.temperature)


def scores(target: np.ndarray, answers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, float]:
    """(n,) right and log-loss of each row, on average over seeds, and the mean calibration error."""
    rows = np.arange(len(target))
    right = np.mean([p.argmax(1) == target for p in answers], axis=0)
    loss = np.mean([-np.log(np.maximum(p[rows, target], 1e-6)) for p in answers], axis=0)
    return right, loss, float(np.mean([reliability(target, p).error for p in answers]))


def kernels_table(sets: Mapping[str, Set], work: Path, names: Sequence[str]) -> None:
    """The first part."""
    right: dict[str, dict[str, np.ndarray]] = {name: {} for name in TOGETHER}
    loss: dict[str, dict[str, np.ndarray]] = {name: {} for name in TOGETHER}
    seconds = []
    for dataset in names:
        measured = once(work / "kernels" / f"{dataset}.json", partial(kernels_of, sets[dataset], work))
        target = np.array(measured["target"])
        seconds.append(measured["seconds"])
        for name, answers in measured["answers"].items():
            right[name][dataset], loss[name][dataset], _ = scores(target, [np.array(p) for p in answers])
        print(
            dataset,
            *(f"{right[name][dataset].mean():.3f}/{loss[name][dataset].mean():.3f}" for name in TOGETHER),
            flush=True,
        )
    for name, parts in TOGETHER.items():
        time_of = np.mean([sum(each[part] for part in parts) for each in seconds])
        mean = np.mean([x.mean() for x in right[name].values()]), np.mean([x.mean() for x in loss[name].values()])
        more = [
            interval_text(over_sets([(side[TODAY][d], side[name][d]) for d in right[name]]), 4)
            for side in (right, loss)
        ]
        print(f"{name:42} {mean[0]:.4f} {mean[1]:.4f} {time_of:.1f} s/M  accuracy {more[0]}  loss {more[1]}")


POOLS = {
    "both, summary": ("both", "summary"),
    "both, pools, summary": ("both", "pools", "summary"),
    "both, half pools, summary": ("both", "half pools", "summary"),
    "both, competing, pools, summary": ("both", "competing", "pools", "summary"),
    "kernels, competing, pools, summary": ("kernels", "competing", "pools", "summary"),
    "kernels, competing, pools, quantiles, summary": ("kernels", "competing", "pools", "quantiles", "summary"),
}
"""Models that stand beside each other; the first is what `fit` has had."""
WAYS = ("single", "average", "average where it gains clearly")


def answered(measured: Mapping[str, Any], pool: Sequence[str], way: str) -> tuple[np.ndarray, int]:
    """Test probabilities that are served, and of how many models."""
    target, rows = np.array(measured["target"]), np.arange(len(measured["target"]))
    out, test = ([np.array(measured[side][name]) for name in pool] for side in ("out", "test"))
    columns = np.stack([p[rows, target] for p in out], axis=1)
    best = max(
        range(len(pool)), key=lambda i: ((out[i].argmax(1) == target).mean(), np.log(columns[:, i] + 1e-12).mean())
    )
    shares = greedy_shares(columns, np.ones(len(target)), True)
    shares = np.where(shares >= LEAST_MEMBER, shares, 0) / shares[shares >= LEAST_MEMBER].sum()
    several = (shares > 0).sum() > 1
    clear = gains(columns @ shares, columns[:, best], np.ones(len(target)), True)
    if way == "single" or (way != "average" and not (several and clear)):
        return test[best], 1
    hot = fit_temperature(np.log(np.maximum(np.tensordot(shares, out, axes=1), 1e-6)), target, True)
    return heated(np.tensordot(shares, test, axes=1), hot), int((shares > 0).sum())


def choosers_table(work: Path, names: Sequence[str]) -> list[str]:
    """The second part."""
    measured = {name: once(work / "members" / f"{name}.json", lambda: None) for name in names}
    today, lines = dict[str, tuple[np.ndarray, np.ndarray, float]](), []
    for title, pool in POOLS.items():
        for way in WAYS:
            each = {name: answered(m, pool, way) for name, m in measured.items()}
            marks = {name: scores(np.array(measured[name]["truth"]), [p]) for name, (p, _) in each.items()}
            today = today or marks
            pairs = [[(np.asarray(today[name][i]), np.asarray(marks[name][i])) for name in names] for i in (0, 1)]
            more = [interval_text(over_sets(pair), 4) for pair in pairs]
            means = [f"{np.mean([np.mean(mark[i]) for mark in marks.values()]):.3f}" for i in (0, 1, 2)]
            count = f"{np.mean([number for _, number in each.values()]):.1f}"
            lines.append([title, way, count, means[0], more[0], means[1], more[1], means[2]])
    heads = ["models", "served", "models served", "accuracy", "gain", "log-loss", "change", "calibration error"]
    return markdown(heads, lines, names=2)


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-members"))
    options = words.parse_args()
    work = options.work.absolute()
    sets = {dataset.name: dataset for dataset in all_sets(options.data, work)}
    names = [name for name in sets_of("choosing") if sets[name].family == "UCR"]
    kernels_table(sets, work, names)
    for name in names:
        once(work / "members" / f"{name}.json", partial(members_of, sets[name], work))
        print(name, flush=True)
    print("\n".join(choosers_table(work, names)))


if __name__ == "__main__":
    main()
