"""The door for data of any source: a file, a folder, an array, a list or a table in memory, as sequences; and no more.

A name is imported from its home when it is first asked for: most rooms need the splits or the text of this one, and not
its readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstart.late import late_names

if TYPE_CHECKING:
    from headstart.data.card import Card, data_card
    from headstart.data.keeping import keep_sequences
    from headstart.data.layout import SOUNDS, LayoutSpec
    from headstart.data.memory import label_names, sequences_of
    from headstart.data.part import FilePart
    from headstart.data.preparation import Preparation
    from headstart.data.profile import Profile
    from headstart.data.sequences import Sequences
    from headstart.data.sources import read_blocks, read_sequences
    from headstart.data.splits import flatters
    from headstart.data.targets import check_targets

__all__ = [
    "SOUNDS",
    "Card",
    "FilePart",
    "LayoutSpec",
    "Preparation",
    "Profile",
    "Sequences",
    "check_targets",
    "data_card",
    "flatters",
    "keep_sequences",
    "label_names",
    "read_blocks",
    "read_sequences",
    "sequences_of",
]

_HOMES = {
    "Card": "data.card",
    "LayoutSpec": "data.layout",
    "FilePart": "data.part",
    "Preparation": "data.preparation",
    "Profile": "data.profile",
    "SOUNDS": "data.layout",
    "Sequences": "data.sequences",
    "check_targets": "data.targets",
    "flatters": "data.splits",
    "data_card": "data.card",
    "keep_sequences": "data.keeping",
    "label_names": "data.memory",
    "read_blocks": "data.sources",
    "read_sequences": "data.sources",
    "sequences_of": "data.memory",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
