"""Code of a notebook's cells, or of the script that runs: what is defined in `__main__`, where no import finds it."""

from __future__ import annotations
import __future__

import ast
import hashlib
import linecache
import symtable
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headstart.errors import BadInput
from headstart.plugins.modules import Module, Plugin, closure_of, imported, versions
from headstart.plugins.normal import normal_form

PLAIN = (type(None), bool, int, float, complex, str, bytes)
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def cell_identity(item: type | types.FunctionType, place: str) -> Plugin:
    """The class or function with all that it uses of `__main__`: other classes and functions, plain values, imports.

    Raises: BadInput where the source of something cannot be had, or is not what runs.
    """
    texts: dict[str, str] = {}
    names: dict[str, None] = {}
    _collect(item, texts, names, place)
    modules, packages = closure_of(list(names), Path.cwd(), place)
    if modules:
        raise BadInput(
            f"{place}: {item.__qualname__} uses {', '.join(sorted(modules))}, a module of yours that Python keeps as "
            "it was when it was imported; write the class into a file beside it, and name that file"
        )
    content = "\0".join(normal_form(texts[name]) for name in sorted(texts)).encode("utf-8", errors="surrogatepass")
    source = "\n\n".join(texts.values()).encode("utf-8", errors="surrogatepass")
    cell = Module(item.__name__, Path(f"{item.__name__}.py"), source)
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Plugin(item.__name__, None, digest, (cell,), versions(packages), objects=(item,))


def _collect(item: Any, texts: dict[str, str], names: dict[str, None], place: str) -> None:
    """Source texts of the item and of what it uses, by name; `names` of modules that it imports."""
    label = getattr(item, "__qualname__", repr(item))
    if label in texts:
        return
    text = textwrap.dedent(_source(item, place))
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
            _collect(value, texts, names, place)
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            names[str(value.__module__)] = None
        elif _plain(value):
            texts[name] = f"{name} = {value!r}"
        elif type(value).__module__ not in ("typing", "types", "__future__"):
            raise BadInput(
                f"{place}: {label} uses {name!r}, a {type(value).__name__} of the notebook, whose source cannot be "
                "had; make it in the class, or save the code as a file and name that"
            )


def _plain(value: Any) -> bool:
    """Whether `repr` says all of it."""
    if isinstance(value, (tuple, list)):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(_plain(key) and _plain(item) for key, item in value.items())
    return type(value) in PLAIN


def _globals(text: str) -> set[str]:
    """Names that a class or function reads from its module."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_global() or (table.get_type() == "module" and symbol.is_referenced()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    return set(walk(symtable.symtable(text, "cell", "exec")))


def _source(item: Any, place: str) -> str:
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
        f"{place}: the source of {item.__qualname__} cannot be had, or is not the code that runs; write it into a file "
        "and name that with --plugin or plugins=[...]"
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
