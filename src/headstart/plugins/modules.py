"""Modules of a plugin: which there are, where they lie, and what is a person's own. Nothing is run here."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.machinery
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from headstart.errors import BadInput
from headstart.plugins.normal import decoded

CORE = ("headstart", "numpy", "torch")
"""Never a person's own code, wherever they are installed: every result records their versions anyway."""

_UNSEEN = (
    "spec_from_file_location",
    "SourceFileLoader",
    "SourcelessFileLoader",
    "ExtensionFileLoader",
    "runpy",
    "pyximport",
    "load_source",
    "load_dynamic",
    "zipimporter",
    "InteractiveInterpreter",
    "InteractiveConsole",
    "CDLL",
    "PyDLL",
    "cdll",
    "pydll",
    "windll",
    "oledll",
    "load_module",
    "PackageImporter",
    "aoti_load_package",
    "export.load",
    "LoadLibrary",
    "dlopen",
    "load_library",
    "resolve_name",
    "cpp_extension.load",
    "hub.load",
    "jit.load",
    "pydoc.locate",
    "__main__",
    "__path__",
    "__builtins__",
    "__globals__",
    "f_globals",
)
"""What runs code, or reaches a notebook's state, that no import statement names."""

_IMPORTERS = ("import_module", "__import__")
"""What imports the module of a name: of a constant one as an import statement does; a computed one is refused."""

_INSTALLED = ("site-packages", "dist-packages")


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

    def clashes(self, other: Plugin) -> list[str]:
        """Names of modules that both have with different sources."""
        sources = {module.name: module.source for module in other.modules}
        return [m.name for m in self.modules if sources.get(m.name, m.source) != m.source]


def module_text(module: Module, option: str) -> str:
    try:
        return decoded(module.source)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(f"{option}: {module.path}: is not Python text: {error}") from None


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
                tree = _tree(module, self.option)
                check_visible(tree, f"{self.option}: {module.path}")
                waiting += imported(tree, name, module.is_package)
            if self.top(parts[0]) is None and parts[0] not in sys.stdlib_module_names:
                packages[parts[0]] = None
        return modules, list(packages)

    def top(self, name: str) -> Path | None:
        """The file or the folder of an own top-level module, or None."""
        if name not in self.tops:
            self.tops[name] = top_path(name, self.folder)
        return self.tops[name]

    def read(self, name: str) -> Module | None:
        """The module as it is on disk, None where no own one has this name. Raises: BadInput for a compiled one."""
        head, *rest = name.split(".")
        top = self.top(head)
        if top is None:
            return None
        if not rest and top.is_file():
            return _read(name, top, self.option)
        path = top.joinpath(*rest)
        for file, is_package in ((path / "__init__.py", True), (path.with_name(f"{path.name}.py"), False)):
            if file.is_file() and (rest or is_package):
                return _read(name, file, self.option, is_package)
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            if rest and path.with_name(f"{path.name}{suffix}").is_file():
                raise BadInput(f"{self.option}: {path}{suffix}: is compiled and has no source that could be hashed")
        return Module(name, None, b"", True) if path.is_dir() else None


def _read(name: str, path: Path, option: str, is_package: bool = False) -> Module:
    if path.suffix != ".py":
        raise BadInput(f"{option}: {path}: is compiled and has no source that could be hashed; give its .py file")
    try:
        return Module(name, path, path.read_bytes(), is_package)
    except OSError as error:
        raise BadInput(f"{option}: {path}: cannot be read: {error.strerror}") from None


def _tree(module: Module, option: str) -> ast.Module:
    """The syntax tree. Raises: BadInput naming the line where it is not Python."""
    text = module_text(module, option)
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f" line {error.lineno}:" if isinstance(error, SyntaxError) and error.lineno else ""
        raise BadInput(f"{option}: {module.path}:{line} {getattr(error, 'msg', error)}") from None


def check_visible(tree: ast.Module, where: str, also: tuple[str, ...] = ()) -> None:
    """Refuse what may run code that the text does not show, and calls of `also`.

    Raises: BadInput naming the line and the way out.
    """
    hidden = []
    nodes: list[Any] = [node for part in (tree, *run_texts(tree)) for node in ast.walk(part)]
    visible, known = {id(node) for node, name in _visible(nodes) if name not in _UNSEEN}, _aliases(nodes)
    for node in nodes:
        names: list[str] = []
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            paths = (module, *(f"{module}.{alias.name}" for alias in node.names))
            names = [name for path in paths for name in _unseen(path)]
            names += [alias.name for alias in node.names if alias.asname and alias.name in _IMPORTERS]
            names += ["sys.modules" for alias in node.names if (module, alias.name) == ("sys", "modules")]
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in visible:
            head, dot, rest = (path := _path(node)).partition(".")
            last = path.rpartition(".")[2]
            names = (
                _unseen(path)
                or _unseen(f"{known.get(head, head)}{dot}{rest}")
                or [last] * (last in _IMPORTERS)
                or [path] * (path == "sys.modules")
            )
            # `model.eval()` is a method; `run = exec` may run anything.
            names += [last] * (path.removeprefix("builtins.") in ("exec", "eval"))
        elif isinstance(node, ast.Call) and id(node.func) not in visible:
            name = _path(node.func).removeprefix("builtins.")
            names = [name] * (name in also)
        hidden += [(node.lineno, name) for name in names]
    if hidden:
        line, name = min(hidden)
        raise BadInput(
            f"{where}: line {line}: {name} may run code that this text does not show, so that it would not be part of "
            "the plugin's identity; put that code into a module beside the plugin and write `import` and its name"
        )


def _aliases(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The full names of what imports bind: `J` is `torch.jit` after `from torch import jit as J`."""
    out: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            out |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            out |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}" for alias in node.names}
    return out


def _unseen(path: str) -> list[str]:
    """The end of a dotted name that runs code which the text does not show, if it has one."""
    return [name for name in _UNSEEN if path == name or path.endswith(f".{name}")]


def _path(node: ast.AST) -> str:
    """`importlib.import_module` of a name or an attribute; of an attribute of anything else, its name behind a dot."""
    if isinstance(node, ast.Attribute):
        return f"{_path(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def run_texts(tree: ast.AST) -> list[ast.Module]:
    """The code in `exec("text")` and `eval("text")`, what that runs included; what is no Python is left out."""
    out: list[ast.Module] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name, text = _path(node.func).removeprefix("builtins."), node.args[0].value
            if name in ("exec", "eval") and isinstance(text, str):
                with contextlib.suppress(SyntaxError, ValueError):
                    inner = ast.parse(text.strip() if name == "eval" else text)
                    out += [inner, *run_texts(inner)]
    return out


def _visible(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that mean code which the text shows, with the name of the module that they import, or nothing.

    They are in `exec("text")`, `import_module("name")`, `sys.modules["name"]`, `sys.modules[__name__]` and
    `"name" in sys.modules`.
    """
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = _path(node.func).rpartition(".")[2]
            if name in (*_IMPORTERS, "exec", "eval"):
                yield node.func, str(node.args[0].value) if name in _IMPORTERS else ""
        elif isinstance(node, ast.Subscript) and _path(node.value) == "sys.modules":
            if isinstance(node.slice, ast.Constant):
                yield node.value, str(node.slice.value)
            elif _path(node.slice) == "__name__":
                yield node.value, ""
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant):
            yield from ((right, "") for right in node.comparators)


def imported(tree: ast.Module, name: str = "", is_package: bool = False) -> Iterator[str]:
    """Dotted names that statements may pull in, wherever they stand; `from a import b` is `a` and `a.b`."""
    package = name if is_package else name.rpartition(".")[0]

    def absolute(level: int, rest: str | None) -> str:
        above = package.split(".")[: package.count(".") + 2 - level] if level else []
        return ".".join([*above, *([rest] if rest else [])])

    nodes = [node for part in (tree, *run_texts(tree)) for node in ast.walk(part)]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node.level, node.module)
            if base and not base.startswith("."):
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
    for _, text in _visible(nodes):
        rest = text.lstrip(".")
        module = absolute(len(text) - len(rest), rest)
        if all(part.isidentifier() for part in module.split(".")):
            yield module


def top_path(name: str, folder: Path, also_installed: bool = False) -> Path | None:
    """File, or folder, of a person's own top-level module: beside the plugin, or elsewhere if nothing installed it.

    also_installed: whatever package manager put it there.
    """
    if name in sys.stdlib_module_names or name in CORE:
        return None
    if not installed(folder):
        for path in (folder / name / "__init__.py", folder / f"{name}.py"):
            if path.is_file():
                return path.parent if path.name == "__init__.py" else path
    spec = _spec(name)
    if spec is None:
        return folder / name if (folder / name).is_dir() and not installed(folder) else None
    if spec.origin is None:  # folders without `__init__.py`
        folders = [Path(path) for path in spec.submodule_search_locations or ()]
        return next((path for path in folders if also_installed or not installed(path)), None)
    path = Path(spec.origin)
    if not spec.has_location or (installed(path) and not also_installed):
        return None
    return path.parent if path.name == "__init__.py" else path


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Where the import system finds a top-level module; nothing is imported for that."""
    for finder in sys.meta_path:
        # What serves modules of plugins from their hashed bytes is not a place where files lie.
        if type(finder).__module__.startswith("headstart."):
            continue
        spec: importlib.machinery.ModuleSpec | None = finder.find_spec(name, None)
        if spec is not None and (spec.origin is not None or spec.submodule_search_locations):
            return spec
    return None


def installed(path: Path) -> bool:
    """Whether a package manager or Python itself put it there."""
    return any(part in _INSTALLED for part in path.parts) or path.is_relative_to(sysconfig.get_path("stdlib"))


def versions(names: Iterable[str]) -> dict[str, str]:
    """Installed packages that these top-level modules belong to, with their versions."""
    packages: dict[str, str] = {}
    for name in names:
        for package in dict.fromkeys(_packages().get(name, [name])):
            try:
                packages[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                packages[package] = "not installed"
    return dict(sorted(packages.items()))


@functools.cache
def _packages() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()
