"""One contract for every objective of the table: a new line in OBJECTIVES is held to it with no change here."""

from __future__ import annotations

import pytest

from headstart.objectives import OBJECTIVES, ObjectiveSpec
from headstart.training.objective_contract import OBJECTIVE_CHECKS, cases

SETTINGS: dict[str, list[dict[str, object]]] = {
    "masked": [{}, {"mask_rate": 0.4, "span": 3}, {"loss": "levels"}, {"loss": "l2"}],
    "causal": [{}, {"loss": "levels"}],
    "classify": [{}, {"label_smoothing": 0.1, "class_weights": (0.2, 1.0, 3.0), "monitor": "weighted_accuracy"}],
    "regress": [{}, {"loss": "l1"}, {"monitor": "loss"}],
}


def objectives(kind: str) -> list[ObjectiveSpec]:
    """An objective in some of its settings."""
    return [OBJECTIVES[kind].load().model_validate(settings) for settings in SETTINGS.get(kind, [{}])]


@pytest.mark.parametrize("check", OBJECTIVE_CHECKS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_an_objective_holds_to_the_contract(kind: str, check: str) -> None:
    for objective in objectives(kind):
        some = list(cases(objective))
        assert some
        for case in some:
            OBJECTIVE_CHECKS[check](case)
