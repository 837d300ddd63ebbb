"""How figures look on a light and on a dark page, and how they are written as PNG, SVG and PDF.

Figures are objects without global state; matplotlib is imported only when one is drawn.
"""

from __future__ import annotations

import io
import math
import os
import re
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for colour-blind readers, then five of Tol's muted ones; the dark set is
# theirs, lightened.
LIGHT: tuple[str, ...] = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#333333",
    "#882255",
    "#44AA99",
    "#AA4499",
    "#661100",
    "#999933",
)
DARK: tuple[str, ...] = (
    "#6CB8F0",
    "#FF9A5C",
    "#3FCF9F",
    "#EBA6CB",
    "#E6C34D",
    "#A9DCF7",
    "#DDDDDD",
    "#D8709F",
    "#8ADBCB",
    "#DD88DD",
    "#D98A70",
    "#D6D67A",
)
APART = 7
"""Colours that are told apart without a mark."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "h", "d", "p")
"""One more than there are colours: an arm that has the colour of another has another mark."""
TALLEST = 8.4
"""Inches of a figure with its legend, so that it stands on a page with its caption."""
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

    def marked(self, arm: int) -> dict[str, Any]:
        """Colour and mark of an arm by its index in the study."""
        return {"color": self.colour(arm), "marker": MARKERS[arm % len(MARKERS)]}


LOOKS = {
    False: Look("#1d2327", "#5b6670", "#d7dce0", "#ffffff", LIGHT),
    True: Look("#e6eaed", "#9aa7b1", "#3a444c", "#14181b", DARK),
}


FIGURE_FORMATS = ("png", "svg", "pdf")
"""What each figure is written as."""
_WIDTH: ContextVar[float | None] = ContextVar("figure width", default=None)
"""Inches that figures are drawn for while one is made (as with matplotlib's settings); None: those of the page."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a page: `name` is that of its files, `text` its caption and its alternative text.

    `draw(dark)` makes it, None where there is nothing to draw. `stand_in` heads the figure wherever it is shown: which
    data stood in for absent ones.
    """

    name: str
    title: str
    text: str
    draw: Callable[[bool], Figure | None]
    stand_in: str = ""

    @property
    def file(self) -> str:
        """The name of its PNG."""
        return f"{self.name}.png"

    @property
    def caption(self) -> str:
        """What it shows, and of which data."""
        return f"{self.stand_in}. {self.text}" if self.stand_in else self.text

    def figure(self, dark: bool = False, width: float | None = None) -> Figure | None:
        """For a light or dark page, or None where there is nothing to draw. width: for a paper, in inches."""
        token = _WIDTH.set(width)
        try:
            figure = self.draw(dark)
            if figure is not None and self.stand_in:
                self._head(figure, LOOKS[dark].ink)
            return figure
        finally:
            _WIDTH.reset(token)

    def _head(self, figure: Figure, ink: str) -> None:
        """Say which data stood in: where the legend's title would stand, or a title of the figure."""
        points = 8.0 if _WIDTH.get() else 9.5
        text = folded(plain(self.stand_in), figure.get_figwidth() - 0.3, points)
        if figure.legends:
            title = figure.legends[0].get_title()
            figure.legends[0].set_title(text)
            title.set(color=ink, fontsize=points)
            figure.legends[0].set_alignment("left")
        else:
            figure.suptitle(text, x=0.012, ha="left", fontsize=points, color=ink)
        figure.set_figheight(figure.get_figheight() + (text.count("\n") + 1) * points * 1.4 / 72)

    def files(
        self, width: float | None = None, figure: Figure | None = None, formats: Sequence[str] = FIGURE_FORMATS
    ) -> dict[str, bytes]:
        """Name of each file -> its bytes; none where there is nothing to draw. figure: as drawn for this width."""
        figure = figure or self.figure(width=width)
        if figure is None:
            return {}
        forms = {"png": png, "svg": svg, "pdf": pdf}
        return {f"{self.name}.{ending}": forms[ending](figure) for ending in formats}

    def on_page(self, light: Figure | None = None, image: bytes | None = None) -> dict[str, str] | None:
        """What a page's template shows, or None where there is nothing to draw. light: the light one, if drawn; image:
        its SVG, if made."""
        light = light or self.figure()
        if light is None:
            return None
        return {
            "title": self.title,
            "said": self.caption,
            "light": embedded(image or svg(light)),
            "dark": "" if (dark := self.figure(dark=True)) is None else embedded(svg(dark)),
            "width": str(round(100 * light.get_figwidth())),
        }


@lru_cache(maxsize=1)
def _defaults() -> Any:
    """matplotlib's own settings, whatever a `matplotlibrc` or a program says; one in the working directory, which may
    be anybody's, is not even read."""
    with ExitStack() as stack:
        new = "matplotlib" not in sys.modules
        if new:
            with suppress(OSError):  # the working directory may be gone
                stack.enter_context(chdir(Path(__file__).parent))
        backend = os.environ.pop("MPLBACKEND", None) if new else None  # with one that is none it cannot be imported
        import matplotlib

        if backend:
            os.environ["MPLBACKEND"] = backend
            with suppress(ValueError):
                matplotlib.rcParams["backend"] = backend
    return {key: value for key, value in matplotlib.rcParamsDefault.items() if key not in ("backend", "interactive")}


@contextmanager
def style(dark: bool) -> Iterator[Look]:
    """matplotlib's settings for a light or dark page, for as long as a figure is made."""
    defaults = _defaults()
    import matplotlib

    look = LOOKS[dark]
    settings: Any = {
        "svg.hashsalt": "headstart",
        "font.size": 8.0 if _WIDTH.get() else 10.0,
        "legend.fontsize": 7.5 if _WIDTH.get() else 9.0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": look.rule,
        "axes.labelcolor": look.quiet,
        "text.color": look.ink,
        "xtick.color": look.quiet,
        "ytick.color": look.quiet,
        "axes.titlecolor": look.ink,
        "axes.titlesize": 8.5 if _WIDTH.get() else 10.5,
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
        "lines.linewidth": 1.3 if _WIDTH.get() else 1.8,
        "figure.constrained_layout.use": True,
        "mathtext.default": "regular",
    }
    with matplotlib.rc_context({**defaults, **settings}):
        yield look


@contextmanager
def canvas(dark: bool, width: float, height: float) -> Iterator[tuple[Figure, Look]]:
    """An empty figure of this size (inches), or of the width of a paper, and the colours of its page."""
    with style(dark) as look:
        from matplotlib.figure import Figure

        yield Figure(figsize=(_WIDTH.get() or width, height)), look


def across(figure: Figure, panels: int, least: float) -> int:
    """How many panels of at least so many inches stand side by side; the figure's height is that of all their rows."""
    number = max(1, min(panels, int(figure.get_figwidth() / least)))
    figure.set_figheight(figure.get_figheight() * math.ceil(panels / number))
    return number


def name_ticks(axes: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    """Ticks with names below the axes: turned where they do not fit beside each other, each ending at its tick."""
    from matplotlib import rcParams

    points, figure, spec = rcParams["font.size"], axes.get_figure(root=True), axes.get_subplotspec()
    width = figure.get_figwidth() if figure is not None else 6.0
    room = 0.8 * width / (spec.get_gridspec().ncols if spec is not None else 1)
    names = [folded(plain(name), 1.6, points) for name in names]
    fits = max(text_width(name, points) for name in names) * 1.15 < room / len(names)
    turned: dict[str, Any] = {} if fits else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(places, names, **turned)


def beside(values: Sequence[float], arm: int, arms: int, log: bool) -> dict[float, float]:
    """Each value of an axis -> where an arm's point stands: a little aside, so that arms do not hide each other.

    values: ascending. log: whether the axis is logarithmic.
    """
    share = min(0.02, 0.6 / (arms * max(len(values) - 1, 1))) * (arm - (arms - 1) / 2)
    low, high = values[0], values[-1]
    return {value: value * (high / low) ** share if log else value + (high - low) * share for value in values}


@lru_cache(maxsize=4096)
def text_width(text: str, points: float) -> float:
    """Inches of the longest line of a text of this size."""
    _defaults()
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points)
    lines = text.replace(r"\$", "s").split("\n")
    return max(float(text_to_path.get_text_width_height_descent(line, font, False)[0]) for line in lines) / 72


def folded(text: str, width: float, points: float) -> str:
    """The text in lines of at most so many inches; names break after their hyphens, underscores and slashes."""
    lines = [""]
    for part in re.findall(r"[^\s_/-]*[\s_/-]+|[^\s_/-]+$|.", text):
        if lines[-1] and text_width(lines[-1] + part.rstrip(), points) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def shortened(names: Sequence[str], width: float, points: float) -> list[str]:
    """Each name in a line of at most so many inches.

    Parts that most names share give way to `…`, but for those that tell the name from the others; then the ends of its
    longest parts do.
    """
    parts = [re.findall(r"[^\s_/-]*[\s_/-]+|[^\s_/-]+$|.", name) for name in names]
    sharing = Counter(part for each in parts for part in set(each))
    lines = []
    for name, each in zip(names, parts, strict=True):
        others = [set(other) for other in parts if not set(each) <= set(other)]
        line, pieces = name, list(each)
        for i in sorted(range(len(each)), key=lambda i: (sharing[each[i]], i), reverse=True):
            left = {piece for j, piece in enumerate(pieces) if j != i} - {"…"}
            if text_width(line, points) > width and left and not any(left <= other for other in others):
                pieces[i] = "…"
                line = re.sub("…+", "…", "".join(pieces))
        while text_width(line, points) > width and max(map(len, pieces)) > 2:
            i = max(range(len(pieces)), key=lambda i: len(pieces[i]))
            pieces[i] = pieces[i].rstrip("…")[:-1] + "…"
            line = re.sub("…+", "…", "".join(pieces))
        lines.append(line)
    return lines


def plain(text: str) -> str:
    """Foreign text for a figure: no `$`, which would be read as mathematics."""
    return "".join(c if c.isprintable() else " " for c in text).replace("$", r"\$")


def svg(figure: Figure) -> bytes:
    """The figure as SVG; equal figures give equal bytes."""
    return _saved(figure, {"svg.hashsalt": "headstart"}, format="svg", metadata={"Date": None, "Creator": "headstart"})


def pdf(figure: Figure) -> bytes:
    """The figure as PDF with its fonts; equal figures give equal bytes."""
    nobody = {"CreationDate": None, "Creator": "headstart", "Producer": None}
    return _saved(figure, {"pdf.fonttype": 42}, format="pdf", metadata=nobody)


def png(figure: Figure, dots: int = 200) -> bytes:
    """The figure as PNG."""
    return _saved(figure, {}, format="png", dpi=dots, metadata={"Software": "headstart"})


def _saved(figure: Figure, settings: Any, **how: Any) -> bytes:
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context({**_defaults(), **settings}):
        figure.savefig(out, **how)
    figure.set_layout_engine("none")  # The first form has laid it out; to do so again takes longer than to draw it.
    return out.getvalue()


def embedded(image: bytes) -> str:
    """An SVG as the address of an image that is part of the page."""
    return "data:image/svg+xml;base64," + b64encode(image).decode()


def entry(label: str, **line: Any) -> Any:
    """One entry of a legend, drawn as a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=plain(label), **{"markersize": 4.5, **line})


def dashed(look: Look, label: str, dashes: Any = DASHES) -> Any:
    """The entry of a quiet dashed line."""
    return entry(label, color=look.quiet, linestyle=dashes, linewidth=1.2)


def legend(figure: Figure, handles: Sequence[Any], loc: Any = "outside upper left") -> None:
    """A legend outside the panels, as wide as the figure; what it takes beyond one line is added to the height.

    Where that would be too much for a page, names are cut to one line each, and then the panels get lower.
    """
    from matplotlib import rcParams

    points, width, before = rcParams["legend.fontsize"], figure.get_figwidth() - 0.65, figure.get_figheight()
    names = [handle.get_label() for handle in handles]
    for texts in ([folded(name, width, points) for name in names], shortened(names, width, points)):
        each = max(text_width(text, points) for text in texts) + 5.2 * points / 72
        number = max(1, min(len(handles), int((width + 0.5) / each)))
        lines = max(text.count("\n") + 1 for text in texts) * math.ceil(len(handles) / number)
        more = (lines - 1) * points * 1.55 / 72
        if before + more <= TALLEST:
            break
    for handle, text in zip(handles, texts, strict=True):
        handle.set_label(text)
    figure.set_figheight(min(before + more, max(TALLEST, more + 0.55 * before)))
    figure.legend(handles=handles, loc=loc, ncols=number)


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
