"""The door for data of any source: a file, a folder, an array, a list or a table in memory, as sequences; and no more.

A name is imported from its home when it is first asked for: most rooms need the splits or the text of this one, and not
its readers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headstart.data.card import Card, data_card
    from headstart.data.keeping import keep_sequences
    from headstart.data.layout import SOUNDS, LayoutSpec
    from headstart.data.memory import label_names, sequences_of
    from headstart.data.preparation import Preparation
    from headstart.data.profile import Profile
    from headstart.data.sequences import Sequences
    from headstart.data.sources import explained_sequences, read_blocks, read_sequences
    from headstart.data.splits import crosses_splits
    from headstart.data.targets import check_targets

__all__ = [
    "SOUNDS",
    "Card",
    "LayoutSpec",
    "Preparation",
    "Profile",
    "Sequences",
    "check_targets",
    "crosses_splits",
    "data_card",
    "explained_sequences",
    "keep_sequences",
    "label_names",
    "read_blocks",
    "read_sequences",
    "sequences_of",
]

_HOMES = {
    "Card": "card",
    "LayoutSpec": "layout",
    "Preparation": "preparation",
    "Profile": "profile",
    "SOUNDS": "layout",
    "Sequences": "sequences",
    "check_targets": "targets",
    "crosses_splits": "splits",
    "data_card": "card",
    "explained_sequences": "sources",
    "keep_sequences": "keeping",
    "label_names": "memory",
    "read_blocks": "sources",
    "read_sequences": "sources",
    "sequences_of": "memory",
}


def __getattr__(name: str) -> Any:
    """The name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headstart.data' has no attribute {name!r}")
    return getattr(import_module(f"headstart.data.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Names that are imported late are there, too."""
    return sorted({*globals(), *__all__})
