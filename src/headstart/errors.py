"""The one exception for wrong input, a list that gathers mistakes before it is raised, and the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

MOST = 20
"""Mistakes that are gathered before reading stops."""


class BadInput(ValueError):
    """Something a person gave is wrong: the text names the place, the value and the way out. Exit code 2."""


def nearest(given: Any, known: Iterable[str]) -> str:
    """`no 'atention'; did you mean 'attention'?`, or the list of what there is where nothing is near."""
    names = sorted({str(k) for k in known})
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
    if close:
        return f"no {str(given)!r}; did you mean {close[0]!r}?"
    return f"no {str(given)!r}; there are: {', '.join(names) or 'none'}"


class Mistakes:
    """What is wrong with the files of a data set, in order; each text names its file and perhaps its row."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, item: str, text: str) -> None:
        """Note that `item` (a file, row or cell) is wrong. Raises: BadInput with all of them once there are 20."""
        self.texts.append(f"{item}: {text}")
        if len(self.texts) >= MOST:
            self.texts.append(f"reading stopped after {MOST} mistakes; correct these first, there may be more")
            self.check()

    def check(self) -> None:
        """Raises: BadInput with every mistake on a line of its own, where there is one."""
        if self.texts:
            raise BadInput("\n".join(self.texts))
