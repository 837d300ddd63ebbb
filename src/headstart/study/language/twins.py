"""Twins: the arms of a study once more with a mixer of a person's own (`--mixer module:Class`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from headstart.errors import BadInput
from headstart.initial import apply_start, trainable
from headstart.models.heads import Output
from headstart.models.kind import DEFAULT
from headstart.models.model import build_model
from headstart.parameters import SelectsNothing
from headstart.sequence import Signature
from headstart.spec import merge
from headstart.stage import StageSpec, TrainStage
from headstart.study.language.plan import Plan
from headstart.study.language.spec import StudySpec

BUILT_LENGTH = 64
"""Positions of the model that is built to see which parts it has, where its spec names no length."""


def with_mixer(table: Mapping[str, Any], kind: str, inside: Collection[str]) -> dict[str, Any]:
    """The table of a study with a twin of each arm in which every block has this mixer.

    Arms of models that have no mixer get none. inside: which of the positions that act within mixers, rotary and
    relative ones, it can have; where a column asks for others it gets sinusoidal ones: the twin's name says so.
    """
    stages, columns, arms = (table.get(key, {}) for key in ("stages", "columns", "arms"))
    twins: dict[str, Any] = {}
    for name, bundle in arms.items():
        kinds = [_model(settings).get("kind") for settings in (bundle, *(bundle.get(stage, {}) for stage in stages))]
        if any(kind not in (None, DEFAULT) for kind in kinds):
            continue
        model: dict[str, Any] = {"mixer": {"kind": kind}}
        asked = [_position(b) for b in [*columns.values(), bundle, *stages.values()]]
        other = not {"rotary", "relative"} & set(asked) <= set(inside)
        if other:
            model["position"] = {"kind": "sinusoidal"}
        twin = f"{name} with {kind}" + (", sinusoidal" if other else "")
        inner = {stage: merge(bundle.get(stage, {}), {"model": model}) for stage in stages}
        twins[twin] = {**merge(bundle), **inner}
    return {**table, "arms": {**arms, **twins}}


def _model(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of a model's settings, empty where there is none."""
    model = settings.get("model")
    return model if isinstance(model, Mapping) else {}


def _position(bundle: Mapping[str, Any]) -> Any:
    """The kind of positions that a bundle asks for; None where it asks for none, or is not a table there."""
    position = _model(bundle).get("position")
    return position.get("kind") if isinstance(position, Mapping) else None


def idle_twins(plan: Plan, twins: Iterable[str]) -> dict[str, str]:
    """Twins that are left out, each with the reason: a start that selects nothing, or the stages of another arm."""
    reasons: dict[str, str] = {}
    arms: dict[Any, str] = {}
    wanted = set(twins)
    for arm in sorted(plan.study.arms, key=wanted.__contains__):  # the study's own arms first, whose rows stay
        cells = [cell for cell in plan.cells if cell.arm == arm]
        key = frozenset((cell.column, cell.seed, tuple(planned.identity for planned in cell.chain)) for cell in cells)
        nothing = next(_nothing(planned.spec for cell in cells for planned in cell.chain), "") if arm in wanted else ""
        if nothing:
            reasons[arm] = nothing
        elif arm in wanted and key in arms:
            reasons[arm] = f"its stages are those of the arm {arms[key]!r}"
        else:
            arms.setdefault(key, arm)
    return reasons


def without_arms(study: StudySpec, reasons: Mapping[str, str]) -> StudySpec:
    """The study without these arms. Raises: BadInput where none is left, or the report compares with one of them."""
    arms = {name: bundle for name, bundle in study.arms.items() if name not in reasons}
    for key, arm in (("against", study.report.against), ("match", study.report.match)):
        if arm is not None and arm in reasons:
            raise BadInput(f"report.{key}: the arm {arm!r} is left out: {reasons[arm]}; name another arm")
    if not arms:
        raise BadInput("arms: none is left: " + "; ".join(f"{name!r}: {reason}" for name, reason in reasons.items()))
    return study.model_copy(update={"arms": arms})


def _nothing(specs: Iterable[StageSpec]) -> Iterator[str]:
    """What of a stage's start, or of what it trains, selects nothing of its model."""
    seen: set[str] = set()
    for spec in specs:
        if (
            not isinstance(spec, TrainStage)
            or spec.model.kind != DEFAULT
            or (key := repr((spec.model, spec.start, spec.trainable))) in seen
        ):
            continue
        seen.add(key)
        length = spec.model.position.length or BUILT_LENGTH
        signature = Signature("tokens", 2, length, length, "class", classes=2)
        model = build_model(spec.model, signature, Output("sequence", 2), 0)
        try:
            trainable(model, spec.trainable)
            apply_start(model, spec.start, model.state_dict(), 0)
        except SelectsNothing as error:
            yield str(error)
