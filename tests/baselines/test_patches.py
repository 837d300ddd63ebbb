"""Random patches of images against a slow transform that loops over images, places and filters; what is an image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.made_series import examples, noise

from headstart.baselines import from_arrays, patches, shapes
from headstart.baselines.features import filled
from headstart.baselines.kernels import KernelsAndMore, KernelsSpec, fields_within, fit_kernels
from headstart.baselines.patches import Patches, fit_patches, image_side, patch_side
from headstart.errors import BadInput
from headstart.sequence import Examples, Signature


def images(n: int, seed: int, side: int = 12, channels: int = 1) -> Examples:
    """A bright bar on noise, lying, standing or slanting, which is the class."""
    rng = np.random.default_rng(seed)
    target, down, across = rng.integers(0, 3, n), *np.mgrid[:side, :side]
    rows = []
    for kind in target:
        bar, at = (down, across, (down + across) / 2)[kind], rng.uniform(2, side - 3)
        stroke = np.abs((across, down, (down - across) / 2)[kind] - rng.uniform(-1, 1) * side / 4) < side / 4
        image = np.exp(-((bar - at) ** 2) / 3) * 4 * stroke + rng.normal(0, 0.3, (side, side))
        rows.append(np.repeat(image.reshape(-1, 1), channels, 1).astype(np.float32) + np.arange(channels))
    return examples(rows, target)


def slow_patches(fitted: Patches, x: Examples) -> np.ndarray:
    """(n, P): each filter at each place of each image, added to the third of the image that the place is in."""
    side, wide = fitted.side, patch_side(fitted.side)
    places, out = side - wide + 1, np.zeros((len(x), 3, 3, 2, len(fitted.offset)))
    values = filled(x, fitted.mean, fitted.spread).astype(np.float64)
    ends = [round(places / 3), round(2 * places / 3)]
    for row in range(len(x)):
        pixels = values[x.offsets[row] : x.offsets[row + 1]].mean(axis=1)
        for down in range(places):
            for across in range(places):
                patch = np.array([pixels[(down + i) * side + across + j] for i in range(wide) for j in range(wide)])
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.01)
                third = sum(down >= end for end in ends), sum(across >= end for end in ends)
                for k, (filter_, offset) in enumerate(zip(fitted.filters.T, fitted.offset, strict=True)):
                    output = float(patch @ filter_.astype(np.float64)) - float(offset)
                    out[(row, *third, 0, k)] += max(output - 0.5, 0)
                    out[(row, *third, 1, k)] += max(-output - 0.5, 0)
    return out.reshape(len(x), -1)


@pytest.mark.parametrize(("side", "channels"), [(8, 1), (11, 3), (16, 1)])
def test_features_are_those_of_loops_over_images_places_and_filters(side: int, channels: int) -> None:
    fitted, x = fit_patches(images(30, 0, side, channels), 0), images(2, 1, side, channels)
    wanted = slow_patches(fitted, x)
    assert wanted.any()
    np.testing.assert_allclose(fitted.transform(x), wanted, atol=2e-4, rtol=1e-4)


def test_filters_are_whitened_patches_of_train_images_of_unit_length() -> None:
    """The length is that before they are brought back to pixels: filters = whitening @ unit."""
    train = images(40, 0, 16)
    fitted = fit_patches(train, 0)
    mean, spread, side = fitted.mean, fitted.spread, 16
    cut = np.concatenate([patches.cut(image, 6) for image in patches.grey(train, mean, spread, side)])
    assert len(cut) == 40 * 11**2 < patches.DRAWN_PATCHES, "all of them take part"
    values, axes = np.linalg.eigh(np.cov(cut.astype(np.float64).T))
    back = axes @ np.diag((values + 0.1) ** 0.5) @ axes.T
    assert np.allclose(np.linalg.norm(back @ fitted.filters, axis=0), 1, atol=1e-3)
    assert np.allclose(fitted.offset, cut.mean(axis=0) @ fitted.filters, atol=1e-3)


def test_the_seed_draws_labels_say_nothing_and_neighbours_change_no_bit() -> None:
    x = images(40, 0)
    same, other = fit_patches(replace(x, target=None), 0), fit_patches(x, 1)
    fitted = fit_patches(x, 0)
    assert np.array_equal(fitted.filters, same.filters)
    assert not np.array_equal(fitted.filters, other.filters)
    some = np.array([5, 3, 39])
    assert np.array_equal(fitted.transform(x)[some], fitted.transform(x.take(some)))


def test_a_gap_is_crossed_and_a_plain_image_has_features() -> None:
    x = images(20, 0)
    observed = np.ones(x.values.shape, bool)
    observed[::7] = False
    for each in (replace(x, observed=observed), replace(x, values=np.ones_like(x.values))):
        assert np.isfinite(fit_patches(each, 0).transform(each)).all()


def test_beside_kernels_they_are_one_model_that_comes_back_from_its_arrays() -> None:
    train, x = images(60, 0), images(60, 1)
    signature = Signature("floats", 1, 144, 144, "class", classes=3)
    model = KernelsSpec(features=84, also=("patches",)).fit(train, images(20, 2), signature, 0)
    assert isinstance(model.features, KernelsAndMore)
    both = [fit_kernels(train, 0, 84).transform(x), fit_patches(train, 0).transform(x)]
    assert np.array_equal(model.features.transform(x), np.concatenate(both, axis=1))
    facts = model.facts.model_dump(mode="json")
    assert {name: (str(a.dtype), a.shape) for name, a in model.arrays().items()} == shapes(facts)
    assert np.array_equal(from_arrays(facts, model.arrays()).predict(x), model.predict(x))
    assert (model.predict(x).argmax(1) == x.target).mean() > 0.8
    with pytest.raises(BadInput, match="'side' does not fit"):
        shapes({**facts, "sizes": {**facts["sizes"], "patches.side": 3}})
    with pytest.raises(
        BadInput, match=r"images of 12 x 12 pixels .* a sequence has 100 positions; give sequences of 144"
    ):
        model.predict(images(3, 0, 10))
    assert "random patches of images" in KernelsSpec(also=("patches",)).describe()


def test_other_sequences_have_no_patches() -> None:
    for x in (noise([144, 100]), noise([49, 49]), noise([144, 144], channels=2)):
        with pytest.raises(BadInput, match="'patches' are of square images"):
            fit_patches(x, 0)


def test_images_are_told_by_neighbours_of_a_column() -> None:
    for side, channels in ((8, 1), (12, 3), (28, 1)):
        x = images(40, 0, side, channels)
        assert image_side(x, x.lengths) == side
        assert image_side(x, np.append(x.lengths, side**2 - 1)) == 0, "some sequence is none"
    assert image_side(images(40, 0, 7), np.full(40, 49)) == 0


@pytest.mark.parametrize("length", [144, 196, 1_024])
def test_series_of_a_square_length_are_no_images(length: int) -> None:
    """Beats, walks, waves of any speed, seasons as long as a side, noise, steps and constants, of so many steps."""
    rng, time = np.random.default_rng(0), np.arange(length)

    def season(phase: float) -> np.ndarray:
        return np.asarray(np.sin(2 * np.pi * time / np.sqrt(length) + phase))

    beat = np.exp(-(((time - 0.4 * length) / (0.03 * length)) ** 2)) + 0.3 * np.exp(-(((time - 0.7 * length) / 9) ** 2))
    families = {
        "beats": [np.roll(beat, rng.integers(-9, 9)) + rng.normal(0, 0.05, length) for _ in range(40)],
        "walks": [np.cumsum(rng.normal(size=length)) for _ in range(40)],
        "waves": [np.sin(time * rng.uniform(0.05, 2) + rng.uniform(0, 6)) for _ in range(40)],
        "seasons": [season(rng.uniform(0, 6)) + rng.normal(0, 0.3, length) for _ in range(40)],
        "seasons from one day on": [season(0) * rng.uniform(0.3, 2) + rng.normal(0, 0.3, length) for _ in range(40)],
        "seasons that grow": [
            season(rng.uniform(0, 6)) * (1 + 4 * time / length) + 5 * time / length + rng.normal(0, 0.3, length)
            for _ in range(40)
        ],
        "noise": [rng.normal(size=length) for _ in range(40)],
        "steps": [(time > rng.integers(0, length)).astype(float) for _ in range(40)],
        "constants": [np.ones(length) for _ in range(40)],
    }
    for name, rows in families.items():
        x = examples([row[:, None].astype(np.float32) for row in rows])
        assert image_side(x, x.lengths) == 0, name
    tokens = Examples(np.zeros(2 * length, np.int64), np.array([0, length, 2 * length]), None, np.arange(2))
    assert image_side(tokens, tokens.lengths) == 0


@pytest.mark.parametrize(
    ("rows", "side", "seconds", "expected"),
    [
        (1_000, 28, 10.0, {"features": 2_520, "also": ["patches"]}),
        (1_000, 28, 20.0, {"also": ["patches"]}),
        (1_000, 28, 60.0, {"also": ["hydra", "patches"]}),
        (1_000, 32, 20.0, {"features": 2_520, "also": ["patches"]}),
        (1_000, 32, None, {"also": ["hydra", "patches"]}),
        (5_000, 28, 10.0, {"features": 2_520}),
        (5_000, 28, 60.0, {}),
        (5_000, 28, None, {"features": 2_520, "also": ["patches"]}),  # all kernels beside them take 3 GB
        (60_000, 28, None, {}),
    ],
)
def test_images_have_patches_where_there_is_time_and_memory(
    rows: int, side: int, seconds: float | None, expected: dict[str, object]
) -> None:
    lengths = np.full(rows, side**2)
    assert fields_within(lengths, 1, seconds, rows * 6 // 10, images=True) == expected
    assert "patches" not in fields_within(lengths, 1, seconds, rows, images=False).get("also", ())
