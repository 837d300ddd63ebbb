"""Norms against torch's own, with padding and with running statistics as explicit values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from headstart.models.norms import BatchNorm, build_norm

D = 5


def normed() -> tuple[BatchNorm, nn.BatchNorm1d]:
    """Ours and torch's, with equal gains and shifts."""
    ours, theirs = BatchNorm(D, "blocks.0.norm_mixer").double(), nn.BatchNorm1d(D).double()
    for name in ("weight", "bias"):
        values = torch.randn(D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        getattr(ours, name).data.copy_(values)
        getattr(theirs, name).data.copy_(values)
    return ours, theirs


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    x = 3 + 2 * torch.randn(3, 7, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x, torch.arange(7)[None] < torch.tensor([7, 3, 1])[:, None]


def test_layer_norm_is_torchs() -> None:
    x, _ = inputs()
    ours, theirs = build_norm("layer", D, "norm").double(), nn.LayerNorm(D).double()
    torch.testing.assert_close(ours(x, None, None), theirs(x))


@pytest.mark.parametrize("padded", [True, False])
def test_batch_norm_is_torchs_over_the_valid_positions_and_so_are_its_running_values(padded: bool) -> None:
    ours, theirs = normed()
    x, valid = inputs()
    there = valid if padded else torch.ones_like(valid)
    for _ in range(3):
        statistics: dict[str, torch.Tensor] = {}
        answer = ours(x, there if padded else None, statistics)
        torch.testing.assert_close(answer[there], theirs(x[there]))
        assert set(statistics) == {"blocks.0.norm_mixer.running_mean", "blocks.0.norm_mixer.running_variance"}
        assert not torch.equal(ours.running_mean, statistics["blocks.0.norm_mixer.running_mean"])
        ours.load_state_dict({**ours.state_dict(), **{k.rpartition(".")[2]: v for k, v in statistics.items()}})
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    theirs.eval()
    torch.testing.assert_close(ours(x, there, None)[there], theirs(x[there]))


def test_no_number_in_the_padding_can_change_the_statistics() -> None:
    ours, _ = normed()
    x, valid = inputs()
    clean: dict[str, torch.Tensor] = {}
    two: dict[str, torch.Tensor] = {}
    first = ours(x, valid, clean)[valid]
    second = ours(x.masked_fill(~valid[:, :, None], float("inf")), valid, two)[valid]
    assert torch.equal(first, second)
    assert all(torch.equal(clean[name], two[name]) for name in clean)


def test_a_still_norm_uses_its_running_values_and_writes_nothing() -> None:
    ours, _ = normed()
    x, valid = inputs()
    ours.still = True
    statistics: dict[str, torch.Tensor] = {}
    assert torch.equal(ours(x, valid, statistics), ours(x, valid, None))
    assert not statistics


def test_one_valid_position_gives_finite_running_values() -> None:
    ours, _ = normed()
    statistics: dict[str, torch.Tensor] = {}
    ours(torch.ones(1, 1, D, dtype=torch.float64), None, statistics)
    assert all(bool(value.isfinite().all()) for value in statistics.values())


def test_no_norm_leaves_everything_as_it_is() -> None:
    x, valid = inputs()
    assert build_norm("none", D, "norm")(x, valid, {}) is x


@pytest.mark.parametrize("epsilon", [1e-6, 0.1])
def test_rms_norm_divides_by_the_root_of_the_mean_square_and_keeps_the_mean(epsilon: float) -> None:
    x, _ = inputs()
    norm = build_norm("rms", D, "norm", epsilon).double()
    norm.weight.data.uniform_(0.5, 2.0)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    answer = norm(x, None, None)
    for row, position in ((0, 0), (2, 5)):
        size = math.sqrt(sum(float(value) ** 2 for value in x[row, position]) / D + epsilon)
        expected = [
            float(gain * value) / size for gain, value in zip(norm.weight.detach(), x[row, position], strict=True)
        ]
        assert answer[row, position].tolist() == pytest.approx(expected, rel=1e-12)
    half = norm.bfloat16()(200 * x.bfloat16(), None, None)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), norm.double()(200 * x, None, None), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("kind", ["layer", "batch", "rms"])
def test_every_norm_adds_the_epsilon_that_it_was_given(kind: Any) -> None:
    x = torch.full((1, 2, D), 1e-3, dtype=torch.float64)
    x[..., 1::2] *= -1
    small, large = (build_norm(kind, D, "norm", epsilon).double()(x, None, {}) for epsilon in (1e-12, 1e-3))
    if kind == "batch":
        small, large = (build_norm(kind, D, "norm", epsilon).double()(x, None, None) for epsilon in (1e-12, 3.0))
    assert float(large.detach().abs().max()) < 0.51 * float(small.detach().abs().max())
