"""Damaged files of every format are read or refused in words that name the file; `python -m support.fuzz` looks longer."""

import io
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from support.fuzz.damage import damaged
from support.fuzz.parsers import PARSERS
from support.fuzz.run import outcome, written


@pytest.mark.parametrize("name", PARSERS)
def test_a_damaged_file_is_read_or_refused_in_words(name, tmp_path):
    parser = PARSERS[name]
    samples = parser.seeds()
    for files in samples:
        parser.read(written(files, tmp_path))

    @seed(0)
    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged(samples))
    def attempt(files):
        assert outcome(parser, written(files, tmp_path), files) in ("read", "refused")

    attempt()


def test_a_signalling_nan_is_missing_like_any_other(tmp_path):
    values = np.arange(24, dtype=np.uint32).reshape(2, 6, 2)
    values[1, 4, 1] = 0xFFA80000
    file = io.BytesIO()
    np.save(file, values.view(np.float32))
    files = {"data.npy": file.getvalue()}
    assert outcome(PARSERS["npy"], written(files, tmp_path), files) == "read"


def test_numbers_of_both_signs_whose_product_no_float_holds_are_read(tmp_path):
    values = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
    values[0, 0], values[1, 1], values[3, 5] = -3e38, 0, 3e38
    file = io.BytesIO()
    np.save(file, values)
    files = {"data.npy": file.getvalue()}
    assert outcome(PARSERS["npy"], written(files, tmp_path), files) == "read"


@pytest.mark.parametrize("key", ["\ud800", "unknown \ud800"])
def test_a_key_of_half_a_character_is_refused_in_words(key, tmp_path):
    files = dict(PARSERS["model"].seeds()[0])
    name = next(name for name in files if name.endswith("config.json"))
    files[name] = json.dumps({**json.loads(files[name]), key: 1}).encode()
    assert outcome(PARSERS["model"], written(files, tmp_path), files) == "refused"


@pytest.mark.parametrize("file", ["model\0.safetensors", "\ud800", "a" * 300])
def test_an_index_that_names_what_no_file_can_be_called_is_refused_in_words(file, tmp_path):
    files = dict(next(files for files in PARSERS["checkpoint"].seeds() if any("index.json" in name for name in files)))
    name = next(name for name in files if "index.json" in name)
    index = json.loads(files[name])
    index["weight_map"] = {**index["weight_map"], next(iter(index["weight_map"])): file}
    files[name] = json.dumps(index).encode()
    assert outcome(PARSERS["checkpoint"], written(files, tmp_path), files) == "refused"
