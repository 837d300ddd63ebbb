"""Values of a table become sequences."""

import tracemalloc
from typing import Any

import numpy as np

from headstart.data.build import _cut_ends
from headstart.data.parts import Parts


def test_sequences_without_a_gap_are_looked_through_in_little_memory() -> None:
    positions: Any = np.random.default_rng(0).normal(size=(200_000, 1)).astype(np.float32)
    parts = Parts(positions, np.arange(0, 200_001, 100), np.arange(2_000), ("x",))
    none: Any = None
    tracemalloc.start()
    assert _cut_ends(parts, none, none, [], none) is parts
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < positions.nbytes, "a number of eight bytes for each position would be twice as much"
