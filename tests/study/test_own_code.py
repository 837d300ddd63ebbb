"""What was seen of a person's own code stands beside the table, and that nobody looked does, too."""

from __future__ import annotations

from typing import Any

from support.made_up import make_plan, shelf

from headstart.study.paper.caveats import UNSEEN
from headstart.study.paper.summary import summarise


def remarks_on(**more: Any) -> list[str]:
    """What is said of own code where all stages of the arm from scratch have this in their results."""
    plan = make_plan()
    stored = shelf(plan)
    for cell in plan.cells:
        if cell.arm == "scratch":
            stored.results[cell.chain[-1].identity].update(more)
    return [str(caveat) for caveat in summarise(plan, stored.find).caveats if caveat.kind == "own code"]


PLUGIN: dict[str, Any] = {"provenance": {"plugins": [{"name": "mine"}]}, "budget": {"steps": 5, "examples": 9}}


def test_remarks_on_own_code_are_said_by_arm() -> None:
    assert remarks_on(remarks=["mixer 'mine': padding moves it."], **PLUGIN) == [
        "scratch: mixer 'mine': padding moves it."
    ]
    assert remarks_on(remarks=[], **PLUGIN) == []


def test_own_code_that_nobody_looked_at_is_named() -> None:
    assert remarks_on(**PLUGIN) == [f"scratch: {UNSEEN}"]
    assert remarks_on() == []
