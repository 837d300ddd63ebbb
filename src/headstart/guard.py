"""Foreign text in files that a spreadsheet opens: what it would run as a formula stands behind a quote."""

from __future__ import annotations

import re

STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How formulas begin; the last four are their wide forms, which some spreadsheets take for the same."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def guarded(text: str) -> str:
    """A cell of CSV that no spreadsheet runs: `'` before what begins like a formula, after any blanks.

    A plain number such as -1 stays as it is: it computes nothing.
    """
    if text.lstrip().startswith(STARTS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
