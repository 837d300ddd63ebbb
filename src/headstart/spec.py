"""Typed, frozen specs: strict reading, errors that name the place, identity, tables of kinds.

A spec is data. Every field that can change a result is in one; its identity is a hash of all of them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from headstart.documents import as_tuples, sorted_json
from headstart.errors import BadInput, nearest

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Spec(BaseModel):
    """Base of all specs: frozen, strict, no unknown key, an integer `version` raised when results change.

    What a field does stands behind it, as a docstring of its own: the reference of keys, the JSON schema and
    `headstart show` are made from these.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    version: ClassVar[int] = 1
    source_digest: ClassVar[str] = ""
    """Of a kind that a plugin registered: the digest of its code, since no version number speaks for it."""
    former: ClassVar[Mapping[str, Any]] = {}
    """Fields that went, each with the one value that it had: identities taken with them stand, and stored documents are
    read."""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, table: Any) -> Any:
        """Refuse a misspelt key here, where the right ones are known; lists of TOML and JSON become tuples."""
        if isinstance(table, Mapping):
            table = {key: value for key, value in table.items() if (key, value) not in cls.former.items()}
            for key in table:
                if key not in cls.model_fields:
                    raise PydanticCustomError(
                        "unknown_key", "{text}", {"key": str(key), "text": nearest(key, cls.model_fields)}
                    )
            return {key: as_tuples(v) for key, v in table.items()}
        return table

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in texts_of(cls).items():
            properties.get(name, {}).setdefault("description", text)
        return schema

    def document(self, *, places: bool = True) -> dict[str, Any]:
        """The spec as sorted-JSON material: defaults written out, neutral fields left out while neutral.

        places False leaves out fields that say where something is: so an identity is taken, beside the content.
        """
        out: dict[str, Any] = {"version": self.version, **self.former}
        for name, info, is_neutral, is_place in _fields(type(self)):
            value = getattr(self, name)
            if is_neutral and value == info.get_default(call_default_factory=True):
                continue
            if places or not is_place:
                out[name] = _plain(value, places)
        return {**out, "source digest": self.source_digest} if self.source_digest else out


def texts_of(cls: type[Spec]) -> dict[str, str]:
    """What each field does: the docstring behind it in the class that declares it, as far as its source can be had.

    They are read when they are asked for: pydantic's `use_attribute_docstrings` parses the source of each class that is
    made, which takes three quarters of the time of making it.
    """
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Spec) and base is not Spec:
            texts |= _texts_behind(base)
    return {name: text for name, text in texts.items() if text and name in cls.model_fields}


@functools.cache
def _texts_behind(cls: type[Spec]) -> dict[str, str]:
    """The fields that a class declares itself; empty texts where nothing is said of them."""
    import ast
    import inspect
    import textwrap

    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    texts = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match after:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    texts[node.target.id] = inspect.cleandoc(text)
                case _:
                    texts[node.target.id] = ""
    return texts


Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A seed: 64 bits, as `bits` counts."""


def neutral(default: Any, **rules: Any) -> Any:
    """A field that is left out of the identity while it has this value (for fields added later)."""
    return Field(default=default, json_schema_extra={"neutral": True}, **rules)


def place(default: Any = ..., **rules: Any) -> Any:
    """A field that says where data are: stored and told apart by it, but no part of an identity, which holds their
    content instead."""
    return Field(default=default, json_schema_extra={"place": True}, **rules)


@functools.cache
def _fields(cls: type[Spec]) -> list[tuple[str, Any, bool, bool]]:
    """(name, field, neutral, place) of each field."""
    fields = cls.model_fields.items()
    return [(name, info, _marked(info, "neutral"), _marked(info, "place")) for name, info in fields]


def _marked(field: Any, mark: str) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))


def _plain(value: Any, places: bool) -> Any:
    if isinstance(value, (str, int, float)) or value is None:  # nearly all, and looking for a Mapping takes long
        return value
    if isinstance(value, Spec):
        return value.document(places=places)
    if isinstance(value, Mapping):
        return {str(k): _plain(v, places) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, places) for v in value]
    return value


def digest(document: Any) -> str:
    """First 16 hex digits of the SHA-256 of a document's sorted JSON."""
    return digest_of(sorted_json(document).decode())


def digest_of(text: str) -> str:
    """`digest` of the document whose `sorted_json` this is."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    """One line of a table of kinds: where its spec class is, and facts that `ls` prints without importing it."""

    path: str
    summary: str
    source: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> type[Any]:
        """Import the spec class (`module:Class`)."""
        module, _, name = self.path.partition(":")
        cls: type[Any] = getattr(importlib.import_module(module), name)
        return cls


def spec_of_kind(table: Mapping[str, Entry], value: Any) -> Any:
    """Read a dict with a `kind` into the spec class that the table names; a spec passes through.

    Raises: PydanticCustomError naming the nearest known kind (as part of a validation).
    """
    if isinstance(value, Spec):
        cls, line = type(value), table.get(getattr(value, "kind", ""))
        own = cls.__module__.startswith("headstart.") or "source_digest" in vars(cls)
        if own or (line is not None and line.load() is cls):
            return value
        name = cls.__qualname__
        text = (
            f"{name} is not registered, so that its code would not count; call headstart.register_mixer (or _task, ...)"
        )
        raise PydanticCustomError("kind", "{text}", {"text": text})
    if not isinstance(value, Mapping):
        raise PydanticCustomError("kind", "{text}", {"text": f"{value!r} is not a table with a 'kind'"})
    if "kind" not in value:
        kinds = ", ".join(sorted(table))
        raise PydanticCustomError("kind", "{text}", {"text": f"no 'kind' given; there are: {kinds}"})
    kind = value["kind"]
    if isinstance(kind, str) and ":" in kind:
        text = f"{kind!r} names code, which only the command line and Python may; register the class in a plugin, and "
        raise PydanticCustomError("unknown_kind", "{text}", {"key": "kind", "text": f"{text}name that with --plugin"})
    if not isinstance(kind, str) or kind not in table:
        text = nearest(kind, table)
        text += "" if "did you mean" in text else "; a kind of your own needs its plugin (--plugin FILE.py)"
        raise PydanticCustomError("unknown_kind", "{text}", {"key": "kind", "text": text})
    try:
        return table[kind].load().model_validate(dict(value))
    except ValidationError as error:
        raise PydanticCustomError("nested", "{text}", {"text": str(error), "lines": _lines(error)}) from None


S = TypeVar("S")


def kind_field(base: type[Any], table: Mapping[str, Entry]) -> Any:
    """Annotation of a field that holds any spec of a table."""
    # mypy reads Annotated as a type, which a class that is a value cannot be: hence Any.
    wrapped: Any = SerializeAsAny
    return Annotated[wrapped[base], BeforeValidator(lambda value: spec_of_kind(table, value))]


def read(cls: type[S], value: Any, name: str = "") -> S:
    """Validate into a spec; what is wrong becomes one BadInput that names each place, value and way out."""
    try:
        return cls.model_validate(value)  # type: ignore[attr-defined, no-any-return]
    except ValidationError as error:
        try:
            lines = [f"{_join(name, where)}: {what}" for where, what in _lines(error)]
        except UnicodeEncodeError as half:
            text = half.object[:80].encode("ascii", "backslashreplace").decode()
            lines = [_join(name, f"the text '{text}' holds half a character, as no file should; write it anew")]
        raise BadInput("\n".join(lines)) from None


def _join(*parts: str) -> str:
    return ".".join(p for p in parts if p).replace(".[", "[")


_SHAPES = {
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
}
"""What a person wrote is TOML, whose words are not those of Python."""


def _lines(error: ValidationError) -> list[tuple[str, str]]:
    """(place, what is wrong) of each mistake, nested tables of kinds included."""
    out: list[tuple[str, str]] = []
    for item in error.errors(include_url=False):
        where = _join(*(f"[{p}]" if isinstance(p, int) else str(p) for p in item["loc"]))
        context = item.get("ctx", {})
        if item["type"] == "nested":
            out += [(_join(where, inner), what) for inner, what in context["lines"]]
        elif item["type"] in ("unknown_key", "unknown_kind"):
            out.append((_join(where, context["key"]), context["text"]))
        elif item["type"] == "missing":
            out.append((where, "is missing"))
        else:
            message = item["msg"].removeprefix("Value error, ").replace("Input should", "should")
            text = _SHAPES.get(item["type"], message)
            value = list(item["input"]) if isinstance(item["input"], tuple) else item["input"]
            shown = "" if isinstance(value, (Mapping, Spec)) or item["type"] == "kind" else f"{value!r} "
            out.append((where, f"{shown}{text}"))
    return list(dict.fromkeys(out))


def merge(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge, later tables win; a table of another `kind` replaces the earlier one whole."""
    out: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            old = out.get(key)
            if isinstance(value, Mapping) and isinstance(old, Mapping) and not other_kind(old, value):
                out[key] = merge(old, value)
            else:
                out[key] = merge(value) if isinstance(value, Mapping) else value
    return out


def other_kind(old: Mapping[str, Any], new: Any) -> bool:
    """Whether the value is a table that names another kind than the old one does."""
    return isinstance(new, Mapping) and "kind" in new and "kind" in old and new["kind"] != old["kind"]


def flat(table: Mapping[str, Any], head: str = "", mark: str = ".", whole: Collection[str] = ()) -> dict[str, Any]:
    """Every value under the joined names of the tables that it is in. whole: keys whose tables stay as they are."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, Mapping) and key not in whole
        out |= flat(value, f"{head}{key}{mark}", mark, whole) if inner else {f"{head}{key}": value}
    return out


def set_path(table: dict[str, Any], path: Iterable[str], value: Any) -> None:
    """Set `table[a][b][c] = value`, making the tables between."""
    *way, last = path
    for key in way:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = table[key] = {}
        table = inner
    if isinstance(value, Mapping) and isinstance(table.get(last), Mapping):
        value = merge({last: table[last]}, {last: value})[last]
    table[last] = value


def nested(path: str, value: Any) -> dict[str, Any]:
    """`{"a": {"b": value}}` of the path `a.b`."""
    table: dict[str, Any] = {}
    set_path(table, path.split("."), value)
    return table
