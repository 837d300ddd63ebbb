"""Files whose libraries of C may crash or never end where a file is damaged: these are read by another process."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from headstart import disk
from headstart.data.archives import reading
from headstart.data.named import Named
from headstart.errors import BadInput

WAIT, WORK, BYTES_A_SECOND = 30, 8, 2 * 10**6
"""Seconds of the clock and of the processor that reading may take, besides one for so many bytes of the files."""
FILES_APART, BYTES_APART = 100, 2**26
"""Files that one process reads, and their bytes: their arrays pass through the disk."""


def arrays_apart(task: str, path: Path, what: str) -> Named:
    """What `task` (`module:function`, of a path) gives, computed by a process of its own.

    Raises: BadInput as the function does, and where the process crashes or does not end.
    """
    with reading(path):
        return next(all_apart(task, [path], what))


def all_apart(task: str, paths: Sequence[Path], what: str) -> Iterator[Named]:
    """The same of several files, many of which a process reads. Raises: BadInput naming the file."""
    at, sizes = 0, [path.stat().st_size for path in paths]
    while at < len(paths):
        end = at + 1
        while end < min(len(paths), at + FILES_APART) and sum(sizes[at : end + 1]) <= BYTES_APART:
            end += 1
        yield from _read_apart(task, paths[at:end], what, WAIT + sum(sizes[at:end]) / BYTES_A_SECOND)
        at = end


def _read_apart(task: str, paths: Sequence[Path], what: str, limit: float) -> Iterator[Named]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "headstart.data.apart", task, folder]
        ours = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        listed = json.dumps([str(path.absolute()) for path in paths]).encode()
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, input=listed, capture_output=True, timeout=limit, check=False, env=ours)
        for row, path in enumerate(paths):
            result = Path(folder, f"{row}.json")
            if not result.exists():
                raise BadInput(f"{path}: is not a whole {what} (what reads it stopped); write it again")
            fields = json.loads(result.read_text())
            if isinstance(fields, str):
                raise BadInput(fields.replace(str(path.absolute()), str(path)))
            named = Named(path)
            names, named.left, named.sideways, named.attributes = fields
            for number, name in enumerate(names):
                named.arrays[name] = np.load(Path(folder, f"{row}-{number}.npy"), allow_pickle=False)
            yield named


def _main(task: str, folder: str) -> None:
    """Read files, and write the arrays of each or why it is refused."""
    module, _, name = task.partition(":")
    function = getattr(importlib.import_module(module), name)
    paths = json.load(sys.stdin)
    with suppress(ImportError):  # elsewhere the clock alone ends it
        resource = importlib.import_module("resource")
        most = time.process_time() + WORK + sum(map(os.path.getsize, paths)) / BYTES_A_SECOND
        least = min(filter(lambda limit: limit >= 0, (math.ceil(most), *resource.getrlimit(resource.RLIMIT_CPU))))
        resource.setrlimit(resource.RLIMIT_CPU, (least, least))
    for row, path in enumerate(paths):
        result = Path(folder, f"{row}.json")
        try:
            named: Named = function(Path(path))
        except BadInput as error:
            disk.write_file(result, json.dumps(str(error)).encode())
            return
        for number, array in enumerate(named.arrays.values()):
            np.save(Path(folder, f"{row}-{number}.npy"), array, allow_pickle=False)
        disk.write_file(result, json.dumps([list(named.arrays), named.left, named.sideways, named.attributes]).encode())


if __name__ == "__main__":
    _main(*sys.argv[1:])
