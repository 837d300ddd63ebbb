"""A part of a large file or folder, read in place of all of it, where time or memory has no room for the rest.

Rows and files are taken evenly over it, so that one in the order of its classes, people or days gives some of each.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headstart import disk
from headstart.atomic import PRIVATE, PRIVATE_FOLDER, Writable, publish, published, stamps
from headstart.data.archives import check_link, files_of, listed, visible
from headstart.data.arrays import FileArray, file_arrays
from headstart.data.file_labels import WHOLE_LIST
from headstart.data.folders import recordings_of
from headstart.data.layout import LayoutSpec
from headstart.data.parquet_footer import column_chunks
from headstart.data.rows import whole_file
from headstart.data.sources import read_sequences
from headstart.documents import sorted_json
from headstart.errors import BadInput
from headstart.limits import memory
from headstart.spec import digest

PART_LINES, PARQUET = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"), ".parquet"
WHOLE_FILE, FIRST_BYTES, TIMED_BYTES, PART_BYTES = 1 << 23, 1 << 18, 1 << 21, 1 << 24
"""Bytes of a file that is always read whole; of its beginning that says how it is laid out, and that is timed; and
that are looked through at once."""
WHOLE_FOLDER, FIRST_FILES, TIMED_FILES, SIZED = 250, 20, 100, 1_000
"""The same of a folder, in recordings; and those whose size stands for all."""
PART_OF_TIME, CELL_SECONDS, VALUE_SECONDS, ROW_SECONDS = 0.4, 2e-7, 2.5e-7, 1.2e-5
"""Of the time, so much is for reading and preparing; processor seconds of a cell of a wide table that is read, and of a
value and a row that are prepared (2-core AMD EPYC)."""
MEMORY_TIMES = 8.0
"""Bytes in memory for each of a text file while it becomes numbers, as measured."""
WIDE_ROW, HEAD_ROWS, LEAST_PART = 5_000, 16, 100
"""Values of a row from which on columns, not rows, take the time of a beginning; rows of one, and of a part, at
least."""
GOLDEN = (math.sqrt(5) - 1) / 2
MANY_FOLDERS = 50
"""Folders with a recording each in every part, at most."""


@dataclass(frozen=True)
class FilePart:
    """Rows of a file, in a file of their own, or files of a folder: `rows` of `whole`."""

    file: Path
    rows: int
    whole: int

    @property
    def text(self) -> str:
        """As a person reads it."""
        what = "recordings of the folder" if self.file.is_dir() else "rows of the file"
        return f"{self.rows:,} of {self.whole:,} {what} are read, evenly over it"

    @classmethod
    def of(cls, path: Path, layout: LayoutSpec, folder: Path, seconds: float | None) -> FilePart | None:
        """A part of a text or Parquet file with a sequence per row, of arrays, or of a folder of recordings, written
        into `folder`; None where there is room for all of it, or it is of another form.

        seconds: that the whole fit may take. Beginnings are read to tell what all of it would take.
        """
        key = {"layout": layout.model_dump(mode="json"), "seconds": seconds}
        source, share, skipped = None, 1.0, 0
        with suppress(BadInput, OSError):  # what is wrong with a beginning is wrong with the file, and said of that
            if (source := _source(path, layout)) is None:
                return None
            at = folder / "parts" / digest({"files": stamps(files_of(path)), **key})
            target = at / f"{path.stem}.part{path.suffix}"
            with suppress(OSError, ValueError):  # the same command has its part already, and goes on with it
                return cls(target, **json.loads((at / "rows.json").read_bytes()))
            disk.make_folder(at, PRIVATE_FOLDER)
            share, skipped = _share(source, at, layout, seconds)
        if source is None or share >= 1:
            return None
        with suppress(BadInput):  # but a disk without room for the part is said at once
            rows, whole = source.write(target, share, skipped)
            publish(at / "rows.json", sorted_json({"rows": rows, "whole": whole}))
            return cls(target, rows, whole)
        return None


@dataclass
class _Source:
    """What may be read in part. size: bytes of all of it (of a folder: recordings); blown: bytes in memory for each,
    over those of a text file; first, timed: sizes of its beginnings."""

    path: Path
    size: float
    first: int
    timed: int
    blown: float = 1.0

    def head(self, folder: Path, size: int) -> tuple[Path, int, int] | None:
        """A beginning of about this size, written into `folder`: where, its size, its lines; None where it has none
        that stands for the others."""
        raise NotImplementedError

    def write(self, target: Path, share: float, skipped: int) -> tuple[int, int]:
        """Write so large a share: (its rows, all rows). skipped: lines above the rows."""
        raise NotImplementedError


def _source(path: Path, layout: LayoutSpec) -> _Source | None:
    """None for what is small, or of a form that is not cut."""
    ending, size = path.suffix.lower(), os.path.getsize(path)
    if path.is_dir():
        return _folder(path)
    if not path.is_file() or size <= WHOLE_FILE:
        return None
    if ending in (".npy", ".npz"):
        return _arrays(path, layout)
    if ending in PART_LINES:
        return _Lines(path, size, FIRST_BYTES, TIMED_BYTES)
    return _parquet(path, size) if ending == PARQUET else None


def _share(source: _Source, folder: Path, layout: LayoutSpec, seconds: float | None) -> tuple[float, int]:
    """How much of the rows there is room for, and how many lines stand above them."""
    room, size, most, seconds = memory(), source.size, [1.0], seconds or math.inf
    if room is not None:
        most.append(room.size / (MEMORY_TIMES * size * source.blown))
    # The first is not timed: libraries are loaded. The others tell what more bytes take, beside what every file does.
    first = _timed(source, folder, layout, source.first)
    wide = first is not None and isinstance(source, _Lines) and first.values > WIDE_ROW * first.rows
    if first is not None and not wide:
        first = _timed(source, folder, layout, source.first)
    timed = first if wide or first is None else _timed(source, folder, layout, source.timed)
    if first is None or timed is None or first.skipped is None or timed.skipped != first.skipped:
        return 1.0, 0
    dense = timed.busy * timed.values / timed.size
    if wide:  # its columns take almost all of it, and take it again
        each, fixed = (CELL_SECONDS + VALUE_SECONDS) * dense, 2 * timed.seconds
    else:
        more = (timed.seconds - first.seconds) / max(timed.size - first.size, 1)
        rows = timed.busy * timed.rows / timed.size
        each, fixed = max(more, timed.seconds / timed.size / 3) + VALUE_SECONDS * dense + ROW_SECONDS * rows, 0.0
    most.append((PART_OF_TIME * seconds - fixed) / (each * size))
    return max(min(most), LEAST_PART * timed.size / (timed.rows * size)), first.skipped


@dataclass(frozen=True)
class _Head:
    """The beginning of a file, read. skipped: lines above its rows, None where rows and lines do not go together.
    busy: times as long as the processor's time."""

    seconds: float
    size: int
    rows: int
    skipped: int | None
    values: int
    busy: float


def _timed(source: _Source, folder: Path, layout: LayoutSpec, size: int) -> _Head | None:
    head = source.head(folder, size)
    if head is None:
        return None
    path, size, lines = head
    begun, used = time.monotonic(), time.process_time()
    sequences = read_sequences(path, layout)
    seconds, used, rows = max(time.monotonic() - begun, 1e-3), time.process_time() - used, len(sequences)
    apart = sequences.layout.shape in ("wide", "text", "list") and sequences.windows is None
    skipped = lines - rows if apart and 0 <= lines - rows < min(rows, 20) else None
    return _Head(seconds, size, rows, skipped, sequences.values.size, max(1.0, seconds / max(used, 1e-3)))


class _Lines(_Source):
    """A text table, or JSON lines."""

    def head(self, folder: Path, size: int) -> tuple[Path, int, int] | None:
        with self.path.open("rb") as opened:
            data = opened.read(size)
            while data.count(b"\n") < HEAD_ROWS and len(data) < self.size / 2 and (more := opened.read(size)):
                data += more
        data = data[: data.rfind(b"\n") + 1]
        lines = data.count(b"\n")
        if not lines or b"\0" in data or any(line.count(b'"') % 2 for line in data.splitlines()):
            return None
        target = folder / self.path.name
        disk.write_file(target, data)
        return target, len(data), lines

    def write(self, target: Path, share: float, skipped: int) -> tuple[int, int]:
        seen, taken, rest = 0, 0, b""
        with (
            self.path.open("rb") as file,
            published(target, PRIVATE) as opened,
            io.BufferedWriter(Writable(opened)) as out,
        ):
            while chunk := file.read(PART_BYTES):
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
    """Which rows of these numbers are taken: of each run of neighbours as large a share, and at no fixed distance, or
    of classes that take turns some would be missed."""
    chosen: np.ndarray = (number + 1) * GOLDEN % 1 < share
    return chosen


def _parquet(path: Path, size: int) -> _Source:
    with whole_file(path, "Parquet"):
        whole = sum(chunk.size for chunk in column_chunks(path))
    return _Parquet(path, size, FIRST_BYTES, TIMED_BYTES, max(whole, 1) / size)


class _Parquet(_Source):
    """A table of Parquet; sizes of beginnings are of what is not packed."""

    def head(self, folder: Path, size: int) -> tuple[Path, int, int] | None:
        from pyarrow import parquet

        file = parquet.ParquetFile(self.path)
        count = file.metadata.num_rows
        batch = next(iter(file.iter_batches(max(1, min(count, int(size / (self.blown * self.size) * count))))))
        memory_file, target = io.BytesIO(), folder / self.path.name
        with parquet.ParquetWriter(memory_file, batch.schema) as out:
            out.write_batch(batch)
        disk.write_file(target, memory_file.getvalue())
        return target, max(1, int(len(batch) / count * self.size)), len(batch)

    def write(self, target: Path, share: float, skipped: int) -> tuple[int, int]:
        from pyarrow import parquet

        file, seen, taken = parquet.ParquetFile(self.path), 0, 0
        with published(target, PRIVATE) as opened, parquet.ParquetWriter(Writable(opened), file.schema_arrow) as out:
            for batch in file.iter_batches(1 << 16):
                part = batch.take(np.flatnonzero(_even(np.arange(seen, seen + len(batch)), share)))
                out.write_batch(part)
                seen, taken = seen + len(batch), taken + len(part)
        return taken, file.metadata.num_rows


def _arrays(path: Path, layout: LayoutSpec) -> _Source | None:
    arrays = file_arrays(path)
    largest = max(arrays, key=lambda name: arrays[name].nbytes, default="")
    largest = next((name for name in layout.values if name in arrays), largest)
    if not arrays or (len(arrays[largest].shape) < 2 and arrays[largest].dtype.kind not in "US"):
        return None  # vectors may be the channels of one recording
    rows = arrays[largest].shape[0]
    size = sum(array.nbytes for array in arrays.values() if array.shape[:1] == (rows,))
    return _Arrays(path, size, FIRST_BYTES, TIMED_BYTES, arrays=arrays, rows=rows)


@dataclass
class _Arrays(_Source):
    """Arrays of numpy with a row for each sequence, and others; those that are not packed are not held."""

    arrays: Mapping[str, FileArray | np.ndarray] = field(default_factory=dict)
    rows: int = 0

    def _part(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        part = {}
        for name, array in self.arrays.items():
            apart = array.shape[:1] == (self.rows,)
            if isinstance(array, FileArray):
                part[name] = array.rows(chosen) if apart else array.whole()
            else:
                part[name] = array[chosen] if apart else array
        return part

    def _save(self, file: Any, part: Mapping[str, np.ndarray]) -> None:
        if self.path.suffix.lower() == ".npy":
            np.save(file, next(iter(part.values())))
        else:
            np.savez(file, **part)  # type: ignore[arg-type]

    def head(self, folder: Path, size: int) -> tuple[Path, int, int] | None:
        chosen = np.flatnonzero(
            _even(np.arange(self.rows), min(1.0, max(size, self.size * 20 / self.rows) / self.size))
        )
        content, target = io.BytesIO(), folder / self.path.name
        self._save(content, self._part(chosen))
        disk.write_file(target, content.getvalue())
        return target, int(len(chosen) / self.rows * self.size), len(chosen)

    def write(self, target: Path, share: float, skipped: int) -> tuple[int, int]:
        chosen = np.flatnonzero(_even(np.arange(self.rows), share))
        with published(target, PRIVATE) as opened, io.BufferedWriter(Writable(opened)) as out:
            self._save(out, self._part(chosen))
        return len(chosen), self.rows


def _folder(path: Path) -> _Source | None:
    names = listed(path, visible)
    recordings, beside = recordings_of(names)
    if len(recordings) <= WHOLE_FOLDER:
        return None
    some = [*recordings.values()][:: max(1, len(recordings) // SIZED)]
    size = sum(os.path.getsize(path / file) for files in some for file in files) / len(some)
    return _Folder(path, len(recordings), FIRST_FILES, TIMED_FILES, size, recordings=recordings, beside=beside)


@dataclass
class _Folder(_Source):
    """Recordings, each with the files that it has, and tables of their labels."""

    recordings: Mapping[str, list[str]] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)

    def head(self, folder: Path, size: int) -> tuple[Path, int, int] | None:
        target = folder / f"beginning{size}"
        count, _ = self.write(target, size / self.size, 0)
        return target, count, count

    def write(self, target: Path, share: float, skipped: int) -> tuple[int, int]:
        """Of each folder a recording at least, where these are few."""
        folders = dict[str, list[str]]()
        for name in self.recordings:
            folders.setdefault(os.path.dirname(name), []).append(name)
        groups = [*folders.values()] if len(folders) <= MANY_FOLDERS else [[*self.recordings]]
        chosen = list[str]()
        for group in groups:
            taken = np.flatnonzero(_even(np.arange(len(group)), share)).tolist()
            chosen += [group[i] for i in taken or [0]]
        disk.remove_tree(target, ignore_errors=True)
        disk.make_folder(target, PRIVATE_FOLDER)
        made = {target}
        for each in [*(file for name in chosen for file in self.recordings[name]), *self.beside]:
            file, copy = self.path / each, target / each
            check_link(self.path, file)
            if copy.parent not in made:
                disk.make_folder(copy.parent, PRIVATE_FOLDER)
                made.add(copy.parent)
            disk.write_file(copy, file.read_bytes())
        every = "".join(f"{name}\n" for files in self.recordings.values() for name in files)
        disk.write_file(target / WHOLE_LIST, every.encode(errors="surrogateescape"))
        return len(chosen), len(self.recordings)
