"""What every task must hold to: checks that say in words what fails, for the table and for a user's own class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from headstart.data.splits import overlaps
from headstart.errors import BadInput
from headstart.sequence import IGNORE
from headstart.spec import digest
from headstart.tasks.task import SPLITS, Task, TaskSpec, fingerprint, narrowed, unit_targets

SEEN_EXAMPLES = 10_000
"""Examples of a split that are looked at one by one."""


def check_task(spec: TaskSpec, data: Path) -> dict[str, str]:
    """What is wrong with a task, by the promise that it breaks; nothing where a promise is kept.

    Raises: BadInput where the task cannot be loaded at all.
    """
    task = spec.load(data)
    problems = {name: check(spec, task) for name, check in TASK_CHECKS.items()}
    again = fingerprint(spec.load(data)) == fingerprint(task)
    problems["it loads the same twice"] = "" if again else "a second load gives other arrays"
    return problems


def signature_is_true(_spec: TaskSpec, task: Task) -> str:
    """Lengths, width and kind of the input are those of the signature; offsets and numbers fit the examples."""
    s = task.signature
    for name in SPLITS:
        x = task.split(name)
        shortest, longest = int(x.lengths.min()), int(x.lengths.max())
        if not max(s.shortest, 1) <= shortest <= longest <= s.length:
            return f"{name} has {shortest} to {longest} positions, the signature says {s.shortest} to {s.length}"
        if x.offsets[0] != 0 or x.offsets[-1] != len(x.values) or len(x.index) != len(x):
            return f"{name}: offsets or numbers do not fit the {len(x)} examples"
        if (x.per_position, x.paired) != (s.per_position, s.paired) or (x.observed is not None) > s.missing:
            return f"{name}: per_position, paired or missing are not those of the signature"
        values = x.values[: int(x.offsets[min(len(x), SEEN_EXAMPLES)])]
        if s.input == "floats" and values.shape[1:] != (s.width,):
            return f"{name} has values of shape {values.shape}, the signature says {s.width} per position"
        tokens = values.ndim == 1 and values.dtype.kind in "iu" and values.min() >= 0 and values.max() < s.width
        if s.input == "tokens" and not tokens:
            return f"{name} has values that are not whole numbers from 0 to {s.width - 1}"
    return ""


def targets_are_classes(_spec: TaskSpec, task: Task) -> str:
    """Every class occurs in train and has a name; no target lies outside the classes."""
    s, target = task.signature, unit_targets(task.train)
    if s.target != "class":
        return ""
    for name in SPLITS:
        values = np.asarray(task.split(name).target)
        if ((values != IGNORE) & ((values < 0) | (values >= s.classes))).any():
            return f"{name} has targets outside the {s.classes} classes"
    if target is not None and set(np.unique(target)) - {IGNORE} != set(range(s.classes)):
        return f"train does not have all {s.classes} classes"
    named = target is None or len(task.labels) == s.classes
    return "" if named else f"{len(task.labels)} labels name {s.classes} classes"


def levels_are_whole(_spec: TaskSpec, task: Task) -> str:
    """Inputs with levels are whole numbers from 0 to levels - 1, scaled and shifted as the signature says."""
    s = task.signature
    for row in range(min(len(task.val), 20)) if s.levels else ():
        levels = task.val.inputs(row).astype(np.float64) * s.level_scale + s.level_shift
        whole = np.round(levels)
        if np.abs(levels - whole).max() >= 1e-3 or whole.min() < 0 or whole.max() >= s.levels:
            return f"example {row} of val has inputs that are none of the {s.levels} levels"
    return ""


def numbers_are_unique(_spec: TaskSpec, task: Task) -> str:
    """Every example of all splits has a number of its own, which keys its masks and its order."""
    numbers = np.concatenate([task.split(name).index for name in SPLITS])
    twice = len(numbers) - len(np.unique(numbers))
    return f"{twice} examples share the number of another" if twice else ""


def splits_are_disjoint(_spec: TaskSpec, task: Task) -> str:
    """No sequence stands in two splits, or the notes say how many do."""
    counts = {pair: count for pair, count in overlaps(task).items() if count}
    if any(str(count) in note for count in counts.values() for note in task.notes):
        return ""
    copies = [f"{count} of {later} also stand in {earlier}" for (earlier, later), count in counts.items()]
    return f"{', '.join(copies)}, and no note says so" if copies else ""


def fractions_are_nested(spec: TaskSpec, task: Task) -> str:
    """A smaller `fraction` is part of a larger one, `labelled` keeps that many labels; val and test do not change."""
    count = max(1, len(task.train.labelled_units()) // 2)
    settings = ({"fraction": 0.5}, {"fraction": 0.75}, {"labelled": None if task.train.target is None else count})
    try:
        half, more, labelled = (narrowed(spec.model_copy(update=values), task) for values in settings)
    except BadInput as error:
        return str(error)
    if not set(half.train.index) <= set(more.train.index) <= set(task.train.index):
        return "half of the train examples is not part of three quarters of them"
    if task.train.target is not None and len(labelled.train.labelled_units()) != count:
        return "`labelled` does not keep that many labels"
    if len(labelled.train) != len(task.train):
        return "`labelled` does not keep all sequences"
    same = all(np.array_equal(half.split(name).index, task.split(name).index) for name in ("val", "test"))
    return "" if same else "a fraction of train changes val or test"


def identity_follows_settings(spec: TaskSpec, _task: Task) -> str:
    """Another setting gives another identity; the same settings give the same."""
    other = spec.model_copy(update={"split_seed": spec.split_seed + 1})
    return "" if digest(other.document()) != digest(spec.document()) else "split_seed is not part of the identity"


def words_are_there(spec: TaskSpec, task: Task) -> str:
    """The docstring shows an example in backticks; `shows_not` is a sentence; baselines are shares in [0, 1]."""
    if "`" not in (type(spec).__doc__ or ""):
        return "the docstring of the class shows no example of the data in backticks"
    if not spec.shows_not.endswith("."):
        return f"shows_not is {spec.shows_not!r}; write a sentence on what a score does not show, with a full stop"
    scores = [score for line in task.baselines for score in (line.val, line.test) if score is not None]
    return "" if all(0 <= score <= 1 for score in scores) else "a baseline is not in [0, 1]"


TASK_CHECKS: dict[str, Callable[[TaskSpec, Task], str]] = {
    "the signature is true of the data": signature_is_true,
    "every class occurs in train and has a name": targets_are_classes,
    "levels are whole numbers within their range": levels_are_whole,
    "every example has its own number": numbers_are_unique,
    "splits are disjoint or the notes say that they are not": splits_are_disjoint,
    "fractions are nested and leave val and test alone": fractions_are_nested,
    "the identity follows the settings": identity_follows_settings,
    "the class says what the data are and what a score does not show": words_are_there,
}
"""Each promise and what checks it: "" where it is kept, else what is wrong."""
