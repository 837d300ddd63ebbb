"""What training made of a study's models, as figures: kernels, attention, distances from the start.

Each arm is shown at its chosen setting and with its first seed, beside the same model untrained. The weights
come from the store and the examples from the task, whose data must be at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.errors import BadInput, nearest
from headstart.report.attention_figures import (
    HeadLine,
    HeadMap,
    attention_figure,
    distance_figure,
    far,
    pooled,
)
from headstart.report.insight_figures import (
    POINTS,
    DeviationLine,
    KernelLine,
    block_name,
    deviation_figure,
    kernel_figure,
    told,
)
from headstart.report.plots import LIGHT
from headstart.spec import digest
from headstart.store.files import Damaged
from headstart.study import words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.analysis.stages import Opened
    from headstart.store.stages import Store
    from headstart.study.plan import Plan
    from headstart.study.results import Results, Row, Run
    from headstart.tasks import Task, TaskSpec

FIGURES = ("kernels", "attention", "deviations")
"""What `report.figures` of a study may name."""
LONGEST = 2048
"""Positions up to which attention is drawn: a map has their square of numbers."""
WEIGHTS = 2**22
"""Weights of one head over all examples of its batch, about; long inputs get fewer examples, two at least."""


@dataclass(frozen=True)
class Insight:
    """A figure: its file's name, title, caption (and alternative text), column, and what draws it.

    `draw(dark)` makes it for a light or a dark page; all values are computed before.
    """

    name: str
    title: str
    said: str
    column: str
    draw: Callable[[bool], Figure]


@dataclass(frozen=True)
class _Look:
    """One stage that is looked at: the arms that share it, the first one's place in the study, and its seed."""

    arms: tuple[str, ...]
    place: int
    seed: int
    stage: Opened


@dataclass
class _Column:
    """One column of a study: opens its stages, and notes what cannot be shown and why."""

    plan: Plan
    results: Results
    store: Store
    name: str
    reasons: list[str] = field(default_factory=list)
    tasks: dict[TaskSpec, Task] = field(default_factory=dict)

    @property
    def of(self) -> str:
        """` on image`, where a study has several columns."""
        return f" on {self.name}" if len(self.results.columns) > 1 else ""

    def file(self, what: str, *more: str) -> str:
        """A name that is a file's; names that had to be changed are told apart by a few digits of their hash."""
        joined = "-".join([what, self.name, *more])
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in joined)
        return plain if plain == joined else f"{plain}-{digest(joined)[:6]}"

    def leave_out(self, what: str, who: str, why: str) -> None:
        """Note one sentence."""
        self.reasons.append(
            f"{what} of {who}{self.of} {'are' if what != 'Attention' else 'is'} not drawn: "
            f"{' '.join(why.split()).rstrip('.')}."
        )

    def looks(self, what: str, parent: bool) -> Iterator[_Look]:
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
            yield _Look(arms, self.results.arms.index(arms[0]), sharing[0][1].seed, stage)

    def _opened(self, identity: str) -> Opened:
        from headstart.analysis.stages import opened
        from headstart.tasks import open_task

        spec = self.plan.stages[identity].spec.task
        if spec not in self.tasks:
            self.tasks[spec] = open_task(spec, self.plan.data)
        return opened(identity, self.store, self.plan.data, task=self.tasks[spec])


def insight_figures(
    plan: Plan, results: Results, store: Store, wanted: Sequence[str]
) -> tuple[list[Insight], list[str]]:
    """The figures that are asked for, column by column, and a sentence for each that cannot be drawn.

    wanted: `kernels` (of the pretraining where there is one), `attention`, `deviations` (of the reported stage).
    Raises: BadInput for another name.
    """
    for name in wanted:
        if name not in FIGURES:
            raise BadInput(f"report.figures: {nearest(name, FIGURES)}")
    makers = {"kernels": _kernels, "attention": _attention, "deviations": _deviations}
    figures: list[Insight] = []
    reasons: list[str] = []
    for name in results.columns:
        column = _Column(plan, results, store, name)
        for what in dict.fromkeys(wanted):
            figures += makers[what](column)
        reasons += column.reasons
    return figures, list(dict.fromkeys(reasons))


def _kernels(column: _Column) -> list[Insight]:
    """As in figure 4 of Amos et al. 2023: before fine-tuning, learnt against the start."""
    from headstart.analysis.kernels import kernels
    from headstart.tasks.pictures import positions_of_a_row

    lines, said, row, seed, step = [], [], 0, 0, 1
    for look in column.looks("Kernels", parent=True):
        length = look.stage.task.signature.length
        learnt, start = (kernels(model, length) for model in (look.stage.model, look.stage.start))
        if not learnt:
            column.leave_out("Kernels", words.listed(look.arms), "no block of it has a convolution")
        elif not all(np.isfinite(k.largest).all() for k in (*learnt, *start)):
            column.leave_out("Kernels", words.listed(look.arms), "they are no finite numbers")
        else:
            label = f"{told(look.arms)} after {look.stage.name}"
            lines.append(KernelLine(label, look.place, learnt, start))
            row, seed, step = positions_of_a_row(look.stage.task), look.seed, -(-length // POINTS)
            moves = [
                f"{now.half} ({first.half}) in {block_name(now.block, now.place)}"
                for now, first in zip(learnt, start, strict=True)
            ]
            said.append(f"{label}: {words.listed(moves)}")
    out = []
    for number, first in enumerate(range(0, len(lines), len(LIGHT))):
        here = lines[first : first + len(LIGHT)]
        notes = [
            f"seed {seed}",
            *([f"grid lines are rows of the image, {row} positions each"] if row else []),
            *([f"each point is the largest of {step} positions"] if step > 1 else []),
        ]
        caption = (
            "Largest absolute value of each block's kernel over channels and directions, by distance; solid as learnt, "
            f"dashed as it started; {'; '.join(notes)}. Positions that hold half of the sum, and in brackets at the "
            f"start: {'; '.join(said[first : first + len(LIGHT)])}."
        )
        more = [str(number + 1)] if number else []
        out.append(
            Insight(
                column.file("kernels", *more),
                f"Kernels{column.of}",
                caption,
                column.name,
                partial(kernel_figure, here, row),
            )
        )
    return out


def _attention(column: _Column) -> list[Insight]:
    """Per arm the maps of its heads, then all arms' mean attended distances."""
    out, lines = [], []
    for look in column.looks("Attention", parent=False):
        who = words.listed(look.arms)
        length = look.stage.task.signature.length
        if length > LONGEST:
            column.leave_out("Attention", who, f"{length:,} positions are more than the {LONGEST:,} that fit a map")
            continue
        heads, count = _heads(look.stage)
        if not heads:
            column.leave_out("Attention", who, "no block of it has full or local attention")
        elif not all(np.isfinite([h.distance, h.first]).all() for h in heads):
            column.leave_out("Attention", who, "its weights are no finite numbers")
        else:
            lines.append(HeadLine(told(look.arms), look.place, heads))
            caption = (
                f"Where each head of {who} looks after {look.stage.name}: a row is a position and its weights on all "
                f"positions, mean over {words.many(count, 'val example')}, each map on its own scale (square root); "
                f"seed {look.seed}. Numbers are the mean attended distance in positions; weighing all alike would give "
                f"{far(heads[0].level)}. Right: mean weight by distance, a colour per head; dashed: the heads' mean "
                "at the start."
            )
            out.append(
                Insight(
                    column.file("attention", *look.arms[:1]),
                    f"Attention of {told(look.arms)}{column.of}",
                    caption,
                    column.name,
                    partial(attention_figure, heads),
                )
            )
    return [*out, *([_distances(column, lines)] if lines else [])]


def _heads(stage: Opened) -> tuple[list[HeadMap], int]:
    """The heads of a stage, and over how many examples they are averaged. One map is held at a time."""
    from headstart.analysis.attention import each_map
    from headstart.analysis.stages import EXAMPLES, first_batch

    batch = first_batch(stage, max(2, min(EXAMPLES, WEIGHTS // stage.task.signature.length**2)))
    heads = [
        HeadMap(
            now.block,
            now.place,
            now.head,
            len(now.weights),
            pooled(now.weights),
            now.distance,
            first.distance,
            now.level,
            now.by_distance,
            first.by_distance,
        )
        for now, first in zip(each_map(stage.model, batch), each_map(stage.start, batch), strict=True)
    ]
    return heads, len(batch)


def _distances(column: _Column, lines: Sequence[HeadLine]) -> Insight:
    means = [f"{line.label} {far(_mean(line, 'distance'))} ({far(_mean(line, 'first'))})" for line in lines]
    caption = (
        "Mean distance in positions between a position and what it attends to: marks are heads, lines their mean, "
        f"dashed at the start, dotted where all is weighed alike. Over all heads, at the start in brackets: "
        f"{words.listed(means)}."
    )
    return Insight(
        column.file("distances"),
        f"How far heads look{column.of}",
        caption,
        column.name,
        lambda dark: distance_figure(lines, dark),
    )


def _mean(line: HeadLine, what: str) -> float:
    return float(np.mean([getattr(head, what) for head in line.heads]))


def _deviations(column: _Column) -> list[Insight]:
    from headstart.analysis.deviations import activations, deviations, moved
    from headstart.analysis.stages import first_batch

    lines, said, seed = [], [], 0
    for look in column.looks("Deviations", parent=False):
        found = deviations(look.stage.model, look.stage.start)
        batch = first_batch(look.stage)
        spread, first = (activations(model, batch) for model in (look.stage.model, look.stage.start))
        values: Any = [*spread, *first, *(d.size for d in found)]
        if not np.isfinite(values).all():
            column.leave_out("Deviations", words.listed(look.arms), "its weights or activations are no finite numbers")
            continue
        lines.append(DeviationLine(told(look.arms), look.place, found, spread, first))
        said.append(f"{told(look.arms)} {moved(found):.2g}")
        seed = look.seed
    if not lines:
        return []
    caption = (
        "How far the reported stage moved from the weights that it started with (the parent's where it has one), "
        "|W − W0| / |W0| by part and block, above; root mean square of the weights, and standard deviation of the "
        f"activations after each block, below; dashed or hollow: at the start; seed {seed}. All weights together "
        f"moved by {words.listed(said)}."
    )
    return [
        Insight(
            column.file("deviations"),
            f"How far training moved the weights{column.of}",
            caption,
            column.name,
            lambda dark: deviation_figure(lines, dark),
        )
    ]
