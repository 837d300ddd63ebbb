"""A finished study that the tests of this folder read."""

from __future__ import annotations

import pytest
from support.finished import Done, written


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A finished study and its report, which tests only read."""
    return written(tmp_path_factory.mktemp("done"))
