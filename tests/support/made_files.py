"""Small files of formats that have a library of their own, written by it, or byte by byte."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart.data.readers import READERS

_TYPE = "application/vnd.openxmlformats-"
_XML = '<?xml version="1.0"?>'
_SCHEMA = "http://schemas.openxmlformats.org"


def needs(form: str) -> None:
    """Skip the test where the library that reads this format is absent."""
    if (name := READERS[form].facts.get("needs")) is not None:
        pytest.importorskip(name, reason="needs the extra [formats]: pip install 'headstart[formats]'")


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    """An .xlsx file: of each sheet its rows, whose cells are numbers, texts, or None."""
    kinds = f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}officedocument.spreadsheetml.sheet.main+xml"/>'
    names = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1))
    link = f'Type="{_SCHEMA}/officeDocument/2006/relationships'
    links = "".join(
        f'<Relationship Id="r{i}" {link}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    relations = f'<Relationships xmlns="{_SCHEMA}/package/2006/relationships">'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_SCHEMA}/package/2006/content-types"><Default Extension="rels" '
        f'ContentType="{_TYPE}package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>{kinds}'
        "</Types>",
        "_rels/.rels": f'{relations}<Relationship Id="r" {link}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_SCHEMA}/spreadsheetml/2006/main" '
        f'xmlns:r="{_SCHEMA}/officeDocument/2006/relationships"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"{relations}{links}</Relationships>",
    }
    for i, rows in enumerate(sheets.values(), 1):
        cells = "".join(_row(number, row) for number, row in enumerate(rows, 1))
        parts[f"xl/worksheets/sheet{i}.xml"] = (
            f'<worksheet xmlns="{_SCHEMA}/spreadsheetml/2006/main"><sheetData>{cells}</sheetData></worksheet>'
        )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, _XML + text)
    return path


def _row(number: int, row: Sequence[Any]) -> str:
    cells = "".join(_cell(f"{_letters(i)}{number}", cell) for i, cell in enumerate(row) if cell is not None)
    return f'<row r="{number}">{cells}</row>'


def _cell(address: str, cell: Any) -> str:
    if isinstance(cell, str):
        return f'<c r="{address}" t="inlineStr"><is><t>{cell}</t></is></c>'
    return f'<c r="{address}"><v>{cell}</v></c>'


def _letters(column: int) -> str:
    return (_letters(column // 26 - 1) if column > 25 else "") + chr(65 + column % 26)


def signals(path: Path, samples: np.ndarray, rates: Sequence[float] = (), names: Sequence[str] = ("Fpz", "Cz")) -> Path:
    """An EDF file (or BDF, by its ending) of samples (L, F) at 100 samples a second, or at these rates."""
    edfio = pytest.importorskip("edfio")

    signal, whole = (edfio.BdfSignal, edfio.Bdf) if path.suffix == ".bdf" else (edfio.EdfSignal, edfio.Edf)
    rates = rates or [100.0] * samples.shape[1]
    parts = [
        signal(samples[: int(len(samples) * rate / max(rates)), f], rate, label=names[f], physical_dimension="uV")
        for f, rate in enumerate(rates)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    whole(parts).write(path)
    return path


def record(path: Path, samples: np.ndarray, fmt: str = "16") -> Path:
    """A record of WFDB of two leads at 250 samples a second, by the path of its header."""
    wfdb = pytest.importorskip("wfdb")

    leads = {"units": ["mV", "mV"], "sig_name": ["MLII", "V5"], "fmt": [fmt, fmt]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how it calls pandas
        wfdb.wrsamp(path.stem, fs=250, p_signal=samples, write_dir=str(path.parent), **leads)
    return path


def tone(path: Path, length: int = 4_000, rate: int = 8_000, pitch: float = 440.0) -> Path:
    """A recording of a tone, in the format of the ending."""
    soundfile = pytest.importorskip("soundfile")

    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.5 * np.sin(2 * np.pi * pitch * np.arange(length) / rate), rate)
    return path


def brain_vision(
    path: Path, samples: np.ndarray, form: str = "IEEE_FLOAT_32", across: bool = True, marks: str = "", **about: str
) -> Path:
    """A recording of BrainVision of samples (L, F) at 100 a second, its header at `path`."""
    keys = {
        "DataFile": f"{path.stem}.eeg",
        "MarkerFile": f"{path.stem}.vmrk",
        "DataFormat": "BINARY",
        "DataOrientation": "MULTIPLEXED" if across else "VECTORIZED",
        "NumberOfChannels": str(samples.shape[1]),
        "SamplingInterval": "10000",
    } | about
    scale = "0.5" if form == "INT_16" else "1"
    head = ["Brain Vision Data Exchange Header File Version 1.0", "", "[Common Infos]"]
    head += [f"{key}={value}" for key, value in keys.items()]
    head += ["[Binary Infos]", f"BinaryFormat={form}", "[Channel Infos]"]
    head += [f"Ch{i + 1}=C{i + 1},,{scale},µV" for i in range(samples.shape[1])]
    path.write_text("\n".join([*head, "[Comment]", "made = by hand"]), "utf-8")
    whole = (samples / float(scale)).round() if form == "INT_16" else samples
    whole = whole.astype("<i2" if form == "INT_16" else "<f4")
    (whole if across else np.ascontiguousarray(whole.T)).tofile(path.with_suffix(".eeg"))
    begin = "Brain Vision Data Exchange Marker File, Version 1.0\n[Marker Infos]\nMk1=New Segment,,1,1,0\n"
    path.with_suffix(".vmrk").write_text(begin + marks)
    return path
