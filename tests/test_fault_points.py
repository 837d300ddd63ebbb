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
from support.points.trials import VERBS, WHOLE

TESTS = Path(__file__).parent


def taken(*words: str) -> str:
    """The points of these commands, in a process of their own: they are forks of one that has one thread."""
    command = [sys.executable, "-m", "support.points", *words]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # a fork of several threads waits for ever
    done = subprocess.run(command, cwd=TESTS, env=alone, capture_output=True, text=True, check=False)
    return "" if not done.returncode else done.stdout + done.stderr[-2_000:]


@pytest.mark.timeout(900)
def test_some_points_of_each_command_evenly_spread() -> None:
    assert not taken("--daily", "1")


@pytest.mark.timeout(900)
def test_power_that_goes_after_some_operations_loses_nothing_that_was_finished() -> None:
    """Of what was not flushed a disk keeps nothing, the names, the bytes, or a choice among both."""
    assert not taken("run", "store unpack", "prepare", "--power", "--daily", "1")


ALIKE: dict[str, list[str]] = {}
"""Commands that begin with one folder, which is made once: a process each would make it again."""
for name, verb in VERBS.items():
    if not verb.lacking:
        ALIKE.setdefault(verb.begin.__name__, []).append(name)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", ALIKE)
def test_more_points_of_the_commands_that_begin_with_a_folder(folder: str) -> None:
    """Every point of them is tried by `make points`: docs/decisions/0038-points-of-a-sample.md."""
    assert not taken(*ALIKE[folder], "--daily", str(WHOLE))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", ALIKE)
def test_more_power_cuts_of_the_commands_that_begin_with_a_folder(folder: str) -> None:
    """Of several workers each writes what one process does, and trackers may lose what they were told."""
    names = [name for name in ALIKE[folder] if not name.startswith(("run --workers", "run --track"))]
    assert not taken(*names, "--power", "--daily", str(WHOLE))
