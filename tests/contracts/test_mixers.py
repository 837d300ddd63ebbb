"""One contract for every mixer of the table: a new line in MIXERS is held to it with no change here."""

from __future__ import annotations

import pytest
from support.mixers import check_facts, example_of

from headstart.models.contract import MIXER_CHECKS
from headstart.models.mixers import MIXERS


@pytest.mark.parametrize("check", MIXER_CHECKS)
@pytest.mark.parametrize("kind", MIXERS)
def test_a_mixer_holds_to_the_contract(kind: str, check: str) -> None:
    MIXER_CHECKS[check](example_of(MIXERS[kind].load()))


@pytest.mark.parametrize("kind", MIXERS)
def test_the_facts_of_the_table_are_true(kind: str) -> None:
    check_facts(MIXERS[kind].load(), MIXERS[kind].facts)
