"""What a person should see of a task before trusting a number: signature, splits, labels, one example.

Everything is plain text: labels and texts come from files of others, so whoever prints them escapes them; control
characters are already made visible here.
"""

from __future__ import annotations

import textwrap

import numpy as np

from headstart.data.splits import overlaps
from headstart.data.text import printable
from headstart.objectives import MaskedSpec
from headstart.sequence import IGNORE, Examples, Signature, collate
from headstart.tasks.images import pixels_of
from headstart.tasks.task import SPLITS, Baseline, Task, TaskSpec, unit_targets

SHADES = " ░▒▓█"
HIDDEN_MARK = "╱"
PICTURE_SIDE = 32
"""Pixels of a picture's longer side on the terminal; larger pictures are averaged down."""
BARS = 100
"""Bars of a line that draws a curve."""
SHOWN_SYMBOLS = 1200
"""Symbols of a text or positions of a curve that are shown."""


def describe(spec: TaskSpec, task: Task) -> list[str]:
    """Blocks of plain text, in the order in which a person reads them."""
    usual = spec.defaults(task.signature)
    defaults = f"{usual['objective']}; self-pretraining masks {float(usual['mask_rate']):.0%}, loss {usual['loss']}"
    blocks = [
        f"{spec.kind}   fingerprint {task.fingerprint[:16]}\n"
        f"input      {_input(task.signature)}\n"
        f"target     {_target(task.signature)}\n"
        f"defaults   {defaults}",
        "\n".join(_split_line(name, task.split(name)) for name in SPLITS),
    ]
    if task.signature.target == "class" and unit_targets(task.train) is not None:
        blocks.append(_label_table(task))
    shared = [f"{count} of {later} in {earlier}" for (earlier, later), count in overlaps(task).items() if count]
    blocks.append("equal sequences in two splits: " + (", ".join(shared) or "none"))
    blocks += [f"note: {printable(note)}" for note in task.notes]
    return blocks + [_baseline_line(line) for line in task.baselines] + example(spec, task)


def example(spec: TaskSpec, task: Task) -> list[str]:
    """The first train example as the model sees it, plain and masked as in epoch 0 of seed 0: two blocks."""
    x, index = task.train.inputs(0), int(task.train.index[0])
    batch = MaskedSpec(mask_rate=spec.mask_rate).prepare(collate(task.train, np.arange(1)), task.signature, 0, 0)
    assert batch.masked is not None
    masked = batch.masked[0, : len(x)].numpy()
    title = f"example {index} of train{_label_of(task, task.train, 0)}, {len(x)} positions"
    under = f"the same with {masked.sum()} positions masked"
    plain = np.zeros(len(x), dtype=bool)
    return [f"{title}:\n{_drawn(task, x, plain)}", f"{under} ({HIDDEN_MARK}):\n{_drawn(task, x, masked)}"]


def _name(task: Task, value: int) -> str:
    return task.labels[value] if value < len(task.labels) else str(value)


def _input(s: Signature) -> str:
    what = f"tokens, {s.width} symbols" if s.input == "tokens" else f"floats, {s.width} per position"
    lengths = f"{s.length}" if s.length == s.shortest else f"{s.shortest} to {s.length}"
    extra = f", {s.levels} levels" if s.levels else ""
    return (
        f"{what}{extra}; {lengths} positions"
        + ("; in pairs" if s.paired else "")
        + ("; some values missing" if s.missing else "")
    )


def _target(s: Signature) -> str:
    if s.target == "none":
        return "none"
    what = f"{s.classes} classes" if s.target == "class" else "numbers"
    return what + (f", {s.targets} at once" if s.targets > 1 else "") + (", one per position" if s.per_position else "")


def _split_line(name: str, examples: Examples) -> str:
    lengths, units, labelled = examples.unit_lengths, examples.units, len(examples.labelled_units())
    shortest, longest = int(lengths.min()), int(lengths.max())
    length = f"{longest}" if shortest == longest else f"{shortest} to {longest}, mean {lengths.mean():.0f}"
    of_them = "" if labelled == units else f", {labelled:,} of them labelled"
    return f"{name:<10} {units:,}{of_them}; length {length}"


def _label_table(task: Task) -> str:
    targets = [np.asarray(unit_targets(task.split(name))) for name in SPLITS]
    counts = [np.bincount(target[target != IGNORE], minlength=task.signature.classes) for target in targets]
    names = [printable(_name(task, value))[:30] for value in range(min(task.signature.classes, 40))]
    wide = max([5, *map(len, names)])
    lines = [f"{'label':<{wide}}" + "".join(f"{split:>10}" for split in SPLITS)]
    for value, name in enumerate(names):
        lines.append(f"{name:<{wide}}" + "".join(f"{count[value]:>10,}" for count in counts))
    if task.signature.classes > len(names):
        lines.append(f"and {task.signature.classes - len(names)} more")
    return "\n".join(lines)


def _baseline_line(baseline: Baseline) -> str:
    values = {"val": baseline.val, "test": baseline.test}
    scores = [f"{split} {value:.3f}" for split, value in values.items() if value is not None]
    source = f" ({baseline.source})" if baseline.source else ""
    return f"baseline: {baseline.name}: {', '.join(scores) or 'not computed'}{source}"


def _label_of(task: Task, examples: Examples, row: int) -> str:
    target = examples.target
    if target is None or examples.per_position:
        return ""
    value = target[row]
    if task.signature.target == "class" and np.ndim(value) == 0:
        return ", no label" if value == IGNORE else f", label {printable(_name(task, int(value)))}"
    if np.ndim(value) == 0 and np.isnan(value):
        return ", no target"
    return f", target {np.array2string(np.asarray(value), precision=3)}"


def _drawn(task: Task, x: np.ndarray, hidden: np.ndarray) -> str:
    if task.picture is not None:
        image = np.asarray(task.picture(x), dtype=float)
        return _picture(image, pixels_of(task.picture, x, hidden))
    if task.text is not None or task.signature.input == "tokens":
        return _text(task, x, hidden)
    return _curve(x, hidden)


def _picture(image: np.ndarray, moved: np.ndarray) -> str:
    """Two characters per pixel. A pixel is hidden where what stands at masked positions moved it."""
    if image.ndim == 3:
        image = image @ np.array([0.299, 0.587, 0.114])
    factor = -(-max(image.shape) // PICTURE_SIDE)
    image, share = _shrunk(image, factor), _shrunk(moved.astype(float), factor)
    shade = np.clip((image * len(SHADES)).astype(int), 0, len(SHADES) - 1)
    cells = np.where(share >= 0.5, HIDDEN_MARK, np.array(list(SHADES))[shade])
    return "\n".join("".join(cell * 2 for cell in row).rstrip() for row in cells.tolist())


def _shrunk(image: np.ndarray, factor: int) -> np.ndarray:
    rows, columns = (size // factor for size in image.shape)
    cut = image[: rows * factor, : columns * factor]
    means: np.ndarray = cut.reshape(rows, factor, columns, factor).mean((1, 3))
    return means


def _text(task: Task, x: np.ndarray, hidden: np.ndarray) -> str:
    """The text, with a stroke for each masked position; the rest of a long one is counted."""
    say = task.text or (lambda tokens: " ".join(str(int(token)) for token in tokens))
    begin, more = say(x[:1]), say(x[:2])
    between = " " if len(more) > len(begin) and more[len(begin)] == " " else ""
    pieces, first, start = [], 0, x[:SHOWN_SYMBOLS]
    for last in [*(np.flatnonzero(np.diff(hidden[: len(start)])) + 1).tolist(), len(start)]:
        run = start[first:last]
        pieces.append(between.join(HIDDEN_MARK * len(run)) if hidden[first] else printable(say(run)))
        first = last
    lines = textwrap.wrap(between.join(pieces), width=100, drop_whitespace=True)
    return "\n".join([*lines, f"and {len(x) - len(start)} more"] if len(x) > len(start) else lines)


def _curve(x: np.ndarray, hidden: np.ndarray) -> str:
    """The first feature as a line of bars; of a long one the whole in means, then its beginning bar by bar."""
    feature, size = x[:, 0].astype(float), -(-len(x) // BARS)
    name = f"first of {x.shape[1]} features, " if x.shape[1] > 1 else ""
    low, high = np.nanmin(feature), np.nanmax(feature)
    span = f"{name}from {low:.3g} to {high:.3g}"
    if size == 1:
        return f"{_bars(feature, hidden)}\n{span}"
    means = np.array([np.nanmean(feature[i : i + size]) for i in range(0, len(x), size)])
    whole = f"{_bars(means, np.zeros(len(means), dtype=bool))}\n{span}, {size} positions a bar; the first {BARS}:"
    return f"{whole}\n{_bars(feature[:BARS], hidden[:BARS])}"


def _bars(values: np.ndarray, hidden: np.ndarray) -> str:
    shades = "▁▂▃▄▅▆▇█"
    low, high = np.nanmin(values), np.nanmax(values)
    heights = (np.nan_to_num((values - low) / ((high - low) or 1.0)) * (len(shades) - 1) + 0.5).astype(int)
    return "".join(HIDDEN_MARK if under else shades[height] for height, under in zip(heights, hidden, strict=True))
