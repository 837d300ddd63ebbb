"""What tests of several folders share."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstart.report.figures import style

_SAVED = style._saved
# Commands that tests start keep the package's bytecode, as a person's do: they would compile it hundreds of times. So do
# the workers, with that of the tests, whose assertions take six seconds to rewrite.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
for own in ("HEADSTART_STORE", "HEADSTART_DATA", "HEADSTART_WEIGHTS"):  # a person's own folders are none of a test's
    os.environ.pop(own, None)

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What was imported and collected is never garbage: some million objects that each full collection looked through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers must find the same tests: a name with the address of an object is another one in each.

    The points of faults come first: a test of two minutes that one worker begins last keeps the other waiting.
    """
    if addresses := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"names of tests hold addresses of objects: {addresses[0]}")
    items.sort(key=lambda item: item.path.name != "test_fault_points.py")


def _shared(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that all processes of pytest-xdist share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """The cache of prepared data of all tests: never the user's own."""
    before = os.environ.get("HEADSTART_CACHE")
    folder = _shared(tmp_path_factory, "cache")
    os.environ["HEADSTART_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["HEADSTART_CACHE"]
    else:
        os.environ["HEADSTART_CACHE"] = before


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of prepared data for one test alone, empty at first."""
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "own-cache"))
    (tmp_path / "own-cache").mkdir()
    return tmp_path / "own-cache"


@pytest.fixture(scope="session")
def linked(tmp_path_factory):
    """A folder of links to the real data (empty where there are none)."""
    folder = _shared(tmp_path_factory, "linked")
    for there in sorted(SHARED.resolve().glob("*")):
        link = folder / there.name
        if there.is_dir() and not there.name.startswith(".") and not link.is_symlink():
            link.symlink_to(there)
    return folder


@pytest.fixture(scope="session", autouse=True)
def undrawn() -> Iterator[None]:
    """Figures are made, but their files hold nothing: of reports whose words are looked at, it takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "_saved", lambda *_, **__: b"")
        yield


@pytest.fixture(scope="module")
def whole_figures(undrawn: None) -> Iterator[None]:
    """From here to the end of the module the files of figures are whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "_saved", _SAVED)
        yield
