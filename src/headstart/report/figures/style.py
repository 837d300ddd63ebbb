"""How figures look on a light and on a dark page, and how they are written as SVG and PNG.

Figures are objects without global state; matplotlib is imported only when one is drawn.
"""

from __future__ import annotations

import io
import math
import textwrap
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for colour-blind readers; the dark set is theirs, lightened.
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8F6B00", "#56B4E9", "#333333")
DARK = ("#6CB8F0", "#FF9A5C", "#3FCF9F", "#EBA6CB", "#E6C34D", "#A9DCF7", "#DDDDDD")
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
"""One more than there are colours: an arm that has the colour of another has another mark."""
DASHES, DOTS = (0, (3, 2)), (0, (1, 2))


@dataclass(frozen=True)
class Look:
    """Colours of a page."""

    ink: str
    quiet: str
    rule: str
    paper: str
    colours: tuple[str, ...]

    def colour(self, arm: int) -> str:
        """Colour of an arm by its index in the study."""
        return self.colours[arm % len(self.colours)]

    def mark(self, arm: int) -> str:
        """Mark on the line of an arm whose colour another arm has already; of the others none."""
        return MARKS[arm // len(self.colours) % len(MARKS)] if arm >= len(self.colours) else ""

    def marked(self, arm: int) -> dict[str, Any]:
        """Colour and mark of an arm where every arm has one."""
        return {"color": self.colour(arm), "marker": MARKS[arm % len(MARKS)]}


LOOKS = {
    False: Look("#1d2327", "#5b6670", "#d7dce0", "#ffffff", LIGHT),
    True: Look("#e6eaed", "#9aa7b1", "#3a444c", "#14181b", DARK),
}


@dataclass(frozen=True)
class Drawing:
    """A figure of a page: `name` is its file's, `text` its caption and its alternative text.

    `draw(dark)` makes it, None where there is nothing to draw. `headline` stands over the PNG, which has no caption.
    `stand_in` heads the figure wherever it is shown: which data stood in for absent ones.
    """

    name: str
    title: str
    text: str
    draw: Callable[[bool], Figure | None]
    headline: str = ""
    stand_in: str = ""

    @property
    def file(self) -> str:
        """The name of its PNG."""
        return f"{self.name}.png"

    @property
    def caption(self) -> str:
        """What it shows, and of which data."""
        return f"{self.stand_in}. {self.text}" if self.stand_in else self.text

    def figure(self, dark: bool = False, alone: bool = False) -> Figure | None:
        """The figure for a light or dark page, or None where there is nothing to draw. alone: with its headline."""
        figure = self.draw(dark)
        if figure is None:
            return None
        width, ink = int(13.5 * figure.get_figwidth()), LOOKS[dark].ink
        lines = [textwrap.fill(plain(text), width) for text in (self.stand_in, self.headline if alone else "") if text]
        if self.stand_in and len(lines) == 1 and figure.legends:
            # The legend stands where a title would.
            figure.legends[0].set_title(lines[0])
            figure.legends[0].get_title().set_color(ink)
            figure.legends[0].set_alignment("left")
        elif lines:
            figure.suptitle("\n".join(lines), x=0.012, ha="left", fontsize=9.5, color=ink)
        return figure

    def on_page(self, light: Figure | None = None) -> dict[str, str] | None:
        """What a page's template shows, or None where there is nothing to draw. light: the light one, if drawn."""
        light = light or self.figure()
        if light is None:
            return None
        return {
            "title": self.title,
            "said": self.caption,
            "light": embedded(light),
            "dark": embedded(self.figure(dark=True)),
            "width": str(round(100 * light.get_figwidth())),
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


@contextmanager
def canvas(dark: bool, width: float, height: float) -> Iterator[tuple[Figure, Look]]:
    """An empty figure of this size (inches) and the colours of its page."""
    from matplotlib.figure import Figure

    with style(dark) as look:
        yield Figure(figsize=(width, height)), look


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


def embedded(figure: Figure | None) -> str:
    """The figure as the address of an image that is part of the page; empty where there is none."""
    return "" if figure is None else "data:image/svg+xml;base64," + b64encode(svg(figure)).decode()


def entry(label: str, **line: Any) -> Any:
    """One entry of a legend, drawn as a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=plain(label), **{"markersize": 4.5, **line})


def dashed(look: Look, label: str, dashes: Any = DASHES) -> Any:
    """The entry of a quiet dashed line."""
    return entry(label, color=look.quiet, linestyle=dashes, linewidth=1.2)


def legend(figure: Figure, handles: Sequence[Any], loc: Any = "outside upper left") -> None:
    """A legend outside the panels; what it takes beyond two lines is added to the figure's height."""
    widths = [0.65 + 0.075 * len(handle.get_label()) for handle in handles]
    width = figure.get_figwidth()
    across = len(handles) if sum(widths) <= width else max(1, int(width / max(widths)))
    figure.set_figheight(figure.get_figheight() + 0.22 * max(0, math.ceil(len(handles) / across) - 2))
    figure.legend(handles=handles, loc=loc, ncols=across, fontsize=9)


def legend_of(figure: Figure, axes: Axes) -> None:
    """The legend of what is drawn in these axes, each label once."""
    handles, labels = axes.get_legend_handles_labels()
    first = dict(reversed(list(zip(labels, handles, strict=True))))
    legend(figure, [first[label] for label in dict.fromkeys(labels)])


def from_zero(axes: Axes) -> None:
    """The axis begins at 0 and ends a little above the highest mark."""
    drawn: list[Any] = [line.get_ydata() for line in axes.lines]
    top = max((float(y) for line in drawn for y in line if math.isfinite(y)), default=0.0)
    axes.set_ylim(0, 1.08 * top if top > 0 else 1.0)


def bare(axes: Axes) -> None:
    """Axes of an image: neither ticks nor grid nor frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    axes.spines[:].set_visible(False)
