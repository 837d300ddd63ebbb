"""What the choice over folds and the second fit of `headstart fit` gain by themselves, on sets that defaults are chosen on.

    python benchmarks/fit_choice.py --data DIR [--work DIR] [--write]

Of each small choosing set of benchmarks/fit_against.toml (UCR, fewer labels than `fit` takes folds for) the train rows are
dealt into five outer folds, in proportion to the classes; no row of the official test split is read. Four of the outer folds
are what `fit` would get: its models without a network are fitted in five inner folds, and again on all of these rows. The
fifth outer fold says how accurate three ways of serving are: the model that one inner fold chooses, fitted without that
fold; the model that all inner folds choose, fitted without one of them; and that model fitted again on all rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from fit_against import files_of, markdown, sets_of
from own_results import Set, all_sets
from scipy import stats
from sklearn.model_selection import StratifiedKFold

import headstart
from headstart.fit.defaults import FEW_ROWS, FOLDS
from headstart.runner.machine import machine, version

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "fit-choice.md"
OUTER = 5
MODELS = {
    "majority": {"kind": "majority"},
    "summary": {"kind": "summary"},
    "kernels": {"kind": "kernels", "also": ["hydra"]},
}
"""What `fit` compares on numbers, the simplest first: of equals it serves the first."""
WAYS = ("one fold", "all folds", "all folds, fitted again")


def study_of(train: Path, test: Path, layout: Mapping[str, Any]) -> dict[str, Any]:
    """The models in inner folds, and each fitted again on all of the rows."""
    task = {
        "kind": "own",
        "file": str(train),
        "test": str(test),
        "layout": dict(layout),
        "folds": FOLDS,
        "fold": "seed",
    }
    again = {f"{name}_again": {"model": model, "task": {"validation": 0}} for name, model in MODELS.items()}
    return {
        "name": "choice",
        "stages": {"finetune": {"objective": {"kind": "classify"}}},
        "columns": {"data": {"task": task}},
        "arms": {**{name: {"model": model} for name, model in MODELS.items()}, **again},
        "axes": {"seed": list(range(FOLDS))},
        "report": {"baselines": False},
    }


def scores_of(study: headstart.Study) -> dict[tuple[str, int], tuple[float, float]]:
    """(arm, inner fold) -> accuracy on validation and on the outer fold."""
    scores = {}
    for cell in study.plan.cells:
        result = study.store.result(cell.chain[-1].identity)
        assert result is not None, f"{cell.arm} is not finished"
        best = result["scores"]["best"]
        val = (best.get("val") or {}).get("accuracy")
        scores[cell.arm, cell.seed] = (np.nan if val is None else val, best["test"]["accuracy"])
    return scores


def served(scores: Mapping[tuple[str, int], tuple[float, float]]) -> dict[str, float]:
    """Accuracy on the outer fold of what each way serves, on average over the inner folds that it might have used."""

    def chosen(folds: list[int]) -> str:
        names = list(MODELS)
        worth = [round(mean(scores[name, fold][0] for fold in folds), 12) for name in names]
        return names[int(np.argmax(worth))]

    folds = list(range(FOLDS))
    best = chosen(folds)
    again = [test for (arm, _), (_, test) in scores.items() if arm == f"{best}_again"]
    alone = [scores[chosen([fold]), fold][1] for fold in folds]
    return dict(zip(WAYS, (mean(alone), mean(scores[best, fold][1] for fold in folds), mean(again)), strict=True))


def measured(dataset: Set, work: Path) -> Iterator[dict[str, float]]:
    """What each way serves, by outer fold."""
    lines = files_of(dataset, work)[0].read_text("utf-8").splitlines()
    labels = [line.split("\t")[0] for line in lines]
    layout = dataset.layout.model_dump(exclude_unset=True)
    for number, (inside, outside) in enumerate(
        StratifiedKFold(OUTER, shuffle=True, random_state=0).split(lines, labels)
    ):
        cached = work / "choice" / f"{dataset.name}-{number}.json"
        if not cached.exists():
            with tempfile.TemporaryDirectory() as name:
                train, test = Path(name) / "train.tsv", Path(name) / "test.tsv"
                for path, rows in ((train, inside), (test, outside)):
                    path.write_text("\n".join(lines[row] for row in rows) + "\n", "utf-8")
                study = headstart.Study(study_of(train, test, layout), store=Path(name) / "runs", data=name)
                list(study.perform(workers=0))
                cached.parent.mkdir(parents=True, exist_ok=True)
                cached.write_text(json.dumps(served(scores_of(study))), "utf-8")
        yield json.loads(cached.read_text("utf-8"))


def gain(values: np.ndarray) -> str:
    """A mean over sets with its 95 % t-interval."""
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    text = f"{values.mean():+.3f} [{values.mean() - half:+.3f}, {values.mean() + half:+.3f}]"
    return text.replace("-", "\N{MINUS SIGN}")


def main() -> None:
    words = argparse.ArgumentParser(description="What folds and the second fit gain.")
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-choice"))
    words.add_argument("--write", action="store_true")
    options = words.parse_args()
    work = options.work.absolute()
    known = {dataset.name: dataset for dataset in all_sets(options.data, work)}
    rows, lines = [], []
    for name in sets_of("choosing"):
        train = files_of(known[name], work)[0]
        text = train.read_text("utf-8").splitlines() if train.suffix == ".tsv" else []
        if not 0 < len(text) < FEW_ROWS:
            continue
        try:
            ways = list(measured(known[name], work))
        except ValueError as error:  # fewer rows of a class than outer folds
            print(f"{name} is left out: {error}")
            continue
        rows.append([mean(way[key] for way in ways) for key in WAYS])
        lines.append([name, f"{len(text):,}", *(f"{value:.3f}" for value in rows[-1])])
        print("  ".join(lines[-1]), flush=True)
    table = np.array(rows)
    page = [
        "# What the choice over folds and the second fit gain",
        "",
        *markdown(["set", "rows", *WAYS], lines),
        "",
        f"Accuracy on an outer fold of the train rows, on average over {OUTER} outer folds; no test row was read. Over the "
        f"{len(rows)} sets, choosing on all folds instead of one gains {gain(table[:, 1] - table[:, 0])}, fitting the winner again "
        f"on all rows {gain(table[:, 2] - table[:, 1])}, and both together {gain(table[:, 2] - table[:, 0])} (mean over sets with "
        "its 95 % interval). *One fold* and *all folds* are averages over the inner folds that a fit might have used.",
        "",
        f"`python benchmarks/fit_choice.py --data DIR --write`, {date.today().isoformat()}, {machine()}, headstart "
        f"{version('headstart')}. Small UCR sets of those that defaults are chosen on (benchmarks/fit_against.toml); the models are "
        "those of `fit` without a network.",
    ]
    print("\n".join(page))
    if options.write:
        PAGE.write_text("\n".join(page) + "\n", "utf-8")


if __name__ == "__main__":
    main()
