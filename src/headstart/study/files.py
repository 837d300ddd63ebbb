"""Where study files are: those that come with the package, and a person's own."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from headstart.errors import BadInput, nearest


def built_in_studies() -> dict[str, Path]:
    """Studies that come with the package, by name."""
    folder = Path(str(resources.files("headstart") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def study_path(given: str) -> Path:
    """The file of a study: a path, or the name of a built-in one. Raises: BadInput for neither."""
    path = Path(given)
    # os.path answers False where a name is too long or not one, which Path raises an error for.
    if path.suffix == ".toml" or os.path.exists(path):
        if os.path.isfile(path):
            return path
        raise BadInput(f"study: no file {given!r}; `headstart ls studies` lists the built-in ones")
    known = built_in_studies()
    if given in known:
        return known[given]
    raise BadInput(f"study: {nearest(given, known)}")


def study_text(path: Path) -> str:
    """What a study file says. Raises: BadInput where it cannot be read, or is no text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: this is no TOML: no UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
