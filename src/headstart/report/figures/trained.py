"""Trained weights to look at: each arm at its chosen setting and with its first seed, beside its own start.

The weights come from the store and the examples from the task, whose data must be at hand. See `kernels`, `attention`
and `deviations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from headstart import words
from headstart.errors import BadInput, Damaged
from headstart.report.figures.style import Drawing
from headstart.spec import digest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.analysis.stages import Opened
    from headstart.store import Store
    from headstart.study.language.plan import Plan
    from headstart.study.results.results import Results
    from headstart.study.results.rows import Row, Run
    from headstart.tasks import Task, TaskSpec

MOST_PANELS, LINE_POINTS = 6, 256
"""At most so many blocks in one figure, and points of a line: a kernel swings, and what is looked for is its height."""

T = TypeVar("T")


@dataclass(frozen=True)
class TrainedFigures:
    """One stage: the arms that share it, the index of the first in the study, and its seed."""

    arms: tuple[str, ...]
    index: int
    seed: int
    stage: Opened

    @property
    def label(self) -> str:
        """The arms as a label: `a`, `a and b`, `a, b and 3 more`."""
        if len(self.arms) < 4:
            return words.listed(self.arms)
        return f"{', '.join(self.arms[:2])} and {len(self.arms) - 2} more"


@dataclass
class TrainedColumn:
    """One column of a study: opens its stages, and notes what cannot be shown and why (`reasons`)."""

    plan: Plan
    results: Results
    store: Store
    name: str
    reasons: list[str] = field(default_factory=list)
    tasks: dict[TaskSpec, Task] = field(default_factory=dict)

    def drawing(self, name: str, title: str, caption: str, draw: Callable[[bool], Figure], more: str = "") -> Drawing:
        """A figure of this column; `more` tells it from others of the same name."""
        return Drawing(
            file_name("-".join(filter(None, [name, self.name, more]))),
            f"{title}{of_column(self.results, self.name)}",
            caption,
            draw,
            stand_in=stand_in_of(self.results.stand_in(self.name)),
        )

    def leave_out(self, what: str, arms: str, why: str) -> None:
        """Note one sentence."""
        verb = "is" if what == "Attention" else "are"
        column = of_column(self.results, self.name)
        self.reasons.append(f"{what} of {arms}{column} {verb} not drawn: {' '.join(why.split()).rstrip('.')}.")

    def stages(self, what: str, parent: bool) -> Iterator[TrainedFigures]:
        """The arms' stages, each once: the one that is reported, or its parent where it has one."""
        groups: dict[str, list[tuple[Row, Run]]] = {}
        for row in self.results.in_column(self.name):
            run = next((run for run in row.runs if run.val is not None), None)
            if run is None:
                self.leave_out(what, row.arm, "no run of it is finished")
                continue
            identity = run.stages[-2 if parent and len(run.stages) > 1 else -1][1]
            groups.setdefault(identity, []).append((row, run))
        for identity, sharing in groups.items():
            arms = tuple(row.arm for row, _ in sharing)
            try:
                stage = self._opened(identity)
            except (BadInput, Damaged, OSError) as problem:
                self.leave_out(what, words.listed(arms), str(problem))
                continue
            yield TrainedFigures(arms, self.results.arms.index(arms[0]), sharing[0][1].seed, stage)

    def _opened(self, identity: str) -> Opened:
        from headstart.analysis.stages import opened
        from headstart.tasks import open_task

        spec = self.plan.stages[identity].spec.task
        if spec not in self.tasks:
            self.tasks[spec] = open_task(spec, self.plan.data)
        return opened(identity, self.store, self.plan.data, task=self.tasks[spec])


def file_name(name: str) -> str:
    """A name as a file's: one that had to be changed is told apart by a few digits of its hash."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in name)
    return plain if plain == name and plain else f"{plain}-{digest(name)[:6]}"


def of_column(results: Results, column: str) -> str:
    """` on image`, where a study has several columns."""
    return f" on {column}" if len(results.columns) > 1 else ""


def stand_in_of(text: str) -> str:
    """`Stand-in data: digits for image`, the head of a figure; empty where none stood in."""
    return f"Stand-in data: {text}" if text else ""


def some(items: Iterable[T], most: int) -> list[T]:
    """At most so many of them, the first and the last among these, at even steps."""
    every = list(items)
    if len(every) <= most:
        return every
    if most == 1:
        return every[:1]
    return [every[round(i * (len(every) - 1) / (most - 1))] for i in range(most)]


def block_name(block: int, mixer: str) -> str:
    """`block 0`, or `block 0, mixer 1` of mixers side by side (both as in `backbone[0]` and `mixers`)."""
    inner = mixer.removeprefix("mixer").strip(".").removeprefix("mixers.")
    return f"block {block}, mixer {inner}" if inner else f"block {block}"
