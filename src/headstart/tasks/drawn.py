"""Splits that we draw where no file names them: in proportion, disjoint by content, one after another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headstart.tasks.stored import hold_out, occurs_once


def drawn(
    target: np.ndarray, group: np.ndarray, free: np.ndarray, shares: Mapping[str, float], seed: int
) -> dict[str, np.ndarray]:
    """Rows of each split of `shares` out of the rows `free`, and of `train`, the rest; each class in proportion.

    `target` and `group` (n,) are of all rows; of rows with equal content all that are free stay in train. A share is of
    what the splits before it left. Raises: BadInput naming `task.<split>_share` where a class has too few rows.
    """
    once, out = occurs_once(group), {}
    for split, share in shares.items():
        count = max(1, round(share * len(free)))
        out[split] = free[hold_out(target[free], once[free], count, seed, f"task.{split}_share")]
        free = np.setdiff1d(free, out[split])
    return {"train": free, **out}


def copies_note(group: np.ndarray, rows: Mapping[str, np.ndarray], what: str) -> list[str]:
    """A note for each earlier split that official val or test sequences also stand in."""
    notes = []
    for later, earlier in (("val", ("train",)), ("test", ("train", "val"))):
        found = {name: int(np.isin(group[rows[later]], group[rows[name]]).sum()) for name in earlier}
        said = [f"{count} also stand in {name}" for name, count in found.items() if count]
        if said:
            notes.append(f"of the {len(rows[later])} {later} {what}, {' and '.join(said)}")
    return notes
