"""One contract for every family of checkpoints of the table."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

from headstart.checkpoints import CHECKPOINT_READERS, FAMILIES, HEADSTART
from headstart.checkpoints.family import Config, Family
from headstart.checkpoints.read import fields_of
from headstart.checkpoints.released import RELEASED, RELEASED_SERIES
from headstart.errors import BadInput


@pytest.mark.parametrize("name", CHECKPOINT_READERS)
def test_a_line_names_a_family_and_says_what_it_is(name: str) -> None:
    assert isinstance(CHECKPOINT_READERS[name].load(), Family)
    assert CHECKPOINT_READERS[name].summary


@pytest.mark.parametrize("name", FAMILIES)
def test_each_pattern_of_a_dropped_tensor_has_a_reason_and_no_name_is_used_twice(name: str, tmp_path: Path) -> None:
    family: Family = FAMILIES[name].load()
    assert all(family.dropped.values())
    lines = family.lines(Config({"model_type": name}, tmp_path / "config.json"))
    names = [line.ours for line in lines]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", [*RELEASED, *RELEASED_SERIES])
def test_a_checkpoint_that_is_known_has_its_family_and_sizes(name: str) -> None:
    fields = fields_of(name)
    assert fields.family in CHECKPOINT_READERS
    assert all(prod(shape) > 0 for shape in fields.shapes().values())


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != HEADSTART])
def test_a_config_that_a_family_cannot_have_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": name, "hidden_size": -1, "d_model": -1, "n_embd": -1})
    )
    with pytest.raises(BadInput, match=r"config\.json"):
        fields_of(str(tmp_path))
