"""Damaged files of every format are read or refused in words that name the file; `python -m support.fuzz` looks longer."""

import io

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
