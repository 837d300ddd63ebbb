"""JCAMP-DX: spectra and other curves, a file each, as text of labelled records.

Source: McDonald and Wilks 1988, JCAMP-DX 4.24: of the forms of ordinates, plain numbers (AFFN, PAC) and compressed ones
(SQZ, DIF, DUP).
"""

from __future__ import annotations

import re
from array import array
from pathlib import Path

import numpy as np

from headstart.data.folder_tables import CURVE
from headstart.data.layout import LayoutSpec
from headstart.data.table import Column, Table, arrow_numbers, arrow_texts
from headstart.data.text import number_name, text_lines
from headstart.errors import BadInput, Mistakes, Places
from headstart.text import first_few, to_float

CURVE_RECORDS = ("XYDATA", "XYPOINTS", "PEAKTABLE")
# fmt: off
PASSED_OVER = (*CURVE_RECORDS, "TITLE", "JCAMPDX", "DATATYPE", "ORIGIN", "OWNER", "XUNITS", "YUNITS", "FIRSTX", "LASTX",
    "FIRSTY", "DELTAX", "XFACTOR", "YFACTOR", "NPOINTS", "RESOLUTION", "MAXX", "MINX", "MAXY", "MINY", "END",
    "LONGDATE", "DATE", "TIME")
"""Records that say nothing of what was measured."""
# fmt: on
LONGEST_FACT = 100
"""Characters of a record that is a column."""
PSEUDO_DIGITS = {
    **{letter: ("ordinate", f"{i}") for i, letter in enumerate("@ABCDEFGHI")},
    **{letter: ("ordinate", f"-{i}") for i, letter in enumerate("abcdefghi", 1)},
    **{letter: ("difference", f"{i}") for i, letter in enumerate("%JKLMNOPQR")},
    **{letter: ("difference", f"-{i}") for i, letter in enumerate("jklmnopqr", 1)},
    **{letter: ("times", f"{i}") for i, letter in enumerate("STUVWXYZs", 1)},
}
"""Letters that stand for the first digit of a number, with its sign: what it is, and that digit."""
MOST_POINTS, SMALL_CURVE, POINTS_PER_BYTE = 2**23, 2**16, 200
"""Points that a curve may have, that every one may have, and for each byte of a larger file: repeats take few bytes."""
_ABSCISSA = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)")
_ORDINATE = re.compile(r"[\s,]*([@A-Za-s%+-]|(?=[\d.]))(\d*\.?\d*)")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def read_jcamp(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One curve as a table of a row for each point, x ascending; other records are columns of one text each.

    Raises: BadInput for several curves, ordinates that cannot be read, or another number of points than the file says.
    """
    records = _records(path, spec, mistakes)
    mistakes.check()
    name = next((name for name in CURVE_RECORDS if name in records), "")
    if not name:
        some = first_few([repr(label) for label in records], 5)
        raise BadInput(f"{path}: has no ##XYDATA= or ##XYPOINTS= (but {some or 'nothing'}); export the curve as XYDATA")
    _, *lines = records[name].splitlines() or [""]
    compressed = bool(re.search(r"[^\s,;()]", _NUMBER.sub("", " ".join(lines))))
    if compressed and name != "XYDATA":
        raise BadInput(f"{path}: ##{name}= holds more than pairs of numbers; export the curve as XYDATA, or as CSV")
    facts = {label: to_float(records.get(label, "").strip()) for label in ("FIRSTX", "LASTX", "NPOINTS")}
    scales = [to_float(records.get(label, "1").strip()) for label in ("XFACTOR", "YFACTOR")]
    rows = [[float(cell) for cell in _NUMBER.findall(line)] for line in (() if compressed else lines)]
    flat = np.array([value for row in rows for value in (row[1:] if name == "XYDATA" else row)])
    flat = _unpacked(path, lines) if compressed else flat
    if name == "XYDATA":
        x, y = np.linspace(facts["FIRSTX"], facts["LASTX"], len(flat)), flat * scales[1]
    else:
        flat = flat[: len(flat) // 2 * 2]
        x, y = flat[::2] * scales[0], flat[1::2] * scales[1]
    count = facts["NPOINTS"] if facts["NPOINTS"] == facts["NPOINTS"] else len(y)
    ends = f"from {facts['FIRSTX']:g} to {facts['LASTX']:g}"
    if not len(y) or count != len(y):
        raise BadInput(f"{path}: says {number_name(count)} points {ends} and holds {len(y):,}; write it again")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise BadInput(f"{path}: not all of its x ({ends}) and ordinates, as scaled, are finite; write it again")
    order = np.argsort(x, kind="stable")
    columns = {n: Column(n, "number", arrow_numbers(values[order])) for n, values in (("x", x), ("y", y))}
    for label, text in records.items():
        if label not in PASSED_OVER and 0 < len(text.strip()) <= LONGEST_FACT and "\n" not in text.strip():
            columns[label.lower()] = Column(label.lower(), "text", arrow_texts([text.strip()] * len(y)))
    return Table(columns, len(y), Places(str(path)), CURVE, header=True)


def _unpacked(path: Path, lines: list[str]) -> np.ndarray:
    """(L,) ordinates of compressed lines. A line that ends in a difference is followed by one that begins with its last
    ordinate again, and what repeats that is as many points. Raises: BadInput where these differ, or for letters that
    are none of these forms."""
    out = array("d")
    most = min(MOST_POINTS, max(SMALL_CURVE, POINTS_PER_BYTE * path.stat().st_size))
    difference = 0.0
    kind = ""
    for line in filter(str.strip, lines):
        begin = _ABSCISSA.match(line)
        at, check, first = begin.end() if begin else 0, kind == "difference" and bool(out), True
        while line[at:].strip():
            match = _ORDINATE.match(line, at)
            what, digit = PSEUDO_DIGITS.get(match[1], ("ordinate", match[1])) if match else ("", "")
            number = to_float(digit + match[2]) if match else float("nan")
            if not begin or number != number or (what != "ordinate" and not out):
                raise BadInput(
                    f"{path}: its ordinates cannot be read ({line.strip()[:40]!r}); export it as plain numbers"
                )
            assert match is not None, "else there is no number"
            at = match.end()
            if what == "ordinate" and check and first:
                kind = what  # so that a repeat of it is the same value again
                if number != out[-1]:
                    raise BadInput(
                        f"{path}: its ordinates do not continue from line to line ({number:g} after {out[-1]:g}); the "
                        "file is damaged: write it again"
                    )
            elif what == "times":
                count = min(int(number) - 1, most - len(out))
                steps = np.arange(1, count + 1) * (difference if kind == "difference" else 0.0)
                out.frombytes((out[-1] + steps).tobytes())
            else:
                kind, difference = what, number
                out.append(out[-1] + number if what == "difference" else number)
            first = False
            if len(out) >= most:
                raise BadInput(f"{path}: holds {most:,} points or more; export it in parts, or as plain numbers")
    return np.array(out)


def _records(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> dict[str, str]:
    """The text of each record by its label, without case and marks. Raises: BadInput where a curve comes twice."""
    out: dict[str, list[str]] = {}
    label = ""
    for line in text_lines(path, spec.encoding, mistakes):
        line = line.partition("$$")[0].rstrip()
        if line.startswith("##"):
            name, _, text = line[2:].partition("=")
            label = re.sub(r"[\s\-/_$]", "", name).upper()
            if label in CURVE_RECORDS and label in out:
                raise BadInput(f"{path}: holds several curves; save each as a file of its own")
            out.setdefault(label, [text])
        elif label:
            out[label].append(line)
    if not out:
        raise BadInput(f"{path}: is no file of JCAMP-DX, whose lines begin with ##; give one that does")
    return {label: "\n".join(lines) for label, lines in out.items()}
