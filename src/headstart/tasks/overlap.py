"""Which sequences stand in two splits: told by content, never by place or number."""

from __future__ import annotations

from hashlib import blake2b
from itertools import combinations

import numpy as np

from headstart.sequence import Examples
from headstart.tasks.task import SPLITS, Task


def marks(examples: Examples) -> list[bytes]:
    """16 bytes for each unit, equal where the sequences (both of a pair) are equal, targets apart."""
    values, offsets = examples.values, examples.offsets.tolist()
    step = 2 if examples.paired else 1
    out = []
    for first in range(0, len(examples), step):
        total = blake2b(digest_size=16)
        for i in range(first, first + step):
            total.update((offsets[i + 1] - offsets[i]).to_bytes(8, "little"))
            total.update(np.ascontiguousarray(values[offsets[i] : offsets[i + 1]]).tobytes())
        out.append(total.digest())
    return out


def overlaps(task: Task) -> dict[tuple[str, str], int]:
    """How many units of the later split stand in the earlier one, for each two splits."""
    found = {name: marks(task.split(name)) for name in SPLITS}
    out = {}
    for earlier, later in combinations(SPLITS, 2):
        known = set(found[earlier])
        out[earlier, later] = sum(mark in known for mark in found[later])
    return out
