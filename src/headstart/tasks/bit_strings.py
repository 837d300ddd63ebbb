"""Bit memory and bit XOR: endless streams of random bit strings, with one answer per position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.splits import overlaps
from headstart.errors import BadInput
from headstart.seeds import below, bits, uniform
from headstart.sequence import IGNORE, Examples, Signature
from headstart.tasks.build import GeneratedSpec
from headstart.tasks.task import Baseline, Task, rule


class _BitsSpec(GeneratedSpec):
    """What both share: sizes, seed and the stream."""

    train: int = Field(default=10_000, ge=1, le=1_000_000)
    """Examples of one epoch."""
    val: int = Field(default=1_000, ge=1, le=1_000_000)
    """Fixed sets."""
    test: int = Field(default=1_000, ge=1, le=1_000_000)
    """Fixed sets."""
    endless: bool = True
    """Each epoch has new train examples (`false`: the first epoch's again and again; so too where `fraction` or
    `labelled` choose among them)."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = ({"kind": "majority"},)
    shows_not: ClassVar[str] = (
        "random bits have no structure to learn besides the rule: this says nothing of natural data."
    )
    loss: ClassVar[str] = "levels"
    class_count: ClassVar[int | None] = 2

    def _task(self, signature: Signature, draw: Callable[[str, np.ndarray], Examples]) -> Task:
        """The task whose examples `draw(split, numbers)` makes; numbers of train go on from epoch to epoch."""
        first_of_train = self.val + self.test

        def epoch(number: int) -> Examples:
            drawn = draw("train", np.arange(self.train) + number * self.train)
            return replace(drawn, index=drawn.index + first_of_train)

        test = draw("test", np.arange(self.test))
        return Task(
            signature,
            epoch(0),
            draw("val", np.arange(self.val)),
            replace(test, index=test.index + self.val),
            labels=("0", "1"),
            text=_in_words,
            fresh=epoch if self.endless else None,
        )


class BitMemorySpec(_BitsSpec):
    """Strings of random bits are shown, then one of them with some bits hidden: which string was it?

    Inputs are -1, 1 and, where hidden, 0; `chunk` bits make a position. By default 5 strings of 1,000 bits in
    100 positions of 50, then the query in 20 more; each position of the query has 50 targets, its string's own
    bits, 0 or 1. With strings of 4 bits and chunks of 2: `10 11 00 10 0? ?0`, asked for `00 10`.

    Source: Lu et al. 2021, section 2.1 (after Miconi et al. 2018).
    """

    kind: Literal["bit_memory"] = "bit_memory"
    strings: int = Field(default=5, ge=1, le=1000)
    """Number of strings."""
    bits: int = Field(default=1000, ge=1, le=100_000)
    """Bits of each string."""
    chunk: int = Field(default=50, ge=1)
    """Bits of a position."""
    keep: float = Field(default=0.5, ge=0, le=1)
    """Share of the query that is shown."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = (
        {"kind": "majority"},
        rule("copy the visible bits, guess the others"),
    )

    def load(self, data: Path) -> Task:
        """The whole task. Raises: BadInput where chunks do not fill a string."""
        if self.bits % self.chunk:
            raise BadInput(f"task.chunk: {self.chunk} does not divide task.bits {self.bits}; take one that does")
        parts = self.bits // self.chunk
        length = (self.strings + 1) * parts
        signature = Signature(
            "floats", self.chunk, length, length, "class", 2, self.chunk, per_position=True, levels=3, level_shift=1.0
        )
        task = self._task(signature, self._draw)
        return replace(task, baselines=(_copying(task),))

    def _draw(self, split: str, numbers: np.ndarray) -> Examples:
        """Examples of these numbers. Each holds its strings and then the query, cut into chunks."""
        n, stream = len(numbers), f"bit_memory/{split}"
        number = numbers[:, None, None]
        words = np.arange(-(-self.bits // 32))
        drawn = bits(self.data_seed, f"{stream}/strings", number, np.arange(self.strings)[:, None], words)
        strings = _unpacked(drawn)[..., : self.bits]
        answer = strings[np.arange(n), below(self.data_seed, f"{stream}/asked", self.strings, numbers)]
        seen = uniform(self.data_seed, f"{stream}/shown", number[:, 0], np.arange(self.bits)) < self.keep
        query = np.where(seen, 2 * answer, 1).astype(np.uint8)  # 0, 1, 2 stand for -1, 0, 1
        values = np.concatenate([2 * strings.reshape(n, -1), query], axis=1).reshape(-1, self.chunk)
        return _examples(values, answer, numbers, (-1, self.chunk), scale=1.0)


class BitXorSpec(_BitsSpec):
    """Two strings of random bits, one bit per position; at each bit of the second: is it unlike the first's?

    Inputs are -1 and 1. With 3 bits: `0 1 1  1 1 0`, asked for `1 0 1` at the last three positions. There are
    4^bits inputs, 1,024 by default, so val and test stand in train too; the notes say how often.

    Source: Lu et al. 2021, section 2.1.
    """

    kind: Literal["bit_xor"] = "bit_xor"
    bits: int = Field(default=5, ge=1, le=100_000)
    """Length of each string."""

    def load(self, data: Path) -> Task:
        length = 2 * self.bits
        signature = Signature(
            "floats", 1, length, length, "class", 2, per_position=True, levels=2, level_scale=0.5, level_shift=0.5
        )
        task = self._task(signature, self._draw)
        notes = [
            f"{count} of the {task.split(later).units} {later} sequences stand in {earlier} too"
            for (earlier, later), count in overlaps(task).items()
            if count
        ]
        few = f"there are only {4**self.bits} different sequences: " if notes and self.bits <= 16 else ""
        return replace(task, notes=tuple(few + note for note in notes))

    def _draw(self, split: str, numbers: np.ndarray) -> Examples:
        """Examples of these numbers: the first string, then the second."""
        words = np.arange(-(-2 * self.bits // 32))
        strings = _unpacked(bits(self.data_seed, f"bit_xor/{split}", numbers[:, None], words))[:, : 2 * self.bits]
        answer = strings[:, : self.bits] ^ strings[:, self.bits :]
        return _examples(strings.reshape(-1, 1), answer, numbers, (-1,), scale=2.0)


def _examples(
    values: np.ndarray, answer: np.ndarray, numbers: np.ndarray, shape: tuple[int, ...], scale: float
) -> Examples:
    """Examples of small integers (S, chunk), which are asked for the bits `answer` (n, bits) at their last positions.

    shape: of the targets, whose first size is the number of all positions.
    """
    n = len(numbers)
    target = np.full((n, values.size // n), IGNORE, dtype=np.int8)
    target[:, -answer.shape[1] :] = answer
    return Examples(
        values=values,
        offsets=np.arange(n + 1, dtype=np.int64) * (len(values) // n),
        target=target.reshape(shape),
        index=numbers.astype(np.int64),
        per_position=True,
        scale=scale,
        shift=-1.0,
    )


def _unpacked(words: np.ndarray) -> np.ndarray:
    """Words of 32 random bits (..., W) -> (..., 32 W) uint8, 0 or 1."""
    as_bytes = np.ascontiguousarray(words.astype("<u4")).view(np.uint8)
    return np.unpackbits(as_bytes, axis=-1)


def _in_words(x: np.ndarray) -> str:
    """Positions apart by spaces; 0 for -1, 1 for 1, ? for what is hidden."""
    signs = np.sign(np.asarray(x)).astype(int)
    return " ".join("".join("0?1"[sign + 1] for sign in position) for position in signs)


def _copying(task: Task) -> Baseline:
    """Copy the bits that the query shows, and say 1 for each hidden one."""

    def score(split: str) -> float:
        x = task.split(split)
        answer = np.asarray(x.target)
        asked = answer != IGNORE
        prediction = x.values[asked] > 0  # hidden bits are stored as 1, shown ones as 0 or 2
        return float((prediction == (answer[asked] == 1)).mean())

    source = "75 % in expectation, where half of the bits are shown"
    return Baseline("copy the visible bits, guess the others", score("val"), score("test"), source)
