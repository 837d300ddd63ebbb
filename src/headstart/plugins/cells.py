"""What a class or function of a notebook is made of now: its source, and what it uses there. Nothing is run.

What has neither a source nor plain content is refused: such code belongs into a file.
"""

from __future__ import annotations
import __future__

import ast
import dis
import hashlib
import inspect
import linecache
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headstart.errors import BadInput
from headstart.normal import normal_form
from headstart.plugins.identity import Closure, Module, Plugin, imported, is_library, refuse_hidden, versions
from headstart.spec import Spec

PLAIN_TYPES = (type(None), bool, int, float, complex, str, bytes)
_BOXES = (list, tuple, dict, set, frozenset)
_WRAPPERS = ("__func__", "fget", "fset", "fdel", "func")  # where class methods and properties hold their functions
_WRITTEN = ("__module__", "__qualname__", "__doc__", "__firstlineno__", "_abc_impl", "source_digest")
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def cell_identity(item: type | types.FunctionType, option: str, way: str = 'plugins=["my.py"]') -> Plugin:
    """What is defined in `__main__` (a notebook, a script), where no import finds it, with all that it uses there.

    way: how a file is named instead.
    Raises: BadInput, beginning with `option`, where a source cannot be had, or a value that it uses has no content.
    """
    contents = _Contents(option, way)
    digest = contents.digest(item, item.__qualname__, "")
    modules, packages = Closure(Path.cwd(), option).of(contents.modules)
    unseen = sorted({*modules, *(name for name in contents.modules if name in sys.modules and not is_library(name))})
    if unseen:
        raise contents.refusal(f"{item.__qualname__} uses {', '.join(unseen)}, a module of yours")
    source = "\n\n".join(contents.listing).encode("utf-8", errors="surrogatepass")
    cell = Module(item.__name__, Path(f"{item.__name__}.py"), source)
    return Plugin(item.__name__, None, digest[:16], (cell,), versions(packages), objects=(item,))


class _Contents:
    """Digests of live objects: of functions and classes of `__main__` by their text and what it uses, of data by value.

    modules: names of modules that are used. listing: what counted, for people to read.
    """

    def __init__(self, option: str, way: str) -> None:
        self.option, self.way = option, way
        self.modules: dict[str, None] = {}
        self.listing: list[str] = []
        self._digests: dict[int, str] = {}
        self._alive: list[Any] = []  # an id is that of one object as long as the object lives

    def digest(self, value: Any, name: str, user: str) -> str:
        """SHA-256 of what the value is; `user` has it by this `name`. An object within itself is its number.

        Raises: BadInput where it has neither a source nor content that can be read.
        """
        if type(value) in PLAIN_TYPES:
            return f"{type(value).__name__} {value!r}"
        if id(value) not in self._digests:
            self._digests[id(value)] = f"#{len(self._alive)}"
            self._alive.append(value)
            text = "\0".join(self._parts(value, name, user))
            self._digests[id(value)] = hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()
        return self._digests[id(value)]

    def refusal(self, what: str) -> BadInput:
        """What is said of code that cannot be hashed."""
        return BadInput(
            f"{self.option}: {what}; put the code into a file of its own (in a notebook: `%%writefile my.py` above its "
            f"cell) and name that: {self.way}"
        )

    def _each(self, values: Iterable[tuple[str, Any]], user: str) -> list[str]:
        return [f"{name} {self.digest(value, name, user)}" for name, value in values]

    def _parts(self, value: Any, name: str, user: str) -> list[str]:
        cls, receiver = type(value), getattr(value, "__self__", None)
        if cls in _BOXES:
            ordered = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
            pairs = ordered.items() if isinstance(ordered, dict) else enumerate(ordered)
            return [cls.__name__, *self._each(((f"{name}[{key!r}]", item) for key, item in pairs), user)]
        if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            self.modules[value.__name__] = None
            return ["module", value.__name__]
        if isinstance(value, types.FunctionType) and inspect.unwrap(value).__module__ == "__main__":
            return self._function(value)
        if isinstance(value, type) and value.__module__ == "__main__":
            return self._class(value)
        of_library = isinstance(value, types.BuiltinFunctionType) and isinstance(
            receiver, (types.ModuleType, type, type(None))
        )
        if of_library or isinstance(value, type) or (isinstance(value, types.FunctionType) and not value.__closure__):
            self.modules[value.__module__ or "builtins"] = None
            return [cls.__name__, value.__module__ or "builtins", value.__qualname__]
        constant = cls.__module__ == "torch" and not hasattr(value, "__dict__")  # `torch.float32`
        if constant or cls.__module__ == "typing" or isinstance(value, (types.GenericAlias, types.UnionType)):
            return [cls.__name__, repr(value)]
        raise self.refusal(f"{user} uses {name!r}, a {cls.__name__}, whose content cannot be hashed")

    def _function(self, function: types.FunctionType) -> list[str]:
        """The statement of a cell in which it stands, and all that this reads and the function holds, as it is now."""
        label, inner = function.__qualname__, inspect.unwrap(function)
        closure = {*inner.__code__.co_freevars} - {"__class__"}
        if closure:
            raise self.refusal(f"{label} uses {min(closure)!r}, a variable of the function that made it")
        text = self._source(inner.__code__, label)
        if function is not inner and not re.match(r"\s*@", text):
            raise self.refusal(f"{label} is wrapped outside of its text")
        return self._read(text, label, inner.__globals__, [inner])

    def _class(self, cls: type) -> list[str]:
        """The statement of a cell in which it stands, its bases and its attributes, as they are now."""
        label, attributes = cls.__qualname__, sorted(_attributes(cls))
        functions = [function for _, value in attributes for function in _functions(value)]
        texts = {self._source(function.__code__, label) for function in functions}
        if len(texts) != 1 or f"class {cls.__name__}" not in "".join(texts):
            raise self.refusal(f"the source of {label} cannot be had, or is not the code that runs")
        others = [(name, value if not (own := _functions(value)) else own[0].__name__) for name, value in attributes]
        others += [(base.__name__, base) for base in (*cls.__bases__, type(cls))]
        if issubclass(cls, Spec):
            others += [(name, field.default) for name, field in cls.model_fields.items() if not field.is_required()]
        return self._read(texts.pop(), label, functions[0].__globals__, functions) + self._each(others, label)

    def _read(
        self, text: str, label: str, scope: Mapping[str, Any], functions: Iterable[types.FunctionType]
    ) -> list[str]:
        """A text, the globals that it reads, and the defaults and attributes of its functions."""
        tree = ast.parse(text)
        refuse_hidden(tree, f"{self.option}: {label}", ("globals",))
        self.listing.append(text)
        self.modules.update(dict.fromkeys(imported(tree)))
        values = [(name, scope[name]) for name in sorted(_globals(text)) if name in scope]
        for function in functions:
            defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
            values += [(f"default {i} of {function.__name__}", item) for i, item in enumerate(defaults)]
            values += [(f"{function.__name__}.{key}", item) for key, item in vars(function).items()]
        self.listing += [f"# {label}: {name} = {value!r}" for name, value in values if type(value) in PLAIN_TYPES]
        return [normal_form(text), *self._each(values, label)]

    def _source(self, code: types.CodeType, label: str) -> str:
        """The statement of its cell in which code stands, as IPython's or Python's cache of lines has it.

        Raises: BadInput where there is none, or another than the code that runs (of an edited script).
        """
        text = "".join(linecache.getlines(code.co_filename))
        with_ends = text.split("\n")  # not `splitlines`, for which a form feed ends a line, too
        try:
            for node in ast.parse(text).body:
                first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
                if first <= code.co_firstlineno <= (node.end_lineno or first) and _runs(text, node, code):
                    return "\n".join(with_ends[first - 1 : node.end_lineno]) + "\n"
        except (SyntaxError, ValueError):
            pass
        raise self.refusal(f"the source of {label} cannot be had, or is not the code that runs")


def _attributes(cls: type) -> Iterator[tuple[str, Any]]:
    """What a class holds, without what Python, pydantic and headstart write into it beside its text."""
    for name, value in vars(cls).items():
        functions = _functions(value)
        generated = any(function.__code__.co_filename == "<string>" for function in functions)  # by a dataclass
        special = re.fullmatch("__.*__", name) and not (functions or type(value) in PLAIN_TYPES[1:])
        if not (special or generated or name in _WRITTEN or isinstance(value, types.MemberDescriptorType)):
            yield name, value


def _functions(value: Any) -> list[types.FunctionType]:
    """The functions of `__main__` that an attribute of a class is or holds."""
    inner = [getattr(value, name, None) for name in _WRAPPERS]
    functions = [inspect.unwrap(item) for item in (value, *inner) if isinstance(item, types.FunctionType)]
    return [function for function in functions if function.__globals__.get("__name__") == "__main__"]


def _globals(text: str) -> set[str]:
    """Names that a statement reads from its module."""
    codes = _codes([compile(text, "cell", "exec", dont_inherit=True)])
    loads = (item for code in codes for item in dis.get_instructions(code))
    return {item.argval for item in loads if item.opname in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")}


def _codes(codes: Iterable[types.CodeType]) -> Iterator[types.CodeType]:
    """These and all within them."""
    for code in codes:
        yield from (code, *_codes(item for item in code.co_consts if isinstance(item, types.CodeType)))


def _runs(text: str, node: ast.stmt, code: types.CodeType) -> bool:
    """Whether the text of a cell compiles to the code, as a whole or (as IPython does it) this statement alone."""
    pieces: tuple[Any, Any] = (text, ast.Module([node], []))
    flags = code.co_flags & _FUTURE
    compiled = [compile(piece, code.co_filename, "exec", flags=flags, dont_inherit=True) for piece in pieces]
    return code in _codes(compiled)
