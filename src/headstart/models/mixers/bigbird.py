"""BigBird: blocks that attend to their neighbours, to global blocks and to random ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.errors import BadInput
from headstart.models.exporting import AtLength, replaced
from headstart.models.mixers.attend import attend
from headstart.models.mixers.mixer import HeadsMixer, HeadsSpec, everywhere
from headstart.models.scan import in_chunks
from headstart.seeds import bits

LARGEST_PATTERN = 2**26
"""Bytes of a pattern that an ONNX file may carry: 64 MB."""


class BigBirdSpec(HeadsSpec):
    """Attention of `heads` heads over blocks of `block` positions.

    Blocks of 64, a window of 3 and 3 random blocks are the source's and LRA's (Tay et al. 2020). Raises: BadInput
    where `heads` does not divide the width or `window` is even. The random blocks are a function of the head and
    of the length in blocks alone. Causal: half of the window, the first blocks and random earlier ones.
    """

    kind: Literal["bigbird"] = "bigbird"
    block: int = Field(default=64, ge=1)
    """Positions of a block."""
    window: int = Field(default=3, ge=1)
    """Neighbouring blocks seen, the own one in the middle (odd)."""
    random: int = Field(default=3, ge=0)
    """Further blocks seen, drawn for each head and block from those not seen yet."""
    global_blocks: int = Field(default=1, ge=0)
    """How many first and how many last blocks see all and are seen by all."""

    former: ClassVar[Mapping[str, Any]] = {"pattern_seed": 0}
    rotary: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {"block": 2, "random": 1}

    def build(self, width: int, length: int, causal: bool, theta: float | None = None) -> nn.Module:
        if self.window % 2 == 0:
            raise BadInput(f"model.mixer.window: {self.window} blocks have no middle; take {self.window + 1}")
        return BigBird(self, width, length, causal, theta)

    def flops(self, width: int, length: int, causal: bool) -> float:
        """Four layers of 2 L D^2, each block times those that it may see, global blocks times all."""
        count = -(-length // self.block)
        ends = self.global_blocks if causal else 2 * self.global_blocks
        keys = self.blocks_seen(causal) * self.block
        queries = 0 if causal else ends * self.block
        return 8.0 * length * width**2 + 4.0 * width * (count * self.block * keys + queries * length)

    def blocks_seen(self, causal: bool) -> int:
        """K: how many blocks a block sees at most."""
        near, ends = (self.window // 2 + 1, 1) if causal else (self.window, 2)
        return near + ends * self.global_blocks + self.random


class BigBird(HeadsMixer):
    """Scaled dot-product attention over a sparse graph of blocks: window, random and global ones.

    A block is seen once however often it is named. Blocks are counted over each row's valid length: the last block of
    a row is its own last one. Cost O(L (W + 2 G + R) S D) for blocks of S positions.
    Source: Zaheer et al. 2020, "Big Bird", section 2 and appendix D; released code for what is drawn from.
    """

    def __init__(self, spec: BigBirdSpec, width: int, length: int, causal: bool, theta: float | None) -> None:
        super().__init__(spec, width, length, causal, theta)
        self.spec = spec
        self.table: PatternTable | None = None

    def mix(self, query: Tensor, key: Tensor, value: Tensor, valid: Tensor | None) -> Tensor:
        valid = everywhere(query[:, 0], valid)
        (batch, heads, length, _), size = query.shape, self.spec.block
        queries, keys, values = (in_chunks(x, size) for x in (query, key, value))
        valid_keys = torch.unflatten(pad(valid, (0, -length % size)), 1, (-1, size)).unsqueeze(1)
        count = queries.shape[2]
        last = (valid_keys.any(-1) * torch.arange(1, count + 1, device=query.device)).amax((1, 2))
        blocks, named = pattern(last, count, heads, self.spec, self.causal) if self.table is None else self.table(last)
        seen = picked(valid_keys.expand(-1, heads, -1, -1).unsqueeze(-1), blocks)[..., 0]
        seen = (seen & torch.repeat_interleave(named, size, -1))[:, :, :, None, :]
        if self.causal:
            offset = torch.arange(size, device=query.device)
            key_position = (blocks[..., None] * size + offset).flatten(-2)[:, :, :, None, :]
            position = torch.arange(count * size, device=query.device).view(count, size, 1)
            seen = seen & (key_position <= position)
        # Heads go to the batch and blocks take their place, so that each block has keys of its own.
        keys, values = picked(keys, blocks).flatten(0, 1), picked(values, blocks).flatten(0, 1)
        mixed = torch.unflatten(attend(queries.flatten(0, 1), keys, values, seen.flatten(0, 1)), 0, (batch, heads))
        if not self.causal and self.spec.global_blocks:
            mixed = _with_global(mixed, queries, (key, value, valid), last, self.spec.global_blocks)
        return mixed.flatten(2, 3)[:, :, :length]

    def exportable(self, length: int) -> nn.Module:
        """Itself at that length, with its pattern in a table. Raises: BadInput where it is above `LARGEST_PATTERN`."""
        count = -(-length // self.spec.block)
        rows = torch.tensor([count]) if self.causal else torch.arange(1, count + 1)
        size = 9 * len(rows) * count * self.heads * self.spec.blocks_seen(self.causal)
        if size > LARGEST_PATTERN:
            raise BadInput(
                f"model.mixer.block: bigbird's pattern of {count:,} blocks, for every length, would fill "
                f"{size / 2**20:,.0f} MB of an ONNX file; fit with larger blocks, or with another mixer"
            )
        table = PatternTable(*pattern(rows, count, self.heads, self.spec, self.causal))
        return AtLength(replaced(self, table=table), length)


def _with_global(
    mixed: Tensor, queries: Tensor, seen: tuple[Tensor, Tensor, Tensor], last: Tensor, ends: int
) -> Tensor:
    """(B, H, n, S, E) with the first and last `ends` blocks of each row replaced by what they see of all.

    `seen`: key and value (B, H, L, E) and valid (B, L).
    """
    _, heads, count, size, _ = queries.shape
    key, value, valid = seen
    chosen = global_blocks(last, ends)[:, None, None, :].expand(-1, heads, -1, -1)
    mixed_of_all = attend(picked(queries, chosen)[:, :, 0], key, value, valid[:, None, None, :])
    every = torch.arange(count, device=mixed.device)
    for number, part in enumerate(torch.split(mixed_of_all, size, 2)):
        here = every == chosen[:, :, 0, number, None]
        mixed = torch.where(here[..., None, None], part[:, :, None], mixed)
    return mixed


def picked(x: Tensor, blocks: Tensor) -> Tensor:
    """x (B, H, n, S, E) and numbers of blocks (B, H, m, K) -> (B, H, m, K S, E)."""
    batch, heads, count, size, width = x.shape
    first = torch.arange(batch * heads, device=x.device).view(batch, heads, 1, 1) * count
    rows = x.reshape(batch * heads * count, size * width)
    taken = rows.index_select(0, (blocks + first).flatten())
    return taken.view(*blocks.shape[:3], blocks.shape[3] * size, width)


def global_blocks(last: Tensor, ends: int) -> Tensor:
    """(B, 2 ends): the first and the last `ends` blocks of rows of `last` (B,) blocks; where a row has fewer, some
    stand there more than once."""
    first, end = torch.arange(ends, device=last.device), (last[:, None] - 1).clamp(min=0)
    return torch.cat([torch.minimum(first, end), (end - first).clamp(min=0)], -1)


class PatternTable(nn.Module):
    """The answers of `pattern`, for rows of 1, 2, ... blocks (or one for all), made beforehand."""

    blocks: Tensor
    named: Tensor

    def __init__(self, blocks: Tensor, named: Tensor) -> None:
        super().__init__()
        self.register_buffer("blocks", blocks)
        self.register_buffer("named", named)

    def forward(self, last: Tensor) -> tuple[Tensor, Tensor]:
        row = (last - 1).clamp(min=0, max=self.blocks.shape[0] - 1)
        return self.blocks[row], self.named[row]


def pattern(last: Tensor, count: int, heads: int, spec: BigBirdSpec, causal: bool) -> tuple[Tensor, Tensor]:
    """Which blocks each block sees: their numbers (B, H, n, K), and which of them count, (B, H, n, K) bool.

    `last` (B,): blocks of each row, of `count` with padding. Each block that counts stands there once.
    """
    batch, half = last.shape[0], spec.window // 2
    own = torch.arange(count, device=last.device).view(1, count, 1)
    limit = own + 1 if causal else last.view(batch, 1, 1)
    near = own + torch.arange(-half, 1 if causal else half + 1, device=last.device)
    first = torch.arange(spec.global_blocks, device=last.device).expand(1, count, -1)
    groups = [near.expand(batch, -1, -1), first.expand(batch, -1, -1)]
    if not causal:
        groups.append(last.view(batch, 1, 1) - 1 - first)
    # Sorted, with what is not there or there twice as a number beyond all blocks.
    fixed = torch.cat(groups, -1)
    beyond = torch.tensor(count + spec.random, device=last.device)
    fixed = torch.where((fixed >= 0) & (fixed < limit), fixed, beyond).sort(-1).values
    twice = pad(fixed[..., 1:] == fixed[..., :-1], (1, 0))
    fixed = torch.where(twice, beyond, fixed)
    left = limit - (fixed < beyond).sum(-1, keepdim=True)
    drawn, exists = _random_blocks(fixed, left.expand(batch, count, 1)[..., 0], heads, spec)
    fixed = fixed[:, None].expand(-1, heads, -1, -1)
    named = torch.cat([fixed < beyond, exists], -1)
    return torch.where(named, torch.cat([fixed, drawn], -1), torch.zeros_like(beyond)), named


def _random_blocks(fixed: Tensor, left: Tensor, heads: int, spec: BigBirdSpec) -> tuple[Tensor, Tensor]:
    """`random` different blocks that are not in `fixed` (B, n, F, ascending), of `left` (B, n) such.

    The t-th is drawn from those that are left, then counted past all smaller ones that are taken.
    """
    batch, count, _ = fixed.shape
    head = torch.arange(heads, device=fixed.device).view(heads, 1)
    own = torch.arange(count, device=fixed.device)
    taken = torch.zeros(batch, heads, count, 0, dtype=torch.int64, device=fixed.device)
    exists = torch.zeros(batch, heads, count, 0, dtype=torch.bool, device=fixed.device)
    for t in range(spec.random):
        size = (left[:, None] - t).expand(batch, heads, count)
        number = bits(0, "bigbird/blocks", head, own, t) * size.clamp(min=0) >> 32
        for other in range(t):
            number = number + (number >= taken[..., other])
        taken = torch.cat([taken, number[..., None]], -1).sort(-1).values
        exists = torch.cat([exists, (size > 0)[..., None]], -1)
    blocks = taken
    for other in range(fixed.shape[-1]):
        blocks = blocks + (blocks >= fixed[:, None, :, other, None])
    # Where few are left the last draws found none: numbers beyond all blocks sort behind those that count.
    return blocks, exists
