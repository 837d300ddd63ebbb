"""Heads: pooling over valid positions, pairs, and closed-form FLOPs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headstart.models.contract import counted_flops
from headstart.models.heads import Output, PairHead, build_head, head_flops, pooled

LENGTHS = (5, 2, 1, 4)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0))
    return x, torch.arange(5)[None] < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("pool", ["mean", "max", "last"])
def test_pooling_sees_each_sequence_as_if_it_were_alone(pool: Any) -> None:
    x, valid = inputs()
    garbage = x.masked_fill(~valid[:, :, None], float("nan"))
    for row, length in enumerate(LENGTHS):
        alone = x[row, :length]
        expected = {"mean": alone.mean(0), "max": alone.max(0).values, "last": alone[-1]}[pool]
        torch.testing.assert_close(pooled(garbage, valid, pool)[row], expected)
        torch.testing.assert_close(pooled(alone[None], None, pool)[0], expected)


def test_a_pairs_head_sees_both_their_difference_and_their_product() -> None:
    x, valid = inputs()
    head = PairHead(3, 2, "mean")
    a, b = (pooled(x, valid, "mean")[start::2] for start in (0, 1))
    hidden = torch.nn.functional.gelu(head.hidden(torch.cat([a, b, a - b, a * b], -1)))
    assert torch.equal(head(x, valid), head.output(hidden))
    assert head(x, valid).shape == (2, 2)


@pytest.mark.parametrize("kind", ["sequence", "position", "pair"])
def test_head_flops_are_those_of_a_count(kind: Any) -> None:
    output = Output(kind, 7)
    head = build_head(output, 3, "mean")
    x, _ = inputs()
    assert head_flops(output, 3, 5) * len(x) == counted_flops(lambda: head(x, None))
