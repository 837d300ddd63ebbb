"""Predictions as a table: in the order of the input, with its ids, and a probability per class."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headstart.atomic import Writable, published, writing
from headstart.data import Sequences
from headstart.errors import BadInput
from headstart.guard import guarded
from headstart.text import json_text

ROW, PREDICTION, SHARE_PREFIX = "row", "prediction", "p_"
"""Names of columns: of the number of a row where it has no id, of the answer, and what stands before a class."""
SPAN_OF, SPAN_START, SPAN_END, SPAN_SHARE = "recording", "start", "end", "p"
"""Columns of windows and spans: of what recording, from where to where, and the mean probability of a span's class."""
INSIDE, LOW, HIGH = "in_", "low", "high"
"""The same of sets of classes and of intervals."""
FILE_DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
COLUMNAR_ENDINGS = (".parquet", ".pq")
PACKED_ENDING = ".gz"


@dataclass(frozen=True)
class Predictions:
    """One row per sequence.

    key: name of the first column, of the ids or `row`; keys: the ids, or numbers from 1. predicted: names of classes,
    or numbers in the target's own unit. shares: (n,) probabilities by the name of their column, and what a set or
    an interval holds. within: (n,) of windows, where each begins and ends in its recording, by the name of the column.
    """

    key: str
    keys: Sequence[str | int]
    predicted: Sequence[str] | np.ndarray
    shares: Mapping[str, np.ndarray]
    within: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of all columns."""
        return (self.key, *self.within, PREDICTION, *self.shares)

    def rows(self) -> Iterator[tuple[str | int, list[float], str | float, list[float]]]:
        """(id, begin and end of a window, prediction, probabilities) of each sequence."""
        shares = np.stack(list(self.shares.values()), axis=1).tolist() if self.shares else [[]] * len(self)
        answers = self.predicted.tolist() if isinstance(self.predicted, np.ndarray) else self.predicted
        within = np.stack(list(self.within.values()), axis=1).tolist() if self.within else [[]] * len(self)
        yield from zip(self.keys, within, answers, shares, strict=True)


def predictions_of(
    s: Sequences,
    answers: np.ndarray,
    classes: tuple[str, ...],
    reach: float | tuple[float, ...] | None = None,
    before: int = 0,
) -> Predictions:
    """What a model answered for these sequences, under their own names; answers (n, K), or (n,) without classes.

    before: how many sequences of the file stand before these.
    reach: the error within which classes are in a set (1) or not (0; the likeliest always is), one for all or one for
    each; or half an interval.
    """
    names = [_writable(name) for name in classes]
    shares = {f"{SHARE_PREFIX}{name}": answers[:, k] for k, name in enumerate(names)}
    predicted = [names[k] for k in answers.argmax(axis=1).tolist()] if names else answers
    if reach is not None and names:
        inside = in_sets(answers, reach)
        shares |= {f"{INSIDE}{name}": inside[:, k].astype(np.float64) for k, name in enumerate(names)}
    elif reach is not None:
        half = np.asarray(reach)
        shares = {LOW: answers - half, HIGH: answers + half}
    if s.windows is not None:
        names = [_writable(name) for name in s.windows.names]
        within = {SPAN_START: s.windows.starts, SPAN_END: s.windows.ends}
        return Predictions(SPAN_OF, names, predicted, shares, within)
    if s.ids is None:
        return Predictions(ROW, range(before + 1, before + len(s) + 1), predicted, shares)
    key = _writable(s.layout.id or "id")
    # A column of the input may have one of our names; two columns of one name would be lost in most readers.
    return Predictions(
        "id" if key in (PREDICTION, *shares) else key,
        [_writable(identifier) for identifier in s.ids],
        predicted,
        shares,
    )


def in_sets(answers: np.ndarray, reach: float | tuple[float, ...]) -> np.ndarray:
    """(n, K) bool: the classes of each set, of probabilities (n, K); the likeliest always is in it."""
    return np.asarray((1 - answers <= np.array(reach)) | (answers == answers.max(axis=1, keepdims=True)))


def joined(s: Sequences, answers: np.ndarray, classes: tuple[str, ...]) -> Predictions:
    """Windows that follow each other and are answered alike, as one span each, from the first begin to the last end; of
    two that overlap and are answered differently each has half of what they share. The probability is the mean of
    those of its windows. Raises: BadInput where these are no windows, or the answers no classes."""
    if s.windows is None or not classes:
        why = "the model predicts numbers" if s.windows is not None else "the sequences are no windows of recordings"
        raise BadInput(f"--spans: joins windows of one class, and {why}; leave --spans out")
    windows, best = s.windows, answers.argmax(axis=1)
    starts, ends = windows.starts.copy(), windows.ends.copy()
    follows = (np.diff(windows.numbers) == 0) & (starts[1:] <= ends[:-1] + 1e-9)
    middle = (starts[1:] + ends[:-1]) / 2
    starts[1:], ends[:-1] = np.where(follows, middle, starts[1:]), np.where(follows, middle, ends[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~follows | (np.diff(best) != 0)]))
    last = np.append(first[1:], len(best)) - 1
    share = np.add.reduceat(answers[np.arange(len(best)), best].astype(np.float64), first) / (last - first + 1)
    names = [_writable(windows.names[row]) for row in first.tolist()]
    predicted = [_writable(classes[k]) for k in best[first].tolist()]
    within = {SPAN_START: starts[first], SPAN_END: ends[last]}
    return Predictions(SPAN_OF, names, predicted, {SPAN_SHARE: share}, within)


def _writable(text: str) -> str:
    """Text as UTF-8 can hold it: bytes of a file's name that are none stand as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_csv(predictions: Predictions, mark: str = ",", header: bool = True) -> str:
    """CSV with a header. Text that a spreadsheet would run as a formula stands behind a `'`.

    Probabilities have 6 digits, numbers and the ends of their intervals 9: all that single precision holds.
    """
    out, digits = io.StringIO(), ".9g" if LOW in predictions.shares else ".6g"
    writer = csv.writer(out, delimiter=mark, lineterminator="\n")
    if header:
        writer.writerow([guarded(head) for head in predictions.heads])
    for key, within, answer, shares in predictions.rows():
        writer.writerow([_cell(key), *map(_cell, within), _cell(answer), *(format(share, digits) for share in shares)])
    return out.getvalue()


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return guarded(value)
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def to_json_lines(predictions: Predictions) -> str:
    """One JSON object per line; a number that JSON does not have is null."""
    lines = []
    for row in predictions.rows():
        key, within, answer, shares = row
        values = [key, *within, answer, *shares]
        plain = [None if isinstance(x, float) and not math.isfinite(x) else x for x in values]
        lines.append(json_text(dict(zip(predictions.heads, plain, strict=True))))
    return "".join(f"{line}\n" for line in lines)


class OutputFormat:
    """Predictions that are written block by block to a binary file, as the ending says (of `check_path`)."""

    def __init__(self, file: Any, ending: str) -> None:
        self.file, self.ending, self.rows = file, ending, 0
        self._parquet: Any = None

    def add(self, predictions: Predictions) -> None:
        """Write a block; all have the same columns."""
        first = not self.rows
        self.rows += len(predictions)
        if self.ending in COLUMNAR_ENDINGS:
            self._add_columns(predictions)
        elif self.ending in FILE_DELIMITERS:
            self.file.write(to_csv(predictions, FILE_DELIMITERS[self.ending], first).encode())
        else:
            self.file.write(to_json_lines(predictions).encode())

    def close(self) -> None:
        """Write what stands at the end of a file; it stays open."""
        if self._parquet is not None:
            self._parquet.close()

    def _add_columns(self, predictions: Predictions) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        columns: dict[str, Any] = {
            predictions.key: list(predictions.keys),
            **predictions.within,
            PREDICTION: predictions.predicted,
            **predictions.shares,
        }
        table = pa.table({name: pa.array(column) for name, column in columns.items()})
        self._parquet = self._parquet or parquet.ParquetWriter(self.file, table.schema)
        self._parquet.write_table(table)


def check_path(path: Path, what: str = "predictions") -> str:
    """The ending that says how to write, without `.gz`. Raises: BadInput for one that is not known, or for a folder."""
    plain = path.name.lower().removesuffix(PACKED_ENDING)
    ending = Path(plain).suffix
    packed = plain != path.name.lower()
    if ending not in (*FILE_DELIMITERS, *LINES, *COLUMNAR_ENDINGS) or (packed and ending in COLUMNAR_ENDINGS):
        raise BadInput(
            f"{path}: {what} are written as .csv, .tsv, .jsonl (each may end in .gz) or .parquet; give "
            "the file one of these endings"
        )
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; give a file")
    return ending


@contextmanager
def writing_predictions(path: Path) -> Iterator[OutputFormat]:
    """Where predictions are written block by block, as the ending of the name says; the file is whole or absent.

    Raises: BadInput for an unknown ending, and where there is no room or no right to write.
    """
    ending = check_path(path)
    packed = path.name.lower().endswith(PACKED_ENDING)
    with writing(path, "the predictions "), published(path) as descriptor, ExitStack() as files:
        file: Any = Writable(descriptor)
        if packed:
            file = files.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        output = OutputFormat(file, ending)
        yield output
        output.close()


def write_predictions(predictions: Predictions, path: Path) -> None:
    """Write them at once, as `writing_predictions`."""
    with writing_predictions(path) as output:
        output.add(predictions)
