"""What a fit is at, said once in two seconds at least while it computes: the piece, the share done, the time left."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headstart.text import escaped, short
from headstart.words import duration

EVERY, SHORT, LOOK = 1.4, 0.4, 0.1
"""Seconds between two lines, of whatever pieces; of a piece of which nothing is said unless all are as short, and so
much later; and between two looks. Together below two seconds."""
LINE_WIDTH = 79
"""Letters of a line in a terminal: of a longer one a terminal that is made narrower keeps the first part for good."""


class Pulse:
    """Says it on standard error: in a terminal on one line, which is written over, else on a line each time.

    limit: seconds that all may take, since `begun` by `time.monotonic`.
    """

    def __init__(self, limit: float | None, begun: float) -> None:
        self.limit, self.begun = limit, begun
        self._piece, self._since, self._seconds, self._spoken = "", begun, 0.0, begun
        self._lock = threading.Lock()

    @contextmanager
    def at(self, piece: str) -> Iterator[None]:
        """Within it this is done, and it is said."""
        over = threading.Event()
        thread = threading.Thread(target=self._beat, args=(over,), daemon=True, name="pulse")
        self.begins(piece)
        thread.start()
        try:
            yield
        finally:
            self.begins("")
            over.set()
            thread.join()

    def begins(self, piece: str, seconds: float = 0.0) -> None:
        """Another piece begins; nothing is said of an empty one. seconds: that it should take, 0 where nobody knows."""
        with self._lock:
            self._clear()
            self._piece, self._since, self._seconds = piece, time.monotonic(), seconds

    def line(self, now: float, most: int | None = None) -> str:
        """What is said, in so many letters: the piece is cut, never the time."""
        spent = now - self.begun
        parts = [f"{min((now - self._since) / self._seconds, 0.99):.0%} done"] if self._seconds else []
        if self.limit is None:
            parts.append(f"{duration(spent)} elapsed")
        elif spent >= self.limit:  # what began within the time may end after it
            parts.append(f"{duration(spent)} elapsed of {duration(self.limit)}")
        else:
            if not self._seconds:
                parts.append(f"{spent / self.limit:.0%} of the time gone")
            parts.append(f"about {duration(self.limit - spent)} left")
        times, piece = f": {', '.join(parts)}", escaped(self._piece)
        return f"{piece if most is None else short(piece, max(most - len(times), 1))}{times}"

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(LOOK):
            with self._lock:
                now = time.monotonic()
                due = now - self._spoken >= EVERY + (SHORT if now - self._since < SHORT else 0)
                if due and self._piece and not sys.stderr.closed:
                    self._spoken, wide = now, min(shutil.get_terminal_size().columns - 1, LINE_WIDTH)
                    if sys.stderr.isatty():
                        sys.stderr.write(f"\r\x1b[K{self.line(now, wide)[:wide]}")
                    else:
                        sys.stderr.write(f"{self.line(now)}\n")
                    sys.stderr.flush()

    def _clear(self) -> None:
        if self._piece and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
