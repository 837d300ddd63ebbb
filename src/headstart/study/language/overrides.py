"""Overrides: `name=value` words that are laid over the table of a study before it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headstart.documents import parse_override
from headstart.errors import BadInput, nearest
from headstart.models.kind import model_class
from headstart.spec import merge, nested, set_path
from headstart.study.language.scales import STAGE_KEYS, check_known, checked_table, full_names, overlay, set_by, subset

SHARED_KEYS = ("task", "model", "seed")
"""Settings that may be named without a stage: they mean the same in every stage of a chain."""
OVERRIDES = ("arms", "columns", "report", "search")
"""What an override may begin with besides stages and shared settings."""
LIST_KEYS = ("start", "mixer", "choose", "arms", "columns")
"""Keys whose value is a list: it replaces the value and makes no axis."""


def check_path(stages: Collection[str], path: str, location: str, more: Sequence[str] = ()) -> None:
    """A setting's full name: `STAGE.key...`, `task...`, `model...` or `seed`. more: other names that would be right."""
    first = path.split(".")[0]
    if first in stages or first in SHARED_KEYS:
        return
    if first in STAGE_KEYS:
        full = " or ".join(f"'{name}.{path}'" for name in stages)
        raise BadInput(f"{location}: '{path}' names no stage; write {full}")
    raise BadInput(f"{location}: '{path}': {nearest(first, [*stages, *SHARED_KEYS, *more])}")


def with_overrides(table: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The table of a study with `name=value` words, which win over all.

    A list makes or replaces an axis, a value fixes one setting everywhere.
    `arms=[...]` and `columns=[...]` keep those named (nothing is compared where `report.against` is none of them);
    `arms.NAME.key=value` and `columns.NAME.key=value` fix a setting of one of them. Where the study names what it
    chooses, a new axis of `optim` joins it, any other one multiplies the columns.
    """
    if not overrides or not {"stages", "arms"} <= table.keys():  # reading refuses it
        return dict(table)
    table = merge({"columns": {}, "axes": {}, "report": {}, "stood_in": {}}, table)
    arms = set(table["arms"])
    for word in overrides:
        path, value = parse_override(word)
        first = path.split(".")[0]
        if path in ("arms", "columns"):
            table[path] = subset(table[path], value, f"override: {path}")
            table["stood_in"] = {name: kinds for name, kinds in table["stood_in"].items() if name in table["columns"]}
        elif first in ("report", "search"):
            set_path(table, path.split("."), value)
        elif first in ("arms", "columns"):
            _fix_one(table, path, value)
        else:
            check_path(table["stages"], path, "override", OVERRIDES)
            _check_searched(table, path, value)
            if isinstance(value, list) and path.rsplit(".", 1)[-1] not in LIST_KEYS:
                _replace_axes(table, path, value)
                _new_axis(table, path, value)
            else:
                _replace_axes(table, path, [value])
                table["axes"].pop(path, None)
                _choose_not(table["report"], path)
                _fix(table["stages"], table["arms"].values(), path, value)
    _drop_comparison(table, arms - table["arms"].keys())
    return table


def _check_searched(table: Mapping[str, Any], path: str, value: Any) -> None:
    """Raises: BadInput where a search, which would win, is over what is set."""
    search = table.get("search")
    over = search.get("over") if isinstance(search, Mapping) else None
    for name in over if isinstance(over, Mapping) else ():
        if set_by(table["stages"], path, [value], name) or set_by(table["stages"], name, [None], path):
            raise BadInput(f"override: {path}: the search is over '{name}' and wins; take it out of search.over first")


def _drop_comparison(table: dict[str, Any], left_out: Collection[str]) -> None:
    """Compare with no arm that is left out, and remember which it was."""
    report = table["report"]
    if report.get("match") in left_out:
        del report["match"]
    if report.get("against") in left_out:
        table["uncompared"] = report.pop("against")
        report.pop("gain", None)


def _replace_axes(table: dict[str, Any], path: str, values: list[Any]) -> None:
    """Drop the other axes that these values win over. Raises: BadInput where they win over a part of one."""
    stages = table["stages"]
    for axis, own in list(table["axes"].items()):
        if axis == path:
            continue
        hit = set_by(stages, path, values, axis)
        if len(hit) == len(full_names(stages, axis)):
            del table["axes"][axis]
            _choose_not(table["report"], axis)
        elif hit or set_by(stages, axis, own, path):
            raise BadInput(f"override: '{path}' is a part of what the axis '{axis}' sets; override '{axis}' itself")


def _new_axis(table: dict[str, Any], path: str, values: list[Any]) -> None:
    choose = table["report"].get("choose")
    if path not in table["axes"] and choose is not None and ".optim." in f".{path}":
        table["report"]["choose"] = [*choose, path]
    table["axes"][path] = values


def _choose_not(report: dict[str, Any], path: str) -> None:
    """Take an axis that is no more from those whose value is chosen."""
    if report.get("choose") is not None:
        report["choose"] = [name for name in report["choose"] if name != path]


def _fix_one(table: dict[str, Any], path: str, value: Any) -> None:
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
    check_path(table["stages"], setting, f"override: {kind}.{name}")
    if isinstance(value, list) and setting.rsplit(".", 1)[-1] not in LIST_KEYS:
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
    fields: set[str] = set()
    fits = False
    for arm in arms:
        for name in full_names(stages, path):
            stage, _, rest = name.partition(".")
            if not rest and not isinstance(value, Mapping):
                raise BadInput(f"override: {bundle}{stage}: {value!r} is not a table of settings")
            own = (settings.get("model", {}) for settings in (arm, arm.get(stage, {})))
            model = overlay(*(checked_table(table, f"override: {bundle}{stage}.model") for table in own))
            if rest.startswith("model.") and "kind" in model:
                fields |= model_class(model).model_fields.keys()
                if rest.split(".")[1] not in model_class(model).model_fields:
                    continue
            arm[stage] = overlay(arm.get(stage, {}), nested(rest, value) if rest else value)
            fits = True
    if not fits:
        raise BadInput(f"override: {bundle}{path}: {nearest(path.partition('model.')[2].split('.')[0], fields)}")
