"""What a model folder says of its model: JSON that is read strictly, and that can name no code."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from headstart.baselines.fitting import FittedFacts
from headstart.core import NetworkSpec
from headstart.data import LayoutSpec, Preparation, Profile
from headstart.errors import BadInput, nearest
from headstart.sequence import Signature
from headstart.spec import Spec

NETWORK = "network"
"""Name of the neural network among the models of a folder; the others have their kinds in `models.MODELS`."""
ENSEMBLE = "ensemble"
"""Name of the average of several models; it has no weights of its own."""


class NetworkConfig(NetworkSpec):
    """The network: its spec, and what stands between its scores and probabilities."""

    temperature: float = Field(default=1.0, gt=0)
    """Scores are divided by it before they become probabilities."""
    arm: str = ""
    """Of the fit, which says how it began (`headstart ls arms`), or the name of a person's own model."""


class HeldOut(Spec):
    """How wrong a model was on sequences that it was not fitted to, by which predictions get a set or an interval."""

    errors: tuple[float, ...]
    """In ascending order: 1 less the probability of the true class, or the distance from the true number."""
    source: str
    """Test, which chose nothing; validation, which chose the model; or the folds of validation, each by its model."""
    again: bool = False
    """The model was fitted again afterwards, on validation too."""

    def reach(self, confidence: float) -> float:
        """The error that `confidence` of new sequences stay within. Raises: BadInput where too few were held out."""
        if not 0 < confidence < 1:
            raise BadInput(f"confidence: {confidence:g} is not between 0 and 1; give a coverage such as 0.9")
        count = len(self.errors)
        rank = math.ceil((count + 1) * confidence)
        if rank > count:
            raise BadInput(
                f"confidence: {confidence:g} is more than {count:,} held-out sequences allow; give at most "
                f"{math.floor(100 * count / (count + 1)) / 100:g}, or fit with more sequences"
            )
        return self.errors[rank - 1]

    def says(self, confidence: float) -> str:
        """Where the sets and intervals come from, and what they promise."""
        much = "at least" if self.source == "test" and not self.again else "about"
        return (
            f"conformal, by {len(self.errors):,} sequences held out ({self.source}): the truth is inside for {much} "
            f"{confidence:.3g} of new sequences that come from where those of the fit came from"
        )


class ModelConfig(Spec):
    """`config.json` of a model folder."""

    kind: Literal["headstart model"] = "headstart model"
    format: Literal[1] = 1
    made_by: str = ""
    layout: LayoutSpec
    """How the fitted file was read, so that others are read alike."""
    preparation: Preparation
    network: NetworkConfig | None = None
    classics: dict[str, FittedFacts] = Field(default_factory=dict)
    serve: str
    """The model that predicts unless another is named: `network`, one of `classics`, or `ensemble`."""
    ensemble: tuple[str, ...] = ()
    """The models that this averages, of `network` and `classics` (none: there is no such model)."""
    shares: tuple[float, ...] = ()
    """How much each of them counts, 1 in all (none: all the same)."""
    temperature: float = Field(default=1.0, gt=0)
    """Of the probabilities of the average."""
    label_type: Literal["text", "integer", "number", "boolean"] = "text"
    """Of the labels in Python (`text` from files)."""
    plugins: dict[str, str] = Field(default_factory=dict)
    """Digests of the code of a person's own that the network is made of, by name; they are compared, never imported
    from here."""
    held_out: dict[str, HeldOut] = Field(default_factory=dict)
    """Errors of each model, by its name."""
    profile: Profile | None = None
    """Of the sequences of the fit; folders of before have neither."""

    @model_validator(mode="after")
    def _together(self) -> ModelConfig:
        """The parts say the same of the data. Raises: ValueError naming what does not."""
        there = (*((NETWORK,) if self.network is not None else ()), *self.classics)
        distinct = set(self.ensemble)
        if self.ensemble and (not distinct <= set(there) or len(self.ensemble) != len(distinct) or len(distinct) < 2):
            raise ValueError(f"ensemble: {', '.join(self.ensemble)}: are not several of {', '.join(there)}")
        if self.shares and (len(self.shares) != len(self.ensemble) or abs(sum(self.shares) - 1) > 1e-6):
            raise ValueError(f"shares: {list(self.shares)}: are not {len(self.ensemble)} numbers that add up to 1")
        if not all(0 < share <= 1 for share in self.shares):
            raise ValueError(f"shares: {list(self.shares)}: are not numbers above 0")
        if self.serve not in (*there, *((ENSEMBLE,) if self.ensemble else ())):
            raise ValueError(f"serve: {nearest(self.serve, there)}")
        wanted = "classify" if self.preparation.classes else "regress"
        if self.network is not None and self.network.objective.kind != wanted:
            raise ValueError(f"network.objective.kind: {self.network.objective.kind!r}, these data need {wanted!r}")
        whole = self.preparation.signature(1)
        asked = (whole.input, whole.width, whole.classes, 1, False)
        for name, facts in self.classics.items():
            if name in (NETWORK, ENSEMBLE) or "." in name:
                raise ValueError(f"classics.{name}: is no name of such a model")
            if (facts.input, facts.width, facts.classes, facts.targets, facts.paired) != asked:
                raise ValueError(f"classics.{name}: is for other data than it says")
        return self

    @property
    def signature(self) -> Signature:
        """Of what the network sees. Raises: ValueError where there is no network."""
        if self.network is None:
            raise ValueError("network: there is none")
        return self.preparation.signature(self.network.length, self.preparation.patch)
