"""ViT as a whole, frozen: what its patches and blocks make of a small image that is read row by row, as one vector.

Letters: C channels, L pixels, N patches, D the width of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from headstart.checkpoints.bert import VIT
from headstart.checkpoints.family import Config, Line, TensorShape, line
from headstart.checkpoints.series import PatchedSpec, SeriesFields
from headstart.errors import BadInput
from headstart.models.model import ModelSpec


class ImageModelSpec(PatchedSpec):
    """Square patches of `patch` x `patch` pixels through a layer, a vector of the class behind them, learned positions,
    and blocks of ViT. `length`: pixels of the image that it reads.

    A sequence of L numbers is a square image, row by row (of another L it is stretched to the next one); it is brought
    to the model's size, its darkest value to -1 and its brightest to 1. As many channels as the model has colours are
    one image, any others an image each, in grey. Features: the mean over the patches, and the vector of the class.
    Source: Dosovitskiy et al. 2021.
    """

    kind: Literal["vit"]  # type: ignore[assignment]
    length: int = Field(ge=1, le=2**20)
    channels: int = Field(ge=1, le=2**10)
    """Colours of the image that it reads."""
    reads: ClassVar[str] = "each square image that is read row by row"

    @property
    def colours(self) -> int:
        return self.channels

    @property
    def registered(self) -> bool:
        return True

    @property
    def side(self) -> int:
        """Pixels of a side."""
        return math.isqrt(self.length)

    @property
    def tokens(self) -> int:
        return (self.side // self.patch) ** 2 + 1

    def _input_shapes(self, spec: ModelSpec) -> dict[str, TensorShape]:
        return {
            "input.patch.weight": (spec.width, self.channels, self.patch, self.patch),
            "input.patch.bias": (spec.width,),
            "input.position": (1, self.tokens, spec.width),
            "input.register": (1, 1, spec.width),
        }

    def _patches(self, inputs: Mapping[str, Tensor], x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        del seen  # gaps are crossed
        weight, position = inputs["input.patch.weight"], inputs["input.position"]
        images = self._images(x).to(weight.dtype)
        vectors = F.conv2d(images, weight, inputs["input.patch.bias"], stride=self.patch).flatten(2).mT
        register = inputs["input.register"].expand(len(images), 1, -1)
        vectors = torch.cat([vectors + position[:, 1:], register + position[:, :1]], 1)
        return vectors, torch.ones(vectors.shape[:2], dtype=torch.bool)

    def _images(self, x: Tensor) -> Tensor:
        """(1, colours, side, side) of x (colours, L), else (C, colours, side, side)."""
        own = math.isqrt(x.shape[1] - 1) + 1
        if own**2 != x.shape[1]:
            x = F.interpolate(x[None], own**2, mode="linear", align_corners=False)[0]
        images = x.reshape(1, self.channels, own, own) if len(x) == self.channels else x.reshape(-1, 1, own, own)
        low, high = (end(images, (1, 2, 3), keepdim=True) for end in (torch.amin, torch.amax))
        images = torch.where(high > low, 2 * (images - low) / (high - low).clamp_min(1e-30) - 1, 0.0)
        if own != self.side:
            size = (self.side, self.side)
            images = F.interpolate(images, size, mode="bilinear", align_corners=False, antialias=own > self.side)
        return images.expand(-1, self.channels, -1, -1)


def _fields(config: Config) -> SeriesFields:
    side, patch = config.number("image_size", 224, most=2**10), config.number("patch_size", 16, most=2**10)
    if side % patch:
        raise BadInput(f"{config.path}: patch_size: {patch} is no whole part of image_size: {side}; correct it")
    own = {"patch": patch, "length": side**2, "channels": config.number("num_channels", 3, most=2**10)}
    series = ImageModelSpec(kind="vit", model=VIT.model(config), **own)
    return SeriesFields("vit", series.model, None, series=series)


def _lines(config: Config) -> tuple[Line, ...]:
    return (
        *VIT.lines(config),
        line("input.patch", "embeddings.patch_embeddings.projection"),
        line("input.position", "embeddings.position_embeddings"),
        line("input.register", "embeddings.cls_token"),
    )


VIT_WHOLE = replace(
    VIT,
    lines=_lines,
    dropped={pattern: text for pattern, text in VIT.dropped.items() if not pattern.startswith("embeddings")}
    | {r"embeddings\.mask_token": "the vector of hidden patches, which are not seen here"},
    fields=_fields,
)
