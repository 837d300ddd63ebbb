"""What a plugin is made of, as it stands on disk now: its modules, and the digest of their source. Nothing is run."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.machinery
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from headstart.errors import BadInput
from headstart.normal import decoded, normal_form

CORE_PACKAGES = ("headstart", "numpy", "torch")
"""Never a person's own code, wherever they are installed: every result records their versions anyway."""

LONGEST_FILE = 240
"""Bytes of a module's name, with which its file can still be called; the system has nothing of a longer one."""
_HIDING = "exec eval __import__ import_module sys.modules __main__ runpy CDLL spec_from_file_location SourceFileLoader"
"""Names of what runs code, or reaches a notebook's values, that no import statement names."""


@dataclass(frozen=True)
class Module:
    """One module of a plugin: the bytes that are hashed, run and kept. path None: a folder without `__init__.py`."""

    name: str
    path: Path | None
    source: bytes
    is_package: bool = False

    @property
    def file(self) -> str:
        """Where its source lies below a folder of sources, with slashes."""
        return self.name.replace(".", "/") + ("/__init__.py" if self.is_package else ".py")


@dataclass(frozen=True)
class Plugin:
    """Code of a person's own, at one moment.

    name: of its root module. top: that module's file, or the folder of its top package; None where there is no file
    (a notebook). modules: the root first; all that its import statements pull in and no package manager installed.
    packages: installed packages that it imports, with their versions: recorded, no part of the digest.
    classes: those that are registered by their names (`module:Class`). objects: of a notebook, what was defined there.
    """

    name: str
    top: Path | None
    digest: str
    modules: tuple[Module, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    objects: tuple[Any, ...] = ()

    @property
    def file(self) -> str:
        """What a person calls it: the file's name, or the module's."""
        path = self.modules[0].path if self.modules else None
        return self.name if path is None or "." in self.name or path.name == "__init__.py" else path.name

    def record(self) -> dict[str, Any]:
        """What a result says of it."""
        return {"name": self.name, "digest": self.digest, "packages": dict(self.packages)}

    @property
    def word(self) -> str:
        """What `--plugin` takes, where `sources` lie in one folder."""
        return ":".join([self.modules[0].file, *self.classes])

    @property
    def sources(self) -> dict[str, bytes]:
        """Every file of it, by its path below a folder of sources."""
        return {module.file: module.source for module in self.modules if module.path is not None}


def plugin_identity(source: str | os.PathLike[str], option: str = "--plugin") -> Plugin:
    """The code that a file or a module is made of, and its digest.

    The digest is of the source text (see `normal_form`) of the root module and of every module of a person's own that
    is imported from there, directly or not, also inside functions. Names of helper modules count, since import
    statements use them; the root's own name does not.
    Raises: BadInput, beginning with `option`, where there is no such code, or its source cannot be had.
    """
    text = os.fspath(source)
    is_name = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text) is not None and not text.endswith(".py")
    name, top = (text, None) if is_name else _file_top(text, option)
    head = name.partition(".")[0]
    if head in sys.stdlib_module_names or head in CORE_PACKAGES:
        owner = "headstart" if head in CORE_PACKAGES else "Python"
        raise BadInput(f"{option}: {text}: {head!r} is a module that {owner} needs; give it another name")
    top = top or top_path(head, Path.cwd(), also_installed=True)
    if top is None:
        way = f"cannot be imported: there is no module {head!r}; run from its folder, install it, or name its file"
        way = ": is not a file of Python; name one that ends in .py" if Path(text).is_file() else f" {way}"
        raise BadInput(f"{option}: {text}{way}")
    return files_identity(name, top.absolute(), option)


def changed_files(plugin: Plugin, now: Plugin) -> str:
    """`helper.py has`: files whose text differs, or that came or went; a notebook's class by name."""
    before, after = ({module.path: module.source for module in state.modules} for state in (plugin, now))
    changed = {path.name for path in before.keys() | after.keys() if path and before.get(path) != after.get(path)}
    files = sorted(changed) if plugin.top else []
    return f"{' and '.join(files or [plugin.file])} {'have' if len(files) > 1 else 'has'}"


def files_identity(name: str, top: Path, option: str = "--plugin") -> Plugin:
    """The plugin whose root is the module `name`; `top` is the file, or the folder, of its first part."""
    modules, packages = Closure(top.parent, option, {name.partition(".")[0]: top}).of([name])
    if name not in modules:
        raise BadInput(f"{option}: there is no module {name!r} beside {top}; name its file")
    root = modules.pop(name)
    ordered = (root, *(modules[other] for other in sorted(modules)))
    return Plugin(name, top, _digest(ordered, option), ordered, versions(packages))


def _digest(modules: Iterable[Module], option: str) -> str:
    """First 16 hex digits of the SHA-256 of the modules' normal forms, the root (the first) without its name."""
    root, *others = modules
    head = root.name.partition(".")[0]
    named = [("", root)]
    for module in others:
        first, _, rest = module.name.partition(".")
        named += [(f".{rest}" if first == head else module.name, module)] if module.path is not None else []
    total = hashlib.sha256()
    for name, text in sorted((name, normal_form(_text(module, option))) for name, module in named):
        content = text.encode("utf-8", errors="surrogatepass")
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]


def _file_top(text: str, option: str) -> tuple[str, Path]:
    """(dotted name, file or folder of its first part) of a file; folders with an `__init__.py` are packages."""
    path = Path(text)
    if path.suffix != ".py" or not path.is_file():
        what = f"no file {text!r}" if path.suffix == ".py" else f"{text!r} is neither a .py file nor a module"
        raise BadInput(f"{option}: {what}; name a Python file or a module")
    path = path.absolute()
    parts, top = [re.sub(r"^(?=\d)|\W", "_", path.stem)], path
    if path.name == "__init__.py":
        parts, top = [path.parent.name], path.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
        parts.insert(0, top.name)
    return ".".join(parts), top


class Closure:
    """Modules of a person's own that others pull in. tops: where own top-level modules lie, None where one is not."""

    def __init__(self, folder: Path, option: str, tops: Mapping[str, Path | None] | None = None) -> None:
        self.folder, self.option, self.tops = folder, option, dict(tops or {})

    def of(self, names: Iterable[str]) -> tuple[dict[str, Module], list[str]]:
        """The modules by name, and the top-level names of installed packages that they import."""
        modules: dict[str, Module] = {}
        packages: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            parts = waiting.pop().split(".")
            for count in range(1, len(parts) + 1):
                name = ".".join(parts[:count])
                if name in modules:
                    continue
                module = self.read(name)
                if module is None:
                    break
                modules[name] = module
                tree = ast.parse(_text(module, self.option))
                refuse_hidden(tree, f"{self.option}: {module.path}")
                waiting += imported(tree, name, module.is_package)
            if self.tops[parts[0]] is None and parts[0] not in sys.stdlib_module_names:
                packages[parts[0]] = None
        return modules, list(packages)

    def read(self, name: str) -> Module | None:
        """The module as it is on disk, None where no own one has this name. Raises: BadInput for a compiled one."""
        head, *rest = name.split(".")
        if head not in self.tops:
            self.tops[head] = top_path(head, self.folder)
        top = self.tops[head]
        if top is None or any(len(os.fsencode(part)) > LONGEST_FILE for part in rest):
            return None
        path = top.joinpath(*rest)
        file, is_package = path / "__init__.py", (path / "__init__.py").is_file()
        if not is_package:
            file = path.with_name(f"{path.name}.py") if rest else top
        compiled = [path.with_name(f"{path.name}{suffix}") for suffix in importlib.machinery.EXTENSION_SUFFIXES]
        if (file.is_file() and file.suffix != ".py") or (rest and any(item.is_file() for item in compiled)):
            raise BadInput(f"{self.option}: {path}: is compiled and has no source to be hashed; give its .py file")
        if not file.is_file():
            return Module(name, None, b"", True) if path.is_dir() else None
        try:
            return Module(name, file, file.read_bytes(), is_package)
        except OSError as error:
            raise BadInput(f"{self.option}: {file}: cannot be read: {error.strerror}") from None


def _text(module: Module, option: str) -> str:
    """The text of a module. Raises: BadInput naming the line where it is not Python."""
    text, deep = "", False
    try:
        ast.parse(text := decoded(module.source))
    except (SyntaxError, ValueError) as error:  # of UnicodeDecodeError, too
        line = f" line {error.lineno}:" if isinstance(error, SyntaxError) and error.lineno else " is not Python text:"
        raise BadInput(f"{option}: {module.path}:{line} {getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):  # what Python's parser says of brackets in brackets
        deep = True
    if deep:
        raise BadInput(f"{option}: {module.path}: is nested too deep for Python; write it in shorter expressions")
    return text


def refuse_hidden(tree: ast.Module, where: str, also: tuple[str, ...] = ()) -> None:
    """Refuse names of what runs code that the text does not show; `model.eval()` is a method of that name.

    Raises: BadInput naming the line and the way out.
    """
    hidden: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        names: Iterable[str] = ()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None)
            paths = [f"{module}.{alias.name}" if module else alias.name for alias in node.names]
            names = [part for path in paths for part in (path, *path.split("."))]
        elif isinstance(node, ast.Attribute):
            owner = f"{node.value.id}." if isinstance(node.value, ast.Name) else ""
            names = ((owner + node.attr).removeprefix("builtins."), node.attr * (node.attr not in ("exec", "eval")))
        elif isinstance(node, ast.Name):
            names = (node.id,)
        hidden += [(node.lineno, name) for name in names if name in (*_HIDING.split(), *also)]  # type: ignore[attr-defined]
    if hidden:
        line, name = min(hidden)
        raise BadInput(
            f"{where}: line {line}: {name} may run code that this text does not show, so that it would not be part of "
            "the plugin's identity; put that code into a module beside the plugin and write `import` and its name"
        )


def imported(tree: ast.Module, name: str = "", is_package: bool = False) -> Iterator[str]:
    """Dotted names that statements may pull in, wherever they stand; `from a import b` is `a` and `a.b`."""
    package = (name if is_package else name.rpartition(".")[0]).split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base and not base.startswith("."):
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def top_path(name: str, folder: Path, also_installed: bool = False) -> Path | None:
    """File, or folder, of a person's own top-level module: beside the plugin, or elsewhere if nothing installed it.

    also_installed: whatever package manager put it there. Nothing is imported to find it.
    """
    if name in sys.stdlib_module_names or name in CORE_PACKAGES or len(os.fsencode(name)) > LONGEST_FILE:
        return None
    beside = () if installed(folder) else (folder / name / "__init__.py", folder / f"{name}.py")
    places = [path for path in beside if path.is_file()]
    # What serves modules of plugins from their hashed bytes is not where files lie.
    finders = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("headstart.")]
    specs = (finder.find_spec(name, None) for finder in finders)
    spec = next((item for item in specs if item and (item.has_location or item.submodule_search_locations)), None)
    if spec is None:
        places += [folder / name] if (folder / name).is_dir() else []
    else:  # several folders, of packages without `__init__.py`
        places += map(Path, [spec.origin or ""] if spec.has_location else spec.submodule_search_locations or ())
    chosen = next((path for path in places if also_installed or not installed(path)), None)
    return chosen.parent if chosen is not None and chosen.name == "__init__.py" else chosen


def installed(path: Path) -> bool:
    """Whether a package manager or Python itself put it there."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or path.is_relative_to(
        sysconfig.get_path("stdlib")
    )


def is_library(name: str) -> bool:
    """Whether an imported module is Python's, headstart's or an installed package's."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return name.partition(".")[0] in {*CORE_PACKAGES, *sys.stdlib_module_names} or installed(Path(file or "."))


_distributions = functools.cache(metadata.packages_distributions)  # takes half a second


def versions(names: Iterable[str]) -> dict[str, str]:
    """Installed packages that these top-level modules belong to, with their versions."""
    packages = {}
    for package in sorted({package for name in names for package in _distributions().get(name, [name])}):
        try:
            packages[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            packages[package] = "not installed"
    return packages
