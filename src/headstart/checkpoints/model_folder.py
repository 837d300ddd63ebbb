"""The network of a model folder (`headstart fit`, `save_pretrained`) as a checkpoint: all of it but its head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headstart.checkpoints import HEADSTART
from headstart.checkpoints.family import Config, Family, Line
from headstart.checkpoints.fields import HEAD, Fields
from headstart.data.alphabets import input_width
from headstart.errors import BadInput
from headstart.models.model import ModelSpec
from headstart.sequence import Signature
from headstart.spec import read

NETWORK_PREFIX = "network."
"""What stands before the names of the network's tensors in the file."""


@dataclass(frozen=True)
class OwnFields(Fields):
    """Those of a network of ours: all of its tensors but the head's.

    signature: of the sequences that it was made for. kind: of them, as `Preparation` has it.
    """

    signature: Signature = field(kw_only=True)
    kind: str = "numbers"

    @property
    def example(self) -> Signature:
        return self.signature

    def _has(self, name: str) -> bool:
        return not name.startswith(HEAD)


def _fields(config: Config) -> OwnFields:
    """Raises: BadInput where the folder holds no network of built-in mixers, or its config is damaged."""
    network: Any = config.table.get("network")
    preparation: Any = config.table.get("preparation")
    if network is None:
        raise BadInput(f"{config.path}: the model has no network whose weights could be taken; fit one with a network")
    try:
        model = dict(network["model"])
        kind, length, patch = preparation["kind"], network["length"], preparation["patch"]
        numbers = kind == "numbers"
        symbols = tuple(preparation["symbols"])
        width = input_width(kind, len(preparation["channels"]) * patch, len(symbols))
        signature = Signature(
            "floats" if numbers else "tokens", width, length, 1, "class", classes=2, missing=preparation["missing"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"{config.path}: what it says of the network is incomplete ({error!r}); save the model again"
        ) from None
    if model.pop("kind", "sequence") != "sequence":
        raise BadInput(
            f"{config.path}: the network is a model of a plugin, whose parts are not known here; name another"
        )
    spec = read(ModelSpec, model, "network.model")
    positions = spec.positions(length) if spec.position.kind == "learned" else None
    if positions is not None:
        model["position"] = {name: value for name, value in model["position"].items() if name != "length"}
    return OwnFields(HEADSTART, model, positions, None if numbers else width, symbols, signature=signature, kind=kind)


def _lines(config: Config) -> tuple[Line, ...]:
    return tuple(Line((name,), (f"{NETWORK_PREFIX}{name}",)) for name in _fields(config).shapes())


def _model(config: Config) -> dict[str, Any]:
    return dict(_fields(config).model)


OWN_FAMILY = Family(
    model=_model,
    lines=_lines,
    dropped={
        rf"{NETWORK_PREFIX}{HEAD}.*": "the head, which answers another question",
        rf"(?!{NETWORK_PREFIX}).*": "a model without gradients, which stands beside the network",
    },
    fields=_fields,
)
