"""Formats that a process of its own reads, which takes more than a second to start: here it is a fork of this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from headstart.data import apart
from support.fuzz.parser import read_data, short_of_memory

NO_MEMORY = 3
"""Exit code of a fork that had no memory left, whatever its reader made of that."""
SECONDS = 10
"""Of the processor, that a fork may take."""


def _write_file(path: Path, content: bytes) -> None:
    """Stands for `disk.write_file`, which writes what is read, or within the handler of its error why it is refused."""
    if short_of_memory(sys.exception()):
        os._exit(NO_MEMORY)
    path.write_bytes(content)


def _forked(command: Sequence[str], **words: Any) -> None:
    """Stands for `subprocess.run` of `python -m headstart.data.apart TASK FOLDER`.

    Raises: MemoryError where the fork had no memory left, AssertionError where it took too long.
    """
    process = os.fork()
    if not process:
        with suppress(BaseException):
            try:
                with (
                    mock.patch.object(sys, "stdin", io.StringIO(words["input"].decode())),
                    mock.patch.object(apart, "disk", SimpleNamespace(write_file=_write_file)),
                ):
                    apart._main(*command[-2:])
            except MemoryError:
                os._exit(NO_MEMORY)
        os._exit(0)
    _, status, used = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status) == NO_MEMORY:
        raise MemoryError("the process that reads it")
    if used.ru_utime + used.ru_stime > SECONDS:
        raise AssertionError(f"the process that reads it took longer than {SECONDS} s")


def in_forks(path: Path, read: Callable[[], object] | None = None) -> object:
    """The sequences of a file that is read by another process. read: in place of that."""
    stand_in = SimpleNamespace(run=_forked, TimeoutExpired=subprocess.TimeoutExpired)
    with mock.patch.object(apart, "subprocess", stand_in):
        return read() if read else read_data(path)
