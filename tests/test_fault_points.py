"""Each operation of a command on the disk fails in turn; another command then ends as an undisturbed one.

Killed before and after it, without power after it, cut short, and refused (no room, an error of the disk, no right, too many files): then all
bits equal, nothing is lost, done twice or left over, and a message names the file and a way out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.points.trials import VERBS

TESTS = Path(__file__).parent


def taken(*words: str) -> str:
    """The points of these commands, in a process of their own: they are forks of one that has one thread."""
    command = [sys.executable, "-m", "support.points", *words]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # a fork of several threads waits for ever
    done = subprocess.run(command, cwd=TESTS, env=alone, capture_output=True, text=True, check=False)
    return "" if not done.returncode else done.stdout + done.stderr[-2_000:]


@pytest.mark.timeout(900)
def test_some_points_of_each_command_at_a_fixed_stride() -> None:
    assert not taken("--stride", "0")


@pytest.mark.timeout(900)
def test_power_that_goes_after_some_operations_loses_nothing_that_was_finished() -> None:
    """Of what was not flushed a disk keeps nothing, the names, the bytes, or a choice among both."""
    assert not taken("--power", "--stride", "0")


STRIDES = {
    **{"run": 6, "run with a checkpoint": 14, "run --workers": 150, "run --track": 4, "run --track tensorboard": 4},
    **{"fit": 14, "predict --explain": 3, "ls stages --json": 2},
}
"""Of commands with many operations, one point of so many; `make points` takes all (some 20 minutes on two cores)."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", VERBS)
def test_points_of_a_command(name: str) -> None:
    """Every one, but of commands with many operations."""
    if absent := VERBS[name].lacking:
        pytest.skip(f"needs the extra [track]: {', '.join(absent)} is not installed")
    assert not taken(name, "--stride", str(STRIDES.get(name, 1)))


CUTS = {"run": 4, "run with a checkpoint": 10, "fit": 20, "run --json --tidy": 4, "report": 4, "predict --explain": 3}
"""Of commands with many operations, one of so many after which the power goes: each leaves five disks at most."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [name for name in VERBS if not name.startswith(("run --workers", "run --track"))])
def test_power_cuts_of_a_command(name: str) -> None:
    """After every operation, but of commands with many; of several workers each writes what one process does."""
    assert not taken(name, "--power", "--stride", str(CUTS.get(name, 1)))
