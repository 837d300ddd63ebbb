"""Files of two archives' formats as tables: .ts of time series, FASTA of proteins and DNA."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.opened import text_lines
from headstart.data.table import Column, Places, Table, Words
from headstart.errors import BadInput
from headstart.tasks.mistakes import Mistakes
from headstart.tasks.series import Rows, read_ts

WORDS = 6
"""Words of a FASTA header that are columns; most have one to three."""


def read_ts_file(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A .ts file of the UCR and UEA archives, labelled, with numbers as targets, or with neither."""
    header: dict[str, str] = {}
    for line in text_lines(path, spec.encoding, Mistakes()):
        word, _, rest = line.strip().partition(" ")
        if word.lower() == "@data":
            break
        if word.startswith("@"):
            header[word.lower()] = rest.strip()
    target = "number" if header.get("@targetlabel", "").lower().startswith("true") else "class"
    bare = target == "class" and not header.get("@classlabel", "").lower().startswith("true")
    found = read_ts(_placed(path, spec, mistakes, bare), str(path), mistakes, target)
    mistakes.check()
    if not len(found):
        raise BadInput(f"{path}: has no sequence under @data; give a whole .ts file")
    return _series(found, path, target, bare)


def _placed(path: Path, spec: LayoutSpec, mistakes: Mistakes, bare: bool) -> Iterator[tuple[str, str]]:
    """(place, line); where the file has no labels each row is given one, as its reader asks for one."""
    data = False
    for number, line in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        text = line.strip()
        if bare and text.lower().startswith("@classlabel"):
            continue
        if bare and text.lower() == "@data":
            yield f"{path}:{number}", "@classLabel true"
        elif bare and data and text and not text.startswith(("#", "%")):
            text += ":none"
        data = data or text.lower() == "@data"
        yield f"{path}:{number}", text


def _series(found: Rows, path: Path, target: str, bare: bool) -> Table:
    widths = [one.shape[1] for one in found.values]
    wrong = next((i for i, width in enumerate(widths) if width != widths[0]), None)
    if wrong is not None:
        raise BadInput(f"{found.places[wrong]}: has {widths[wrong]} dimensions, the first row has {widths[0]}")
    lines = np.array([int(place.rpartition(":")[2]) for place in found.places], dtype=np.int64)
    lists: list[np.ndarray | None] = [one.astype(np.float64) for one in found.values]
    table = Table(
        {"values": Column("values", "list", lists=lists)},
        len(lists),
        Places(str(path), lines=lines),
        "a .ts file",
        shape="list",
    )
    if not bare:
        numbers = np.array(found.numbers) if target == "number" else None
        labels: Words | None = None if target == "number" else list(found.labels)
        table.columns["label"] = Column("label", "number" if target == "number" else "text", labels, numbers)
        table.roles["target"] = "label"
    return table


def read_fasta_file(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """A FASTA file: the first word of a header is the id, the others are columns `word 2`, `word 3` and so on.

    Lines that begin with `;` are comments. An entry without a sequence is a mistake.
    """
    headers: list[str] = []
    parts: list[list[str]] = []
    lines: list[int] = []
    for number, line in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        text = line.strip()
        if text.startswith(">"):
            headers.append(text[1:].strip())
            parts.append([])
            lines.append(number)
        elif text and not text.startswith(";"):
            if not parts:
                mistakes.add(
                    f"{path}:{number}", "comes before the first header (a line that begins with >); give a FASTA file"
                )
                mistakes.check()
            parts[-1].append(text)
    if not headers:
        raise BadInput(f"{path}: is empty; give a FASTA file, whose entries begin with >")
    for header, part, number in zip(headers, parts, lines, strict=True):
        if not part:
            mistakes.add(f"{path}:{number}", f"{header[:40]!r} has a header and no sequence; leave it out")
    places = Places(str(path), lines=np.array(lines, dtype=np.int64))
    columns = _header_words(headers)
    columns["sequence"] = Column("sequence", "text", words=["".join(part) for part in parts])
    return Table(columns, len(headers), places, "FASTA", shape="text")


def _header_words(headers: list[str]) -> dict[str, Column]:
    cut = [header.split() for header in headers]
    most = min(max(map(len, cut)), WORDS)
    names = ["id", *(f"word {i}" for i in range(2, most + 1))] if most else []
    return {
        name: Column(name, "text", words=[row[i] if i < len(row) else None for row in cut])
        for i, name in enumerate(names)
    }
