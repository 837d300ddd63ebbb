"""The best validation score so far over the trials of a search, beside that of random search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.report.figures.style import DASHES, canvas, dashed, entry, legend
from headstart.report.tables.search import AT_RANDOM, bests, random_sentence
from headstart.study.results.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headstart.study.language.search import SearchSpec


def search_caption(search: SearchSpec) -> str:
    """What the figure shows, in words."""
    steps = "" if search.sampler == "random" else "Steps: the best validation score so far. "
    text = f"{steps}Dashed: random search, on average. Crosses: trials that diverged."
    return f"{text}{search.pruned} {random_sentence(search)}"


def search_figure(results: Results, column: str, search: SearchSpec, dark: bool = False) -> Figure | None:
    """The best score after so many trials, a step line for each arm, and dashed that of random search on average.

    Trials that diverged are crosses at the foot. None where no arm of the column has chosen.
    """
    rows = [row for row in results.in_column(column) if any(score is not None for score in row.trials)]
    if not rows:
        return None
    with canvas(dark, 5.2, 3.3) as (figure, look):
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for row in rows:
            colour = look.colour(results.arms.index(row.arm))
            for drawn, curve in bests(row, search).items():
                points = [(i, score) for i, score in enumerate(curve, start=1) if score is not None]
                how: dict[str, Any] = {"drawstyle": "steps-post"}
                if drawn == AT_RANDOM:
                    how = {"linestyle": DASHES, "linewidth": 1.2, "alpha": 0.85}
                axes.plot(*zip(*points, strict=True), color=colour, **how)
            lost = [i for i, score in enumerate(row.trials, start=1) if score is None]
            foot = axes.get_xaxis_transform()
            axes.plot(lost, [0.02] * len(lost), "x", color=colour, transform=foot, markersize=4, clip_on=False)
        axes.set_xlabel("trials")
        axes.set_ylabel(f"best validation {words.metric(rows[0].metric)}")
        axes.set_xlim(0.5, max(len(row.trials) for row in rows) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        arms = [entry(row.arm, color=look.colour(results.arms.index(row.arm))) for row in rows]
        legend(figure, [*arms, dashed(look, "random search, on average")])
    return figure
