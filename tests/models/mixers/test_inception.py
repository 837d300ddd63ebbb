"""Convolutions of several lengths against loops over branches, positions and channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from headstart.errors import BadInput
from headstart.models.mixers.inception import InceptionSpec
from headstart.spec import read

WIDTH = 8


def made(causal: bool = False, seed: int = 0, **settings: Any) -> nn.Module:
    torch.manual_seed(seed)
    return read(InceptionSpec, settings, "mixer").build(WIDTH, 30, causal).double()


def reference(module: nn.Module, x: np.ndarray, causal: bool) -> np.ndarray:
    """One row (L, D), with its valid positions alone -> (L, D)."""
    weights = {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}
    length = len(x)

    def at(row: np.ndarray, position: int) -> np.ndarray:
        return row[position] if 0 <= position < length else np.zeros(row.shape[1])

    narrow, peak = x @ weights["narrow.weight"].T, x @ weights["peak.weight"].T
    out = np.zeros_like(x)
    for position in range(length):
        branches = []
        for number in range(len(module.convolutions)):
            kernel, sums = weights[f"convolutions.{number}.weight"], weights[f"convolutions.{number}.bias"].copy()
            size = kernel.shape[2]
            first = position - (size - 1 if causal else size // 2)
            for step in range(size):
                for to in range(kernel.shape[0]):
                    for channel in range(kernel.shape[1]):
                        sums[to] += kernel[to, channel, step] * at(narrow, first + step)[channel]
            branches.append(sums)
        near = [at(peak, position + step) for step in ((-2, -1, 0) if causal else (-1, 0, 1))]
        branches.append(np.max(near, axis=0))
        joined = np.maximum(np.concatenate(branches), 0.0)
        out[position] = weights["output.weight"] @ joined + weights["output.bias"]
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"lengths": (4, 1), "bottleneck": 3}, {"lengths": (2,)}, {"lengths": (3, 8, 50), "bottleneck": 1}]
)
def test_branches_beside_each_other_are_what_loops_make_of_each_row_alone(settings, causal) -> None:
    module, lengths = made(causal, **settings), (11, 6, 1)
    x = torch.randn(3, 11, WIDTH, dtype=torch.float64)
    valid = torch.arange(11) < torch.tensor(lengths)[:, None]
    out = module(x.masked_fill(~valid.unsqueeze(-1), 1e6), valid).detach().numpy()
    for row, length in enumerate(lengths):
        expected = reference(module, x[row, :length].numpy(), causal)
        np.testing.assert_allclose(out[row, :length], expected, rtol=0, atol=1e-12)


def test_a_position_sees_half_of_the_longest_convolution_to_each_side_and_no_more() -> None:
    module = made(lengths=(3, 7))
    x = torch.randn(1, 20, WIDTH, dtype=torch.float64, requires_grad=True)
    module(x, None)[0, 10].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert seen == list(range(7, 14))


def test_a_branch_has_a_quarter_of_the_width_or_what_is_asked_for() -> None:
    assert [layer.weight.shape for layer in made().convolutions] == [(2, 2, 9), (2, 2, 19), (2, 2, 39)]
    assert [layer.weight.shape for layer in made(bottleneck=5, lengths=(3,)).convolutions] == [(5, 5, 3)]
    assert InceptionSpec().channels(2) == 1


def test_half_precision_is_near_full_precision() -> None:
    module = made().float()
    x, valid = torch.randn(2, 15, WIDTH), torch.arange(15) < torch.tensor([[15], [9]])
    full, half = module(x, valid), module.bfloat16()(x.bfloat16(), valid)
    assert half.dtype == torch.bfloat16
    assert half[valid].float().sub(full[valid]).abs().max() < 0.05 * full[valid].abs().max()


def test_one_seed_draws_one_module() -> None:
    for (name, weight), other in zip(made(seed=3).named_parameters(), made(seed=3).parameters(), strict=True):
        assert torch.equal(weight, other), name
    assert not torch.equal(made(seed=3).narrow.weight, made(seed=4).narrow.weight)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": ()}, "lengths"),
        ({"lengths": (9, 0)}, r"lengths.*names 0; a convolution is over 1 to 1,024 positions"),
        ({"lengths": (2000,)}, r"lengths.*names 2000; a convolution is over 1 to 1,024 positions"),
        ({"lengths": (9, 19, 9)}, r"lengths.*\[9, 19, 9\] names a length twice; leave one out"),
        ({"bottleneck": 0}, "bottleneck"),
    ],
)
def test_lengths_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(InceptionSpec, settings, "mixer")
