"""What every kind of model says of itself: how a stage comes to its weights, and which settings mean something then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, SerializeAsAny
from pydantic_core import PydanticCustomError

from headstart.models import MODELS
from headstart.spec import Spec, merge, spec_of_kind

DEFAULT = "sequence"
"""The kind of a table that names none."""


class ModelKind(Spec):
    """Base of the specs of `MODELS`.

    way: how a stage of it is run, a key of `stage.WAYS`. seeded: whether a seed can change what is fitted.
    gives_weights: whether a child stage can start from its weights. described: beginnings of
    the names of settings that `describe` puts in words; others are named where they differ. splits: whether parts of a
    batch give what the whole batch gives, so that several ranks can share it. mixed_version: as of `MixerSpec`.
    """

    kind: str
    way: ClassVar[str] = "trained"
    seeded: ClassVar[bool] = True
    gives_weights: ClassVar[bool] = True
    described: ClassVar[tuple[str, ...]] = ("kind",)
    splits: ClassVar[bool] = True
    mixed_version: ClassVar[int] = 1

    @property
    def lacks(self) -> str:
        """Which of its files are not at hand, and the way out, in words; empty where it has all, or reads none."""
        return ""

    @property
    def shows_not(self) -> str:
        """What a score that rests on a stage of it does not show: a sentence that reports print, or nothing."""
        return ""

    @property
    def sized(self) -> bool:
        """Whether its sizes are known here."""
        return True

    @property
    def alone(self) -> str:
        """Why stages of it are trained one by one, never as a stack; empty where they can be stacked."""
        return f"a model of kind {self.kind!r} is trained by itself"

    def settled(self) -> ModelKind:
        """The model with the content of its files written out, where they are at hand.

        Raises: BadInput where they cannot be read, or hold something else than the model says.
        """
        return self

    def answered(self, objective: Any) -> Any:
        """The objective as this kind of model answers it. Raises: ValueError where it cannot."""
        return objective

    def kernel_flops(self, length: int) -> dict[str, float]:
        """Of the FLOPs of each layer, those that make a kernel out of parameters alone, once for a batch."""
        return {name: flops for name, (flops,) in self.kernels_at([length]).items()}

    def kernels_at(self, lengths: Sequence[int]) -> dict[str, list[float]]:
        """`kernel_flops` at many lengths."""
        del lengths
        return {}

    def layers_at(self, signature: Any, output: Any, lengths: Sequence[int]) -> list[tuple[str, Sequence[float]]]:
        """`layer_flops`, of kinds that have it, at many lengths: the same layers at each."""
        each = [self.layer_flops(signature, output, length) for length in lengths]  # type: ignore[attr-defined]
        return [(layers[0][0], [flops for _, flops in layers]) for layers in zip(*each, strict=True)]

    def describe(self) -> str:
        """The model in words, for a methods text: `the model was ...`."""
        return f"a model of kind {self.kind!r}"

    def describe_work(self, title: str) -> str:
        """What a stage of it did where nothing was trained, in words: `stage ...`. title: that of its result."""
        return "fitted it to the labelled training examples, without gradients"

    def describe_fresh(self) -> str:
        """What is unusual about its fresh weights, in words; empty where nothing is."""
        return ""


def model_class(model: Any) -> type[ModelKind]:
    """The class of a model's table or spec. Raises: PydanticCustomError for an unknown kind."""
    if isinstance(model, ModelKind):
        return type(model)
    kind = model.get("kind", DEFAULT) if isinstance(model, Mapping) else DEFAULT
    named = isinstance(kind, str) and kind in MODELS
    return MODELS[kind if named else DEFAULT].load()


def with_kind(model: Any) -> Any:
    """A model's table with its kind written out; anything else as it is."""
    return merge({"kind": DEFAULT}, model) if isinstance(model, Mapping) else model


def _read(model: Any) -> Any:
    if not isinstance(model, (Mapping, Spec)):
        raise PydanticCustomError("table", "should be a table")
    return spec_of_kind(MODELS, with_kind(model))


ModelField: Any = Annotated[SerializeAsAny[ModelKind], BeforeValidator(_read)]
"""A field that holds a spec of any kind."""
