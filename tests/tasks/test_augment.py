"""Augmented images: what stays, what moves, and that training sees them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from headstart.sequence import Examples
from headstart.stage import read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks.digits import DigitsSpec
from headstart.tasks.images import SHIFT, _sampled, augmented, augmenter, tiled, untiled
from headstart.tasks.task import open_task


def spot(row: int, column: int) -> np.ndarray:
    image = np.zeros((1, 32, 32, 1), dtype=np.uint8)
    image[0, row - 1 : row + 2, column - 1 : column + 2] = 200
    return image


def test_sampling_at_the_pixels_themselves_changes_nothing() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 9, 7, 3), dtype=np.uint8)
    rows, columns = np.meshgrid(np.arange(9.0), np.arange(7.0), indexing="ij")
    same = _sampled(images, np.broadcast_to(rows, (3, 9, 7)), np.broadcast_to(columns, (3, 9, 7)))
    assert np.array_equal(same, images)
    half = _sampled(images, np.broadcast_to(rows + 0.5, (3, 9, 7)), np.broadcast_to(columns, (3, 9, 7)))
    between = np.rint((images[:, :-1].astype(float) + images[:, 1:]) / 2)
    assert np.abs(half[:, :-1] - between).max() <= 1


def test_a_spot_moves_no_further_than_shift_and_angle_allow() -> None:
    image = np.repeat(spot(16, 26), 200, axis=0)
    changed = augmented(image, np.arange(200), 0, 0, mirror=False)[..., 0].astype(float)
    mass = changed.sum((1, 2))
    rows = (changed.sum(2) * np.arange(32)).sum(1) / mass
    columns = (changed.sum(1) * np.arange(32)).sum(1) / mass
    # 10.5 pixels from the middle: 20 degrees move it up to 3.6 across and 0.7 inwards.
    assert (np.abs(rows - 16) <= SHIFT + 4).all()
    assert (np.abs(columns - 26) <= SHIFT + 1.5).all()
    assert rows.std() > 2
    assert columns.std() > 2


def test_mirroring_is_by_chance_and_only_where_asked() -> None:
    image = np.repeat(spot(16, 28), 300, axis=0)
    left = augmented(image, np.arange(300), 1, 0, mirror=True)[..., 0][:, :, :16].sum((1, 2)) > 0
    assert 100 < left.sum() < 200
    assert not augmented(image, np.arange(300), 1, 0, mirror=False)[..., 0][:, :, :16].any()


def test_an_image_changes_by_example_and_epoch_and_not_by_its_place() -> None:
    images = np.random.default_rng(1).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    number = np.array([4, 8, 15, 16, 23])
    whole = augmented(images, number, 3, 0, mirror=True)
    assert np.array_equal(augmented(images[::-1], number[::-1], 3, 0, mirror=True), whole[::-1])
    assert not np.array_equal(augmented(images, number, 4, 0, mirror=True), whole)


def test_training_sees_augmented_examples_and_val_stays() -> None:
    task = open_task(DigitsSpec(labelled=100), Path("none"))
    seen: list[int] = []

    def change(examples: Examples, epoch: int) -> Examples:
        seen.append(epoch)
        return replace(examples, values=examples.values[::-1].copy())

    spec = read_stage(
        {
            "task": {"kind": "digits", "labelled": 100},
            "objective": {"kind": "classify"},
            "budget": {"epochs": 2},
            "model": {"width": 8, "blocks": 1},
        },
    )
    run = TrainedRun(spec, replace(task, augment=change), None)
    for _ in run.steps():
        pass
    assert seen == [0, 1]
    assert run.setting.fresh is not None
    assert len(run.setting.fresh(5).units) == 100


def test_bytes_of_tiles_become_images_and_tiles_again() -> None:
    images = np.random.default_rng(2).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    rows = tiled(images, 4)
    assert np.array_equal(untiled(rows, 32, 3, 4), images)
    change = augmenter(32, 3, 4, 0, mirror=True)
    examples = Examples(rows.reshape(-1, 48), np.arange(5) * 64, np.zeros(4, dtype=np.int64), np.arange(4))
    expected = tiled(augmented(images, np.arange(4), 7, 0, mirror=True), 4)
    assert np.array_equal(change(examples, 7).values.reshape(4, 64, 48), expected)
