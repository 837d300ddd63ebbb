"""A search as far as its trials are finished: what they scored tells what is drawn next, and in the end what is chosen.

Nothing is remembered beside the store: the sampler is asked and told anew, in batches, by trials in their order. So a
search that was stopped goes on where it was, on any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from headstart.errors import BadInput, reworded
from headstart.stage.spec import TrainStage
from headstart.study.language.budgets import OPEN, Outlines
from headstart.study.language.plan import Cell, Plan, Planner, matters
from headstart.study.language.search import PRUNED, RANDOM_TRIALS, Space
from headstart.study.language.spec import StudySpec
from headstart.study.results.collect import Find, monitored, read_run
from headstart.study.results.rows import Run
from headstart.study.results.selection import Candidate, choose
from headstart.training.loop import BudgetSpec

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution


class Searched:
    """Plans of a study that searches.

    written: its plan at the settings as they are written, as `make_plan` has it. Raises: BadInput where Optuna is not
    installed, an arm has no validation to choose by, or a value of a space does not fit.
    """

    def __init__(self, written: Plan, absent: Literal["refuse", "open"] = "refuse") -> None:
        study = written.study
        assert study.search is not None, "a study that searches"
        self._optuna = _import_optuna()
        self.written, self.search = written, study.search
        self._planner, self._outlines = Planner(study, written.data, absent), Outlines(written.data)
        self.seeds: list[int] = study.axes["seed"]
        self._runs: dict[str, Cell] = {}
        for cell in written.cells:
            if not cell.last.spec.task.validation:
                raise BadInput(f"arms.{cell.arm}: task.validation = 0 leaves no score by which a search could choose")
            self._trial(cell)
        spaces = self.search.spaces
        for number in range(max(len(space.values) for space in spaces.values())):
            for arm, column in self._pairs():
                values = {path: space.values[number % len(space.values)] for path, space in spaces.items()}
                self._trial(self._cell(arm, column, values, self.search.seed))

    def plan(self, find: Find) -> Plan:
        """All trials that are drawn by now, and the runs of the settings that were chosen.

        find: what is finished. A stage that failed holds up its own arm and column alone.
        """
        trials, cells = list[Cell](), list[Cell]()
        for arm, column in self._pairs():
            drawn, chosen = self._replay(arm, column, lambda key: None if key.startswith(OPEN) else find(key))
            trials += [*drawn, *self._at_random(arm, column)]
            cells += [self._cell(arm, column, chosen, seed) for seed in self.seeds if chosen is not None]
        return replace(self.written, trials=tuple(trials)).with_runs(cells)

    @property
    def trials(self) -> int:
        """Of all arms on all columns, those with the whole budget after short ones and those of `random_baseline`."""
        search = self.search
        return (search.trials + search.finalists + search.random_trials) * sum(1 for _ in self._pairs())

    def times(self, short: float = 1.0) -> dict[str, float]:
        """How often a stage of the plan as written would be done, by identity: once for each seed of the axis, and in
        trials, of which the first seed stands for theirs. What no searched setting reaches is shared by trials.

        short: what a trial counts that has a part of the budget.
        """
        search, shared = self.search, set[str]()
        out = dict.fromkeys(self.written.stages, 1.0)
        for cell in self.written.cells:
            anew = False
            for planned in cell.chain if cell.seed == self.seeds[0] else ():
                anew = anew or any(matters(path, (planned,)) for path in self.search.over)
                each = search.trials + search.random_trials
                if anew and search.prune and planned is cell.last and planned.trains:
                    out[planned.identity] += short * each + search.finalists
                elif anew:
                    out[planned.identity] += each
                elif planned.identity not in shared:
                    shared.add(planned.identity)
                    out[planned.identity] += 1
        return out

    def _pairs(self) -> Iterator[tuple[str, str]]:
        study: StudySpec = self.written.study
        return ((arm, column) for arm in study.arms for column in study.columns or {"": {}})

    def _cell(self, arm: str, column: str, settings: Mapping[str, Any], seed: int) -> Cell:
        key = repr((arm, column, settings, seed))
        if key not in self._runs:
            self._runs[key] = self._planner.cell(arm, column, {**settings, "seed": seed})
        return self._runs[key]

    def _trial(self, cell: Cell) -> Cell:
        """A run as a trial: where trials are pruned, with a part of the last budget, scored on validation alone.

        Raises: BadInput where that part holds no step, or less than its schedule.
        """
        spec = cell.last.spec
        if not self.search.prune or not isinstance(spec, TrainStage) or spec.budget.empty:
            return cell
        budget = BudgetSpec(**{**spec.budget.model_dump(), "share": 1 / PRUNED, "scored": "val"})
        short = spec.model_copy(update={"budget": budget})
        try:
            self._outlines.size(spec)
        except BadInput as error:  # of the whole budget: not pruning's
            plan = replace(self.written, cells=(cell,))
            raise reworded(error, plan.as_written(cell.last, f"{cell.last.name}.{error}")) from None
        try:
            if budget.empty:
                raise BadInput(f"{cell.last.name}.budget: is no whole step then; give {PRUNED} steps or more")
            self._outlines.size(short)
        except BadInput as error:
            raise reworded(error, f"search.prune: of 1/{PRUNED} of the budget {error}; or leave 'prune' out") from None
        identity = self._outlines.identity(short, cell.last.open)
        return replace(cell, chain=(*cell.chain[:-1], replace(cell.last, spec=short, identity=identity)))

    def _replay(self, arm: str, column: str, find: Find) -> tuple[list[Cell], dict[str, Any] | None]:
        """The trials of an arm on a column, and the settings that were chosen once all of them are finished."""
        names = self._optuna.trial.TrialState
        study, distributions = self._study(self.search.sampler)
        settings, cells, candidates = list[dict[str, Any]](), list[Cell](), list[Candidate]()
        greater = True
        while len(candidates) < self.search.trials:
            batch = min(self.search.batch, self.search.trials - len(candidates))
            asked = [study.ask(distributions) for _ in range(batch)]
            settings += [dict(trial.params) for trial in asked]
            drawn = [self._trial(self._cell(arm, column, each, self.search.seed)) for each in settings[-batch:]]
            cells += drawn
            greater = monitored(drawn, find)[1]
            if (runs := _finished(drawn, find)) is None:
                return cells, None
            for trial, run in zip(asked, runs, strict=True):
                candidates.append(_candidate(run))
                score = None if candidates[-1].diverged or run.val is None else run.val if greater else -run.val
                study.tell(trial, score, names.FAIL if score is None else names.COMPLETE)
        if self.search.prune:
            # What diverged comes last and is not left out: all arms have equally many whole trials.
            scores = [0.0 if each.diverged else sum(each.val.values()) * (-1 if greater else 1) for each in candidates]
            best = sorted(range(len(scores)), key=lambda i: (candidates[i].diverged, scores[i]))
            settings = [settings[i] for i in best[: self.search.finalists]]
            whole = [self._cell(arm, column, each, self.search.seed) for each in settings]
            cells += whole
            if (runs := _finished(whole, find)) is None:
                return cells, None
            candidates = [_candidate(run) for run in runs]
        # Where every trial diverged, so will the runs that are reported: the first setting stands for all.
        return cells, settings[choose(candidates, greater) or 0]

    def _at_random(self, arm: str, column: str) -> list[Cell]:
        """The trials of `random_baseline`: what a random sampler draws behind as many as the search begins with."""
        if not self.search.random_trials:
            return []
        study, distributions = self._study("random")
        asked = [dict(study.ask(distributions).params) for _ in range(self.search.trials)]
        return [
            self._trial(self._cell(arm, column, each, self.search.seed)) for each in asked[self.search.first_random :]
        ]

    def _study(self, sampler: Literal["tpe", "random"]) -> tuple[optuna.Study, dict[str, BaseDistribution]]:
        """Equal for all arms and columns: they begin with the same settings, and a new name changes none."""
        samplers, seed = self._optuna.samplers, self.search.seed % 2**32
        drawn = (
            samplers.RandomSampler(seed=seed)
            if sampler == "random"
            else samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS, multivariate=True, constant_liar=True)
        )
        study = self._optuna.create_study(sampler=drawn, direction="maximize")
        return study, {path: self._distribution(space) for path, space in self.search.spaces.items()}

    def _distribution(self, space: Space) -> BaseDistribution:
        kinds = self._optuna.distributions
        made: BaseDistribution
        if space.kind == "choice":
            made = kinds.CategoricalDistribution(space.values)
        elif space.kind == "integer":
            made = kinds.IntDistribution(*space.values)
        else:
            made = kinds.FloatDistribution(*space.values, log=space.kind == "loguniform")
        return made


def _finished(trials: Sequence[Cell], find: Find) -> list[Run] | None:
    """What trials came to, diverged or not; None while some have not ended."""
    metric, _ = monitored(trials, find)
    runs = [read_run(cell, find, lambda _: "absent", metric) for cell in trials]
    return runs if all(run.status in ("complete", "diverged") for run in runs) else None


def _candidate(run: Run) -> Candidate:
    """A trial that is finished, as a choice looks at it."""
    sound = run.status == "complete" and run.val is not None
    return Candidate({} if run.val is None else {run.seed: run.val}, not sound)


def _import_optuna() -> Any:
    """Optuna, which says nothing but warnings. Raises: BadInput where it is not installed."""
    try:
        import optuna
    except ImportError:
        way = "pip install 'headstart[search]', or sweep a grid of axes"
        raise BadInput(f"search: optuna is not installed; {way}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
