"""The idx format of MNIST and its relatives: plain or gzip-compressed arrays of bytes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from headstart.errors import BadInput

LIMIT = 2**31
"""Bytes that one file may hold when it is unpacked: 45 times the largest file of MNIST."""


def find_idx(folder: Path, name: str, task: str, origin: str) -> Path:
    """The file `name` of a folder, plain or .gz. Raises: BadInput naming both, the folder and the origin."""
    # Some mirrors write a dot for the dash before "idx".
    for shown in (name, name.replace("-idx", ".idx")):
        for path in (folder / shown, folder / f"{shown}.gz"):
            if path.is_file():
                return path
    raise BadInput(
        f"task.kind: {task!r} looks for {name} or {name}.gz in {folder}, and neither is there; {origin}; "
        "name the folder above it with --data or HEADSTART_DATA"
    )


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of an idx file of bytes with that many dimensions, uint8.

    Raises: BadInput for a file that is cut short, damaged, too long, too large or of another kind.
    Source: the description on MNIST's page: two zero bytes, the type (8: unsigned byte), the number of
    dimensions, each size as a big-endian 32-bit number, the data.
    """
    again = "download it again"
    try:
        with _opened(path) as file:
            head = file.read(4 + 4 * dimensions)
            if head[:4] != bytes([0, 0, 8, dimensions]):
                right = bytes([0, 0, 8, dimensions]).hex(" ")
                raise BadInput(
                    f"{path}: begins with {head[:4].hex(' ') or 'nothing'}, an idx file of this "
                    f"kind begins with {right}; {again}"
                )
            if len(head) < 4 + 4 * dimensions:
                raise BadInput(f"{path}: is cut short within its header; {again}")
            shape = tuple(int(size) for size in np.frombuffer(head[4:], dtype=">u4"))
            size = 1
            for length in shape:
                size *= length
            if size == 0:
                raise BadInput(f"{path}: holds no data (its header says {_times(shape)}); {again}")
            if size > LIMIT:
                raise BadInput(
                    f"{path}: its header says {_times(shape)} = {size} bytes, more than the "
                    f"{LIMIT} that are read; {again}"
                )
            body = file.read(size)
            rest = file.read(1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: is cut short or damaged ({error}); {again}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(body) < size:
        raise BadInput(
            f"{path}: is cut short: {len(body)} of the {size} bytes that its header says ({_times(shape)}); {again}"
        )
    if rest:
        raise BadInput(f"{path}: goes on after the {size} bytes that its header says ({_times(shape)}); {again}")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _opened(path: Path) -> IO[bytes]:
    """The unpacked bytes, whatever the name says: gzip data begin with 1f 8b."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
