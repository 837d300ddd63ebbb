"""Reformer: attention within buckets of a locality-sensitive hash, with shared queries and keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.models.exporting import AtLength, replaced
from headstart.models.mixers.mixer import HeadsSpec, everywhere, head_width, joined, split
from headstart.models.scan import in_chunks, precise
from headstart.seeds import Draw, normal

SELF_SCORE = -1e5
"""Score of a position with itself, as released: it sees itself only where it sees nothing else."""
KEY_EPSILON = 1e-6
"""Added to the mean square of a key before its root, as released."""


class ReformerSpec(HeadsSpec):
    """Attention of `heads` heads within hash buckets of about `chunk` positions, in `hashes` rounds.

    A row of at most `chunk` positions has one bucket, a longer one about length / chunk. Causal models take the
    length that they are built for instead, since early positions cannot know a row's own. Raises: BadInput where
    `heads` does not divide the width.
    """

    kind: Literal["reformer"] = "reformer"
    chunk: int = Field(default=64, ge=1)
    """Positions of a bucket, about; a row of at most so many has one bucket."""
    hashes: int = Field(default=4, ge=1)
    """Rounds of hashing."""

    former: ClassVar[Mapping[str, Any]] = {"hash_seed": 0}
    example: ClassVar[Mapping[str, Any]] = {"chunk": 4, "hashes": 2}

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Reformer(self, width, length, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Three layers of 2 L D^2; per round the hash and two products of each chunk with two chunks."""
        padded = -(-length // self.chunk) * self.chunk
        hashing = 4.0 * length * most_sides(length, self.chunk) * width
        return 6.0 * length * width**2 + self.hashes * (hashing + 8.0 * padded * self.chunk * width)


class Reformer(nn.Module):
    """softmax(q_i . q_j / |q_j|) over the positions j in the bucket of i, without i itself.

    Shapes: x (B, L, D), valid (B, L) bool or None -> (B, L, D). Positions are sorted by bucket and cut into
    chunks; a position sees those of its bucket that stand in its own chunk and in the one before. Causal: the
    last `chunk` positions of its bucket that come before it. (The chunks of the source do not help there: how
    many later positions fall into earlier buckets would move their borders.) Rounds are weighted by the sums
    of their weights; a pair that shares a bucket in several rounds counts in each, as in released code.
    The hash is a pair of smaller ones, as released for long inputs: sqrt(L / C) directions instead of L / C.
    Cost O(R L D (C + sqrt(L / C))), memory O(R L (C + D)).
    Source: Kitaev et al. 2020, "Reformer", section 2; no factor 1 / sqrt(E), as released.
    """

    parts = {"query": "query_key", "value": "value_output", "output": "value_output"}  # noqa: RUF012
    draws = True
    directions: Tensor
    table: Tensor | None

    def __init__(self, spec: ReformerSpec, width: int, length: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.chunk, self.hashes = spec.heads, spec.chunk, spec.hashes
        self.length = length if causal else None
        self.query, self.value, self.output = spec.layers(3, width)
        shape = (spec.heads, spec.hashes, head_width(spec.heads, width), 2, most_sides(length, spec.chunk))
        axes = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
        fixed = normal(0, "reformer/directions", *axes)
        # Not learned and rebuilt from the spec: no part of the saved weights.
        self.register_buffer("directions", fixed.to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("table", None, persistent=False)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Draw | None = None) -> Tensor:
        valid = everywhere(x, valid)
        query, value = split(self.query(x), self.heads), split(self.value(x), self.heads)
        buckets = self._buckets(query.detach(), valid, draw)
        with torch.autocast(x.device.type, enabled=False):
            mixed, sums = rounds(precise(query), precise(value), buckets, self.chunk, self.length is not None)
            mixed = (mixed * sums.softmax(2)[..., None]).sum(2)
        return self.output(joined(mixed).to(value.dtype))

    def exportable(self, length: int) -> nn.Module:
        """Itself at that length, with a table of `sides`, because runtimes do not agree on how they divide."""
        lengths = torch.arange(length + 1) if self.length is None else torch.full((length + 1,), self.length)
        return AtLength(replaced(self, table=torch.stack(sides(lengths, self.chunk), -1)), length)

    def _buckets(self, query: Tensor, valid: Tensor, draw: Draw | None) -> Tensor:
        """(B, H, R, L): the bucket of each position, in each round; padded positions share one behind all."""
        directions = self._directions(query, draw)
        most = directions.shape[-1]
        along = torch.unflatten(query.unsqueeze(2) @ directions.flatten(-2), -1, (2, most))
        spare = torch.arange(most, device=query.device) >= self._sides(valid).clamp(max=most)[..., None]
        spare = spare[:, None, None, None]
        # Where all are spare the first of equal ones is taken: one bucket.
        chosen = torch.cat([side.masked_fill(spare, -torch.inf) for side in (along, -along)], -1).argmax(-1)
        buckets = chosen[..., 0] + 2 * most * chosen[..., 1]
        return torch.where(valid[:, None, None, :], buckets, torch.full_like(buckets, 4 * most**2))

    def _sides(self, valid: Tensor) -> Tensor:
        """(B, 2): directions of both hashes for each row."""
        lengths = valid.sum(-1)
        if self.table is not None:
            return self.table[lengths]
        lengths = lengths if self.length is None else torch.full_like(lengths, self.length)
        return torch.stack(sides(lengths, self.chunk), -1)

    def _directions(self, query: Tensor, draw: Draw | None) -> Tensor:
        """(B or 1, H, R, E, 2, P) normal numbers: fixed ones, or drawn for each example."""
        if draw is None:
            return self.directions.to(query.dtype)
        shape = (query.shape[0], *self.directions.shape)
        # Box and Muller; 1 - u is never 0.
        radius = torch.sqrt(-2 * torch.log(1 - draw("reformer/radius", shape)))
        return (radius * torch.cos(2 * math.pi * draw("reformer/angle", shape))).to(query.dtype)


def sides(length: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """Directions of the two hashes for rows of these lengths; each gives a bucket on either side of it.

    2 a x 2 b buckets of about `chunk` positions, a near b; 2 for up to 2 chunks, one for up to one chunk.
    """
    pairs = -(-length // (2 * chunk))
    first = (pairs / 2).sqrt().ceil().to(torch.int64).clamp(min=1)
    second = torch.where(pairs > 1, -(-pairs // (2 * first)), torch.zeros_like(pairs))
    return torch.where(length > chunk, first, torch.zeros_like(first)), second


def most_sides(length: int, chunk: int) -> int:
    """The most directions that either hash of a row of up to `length` positions takes."""
    return max(1, int(sides(torch.tensor(length, device="cpu"), chunk)[0]))


def rounds(query: Tensor, value: Tensor, buckets: Tensor, chunk: int, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention within buckets in each round: (B, H, R, L, E) and the log sums of weights (B, H, R, L).

    Shapes: query, value (B, H, L, E), buckets (B, H, R, L).
    """
    length = query.shape[2]
    position = torch.arange(length, device=query.device)
    # Sorted by bucket, then by position: the numbers differ, so that any sort will do.
    order = (buckets * length + position).argsort(-1)
    queries, values = (in_chunks(_ordered(x, order), chunk) for x in (query, value))
    missing = -length % chunk
    bucket = _chunks(pad(buckets.gather(-1, order), (0, missing), value=-1), chunk)
    beyond = torch.arange(length, length + missing, device=query.device).expand(*order.shape[:-1], -1)
    at = _chunks(torch.cat([order, beyond], -1), chunk)
    scores = _scores(queries, bucket, at, causal)
    sums = scores.logsumexp(-1)
    mixed = (scores - sums[..., None]).exp() @ _with_last(values, 0.0)
    back_again = order.argsort(-1)
    mixed, sums = mixed.flatten(-3, -2)[..., :length, :], sums.flatten(-2)[..., :length]
    return _gathered(mixed, back_again), sums.gather(-1, back_again)


def _scores(queries: Tensor, bucket: Tensor, at: Tensor, causal: bool) -> Tensor:
    """Scores of each chunk with the one before and itself, (..., n, C, 2 C); the least number where nothing is seen.

    Shapes: queries (..., n, C, E), their buckets and positions `at` (..., n, C).
    """
    chunk = queries.shape[-2]
    keys = queries * torch.rsqrt(queries.square().sum(-1, keepdim=True) + KEY_EPSILON * queries.shape[-1])
    scores = queries @ _with_last(keys, 0.0).transpose(-1, -2)
    key_bucket, key_at = _with_last(bucket[..., None], -2)[..., 0], _with_last(at[..., None], -1)[..., 0]
    seen = bucket[..., None] == key_bucket[..., None, :]
    if causal:
        # A chunk and the one before hold the last `chunk` positions before each one, and some more.
        number = torch.arange(2 * chunk, device=queries.device)
        seen = seen & (key_at[..., None, :] <= at[..., None]) & (number >= number[:chunk, None])
    # The least finite number: of -inf a runtime of ONNX makes NaN.
    scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    return torch.where(at[..., None] == key_at[..., None, :], torch.full_like(scores, SELF_SCORE), scores)


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    """x (B, H, L, E) in the order of each round (B, H, R, L)."""
    return _gathered(x.unsqueeze(2).expand(-1, -1, order.shape[2], -1, -1), order)


def _gathered(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(-2, order[..., None].expand(*order.shape, x.shape[-1]))


def _chunks(x: Tensor, chunk: int) -> Tensor:
    return torch.unflatten(x, -1, (-1, chunk))


def _with_last(x: Tensor, empty: float) -> Tensor:
    """(..., n, C, E) -> (..., n, 2 C, E): each chunk behind the one before it, `empty` before the first."""
    before = pad(x[..., :-1, :, :], (0, 0, 0, 0, 1, 0), value=empty)
    return torch.cat([before, x], -2)
