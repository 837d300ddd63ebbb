"""What a class or function of a notebook is made of now: its source, and all that it uses, as it is. Nothing is run."""

from __future__ import annotations
import __future__

import ast
import collections
import enum
import functools
import hashlib
import linecache
import re
import symtable
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from headstart.errors import BadInput
from headstart.plugins.modules import (
    CORE,
    Closure,
    Module,
    Plugin,
    check_visible,
    imported,
    installed,
    run_texts,
    versions,
)
from headstart.plugins.normal import normal_form
from headstart.spec import Spec

PLAIN = (type(None), bool, int, float, complex, str, bytes)
_BY_REPR = (*PLAIN, range, slice, types.EllipsisType)  # all of it is in its `repr`
BOXES = (list, tuple, dict, set, frozenset, types.MappingProxyType, collections.OrderedDict, collections.deque)
_ALIASES = (types.GenericAlias, types.UnionType, __future__._Feature)
_BUILT_IN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_WRITTEN = (
    *("__module__", "__qualname__", "__doc__", "__hash__", "__match_args__", "__firstlineno__", "__signature__"),
    *("__annotate__", "__annotate_func__", "__total__", "__weakref__", "__dict__"),
)
"""Attributes that Python writes into a class."""
_WAY_OUT = "make it in the class, or save the code as a file and name that"


def cell_identity(item: type | types.FunctionType, option: str) -> Plugin:
    """What is defined in `__main__` (a notebook, a script), where no import finds it, with all that it uses there.

    Raises: BadInput, beginning with `option`, where a source cannot be had, or a value that it uses has none.
    """
    contents = Contents(option)
    digest = contents.digest(item, "", item.__qualname__)
    modules, packages = Closure(Path.cwd(), option).of(contents.modules)
    if modules or contents.own:
        names = ", ".join(sorted({*modules, *contents.own}))
        raise BadInput(
            f"{option}: {item.__qualname__} uses {names}, a module of yours that Python keeps as "
            "it was when it was imported; write the class into a file beside it, and name that file"
        )
    source = "\n\n".join(contents.listing).encode("utf-8", errors="surrogatepass")
    cell = Module(item.__name__, Path(f"{item.__name__}.py"), source)
    return Plugin(item.__name__, None, digest[:16], (cell,), versions(packages), objects=(item,))


class Contents:
    """Digests of live objects: of the text of functions and classes and of whatever they reach, of values by value.

    modules: names of modules that are used; own: those of them that are files of a person's own. listing: what counted,
    for people to read.
    """

    def __init__(self, option: str) -> None:
        self.option = option
        self.modules: dict[str, None] = {}
        self.own: dict[str, None] = {}
        self.listing: list[str] = []
        self._digests: dict[int, str] = {}
        self._alive: list[Any] = []  # an id is that of one object as long as the object lives

    def digest(self, value: Any, owner: str, name: str) -> str:
        """SHA-256 of what the value is; `owner` uses it by this `name`. An object within itself is its number."""
        if type(value) in PLAIN:
            return f"{type(value).__name__} {value!r}"
        if id(value) not in self._digests:
            self._digests[id(value)] = f"#{len(self._alive)}"
            self._alive.append(value)
            text = "\0".join(self._parts(value, owner, name))
            self._digests[id(value)] = hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()
        return self._digests[id(value)]

    def _each(self, values: Iterable[tuple[str, Any]], owner: str, before: str = "") -> list[str]:
        """`name digest` of each; what is plain stands in the listing, too."""
        out = []
        for name, value in values:
            out.append(f"{name} {self.digest(value, owner, f'{before}{name}')}")
            if type(value) in PLAIN and not before:
                self.listing.append(f"# {owner}: {name} = {value!r}")
        return out

    def _parts(self, value: Any, owner: str, name: str) -> list[str]:
        """What makes up a value. Raises: BadInput where it is of a type whose content cannot be read."""
        if isinstance(value, types.ModuleType):
            self._uses(value.__name__, getattr(value, "__file__", None))
            return ["module", value.__name__]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value) if value.__module__ == "__main__" else self._installed(value)
        wrapped = _wrapped(value)
        if wrapped is not None:
            own = [] if type(value).__module__ != "__main__" else [("class", type(value)), *vars(value).items()]
            return [type(value).__name__, *self._each([*wrapped, *own], owner, f"{name}.")]
        if isinstance(value, _BUILT_IN):
            receiver = getattr(value, "__self__", None)
            bound = not isinstance(receiver, (types.ModuleType, type, type(None)))
            return [*self._installed(value), *self._each([("__self__", receiver)] if bound else [], owner, f"{name}.")]
        kind = self.digest(type(value), owner, type(value).__name__)
        data = data_text(value)
        if data is not None:
            return [kind, data]
        if type(value) in BOXES:
            return [kind, *self._items(value, owner, name)]
        if type(value).__module__ == "typing" or isinstance(value, _ALIASES):
            inner = [
                (f"[{i}]", item) for i, item in enumerate(getattr(value, "__args__", ())) if isinstance(item, type)
            ]
            return [kind, re.sub(r" at 0x\w+", "", repr(value)), *self._each(inner, owner, name)]
        return [kind, *self._instance(value, owner, name)]

    def _items(self, value: Any, owner: str, name: str) -> list[str]:
        if isinstance(value, Mapping):
            pairs = list(value.items())
            keys = self._each(((f"key {i}", key) for i, (key, _) in enumerate(pairs)), owner, name)
            return keys + self._each(
                ((f"[{key!r}]" if type(key) in PLAIN else "[]", v) for key, v in pairs), owner, name
            )
        ordered = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return self._each(((f"[{i}]", item) for i, item in enumerate(ordered)), owner, name)

    def _instance(self, value: Any, owner: str, name: str) -> list[str]:
        """An object whose content is all in its attributes (and items), as copying it would read it."""
        from torch import nn

        cls = type(value)
        if isinstance(value, enum.Enum):
            return [value.name, *self._each([("value", value.value)], owner, f"{name}.")]
        if isinstance(value, nn.Module):
            return self._each(vars(value).items(), owner, f"{name}.")
        if isinstance(value, Spec):
            return self._each(((key, getattr(value, key)) for key in cls.model_fields), owner, f"{name}.")
        ways = ("__reduce__", "__reduce_ex__", "__getstate__")
        if all(getattr(cls, way) is getattr(object, way) for way in ways):
            try:
                _, (_, *arguments), state, items, pairs = (*object.__reduce_ex__(value, 2), None, None, None)[:5]
            except TypeError:  # it holds what Python cannot see
                pass
            else:
                every = (*arguments, state, *(items or ()), *(part for pair in pairs or () for part in pair))
                return self._each(((f"part {i}", part) for i, part in enumerate(every)), owner, f"{name}: ")
        raise BadInput(
            f"{self.option}: {owner} uses {name!r}, a {cls.__name__} of the notebook, whose source cannot be had; "
            f"{_WAY_OUT}"
        )

    def _installed(self, value: Any) -> list[str]:
        """A class or function that comes with an installed package, by its name."""
        module = getattr(value, "__module__", None) or "builtins"
        self.modules[module] = None
        return [type(value).__name__, module, getattr(value, "__qualname__", repr(value))]

    def _function(self, function: types.FunctionType) -> list[str]:
        """Its text, and what it holds (closure, defaults, attributes) and reads from its module, as it is now."""
        code, label = function.__code__, function.__qualname__
        module = str(function.__globals__.get("__name__"))
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        closure = [(name, cell.cell_contents) for name, cell in cells if cell != types.CellType()]  # not an empty one
        if module != "__main__":
            self._uses(module, code.co_filename)
            known: Any = sys.modules.get(module)
            for part in label.split("."):
                known = getattr(known, part, None)
            # What a library's decorator made is not known by its name: it counts with the function that it wraps.
            return ["function", module, code.co_qualname, *self._each([] if known is function else closure, label)]
        text = _function_source(function, self.option)
        names = self._text(text, label) - set(code.co_freevars)
        defaults = function.__defaults__ or ()
        positional = code.co_varnames[: code.co_argcount]
        return [
            normal_form(text),
            *("closure", *self._each(closure, label)),
            *(
                "defaults",
                *self._each(zip(positional[len(positional) - len(defaults) :], defaults, strict=True), label),
            ),
            *("keywords", *self._each(sorted((function.__kwdefaults__ or {}).items()), label)),
            *("attributes", *self._each(sorted(vars(function).items()), label)),
            *("globals", *self._each(_values(names, function.__globals__), label)),
        ]

    def _class(self, cls: type) -> list[str]:
        """Its text, its bases and its attributes, as they are now."""
        label, functions = cls.__qualname__, list(_functions(cls))
        if not functions and not issubclass(cls, Spec):
            # All of it is in its attributes.
            kinds = vars(cls).get("__dataclass_fields__", {})
            more = (("a kind", kinds[key]) for key in sorted(kinds))
            return ["class", label, *self._bases(cls), *self._each([*sorted(_attributes(cls)), *more], label)]
        text = _class_source(cls, functions, self.option)
        scope = functions[0].__globals__
        free = {name for function in functions for name in function.__code__.co_freevars}
        names = self._text(text, label) - free
        return [
            normal_form(text),
            *self._bases(cls),
            *("fields", *self._each(_fields(cls), label, "the field ")),
            *("attributes", *self._each(sorted(_attributes(cls)), label)),
            *("globals", *self._each(_values(names, scope), label)),
        ]

    def _bases(self, cls: type) -> list[str]:
        pairs = ((base.__name__, base) for base in (*cls.__bases__, type(cls)))
        return ["bases", *self._each(pairs, cls.__qualname__)]

    def _uses(self, module: str, file: str | None) -> None:
        """Note a module that is used. file: where its code is from; an own file counts wherever it was loaded from."""
        self.modules[module] = None
        head = module.partition(".")[0]
        known = head in CORE or head in sys.stdlib_module_names or head.startswith("namedtuple_")
        if not known and (file is None or not (file.startswith("<") or installed(Path(file)))):
            self.own[module] = None

    def _text(self, text: str, label: str) -> set[str]:
        """Names that it reads from its module; what it imports is noted, and what hides an import refused."""
        tree = ast.parse(text)
        check_visible(tree, f"{self.option}: {label}", ("globals",))
        self.listing.append(text)
        self.modules.update(dict.fromkeys(imported(tree)))
        return _globals(text)


def _wrapped(value: Any) -> list[tuple[str, Any]] | None:
    """What a wrapper of functions holds, None where the value is none."""
    if isinstance(value, (staticmethod, classmethod)):
        return [("__func__", value.__func__)]
    if isinstance(value, types.MethodType):
        return [("__func__", value.__func__), ("__self__", value.__self__)]
    if isinstance(value, property):
        return [("fget", value.fget), ("fset", value.fset), ("fdel", value.fdel)]
    if isinstance(value, functools.cached_property):
        return [("func", value.func)]
    if isinstance(value, functools.partial):
        return [("func", value.func), ("args", value.args), ("keywords", value.keywords)]
    if isinstance(value, functools._lru_cache_wrapper):
        return [("__wrapped__", value.__wrapped__)]
    if isinstance(value, re.Pattern):
        return [("pattern", value.pattern), ("flags", value.flags)]
    return None


def data_text(value: Any) -> str | None:
    """Plain data as text: numbers, arrays and tensors with all their elements. None for anything else."""
    import numpy as np
    import torch

    if type(value) in _BY_REPR or isinstance(value, (PurePath, torch.dtype, torch.device, torch.Size, np.dtype)):
        return repr(value)
    if isinstance(value, np.ufunc):
        return repr(value) if getattr(np, value.__name__, None) is value else None
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided:
        flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)
        facts = f"{value.dtype} {tuple(value.shape)} {value.device} {value.requires_grad}"
        return f"{facts} {hashlib.sha256(flat.numpy().tobytes()).hexdigest()}"
    if (type(value) is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
        return f"{value.dtype!r} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return None


def _values(names: Iterable[str], scope: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, scope[name]) for name in sorted(names) if name in scope]


def _fields(cls: type) -> Iterator[tuple[str, Any]]:
    """Defaults of a spec's fields, and what makes them."""
    for name, field in cls.model_fields.items() if issubclass(cls, Spec) else ():
        yield name, None if field.is_required() else field.default
        yield name, field.default_factory


def _attributes(cls: type) -> Iterator[tuple[str, Any]]:
    """What a class holds, without what Python, pydantic and headstart write into it beside its text."""
    for name, value in vars(cls).items():
        if name in ("_abc_impl", "source_digest") or isinstance(value, types.MemberDescriptorType):
            continue
        function = getattr(value, "__func__", value)
        own = isinstance(function, types.FunctionType) and function.__globals__.get("__name__") == "__main__"
        generated = "__dataclass_fields__" in vars(cls) and isinstance(function, types.FunctionType)
        generated = generated and (function.__code__.co_filename == "<string>" if own else name.startswith("__"))
        set_later = type(value) in PLAIN or isinstance(value, (types.FunctionType, functools.partial, staticmethod))
        special = re.fullmatch("__.*__", name) and (name in _WRITTEN or name.startswith("__pydantic_") or not set_later)
        if (own and not generated) or not (special or generated):
            yield name, value


def _globals(text: str) -> set[str]:
    """Names that a class or function reads from its module."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() if table.get_type() == "module" else symbol.is_global():
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    texts = [text, *map(ast.unparse, run_texts(ast.parse(text)))]
    return {name for each in texts for name in walk(symtable.symtable(each, "cell", "exec"))}


def _function_source(function: types.FunctionType, option: str) -> str:
    """The text of a function, as IPython's or Python's cache of lines has it.

    Raises: BadInput where there is none, or where it is not the code that runs (a script that was edited meanwhile).
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename))
    if _runs(text, code):
        nodes = [node for node in ast.walk(ast.parse(text)) if _is_source(node, code)]
        if len(nodes) == 1:
            return _segment(text, nodes[0])
    raise _no_source(function, option)


def _is_source(node: Any, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return is_function and node.name == code.co_name and _first_line(node) == code.co_firstlineno


def _class_source(cls: type, functions: Iterable[types.FunctionType], option: str) -> str:
    """The text of a class, where its functions stand. Raises: BadInput as `_function_source` does."""
    sources = set()
    for function in functions:
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename))
        nodes: Iterable[Any] = ast.walk(ast.parse(text)) if _runs(text, code) else ()
        for node in nodes:
            named = isinstance(node, ast.ClassDef) and node.name == cls.__name__
            if named and node.lineno <= code.co_firstlineno <= node.end_lineno:
                sources.add(_segment(text, node))
    if len(sources) != 1:
        raise _no_source(cls, option)
    return sources.pop()


def _segment(text: str, node: Any) -> str:
    if isinstance(node, ast.Lambda):
        return f"({ast.get_source_segment(text, node)})\n"
    # Not `splitlines`, for which a form feed ends a line, too.
    return textwrap.dedent("\n".join(text.split("\n")[_first_line(node) - 1 : node.end_lineno]) + "\n")


def _first_line(node: Any) -> int:
    return int(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))


def _no_source(item: Any, option: str) -> BadInput:
    return BadInput(
        f"{option}: the source of {item.__qualname__} cannot be had, or is not the code that runs; write it into a "
        "file and name that with --plugin or plugins=[...]"
    )


def _functions(cls: type) -> Iterator[types.FunctionType]:
    """Functions that stand in the text of the class."""
    for value in vars(cls).values():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if isinstance(function, types.FunctionType) and function.__globals__.get("__name__") == "__main__":
            inside = function.__qualname__.startswith(f"{cls.__qualname__}.")
            if inside and function.__code__.co_filename != "<string>":
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
