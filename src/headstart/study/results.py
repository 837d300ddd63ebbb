"""What a study found, as values: runs, rows, differences, averages, caveats. Made by `selection.summarise`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from headstart.study import words
from headstart.study.papers import MATCHES, MEASURES, QUANTITIES, made_of
from headstart.study.scales import stand_ins_told
from headstart.study.statistics import Difference, Estimate, estimate

if TYPE_CHECKING:
    import pandas

    from headstart.study.papers import Claim, Paper

Status = Literal["measured", "at chance", "partial", "diverged", "failed", "absent"]

AMOUNTS = ("epochs", "steps", "examples", "tokens", "flops", "seconds")
"""What a budget counts."""

MORE = ("train", "last_train", "last_val", "last_test")
"""Scores of a run besides val and test: of train at the best weights, and of all three at the last ones."""


@dataclass(frozen=True)
class Run:
    """One seed of one setting: its chain of stages (name, identity), parents first, and its scores.

    `status` is the last stage's: complete, diverged, or what the store says of it. `budget` counts the whole
    chain, `last` the reported stage alone. `more` holds the scores of `MORE` that are numbers. The last weights of
    a diverged run are none: its `last_val` is the last finite score of its records, where these were read, and
    otherwise the scores at its best weights, the last that were kept whole, stand for those at its last.
    """

    seed: int
    status: str
    stages: tuple[tuple[str, str], ...]
    val: float | None
    test: float | None
    budget: Mapping[str, float]
    last: Mapping[str, float]
    more: Mapping[str, float] = field(default_factory=dict)


def scores_by_seed(runs: Sequence[Run], quantity: str) -> dict[int, float]:
    """Seed -> score of the runs that have it: any of `QUANTITIES` but those that count steps."""
    if quantity == "last_gap":
        train, test = scores_by_seed(runs, "last_train"), scores_by_seed(runs, "last_test")
        return {seed: train[seed] - test[seed] for seed in train if seed in test}
    values = {run.seed: {"val": run.val, "test": run.test, **run.more}.get(quantity) for run in runs}
    return {seed: value for seed, value in values.items() if value is not None}


@dataclass(frozen=True)
class Point:
    """One setting of a sweep, over its seeds. `status`: complete, partial, diverged, failed or absent."""

    settings: Mapping[str, Any]
    status: str
    val: Estimate | None
    test: Estimate | None
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Match:
    """Steps to a score, `target`: the best point of the mean curve of the arm that is to be matched.

    reached: seed -> steps, of the seeds that reach it; together: until the mean over seeds does.
    """

    target: float
    reached: Mapping[int, int]
    together: int | None


@dataclass(frozen=True)
class Pace:
    """Steps of the reported stage, read from records at the chosen settings, of so many `seeds` with records.

    converged: seed -> steps to within 1 % of its best validation score. reach: to the validation score of the arm that
    is to be matched, where the study names one; fit: to its train score, where records hold it.
    """

    seeds: int
    converged: Mapping[int, int]
    reach: Match | None = None
    fit: Match | None = None


@dataclass(frozen=True)
class Row:
    """One arm on one column at its chosen settings.

    `chosen` is what validation chose. `n` seeds of `expected` finished. `difference` is to the arm that the
    study compares with, on test, paired by seed. `budget` is the mean per run with its parents, `last` that
    of the reported stage alone, `tried` the sum over all settings and seeds, each stage once. `task` is the
    key of its facts. `pace` is there where the records were read. `parameters`: how many numbers the reported
    stage's model has. `stand_in`: what stood in for absent data in its chain (`digits for image`). `measures`: of
    `MEASURES`, seed -> number, where they were read. `source`: where the score of a baseline is from, if not from here.
    """

    arm: str
    column: str
    chosen: Mapping[str, Any]
    status: Status
    metric: str
    greater: bool
    n: int
    expected: int
    val: Estimate | None
    test: Estimate | None
    difference: Difference | None
    budget: Mapping[str, float]
    last: Mapping[str, float]
    tried: Mapping[str, float]
    points: tuple[Point, ...]
    runs: tuple[Run, ...]
    task: str
    pace: Pace | None = None
    parameters: int | None = None
    stand_in: str = ""
    measures: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    source: str = ""

    def match(self, quantity: str = "reach") -> Match | None:
        """How soon the arm is as good as the one that is to be matched: `reach` on validation, `fit` on train.

        None for any other quantity.
        """
        return getattr(self.pace, quantity, None) if quantity in MATCHES else None

    def by_seed(self, quantity: str = "test") -> dict[int, float]:
        """Seed -> number at the chosen setting, of one of `QUANTITIES`.

        Raises: ValueError for a quantity that there is not.
        """
        if quantity not in QUANTITIES:
            raise ValueError(f"quantity: no {quantity!r}; there are {', '.join(QUANTITIES)}")
        if quantity in MATCHES:
            match = self.match(quantity)
            return {seed: float(step) for seed, step in match.reached.items()} if match else {}
        if quantity == "converge":
            return {seed: float(step) for seed, step in (self.pace.converged if self.pace else {}).items()}
        if quantity in MEASURES:
            return dict(self.measures.get(quantity, {}))
        return scores_by_seed(self.runs, quantity)

    def estimate(self, quantity: str) -> Estimate | None:
        """Mean and standard error over seeds of one of `QUANTITIES`, or None where there is no number.

        Raises: ValueError for a quantity that there is not.
        """
        return estimate(self.by_seed(quantity).values())

    @property
    def stages(self) -> tuple[str, ...]:
        """Identities of the stages behind the reported numbers, parents first, each once."""
        return tuple(dict.fromkeys(identity for run in self.runs for _, identity in run.stages))

    @property
    def key(self) -> str:
        """A name of this row that no other row has."""
        return f"{self.column}/{self.arm}"

    @property
    def finished(self) -> bool:
        """All seeds of all settings are done, well or badly."""
        return self.status in ("measured", "at chance", "diverged")

    def document(self) -> dict[str, Any]:
        """The row as `--json` writes it; `sem` is of `test`, `seeds` are the scores behind the means.

        Numbers that are not there are null. `reach` and `fit` are the steps at which the mean over seeds matches,
        `converge` is the mean over seeds.
        """
        gap = self.difference
        more = {name: value.mean if (value := self.estimate(name)) else None for name in (*MORE, "converge")}
        return {
            "arm": self.arm,
            "column": self.column,
            "chosen": dict(self.chosen),
            "n": self.n,
            "val": self.val.mean if self.val else None,
            "test": self.test.mean if self.test else None,
            "sem": self.test.sem if self.test else None,
            "difference": gap.mean if gap else None,
            "interval": list(gap.interval) if gap and gap.interval else None,
            "budget": {**self.budget, "last_stage": dict(self.last), "all_tried": dict(self.tried)},
            "tried": len(self.points),
            **more,
            **{name: match.together if (match := self.match(name)) else None for name in MATCHES},
            "seeds": {str(run.seed): {"val": run.val, "test": run.test, **run.more} for run in self.runs},
            "stages": list(self.stages),
            "status": self.status,
        }


def sharing_stage(rows: Sequence[Row], stage: str) -> dict[tuple[str, ...], list[str]]:
    """Identities of a stage over seeds, at the chosen settings -> the arms that rest on them."""
    out: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        identities = dict.fromkeys(identity for run in row.runs for name, identity in run.stages if name == stage)
        if identities:
            out.setdefault(tuple(identities), []).append(row.arm)
    return out


@dataclass(frozen=True)
class Facts:
    """What is known of a task without training: sizes of splits in units, chance level."""

    kind: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Average:
    """An arm's mean over columns, with chance where a column has no number (or without it, where skipped).

    `over` says which columns: empty for all, else the axis values that they share. `chance` are columns for
    which chance stands in, `missing` those left out. `seeds`: seed -> average, where all columns share one.
    """

    arm: str
    over: str
    value: Estimate | None
    difference: Difference | None
    rank: float | None
    columns: int
    chance: tuple[str, ...]
    missing: tuple[str, ...]
    seeds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Caveat:
    """Something a reader must know; `where` names the columns it holds for (empty: all)."""

    kind: str
    text: str
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.where:
            return self.text
        more = f" and {len(self.where) - 3} more columns" if len(self.where) > 3 else ""
        return f"{', '.join(self.where[:3])}{more}: {self.text}"


@dataclass(frozen=True)
class Results:
    """A study's rows, averages, baselines and caveats: what tables, plots and pages are made of.

    `match` is the arm whose score the others are to reach. `scale` and `scale_note` say what of the paper's setting
    was left out. `paper` holds the numbers that a paper printed. `baselines` are the rows of the tasks' own baselines.
    `axes`: column -> the study's column that it is, and the values of axes at which it stands beside others.
    """

    name: str
    title: str
    arms: tuple[str, ...]
    columns: tuple[str, ...]
    against: str | None
    choose: tuple[str, ...]
    table: tuple[Row, ...]
    averages: tuple[Average, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    facts: Mapping[str, Facts] = field(default_factory=dict)
    match: str | None = None
    scale: str | None = None
    scale_note: str = ""
    paper: Paper | None = None
    claims: tuple[Claim, ...] = ()
    baselines: tuple[Row, ...] = ()
    axes: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The title, with the scale and the stand-in data where there are any."""
        return words.sentences([self.title or self.name, *self.setting])

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """What the paper claims, then what the study asks of itself."""
        return (*(self.paper.claims if self.paper else ()), *self.claims)

    @property
    def setting(self) -> list[str]:
        """`Scale tiny` and `Stand-in data: digits for image`, where they are so: what any table is headed with."""
        scale = [f"Scale {self.scale}"] if self.scale else []
        return [*scale, f"Stand-in data: {self.stood_in}"] if self.stood_in else scale

    @property
    def stood_in(self) -> str:
        """`digits for image_5 and image_10; waves for speech`, of every column with a row that rests on other data."""
        return stand_ins_told(self.stand_in(column) for column in self.columns)

    def stand_in(self, column: str) -> str:
        """`digits for image` where other data stood in for some of a column's; empty where none did."""
        return words.listed(list(dict.fromkeys(row.stand_in for row in self.in_column(column) if row.stand_in)))

    def apart(self, row: Row) -> bool:
        """The row rests on stand-in data, and others of its column do not."""
        return bool(row.stand_in) and not all(other.stand_in for other in self.in_column(row.column))

    def rows(self) -> list[dict[str, Any]]:
        """One object per arm and column (and reported axis value): the `rows` of `--json`."""
        return [row.document() for row in self.table]

    @property
    def partial(self) -> bool:
        """Some run is still missing."""
        return any(not row.finished for row in self.table)

    @property
    def names(self) -> dict[str, str]:
        """Short names of the settings that take several values in this study; the others go without saying."""
        values: dict[str, set[str]] = {}
        for row in self.table:
            for point in row.points:
                for name, value in point.settings.items():
                    values.setdefault(name, set()).add(repr(value))
        return words.short_names(name for name, taken in values.items() if len(taken) > 1)

    def row(self, arm: str, column: str) -> Row | None:
        """The first row of an arm on a column."""
        return next((r for r in self.table if (r.arm, r.column) == (arm, column)), None)

    def in_column(self, column: str) -> list[Row]:
        """The rows of one column, arms in the study's order."""
        return [r for r in self.table if r.column == column]

    def columns_of(self, column: str) -> list[str]:
        """The columns that are the study's column: it, or one per value of an axis."""
        return [name for name in self.columns if made_of(name, column)]

    def facts_of(self, column: str) -> list[Facts]:
        """Facts of the tasks of a column (more than one where arms or axes change the task)."""
        keys = dict.fromkeys(r.task for r in self.in_column(column))
        return [self.facts[k] for k in keys if k in self.facts]

    def baselines_of(self, row: Row) -> list[Row]:
        """The finished baselines of a row's task, of its metric, but for one that it is itself."""
        return [
            base
            for base in self.baselines
            if (base.task, base.metric) == (row.task, row.metric)
            and (base.val or base.test)
            and not set(base.stages) & set(row.stages)
        ]

    def better_baseline(self, row: Row) -> tuple[str, float] | None:
        """(name, test score) of the best trivial baseline, where it does at least as well as the row."""
        sign = 1 if row.greater else -1
        tests = [(base.arm, base.test.mean) for base in self.baselines_of(row) if base.test]
        above = [(name, value) for name, value in tests if row.test and sign * value >= sign * row.test.mean]
        return max(above, key=lambda pair: sign * pair[1], default=None)

    def column_baselines(self, column: str) -> list[Row]:
        """The baselines of a column's tasks that are not among its arms."""
        rows = self.in_column(column)
        arms = {identity for row in rows for identity in row.stages}
        baselines = {base.stages: base for row in rows for base in self.baselines_of(row)}
        return [base for base in baselines.values() if not arms & set(base.stages)]

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame, one column per chosen setting and per amount of the budget.

        Raises: ImportError with the way out where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "Results.to_pandas needs pandas, which is not installed: pip install pandas "
                "(or use Results.rows(), a list of dicts)"
            ) from None
        flat = []
        for row in self.rows():
            chosen, budget, _ = row.pop("chosen"), row.pop("budget"), row.pop("seeds")
            low, high = row.pop("interval") or (None, None)
            counts = {f"budget.{k}": v for k, v in budget.items() if not isinstance(v, dict)}
            settings = {f"chosen.{k}": v for k, v in chosen.items()}
            flat.append({**row, "low": low, "high": high, **settings, **counts})
        return pandas.DataFrame(flat)

    def _repr_html_(self) -> str:
        """The table and the caveats for a notebook; everything foreign is escaped."""
        names = self.names
        lines = [["arm", "column", "chosen", "n", "val", "test", f"difference to {self.against}", "status"]]
        for row in self.table:
            scores = [words.plus_minus(row.val), words.plus_minus(row.test), words.difference(row.difference)]
            lines.append([row.arm, row.column, words.settings(row.chosen, names), f"{row.n}", *scores, row.status])
        for column in self.columns:
            for base in self.column_baselines(column):
                scores = [words.score(x.mean if x else None) for x in (base.val, base.test)]
                lines.append([base.arm, column, "", "", *scores, "", "baseline"])
        head, *body = ["".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines]
        head = head.replace("<td>", "<th scope='col'>").replace("</td>", "</th>")
        table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in body)}</tbody>"
        notes = "".join(f"<li>{escape(str(caveat))}</li>" for caveat in self.caveats)
        table = f"<table><caption>{escape(self.heading)}</caption>{table}</table>"
        return table + (f"<ul>{notes}</ul>" if notes else "")
