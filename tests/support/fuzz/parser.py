"""What is fuzzed: small good files, and the call that opens them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Files = Mapping[str, bytes]
"""Content of files by their path within a folder."""


@dataclass(frozen=True)
class Parser:
    """What is fuzzed.

    seeds: good inputs, each a folder's files, of which the first or the folder it lies in is opened. read: opens it.
    """

    seeds: Callable[[], list[Files]]
    read: Callable[[Path], object]


def files_of(root: Path, head: str = "data/") -> Files:
    """All files below a folder, as those of a folder `head`."""
    return {f"{head}{path.relative_to(root)}": path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def read_data(path: Path) -> object:
    """The sequences, and what is said of them."""
    from headstart.data import data_card, read_sequences

    sequences = read_sequences(path)
    data_card(sequences)
    return sequences


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised for or behind, the last one first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def short_of_memory(error: BaseException | None) -> bool:
    """Whether it was raised for want of memory, whatever it says."""
    return any(isinstance(cause, MemoryError) for cause in causes(error))
