"""Foreign text in files that a spreadsheet opens: what it would run as a formula stands behind a quote."""

from __future__ import annotations

import re

FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How formulas begin; the last four are their wide forms, which some spreadsheets take for the same."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MARKS = ";,|\t\r\n"
"""What a spreadsheet may take for the end of a cell, whatever the file was written with."""
_LATER = re.compile(
    rf'([{re.escape(_MARKS)}][\s"]*)(?=[{re.escape("".join(FORMULA_STARTS))}]([^{re.escape(_MARKS)}]*))'
)


def guarded(text: str) -> str:
    """A cell of CSV that no spreadsheet runs: `'` before what begins like a formula, after any blanks and quotes.

    So does what follows a mark that may end a cell, as `;` does where commas stand in numbers. A plain number such as
    -1 stays as it is: it computes nothing.
    """
    if text.lstrip(' \t\r\n\v\f"').startswith(FORMULA_STARTS) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return _LATER.sub(_quoted, text)


def _quoted(match: re.Match[str]) -> str:
    """The mark with a quote behind it, but for a number of a list."""
    piece = match.string[match.end() : match.end(2)].strip(' ])}"')
    return match[1] if _NUMBER.fullmatch(piece) else f"{match[1]}'"
