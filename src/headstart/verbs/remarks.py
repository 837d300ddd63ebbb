"""What a person should know of predictions, gathered block by block: notes of reading, drift, cuts, gaps and scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from headstart import words
from headstart.baselines.measures import scores_of
from headstart.data import Sequences
from headstart.data.profile import Drift
from headstart.sequence import IGNORE
from headstart.serve.config import NETWORK
from headstart.serve.model import Served
from headstart.text import counted, first_few, many

_COUNT = re.compile(r"^[\d,]+ |(?<=^in )[\d,]+ (?=rows)")
"""The number with which a note of reading begins."""


class Remarks:
    """Of predictions of the model `name`. Of each row with a label the answer is kept, for the scores."""

    def __init__(self, served: Served, name: str) -> None:
        self.served, self.name, self.rows = served, name, 0
        members = served.members(name)  # of an ensemble the network alone has limits
        self.part = NETWORK if NETWORK in members else members[0]
        self._notes: Counter[tuple[str, str]] = Counter()
        profile = served.config.profile
        self._drift = None if profile is None else Drift(profile)
        self._long = self._missing = self._values = 0
        self._targets: list[np.ndarray] = []
        self._answers: list[np.ndarray] = []
        self._unseen: Counter[str] = Counter()

    def add(self, s: Sequences, answers: np.ndarray) -> None:
        """Look at a block and what was answered to it."""
        self.rows += len(s)
        for note in s.notes:
            match = _COUNT.search(note)
            start, end = match.span() if match else (0, 0)
            count = int(note[start:end].replace(",", "")) if match else 0
            self._notes[note[:start], note[end:]] += count
        if self._drift is not None:
            self._drift.add(s)
        limit = self.served.limit(self.name)
        self._long += 0 if limit is None else int((s.lengths > limit).sum())
        self._missing += 0 if s.observed is None else int((~s.observed).sum())
        self._values += s.values.size
        if s.labelled.any():
            target = self._target(s)
            there = ~np.isnan(target) if target.dtype.kind == "f" else target != IGNORE
            self._targets.append(target[there])
            self._answers.append(answers[there])

    def _target(self, s: Sequences) -> np.ndarray:
        """(n,) numbers, or numbers of classes; labels that the fit did not see are counted."""
        classes = self.served.config.preparation.classes
        if not classes:
            return s.numbers()
        number_of = {label: k for k, label in enumerate(classes)}
        self._unseen.update(label for label in s.labels if label is not None and label not in number_of)
        return np.array([IGNORE if label is None else number_of.get(label, IGNORE) for label in s.labels])

    def lines(self) -> Iterator[str]:
        """All of it, a line for each."""
        for (before, after), count in self._notes.items():
            yield f"{before}{count:,} {after}" if count else before + after
        if self._drift is not None and (drift := self._drift.sentence()):
            yield drift
        if self._long:
            yield (
                f"{self._long:,} of {self.rows:,} sequences are longer than the {self.served.limit(self.name):,} "
                f"positions that {self.part} was fitted to; only the first count{' for it' * (self.part != self.name)}"
            )
        if self._missing and self.part == NETWORK and not self.served.config.preparation.missing:
            yield (
                f"{100 * self._missing / self._values:.2g} % of the values are missing, in the fit none were, so that "
                "the network has not learned what a gap means"
            )
        yield from self._score()

    def _score(self) -> Iterator[str]:
        """The score on the rows that have a label; labels that the fit did not see are left out."""
        if self._unseen:
            names = first_few([repr(label) for label in sorted(self._unseen)])
            count = self._unseen.total()
            rows, verb = counted(count, "row has a label", "rows have labels"), "is" if count == 1 else "are"
            yield f"{rows} that the fit did not see ({names}), and {verb} not scored"
        target = np.concatenate([np.zeros(0), *self._targets][len(self._targets) > 0 :])
        if len(target):
            classes = len(self.served.config.preparation.classes)
            scores = scores_of(target, np.concatenate(self._answers), classes)
            shown = {name: score for name, score in scores.items() if name in words.METRIC_NAMES}
            text = ", ".join(f"{words.metric(name)} {score:.4g}" for name, score in shown.items())
            yield f"on the {many(len(target), 'row')} with a label: {text}"
