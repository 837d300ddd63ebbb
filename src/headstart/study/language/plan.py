"""From a study to its distinct stages: every arm, column and axis value becomes a chain of stages."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from headstart.documents import sorted_json
from headstart.errors import BadInput, nearest, reworded
from headstart.models.kind import DEFAULT, model_class, with_kind
from headstart.plugins import Plugin, plugins_of
from headstart.spec import digest, digest_of, nested
from headstart.stage import ReadStage, StageSpec, TrainStage, identity, identity_document, read_stage, settings_of_class
from headstart.study.language.axes import axes_of, check_number, chosen_axes, place_of
from headstart.study.language.budgets import OPEN, LacksData, Outlines
from headstart.study.language.files import to_toml
from headstart.study.language.overrides import SHARED_KEYS
from headstart.study.language.scales import VARIANTS, names_of, overlay
from headstart.study.language.spec import StudySpec
from headstart.training import BUDGET_MEASURES

BASELINE = "baseline"
"""Name of the stages that stand beside a study's own."""


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a plan: its name in the study, its spec and its identity."""

    name: str
    spec: StageSpec
    identity: str
    arms: tuple[str, ...] = field(default=(), compare=False)
    """The arms of the study that it is part of, where it stands among the stages of a plan."""

    @property
    def label(self) -> str:
        """Its name, and the kind of its model where that is not the usual one."""
        kind = self.spec.model.kind
        return self.name if kind == DEFAULT else f"{self.name} ({kind})"

    @property
    def trains(self) -> bool:
        """Whether it takes steps of an optimiser, as a network does."""
        return isinstance(self.spec, TrainStage)

    @property
    def reads(self) -> bool:
        """Whether its weights are read from a checkpoint."""
        return isinstance(self.spec, ReadStage)

    @property
    def open(self) -> bool:
        """Its data, or those of a parent, are absent: the identity tells it from others, and is not yet its own."""
        return self.identity.startswith(OPEN)


@dataclass(frozen=True)
class Cell:
    """One run: arm, column, seed and axis values that matter to its chain; the last of the chain is reported."""

    arm: str
    column: str
    seed: int
    settings: Mapping[str, Any]
    chain: tuple[PlannedStage, ...]

    @property
    def last(self) -> PlannedStage:
        """The stage whose scores are reported."""
        return self.chain[-1]


@dataclass(frozen=True)
class Plan:
    """All runs of a study, and their distinct stages by identity, parents first. MEASURES: keys of a stage's budget, of
    which it has one."""

    MEASURES: ClassVar = BUDGET_MEASURES
    study: StudySpec
    cells: tuple[Cell, ...]
    stages: Mapping[str, PlannedStage]
    data: Path = field(default_factory=lambda: Path("data"))
    baselines: tuple[Cell, ...] = ()
    """What the tasks' own baselines are, one stage each: run and stored like any stage, reported beside the arms."""
    trials: tuple[Cell, ...] = ()
    """Of a search, in the order in which they were drawn: they choose, and `cells` are what is reported."""

    @property
    def every_stage(self) -> dict[str, PlannedStage]:
        """The stages of the arms, then the baselines."""
        return {**self.stages, **{planned.identity: planned for cell in self.baselines for planned in cell.chain}}

    def with_runs(self, cells: Iterable[Cell]) -> Plan:
        """The plan with these runs in place of its own."""
        runs = tuple(cells)
        return replace(self, cells=runs, stages=stages_of((*self.trials, *runs)))

    @property
    def every_cell(self) -> tuple[Cell, ...]:
        """Trials, runs and baselines."""
        return *self.trials, *self.cells, *self.baselines

    @property
    def chains(self) -> set[tuple[str, ...]]:
        """Identities of stages that follow each other."""
        return {tuple(planned.identity for planned in cell.chain) for cell in self.every_cell}

    @property
    def networks(self) -> list[tuple[PlannedStage, TrainStage]]:
        """The stages that train, each with its spec."""
        return [(stage, stage.spec) for stage in self.stages.values() if isinstance(stage.spec, TrainStage)]

    def variant(self, cell: Cell, name: str, changed: Mapping[str, Any]) -> tuple[Mapping[str, Any], Cell]:
        """A run of the arm `name` that is that of another arm, seed and settings, but for what is changed in its last
        stage: its table in a study, and the run."""
        table = overlay(self.study.arms[cell.arm], {self.study.reported: changed, "seed": cell.seed})
        for path, value in cell.settings.items():
            table = overlay(table, nested(path, value))
        (varied,) = make_plan(self.study.model_copy(update={"arms": {name: table}, "search": None}), self.data).cells
        return table, varied

    def document(self, arms: Mapping[str, Any], names: Mapping[str, str]) -> str:
        """The study as `headstart run` reads it, in TOML, with more arms. names: text -> what stands in its place, as a
        file that lies elsewhere."""
        requires = {plugin.name: plugin.digest for plugin in self.plugins}
        study = self.study.model_copy(update={"requires": requires, "arms": {**self.study.arms, **arms}})
        return to_toml(_renamed(study.model_dump(mode="json"), names))

    def runs_of(self) -> dict[str, str]:
        """Identity -> the runs that a stage is part of, in short: `scratch on digits, seed 0, rate 0.001`."""
        arms: dict[str, dict[str, None]] = {}
        columns: dict[str, dict[str, None]] = {}
        for cell in self.every_cell:
            for planned in cell.chain:
                arms.setdefault(planned.identity, {})[cell.arm] = None
                columns.setdefault(planned.identity, {})[cell.column] = None
        several = len({cell.column for cell in (*self.trials, *self.cells)}) > 1
        texts = {}
        for key, planned in self.every_stage.items():
            names = list(arms[key])
            text = f"{names[0]} and {len(names) - 1} more" if len(names) > 2 else " and ".join(names)
            where = f" on {', '.join(columns[key])}" if several else ""
            rate = f", rate {planned.spec.optim.lr:g}" if isinstance(planned.spec, TrainStage) else ""
            texts[key] = f"{text}{where}, seed {planned.spec.seed}{rate}"
        return texts

    def as_written(self, planned: PlannedStage, text: str) -> str:
        """The lines of an error of a stage, with the places at which the study has its settings."""
        cell = next(cell for cell in self.every_cell if planned in cell.chain)
        return "\n".join(_as_written(self.study, cell.arm, cell.column, line) for line in text.splitlines())

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Code of a person's own that its stages come from."""
        return plugins_of([planned.spec for planned in self.stages.values()])

    @property
    def choose(self) -> tuple[str, ...]:
        """Axes whose value is chosen on validation."""
        return chosen_axes(self.study)


def make_plan(study: StudySpec, data: Path, *, absent: Literal["refuse", "open"] = "refuse") -> Plan:
    """Every run of the study. absent: stages whose data are not there are refused, or planned with open identities.

    Of a study that searches, its runs at the settings as they are written, as `searching.Searched` takes them.
    Raises: BadInput with the study's place of what is wrong.
    """
    cells: dict[tuple[Any, ...], tuple[Cell, Mapping[str, Any]]] = {}
    check_number(study)
    planner = Planner(study, data, absent)
    for arm in study.arms:
        for column in study.columns or {"": {}}:
            own = axes_of(study, arm)
            for values in itertools.product(*own.values()):
                axes = dict(zip(own, values, strict=True))
                cell = planner.cell(arm, column, axes)
                key = (arm, cell.column, cell.seed, tuple(p.identity for p in cell.chain))
                cells.setdefault(key, (cell, axes))
    runs = _told_apart(tuple(cells.values()))
    _check_model_axes(study, [planned for cell in runs for planned in cell.chain])
    _check_chosen(study, runs)
    return Plan(study, runs, stages_of(runs), data, _baselines(runs, data) if study.report.baselines else ())


class Planner:
    """Runs of a study, one at a time. absent: as `make_plan` has it."""

    def __init__(self, study: StudySpec, data: Path, absent: Literal["refuse", "open"] = "refuse") -> None:
        self._study, self._chains, self._open = study, _Chains(study, Outlines(data)), absent == "open"

    def cell(self, arm: str, column: str, axes: dict[str, Any]) -> Cell:
        """The run of an arm and a column at these values. Raises: BadInput with the study's place of what is wrong."""
        try:
            chain, seed = self._chains.of((arm,), column, axes, self._open)
        except LacksData as error:
            raise BadInput(f"{error}{_way_out(self._study, column)}") from None
        except BadInput as error:
            lines = [_as_written(self._study, arm, column, line) for line in str(error).splitlines()]
            raise reworded(error, "\n".join(lines)) from None
        return _cell(arm, column, seed, axes, chain)


def stages_of(cells: Sequence[Cell]) -> dict[str, PlannedStage]:
    """The distinct stages of runs, parents first: one seed of every arm before the next, so that a table of all arms
    stands early."""
    seeds = {seed: order for order, seed in enumerate(dict.fromkeys(cell.seed for cell in cells))}
    stages: dict[str, PlannedStage] = {}
    arms: dict[str, dict[str, None]] = {}
    for cell in sorted(cells, key=lambda cell: seeds[cell.seed]):
        for planned in cell.chain:
            stages.setdefault(planned.identity, planned)
            arms.setdefault(planned.identity, {})[cell.arm] = None
    return {key: PlannedStage(p.name, p.spec, key, tuple(arms[key])) for key, p in stages.items()}


def _baselines(cells: Iterable[Cell], data: Path) -> tuple[Cell, ...]:
    """A stage for each baseline of each reported task whose data are there, each once."""
    out: dict[str, Cell] = {}
    seen: set[str] = set()
    for cell in cells:
        last = cell.chain[-1]
        task, objective = last.spec.task, last.spec.objective
        key = digest([task.document(), objective.document()])
        if key in seen or last.open:
            continue
        seen.add(key)
        for model in objective.baseline_models(task):
            spec = read_stage({"task": task, "objective": objective, "model": model}, name=BASELINE)
            planned = PlannedStage(BASELINE, spec, identity(spec, data))
            out.setdefault(planned.identity, Cell(model["kind"], cell.column, 0, {}, (planned,)))
    return tuple(out.values())


def _check_model_axes(study: StudySpec, stages: Iterable[PlannedStage]) -> None:
    """An axis over a setting that no kind of model here has is a mistake."""
    fields = {field for planned in stages for field in type(planned.spec.model).model_fields}
    places = {f"axes.{path}": path for path in study.axes}
    places |= {f"search.over.{path}": path for path in (study.search.over if study.search else ())}
    for location, path in places.items():
        field = path.partition("model.")[2].split(".")[0]
        if field and field not in fields:
            raise BadInput(f"{location}: {nearest(field, fields)}")


def _check_chosen(study: StudySpec, runs: Iterable[Cell]) -> None:
    """Raises: BadInput where an arm without validation has several values of an axis that is chosen by it."""
    values: dict[tuple[str, str], set[str]] = {}
    for cell in runs:
        if not cell.chain[-1].spec.task.validation:
            for path in cell.settings.keys() & set(chosen_axes(study)):
                values.setdefault((cell.arm, path), set()).add(repr(cell.settings[path]))
    for (arm, path), several in values.items():
        if len(several) > 1:
            raise BadInput(
                f"arms.{arm}: task.validation = 0 leaves no score by which one of the {len(several)} values of {path} "
                f"could be chosen; set {path} in this arm, too"
            )


def _as_written(study: StudySpec, arm: str, column: str, line: str) -> str:
    """A line of an error with the places where its settings are written (`columns.image.model.width` of
    `finetune.model.width`): in the strongest of the bundles that have them. Any other line gets the arm."""
    setting, colon, message = line.partition(": ")
    stage = setting.partition(".")[0]
    if stage not in study.stages:
        return line
    message = _SETTING.sub(lambda m: place_of(study, arm, column, f"{stage}.{m[0]}") or m[0], message)
    location = place_of(study, arm, column, setting) or (f"arms.{arm}: {setting}" if arm in study.arms else setting)
    return f"{location}{colon}{message}"


_SETTING = re.compile(r"(?<![\w.])model\.[a-z_.]*[a-z]")
"""A setting of the same stage that a message names besides."""


def _cell(arm: str, column: str, seed: int, axes: dict[str, Any], chain: tuple[PlannedStage, ...]) -> Cell:
    """seed: of the run, whether or not its stages depend on it."""
    matter = {path: value for path, value in axes.items() if path != "seed" and matters(path, chain)}
    return Cell(arm, column or chain[-1].spec.task.kind, seed, matter, chain)


def _told_apart(runs: Sequence[tuple[Cell, Mapping[str, Any]]]) -> tuple[Cell, ...]:
    """Runs, each with the values of all axes: with those, too, that reach it through another arm alone, whose budget it
    is to equal."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    keys = [repr((cell.arm, cell.column, cell.seed, dict(cell.settings))) for cell, _ in runs]
    for key, (_, axes) in zip(keys, runs, strict=True):
        groups.setdefault(key, []).append(axes)
    out = []
    for key, (cell, axes) in zip(keys, runs, strict=True):
        apart = [path for path, value in axes.items() if any(other[path] != value for other in groups[key])]
        settings = {path: value for path, value in axes.items() if path in apart or path in cell.settings}
        out.append(replace(cell, settings=settings) if apart else cell)
    return tuple(out)


def matters(path: str, chain: tuple[PlannedStage, ...]) -> bool:
    """Some stage of the chain uses this setting."""
    first, _, rest = path.partition(".")
    if first in SHARED_KEYS:
        return any(_has(planned.spec, path) for planned in chain)
    return any(planned.name == first and _has(planned.spec, rest) for planned in chain)


def _has(spec: StageSpec, path: str) -> bool:
    """Whether a setting (`optim.lr`, `model.width`) means anything for a stage."""
    first, _, rest = path.partition(".")
    if first == "seed":
        return spec.seeded
    owner = spec.model if first == "model" and rest else spec
    return (first if owner is spec else rest.split(".")[0]) in type(owner).model_fields


class _Chains:
    """The chains of stages of a study's runs. The settings that a stage has before its axes are made once, and runs
    that differ in nothing but the seed are read once."""

    def __init__(self, study: StudySpec, outlines: Outlines) -> None:
        self.study, self.outlines = study, outlines
        self._bundled: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._read: dict[tuple[tuple[str, ...], str, str], tuple[_Documented, ...]] = {}
        self._seeds_alone = all(path == "seed" or path.split(".")[-1] != "seed" for path in study.axes)

    def of(
        self, arms: tuple[str, ...], column: str, axes: Mapping[str, Any], may_be_open: bool
    ) -> tuple[tuple[PlannedStage, ...], int]:
        """(the reported stage of the last of `arms` and its ancestors, the first one first; the seed of the run).

        arms: before it those whose budgets are to equal its own.
        """
        seed = axes.get("seed")
        key = arms, column, repr([value for path, value in axes.items() if path != "seed"])
        if key in self._read and type(seed) is int and abs(seed) < 2**63:
            return _with_seed(self._read[key], seed), seed
        study, arm = self.study, arms[-1]
        planned: list[PlannedStage] = []
        name, seen = study.reported, [study.reported]
        tables = [self._settings(name, column, arm, axes)]
        while (parent := tables[-1].get("parent")) is not None:
            if not isinstance(parent, str) or parent not in study.stages:
                raise BadInput(f"{seen[-1]}.parent: {nearest(parent, study.stages)}")
            if parent in seen:
                raise BadInput(f"{seen[-1]}.parent: {parent!r} is its own ancestor ({' -> '.join(seen)})")
            seen.append(parent)
            tables.append(self._settings(parent, column, arm, axes))
        seed = tables[0].get("seed", 0)
        folded = [_with_fold(table, seed) for table in tables]
        alike = self._seeds_alone and all(new is old for new, old in zip(folded, tables, strict=True))
        spec: StageSpec | None = None
        for name, table in zip(reversed(seen), reversed(folded), strict=True):
            parent = {} if spec is None else {"parent": spec}
            spec = read_stage(settings_of_class(table) | parent, name).settled()
            if isinstance(spec, TrainStage):
                other = spec.budget.flops_of
                equal = [] if other is None else self._equal(arms, column, axes, name, other)
                try:
                    spec = self.outlines.in_steps(spec, equal)
                except BadInput as error:
                    raise reworded(error, f"{name}.{error}") from None
            planned.append(PlannedStage(name, spec, self.outlines.identity(spec, may_be_open)))
            if spec.parent is None:
                # A parent that trains nothing was dropped: it is not a stage of this chain.
                planned = planned[-1:]
        if isinstance(planned[-1].spec, ReadStage):
            raise BadInput(
                f"{study.reported}.checkpoint: a stage that is read has no scores, and the last stage is reported; "
                f'write a stage after it with parent = "{study.reported}"'
            )
        if alike and not any(stage.open for stage in planned):
            data = self.outlines.data
            self._read[key] = tuple(_documented(stage, data) for stage in planned)
        return tuple(planned), int(seed)

    def _equal(
        self, arms: tuple[str, ...], column: str, axes: Mapping[str, Any], name: str, other: str
    ) -> list[StageSpec]:
        """The stages of the arm `other`, which stage `name` is to equal. Raises: BadInput where that cannot be."""
        study, location = self.study, f"{name}.budget.flops_of"
        if name != study.reported:
            raise BadInput(
                f"{location}: whole chains are made equal in their last stage, {study.reported!r}; give flops here"
            )
        if other not in study.arms:
            raise BadInput(f"{location}: {nearest(other, study.arms)}")
        if other in arms:
            circle = " -> ".join((*arms, other))
            raise BadInput(f"{location}: {circle} wait for each other; give one of them a budget of its own")
        try:
            chain, _ = self.of((*arms, other), column, axes, True)
        except BadInput as error:
            lines = [_as_written(study, other, column, line) for line in str(error).splitlines()]
            raise reworded(error, "\n".join(lines)) from None
        return [planned.spec for planned in chain]

    def _settings(self, name: str, column: str, arm: str, axes: Mapping[str, Any]) -> dict[str, Any]:
        """A stage's settings: arms win over columns and their variants, columns over stages; axes are set last.

        An axis over a setting of models is for the kinds of model that have it.
        """
        key = name, column, arm
        if key not in self._bundled:
            self._bundled[key] = self._bundles(name, self.study.columns.get(column, {}), self.study.arms[arm])
        out = self._bundled[key]
        fields = model_class(out["model"]).model_fields
        last: dict[str, Any] = {}
        for path, value in axes.items():
            first, _, rest = path.partition(".")
            own = rest if first == name else path if first in SHARED_KEYS else ""
            if own.startswith("model.") and own.split(".")[1] not in fields:
                continue
            last = overlay(last, nested(own, value)) if own else last
        return overlay(out, last)

    def _bundles(self, name: str, column: Mapping[str, Any], arm: Mapping[str, Any]) -> dict[str, Any]:
        stages = self.study.stages
        layers: list[Mapping[str, Any]] = [stages[name]]
        variants = [column[VARIANTS][variant] for variant in names_of(arm.get("variant", ()))]
        for bundle in (column, *variants, arm):
            layers.append({k: v for k, v in bundle.items() if k not in stages and k not in (VARIANTS, "variant")})
            layers.append(bundle.get(name, {}))
        out: dict[str, Any] = {}
        for layer in layers:
            # A model's kind is written out first: a table of another kind replaces it whole.
            out = overlay({**out, "model": with_kind(out.get("model", {}))}, layer)
        return out


_Documented = tuple[PlannedStage, str]
"""A stage and the text that its identity is the digest of, with a mark in place of its seed and of its parent."""
_MARKS = {"seed": "\0seed", "parent": "\0parent"}
_WRITTEN_MARKS = {name: sorted_json(mark).decode() for name, mark in _MARKS.items()}


def _documented(planned: PlannedStage, data: Path) -> _Documented:
    document = identity_document(planned.spec, data)
    marked = document | {name: mark for name, mark in _MARKS.items() if document.get(name) is not None}
    return planned, sorted_json(marked).decode()


def _with_seed(chain: Iterable[_Documented], seed: int) -> tuple[PlannedStage, ...]:
    """The same chain with another seed."""
    out: list[PlannedStage] = []
    for planned, text in chain:
        own: dict[str, Any] = {}
        if _WRITTEN_MARKS["seed"] in text:
            own["seed"], text = seed, text.replace(_WRITTEN_MARKS["seed"], str(seed))
        if planned.spec.parent is not None:
            own["parent"] = out[-1].spec
            text = text.replace(_WRITTEN_MARKS["parent"], f'"{out[-1].identity}"')
        out.append(PlannedStage(planned.name, planned.spec.model_copy(update=own), digest_of(text)))
    return tuple(out)


def _with_fold(table: dict[str, Any], seed: Any) -> dict[str, Any]:
    """The settings of a stage, where `task.fold = "seed"` is the seed of the run: each run chooses on another fold."""
    task = table.get("task")
    return {**table, "task": {**task, "fold": seed}} if isinstance(task, dict) and task.get("fold") == "seed" else table


def _way_out(study: StudySpec, column: str) -> str:
    others = [name for name in study.columns if name != column]
    ways = ([f"keep others with columns={others[:3]}".replace("'", '"')] if others else []) + (
        ["take --scale tiny, which has stand-ins"] if study.scale not in (None, "tiny") else []
    )
    if not column and not ways:
        return ""
    location = f"columns.{column}: its data are" if column else "The data are"
    return f"\n{location} not there; put them there" + "".join(f", or {way}" for way in ways)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same with texts that are keys of `names` replaced."""
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
