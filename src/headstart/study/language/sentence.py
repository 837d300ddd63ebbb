"""A claim as one sentence: `b > a by 0.01 on image, text`."""

from __future__ import annotations

import re
from typing import Any

FORMS = (
    "'b > a', 'b > a by 0.01 on image, text', 'b > 0.95 on image', 'b = a within 0.02', 'b - c > a - d' (gains of b "
    "over c and of a over d)"
)
"""What a sentence may look like, for messages."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_SENTENCE = re.compile(
    r"(?P<higher>.+?)\s*(?P<sign>[>=])\s*(?P<lower>.+?)"
    rf"(?:\s+by\s+(?P<by>{_NUMBER}))?(?:\s+within\s+(?P<within>{_NUMBER}))?(?:\s+on\s+(?P<columns>.+))?"
)


def claim_table(sentence: str) -> dict[str, Any]:
    """The keys of `[[claims]]` that a sentence stands for; arms and columns are looked up by who knows them.

    Raises: ValueError with the forms that a sentence may have.
    """
    match = _SENTENCE.fullmatch(sentence.strip())
    if match is None:
        turned = re.fullmatch(r"(.+?)\s*<\s*(.+)", sentence.strip())
        way = "write the arm with more first, with '>'" if turned else f"write it as one of: {FORMS}"
        raise ValueError(f"is no comparison of arms; {way}")
    higher, sign, lower, by, within, columns = match.group("higher", "sign", "lower", "by", "within", "columns")
    if (sign == "=") != bool(within):
        raise ValueError("needs '=' and 'within' together (how near is as good?), as in 'b = a within 0.02'")
    if by and within:
        raise ValueError("has 'by' and 'within'; leave one of them out")
    number = re.fullmatch(_NUMBER, lower)
    if number and (by or within):
        raise ValueError("compares with a number, which needs neither 'by' nor 'within'; leave them out")
    table: dict[str, Any] = {"says": sentence.strip(), "higher": _side(higher)}
    table |= {"than": float(lower)} if number else {"lower": _side(lower)}
    table |= {"than": float(by)} if by else {}
    table |= {"within": float(within)} if within else {}
    return table | ({"columns": [name.strip() for name in columns.split(",")]} if columns else {})


def _side(text: str) -> str | list[str]:
    """An arm, or two with a minus between blanks: what the first has more than the second."""
    arms = [name.strip() for name in re.split(r"\s[-−]\s", text.strip())]
    if len(arms) > 2:
        raise ValueError(f"has {len(arms)} arms on one side ({text.strip()}); a side is an arm, or two as in 'b - c'")
    return arms if len(arms) == 2 else arms[0]
