"""What is masked, what is asked of the head, the loss and the scores: the table of objectives.

An objective is a file with an `ObjectiveSpec`, and a line here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headstart.spec import Entry

if TYPE_CHECKING:
    from headstart.objectives.causal import CausalSpec
    from headstart.objectives.classify import ClassifySpec
    from headstart.objectives.masked import MaskedSpec
    from headstart.objectives.objective import Monitor, ObjectiveSpec, Sums
    from headstart.objectives.regress import RegressSpec
    from headstart.objectives.retrieve import RetrieveSpec

OBJECTIVES: dict[str, Entry] = {
    "masked": Entry("headstart.objectives.masked:MaskedSpec", "reconstruct masked positions", "Amos et al. 2023"),
    "causal": Entry("headstart.objectives.causal:CausalSpec", "predict the next position", "Amos et al. 2023"),
    "classify": Entry("headstart.objectives.classify:ClassifySpec", "classes of sequences or positions"),
    "regress": Entry("headstart.objectives.regress:RegressSpec", "numbers of sequences or positions"),
    "retrieve": Entry("headstart.objectives.retrieve:RetrieveSpec", "classes of pairs of sequences", "Tay et al. 2021"),
}

__all__ = [
    "OBJECTIVES",
    "CausalSpec",
    "ClassifySpec",
    "MaskedSpec",
    "Monitor",
    "ObjectiveField",
    "ObjectiveSpec",
    "RegressSpec",
    "RetrieveSpec",
    "Sums",
]

ObjectiveField: Any

_BASE = ("Monitor", "ObjectiveSpec", "Sums")


def __getattr__(name: str) -> Any:
    """Classes, when they are asked for: `headstart ls objectives` answers without torch."""
    if name == "ObjectiveField":
        from headstart.objectives.objective import ObjectiveSpec
        from headstart.spec import kind_field

        return kind_field(ObjectiveSpec, OBJECTIVES)
    paths = [line.path for line in OBJECTIVES.values()]
    paths += [f"headstart.objectives.objective:{item}" for item in _BASE]
    for module, _, attribute in (path.partition(":") for path in paths):
        if attribute == name:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
