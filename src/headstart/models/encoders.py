"""Encoders: tokens, floats or patches -> (B, L, D), what stands at masked and missing positions, and joined tokens."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from headstart.errors import BadInput
from headstart.models.scan import short_convolution
from headstart.sequence import Batch, Signature
from headstart.spec import Spec, neutral

ORTHOGONAL_GAIN = 1.41
"""Gain of orthogonal input layers of frozen pretrained transformers (Lu et al. 2021, released code)."""

ENCODER_TAPS = 7
"""Tokens that each channel weighs before neighbours are joined: a token and those before it."""


class EncoderSpec(Spec):
    """How inputs become vectors."""

    masked: Literal["vector", "zero", "channel"] = "vector"
    """What stands at a position that the objective hides. `vector`: a learned vector in place of the encoded input.
    `zero`: the input 0 (tokens: the vector 0). `channel` (floats only): the input 0, and one input channel more that is
    1 there and 0 elsewhere."""
    init: Literal["standard", "orthogonal"] = neutral("standard")
    """Fresh weights of a float encoder, `standard` (uniform, as torch's Linear) or `orthogonal` (gain 1.41, zero bias).
    Token vectors are always N(0, 1)."""
    patch: int = neutral(1, ge=1, le=2**10)
    """Tokens that are joined into one position of the blocks (1: none; float inputs have `task.patch`). Tokens are
    masked, and answered where the target is per position, one by one all the same."""


def in_patches(x: torch.Tensor, patch: int) -> torch.Tensor:
    """Neighbouring positions together, the last ones with zeros: (B, L, ...) -> (B, ceil(L / patch), patch, ...)."""
    room = (*[0, 0] * (x.ndim - 2), 0, -x.shape[1] % patch)
    return torch.unflatten(F.pad(x, room), 1, (-1, patch))


def there(batch: Batch, patch: int = 1) -> torch.Tensor | None:
    """(B, ceil(L / patch)) bool: which positions of `patch` tokens hold one that is there, or None where all do."""
    # A batch knows whether it is full: asking the data here would stop a GPU and break stacks of models.
    if batch.full:
        return None
    return batch.valid if patch == 1 else in_patches(batch.valid, patch)[:, :, 0]


def joined(x: torch.Tensor, valid: torch.Tensor | None, patch: int) -> torch.Tensor:
    """The largest number of each channel in each patch; a token that is not there counts as 0.

    Shapes: x (B, L, D), valid (B, L) bool or None (all valid) -> (B, ceil(L / patch), D).
    """
    return in_patches(x if valid is None else x.masked_fill(~valid[:, :, None], 0.0), patch).amax(2)


def spread(x: torch.Tensor, patch: int, length: int) -> torch.Tensor:
    """The vector of its patch for each of `length` tokens: (B, ceil(length / patch), D) -> (B, length, D)."""
    return x.unsqueeze(2).expand(-1, -1, patch, -1).flatten(1, 2)[:, :length]


class TokenEncoder(nn.Module):
    """A learned vector per token id, N(0, 1) at first; padding and masks need no id of their own.

    Those that are to be joined pass a convolution of each channel by itself, over a token and the `ENCODER_TAPS` - 1
    before it, and a GELU, so that their largest (`joined`) says which short pieces of text a patch holds, wherever in
    it: as Zhang et al. 2015 shorten sequences of characters.
    Shapes: inputs (B, L) int64 -> (B, L, D).
    """

    def __init__(self, vocabulary: int, width: int, masked: Literal["vector", "zero"], patch: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, width))
        self.masked = nn.Parameter(torch.randn(width)) if masked == "vector" else None
        self.filter = self.filter_bias = None
        if patch > 1:
            bound = ENCODER_TAPS**-0.5
            self.filter = nn.Parameter(torch.empty(width, ENCODER_TAPS).uniform_(-bound, bound))
            self.filter_bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, batch: Batch) -> torch.Tensor:
        x = F.embedding(batch.inputs, self.weight)
        if batch.masked is not None:
            hidden = batch.masked[:, :, None]
            x = x.masked_fill(hidden, 0.0) if self.masked is None else torch.where(hidden, self.masked, x)
        if self.filter is None or self.filter_bias is None:
            return x
        return F.gelu(short_convolution(x, self.filter, self.filter_bias))


class FloatEncoder(nn.Module):
    """A linear layer F -> D at each position (a patch is a position with more features).

    An unobserved value counts as 0 and adds its feature's learned vector (`missing`, (F, D)). Nothing of a
    masked position is seen, its missing values included.
    Shapes: inputs (B, L, F) float, observed (B, L, F) bool or None -> (B, L, D).
    """

    per_position = ("missing",)

    def __init__(self, signature: Signature, width: int, spec: EncoderSpec) -> None:
        super().__init__()
        features = signature.width
        self.input = nn.Linear(features, width)
        bound = features**-0.5
        self.masked = self.channel = self.missing = None
        if spec.masked == "vector":
            self.masked = nn.Parameter(torch.randn(width))
        elif spec.masked == "channel":
            self.channel = nn.Parameter(torch.empty(width).uniform_(-bound, bound))
        if signature.missing:
            self.missing = nn.Parameter(torch.empty(features, width).uniform_(-bound, bound))
        if spec.init == "orthogonal":
            nn.init.orthogonal_(self.input.weight, gain=ORTHOGONAL_GAIN)
            nn.init.zeros_(self.input.bias)

    def forward(self, batch: Batch) -> torch.Tensor:
        inputs, masked = batch.inputs, batch.masked
        if batch.observed is not None:
            inputs = inputs.masked_fill(~batch.observed, 0.0)
        hidden = None if masked is None else masked[:, :, None]
        if hidden is not None and self.masked is None:
            inputs = inputs.masked_fill(hidden, 0.0)
        x: torch.Tensor = self.input(inputs)
        if batch.observed is not None and self.missing is not None:
            unseen = ~batch.observed if hidden is None else ~(batch.observed | hidden)
            x = x + F.linear(unseen.to(self.missing.dtype), self.missing.T)
        if hidden is None:
            return x
        if self.masked is not None:
            return torch.where(hidden, self.masked.to(x.dtype), x)
        return x if self.channel is None else torch.addcmul(x, hidden.to(x.dtype), self.channel.to(x.dtype))


def build_encoder(spec: EncoderSpec, signature: Signature, width: int) -> nn.Module:
    """The encoder for a task's inputs.

    Raises: BadInput where the spec does not fit the inputs.
    """
    if signature.input == "floats" and spec.patch > 1:
        raise BadInput(
            f"model.encoder.patch: {spec.patch} joins tokens, this task has floats; leave it out, and join positions "
            "with task.patch"
        )
    if signature.input == "floats":
        return FloatEncoder(signature, width, spec)
    if spec.masked == "channel":
        raise BadInput(
            "model.encoder.masked: 'channel' is for float inputs, this task has tokens; use 'vector' or 'zero'"
        )
    if spec.init == "orthogonal":
        raise BadInput(
            "model.encoder.init: 'orthogonal' is for float inputs, this task has tokens; leave it at 'standard'"
        )
    return TokenEncoder(signature.width, width, spec.masked, spec.patch)


def encoder_flops(signature: Signature, width: int, length: int, patch: int = 1) -> float:
    """Multiply-adds times two for one sequence; looking a token up costs none."""
    if signature.input == "tokens":
        return 2.0 * length * width * ENCODER_TAPS if patch > 1 else 0.0
    return 2.0 * length * signature.width * width * (2 if signature.missing else 1)
