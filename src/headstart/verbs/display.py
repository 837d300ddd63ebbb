"""Progress of a running study: a live display in a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headstart.runner import events
from headstart.store import DONE, Store
from headstart.study.language.costs import Speed
from headstart.study.language.estimate import Cost
from headstart.study.language.plan import Plan
from headstart.study.language.time_left import TimeLeft
from headstart.text import many
from headstart.verbs.terminal import console
from headstart.words import duration

PLAIN_EVERY = 10.0
"""Seconds between progress lines where there is no terminal."""
PARTIAL_AFTER = 45.0
"""Seconds after which the first partial table is shown (and again every so often)."""


def watch(
    plan: Plan,
    store: Store,
    costs: Iterable[Cost],
    slots: int,
    speed: Speed,
    partial: Callable[[], RenderableType | None],
) -> Display:
    """The display of a run that does these stages, as far as they are not done."""
    rest = [cost for cost in costs if store.status(cost.planned.identity) not in DONE]
    left = TimeLeft(rest, plan.chains, slots, speed)
    return Display(left, len(plan.every_stage) - len(rest), partial, plan.runs_of())


class Display:
    """Counts what runs and what is done; `partial` gives the table so far. `left` knows how long the rest takes.

    runs: identity -> the arm, seed and rate of a stage.
    """

    def __init__(
        self, left: TimeLeft, done: int, partial: Callable[[], RenderableType | None], runs: Mapping[str, str]
    ) -> None:
        self.runs = runs
        self.console: Console = console(stderr=True)
        self.left, self.partial = left, partial
        self.done, self.total = done, done + len(left.costs)
        self.failed: dict[str, str] = {}
        self.reasons: dict[str, list[str]] = {}
        self.running: dict[str, dict[str, Any]] = {}
        self.begun = time.monotonic()
        self.table: RenderableType | None = None
        self.table_at = self.begun + PARTIAL_AFTER
        self.line_at = self.begun
        self.shown = False
        self.live = (
            Live(get_renderable=self._render, console=self.console, refresh_per_second=4, transient=True)
            if self.console.is_terminal
            else None
        )

    def go_on(self, plan: Plan, store: Store, costs: Iterable[Cost], slots: int, speed: Speed) -> None:
        """Count the stages of a plan that has grown."""
        rest = [cost for cost in costs if store.status(cost.planned.identity) not in DONE]
        self.left, self.runs = TimeLeft(rest, plan.chains, slots, speed), plan.runs_of()
        self.done, self.total = len(plan.every_stage) - len(rest), len(plan.every_stage)

    def __enter__(self) -> Display:
        if self.live is not None:
            self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.__exit__(kind, error, trace)
        for identities in self.reasons.values():
            if rest := len(identities) - 1:
                self.say(f"failed   {many(rest, 'more stage')} as {identities[0]} did, for the same reason")
        if untried := len(self.failed) - sum(map(len, self.reasons.values())):
            self.say(f"failed   {many(untried, 'stage')} not tried: parents failed or diverged")

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(Text(text))

    def show(self, event: events.Event) -> None:
        """Take an event of the run into account, and print what is to stay."""
        self.left.follow(event)
        run = self.runs.get(event.identity)
        name = f"{event.name} {event.identity}" + (f" ({run})" if run else "")
        if isinstance(event, events.Started):
            self.running[event.identity] = {"name": event.name, "step": event.step, "steps": 0, "scores": ""}
        elif isinstance(event, events.StageProgress):
            self._progress(event)
        elif isinstance(event, (events.Finished, events.Skipped)):
            self.done += event.identity in self.left.costs
            if isinstance(event, events.Finished) and event.result["status"] == "diverged":
                self.say(f"diverged {name}: its loss is not a finite number; the study goes on")
        elif isinstance(event, events.Failed):
            self._fail(event, name)
        elif isinstance(event, events.Waiting):
            self.say(f"waiting  {name}: another process is training it; its result will be used")
        elif isinstance(event, events.Stopped):
            self.say(f"saved    {name}: the same command continues from there")
        elif isinstance(event, events.Notice):
            self.say(f"note     {name}: {event.text}")
        if isinstance(event, (events.Finished, events.Skipped, events.Failed, events.Stopped)):
            self.running.pop(event.identity, None)
        self._tell()

    def _fail(self, event: events.Failed, name: str) -> None:
        """One reason is one line: further stages that it fails, and children of failed ones, are counted at the end."""
        self.failed[event.identity] = event.message
        if not event.tried:
            return
        identities = self.reasons.setdefault(event.message, [])
        identities.append(event.identity)
        if len(identities) == 1:
            self.say(f"failed   {name}: {event.message}")

    def _progress(self, event: events.StageProgress) -> None:
        if (state := self.running.get(event.identity)) is None:
            return
        state.update(step=event.step, steps=event.steps)
        if event.record is not None:
            scores = event.record.get("val", {})
            state["scores"] = "  ".join(f"{name} {value:.3f}" for name, value in scores.items() if value is not None)

    def _tell(self) -> None:
        now = time.monotonic()
        if now >= self.table_at:
            self.table_at = now + PLAIN_EVERY
            self.table = self.partial() or self.table
            if self.table is not None and self.live is None and not self.shown:
                self.shown = True
                self.console.print(Text("results so far:"))
                self.console.print(self.table)
        if self.live is None and now >= self.line_at:
            self.line_at = now + PLAIN_EVERY
            self.console.print(Text(self._summary()))

    def _summary(self) -> str:
        left = self.left.seconds()
        names = "; ".join(self.runs.get(i) or state["name"] for i, state in list(self.running.items())[:2])
        what = f" ({names})" if not self.console.is_terminal and names else ""
        parts = [f"{self.done} of {self.total} stages done", f"{len(self.running)} running{what}"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        parts.append(f"{duration(time.monotonic() - self.begun)} elapsed")
        parts.append("estimating the time left" if left is None else f"about {duration(left)} left")
        return ", ".join(parts)

    def _render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        rows = [("study", self.done, self.total, self._summary())]
        for identity, state in list(self.running.items()):
            text = f"{identity}  {self.runs.get(identity, '')}  {state['scores']}"
            rows.append((state["name"], state["step"], state["steps"], text))
        for name, completed, total, text in rows:
            grid.add_row(Text(name), ProgressBar(total=max(total, 1), completed=completed, width=20), Text(text))
        return Group(self.table, grid) if self.table is not None else grid
