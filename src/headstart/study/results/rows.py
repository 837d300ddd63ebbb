"""One arm on one column as values: its runs by seed, its settings, its scores, its pace and its budget."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from headstart.statistics import (
    Difference,
    Estimate,
    detectable,
    difference,
    estimate,
    mean,
    p_value,
    seeds_to_halve,
    smallest_p,
)
from headstart.study.language.papers import (
    MATCHES,
    MEASURED_QUANTITIES,
    QUANTITIES,
    SIZE_QUANTITIES,
    SPEEDUPS,
    TIME_QUANTITIES,
)
from headstart.study.language.search import SearchSpec
from headstart.study.results.answers import Draws, RightAnswers, over_examples, scores_on_draws
from headstart.text import plain
from headstart.words import many

RowStatus = Literal["measured", "at chance", "partial", "diverged", "failed", "absent"]

BUDGET_AMOUNTS = ("epochs", "steps", "examples", "tokens", "flops", "seconds")
"""What a budget counts."""

MORE = ("train", "last_train", "last_val", "last_test")
"""Scores of a run besides val and test: of train at the best weights, and of all three at the last ones."""


@dataclass(frozen=True)
class Run:
    """One seed of one setting: its chain of stages (name, identity), parents first, and its scores.

    `status` is the last stage's: complete, diverged, or what the store says of it. `budget` counts the whole chain,
    `last` the reported stage alone; `started` (ISO 8601) and `machine` (its kind) are of that one, `way` how it trained
    (alone or in a stack, whose members share its seconds). `more` holds the scores of `MORE` that are numbers. The
    last weights of a diverged run are none: its `last_val` is the last finite score of its records, where these were
    read, and otherwise the scores at its best weights, the last that were kept whole, stand for those at its last.
    `answers`: which test examples the reported stage answered rightly, where `test` is their share and they are there.
    """

    seed: int
    status: str
    stages: tuple[tuple[str, str], ...]
    val: float | None
    test: float | None
    budget: Mapping[str, float]
    last: Mapping[str, float]
    more: Mapping[str, float] = field(default_factory=dict)
    machine: str = ""
    way: str = "alone"
    started: str = ""
    answers: RightAnswers | None = field(default=None, repr=False, compare=False)


def drawn(numbers: Sequence[Mapping[int, float]], rows: Iterable[Row]) -> list[Mapping[int, float]]:
    """Numbers by seed, those of one seed alone where each of the rows that they are of has one stage at every seed:
    where nothing was drawn, runs repeat each other."""
    if any(len({run.stages[-1][1] for run in row.runs}) > 1 for row in rows):
        return list(numbers)
    return [dict(list(by_seed.items())[:1]) for by_seed in numbers]


def draws_of(runs: Iterable[Run]) -> Draws:
    """The scores of runs on each draw; empty unless all with a test score have their answers to as many examples."""
    scored = [run for run in runs if run.test is not None]
    answers = tuple(run.answers for run in scored if run.answers is not None)
    if not scored or len(answers) < len(scored) or len({each.count for each in answers}) > 1:
        return {}
    return dict(zip((run.seed for run in scored), scores_on_draws(answers), strict=True))


def test_gap(first: Row, second: Row) -> Difference | None:
    """First less second on test, by the rule of `statistics.difference`; over test examples too if these are there."""
    gap = difference(*drawn([first.by_seed(), second.by_seed()], [first, second]))
    return over_examples(gap, draws_of(first.runs), draws_of(second.runs))


OTHER_MACHINES = "its arms on different kinds of machines"
"""Said beside a difference that another kind of processor may have made."""


def on_other_machines(rows: Sequence[Row]) -> bool:
    """Whether rows that are held against each other ran on different kinds of machines: at a seed that they share, or
    at all, where they share none."""
    machines = [{run.seed: run.machine for run in row.runs if run.machine and run.val is not None} for row in rows]
    shared = set(machines[0]).intersection(*machines[1:]) if machines else set()
    if shared:
        return any(len({of_row[seed] for of_row in machines}) > 1 for seed in shared)
    return len({frozenset(of_row.values()) for of_row in machines if of_row}) > 1


def scores_by_seed(runs: Sequence[Run], quantity: str) -> dict[int, float]:
    """Seed -> score of the runs that have it: any of `QUANTITIES` but those that count steps."""
    if quantity == "last_gap":
        train, test = scores_by_seed(runs, "last_train"), scores_by_seed(runs, "last_test")
        return {seed: train[seed] - test[seed] for seed in train if seed in test}
    if quantity in TIME_QUANTITIES:
        return {run.seed: value for run in runs if (value := _epoch_seconds(run, quantity)) is not None}
    values = {run.seed: {"val": run.val, "test": run.test, **run.more}.get(quantity) for run in runs}
    return {seed: value for seed, value in values.items() if value is not None}


def _epoch_seconds(run: Run, quantity: str) -> float | None:
    """Seconds per epoch of the reported stage, or of its parents; evaluations are part of them."""
    amounts = [
        run.last.get(key, 0.0) if quantity == "epoch_seconds" else run.budget.get(key, 0.0) - run.last.get(key, 0.0)
        for key in ("seconds", "epochs")
    ]
    return amounts[0] / amounts[1] if min(amounts) > 0 else None


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
class Window:
    """The values of a swept rate, side by side, at which validation is within one standard error of its best.

    low, high: the lowest and highest of them; within of `of` values. open: the sweep ends at one of the two, beyond
    which the window may go on.
    """

    low: float
    high: float
    within: int
    of: int
    open: bool

    @property
    def factor(self) -> float:
        """How many times the lowest rate the highest is."""
        return self.high / self.low

    def __str__(self) -> str:
        """`0.0003 to 0.003, a factor of 10; 3 of 6 rates`."""
        if self.within == 1:
            return f"{plain(self.low)} alone; 1 of {self.of} rates"
        least = "at least " if self.open else ""
        span = f"{plain(self.low)} to {plain(self.high)}, {least}a factor of {plain(round(self.factor, 1))}"
        return f"{span}; {self.within} of {self.of} rates"


TrialScores = tuple[float | None, ...]


def trial_scores(runs: Sequence[Run], search: SearchSpec | None) -> tuple[TrialScores, TrialScores]:
    """`trials` and `random_trials` of a `Row`, of runs in the order in which `Searched` plans them.

    Those with the whole budget, after pruned ones, are left out: their scores are not to stand beside theirs.
    """
    if search is None:
        return (), ()
    scores = [None if run.status == "diverged" else run.val for run in runs]
    at_random = slice(len(runs) - search.random_trials, None)
    ended = all(run.status in ("complete", "diverged") for run in runs[at_random])
    return tuple(scores[: search.trials]), tuple(scores[at_random]) if ended else ()


@dataclass(frozen=True)
class Row:
    """One arm on one column at its chosen settings.

    `chosen` is what validation chose. `n` seeds of `expected` finished. `difference` is to the arm that the study
    compares with, on test, by the rule of `statistics.difference`. `budget` is the mean per run with its parents,
    `last` that of the reported stage alone, `tried` the sum over all settings and seeds, each stage once. `task` is
    the key of its facts. `pace` is there where the records were read. `parameters`: how many numbers the reported
    stage's model has; `trained`: how many of them learn. `base`: the row that it is compared
    with. `stand_in`: what stood in for absent data in its chain (`digits for image`). `measures`: of
    `MEASURED_QUANTITIES`, seed -> number, where they were read. `source`: where the score of a baseline is from, if not
    from here. `guess`: a baseline that does not do what is asked (see `selection.is_guess`). `hardly_mixes`: as of its
    last stage; `but_for_init`: the digest of that stage without the draw of fresh weights. `trials`: of a search, what
    each of them scored on validation, in order (None: it diverged); `random_trials`: the same of those that a random
    baseline adds, once all have ended.
    """

    arm: str
    column: str
    chosen: Mapping[str, Any]
    status: RowStatus
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
    trained: int | None = None
    base: Row | None = field(default=None, repr=False, compare=False)
    stand_in: str = ""
    hardly_mixes: bool = False
    but_for_init: str = ""
    measures: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    source: str = ""
    guess: bool = False
    trials: TrialScores = ()
    random_trials: TrialScores = ()

    @property
    def settings_tried(self) -> int:
        """How many settings validation chose of."""
        return len(self.trials) or len(self.points)

    @property
    def unfinished(self) -> str:
        """Runs that are not done, at any setting: `2 of 15 runs`; empty where none is left."""
        states = [run.status for point in self.points for run in point.runs]
        left = sum(state not in ("complete", "diverged", "failed") for state in states)
        return f"{left} of {many(len(states), 'run')}" if left else ""

    def by_fold(self, folds: int) -> Estimate | None:
        """Over folds, on validation: of those that were dealt several times the mean of each over its rounds, so that
        no row counts twice; `val` where there are no more runs than folds."""
        values: dict[int, list[float]] = {}
        for run in self.runs:
            if run.val is not None:
                values.setdefault(run.seed % folds, []).append(run.val)
        return estimate([mean(some) for some in values.values()]) if len(self.runs) > folds else self.val

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
        if quantity in SIZE_QUANTITIES:
            number = getattr(self, quantity)
            return {} if number is None else {run.seed: float(number) for run in self.runs if run.val is not None}
        if quantity in SPEEDUPS:
            own, others = (row.by_seed(SPEEDUPS[quantity]) if row else {} for row in (self, self.base))
            if SPEEDUPS[quantity] in TIME_QUANTITIES and self.base:
                timed = {run.seed: (run.machine, run.way) for run in self.base.runs}
                own = {
                    run.seed: own[run.seed]
                    for run in self.runs
                    if run.seed in own and timed.get(run.seed) == (run.machine, run.way)
                }
            return {seed: others[seed] / number for seed, number in own.items() if number and seed in others}
        if quantity in MEASURED_QUANTITIES:
            return dict(self.measures.get(quantity, {}))
        return scores_by_seed(self.runs, quantity)

    def share(self, amount: str, base: Row) -> float:
        """How much of one of BUDGET_AMOUNTS it took for each of another row; 1 where that is not known of both."""
        own, other = self.budget.get(amount), base.budget.get(amount)
        return own / other if own and other else 1.0

    def estimate(self, quantity: str) -> Estimate | None:
        """Mean and standard error over seeds of one of `QUANTITIES`, or None where there is no number.

        Raises: ValueError for a quantity that there is not.
        """
        return estimate(self.by_seed(quantity).values())

    @property
    def slices(self) -> dict[str, Estimate]:
        """`length=64` and so on -> the test score of that part of test, over seeds; empty where none was scored."""
        names = dict.fromkeys(name for run in self.runs for name in run.more if name.startswith("test["))
        values = {name[5:-1]: estimate(scores_by_seed(self.runs, name).values()) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def stages(self) -> tuple[str, ...]:
        """Identities of the stages behind the reported numbers, parents first, each once."""
        return tuple(dict.fromkeys(identity for run in self.runs for _, identity in run.stages))

    @property
    def withdrawn(self) -> bool:
        """Whether its difference rests on frozen blocks that hardly mix (`no_evidence`)."""
        return no_evidence([self] if self.base is None else [self, self.base])

    @property
    def key(self) -> str:
        """A name of this row that no other row has."""
        return f"{self.column}/{self.arm}"

    @property
    def windows(self) -> dict[str, Window]:
        """The window of each learning rate that was swept, the other settings as they were chosen.

        Nothing of one seed, which has no standard error; settings at which a seed diverged are outside.
        """
        rates = [name for name in self.chosen if name.rsplit(".", 1)[-1] == "lr"]
        return {name: window for name in rates if (window := self._window(name)) is not None}

    def _window(self, name: str) -> Window | None:
        rest, points = {**self.chosen, name: 0}, [point for point in self.points if name in point.settings]
        swept = {point.settings[name]: point for point in points if {**point.settings, name: 0} == rest}
        if len(swept) < 2 or self.status == "diverged" or self.val is None or self.val.sem is None:
            return None
        best, reach, rates = self.val.mean, self.val.sem, sorted(swept)

        def near(index: int) -> bool:
            point = swept[rates[index]] if 0 <= index < len(rates) else None
            if point is None or point.val is None or point.status == "diverged":
                return False
            return (best - point.val.mean) * (1 if self.greater else -1) <= reach

        first = last = rates.index(self.chosen[name])
        while near(first - 1):
            first -= 1
        while near(last + 1):
            last += 1
        ends = first == 0 or last == len(rates) - 1
        return Window(rates[first], rates[last], last - first + 1, len(rates), ends)

    def distinct(self) -> Row:
        """The row with each stage once: a model that draws no random numbers is one stage for all seeds, without
        spread."""
        if len({run.stages[-1][1] for point in self.points for run in point.runs}) != 1 or self.expected == 1:
            return self
        val, test = (estimate([value.mean]) if value else None for value in (self.val, self.test))
        points = tuple(replace(point, runs=point.runs[:1], val=val, test=test) for point in self.points[:1])
        return replace(self, n=min(self.n, 1), expected=1, val=val, test=test, runs=self.runs[:1], points=points)

    @property
    def finished(self) -> bool:
        """All seeds of all settings are done, well or badly."""
        return self.status in ("measured", "at chance", "diverged")

    def document(self) -> dict[str, Any]:
        """The row as `--json` writes it. `points`: all settings that were tried; `seeds`: the runs at the chosen ones.

        Numbers that are not there are null. `sem` is `test_sem` by its older name. `reach` and `fit` are the steps at
        which the mean over seeds matches, `converge` is the mean over seeds.
        """
        more = {name: value.mean if (value := self.estimate(name)) else None for name in (*MORE, "converge")}
        return {
            "arm": self.arm,
            "column": self.column,
            "chosen": dict(self.chosen),
            "metric": self.metric,
            "n": self.n,
            **_numbers(self.val, self.test),
            "sem": self.test.sem if self.test else None,
            **difference_document(self.difference),
            "windows": {name: {**asdict(w), "factor": w.factor} for name, w in self.windows.items()},
            "budget": {**self.budget, "last_stage": dict(self.last), "all_tried": dict(self.tried)},
            "tried": self.settings_tried,
            **({"trials": list(self.trials)} if self.trials else {}),
            **({"random_trials": list(self.random_trials)} if self.random_trials else {}),
            **({"slices": {name: value.mean for name, value in self.slices.items()}} if self.slices else {}),
            **more,
            **{name: match.together if (match := self.match(name)) else None for name in MATCHES},
            "points": [
                {"settings": dict(point.settings), "status": point.status, **_numbers(point.val, point.test)}
                | {"seeds": {str(run.seed): _run_document(run) for run in point.runs}}
                for point in self.points
            ],
            "seeds": {str(run.seed): _run_document(run) for run in self.runs},
            "stages": list(self.stages),
            "status": self.status,
        }


DIFFERENCE_WAYS = {"paired": True, "unpaired": False}
"""The two ways to take a difference, as `--json` calls them."""


def no_evidence(rows: Collection[Row]) -> bool:
    """Whether a comparison of these rows rests on frozen blocks that hardly mix.

    One of arms that differ in the draw of fresh weights alone does not: it is about just that.
    """
    draws = len(rows) > 1 and len({row.but_for_init for row in rows}) == 1 and not all(r.hardly_mixes for r in rows)
    return any(row.hardly_mixes for row in rows) and not draws


def difference_document(gap: Difference | None) -> dict[str, Any]:
    """A difference as `--json` writes it: by the rule (`paired` says which way), then as `intervals` by both ways over
    seeds, and over seeds and test examples (null without the answers to these); `interval` is the wider of two."""
    ways = {} if gap is None else {way.sides is None: way for way in (gap, gap.other) if way is not None}
    ends = {name: ways[paired].over_seeds if paired in ways else None for name, paired in DIFFERENCE_WAYS.items()}
    ends["seeds_and_examples"] = gap.both if gap else None
    return {
        "difference": gap.mean if gap else None,
        "interval": list(gap.interval) if gap and gap.interval else None,
        "paired": gap.sides is None if gap else None,
        "pairs": gap.n if gap else 0,
        "intervals": {name: list(interval) if interval else None for name, interval in ends.items()},
        "detectable": detectable(gap),
        "p": p_value(gap) if gap else None,
        "smallest_p": smallest_p(gap) if gap and gap.interval else None,
        "seeds_to_halve": seeds_to_halve(gap) if gap else None,
    }


def _numbers(val: Estimate | None, test: Estimate | None) -> dict[str, float | None]:
    """Means and standard errors of both splits."""
    splits = {"val": val, "test": test}
    means = {name: split.mean if split else None for name, split in splits.items()}
    return means | {f"{name}_sem": split.sem if split else None for name, split in splits.items()}


def _run_document(run: Run) -> dict[str, Any]:
    """The scores of one seed, and the identities of its stages by name."""
    scores = {"val": run.val, "test": run.test, **run.more}
    return {"status": run.status, **scores, "machine": run.machine, "stages": dict(run.stages)}


def sharing_stage(rows: Sequence[Row], stage: str) -> dict[tuple[str, ...], list[str]]:
    """Identities of a stage over seeds, at the chosen settings -> the arms that rest on them."""
    out: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        identities = dict.fromkeys(identity for run in row.runs for name, identity in run.stages if name == stage)
        if identities:
            out.setdefault(tuple(identities), []).append(row.arm)
    return out


def best_rows(rows: Collection[Row]) -> set[str]:
    """Keys of the rows of a column with the best validation score, as everything that is chosen; none of one alone.

    Rows with more seeds than others are compared on those of all.
    """
    several = [{run.seed for run in row.runs if run.val is not None} for row in rows if row.val and row.expected > 1]
    shared, scores = set.intersection(*several) if several else set(), {}
    for row in rows:
        values = [run.val for run in row.runs if run.val is not None and run.seed in shared and row.expected > 1]
        if row.val is not None:
            scores[row.key] = (mean(values) if 0 < len(values) < row.n else row.val.mean) * (1 if row.greater else -1)
    best = max(scores.values(), default=0.0)
    return {key for key, score in scores.items() if len(rows) > 1 and score == best}
