"""The sorts of kinds, which all have one form: a kind is a file, and a line of its sort's table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headstart.spec import Entry, Spec


@dataclass(frozen=True)
class Sort:
    """One sort of kinds, such as tasks."""

    table: str
    """`module:NAME` of the dict of its `Entry`s; it is imported when it is asked for: a table may import torch."""
    base: str = ""
    """`module:Class` that a plugin's class of this sort derives from; empty where plugins add none."""
    needs: str = ""
    """What such a class has beside its fields, and the page that shows one."""

    def summary_of(self, name: str) -> str:
        """A kind in a line: `bert: BERT (Devlin et al. 2019)`."""
        line = self.entries[name]
        return f"{name}: {line.summary}{f' ({line.source})' if line.source else ''}"

    @property
    def entries(self) -> dict[str, Entry]:
        """Its table."""
        entries: dict[str, Entry] = _named(self.table)
        return entries

    @property
    def cls(self) -> type[Spec]:
        """The base of a plugin's classes."""
        cls: type[Spec] = _named(self.base)
        return cls


SORTS: Mapping[str, Sort] = {
    "mixer": Sort(
        "headstart.models.mixers:MIXERS",
        "headstart.models.mixers.mixer:MixerSpec",
        " with build and flops (docs/guide/your-own-mixer.md)",
    ),
    "task": Sort("headstart.tasks:TASKS", "headstart.tasks:TaskSpec"),
    "model": Sort(
        "headstart.models:MODELS", "headstart.models.kind:ModelKind", " with build (docs/guide/your-own-model.md)"
    ),
    "objective": Sort("headstart.objectives:OBJECTIVES", "headstart.objectives:ObjectiveSpec"),
    "optimizer": Sort(
        "headstart.training.optimizers:OPTIMIZERS",
        "headstart.training.optim:OwnOptimSpec",
        " with update (docs/guide/adding.md)",
    ),
    "schedule": Sort(
        "headstart.training.schedules:SCHEDULES",
        "headstart.training.schedules:ScheduleSpec",
        " with factor (docs/guide/adding.md)",
    ),
    "reader": Sort("headstart.data.readers:READERS"),
    "checkpoint": Sort("headstart.checkpoints:CHECKPOINT_READERS"),
    "arm": Sort("headstart.fit.arms:ARMS"),
}


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
