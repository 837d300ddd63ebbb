"""The model card of a fit: README of its folder, for whoever is handed the model. No row, id, place, user or host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headstart.data.card import CHANNELS, CLASSES, SMALL
from headstart.fit import wording
from headstart.fit.outcome import Candidate, Outcome
from headstart.report.tables.model import markdown
from headstart.study import words

FEW_SEEDS = 3
"""Seeds below which the spread over them is hardly known."""
_TAGS = {"numbers": "time-series", "text": "text", "dna": "dna", "protein": "protein", "tokens": "sequences"}


def model_card(outcome: Outcome) -> str:
    """Markdown with the front matter that a hub reads; every foreign text is escaped.

    It holds counts, names of classes and channels, and scores with their intervals.
    """
    parts = [
        *_front(outcome),
        f"# {markdown(outcome.title)}",
        markdown(outcome.answer),
        "## What it is",
        _what(outcome),
        *_classes(outcome),
        "## How to use it",
        *_use(outcome),
        "## The data it was fitted to",
        *_data(outcome),
        "## Scores",
        *_scores(outcome),
        "## Limits",
        _list(_limits(outcome)),
        "## How it was made",
        *_made(outcome),
    ]
    return "\n\n".join(parts) + "\n"


def _front(outcome: Outcome) -> list[str]:
    known = outcome.served.config.preparation
    task = "sequence-classification" if outcome.labels else "sequence-regression"
    tags = "\n".join(f"- {tag}" for tag in ("headstart", task, _TAGS[known.kind]))
    return [f"---\nlibrary_name: headstart\ntags:\n{tags}\n---"]


def _what(outcome: Outcome) -> str:
    return (
        f"A {'classifier' if outcome.labels else 'regressor'} of sequences. Served is "
        f"**{markdown(outcome.serves)}**: {markdown(wording.served_words(outcome))}. "
        f"{markdown(wording.input_words(outcome))}"
    )


def _classes(outcome: Outcome) -> list[str]:
    if not outcome.labels:
        return []
    names = ", ".join(_named(name) for name in outcome.labels)
    return [f"Classes, in the order of their probabilities: {names}."]


def _named(name: str) -> str:
    """A class between quotation marks: names may hold commas, or nothing that is seen."""
    return f"“{markdown(wording.short(name))}”"


def _use(outcome: Outcome) -> Iterator[str]:
    kind = "SequenceClassifier" if outcome.labels else "SequenceRegressor"
    yield "With headstart installed, on the command line:"
    yield f"```\n{wording.predict_command(outcome)}\n```"
    yield "and from Python:"
    more = "\nmodel.predict_proba(sequences)  # a column for each of model.classes_" if outcome.labels else ""
    yield (
        f'```python\nfrom headstart import {kind}\n\nmodel = {kind}.from_pretrained("model/")\n'
        f"model.predict(sequences){more}\n```"
    )
    if len(outcome.served.choices) > 1:
        yield (
            f"`model/` is this folder. It holds {words.listed([f'`{choice}`' for choice in outcome.served.choices])}; "
            "`--use NAME` asks another than the one that is served."
        )


def _data(outcome: Outcome) -> Iterator[str]:
    yield _list(f"{name}: {text}" for name, text in wording.data_pairs(outcome))
    # Of channels their gaps alone: a smallest or largest value is that of one row.
    for heads, rows, shown_columns in ((CLASSES, outcome.card.classes, 3), (CHANNELS, outcome.card.channels, 2)):
        if rows:
            yield _table(heads[:shown_columns], [row[:shown_columns] for row in rows])
    if wording.data_findings(outcome):
        yield _list(wording.data_findings(outcome))


def _scores(outcome: Outcome) -> Iterator[str]:
    first, *more = wording.measures(outcome)
    name = words.metric(first)
    others = [f"test {words.metric(measure)}" for measure in more]
    heads = ["model", f"val {name}", f"test {name}", "difference to scratch", *others, "n"]
    yield _table(heads, [_line(candidate, more) for candidate in outcome.candidates])
    yield (
        f"Mean ± one standard error over n seeds. {wording.how_chosen(outcome)} Differences are on test, paired by "
        "seed, with their 95 % interval: where it contains 0, the comparison is undecided."
    )
    yield markdown(wording.own_score(outcome))
    scores = wording.scores_on_test(outcome)
    if scores:
        texts = [f"{words.metric(key)} {words.score(value)}" for key, value in scores.items() if key in words.METRICS]
        sure = f"; expected calibration error {words.score(scores['calibration_error'])}" if outcome.labels else ""
        yield markdown(f"The served model on test: {', '.join(texts)}{sure}.")
    yield _list(wording.EXPLAINED[measure] for measure in (first, *more))


def _line(candidate: Candidate, more: Sequence[str]) -> list[str]:
    return [
        f"{candidate.name}: {candidate.text}",
        words.plus_minus(candidate.val),
        words.plus_minus(candidate.test),
        words.difference(candidate.difference),
        *(words.plus_minus(candidate.more.get(name)) for name in more),
        str(candidate.n),
    ]


def _limits(outcome: Outcome) -> Iterator[str]:
    """What the scores do not say, in the order of how often it is overlooked."""
    yield (
        "The scores hold for sequences that come from where these came from. Nothing was tested on another source, "
        "device, population or time."
    )
    lengths = outcome.card.facts["lengths"]
    if lengths["min"] != lengths["max"]:
        yield f"It was fitted to sequences of {lengths['min']:,} to {lengths['max']:,} positions; others are untested."
    else:
        yield f"It was fitted to sequences of {lengths['min']:,} positions; other lengths are untested."
    if outcome.labels:
        often = "equally frequent" if outcome.metric == "weighted_accuracy" else "as frequent as there"
        yield (
            "It always names one of its classes, also for a sequence that belongs to none of them. Its "
            f"probabilities were calibrated on validation, and mean what they say only where classes are {often}."
        )
        yield from _rare(outcome)
    if 0 < len(outcome.seeds) < FEW_SEEDS:
        yield f"Networks were trained with {words.many(len(outcome.seeds), 'seed')}, which says little of their spread."
    yield "Where a mistake does harm, let it not decide alone."
    yield from wording.caveats(outcome)


def _rare(outcome: Outcome) -> Iterator[str]:
    tested = wording.labelled(outcome.test).target
    counts = np.bincount(tested.astype(np.int64), minlength=len(outcome.labels))
    rare = [_plain(outcome.labels[i]) for i in np.flatnonzero(counts < SMALL)]
    if rare and len(tested):
        names = ", ".join(rare[:5]) + (f" and {len(rare) - 5} more" if len(rare) > 5 else "")
        yield f"Test held fewer than {SMALL} sequences of {names}: how well these are found is hardly measured."


def _plain(name: str) -> str:
    return f"“{wording.short(name)}”"


def _made(outcome: Outcome) -> Iterator[str]:
    lines = list(outcome.plan)
    if outcome.seeds:
        lines.append(f"seeds: {words.listed([str(seed) for seed in outcome.seeds])}")
    if outcome.versions:
        lines.append(f"versions: {', '.join(f'{name} {value}' for name, value in outcome.versions.items())}")
    yield _list(lines)
    yield "The report page beside this file shows where it is right and wrong, and how the networks learnt."


def _list(texts: Iterator[str] | Sequence[str]) -> str:
    return "\n".join(f"- {markdown(text)}" for text in texts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table; every column but the first holds numbers."""
    lines = [heads, *rows]
    rule = ["---", *["---:"] * (len(heads) - 1)]
    written = ["| " + " | ".join(markdown(cell) for cell in line) + " |" for line in lines]
    return "\n".join([written[0], "| " + " | ".join(rule) + " |", *written[1:]])
