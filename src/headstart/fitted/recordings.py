"""What the page of a fit draws of the data themselves: some recordings of each class, and the surest mistakes.

A drawing is a few SVG paths in the colours of the page: it takes a millisecond, and is right on light and dark pages.
"""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headstart import words
from headstart.core import Task
from headstart.data import Sequences
from headstart.fitted.outcome import Answers, Outcome
from headstart.report.figures.predictions import WHOLE_NAME
from headstart.sequence import IGNORE, Examples
from headstart.tasks.own import OwnFacts
from headstart.text import short

SHOWN_PER_CLASS, SHOWN_MISTAKES = 3, 5
"""Recordings of a class that are drawn, and mistakes."""
OPEN_CLASSES, OPEN_ROWS, SHOWN_CLASSES = 4, 8, 40
"""Classes that always stand open, rows of drawings up to which all do (the answer is not far below then), and classes
that are drawn at most: the commonest, those that do not stand open in a fold."""
SHOWN_CHANNELS = 3
"""Channels that are drawn, the first ones."""
FIRST_LETTERS, SHOWN_TOKENS = 120, 20
"""Letters of a text that are shown, and tokens."""
READ_SYMBOLS = 20_000
"""Bytes of a text that are read to count its letters."""
BUCKETS = 110
"""Stretches of a recording of which the lowest and the highest value are drawn."""
IMAGE_SIDE = 64
"""Pixels of a side of a drawn image at most."""
IMAGE_NOTE = re.compile(r"images of (\d+) x (\d+) \([\d,]+\), pixel by pixel")
"""What reading notes of images of one size."""
DRAWING_WIDTH, DRAWING_HEIGHT = 220, 60
"""Units of a drawing; it is stretched to the width that it has on the page."""


@dataclass(frozen=True)
class Strip:
    """One channel of a drawing: its path, and the values at its lower and its upper edge."""

    channel: str
    path: str
    low: str
    high: str


@dataclass(frozen=True)
class DrawnRecording:
    """One sequence as the page shows it: strips of numbers, or its first letters. end: its last position or time.

    picture: a PNG for `src`, of an image. true, predicted: its target and the answer to it, empty where it is only
    shown; sure: of the class that was predicted.
    """

    strips: tuple[Strip, ...] = ()
    text: str = ""
    end: str = ""
    true: str = ""
    predicted: str = ""
    sure: str = ""
    picture: str = ""


@dataclass(frozen=True)
class RecordingGroup:
    """Recordings of one class (of numbers, from one end or the middle of their range)."""

    name: str
    count: str
    recordings: tuple[DrawnRecording, ...]


@dataclass(frozen=True)
class Shown:
    """All recordings of a page. more: groups that a fold holds. caption: what the drawings have in common. wrong: how
    many mistakes there are, of which `mistakes` are the surest."""

    groups: tuple[RecordingGroup, ...]
    more: tuple[RecordingGroup, ...]
    caption: str
    mistakes: tuple[DrawnRecording, ...]
    wrong: int


def shown_recordings(
    outcome: Outcome, task: Task, facts: OwnFacts, source: Sequences, split: Examples, answers: Answers
) -> Shown:
    """Of train some recordings of each class, and of the split that was held out those that were answered worst.

    split, answers: held-out rows, and what the served model answered to each.
    """
    strips = 1 if _image_size(source) else min(len(facts.channels), SHOWN_CHANNELS)
    few = open_classes(len(facts.labels), strips)
    chosen = list(_chosen(task.train, facts, few))
    worst, wrong = worst_rows(answers)
    drawn = [(task.train, i) for *_, rows in chosen for i in rows] + [(split, i) for i in worst]
    pen = _Pen.of(task, facts, source, drawn)
    groups = [
        RecordingGroup(name, count, tuple(pen.drawn(task.train, i) for i in rows)) for name, count, rows in chosen
    ]
    mistakes = tuple(pen.drawn(split, i, *_answered(answers, i, outcome.labels)) for i in worst)
    return Shown(tuple(groups[:few]), tuple(groups[few:]), pen.caption(len(facts.labels)), mistakes, wrong)


def open_classes(classes: int, strips: int) -> int:
    """How many groups stand open. strips: of each drawing."""
    return max(OPEN_CLASSES, classes if classes * max(strips, 1) <= OPEN_ROWS else 0)


def worst_rows(answers: Answers) -> tuple[list[int], int]:
    """Rows of the surest mistakes, the surest first (of numbers, of the largest errors), and how many are wrong."""
    target, predicted = answers.target, answers.predicted
    if not len(target):
        return [], 0
    if predicted.ndim == 2:
        rows = np.flatnonzero((target != IGNORE) & (predicted.argmax(1) != target))
        order = np.argsort(-predicted[rows].max(1), kind="stable")
    else:
        errors = np.abs(predicted - target)
        rows = np.flatnonzero(errors > 0)
        order = np.argsort(-errors[rows], kind="stable")
    return rows[order][:SHOWN_MISTAKES].tolist(), len(rows)


def _answered(answers: Answers, row: int, labels: tuple[str, ...]) -> tuple[str, str, str]:
    """True, predicted, and how sure that was."""
    target, predicted = answers.target[row], answers.predicted[row]
    if not labels:
        return words.plain(float(f"{target:.4g}")), words.plain(float(f"{predicted:.4g}")), ""
    best = int(predicted.argmax())
    return (
        short(labels[int(target)], WHOLE_NAME),
        short(labels[best], WHOLE_NAME),
        words.percent(float(predicted[best])),
    )


def _chosen(train: Examples, facts: OwnFacts, few: int) -> Iterator[tuple[str, str, list[int]]]:
    """Name of each group, how many it stands for, and its rows: spread over each class, as neighbours may be pieces of
    one recording, the commonest classes first where more than `few` are; of numbers, the ends and the middle."""
    target = train.target
    if target is None or train.per_position or len(target) != len(train.offsets) - 1:
        yield "recordings", "", list(range(min(SHOWN_PER_CLASS, len(train.offsets) - 1)))
    elif facts.labels:
        counts = np.bincount(target[target != IGNORE].astype(np.int64), minlength=len(facts.labels))
        order = np.argsort(-counts, kind="stable")[:SHOWN_CLASSES]
        order = np.sort(order) if len(facts.labels) <= few else order
        for k in order.tolist():
            rows = np.flatnonzero(target == k)
            if len(rows):
                spread = np.linspace(0, len(rows) - 1, min(SHOWN_PER_CLASS, len(rows))).astype(int)
                yield short(facts.labels[k], WHOLE_NAME), f"{counts[k]:,} in train", rows[spread].tolist()
    else:
        labelled = np.flatnonzero(np.isfinite(target.reshape(len(target), -1)[:, 0]))
        order = labelled[np.argsort(target.reshape(len(target), -1)[labelled, 0], kind="stable")]
        middle = max((len(order) - SHOWN_PER_CLASS) // 2, 0)
        parts = {"smallest numbers": order[:SHOWN_PER_CLASS], "middle": order[middle : middle + SHOWN_PER_CLASS]}
        parts |= {"largest numbers": order[-SHOWN_PER_CLASS:]}
        for name, rows in parts.items():
            yield name, "", rows.tolist()


@dataclass(frozen=True)
class _Pen:
    """How sequences are drawn: all of a page on one scale for each channel. step: of time from position to position,
    1 where times are not known, in `unit`. size: (width, height) of images."""

    task: Task
    facts: OwnFacts
    low: np.ndarray
    high: np.ndarray
    step: float
    unit: str
    size: tuple[int, int] | None

    @classmethod
    def of(cls, task: Task, facts: OwnFacts, source: Sequences, rows: Sequence[tuple[Examples, int]]) -> _Pen:
        low = high = np.zeros(0)
        if task.text is None and rows:
            every = [x for x in (_values(facts, *row) for row in rows) if len(x)]
            low = np.fmin.reduce([np.fmin.reduce(x) for x in every])  # NaN of a channel that is missing throughout
            high = np.fmax.reduce([np.fmax.reduce(x) for x in every])
        step, unit = _clock(source)
        return cls(task, facts, low, high, step, unit, _image_size(source))

    def drawn(self, x: Examples, row: int, true: str = "", predicted: str = "", sure: str = "") -> DrawnRecording:
        """A sequence of these examples."""
        begin, end = (int(at) for at in x.offsets[row : row + 2])
        if not (true or self.facts.labels or x.target is None or x.per_position):
            true = words.plain(float(f"{self._number(x, row):.4g}"))
        if self.task.text is not None:
            return self._spoken(np.asarray(x.values[begin:end]), true, predicted, sure)
        values = _values(self.facts, x, row)
        if self.size is not None and len(values) == self.size[0] * self.size[1]:
            levels = (values - self.low) / np.where(self.high > self.low, self.high - self.low, 1)
            return DrawnRecording(true=true, predicted=predicted, sure=sure, picture=png(levels, *self.size))
        strips = tuple(
            Strip(name, path_of(values[:, f], self.low[f], self.high[f]), _brief(self.low[f]), _brief(self.high[f]))
            for f, name in enumerate(self.names())
        )
        last = max(end - begin - 1, 0) * self.step
        unit = "" if self.unit.startswith("'") else self.unit
        return DrawnRecording(strips, "", f"{_brief(last)} {unit}".strip(), true, predicted, sure)

    def _spoken(self, symbols: np.ndarray, true: str, predicted: str, sure: str) -> DrawnRecording:
        """The first letters or tokens of a sequence, and how many it has; of a long text so many bytes are read."""
        assert self.task.text is not None
        tokens = self.facts.kind == "tokens"
        read = symbols[: SHOWN_TOKENS if tokens else READ_SYMBOLS]
        text = self.task.text(read)
        count = len(text) if not tokens and len(read) == len(symbols) else len(symbols)
        shown = text if tokens else text[:FIRST_LETTERS]
        more = " …" if len(read) < len(symbols) or len(shown) < len(text) else ""
        unit = "tokens" if tokens else "letters" if len(read) == len(symbols) else "bytes"
        return DrawnRecording((), shown + more, f"{count:,} {unit}", true, predicted, sure)

    def names(self) -> list[str]:
        """Of the channels that are drawn."""
        names = [short(name) for name in self.facts.channels[:SHOWN_CHANNELS]]
        return names if len(self.facts.channels) > 1 else [""] * len(names)

    def caption(self, classes: int) -> str:
        """What holds for all drawings."""
        texts = []
        if self.task.text is not None:
            most = f"{SHOWN_TOKENS} tokens" if self.facts.kind == "tokens" else f"{FIRST_LETTERS} letters"
            texts.append(f"The first {most} of each are shown.")
        elif self.size is None:
            across = f"Time runs to the right, in {self.unit}" if self.unit else "Positions run to the right, from 0"
            across = f"Time runs to the right, as {self.unit} counts it" if self.unit.startswith("'") else across
            several = len(self.facts.channels) > 1
            texts.append(
                f"{across}; all drawings {'of a channel ' * several}have the same scale upwards, in the "
                "values of your file."
            )
            if len(self.facts.channels) > SHOWN_CHANNELS:
                texts.append(f"Drawn are the first {SHOWN_CHANNELS} of {len(self.facts.channels):,} channels.")
        if not (classes or self.facts.layout.per_position) and self.facts.layout.target:
            texts.append(f"The number above each is its {short(self.facts.layout.target)!r}.")
        if classes > SHOWN_CLASSES:
            texts.append(f"Of {classes:,} classes the {SHOWN_CLASSES} commonest are shown.")
        return " ".join(texts)

    def _number(self, x: Examples, row: int) -> float:
        """The target of a row, in its own unit."""
        from headstart.serve.model import in_own_unit

        return float(in_own_unit(self.facts, np.asarray(x.target).reshape(len(x.offsets) - 1, -1)[row, :1])[0])


def _clock(source: Sequences) -> tuple[float, str]:
    """The usual step of time, and what it counts: the column of times, else seconds of sound and of an instrument."""
    layout = source.layout
    if layout.rate:
        return 1 / layout.rate, "s"
    if source.steps is not None and np.isfinite(source.steps).any():
        step, column = float(np.nanmedian(source.steps)), layout.time or layout.clock
        unit = _unit_of(column) if column else "s"
        if step > 0:
            return (step * layout.seconds, "s") if unit.startswith("'") and layout.seconds else (step, unit)
    return 1.0, ""


def _image_size(source: Sequences) -> tuple[int, int] | None:
    """(width, height) of images that all have one size."""
    match = next((match for note in source.notes if (match := IMAGE_NOTE.match(note))), None)
    return (int(match[1]), int(match[2])) if match else None


def png(levels: np.ndarray, width: int, height: int) -> str:
    """An image, pixel by pixel, of (pixels, 1) grey or (pixels, 3) colours from 0 to 1: a PNG as an address of data."""
    every = -(-max(width, height) // IMAGE_SIDE)
    pixels = (np.nan_to_num(levels).clip(0, 1) * 255).round().astype(np.uint8)
    pixels = pixels[:, : 3 if levels.shape[1] == 3 else 1].reshape(height, width, -1)[::every, ::every]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2 if pixels.shape[2] == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    whole = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + whole).decode()


def _unit_of(column: str) -> str:
    """The unit that the name of a column ends in, `s` of `time_s` and `time (s)`; else its name in quotes."""
    match = re.search(r"[_ (\[](ns|us|µs|ms|s|sec|seconds|min|minutes|h|hours|d|days)[)\]]?$", column)
    return match[1] if match else f"'{short(column)}'"


def _values(facts: OwnFacts, x: Examples, row: int) -> np.ndarray:
    """(L, F) of the channels that are drawn, as they stand in the file; NaN where a value is missing."""
    part = slice(*x.offsets[row : row + 2].tolist())
    values = np.asarray(x.values[part], dtype=np.float64)
    values = values.reshape(len(values), -1)[:, :SHOWN_CHANNELS]
    if x.scale is not None:
        values = values * x.scale + x.shift
    if facts.mean:
        width = values.shape[1]
        values = values * np.array(facts.deviation[:width]) + np.array(facts.mean[:width])
    if x.observed is not None:
        values[~np.asarray(x.observed[part]).reshape(len(values), -1)[:, :SHOWN_CHANNELS]] = np.nan
    return values


def path_of(values: np.ndarray, low: float, high: float) -> str:
    """The SVG path of (L,) values between these, broken where some are missing; of long ones the lowest and highest of
    each stretch, in their order."""
    places = np.arange(len(values))
    if len(values) > 2 * BUCKETS:
        edges = np.linspace(0, len(values), BUCKETS + 1).astype(int)
        places = np.concatenate([_ends(values[a:b]) + a for a, b in pairwise(edges.tolist())])
    span = high - low if high > low else 1.0
    middle = low if high > low else low - 0.5
    across = places * (DRAWING_WIDTH / max(len(values) - 1, 1))
    down = DRAWING_HEIGHT - 2 - (values[places] - middle) / span * (DRAWING_HEIGHT - 4)
    parts, pen_up = [], True
    for x, y in zip(across.tolist(), down.tolist(), strict=True):
        if y != y:  # NaN
            pen_up = True
            continue
        parts.append(f"{'M' if pen_up else 'L'}{x:.1f} {y:.1f}")
        pen_up = False
    return "".join(parts)


def _ends(values: np.ndarray) -> np.ndarray:
    """Places of the lowest and the highest value, in their order; the first place where all are missing."""
    if np.isnan(values).all():
        return np.zeros(1, dtype=int)
    return np.unique([np.nanargmin(values), np.nanargmax(values)])


def _brief(value: float) -> str:
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < 1e7 else f"{value:.2e}"
    return words.NONE if value != value else text.replace("-", words.MINUS)
