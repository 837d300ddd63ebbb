"""GenBank: entries of many lines, whose letters stand below ORIGIN; organism and definition are columns beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.table import Column, Table, arrow_texts
from headstart.data.text import text_lines
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import counted

FIELDS = {"VERSION": "id", "ORGANISM": "organism", "DEFINITION": "definition"}
"""Fields that are read, and their columns."""
FIELD_WIDTH = 12
"""Letters of a line that name a field; what goes on below has blanks there."""


def read_genbank(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The entries of a file: id, organism, definition and the letters. Raises: BadInput for an entry without letters,
    or one that is cut short."""
    entries: list[dict[str, str]] = []
    begins: list[int] = []
    letters: list[list[str]] = []
    field, line, inside = "", 0, False
    for line, text in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        text = text.rstrip()
        if text.startswith("LOCUS"):
            if inside:
                mistakes.add(f"{path}:{line}", "an entry begins before the one above ends with //; give the file again")
            begins.append(line)
            entries.append({"id": text.split(maxsplit=2)[1] if " " in text else ""})
            letters.append([])
            inside = True
        elif text == "//":
            inside, field = False, ""
        elif inside and field == "ORIGIN" and text[:1] == " ":
            letters[-1].append("".join(word for word in text.split() if not word.isdecimal()))
        elif inside:
            name = text[:FIELD_WIDTH].strip()
            field = name or field
            column = FIELDS.get(field)
            if column and (name or column == "definition"):
                value = text[FIELD_WIDTH:].strip().removesuffix("." if column == "definition" else "")
                entries[-1][column] = value if name else f"{entries[-1].get(column, '')} {value}".strip()
    if inside:
        mistakes.add(f"{path}:{line}", "ends within an entry, which ends with //; the file is cut short: give it again")
    for begin, entry, parts in zip(begins, entries, letters, strict=True):
        if not any(parts):
            mistakes.add(f"{path}:{begin}", f"{entry['id'][:40]!r} has no letters below ORIGIN; download it in full")
    mistakes.check()
    if not entries:
        raise BadInput(f"{path}: holds no entry of GenBank; give one that begins with LOCUS")
    columns = {name: Column(name, "text", arrow_texts([own.get(name) for own in entries])) for name in FIELDS.values()}
    columns["sequence"] = Column("sequence", "text", arrow_texts(["".join(parts) for parts in letters]))
    note = f"{counted(len(entries), 'entry is', 'entries are')} whole; features and references are not read"
    return Table(
        columns, len(entries), Places(str(path), lines=np.array(begins)), "GenBank", shape="text", notes=[note]
    )
