"""A study as it is written: named stages, columns, arms, axes, and what the report chooses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from headstart.errors import BadInput, nearest
from headstart.plugins import require_plugins
from headstart.spec import Spec, read
from headstart.study.language.files import study_path, table_of
from headstart.study.language.overrides import check_path, with_overrides
from headstart.study.language.papers import AVERAGE, Claim, built_in_papers, check_claim
from headstart.study.language.scales import (
    STAGE_KEYS,
    VARIANTS,
    StandIn,
    at_scale,
    check_bundle,
    check_known,
    check_written,
    checked_table,
    names_of,
    set_by,
    with_bases,
)
from headstart.study.language.search import SearchSpec, check_search
from headstart.tasks import TaskField, TaskSpec
from headstart.tasks.task import available

LONGEST_NAME = 100
"""Characters of a name: a study's becomes a folder's, and each stands in tables."""


class AverageSpec(Spec):
    """An average over columns (those named, else all);

    `chance`, or `skip` it.
    """

    over: Literal["columns"] = "columns"
    """What is averaged over."""
    columns: tuple[str, ...] = ()
    """The columns that count; without any, all of them."""
    missing: Literal["chance", "skip"] = "chance"
    """What a column without a number counts."""


class MarkSpec(Spec):
    """A value of a setting that plots of the sweep mark, and what it is (`the rate of Lu et al.`)."""

    setting: str
    """The full name of the swept setting, such as `finetune.optim.lr`."""
    value: float
    """The value that is marked."""
    says: str = Field(min_length=1)
    """What the mark is called in the plot."""


class ReportSpec(Spec):
    """"""

    choose: tuple[str, ...] | None = Field(default=None, strict=False)
    """Axes whose value is chosen on validation (default: every axis but seed and those of the model, whose values are
    reported side by side)."""
    against: str | None = None
    """The arm that the others are compared with (default: none)."""
    average: AverageSpec | None = None
    """An average over columns, as a table of its own; see `average`."""
    match: str | None = None
    """An arm; the report says after how many steps the others reach its best validation score."""
    figures: tuple[Literal["kernels", "attention", "deviations", "spreads"], ...] = Field(default=(), strict=False)
    """What is drawn of trained weights besides curves: `kernels`, `attention`, `deviations`, `spreads`."""
    sweep: Literal["val", "test"] = "val"
    """Plots of a sweep show validation alone, or `test` beside it and in a table of its own; no choice reads it."""
    mark: MarkSpec | None = None
    """A value that these plots mark."""
    gain: bool = False
    """Draw what arms gain over `against`, in percent of its score."""
    baselines: bool = True
    """Run each task's trivial baselines too, and report them beside the arms."""
    one_machine: bool = False
    """All arms belong on one kind of machine: a claim whose arms ran on different ones is not judged."""


class StudySpec(Spec):
    """A study, its bases and its scale applied. The last of `stages` is the one whose scores are reported."""

    name: str
    """The name of the study; reports are filed under it."""
    title: str = ""
    """The heading of its table and page."""
    paper: str | None = None
    """Name of the cells that a paper printed (`studies/papers`)."""
    scale: Literal["tiny", "small", "paper"] | None = None
    """The one that is applied, with what it leaves out (`scale_note`) and the columns and stages whose data are absent,
    each with what stands in."""
    scale_note: str = ""
    """Written while a scale is applied, not by hand."""
    stood_in: dict[str, dict[str, StandIn]] = Field(default_factory=dict)
    """Written while a scale is applied, not by hand."""
    uncompared: str = ""
    """The arm that the others would be compared with, where `arms=[...]` leaves it out; written then, not by hand."""
    requires: dict[str, str] = Field(default_factory=dict)
    """Plugins whose kinds it uses, each with its digest; they are compared with what is loaded, never imported from
    here."""
    stages: dict[str, dict[str, Any]]
    """`[stages.NAME]`, in the order of the chain; the last one's scores are reported."""
    columns: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """`[columns.NAME]`: bundles of settings, mostly a task and the model for it."""
    arms: dict[str, dict[str, Any]]
    """`[arms.NAME]`: bundles of settings that are compared with each other."""
    axes: dict[str, list[Any]] = Field(default_factory=dict)
    """`[axes]`: full name of a setting = list of its values."""
    search: SearchSpec | None = None
    """`search = { ... }`: settings that are searched in place of a grid, see `search`."""
    claims: tuple[Claim, ...] = ()
    """`[[claims]]`: directions that the report checks, see `claims`."""
    report: ReportSpec = Field(default_factory=ReportSpec)
    """`[report]`: what is chosen, compared and drawn, see `report`."""

    @property
    def without(self) -> str:
        """That nothing is compared, where it is so because an arm was left out; else empty."""
        other = f"report.against={next(iter(self.arms))}"
        text = f"nothing is compared: the arm {self.uncompared!r} is left out; keep it, or name another, as in {other}"
        return text if self.uncompared else ""

    @property
    def reported(self) -> str:
        """Name of the stage whose scores are reported."""
        return list(self.stages)[-1]


def read_study(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    scale: str | None = None,
    data: Path | None = None,
    at_hand: Callable[[TaskSpec], bool] | None = None,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> StudySpec:
    """Read a study file (or built-in name, or dict), at a scale, and apply `name=value` overrides.

    scale: `tiny` (the default), `small` or `paper`, of a study that has scales. data: the folder of data sets; what
    is not in it is stood in for, where the scale says by what (None: nothing is). at_hand: says it instead.
    change: of the study's table, before the overrides are laid over it, which may then name what it adds.
    Raises: BadInput naming file, place, value and way out.
    """
    if isinstance(source, Mapping):
        table, prefix, path = {key: _plain(value) for key, value in source.items()}, "", None
    else:
        path = study_path(str(source))
        table, prefix = table_of(path), f"{path.name}: "
    try:
        if data is not None:
            at_hand = partial(available, data=data)
        absent = None if at_hand is None else (lambda task: not at_hand(_task_spec(task)))
        kept_by_word = [word.partition("=")[0].strip() for word in overrides]
        written = with_bases(table, path)
        check_written(written)
        check_requires(written)
        table = at_scale(written, scale, absent, kept_by_word)
        try:
            laid = with_overrides(table if change is None else change(table), overrides)
        except BadInput:
            _checked(table, written)  # a mistake of the file comes first: the override may be right but for it
            raise
        return _checked(laid, written)
    except BadInput as error:
        raise BadInput("\n".join(prefix + line for line in str(error).splitlines())) from None


def _plain(value: Any) -> Any:
    """A table of Python with tables in place of specs: of settings that overrides reach into."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.model_dump() if isinstance(value, Spec) else value


def _checked(table: Mapping[str, Any], written: Mapping[str, Any]) -> StudySpec:
    """The study of a table. written: before a scale left any of it out."""
    study = read(StudySpec, table)
    _check_claims(study, written)
    check_study(study)
    return study


def check_requires(table: Mapping[str, Any]) -> None:
    """Raises: BadInput where the study needs a plugin that is not loaded, or not as it was."""
    needed = checked_table(table.get("requires", {}), "requires")
    for name, digest in needed.items():
        require_plugins({name: str(digest)}, f"requires.{name}", table)


class _TaskOnly(Spec):
    task: TaskField


def _task_spec(table: Mapping[str, Any]) -> TaskSpec:
    spec: TaskSpec = read(_TaskOnly, {"task": table}).task
    return spec


def _check_claims(study: StudySpec, written: Mapping[str, Any]) -> None:
    """Claims and the average name arms and columns of the whole study, of which a scale may keep few."""
    arms, columns = written.get("arms", {}), written.get("columns", {})
    for i, claim in enumerate(study.claims):
        check_claim(claim, arms, columns and [*columns, AVERAGE], f"claims[{i}]")
    for column in study.report.average.columns if study.report.average else ():
        check_known(column, columns, "report.average.columns")


def check_study(study: StudySpec) -> None:
    """Names that no stage, arm or axis has are refused here, each with the nearest that is known."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", study.name):
        raise BadInput(f"name: {study.name!r} becomes a folder's name; use letters, digits, '-' and '_'")
    _check_name("name", study.name)
    if not study.stages:
        raise BadInput("stages: there is none; a study needs at least one [stages.NAME]")
    if not study.arms:
        raise BadInput("arms: there is none; a study compares arms, so write at least one [arms.NAME]")
    for where, names in (("stages", study.stages), ("columns", study.columns), ("arms", study.arms)):
        for name in names:
            _check_name(where, name)
    for name in study.stages:
        if name in STAGE_KEYS or name in StudySpec.model_fields or "." in name:
            raise BadInput(f"stages.{name}: a stage cannot be named like a key of a study or stage, or with a dot")
    for where, bundles in (("columns", study.columns), ("arms", study.arms)):
        for name, bundle in bundles.items():
            check_bundle(study.stages, f"{where}.{name}", bundle, of=where)
    for name, bundle in study.arms.items():
        if isinstance(own := bundle.get("seed"), list):
            raise BadInput(f"arms.{name}.seed: {own}: an arm has the seeds of the axis; leave it out, or give one")
        _check_variant(study, f"arms.{name}.variant", bundle.get("variant", ()))
    for name, settings in study.stages.items():
        for key in settings:
            check_known(key, STAGE_KEYS, f"stages.{name}.{key}")
    _check_axes(study)
    if study.search is not None:
        claims = [f"claims[{i}]{'.at' if claim.at else ''}" for i, claim in enumerate(study.claims)]
        check_search(study.search, study.stages, study.axes, claims)
    if study.paper is not None:
        check_known(study.paper, built_in_papers(), "paper")
    for key, arm in (("against", study.report.against), ("match", study.report.match)):
        if arm is not None and arm not in study.arms:
            other = f"report.{key}={next(iter(study.arms))}"
            way = f"name another, as in {other}"
            raise BadInput(f"report.{key}: {nearest(arm, study.arms)}; {way}")
    if study.report.gain and study.report.against is None:
        raise BadInput("report.gain: a gain is one over an arm; name it in 'report.against', or leave 'gain' out")
    if study.report.mark is not None:
        check_path(study.stages, study.report.mark.setting, "report.mark.setting")
    for path in study.report.choose or ():
        check_known(path, study.axes, "report.choose")
        if path == "seed":
            raise BadInput("report.choose: a seed is never chosen, scores are averaged over seeds; leave 'seed' out")


def _check_name(where: str, name: str) -> None:
    if not name or not name.isprintable():
        raise BadInput(f"{where}: {name!r} is not a name that can be printed; give it letters")
    if len(name) > LONGEST_NAME:
        raise BadInput(f"{where}: {name[:30]!r}... has {len(name)} characters; a name has at most {LONGEST_NAME}")


def _check_axes(study: StudySpec) -> None:
    for path, values in study.axes.items():
        check_path(study.stages, path, "axes")
        if path in study.stages:
            raise BadInput(f"axes: '{path}' is a whole stage; name one of its settings, as in '{path}.optim.lr'")
        if path.removesuffix(".seed") in study.stages:
            raise BadInput(f"axes: '{path}': a seed is that of the whole chain; write seed = {values}")
        if not values:
            raise BadInput(f"axes.{path}: the list is empty; give at least one value")
        if len(values) != len({repr(v) for v in values}):
            raise BadInput(f"axes.{path}: {values} holds a value twice")
    for path, values in study.axes.items():
        for other in study.axes:
            if other != path and set_by(study.stages, path, values, other):
                raise BadInput(f"axes: '{path}' and '{other}' set the same thing; keep one of them")


def _check_variant(study: StudySpec, location: str, variants: Any) -> None:
    """An arm's variants must be there in every column."""
    for column, bundle in (study.columns or {"": {}}).items():
        for name in names_of(variants):
            check_known(name, bundle.get(VARIANTS, {}), f"{location}: columns.{column}")
