"""What a checkpoint is without its weights: the model that holds it, and the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from torch import nn

from headstart.checkpoints import CHECKPOINT_READERS
from headstart.checkpoints.family import LARGEST_NUMBER, TensorShape
from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.mixers.mixer import HeadsSpec
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.models.outline import without_numbers
from headstart.sequence import Signature
from headstart.spec import read

HEAD = "head."
"""What the names of tensors of a head begin with."""


@dataclass(frozen=True)
class Fields:
    """What a checkpoint is without its weights.

    family: a key of FAMILIES. model: fields of a `ModelSpec`, without the length of its positions. length: how many
    positions have a learned vector, or None where any number does. symbols: of token vectors that are read, what each
    stands for.
    """

    family: str
    model: Mapping[str, Any]
    length: int | None
    vocabulary: int | None = None
    symbols: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What its family is called."""
        return CHECKPOINT_READERS[self.family].summary

    @cached_property
    def spec(self) -> ModelSpec:
        """The model that holds all of the checkpoint."""
        position = {**self.model["position"], **({} if self.length is None else {"length": self.length})}
        return read(ModelSpec, {**self.model, "position": position}, "model")

    def outline(self) -> SequenceModel:
        """The model without numbers, for the sequences of `example`; blocks with equal mixers are one module.

        Raises: BadInput where the heads do not fit the width, or a size is beyond all that torch counts.
        """
        spec = self.spec
        sizes = [self.length or 1, spec.feed_forward.width or 1]
        for mixer in spec.mixers:
            sizes += [mixer.heads, mixer.inner(spec.width)] if isinstance(mixer, HeadsSpec) else []
        if max(sizes) > LARGEST_NUMBER:
            raise BadInput(
                f"model: a size of {max(sizes):,} (positions, heads or layers), at most {LARGEST_NUMBER:,} are read"
            )
        return _outline(spec, self.example)

    def shapes(self) -> dict[str, TensorShape]:
        """Of each tensor that the checkpoint has, by our names, without making any. Raises: BadInput as `outline`."""
        return {name: tuple(x.shape) for name, x in self.outline().state_dict().items() if self._has(name)}

    def _has(self, name: str) -> bool:
        """Whether the checkpoint has a tensor of its outline."""
        return not name.startswith((HEAD, "encoder.")) or (self.vocabulary is not None and name == "encoder.weight")

    def describe(self) -> str:
        """The model that it is of, in words."""
        most = "any number of positions" if self.length is None else f"at most {self.length:,} positions"
        return f"{self.spec.describe()}; {most}"

    @property
    def document(self) -> list[Any]:
        """What of it is part of the content, beside the weights."""
        return [self.spec.document(), self.symbols]

    @property
    def example(self) -> Signature:
        """Of some task for which such a model can be made, with all of the checkpoint's tensors."""
        kind: Any = "tokens" if self.vocabulary else "floats"
        return Signature(kind, self.vocabulary or 1, 1, 1, "class", classes=2)


@lru_cache(maxsize=16)
def _outline(spec: ModelSpec, example: Signature) -> SequenceModel:
    mixers = tuple(dict.fromkeys(spec.mixers))
    few = spec.model_copy(update={"blocks": len(mixers), "mixer": mixers})
    with without_numbers():
        model = build_model(few, example, Output("sequence", 2), 0)
    model.blocks = nn.ModuleList(model.blocks[mixers.index(mixer)] for mixer in spec.mixers)
    return model
