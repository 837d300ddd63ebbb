"""Sequences of numbers as examples: val held out, channels standardised, written once and opened memory-mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headstart.data.prepared import Builder, Prepared
from headstart.data.problems import Mistakes
from headstart.data.rows import in_order
from headstart.data.series import Rows
from headstart.data.splits import groups, hold_out, occurs_once, shared_note
from headstart.data.standardise import channel_moments
from headstart.sequence import Examples, ragged
from headstart.tasks.task import SPLITS


def classes_of(train: Rows, test: Rows, file: str, mistakes: Mistakes) -> list[str]:
    """The labels of train in order; test may have no other."""
    labels = in_order(set(train.labels))
    if len(labels) == 1:
        mistakes.add(file, f"every train sequence has label {labels[0]!r}; give two labels or more")
    for label in train.declared:
        if train.labels and label not in labels:
            mistakes.add(file, f"label {label!r} of the header has no sequence; correct it, or give the whole file")
    for label, place in zip(test.labels, test.places, strict=True):
        if labels and label not in labels:
            mistakes.add(place, f"label {label!r} does not occur in train")
    return labels


def same_width(files: Mapping[str, Rows], mistakes: Mistakes) -> None:
    """A mistake for each row whose number of channels is not that of the first."""
    first = next((rows.values[0].shape[1] for rows in files.values() if rows.values), 0)
    for rows in files.values():
        for values, place in zip(rows.values, rows.places, strict=True):
            if values.shape[1] != first:
                mistakes.add(place, f"has {values.shape[1]} dimensions, the first row of all has {first}")


def held_out(group: np.ndarray, target: np.ndarray, train: int, share: float, seed: int) -> dict[str, np.ndarray]:
    """Rows of train, val and test, where the first `train` are the official train rows and `group` tells copies."""
    count = max(1, round(share * train))
    val = hold_out(target[:train], occurs_once(group[:train]), count, seed, "task.val_share")
    return {"train": np.setdiff1d(np.arange(train), val), "val": val, "test": np.arange(train, len(target))}


def write_splits(
    builder: Builder,
    values: Sequence[np.ndarray],
    target: np.ndarray,
    rows: Mapping[str, np.ndarray],
    scale: bool,
    group: np.ndarray,
) -> dict[str, Any]:
    """Write each split; with `scale`, each channel has mean 0 and deviation 1 over the train values.

    Missing values are written as 0, beside `observed`. Returns facts: `missing`, `length`, `shortest`, `width`,
    and `notes` on what stands in several splits.
    """
    missing = any(np.isnan(one).any() for one in values)
    mean, deviation = channel_moments([values[i] for i in rows["train"]]) if scale else (None, None)
    for name in SPLITS:
        flat, offsets = ragged([values[i] for i in rows[name]])
        seen = ~np.isnan(flat)
        if mean is not None:
            flat = ((flat - mean) / deviation).astype(np.float32)
        builder.save(f"{name}_values", np.where(seen, flat, np.float32(0)))
        if missing:
            builder.save(f"{name}_observed", seen)
        builder.save(f"{name}_offsets", offsets)
        builder.save(f"{name}_target", target[rows[name]])
        builder.save(f"{name}_index", np.asarray(rows[name], dtype=np.int64))
    lengths = [len(one) for one in values]
    return {
        "missing": missing,
        "length": max(lengths),
        "shortest": min(lengths),
        "width": values[0].shape[1],
        "notes": list(shared_note(group, dict(rows), "sequences")),
    }


def copies(values: Sequence[np.ndarray]) -> np.ndarray:
    """(n,) equal where sequences are equal, missing values counted as 0 (as they are written)."""
    return groups(np.nan_to_num(one, nan=0.0).tobytes() + len(one).to_bytes(8, "little") for one in values)


def opened(found: Prepared, split: str) -> Examples:
    """A split that `write_splits` wrote, memory-mapped."""
    values, offsets, target, index = (
        np.asarray(found.arrays[f"{split}_{part}"]) for part in ("values", "offsets", "target", "index")
    )
    seen = found.arrays.get(f"{split}_observed")
    return Examples(values, offsets, target, index, observed=None if seen is None else np.asarray(seen))
