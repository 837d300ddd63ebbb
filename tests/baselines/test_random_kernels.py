"""The transform against a slow one that loops over every place, and what must not matter to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.made_series import examples, noise
from support.slow_kernels import slow_outputs

from headstart.baselines import kernels as module
from headstart.baselines.convolve import Counter
from headstart.baselines.kernels import (
    FEATURES,
    KERNELS,
    KernelModel,
    draw_channels,
    fit_kernels,
    padded_kernels,
    spread_dilations,
)
from headstart.errors import BadInput
from headstart.sequence import Examples

SMALL = 84 * 3


def slow(kernels: KernelModel, x: Examples) -> tuple[np.ndarray, np.ndarray]:
    """(shares, how far they may be off): every output as a sum over nine places, in float64.

    An output within 1e-5 of a bias may fall on either side of it in float32.
    """
    shares, doubt = np.zeros((len(x), kernels.size)), np.zeros((len(x), kernels.size))
    at = 0
    for row, number, kernel, outputs in slow_outputs(kernels, x):
        at = 0 if number == kernel == 0 else at
        for bias in kernels.biases[at : at + kernels.each[number]]:
            shares[row, at] = (outputs > bias).mean()
            doubt[row, at] = (np.abs(outputs - bias) < 1e-5).mean()
            at += 1
    return shares, doubt + 1e-6


def agrees(kernels: KernelModel, x: Examples) -> None:
    shares, doubt = slow(kernels, x)
    assert doubt.mean() < 0.02, "the comparison would say little"
    assert (np.abs(kernels.transform(x) - shares) <= doubt).all()


def test_one_channel_of_one_length_equals_a_slow_transform() -> None:
    x = noise([40] * 5)
    agrees(fit_kernels(x, 0, SMALL), x)


def test_unequal_lengths_and_lengths_below_the_kernels_equal_a_slow_transform() -> None:
    train = noise([25, 30, 30, 31, 40, 40])
    agrees(fit_kernels(train, 0, SMALL), noise([1, 2, 8, 9, 10, 17, 25, 33, 60, 60], seed=1))


def test_several_channels_equal_a_slow_transform() -> None:
    train = noise([26] * 4, channels=4)
    agrees(fit_kernels(train, 3, SMALL), noise([26, 26, 5, 14, 30], channels=4, seed=1))


def test_gaps_equal_a_slow_transform_and_hidden_values_cannot_matter() -> None:
    x = noise([30, 30, 21], channels=2)
    seen = np.random.default_rng(0).random(x.values.shape) < 0.8
    x = replace(x, observed=seen)
    kernels = fit_kernels(x, 0, SMALL)
    agrees(kernels, x)
    other = replace(x, values=np.where(seen, x.values, 1e6).astype(np.float32))
    assert np.array_equal(fit_kernels(other, 0, SMALL).transform(other), kernels.transform(x))


def test_a_row_does_not_depend_on_the_sequences_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for channels in (1, 3):
        x = noise([30, 12, 41, 41, 7, 300, 41], channels=channels)
        kernels = fit_kernels(x, 0, SMALL)
        together = kernels.transform(x)
        alone = np.concatenate([kernels.transform(x.take(np.array([i]))) for i in range(len(x))])
        assert np.array_equal(together, alone)
        monkeypatch.setattr(module, "BLOCK_POSITIONS", 90)
        assert np.array_equal(together, kernels.transform(x))
        monkeypatch.undo()


def test_tables_of_any_size_together_are_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    x = noise([30, 12, 41, 41, 7, 90, 41])
    kernels = fit_kernels(x, 0, SMALL)
    for size in (1, 100, 1 << 17):
        monkeypatch.setattr(module, "BLOCK_SHARES", size)
        out = np.full((len(x), SMALL), np.nan)
        for rows, first, table in kernels.tables(x):
            assert np.isnan(out[rows, first : first + table.shape[1]]).all(), "made twice"
            out[rows, first : first + table.shape[1]] = table
        assert np.array_equal(out, kernels.transform(x))


def test_equal_seeds_give_equal_kernels_and_other_seeds_others() -> None:
    x = noise([30] * 6, channels=3)
    first, same, other = (fit_kernels(x, seed, SMALL) for seed in (0, 0, 1))
    assert all(np.array_equal(v, same.arrays()[k]) for k, v in first.arrays().items())
    assert not np.array_equal(first.biases, other.biases)
    assert not np.array_equal(first.channels, other.channels)


def test_the_published_size_is_the_default_and_fewer_are_whole_numbers_per_kernel() -> None:
    x = noise([60] * 3)
    assert fit_kernels(x, 0).size == FEATURES == 9_996
    assert fit_kernels(x, 0, 500).size == 420
    with pytest.raises(BadInput, match=r"classic\.kernels\.features: 83 is fewer than the 84 kernels; give 84"):
        fit_kernels(x, 0, 83)


@pytest.mark.parametrize("length", [1, 8, 9, 10, 33, 150, 500, 5_000])
@pytest.mark.parametrize("each", [1, 5, 32, 33, 119])
def test_dilations_start_at_one_and_end_where_the_kernel_fills_the_length(length: int, each: int) -> None:
    dilations, counts = spread_dilations(length, each)
    assert counts.sum() == each
    assert (np.diff(dilations) > 0).all()
    assert dilations[0] == 1
    longest = max(length, 9)
    assert 8 * dilations[-1] + 1 <= longest
    if each >= 32:
        assert 8 * (2 * dilations[-1]) + 1 > longest or dilations[-1] == 1


def test_the_longest_kernel_fits_all_but_the_shortest_quarter_of_the_sequences() -> None:
    x = noise([20] * 3 + [100] * 9)
    assert fit_kernels(x, 0, 84 * 32).dilations[-1] == (100 - 1) // 8
    assert fit_kernels(noise([20] * 6 + [100] * 6), 0, 84 * 32).dilations[-1] == 2


def test_biases_are_quantiles_of_outputs() -> None:
    """With one training example, its own shares are one less the quantiles: multiples of the golden ratio."""
    x = noise([200])
    kernels = fit_kernels(x, 0, SMALL)
    wanted = 1 - np.arange(1, SMALL + 1) * (5**0.5 + 1) / 2 % 1
    # Those with an output at each of the 200 places; at the largest dilation the others have eight.
    padded = np.concatenate([np.repeat(padded_kernels(i), n) for i, n in enumerate(kernels.each)])
    assert kernels.transform(x)[0][padded] == pytest.approx(wanted[padded], abs=0.01)


def test_a_kernel_sums_few_distinct_channels() -> None:
    drawn = draw_channels(4, 12, 0)
    assert drawn.shape == (4, 84, 9)
    counts = (drawn >= 0).sum(axis=2)
    assert counts.min() == 1
    assert counts.max() == 9
    assert (counts < 5).mean() > 0.5
    assert drawn.max() == 11
    for kernel in drawn.reshape(-1, 9):
        some = kernel[kernel >= 0]
        assert len(set(some.tolist())) == len(some)


def test_level_and_unit_of_a_channel_do_not_matter() -> None:
    x = noise([50] * 8, channels=2)
    other = replace(x, values=(x.values * [1000, 0.25] + [64, -8]).astype(np.float32))
    first, two = (fit_kernels(y, 0, SMALL).transform(y) for y in (x, other))
    assert np.abs(first - two).max() <= 0.04 + 1e-6  # two of fifty places may change sides by rounding
    assert np.abs(first - two).mean() < 1e-3


def test_small_integers_are_taken_as_a_model_sees_them() -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (80, 1)).astype(np.uint8)
    stored = Examples(raw, np.array([0, 40, 80]), None, np.arange(2), scale=1 / 255, shift=-0.5)
    plain = replace(stored, values=stored.as_seen(raw), scale=None, shift=0.0)
    assert np.array_equal(
        fit_kernels(stored, 0, SMALL).transform(stored), fit_kernels(plain, 0, SMALL).transform(plain)
    )


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 2), (1_000, 1_100), (3_000, 5), (256 * 12, 100), (254, 1_024)])
def test_counts_are_whatever_the_shape(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=shape).astype(np.float32)
    outputs[:, 0] = 1.0  # counts beyond what one byte holds
    biases, result = np.float32([-1.5, 0.0, 2.0]), np.full((3, shape[1]), np.nan, np.float32)
    Counter(outputs.size)(outputs, biases, result)
    assert np.array_equal(result, (outputs > biases[:, None, None]).sum(axis=1))


def test_a_set_of_no_sequence_gives_no_row() -> None:
    x = noise([20] * 3)
    kernels = fit_kernels(x, 0, SMALL)
    assert kernels.transform(x.take(np.zeros(0, dtype=np.int64))).shape == (0, SMALL)


def test_a_constant_sequence_is_no_error() -> None:
    x = examples([np.full((20, 1), 3.0, dtype=np.float32)] * 2)
    assert np.isfinite(fit_kernels(x, 0, KERNELS).transform(x)).all()
