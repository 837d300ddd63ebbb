"""The conclusions of a fit: whether self-pretraining helped, what is served and why, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headstart.fit.candidates import NETWORKS
from headstart.fit.outcome import Candidate, TrainedModel
from headstart.study import words
from headstart.study.results import Results
from headstart.study.statistics import binomial_error

NORMAL = 1.96
"""Standard errors that a 95 % interval reaches to each side."""
WIDE = 0.1
"""An interval of the difference wider than this says little."""
FEW_TEST = 100
"""Test sequences below which a score's own error is said first."""
RARE = 10
"""Train sequences of a class below which it is named."""
HANDLED = (
    "partial",
    "data",
    "test set",
    "error",
    "benchmark",
    "seeds",
    "interval",
    "baseline",
    "at chance",
    "budget",
    "tried",
)
"""Kinds of a study's caveats that are said here in other words, or not at all."""


def answer(candidates: Sequence[Candidate], best: Candidate, serves: Candidate, metric: str) -> str:
    """The first sentences of the screen and of the page."""
    return " ".join([_winner(candidates, best, serves, metric), *_helped(candidates, metric)])


def _winner(candidates: Sequence[Candidate], best: Candidate, serves: Candidate, metric: str) -> str:
    on_test = f" (test {words.plus_minus(best.test)})" if best.test is not None else ""
    scores = f"{words.metric(metric)} {words.plus_minus(best.val)} on validation{on_test}"
    networks = [candidate for candidate in candidates if candidate.name in NETWORKS]
    network = max(networks, key=lambda candidate: candidate.worth, default=None)
    model = f"{best.name} ({best.text})"
    if best.name in NETWORKS or network is None:
        sentence = f"The best model is {model}: {scores}"
    elif best.worth == network.worth:
        sentence = f"{model[0].upper()}{model[1:]} is as good as the best network: {scores}"
    else:
        sentence = f"{model[0].upper()}{model[1:]} beats the networks: {scores}"
        if network.val is not None:
            sentence += f"; the best network has {words.score(network.val.mean)} on validation"
    if serves is best:
        return f"{sentence}. It is what predict serves."
    return f"{sentence}. As asked for, predict serves {serves.name}."


def _helped(candidates: Sequence[Candidate], metric: str) -> Iterator[str]:
    """Whether self-pretraining helped: every fit tries it."""
    by_name = {candidate.name: candidate for candidate in candidates}
    pretrained, scratch = by_name.get("self_pretrained"), by_name.get("scratch")
    if pretrained is None or scratch is None:
        trained = "neither network" if pretrained is scratch else "only one of the two networks"
        yield f"Whether self-pretraining helped is not known: {trained} was trained to its end."
        return
    gap, name = pretrained.difference, words.metric(metric)
    if gap is None:
        yield "Whether self-pretraining helped is not known: no sequences were held out as a test."
        return
    text = f"{words.difference(gap)} test {name} over training from scratch"
    if gap.interval is None:
        yield f"Whether self-pretraining helped is undecided with one seed ({text})."
        return
    drawn, seeds = draw_error(pretrained, scratch), words.many(gap.n, "seed")
    beside = f", and a standard error of {words.score(drawn)} from the draw of the test sequences" if drawn else ""
    if gap.clear and (drawn is None or abs(gap.mean) > NORMAL * drawn):
        yield f"Self-pretraining {'helped' if gap.mean > 0 else 'hurt'}: {text} ({seeds}{beside})."
    else:
        yield f"Whether self-pretraining helped is undecided: {text} ({seeds}{beside})."
    low, high = gap.interval
    wide = max(high - low, 2 * NORMAL * (drawn or 0.0))
    if wide > WIDE:
        yield f"This comparison is underpowered: its interval is {words.score(wide)} wide."


def draw_error(first: Candidate, second: Candidate) -> float | None:
    """Standard error of the difference in accuracy of two networks from the draw of the test sequences alone: over
    sequences, of the mean over shared seeds. None for numbers, or fewer than two sequences."""
    pairs = [(a.test, b.test) for a in first.models for b in second.models if a.seed == b.seed]
    if not pairs or pairs[0][0].predicted.ndim != 2 or len(pairs[0][0].target) < 2:
        return None
    right = [[(side.predicted.argmax(1) == side.target).astype(float) for side in pair] for pair in pairs]
    gaps = np.mean([a - b for a, b in right], axis=0)
    return float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def notes(
    candidates: Sequence[Candidate],
    serves: Candidate,
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
    texts = [f"Not every stage was trained ({lost}): what depends on those is not in the table."] if failed else []
    if left and not failed:
        verb = "was" if left == 1 else "were"
        texts.append(
            f"The time was over before {words.many(left, 'stage')} {verb} done, so that "
            "models may have other seeds, and the choice may change: the same command goes on with them."
        )
    texts += _test_size(serves, serves.best(), metric)
    if metric != "r2":
        texts += _majority(candidates, metric)
        texts += _rare(train, labels)
    texts += [str(caveat) for caveat in results.caveats if caveat.kind not in HANDLED]
    texts += _budgets(candidates)
    return list(dict.fromkeys([*texts, *(f"{note[0].upper()}{note[1:]}." for note in task_notes)]))


def _test_size(candidate: Candidate, model: TrainedModel, metric: str) -> Iterator[str]:
    count = len(model.test.target)
    if not count:
        yield "No sequence was held out as a test: the scores are those of validation, by which models were chosen."
    if len(model.val.target) and metric == "r2" and np.ptp(model.val.target) == 0:
        yield "All validation sequences have one target: models were chosen by their squared error there."
    if count and metric == "accuracy" and candidate.test is not None:
        error = binomial_error(min(max(candidate.test.mean, 0.0), 1.0), count)
        few = "only " if count < FEW_TEST else ""
        drawn = f"a standard error of {words.score(error)}" if error else "an error"
        yield (
            f"The test split has {few}{count:,} sequences: an accuracy on it has {drawn} from their draw alone, "
            "besides the spread over seeds."
        )


def _majority(candidates: Sequence[Candidate], metric: str) -> Iterator[str]:
    floor = next((candidate for candidate in candidates if candidate.name == "majority"), None)
    for candidate in candidates:
        if floor is None or candidate is floor or candidate.test is None or floor.test is None:
            continue
        if candidate.test.mean <= floor.test.mean:
            yield (
                f"{candidate.name} is no better on test than naming the commonest class "
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


def _budgets(candidates: Sequence[Candidate]) -> Iterator[str]:
    seconds = {candidate.name: candidate.seconds for candidate in candidates if candidate.name in NETWORKS}
    if len(seconds) == len(NETWORKS) and all(seconds.values()):
        yield (
            f"A self-pretrained run trained for {words.duration(seconds['self_pretrained'])}, one from scratch for "
            f"{words.duration(seconds['scratch'])}: the gain, where there is one, is bought with that time."
        )
