"""What a model folder says of its model: JSON that is read strictly, and that can name no code."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from headstart.baselines.contract import Facts
from headstart.data.layout import LayoutSpec
from headstart.data.letters import ALPHABETS
from headstart.errors import nearest
from headstart.models.kind import ModelField, ModelKind
from headstart.objectives import ObjectiveField
from headstart.sequence import Signature
from headstart.spec import Spec

NETWORK = "network"
"""Name of the neural network among the models of a folder; the others have their kinds in `models.MODELS`."""


class Preparation(Spec):
    """From sequences as they are read to what a model sees, and from what it says back to a person's own names.

    kind, symbols, channels: as the sequences of the fit had them. classes: names in the order of their numbers, none
    for a target that is a number. mean, deviation: of each channel over train (none: values stay as they are).
    low, high: numbers of train that stand as -1 and 1 (none: targets stay as they are).
    longest: positions that are kept of a sequence, the first ones. patch: positions that the network joins into one;
    the classic models see single ones. missing: whether the network knows missing values (patches with room left
    count as such).
    """

    kind: Literal["numbers", "text", "dna", "protein", "tokens"]
    symbols: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    longest: int | None = Field(default=None, ge=1)
    patch: int = Field(default=1, ge=1)
    missing: bool = False

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
        fixed = {"numbers": len(self.channels), "text": 256, "tokens": len(self.symbols)}
        return fixed[self.kind] if self.kind in fixed else len(ALPHABETS[self.kind])

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
    """The network: its spec, the objective that it answers, the longest sequence (in patches) that it was built for.

    temperature: scores are divided by it before they become probabilities. arm: of the fit, which says how it began:
    `scratch`, `self_pretrained`, `backbone`, `backbone_tuned`, or a name of a person's own model.
    """

    model: ModelField
    objective: ObjectiveField
    length: int = Field(ge=1)
    temperature: float = Field(default=1.0, gt=0)
    arm: str = ""

    @field_validator("model")
    @classmethod
    def _is_trained(cls, model: ModelKind) -> ModelKind:
        if model.way != "trained":
            raise ValueError(f"{model.kind!r} is fitted without gradients and has no network; save the model again")
        return model


class ModelConfig(Spec):
    """`config.json` of a model folder.

    layout: how the fitted file was read, so that others are read alike. serve: the model that predicts unless another
    is named: `network`, or one of `classics`. label_type: of the labels in Python (`text` from files). plugins: digests
    of the code of a person's own that the network is made of, by name; they are compared, never imported from here.
    """

    kind: Literal["headstart model"] = "headstart model"
    format: Literal[1] = 1
    made_by: str = ""
    layout: LayoutSpec
    preparation: Preparation
    network: NetworkConfig | None = None
    classics: dict[str, Facts] = Field(default_factory=dict)
    serve: str
    label_type: Literal["text", "integer", "number", "boolean"] = "text"
    plugins: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _together(self) -> ModelConfig:
        """The parts say the same of the data. Raises: ValueError naming what does not."""
        there = (*((NETWORK,) if self.network is not None else ()), *self.classics)
        if self.serve not in there:
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
