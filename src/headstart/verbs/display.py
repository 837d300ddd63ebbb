"""Progress of a running study: a live display in a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headstart.study.words import duration
from headstart.verbs.terminal import console

PLAIN_EVERY = 10.0
"""Seconds between progress lines where there is no terminal."""
PARTIAL_AFTER = 45.0
"""Seconds after which the first partial table is shown (and again every so often)."""


class Display:
    """Counts what runs and what is done; `partial` gives the table so far.

    Stages weigh as many steps as they have, so that the time left follows the work left.
    """

    def __init__(self, steps: dict[str, int], done: set[str], partial: Callable[[], RenderableType | None]) -> None:
        self.console: Console = console(stderr=True)
        self.steps, self.partial = steps, partial
        self.done: set[str] = set(done)
        self.failed: dict[str, str] = {}
        self.running: dict[str, dict[str, Any]] = {}
        self.begun = time.monotonic()
        self.before = sum(steps.get(i, 0) for i in done)
        self.table: RenderableType | None = None
        self.table_at = self.begun + PARTIAL_AFTER
        self.line_at = self.begun
        self.shown = False
        self.live = (
            Live(get_renderable=self._render, console=self.console, refresh_per_second=4, transient=True)
            if self.console.is_terminal
            else None
        )

    def __enter__(self) -> Display:
        if self.live is not None:
            self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(Text(text))

    def started(self, identity: str, name: str) -> None:
        """A stage runs."""
        self.running[identity] = {"name": name, "step": 0, "note": ""}

    def progress(self, identity: str, step: int, record: dict[str, Any] | None) -> None:
        """A running stage got further."""
        if identity in self.running:
            self.running[identity]["step"] = step
            if record is not None:
                scores = record.get("val", {})
                self.running[identity]["note"] = "  ".join(f"{k} {v:.3f}" for k, v in scores.items())
        self._tell()

    def finished(self, identity: str) -> None:
        """A stage is done."""
        self.running.pop(identity, None)
        self.done.add(identity)
        self._tell()

    def failure(self, identity: str, name: str, message: str) -> None:
        """A stage failed; the others go on."""
        self.running.pop(identity, None)
        self.failed[identity] = message
        self.say(f"failed   {name} {identity}: {message}")

    def left(self) -> float | None:
        """Seconds left, from the steps done in this run; None while nothing is known."""
        worked = self._steps_done() - self.before
        passed = time.monotonic() - self.begun
        rest = sum(self.steps.values()) - self._steps_done()
        return None if worked <= 0 or passed < 2 else rest * passed / worked

    def _steps_done(self) -> int:
        over = sum(self.steps.get(i, 0) for i in [*self.done, *self.failed])
        return over + sum(int(r["step"]) for r in self.running.values())

    def _tell(self) -> None:
        now = time.monotonic()
        if now >= self.table_at:
            self.table_at = now + PLAIN_EVERY
            found = self.partial()
            if found is not None:
                self.table = found
                if self.live is None and not self.shown:
                    self.shown = True
                    self.console.print(Text("so far (partial):"))
                    self.console.print(found)
        if self.live is None and now >= self.line_at:
            self.line_at = now + PLAIN_EVERY
            self.console.print(Text(self._summary()))

    def _summary(self) -> str:
        left = self.left()
        parts = [f"{len(self.done)} of {len(self.steps)} stages done", f"{len(self.running)} running"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        parts.append(f"{duration(time.monotonic() - self.begun)} passed")
        parts.append("time left unknown yet" if left is None else f"about {duration(left)} left")
        return ", ".join(parts)

    def _render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        total = max(sum(self.steps.values()), 1)
        grid.add_row(
            Text("study"), ProgressBar(total=total, completed=self._steps_done(), width=30), Text(self._summary())
        )
        for identity, state in list(self.running.items()):
            grid.add_row(
                Text(state["name"]),
                ProgressBar(total=max(self.steps.get(identity, 1), 1), completed=state["step"], width=30),
                Text(f"{identity}  {state['note']}"),
            )
        return Group(self.table, grid) if self.table is not None else grid
