"""Which temperature a model should have that is fitted again on all rows: of one fold, or of what all folds held out.

    python benchmarks/fit_temperature.py --data DIR [--work DIR] SET ...

Kernels as `fit` has them on sets of UCR. The rule stands in docs/benchmarks/fit-members.md, and was committed before the sets for
reporting were run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fit_against import error_by_chance
from harness import all_sets, files_of, interval_text, over_sets, parser_of

from headstart.baselines.hydra import fit_hydra
from headstart.baselines.kernels import fit_kernels
from headstart.baselines.linear import Split, ridge, ridge_classes
from headstart.baselines.measures import fit_temperature, log_loss, reliability, softmax
from headstart.sequence import Examples

FOLDS = 5


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


def answers_of(train: Examples, test: Examples) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Test classes, and test probabilities at each temperature."""
    names, target = np.unique(np.asarray(train.target), return_inverse=True)
    truth, wanted, n = np.searchsorted(names, np.asarray(test.target)), np.eye(len(names))[target], len(target)
    made = [fit(train, 0) for fit in (fit_kernels, fit_hydra)]
    rows, other = (np.concatenate([each.transform(x) for each in made], axis=1) for x in (train, test))
    order = np.random.default_rng(0).permutation(n)
    order = order[np.argsort(target[order], kind="stable")]
    unseen, folds = np.zeros((n, len(names))), []
    for number in range(FOLDS):
        held_out = np.sort(order[number::FOLDS])
        seen = np.setdiff1d(np.arange(n), held_out)
        fitted = ridge_classes(Split(rows[seen], target[seen]), Split(rows[held_out], target[held_out]), len(names))
        unseen[held_out] = fitted.scores(rows[held_out])
        chances = softmax(unseen[held_out], fitted.temperature)
        right = float((chances.argmax(1) == target[held_out]).mean())
        folds.append((right, -log_loss(target[held_out], chances), fitted.temperature, fitted.strength[0]))
    best, hot = max(folds), np.array([fold[2] for fold in folds])
    scores = ridge(rows, 2 * wanted - 1, best[3])[0].scores(other)
    temperatures = {
        "of the best fold": best[2],
        "mean of the folds": float(np.exp(np.log(hot).mean())),
        "largest of the folds": float(hot.max()),
        "held-out rows of all folds": fit_temperature(unseen, target, True),
        "all rows, each left out once": fit_temperature(ridge(rows, 2 * wanted - 1, None)[1], target, True),
    }
    return truth, {name: softmax(scores, temperature) for name, temperature in temperatures.items()}


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-temperature"))
    words.add_argument("sets", nargs="+", metavar="SET")
    options = words.parse_args()
    sets = {dataset.name: dataset for dataset in all_sets(options.data, options.work.absolute())}
    losses: dict[str, list[np.ndarray]] = {}
    errors: dict[str, list[float]] = {}
    for name in options.sets:
        truth, answers = answers_of(*(rows_of(path) for path in files_of(sets[name], options.work)))
        for way, chances in answers.items():
            own = chances[np.arange(len(truth)), truth]
            losses.setdefault(way, []).append(-np.log(np.maximum(own, 1e-6)))
            errors.setdefault(way, []).append(reliability(truth, chances).error)
        print(name, f"by chance {error_by_chance(answers['of the best fold']):.3f}", flush=True)
    first = next(iter(losses))
    for way in losses:
        change = interval_text(over_sets(list(zip(losses[first], losses[way], strict=True))))
        more = interval_text(
            over_sets([(np.array([a]), np.array([b])) for a, b in zip(errors[first], errors[way], strict=True)])
        )
        means = np.mean([each.mean() for each in losses[way]]), np.mean(errors[way])
        print(f"{way:30} loss {means[0]:.3f} {change} calibration error {means[1]:.3f} {more}")


if __name__ == "__main__":
    main()
