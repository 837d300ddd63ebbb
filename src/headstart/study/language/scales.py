"""A study as tables: their shape, the bases that they are laid over, and the scales that change them.

Shapes are checked once bases are laid, before a scale is applied: what lays tables over tables may then take them for
granted, and a mistake in a scale that is not run is found too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headstart.errors import BadInput, nearest
from headstart.spec import Spec, merge, other_kind
from headstart.study.language.files import base_path, table_of
from headstart.text import listed
from headstart.training import BUDGET_MEASURES

SCALES = ("tiny", "small", "paper")
SHARED_STAGE_KEYS = ("task", "model", "objective", "parent", "weights", "start", "trainable", "optim", "budget", "seed")
"""Settings of a stage that a column or an arm may say to all of them at once."""
STAGE_KEYS = (*SHARED_STAGE_KEYS, "checkpoint")
VARIANTS = "variants"
"""Named settings of a column that an arm takes with `variant`: what an architecture is on this task."""
BUNDLES = ("columns", "arms")
TOP_KEYS = ("name", "title", "paper", "claims", "extends")
"""Keys of a study itself that are no tables."""
SCALE_KEYS = ("note", "only", *BUNDLES, "axes", "report", "stand_in", VARIANTS)
"""Keys of a scale besides those that go to every column."""


def check_known(name: Any, choices: Iterable[str], location: str) -> None:
    """Raises: BadInput naming the place and the nearest of the names that are known."""
    names = list(choices)
    if not isinstance(name, str) or name not in names:
        raise BadInput(f"{location}: {nearest(str(name), names)}")


def check_written(table: Mapping[str, Any]) -> None:
    """Raises: BadInput naming the place of what is not a table, or of a name that is not there."""
    _check_top_keys(table)
    _check_lists(table)
    checked_table(table.get("stood_in", {}), "stood_in")
    stages = checked_tables(table.get("stages", {}), "stages")
    for key in BUNDLES:
        for name, bundle in checked_tables(table.get(key, {}), key).items():
            check_bundle(stages, f"{key}.{name}", bundle, of=key)
            for at, settings in {"": bundle, **{f".{stage}": bundle.get(stage, {}) for stage in stages}}.items():
                checked_table(settings.get("model", {}), f"{key}.{name}{at}.model")
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


def _check_scale(table: Mapping[str, Any], stages: Iterable[str], scale: Mapping[str, Any], location: str) -> None:
    _check_lists(scale, f"{location}.")
    general = {key: value for key, value in scale.items() if key not in SCALE_KEYS}
    check_bundle(stages, location, general, more=SCALE_KEYS)
    columns, arms = table.get("columns", {}), table.get("arms", {})
    variants = [name for column in columns.values() for name in column.get(VARIANTS, {})]
    for key, names in (("columns", columns), ("arms", arms), (VARIANTS, variants)):
        for name, bundle in checked_tables(scale.get(key, {}), f"{location}.{key}").items():
            check_known(name, names, f"{location}.{key}")
            check_bundle(stages, f"{location}.{key}.{name}", bundle, of=key)
    for name, bundles in checked_table(scale.get("stand_in", {}), f"{location}.stand_in").items():
        check_known(name, columns, f"{location}.stand_in")
        for bundle in names_of(bundles):
            checked = checked_table(bundle, f"{location}.stand_in.{name}")
            check_bundle(stages, f"{location}.stand_in.{name}", checked, of="columns")


def _check_top_keys(table: Mapping[str, Any]) -> None:
    """In TOML a key belongs to the table above it, so that one of the study itself is easily written into another."""
    inner = [(key, table.get(key)) for key in ("report", "search", "axes")]
    for noun in ("stages", *BUNDLES, "scales"):
        inner += [(f"{noun}.{name}", part) for name, part in dict(checked_table(table.get(noun, {}), noun)).items()]
    for location, part in inner:
        for key in TOP_KEYS:
            if isinstance(part, Mapping) and key in part and not isinstance(part[key], Mapping):
                raise BadInput(
                    f"{location}.{key}: {key!r} is a key of the study, and in TOML a key belongs to the table above; "
                    f"move the line {key} = ... above the first [table]"
                )


def _check_lists(table: Mapping[str, Any], location: str = "") -> None:
    """Axes are lists, and so is what a report chooses: overrides go through them before the study is read."""
    for path, values in checked_table(table.get("axes", {}), f"{location}axes").items():
        if not isinstance(values, list):
            raise BadInput(f"{location}axes.{path}: {values!r} should be a list")
    choose = checked_table(table.get("report", {}), f"{location}report").get("choose")
    if not isinstance(choose, (list, tuple, type(None))):
        raise BadInput(f"{location}report.choose: {choose!r} should be a list")


def check_bundle(
    stages: Iterable[str], location: str, bundle: Mapping[str, Any], of: str = "", more: Iterable[str] = ()
) -> None:
    """A bundle's keys are settings of a stage, or stages with such settings.

    of: whose it is; `columns` have variants, `arms` take one. more: other keys that would be right here.
    """
    own = {"columns": (VARIANTS,), "arms": ("variant",)}.get(of, ())
    for key, value in bundle.items():
        if key in stages:
            for inner in checked_table(value, f"{location}.{key}"):
                check_known(inner, STAGE_KEYS, f"{location}.{key}.{inner}")
        elif key == VARIANTS and key in own:
            for name, variant in checked_tables(value, f"{location}.{VARIANTS}").items():
                check_bundle(stages, f"{location}.{VARIANTS}.{name}", variant)
        elif key in STAGE_KEYS and key not in SHARED_STAGE_KEYS:
            names = " or ".join(f"{name}.{key}" for name in stages)
            raise BadInput(f"{location}.{key}: is of one stage; write {names} there")
        elif key not in (*STAGE_KEYS, *own):
            raise BadInput(f"{location}.{key}: {nearest(key, [*stages, *SHARED_STAGE_KEYS, *own, *more])}")


def checked_table(value: Any, location: str) -> Mapping[str, Any]:
    """The table that stands at this place."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{location}: {value!r} should be a table of settings")
    return value


def checked_tables(value: Any, location: str) -> Mapping[str, Mapping[str, Any]]:
    """The named tables that stand at this place."""
    return {name: checked_table(table, f"{location}.{name}") for name, table in checked_table(value, location).items()}


def names_of(value: Any) -> tuple[Any, ...]:
    """One name or several, as several."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


DEEPEST_BASES, MOST_BASES = 16, 100
"""Studies that extend each other in a row, and in all."""
DEFAULT_SCALE = "tiny"
"""The scale of a study that has scales, where none is asked for: one that ends in minutes."""
OF_ONE_OPTIMISER = ("kind", "momentum", "beta1", "beta2", "epsilon")
"""Keys of `optim` that stay behind when its kind changes."""
DATA_KEYS = ("kind", "source")
"""Settings of a task that say which data it is of."""

Absent = Callable[[Mapping[str, Any]], bool]
"""Whether a task's data are not at hand."""


class StandIn(Spec):
    """The `kind` of task that stands in for the data of a stage, and the kind that is `meant`.

    Where both are of one kind, `kind` has the source too: `speech (digits)`.
    """

    kind: str
    meant: str


def stand_in_told(column: str, stages: Mapping[str, StandIn], chain: Collection[str], reported: str) -> str:
    """`digits for image_1`, or `digits for image in stage elsewhere of pathfinder_1` of another stage's data only.

    stages: those that have stand-ins on this column, of which a `chain` uses some. reported: the stage whose scores
    are reported. Empty where the chain uses none.
    """
    by_kind: dict[StandIn, list[str]] = {}
    for stage, stand_in in stages.items():
        if stage in chain:
            by_kind.setdefault(stand_in, []).append(stage)
    texts = []
    for stand_in, names in by_kind.items():
        elsewhere = f"{stand_in.meant} in stage {listed(names)} of {column}"
        texts.append(f"{stand_in.kind} for {column if reported in names else elsewhere}")
    return listed(texts)


def stand_ins_told(texts: Iterable[str]) -> str:
    """`digits for image_5 and image_10; waves for speech`: what `stand_in_told` says of several columns, by kind.

    What is said of one stage of a column stands as it is.
    """
    by_kind: dict[str, list[str]] = {}
    for text in dict.fromkeys(filter(None, texts)):
        kind, _, column = (text, "", "") if " in stage " in text else text.partition(" for ")
        by_kind.setdefault(kind, []).extend([column] * bool(column))
    return "; ".join(f"{kind} for {listed(names)}" if names else kind for kind, names in by_kind.items())


def overlay(table: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's settings with a layer that wins over them.

    Epochs, steps, tokens and FLOPs are one setting said in several ways: the later one replaces the earlier. An
    optimiser of another kind keeps the settings that all kinds have.
    """
    out, budget = merge(table), layer.get("budget")
    if isinstance(optim := out.get("optim"), Mapping) and other_kind(optim, layer.get("optim")):
        out["optim"] = {k: v for k, v in optim.items() if k not in OF_ONE_OPTIMISER}
    if (
        isinstance(budget, Mapping)
        and any(m in budget for m in BUDGET_MEASURES)
        and isinstance(out.get("budget"), dict)
    ):
        out["budget"] = {k: v for k, v in out["budget"].items() if k not in BUDGET_MEASURES}
    return merge(out, layer)


def full_names(stages: Iterable[str], path: str) -> list[str]:
    """A setting's name in each stage that it is for: `model.width` is for all of them."""
    return [path] if path.split(".")[0] in stages else [f"{stage}.{path}" for stage in stages]


def set_by(stages: Iterable[str], path: str, values: Iterable[Any], other: str) -> list[str]:
    """Full names of `other` that are set where `path` is given these values (tables set what is in them)."""
    every = list(stages)
    return [
        name
        for name in full_names(every, other)
        if any(_sets(own, value, name) for own in full_names(every, path) for value in values)
    ]


def _sets(path: str, value: Any, name: str) -> bool:
    if path == name:
        return True
    if not name.startswith(path + ".") or not isinstance(value, Mapping):
        return False
    key = name.removeprefix(path + ".").split(".")[0]
    return key in value and _sets(f"{path}.{key}", value[key], name)


def with_bases(table: Mapping[str, Any], file: Path | None = None) -> dict[str, Any]:
    """The table (of a file, beside which others are found) laid over those that it extends, from left to right.

    Arms, where a file has some, replace those of its bases; all else is merged.
    Raises: BadInput for a base that is not there, or extends itself.
    """
    return (
        _based(table, "", file.parent, (file.resolve(),), {}) if file is not None else _based(table, "", None, (), {})
    )


def _based(
    table: Mapping[str, Any],
    location: str,
    folder: Path | None,
    seen: tuple[Path, ...],
    laid: dict[Path, dict[str, Any]],
) -> dict[str, Any]:
    """seen: the files that extend each other down to this one. laid: files that were laid over theirs before."""
    names = names_of(table.get("extends", ()))
    if not all(isinstance(name, str) for name in names):
        raise BadInput(f"{location}extends: {table['extends']!r} is neither a name nor a list of names")
    if len(set(names)) < len(names):
        raise BadInput(f"{location}extends: {[*names]} has a name twice; keep one of them")
    out: dict[str, Any] = {}
    for name in names:
        path = base_path(name, folder)
        file = path.resolve()
        if file in seen:
            raise BadInput(f"{location}extends: {name!r} extends itself")
        if len(seen) > DEEPEST_BASES or len(laid) > MOST_BASES:
            raise BadInput(
                f"{location}extends: {name!r} is one of more than {DEEPEST_BASES} studies in a row, or of {MOST_BASES} "
                "in all; write what they say into fewer files"
            )
        if file not in laid:
            laid[file] = _based(table_of(path), f"{path.name}: ", path.parent, (*seen, file), laid)
        out = _laid(out, laid[file])
    return _laid(out, {k: v for k, v in table.items() if k != "extends"})


def _laid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in below.items() if k != "arms" or not above.get("arms")}
    out = merge(rest, above)
    old, new = _stages(below), _stages(above)
    for name in old.keys() & new:
        out["stages"][name] = overlay(old[name], new[name])
    return out


def _stages(table: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The stages that are tables: shapes are checked only once all bases are laid."""
    stages = table.get("stages")
    return {k: v for k, v in stages.items() if isinstance(v, Mapping)} if isinstance(stages, Mapping) else {}


def keep(table: Mapping[str, Any], only: Any, location: str) -> dict[str, Any]:
    """The table with only the columns and arms that are named, in that order. Raises: BadInput for an unknown one."""
    out = dict(table)
    if not isinstance(only, Mapping):
        raise BadInput(f"{location}: {only!r} is not a table of 'columns' and 'arms'")
    for key, names in only.items():
        check_known(key, BUNDLES, f"{location}.{key}")
        out[key] = subset(table.get(key, {}), names, f"{location}.{key}")
    return out


def subset(bundles: Mapping[str, Any], names: Any, location: str) -> dict[str, Any]:
    """The bundles that are named, in the order of the names."""
    chosen = names_of(names)
    if not chosen:
        raise BadInput(f"{location}: the list is empty; there are: {', '.join(bundles) or 'none'}")
    for name in chosen:
        check_known(name, bundles, location)
    return {name: bundles[name] for name in chosen}


def at_scale(
    table: Mapping[str, Any], scale: str | None, absent: Absent | None, overridden: Iterable[str] = ()
) -> dict[str, Any]:
    """The study at one of its scales, with stand-ins for columns whose data are absent; `only` is applied.

    The table is one that `check_written` has passed: names in scales are looked up before anything is left out.
    `overridden`: `arms` or `columns` where the command line says which are kept; a scale's `only` then gives way.
    Raises: BadInput for a scale that the study does not have.
    """
    out = dict(table)
    scales, only = out.pop("scales", {}), out.pop("only", {})
    if not scales:
        if scale is not None:
            written = f"is written out at scale {table['scale']}" if table.get("scale") else "has no scales"
            raise BadInput(f"--scale: this study {written}; leave the option out")
        return keep(out, only, "only")
    chosen = DEFAULT_SCALE if scale is None else scale
    defined = [name for name in SCALES if name in scales or name == "paper"]
    check_known(chosen, defined, "--scale")
    for name, scale_of in scales.items():
        keep(table, scale_of.get("only", {}), f"scales.{name}.only")
    changes = scales.get(chosen, {})
    out = keep(out, only, "only")
    # A base's scale may keep what this study has left out already.
    own = {k: [name for name in names_of(names) if name in out[k]] for k, names in changes.get("only", {}).items()}
    out = keep(out, {k: names for k, names in own.items() if names and k not in overridden}, f"scales.{chosen}.only")
    return _scaled({**out, "scale": chosen}, changes, absent)


def _scaled(table: Mapping[str, Any], scale: Mapping[str, Any], absent: Absent | None) -> dict[str, Any]:
    stages = table.get("stages", {})
    general = {k: v for k, v in scale.items() if k not in SCALE_KEYS}
    columns, stood_in, location = {}, {}, f"scales.{table['scale']}.stand_in"
    for column, bundle in table["columns"].items():
        wide = {name: more for name, more in scale.get(VARIANTS, {}).items() if name in bundle.get(VARIANTS, {})}
        laid = over(bundle, {**general, **({VARIANTS: wide} if wide else {})}, stages)
        laid = over(laid, scale.get("columns", {}).get(column, {}), stages)
        stands = names_of(scale.get("stand_in", {}).get(column, ()))
        if absent is not None and stands:
            laid = _at_hand(laid, stands, stages, absent, (f"columns.{column}", f"{location}.{column}"))
        kinds = {name: _stand_in(_task(bundle, stages, name), _task(laid, stages, name)) for name in stages}
        if kinds := {name: kind for name, kind in kinds.items() if kind}:
            stood_in[column] = kinds
        columns[column] = laid
    arms, changed = table.get("arms", {}), scale.get("arms", {})
    arms = {arm: over(bundle, changed.get(arm, {}), stages) for arm, bundle in arms.items()}
    note = scale.get("note", "")
    if stood_in and table["scale"] == "small" and isinstance(note, str):
        note += "; stand-in data keep their own sizes"
    return {
        **table,
        "columns": columns,
        "arms": arms,
        "axes": {**table.get("axes", {}), **scale.get("axes", {})},
        "report": merge(table.get("report", {}), scale.get("report", {})),
        "scale_note": note,
        "stood_in": stood_in,
    }


def _at_hand(
    column: dict[str, Any],
    stands: Sequence[Mapping[str, Any]],
    stages: Mapping[str, Any],
    absent: Absent,
    locations: tuple[str, str],
) -> dict[str, Any]:
    """The column as it is, or with the first of its stand-ins by which the fewest stages lack their data.

    locations: of the column and of its stand-ins, for messages.
    """
    of_column, of_stand = locations
    options = [(column, of_column), *((over(column, stand, stages), of_stand) for stand in stands)]
    return min(options, key=lambda option: len(_lost(option[0], stages, absent, option[1])))[0]


def _stand_in(meant: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, str]:
    """What stands in where a scale has laid another task over the one meant; {} where it is of the same data."""
    if not meant or [meant.get(key) for key in DATA_KEYS] == [task.get(key) for key in DATA_KEYS]:
        return {}
    kind, wanted = (str(table.get("kind")) for table in (task, meant))
    return {"kind": f"{kind} ({task.get('source')})" if kind == wanted else kind, "meant": wanted}


def _lost(column: Mapping[str, Any], stages: Mapping[str, Any], absent: Absent, location: str) -> list[str]:
    """The stages whose data are absent in a column."""
    out = []
    for name in (name for name in stages if "checkpoint" not in stages[name]):
        try:
            if absent(_task(column, stages, name)):
                out.append(name)
        except BadInput as error:
            raise BadInput("\n".join(f"{location}.{name}.{line}" for line in str(error).splitlines())) from None
    return out


def over(bundle: Mapping[str, Any], layer: Mapping[str, Any], stages: Iterable[str]) -> dict[str, Any]:
    """A bundle of settings with another that wins over it; variants win over the variants of the same names."""
    names = set(stages)
    out = merge(bundle, {k: v for k, v in layer.items() if k not in names and k != VARIANTS})
    for name, own in layer.get(VARIANTS, {}).items():
        out[VARIANTS] = {**out.get(VARIANTS, {}), name: over(bundle.get(VARIANTS, {}).get(name, {}), own, names)}
    for name in names & set(layer):
        out[name] = overlay(out.get(name, {}), layer[name])
    return out


def _task(column: Mapping[str, Any], stages: Mapping[str, Any], stage: str) -> dict[str, Any]:
    """The task of a stage in a column."""
    parts = (stages.get(stage, {}), column, column.get(stage, {}))
    # A task of another kind replaces the earlier one whole.
    tasks = merge(*({"task": part["task"]} for part in parts if isinstance(part.get("task"), Mapping)))
    task: dict[str, Any] = tasks.get("task", {})
    return task
