"""What a plugin is made of: its modules as they stand on disk now, and the digest of them all. Nothing is run here."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType

from headstart.errors import BadInput
from headstart.plugins.cells import cell_identity
from headstart.plugins.modules import CORE, Closure, Module, Plugin, module_spec, module_text, own_top, versions
from headstart.plugins.normal import normal_form


def plugin_identity(given: str | os.PathLike[str] | type | FunctionType, place: str = "--plugin") -> Plugin:
    """The code that a file, a module, or a class or function of a notebook is made of, and its digest.

    The digest is of the source text (see `normal_form`) of the root module and of every module of a person's own that
    is imported from there, directly or not, also inside functions. Names of helper modules count, since import
    statements use them; the root's own name does not.
    Raises: BadInput, beginning with `place`, where there is no such code, or its source cannot be had.
    """
    if isinstance(given, (type, FunctionType)):
        return cell_identity(given, place)
    text = os.fspath(given)
    named = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text) is not None and not text.endswith(".py")
    name, top = (text, _found_top(text, place)) if named else _file_top(Path(text), place)
    return identity_of(name, top, place, text)


def identity_of(name: str, top: Path, place: str = "--plugin", text: str = "") -> Plugin:
    """The plugin whose root is the module `name`; `top` is the file, or the folder, of its first part.

    Raises: BadInput where a module is gone, is no Python, or is compiled.
    """
    head = name.partition(".")[0]
    if head in sys.stdlib_module_names or head in CORE:
        owner = "headstart" if head in CORE else "Python"
        raise BadInput(f"{place}: {text or name}: {head!r} is a module that {owner} needs; give it another name")
    modules, packages = Closure(top.parent, {head: top}, place).of([name])
    if name not in modules:
        raise BadInput(f"{place}: {text or name}: there is no module {name!r} beside {top}; name its file")
    root = modules.pop(name)
    ordered = (root, *(modules[other] for other in sorted(modules)))
    return Plugin(name, top.parent, source_digest(ordered, place), ordered, versions(packages))


def current_identity(plugin: Plugin) -> Plugin:
    """The same plugin as its files, or its cell, are now. Raises: BadInput as `plugin_identity` does."""
    return plugin_identity(plugin.objects[0]) if plugin.folder is None else identity_of(plugin.name, _top(plugin))


def _top(plugin: Plugin) -> Path:
    """The file, or the folder, of the first part of its root's name."""
    assert plugin.folder is not None
    head, *rest = plugin.name.split(".")
    file = plugin.folder / f"{head}.py"
    return file if not rest and file.is_file() else plugin.folder / head


def source_digest(modules: Iterable[Module], place: str) -> str:
    """First 16 hex digits of the SHA-256 of the modules' normal forms, the root (the first) without its name."""
    root, *others = (module for module in modules)
    head = root.name.partition(".")[0]
    texts = [("", normal_form(module_text(root, place)))]
    for module in others:
        first, _, rest = module.name.partition(".")
        if module.path is not None:
            texts.append((f".{rest}" if first == head else module.name, normal_form(module_text(module, place))))
    total = hashlib.sha256()
    for name, text in sorted(texts):
        content = text.encode("utf-8", errors="surrogatepass")
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:16]


def own_module(name: str, plugin: Plugin) -> bool:
    """Whether a module of this name, which is no part of the plugin, is a file of one's own."""
    assert plugin.folder is not None
    module = Closure(plugin.folder, {plugin.name.partition(".")[0]: _top(plugin)}, "import").read(name)
    return module is not None and module.path is not None


def _found_top(name: str, place: str) -> Path:
    """The file or folder of a module's first part: in the present folder, else where Python looks."""
    head = name.partition(".")[0]
    path = own_top(head, Path.cwd())
    if (
        path is None
        and (spec := module_spec(head)) is not None
        and head not in sys.stdlib_module_names
        and spec.has_location
    ):
        path = Path(str(spec.origin))
        path = path.parent if path.name == "__init__.py" else path
    if path is None and head in (*CORE, *sys.stdlib_module_names):
        path = Path.cwd() / head
    if path is None:
        raise BadInput(
            f"{place}: {name} cannot be imported: there is no module {head!r}; run from its folder, install it, or "
            "name its file"
        )
    return path.absolute()


def _file_top(path: Path, place: str) -> tuple[str, Path]:
    """(dotted name, file or folder of its first part) of a file; folders with an `__init__.py` are packages."""
    if path.suffix != ".py" or not path.is_file():
        what = f"no file {str(path)!r}" if path.suffix == ".py" else f"{str(path)!r} is no FILE.py and no module"
        raise BadInput(f"{place}: {what}; name a file of Python, or a module")
    path = path.absolute()
    parts, top = [re.sub(r"^(?=\d)|\W", "_", path.stem)], path
    if path.name == "__init__.py":
        parts, top = [path.parent.name], path.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
        parts.insert(0, top.name)
    return ".".join(parts), top
