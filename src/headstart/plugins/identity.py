"""What a plugin is made of, as it stands on disk or in a notebook now, and the digest of it. Nothing is run here."""

from __future__ import annotations
import __future__

import ast
import hashlib
import linecache
import os
import re
import symtable
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headstart.errors import BadInput
from headstart.plugins.modules import CORE, Closure, Module, Plugin, imported, module_text, top_path, versions
from headstart.plugins.normal import normal_form

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def plugin_identity(source: str | os.PathLike[str] | type | types.FunctionType, option: str = "--plugin") -> Plugin:
    """The code that a file, a module, or a class or function of a notebook is made of, and its digest.

    The digest is of the source text (see `normal_form`) of the root module and of every module of a person's own that
    is imported from there, directly or not, also inside functions. Names of helper modules count, since import
    statements use them; the root's own name does not.
    Raises: BadInput, beginning with `option`, where there is no such code, or its source cannot be had.
    """
    if isinstance(source, (type, types.FunctionType)):
        return _cell_identity(source, option)
    text = os.fspath(source)
    is_name = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text) is not None and not text.endswith(".py")
    name, top = (text, None) if is_name else _file_top(Path(text), option)
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


def _file_top(path: Path, option: str) -> tuple[str, Path]:
    """(dotted name, file or folder of its first part) of a file; folders with an `__init__.py` are packages."""
    if path.suffix != ".py" or not path.is_file():
        what = f"no file {str(path)!r}" if path.suffix == ".py" else f"{str(path)!r} is neither a .py file nor a module"
        raise BadInput(f"{option}: {what}; name a Python file or a module")
    path = path.absolute()
    parts, top = [re.sub(r"^(?=\d)|\W", "_", path.stem)], path
    if path.name == "__init__.py":
        parts, top = [path.parent.name], path.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
        parts.insert(0, top.name)
    return ".".join(parts), top


def _cell_identity(item: type | types.FunctionType, option: str) -> Plugin:
    """What is defined in `__main__` (a notebook, a script), where no import finds it, with all that it uses there."""
    texts: dict[str, str] = {}
    names: dict[str, None] = {}
    _collect(item, texts, names, option)
    modules, packages = Closure(Path.cwd(), option).of(names)
    if modules:
        raise BadInput(
            f"{option}: {item.__qualname__} uses {', '.join(sorted(modules))}, a module of yours that Python keeps as "
            "it was when it was imported; write the class into a file beside it, and name that file"
        )
    content = "\0".join(normal_form(texts[name]) for name in sorted(texts)).encode("utf-8", errors="surrogatepass")
    source = "\n\n".join(texts.values()).encode("utf-8", errors="surrogatepass")
    cell = Module(item.__name__, Path(f"{item.__name__}.py"), source)
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Plugin(item.__name__, None, digest, (cell,), versions(packages), objects=(item,))


def _collect(item: Any, texts: dict[str, str], names: dict[str, None], option: str) -> None:
    """Source texts of the item and of what it uses, by name; `names` of modules that it imports."""
    label = getattr(item, "__qualname__", repr(item))
    if label in texts:
        return
    text = textwrap.dedent(_source(item, option))
    texts[label] = text
    names.update(dict.fromkeys(imported(ast.parse(text))))
    scope = vars(sys.modules["__main__"])
    for name in sorted(_globals(text)):
        if name not in scope or scope[name] is item:
            continue
        value = scope[name]
        if isinstance(value, types.ModuleType):
            names[value.__name__] = None
        elif isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            _collect(value, texts, names, option)
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            names[str(value.__module__)] = None
        elif _plain(value):
            texts[name] = f"{name} = {value!r}"
        elif type(value).__module__ not in ("typing", "types", "__future__"):
            raise BadInput(
                f"{option}: {label} uses {name!r}, a {type(value).__name__} of the notebook, whose source cannot be "
                "had; make it in the class, or save the code as a file and name that"
            )


def _plain(value: Any) -> bool:
    """Whether `repr` says all of it."""
    if isinstance(value, (tuple, list)):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(_plain(key) and _plain(item) for key, item in value.items())
    return type(value) in _PLAIN


def _globals(text: str) -> set[str]:
    """Names that a class or function reads from its module."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_global() or (table.get_type() == "module" and symbol.is_referenced()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    return set(walk(symtable.symtable(text, "cell", "exec")))


def _source(item: Any, option: str) -> str:
    """The text of a class or function, as IPython's or Python's cache of lines has it.

    Raises: BadInput where there is none, or where it is not the code that runs (a script that was edited meanwhile).
    """
    functions = [item] if isinstance(item, types.FunctionType) else list(_functions(item))
    codes = [function.__code__ for function in functions if function.__code__.co_filename != "<string>"]
    texts = {code.co_filename: "".join(linecache.getlines(code.co_filename)) for code in codes}
    if len(texts) == 1 and all(_runs(texts[code.co_filename], code) for code in codes):
        (text,) = texts.values()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name != item.__name__:
                continue
            if node.lineno <= _line(node, codes[0]) <= (node.end_lineno or 0):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return "".join(text.splitlines(keepends=True)[first - 1 : node.end_lineno])
    raise BadInput(
        f"{option}: the source of {item.__qualname__} cannot be had, or is not the code that runs; write it into a "
        "file and name that with --plugin or plugins=[...]"
    )


def _line(node: Any, code: types.CodeType) -> int:
    """A line of the code that lies in its definition (a function's first line may be that of a decorator)."""
    return max(node.lineno, code.co_firstlineno) if isinstance(node, ast.FunctionDef) else code.co_firstlineno


def _functions(cls: type) -> Iterator[types.FunctionType]:
    for value in vars(cls).values():
        function = getattr(value, "__func__", value)
        if isinstance(function, types.FunctionType) and function.__qualname__.startswith(f"{cls.__qualname__}."):
            yield function


def _runs(text: str, code: types.CodeType) -> bool:
    """Whether this text compiles to the code, as a whole or (as IPython does it) statement by statement."""
    try:
        pieces: list[Any] = [text, *(ast.Module([node], []) for node in ast.parse(text).body)]
        flags = code.co_flags & _FUTURE
        waiting = [compile(piece, code.co_filename, "exec", flags=flags, dont_inherit=True) for piece in pieces]
    except (SyntaxError, ValueError):
        return False
    while waiting:
        inner = waiting.pop()
        if inner == code:
            return True
        waiting += [value for value in inner.co_consts if isinstance(value, types.CodeType)]
    return False
