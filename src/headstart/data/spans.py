"""Lengths of windows as they are written, and which pieces of which recordings windows are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator

SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
SPAN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|min|m|h)")


def _span(value: object) -> object:
    """A length as it is kept: positions as a whole number, time as it was written. Raises: ValueError for others."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isdecimal():
        text = int(text)
    match = SPAN.fullmatch(text) if isinstance(text, str) else None
    whole = isinstance(text, int) and not isinstance(text, bool)
    if text is None or (whole and text > 0) or (match is not None and float(match[1]) > 0):  # type: ignore[operator]
        return text
    raise ValueError("is no length; give positions, such as 500, or time, such as 5s, 500ms or 2min")


WindowLength = Annotated[int | str | None, BeforeValidator(_span)]
"""A length in positions (500), or in time (`5s`)."""


@dataclass(frozen=True)
class Windows:
    """Of n windows: the number of the recording of each (n,), its name, and where it begins and ends, (n,) float64: in
    seconds from the recording's first position where `seconds`, else in positions, counted from 0; the end is the
    first one behind it."""

    numbers: np.ndarray
    names: tuple[str, ...]
    starts: np.ndarray
    ends: np.ndarray
    seconds: bool

    def take(self, rows: np.ndarray) -> Windows:
        """These windows, in this order."""
        names = tuple(self.names[row] for row in rows.tolist())
        return Windows(self.numbers[rows], names, self.starts[rows], self.ends[rows], self.seconds)

    def mean(self, answers: np.ndarray) -> np.ndarray:
        """(recordings, ...) the mean of what the windows of each recording are answered, recordings in their order."""
        _, number = np.unique(self.numbers, return_inverse=True)
        total = np.zeros((int(number.max(initial=-1)) + 1, *answers.shape[1:]))
        np.add.at(total, number, answers)
        count = np.bincount(number).reshape(-1, *[1] * (answers.ndim - 1))
        return (total / count).astype(answers.dtype)
