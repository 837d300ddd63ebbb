"""Where study files are: those that come with the package, and a person's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w

from headstart import disk
from headstart.atomic import publish
from headstart.documents import from_toml
from headstart.errors import BadInput, nearest
from headstart.store.plain import check_inside, check_tree
from headstart.store.stages import REPORTS

PLUGIN_SOURCES = "source"
"""Folder beside a page with the sources of plugins: a person may name them, nothing else imports them."""
LARGEST_STUDY = 2**24
"""Bytes of a study file that is read."""
_ORIGIN = "# the report of "


def built_in_studies() -> dict[str, Path]:
    """Studies that come with the package, by name."""
    return tables_in(studies_folder())


def studies_folder() -> Path:
    """Where the package keeps its studies, the parts they share, papers' cells and costs."""
    return Path(str(resources.files("headstart") / "studies"))


def tables_in(folder: Path) -> dict[str, Path]:
    """TOML files of a folder, by name."""
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def is_built_in(name: str) -> bool:
    """Whether a name is that of a study that comes with the package."""
    return _known_as(name, built_in_studies()) is not None


def short_name(name: str) -> str:
    """The shortest name that a study is found by: `coser-1` of `coser-1-described`."""
    return name.removesuffix("-described")


def study_path(name: str) -> Path:
    """The file of a study: a path, or the name of a built-in one. Raises: BadInput for neither."""
    path = Path(name)
    # os.path answers False where a name is too long or not one, which Path raises an error for.
    if path.suffix == ".toml" or os.path.exists(path):
        if os.path.isfile(path):
            return path
        if os.path.isdir(path):
            raise BadInput(f"study: {name!r} is a folder; name a study file (.toml) in it")
        raise BadInput(f"study: no file {name!r}; `headstart ls studies` lists the built-in ones")
    return _built_in(name, built_in_studies(), "study")


def base_path(name: str, folder: Path | None) -> Path:
    """The file that a study extends: a built-in study, a part that studies share, or a file beside the study's."""
    if name.endswith(".toml"):
        path = (folder or Path()) / name
        if os.path.isfile(path):
            return path
        raise BadInput(f"extends: no file {str(path)!r}")
    return _built_in(name, {**built_in_studies(), **tables_in(studies_folder() / "parts")}, "extends")


def _built_in(name: str, studies: dict[str, Path], key: str) -> Path:
    full = _known_as(name, studies)
    if full is None:
        raise BadInput(f"{key}: {nearest(name, map(short_name, studies), '`headstart ls studies` lists them')}")
    return studies[full]


def _known_as(name: str, studies: dict[str, Path]) -> str | None:
    """A paper's study has a name of two parts: `coser-1` is `coser-1-described`, the paper's own words."""
    return next((full for full in (name, f"{name}-described") if full in studies), None)


def title_of(path: Path) -> str:
    """The question that a study asks."""
    return str(table_of(path).get("title", ""))


def table_of(path: Path) -> dict[str, Any]:
    """A study file as a table. Raises: BadInput where it is not TOML."""
    text = study_text(path)
    try:
        return from_toml(text)
    except ValueError as error:
        raise BadInput(f"{path}: this is not valid TOML: {error}") from None


def study_text(path: Path) -> str:
    """What a study file says. Raises: BadInput where it cannot be read, or is not text."""
    try:
        if (size := path.stat().st_size) > LARGEST_STUDY:
            raise BadInput(f"{path}: has {size:,} bytes, more than {LARGEST_STUDY:,}; name a study file")
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path}: this is not valid TOML: it is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None


def as_given(text: str, source: Any, overrides: Iterable[str]) -> str:
    """Lines of an error: the places of a study with the file that they stand in, or as the command line gave them.

    A place in the file that an override reaches into is named with that override.
    """
    words = {word.partition("=")[0].strip(): word for word in overrides}
    names = list(words)
    file = "" if isinstance(source, Mapping) else study_path(str(source)).name
    lines = []
    for line in text.splitlines():
        path, colon, message = line.partition(": ")
        kind, *parts = path.split(".")
        # A key without a stage's name goes to all stages, and the error names the first of them.
        brief = ".".join([kind, *parts[:1], *parts[2:]])
        name = next((name for name in names if f".{name}." in f".{path}."), None)
        if name is None and (name := next((name for name in names if f"{brief}.".startswith(f"{name}.")), None)):
            path = brief
        if not path.startswith(("arms.", "axes.", "columns.", "stages.")):
            lines.append(line)
        elif name is None:
            within = (path, ".".join(parts[2:]) or path)
            inside = [word for name, word in words.items() if any(f"{name}.".startswith(f"{at}.") for at in within)]
            where = " with ".join(filter(None, [file, *inside]))
            lines.append(f"{where}: {line}" if where else line)
        else:
            rest = f".{path}.".partition(f".{name}.")[2]
            lines.append(f"override: {'.'.join(filter(None, [name, rest.strip('.')]))}{colon}{message}")
    return "\n".join(lines)


def to_toml(document: Mapping[str, Any]) -> str:
    """TOML of a study's plain values (dict, list, text, numbers, booleans). None is left out, and what is empty on top.

    Raises: TypeError for a value that has no form in TOML.
    """
    return tomli_w.dumps({key: value for key, value in _without_none(document).items() if value not in ("", [], {})})


def publish_study(document: Mapping[str, Any], folder: Path, origin: str) -> None:
    """Write `study.toml` into the folder of a report: a study's plain values, with its overrides.

    origin: which study it is, as a comment above it; empty for none.
    """
    check_folder(folder)
    disk.make_folder(folder)
    head = f"{_ORIGIN}{json.dumps(origin)}\n" if origin else ""
    publish(folder / "study.toml", (head + to_toml(document)).encode())


def check_folder(folder: Path) -> None:
    """Raises: BadInput where a report of a store, or the code in another folder of a report, leads elsewhere."""
    if folder.parent.name == REPORTS:
        check_inside(folder.parent.parent, REPORTS)
        check_tree(folder.parent, folder.name)
    else:
        check_tree(folder, PLUGIN_SOURCES)


def origin_of(folder: Path, root: Path | None = None) -> str | None:
    """Which study the report in a folder is of. root: of the store; None where the study's file is there no longer."""
    file = folder / "study.toml"
    if not file.is_file():
        return None
    head, _, rest = study_text(file).partition("\n")[0].partition(_ORIGIN)
    try:
        origin = json.loads(rest) if not head else None
    except json.JSONDecodeError:
        return None
    gone = root is not None and str(origin).endswith(".toml") and not (root / str(origin)).is_file()
    return None if gone else origin


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(inner) for inner in value if inner is not None]
    return value
