"""The model card of a fit: README of its folder, for whoever is handed the model. No row, id, place, user or host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from headstart import words
from headstart.fitted import wording
from headstart.fitted.outcome import Outcome
from headstart.report.tables.report_table import markdown, text_table, to_markdown
from headstart.text import first_few, short

FEW_TESTED = 5
"""Test sequences of a class below which it is hardly known how well it is found."""
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
    preparation = outcome.served.config.preparation
    task = "sequence-classification" if outcome.labels else "sequence-regression"
    tags = "\n".join(f"- {tag}" for tag in ("headstart", task, _TAGS[preparation.kind]))
    return [f"---\nlibrary_name: headstart\ntags:\n{tags}\n---"]


def _what(outcome: Outcome) -> str:
    return (
        f"A {'classifier' if outcome.labels else 'regressor'} of sequences. Served is "
        f"**{markdown(outcome.serves)}**: {markdown(wording.served_words(outcome))}. "
        f"{markdown(wording.input_words(outcome))}"
    )


def _classes(outcome: Outcome) -> Iterator[str]:
    # Between quotation marks: names may hold commas, or nothing that is seen.
    names = ", ".join(f"“{markdown(short(name))}”" for name in outcome.labels)
    if outcome.labels:
        yield f"Classes, in the order of their probabilities: {names}."


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
    for heads, rows in outcome.card.tables:
        columns = 2 if rows is outcome.card.channels else 3
        yield to_markdown(text_table(heads[:columns], [row[:columns] for row in rows])).rstrip()
    if wording.data_findings(outcome):
        yield _list(wording.data_findings(outcome))


def _scores(outcome: Outcome) -> Iterator[str]:
    yield to_markdown(replace(wording.models_table(outcome), title="")).rstrip()
    yield _list(f"{candidate.name}: {candidate.text}" for candidate in outcome.candidates)
    yield f"{wording.how_chosen(outcome)} Where the interval of a difference contains 0, the comparison is undecided."
    yield markdown(wording.own_score(outcome))
    scores = outcome.test.labelled.scores
    if scores:
        texts = [
            f"{words.metric(key)} {words.score(value)}" for key, value in scores.items() if key in words.METRIC_NAMES
        ]
        sure = f"; expected calibration error {words.score(scores['calibration_error'])}" if outcome.labels else ""
        subject = "On test, before it was fitted again" if outcome.again else "The served model on test"
        yield markdown(f"{subject}: {', '.join(texts)}{sure}.")
    yield _list(wording.EXPLAINED[measure] for measure in wording.measures_of(outcome))


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
    yield "Where a mistake does harm, let it not decide alone."
    yield from wording.caveats(outcome)


def _rare(outcome: Outcome) -> Iterator[str]:
    tested = outcome.test.labelled.target
    counts = np.bincount(tested.astype(np.int64), minlength=len(outcome.labels))
    rare = [f"“{short(outcome.labels[i])}”" for i in np.flatnonzero(counts < FEW_TESTED)]
    if rare and len(tested):
        few = f"Test held fewer than {FEW_TESTED} sequences of {first_few(rare)}"
        yield f"{few}: how well they are found is hardly known."


def _made(outcome: Outcome) -> Iterator[str]:
    lines = list(outcome.plan)
    if outcome.seeds:
        lines.append(f"seeds: {words.listed([str(seed) for seed in outcome.seeds])}")
    if outcome.versions:
        lines.append(f"versions: {', '.join(f'{name} {value}' for name, value in outcome.versions.items())}")
    yield _list(lines)
    learnt = ", and how the networks learnt" if any(item.is_network for item in outcome.candidates) else ""
    yield f"The report page beside this file shows where it is right and wrong{learnt}."


def _list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {markdown(text)}" for text in texts)
