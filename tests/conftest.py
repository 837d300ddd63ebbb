"""What tests of several folders share."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"


@pytest.fixture(scope="session")
def linked(tmp_path_factory):
    """A folder of links to the real data (empty where there are none).

    What is prepared from them is kept here, once for all tests (and all processes of pytest-xdist), not
    beside the data.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "linked"
    folder.mkdir(exist_ok=True)
    for there in sorted(SHARED.resolve().glob("*")):
        link = folder / there.name
        if there.is_dir() and not there.name.startswith(".") and not link.is_symlink():
            link.symlink_to(there)
    return folder
