"""Each operation of a command on the disk fails in turn; another command then ends as an undisturbed one.

Killed before and after it, cut short, and refused (no room, an error of the disk, no right, too many files): then all
bits equal, nothing is lost, done twice or left over, and a message names the file and a way out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.points.trials import VERBS

TESTS = Path(__file__).parent


def taken(*words: str) -> str:
    """The points of these commands, in a process of their own: they are forks of one that has one thread."""
    command = [sys.executable, "-m", "support.points", *words]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    return "" if not done.returncode else done.stdout + done.stderr[-2_000:]


@pytest.mark.timeout(900)
def test_some_points_of_each_command_at_a_fixed_stride() -> None:
    assert not taken("--stride", "0")


STRIDES = {"run": 6, "run with a checkpoint": 14, "fit": 14}
"""Of commands with many operations, one point of so many; `make points` takes all (some 20 minutes on two cores)."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", VERBS)
def test_points_of_a_command(name: str) -> None:
    """Every one, but of commands with many operations."""
    assert not taken(name, "--stride", str(STRIDES.get(name, 1)))
