"""A large text table block by block, so that memory does not grow with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headstart.data import LayoutSpec, Sequences, format_of, read_sequences
from headstart.data.archives import reading, unpacked
from headstart.data.build import build
from headstart.data.csv import column_types, of_lines, recognised, typed
from headstart.data.infer import infer
from headstart.data.table import Table
from headstart.data.text import text_lines
from headstart.errors import BadInput, Mistakes

BLOCK = 2**24
"""Bytes of a block; a smaller file is one."""


def read_blocks(path: Path, spec: LayoutSpec, size: int = BLOCK) -> Iterator[Sequences]:
    """The sequences of a file or folder, in their order: of a text table with a row for each and no quotes in blocks of
    about `size` bytes, of all else at once.

    spec: a layout as `Layout.fixed` gives it, by which each block is read alike.
    Raises: BadInput as `read_sequences`, when it comes to what is wrong.
    """
    count = 0
    if path.is_file() and path.stat().st_size > size and spec.values and spec.shape in ("wide", "text", "list"):
        with_ids = None
        for table in _plain_tables(path, spec, size) if format_of(path) == "csv" else (None,):
            if table is None:
                break
            try:
                block = build(table, infer(table, spec), Mistakes())
            except BadInput:  # what is wrong in later blocks belongs to the message, too
                break
            if with_ids not in (None, block.ids is not None):
                break
            with_ids, count = block.ids is not None, count + len(block)
            yield block
        else:
            return
    whole = read_sequences(path, spec)
    yield whole.take(np.arange(count, len(whole))) if count else whole


def _plain_tables(path: Path, spec: LayoutSpec, size: int) -> Iterator[Table | None]:
    """The table in parts of whole lines, about `size` bytes each, of a file that Arrow's parser reads.

    None for a part that it does not read, and at once for a file whose columns have no names or that is not UTF-8.
    Raises: BadInput as `read_csv`.
    """
    _, form, body = recognised(path, spec, text_lines(path, spec.encoding, Mistakes()))
    types, line, rest = column_types(form, body) if form.names else [], 1, b""
    with reading(path), unpacked(path) as file:
        while content := rest + (file.read(size) if types else b""):
            end = content.rfind(b"\n") + 1 if len(content) > len(rest) else len(content)
            content, rest = content[:end], content[end:]
            if not content:  # a line that is longer than that
                break
            table = of_lines(content, form, spec, line, threads=False)
            yield None if table is None else typed(table, types, spec, form)
            line += content.count(b"\n")
        else:
            if types:
                return
    yield None
