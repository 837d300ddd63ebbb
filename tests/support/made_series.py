"""Sequences made up for the tests of classic models."""

from __future__ import annotations

import numpy as np

from headstart.sequence import Examples, Signature, ragged


def examples(sequences: list[np.ndarray], target: np.ndarray | None = None) -> Examples:
    """Sequences (L, F) or (L,) as one set."""
    values, offsets = ragged(sequences)
    return Examples(values, offsets, target, np.arange(len(sequences)))


def noise(lengths: list[int], channels: int = 1, seed: int = 0, target: np.ndarray | None = None) -> Examples:
    """Normal numbers, each channel with its own level and spread."""
    rng = np.random.default_rng(seed)
    level, spread = rng.normal(size=channels), rng.uniform(0.5, 3, channels)
    rows = [(rng.normal(size=(n, channels)) * spread + level).astype(np.float32) for n in lengths]
    return examples(rows, target)


def waves(n: int, seed: int, numbers: bool = False, channels: int = 1, least: int = 40, most: int = 60) -> Examples:
    """Noisy waves of three speeds at any phase: the speed is the class (or the number)."""
    rng = np.random.default_rng(seed)
    speed = rng.integers(0, 3, n)
    rows = []
    for k in speed:
        time = np.arange(rng.integers(least, most + 1))[:, None]
        wave = np.sin(time * (0.3 + 0.15 * k) + rng.uniform(0, 6, channels))
        rows.append((wave + 0.5 * rng.normal(size=(len(time), channels))).astype(np.float32))
    return examples(rows, 2.0 * speed.astype(np.float32) + 5 if numbers else speed)


def words(n: int, seed: int, length: int | None = None) -> Examples:
    """Tokens 0..5 in which 1, 2, 3 follow each other more often in class 1; of one length, or ragged."""
    rng = np.random.default_rng(seed)
    target, rows = rng.integers(0, 2, n), []
    for k in target:
        row = rng.integers(0, 6, length or int(rng.integers(12, 30)))
        for at in rng.integers(0, len(row) - 3, 3 * int(k)):
            row[at : at + 3] = (1, 2, 3)
        rows.append(row)
    return examples(rows, target)


def signature(kind: str, classes: int = 3, channels: int = 1) -> Signature:
    """Of the sets above: `waves`, `numbers` or `words`."""
    if kind == "words":
        return Signature("tokens", 6, 30, 12, "class", 2)
    numbers = kind == "numbers"
    return Signature("floats", channels, 60, 40, "number" if numbers else "class", 0 if numbers else classes)
