"""What a plugin is made of, as it stands on disk or in a notebook now, and the digest of it. Nothing is run here."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import types
from collections.abc import Iterable
from pathlib import Path

from headstart.errors import BadInput
from headstart.plugins.cells import cell_identity
from headstart.plugins.modules import CORE, Closure, Module, Plugin, module_text, top_path, versions
from headstart.plugins.normal import normal_form


def plugin_identity(source: str | os.PathLike[str] | type | types.FunctionType, option: str = "--plugin") -> Plugin:
    """The code that a file, a module, or a class or function of a notebook is made of, and its digest.

    The digest is of the source text (see `normal_form`) of the root module and of every module of a person's own that
    is imported from there, directly or not, also inside functions. Names of helper modules count, since import
    statements use them; the root's own name does not.
    Raises: BadInput, beginning with `option`, where there is no such code, or its source cannot be had.
    """
    if isinstance(source, (type, types.FunctionType)):
        return cell_identity(source, option)
    text = os.fspath(source)
    is_name = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text) is not None and not text.endswith(".py")
    name, top = (text, None) if is_name else _file_top(text, option)
    head = name.partition(".")[0]
    if head in sys.stdlib_module_names or head in CORE:
        owner = "headstart" if head in CORE else "Python"
        raise BadInput(f"{option}: {text}: {head!r} is a module that {owner} needs; give it another name")
    top = top or top_path(head, Path.cwd(), also_installed=True)
    if top is None and Path(text).is_file():
        raise BadInput(f"{option}: {text}: is not a file of Python; name one that ends in .py")
    if top is None:
        raise BadInput(
            f"{option}: {text} cannot be imported: there is no module {head!r}; run from its folder, install it, or "
            "name its file"
        )
    return _files_identity(name, top.absolute(), option)


def current_identity(plugin: Plugin) -> Plugin:
    """The same plugin as its files, or its cell, are now. Raises: BadInput as `plugin_identity` does."""
    return plugin_identity(plugin.objects[0]) if plugin.top is None else _files_identity(plugin.name, plugin.top)


def changed_files(plugin: Plugin, now: Plugin) -> str:
    """`helper.py has`: files whose text means something else now, or that came or went; a notebook's class by name."""
    before, after = (
        {
            module.path: normal_form(module_text(module, "plugin"))
            for module in state.modules
            if state.top and module.path
        }
        for state in (plugin, now)
    )
    files = sorted(path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return f"{' and '.join(files or [plugin.file])} {'have' if len(files) > 1 else 'has'}"


def is_own_module(name: str, plugin: Plugin) -> bool:
    """Whether a module of this name, which is not part of the plugin, is a file of a person's own."""
    if plugin.top is None:
        return False
    module = Closure(plugin.top.parent, "import", {plugin.name.partition(".")[0]: plugin.top}).read(name)
    return module is not None and module.path is not None


def _files_identity(name: str, top: Path, option: str = "--plugin") -> Plugin:
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
    texts = [("", normal_form(module_text(root, option)))]
    for module in others:
        first, _, rest = module.name.partition(".")
        if module.path is not None:
            texts.append((f".{rest}" if first == head else module.name, normal_form(module_text(module, option))))
    total = hashlib.sha256()
    for name, text in sorted(texts):
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
