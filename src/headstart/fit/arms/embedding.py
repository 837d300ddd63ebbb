"""A model of series: its frozen features, computed once, under a linear readout that is fitted without gradients."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headstart import words
from headstart.baselines.embedding import EmbeddingSpec, size_of
from headstart.fit.arms.arm import Arm, Frame, Networks, Offer
from headstart.fit.basis import Basis, WeightsRead
from headstart.request.settings import FitSettings
from headstart.sequence import Examples
from headstart.spec import read

EMBEDDING = "embedding"
TIMED = 3
"""Sequences on which a model of series is timed."""


@dataclass(frozen=True)
class SeriesModel(WeightsRead):
    """A model of series. seconds: that its features of all sequences take here, about."""

    seconds: float = 0.0

    @property
    def model(self) -> dict[str, Any]:
        """The model of its arm, without its place."""
        return {"kind": EmbeddingSpec.model_fields["kind"].default, "content": self.content}

    def fits(self, time: float | None) -> bool:
        """Whether its features take at most half of so many seconds."""
        return time is None or self.seconds <= time / 2

    def text(self, classes: bool) -> str:
        """Its arm in words."""
        return f"frozen features of {self.name} with {'logistic' if classes else 'ridge'} regression"

    def texts(self, arm: str, channels: int, classes: bool, fits: bool) -> list[str]:
        """What was decided, in words."""
        size = size_of(self.fields.series, channels)
        mean = ", the mean over channels" if size < self.fields.series.size * channels else ""
        lines = [
            f"checkpoint {self.name}: {self.fields.summary}, {words.many(self.fields.spec.blocks, 'block')}, width "
            f"{self.fields.spec.width}; content {self.content[:16]}, licence {self.licence or 'not declared'}",
            f"{arm}: {self.text(classes)}, {size:,} of each sequence{mean}",
        ]
        if not fits:
            lines[1] = (
                f"{arm}: {self.text(classes)}, is left out: to compute them takes some "
                f"{words.duration(self.seconds)}, more than half of the time"
            )
        return lines

    def timed(self, train: Examples, count: int) -> SeriesModel:
        """With the seconds of `count` sequences, measured on a few of middle length."""
        some = train.take(np.argsort(train.lengths, kind="stable")[len(train) // 2 :][:TIMED])
        features = read(EmbeddingSpec, {**self.model, "source": self.source}, "backbone").features(some.values.shape[1])
        features.transform(some.take(np.arange(1)))
        begun = time.perf_counter()
        features.transform(some.take(np.arange(1, len(some))))
        return replace(self, seconds=(time.perf_counter() - begun) / max(1, len(some) - 1) * count)


class EmbeddingArm(Arm):
    """Wanted where `--backbone` names a model of series; it takes part where its features take at most half of the
    time."""

    names = (EMBEDDING,)
    network = False
    slow = True
    servable = True
    option = "backbone"
    reads = SeriesModel
    rank = 1

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 8.0

    def lacks(self, offer: Offer) -> bool:
        return offer.basis.holds(SeriesModel) and not offer.basis.weights(SeriesModel).fits(offer.settings.time)

    def left_out(self, offer: Offer) -> list[str]:
        return self._lines(offer.basis, fits=False)

    def title(self, basis: Basis) -> str:
        return f", beside frozen features of {basis.weights(SeriesModel).name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {EMBEDDING: {"model": frame.basis.weights(SeriesModel).model}}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        return self._lines(frame.basis, fits=True)

    def _lines(self, basis: Basis, fits: bool) -> list[str]:
        signature = basis.signature
        return basis.weights(SeriesModel).texts(EMBEDDING, signature.width, signature.target == "class", fits)

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {EMBEDDING: basis.weights(SeriesModel).text(basis.signature.target == "class")}
