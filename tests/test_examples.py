"""The notebooks under examples/ run from top to bottom, as a reader would run them."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"


# The client's own event loop leaves a socket to the garbage collector; that is not a fault of a notebook.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = "".join(str(cell.get("outputs")) for cell in notebook.cells)
    for word in ("Study('digits'", "self_pretrained", "difference to scratch"):
        assert word in shown


def test_notebooks_are_committed_without_outputs() -> None:
    for path in EXAMPLES.glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            assert not cell.get("outputs"), path
