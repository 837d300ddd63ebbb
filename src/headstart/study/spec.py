"""A study as it is written: named stages, columns, arms, axes, and what the report chooses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from headstart.errors import BadInput, nearest
from headstart.spec import Spec, merge, read, set_path
from headstart.study.files import study_path

STAGE_KEYS = ("task", "model", "objective", "parent", "weights", "start", "trainable", "optim", "budget", "seed")
SHARED_KEYS = ("task", "model", "seed")
"""Settings that may be named without a stage: they mean the same in every stage of a chain."""
LISTS = ("start", "mixer", "choose", "arms", "columns")
"""Keys whose value is a list: it replaces the value and makes no axis."""


class AverageSpec(Spec):
    """An average over columns; `missing` says what a column without a number counts: `chance`, or `skip` it."""

    over: Literal["columns"] = "columns"
    missing: Literal["chance", "skip"] = "chance"


class ReportSpec(Spec):
    """choose: axes whose value is chosen on validation (default: every axis but seed).

    against: the arm that the others are compared with (default: none).
    """

    choose: tuple[str, ...] | None = Field(default=None, strict=False)
    against: str | None = None
    average: AverageSpec | None = None


class StudySpec(Spec):
    """A study file. The last of `stages` is the one whose scores are reported."""

    name: str
    title: str = ""
    stages: dict[str, dict[str, Any]]
    columns: dict[str, dict[str, Any]] = Field(default_factory=dict)
    arms: dict[str, dict[str, Any]]
    axes: dict[str, list[Any]] = Field(default_factory=dict)
    report: ReportSpec = Field(default_factory=ReportSpec)

    @property
    def reported(self) -> str:
        """Name of the stage whose scores are reported."""
        return list(self.stages)[-1]


def read_study(given: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> StudySpec:
    """Read a study file (or built-in name, or dict) and apply `name=value` overrides.

    Raises: BadInput naming file, place, value and way out.
    """
    if isinstance(given, Mapping):
        table, place = merge(given), ""
    else:
        path = study_path(str(given))
        place = f"{path.name}: "
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: this is no TOML: {error}") from None
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    try:
        study = read(StudySpec, table)
        _check(study)
        study = apply_overrides(study, overrides)
        _check(study)
        return study
    except BadInput as error:
        raise BadInput("\n".join(place + line for line in str(error).splitlines())) from None


def _check(study: StudySpec) -> None:
    """Names that no stage, arm or axis has are refused here, each with the nearest that is known."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", study.name):
        raise BadInput(f"name: {study.name!r} becomes a folder's name; use letters, digits, '-' and '_'")
    if not study.stages:
        raise BadInput("stages: there is none; a study needs at least one [stages.NAME]")
    if not study.arms:
        raise BadInput("arms: there is none; a study compares arms, so write at least one [arms.NAME]")
    for name in study.stages:
        if name in STAGE_KEYS or "." in name:
            raise BadInput(f"stages.{name}: a stage cannot be named like one of its settings or with a dot")
    for where, bundles in (("columns", study.columns), ("arms", study.arms)):
        for name, bundle in bundles.items():
            _check_bundle(study, f"{where}.{name}", bundle)
    for name, settings in study.stages.items():
        for key in settings:
            if key not in STAGE_KEYS:
                raise BadInput(f"stages.{name}.{key}: {nearest(key, STAGE_KEYS)}")
    for path, values in study.axes.items():
        check_path(study, path, "axes")
        if not values:
            raise BadInput(f"axes.{path}: the list is empty; give at least one value")
        if len(values) != len({repr(v) for v in values}):
            raise BadInput(f"axes.{path}: {values} holds a value twice")
    against = study.report.against
    if against is not None and against not in study.arms:
        raise BadInput(f"report.against: {nearest(against, study.arms)}")
    for path in study.report.choose or ():
        if path not in study.axes:
            raise BadInput(f"report.choose: {nearest(path, study.axes)}")


def _check_bundle(study: StudySpec, place: str, bundle: Mapping[str, Any]) -> None:
    for key, value in bundle.items():
        if key in study.stages:
            if not isinstance(value, Mapping):
                raise BadInput(f"{place}.{key}: {value!r} is no table of settings")
            for inner in value:
                if inner not in STAGE_KEYS:
                    raise BadInput(f"{place}.{key}.{inner}: {nearest(inner, STAGE_KEYS)}")
        elif key not in STAGE_KEYS:
            raise BadInput(f"{place}.{key}: {nearest(key, [*study.stages, *STAGE_KEYS])}")


def with_mixer(study: StudySpec, kind: str, rotary: bool) -> StudySpec:
    """The study with a twin of each arm in which every block has this mixer.

    A mixer that cannot turn queries and keys gets sinusoidal positions where a column asks for rotary ones: the
    twin's name says so.
    """
    table: dict[str, Any] = study.model_dump()
    for name, bundle in study.arms.items():
        model: dict[str, Any] = {"mixer": {"kind": kind}}
        asked = [c.get("model", {}).get("position", {}).get("kind") for c in [*study.columns.values(), bundle]]
        turned = not rotary and "rotary" in [*asked, *(s.get("model", {}).get("position", {}).get("kind")
                                                       for s in study.stages.values())]
        if turned:
            model["position"] = {"kind": "sinusoidal"}
        twin = f"{name} with {kind}" + (", sinusoidal" if turned else "")
        stages = {stage: merge(bundle.get(stage, {}), {"model": model}) for stage in study.stages}
        table["arms"][twin] = {**merge(bundle), **stages}
    return read(StudySpec, table)


def check_path(study: StudySpec, path: str, place: str) -> None:
    """A setting's full name: `STAGE.key...`, `task...`, `model...` or `seed`."""
    first = path.split(".")[0]
    if first in study.stages or first in SHARED_KEYS:
        return
    if first in STAGE_KEYS:
        full = " or ".join(f"'{name}.{path}'" for name in study.stages)
        raise BadInput(f"{place}: '{path}' names no stage; write {full}")
    raise BadInput(f"{place}: '{path}': {nearest(first, [*study.stages, *SHARED_KEYS])}")


def apply_overrides(study: StudySpec, overrides: Sequence[str]) -> StudySpec:
    """`name=value` words win over all: a list makes or replaces an axis, a value fixes one setting everywhere.

    `arms=[...]` and `columns=[...]` keep those named. A new axis of `optim` is chosen on validation, any
    other one multiplies the columns.
    """
    table: dict[str, Any] = study.model_dump()
    for word in overrides:
        path, value = parse_override(word)
        first = path.split(".")[0]
        if path in ("arms", "columns"):
            table[path] = _keep(table[path], value, path)
        elif first == "report":
            set_path(table, path.split("."), value)
        else:
            check_path(study, path, "override")
            if isinstance(value, list) and path.rsplit(".", 1)[-1] not in LISTS:
                _new_axis(table, path, value)
            else:
                table["axes"].pop(path, None)
                table["report"]["choose"] = _without(table["report"]["choose"], path)
                _fix(table, path, value)
    return read(StudySpec, table)


def parse_override(word: str) -> tuple[str, Any]:
    """`a.b=value` as (path, value); the value is TOML, and a bare word is text."""
    path, equals, text = word.partition("=")
    if not equals or not path.strip():
        raise BadInput(f"override: {word!r} is no name=value (for example finetune.optim.lr=[1e-4,3e-4])")
    try:
        return path.strip(), tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_+\-().]*", text.strip()):
            return path.strip(), text.strip()
        raise BadInput(
            f"override: {path.strip()}: {text!r} is no TOML value; text needs quotes, a list brackets"
        ) from None


def _keep(bundles: dict[str, Any], names: Any, place: str) -> dict[str, Any]:
    chosen = [names] if isinstance(names, str) else names
    for name in chosen:
        if name not in bundles:
            raise BadInput(f"override: {place}: {nearest(name, bundles)}")
    return {name: bundle for name, bundle in bundles.items() if name in chosen}


def _new_axis(table: dict[str, Any], path: str, values: list[Any]) -> None:
    choose = table["report"]["choose"]
    if path not in table["axes"] and choose is not None and ".optim." in f".{path}":
        table["report"]["choose"] = (*choose, path)
    table["axes"][path] = values


def _without(names: Any, path: str) -> Any:
    return None if names is None else tuple(n for n in names if n != path)


def _fix(table: dict[str, Any], path: str, value: Any) -> None:
    """Set one value in every arm, the strongest of the bundles, so that it wins over all."""
    for arm in table["arms"].values():
        if path.split(".")[0] in table["stages"]:
            set_path(arm, path.split("."), value)
            continue
        set_path(arm, path.split("."), value)
        for name in table["stages"]:
            set_path(arm, [name, *path.split(".")], value)
