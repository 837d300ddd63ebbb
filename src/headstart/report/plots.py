"""How figures of a report look, are written as SVG and PNG, and the learning curves.

Figures are objects without global state; matplotlib is imported only when one is drawn. Each can be drawn
for a light or a dark page. See `sweeps` and `pictures` for the others.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.study import words
from headstart.study.results import Results, Row
from headstart.study.rows import sharing_stage
from headstart.study.statistics import estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Records = Callable[[str], Sequence[Mapping[str, Any]]]
"""Identity -> the records of a stage, earliest first."""

# Okabe and Ito's colours, which stay apart for colour-blind readers; the dark set is theirs, lightened.
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8F6B00", "#56B4E9", "#333333")
DARK = ("#6CB8F0", "#FF9A5C", "#3FCF9F", "#EBA6CB", "#E6C34D", "#A9DCF7", "#DDDDDD")
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
"""One more than there are colours: an arm that has the colour of another has another mark."""

TRAIN = (
    "train, where it was recorded, is dashed: the running mean over the batches since the last evaluation, of the "
    "model as it trains (dropout on)"
)
"""What learning curves show of train, in a caption."""


@dataclass(frozen=True)
class Look:
    """Colours of a page."""

    ink: str
    quiet: str
    rule: str
    paper: str
    colours: tuple[str, ...]

    def colour(self, place: int) -> str:
        """Colour of an arm by its place in the study."""
        return self.colours[place % len(self.colours)]

    def mark(self, place: int) -> str:
        """Mark on the line of an arm whose colour another arm has already; of the others none."""
        return MARKS[place // len(self.colours) % len(MARKS)] if place >= len(self.colours) else ""


LOOKS = {
    False: Look("#1d2327", "#5b6670", "#d7dce0", "#ffffff", LIGHT),
    True: Look("#e6eaed", "#9aa7b1", "#3a444c", "#14181b", DARK),
}


@contextmanager
def style(dark: bool) -> Iterator[Look]:
    """matplotlib's settings for a light or dark page, for as long as a figure is made."""
    import matplotlib

    look = LOOKS[dark]
    settings: Any = {
        "svg.hashsalt": "headstart",
        "font.size": 10.0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": look.rule,
        "axes.labelcolor": look.quiet,
        "text.color": look.ink,
        "xtick.color": look.quiet,
        "ytick.color": look.quiet,
        "axes.titlecolor": look.ink,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": look.rule,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "figure.facecolor": look.paper,
        "axes.facecolor": look.paper,
        "savefig.facecolor": look.paper,
        "lines.linewidth": 1.8,
        "figure.constrained_layout.use": True,
        "mathtext.default": "regular",
    }
    with matplotlib.rc_context(settings):
        yield look


def plain(text: str) -> str:
    """Foreign text for a figure: no `$`, which would be read as mathematics."""
    return "".join(c if c.isprintable() else " " for c in text).replace("$", r"\$")


def svg(figure: Figure) -> bytes:
    """The figure as SVG; equal figures give equal bytes."""
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "headstart"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "headstart"})
    return out.getvalue()


def png(figure: Figure, dots: int = 160) -> bytes:
    """The figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dots, metadata={"Software": "headstart"})
    return out.getvalue()


def _places(results: Results) -> dict[str, int]:
    return {arm: place for place, arm in enumerate(results.arms)}


def curves(results: Results, column: str, records: Records, dark: bool = False) -> Figure | None:
    """Learning curves of one column at the chosen settings: monitored score and losses by epoch.

    Lines are means over seeds, bands one standard error; train is dashed (see `TRAIN`), and there where records have
    it: older ones have its loss alone. None where no record is there.
    """
    from matplotlib.figure import Figure

    rows = [row for row in results.in_column(column) if row.runs]
    panels = _panels(rows)
    with style(dark) as look:
        figure = Figure(figsize=(3.1 * len(panels) + 0.3, 2.9))
        drawn = False
        for place, (stage, metric) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), place)
            axes.set_title(plain(f"{stage}: {words.metric(metric)}"))
            axes.set_xlabel("epoch")
            for identities, sharing in sharing_stage(rows, stage).items():
                # A stage that several arms rest on is drawn once, in ink.
                arm = _places(results)[sharing[0]]
                one, mark = (look.colour(arm), look.mark(arm)) if len(sharing) == 1 else (look.ink, "")
                drawn |= _curve(axes, [records(identity) for identity in identities], metric, one, mark)
        if not drawn:
            return None
        _legend(figure, results, rows, look)
    return figure


def _panels(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(stage, score) of each panel: the reported score, its loss, then the loss of each earlier stage."""
    if not rows:
        return [("", "loss")]
    names: dict[str, None] = {}
    for row in rows:
        for name, _ in reversed(row.runs[0].stages):
            names[name] = None
    reported = rows[0].runs[0].stages[-1][0]
    out = [(reported, rows[0].metric)]
    out += [(name, "loss") for name in names if (name, "loss") not in out]
    return out


def _curve(axes: Axes, lines: Sequence[Sequence[Mapping[str, Any]]], metric: str, colour: str, mark: str) -> bool:
    """Val, and train where records have it, of one stage, over its seeds. Says whether there was anything."""
    drawn = False
    for split, dash in (("train", (0, (3, 2))), ("val", "solid")):
        x, middle, low, high = _band(lines, split, metric)
        if x:
            axes.plot(
                x,
                middle,
                color=colour,
                linestyle=dash,
                alpha=1.0 if split == "val" else 0.75,
                linewidth=1.9 if split == "val" else 1.2,
                markersize=4.5,
                marker=mark if len(x) > 1 else MARKS[split == "train"],
            )
            axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
            drawn = True
    return drawn


def _band(
    lines: Sequence[Sequence[Mapping[str, Any]]], split: str, metric: str
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Epochs, means and means -/+ one standard error, over the seeds that have a record at each epoch."""
    found: dict[float, list[float]] = {}
    for line in lines:
        for record in line:
            value = record.get(split, {}).get(metric)
            if value is not None:
                found.setdefault(float(record["epoch"]), []).append(float(value))
    out: tuple[list[float], ...] = ([], [], [], [])
    for epoch in sorted(found):
        here = estimate(found[epoch])
        if here is not None:
            reach = here.sem or 0.0
            values = (epoch, here.mean, here.mean - reach, here.mean + reach)
            for held, value in zip(out, values, strict=True):
                held.append(value)
    return out[0], out[1], out[2], out[3]


def _legend(figure: Figure, results: Results, rows: Sequence[Row], look: Look) -> None:
    """Arms by colour, and what dashes and bands are, above the panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    places = _places(results)
    handles: list[Any] = [
        Line2D(
            [],
            [],
            color=look.colour(places[r.arm]),
            marker=look.mark(places[r.arm]),
            markersize=4.5,
            label=plain(r.arm),
        )
        for r in rows
    ]
    handles.append(Line2D([], [], color=look.quiet, linestyle=(0, (3, 2)), linewidth=1.2, label="train"))
    handles.append(Patch(color=look.quiet, alpha=0.3, linewidth=0, label="± 1 standard error over seeds"))
    across = fitting(handles, figure.get_figwidth())
    # What more than two lines of a legend take is not taken from the panels.
    figure.set_figheight(figure.get_figheight() + 0.22 * max(0, math.ceil(len(handles) / across) - 2))
    figure.legend(handles=handles, loc="outside upper left", ncols=across)


def fitting(handles: Sequence[Any], width: float) -> int:
    """How many entries of a legend stand beside each other in a figure of this width (inches)."""
    widths = [0.65 + 0.075 * len(handle.get_label()) for handle in handles]
    return len(handles) if sum(widths) <= width else max(1, int(width / max(widths)))
