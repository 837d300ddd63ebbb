"""The reference of keys says what the code reads: names, types, defaults, and what each key does."""

import re
from types import SimpleNamespace
from typing import Literal

import pytest

from headstart.models import MODELS
from headstart.models.mixers import MIXERS
from headstart.models.mixers.mixer import MixerSpec
from headstart.objectives import OBJECTIVES
from headstart.parameters import LEAVES, UNIONS
from headstart.spec import Spec, read
from headstart.study.language.reference import (
    REFERENCE_TABLES,
    ReferenceKey,
    ReferenceSection,
    reference_page,
    section,
    section_names,
    sections,
    sections_named,
)
from headstart.study.language.scales import STAGE_KEYS
from headstart.tasks import TASKS
from headstart.training.optim import OptimSpec


def keys(name: str, number: int = 0) -> dict[str, ReferenceKey]:
    return {key.name: key for key in sections_named(name)[number].keys}


def test_every_table_and_kind_has_a_section_and_every_key_says_what_it_does() -> None:
    parts = list(sections())
    assert len(parts) == sum(map(len, (REFERENCE_TABLES, MODELS, OBJECTIVES, MIXERS, TASKS)))
    silent = [f"{part.where}: {key.name}" for part in parts for key in part.keys if len(key.text) < 6]
    assert not silent, "describe these behind the field, in a docstring of its own"
    assert all(part.summary for part in parts)
    assert {part.name for part in parts} <= set(section_names())


def test_the_keys_of_a_table_are_those_that_are_read() -> None:
    assert set(keys("optim")) == set(OptimSpec.model_fields)
    assert keys("optim")["lr"] == ReferenceKey("lr", "number, above 0", "0.001", "Peak learning rate.")
    assert keys("optim")["schedule"].type == '"cosine", "constant", "linear", "inverse_sqrt" or "stable_decay" or table'
    assert "rises linearly" in keys("optim")["warmup_steps"].text
    assert keys("budget")["epochs"].default == "not given"
    assert keys("stage")["objective"].default == "required"
    assert keys("claims")["higher"].type == "text or list of 2"
    assert keys("study")["extends"].text


def test_the_parts_that_are_named_are_those_that_there_are() -> None:
    assert set(keys("parts")) == {*LEAVES, *UNIONS, "bias", "A+B, A-B", "A[0:2], A[-1]"}
    for name in ("arms", "columns", "axes", "start", "claims"):
        assert keys(name)


def test_kinds_and_networks_are_found_by_the_names_a_person_has() -> None:
    assert "width" in keys("model")
    assert "label_smoothing" in keys("classify")
    assert "fraction" in keys("digits")
    assert keys("attention")["heads"].default == "4"
    assert [part.where for part in sections_named("task")] == ["task = { ... }", 'model = { kind = "task" }']
    assert sections_named("nothing") == []


def defaults() -> list[tuple[ReferenceSection, ReferenceKey]]:
    return [(part, key) for part in sections() if part.name in ("optim", "report") for key in part.keys]


@pytest.mark.parametrize(("part", "key"), defaults(), ids=lambda value: getattr(value, "name", ""))
def test_the_default_that_is_printed_may_be_written(part: ReferenceSection, key: ReferenceKey) -> None:
    import tomllib

    if key.default in ("not given", "its defaults", "required"):
        return
    cls: type[Spec] = REFERENCE_TABLES[part.name][1]
    value = tomllib.loads(f"{key.name} = {key.default}")
    assert read(cls, value) == cls()


class TwoSpec(MixerSpec):
    """Two things.

    Raises: BadInput for first: never.
    """

    kind: Literal["two"] = "two"
    first: int = 1
    """What comes first."""
    second: str = "a"
    """Of the same kind,
    in two lines."""
    third: tuple[int, ...] = (1, 2)


def test_the_docstring_behind_a_field_describes_its_key() -> None:
    part = section("two", "mixer", TwoSpec)
    assert part.summary == "Two things."
    assert {key.name: (key.type, key.default, key.text) for key in part.keys} == {
        "first": ("integer", "1", "What comes first."),
        "second": ("text", '"a"', "Of the same kind, in two lines."),
        "third": ("list of integer", "[1, 2]", ""),
    }


def test_keys_of_a_file_that_no_spec_holds_are_there_too() -> None:
    from headstart.study.language.scales import SCALE_KEYS

    assert set(keys("scales")) >= {key for key in SCALE_KEYS if key != "variants"}
    assert keys("stage")["parent"].type == "text"
    assert keys("parallel")["mixers"].default == '[{ kind = "s4" }, { kind = "local_attention" }]'


def test_the_page_holds_every_key_once_per_section() -> None:
    page = reference_page()
    headings = [line for line in page.splitlines() if line.startswith("##")]
    assert len(headings) == len(set(headings))
    assert not re.search(r"\b(None|True|False)\b", page)
    assert page.count("\n### ") == len(list(sections()))
    assert "| `lr` | number, above 0 | `0.001` | Peak learning rate. |" in page
    assert "`headstart show optim`" in page


def test_the_schema_of_a_study_leads_nowhere_that_is_not_there_and_knows_what_is_read() -> None:
    import json
    import re

    from headstart.study.language.schema import study_schema

    schema = study_schema()
    defined = schema["$defs"]
    assert set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema))) <= set(defined)
    assert set(STAGE_KEYS) == set(defined["stage"]["properties"])
    assert "checkpoint" not in defined["bundle"]["properties"], "it is of one stage"
    assert set(defined["CheckpointSpec"]["properties"]) == {"kind", "source", "content", "whole"}
    assert len(defined["model"]["oneOf"]) == len(MODELS)
    assert "like" in defined["ModelSpec"]["properties"]
    assert "required" not in defined["ModelSpec"], "a table without a kind is a network"


def test_the_schema_knows_optimisers_and_schedules_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from headstart.study.language.schema import study_schema
    from headstart.training.optim import OwnOptimSpec
    from headstart.training.optimizers import OPTIMIZERS
    from headstart.training.schedules import SCHEDULES, ScheduleSpec

    class LionSpec(OwnOptimSpec):
        kind: Literal["lion"] = "lion"
        inner: float = 0.9

    class StairsSpec(ScheduleSpec):
        kind: Literal["stairs"] = "stairs"
        every: int = 1000

    monkeypatch.setitem(OPTIMIZERS, "lion", SimpleNamespace(load=lambda: LionSpec, summary="made up"))
    monkeypatch.setitem(SCHEDULES, "stairs", SimpleNamespace(load=lambda: StairsSpec, summary="made up"))
    defined = study_schema()["$defs"]
    assert {"$ref": "#/$defs/LionSpec"} in defined["stage"]["properties"]["optim"]["anyOf"]
    assert defined["LionSpec"]["properties"]["kind"]["const"] == "lion"
    assert {"inner", "lr", "schedule"} <= set(defined["LionSpec"]["properties"])
    assert defined["ScheduleSpec"] == {"oneOf": [{"$ref": "#/$defs/StairsSpec"}]}
    assert "every" in defined["StairsSpec"]["properties"]
