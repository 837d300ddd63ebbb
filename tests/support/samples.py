"""A small good file of each format of READERS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headstart.data.readers import READERS
from support.made_files import brain_vision, needs, record, signals, workbook

ROWS = np.arange(12, dtype=np.float64).reshape(3, 4) + 0.5
LABELS = ["up", "down", "up"]


def _table() -> object:
    import pyarrow

    return pyarrow.table({"label": LABELS, **{f"x_{i}": ROWS[:, i] for i in range(4)}})


def _csv(path: Path) -> None:
    lines = [f"{label},{','.join(map(str, row))}" for label, row in zip(LABELS, ROWS, strict=True)]
    path.write_text("\n".join(["label,x_0,x_1,x_2,x_3", *lines]) + "\n")


def _jsonl(path: Path) -> None:
    rows = [{"label": label, "x": list(row)} for label, row in zip(LABELS, ROWS, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _json(path: Path) -> None:
    path.write_text(json.dumps([{"label": label, "x": list(row)} for label, row in zip(LABELS, ROWS, strict=True)]))


def _parquet(path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_table(), path)


def _arrow(path: Path) -> None:
    import pyarrow.feather

    pyarrow.feather.write_feather(_table(), str(path))


def _ts(path: Path) -> None:
    lines = [f"{','.join(map(str, row))}:{label}" for label, row in zip(LABELS, ROWS, strict=True)]
    head = ["@problemName made", "@timeStamps false", "@univariate true", "@classLabel true down up", "@data"]
    path.write_text("\n".join([*head, *lines]) + "\n")


def _fasta(path: Path) -> None:
    path.write_text("".join(f">s{i} {label}\nACGTACGT\n" for i, label in enumerate(LABELS)))


def _folder(path: Path) -> None:
    for i, label in enumerate(LABELS):
        (path / label).mkdir(parents=True, exist_ok=True)
        (path / label / f"{i}.txt").write_text("some words\n")


def _fastq(path: Path) -> None:
    path.write_text("".join(f"@s{i} {label}\nACGTACGT\n+\nIIIIIII!\n" for i, label in enumerate(LABELS)))


def _genbank(path: Path) -> None:
    entry = "LOCUS       S{}\nSOURCE      {}\n  ORGANISM  {}\nORIGIN\n        1 acgtacgtac gt\n//\n"
    path.write_text("".join(entry.format(i, label, label) for i, label in enumerate(LABELS)))


def _jcamp(path: Path) -> None:
    head = ["##TITLE=made", "##JCAMP-DX=4.24", "##FIRSTX=1", "##LASTX=6", "##NPOINTS=6", "##XYDATA=(X++(Y..Y))"]
    path.write_text("\n".join([*head, "1 0.5 1.5 2.5", "4 3.5 4.5 5.5", "##END="]) + "\n")


def _arff(path: Path) -> None:
    head = ["@relation made", *(f"@attribute x_{i} numeric" for i in range(4)), "@attribute state {down,up}", "@data"]
    lines = [f"{','.join(map(str, row))},{label}" for label, row in zip(LABELS, ROWS, strict=True)]
    path.write_text("\n".join([*head, *lines]) + "\n")


def _mat(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"X": ROWS, "labels": np.array(LABELS, dtype=object)})


def _hdf5(path: Path) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        file["X"], file["labels"] = ROWS, LABELS


def _wav(path: Path) -> None:
    from scipy.io import wavfile

    wavfile.write(path, 8_000, np.arange(100, dtype=np.int16))


SIGNALS = np.random.default_rng(0).normal(size=(200, 2))
SAMPLES: dict[str, Callable[[Path], object]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _json,
    "parquet": _parquet,
    "arrow": _arrow,
    "npz": lambda path: np.savez(path, X=ROWS, labels=np.array(LABELS)),
    "npy": lambda path: np.save(path, ROWS),
    "ts": _ts,
    "fasta": _fasta,
    "fastq": _fastq,
    "genbank": _genbank,
    "xlsx": lambda path: workbook(
        path, {"Data": [["label", *"wxyz"], *([label, *row] for label, row in zip(LABELS, ROWS.tolist(), strict=True))]}
    ),
    "mat": _mat,
    "hdf5": _hdf5,
    "arff": _arff,
    "jcamp": _jcamp,
    "sound": _wav,
    "edf": lambda path: signals(path, SIGNALS),
    "wfdb": lambda path: record(path, SIGNALS),
    "brainvision": lambda path: brain_vision(path, SIGNALS),
    "folder": _folder,
}
"""What writes three sequences in each format, or one where a file is one: a new line of READERS needs one here."""


def sample(form: str, folder: Path) -> Path:
    """A file of the format, with the first ending that its line names."""
    needs(form)
    ending = READERS[form].facts["endings"].split()
    path = folder / ("data" if not ending else f"data.{ending[0]}")
    SAMPLES[form](path)
    return path
