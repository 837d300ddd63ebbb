"""Search as a study says it: over what, how often, by which sampler. What is drawn stands in `results/searching.py`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from headstart.documents import parse_override
from headstart.errors import BadInput, nearest
from headstart.spec import Spec
from headstart.study.language.overrides import check_path
from headstart.study.language.scales import set_by

SPACES = {
    "loguniform": "loguniform 1e-5 1e-2",
    "uniform": "uniform 0 0.1",
    "integer": "integer 1 8",
    "choice": "choice 32 64",
}
"""Kinds of spaces, each with an example."""
RANDOM_TRIALS = 10
"""Trials of which the sampler `tpe` wants scores before it draws otherwise than at random."""
PRUNED = 4
"""With `prune`, trials are trained for one part in so many of their budget, and the best part of so many for all."""
LARGEST_INTEGER = 2**53
"""Whole numbers up to which a space of them may reach: those that JSON keeps."""


class SearchSpec(Spec):
    """Settings that are searched, in place of a grid: each arm has as many trials on each column, of which validation
    chooses one setting, once. That setting is then trained with the seeds of the axis, which alone are reported."""

    trials: int = Field(ge=2, le=10_000)
    """Trials of each arm on each column."""
    over: dict[str, str] = Field(min_length=1)
    """Full name of a setting = its space: `loguniform 1e-5 1e-2`, `uniform 0 0.1`, `integer 1 8` or `choice 32 64`."""
    sampler: Literal["tpe", "random"] = "tpe"
    """How settings are drawn: `tpe` (a tree-structured Parzen estimator, whose first 10 trials, in whole batches, are
    random), or `random`, by which the same number of trials is what a search is held against."""
    batch: int = Field(default=4, ge=1)
    """Trials of an arm on a column that are drawn at a time, before any of them is scored: what is drawn depends on it,
    and never on the number of workers."""
    seed: int = Field(default=1000, ge=0, lt=2**63)
    """Of every trial of every arm, and of the sampler; it is none of the axis, whose seeds are fresh."""
    prune: bool = False
    """Trials have a quarter of the last stage's budget, by which settings are drawn; the best quarter of them on
    validation are trained anew with all of it, and of these one setting is chosen. No two budgets are compared."""
    random_baseline: bool = False
    """Whether each arm has settings drawn at random besides, so many that with the first, random trials of the search
    they are as many as its own: the report says what random search of the same size gives. They choose nothing."""

    @model_validator(mode="before")
    @classmethod
    def _with_optuna(cls, table: Any) -> Any:
        """`with = "optuna"` says what is so."""
        if not isinstance(table, Mapping) or "with" not in table:
            return table
        if table["with"] != "optuna":
            raise ValueError(f'with: {table["with"]!r}: a search is one with optuna; write with = "optuna"')
        return {key: value for key, value in table.items() if key != "with"}

    @model_validator(mode="after")
    def _random_trials_are_missing(self) -> Self:
        if self.random_baseline and self.first_random == self.trials:
            more = "" if self.sampler == "random" else ", or give more trials, or smaller batches"
            raise ValueError(f"random_baseline: all {self.trials} trials are drawn at random; leave it out{more}")
        return self

    @property
    def first_random(self) -> int:
        """Trials of an arm on a column that are drawn at random by the sampler, whole batches of them."""
        return (
            self.trials if self.sampler == "random" else min(-(-RANDOM_TRIALS // self.batch) * self.batch, self.trials)
        )

    @property
    def random_trials(self) -> int:
        """Trials of an arm on a column that `random_baseline` adds."""
        return self.trials - self.first_random if self.random_baseline else 0

    @property
    def finalists(self) -> int:
        """Trials of an arm on a column that are trained with the whole budget after short ones."""
        return -(-self.trials // PRUNED) if self.prune else 0

    @property
    def pruned(self) -> str:
        """What pruning does, as a sentence with a space before it; empty without."""
        if not self.prune:
            return ""
        several = f"the best {self.finalists} of them were" if self.finalists > 1 else "the best of them was"
        return (
            f" Trials had 1/{PRUNED} of the last stage's budget; {several} trained anew with all of it, and that chose "
            "the setting."
        )

    @property
    def spaces(self) -> dict[str, Space]:
        """By setting, in the order of names: what is drawn does not depend on the order of the file."""
        return {path: space_of(self.over[path], f"search.over.{path}") for path in sorted(self.over)}

    def holds(self, path: str, value: Any) -> bool:
        """Whether a value may have been drawn for a setting."""
        return path in self.over and self.spaces[path].holds(value)


@dataclass(frozen=True)
class Space:
    """Values that a setting may have. values: the two ends of an interval, both of it, or all that there are."""

    kind: str
    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether it is one of them."""
        if self.kind == "choice":
            return value in self.values
        whole = isinstance(value, int) or self.kind != "integer"
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and whole
        return bool(number and self.values[0] <= value <= self.values[1])


def space_of(text: str, location: str = "space") -> Space:
    """`loguniform 1e-5 1e-2` as a space. Raises: BadInput for what is none, or has one value."""
    kind, *parts = text.split() or [""]
    if kind not in SPACES:
        raise BadInput(f"{location}: {nearest(kind, SPACES)}, as in {SPACES['loguniform']!r}")
    values = tuple(parse_override(f"value={part}")[1] for part in parts)
    example = f"write it as in {SPACES[kind]!r}"
    if kind == "choice":
        if any(isinstance(value, (list, dict)) for value in values):
            raise BadInput(f"{location}: {text!r}: a choice is one of numbers, words, true and false; {example}")
        if len({repr(value) for value in values}) < max(len(values), 2):
            raise BadInput(f"{location}: {text!r} needs two values or more, each once; {example}")
        return Space(kind, values)
    types = (int,) if kind == "integer" else (int, float)
    if len(values) != 2 or any(type(value) not in types or abs(value) > LARGEST_INTEGER for value in values):
        numbers = "whole numbers" if kind == "integer" else "numbers"
        raise BadInput(f"{location}: {text!r} needs a lowest and a highest value, both {numbers}; {example}")
    values = values if kind == "integer" else tuple(map(float, values))
    if values[0] == values[1]:
        raise BadInput(f"{location}: {text!r} has one value; set it in the stage, or give a range")
    if not values[0] < values[1]:  # of numbers that are none, too
        raise BadInput(f"{location}: {text!r}: the first number is the lowest; {example}")
    if kind == "loguniform" and values[0] <= 0:
        raise BadInput(f"{location}: {text!r}: a logarithm needs numbers above 0; {example}, or take 'uniform'")
    return Space(kind, values)


def check_search(
    search: SearchSpec, stages: Collection[str], axes: Mapping[str, Sequence[Any]], claims: Sequence[str]
) -> None:
    """Raises: BadInput where a search does not fit the study. claims: where each is written, those at a setting with
    `.at`."""
    if search.prune and claims:
        raise BadInput(
            f"search.prune: {claims[0].removesuffix('.at')} asks which arm is better, and pruning favours what learns "
            "fast at first; leave 'prune' out, or the claims"
        )
    fixed = [claim for claim in claims if claim.endswith(".at")]
    spaces = search.spaces
    for path in spaces:
        location = f"search.over.{path}"
        check_path(stages, path, "search.over")
        key = path.split(".")[0] if path.split(".")[0] not in stages else path.partition(".")[2].split(".")[0]
        if not key or path in ("task", "model"):
            raise BadInput(f"{location}: names no single setting; name one, as in '{next(iter(stages))}.optim.lr'")
        if key == "seed":
            raise BadInput(f"{location}: a seed is not chosen, scores are means over seeds; leave it out")
        if key == "task":
            raise BadInput(f"{location}: validation scores of other tasks are not comparable; make columns of it")
        if other := [name for name in spaces if name != path and set_by(stages, path, [None], name)]:
            raise BadInput(f"{location}: '{other[0]}' sets the same thing; keep one of them")
    for path in axes:
        if path != "seed" and any(set_by(stages, path, [None], name) for name in spaces):
            raise BadInput(f"axes.{path}: the search is over the same setting; keep one of them")
        if path != "seed":
            raise BadInput(
                f"axes.{path}: a search stands beside no axis but seed; search it too, as in "
                f"search.over.\"{path}\" = 'choice ...', or make arms or columns of its values"
            )
    seeds = axes.get("seed", ())
    if not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise BadInput("axes.seed: what is chosen is reported with fresh seeds; give some, as in seed = [0, 1, 2]")
    if search.seed in seeds:
        raise BadInput(
            f"search.seed: {search.seed} is a seed of the axis, too, and trials chose with it; "
            f"take another, such as {max(seeds) + 1}"
        )
    if fixed:
        raise BadInput(f"{fixed[0]}: a search tries no setting for sure; leave 'at' out, or take an axis for a search")
