"""Rows of numbers in text files: one sequence a row, label first (`.tsv`) or last (`.ts`), gaps and all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headstart.data.labels import label_of
from headstart.data.layout import LayoutSpec
from headstart.data.rows import list_column
from headstart.data.sequences import Target
from headstart.data.table import LARGEST_VALUE, Column, Table, arrow_numbers, arrow_texts
from headstart.data.text import text_lines
from headstart.errors import BadInput, Mistakes, Places

DIMENSIONS = 4096
"""Features that a position may have."""


@dataclass
class Rows:
    """Sequences of one file: `values` (L, F) float32 each, NaN where missing; a label or a number for each.

    `declared` are the labels that the file's header names, where it has one; `target` is what the rows have.
    """

    values: list[np.ndarray] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    target: Target = "class"

    def __len__(self) -> int:
        return len(self.values)


Lines = Iterator[tuple[str, str]]
"""(place, text) of each line."""


def read_tsv(lines: Lines, mistakes: Mistakes) -> Rows:
    """Rows `label<TAB>value<TAB>...` as the UCR archive has them.

    A value that is empty, `?` or NaN is missing; missing ones at the end are not part of the sequence, so rows
    may have any length.
    """
    out = Rows()
    for location, line in lines:
        first, _, rest = line.strip("\r\n ").partition("\t")
        if not first and not rest:
            continue
        label = label_of(first.strip(), location, mistakes)
        values = numbers(rest.split("\t"), location, mistakes, ("", "?"))
        if values is None or label is None:
            continue
        there = np.flatnonzero(~np.isnan(values))
        if not len(there):
            mistakes.add(location, "has a label and no value; leave the row out")
            continue
        out.values.append(values[: there[-1] + 1, None])
        out.labels.append(label)
        out.places.append(location)
    return out


def read_ts(
    lines: Lines, file: str, mistakes: Mistakes, target: Target | None = "class", dtype: type = np.float32
) -> Rows:
    """Rows `1,2,?:4,5,6:label` under a header of `@` lines; `:` divides the dimensions, `?` or NaN is missing.

    A dimension that ends before the others is missing from there on. With `target` "number" the last field is
    one; None: whatever the header says. What it says of dimensions, lengths and labels must be true. dtype: of values.
    """
    out, header = Rows(), _header(lines)
    if header is None:
        mistakes.add(file, "has no @data line; give a whole .ts file")
        return out
    if _says(header, "timestamps", "true"):
        mistakes.add(file, "has time stamps, which are not read; write each value alone (@timeStamps false)")
        return out
    classes = header.get("classlabel", "").split()
    if target is None:
        true = {word: header.get(word, "").lower().startswith("true") for word in ("targetlabel", "classlabel")}
        target = "number" if true["targetlabel"] else "class" if true["classlabel"] else "none"
    out.target = target
    classed = "".join(classes[:1]).lower() == "true"
    if (target == "number" and classes[:1] == ["true"]) or (target == "class" and not classed):
        mistakes.add(
            file,
            f"@classLabel is {' '.join(classes[:3]) or 'not there'!r}, a task with a {target} as target "
            f"needs {'@classLabel true' if target == 'class' else '@targetLabel true'}",
        )
        return out
    if target == "class":
        out.declared = [label for text in classes[1:] if (label := label_of(text, file, mistakes)) is not None]
    expected = _dimensions(header)
    length = (
        int(header.get("serieslength", "0"))
        if _says(header, "equallength", "true") and header.get("serieslength", "").isdecimal()
        else 0
    )
    for location, line in lines:
        line = line.strip()
        if not line or line.startswith(("#", "%")):
            continue
        *fields, last = line.split(":") if target != "none" else [*line.split(":"), ""]
        expected = expected or len(fields)
        values = _case(fields, expected, length, location, mistakes, dtype)
        if values is not None and _labelled(out, last, classes[1:], location, mistakes):
            out.values.append(values)
            out.places.append(location)
    return out


def numbers(
    fields: list[str], location: str, mistakes: Mistakes, missing: tuple[str, ...], dtype: type = np.float32
) -> np.ndarray | None:
    """(n,) of this dtype, NaN for the texts of `missing` and for NaN; None and a mistake where one is not a number."""
    try:
        values = np.array(list(map(float, fields)))
    except ValueError:
        plain = [text.strip() for text in fields]
        values = np.empty(len(plain))
        for i, text in enumerate(plain):
            try:
                values[i] = np.nan if text in missing else float(text)
            except ValueError:
                mistakes.add(location, f"value {i + 1} is {text[:20]!r}, no number; give one, or ? where it is missing")
                return None
    wrong = np.flatnonzero(np.abs(values) > LARGEST_VALUE)
    if len(wrong):
        mistakes.add(location, f"value {wrong[0] + 1} is {fields[wrong[0]].strip()[:20]!r}; give numbers of up to 3e38")
        return None
    return values.astype(dtype)


def _header(lines: Lines) -> dict[str, str] | None:
    """What stands before `@data`, by keyword in small letters; None where it never comes."""
    header: dict[str, str] = {}
    for _, line in lines:
        word, _, rest = line.strip().partition(" ")
        if word.lower() == "@data":
            return header
        if word.startswith("@"):
            header[word[1:].lower()] = rest.strip()
    return None


def _says(header: dict[str, str], word: str, value: str) -> bool:
    return header.get(word, "").lower() == value


def _dimensions(header: dict[str, str]) -> int:
    """How many the header says there are; 0 where it says nothing."""
    if _says(header, "univariate", "true"):
        return 1
    count = header.get("dimensions") or header.get("dimension") or ""
    return int(count) if count.isdecimal() else 0


def _case(
    fields: list[str], expected: int, length: int, location: str, mistakes: Mistakes, dtype: type
) -> np.ndarray | None:
    """The dimensions of one row as (L, F)."""
    if len(fields) != expected or not 0 < expected <= DIMENSIONS:
        mistakes.add(
            location,
            f"has {len(fields)} dimensions, there should be {expected} (at most {DIMENSIONS}); the row "
            "is cut short or the header is wrong",
        )
        return None
    dimensions = [numbers(field.split(","), location, mistakes, ("?",), dtype) for field in fields]
    parts = [part for part in dimensions if part is not None]
    if len(parts) < len(dimensions):
        return None
    longest = max(len(part) for part in parts)
    if length and longest != length:
        mistakes.add(
            location, f"has {longest} values, the header says {length}; the row is cut short or the header is wrong"
        )
        return None
    out: np.ndarray = np.full((longest, expected), np.nan, dtype=dtype)
    for i, part in enumerate(parts):
        out[: len(part), i] = part
    if np.isnan(out).all():
        mistakes.add(location, "has no value; leave the row out")
        return None
    return out


def _labelled(out: Rows, text: str, classes: list[str], location: str, mistakes: Mistakes) -> bool:
    """Note the label or number of a row; False and a mistake where it is none."""
    if out.target == "none":
        return True
    if out.target == "number":
        value = numbers([text], location, mistakes, ())
        if value is None or np.isnan(value[0]):
            if value is not None:
                mistakes.add(location, "the target is NaN; leave the row out")
            return False
        out.numbers.append(float(value[0]))
        return True
    label = label_of(text.strip(), location, mistakes)
    if label is None:
        return False
    if classes and text.strip() not in classes and label not in classes:
        mistakes.add(location, f"label {text.strip()[:40]!r} is none of the header's ({', '.join(classes[:8])})")
        return False
    out.labels.append(label)
    return True


def read_ts_file(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A .ts file of the UCR and UEA archives, labelled, with numbers as targets, or with neither."""
    numbered = enumerate(text_lines(path, spec.encoding, mistakes), 1)
    rows = read_ts(((f"{path}:{number}", line) for number, line in numbered), str(path), mistakes, None, np.float64)
    mistakes.check()
    if not len(rows):
        raise BadInput(f"{path}: has no sequence under @data; give a whole .ts file")
    places = Places(str(path), lines=np.array([int(row.rpartition(":")[2]) for row in rows.places], dtype=np.int64))
    columns = {"values": list_column("values", rows.values, places)}
    if rows.target == "number":
        columns["label"] = Column("label", "number", arrow_numbers(np.array(rows.numbers)))
    elif rows.target == "class":
        columns["label"] = Column("label", "text", arrow_texts(rows.labels))
    roles = {"target": "label"} if "label" in columns else {}
    return Table(columns, len(rows), places, "a .ts file", shape="list", roles=roles)
