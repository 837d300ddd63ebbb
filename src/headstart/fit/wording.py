"""What the page and the model card say of a fit in words: no row, id, place or name of a file among it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from headstart.baselines.measures import scores_of
from headstart.data.layout import SOUNDS
from headstart.fit.candidates import NETWORKS
from headstart.fit.outcome import Answers, Outcome
from headstart.plugins import plugin_options
from headstart.sequence import IGNORE
from headstart.study import words
from headstart.study.results import Row
from headstart.study.statistics import LEVEL, mean, t_quantile

EXPLAINED = {
    "accuracy": "Accuracy: the share of sequences whose class was right.",
    "weighted_accuracy": "Class-weighted accuracy: the share of sequences whose class was right, where each class "
    "weighs the same: a sequence weighs more the rarer its class is in train.",
    "balanced_accuracy": "Balanced accuracy: that share for each class by itself, averaged, so that small classes "
    "count as much as large ones.",
    "macro_f1": "Macro-F1: for each class the harmonic mean of how many of it were found and how many said to be of "
    "it were, averaged over classes.",
    "r2": "R²: the share of the variance of the true numbers that is explained; 1 is perfect, 0 is no better than "
    "always saying their mean.",
    "mae": "MAE: the mean distance from the true number, in the target's unit.",
    "rmse": "RMSE: the same with large errors weighing more (the root of the mean squared error).",
}
HIDDEN = ("layout", "note")
"""Lines of a data card that may name a file."""


def predict_command(outcome: Outcome) -> str:
    """What predicts with the folder of this fit, whose plugins lie in its `source/`."""
    return f"headstart predict model/ new.csv -o predictions.csv{plugin_options(outcome.served.config, 'model/source')}"


def measures(outcome: Outcome) -> list[str]:
    """Measures of the table, the one that was chosen by first; those that no model has are left out."""
    known = ("accuracy", "balanced_accuracy", "macro_f1") if outcome.labels else ("r2", "mae", "rmse")
    more = [name for name in known if any(name in candidate.more for candidate in outcome.candidates)]
    return [outcome.metric, *(name for name in more if name != outcome.metric)]


def is_network(name: str) -> bool:
    """Whether a candidate is a neural network, not a classic model."""
    return name in NETWORKS


def labelled(answers: Answers) -> Answers:
    """The rows that have a target."""
    known = ~np.isnan(answers.target) if answers.target.dtype.kind == "f" else answers.target != IGNORE
    return Answers(answers.target[known], answers.predicted[known])


def served_words(outcome: Outcome) -> str:
    """The model that `predict` serves: `network, from random weights (2 blocks of attention, width 32, 21k
    parameters)`."""
    candidate, config = outcome.candidate(outcome.serves), outcome.served.config
    if not is_network(candidate.name) or config.network is None or outcome.served.network is None:
        return candidate.text
    spec = config.network.model
    kinds = words.listed(list(dict.fromkeys(mixer.kind.replace("_", " ") for mixer in spec.mixers)))
    count = sum(weights.numel() for weights in outcome.served.network.parameters())
    return f"{candidate.text} ({words.many(spec.blocks, 'block')} of {kinds}, width {spec.width}, {count:,} parameters)"


def input_words(outcome: Outcome) -> str:
    """What it takes and what it gives, in one sentence."""
    known = outcome.served.config.preparation
    channels = f" in {words.many(len(known.channels), 'channel')}" if known.kind == "numbers" else ""
    answer = f"one of {len(outcome.labels)} classes" if outcome.labels else "a number"
    limit = outcome.served.limit()
    cut = f" Of longer sequences the first {limit:,} positions are read." if limit is not None else ""
    gaps = " Missing values are allowed." if known.missing else ""
    return f"It takes sequences of {SOUNDS[known.kind]}{channels} and gives {answer} for each.{cut}{gaps}"


def own_score(outcome: Outcome) -> str:
    """How the served model itself did on test, and how sure that is by the number of test sequences alone."""
    answers = labelled(outcome.test)
    count = len(answers.target)
    if not count:
        return "No sequence was held out for a test, so that every score here is one by which models were chosen."
    others = (
        " The table holds means over seeds; this is the one model of them that is served."
        if (outcome.candidate(outcome.serves).n > 1)
        else ""
    )
    if outcome.labels:
        right = int((answers.predicted.argmax(1) == answers.target).sum())
        low, high = likely_share(right, count)
        return (
            f"The model that is served was right on {right:,} of {words.many(count, 'test sequence')}, "
            f"{words.score(right / count)}; from a draw of that size the accuracy may be {words.score(low)} to "
            f"{words.score(high)} (95 % interval).{others}"
        )
    errors = np.abs(answers.predicted - answers.target)
    off, between = float(errors.mean()), ""
    if count > 1:
        reach = t_quantile(count - 1) * float(errors.std(ddof=1)) / count**0.5
        between = (
            f"; from a draw of that size it may be {words.score(max(0.0, off - reach))} to "
            f"{words.score(off + reach)} (95 % interval)"
        )
    return (
        f"On {words.many(count, 'test sequence')} the model that is served is {words.score(off)} off on average"
        f"{between}. Half of its errors are below {words.score(float(np.median(errors)))}.{others}"
    )


def likely_share(right: int, count: int) -> tuple[float, float]:
    """Wilson's interval (level 0.95) of a share that was seen in so many independent sequences."""
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    share = right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z / (1 + z**2 / count) * (share * (1 - share) / count + z**2 / (4 * count**2)) ** 0.5
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def how_chosen(outcome: Outcome) -> str:
    """What validation decided, and that test decided nothing."""
    test = "; test was used for no choice" if len(outcome.test.target) else ""
    if outcome.serves != outcome.winner:
        return f"Settings and weights were chosen on validation (val){test}. The model that is served was asked for."
    return f"Settings, weights and the model that is served were chosen on validation (val){test}."


def scores_on_test(outcome: Outcome) -> dict[str, float]:
    """All measures of the served model on test; none without one."""
    answers = labelled(outcome.test)
    return scores_of(answers.target, answers.predicted, len(outcome.labels)) if len(answers.target) else {}


def data_pairs(outcome: Outcome) -> list[tuple[str, str]]:
    """The data card's lines that name no file, and how many sequences each split has."""
    pairs = [pair for pair in outcome.card.head if pair[0] not in HIDDEN]
    splits = [f"{outcome.sizes[name]:,} {name}" for name in ("train", "val", "test") if name in outcome.sizes]
    bare = outcome.sizes.get("train", 0) - outcome.sizes.get("labelled", outcome.sizes.get("train", 0))
    more = f"; {bare:,} of train without a label, for self-pretraining" if bare > 0 else ""
    return [*pairs, ("split", ", ".join(splits) + more)] if splits else pairs


def data_findings(outcome: Outcome) -> list[str]:
    """What may be wrong with the data, as counts: the card's own findings name places."""
    return [text for text, count in _counted(outcome) if count]


def _counted(outcome: Outcome) -> Iterator[tuple[str, int]]:
    facts = outcome.card.facts
    copies = facts["copies"]
    rows, odd, apart = copies["rows"], copies["with other labels"], copies["in two groups"]
    same = "1 sequence is an exact copy of another" if rows == 1 else f"{rows:,} sequences are exact copies of others"
    yield f"{same}; copies stay in one split.", rows
    yield f"{words.many(odd, 'set')} of copies {_have(odd)} different labels: nothing can tell these apart.", odd
    yield f"{words.many(apart, 'set')} of copies {_have(apart)} members in two groups, so that groups leak.", apart
    ids = facts["repeated ids"]
    yield f"{words.many(ids, 'id')} {_have(ids)} several rows.", ids
    still = sum(channel["min"] is not None and channel["min"] == channel["max"] for channel in facts["channels"])
    yield f"{words.many(still, 'channel')} {_have(still)} one value throughout.", still
    gone = sum(channel["min"] is None for channel in facts["channels"])
    yield f"{words.many(gone, 'channel')} {_are(gone)} missing throughout.", gone


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def caveats(outcome: Outcome) -> list[str]:
    """The notes of the fit without the data card's findings, which name places."""
    return [note for note in outcome.notes if note not in outcome.card.findings]


def filling_score(outcome: Outcome) -> str:
    """How well self-pretraining fills in what was hidden, at its best on validation; empty where there was none."""
    best: dict[str, list[float]] = {}
    for identity in _parents(outcome.results.table):
        for name in ("r2", "accuracy"):
            scores = [
                record["val"][name] for record in outcome.records.get(identity, ()) if name in record.get("val", {})
            ]
            if scores:
                best.setdefault(name, []).append(max(scores))
    if "accuracy" in best:
        return f"It names {words.percent(mean(best['accuracy']))} of the hidden symbols right on validation."
    if "r2" in best:
        share = words.score(mean(best["r2"]))
        return (
            f"On validation it explains {share} of the variance of the hidden values (R²: 1 is perfect, 0 no "
            "better than their mean)."
        )
    return ""


def _parents(rows: tuple[Row, ...]) -> dict[str, None]:
    return dict.fromkeys(identity for row in rows for run in row.runs for _, identity in run.stages[:-1])


def chosen_words(chosen: Mapping[str, Any]) -> str:
    """`learning rate 0.003`: settings that validation chose; empty without any."""
    names = {
        name: {"lr": "learning rate"}.get(short_name, short_name)
        for name, short_name in words.short_names(chosen).items()
    }
    return words.settings(chosen, names) if chosen else ""


def short(text: str, most: int = 40) -> str:
    """A foreign name on one line of at most so many characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"
