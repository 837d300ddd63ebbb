"""One contract for every format of the table READERS."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headstart.data import LayoutSpec, format_of, read_blocks, read_sequences
from headstart.data.readers import READERS
from headstart.errors import BadInput

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


SAMPLES: dict[str, Callable[[Path], object]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "arrow": _arrow,
    "npz": lambda path: np.savez(path, X=ROWS, labels=np.array(LABELS)),
    "npy": lambda path: np.save(path, ROWS),
    "ts": _ts,
    "fasta": _fasta,
    "folder": _folder,
}
"""What writes three sequences in each format: a new line of READERS needs one here."""


def sample(form: str, folder: Path) -> Path:
    """A file of the format, with the first ending that its line names."""
    ending = READERS[form].facts["endings"].split()
    path = folder / ("data" if not ending else f"data.{ending[0]}")
    SAMPLES[form](path)
    return path


def test_no_ending_belongs_to_two_formats() -> None:
    endings = [ending for line in READERS.values() for ending in line.facts["endings"].split()]
    assert len(endings) == len(set(endings))
    assert all(ending == ending.lower() for ending in endings)


@pytest.mark.parametrize("form", READERS)
def test_a_file_is_told_by_its_name_and_read_as_its_format_says(form: str, tmp_path: Path) -> None:
    path = sample(form, tmp_path)
    if path.is_file():
        assert format_of(path) == form
    sequences = read_sequences(path)
    assert len(sequences) == 3
    named = read_sequences(path, LayoutSpec(format=form))
    assert len(named) == 3
    blocks = list(read_blocks(path, named.layout.fixed if isinstance(named.layout, LayoutSpec) else LayoutSpec()))
    assert sum(map(len, blocks)) == 3


@pytest.mark.parametrize("form", [form for form, line in READERS.items() if line.facts["endings"]])
@pytest.mark.parametrize("content", [b"\x00\xff\xfe" * 20, b"\n\n", b""])
def test_a_file_that_is_no_such_thing_is_refused_in_words(form: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"broken.{READERS[form].facts['endings'].split()[0]}"
    path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        read_sequences(path)
    assert path.name in str(error.value)


@pytest.mark.parametrize("form", READERS)
def test_what_a_reader_reads_is_said(form: str) -> None:
    assert READERS[form].summary
    assert READERS[form].load().__doc__
