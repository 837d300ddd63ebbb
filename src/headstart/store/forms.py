"""The forms of a stage's documents. One that has another is damaged: nothing behind the readers meets another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.documents import (
    ANY,
    ANY_TABLE,
    COUNT,
    INSTANT,
    LARGE_NUMBER,
    NAME,
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE_NUMBER,
    Form,
    of_words,
)

MONITOR: Form = {"name": TEXT, "greater": TRUTH}
METRIC_FORM: Form = {"perplexity?": (LARGE_NUMBER, None), ANY: (NUMBER, None)}
"""A score that is no number, as after a divergence, is null."""
_AT: Form = {"step": COUNT, "epoch": NUMBER, "train?": METRIC_FORM, "val?": METRIC_FORM, "test?": METRIC_FORM}
SCORE_FORMS: Form = {"best": _AT, "last": _AT}
BUDGET: Form = {
    **dict.fromkeys(("epochs", "steps", "examples", "tokens", "flops", "seconds"), NUMBER),
    "peak_memory?": (NUMBER, None),
}
_PART: Form = {"part": NAME, **dict.fromkeys(("total", "taken", "matched", "drawn", "fresh", "frozen"), COUNT)}
PARAMETERS: Form = {"total": COUNT, "trainable": COUNT, "account": [_PART]}
PROVENANCE: Form = {
    "versions?": {ANY: (TEXT, None)},
    **dict.fromkeys(("machine?", "instructions?", "device?", "precision?", "way?", "steps?"), (TEXT, None)),
    **dict.fromkeys(("threads?", "attempts?"), (COUNT, None)),
    "started?": (INSTANT, None),
    "plugins?": [ANY_TABLE],
}
STATUS = of_words("complete", "diverged")
_RESULT: Form = {
    "identity": NAME,
    "status": STATUS,
    "name?": TEXT,
    "title?": TEXT,
    "model?": ANY_TABLE,
    "files?": {ANY: TEXT},
    "references?": {ANY: {"identity": NAME, "weights": of_words("best", "last")}},
    "parents?": {ANY: (TEXT, None)},
    "tensors?": {ANY: TEXT},
    "digests?": {ANY: TEXT},
}
_OF_STUDY: Form = {
    **_RESULT,
    "files": {ANY: TEXT},
    "monitor": MONITOR,
    "scores": SCORE_FORMS,
    "budget": BUDGET,
    "parameters": PARAMETERS,
    "provenance": PROVENANCE,
}
STAGE_FORM: Form = {
    "identity": NAME,
    "name?": TEXT,
    "spec?": {
        **{key: {"kind?": TEXT} for key in ("task?", "model?", "checkpoint?")},
        "optim?": {"lr?": LARGE_NUMBER},
        "seed?": WHOLE_NUMBER,
    },
    "parent?": (NAME, None),
    "arms?": [TEXT],
    "attempts?": COUNT,
    "started?": (INSTANT, None),
    "plugins?": {ANY: TEXT},
}
RECORD_FORM: Form = {
    "step": COUNT,
    **dict.fromkeys(("epoch?", "examples?", "tokens?", "seconds?"), (NUMBER, None)),
    "rate?": (LARGE_NUMBER, None),
    "train?": METRIC_FORM,
    "val?": METRIC_FORM,
}


def result_form(result: Mapping[str, Any]) -> Form:
    """The form of a `result.json`: a copy of weights for a child, and what `headstart.train` keeps, have no scores."""
    return _OF_STUDY if "scores" in result else _RESULT
