"""What every objective must hold to: checks that say in words what fails, for the table and a user's class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from headstart.errors import BadInput, Broken
from headstart.models.heads import Output
from headstart.objectives import MaskedSpec, ObjectiveSpec, Sums
from headstart.plugins import place_of
from headstart.seeds import below, normal
from headstart.sequence import IGNORE, Batch, Examples, Signature
from headstart.text import listed, plain
from headstart.training.batches import Batches

C = TypeVar("C")
OUTPUT_WIDTH, OUTPUT_CLASSES, OUTPUT_UNITS = 5, 3, 24
BATCH_LENGTHS = (12, 7, 2)
ADDS_UP = {torch.float32: 1e-4, torch.float64: 1e-9}
"""How far a sum over a batch may be from the sums over its halves: a share of it."""
DOWNHILL_STEPS, DOWNHILL_RATE = 60, 0.3
"""Downhill, of outputs that are free numbers: their scores must follow."""


@dataclass(frozen=True)
class ObjectiveCase:
    """An objective on one sort of data, with answers (outputs) for it."""

    objective: ObjectiveSpec
    signature: Signature

    def __str__(self) -> str:
        s = self.signature
        where = "pair" if s.paired else "position" if s.per_position else "sequence"
        return f"on {s.input}, a {s.target} per {where}"

    @property
    def examples(self) -> Examples:
        """Sequences of 12, 7 and 2 positions in turn; of targets of positions some are not there."""
        s = self.signature
        count = OUTPUT_UNITS * (2 if s.paired else 1)
        lengths = np.resize(BATCH_LENGTHS, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(int(offsets[-1]))
        if s.input == "tokens":
            values = below(0, "contract/x", s.width, at).astype(np.int64)
        elif s.levels:
            values = below(0, "contract/x", s.levels, at[:, None], np.arange(s.width)).astype(np.float32)
        else:
            values = normal(0, "contract/x", at[:, None], np.arange(s.width)).astype(np.float32)
        number = at if s.per_position else np.arange(count) // (2 if s.paired else 1)
        if s.target == "class":
            target = np.asarray(number % OUTPUT_CLASSES, dtype=np.int64)
        else:
            shape = (number[:, None], np.arange(s.targets)) if s.targets > 1 else (number,)
            target = normal(0, "contract/y", *shape).astype(np.float32)
        if s.per_position:
            target[number % 5 == 0] = np.nan if target.dtype.kind == "f" else IGNORE
        return Examples(values, offsets, target, np.arange(count), None, s.per_position, s.paired)

    def batch(self, units: slice = slice(None)) -> Batch:
        """Some of them, prepared as in training."""
        feed = Batches(self.examples, np.arange(OUTPUT_UNITS), torch.device("cpu"), torch.float64)
        return self.objective.prepare(feed.batch(np.arange(OUTPUT_UNITS)[units]), self.signature, 0, 0)

    def answers(self, batch: Batch, number: int = 0) -> Tensor:
        """Outputs in float64, drawn at random for each example by its index."""
        output = self.objective.output(self.signature)
        index = batch.index[::2] if output.kind == "pair" else batch.index
        shape = (batch.inputs.shape[1], output.size) if output.kind == "position" else (output.size,)
        counters = [index.reshape(-1, *[1] * len(shape))]
        counters += [torch.arange(size).reshape(-1, *[1] * (len(shape) - i)) for i, size in enumerate(shape, 1)]
        drawn: Tensor = normal(number, "contract/answers", *counters)
        return drawn.double()

    def measured(self, batch: Batch, answers: Tensor) -> Sums:
        """The sums of a batch."""
        return self.objective.measure(answers, batch, self.signature)

    def scores(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """The scores of sums."""
        return self.objective.scores(totals_of(sums))


def totals_of(sums: Mapping[str, Tensor]) -> dict[str, Any]:
    """Sums as `scores` gets them: float64, scalars as numbers."""
    return {name: x.detach().double().item() if x.ndim == 0 else x.detach().double().cpu() for name, x in sums.items()}


def cases(objective: ObjectiveSpec) -> Iterator[ObjectiveCase]:
    """Sorts of data that the objective takes."""
    if isinstance(objective, MaskedSpec) and objective.mask_rate is None:
        objective = objective.model_copy(update={"mask_rate": 0.3})
    levels = 4 if getattr(objective, "loss", None) == "levels" else 0
    classes = len(getattr(objective, "class_weights", ())) or OUTPUT_CLASSES
    targets = (("class", 1, False, False), ("class", 1, True, False), ("class", 1, False, True))
    numbers = (("number", 1, False, False), ("number", 2, False, False), ("number", 2, True, False))
    for form, (target, count, each, paired) in itertools.product(("tokens", "floats"), (*targets, *numbers)):
        signature = Signature(
            form,  # type: ignore[arg-type]
            OUTPUT_WIDTH,
            BATCH_LENGTHS[0],
            min(BATCH_LENGTHS),
            target,  # type: ignore[arg-type]
            classes=classes if target == "class" else 0,
            targets=count,
            per_position=each,
            paired=paired,
            levels=levels if form == "floats" else 0,
        )
        try:
            objective.output(signature)
        except BadInput:
            continue
        yield ObjectiveCase(objective, signature)


def halves_differ(objective: ObjectiveSpec, answers: Tensor, batch: Batch, signature: Signature) -> str:
    """What is wrong where the sums of a batch are not those of its halves added up; empty where they are.

    answers: the outputs to the prepared batch.
    """
    each = 2 if signature.paired else 1
    units = len(batch) // each
    if units < 2:
        return ""
    whole = objective.measure(answers, batch, signature)
    kind = objective.output(signature).kind
    parts = []
    for part in (slice(0, units // 2), slice(units // 2, units)):
        rows = slice(part.start * each, part.stop * each)
        parts.append(objective.measure(answers[part if kind == "pair" else rows], batch.mapped(_rows(rows)), signature))
    tolerance = ADDS_UP.get(answers.dtype, ADDS_UP[torch.float32])
    wrong = []
    for name, value in whole.items():
        added = sum(part[name].double() for part in parts)
        off = (value.double() - added).abs().max()
        if not off <= tolerance * value.double().abs().max().clamp_min(1.0):
            wrong.append(name)
    if not wrong:
        return ""
    return (
        f"the sums {listed([repr(name) for name in wrong])} of a batch are not those of its halves added up; let "
        "measure give sums over targets, never means, and let `count` be how many targets there are"
    )


def _rows(rows: slice) -> Callable[[Tensor], Tensor]:
    return lambda x: x[rows]


def monitor_is_absent(objective: ObjectiveSpec, signature: Signature, totals: Mapping[str, Any]) -> str:
    """What is wrong where the score that chooses the weights is none that `scores` gives; empty where it is."""
    monitor, names = objective.monitored(signature), objective.scores(dict(totals))
    if monitor.name in names:
        return ""
    return (
        f"{objective.kind!r} monitors {monitor.name!r}, and its scores are {listed(list(names))}; "
        "name one of these in monitored, or let scores give it"
    )


def check_output(case: ObjectiveCase) -> None:
    """`output` says what a head must give: where, and how many numbers."""
    output = case.objective.output(case.signature)
    if not isinstance(output, Output) or output.size < 1:
        raise Broken(f"output gives {output!r}; return headstart.models.heads.Output(where, size) with a size above 0")
    if not case.objective.describe():
        raise Broken("describe says nothing; say what a stage did, as in 'classified sequences'")


def check_prepare(case: ObjectiveCase) -> None:
    """What is hidden follows from seed, epoch and example, and is the same alone and in a batch."""
    whole, again = case.batch(), case.batch()
    each = 2 if case.signature.paired else 1
    if not _equal(whole, again):
        raise Broken(
            "prepare gives two batches from one; make its random numbers from `seed`, `epoch` and `batch.index` with "
            "headstart.seeds.uniform"
        )
    if whole.masked is not None and bool((whole.masked & ~whole.valid).any()):
        raise Broken("prepare masks padding; mask positions of batch.valid alone")
    for unit in range(3):
        alone = case.batch(slice(unit, unit + 1))
        length = alone.inputs.shape[1]
        rows = slice(unit * each, (unit + 1) * each)
        for name, x in alone.tensors().items():
            own = whole.tensors()[name][rows]
            own = own[:, :length] if own.ndim > 1 and own.shape[1] == whole.inputs.shape[1] else own
            if torch.equal(_plain(own), _plain(x)):
                continue
            raise Broken("prepare gives another example alone than in a batch; let nothing follow its place there")


def check_sums(case: ObjectiveCase) -> None:
    """`measure` gives sums with `loss` and `count`: finite, the same twice, and blind to padding."""
    batch = case.batch()
    answers = case.answers(batch)
    sums, again = case.measured(batch, answers), case.measured(batch, answers)
    if not isinstance(sums, dict) or not {"loss", "count"} <= sums.keys():
        raise Broken(f"measure gives {listed(list(sums))}; let it give tensors by name, 'loss' and 'count' among them")
    for name, value in sums.items():
        if not isinstance(value, Tensor):
            raise Broken(f"measure gives {name!r} as {type(value).__name__}; give tensors")
        if not bool(torch.isfinite(value).all()):
            raise Broken(f"measure gives {name!r} that is not finite")
        if not torch.equal(value, again[name]):
            raise Broken(
                f"measure gives two values of {name!r} for one batch; make its random numbers from batch.index with "
                "headstart.seeds.uniform"
            )
    if sums["loss"].ndim or sums["count"].ndim:
        raise Broken("measure gives 'loss' or 'count' with several numbers; sum them")
    if not float(sums["count"]) > 0:
        raise Broken(f"measure counts {float(sums['count']):g} targets where there are some; let 'count' count them")
    if case.objective.output(case.signature).kind == "position":
        other = torch.where(batch.valid[:, :, None], answers, 3.0 - answers)
        moved = case.measured(batch, other)
        names = [name for name in sums if not torch.allclose(sums[name].double(), moved[name].double())]
        if names:
            raise Broken(f"answers at padded positions move {names[0]!r}; leave out what is not in batch.valid")


def check_additive(case: ObjectiveCase) -> None:
    """The sums over a batch are those over its halves, added up."""
    for units in (slice(None), slice(0, 3)):
        batch = case.batch(units)
        if problem := halves_differ(case.objective, case.answers(batch), batch, case.signature):
            raise Broken(problem)


def check_scores(case: ObjectiveCase) -> None:
    """`scores` gives numbers by name, the monitored one among them."""
    batch = case.batch()
    for number, size in ((0, 1.0), (1, 1.0), (0, 0.0)):
        sums = case.measured(batch, size * case.answers(batch, number))
        if problem := monitor_is_absent(case.objective, case.signature, totals_of(sums)):
            raise Broken(problem)
        scores = case.scores(sums)
        wild = [name for name, value in scores.items() if not math.isfinite(value)]
        if wild:
            raise Broken(
                f"scores gives {wild[0]!r} = {scores[wild[0]]} for {OUTPUT_UNITS} examples; let it give a number"
            )


def check_direction(case: ObjectiveCase) -> None:
    """Answers that go downhill on the loss, by finite gradients, do not get worse by the monitored score."""
    batch = case.batch()
    answers = case.answers(batch).requires_grad_()
    monitor = case.objective.monitored(case.signature)
    before = case.scores(case.measured(batch, answers))
    if monitor.name not in before:  # `scores` says so
        return
    steps = torch.optim.Adam([answers], lr=DOWNHILL_RATE)
    for _ in range(DOWNHILL_STEPS):
        steps.zero_grad()
        sums = case.measured(batch, answers)
        if not sums["loss"].requires_grad:
            raise Broken("no gradient reaches the answers; compute the loss from them with torch")
        sums["loss"].backward()  # type: ignore[no-untyped-call]
        if answers.grad is None or not bool(answers.grad.isfinite().all()):
            raise Broken("the gradient of the loss has NaN or infinity in it")
        steps.step()
    after = case.scores(case.measured(batch, answers))
    if not after["loss"] < before["loss"]:
        raise Broken(f"downhill on the loss it goes from {plain(before['loss'])} to {plain(after['loss'])}")
    name = monitor.name
    gain = after[name] - before[name] if monitor.greater else before[name] - after[name]
    if gain < -1e-9 * max(abs(before[name]), 1.0):
        better = "more" if monitor.greater else "less"
        raise Broken(
            f"as the loss falls, {name} goes from {plain(round(before[name], 4))} to {plain(round(after[name], 4))}, "
            f"and monitored says that {better} is better; turn `greater` round"
        )


def direction_is_wrong(objective: ObjectiveSpec, signature: Signature) -> str:
    """What `check_direction` says on made-up data of a signature's sort; empty where it holds or cannot be tried."""
    with torch.enable_grad():
        for case in cases(objective):
            sort = [(s.input, s.target, s.per_position, s.paired) for s in (case.signature, signature)]
            if sort[0] == sort[1]:
                try:
                    check_direction(case)
                except Broken as error:
                    return str(error)
                except Exception:  # `check` says what else is wrong
                    return ""
    return ""


OBJECTIVE_CHECKS: dict[str, Callable[[ObjectiveCase], None]] = {
    "output": check_output,
    "preparing": check_prepare,
    "sums": check_sums,
    "adding up": check_additive,
    "scores": check_scores,
    "direction": check_direction,
}


def check_objective(objective: ObjectiveSpec) -> dict[str, str | None]:
    """All checks of an objective on every sort of data that it takes: what is wrong with each, or None."""
    try:
        usable = list(cases(objective))
    except Exception as error:  # a person's code may fail in any way
        return {"output": problem_of(error)}
    if not usable:
        return {"output": "it takes no sort of data; let output give what a head must give"}
    return problems_of(OBJECTIVE_CHECKS, usable)


def problems_of(checks: Mapping[str, Callable[[C], None]], cases: Sequence[C]) -> dict[str, str | None]:
    """Each check by its name -> what is wrong with the first case that fails it, or None."""
    problems: dict[str, str | None] = dict.fromkeys(checks)
    for name, check in checks.items():
        for case in cases:
            try:
                check(case)
            except Exception as error:  # a person's code may fail in any way
                problems[name] = f"{case}: {problem_of(error)}"
                break
    return problems


def problem_of(error: Exception) -> str:
    """What a person's code did, and in which line."""
    return str(error) if isinstance(error, BadInput) else f"{place_of(error)}{type(error).__name__}: {error}"


def _equal(first: Batch, second: Batch) -> bool:
    ours, theirs = first.tensors(), second.tensors()
    return ours.keys() == theirs.keys() and all(torch.equal(_plain(ours[n]), _plain(theirs[n])) for n in ours)


def _plain(x: Tensor) -> Tensor:
    return torch.nan_to_num(x) if x.is_floating_point() else x
