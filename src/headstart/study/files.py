"""Where study files are: those that come with the package, and a person's own."""

from __future__ import annotations

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
    if path.suffix == ".toml" or path.exists():
        if path.is_file():
            return path
        raise BadInput(f"study: no file {given!r}; `headstart ls studies` lists the built-in ones")
    known = built_in_studies()
    if given in known:
        return known[given]
    raise BadInput(f"study: {nearest(given, known)}")
