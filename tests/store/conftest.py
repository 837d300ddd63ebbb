"""A fixture of the tests of this folder."""

from __future__ import annotations

import pytest
from support.kept_store import make_store

import headstart


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> headstart.Study:
    """The kept study and its store, made once; tests that write take a copy of it."""
    return make_store(tmp_path_factory.mktemp("kept"))
