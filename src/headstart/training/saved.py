"""What a network is by itself, apart from the study that made it; torch is imported when one is built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator

from headstart.models.kind import ModelField, ModelKind
from headstart.sequence import Signature
from headstart.spec import Spec, spec_of_kind
from headstart.text import listed, many

if TYPE_CHECKING:
    import numpy as np

    from headstart.checkpoints.folder import Header
    from headstart.models.model import Network
    from headstart.tasks.task import Task


def _objective(value: Any) -> Any:
    from headstart.objectives import OBJECTIVES  # imports torch, which only a network needs

    return spec_of_kind(OBJECTIVES, value)


SavedObjective: Any = Annotated[SerializeAsAny[Spec], BeforeValidator(_objective)]
"""A field that holds an objective, as `objectives.ObjectiveField`."""


class NetworkSpec(Spec):
    """A network by itself: its model, the objective that it answers, and the longest sequence that it is built for."""

    model: ModelField
    objective: SavedObjective
    length: int = Field(ge=1)
    """Positions (patches where there are any)."""

    @field_validator("model")
    @classmethod
    def _is_trained(cls, model: ModelKind) -> ModelKind:
        if model.way != "trained":
            raise ValueError(f"{model.kind!r} is fitted without gradients and has no network; save the model again")
        return model

    def built(self, signature: Signature) -> Network:
        """A fresh network in float32. Raises: BadInput where the parts of its spec do not fit."""
        from headstart.training.answers import build

        return build(self, signature)

    def restored(self, signature: Signature, arrays: Mapping[str, np.ndarray]) -> Network:
        """The network with these weights, by its own names, in evaluation."""
        from headstart.training.answers import restored

        return restored(self, signature, arrays)

    def header(self, signature: Signature, patch: int, stored: Header, path: Path) -> Header:
        """(type, shape) of each of its tensors as this spec implies them, by their names in a model folder.

        Nothing of their size is allocated. stored: the same as the file at `path` says it. patch: positions that stand
        as one in `signature`. Raises: BadInput where that is far more than the file holds, or contradicts itself.
        """
        from headstart.training.answers import header_of

        return header_of(self, signature, patch, stored, path)

    def flops(self, signature: Signature) -> float:
        """FLOPs of an answer to one sequence of the longest kind."""
        layers = self.model.layer_flops(signature, self.objective.output(signature), self.length)
        return float(sum(flops for _, flops in layers))

    def check_servable(self, task: Task) -> None:
        """Raises: BadInput where a whole model of a person's own does not answer this task, or could not be saved."""
        from headstart.training.answers import check_servable

        check_servable(self.model, self.objective, task)

    @property
    def size_words(self) -> str:
        """`2 blocks of attention, width 32`, or the kind of a model that is not made of blocks."""
        from headstart.models.model import ModelSpec

        if not isinstance(self.model, ModelSpec):
            return str(self.model.kind)
        kinds = listed(list(dict.fromkeys(mixer.kind.replace("_", " ") for mixer in self.model.mixers)))
        return f"{many(self.model.blocks, 'block')} of {kinds}, width {self.model.width}"
