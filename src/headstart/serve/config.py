"""What a model folder says of its model: JSON that is read strictly, and that can name no code."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from headstart.baselines.contract import FittedFacts
from headstart.data.layout import LayoutSpec
from headstart.data.letters import input_width
from headstart.data.sequences import STEP, Sequences, features_of
from headstart.errors import BadInput, nearest
from headstart.models.kind import ModelField, ModelKind
from headstart.sequence import Signature
from headstart.spec import Spec, spec_of_kind
from headstart.text import first_few

FEWEST = 5
"""Sequences of which a shift of their mean says something."""
STEADY = 0.05
"""Share by which a step of time may differ, as clocks do."""
NETWORK = "network"
"""Name of the neural network among the models of a folder; the others have their kinds in `models.MODELS`."""
ENSEMBLE = "ensemble"
"""Name of the average of the network and a model without gradients; it has no weights of its own."""

TYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}
"""Types of numpy and torch that a model folder holds, in the words of safetensors."""


def _objective(value: Any) -> Any:
    from headstart.objectives import OBJECTIVES  # imports torch, which only a network needs

    return spec_of_kind(OBJECTIVES, value)


ObjectiveField: Any = Annotated[SerializeAsAny[Spec], BeforeValidator(_objective)]
"""A field that holds an objective, as `objectives.ObjectiveField`."""


class Preparation(Spec):
    """From sequences as they are read to what a model sees, and from what it says back to a person's own names."""

    kind: Literal["numbers", "text", "dna", "protein", "tokens"]
    """As the sequences of the fit had them."""
    symbols: tuple[str, ...] = ()
    """As the sequences of the fit had them."""
    channels: tuple[str, ...] = ()
    """As the sequences of the fit had them."""
    classes: tuple[str, ...] = ()
    """Names in the order of their numbers, none for a target that is a number."""
    mean: tuple[float, ...] = ()
    """Of each channel over train (none: values stay as they are)."""
    deviation: tuple[float, ...] = ()
    """Of each channel over train (none: values stay as they are)."""
    low: float | None = None
    """Numbers of train that stand as -1 and 1 (none: targets stay as they are)."""
    high: float | None = None
    """Numbers of train that stand as -1 and 1 (none: targets stay as they are)."""
    longest: int | None = Field(default=None, ge=1)
    """Positions that are kept of a sequence, the first ones."""
    patch: int = Field(default=1, ge=1)
    """Positions that the network joins into one; the classic models see single ones."""
    missing: bool = False
    """Whether the network knows missing values (patches with room left count as such)."""

    @model_validator(mode="after")
    def _in_itself(self) -> Preparation:
        numbers = self.kind == "numbers"
        if not self.channels:
            raise ValueError("channels: there are none; name each")
        if (self.kind == "tokens") != bool(self.symbols):
            raise ValueError(f"symbols: tokens have some, {self.kind} has {len(self.symbols):,}")
        if len(set(self.symbols)) < len(self.symbols) or len(set(self.classes)) < len(self.classes):
            raise ValueError("symbols, classes: a name stands there twice")
        if len(self.mean) != len(self.deviation) or (self.mean and len(self.mean) != len(self.channels)):
            raise ValueError("mean, deviation: give one of each for every channel, or none")
        if not all(value > 0 for value in self.deviation):
            raise ValueError("deviation: every one is above 0")
        if not numbers and (self.mean or self.patch > 1 or self.missing or len(self.channels) > 1):
            raise ValueError("mean, patch, missing, channels: for numbers alone, which have several channels")
        if (self.low is None) != (self.high is None) or (self.low is not None and self.classes):
            raise ValueError("low, high: a target that is a number has both or neither, classes have none")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low: {self.low} is not below high = {self.high}")
        return self

    @property
    def width(self) -> int:
        """V of ids, F of numbers."""
        return input_width(self.kind, len(self.channels), len(self.symbols))

    def signature(self, length: int, patch: int = 1) -> Signature:
        """What a model must know of the prepared data, of up to `length` positions (patches where there are any)."""
        return Signature(
            input="floats" if self.kind == "numbers" else "tokens",
            width=self.width * patch,
            length=length,
            shortest=1,
            target="class" if self.classes else "number",
            classes=len(self.classes),
            missing=self.missing,
        )


class NetworkConfig(Spec):
    """The network: its spec, the objective that it answers, the longest sequence (in patches) that it was built for."""

    model: ModelField
    objective: ObjectiveField
    length: int = Field(ge=1)
    temperature: float = Field(default=1.0, gt=0)
    """Scores are divided by it before they become probabilities."""
    arm: str = ""
    """Of the fit, which says how it began: `scratch`, `inception`, `self_pretrained`, `backbone`,
    `backbone_tuned`, or a name of a person's own model."""

    @field_validator("model")
    @classmethod
    def _is_trained(cls, model: ModelKind) -> ModelKind:
        if model.way != "trained":
            raise ValueError(f"{model.kind!r} is fitted without gradients and has no network; save the model again")
        return model


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


class Profile(Spec):
    """Mean and deviation of each feature of the sequences of the fit (`features_of`), by which a shift is noticed."""

    mean: dict[str, float]
    deviation: dict[str, float]

    @classmethod
    def of(cls, s: Sequences) -> Profile:
        """The profile of these sequences."""
        named = features_of(s).items()
        return cls(
            mean={name: float(f"{x.mean():.6g}") for name, x in named},
            deviation={name: float(f"{x.std():.6g}") for name, x in named},
        )


class Drift:
    """Whether sequences look unlike those of a fit, noticed block by block."""

    def __init__(self, profile: Profile) -> None:
        self.profile, self.count = profile, 0
        self._sums: dict[str, float] = {}
        self._outside: dict[str, int] = {}

    def add(self, s: Sequences) -> None:
        """Look at some sequences; what the fit did not have is not compared."""
        self.count += len(s)
        for name, x in features_of(s).items():
            if name in self.profile.mean:
                mean, deviation = self.profile.mean[name], self.profile.deviation.get(name, 1.0)
                near = STEADY if name == STEP else 1e-5  # numbers are saved with 6 digits
                off = np.abs(x - mean) - near * abs(mean)
                self._outside[name] = self._outside.get(name, 0) + int((off > 3 * deviation).sum())
                self._sums[name] = self._sums.get(name, 0.0) + float(x.sum())

    def sentence(self) -> str:
        """A sentence where they look unlike those of the fit, else nothing.

        So they do where far more than a twentieth of them (one, where all of the fit were equal) lie further than three
        deviations off in a feature, or their mean by more than chance and half a deviation. Of the step of time, which
        a device sets, one is enough.
        """
        count, odd = self.count, []
        for name, total in self._sums.items():
            mean, deviation = self.profile.mean[name], self.profile.deviation.get(name, 1.0)
            own = total / count
            shifted = abs(own - mean) - 1e-5 * abs(mean) > deviation * (0.5 + 5 / count**0.5)
            most = (2 + 0.05 * count + 4 * (0.0475 * count) ** 0.5) * (deviation > 0 and name != STEP)
            if self._outside[name] > most or (shifted and count >= FEWEST and name != STEP):
                odd.append(f"{name} (mean {own:.4g}, in the fit {mean:.4g} with a deviation of {deviation:.4g})")
        if not odd:
            return ""
        text = "these sequences look unlike those of the fit, so that predictions may be wrong: "
        return f"{text}{first_few(odd, 3, '; ')}"


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
    """The models that this averages, `network` and one of `classics` (none: there is no such model)."""
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
        if self.ensemble and (self.network is None or self.ensemble not in [(NETWORK, name) for name in self.classics]):
            raise ValueError(f"ensemble: {', '.join(self.ensemble)}: is not {NETWORK} and one of classics, both there")
        if self.serve not in (*there, *((ENSEMBLE,) if self.ensemble else ())):
            raise ValueError(f"serve: {nearest(self.serve, there)}")
        wanted = "classify" if self.preparation.classes else "regress"
        if self.network is not None and self.network.objective.kind != wanted:
            raise ValueError(f"network.objective.kind: {self.network.objective.kind!r}, these data need {wanted!r}")
        whole = self.preparation.signature(1)
        asked = (whole.input, whole.width, whole.classes, 1, False)
        for name, facts in self.classics.items():
            if name != facts.method or (facts.input, facts.width, facts.classes, facts.targets, facts.paired) != asked:
                raise ValueError(f"classics.{name}: is for other data, or of another method, than it says")
        return self

    @property
    def signature(self) -> Signature:
        """Of what the network sees. Raises: ValueError where there is no network."""
        if self.network is None:
            raise ValueError("network: there is none")
        return self.preparation.signature(self.network.length, self.preparation.patch)
