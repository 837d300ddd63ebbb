"""What a fit found, as values: the screen, the report page and the model card are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headstart.data.card import Card
from headstart.serve.model import Served
from headstart.study.results import Results
from headstart.study.statistics import Difference, Estimate


@dataclass(frozen=True)
class Candidate:
    """One model that could be served: a line of the table.

    name: `scratch`, `self_pretrained`, or of `classic.METHODS`. chosen: settings that validation chose. val, test: the
    metric, over `n` seeds. more: test measures by name (`classic.measures.scores_of`), over the same seeds; numbers in
    the target's own unit. difference: to `scratch` on test, paired by seed (networks alone). seconds: of one run, with
    pretraining. One that does not look at its seed has n 1.
    """

    name: str
    said: str
    n: int
    val: Estimate | None
    test: Estimate | None
    more: Mapping[str, Estimate] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    difference: Difference | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Scored:
    """The served model on one split: `target` (n,) classes or numbers in their own unit, `said` (n, K) probabilities
    or (n,) numbers in that unit."""

    target: np.ndarray
    said: np.ndarray


@dataclass(frozen=True)
class Looked:
    """Where a model looks: `drop` (windows,) mean loss of its score where that window of a sequence, from its start
    (0) to its end (1), holds another sequence's values; `error` (windows,) its standard error over sequences.

    what: the score in words (`probability of the true class`).
    """

    drop: np.ndarray
    error: np.ndarray
    what: str
    rows: int


@dataclass(frozen=True)
class Outcome:
    """A fit, whole.

    metric: `accuracy` or `r2`. candidates: networks first, in the order of the table. winner: the candidate with the
    best validation score, and `serves` the one that `predict` serves (another only where that was asked for).
    served: the model itself. val, test: its answers. before: reliability of the served model is that of `test`;
    `uncalibrated` are its test probabilities at temperature 1 (None for numbers). results: of the study of the
    networks. page_notes: caveats and findings, the gravest first. plan: what was resolved, in words.
    """

    title: str
    metric: str
    card: Card
    labels: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    winner: str
    serves: str
    served: Served
    val: Scored
    test: Scored
    uncalibrated: np.ndarray | None
    results: Results
    answer: str
    notes: tuple[str, ...]
    plan: tuple[str, ...]
    sizes: Mapping[str, int]
    looked: Looked | None = None
    records: Mapping[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    command: str = ""

    def candidate(self, name: str) -> Candidate:
        """The line of this name."""
        return next(one for one in self.candidates if one.name == name)
