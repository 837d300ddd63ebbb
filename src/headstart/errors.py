"""Wrong input: its one exception and mistakes gathered for it; any error on one line, where rows stand, and names."""

from __future__ import annotations

import difflib
import errno
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MOST_MISTAKES, MOST_PLACES = 20, 10_000
"""Causes that are gathered, and mistakes of one cause that are counted, before reading stops."""
LONGEST_MESSAGE = 25
"""Of a message."""
LINE_ENDS = 1_000, 500
"""Characters of the beginning and the end of a line that is longer than both."""
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\d[\d,.]*")


class BadInput(ValueError):
    """Something a person gave is wrong: the text names the place, the value and the way out. Exit code 2.

    Characters that a terminal would act on, or that no font shows, stand in it as escapes (`\\x1b`). Of a line that a
    value has made too long stand the beginning, which names the place, and the end with the way out.
    """

    def __init__(self, text: str = "") -> None:
        plain = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
        first, last = LINE_ENDS
        lines = [x if len(x) <= first + last else f"{x[:first]} ... {x[-last:]}" for x in plain.split("\n")]
        if len(lines) > LONGEST_MESSAGE:
            lines[LONGEST_MESSAGE - 1 :] = [f"and {len(lines) - LONGEST_MESSAGE + 1:,} lines more"]
        super().__init__("\n".join(lines))


class BadMachine(BadInput):
    """A folder or the memory of this machine is at fault, and no setting, so that no setting is named before it."""


def reworded(error: BadInput, text: str) -> BadInput:
    """What is raised in place of an error where its text can name a setting as it was given: a fault of the machine
    stays what it is, exit code and all."""
    return error if isinstance(error, BadMachine) else BadInput(text)


class DiskFull(BadMachine):
    """There is no room on a disk, which is no mistake in what was given: exit code 1, in whatever verb."""

    exit_code = 1

    def __init__(self, path: object = "") -> None:
        super().__init__(
            f"{f'{path}: ' if path else ''}the disk is full; make room, or name folders on another disk, and give the "
            "same command again"
        )


class MemoryChanged(BadMachine):
    """Numbers that nothing writes have changed in memory; `what` is the subject and its verb. Exit code 1."""

    exit_code = 1

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: a bit of the memory may have turned. What was saved before is kept: give the same command "
            "again, and test the memory of this machine where it happens twice"
        )


class Broken(BadInput):
    """A kind does not hold to a promise of its contract; the text says where."""


class Damaged(Exception):
    """A file is not what was written: the text names the file and what is wrong with it."""


class StackTooLarge(Exception):
    """A step of so many models together does not fit into memory; they stay as they were saved last."""


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: that of the machine, or of a GPU."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, RuntimeError) and ("out of memory" in text or "allocate" in text))
        or (isinstance(error, ImportError) and "failed to map segment" in text)
    )


MORE_MEMORY = "allow more (`ulimit -v`, the container's limit), close other programs"
NO_MEMORY = (
    f"there is less memory than this takes: {MORE_MEMORY}, or take fewer --workers or less data, and give the same "
    "command again"
)


NO_PROCESSES = (
    "no more processes or threads can be started here: raise the limit (`ulimit -u`), give fewer --workers, or close "
    "other programs, and give the same command again"
)


def lacks_processes(text: str) -> bool:
    """Whether the last line that an error, or the trace of one, says is that of a process or thread too many."""
    last = text.strip().rpartition("\n")[2]
    return "can't start new thread" in last or f"[Errno {errno.EAGAIN}] {os.strerror(errno.EAGAIN)}" in last


def one_line(error: BaseException, most: int | None = None) -> str:
    """All that an error says on one line, of at most so many characters, cut between two words; its type where it says
    nothing."""
    text = " ".join(str(error).split())
    if most is not None and len(text) > most:
        text = f"{text[: most - 3].rpartition(' ')[0] or text[: most - 4]} ..."
    return text or type(error).__name__


def first_line(error: BaseException, *, typed: bool = False) -> str:
    """The first line of what an error says, behind its type where `typed`; its type where it says nothing."""
    name, text = type(error).__name__, str(error).strip().partition("\n")[0]
    return f"{name}: {text}" if typed and text else text or name


LISTED_NAMES = 40
"""Names that a message lists; of more it names the command that does, where there is one."""


def nearest(value: Any, choices: Iterable[str], lister: str = "") -> str:
    """`no 'atention'; did you mean 'attention'?`, or the list of what there is where nothing is near.

    lister: what to say of many names instead: the command that lists them.
    """
    names = sorted({str(k) for k in choices})
    close = difflib.get_close_matches(str(value), names, n=1, cutoff=0.55)
    if close:
        return f"no {str(value)!r}; did you mean {close[0]!r}?"
    if lister and len(names) > LISTED_NAMES:
        return f"no {str(value)!r} among {len(names)} names; {lister}"
    return f"no {str(value)!r}; there are: {', '.join(_runs(names)) or 'none'}"


def _runs(names: Iterable[str]) -> list[str]:
    """The names in order; three or more that count up are written `t0 to t79`."""

    def key(name: str) -> tuple[str, int]:
        match = re.fullmatch(r"(.*?)(0|[1-9]\d{0,8})", name, re.DOTALL)
        return (match[1], int(match[2])) if match else (name, -2)

    runs: list[list[str]] = []
    for name in sorted(names, key=key):
        head, number = key(name)
        if runs and key(runs[-1][-1]) == (head, number - 1):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)]


class Mistakes:
    """What is wrong with the files of a data set, in order: a line for each cause, which names the first place (a file
    and perhaps its row) and counts the others. Texts that differ in numbers and in what stands in quotes are one cause.
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def add(self, item: str, text: str) -> None:
        """Note that `item` (a file, row or cell) is wrong. Raises: BadInput with all of them once there are 20 causes,
        or 10,000 mistakes."""
        cause = _VALUES.sub("*", text)
        self._first.setdefault(cause, f"{item}: {text}")
        self._count[cause] += 1
        if len(self._count) >= MOST_MISTAKES or self._count[cause] >= MOST_PLACES:
            self.check(
                f"reading stopped after {self._count.total():,} mistakes; correct these first, there may be more"
            )

    def __len__(self) -> int:
        return self._count.total()

    def adopt(self, error: BadInput) -> None:
        """Note what an error says, a line each."""
        for line in str(error).splitlines():
            item, _, text = line.partition(": ")
            self.add(item, text)

    @property
    def texts(self) -> list[str]:
        """A line for each cause."""
        more = {cause: count - 1 for cause, count in self._count.items()}
        return [
            f"{text}{f' ({more[cause]:,} more like it)' * bool(more[cause])}" for cause, text in self._first.items()
        ]

    def check(self, end: str = "") -> None:
        """Raises: BadInput with a line for each cause, where there is one. end: a last line."""
        if self._first:
            raise BadInput("\n".join([*self.texts, *([end] if end else [])]))


@dataclass(frozen=True)
class Places:
    """Where rows stand, in a person's words: a file and a line as an editor counts them, a row, or a file alone."""

    source: str
    lines: np.ndarray | None = None
    names: Sequence[str] | None = None
    rows: np.ndarray | None = None

    def of(self, row: int) -> str:
        """`train.csv:1043`, `train.parquet, row 12` (counted from 1), or the file's name."""
        if self.names is not None:
            return self.names[row]
        if self.lines is not None:
            return f"{self.source}:{int(self.lines[row])}"
        return f"{self.source}, row {1 + (row if self.rows is None else int(self.rows[row]))}"

    def cell(self, row: int, column: str) -> str:
        """The place of a cell."""
        return f"{self.of(row)} column {column!r}"

    def take(self, rows: np.ndarray) -> Places:
        """The places of these rows."""
        if self.names is not None:
            return Places(self.source, names=[self.names[i] for i in rows.tolist()])
        if self.lines is not None:
            return Places(self.source, lines=self.lines[rows])
        return Places(self.source, rows=rows if self.rows is None else self.rows[rows])


class OwnCall:
    """A call, written here alone in the body of `with`, of a method of a class that may be a person's own.

    name: what a message calls the method. Raises: BadInput where it does not take these arguments; what it raises
    itself passes.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, TypeError) and traceback is not None and traceback.tb_next is None:
            raise BadInput(
                f"{self.name} does not take what headstart gives it ({error}); write it as in the guide"
            ) from None


def flops_of(name: str, flops: Any) -> float:
    """FLOPs that a class states. Raises: BadInput where they are no number of 0 or more."""
    if isinstance(flops, bool) or not isinstance(flops, (int, float)) or not 0 <= flops < math.inf:
        raise BadInput(f"{name} gives {flops!r}; return the FLOPs of one sequence, a number of 0 or more")
    return float(flops)
