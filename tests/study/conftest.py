"""A fixture of the tests of this folder."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder without data."""
    return tmp_path_factory.mktemp("nowhere")
