"""The mixers of the table: their small examples, and whether the facts that the table states are true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.errors import Broken, nearest
from headstart.models.contract import measured_facts
from headstart.models.mixers.mixer import MixerSpec
from headstart.spec import read


def example_of(cls: type[MixerSpec]) -> MixerSpec:
    """The small spec that a mixer's class offers for its checks."""
    return read(cls, dict(cls.example), cls.__name__)


def check_facts(cls: type[MixerSpec], facts: Mapping[str, Any]) -> None:
    """The facts that the table states are those of the spec's defaults."""
    measured = measured_facts(cls)
    for name, value in facts.items():
        if name not in measured:
            raise Broken(f"mixer {cls.__name__!r}: the table: {nearest(name, measured)}")
        if value != measured[name]:
            raise Broken(f"mixer {cls.__name__!r}: the table's {name} is {value!r}, the module's {measured[name]!r}")
