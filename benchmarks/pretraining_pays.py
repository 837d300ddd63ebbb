"""When self-pretraining pays: its gain over the number of labels, on the larger real sets at hand.

    python benchmarks/pretraining_pays.py --data DIR --work WORK --write FILE [--sets "FaceAll,MNIST"]
    headstart run FILE --data WORK seed=0 --json docs/results/seeds/pretraining-pays-0.json      # and seeds 1 to 5
    python benchmarks/pretraining_pays.py --rule docs/results/seeds/pretraining-pays-*.json

The first command writes a study, the second runs one seed of it; `headstart report --from` joins the seeds to a page. The
third asks whether labels and unlabelled sequences tell where self-pretraining pays: it fits a rule to some sets and tests it
on the others. DIR is the folder of own_results.py, with mnist/ and cifar10/ beside the others; WORK gets what its archives
hold, and links to what headstart reads as it is.

Each set has a column for 5 and for 10 labels a class, and for 100, 300 and 1,000 labels, as far as it has them: that many
train rows keep their label, all others serve self-pretraining alone. The networks are those of `headstart fit`, but for one
width and one pretraining for all columns of a set, and train as long as there where time is no limit. Random kernels (n-grams
of letters) get the same labels. Where the time is short the last sets of `ORDER` are left out.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from own_results import all_sets
from sklearn.linear_model import LogisticRegression

from headstart.fit import defaults
from headstart.fit.budget import EVALUATIONS
from headstart.spec import read
from headstart.study.files import to_toml
from headstart.study.results import Results
from headstart.study.snapshot import read_snapshot
from headstart.tasks import TASKS
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import Task, open_task

ORDER = (
    "FaceAll",
    "Strawberry",
    "SyntheticControl",
    "splice junctions",
    "EOGVerticalSignal",
    "MNIST",
    "CIFAR-10 patches",
    "promoters Ecoli",
    "spoken digits",
    "Earthquakes",
)
"""The sets, the most wanted first. ECG5000 is left out: one of its five classes has two rows."""
FOLDS = 5
"""A fifth of the train rows chooses rates and weights; another fifth in each run, so that runs differ in their labels."""
A_CLASS, COUNTS = (5, 10), (100, 300, 1_000)
IMAGES: dict[str, dict[str, Any]] = {
    "MNIST": {"kind": "mnist", "side": 32, "tile": 4, "val_per_class": 50},
    "CIFAR-10 patches": {"kind": "cifar_patches", "channels": "grey", "val": 500},
}
RATES, SEEDS = list(defaults.RATES), list(range(6))
LEAST_GAIN = 0.01
"""Of test accuracy: less is not worth the time."""


def tasks_of(data: Path, work: Path) -> dict[str, dict[str, Any]]:
    """Set -> the task's table, whose files lie in the work folder."""
    for name in ("mnist", "cifar10"):
        if (data / name).exists() and not (work / name).exists():
            (work / name).symlink_to(data / name)
    tables = dict(IMAGES)
    for dataset in all_sets(data, work):
        if dataset.name in ORDER:
            name = "".join(c if c.isalnum() else "-" for c in dataset.name)
            train, test, _ = dataset.files(work / "files" / name)
            table = {"kind": "own", "file": str(train.relative_to(work)), "folds": FOLDS, "fold": "seed"}
            table |= {"test": str(test.relative_to(work))} if test is not None else {}
            table |= {"layout": dataset.layout.model_dump(exclude_unset=True)}
            tables[dataset.name] = table
    return tables


def opened(table: Mapping[str, Any], data: Path) -> tuple[Task, str]:
    """The task as its first run deals it, and its kind of data."""
    spec = read(TASKS[table["kind"]].load(), {**table, "fold": 0} if "fold" in table else table, "task")
    return open_task(spec, data), spec.facts(data).kind if isinstance(spec, OwnSpec) else "numbers"


def label_counts(classes: int, rows: int) -> list[int]:
    """Numbers of labels, in ascending order: 5 and 10 a class, then round numbers, as far as there are rows."""
    few = [each * classes for each in A_CLASS]
    return [*(n for n in few if n <= rows), *(n for n in COUNTS if few[-1] < n <= rows)]


def columns_of(name: str, table: dict[str, Any], data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A column for each number of labels."""
    task, kind = opened(table, data)
    lengths = np.concatenate([task.split(split).lengths for split in ("train", "val", "test")])
    shape = defaults.shape_of(kind, lengths)
    read_as = {"patch": shape.patch} if shape.patch > 1 else {}
    read_as |= {"longest": shape.longest} if shape.longest is not None else {}
    rows = task.train.units
    for labels in label_counts(task.signature.classes, len(task.train.labelled_units())):
        size = defaults.batch_size(labels, rows)
        yield (
            f"{''.join(c if c.isalnum() else '_' for c in name)}_{labels}",
            {
                "task": {**table, **read_as},
                "model": {"kind": "sequence", **defaults.model_table(kind, min(labels, defaults.FEW - 1), lengths)},
                "pretrain": {
                    "objective": {"kind": "masked", "mask_rate": defaults.KINDS[kind].mask_rate},
                    "budget": budget(defaults.PRETRAIN_EPOCHS * math.ceil(rows / 16), defaults.PRETRAIN_STEPS),
                },
                "finetune": {
                    "task": {"labelled": labels},
                    "optim": {"batch_size": size},
                    "budget": budget(defaults.EPOCHS * math.ceil(labels / size), defaults.STEPS),
                },
            },
        )


def budget(steps: float, ends: tuple[int, int]) -> dict[str, Any]:
    """Steps within the ends that `fit` has, with as many looks at validation."""
    steps = round(min(max(steps, ends[0]), ends[1]))
    return {"steps": steps, "evaluate_every": steps / EVALUATIONS}


def study_table(names: list[str], data: Path, work: Path) -> dict[str, Any]:
    """The study of these sets."""
    tables = tasks_of(data, work)
    columns: dict[str, Any] = {}
    for name in names:
        columns |= dict(columns_of(name, tables[name], work))
    optim = {"batch_size": 16, "warmup_share": 0.1, "clip": 1.0, "weight_decay": 0.01}
    return {
        "name": "pretraining-pays",
        "title": "When does self-pretraining pay? Networks of `headstart fit` with few labels and all unlabelled sequences",
        "stages": {
            "pretrain": {"optim": {**optim, "lr": defaults.PRETRAIN_RATE}},
            "finetune": {"objective": {"kind": "classify"}, "optim": {**optim, "lr": RATES[0]}},
        },
        "columns": columns,
        "arms": {
            "scratch": {},
            "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
            "kernels": {"model": {"kind": "kernels"}},
            "majority": {"model": {"kind": "majority"}},
        },
        "axes": {"finetune.optim.lr": RATES, "seed": SEEDS},
        "claims": [
            {
                "says": "Self-pretraining beats training from scratch with this many labels.",
                "higher": "self_pretrained",
                "lower": "scratch",
            },
            {
                "says": "A self-pretrained network beats random kernels (n-grams) with the same labels.",
                "higher": "self_pretrained",
                "lower": "kernels",
            },
        ],
        "report": {"choose": ["finetune.optim.lr"], "against": "scratch", "baselines": False},
    }


@dataclass(frozen=True)
class Point:
    """One column: the set, what `fit` sees of it before it trains, and the gain of self-pretraining in test accuracy."""

    name: str
    labels: int
    rows: int
    classes: int
    gain: float

    @property
    def features(self) -> list[float]:
        """Labels of a class, and train sequences for each label, as powers of ten."""
        return [math.log10(self.labels / self.classes), math.log10(self.rows / self.labels)]

    @property
    def pays(self) -> bool:
        """The gain is more than the smallest that is worth the time."""
        return self.gain > LEAST_GAIN


def points_of(results: Results) -> list[Point]:
    """The columns of which both arms are finished."""
    points = []
    for column in results.columns:
        row = results.row("self_pretrained", column)
        if row is not None and row.difference is not None:
            facts = results.facts[row.task]
            labels, rows = facts.sizes["labelled"], facts.sizes["train"]
            points.append(Point(column.rpartition("_")[0], labels, rows, len(facts.labels), row.difference.mean))
    return points


def rule_of(points: Sequence[Point]) -> Any:
    """A logistic regression on the features."""
    rule = LogisticRegression(C=1.0)
    return rule.fit([point.features for point in points], [point.pays for point in points])


def hits(points: Sequence[Point]) -> tuple[int, int]:
    """How many columns the rule gets right when it was fitted to the other sets, and the answer that is more common on
    those."""
    right = common = 0
    for name in dict.fromkeys(point.name for point in points):
        others, own = ([p for p in points if (p.name == name) == side] for side in (False, True))
        usual = sum(p.pays for p in others) * 2 > len(others)
        common += sum(p.pays == usual for p in own)
        answers = rule_of(others).predict([p.features for p in own])
        right += sum(bool(a) == p.pays for a, p in zip(answers, own, strict=True))
    return right, common


def print_rule(files: Sequence[Path]) -> None:
    """Every column, the rule fitted to all of them, and how often it is right on sets that it has not seen."""
    results = read_snapshot(files).results()
    points = points_of(results)
    for point in points:
        print(
            f"{point.name:20} {point.labels:6,} labels {point.rows:7,} rows {point.classes:3} classes {point.gain:+.3f}"
        )
    rule, (right, common) = rule_of(points), hits(points)
    print(f"intercept {rule.intercept_[0]:.3f}, weights {', '.join(f'{weight:.3f}' for weight in rule.coef_[0])}")
    print(f"{sum(point.pays for point in points)} of {len(points)} columns gain more than {LEAST_GAIN}")
    print(
        f"right on {right} of {len(points)} columns of sets that it was not fitted to; the commoner answer on {common}"
    )


def main() -> None:
    words = argparse.ArgumentParser(description="Write the study of when self-pretraining pays.")
    words.add_argument("--data", type=Path)
    words.add_argument("--work", type=Path, default=Path("runs/pretraining-pays"))
    words.add_argument("--sets", default=",".join(ORDER), help="names with commas between them")
    words.add_argument("--write", type=Path)
    words.add_argument("--rule", type=Path, nargs="+")
    options = words.parse_args()
    if options.rule:
        return print_rule(options.rule)
    if options.data is None or options.write is None:
        raise SystemExit("give --data DIR --write FILE, or --rule FILES")
    names = options.sets.split(",")
    if unknown := [name for name in names if name not in ORDER]:
        raise SystemExit(f"--sets: {', '.join(unknown)}: not among {', '.join(ORDER)}")
    for folder in (options.work, options.write.parent):
        folder.mkdir(parents=True, exist_ok=True)
    table = study_table(names, options.data.absolute(), options.work.absolute())
    options.write.write_text(to_toml(table), "utf-8")
    print(f"{options.write}: {len(table['columns'])} columns of {len(names)} sets")


if __name__ == "__main__":
    main()
