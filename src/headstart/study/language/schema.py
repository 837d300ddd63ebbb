"""The JSON schema of a study file, for editors that complete and check TOML."""

from __future__ import annotations

from typing import Any

from headstart.models import MODELS
from headstart.models.mixers import MIXERS
from headstart.objectives import OBJECTIVES
from headstart.spec import Entry
from headstart.study.language.scales import SCALES, SHARED_STAGE_KEYS, STAGE_KEYS
from headstart.study.language.spec import StudySpec
from headstart.tasks import TASKS
from headstart.training.optim import OptimSpec
from headstart.training.optimizers import OPTIMIZERS
from headstart.training.schedules import BUILT_IN, SCHEDULES


def study_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a study. Settings of a bundle are all optional: bundles are merged."""
    from headstart.stage import FitStage, ReadStage, TrainStage

    definitions: dict[str, Any] = {}
    for noun, table in (("task", TASKS), ("mixer", MIXERS), ("objective", OBJECTIVES), ("model", MODELS)):
        definitions[noun] = {"oneOf": [_kind(name, kind, definitions) for name, kind in table.items()]}
    own: dict[str, Any] = {}
    for stage in (ReadStage, FitStage, TrainStage):
        table = _optional(stage.model_json_schema(ref_template="#/$defs/{model}"), definitions)
        own |= definitions.pop(stage.__name__, table)["properties"]
    own |= {noun: {"$ref": f"#/$defs/{noun}"} for noun in ("task", "objective", "model")}
    optimizers = [_kind(name, kind, definitions) for name, kind in OPTIMIZERS.items() if kind.load() is not OptimSpec]
    if optimizers:
        own["optim"] = {"anyOf": [own["optim"], *optimizers]}
    schedules = [_kind(name, kind, definitions) for name, kind in SCHEDULES.items() if name not in BUILT_IN]
    if schedules:
        definitions["ScheduleSpec"] = {"oneOf": schedules}
    own["parent"] = {"type": "string", "description": "Name of the stage whose weights are taken."}
    definitions["ModelSpec"].pop("required", None)  # a table without a kind is a network
    definitions["ModelSpec"]["properties"]["mixer"] = {
        "oneOf": [{"$ref": "#/$defs/mixer"}, {"type": "array", "items": {"$ref": "#/$defs/mixer"}}]
    }
    definitions["stage"] = {
        "type": "object",
        "properties": {key: own[key] for key in STAGE_KEYS},
        "additionalProperties": False,
    }
    variants = {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/bundle"},
        "description": "Of a column: settings that arms take by name.",
    }
    variant = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Of an arm: which variants of a column it takes, from left to right.",
    }
    definitions["bundle"] = {
        "type": "object",
        "properties": {
            **{key: own[key] for key in SHARED_STAGE_KEYS},
            "variants": variants,
            "variant": variant,
        },
        "additionalProperties": {"$ref": "#/$defs/stage"},
    }
    study = StudySpec.model_json_schema(ref_template="#/$defs/{model}")
    definitions.update(study.pop("$defs", {}))
    definitions["SearchSpec"]["properties"]["with"] = {"const": "optuna", "description": "What searches."}
    sentence = {"type": "string", "description": "The claim as a sentence: b > a by 0.01 on image."}
    study["properties"]["claims"]["items"] = {"anyOf": [sentence, {"$ref": "#/$defs/Claim"}]}
    several = {"type": "object", "additionalProperties": {"$ref": "#/$defs/bundle"}}
    only = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
    scale = {
        "type": "object",
        "additionalProperties": {},
        "properties": {
            "note": {"type": "string"},
            "only": only,
            "columns": several,
            "arms": several,
            "stand_in": several,
            "axes": study["properties"]["axes"],
            "report": study["properties"]["report"],
        },
    }
    # What a base gives need not be said again.
    study["required"] = ["name"]
    study["properties"].update(
        extends={
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "description": "Studies or parts that this one is laid over, from left to right.",
        },
        only=only,
        scales={"type": "object", "properties": dict.fromkeys(SCALES, scale), "additionalProperties": False},
        arms=several,
        columns=several,
        stages={"type": "object", "additionalProperties": {"$ref": "#/$defs/stage"}, "minProperties": 1},
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **study, "$defs": definitions}


def _kind(name: str, kind: Entry, definitions: dict[str, Any]) -> dict[str, str]:
    schema = kind.load().model_json_schema(ref_template="#/$defs/{model}")
    title = kind.load().__name__
    definitions.update(schema.pop("$defs", {}))
    schema["required"] = ["kind"]
    schema["properties"]["kind"] = {"const": name, "description": kind.summary}
    definitions[title] = schema
    return {"$ref": f"#/$defs/{title}"}


def _optional(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for name, inner in schema.pop("$defs", {}).items():
        inner.pop("required", None)
        definitions[name] = inner
    schema.pop("required", None)
    return schema
