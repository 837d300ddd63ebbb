"""A bit that turns in memory changes what is stored, and a run that goes on from a clean state changes nothing."""

from random import Random

import pytest
from support.flips import PLACES, Flips


@pytest.mark.slow
def test_a_bit_turned_in_memory_is_counted_and_clean_resumes_end_with_equal_bits() -> None:
    flips = Flips()
    ends = {memory: {flips.disturbed(memory, Random(seed)) for seed in range(8)} for memory in PLACES}
    assert all("changed" in some for some in ends.values()), ends
    assert {flips.resumed(Random(seed)) for seed in range(5)} == {"nothing"}
