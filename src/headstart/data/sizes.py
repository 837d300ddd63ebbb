"""How much a file may unpack to, and how much the arrays of a table are once they are numbers and texts.

A few bytes can stand for gigabytes: a dictionary of one long text that thousands of rows name, a run of equal numbers,
lists that overlap. So sizes are counted before anything of them is made.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data import archives
from headstart.data.parquet_footer import column_chunks
from headstart.data.table import chunks, is_list, is_text, numbers_of
from headstart.errors import BadInput

SMALL_TABLE = 2**27
"""Bytes that every table may have."""
NUMBER_BYTES, STRING_BYTES = 8, 64
"""Bytes of a number, and those that a text of Python has besides its letters."""
MOST_COLUMNS = 100_000
"""Columns that a text file may have: each takes kilobytes of memory, whatever its cells hold."""
SPARSE_CELLS, FEW_CELLS = 50, 10**6
"""Cells of JSON lines for each one that is there, and cells that every file may have."""


def most_bytes(path: Path) -> int:
    """Bytes that a table may have in memory: more of a larger file, at most 4 GiB."""
    return archives.most_unpacked(path, SMALL_TABLE)


def limited(batches: Iterable[Any], path: Path) -> Iterator[Any]:
    """The batches of Arrow. Raises: BadInput once they would take more than the file may."""
    size, most = 0, most_bytes(path)
    for batch in batches:
        size += sum(map(size_of, batch.columns))
        if size > most:
            raise too_large(path, most)
        yield batch


def too_large(path: Path, most: int) -> BadInput:
    """What to raise for a table of more bytes than a file of its size may have."""
    return BadInput(f"{path}: unpacks to more than {most:,} bytes; give it in parts")


def size_of(data: Any) -> int:
    """Bytes of an Arrow array as numbers and as texts of Python, without making them."""
    import pyarrow as pa

    kind = data.type
    if isinstance(kind, pa.BaseExtensionType):
        return size_of(data.storage)
    if pa.types.is_dictionary(kind):
        return sum(map(_of_dictionary, chunks(data)))
    if is_text(kind):
        return int(_lengths(data).sum()) + STRING_BYTES * len(data)
    if _is_list(kind):
        return NUMBER_BYTES * len(data) + sum(map(_of_lists, chunks(data)))
    return max(int(data.nbytes), NUMBER_BYTES * len(data))


def _of_dictionary(data: Any) -> int:
    words = data.dictionary
    if not len(words):
        return NUMBER_BYTES * len(data)
    each = (
        _lengths(words) + STRING_BYTES
        if is_text(words.type)
        else np.full(len(words), size_of(words) // len(words) + NUMBER_BYTES)
    )
    indices = np.nan_to_num(numbers_of(data.indices).astype(np.float64)).astype(np.int64)
    return int(each[np.clip(indices, 0, len(words) - 1)].sum())


def _of_lists(data: Any) -> int:
    """Of lists, which may share what they hold: so much of each item as its share of all of them."""
    import pyarrow.compute as pc

    inner = data.values
    if not len(inner):
        return 0
    items = int(np.nan_to_num(numbers_of(pc.list_value_length(data)).astype(np.float64)).sum())
    return int(size_of(inner) / len(inner) * items)


def _is_list(kind: Any) -> bool:
    return is_list(kind) or str(kind).startswith(("list_view<", "large_list_view<"))


def _lengths(texts: Any) -> np.ndarray:
    """(n,) bytes of each text; those of views stand in the first four of their sixteen bytes."""
    import pyarrow.compute as pc

    if "view" in str(texts.type):
        parts = [
            np.frombuffer(part.buffers()[1], dtype=np.int32).reshape(-1, 4)[part.offset : part.offset + len(part), 0]
            for part in chunks(texts)
        ]
        sizes: np.ndarray = np.concatenate([np.zeros(0, np.int64), *parts]).clip(0)
        return sizes
    lengths = np.nan_to_num(numbers_of(pc.binary_length(texts)))
    return np.asarray(lengths, dtype=np.int64)


def check_parquet(path: Path) -> None:
    """Raises: BadInput where a Parquet file would take more than it may, by what it says of itself and by its
    dictionaries of texts, before any row is made."""
    import pyarrow.parquet

    parts, most = column_chunks(path), most_bytes(path)
    if NUMBER_BYTES * sum(part.values for part in parts) > most:
        raise too_large(path, most)
    texts = [part for part in parts if part.texts]
    doubtful = {part.path for part in texts if part.values * max(part.size, 0) > most}
    if not doubtful:
        return
    # A text may be the one before with another end: no longer than all of them, and few are made at a time.
    deltas = {part.path: part.size for part in texts if part.deltas}
    rows = min(1024, max(1, SMALL_TABLE // max(deltas.values(), default=1)))
    with pyarrow.parquet.ParquetFile(path, read_dictionary=sorted(doubtful - deltas.keys())) as again:
        for _ in limited(again.iter_batches(batch_size=rows, columns=sorted(doubtful)), path):
            pass


def check_sparse(path: Path, columns: int, rows: int, cells: int) -> None:
    """Raises: BadInput where nearly every row of JSON lines lacks nearly every key. cells: those that are there."""
    if columns * rows > max(FEW_CELLS, SPARSE_CELLS * cells):
        raise BadInput(
            f"{path}: its first {rows:,} rows have {columns:,} different keys, of which each has few; give every row "
            "the same keys"
        )


class _NoMoreThanThereIs(io.FileIO):
    """A file of which no read asks for more bytes than are left, whatever its content says of its length."""

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(os.fstat(self.fileno()).st_size - self.tell(), 0)
        return super().read(left if size is None or size < 0 else min(size, left)) or b""


def arrow_file(path: Path) -> Any:
    """A file of Arrow's to be read: Arrow's own makes room for what a damaged file says that it holds."""
    import pyarrow as pa

    return pa.PythonFile(_NoMoreThanThereIs(path), mode="r")


def check_arrow(path: Path) -> None:
    """Raises: BadInput where the packed buffers of a file of Arrow's own format say that they unpack to more than it
    may. What is not of the format is left to its reader. The file is not mapped: one that is cut meanwhile would end
    the process."""
    import pyarrow as pa

    size, most = 0, most_bytes(path)
    with suppress(pa.ArrowException, struct.error, IndexError), arrow_file(path) as file:
        file.seek(8 if file.read(6) == b"ARROW1" else 0)  # a file is a stream behind its mark
        reader = pa.ipc.MessageReader.open_stream(file)
        while True:
            try:
                message = reader.read_next_message()
            except (StopIteration, EOFError):
                return
            size += sum(_unpacked_sizes(message.metadata, message.body))
            if size > most:
                raise too_large(path, most)


def _unpacked_sizes(head: Any, body: Any) -> Iterator[int]:
    """Bytes of each buffer of a message of Arrow, by the number before it where it is packed.

    Source: the format's Message.fbs: a message has its header as fields 1 (type) and 2, a dictionary (type 2) its batch
    as field 1, a batch (type 3) its buffers as field 2, pairs of offset and length, and field 3 where they are packed.
    """
    content = memoryview(head)

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(f"<{form}", content, at)[0])

    def field(table: int, index: int) -> int:
        offsets = table - number("i", table)
        at = number("H", offsets + 4 + 2 * index) if 4 + 2 * index < number("H", offsets) else 0
        return table + at if at else 0

    def inner(table: int, index: int) -> int:
        at = field(table, index)
        return at + number("I", at) if at else 0

    message = number("I", 0)
    kind, batch = content[field(message, 1)], inner(message, 2)
    batch = inner(batch, 1) if kind == 2 else batch
    if kind not in (2, 3) or not batch or not field(batch, 3) or not (buffers := inner(batch, 2)):
        return
    for i in range(number("I", buffers)):
        offset, length = number("q", buffers + 4 + 16 * i), number("q", buffers + 12 + 16 * i)
        if length >= NUMBER_BYTES:
            yield max(int(struct.unpack_from("<q", memoryview(body), offset)[0]), 0)


def check_columns(path: Path, count: int) -> None:
    """Raises: BadInput for a text file of more columns than are read."""
    if count > MOST_COLUMNS:
        raise BadInput(
            f"{path}: has {count:,} columns, and at most {MOST_COLUMNS:,} are read; write a row for each position with "
            "the id of its sequence, or an array (.npy)"
        )
