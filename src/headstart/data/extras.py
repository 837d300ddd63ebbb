"""Libraries of the extra `[formats]`, imported when a file asks for one; and how much such a file may hold."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headstart.data.archives import SMALL_FILE, most_unpacked, reading
from headstart.errors import BadInput, one_line


def library(name: str, path: Path, what: str) -> Any:
    """The module that reads files of this kind. Raises: BadInput with the command that installs it."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):  # OSError: a library of C that the module looks for is absent
        raise BadInput(
            f"{path}: {what} needs the library {name}, which is not installed; install it with "
            "`pip install 'headstart[formats]'`"
        ) from None


@contextmanager
def whole(path: Path, what: str) -> Iterator[None]:
    """Whatever a library raises for a file that is damaged, or is none of its own, becomes a BadInput on one line.

    What it warns of (odd fields, its own libraries) is not shown.
    """
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (BadInput, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
            raise
        except BaseException as error:  # a panic of Rust is no Exception
            raise BadInput(f"{path}: is not a whole {what} ({one_line(error, 160)}); write it again") from None


def check_size(path: Path, size: int, what: str, least: int = 8 * SMALL_FILE) -> None:
    """Raises: BadInput where a file says that it holds more bytes than one of its size may. least: which any may."""
    most = most_unpacked(path, least)
    if size > most:
        raise BadInput(f"{path}: {what} would take {size:,} bytes, at most {most:,} are read; give it in parts")
