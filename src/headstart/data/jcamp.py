"""JCAMP-DX: spectra and other curves, a file each, as text of labelled records.

Source: McDonald and Wilks 1988, JCAMP-DX 4.24; of the forms of ordinates AFFN and PAC (plain numbers) are read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from headstart.data.folder_tables import CURVE
from headstart.data.layout import LayoutSpec
from headstart.data.table import Column, Table, arrow_numbers, arrow_texts
from headstart.data.text import text_lines
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
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def read_jcamp(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One curve as a table of a row for each point, x ascending; other records are columns of one text each.

    Raises: BadInput for compressed ordinates, several curves, or another number of points than the file says.
    """
    records = _records(path, spec, mistakes)
    mistakes.check()
    name = next((name for name in CURVE_RECORDS if name in records), "")
    if not name:
        some = first_few([repr(label) for label in records], 5)
        raise BadInput(f"{path}: has no ##XYDATA= or ##XYPOINTS= (but {some or 'nothing'}); export the curve as XYDATA")
    _, *lines = records[name].splitlines() or [""]
    if re.search(r"[^\s,;()]", _NUMBER.sub("", " ".join(lines))):
        raise BadInput(
            f"{path}: its ordinates are compressed (SQZ, DIF or DUP), which is not read; export it as AFFN, which is "
            "plain numbers, or as CSV"
        )
    facts = {label: to_float(records.get(label, "").strip()) for label in ("FIRSTX", "LASTX", "NPOINTS")}
    scales = [to_float(records.get(label, "1").strip()) for label in ("XFACTOR", "YFACTOR")]
    rows = [[float(cell) for cell in _NUMBER.findall(line)] for line in lines]
    flat = np.array([value for row in rows for value in (row[1:] if name == "XYDATA" else row)])
    if name == "XYDATA":
        x, y = np.linspace(facts["FIRSTX"], facts["LASTX"], len(flat)), flat * scales[1]
    else:
        flat = flat[: len(flat) // 2 * 2]
        x, y = flat[::2] * scales[0], flat[1::2] * scales[1]
    count = facts["NPOINTS"] if facts["NPOINTS"] == facts["NPOINTS"] else len(y)
    if not len(y) or count != len(y) or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise BadInput(
            f"{path}: says {count:,.0f} points from {facts['FIRSTX']:g} to {facts['LASTX']:g} and holds {len(y):,}; "
            "write it again"
        )
    order = np.argsort(x, kind="stable")
    columns = {n: Column(n, "number", arrow_numbers(values[order])) for n, values in (("x", x), ("y", y))}
    for label, text in records.items():
        if label not in PASSED_OVER and 0 < len(text.strip()) <= LONGEST_FACT and "\n" not in text.strip():
            columns[label.lower()] = Column(label.lower(), "text", arrow_texts([text.strip()] * len(y)))
    return Table(columns, len(y), Places(str(path)), CURVE, header=True)


def _records(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> dict[str, str]:
    """The text of each record by its label, without case and marks. Raises: BadInput where a curve comes twice."""
    out: dict[str, str] = {}
    label = ""
    for line in text_lines(path, spec.encoding, mistakes):
        line = line.partition("$$")[0].rstrip()
        if line.startswith("##"):
            name, _, text = line[2:].partition("=")
            label = re.sub(r"[\s\-/_$]", "", name).upper()
            if label in CURVE_RECORDS and label in out:
                raise BadInput(f"{path}: holds several curves; save each as a file of its own")
            out.setdefault(label, text)
        elif label:
            out[label] += f"\n{line}"
    if not out:
        raise BadInput(f"{path}: is no file of JCAMP-DX, whose lines begin with ##; give one that does")
    return out
