"""What the choice over folds and the second fit of `headstart fit` gain by themselves, on sets that defaults are chosen on.

    python benchmarks/fit_choice.py --data DIR [--work DIR] [--networks | --features | --serving | --letters] [--write]

Of each small choosing set of benchmarks/fit_against.toml (UCR, fewer labels than `fit` takes folds for) the train rows are
dealt into five outer folds, in proportion to the classes; no row of the official test split is read. Four of the outer folds
are what `fit` would get: its models without a network are fitted in three rounds of five inner folds, and again on all of these
rows. The fifth outer fold says how accurate four ways of serving are: the model that one inner fold chooses, fitted without
that fold; the model that a round of inner folds chooses, fitted without one of them; that model fitted again on all rows; and
the model that all rounds choose, fitted again.

--networks: the same of networks alone, for which the second fit is a training without validation. Three runs of each, in inner
folds or with three seeds, are held against two trainings on all rows: of as many steps as the best weights of the runs had taken
(their median), and of all steps of the plan.

--features: what competing kernels and quantiles beside random kernels gain, on five folds of the train rows of all choosing sets
of numbers.

--serving: what is gained by serving a network, or an ensemble with one, only where its lead on validation is clear, instead of
whatever is best there; whole fits of a minute, on two outer folds of the train rows of choosing sets.

--letters: what learned positions gain for letters at their places, on the validation rows that a fit of the set has.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from harness import (
    PAGES,
    Set,
    all_sets,
    files_of,
    filled,
    gain_text,
    made_here,
    markdown,
    once,
    parser_of,
    sets_of,
    write,
)
from sklearn.model_selection import StratifiedKFold

import headstart
from headstart.baselines.measures import fit_temperature, softmax
from headstart.fit import defaults
from headstart.fit.basis import Amount
from headstart.fit.budget import whole_amount
from headstart.fit.choice import best_of, winner
from headstart.fit.defaults import FEW_ROWS, FOLDS
from headstart.fit.perform import fit_sequences
from headstart.fit.plan import study_table, with_places
from headstart.fit.prepared import prepare
from headstart.request.settings import FitSettings
from headstart.request.source import read_source
from headstart.runner.machine import torch_settings
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun, outputs_of
from headstart.study.language.plan import make_plan
from headstart.study.language.scales import overlay
from headstart.study.language.spec import read_study
from headstart.tasks import open_task

OUTER = 5
RUNS = 3
"""Of each network, on so many of the inner folds, or seeds."""
MODELS = {
    "majority": {"kind": "majority"},
    "summary": {"kind": "summary"},
    "kernels": {"kind": "kernels", "also": ["hydra"]},
}
"""What `fit` compares on numbers, the simplest first: of equals it serves the first."""
BESIDE: dict[str, list[str]] = {
    "random kernels": [],
    "with competing kernels": ["hydra"],
    "with quantiles": ["quant"],
    "with both": ["hydra", "quant"],
}
"""Of --features: what stands beside random kernels."""
WAYS = ("one fold", "one round", "one round, fitted again", "all rounds, fitted again")
WHICH = ("runs", "short", "whole")
NETWORK_SETS = {
    "ArrowHead": 2,
    "ECG200": 2,
    "OSULeaf": 2,
    "SyntheticControl": 1,
    "Computers": 1,
    "Strawberry": 1,
    "splice junctions": 1,
}
"""Sets of --networks, and how many of their outer folds are used; of those with many rows, which take long, S4D alone."""

SERVING_SETS = (
    "ECG200",
    "ArrowHead",
    "OSULeaf",
    "SyntheticControl",
    "Trace",
    "Computers",
    "Strawberry",
    "splice junctions",
    "promoters Bacillus",
)
LETTERS, LETTERS_AMOUNT = (
    ("splice junctions", "promoters Bacillus"),
    Amount(defaults.ONE_RATE, 1_000, arms=("scratch",)),
)
MOST_ROUNDS = 3
"""How often the folds of --choice are dealt; `fit` deals them once."""
SERVING_FOLDS, SERVING_TIME = 2, 60.0
"""Outer folds and seconds of a fit of --serving."""


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
        "axes": {"seed": list(range(FOLDS * MOST_ROUNDS))},
        "report": {"baselines": False},
    }


def scores_of(study: headstart.Study) -> dict[tuple[str, int], tuple[float, float]]:
    """(arm, inner fold or seed) -> accuracy on validation and on test, the outer fold; NaN where there are no rows."""
    scores = {}
    for cell in study.plan.cells:
        result = study.store.result(cell.chain[-1].identity)
        assert result is not None, f"{cell.arm} is not finished"
        best = result["scores"]["best"]
        val, test = ((best.get(split) or {}).get("accuracy", np.nan) for split in ("val", "test"))
        scores[cell.arm, cell.seed] = (val, test)
    return scores


def served(scores: Mapping[tuple[str, int], tuple[float, float]]) -> dict[str, float]:
    """Accuracy on the outer fold of what each way serves, on average over the inner folds that it might have used."""

    def chosen(folds: list[int]) -> str:
        names = list(MODELS)
        worth = [round(mean(scores[name, fold][0] for fold in folds), 12) for name in names]
        return names[int(np.argmax(worth))]

    folds = list(range(FOLDS * MOST_ROUNDS))
    again = {name: mean(test for (arm, _), (_, test) in scores.items() if arm == f"{name}_again") for name in MODELS}
    rounds = [folds[begin : begin + FOLDS] for begin in range(0, len(folds), FOLDS)]
    alone = mean(scores[chosen([fold]), fold][1] for fold in folds)
    each = mean(scores[chosen(some), fold][1] for some in rounds for fold in some)
    values = (alone, each, mean(again[chosen(some)] for some in rounds), again[chosen(folds)])
    return dict(zip(WAYS, values, strict=True))


def outer_folds(dataset: Set, work: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    """The files of the rows inside and outside each outer fold, in folders of their own in this one."""
    source = files_of(dataset, work)[0]
    head, lines = _lines(dataset, source)
    column = head[0].split("\t").index("label") if head else 0
    labels = [line.split("\t")[column] for line in lines]
    for number, sides in enumerate(StratifiedKFold(OUTER, shuffle=True, random_state=0).split(lines, labels)):
        own = folder / str(number)
        own.mkdir()
        paths = own / "train.tsv", own / "test.tsv"
        for path, rows in zip(paths, sides, strict=True):
            path.write_text("\n".join([*head, *(lines[row] for row in rows)]) + "\n", "utf-8")
        yield paths


def _lines(dataset: Set, source: Path) -> tuple[list[str], list[str]]:
    lines = source.read_text("utf-8").splitlines()
    return ([], lines) if dataset.layout.header is False else (lines[:1], lines[1:])


def measured(dataset: Set, work: Path) -> Iterator[dict[str, float]]:
    """What each way serves, by outer fold."""
    layout = dataset.layout.model_dump(exclude_unset=True)

    def measure(train: Path, test: Path) -> dict[str, float]:
        study = headstart.Study(study_of(train, test, layout), store=train.parent / "runs", data=train.parent)
        list(study.perform(workers=0))
        return served(scores_of(study))

    with tempfile.TemporaryDirectory() as name:
        for number, files in enumerate(outer_folds(dataset, work, Path(name))):
            yield once(work / "choice" / f"{dataset.name}-{number}.json", partial(measure, *files))


def networks_in(dataset: Set, train: Path, test: Path, root: Path) -> tuple[dict[str, list[TrainStage]], Path]:
    """The networks of a fit of these rows at the default's steps and one rate, `RUNS` of each; and their data folder."""
    settings = FitSettings(layout=dataset.layout, test=test, time=None, rates=defaults.ONE_RATE, pretrain=False)
    fit = prepare(read_source(str(train), settings, root), settings, root, None, "cpu")
    basis = fit.basis
    shape, amount = defaults.shape_of(basis.kind, basis.lengths), whole_amount(basis, fit.settings)
    plan = make_plan(read_study(with_places(study_table(basis, shape, fit.settings, amount), basis)), fit.data)
    specs: dict[str, list[TrainStage]] = {}
    for cell in plan.cells:
        if isinstance(cell.chain[-1].spec, TrainStage) and cell.seed < RUNS:
            specs.setdefault(cell.arm, []).append(cell.chain[-1].spec)
    return specs, fit.data


def trained(spec: TrainStage, data: Path) -> tuple[int, dict[str, dict[str, np.ndarray]]]:
    """The step of the best weights of a training, and what its best and its last weights give on each split."""
    run = TrainedRun(spec, open_task(spec.task, data))
    list(run.steps())
    outputs = {}
    for which in ("last", "best"):
        outputs[which] = {name: x.numpy() for name, x in outputs_of(run.model, spec, run.task, "cpu").items()}
        run.progress.load_best()
    return run.progress.best_step, outputs


def second_fits(specs: list[TrainStage], data: Path, seed: int) -> dict[str, float]:
    """Accuracy and log loss on the test split: of the runs, on average; and of each training on all rows.

    Each is calibrated on validation: the best weights of a run by itself; the training of all steps as the last weights of the
    run with the best validation score, or, for comparison, as its best weights.
    """
    runs = [trained(spec, data) for spec in specs]
    steps = int(median(best for best, _ in runs))
    val = [(outputs["best"]["val/output"].argmax(1) == outputs["best"]["val/target"]).mean() for _, outputs in runs]
    chosen = runs[int(np.argmax(val))][1]
    first = specs[0]
    task = first.task.model_copy(update={"validation": 0, "folds": None, "fold": None})
    whole = first.model_copy(update={"task": task, "seed": seed})
    few = {"steps": steps, "evaluate_every": max(1, steps / 10)}
    short = whole.model_copy(update={"budget": first.budget.model_copy(update=few)})
    both = {name: trained(spec, data)[1]["last"] for name, spec in (("short", short), ("whole", whole))}
    hot, last_hot = temperature(chosen["best"]), temperature(chosen["last"])
    return {
        "runs": mean(accuracy(outputs["best"]) for _, outputs in runs),
        "short": accuracy(both["short"]),
        "whole": accuracy(both["whole"]),
        "runs loss": mean(loss(outputs["best"], temperature(outputs["best"])) for _, outputs in runs),
        "short loss": loss(both["short"], hot),
        "whole loss": loss(both["whole"], last_hot),
        "whole loss, best": loss(both["whole"], hot),
        "steps": steps,
        "all": first.budget.steps or 0,
    }


def temperature(outputs: Mapping[str, np.ndarray]) -> float:
    """What fits these outputs on validation."""
    return fit_temperature(outputs["val/output"], outputs["val/target"].astype(int), True)


def accuracy(outputs: Mapping[str, np.ndarray]) -> float:
    """On the test split."""
    return float((outputs["test/output"].argmax(1) == outputs["test/target"]).mean())


def loss(outputs: Mapping[str, np.ndarray], hot: float) -> float:
    """Mean log loss on the test split at this temperature."""
    shares, target = softmax(outputs["test/output"], hot), outputs["test/target"].astype(int)
    return float(-np.log(np.maximum(shares[np.arange(len(target)), target], 1e-12)).mean())


def second_fits_of(dataset: Set, work: Path, outer: int) -> Iterator[dict[str, float]]:
    """`second_fits` of each network in so many outer folds, the seed of the second fit that of the fold."""
    with tempfile.TemporaryDirectory() as name, torch_settings(1):
        for number, (train, test) in zip(range(outer), outer_folds(dataset, work, Path(name)), strict=False):
            specs, data = networks_in(dataset, train, test, train.parent / "runs")
            for arm in list(specs) if specs["scratch"][0].task.folds else ["scratch"]:
                path = work / "again" / f"{dataset.name}-{number}-{arm}.json"
                yield once(path, partial(second_fits, specs[arm], data, number))


def networks_page(sets: Mapping[str, Set], work: Path) -> str:
    """The page of --networks."""
    rows, lines, number = [], [], 0
    for name, outer in NETWORK_SETS.items():
        fits = list(second_fits_of(sets[name], work, outer))
        number += len(fits)
        rows.append({key: mean(fit[key] for fit in fits) for key in fits[0]})
        row = rows[-1]
        shares, losses = ([f"{row[key + more]:.3f}" for key in WHICH] for more in ("", " loss"))
        steps = f"{median(fit['steps'] for fit in fits):.0f} of {row['all']:.0f}"
        lines.append([name, str(len(fits)), steps, *shares, *losses, f"{row['whole loss, best']:.3f}"])
        print("  ".join(lines[-1]), flush=True)
    table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    gains = {key: gain_text(table[key] - table["runs"]) for key in ("short", "whole")}
    less = {key: gain_text(table[key] - table["runs loss"]) for key in ("short loss", "whole loss", "whole loss, best")}
    heads = ["set", "fits", "best after", "runs", "short", "whole"]
    heads += ["runs: log loss", "short", "whole", "whole, T of best"]
    return filled(
        "fit-again",
        table=markdown(heads, lines),
        runs=RUNS,
        few_rows=FEW_ROWS,
        sets=len(rows),
        short=gains["short"],
        whole=gains["whole"],
        short_loss=less["short loss"],
        whole_loss=less["whole loss"],
        best_loss=less["whole loss, best"],
        rate=defaults.ONE_RATE[0],
        made=made_here("headstart"),
    )


def choice_page(sets: Mapping[str, Set], work: Path) -> str:
    """The page of what needs no network."""
    rows, lines = [], []
    for name in sets_of("choosing"):
        train = files_of(sets[name], work)[0]
        text = train.read_text("utf-8").splitlines() if train.suffix == ".tsv" else []
        if not 0 < len(text) < FEW_ROWS:
            continue
        try:
            ways = list(measured(sets[name], work))
        except ValueError as error:  # fewer rows of a class than outer folds
            print(f"{name} is left out: {error}")
            continue
        rows.append([mean(way[key] for way in ways) for key in WAYS])
        lines.append([name, f"{len(text):,}", *(f"{value:.3f}" for value in rows[-1])])
        print("  ".join(lines[-1]), flush=True)
    table = np.array(rows)
    other = [line[0] for line, row in zip(lines, rows, strict=True) if row[3] != row[2]]
    return filled(
        "fit-choice",
        table=markdown(["set", "rows", *WAYS], lines),
        outer=OUTER,
        sets=len(rows),
        folds=gain_text(table[:, 1] - table[:, 0]),
        second_fit=gain_text(table[:, 2] - table[:, 1]),
        both=gain_text(table[:, 2] - table[:, 0]),
        rounds=MOST_ROUNDS,
        more_rounds=gain_text(table[:, 3] - table[:, 2]),
        other=", ".join(other) or "no set",
        made=made_here("headstart"),
    )


def on_validation(table: Mapping[str, Any], root: Path, data: Path, workers: int) -> dict[str, list[float]]:
    """Arm -> accuracy on validation of each run of a study, whose stages come to a store in `root`."""
    study = headstart.Study(table, store=root / "runs", data=data)
    list(study.perform(workers=workers))
    scores: dict[str, list[float]] = {}
    for (arm, _), (val, _) in scores_of(study).items():
        scores.setdefault(arm, []).append(val)
    return scores


def features_of(dataset: Set, work: Path) -> dict[str, float]:
    """Accuracy of each of `BESIDE` on validation, on average over the folds of the train rows; no test row is read."""
    train = files_of(dataset, work)[0].absolute()
    task = {"kind": "own", "file": str(train), "layout": dataset.layout.model_dump(exclude_unset=True)}
    study = {
        "name": "features",
        "stages": {"finetune": {"objective": {"kind": "classify"}}},
        "columns": {"data": {"task": {**task, "test_share": 0, "folds": FOLDS, "fold": "seed"}}},
        "arms": {str(i): {"model": {"kind": "kernels", "also": also}} for i, also in enumerate(BESIDE.values())},
        "axes": {"seed": list(range(FOLDS))},
        "report": {"baselines": False},
    }
    with tempfile.TemporaryDirectory() as name:
        scores = on_validation(study, Path(name), Path(name), workers=0)
    return {name: mean(scores[str(i)]) for i, name in enumerate(BESIDE)}


def features_page(sets: Mapping[str, Set], work: Path) -> str:
    """The page of --features."""
    rows, lines = [], []
    for name in sets_of("choosing"):
        if sets[name].family not in ("UCR", "UEA"):  # letters, which have no kernels
            continue
        scores = once(work / "features" / f"{name}.json", partial(features_of, sets[name], work))
        rows.append([scores[way] for way in BESIDE])
        count = len(files_of(sets[name], work)[0].read_text("utf-8").splitlines())
        lines.append([name, f"{count:,}", *(f"{value:.3f}" for value in rows[-1])])
        print("  ".join(lines[-1]), flush=True)
    table = np.array(rows)
    gains = [f"{name} {gain_text(table[:, i] - table[:, 0])}" for i, name in enumerate(BESIDE) if i]
    return filled(
        "fit-features",
        table=markdown(["set", "rows", *BESIDE], lines),
        folds=FOLDS,
        sets=len(rows),
        gains=", ".join(gains),
        made=made_here("headstart"),
    )


def servings_of(dataset: Set, work: Path) -> Iterator[dict[str, Any]]:
    """What both rules serve in each outer fold, and how accurate it is there, on average over its runs."""

    def measure(train: Path, test: Path) -> dict[str, Any]:
        settings = FitSettings(layout=dataset.layout, test=test, time=SERVING_TIME)
        out, store = train.parent / "model", train.parent / "runs"
        outcome = fit_sequences(train, settings, out=out, store=store, workers=2)
        chosen = {"best": best_of(outcome.candidates), "clear": winner(outcome.candidates)}
        tests = {rule: item.row.test.mean for rule, item in chosen.items() if item.row.test is not None}
        return tests | {f"{rule} serves": item.name for rule, item in chosen.items()}

    with tempfile.TemporaryDirectory() as name:
        for number, files in zip(range(SERVING_FOLDS), outer_folds(dataset, work, Path(name)), strict=False):
            yield once(work / "serving" / f"{dataset.name}-{number}.json", partial(measure, *files))


def serving_page(sets: Mapping[str, Set], work: Path) -> str:
    """The page of --serving."""
    rows, lines = [], []
    for name in SERVING_SETS:
        fits = list(servings_of(sets[name], work))
        rows.append([mean(fit[rule] for fit in fits) for rule in ("best", "clear")])
        both = [", ".join(fit[f"{rule} serves"] for fit in fits) for rule in ("best", "clear")]
        lines.append([name, f"{rows[-1][0]:.3f} ({both[0]})", f"{rows[-1][1]:.3f} ({both[1]})"])
        print("  ".join(lines[-1]), flush=True)
    table = np.array(rows)
    return filled(
        "fit-serving",
        table=markdown(["set", "best on validation", "clearly best, else the best without a network"], lines),
        folds=SERVING_FOLDS,
        time=SERVING_TIME,
        sets=len(rows),
        gain=gain_text(table[:, 1] - table[:, 0]),
        made=made_here("headstart"),
    )


def letters(sets: Mapping[str, Set], work: Path) -> list[str]:
    """Validation accuracy with no and with learned positions: `LETTERS`, networks of a fit at one rate."""
    lines = ["| set | none | learned |", "| --- | ---: | ---: |"]
    for name in LETTERS:
        train = files_of(sets[name], work)[0]
        settings = FitSettings(
            layout=sets[name].layout, time=None, rates=defaults.ONE_RATE, pretrain=False, seeds=(0, 1)
        )
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            fit = prepare(read_source(str(train), settings, root), settings, root, None, "cpu")
            shape = defaults.shape_of(fit.basis.kind, fit.basis.lengths)
            table = with_places(study_table(fit.basis, shape, fit.settings, LETTERS_AMOUNT), fit.basis)
            base = table["arms"]["scratch"]
            table["arms"] = {
                kind: overlay(base, {"model": {"position": {"kind": kind}}}) for kind in ("none", "learned")
            }
            table["report"] = {"baselines": False}
            scores = on_validation(table, root, fit.data, workers=2)
        both = (" and ".join(f"{value:.3f}" for value in scores[kind]) for kind in ("none", "learned"))
        lines.append(f"| {name} | {' | '.join(both)} |")
        print(lines[-1], flush=True)
    return lines


PARTS = {"choice": choice_page, "again": networks_page, "features": features_page, "serving": serving_page}
"""Name of a page -> what makes it."""


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-choice"))
    part = words.add_mutually_exclusive_group()
    part.add_argument("--networks", dest="part", action="store_const", const="again", default="choice")
    for name in ("features", "serving", "letters"):
        part.add_argument(f"--{name}", dest="part", action="store_const", const=name)
    words.add_argument("--write", action="store_true")
    options = words.parse_args()
    work = options.work.absolute()
    sets = {dataset.name: dataset for dataset in all_sets(options.data, work)}
    if options.part == "letters":
        letters(sets, work)
        return
    text = PARTS[options.part](sets, work)
    print(text)
    if options.write:
        write(PAGES / f"fit-{options.part}.md", text)


if __name__ == "__main__":
    main()
