"""When self-pretraining pays: its gain over the number of labels, on the larger real sets at hand.

    python benchmarks/pretraining_pays.py --data DIR --work WORK --write FILE [--sets "FaceAll,MNIST"]
    headstart run FILE --data WORK seed=0 --json docs/results/seeds/pretraining-pays-0.json      # and seeds 1 to 5
    make results                                                                 # docs/results/pretraining-pays.md

The first command writes a study, the second runs one seed of it, the third makes the page of all seeds that are kept. The page
asks too what tells where self-pretraining pays: rules are fitted to some sets and tested on the others; together with the sets
of docs/results/own.md, whose sequences nearly all have a label, they give what `fit` says (fit/defaults.py). DIR is the folder of own_results.py, with mnist/ and cifar10/ beside the others;
WORK gets what its archives hold, and links to what headstart reads as it is.

Each set has a column for 5 and for 10 labels a class, and for 100, 300 and 1,000 labels, as far as it has them: that many
train rows keep their label, all others serve self-pretraining alone. The networks are those of `headstart fit` as it was when
the seeds ran (`MEASURED`), but for one width and one pretraining for all columns of a set, and train as long as there where time is
no limit. Random kernels (n-grams
of letters) get the same labels. Where the time is short the last sets of `ORDER` are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import FILMS_MORE, all_sets, filled, parser_of, plain_name
from own_results import NUMBERS
from sklearn.linear_model import LogisticRegression

from headstart import words
from headstart.fit import defaults
from headstart.fit.basis import EVALUATIONS
from headstart.report.figures.style import across, canvas, legend_of, png
from headstart.report.tables.report_table import text_table, to_markdown
from headstart.report.tables.scores import differences
from headstart.spec import read
from headstart.statistics import Difference, mean, paired_difference
from headstart.study.language.files import to_toml
from headstart.study.results.answers import stratified
from headstart.study.results.results import Results
from headstart.study.results.rows import Row
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
MEASURED = "2026-11-25"
"""When the seeds that are kept ran: since then `fit` has batch norm, a second mixer and competing kernels for numbers."""
TRAINED = (
    "headstart 0.1.0 (commit not recorded; the newest was e5678e449b81 when the first stage began and f4923b470f79 when "
    "the last did)"
)
RATES, SEEDS = list(defaults.LEARNING_RATES), list(range(6))
NAME = "pretraining-pays"
"""Of the study, of its page and of the files of its seeds."""
OWN = "self_pretrained"
ARMS = {"scratch": "from random weights", OWN: "self-pretrained", "kernels": "kernels (n-grams)"}
FIGURE = f"figures/{NAME}.png"
HEADS = (
    "set",
    "labels",
    "classes",
    "without label",
    "steps (epochs) of pretraining",
    "scratch",
    OWN,
    "kernels",
    "majority",
    "gain",
)
NOTE = (
    "Test accuracy, mean ± standard error over seeds; the gain of self_pretrained over scratch is paired by seed, with a 95 % "
    "interval of its own; whether self-pretraining pays over all rows is what the interval over these sets says. without label: "
    "train sequences that serve self-pretraining alone. Pretraining ends after 3,000 steps of 16 sequences at most, so that epochs are few where sequences are many."
)


def tasks_of(data: Path, work: Path) -> dict[str, dict[str, Any]]:
    """Set -> the task's table, whose files lie in the work folder."""
    for name in ("mnist", "cifar10"):
        if (data / name).exists() and not (work / name).exists():
            (work / name).symlink_to(data / name)
    tables = dict(IMAGES)
    for dataset in all_sets(data, work):
        if dataset.name in ORDER:
            name = plain_name(dataset.name)
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
    read_as = shape.task(shape.longest).get("task", {})
    rows = task.train.units
    for labels in label_counts(task.signature.classes, len(task.train.labelled_units())):
        size = defaults.batch_size(labels, rows)
        yield (
            f"{underscored(name)}_{labels}",
            {
                "task": {**table, **read_as},
                "model": {
                    "kind": "sequence",
                    "encoder": {"patch": shape.join},
                    **defaults.model_table(kind, min(labels, defaults.FEW_SEQUENCES - 1), lengths),
                },
                "pretrain": {
                    "objective": {"kind": "masked", "mask_rate": defaults.INPUT_KINDS[kind].mask_rate},
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
    return {"steps": steps, "evaluate_every": steps / EVALUATIONS[1]}


def study_table(names: list[str], data: Path, work: Path) -> dict[str, Any]:
    """The study of these sets."""
    tables = tasks_of(data, work)
    columns: dict[str, Any] = {}
    for name in names:
        columns |= dict(columns_of(name, tables[name], work))
    optim = {"batch_size": 16, "warmup_share": 0.1, "clip": 1.0, "weight_decay": 0.01}
    return {
        "name": NAME,
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
    def unlabelled(self) -> bool:
        """Some train sequences have no label."""
        return self.rows > self.labels

    @property
    def source(self) -> str:
        """Letters of the set's name that sets of one source share: they are left out together."""
        letters = "".join(c for c in self.name if c.isalpha())
        return next((start for start in ("promoters", "IMDb") if letters.startswith(start)), letters)

    @property
    def pays(self) -> bool:
        """The gain is more than the smallest that is worth the time."""
        return self.gain > defaults.LEAST_GAIN


def points_of(results: Results, split: str = "test") -> list[Point]:
    """The columns of which both arms are finished, with what was gained on test, or on validation (`val`)."""
    points = []
    for column in results.columns:
        row = results.row("self_pretrained", column)
        if row is not None and row.difference is not None:
            facts = results.facts[row.task]
            labels, rows = facts.sizes["labelled"], facts.sizes["train"]
            both = [at.val for arm in (OWN, "scratch") if (at := results.row(arm, column)) is not None and at.val]
            gain = row.difference.mean if split == "test" else both[0].mean - both[1].mean
            points.append(Point(column.rpartition("_")[0], labels, rows, len(facts.labels), gain))
    return points


def points_of_own(numbers: Path = NUMBERS, split: str = "test") -> list[Point]:
    """The sets of own.md whose networks had time to learn; reviews of films have `FILMS_MORE` sequences without a label."""

    def gain(set_: Mapping[str, Any]) -> float:
        both = [set_["models"][arm]["val"] for arm in (OWN, "scratch")] if split == "val" else []
        return float(both[0]["mean"] - both[1]["mean"] if both else set_["gain"]["mean"])

    return [
        Point(name, labels, labels + (FILMS_MORE if name.startswith("IMDb") else 0), set_["classes"], gain(set_))
        for set_ in json.loads(numbers.read_text("utf-8"))
        if set_["gain"] is not None and not any("too little for networks" in line for line in set_["plan"])
        for name, labels in [(set_["name"], set_["sizes"]["labelled"])]
    ]


Rule = Callable[[Point], bool]


def regression(points: Sequence[Point]) -> Rule:
    """A logistic regression on the features."""
    fitted = LogisticRegression(C=1.0).fit([point.features for point in points], [point.pays for point in points])
    return lambda point: bool(fitted.predict([point.features])[0])


def commoner(points: Sequence[Point]) -> Rule:
    """The answer of more than half of the points."""
    usual = sum(point.pays for point in points) * 2 > len(points)
    return lambda _: usual


def by_unlabelled(points: Sequence[Point]) -> Rule:
    """The commoner answer, where some sequences have no label and where all have one: the rule of `fit`."""
    both = {side: commoner([point for point in points if point.unlabelled == side]) for side in (False, True)}
    return lambda point: both[point.unlabelled](point)


def hits(points: Sequence[Point], fitted: Callable[[Sequence[Point]], Rule]) -> int:
    """How many points the rule gets right, each source left out when it is asked about."""
    right = 0
    for source in dict.fromkeys(point.source for point in points):
        rule = fitted([point for point in points if point.source != source])
        right += sum(rule(point) == point.pays for point in points if point.source == source)
    return right


def publish(results: Results, folder: Path) -> Path:
    """Write the page and its figure."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / FIGURE).write_bytes(png(plot(results), 150))
    page = folder / f"{NAME}.md"
    page.write_text(page_of(results), "utf-8")
    return page


def page_of(results: Results) -> str:
    """The page: what was gained, the table, what tells where it pays, and how it was measured."""
    points, of_own = points_of(results), points_of_own()
    every = [*points, *of_own]
    gaps = {column: row.difference for column in results.columns if (row := results.row(OWN, column)) is not None}
    rows = [_line(results, column) for column in gaps]
    table = replace(text_table(HEADS, rows, names=1), note=NOTE)
    gained = differences(results)
    assert gained is not None
    gained = replace(gained, lines=tuple(line for line in gained.lines if line.cells["arm"].text == OWN))
    rules = text_table(["rule", "few labels", "with the sets of own.md"], _rules(points, every), names=1)
    return filled(
        NAME,
        table=to_markdown(table).strip(),
        figure=FIGURE,
        rules=to_markdown(rules).strip(),
        differences=to_markdown(gained).strip(),
        measured=MEASURED,
        trained=TRAINED,
        least=defaults.LEAST_GAIN,
        order=", ".join(ORDER),
        mnist_epochs=epochs_of(results, "MNIST"),
        cifar_epochs=epochs_of(results, "CIFAR-10 patches"),
        **_summary(results, points),
        **_counts(every, of_own),
        **_by_validation(results),
        **_method(results),
    )


def _summary(results: Results, points: Sequence[Point]) -> dict[str, Any]:
    seeds = len({run.seed for row in results.table for run in row.runs})
    other, mnist = ([p.gain for p in points if (p.name == "MNIST") == side] for side in (False, True))
    ahead = [sum(_ahead(results, arm, column) for column in results.columns) for arm in (OWN, "scratch")]
    return {
        "columns": len(points),
        "sets": len({p.name for p in points}),
        "seeds": words.many(seeds, "seed"),
        "paying": sum(p.pays for p in points),
        "gain": words.difference(over_seeds(results)),
        "gain_sets": words.difference(over_sets(points)),
        "mnist": words.signed(mean(mnist)),
        "other": words.signed(mean(other)),
        "other_above": sum(gain > 0 for gain in other),
        "others": len(other),
        "ahead": ahead[0],
        "ahead_scratch": ahead[1],
    }


def pretraining_of(row: Row) -> tuple[float, float]:
    """Steps and epochs of a self-pretrained network before it was trained on labels."""
    return row.budget["steps"] - row.last["steps"], row.budget["epochs"] - row.last["epochs"]


def epochs_of(results: Results, name: str) -> float:
    """Epochs of pretraining on a set, which all its columns share."""
    rows = [row for c in results.columns if c.startswith(underscored(name)) and (row := results.row(OWN, c))]
    return pretraining_of(rows[0])[1] if rows else math.nan


def over_seeds(results: Results) -> Difference:
    """The mean gain over these sets, with an interval of what other seeds of them change (bootstrap, stratified by set)."""
    tables: dict[str, list[list[float]]] = {}
    for column in results.columns:
        both = [at.by_seed() for arm in (OWN, "scratch") if (at := results.row(arm, column)) is not None]
        gains = [both[0][seed] - both[1][seed] for seed in sorted(both[0]) if seed in both[1]]
        tables.setdefault(column.rpartition("_")[0], []).append(gains)
    return stratified({name: [np.array(columns)] for name, columns in tables.items()})


def over_sets(points: Sequence[Point]) -> Difference | None:
    """The mean gain over sets, of each the mean of its columns, with an interval of what another choice of sets changes."""
    each = {name: mean([p.gain for p in points if p.name == name]) for name in {p.name for p in points}}
    return paired_difference(each, dict.fromkeys(each, 0.0))


def titled(name: str) -> str:
    """The set's name, as `ORDER` has it, of that in a column."""
    return next((title for title in ORDER if underscored(title) == name), name)


def underscored(name: str) -> str:
    """The set's name as a column begins."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _ahead(results: Results, arm: str, column: str) -> bool:
    tests = [row.test for name in (arm, "kernels") if (row := results.row(name, column))]
    return len(tests) == 2 and None not in tests and tests[0].mean > tests[1].mean  # type: ignore[union-attr]


def _line(results: Results, column: str) -> list[str]:
    rows = {arm: results.row(arm, column) for arm in (*ARMS, "majority")}
    facts, gap = results.facts[rows[OWN].task], rows[OWN].difference  # type: ignore[union-attr]
    bare = facts.sizes["train"] - facts.sizes["labelled"]
    steps, epochs = pretraining_of(rows[OWN])  # type: ignore[arg-type]
    return [
        titled(column.rpartition("_")[0]),
        f"{facts.sizes['labelled']:,}",
        str(len(facts.labels)),
        f"{bare:,}",
        f"{steps:,.0f} ({epochs:.2g})" if epochs < 1 else f"{steps:,.0f} ({epochs:.0f})",
        *(words.plus_minus(row.test if row else None) for row in rows.values()),
        words.difference(gap),
    ]


def _rules(points: Sequence[Point], every: Sequence[Point]) -> list[list[str]]:
    return [
        [title, *(f"{hits(asked, rule)} of {len(asked)}" for asked in (points, every))]
        for rule, title in (
            (commoner, "the commoner answer of the other sets"),
            (regression, "logistic regression on labels a class and sequences for each label"),
            (by_unlabelled, "it pays where some sequences have no label"),
        )
    ]


def groups(points: Sequence[Point]) -> dict[bool, tuple[int, int]]:
    """Whether some sequences have no label -> how many points gain, and how many there are."""
    sides = {side: [point for point in points if point.unlabelled == side] for side in (True, False)}
    return {side: (sum(point.pays for point in group), len(group)) for side, group in sides.items()}


def _counts(points: Sequence[Point], of_own: Sequence[Point]) -> dict[str, Any]:
    sides, here = groups(points), sum(point.unlabelled for point in points) - sum(point.unlabelled for point in of_own)
    best = sorted((point for point in of_own if not point.unlabelled), key=lambda point: -point.gain)[:2]
    texts = {side: f"{gained} of {number}" for side, (gained, number) in sides.items()}
    return {
        "unlabelled": texts[True],
        "labelled": texts[False],
        "here": here,
        "unlabelled_of": sides[True][1],
        "best": words.listed([f"{p.name} {words.signed(p.gain)}" for p in best]),
    }


def _by_validation(results: Results) -> dict[str, Any]:
    """The same rule, of gains on validation rows: no row that decides it is then one that a page scores."""
    points = [*points_of(results, "val"), *points_of_own(split="val")]
    sides = groups(points)
    texts = {side: f"{gained} of {number}" for side, (gained, number) in sides.items()}
    pays = {side: 2 * gained > number for side, (gained, number) in sides.items()}
    return {
        "same": "the same" if pays == {True: True, False: False} else "another",
        "val_unlabelled": texts[True],
        "val_labelled": texts[False],
        "val_right": hits(points, by_unlabelled),
        "val_of": len(points),
    }


def _method(results: Results) -> dict[str, Any]:
    rows = {arm: [row for c in results.columns if (row := results.row(arm, c))] for arm in ARMS}
    fits = [mean([run.more["last_train"] for run in row.runs]) for row in rows["scratch"]]
    ratios = [a.budget["flops"] / b.budget["flops"] for a, b in zip(rows[OWN], rows["scratch"], strict=True)]
    machines = dict.fromkeys(run.machine for row in rows[OWN] for run in row.runs if run.machine)
    return {
        "fitted": sum(value >= 0.99 for value in fits),
        "rows": len(fits),
        "worst": min(fits),
        "least_flops": min(ratios),
        "most_flops": max(ratios),
        "machines": ", ".join(machines) or "CPU",
    }


def plot(results: Results) -> Any:
    """A panel for each set: test accuracy of each arm over the number of labels."""
    names = list(dict.fromkeys(column.rpartition("_")[0] for column in results.columns))
    with canvas(False, 9.0, 2.1) as (figure, look):
        number = across(figure, len(names), 1.7)
        panels = figure.subplots(-(-len(names) // number), number, squeeze=False).flat
        for axes, name in zip(panels, names, strict=False):
            columns = {int(c.rpartition("_")[2]): c for c in results.columns if c.rpartition("_")[0] == name}
            for i, arm in enumerate(ARMS):
                rows = {labels: results.row(arm, column) for labels, column in columns.items()}
                drawn = [(labels, row.test) for labels, row in rows.items() if row is not None and row.test is not None]
                axes.errorbar(
                    [labels for labels, _ in drawn],
                    [test.mean for _, test in drawn],
                    [test.sem or 0.0 for _, test in drawn],
                    label=ARMS[arm],
                    markersize=4,
                    **look.marked(i),
                )
            axes.set_xscale("log")
            axes.set_xticks([*columns], [f"{labels:,}" for labels in columns], fontsize=8)
            axes.set_xticks([], minor=True)
            axes.set_title(titled(name), fontsize=8.5)
        for axes in [*panels]:
            axes.set_visible(False)
        figure.supxlabel("labels", fontsize=9)
        figure.supylabel("test accuracy", fontsize=9)
        legend_of(figure, figure.axes[0])
    return figure


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/pretraining-pays"))
    parser.add_argument("--sets", default=",".join(ORDER), help="names with commas between them")
    parser.add_argument("--write", type=Path, required=True)
    options = parser.parse_args()
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
