"""The network of a model folder (`headstart fit`, `save_pretrained`) as a checkpoint: all of it but its head."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headstart.data.letters import input_width
from headstart.errors import BadInput
from headstart.models.checkpoints import OWN
from headstart.models.checkpoints.family import Config, Family, Line, Shape
from headstart.models.checkpoints.fields import Fields
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.models.outline import without_numbers
from headstart.sequence import Signature
from headstart.spec import read

BEFORE, HEAD = "network.", "head."
"""What stands before the names of the network's tensors in the file, and those that are left out."""


@dataclass(frozen=True)
class OwnFields(Fields):
    """Those of a network of ours: shapes and parts come from the module itself.

    signature: of the sequences that it was made for. kind: of them, as `Preparation` has it.
    """

    signature: Signature = field(kw_only=True)
    kind: str = "numbers"

    def shapes(self) -> dict[str, Shape]:
        """Of each tensor but the head's."""
        return _shapes(self.spec, self.signature)

    @property
    def example(self) -> Signature:
        """That of the sequences."""
        return self.signature


@lru_cache(maxsize=16)
def _shapes(spec: ModelSpec, signature: Signature) -> dict[str, Shape]:
    with without_numbers():
        model = build_model(spec, signature, Output("sequence", 1), 0)
    return {name: tuple(x.shape) for name, x in model.state_dict().items() if not name.startswith(HEAD)}


def _fields(config: Config) -> OwnFields:
    """Raises: BadInput where the folder holds no network of built-in mixers, or its config is damaged."""
    network: Any = config.table.get("network")
    known: Any = config.table.get("preparation")
    if network is None:
        raise BadInput(f"{config.path}: the model has no network whose weights could be taken; fit one with a network")
    try:
        model = dict(network["model"])
        kind, length, patch = known["kind"], network["length"], known["patch"]
        numbers = kind == "numbers"
        symbols = tuple(known["symbols"])
        width = input_width(kind, len(known["channels"]) * patch, len(symbols))
        signature = Signature(
            "floats" if numbers else "tokens", width, length, 1, "class", classes=2, missing=known["missing"]
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
    positions = length if spec.position.kind == "learned" else None
    if positions is not None:
        model["position"] = {name: value for name, value in model["position"].items() if name != "length"}
    return OwnFields(OWN, model, positions, None if numbers else width, symbols, signature=signature, kind=kind)


def _lines(config: Config) -> tuple[Line, ...]:
    return tuple(Line((name,), (f"{BEFORE}{name}",)) for name in _fields(config).shapes())


def _model(config: Config) -> dict[str, Any]:
    return dict(_fields(config).model)


OWN_FAMILY = Family(
    model=_model,
    lines=_lines,
    dropped={
        rf"{BEFORE}{HEAD}.*": "the head, which answers another question",
        rf"(?!{BEFORE}).*": "a model without gradients, which stands beside the network",
    },
    fields=_fields,
)
