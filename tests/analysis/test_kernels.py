"""A kernel is what a layer answers to a unit impulse."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from support.small_models import small

from headstart import BadInput
from headstart.analysis.weights import Kernel, changes, kernels

SPACES: list[dict[str, Any]] = [
    {"kind": "s4", "state": 8, "gate": "none"},
    {"kind": "s4d", "state": 8, "gate": "none"},
    {"kind": "dlr", "state": 8, "gate": "none"},
]


def answers(mixer: Any, length: int) -> np.ndarray:
    """Largest absolute answer over channels and both sides, at each distance: an impulse in the middle of an input.

    The backward kernel begins one position later, and the skip path is taken off.
    """
    width = 8
    x = torch.zeros(width, 2 * length + 1, width, dtype=torch.float64)
    for channel in range(width):
        x[channel, length, channel] = 1.0
    with torch.no_grad():
        y = mixer(x, None)
        y[:, length] -= torch.diag(mixer.skip)
    after = y[:, length : 2 * length]
    before = y.flip(1)[:, length + 1 :]
    return np.asarray(torch.stack([after, before]).abs().amax((0, 1, 3)))


@pytest.mark.parametrize("mixer", SPACES, ids=lambda m: m["kind"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_kernel_is_the_answer_to_an_impulse(mixer: dict[str, Any], causal: bool) -> None:
    model = small(mixer, causal=causal, position={"length": 25})
    results = kernels(model, 12)
    assert [(k.block, k.mixer, k.directions) for k in results] == [(n, "mixer", 1 if causal else 2) for n in (0, 1)]
    for kernel, block in zip(results, model.blocks, strict=True):
        assert kernel.largest.dtype == np.float64
        assert kernel.largest == pytest.approx(answers(block.mixer, 12), rel=1e-9, abs=1e-12)


def test_the_largest_is_taken_over_directions_not_only_channels() -> None:
    model = small(SPACES[1])
    kernel = model.blocks[0].mixer.kernel
    with torch.no_grad():
        kernel.weight[1] *= 100
        backward = kernel(12)[1].abs().amax(0).numpy()
    assert kernels(model, 12)[0].largest == pytest.approx(backward)


def test_megas_average_is_a_kernel_by_its_closed_form() -> None:
    model = small({"kind": "mega", "state": 4})
    results = kernels(model, 9)
    assert [k.block for k in results] == [0, 1]
    for kernel, block in zip(results, model.blocks, strict=True):
        average = block.mixer.average
        alpha, delta = torch.sigmoid(average.alpha.detach()), torch.sigmoid(average.delta.detach())
        weight = average.eta.detach() * alpha * average.beta.detach() / math.sqrt(4)
        by_hand = [float((weight * (1 - alpha * delta) ** far).sum(-1).abs().max()) for far in range(9)]
        assert kernel.largest == pytest.approx(by_hand, rel=1e-9)


def test_kernels_are_found_side_by_side_and_in_lists() -> None:
    both = {"kind": "parallel", "mixers": [{"kind": "attention", "heads": 2}, SPACES[0]]}
    model = small([both, SPACES[2]])
    assert [(k.block, k.mixer) for k in kernels(model, 12)] == [(0, "mixer.mixers.1"), (1, "mixer")]
    with torch.no_grad():
        inner = model.blocks[0].mixer.mixers[1].kernel(12)
    assert kernels(model, 12)[0].largest == pytest.approx(inner.abs().amax((0, 1)).numpy())


def test_a_model_without_convolutions_has_no_kernels() -> None:
    assert kernels(small({"kind": "attention", "heads": 2}), 12) == []


def test_half_counts_the_nearest_positions_that_hold_half_of_the_sum() -> None:
    assert Kernel(0, "mixer", 1, np.array([1.0, 1.0, 1.0, 1.0])).half == 2
    assert Kernel(0, "mixer", 1, np.array([3.0, 1.0, 1.0, 0.5])).half == 1
    assert Kernel(0, "mixer", 1, np.array([0.0, 0.0, 0.0, 2.0])).half == 4


def test_a_length_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadInput, match="0 is below 1"):
        kernels(small(SPACES[1]), 0)
    with pytest.raises(BadInput, match="the model was built for"):
        kernels(small(SPACES[0]), 100)


def decaying(rate: float, length: int = 64, block: int = 0, row: int = 0) -> Kernel:
    """A kernel that decays at a rate, twice as high at whole rows where it has some."""
    values = np.exp(-rate * np.arange(length))
    if row:
        values[row::row] *= 2
    return Kernel(block, "mixer", 1, values)


def test_the_mean_distance_of_a_geometric_kernel_is_its_closed_form() -> None:
    share = math.exp(-0.5)
    assert decaying(0.5, 400).distance == pytest.approx(share / (1 - share))


def test_changes_are_those_of_distance_of_spread_and_of_peaks() -> None:
    start = [decaying(0.1), decaying(0.1, block=1)]
    same = changes(start, start, 8)
    assert same == {"narrowing": 0.0, "spread": 0.0, "rows": 0.0}
    learnt = [decaying(0.1), decaying(0.4, block=1)]
    moved = changes(learnt, start)
    assert moved["narrowing"] == pytest.approx((start[1].distance - learnt[1].distance) / 2)
    assert moved["spread"] == pytest.approx(abs(math.log(learnt[0].distance / learnt[1].distance)) / math.sqrt(2))
    assert "rows" not in moved
    lined = changes([decaying(0.1, row=8), decaying(0.1, block=1, row=8)], start, 8)
    # Twice as high at one of nine positions around: ln 2, less what that adds to the mean, less the place before, which
    # is the higher one at the start.
    assert lined["rows"] == pytest.approx(math.log(2) - 0.1 - 0.1, abs=0.01)


def test_what_is_no_number_is_left_out() -> None:
    assert changes([], []) == {}
    flat = [Kernel(0, "mixer", 1, np.array([1.0, 0.0, 0.0]))]
    assert changes(flat, flat, 8) == {"narrowing": 0.0}
    assert changes([*flat, *flat], [*flat, *flat]) == {"narrowing": 0.0}
    nothing = [Kernel(0, "mixer", 1, np.zeros(9)), Kernel(1, "mixer", 1, np.full(9, np.nan))]
    assert changes(nothing, nothing, 2) == {}
