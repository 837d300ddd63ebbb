"""What a study found, as values: rows, averages, caveats, and every run as data. Made by `summary.summarise`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from shutil import get_terminal_size
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, Protocol

from headstart import words
from headstart.errors import BadInput
from headstart.statistics import Difference, Estimate, corrected, estimate
from headstart.study.language.papers import made_of
from headstart.study.language.scales import stand_ins_told
from headstart.study.results.answers import Draws, RightAnswers
from headstart.study.results.rows import Point, Row, Run, scores_by_seed, test_gap
from headstart.text import escaped

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import pandas

    from headstart.study.language.papers import Claim, Paper, Written


class Views(Protocol):
    """What draws results: see `headstart.report.views`."""

    def write(self, results: Results, folder: str | os.PathLike[str]) -> Path:
        """The report in a folder; its page."""

    def page(self, results: Results) -> str:
        """The page."""

    def figure(self, results: Results, name: str) -> Any:
        """A figure."""


PRINTED = 5
"""Caveats that `print` shows."""


@dataclass(frozen=True)
class TaskFacts:
    """What is known of a task without training: sizes of splits in units, chance level.

    positions: targets of the test set where each position has one, else 0. asked: positions of the test set that an
    accuracy without targets counts (0: not known); None where the target is scored.
    """

    kind: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    positions: int = 0
    asked: int | None = None

    @property
    def tested(self) -> int:
        """How much a test score counts: targets of positions, positions that are asked, or one of each unit."""
        if self.asked is not None:
            return self.asked
        return self.positions or self.sizes.get("test", 0)


@dataclass(frozen=True)
class Average:
    """An arm's mean over columns, with chance where a column has no number (or without it, where skipped).

    `over` says which columns: empty for all, else the axis values that they share. `chance` are columns for
    which chance stands in, `missing` those left out. `seeds`: seed -> average, where all columns share one; `draws`:
    the same on draws of the test examples.
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
    draws: Draws = field(default_factory=dict, repr=False, compare=False)
    elsewhere: bool = False
    """On some column the arm ran on another kind of machine than the one that it is compared with."""


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


@dataclass(frozen=True, repr=False)
class Results:
    """A study's rows, averages, baselines and caveats: what tables, plots and pages are made of.

    `match` is the arm whose score the others are to reach. `scale` and `scale_note` say what of the paper's setting
    was left out. `paper` holds the numbers that a paper printed. `baselines` are the rows of the tasks' own baselines.
    `axes`: column -> the study's column that it is, and the values of axes at which it stands beside others.
    `records` reads what a stage recorded on the way, by its identity. `pretrained`: a row rests on weights that were
    read from a checkpoint. `folds`: of train and validation, another of which validates in each run (1: the same rows
    in all). one_machine: no claim is judged whose arms ran on different kinds of machines. written: key of a claim of
    the study -> when it was written down (None: the claims have no dates); written_paper: of a claim of the paper.
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
    facts: Mapping[str, TaskFacts] = field(default_factory=dict)
    match: str | None = None
    scale: str | None = None
    scale_note: str = ""
    paper: Paper | None = None
    claims: tuple[Claim, ...] = ()
    baselines: tuple[Row, ...] = ()
    axes: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    pretrained: bool = False
    records: Callable[[str], Sequence[Mapping[str, Any]]] | None = field(default=None, compare=False, repr=False)
    folds: int = 1
    one_machine: bool = False
    written: Mapping[str, Written] | None = None
    written_paper: Mapping[str, Written] | None = None
    views: Views | None = field(default=None, compare=False, repr=False)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write the report (page, tables as Markdown, CSV and LaTeX, figures) to a folder; its page."""
        return self._views.write(self, folder)

    def page(self) -> str:
        """The report's page, as HTML that needs no other file."""
        return self._views.page(self)

    def figure(self, name: str) -> Any:
        """A figure of the report, of matplotlib: `sweep`, `curves`, `forest`, ..., or `sweep-COLUMN` of several."""
        return self._views.figure(self, name)

    @property
    def _views(self) -> Views:
        if self.views is None:
            raise BadInput("results: were read without their store, which figures need; take them from a Study, or run")
        return self.views

    @property
    def run_noun(self) -> str:
        """What the runs of a row differ in: `seed`, or `fold` where each validates on another of several."""
        return words.runs_are(self.folds)

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
        """`Scale small` and `Stand-in data: digits for image`, where they are so: what any table is headed with."""
        scale = [self.scale_text] if self.scale else []
        return [*scale, f"Stand-in data: {self.stood_in}"] if self.stood_in else scale

    @property
    def scale_text(self) -> str:
        """`Scale small`; of `tiny` also what its numbers are: those of a smoke test, which show that a study runs."""
        return f"Scale {self.scale}" + (" (smoke test)" if self.scale == "tiny" else "")

    @cached_property
    def stood_in(self) -> str:
        """`digits for image_5 and image_10; waves for speech`, of every column with a row that rests on other data."""
        return stand_ins_told(self.stand_in(column) for column in self.columns)

    def stand_in(self, column: str) -> str:
        """`digits for image` where other data stood in for some of a column's; empty where none did."""
        return words.listed(list(dict.fromkeys(row.stand_in for row in self.in_column(column) if row.stand_in)))

    def printed(self, arm: str) -> str:
        """An arm by the name of its row in the paper, else in words."""
        rows = self.paper.rows if self.paper is not None else ()
        return next((row.row for row in rows if row.arm == arm and row.quantity == "test"), words.printed_arm(arm))

    def label(self, column: str) -> str:
        """A column as tables call it: `image, stand-in` where all that is shown of it rests on other data."""
        return f"{column}, stand-in" if column in self._stood_in else column

    def apart(self, row: Row) -> bool:
        """The row rests on stand-in data, and others of its column do not."""
        return bool(row.stand_in) and row.column not in self._stood_in

    def rows(self) -> list[dict[str, Any]]:
        """One object per arm and column (and reported axis value): the `rows` of `--json`."""
        corrected = self.corrected
        return [{**row.document(), "p_holm": corrected.get(row.key)} for row in self.table]

    @property
    def machines(self) -> list[str]:
        """The kinds of machines that the runs of the table ran on."""
        return sorted({run.machine for row in self.table for run in row.runs if run.machine})

    @cached_property
    def corrected(self) -> dict[str, float]:
        """Key of a row -> p-value of its difference, corrected (Holm) for the number of these that show something."""
        return corrected({row.key: row.difference for row in self.table if not row.withdrawn})

    @property
    def answers(self) -> dict[str, RightAnswers]:
        """Identity of a reported stage -> which test examples it answered rightly, where they are there."""
        runs = [run for row in self.table for point in row.points for run in point.runs]
        return {run.stages[-1][1]: run.answers for run in runs if run.answers is not None}

    @property
    def partial(self) -> bool:
        """Some run is still missing."""
        return any(not row.finished for row in self.table)

    @cached_property
    def names(self) -> dict[str, str]:
        """Short names of the settings that take several values in this study; the others go without saying."""
        values: dict[str, set[str]] = {}
        for row in self.table:
            for point in row.points:
                for name, value in point.settings.items():
                    values.setdefault(name, set()).add(repr(value))
        searched = {name for row in self.table if row.trials for name in row.chosen}
        return words.short_names(name for name, taken in values.items() if len(taken) > 1 or name in searched)

    def row(self, arm: str, column: str) -> Row | None:
        """The first row of an arm on a column."""
        return self._first_rows.get((arm, column))

    def with_arm(
        self, arm: str, like: Row, scores: Iterable[tuple[int, str, float | None, float | None]]
    ) -> tuple[Results, Row]:
        """The results with one arm more, whose runs have been scored elsewhere, and its row.

        like: the row of the same column whose measure and runs it shares. scores: (seed, identity of a stage of it,
        score of validation, score of test) of each run.
        """
        runs = tuple(
            Run(seed, "complete", (("finetune", identity),), val, test, {}, {}) for seed, identity, val, test in scores
        )
        val, test = (estimate(scores_by_seed(runs, split).values()) for split in ("val", "test"))
        row = Row(
            arm=arm,
            column=like.column,
            chosen={},
            status="measured" if len(runs) == like.expected else "partial",
            metric=like.metric,
            greater=like.greater,
            n=len(runs),
            expected=like.expected,
            val=val,
            test=test,
            difference=None,
            budget={},
            last={},
            tried={},
            points=(Point({}, "complete", val, test, runs),),
            runs=runs,
            task=like.task,
        )
        base = next((other for other in self.table if other.arm == self.against), None)
        row = row if base is None else replace(row, difference=test_gap(row, base), base=base)
        return replace(self, arms=(*self.arms, arm), table=(*self.table, row)), row

    @cached_property
    def _rows_of(self) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {}
        for row in self.table:
            rows.setdefault(row.column, []).append(row)
        return rows

    @cached_property
    def _stood_in(self) -> set[str]:
        """Columns of which every row rests on stand-in data."""
        return {column for column, rows in self._rows_of.items() if all(row.stand_in for row in rows)}

    @cached_property
    def _first_rows(self) -> dict[tuple[str, str], Row]:
        return {(row.arm, row.column): row for row in reversed(self.table)}

    def in_column(self, column: str) -> list[Row]:
        """The rows of one column, arms in the study's order."""
        return self._rows_of.get(column, [])

    def columns_of(self, column: str) -> list[str]:
        """The columns that are the study's column: it, or one per value of an axis."""
        return [name for name in self.columns if made_of(name, column)]

    def facts_of(self, column: str) -> list[TaskFacts]:
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

    def guess_of(self, row: Row) -> tuple[str, float] | None:
        """(name, test score) of the best baseline that is a guess, or None where there is none."""
        tests = [(base.arm, base.test.mean) for base in self.baselines_of(row) if base.guess and base.test]
        return max(tests, key=lambda pair: pair[1] if row.greater else -pair[1], default=None)

    def column_baselines(self, column: str) -> list[Row]:
        """The baselines of a column's tasks that are not among its arms."""
        rows = self.in_column(column)
        arms = {identity for row in rows for identity in row.stages}
        baselines = {base.stages: base for row in rows for base in self.baselines_of(row)}
        return [base for base in baselines.values() if not arms & set(base.stages)]

    def scores(self) -> list[dict[str, Any]]:
        """Every score of every run as one dict: per arm, column, sweep point, seed, weights and split; then baselines.

        Each axis of the study has a key of its full name (None where an arm has no such axis); `chosen` says whether
        validation chose the sweep point, `weights` is `best` or `last`, `identity` that of the reported stage.
        Scores that are not there (of a run that is not finished) are None for val and test, and left out otherwise.
        """
        out = []
        for line, row, run in self._runs():
            more = {name: value for name, value in run.more.items() if value is not None}
            for quantity, score in {"val": run.val, "test": run.test, **more}.items():
                weights, split = "last" if quantity.startswith("last_") else "best", quantity.removeprefix("last_")
                split, bracket, part = split.partition("[")  # `test[length=64]`
                out.append(
                    {**line, "weights": weights, "split": split, "metric": row.metric + bracket + part, "score": score}
                    | {"status": run.status, "stage": run.stages[-1][0], "identity": run.stages[-1][1]}
                )
        return out

    def curves(self) -> list[dict[str, Any]]:
        """Every number that was recorded while a run's stages trained, as one dict: per stage, step, split and metric.

        A stage that several runs rest on is listed with each of them. Raises: ValueError where the results were made
        without records, as those of the progress display are.
        """
        if self.records is None:
            raise ValueError("curves: these results were made without records; use those of headstart.run or Study")
        return [
            {**line, "stage": name, "identity": identity, "step": record["step"], "epoch": record.get("epoch")}
            | {"split": split, "metric": metric, "value": value}
            for line, _, run in self._runs()
            for name, identity in run.stages
            for record in self.records(identity)
            for split in ("train", "val")
            for metric, value in record.get(split, {}).items()
        ]

    def _runs(self) -> Iterator[tuple[dict[str, Any], Row, Run]]:
        """Every run of the arms, then of the baselines, with what it is: arm, column, axes, seed."""
        names = dict.fromkeys(name for _, values in self.axes.values() for name in values)
        names |= dict.fromkeys(name for row in self.table for point in row.points for name in point.settings)
        baselines = [base for column in self.columns for base in self.column_baselines(column)]
        for kind, rows in (("arm", self.table), ("baseline", baselines)):
            for row in rows:
                column, values = self.axes.get(row.column, (row.column, {}))
                head = {"study": self.name, "kind": kind, "arm": row.arm, "column": column}
                for point in row.points or (Point({}, "complete", row.val, row.test, row.runs),):
                    settings = {**dict.fromkeys(names), **values, **point.settings}
                    chosen = dict(point.settings) == dict(row.chosen)
                    for run in point.runs:
                        yield {**head, **settings, "seed": run.seed, "chosen": chosen}, row, run

    def to_pandas(self, *, tidy: bool = False) -> pandas.DataFrame:
        """The rows as a data frame, one column per chosen setting and per amount of the budget.

        tidy: one row per score of every run instead (`scores`), as plotting libraries and statistics take them.
        Raises: ImportError with the way out where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "Results.to_pandas needs pandas, which is not installed: pip install pandas "
                "(or use Results.rows() or Results.scores(), lists of dicts)"
            ) from None
        if tidy:
            return pandas.DataFrame(self.scores())
        flat = []
        for row in self.rows():
            chosen, budget, _, _ = (row.pop(name) for name in ("chosen", "budget", "seeds", "points"))
            del row["intervals"]
            low, high = row.pop("interval") or (None, None)
            counts = {f"budget.{k}": v for k, v in budget.items() if not isinstance(v, dict)}
            settings = {f"chosen.{k}": v for k, v in chosen.items()}
            windows = {f"window.{k}.{end}": w[end] for k, w in row.pop("windows").items() for end in ("low", "high")}
            flat.append({**row, "low": low, "high": high, **settings, **windows, **counts})
        return pandas.DataFrame(flat)

    def __repr__(self) -> str:
        """The table and the gravest caveats, these at the terminal's width, as `print` shows them."""
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        notes = [f"- {caveat}" for caveat in self.caveats[:PRINTED]]
        if more := len(self.caveats) - len(notes):
            notes.append(f"- and {more} more on the page, and in `caveats`")
        width = get_terminal_size().columns
        wrapper = TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return escaped("\n".join([self.heading, "", *texts, "", *map(wrapper.fill, notes)]).rstrip())

    def _lines(self) -> list[list[str]]:
        """Heads, then a line per arm and baseline of each column."""
        lines = [["arm", "column", "chosen", "n", "val", "test", f"difference to {self.against}", "status"]]
        for row in self.table:
            scores = [words.plus_minus(row.val), words.plus_minus(row.test), words.difference(row.difference)]
            settings = words.settings(row.chosen, self.names)
            lines.append([row.arm, row.column, settings, f"{row.n}", *scores, row.status])
        for column in self.columns:
            for base in self.column_baselines(column):
                scores = [words.score(x.mean if x else None) for x in (base.val, base.test)]
                lines.append([base.arm, column, "", "", *scores, "", "baseline"])
        return lines if self.against is not None else [line[:6] + line[7:] for line in lines]

    def _repr_html_(self) -> str:
        """The table and the caveats for a notebook; everything foreign is escaped."""
        head, *body = ["".join(f"<td>{_markup(cell)}</td>" for cell in line) for line in self._lines()]
        head = head.replace("<td>", "<th scope='col'>").replace("</td>", "</th>")
        table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in body)}</tbody>"
        notes = "".join(f"<li>{_markup(str(caveat))}</li>" for caveat in self.caveats)
        table = f"<table><caption>{_markup(self.heading)}</caption>{table}</table>"
        return table + (f"<ul>{notes}</ul>" if notes else "")


def _markup(text: str) -> str:
    """A text in HTML, with escapes for what would turn other text around."""
    return escape(escaped(text))
