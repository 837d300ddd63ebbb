"""The made-up study is shared with the tests of `study`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))

from finished import Done, written


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A finished study and its report, which tests only read."""
    return written(tmp_path_factory.mktemp("done"))
