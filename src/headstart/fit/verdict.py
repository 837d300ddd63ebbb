"""What a fit says in words: whether self-pretraining helped, what is served and why, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from headstart.errors import BadInput
from headstart.fit.compare import NETWORKS, Line, Made, winner
from headstart.fit.outcome import Candidate
from headstart.study import words
from headstart.study.results import Results
from headstart.study.statistics import binomial_error, paired_difference

NORMAL = 1.96
"""Standard errors that a 95 % interval reaches to each side."""
WIDE = 0.1
"""An interval of the difference wider than this says little."""
FEW_TEST = 100
"""Test sequences below which a score's own error is said first."""
RARE = 10
"""Train sequences of a class below which it is named."""
HANDLED = ("partial", "data", "test set", "error", "benchmark", "seeds", "interval", "baseline", "at chance", "budget")
"""Kinds of a study's caveats that are said here in other words, or not at all."""


def with_differences(lines: Sequence[Line]) -> list[Line]:
    """Each network with its difference to the one from scratch on test, paired by seed."""
    scratch = next((line for line in lines if line.candidate.name == "scratch"), None)
    if scratch is None or scratch.candidate.test is None:
        return list(lines)
    return [_compared(line, scratch) if line.candidate.name == "self_pretrained" else line for line in lines]


def _compared(line: Line, scratch: Line) -> Line:
    def by_seed(of: Line) -> dict[int, float]:
        assert of.candidate.test is not None
        return dict(zip([made.seed for made in of.made], of.candidate.test.values, strict=True))

    found = paired_difference(by_seed(line), by_seed(scratch)) if line.candidate.test is not None else None
    return Line(replace(line.candidate, difference=found), line.made)


def serving(asked: str, best: Line, lines: Sequence[Line], metric: str) -> tuple[Line, Line | None]:
    """(the line that is served, the best network). Raises: BadInput where there is no network to be served."""
    networks = [line for line in lines if line.candidate.name in NETWORKS]
    network = winner(networks, metric) if networks else None
    if asked == "auto":
        return best, network
    if asked == "network":
        if network is None:
            raise BadInput("--serve: 'network', but none was trained to its end; give the same command again")
        return network, network
    return next(line for line in lines if line.candidate.name == asked), network


def answer(lines: Sequence[Line], best: Line, serves: Line, metric: str) -> str:
    """The first sentences of the screen and of the page."""
    return " ".join([_winner(lines, best, serves, metric), *_helped(lines, metric)])


def _winner(lines: Sequence[Line], best: Line, serves: Line, metric: str) -> str:
    one, name = best.candidate, words.metric(metric)
    on_test = f" (test {words.plus_minus(one.test)})" if one.test is not None else ""
    own = f"{name} {words.plus_minus(one.val)} on validation{on_test}"
    networks = [line.candidate for line in lines if line.candidate.name in NETWORKS]
    beaten = max((c for c in networks if c.val is not None), key=lambda c: c.val.mean if c.val else 0.0, default=None)
    model = f"{one.name} ({one.said})"
    if one.name in NETWORKS or beaten is None or beaten.val is None:
        said = f"The best model is {model}: {own}"
    else:
        equal = one.val is not None and one.val.mean == beaten.val.mean
        verb = "is as good as the best network" if equal else "beats the networks"
        said = f"{model[0].upper()}{model[1:]} {verb}: {own}"
        said += "" if equal else f"; the best network has {words.score(beaten.val.mean)} on validation"
    if serves is best:
        return f"{said}. It is what predict serves."
    return f"{said}. As asked for, predict serves {serves.candidate.name}."


def _helped(lines: Sequence[Line], metric: str) -> Iterator[str]:
    """Whether self-pretraining helped: every fit tries it."""
    by_name = {line.candidate.name: line for line in lines}
    line, scratch = by_name.get("self_pretrained"), by_name.get("scratch")
    if line is None or scratch is None:
        trained = "neither network" if line is scratch else "only one of the two networks"
        yield f"Whether self-pretraining helped is not known: {trained} was trained to its end."
        return
    gap, name = line.candidate.difference, words.metric(metric)
    if gap is None:
        yield "Whether self-pretraining helped is not known: no sequences were held out as a test."
        return
    told = f"{words.difference(gap)} test {name} over training from scratch"
    if gap.interval is None:
        yield f"Whether self-pretraining helped, one seed does not say ({told})."
        return
    drawn, seeds = draw_error(line, scratch), words.many(gap.n, "seed")
    beside = f", and a standard error of {words.score(drawn)} from the draw of the test sequences" if drawn else ""
    if gap.clear and (drawn is None or abs(gap.mean) > NORMAL * drawn):
        yield f"Self-pretraining {'helped' if gap.mean > 0 else 'hurt'}: {told} ({seeds}{beside})."
    else:
        yield f"It cannot be told whether self-pretraining helped: {told} ({seeds}{beside})."
    low, high = gap.interval
    wide = max(high - low, 2 * NORMAL * (drawn or 0.0))
    if wide > WIDE:
        yield f"This comparison is underpowered: its interval is {words.score(wide)} wide."


def draw_error(one: Line, other: Line) -> float | None:
    """Standard error of the difference in accuracy of two networks from the draw of the test sequences alone: over
    sequences, of the mean over shared seeds. None for numbers, or fewer than two sequences."""
    pairs = [(a.test, b.test) for a in one.made for b in other.made if a.seed == b.seed]
    if not pairs or pairs[0][0].said.ndim != 2 or len(pairs[0][0].target) < 2:
        return None
    right = [[(side.said.argmax(1) == side.target).astype(float) for side in pair] for pair in pairs]
    gaps = np.mean([a - b for a, b in right], axis=0)
    return float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def notes(
    lines: Sequence[Line],
    serves: Line,
    results: Results,
    *,
    left: int,
    metric: str,
    train: np.ndarray | None,
    labels: tuple[str, ...],
    failed: Sequence[str],
    task_notes: Sequence[str],
) -> list[str]:
    """What must be known beside the table, the gravest first."""
    lost = words.listed(list(dict.fromkeys(failed)))
    said = [f"Not every stage was trained ({lost}): what hangs on those is not in the table."] if failed else []
    if left and not failed:
        verb = "was" if left == 1 else "were"
        said.append(
            f"The time was over before {words.many(left, 'stage')} {verb} done, so that "
            "models may have other seeds, and the choice may change: the same command goes on with them."
        )
    made = serves.best(metric)
    said += list(_test_size(serves.candidate, made, metric))
    if metric != "r2":
        said += list(_majority(lines, metric))
        said += list(_rare(train, labels))
    said += [str(caveat) for caveat in results.caveats if caveat.kind not in HANDLED]
    said += [_budgets(lines)] if _budgets(lines) else []
    return list(dict.fromkeys([*said, *(f"{note[0].upper()}{note[1:]}." for note in task_notes)]))


def _test_size(one: Candidate, made: Made, metric: str) -> Iterator[str]:
    count = len(made.test.target)
    if not count:
        yield "No sequence was held out as a test: the scores are those of validation, by which models were chosen."
    if len(made.val.target) and metric == "r2" and np.ptp(made.val.target) == 0:
        yield "All validation sequences have one target: models were chosen by their squared error there."
    if count and metric == "accuracy" and one.test is not None:
        error = binomial_error(min(max(one.test.mean, 0.0), 1.0), count)
        few = "only " if count < FEW_TEST else ""
        drawn = f"a standard error of {words.score(error)}" if error else "an error"
        yield (
            f"The test split has {few}{count:,} sequences: an accuracy on it has {drawn} from their draw alone, "
            "besides the spread over seeds."
        )


def _majority(lines: Sequence[Line], metric: str) -> Iterator[str]:
    floor = next((line.candidate for line in lines if line.candidate.name == "majority"), None)
    for line in lines:
        one = line.candidate
        if floor is None or one is floor or one.test is None or floor.test is None:
            continue
        if one.test.mean <= floor.test.mean:
            yield (
                f"{one.name} is no better on test than naming the commonest class "
                f"({words.score(floor.test.mean)} {words.metric(metric)})."
            )


def _rare(target: np.ndarray | None, labels: tuple[str, ...]) -> Iterator[str]:
    if target is None:
        return
    counts = np.bincount(target[target >= 0].astype(np.int64), minlength=len(labels))
    rare = [f"{labels[i]!r} ({counts[i]})" for i in np.flatnonzero(counts < RARE)]
    if rare:
        more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
        yield f"Classes with fewer than {RARE} train sequences are hardly learnt: {', '.join(rare[:5])}{more}."
    if len(counts) > 1 and counts.min() and counts.max() > 5 * counts.min():
        yield (
            "Classes are of very different size: read balanced accuracy and macro-F1 beside accuracy; --balanced "
            "makes all classes weigh the same."
        )


def _budgets(lines: Sequence[Line]) -> str:
    both = {line.candidate.name: line.candidate.seconds for line in lines if line.candidate.name in NETWORKS}
    if len(both) < 2 or not all(both.values()):
        return ""
    return (
        f"A self-pretrained run trained for {words.duration(both['self_pretrained'])}, one from scratch for "
        f"{words.duration(both['scratch'])}: the gain, where there is one, is bought with that time."
    )
