"""What a checkpoint is without its weights: the model that holds it, and the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headstart.models.checkpoints.family import Shape
from headstart.models.mixers.mixer import LAYER_PARTS, HeadsSpec, head_width
from headstart.models.model import ModelSpec
from headstart.sequence import Signature
from headstart.spec import read


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
    def spec(self) -> ModelSpec:
        """The model that holds all of the checkpoint."""
        position = {**self.model["position"], **({} if self.length is None else {"length": self.length})}
        return read(ModelSpec, {**self.model, "position": position}, "model")

    def shapes(self) -> dict[str, Shape]:
        """Of each tensor that the checkpoint has, by our names, without making any.

        Raises: BadInput where the heads do not fit the width.
        """
        spec, out, width = self.spec, dict[str, Shape](), self.model["width"]
        position, fed = spec.position, spec.feed_forward

        def layer(name: str, *shape: int, bias: bool = True) -> None:
            out.update({f"{name}.weight": shape} | ({f"{name}.bias": shape[:1]} if bias else {}))

        if position.kind == "learned":
            out["position.table"] = (self.length or 0, width)
        elif position.kind == "relative":
            out["position.table"] = (position.buckets, max(spec.biased_heads))
        norms = ["embedding_norm"] * spec.embedding_norm + ["norm"] * (spec.norm_place == "before")
        for number, mixer in enumerate(spec.mixers):
            assert isinstance(mixer, HeadsSpec)
            inner, gated = mixer.inner(width), fed.kind == "glu"
            head_width(mixer.heads, inner, position.theta if position.kind == "rotary" else None, position.share)
            block, hidden = f"blocks.{number}", fed.width or 4 * width
            for name in LAYER_PARTS:
                layer(
                    f"{block}.mixer.{name}", *((width, inner) if name == "output" else (inner, width)), bias=mixer.bias
                )
            layer(f"{block}.feed_forward.into", hidden * (1 + gated), width, bias=fed.bias)
            layer(f"{block}.feed_forward.back", width, hidden, bias=fed.bias)
            norms += [f"{block}.norm_mixer", f"{block}.norm_feed_forward"]
        for name in norms:
            layer(name, width, bias=spec.norm != "rms")
        return out | ({} if self.vocabulary is None else {"encoder.weight": (self.vocabulary, width)})

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
