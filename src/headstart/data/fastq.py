"""FASTQ: letters with a quality for each, as sequencing machines write them, four lines an entry."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headstart.data.layout import LayoutSpec
from headstart.data.letters import header_words
from headstart.data.rows import list_column
from headstart.data.table import Column, Table, arrow_texts
from headstart.data.text import text_lines
from headstart.errors import BadInput, Mistakes, Places
from headstart.ways import option

QUALITY = "quality"
QUALITY_ZERO, HIGHEST_QUALITY = 33, 93
"""Character of quality 0, and the highest quality: Sanger's scale, which all machines write since 2011."""


def read_fastq(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """The entries of a file: id, further words of the headers, and the letters; or, where `values` names `quality`,
    the qualities (L,) in place of the letters."""
    begins: list[int] = []
    headers: list[str] = []
    letters: list[str] = []
    qualities: list[str] = []
    entry: list[str] = []
    line = 0
    for line, text in enumerate(text_lines(path, spec.encoding, mistakes), 1):
        text = text.rstrip("\r\n")
        if not text and not entry:
            continue
        entry.append(text)
        if len(entry) == 4:
            if _sound(entry, f"{path}:{line - 3}", mistakes):
                begins.append(line - 3)
                headers.append(entry[0][1:].strip())
                letters.append(entry[1])
                qualities.append(entry[3])
            entry = []
    if entry and any(entry):
        mistakes.add(
            f"{path}:{line}", "ends within an entry, which has four lines; the file is cut short: give it again"
        )
    mistakes.check()
    if not headers:
        raise BadInput(f"{path}: is empty; give a FASTQ file, whose entries begin with @")
    places = Places(str(path), lines=np.array(begins))
    columns = header_words(headers)
    if spec.values == (QUALITY,):
        scores = [np.frombuffer(text.encode("ascii"), dtype=np.uint8) - float(QUALITY_ZERO) for text in qualities]
        columns[QUALITY] = list_column(QUALITY, scores, places)
        return Table(columns, len(headers), places, "FASTQ", shape="list")
    columns["sequence"] = Column("sequence", "text", arrow_texts(letters))
    note = f"qualities are not used; {option('values', QUALITY)} reads them in place of the letters"
    return Table(columns, len(headers), places, "FASTQ", shape="text", notes=[note])


def _sound(entry: list[str], location: str, mistakes: Mistakes) -> bool:
    """Whether four lines are an entry; if not, a mistake."""
    header, letters, plus, quality = entry
    wrong = ""
    if not header.startswith("@") or not plus.startswith("+"):
        wrong = (
            "is no entry of FASTQ (a line with @, the letters, a line with +, the qualities); give four lines for each"
        )
    elif not letters.strip():
        wrong = f"{header[1:41]!r} has no letters; leave it out"
    elif len(letters) != len(quality):
        wrong = f"{header[1:41]!r} has {len(letters):,} letters and {len(quality):,} qualities; give one for each"
    elif not quality.isascii() or not all(
        QUALITY_ZERO <= ord(mark) <= QUALITY_ZERO + HIGHEST_QUALITY for mark in quality
    ):
        wrong = f"{header[1:41]!r} has a quality that is no character from ! to ~; give the file again"
    if wrong:
        mistakes.add(location, wrong)
    return not wrong
