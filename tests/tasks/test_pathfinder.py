"""Pathfinder: geometry against slow references, bits, labels, and the task around them."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from headstart.errors import BadInput
from headstart.sequence import collate
from headstart.spec import read
from headstart.tasks import pathfinder
from headstart.tasks.pathfinder import PathfinderSpec, generate
from headstart.tasks.pathfinder.geometry import DIRECTIONS, FULL, UNIT, paint, recipe, tables
from headstart.tasks.task import open_task

SMALL = {"train": 40, "val": 10, "test": 10}


def _segment(centre: np.ndarray, direction: int, length: float, points: int = 41) -> np.ndarray:
    """(points, 2) points along a paddle's axis, in pixels."""
    angle = 2 * math.pi * direction / DIRECTIONS
    along = np.linspace(-length / 2, length / 2, points)[:, None]
    return centre / UNIT + along * np.array([math.sin(angle), math.cos(angle)])


def _apart(first: np.ndarray, other: np.ndarray) -> float:
    return float(np.hypot(*(first[:, None] - other[None, :]).transpose(2, 0, 1)).min())


@pytest.mark.parametrize(("size", "contour"), [(16, 6), (32, 14), (64, 6), (128, 14), (256, 9)])
def test_paddles_keep_their_gaps_turns_and_borders_and_all_ends_have_room_for_a_disc(size: int, contour: int) -> None:
    geometry = tables(recipe(size, contour))
    r = geometry.recipe
    index = np.arange(3)
    grown = generate.grow(geometry, 0, "test", index)
    margin = np.array(r.margins)[generate.below(0, "test/margin", len(r.margins), index)]
    limit = 90 / r.continuity
    for i in index:
        there = np.flatnonzero(grown.direction[i] >= 0)
        axes = {j: _segment(grown.centre[i, j], grown.direction[i, j], r.length) for j in there}
        snake = {j: j // contour if j < 2 * contour else 2 + (j - 2 * contour) // r.distractor for j in there}
        for j in there:
            inside = axes[j] - r.apron
            assert inside.min() > r.padding - 0.3
            assert inside.max() < size - r.padding + 0.3
            for k in there[there < j]:
                gap = _apart(axes[j], axes[k])
                if k == j - 1 and snake[k] == snake[j]:
                    assert gap == pytest.approx(margin[i], abs=0.15)
                    turn = (grown.direction[i, j] - grown.direction[i, k] + 36) % DIRECTIONS - 36
                    assert abs(turn) * 5 < limit
                else:
                    # Half a cell is allowed for rounding to cells, where a quarter pixel more was kept.
                    assert gap > margin[i] + r.thickness - 0.5
        for s in (0, 1):
            for end, own in ((0, s * contour), (1, s * contour + contour - 1)):
                disc = grown.ends[i, s, end][None] / UNIT
                others = [j for j in there if not (snake[j] == s and abs(j - own) <= 1)]
                assert min(_apart(disc, axes[j]) for j in others) > r.radius + margin[i] + r.thickness / 2 - 0.5


@pytest.mark.parametrize(("size", "snakes_", "length"), [(32, 5, 4), (64, 5, 4), (128, 8, 4), (256, 7, 4)])
def test_the_hard_recipes_have_the_published_distractors(size: int, snakes_: int, length: int) -> None:
    geometry = recipe(size, 14)
    assert (geometry.distractors, geometry.distractor) == (snakes_, length)


def test_turns_are_drawn_by_squared_cosines_where_nothing_is_in_the_way() -> None:
    geometry = tables(recipe(256, 6))
    blank = generate._blank(geometry)
    n, drawn = 64, []
    for first in range(0, 3200, n):
        index = np.arange(first, first + n)
        nobody = np.zeros(n, dtype=np.int64)
        maps = np.empty((2, n * blank.size), np.uint8)
        flock = generate.Flock(geometry, 0, "turns", index, nobody, nobody, maps, blank)
        grown = generate.Paddles.none(n, 2)
        start = np.full((n, 2), (128 + geometry.recipe.apron) * UNIT)
        generate._place(flock, grown, nobody + np.arange(n), 0, start, nobody)
        assert len(generate._extend(flock, 0, grown, np.arange(n), 1)) == n
        drawn.append((grown.direction[:, 1] + 36) % DIRECTIONS - 36)
    seen = np.concatenate(drawn)
    turns = np.arange(-9, 10)
    law = np.cos(np.radians(np.minimum(1.8 * 5 * np.abs(turns), 90))) ** 2
    expected = law / law.sum() * len(seen)
    counts = np.array([(seen == t).sum() for t in turns])
    assert counts.sum() == len(seen)
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 18 + 4 * math.sqrt(2 * 18)


@pytest.mark.parametrize(("size", "contour"), [(16, 6), (32, 14), (256, 14)])
def test_paint_agrees_with_sampling_every_pixel_one_by_one(size: int, contour: int) -> None:
    geometry = tables(recipe(size, contour))
    r = geometry.recipe
    grown = generate.grow(geometry, 1, "test", np.arange(1))
    discs = grown.ends[:, 0]
    picture = paint(geometry, grown.centre, grown.direction, discs)[0]
    ink = np.zeros((size, size))
    line = (np.arange(size * 2) + 0.5) / 2 + r.apron
    y, x = line[:, None], line[None, :]

    def quarter(at: np.ndarray) -> np.ndarray:
        return np.floor(at / 4 + 0.5) / 4

    def lay(lit: np.ndarray, bright: float) -> None:
        samples = lit.reshape(size, 2, size, 2).sum((1, 3))
        np.maximum(ink, np.floor(samples * bright / 4), out=ink)

    for j in np.flatnonzero(grown.direction[0] >= 0):
        cy, cx = quarter(grown.centre[0, j])
        angle = math.pi / 36 * (grown.direction[0, j] % 36)
        along = (x - cx) * math.cos(angle) + (y - cy) * math.sin(angle)
        aside = (y - cy) * math.cos(angle) - (x - cx) * math.sin(angle)
        covered = (np.abs(along) <= r.length / 2 + 1e-9) & (np.abs(aside) <= r.thickness / 2 + 1e-9)
        lay(covered, FULL * r.contrast)
    for cy, cx in (quarter(at) for at in discs[0]):
        lay((y - cy) ** 2 + (x - cx) ** 2 <= r.radius**2 + 1e-9, FULL)
    assert np.array_equal(picture, np.floor(ink * 255 / ink.max() + 0.5).astype(np.uint8))


@pytest.mark.parametrize(("size", "contour"), [(16, 6), (32, 14)])
def test_discs_end_one_contour_exactly_when_the_label_says_so(size: int, contour: int) -> None:
    geometry, count = tables(recipe(size, contour)), 400
    pictures, label, discs = generate.images(geometry, 0, "test", 0, count)
    ends = generate.grow(geometry, 0, "test", np.arange(count)).ends / UNIT - geometry.recipe.apron
    for i in range(count):
        owner = [next(s for s in (0, 1) if (ends[i, s, e] == discs[i, e]).all()) for e in (0, 1)]
        assert (owner[0] == owner[1]) == bool(label[i])
        # A disc is one of the two brightest things: full, or what full is beside a paddle's overlap.
        for at in np.floor(discs[i]).astype(int):
            assert pictures[i, at[0], at[1]] >= 127
    assert abs(label.mean() - 0.5) < 4 * 0.5 / math.sqrt(count)
    assert pictures.min((1, 2)).max() == 0
    assert pictures.max((1, 2)).min() == 255


def test_an_image_is_the_same_in_any_company() -> None:
    for size in (32, 128):
        geometry = tables(recipe(size, 14))
        whole = generate.images(geometry, 0, "test", 0, 12)
        part = generate.images(geometry, 0, "test", 5, 3)
        for first, other in zip(whole, part, strict=True):
            assert np.array_equal(first[5:8], other)


@pytest.mark.parametrize(
    ("size", "contour", "frozen"),
    [
        (16, 6, "93f01d5837772883"),
        (32, 14, "eef7e2391a55cce4"),
        (64, 9, "dd0d0d658bd37301"),
        (128, 6, "53113927ba2262d3"),
        (256, 14, "57639935a7ba84ee"),
    ],
)
def test_the_generator_gives_the_bits_that_its_version_stands_for(size: int, contour: int, frozen: str) -> None:
    pictures, label, _ = generate.images(tables(recipe(size, contour)), 0, "golden", 0, 4)
    assert hashlib.sha256(pictures.tobytes() + label.tobytes()).hexdigest()[:16] == frozen


@pytest.mark.parametrize(("size", "contour"), [(16, 6), (32, 14)])
def test_neither_pixels_nor_their_number_tell_the_label(size: int, contour: int) -> None:
    pictures, label, _ = generate.images(tables(recipe(size, contour)), 3, "test", 0, 4096)
    lit = (pictures > 0).sum((1, 2))
    error = lit.std() * math.sqrt(4 / len(lit))
    assert abs(lit[label == 1].mean() - lit[label == 0].mean()) < 4 * error
    # By symmetry each pixel has the same mean under both labels: the largest of all differences is chance.
    flat = pictures.reshape(len(label), -1) / 255.0
    spread = flat.std(0) * math.sqrt(4 / len(label)) + 1e-12
    assert np.abs((flat[label == 1].mean(0) - flat[label == 0].mean(0)) / spread).max() < 5


def test_the_task_has_bytes_on_disk_and_floats_of_256_levels_for_a_model(tmp_path: Path) -> None:
    task = open_task(PathfinderSpec(**SMALL), tmp_path)
    signature = task.signature
    assert (signature.length, signature.width, signature.levels, signature.classes) == (1024, 1, 256, 2)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [40, 10, 10]
    assert task.train.values.dtype == np.uint8
    seen = task.train.as_seen(np.arange(256, dtype=np.uint8)[:, None])
    assert seen.min() == -1.0
    assert seen.max() == pytest.approx(1.0, abs=1e-6)
    levels = np.rint(seen * np.float32(signature.level_scale) + np.float32(signature.level_shift))
    assert np.array_equal(levels[:, 0], np.arange(256))
    batch = collate(task.val, np.array([3]))
    assert batch.inputs.shape == (1, 1024, 1)
    assert task.picture is not None
    picture = task.picture(batch.inputs[0].numpy())
    assert np.allclose(picture * 255, task.val.values[3 * 1024 : 4 * 1024].reshape(32, 32), atol=1e-3)
    everyone = np.concatenate([task.split(s).index for s in ("train", "val", "test")])
    assert np.array_equal(everyone, np.arange(60))


def test_the_same_bits_come_from_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, fingerprints = PathfinderSpec(**SMALL), []
    monkeypatch.setitem(pathfinder._TOGETHER, 32, 7)
    for workers in (1, 3):
        monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / str(workers)))
        spec.prepare(tmp_path, workers)
        fingerprints.append(spec.load(tmp_path).fingerprint)
    monkeypatch.setitem(pathfinder._TOGETHER, 32, 2048)
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "whole"))
    fingerprints.append(spec.load(tmp_path).fingerprint)
    assert len(set(fingerprints)) == 1


def test_a_prepared_task_is_opened_not_generated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = PathfinderSpec(**SMALL).load(tmp_path)
    monkeypatch.setattr(pathfinder, "images", None)
    again = PathfinderSpec(**SMALL, fraction=0.5).load(tmp_path)
    assert np.array_equal(first.train.values, again.train.values)


def test_an_image_does_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    some = PathfinderSpec(**SMALL).load(tmp_path)
    more = PathfinderSpec(train=45, val=10, test=12).load(tmp_path)
    assert np.array_equal(more.train.values[: 40 * 1024], some.train.values)
    assert np.array_equal(more.test.values[: 10 * 1024], some.test.values)


def test_an_image_in_two_splits_is_refused(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def same(*arguments: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count = int(str(arguments[-1]))
        return np.zeros((count, 32, 32), np.uint8), np.zeros(count, np.uint8), np.zeros((count, 2, 2))

    monkeypatch.setattr(pathfinder, "images", same)
    with pytest.raises(BadInput, match="gives one image to both train and val; take another seed"):
        PathfinderSpec(**SMALL).load(tmp_path)
    assert not list((own_cache / "prepared").glob("pathfinder*"))


def test_a_size_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(BadInput, match=r"task.size: 48 should be 16, 32, 64, 128 or 256"):
        read(PathfinderSpec, {"kind": "pathfinder", "size": 48}, "task")


def test_the_distance_of_the_discs_is_given_as_a_baseline(tmp_path: Path) -> None:
    (baseline,) = PathfinderSpec(**SMALL).load(tmp_path).baselines
    assert baseline.name == "distance of the discs"
    assert baseline.val is not None
    assert 0 <= baseline.val <= 1


def test_size_16_is_said_to_be_our_own_and_holds_contours_of_6_only(tmp_path: Path) -> None:
    task = PathfinderSpec(size=16, contour_length=6, **SMALL).load(tmp_path)
    assert (task.signature.length, task.signature.levels) == (256, 256)
    assert task.notes == ("16 x 16 pixels are a size of our own, none of Long Range Arena's",)
    assert PathfinderSpec(**SMALL).load(tmp_path).notes == ()
    for contour in (14, 9):
        with pytest.raises(BadInput, match=rf"contour_length: {contour} paddles have no room .* contour_length = 6"):
            read(PathfinderSpec, {"kind": "pathfinder", "size": 16, "contour_length": contour}, "task")


def test_the_distance_of_the_discs_tells_little_at_size_16() -> None:
    _, label, discs = generate.images(tables(recipe(16, 6)), 0, "test", 0, 6000)
    near = np.rint(np.hypot(*(discs[:, 0] - discs[:, 1]).T)).astype(int)
    answer = 2 * np.bincount(near[:4000], label[:4000], minlength=30) > np.bincount(near[:4000], minlength=30)
    assert abs((answer[near[4000:]] == label[4000:]).mean() - 0.5) < 0.06
