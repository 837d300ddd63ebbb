"""Competing kernels and quantiles against slow transforms that loop over every place, alone and beside random kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.made_series import examples, noise, signature, waves

from headstart.baselines import from_arrays, shapes
from headstart.baselines import hydra as module
from headstart.baselines.features import filled
from headstart.baselines.hydra import GROUP_KERNELS, KERNEL_GROUPS, Hydra, channels_of, fit_hydra
from headstart.baselines.kernels import KernelsAndMore, KernelsSpec, fit_kernels
from headstart.baselines.quant import MOST_QUANTILES, Quant, fit_quant, intervals
from headstart.errors import BadInput
from headstart.sequence import Examples


def slow_hydra(hydra: Hydra, x: Examples) -> tuple[np.ndarray, np.ndarray]:
    """(features, how far they may be off): every output as a sum over nine places, in float64.

    Outputs that lie within 1e-5 of the best of their group may or may not count in float32.
    """
    values = filled(x, hydra.mean, hydra.spread).astype(np.float64)
    out = np.zeros((len(x), len(hydra.dilations), 2, KERNEL_GROUPS, GROUP_KERNELS, 2))
    doubt = np.zeros_like(out)
    for row in range(len(x)):
        sequence = values[x.offsets[row] : x.offsets[row + 1]]
        steps = np.concatenate([np.zeros_like(sequence[:1]), np.diff(sequence, axis=0)])
        for at, dilation in enumerate(hydra.dilations.tolist()):
            for side, side_values in enumerate((sequence, steps)):
                for group in range(KERNEL_GROUPS):
                    summed = side_values[:, hydra.channels[at, side, group]].sum(axis=1)
                    for t in range(len(summed)):
                        places = t + (np.arange(9) - 4) * dilation
                        there = (places >= 0) & (places < len(summed))
                        outputs = hydra.weights[at, side, group][:, there].astype(float) @ summed[places[there]]
                        most, least = outputs.max(), outputs.min()
                        out[row, at, side, group, outputs == most, 0] += max(most, 0)
                        out[row, at, side, group, outputs == least, 1] += 1
                        near = np.abs(outputs - most) < 1e-5, np.abs(outputs - least) < 1e-5
                        doubt[row, at, side, group, near[0], 0] += max(most, 0) if near[0].sum() > 1 else 1e-5
                        doubt[row, at, side, group, near[1], 1] += 1 if near[1].sum() > 1 else 0
    lengths = x.lengths[:, None]
    plain, off = (a.reshape(len(x), -1) / lengths for a in (out, doubt))
    return np.sqrt(plain), np.maximum(
        np.sqrt(plain + off) - np.sqrt(plain), np.sqrt(plain) - np.sqrt(np.maximum(plain - off, 0))
    )


@pytest.mark.parametrize(
    ("train", "x"),
    [
        (noise([20] * 3), noise([20] * 3)),
        (noise([12, 20, 20, 30]), noise([1, 2, 9, 17, 33], seed=1)),
        (noise([18] * 3, channels=3), noise([18, 5, 20], channels=3, seed=1)),
        (noise([12] * 3), noise([300, 290], seed=1)),
    ],
    ids=["one length", "unequal lengths", "channels", "more positions than a byte counts"],
)
def test_competing_kernels_equal_a_slow_transform(train: Examples, x: Examples) -> None:
    hydra = fit_hydra(train, 0)
    wanted, doubt = slow_hydra(hydra, x)
    assert (doubt > 0.02).mean() < 0.1, "the comparison would say little"
    assert (np.abs(hydra.transform(x) - wanted) <= doubt + 1e-5).all()


def test_kernels_are_drawn_by_the_seed_without_a_mean_and_of_one_size() -> None:
    x = noise([100] * 4, channels=5)
    first, same, other = (fit_hydra(x, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(v, same.arrays()[k]) for k, v in first.arrays().items())
    assert not np.array_equal(first.weights, other.weights)
    assert np.allclose(first.weights.sum(-1), 0, atol=1e-6)
    assert np.allclose(np.abs(first.weights).sum(-1), 1, atol=1e-5)
    assert first.dilations.tolist() == [1, 2, 4, 8]
    assert first.channels.shape[-1] == channels_of(5) == 2


def slow_quant(quant: Quant, x: Examples) -> np.ndarray:
    """(n, P): quantiles of each interval, one at a time."""
    values = filled(x, quant.mean, quant.spread).astype(np.float64)
    rows = []
    for row in range(len(x)):
        columns = []
        sequence = values[x.offsets[row] : x.offsets[row + 1]]
        steps = np.diff(sequence, axis=0)
        smooth = [
            np.mean([steps[min(max(i + k, 0), len(steps) - 1)] for k in (-2, -1, 0, 1, 2)], axis=0)
            for i in range(len(steps))
        ]
        amplitudes = [
            np.abs(sum(sequence[t] * np.exp(-2j * np.pi * f * t / len(sequence)) for t in range(len(sequence))))
            for f in range(len(sequence) // 2 + 1)
        ]
        usual = quant.length
        for part, length in zip(
            (sequence, smooth, np.diff(steps, axis=0), amplitudes),
            (usual, max(usual - 1, 1), max(usual - 2, 1), usual // 2 + 1),
            strict=True,
        ):
            some = np.array(part) if len(part) else np.zeros((1, sequence.shape[1]))
            for low, high, count in intervals(length, quant.share):
                first = min(int(np.floor(low * len(some))), len(some) - 1)
                inside = some[first : max(int(np.ceil(high * len(some) - 1e-9)), first + 1)]
                for channel in range(sequence.shape[1]):
                    for i in range(count):
                        position = (i / (count - 1) if count > 1 else 0.5) * (len(inside) - 1)
                        ordered = np.sort(inside[:, channel])
                        low_at = int(position)
                        high_at = min(low_at + 1, len(inside) - 1)
                        value = ordered[low_at] + (position - low_at) * (ordered[high_at] - ordered[low_at])
                        columns.append(value - inside[:, channel].mean() if i % 2 else value)
        rows.append(columns)
    return np.array(rows)


@pytest.mark.parametrize(
    ("train", "x"),
    [
        (noise([40] * 3), noise([40] * 3)),
        (noise([20, 30, 41]), noise([1, 2, 3, 9, 33, 80], seed=1)),
        (noise([26] * 3, channels=3), noise([26, 5, 26], channels=3, seed=1)),
    ],
    ids=["one length", "unequal lengths", "channels"],
)
def test_quantiles_equal_a_slow_transform(train: Examples, x: Examples) -> None:
    quant = fit_quant(train)
    assert np.allclose(quant.transform(x), slow_quant(quant, x), atol=2e-4)


def test_intervals_are_those_of_the_paper() -> None:
    """Of 16 positions: the whole, its halves and the one between, quarters and the three between, and so on."""
    own = intervals(16, 4)
    assert [(a, b) for a, b, _ in own[:4]] == [(0, 1), (0, 0.5), (0.5, 1), (0.25, 0.75)]
    assert [count for _, _, count in own[:4]] == [4, 2, 2, 2]
    assert len(own) == 1 + 3 + 7 + 15 + 16


def test_wide_or_long_sequences_keep_fewer_quantiles() -> None:
    assert fit_quant(noise([5_000] * 2)).size <= MOST_QUANTILES
    assert fit_quant(noise([300] * 2, channels=12)).size <= MOST_QUANTILES


def test_a_row_does_not_depend_on_the_sequences_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = noise([30, 12, 41, 41, 7, 90, 41], channels=2)
    for features in (fit_hydra(x, 0), fit_quant(x)):
        together = features.transform(x)
        alone = np.concatenate([features.transform(x.take(np.array([i]))) for i in range(len(x))])
        assert np.allclose(together, alone, atol=1e-5)
        monkeypatch.setattr(module, "HYDRA_POSITIONS", 60)
        monkeypatch.setattr(module, "OUTPUTS_IN_CACHE", 1)
        assert np.allclose(together, features.transform(x), atol=1e-5)
        monkeypatch.undo()


def test_hidden_values_cannot_matter() -> None:
    x = noise([30, 30, 21], channels=2)
    seen = np.random.default_rng(0).random(x.values.shape) < 0.8
    x = replace(x, observed=seen)
    other = replace(x, values=np.where(seen, x.values, 1e6).astype(np.float32))
    assert np.array_equal(fit_hydra(x, 0).transform(x), fit_hydra(other, 0).transform(other))
    assert np.array_equal(fit_quant(x).transform(x), fit_quant(other).transform(other))


@pytest.mark.slow
def test_side_by_side_they_are_one_model_that_comes_back_from_its_arrays() -> None:
    train, val, x = waves(60, 0), waves(20, 1), waves(40, 2)
    model = KernelsSpec(features=84, also=("hydra", "quant")).fit(train, val, signature("waves"), 0)
    assert isinstance(model.features, KernelsAndMore)
    parts = [fit_kernels(train, 0, 84), fit_hydra(train, 0), fit_quant(train)]
    assert np.array_equal(model.features.transform(x), np.concatenate([part.transform(x) for part in parts], axis=1))
    facts = model.facts.model_dump(mode="json")
    expected = shapes(facts)
    assert {name: (str(a.dtype), a.shape) for name, a in model.arrays().items()} == expected
    again = from_arrays(facts, model.arrays())
    assert np.array_equal(again.predict(x), model.predict(x))
    assert (model.predict(x).argmax(1) == x.target).mean() > 0.8
    with pytest.raises(BadInput, match="'size' does not fit"):
        shapes({**facts, "sizes": {k: v for k, v in facts["sizes"].items() if k != "hydra.dilations"}})


def test_without_more_features_a_spec_is_what_it_was() -> None:
    assert "also" not in KernelsSpec().document()
    assert KernelsSpec(also=("quant",)).document()["also"] == ["quant"]
    assert KernelsSpec(also=("quant", "hydra")).describe() == (
        "a ridge regression on random convolution kernels, quantiles of intervals, competing kernels (n-grams of tokens)"
    )


def test_sequences_of_one_position_have_features() -> None:
    x = examples([np.array([[1.0]], np.float32), np.array([[2.0]], np.float32)])
    for features in (fit_hydra(x, 0), fit_quant(x)):
        assert np.isfinite(features.transform(x)).all()
