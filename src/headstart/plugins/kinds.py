"""The tables of kinds as plugins extend them: their entries, and what a class must be to enter one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headstart.errors import BadInput
from headstart.kinds import SORTS
from headstart.spec import Entry, Spec


@dataclass(frozen=True)
class PluginEntry(Entry):
    """An entry of a table that a plugin added."""

    cls: type[Any] = Spec
    plugin: str = ""

    def load(self) -> type[Any]:
        """The class as it was registered."""
        return self.cls


def kind_tables() -> Mapping[str, tuple[dict[str, Entry], type[Spec]]]:
    """The table of each sort of kind that plugins add to, and the base of its classes."""
    return {name: (sort.entries, sort.cls) for name, sort in SORTS.items() if sort.base}


def way_out(sort: str) -> str:
    """What to write instead of a class that is none of this sort."""
    base = "headstart.models.own:OwnModelSpec" if sort == "model" else SORTS[sort].base
    return f"write a subclass of {base.replace(':', '.')}{SORTS[sort].needs}"


def own_entries() -> list[tuple[str, str, PluginEntry]]:
    """(sort, kind, entry) of what plugins added to the tables."""
    every = [(sort, kind, entry) for sort, (table, _) in kind_tables().items() for kind, entry in table.items()]
    return [(sort, kind, entry) for sort, kind, entry in every if isinstance(entry, PluginEntry)]


def check_kind(sort: str, name: Any, cls: Any, option: str) -> dict[str, Entry]:
    """The table that a class may enter under a kind's name.

    Raises: BadInput for a class of another base or kind, and for a default that its field does not take.
    """
    table, base = kind_tables()[sort]
    if not (isinstance(cls, type) and issubclass(cls, base)):
        what = getattr(cls, "__qualname__", cls)
        raise BadInput(f"{option}: {what} is not a subclass of {base.__name__}; {way_out(sort)}")
    kind = cls.model_fields["kind"].get_default()
    if kind != name or not isinstance(name, str):
        wanted = name if isinstance(name, str) else "my_name"
        raise BadInput(
            f'{option}: {cls.__qualname__} names no kind {wanted!r}; write `kind: Literal["{wanted}"] = "{wanted}"`'
        )
    if not re.fullmatch(r"[\w-]+", name):
        raise BadInput(f"{option}: {name!r} is not a name of a kind; give letters, digits, _ and - alone")
    defaults = {key: field.get_default() for key, field in cls.model_fields.items() if not field.is_required()}
    try:
        cls.model_validate({key: value for key, value in defaults.items() if value is not None})
    except ValidationError as error:
        wrong = {str(item["loc"][0]) for item in error.errors() if item["loc"]} & defaults.keys()
        for key in sorted(wrong):
            raise BadInput(
                f"{option}: {cls.__qualname__}.{key}: its default {defaults[key]!r} is not of the type that the field "
                "names; correct one of them"
            ) from None
    return table
