"""What a model folder says of its model: JSON that is read strictly, and that can name no code."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headstart.classic.contract import Facts
from headstart.models.model import ModelSpec
from headstart.objectives import ObjectiveField
from headstart.own.layout import LayoutSpec
from headstart.spec import Spec

NETWORK = "network"
"""Name of the neural network among the models of a folder; the others have those of `classic.METHODS`."""


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


class NetworkConfig(Spec):
    """The network: its spec, the objective that it answers, the longest sequence (in patches) that it was built for.

    temperature: scores are divided by it before they become probabilities. arm: how it began, `scratch` or
    `self_pretrained`.
    """

    model: ModelSpec
    objective: ObjectiveField
    length: int = Field(ge=1)
    temperature: float = Field(default=1.0, gt=0)
    arm: str = ""


class ModelConfig(Spec):
    """`config.json` of a model folder.

    layout: how the fitted file was read, so that others are read alike. serve: the model that predicts unless another
    is named: `network`, or one of `classics`. label_type: of the labels in Python (`text` from files).
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
