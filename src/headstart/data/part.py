"""A part of a large file, read in place of all of it, where time or memory has no room for the rest.

Rows are taken evenly over the file, so that a file in the order of its classes, people or days gives some of each.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headstart import disk
from headstart.atomic import PRIVATE, PRIVATE_FOLDER, Writable, publish, published, stamps
from headstart.data.layout import LayoutSpec
from headstart.data.sources import read_sequences
from headstart.documents import sorted_json
from headstart.errors import BadInput
from headstart.limits import memory
from headstart.spec import digest

PART_LINES, PARQUET = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"), ".parquet"
WHOLE_FILE, FIRST_BYTES, TIMED_BYTES, PART_BYTES = 1 << 23, 1 << 18, 1 << 21, 1 << 24
"""Bytes of a file that is always read whole; of its beginning that says how it is laid out, and that is timed; and
that are looked through at once."""
PART_OF_TIME, PREPARING = 0.4, 1.7
"""Of the time, so much is for reading and preparing, which take so many times as long as reading alone."""
MEMORY_TIMES = 8.0
"""Bytes in memory for each of a text file while it becomes numbers, as measured."""
HEAD_ROWS, LEAST_PART = 8, 100
"""Rows of a first beginning at most that tell that columns, not rows, take the time; and rows of a part at least."""


@dataclass(frozen=True)
class FilePart:
    """Rows of a file, in a file of their own: `rows` of `whole`."""

    file: Path
    rows: int
    whole: int

    @property
    def text(self) -> str:
        """As a person reads it."""
        return f"{self.rows:,} of {self.whole:,} rows of the file are read, evenly over it"

    @classmethod
    def of(cls, path: Path, layout: LayoutSpec, folder: Path, seconds: float | None) -> FilePart | None:
        """A part of a text or Parquet file with a sequence per row, written into `folder`; None where there is room for
        all of it, or the file is of another form.

        seconds: that the whole fit may take. Beginnings of the file are read to tell what all of it would take.
        """
        if not path.is_file() or path.stat().st_size <= WHOLE_FILE or path.suffix.lower() not in (*PART_LINES, PARQUET):
            return None
        key = {"files": stamps([path]), "layout": layout.model_dump(mode="json"), "seconds": seconds}
        target = folder / "parts" / digest(key) / f"{path.stem}.part{path.suffix}"
        counts = target.with_name("rows.json")
        with suppress(OSError, ValueError):  # the same command has its part already, and goes on with it
            return cls(target, **json.loads(counts.read_bytes()))
        with suppress(BadInput):  # what is wrong with a beginning is wrong with the file, and said of that
            share, skipped = _share(path, target, layout, seconds)
            if share < 1:
                rows, whole = (_parquet_part if _packed(path) else _part)(path, target, share, skipped)
                publish(counts, sorted_json({"rows": rows, "whole": whole}))
                return cls(target, rows, whole)
        return None


def _share(path: Path, target: Path, layout: LayoutSpec, seconds: float | None) -> tuple[float, int]:
    """How much of a file's rows there is room for, and how many lines stand above them."""
    head, size, room = _parquet_head if _packed(path) else _head, path.stat().st_size, memory()
    disk.make_folder(target.parent, PRIVATE_FOLDER)
    beginning = target.with_name(f"{path.stem}{path.suffix}")
    # The first is not timed: libraries are loaded. The others tell what more bytes take, beside what every file does.
    first = head(path, beginning, layout, FIRST_BYTES)
    if first is not None and first.rows > HEAD_ROWS:  # else each beginning takes what its columns take, and is dear
        first = head(path, beginning, layout, FIRST_BYTES)
    timed = head(path, beginning, layout, TIMED_BYTES) if first is not None else None
    if first is None or timed is None or first.skipped is None or timed.skipped != first.skipped:
        return 1.0, 0
    most = [1.0]
    if seconds is not None:
        each = (timed.seconds - first.seconds) / max(timed.size - first.size, 1)
        each = max(each, timed.seconds / timed.size / 3)
        most.append(PART_OF_TIME * seconds / (PREPARING * each * size))
    if room is not None:
        most.append(room.size / (MEMORY_TIMES * size * timed.blown))
    share = max(min(most), LEAST_PART * timed.size / (timed.rows * size))
    return share, first.skipped


def _packed(path: Path) -> bool:
    return path.suffix.lower() == PARQUET


@dataclass(frozen=True)
class _Head:
    """The beginning of a file. skipped: lines above its rows, None where rows and lines do not go together. blown:
    bytes in memory for each, over those of a text file."""

    seconds: float
    size: int
    rows: int
    skipped: int | None
    blown: float = 1.0


def _head(path: Path, target: Path, layout: LayoutSpec, size: int) -> _Head | None:
    with path.open("rb") as opened:
        data = opened.read(size)
    data = data[: data.rfind(b"\n") + 1]
    lines = data.count(b"\n")
    if not lines or b"\0" in data or any(line.count(b'"') % 2 for line in data.splitlines()):
        return None
    return _timed(target, data, layout, len(data), lines)


def _timed(target: Path, data: bytes, layout: LayoutSpec, size: int, lines: int, blown: float = 1.0) -> _Head:
    disk.write_file(target, data)
    begun = time.monotonic()
    sequences = read_sequences(target, layout)
    seconds, rows = time.monotonic() - begun, len(sequences)
    apart = sequences.layout.shape in ("wide", "text", "list") and sequences.windows is None
    skipped = lines - rows if apart and 0 <= lines - rows < min(rows, 20) else None
    return _Head(max(seconds, 1e-3), size, rows, skipped, blown)


def _part(path: Path, target: Path, share: float, skipped: int) -> tuple[int, int]:
    """Write the lines above the rows, and so large a share of the rows."""
    seen, taken, rest = 0, 0, b""
    with path.open("rb") as opened, published(target, PRIVATE) as file, io.BufferedWriter(Writable(file)) as out:
        while chunk := opened.read(PART_BYTES):
            chunk = rest + chunk
            end = chunk.rfind(b"\n") + 1
            chunk, rest = chunk[:end], chunk[end:]
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
            number = np.arange(seen, seen + len(ends))
            chosen = np.flatnonzero((number < skipped) | _even(number - skipped, share))
            starts = np.concatenate([[0], ends[:-1]])[chosen] if len(ends) else ends
            out.writelines(chunk[a:b] for a, b in zip(starts.tolist(), ends[chosen].tolist(), strict=True))
            seen, taken = seen + len(ends), taken + len(chosen)
        if rest and _even(np.array([seen - skipped]), share)[0]:
            out.write(rest)
            taken += 1
        seen += bool(rest)
    return taken - skipped, seen - skipped


def _even(number: np.ndarray, share: float) -> np.ndarray:
    """Which rows of these numbers are taken, so that of each run of neighbours as large a share is."""
    chosen: np.ndarray = np.floor((number + 1) * share) > np.floor(number * share)
    return chosen


def _parquet_head(path: Path, target: Path, layout: LayoutSpec, size: int) -> _Head | None:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    whole = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    rows = max(1, min(file.metadata.num_rows, int(size / max(whole, 1) * file.metadata.num_rows)))
    batch = next(iter(file.iter_batches(rows)))
    memory_file = io.BytesIO()
    with parquet.ParquetWriter(memory_file, batch.schema) as out:
        out.write_batch(batch)
    share, data = len(batch) / file.metadata.num_rows, memory_file.getvalue()
    return _timed(
        target, data, layout, max(1, int(share * path.stat().st_size)), len(batch), whole / path.stat().st_size
    )


def _parquet_part(path: Path, target: Path, share: float, _: int) -> tuple[int, int]:
    """Write so large a share of the rows."""
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    taken = 0
    with published(target, PRIVATE) as opened, parquet.ParquetWriter(Writable(opened), file.schema_arrow) as out:
        for batch in _chosen(file, share):
            out.write_batch(batch)
            taken += len(batch)
    return taken, file.metadata.num_rows


def _chosen(file: Any, share: float) -> Iterator[Any]:
    seen = 0
    for batch in file.iter_batches(1 << 16):
        yield batch.take(np.flatnonzero(_even(np.arange(seen, seen + len(batch)), share)))
        seen += len(batch)
