"""One contract for every mixer of the table: a new line in MIXERS is held to it with no change here."""

from __future__ import annotations

import pytest
from support.mixers import check_facts, example_of

from headstart.models.contract import MIXER_CHECKS
from headstart.models.mixers import MIXERS

CASES = [
    pytest.param(kind, check, marks=pytest.mark.slow if check == "stacking" and number % 2 else ())
    for number, kind in enumerate(MIXERS)
    for check in MIXER_CHECKS
]
"""Of every other mixer a stage in a stack is looked at each day instead, in `test_stacked_stages.py`."""


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_a_mixer_holds_to_the_contract(kind: str, check: str) -> None:
    MIXER_CHECKS[check](example_of(MIXERS[kind].load()))


@pytest.mark.parametrize("kind", MIXERS)
def test_the_facts_of_the_table_are_true(kind: str) -> None:
    check_facts(MIXERS[kind].load(), MIXERS[kind].facts)
