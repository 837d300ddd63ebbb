"""GenBank, EMBL and UniProt: entries of many lines, whose letters stand below ORIGIN or SQ; organism and definition are
columns beside them."""

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
EMBL_CODES = {"ID": "LOCUS", "SV": "VERSION", "OS": "ORGANISM", "DE": "DEFINITION", "SQ": "ORIGIN"}
"""Two letters before each line of EMBL and UniProt, and the field of GenBank that they are.

Source: the user manual of EMBL, section 3; that of UniProt has the same.
"""


def read_genbank(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The entries of a file: id, organism, definition and the letters. Raises: BadInput for an entry without letters,
    or one that is cut short."""
    entries: list[dict[str, str]] = []
    begins: list[int] = []
    letters: list[list[str]] = []
    field, line, inside = "", 0, False
    written = "GenBank"
    for line, text in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        text = text.rstrip()
        if text[:5] == "ID   ":
            written = "EMBL"
        if written == "EMBL":
            text = _as_genbank(text, field)
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
            where = "SQ" if written == "EMBL" else "ORIGIN"
            mistakes.add(f"{path}:{begin}", f"{entry['id'][:40]!r} has no letters below {where}; download it in full")
    mistakes.check()
    if not entries:
        raise BadInput(f"{path}: holds no entry of GenBank or EMBL; give one that begins with LOCUS or ID")
    columns = {name: Column(name, "text", arrow_texts([own.get(name) for own in entries])) for name in FIELDS.values()}
    columns["sequence"] = Column("sequence", "text", arrow_texts(["".join(parts) for parts in letters]))
    note = f"{counted(len(entries), 'entry is', 'entries are')} whole; features and references are not read"
    return Table(columns, len(entries), Places(str(path), lines=np.array(begins)), written, shape="text", notes=[note])


def _as_genbank(line: str, field: str) -> str:
    """A line of EMBL as GenBank has it: its code as the field's name, without what is said below the first line of an
    organism; letters as they are."""
    code = line[:2]
    if code == "  " or line == "//":
        return line
    name = EMBL_CODES.get(code, code)
    text = line[5:].replace(";", " ", 1) if code == "ID" else line[5:]
    again = name == field and name in FIELDS
    return f"{'' if again else name:<{FIELD_WIDTH}}{text}"
