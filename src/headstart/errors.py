"""The one exception for what a person gave wrongly, and the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class BadInput(ValueError):
    """Something a person gave is wrong: the text names the place, the value and the way out. Exit code 2."""


def nearest(given: Any, known: Iterable[str]) -> str:
    """`no 'atention'; did you mean 'attention'?`, or the list of what there is where nothing is near."""
    names = sorted({str(k) for k in known})
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
    if close:
        return f"no {str(given)!r}; did you mean {close[0]!r}?"
    return f"no {str(given)!r}; there are: {', '.join(names) or 'none'}"
