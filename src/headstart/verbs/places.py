"""Folders that a command writes to: there and writable before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from headstart.errors import BadInput


def writable_folder(option: str, given: str | Path) -> Path:
    """The folder, made where it is not there. Raises: BadInput naming the option where it cannot be used."""
    folder = Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{option}: {str(folder)!r} cannot be made ({error.strerror}); name another folder") from None
    if not os.access(folder, os.W_OK):
        raise BadInput(f"{option}: {str(folder)!r} cannot be written; name another folder")
    return folder
