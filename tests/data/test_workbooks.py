"""Workbooks of OpenDocument, and those of Excel in binary form."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import command
from support.made_files import needs, workbook
from support.made_tables import read, why

from headstart.errors import BadInput

ROWS: list[list[Any]] = [
    ["id", "state", "t0", "t1", "t2"],
    *([f"r{i}", "ab"[i % 2], i + 0.5, 2.25 * i, -i / 4] for i in range(20)),
]
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_RELATIONS = "http://schemas.openxmlformats.org"


def opendocument(path: Path, rows: Sequence[Sequence[Any]], more: str = "") -> Path:
    """An .ods file of one sheet, with the empty cells and rows that programs repeat up to the end of it."""

    def cell(value: Any) -> str:
        kind = "string" if isinstance(value, str) else f'float" office:value="{value}'
        return f'<table:table-cell office:value-type="{kind}"><text:p>{value}</text:p></table:table-cell>'

    rest = '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
    body = "".join(f"<table:table-row>{''.join(map(cell, row))}{rest}" for row in rows) + more
    body += f'<table:table-row table:number-rows-repeated="1040000">{rest}'
    names = " ".join(f'xmlns:{name}="{_OASIS}:{name}:1.0"' for name in ("office", "table", "text"))
    content = (
        f'<office:document-content {names} office:version="1.2"><office:body><office:spreadsheet>'
        f'<table:table table:name="Data">{body}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    entry = f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", kind)
        manifest = f'<manifest:manifest xmlns:manifest="{_OASIS}:manifest:1.0">{entry}</manifest:manifest>'
        archive.writestr("META-INF/manifest.xml", manifest)
        archive.writestr("content.xml", content)
    return path


def binary(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    """An .xlsb file of one sheet. Source: [MS-XLSB]."""

    def record(kind: int, content: bytes = b"") -> bytes:
        head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
        size = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 127 | 128, len(content) >> 7])
        return head + size + content

    def wide(word: str) -> bytes:
        return struct.pack("<I", len(word)) + word.encode("utf-16-le")

    sheet = record(129) + record(148, struct.pack("<IIII", 0, len(rows) - 1, 0, len(rows[0]) - 1)) + record(145)
    for i, row in enumerate(rows):
        sheet += record(0, struct.pack("<II", i, 0) + bytes(17))
        for j, cell in enumerate(row):
            content = wide(cell) if isinstance(cell, str) else struct.pack("<d", cell)
            sheet += record(6 if isinstance(cell, str) else 5, struct.pack("<II", j, 0) + content)
    book = [record(131), record(143), record(156, struct.pack("<II", 0, 1) + wide("r1") + wide("Data")), record(144)]
    link = f'Type="{_RELATIONS}/officeDocument/2006/relationships'
    relations = f'<Relationships xmlns="{_RELATIONS}/package/2006/relationships"><Relationship Id="r1" {link}'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_rels/.rels", f'{relations}/officeDocument" Target="xl/workbook.bin"/></Relationships>')
        archive.writestr("xl/workbook.bin", b"".join([*book, record(132)]))
        to_sheet = f'{relations}/worksheet" Target="worksheets/sheet1.bin"/></Relationships>'
        archive.writestr("xl/_rels/workbook.bin.rels", to_sheet)
        archive.writestr("xl/worksheets/sheet1.bin", sheet + record(146) + record(130))
    return path


@pytest.mark.parametrize(("name", "written"), [("f.ods", opendocument), ("f.xlsb", binary)])
def test_a_sheet_of_opendocument_and_of_binary_excel_is_read_as_that_of_xlsx_is(
    name: str, written: Any, tmp_path: Path
) -> None:
    needs("xlsx")
    result = read(written(tmp_path / name, ROWS))
    assert (len(result), result.layout.target, result.ids and result.ids[1]) == (20, "state", "r1")
    assert result.values[3:6, 0].tolist() == [1.5, 2.25, -0.25]


def test_cells_that_an_opendocument_repeats_are_counted_before_they_are_made(tmp_path: Path) -> None:
    needs("xlsx")
    cell = '<table:table-cell table:number-columns-repeated="16000" office:value-type="float" office:value="1"/>'
    row = f'<table:table-row table:number-rows-repeated="1000000">{cell}</table:table-row>'
    assert "reach over 16,000,000,105 cells" in why(opendocument(tmp_path / "f.ods", ROWS, row))


def test_rows_of_a_binary_sheet_that_are_far_apart_are_counted_before_they_are_made(tmp_path: Path) -> None:
    needs("xlsx")
    path = binary(tmp_path / "f.xlsb", ROWS)
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / "far.xlsb", "w") as far:
        for part in archive.infolist():
            content = archive.read(part)
            if part.filename.endswith("sheet1.bin"):
                content = content.replace(
                    struct.pack("<II", 20, 0) + bytes(17), struct.pack("<II", 2**24, 0) + bytes(17)
                )
            far.writestr(part.filename, content)
    assert "cells, and at most" in why(tmp_path / "far.xlsb")


def sheets(header: list[str], names: list[str], clock: bool = False) -> dict[str, list[list[object]]]:
    """Sheets of one header with 6 rows each; clock: the first column counts on."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(len(names), 6, len(header))).round(3)
    values[:, :, 0] = np.arange(6) * 0.1 if clock else values[:, :, 0]
    return {name: [header, *own.tolist()] for name, own in zip(names, values, strict=True)}


def test_a_sheet_for_each_class_is_read_with_its_name_as_the_label(tmp_path: Path) -> None:
    needs("xlsx")
    made = sheets([f"t{i}" for i in range(9)], ["cat", "dog", "bird"])
    result = read(workbook(tmp_path / "f.xlsx", made))
    assert result.labels == ("cat",) * 6 + ("dog",) * 6 + ("bird",) * 6
    assert result.lengths.tolist() == [9] * 18
    np.testing.assert_allclose(result.values[:9, 0], made["cat"][1], atol=1e-6)
    assert any("all sheets are read as one table, with their names in 'sheet'" in note for note in result.notes)
    assert len(read(tmp_path / "f.xlsx", sheet="dog")) == 6


@pytest.mark.parametrize(
    ("other", "names", "text"),
    [
        ("variety", ["cat", "dog"], "each may be a class, a recording, or a table"),
        ("t9", ["Calibration", "Prediction"], "several sheets hold cells \\('Calibration', 'Prediction'\\); name one"),
        ("t9", ["Training set", "Test set"], "several sheets hold cells"),
    ],
)
def test_sheets_that_are_splits_or_have_a_column_that_may_be_the_label_are_no_classes(
    other: str, names: list[str], text: str, tmp_path: Path
) -> None:
    needs("xlsx")
    path = workbook(tmp_path / "f.xlsx", sheets([*(f"t{i}" for i in range(9)), other], names))
    with pytest.raises(BadInput, match=text):
        read(path)


def test_sheets_of_one_header_are_asked_about_and_each_answer_works(tmp_path: Path) -> None:
    needs("xlsx")
    path = workbook(tmp_path / "f.xlsx", sheets(["time", "x", "y"], ["r1", "r2", "r3", "r4"], clock=True))
    message = why(path)
    assert (
        "several sheets of one header hold cells ('r1', 'r2', 'r3', 'r4'); each may be a class, a recording" in message
    )
    ways = [line.split("FILE ")[1] for line in message.splitlines()[1:]]
    assert ways == ["--sheet '*' --target sheet", "--sheet '*' --layout long --id sheet", "--sheet r1"]
    result = read(path, sheet="*", shape="long", id="sheet")
    assert (result.lengths.tolist(), result.channels, result.ids) == ([6] * 4, ("x", "y"), ("r1", "r2", "r3", "r4"))
    assert len(read(path, sheet="*", target="sheet", time="", values=("x", "y"))) == 24
    looked = command("show", "f.xlsx", "--sheet", "*", "--layout", "long", "--id", "sheet", cwd=tmp_path)
    assert looked.returncode == 0


def changed(path: Path, old: str, new: str, **parts: str) -> Path:
    """A workbook with this in place of that in its sheets, and with more parts (`xl_sharedStrings` is a file of xl)."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name).decode() for name in archive.namelist()}
    assert any(old in text for text in contents.values())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(name, text.replace(old, new))
        for name, text in parts.items():
            archive.writestr(f"{name.replace('_', '/')}.xml", text)
    return path


@pytest.mark.parametrize("stored", ["", "<v/>", "<v></v>"])
def test_a_formula_without_a_stored_value_and_an_error_are_said(stored: str, tmp_path: Path) -> None:
    needs("xlsx")
    plain = read(workbook(tmp_path / "f.xlsx", {"S": ROWS}))
    assert not [note for note in plain.notes if "formula" in note or "error" in note]
    path = changed(workbook(tmp_path / "f.xlsx", {"S": ROWS}), "<v>2.25</v>", f"<f>1+B2</f>{stored}")
    assert any(
        note.startswith("1 cell holds a formula whose value no program has computed") for note in read(path).notes
    )
    path = changed(workbook(tmp_path / "f.xlsx", {"S": ROWS}), "<v>2.25</v>", "<f>1+B2</f><v>7</v>")
    assert (read(path).values[4, 0], "formula" in "".join(read(path).notes)) == (7, False)
    path = changed(workbook(tmp_path / "f.xlsx", {"S": ROWS}), '"><v>2.25</v>', '" t="e"><f>1/0</f><v>#REF!</v>')
    assert "1 cell holds an error such as #REF!, read as missing" in read(path).notes


def test_a_formula_of_opendocument_without_a_value_and_a_zero_that_stands_in_for_one_are_said(tmp_path: Path) -> None:
    needs("xlsx")
    cell = '<table:table-cell office:value-type="float" office:value="2.25"><text:p>2.25</text:p></table:table-cell>'
    path = changed(opendocument(tmp_path / "f.ods", ROWS), cell, '<table:table-cell table:formula="of:=1+[.B2]"/>')
    assert any("1 cell holds a formula whose value no program has computed" in note for note in read(path).notes)
    path = changed(workbook(tmp_path / "f.xlsx", {"S": ROWS}), "<v>2.25</v>", "<f>1+B2</f><v>0</v>")
    assert not [note for note in read(path).notes if "formula" in note]
    path = changed(path, "</workbook>", '<calcPr fullCalcOnLoad="1"/></workbook>')
    assert any("1 cell holds a formula whose value no program has computed" in note for note in read(path).notes)


def test_texts_that_cells_share_are_counted_before_they_are_made(tmp_path: Path) -> None:
    needs("xlsx")
    path = workbook(tmp_path / "f.xlsx", {"S": ROWS})
    count = '<sst uniqueCount="4294967295"><si><t>a</t></si></sst>'
    assert "says that it has 4,294,967,295 texts in 53 bytes" in why(changed(path, "", "", xl_sharedStrings=count))
    long = f"<sst><si><t>{'x' * 10**6}</t></si></sst>"
    rows = [[f"r{i}", *([0] * 20)] for i in range(10)]
    path = changed(workbook(tmp_path / "g.xlsx", {"S": rows}), "<c r=", '<c t="s" r=', xl_sharedStrings=long)
    assert "the text of its cells would take" in why(changed(path, ' t="s" r="A', ' r="A'))


def test_what_a_library_of_rust_prints_before_it_fails_is_not_seen(tmp_path: Path, capfd: Any) -> None:
    needs("xlsx")
    styles = '<styleSheet><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
    path = workbook(tmp_path / "f.xlsx", {"S": ROWS})
    changed(path, "<v>2.25</v>", "<v>-1e18</v>", xl_styles=styles)
    assert "is not a whole workbook" in why(changed(path, 'r="D3"', 's="1" r="D3"'))
    assert capfd.readouterr().err == ""
