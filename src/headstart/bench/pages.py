"""Measurements as tables (rows of text), Markdown pages and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headstart.bench.mixers import Cell
from headstart.bench.shares import GROUPS
from headstart.bench.train import Speed
from headstart.report.figures.style import MARKS, plain, style
from headstart.study.words import NONE, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headstart.report.figures.style import Look

Table = tuple[list[str], list[list[str]]]
"""Heads and rows."""


def seconds(value: float | None) -> str:
    """`940 ms`, `12.3 s`, `4,400 s`: three digits at least."""
    if value is None:
        return NONE
    if value >= 1000:
        return f"{value:,.0f} s"
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def megabytes(value: int | None) -> str:
    """`12 MB`, `1,230 MB`, with a digit after the point below 10."""
    if value is None:
        return NONE
    size = value / 1e6
    return f"{size:,.0f} MB" if size >= 10 else f"{size:.1f} MB"


def mixer_table(cells: Sequence[Cell]) -> Table:
    """One row per mixer and device: parameters, then time, memory and forward FLOPs at each length."""
    lengths = sorted({cell.length for cell in cells})
    heads = ["mixer", "parameters", *(f"L {length:,}" for length in lengths)]
    several = len({cell.device for cell in cells}) > 1
    rows = []
    for device, name in dict.fromkeys((cell.device, cell.mixer) for cell in cells):
        of = {cell.length: cell for cell in cells if (cell.device, cell.mixer) == (device, name)}
        built = [cell.parameters for cell in of.values() if cell.parameters]
        # Some mixers have weights for every place: theirs are those at the longest length.
        rows.append(
            [
                f"{name}, {device}" if several else name,
                f"{max(built):,}" if built else NONE,
                *(_cell(of[length]) if length in of else NONE for length in lengths),
            ]
        )
    return heads, rows


def _cell(cell: Cell) -> str:
    if cell.failed is not None:
        return cell.failed
    return f"{seconds(cell.seconds)}, {megabytes(cell.memory)}, {count(cell.flops)}FLOP"


def train_table(speeds: Sequence[Speed]) -> Table:
    """One row per model: sizes, tokens/s, share of the peak, and the plain loop and the Trainer beside it."""
    heads = ["model", "parameters", "batch x L", "step", "epoch", "tokens/s", "share of peak"]
    heads += ["plain step", "plain / ours", "Trainer step", "Trainer / ours"]
    rows = []
    for speed in speeds:
        if speed.seconds is None or speed.epoch_seconds is None:
            rows.append([f"{speed.model}, {speed.device}", speed.failed or NONE, *[NONE] * (len(heads) - 2)])
            continue
        beside = []
        for other in (speed.plain_seconds, speed.trainer_seconds):
            beside += [NONE, NONE] if other is None else [seconds(other), f"{other / speed.seconds:.2f}"]
        rows.append(
            [
                f"{speed.model}, {speed.device}",
                f"{speed.parameters:,}",
                f"{speed.batch} x {speed.length:,}",
                seconds(speed.seconds),
                seconds(speed.epoch_seconds),
                f"{speed.tokens_per_second:,.0f}",
                f"{speed.share_of_peak:.0%}",
                *beside,
            ]
        )
    return heads, rows


def ways(speeds: Sequence[Speed]) -> str:
    """How steps were taken, in a sentence, and what the Trainer's columns lack."""
    known = {f"{speed.model}, {speed.device}": speed.how for speed in speeds if speed.how}
    several = [f"{name}: {how}" for name, how in known.items()]
    text = f"Steps of ours: {next(iter(known.values())) if len(set(known.values())) == 1 else '; '.join(several)}."
    if any(speed.seconds is not None and speed.trainer_seconds is None for speed in speeds):
        text += " The Trainer of transformers was not measured: `pip install 'headstart[bench]'` adds it."
    return text


def share_table(speeds: Sequence[Speed]) -> Table:
    """Where the time of a step goes, one row per model."""
    rows = [
        [f"{speed.model}, {speed.device}", *(f"{speed.shares[group]:.0%}" for group in GROUPS)]
        for speed in speeds
        if speed.shares is not None
    ]
    return ["model", *GROUPS], rows


def peaks(speeds: Sequence[Speed]) -> str:
    """The measured peaks in a sentence."""
    texts = [f"{speed.model}, {speed.device}: {count(speed.peak)}FLOP/s" for speed in speeds if speed.peak]
    return "Matrix-product peak, measured just before each model: " + "; ".join(texts) + "."


def markdown(table: Table) -> str:
    """A table for a Markdown page; bars in foreign names are escaped."""
    heads, rows = table
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


MIXERS_TEXT = (
    "Forward + backward of one layer, gradients of weights and inputs, with each mixer's default settings. In a cell: "
    "the median time of a step after a warm one, the largest memory beyond what the process (or the GPU) held before, "
    "and the closed-form FLOPs of one forward over one sequence. Each cell is a process of its own; one that runs out "
    "of memory or time says so."
)
TRAIN_TEXT = (
    "Ours: a step of the training loop as a stage runs it. Plain: the same module and weights, one batch that is "
    "already there, `torch.optim.AdamW`, nothing else. Trainer: that of transformers with its default optimiser and "
    "data loader, on the same module. Each in its own process, taking turns, medians after warm steps. An epoch is "
    "one of the task (1,097 sequences of digits, 45,000 of image, 25,000 of text, 96,000 of listops) at full length. "
    "tokens/s counts valid positions; the share of the peak is closed-form FLOPs of valid positions (backward "
    "counted twice the forward) over those of large float32 matrix products measured in the same run. `text` and "
    "`listops` take one sequence at a time, fewer than the published batches."
)


LABEL = 0.23
"""Least distance of two labels, in inches."""


def spread(places: Sequence[float], least: float) -> list[float]:
    """Rising places moved apart to at least `least`, each as near to where it was as its neighbours allow."""
    groups: list[tuple[float, int]] = []  # (sum of the first places that members ask for, members)
    for number, height in enumerate(places):
        total, members = height - number * least, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / members:
            before, more = groups.pop()
            total, members = total + before, members + more
        groups.append((total, members))
    firsts = [total / members for total, members in groups for _ in range(members)]
    return [first + number * least for number, first in enumerate(firsts)]


def times(cells: Sequence[Cell], dark: bool = False) -> Figure | None:
    """One panel per device, one line per mixer with its name at its end. None where nothing was timed."""
    from matplotlib.figure import Figure

    devices = list(dict.fromkeys(cell.device for cell in cells if cell.seconds is not None))
    if not devices:
        return None
    height = max(5.6, LABEL * len({cell.mixer for cell in cells}) + 0.9)
    with style(dark) as look:
        figure = Figure(figsize=(7.2 * len(devices), height))
        for number, device in enumerate(devices, start=1):
            axes = figure.add_subplot(1, len(devices), number)
            axes.set_title(f"Forward + backward of one layer, {'CPU' if device == 'cpu' else 'GPU'}")
            timed = [cell for cell in cells if cell.device == device and cell.seconds is not None]
            _panel(axes, timed, look, LABEL / (height - 0.9))
    return figure


def _panel(axes: Axes, cells: Sequence[Cell], look: Look, least: float) -> None:
    names = list(dict.fromkeys(cell.mixer for cell in cells))
    lengths = sorted({cell.length for cell in cells})
    ends: list[tuple[float, str, float, str]] = []
    for index, name in enumerate(names):
        line = sorted((c.length, c.seconds or 0.0) for c in cells if c.mixer == name)
        turn = index // len(look.colours) % 2
        axes.plot(
            *zip(*line, strict=True),
            color=look.colour(index),
            marker=MARKS[index % len(MARKS)],
            markersize=4,
            linewidth=1.4,
            linestyle="--" if turn else "-",
            fillstyle="none" if turn else "full",
        )
        ends.append((line[-1][1], name, line[-1][0], look.colour(index)))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_xlabel("length L")
    axes.set_ylabel("seconds")
    axes.minorticks_off()
    axes.set_xlim(lengths[0] * 0.85, lengths[-1] * 1.18)
    _name_lines(axes, sorted(ends), lengths[-1], least)


def _name_lines(axes: Axes, ends: Sequence[tuple[float, str, float, str]], longest: int, least: float) -> None:
    """Names right of the axes at the heights of their ends, moved apart, with a thin line to where they belong.

    least: distance of two names, as a share of the height of the axes.
    """
    low, high = (math.log10(edge) for edge in axes.get_ylim())
    share = [(math.log10(seconds) - low) / (high - low) for seconds, *_ in ends]
    # Each leaves room for those below and above it, so that all stand beside the axes.
    share = [max(least * i, min(value, 1 - least * (len(ends) - 1 - i))) for i, value in enumerate(share)]
    for height, (seconds, name, length, colour) in zip(spread(share, least), ends, strict=True):
        text = plain(name) if length == longest else f"{plain(name)} (to {length:,.0f})"
        axes.annotate(
            text,
            xy=(length, seconds),
            xytext=(1.04, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 0.5),
                "color": colour,
                "linewidth": 0.5,
                "alpha": 0.7,
                "shrinkA": 1,
                "shrinkB": 4,
            },
        )
