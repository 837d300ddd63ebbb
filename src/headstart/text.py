"""Values and lists in words and in JSON: what specs say of themselves, and every page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LOWER = ("loss", "bits_per_token", "perplexity")
"""Names of scores of which less is better."""


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal acts on instead of showing it: control characters (C1 too), marks of direction, half characters."""


def escaped(text: str) -> str:
    """The text with escapes (`\\x1b`) for what a terminal would act on; lines and tabs stay."""
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def plain(value: Any) -> str:
    """A setting's value in words: numbers short, tables by their `kind`."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        rest = [f"{k}={plain(v)}" for k, v in value.items() if k not in ("kind", "version")]
        head = str(value.get("kind", ""))
        return f"{head}({', '.join(rest)})" if rest else head
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(plain(v) for v in value) + "]"
    return str(value)


def listed(items: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def first_few(names: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """`a, b, c`; of more names than `most` the first ones, as in `a, b and 7 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def sentence(text: str, names: Iterable[str] = ()) -> str:
    """The text with a capital letter at its beginning; where that is one of these names, it stays as it is written."""
    return text if text.partition(" ")[0] in names else text[:1].upper() + text[1:]


def percent(share: float) -> str:
    """`50 %`."""
    return f"{100 * share:.0f} %"


def column_widths(columns: Sequence[Sequence[str]], room: int, lines: int | None = None) -> list[int]:
    """Characters of each of the first columns, as many as fit into `room` with 2 between them and no word broken.

    A word of more than 24 letters may be broken, and at least 2 columns are kept. The widest space gives way first.
    lines: about as many as a cell may take, rather than which the last columns are left out; None: any number.
    """
    widths = [max(map(len, texts)) for texts in columns]
    least = [min(24, max(len(word) for text in texts for word in text.split(" "))) for texts in columns]
    if lines is not None:
        least = [max(low, min(24, -(-width // lines))) for low, width in zip(least, widths, strict=True)]
    while len(widths) > 2 and sum(least[: len(widths)]) + 2 * len(widths) + 2 > room:
        widths.pop()
    while sum(widths) + 2 * len(widths) + 2 > room:
        slack = [width - low for width, low in zip(widths, least, strict=False)]
        if max(slack) <= 0:
            break
        widths[slack.index(max(slack))] -= 1
    return widths


def broken(text: str, width: int) -> str:
    """The text with a new line behind a joint of each name (`_`, `-`, `/`, `.`) that is wider than the column."""
    words = []
    for word in text.split(" "):
        lines = [""]
        for part in re.findall(r"[^_/.-]*[_/.-]*", word) if len(word) > width else [word]:
            if lines[-1] and len(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
        words.append("\n".join(lines))
    return " ".join(words)


def many(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def counted(number: int, singular: str, plural: str) -> str:
    """`1 row is`, `3 rows are`."""
    return f"{number:,} {singular if number == 1 else plural}"


def json_text(value: Any) -> str:
    """JSON in the letters of all languages, with JSON's own escapes for what a terminal would act on."""
    written = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def json_lines(document: Mapping[str, Any]) -> str:
    """A document as JSON with a line for each item of its tables and lists, so that it is small and can be compared."""
    text, parts = json_text, []
    for key, value in document.items():
        if isinstance(value, Mapping) and value:
            inner = ",\n".join(f"  {text(name)}: {text(item)}" for name, item in value.items())
            parts.append(f" {text(key)}: {{\n{inner}\n }}")
        elif isinstance(value, list) and value:
            inner = ",\n".join(f"  {text(item)}" for item in value)
            parts.append(f" {text(key)}: [\n{inner}\n ]")
        else:
            parts.append(f" {text(key)}: {text(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def short(text: str, most: int = 40) -> str:
    """A foreign name on one line of at most so many characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def to_float(text: str) -> float:
    """A text as a number; NaN where it is none, as 1_000 is, which is a number in Python alone."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def is_number(text: str, decimal: str = ".") -> bool:
    """Whether a cell is a number, infinity among them; nan is none here."""
    value = to_float(text.replace(decimal, ".") if decimal != "." else text)
    return value == value


def count_numbers(cells: Sequence[str], decimal: str = ".") -> int:
    """How many cells are numbers, as `is_number` tells; at once where all are, as most columns are."""
    try:
        values = list(map(float, cells if decimal == "." else [cell.replace(decimal, ".") for cell in cells]))
    except ValueError:
        values = []
    if not values or "_" in "".join(cells):
        return sum(is_number(cell, decimal) for cell in cells)
    return len(values) - sum(map(math.isnan, values))


def in_order(labels: set[str]) -> list[str]:
    """Labels in the order of their class numbers: as numbers where all are, else as letters."""
    if all(map(is_number, labels)):
        return sorted(labels, key=lambda label: (float(label), label))
    return sorted(labels)
