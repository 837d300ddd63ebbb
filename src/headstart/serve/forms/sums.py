"""Sums over all pairs of positions that are no plain attention: products of features, projections, hash buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headstart.models.mixers.linear_attention import LinearAttention, positive
from headstart.models.mixers.linformer import Linformer
from headstart.models.mixers.performer import Performer
from headstart.models.mixers.projections import joined, split
from headstart.models.mixers.reformer import OWN, SMALL, Reformer, sides
from headstart.serve.forms.shared import places


class Products(nn.Module):
    """Attention whose weights are products of positive features (linear attention, performer).

    features: (query, key, valid) -> features of queries and of keys (B, H, L, M), and the logarithms of the keys'
    scales (B, H, L) or None.
    """

    def __init__(self, of: Any, features: Callable[[Any, Tensor, Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.of, self.features = of, features

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        of = self.of
        query, key, value = (split(layer(x), of.heads) for layer in (of.query, of.key, of.value))
        asked, told, scale = self.features(of, query, key, valid)
        value = torch.cat([value, torch.ones_like(value[..., :1])], -1)
        if of.causal:
            found = torch.matmul(asked, told.transpose(-1, -2)).tril()
            if scale is not None:
                found = found * (scale[..., None, :] - running_max(scale)[..., None]).clamp(max=0).exp()
            total = found @ value
        else:
            total = asked @ (told.transpose(-1, -2) @ value)
        answered = total[..., -1:] > torch.finfo(total.dtype).tiny ** 0.5
        mean = total[..., :-1] * answered / torch.where(answered, total[..., -1:], 1.0)
        out: Tensor = of.output(joined(mean))
        return out


def running_max(x: Tensor) -> Tensor:
    """(..., L): the largest of x (..., L) up to each place."""
    place = torch.arange(x.shape[-1])
    lowest = torch.finfo(x.dtype).min
    return torch.where(place[:, None] >= place, x[..., None, :], lowest).amax(-1)


def linear_features(of: LinearAttention, query: Tensor, key: Tensor, valid: Tensor) -> Any:
    """elu + 1 of each; 0 for padded keys."""
    del of
    return positive(query), positive(key) * valid[:, None, :, None], None


def performer_features(of: Performer, query: Tensor, key: Tensor, valid: Tensor) -> Any:
    """Positive random features, with the highest exponent taken out as `Performer` does."""
    there = valid[:, None, :]
    query, key = (part * part.shape[-1] ** -0.25 for part in (query, key))
    asked = query @ of.directions.T
    asked = (asked - asked.amax(-1, keepdim=True)).exp()
    told = key @ of.directions.T - key.square().sum(-1, keepdim=True) / 2
    highest = torch.where(there, told.amax(-1), torch.finfo(told.dtype).min / 4)
    top = highest if of.causal else highest.amax(-1, keepdim=True)
    told = (told - top[..., None]).clamp(max=0).exp() * there[..., None]
    return asked, told, highest if of.causal else None


class Projected(nn.Module):
    """Linformer: attention to a projection of the length."""

    def __init__(self, of: Linformer, length: int) -> None:
        del length
        super().__init__()
        self.of = of

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        of, place = self.of, places(x)
        query, key, value = (split(layer(x), of.heads) for layer in (of.query, of.key, of.value))
        key, value = (part * valid[:, None, :, None] for part in (key, value))
        of_values = of.key_mixture if of.shared else of.value_mixture
        scores = (query * query.shape[-1] ** -0.5) @ (of.key_mixture[:, place] @ key).transpose(-1, -2)
        out: Tensor = of.output(joined(scores.softmax(-1) @ (of_values[:, place] @ value)))
        return out


class InBuckets(nn.Module):
    """Reformer: buckets as they are, and within them the positions that would stand in the chunks of each."""

    of: Reformer
    sides: Tensor

    def __init__(self, of: Reformer, length: int) -> None:
        super().__init__()
        self.of = of
        rows = torch.arange(length + 1) if of.length is None else torch.full((length + 1,), of.length)
        most = of.directions.shape[-1]
        # Of rows of each length: counted here, because runtimes do not agree on how they divide.
        self.register_buffer("sides", torch.stack(sides(rows, of.chunk), -1).clamp(max=most))

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        of, place = self.of, places(x)
        query, value = split(of.query(x), of.heads), split(of.value(x), of.heads)
        bucket = self.buckets(query, valid)
        order = bucket * (place[-1] + 1) + place
        rank = (order[..., None, :] < order[..., None]).sum(-1)
        chunk = rank // of.chunk
        behind = chunk[..., None] - chunk[..., None, :]
        seen = (bucket[..., None] == bucket[..., None, :]) & (behind >= 0) & (behind <= 1)
        if of.length is not None:
            apart = rank[..., None] - rank[..., None, :]
            seen = seen & (place[:, None] >= place) & (apart <= of.chunk)
        key = query * torch.rsqrt(query.square().sum(-1, keepdim=True) + SMALL * query.shape[-1])
        scores = (query @ key.transpose(-1, -2)).unsqueeze(2).masked_fill(~seen, torch.finfo(x.dtype).min)
        scores = torch.where(place[:, None] == place, OWN, scores)
        sums = scores.logsumexp(-1)
        mixed = scores.softmax(-1) @ value.unsqueeze(2)
        out: Tensor = of.output(joined((mixed * sums.softmax(2)[..., None]).sum(2)))
        return out

    def buckets(self, query: Tensor, valid: Tensor) -> Tensor:
        """(B, H, R, L): as `Reformer` has them."""
        directions = self.of.directions
        most = directions.shape[-1]
        along = torch.unflatten(query.unsqueeze(2) @ directions.flatten(-2), -1, (2, most))
        spare = (torch.arange(most) >= self.sides[valid.sum(-1)][..., None])[:, None, None, None]
        lowest = torch.finfo(query.dtype).min
        chosen = torch.cat([side.masked_fill(spare, lowest) for side in (along, -along)], -1).argmax(-1)
        return torch.where(valid[:, None, None, :], chosen[..., 0] + 2 * most * chosen[..., 1], 4 * most**2)
