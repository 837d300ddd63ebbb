"""What a model folder says of its model: JSON that is read strictly, and that can name no code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal

from pydantic import Field, model_validator

from headstart.baselines.fitting import FittedFacts
from headstart.core import NetworkSpec
from headstart.data import LayoutSpec, Preparation, Profile
from headstart.errors import BadInput, nearest
from headstart.sequence import Signature
from headstart.spec import Spec, neutral
from headstart.text import first_few, short
from headstart.ways import field_name

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
    class_errors: tuple[float, ...] = neutral(())
    """The same class by class, in the order of the classes; folders of before have none."""
    class_counts: tuple[int, ...] = neutral(())
    """How many of these are of each class."""

    @model_validator(mode="after")
    def _as_many(self) -> HeldOut:
        """Raises: ValueError where counts and errors contradict each other."""
        if sum(self.class_counts) != len(self.class_errors) or min(self.class_counts, default=0) < 0:
            raise ValueError(f"class_counts: {list(self.class_counts)[:8]}: are not {len(self.class_errors)} errors")
        return self

    @property
    def by_class(self) -> tuple[tuple[float, ...], ...]:
        """Errors of the sequences of each class; empty of numbers."""
        ends = tuple(accumulate(self.class_counts, initial=0))
        return tuple(self.class_errors[first:last] for first, last in pairwise(ends))

    def reach(self, confidence: float) -> float | tuple[float, ...]:
        """The error that `confidence` of new sequences stay within; of classes one for each, so that it holds for the
        sequences of every class: infinite for one with too few held-out sequences, which is in every set then.

        Raises: BadInput where too few were held out.
        """
        if not 0 < confidence < 1:
            raise BadInput(
                f"{field_name('confidence')}: {confidence:g} is not between 0 and 1; give a coverage such as 0.9"
            )
        count = len(self.errors)
        if not self.by_class or not any(_within(errors, confidence) is not None for errors in self.by_class):
            most = max(map(len, self.by_class), default=count)
            error = None if self.by_class else _within(self.errors, confidence)
            if error is not None:
                return error
            each = " of the largest class" if self.by_class else ""
            raise BadInput(
                f"{field_name('confidence')}: {confidence:g} is more than {most:,} held-out sequences{each} "
                "allow; give at most "
                f"{math.floor(100 * most / (most + 1)) / 100:g}, or fit with more sequences"
            )
        reaches = (_within(errors, confidence) for errors in self.by_class)
        return tuple(math.inf if error is None else error for error in reaches)

    def says(self, confidence: float) -> str:
        """Where the sets and intervals come from, and what they promise."""
        much = "at least" if self.source == "test" and not self.again else "about"
        each = " of each class" if self.by_class else ""
        return (
            f"conformal, by {len(self.errors):,} sequences held out ({self.source}): the truth is inside for {much} "
            f"{confidence:.3g} of new sequences{each} that come from where those of the fit came from"
        )

    def warning(self, confidence: float, classes: Sequence[str]) -> str:
        """What must be known before sets are used: classes with fewer held-out sequences than `confidence` takes; empty
        where each has enough."""
        few = {
            name: len(errors)
            for name, errors in zip(classes, self.by_class, strict=bool(self.by_class))
            if _within(errors, confidence) is None
        }
        if not few:
            return ""
        names = first_few([f"{short(name)!r} ({count:,})" for name, count in few.items()], 5)
        least = math.ceil(confidence / (1 - confidence) - 1e-9)
        return (
            f"too few sequences were held out of {names}: {confidence:.3g} takes {least:,} of each class, so that "
            "every set holds these; label more of them, or ask for less"
        )


def _within(errors: Sequence[float], confidence: float) -> float | None:
    """The error that so many of new sequences stay within, by as many as these; None for too few."""
    rank = math.ceil((len(errors) + 1) * confidence - 1e-9)
    return errors[rank - 1] if rank <= len(errors) else None


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
