"""Files whose libraries of C may crash or never end where a file is damaged: these are read by another process."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from headstart import disk
from headstart.data.archives import reading
from headstart.data.named import Named
from headstart.errors import BadInput

WAIT, BYTES_A_SECOND = 30, 2 * 10**6
"""Seconds that reading may take, besides one for so many bytes of the file."""
REFUSED = 2
"""Exit code where the file was refused in words."""


def arrays_apart(task: str, path: Path, what: str) -> Named:
    """What `task` (`module:function`, of a path) gives, computed by a process of its own.

    Raises: BadInput as the function does, and where the process crashes or does not end.
    """
    with reading(path), tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "headstart.data.apart", task, str(path.absolute()), folder]
        ours = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        limit = WAIT + path.stat().st_size / BYTES_A_SECOND
        damaged = BadInput(f"{path}: is not a whole {what} (what reads it stopped); write it again")
        try:
            done = subprocess.run(command, capture_output=True, timeout=limit, check=False, env=ours)
        except subprocess.TimeoutExpired:
            raise damaged from None
        result = Path(folder, "result.json")
        if done.returncode == REFUSED and result.exists():
            raise BadInput(json.loads(result.read_text()).replace(str(path.absolute()), str(path)))
        if done.returncode or not result.exists():
            raise damaged
        named = Named(path)
        names, named.left, named.sideways, named.attributes = json.loads(result.read_text())
        for number, name in enumerate(names):
            named.arrays[name] = np.load(Path(folder, f"{number}.npy"), allow_pickle=False)
        return named


def _main(task: str, path: str, folder: str) -> int:
    """Read a file, and write its arrays or why it is refused. Returns the exit code."""
    module, _, name = task.partition(":")
    result = Path(folder, "result.json")
    try:
        named: Named = getattr(importlib.import_module(module), name)(Path(path))
    except BadInput as error:
        disk.write_file(result, json.dumps(str(error)).encode())
        return REFUSED
    for number, array in enumerate(named.arrays.values()):
        np.save(Path(folder, f"{number}.npy"), array, allow_pickle=False)
    disk.write_file(result, json.dumps([list(named.arrays), named.left, named.sideways, named.attributes]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
