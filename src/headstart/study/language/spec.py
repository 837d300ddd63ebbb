"""A study as it is written: named stages, columns, arms, axes, and what the report chooses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from headstart.errors import BadInput, nearest
from headstart.models.kind import model_class
from headstart.plugins import require_plugins
from headstart.spec import Spec, merge, read, set_path
from headstart.study.language.files import study_path, table_of
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
    full_names,
    kept,
    names_of,
    nested,
    overlay,
    parse_override,
    set_by,
    with_bases,
)
from headstart.tasks import TaskField, TaskSpec
from headstart.tasks.task import available

SHARED_KEYS = ("task", "model", "seed")
"""Settings that may be named without a stage: they mean the same in every stage of a chain."""
OVERRIDES = ("arms", "columns", "report")
"""What an override may begin with besides stages and shared settings."""
LISTS = ("start", "mixer", "choose", "arms", "columns")
"""Keys whose value is a list: it replaces the value and makes no axis."""
LONGEST = 100
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
    claims: tuple[Claim, ...] = ()
    """`[[claims]]`: directions that the report checks, see `claims`."""
    report: ReportSpec = Field(default_factory=ReportSpec)
    """`[report]`: what is chosen, compared and drawn, see `report`."""

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
    change: Callable[[StudySpec], StudySpec] | None = None,
) -> StudySpec:
    """Read a study file (or built-in name, or dict), at a scale, and apply `name=value` overrides.

    scale: `tiny` (the default), `small` or `paper`, of a study that has scales. data: the folder of data sets; what
    is not in it is stood in for, where the scale says by what (None: nothing is). at_hand: says it instead.
    change: of the study, before the overrides are applied, which may then name what it adds.
    Raises: BadInput naming file, place, value and way out.
    """
    if isinstance(source, Mapping):
        table, prefix, path = merge(source), "", None
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
        study = read(StudySpec, at_scale(written, scale, absent, kept_by_word))
        _check_claims(study, written)
        check_study(study)
        study = apply_overrides(study if change is None else change(study), overrides)
        check_study(study)
        return study
    except BadInput as error:
        raise BadInput("\n".join(prefix + line for line in str(error).splitlines())) from None


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
    if study.paper is not None:
        check_known(study.paper, built_in_papers(), "paper")
    for key, arm in (("against", study.report.against), ("match", study.report.match)):
        if arm is not None and arm not in study.arms:
            other = f"report.{key}={next(iter(study.arms))}"
            way = f"keep the arm where arms=[...] leaves some out, or name another, as in {other}"
            raise BadInput(f"report.{key}: {nearest(arm, study.arms)}; {way}")
    if study.report.gain and study.report.against is None:
        raise BadInput("report.gain: a gain is one over an arm; name it in 'report.against', or leave 'gain' out")
    if study.report.mark is not None:
        check_path(study, study.report.mark.setting, "report.mark.setting")
    for path in study.report.choose or ():
        check_known(path, study.axes, "report.choose")
        if path == "seed":
            raise BadInput("report.choose: a seed is never chosen, scores are averaged over seeds; leave 'seed' out")


def _check_name(where: str, name: str) -> None:
    if not name or not name.isprintable():
        raise BadInput(f"{where}: {name!r} is not a name that can be printed; give it letters")
    if len(name) > LONGEST:
        raise BadInput(f"{where}: {name[:30]!r}... has {len(name)} characters; a name has at most {LONGEST}")


def _check_axes(study: StudySpec) -> None:
    for path, values in study.axes.items():
        check_path(study, path, "axes")
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


def check_path(study: StudySpec, path: str, location: str, more: Sequence[str] = ()) -> None:
    """A setting's full name: `STAGE.key...`, `task...`, `model...` or `seed`. more: other names that would be right."""
    first = path.split(".")[0]
    if first in study.stages or first in SHARED_KEYS:
        return
    if first in STAGE_KEYS:
        full = " or ".join(f"'{name}.{path}'" for name in study.stages)
        raise BadInput(f"{location}: '{path}' names no stage; write {full}")
    raise BadInput(f"{location}: '{path}': {nearest(first, [*study.stages, *SHARED_KEYS, *more])}")


def apply_overrides(study: StudySpec, overrides: Sequence[str]) -> StudySpec:
    """`name=value` words win over all: a list makes or replaces an axis, a value fixes one setting everywhere.

    `arms=[...]` and `columns=[...]` keep those named; `arms.NAME.key=value` and `columns.NAME.key=value` fix a setting
    of one of them. Where the study names what it chooses, a new axis of `optim` joins it, any other one multiplies the
    columns.
    """
    table: dict[str, Any] = study.model_dump()
    for word in overrides:
        path, value = parse_override(word)
        first = path.split(".")[0]
        if path in ("arms", "columns"):
            table[path] = kept(table[path], value, f"override: {path}")
            table["stood_in"] = {name: kinds for name, kinds in table["stood_in"].items() if name in table["columns"]}
        elif first == "report":
            set_path(table, path.split("."), value)
        elif first in ("arms", "columns"):
            _fix_one(study, table, path, value)
        else:
            check_path(study, path, "override", OVERRIDES)
            if isinstance(value, list) and path.rsplit(".", 1)[-1] not in LISTS:
                _replace_axes(table, path, value)
                _new_axis(table, path, value)
            else:
                _replace_axes(table, path, [value])
                table["axes"].pop(path, None)
                table["report"]["choose"] = _without(table["report"]["choose"], path)
                _fix(table["stages"], table["arms"].values(), path, value)
    return read(StudySpec, table)


def _replace_axes(table: dict[str, Any], path: str, values: list[Any]) -> None:
    """Drop the other axes that these values win over. Raises: BadInput where they win over a part of one."""
    stages = table["stages"]
    for axis, own in list(table["axes"].items()):
        if axis == path:
            continue
        hit = set_by(stages, path, values, axis)
        if len(hit) == len(full_names(stages, axis)):
            del table["axes"][axis]
            table["report"]["choose"] = _without(table["report"]["choose"], axis)
        elif hit or set_by(stages, axis, own, path):
            raise BadInput(f"override: '{path}' is a part of what the axis '{axis}' sets; override '{axis}' itself")


def _new_axis(table: dict[str, Any], path: str, values: list[Any]) -> None:
    choose = table["report"]["choose"]
    if path not in table["axes"] and choose is not None and ".optim." in f".{path}":
        table["report"]["choose"] = (*choose, path)
    table["axes"][path] = values


def _without(names: Any, path: str) -> Any:
    return None if names is None else tuple(n for n in names if n != path)


def _fix_one(study: StudySpec, table: dict[str, Any], path: str, value: Any) -> None:
    """Set one value in the arm or column that the path `arms.NAME.key` or `columns.NAME.key` names.

    Names may have dots. Raises: BadInput where an axis, or for a column an arm, would win over the value.
    """
    kind, _, rest = path.partition(".")
    bundles = table[kind]
    name = max((bundle for bundle in bundles if rest.startswith(f"{bundle}.")), key=len, default=rest.split(".")[0])
    check_known(name, bundles, f"override: {kind}")
    setting = rest.removeprefix(f"{name}.")
    if setting == name:
        raise BadInput(f"override: {path}: name a setting, as in {kind}.{name}.model.width=64")
    check_path(study, setting, f"override: {kind}.{name}")
    if isinstance(value, list) and setting.rsplit(".", 1)[-1] not in LISTS:
        raise BadInput(f"override: {path}: an axis is one of all {kind}; give one value, or write {setting}={value}")
    for axis, values in table["axes"].items():
        if set_by(table["stages"], axis, values, setting) or set_by(table["stages"], setting, [value], axis):
            raise BadInput(f"override: {path}: the axis '{axis}' sets it in every arm; override '{axis}' instead")
    for arm, settings in table["arms"].items() if kind == "columns" else ():
        if any(set_by(table["stages"], key, [own], setting) for key, own in settings.items()):
            raise BadInput(f"override: {path}: arm {arm!r} sets it and wins; override arms.{arm}.{setting} instead")
    _fix(table["stages"], [bundles[name]], setting, value, f"{kind}.{name}.")


def _fix(stages: Iterable[str], arms: Iterable[dict[str, Any]], path: str, value: Any, bundle: str = "") -> None:
    """Set one value in arms, the strongest of the bundles, so that it wins over all. bundle: the beginning of an
    override of one arm or column, for messages.

    A setting of models is for the arms whose kind of model has it, as an axis over it is.
    """
    known: set[str] = set()
    fits = False
    for arm in arms:
        for name in full_names(stages, path):
            stage, _, rest = name.partition(".")
            if not rest and not isinstance(value, Mapping):
                raise BadInput(f"override: {bundle}{stage}: {value!r} is not a table of settings")
            model = overlay(arm.get("model", {}), arm.get(stage, {}).get("model", {}))
            if rest.startswith("model.") and "kind" in model:
                known |= model_class(model).model_fields.keys()
                if rest.split(".")[1] not in model_class(model).model_fields:
                    continue
            arm[stage] = overlay(arm.get(stage, {}), nested(rest, value) if rest else value)
            fits = True
    if not fits:
        raise BadInput(f"override: {bundle}{path}: {nearest(path.partition('model.')[2].split('.')[0], known)}")
