"""Waves: against a slow generator, what is and what is not to be read from them, and the task around them."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trivial import trivial_scores

from headstart.data.splits import overlaps
from headstart.errors import BadInput
from headstart.seeds import below, bits
from headstart.spec import read
from headstart.tasks.stand_ins import CYCLE, DETUNE, WavesSpec, balanced, frequencies
from headstart.tasks.task import SPLITS, Task, open_task

NOWHERE = Path("nowhere")
SMALL: dict[str, Any] = {"train": 40, "val": 12, "test": 20}


def windows(task: Task, split: str) -> np.ndarray:
    """(n, L, F) values."""
    x = task.split(split)
    return x.values.reshape(len(x), -1, task.signature.width)


def spectrum(values: np.ndarray) -> np.ndarray:
    """(n, 40 F) logarithm of the loudness at 1 to 40 cycles per window."""
    power = np.abs(np.fft.rfft(values, axis=1))[:, 1:41]
    return np.log(power + 1).reshape(len(values), -1)


def slow_window(spec: WavesSpec, split: str, i: int, frequency: list[int]) -> np.ndarray:
    """One window by sines of real numbers: (L, F)."""
    out, stream, seed = np.zeros((spec.length, spec.channels)), f"waves/{split}", spec.data_seed
    for c in range(spec.channels):
        for t in range(spec.length):
            for s, cycles in enumerate(frequency):
                turns = int(bits(seed, f"{stream}/phase", i, s, c)) / 2**32 + cycles / CYCLE * t / spec.length
                loud = 0.5 + int(below(seed, f"{stream}/amplitude", 257, i, s, c)) / 256
                out[t, c] += loud * math.sin(2 * math.pi * turns)
            word = int(bits(seed, f"{stream}/noise", i, t, c))
            out[t, c] += spec.noise * (sum(word.to_bytes(4, "little")) - 510) / math.sqrt(4 * 65535 / 12)
    deviation: float = math.sqrt(3 * 13 / 12 / 2 + spec.noise**2)
    return out / deviation


@pytest.mark.parametrize("target", ["class", "number"])
def test_windows_are_what_sines_one_by_one_give(target: str) -> None:
    spec = WavesSpec(target=target, length=100, channels=2, classes=5, data_seed=3, scale_target=False, **SMALL)
    task = spec.load(NOWHERE)
    for i in (0, 7):
        answer = task.test.target[i]
        if target == "class":
            centre = frequencies(5)[answer].tolist()
            beside = [int(below(3, "waves/test/detune", 2 * DETUNE + 1, i, s)) - DETUNE for s in range(3)]
            assert max(map(abs, beside)) <= 1.5 * CYCLE
            frequency = [f + b for f, b in zip(centre, beside, strict=True)]
        else:
            up = [int(below(3, "waves/test/frequency", w + 1, i, s)) for s, w in enumerate((8192, 4096, 4096))]
            frequency = [4096 + up[0], 6144 + sum(up[:2]), 8192 + sum(up)]
            assert answer == frequency[0] / CYCLE
        # Sines are looked up at 4,096 places and amplitudes of noise are whole numbers.
        assert np.abs(windows(task, "test")[i] - slow_window(spec, "test", i, frequency)).max() < 5e-3


def test_values_have_a_deviation_of_one_whatever_the_noise() -> None:
    for noise in (0.0, 0.5, 3.0):
        values = WavesSpec(noise=noise, **SMALL).load(NOWHERE).train.values
        assert values.dtype == np.float32
        assert abs(values.std() - 1) < 0.1
        assert abs(values.mean()) < 0.02


@pytest.mark.parametrize(("classes", "pool"), [(2, 4), (4, 4), (5, 5), (10, 5), (35, 7)])
def test_sets_are_different_and_come_from_as_few_frequencies_as_there_can_be(classes: int, pool: int) -> None:
    power = frequencies(classes)
    assert power.shape == (classes, 3)
    assert len({tuple(row) for row in power.tolist()}) == classes
    assert (np.diff(power, axis=1) > 2 * DETUNE).all()
    assert set(power.reshape(-1).tolist()) <= {(4 + 4 * k) * CYCLE for k in range(pool)}
    assert math.comb(pool - 1, 3) < classes or pool == 4


def test_labels_are_balanced_and_in_no_fixed_order() -> None:
    label = balanced(0, "test", 5, np.arange(53))
    assert np.bincount(label[:50]).tolist() == [10] * 5
    assert len(set(label[50:].tolist())) == 3
    assert len({tuple(label[i : i + 5].tolist()) for i in range(0, 50, 5)}) > 5
    assert np.array_equal(balanced(0, "test", 5, np.arange(20, 30)), label[20:30])


def test_no_position_tells_the_class_and_the_spectrum_does() -> None:
    spec = WavesSpec(train=1000, val=20, test=1000)
    task = spec.load(NOWHERE)
    scores = trivial_scores(spec, task)
    error = math.sqrt(0.25 * 0.75 / 1000)
    assert abs(scores["logistic regression on flat inputs"] - 0.25) < 4 * error
    assert scores["1-nearest neighbour on flat inputs"] < 0.65
    # Nearest mean of the spectra: a trivial method, but not on the raw values.
    seen, label = spectrum(windows(task, "train")), task.train.target
    means = np.stack([seen[label == k].mean(0) for k in range(4)])
    asked = spectrum(windows(task, "test"))
    answer = ((asked[:, None] - means) ** 2).sum(-1).argmin(1)
    assert (answer == task.test.target).mean() > 0.8


def test_ridge_regression_cannot_tell_the_slowest_frequency_and_the_spectrum_can() -> None:
    spec = WavesSpec(target="number", train=1000, val=20, test=500)
    task = spec.load(NOWHERE)
    scores = trivial_scores(spec, task, "r2")
    assert scores["ridge regression on flat inputs"] < 0.05
    assert scores["1-nearest neighbour on flat inputs"] < 0.5
    rows = {name: np.c_[spectrum(windows(task, name)), np.ones(task.split(name).units)] for name in ("train", "test")}
    power = np.linalg.lstsq(rows["train"], np.asarray(task.train.target, float), rcond=None)[0]
    truth = task.test.target
    assert 1 - ((rows["test"] @ power - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum() > 0.6


def test_a_number_is_scaled_by_the_range_of_train_or_left_in_cycles() -> None:
    scaled, plain = (WavesSpec(target="number", scale_target=s, **SMALL).load(NOWHERE) for s in (True, False))
    low, high = plain.train.target.min(), plain.train.target.max()
    assert 4 <= low < high <= 12
    assert (scaled.train.target.min(), scaled.train.target.max()) == (-1, 1)
    for name in SPLITS:
        cycles = plain.split(name).target
        assert scaled.split(name).target.dtype == np.float32
        assert np.allclose(scaled.split(name).target, 2 * (cycles - low) / (high - low) - 1, atol=1e-6)
        assert np.array_equal(scaled.split(name).values, plain.split(name).values)
    assert scaled.notes == (
        f"slowest frequencies of {low:.4g} to {high:.4g} cycles per window, the range of train, stand as -1 to 1",
    )
    assert plain.notes == ()


def test_one_train_window_has_no_range_to_scale_by() -> None:
    with pytest.raises(BadInput, match=r"task\.train: every one of the 1 train windows has a target of .*; take more"):
        WavesSpec(target="number", train=1, val=1, test=1).load(NOWHERE)


def test_the_default_objective_follows_the_target() -> None:
    assert WavesSpec().objective == "classify"
    assert WavesSpec(target="number").objective == "regress"


def test_each_split_holds_each_class_alike_and_shares_no_window() -> None:
    task = WavesSpec(train=400, val=100, test=200).load(NOWHERE)
    for name in SPLITS:
        assert set(np.bincount(task.split(name).target).tolist()) == {task.split(name).units // 4}
    assert not any(overlaps(task).values())
    assert task.labels == ("4, 8 and 12 cycles", "4, 8 and 16 cycles", "4, 12 and 16 cycles", "8, 12 and 16 cycles")


def test_a_window_does_not_depend_on_how_many_there_are_nor_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    some = WavesSpec(**SMALL).load(NOWHERE)
    monkeypatch.setattr("headstart.tasks.stand_ins._AT_ONCE", 1000)
    more = WavesSpec(**{**SMALL, "train": 50}).load(NOWHERE)
    assert np.array_equal(more.train.values[: 40 * 256], some.train.values)
    assert np.array_equal(more.train.target[:40], some.train.target)
    assert np.array_equal(more.test.values, some.test.values)


def test_another_seed_gives_other_windows_and_the_same_one_the_same() -> None:
    first, again, other = (open_task(WavesSpec(data_seed=seed, **SMALL), NOWHERE) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_channels_have_phases_of_their_own() -> None:
    values = windows(WavesSpec(channels=2, noise=0.0, **SMALL).load(NOWHERE), "train")
    assert abs(np.corrcoef(values[..., 0].reshape(-1), values[..., 1].reshape(-1))[0, 1]) < 0.3


def test_more_classes_than_a_window_has_room_for_are_refused() -> None:
    with pytest.raises(BadInput, match=r"classes: 500 sets reach up to \d+ cycles .* or a length of at least \d+"):
        read(WavesSpec, {"kind": "waves", "classes": 500}, "task")
    read(WavesSpec, {"kind": "waves", "classes": 500, "length": 300}, "task")


@pytest.mark.parametrize(("target", "frozen"), [("class", "1d8592f0881e82b8"), ("number", "4a2e02fddc9bed0d")])
def test_the_windows_never_change(target: str, frozen: str) -> None:
    """Frozen: results hang on these bits, and whole numbers give them on every machine."""
    task = WavesSpec(target=target, channels=2, **SMALL).load(NOWHERE)
    answer = np.asarray(task.test.target).tobytes()
    assert hashlib.sha256(task.test.values.tobytes() + answer).hexdigest()[:16] == frozen
