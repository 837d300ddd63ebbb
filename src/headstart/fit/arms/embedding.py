"""Frozen features of a pretrained model, computed once, under a linear readout that is fitted without gradients; those
of texts and proteins joined with n-grams, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headstart import words
from headstart.baselines.embedding import EmbeddingSpec
from headstart.fit.arms.arm import Arm, Frame, Networks, Offer
from headstart.fit.basis import Basis, WeightsRead
from headstart.request.settings import FitSettings
from headstart.sequence import Examples, Signature
from headstart.spec import read

EMBEDDING, BOTH = "embedding", "joined"


@dataclass(frozen=True)
class FrozenModel(WeightsRead):
    """A model of series, texts or proteins. more: settings of its features. seconds: that those of all sequences take
    here, about."""

    kind: str = "numbers"
    more: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, weights: Any, kind: str) -> FrozenModel:
        """Of weights at hand. kind: of the sequences."""
        own = {name: getattr(weights, name) for name in ("source", "name", "content", "licence", "fields")}
        return cls(**own, kind=kind)

    @property
    def model(self) -> dict[str, Any]:
        """The model of its arm, without its place."""
        return {"kind": EmbeddingSpec.model_fields["kind"].default, "content": self.content, **self.more}

    @property
    def spec(self) -> EmbeddingSpec:
        """The same, with its place."""
        return read(EmbeddingSpec, {**self.model, "source": self.source}, "backbone")

    @property
    def names(self) -> tuple[str, ...]:
        """Its models: of numbers none is joined."""
        return (EMBEDDING,) if self.kind == "numbers" else (EMBEDDING, BOTH)

    def fits(self, time: float | None) -> bool:
        """Whether its features take at most half of so many seconds."""
        return time is None or self.seconds <= time / 2

    def text(self, classes: bool, arm: str = EMBEDDING) -> str:
        """Its arm in words."""
        what = f"{self.name} and n-grams" if arm == BOTH else self.name
        return f"frozen features of {what} with {'logistic' if classes else 'ridge'} regression"

    def texts(self, signature: Signature, fits: bool) -> list[str]:
        """What was decided, in words."""
        late = f"to compute them takes some {words.duration(self.seconds)}, more than half of the time"
        end = self.spec.describe_features(self.fields, signature.width) if fits else f"is left out: {late}"
        classes = signature.target == "class"
        return [self.summary(), *(f"{arm}: {self.text(classes, arm)}, {end}" for arm in self.names)]

    def timed(self, train: Examples, count: int, time: float | None) -> FrozenModel:
        """With the seconds of `count` sequences; of texts and proteins fewer pieces are read where `time` is short.
        Raises: BadInput where it knows no letter of them."""
        spec, seconds = self.spec.within(train, count, math.inf if time is None else time / 2)
        return replace(self, seconds=seconds, more={} if spec.pieces is None else {"pieces": spec.pieces})


class EmbeddingArm(Arm):
    """Wanted where `--backbone` names a model of which frozen features are read; it takes part where these take at most
    half of the time."""

    names = (EMBEDDING, BOTH)
    network = False
    slow = True
    servable = True
    option = "backbone"
    reads = FrozenModel
    rank = 1

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 8.0

    def lacks(self, offer: Offer) -> bool:
        return offer.basis.holds(FrozenModel) and not offer.basis.weights(FrozenModel).fits(offer.settings.time)

    def left_out(self, offer: Offer) -> list[str]:
        return offer.basis.weights(FrozenModel).texts(offer.basis.signature, fits=False)

    def title(self, basis: Basis) -> str:
        return f", beside frozen features of {basis.weights(FrozenModel).name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        frozen = frame.basis.weights(FrozenModel)
        return {name: {"model": frozen.model | ({"ngrams": True} if name == BOTH else {})} for name in frozen.names}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        return frame.basis.weights(FrozenModel).texts(frame.basis.signature, fits=True)

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        frozen = basis.weights(FrozenModel)
        return {name: frozen.text(basis.signature.target == "class", name) for name in frozen.names}
