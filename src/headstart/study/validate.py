"""The shape of a study as written: which of its keys hold tables, and which names they may use.

Checked once bases are laid, before a scale is applied: what lays tables over tables may then take their shape for
granted, and a mistake in a scale that is not run is found too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headstart.errors import BadInput, nearest

SCALES = ("tiny", "small", "paper")
STAGE_KEYS = ("task", "model", "objective", "parent", "weights", "start", "trainable", "optim", "budget", "seed")
VARIANTS = "variants"
"""Named settings of a column that an arm takes with `variant`: what an architecture is on this task."""
BUNDLES = ("columns", "arms")
SCALE_KEYS = ("note", "only", *BUNDLES, "axes", "report", "stand_in", VARIANTS)
"""Keys of a scale besides those that go to every column."""


def check_known(name: Any, known: Iterable[str], place: str) -> None:
    """Raises: BadInput naming the place and the nearest of the names that are known."""
    names = list(known)
    if not isinstance(name, str) or name not in names:
        raise BadInput(f"{place}: {nearest(str(name), names)}")


def check_written(table: Mapping[str, Any]) -> None:
    """Raises: BadInput naming the place of what is no table, or of a name that is not there."""
    for key in ("axes", "report"):
        checked_table(table.get(key, {}), key)
    stages = checked_tables(table.get("stages", {}), "stages")
    for key in BUNDLES:
        for name, bundle in checked_tables(table.get(key, {}), key).items():
            check_bundle(stages, f"{key}.{name}", bundle, of=key)
    scales = checked_tables(table.get("scales", {}), "scales")
    if not scales:
        return
    if not table.get("columns"):
        raise BadInput("scales: a scale changes columns; write at least one [columns.NAME]")
    if "scale" in table:
        raise BadInput("scale: a study with scales takes its scale from --scale; leave this key out")
    for name, scale in scales.items():
        check_known(name, SCALES, "scales")
        _check_scale(table, stages, scale, f"scales.{name}")


def _check_scale(table: Mapping[str, Any], stages: Iterable[str], scale: Mapping[str, Any], place: str) -> None:
    for key in ("axes", "report"):
        checked_table(scale.get(key, {}), f"{place}.{key}")
    general = {key: value for key, value in scale.items() if key not in SCALE_KEYS}
    check_bundle(stages, place, general, more=SCALE_KEYS)
    columns, arms = table.get("columns", {}), table.get("arms", {})
    variants = [name for column in columns.values() for name in column.get(VARIANTS, {})]
    for key, known in (("columns", columns), ("arms", arms), ("stand_in", columns), (VARIANTS, variants)):
        for name, bundle in checked_tables(scale.get(key, {}), f"{place}.{key}").items():
            check_known(name, known, f"{place}.{key}")
            check_bundle(stages, f"{place}.{key}.{name}", bundle, of="columns" if key == "stand_in" else key)


def check_bundle(
    stages: Iterable[str], place: str, bundle: Mapping[str, Any], of: str = "", more: Iterable[str] = ()
) -> None:
    """A bundle's keys are settings of a stage, or stages with such settings.

    of: whose it is; `columns` have variants, `arms` take one. more: other keys that would be right here.
    """
    own = {"columns": (VARIANTS,), "arms": ("variant",)}.get(of, ())
    for key, value in bundle.items():
        if key in stages:
            for inner in checked_table(value, f"{place}.{key}"):
                check_known(inner, STAGE_KEYS, f"{place}.{key}.{inner}")
        elif key == VARIANTS and key in own:
            for name, variant in checked_tables(value, f"{place}.{VARIANTS}").items():
                check_bundle(stages, f"{place}.{VARIANTS}.{name}", variant)
        elif key not in (*STAGE_KEYS, *own):
            raise BadInput(f"{place}.{key}: {nearest(key, [*stages, *STAGE_KEYS, *own, *more])}")


def checked_table(value: Any, place: str) -> Mapping[str, Any]:
    """The table that stands at this place."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{place}: {value!r} should be a table of settings")
    return value


def checked_tables(value: Any, place: str) -> Mapping[str, Mapping[str, Any]]:
    """The named tables that stand at this place."""
    return {name: checked_table(table, f"{place}.{name}") for name, table in checked_table(value, place).items()}


def names_of(value: Any) -> tuple[Any, ...]:
    """One name or several, as several."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
