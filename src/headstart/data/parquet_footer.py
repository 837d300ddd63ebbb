"""What a Parquet file says of its columns, without Arrow, which ends the process where a footer contradicts itself.

The footer is Thrift's compact protocol: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md;
its fields are those of https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BYTE_ARRAY, DELTA_BYTE_ARRAY = 6, 7
"""A text, by the number of its type; texts that are written by what they have in common with the one before."""
_CHUNK = {1: True, 2: [True], 3: [True], 5: True, 6: True}
_FILE = {4: [{1: [{3: _CHUNK}]}]}
"""Fields that are read: of each group of rows each column, of which type, encodings, path, values and bytes."""
_STRUCT, _BINARY, _DOUBLE, _MAP, _IDENTIFIER = 12, 8, 7, 11, 13


@dataclass(frozen=True)
class Chunk:
    """A column in a group of rows. size: its bytes unpacked."""

    path: str
    texts: bool
    deltas: bool
    values: int
    size: int


def column_chunks(path: Path) -> list[Chunk]:
    """Of every group of rows each column. Raises: ValueError for a footer that is none."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        file.seek(-8 - length, os.SEEK_END)
        footer = file.read(length)
    try:
        groups = _Footer(footer).value(_STRUCT, _FILE).get(4, [])
        chunks = [chunk[3] for group in groups for chunk in group.get(1, [])]
        return [
            Chunk(".".join(part.decode() for part in c[3]), c[1] == BYTE_ARRAY, DELTA_BYTE_ARRAY in c[2], c[5], c[6])
            for c in chunks
        ]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its footer is damaged ({type(error).__name__})") from None


class _Footer:
    """Values from the beginning of these bytes on, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """Seven bits a byte, the lowest first. Raises: IndexError at the end."""
        out = shift = 0
        while (byte := self.byte()) & 128:
            out |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise IndexError
        return out | byte << shift

    def signed(self) -> int:
        out = self.number()
        return out >> 1 ^ -(out & 1)

    def value(self, kind: int, wanted: Any) -> Any:
        """A value of a kind; of structures and lists what is wanted, of all else nothing is kept."""
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self.signed()
        if kind in (_BINARY, _DOUBLE, _IDENTIFIER, 3):
            size = self.number() if kind == _BINARY else {_DOUBLE: 8, _IDENTIFIER: 16, 3: 1}[kind]
            self.at += size
            if self.at > len(self.data):
                raise IndexError
            return self.data[self.at - size : self.at] if wanted else None
        if kind == _STRUCT:
            return self._struct(wanted if isinstance(wanted, dict) else {})
        if kind == _MAP:
            count = self.number()
            kinds = divmod(self.byte(), 16) if count else (0, 0)
            for _ in range(count):
                for inner in kinds:
                    self._item(inner, None)
            return None
        if kind in (9, 10):
            count, inner = divmod(self.byte(), 16)
            count = self.number() if count == 15 else count
            if isinstance(wanted, list):
                return [self._item(inner, wanted[0]) for _ in range(count)]
            for _ in range(count):
                self._item(inner, None)
            return None
        raise IndexError

    def _item(self, kind: int, wanted: Any) -> Any:
        """Of a list or map, where a truth takes a byte."""
        return self.byte() == 1 if kind in (1, 2) else self.value(kind, wanted)

    def _struct(self, wanted: dict[int, Any]) -> dict[int, Any]:
        out: dict[int, Any] = {}
        field = 0
        while kind := (head := self.byte()) & 15:
            field = field + (head >> 4) if head >> 4 else self.signed()
            value = self.value(kind, wanted.get(field))
            if field in wanted:
                out[field] = value
        return out
