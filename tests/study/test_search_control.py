"""A search where there is nothing to be learnt: what it chose looks better than it is on its own trials, and fresh seeds
on the test set say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headstart
from headstart.study.results.results import Results

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow

ROWS, LENGTH = 480, 24


def files(folder: Path, control: str) -> Path:
    """Half of the rows in each of two classes, told by their mean; or pure noise; or labels that are shuffled."""
    rng = np.random.default_rng(7)
    y = np.arange(ROWS) % 2
    X = rng.normal(size=(ROWS, LENGTH)) + (0.0 if control == "noise" else 1.0) * y[:, None]
    np.savez(folder / "rows.npz", X=X.astype(np.float32), y=rng.permutation(y) if control == "shuffled" else y)
    return folder / "rows.npz"


def searched(folder: Path, control: str) -> Results:
    table: dict[str, Any] = {
        "name": "control",
        "stages": {"train": {"objective": {"kind": "classify"}, "budget": {"steps": 30}, "optim": {"batch_size": 16}}},
        "columns": {"rows": {"task": {"kind": "own", "file": str(files(folder, control))}}},
        "arms": {"plain": {"model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}}}},
        "axes": {"seed": [0, 1, 2, 3, 4]},
        "search": {"with": "optuna", "trials": 16, "over": {"train.optim.lr": "loguniform 1e-4 3e-2"}},
    }
    return headstart.run(table, store=folder / "runs", data=folder)


@pytest.mark.parametrize("control", ["noise", "shuffled"])
def test_a_search_where_nothing_can_be_learnt_has_fresh_seeds_at_chance(control: str, tmp_path: Path) -> None:
    (row,) = searched(tmp_path, control).table
    trials = [score for score in row.trials if score is not None]
    assert len(trials) == 16
    error = 0.5 / np.sqrt(ROWS / 5)
    assert max(trials) > np.mean(trials), "what was chosen looks better than the trials are"
    assert row.test is not None
    assert abs(row.test.mean - 0.5) < 3 * error, "of fresh seeds, on test"
    assert row.status == "at chance"


def test_the_same_search_finds_what_is_there(tmp_path: Path) -> None:
    (row,) = searched(tmp_path, "signal").table
    assert row.test is not None
    assert row.test.mean > 0.9
    assert row.status == "measured"
