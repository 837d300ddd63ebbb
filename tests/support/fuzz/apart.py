"""Formats that a process of its own reads, which takes more than a second to start: here it is a fork of this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from headstart.data import apart
from support.fuzz.parser import read_data


def _forked(command: Sequence[str], **words: Any) -> None:
    """Stands for `subprocess.run` of `python -m headstart.data.apart TASK FOLDER`."""
    process = os.fork()
    if not process:
        with suppress(BaseException), mock.patch.object(sys, "stdin", io.StringIO(words["input"].decode())):
            apart._main(*command[-2:])
        os._exit(0)
    _, _, used = os.wait4(process, 0)
    if used.ru_utime + used.ru_stime > 10:
        raise AssertionError("the process that reads it took longer than 10 s")


def in_forks(path: Path) -> object:
    """The sequences of a file that is read by another process."""
    stand_in = SimpleNamespace(run=_forked, TimeoutExpired=subprocess.TimeoutExpired)
    with mock.patch.object(apart, "subprocess", stand_in):
        return read_data(path)
