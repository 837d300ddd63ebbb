"""What a person should see of a task before trusting a number: signature, splits, labels, one example.

Everything is plain text and data: labels and texts come from files of others, so whoever prints them escapes
them; control characters are already made visible here.
"""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

import numpy as np

from headstart.data.splits import overlaps
from headstart.data.text import printable
from headstart.seeds import uniform
from headstart.sequence import IGNORE, Examples, Signature
from headstart.tasks.images import pixels_of
from headstart.tasks.task import SPLITS, Task, TaskSpec, unit_targets

SHADES = " ░▒▓█"
HIDDEN = "╱"
WIDEST = 32
"""Pixels of a picture's longer side on the terminal; larger pictures are averaged down."""
BARS = 100
"""Bars of a line that draws a curve."""
LONGEST = 1200
"""Symbols of a text or positions of a curve that are shown."""


def facts(spec: TaskSpec, task: Task) -> dict[str, Any]:
    """All that `describe` says except the example, as JSON material."""
    return {
        "kind": spec.kind,
        "fingerprint": task.fingerprint,
        "signature": asdict(task.signature),
        "splits": {name: _split_facts(task, task.split(name)) for name in SPLITS},
        "overlaps": {f"{a}/{b}": count for (a, b), count in overlaps(task).items()},
        "notes": list(task.notes),
        "baselines": [asdict(baseline) for baseline in task.baselines],
        "defaults": spec.defaults(task.signature),
    }


def describe(spec: TaskSpec, task: Task) -> list[str]:
    """Blocks of plain text, in the order in which a person reads them."""
    known = facts(spec, task)
    blocks = [
        "\n".join(
            [
                f"{spec.kind}   fingerprint {task.fingerprint[:16]}",
                f"input      {_input(task.signature)}",
                f"target     {_target(task.signature)}",
                "defaults   {objective}; self-pretraining masks {mask_rate:.0%}, loss {loss}".format(
                    **known["defaults"]
                ),
            ]
        )
    ]
    blocks.append("\n".join(_split_line(name, known["splits"][name]) for name in SPLITS))
    if any(known["splits"][name]["labels"] for name in SPLITS):
        blocks.append(_label_table(known["splits"]))
    shared = [
        f"{count} of {pair.split('/')[1]} in {pair.split('/')[0]}" for pair, count in known["overlaps"].items() if count
    ]
    blocks.append("equal sequences in two splits: " + (", ".join(shared) or "none"))
    blocks += [f"note: {printable(note)}" for note in task.notes]
    blocks += [_baseline_line(b) for b in known["baselines"]]
    return blocks + example(spec, task)


def example(spec: TaskSpec, task: Task, place: int = 0, split: str = "train") -> list[str]:
    """One example as the model sees it, plain and masked as in epoch 0 of seed 0: two blocks."""
    chosen = task.split(split)
    first, last = int(chosen.offsets[place]), int(chosen.offsets[place + 1])
    x, index = chosen.as_seen(chosen.values[first:last]), int(chosen.index[place])
    seen = None if chosen.observed is None else chosen.observed[first:last]
    hidden = masked_positions(index, len(x), spec.mask_rate, seen)
    title = f"example {index} of {split}{_label_of(task, chosen, place)}, {len(x)} positions"
    under = f"the same with {hidden.sum()} positions masked"
    plain = np.zeros(len(x), dtype=bool)
    return [f"{title}:\n{_drawn(task, x, plain)}", f"{under} ({HIDDEN}):\n{_drawn(task, x, hidden)}"]


def masked_positions(index: int, length: int, rate: float, observed: np.ndarray | None = None) -> np.ndarray:
    """(length,) bool: what the masked objective hides of this example in epoch 0 of seed 0."""
    noise = uniform(0, "mask", 0, index, np.arange(length))
    may = np.ones(length, dtype=bool) if observed is None else observed.any(-1)
    noise = np.where(may, noise, 2.0)
    hidden: np.ndarray = ((noise < np.float32(rate)) | (np.arange(length) == noise.argmin())) & may
    return hidden


def _split_facts(task: Task, examples: Examples) -> dict[str, Any]:
    lengths, target = examples.unit_lengths, unit_targets(examples)
    labels = {}
    if task.signature.target == "class" and target is not None:
        counts = np.bincount(target[target != IGNORE], minlength=task.signature.classes)
        labels = {_name(task, value): int(count) for value, count in enumerate(counts)}
    return {
        "units": examples.units,
        "labelled": len(examples.labelled_units()),
        "shortest": int(lengths.min()),
        "mean": float(lengths.mean()),
        "longest": int(lengths.max()),
        "labels": labels,
    }


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


def _split_line(name: str, split: dict[str, Any]) -> str:
    length = f"length {split['shortest']} to {split['longest']}, mean {split['mean']:.0f}"
    if split["shortest"] == split["longest"]:
        length = f"length {split['longest']}"
    labelled = "" if split["labelled"] == split["units"] else f", {split['labelled']:,} of them labelled"
    return f"{name:<10} {split['units']:,}{labelled}; {length}"


def _label_table(splits: dict[str, Any]) -> str:
    names = list(splits[SPLITS[0]]["labels"])
    shown = names[:40]
    wide = max([5, *(len(printable(name)[:30]) for name in shown)])
    lines = [f"{'label':<{wide}}" + "".join(f"{split:>10}" for split in SPLITS)]
    for name in shown:
        counts = "".join(f"{splits[split]['labels'][name]:>10,}" for split in SPLITS)
        lines.append(f"{printable(name)[:30]:<{wide}}{counts}")
    if len(names) > len(shown):
        lines.append(f"and {len(names) - len(shown)} more")
    return "\n".join(lines)


def _baseline_line(baseline: dict[str, Any]) -> str:
    scores = [f"{split} {baseline[split]:.3f}" for split in ("val", "test") if baseline[split] is not None]
    source = f" ({baseline['source']})" if baseline["source"] else ""
    return f"baseline: {baseline['name']}: {', '.join(scores) or 'not computed'}{source}"


def _label_of(task: Task, examples: Examples, place: int) -> str:
    target = examples.target
    if target is None or examples.per_position:
        return ""
    value = target[place]
    if task.signature.target == "class" and np.ndim(value) == 0:
        return ", no label" if value == IGNORE else f", label {printable(_name(task, int(value)))}"
    if np.ndim(value) == 0 and np.isnan(value):
        return ", no target"
    return f", target {np.array2string(np.asarray(value), precision=3)}"


def _drawn(task: Task, x: np.ndarray, hidden: np.ndarray) -> str:
    if task.picture is not None:
        return _picture(task, x, hidden)
    if task.text is not None or task.signature.input == "tokens":
        return _text(task, x, hidden)
    return _curve(x, hidden)


def _picture(task: Task, x: np.ndarray, hidden: np.ndarray) -> str:
    """Two characters per pixel. A pixel is hidden where what stands at masked positions moves it."""
    picture = task.picture
    if picture is None:
        return ""
    image, moved = np.asarray(picture(x), dtype=float), pixels_of(picture, x, hidden)
    if image.ndim == 3:
        image = image @ np.array([0.299, 0.587, 0.114])
    factor = -(-max(image.shape) // WIDEST)
    image, share = _shrunk(image, factor), _shrunk(moved.astype(float), factor)
    shade = np.clip((image * len(SHADES)).astype(int), 0, len(SHADES) - 1)
    cells = np.where(share >= 0.5, HIDDEN, np.array(list(SHADES))[shade])
    return "\n".join("".join(cell * 2 for cell in row).rstrip() for row in cells.tolist())


def _shrunk(image: np.ndarray, factor: int) -> np.ndarray:
    rows, columns = (size // factor for size in image.shape)
    cut = image[: rows * factor, : columns * factor]
    means: np.ndarray = cut.reshape(rows, factor, columns, factor).mean((1, 3))
    return means


def _text(task: Task, x: np.ndarray, hidden: np.ndarray) -> str:
    """The text, with a stroke for each masked position; the rest of a long one is counted."""
    say = task.text or (lambda tokens: " ".join(str(int(token)) for token in tokens))
    one, two = say(x[:1]), say(x[:2])
    between = " " if len(two) > len(one) and two[len(one)] == " " else ""
    pieces, first, shown = [], 0, x[:LONGEST]
    for last in [*(np.flatnonzero(np.diff(hidden[: len(shown)])) + 1).tolist(), len(shown)]:
        run = shown[first:last]
        pieces.append(between.join(HIDDEN * len(run)) if hidden[first] else printable(say(run)))
        first = last
    lines = textwrap.wrap(between.join(pieces), width=100, drop_whitespace=True)
    more = [] if len(x) == len(shown) else [f"and {len(x) - len(shown)} more"]
    return "\n".join(lines + more)


def _curve(x: np.ndarray, hidden: np.ndarray) -> str:
    """The first feature as a line of bars; of a long one the whole in means, then its beginning bar by bar."""
    feature, size = x[:, 0].astype(float), -(-len(x) // BARS)
    name = f"first of {x.shape[1]} features, " if x.shape[1] > 1 else ""
    low, high = np.nanmin(feature), np.nanmax(feature)
    said = f"{name}from {low:.3g} to {high:.3g}"
    if size == 1:
        return f"{_bars(feature, hidden)}\n{said}"
    means = np.array([np.nanmean(feature[i : i + size]) for i in range(0, len(x), size)])
    whole = f"{_bars(means, np.zeros(len(means), dtype=bool))}\n{said}, {size} positions a bar; the first {BARS}:"
    return f"{whole}\n{_bars(feature[:BARS], hidden[:BARS])}"


def _bars(values: np.ndarray, hidden: np.ndarray) -> str:
    shades = "▁▂▃▄▅▆▇█"
    low, high = np.nanmin(values), np.nanmax(values)
    heights = (np.nan_to_num((values - low) / ((high - low) or 1.0)) * (len(shades) - 1) + 0.5).astype(int)
    return "".join(HIDDEN if under else shades[height] for height, under in zip(heights, hidden, strict=True))
