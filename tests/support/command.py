"""`headstart` as a person types it, in a process of its own that begins with the slow imports done.

A server, started once, imports what most commands need and forks for each: the command has its own memory, folder,
environment and exit status, and saves the seconds that a new interpreter takes to import torch. A fork has one thread:
where the imports start more (`make test` sets OMP_NUM_THREADS=1, plain `pytest` does not), each command gets a new
interpreter.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

IMPORTED = (
    "torch",
    "matplotlib.figure",
    "headstart.cli",
    "headstart.api",
    "headstart.report.page",
    "headstart.report.figures.style",
    "headstart.fit.perform",
)
AT_START = ("PYTHON", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "KMP_", "LC_", "LANG", "MPL")
"""Beginnings of names of variables that are read when an interpreter or a library starts: a command that has other ones
gets a new interpreter."""
SECONDS = 240.0


def command(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = SECONDS,
    drawn: bool = False,
) -> subprocess.CompletedProcess[str]:
    """`headstart WORDS` to its end: its exit status, output and errors. cwd: where (default: here). drawn: the files of
    figures hold something, which takes a report most of its time.
    """
    environment, arguments = dict(os.environ if env is None else env), ["headstart", *words]
    server = _server() if sys.platform == "linux" and _at_start(environment) == _at_start(os.environ) else None
    if server is None:
        program = [sys.executable, "-m", *arguments]
        return subprocess.run(
            program, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    message = json.dumps(
        {"words": list(words), "cwd": str(cwd or Path.cwd()), "env": environment, "drawn": drawn}
    ).encode()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        channel, _ = server
        channel.settimeout(timeout)
        socket.send_fds(channel, [message], [out.fileno(), errors.fileno()])
        pid = int(channel.recv(64))
        try:
            status = int(channel.recv(64))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            channel.recv(64)
            raise subprocess.TimeoutExpired(arguments, timeout) from None
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode().replace("\r\n", "\n"))
    return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), *texts)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]] | None:
    """Where it is asked, and its process; None where it cannot fork."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        program = [sys.executable, __file__, str(theirs.fileno())]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            program, pass_fds=[theirs.fileno()], stdin=quiet, stdout=quiet, start_new_session=True
        )
    if int(ours.recv(64)) == 1:
        atexit.register(_end, ours, process)
        return ours, process
    _end(ours, process)
    return None


def _end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Nobody asks any more: the server ends."""
    channel.close()
    process.wait()


def _serve(channel: socket.socket) -> None:
    """Say how many threads the imports have started; if no more than this one, fork for each command until nobody asks
    any more."""
    for name in IMPORTED:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    channel.send(str(threads).encode())
    if threads > 1:
        return
    gc.collect()
    gc.freeze()  # A command that ends does not look through what was imported.
    while True:
        message, files, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not message:
            return
        pid = os.fork()
        if not pid:
            channel.close()
            _become(json.loads(message), files)
            return
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())
        channel.send(str(os.waitpid(pid, 0)[1]).encode())


def _become(asked: dict[str, Any], files: list[int]) -> None:
    """This process is `python -m headstart` from now on."""
    for file, stream in zip(files, (1, 2), strict=True):
        os.dup2(file, stream)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv[1:] = asked["words"]
    if not asked["drawn"]:
        vars(sys.modules["headstart.report.figures.style"])["_saved"] = lambda *_, **__: b""
    sys.path[0] = os.getcwd()
    runpy.run_module("headstart", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
