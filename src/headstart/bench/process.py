"""A measurement in a process of its own: its memory is its own, and what ends it ends no other.

Jobs and answers are lines of JSON. A job runs once, or is a generator that is asked for one answer at a time,
so that two of them can take turns on a machine whose speed drifts.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Any

from headstart.errors import BadInput, lacks_memory
from headstart.runner.machine import interpreter

_CODE = "import json; from headstart.bench.process import serve; serve(sys.argv[1], json.loads(sys.argv[2]))"
OUT_OF_MEMORY, OUT_OF_TIME = "out of memory", "over the time limit"


class ProcessFailed(Exception):
    """A measurement that did not end well: the text is what its cell says."""


class Measurement:
    """A process that runs the generator `work` (`module:function`) with `job`; use as a context.

    `limit`: seconds that the whole process may take. Raises: Failed, from `ask`, where it ends before it answers.
    """

    def __init__(self, work: str, job: dict[str, Any], limit: float) -> None:
        words = interpreter(_CODE, work, json.dumps(job))
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.PIPE, text=True)
        self._late = False
        self._clock = threading.Timer(limit, self._stop)
        self._clock.daemon = True
        self._clock.start()

    def ask(self, what: str = "next") -> Any:
        """The generator's next answer; `what` is sent to it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ProcessFailed(self._ending())
        answer = json.loads(line)
        if "failed" in answer:
            raise ProcessFailed(answer["failed"])
        if "wrong" in answer:
            raise BadInput(answer["wrong"])
        return answer["answer"]

    def _stop(self) -> None:
        self._late = True
        self._process.kill()

    def _ending(self) -> str:
        error = self._process.communicate()[1]
        if self._late:
            return OUT_OF_TIME
        if self._process.returncode == -signal.SIGKILL:
            return OUT_OF_MEMORY  # Nobody else kills: on Linux this is how a machine without memory ends a process.
        last = (error.strip().splitlines() or [""])[-1]
        return f"ended with code {self._process.returncode}: {last}"

    def __enter__(self) -> Measurement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clock.cancel()
        self._process.kill()
        self._process.communicate()


def once(work: str, job: dict[str, Any], limit: float) -> Any:
    """The first answer of `work`."""
    with Measurement(work, job, limit) as measurement:
        return measurement.ask()


def serve(work: str, job: dict[str, Any]) -> None:
    """The other end: one answer for each line read, until the work or the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What a library prints must not stand among the answers.
    module, _, name = work.partition(":")
    generator: Generator[Any, str, None] = getattr(importlib.import_module(module), name)(job)
    begun = False
    for line in sys.stdin:
        try:
            message = {"answer": generator.send(line.strip()) if begun else next(generator)}
            begun = True
        except BadInput as error:
            message = {"wrong": str(error)}
        except (MemoryError, RuntimeError) as error:
            if not lacks_memory(error):
                raise
            message = {"failed": OUT_OF_MEMORY}
        answers.write(json.dumps(message) + "\n")
        answers.flush()
