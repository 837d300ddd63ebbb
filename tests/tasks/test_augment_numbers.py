"""Sequences of numbers that change in each epoch: held against a slow reference, row by row."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from test_own_file import of, table, why, write

from headstart.errors import BadInput
from headstart.seeds import below, normal, uniform
from headstart.sequence import Examples
from headstart.stage import StageSpec, read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks import augmentation, open_task
from headstart.tasks.augmentation import augmenter
from headstart.tasks.portable import packed, unpacked
from headstart.tasks.task import narrowed, patched

SEED, EPOCH = 7, 3
ALL = ("jitter", "scale", "warp")


def examples(lengths: tuple[int, ...] = (1, 2, 9, 30, 31, 80), width: int = 2, gaps: float = 0.0) -> Examples:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(sum(lengths), width)).astype(np.float32)
    observed = rng.random(values.shape) >= gaps if gaps else None
    values = values if observed is None else np.where(observed, values, np.float32(0))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Examples(values, offsets, None, 5 + 3 * np.arange(len(lengths)), observed)


def warped(x: np.ndarray, seen: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """(L, F): the time of the warped sequence runs through a window of a tenth at half or twice the speed."""
    last = len(x) - 1
    begin = float(uniform(SEED, "augment/window", EPOCH, number)) * 0.9 * last
    factor = (0.5, 2.0)[int(below(SEED, "augment/factor", 2, EPOCH, number))]
    end, total = begin + 0.1 * last, last + 0.1 * last * (factor - 1)
    out, there = np.zeros_like(x), np.zeros_like(seen)
    for position in range(len(x)):
        if last == 0:
            source = 0.0
        else:
            clock = position / last * total
            source = float(np.interp(clock, [0, begin, begin + 0.1 * last * factor, total], [0, begin, end, last]))
        before, share = math.floor(source), source - math.floor(source)
        after = min(before + 1, last)
        for channel in range(x.shape[1]):
            nearer = after if share >= 0.5 else before
            there[position, channel] = seen[nearer, channel]
            if seen[before, channel] and seen[after, channel]:
                out[position, channel] = (1 - share) * x[before, channel] + share * x[after, channel]
            elif seen[nearer, channel]:
                out[position, channel] = x[nearer, channel]
    return out, there


def reference(before: Examples, changes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(S, F) values and what is observed, one sequence, position and channel after another."""
    values, seen = [], []
    for row, number in enumerate(before.index.tolist()):
        part = slice(before.offsets[row], before.offsets[row + 1])
        x = before.values[part].astype(np.float64)
        there = np.ones(x.shape, bool) if before.observed is None else before.observed[part].copy()
        if "warp" in changes:
            x, there = warped(x, there, number)
        for position, channel in product(*map(range, x.shape)):
            if "scale" in changes:
                x[position, channel] *= 1 + 0.1 * float(normal(SEED, "augment/scale", EPOCH, number, channel))
            if "jitter" in changes and there[position, channel]:
                noise = float(normal(SEED, "augment/jitter", EPOCH, number, position, channel))
                x[position, channel] += 0.03 * noise
        values.append(x)
        seen.append(there)
    return np.concatenate(values), np.concatenate(seen)


@pytest.mark.parametrize("changes", [("jitter",), ("scale",), ("warp",), ALL])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("at_once", [1, 40, 1 << 15])
def test_each_change_is_that_of_a_slow_loop_over_sequences(changes, gaps, at_once, monkeypatch) -> None:
    monkeypatch.setattr(augmentation, "AT_ONCE", at_once)
    before = examples(gaps=gaps)
    after = augmenter(changes, SEED)(before, EPOCH)
    values, seen = reference(before, changes)
    assert after.values.dtype == np.float32
    assert np.abs(after.values - values).max() < 2e-6
    if gaps:
        assert np.array_equal(after.observed, seen)
        assert not after.values[~after.observed].any(), "nothing is made up for a missing value"
    else:
        assert after.observed is None
    assert np.array_equal(after.offsets, before.offsets)
    assert np.array_equal(after.index, before.index)


def test_noise_and_factors_have_the_published_sizes() -> None:
    ones = replace(examples((50,) * 400, width=3), values=np.ones((20_000, 3), np.float32))
    noise = augmenter(("jitter",), 0)(ones, 0).values - 1
    assert abs(noise.std() - 0.03) < 1e-3
    assert abs(noise.mean()) < 1e-3
    factors = augmenter(("scale",), 0)(ones, 0).values.reshape(400, 50, 3)
    assert (factors == factors[:, :1]).all(), "a channel has one factor"
    assert abs(factors[:, 0].std() - 0.1) < 0.01
    assert abs(factors[:, 0].mean() - 1) < 0.01
    assert (factors[:, 0, 0] != factors[:, 0, 1]).all(), "and each its own"


def test_a_warp_keeps_both_ends_and_the_order_of_time() -> None:
    """A straight line shows the source of each position: two speeds, in the ratio of the factor."""
    line = np.tile(np.arange(101, dtype=np.float32), 60)[:, None]
    before = replace(examples((101,) * 60, width=1), values=line)
    after = augmenter(("warp",), 0)(before, 0).values.reshape(60, 101)
    assert (after[:, 0] == 0).all()
    assert np.allclose(after[:, -1], 100, atol=1e-4)
    speeds = np.diff(after, axis=1)
    assert (speeds > 0).all()
    slow, fast = speeds.min(1), speeds.max(1)
    assert np.allclose(fast / slow, 2, atol=0.02)
    longer = np.isclose(slow, 0.55, atol=0.01)  # a window of twice the length: the whole, 1.1 as long, runs at 1.1
    assert np.allclose(np.where(longer, fast, slow), np.where(longer, 1.1, 0.95), atol=0.01)
    assert 15 < longer.sum() < 45


def test_how_a_sequence_changes_depends_on_seed_epoch_and_index_and_not_on_its_place() -> None:
    before, change = examples(gaps=0.2), augmenter(ALL, SEED)
    after = change(before, EPOCH)
    again = augmenter(ALL, SEED)(before, EPOCH)
    assert np.array_equal(after.values, again.values)
    assert np.array_equal(after.observed, again.observed)
    order = np.array([4, 0, 5])
    assert np.array_equal(change(before.take(order), EPOCH).values, after.take(order).values)
    for other in (augmenter(ALL, SEED)(before, EPOCH + 1), augmenter(ALL, SEED + 1)(before, EPOCH)):
        assert not np.array_equal(other.values, after.values)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("patch", [2, 7])
def test_sequences_of_patches_change_as_they_would_without(gaps, patch) -> None:
    before = examples(gaps=gaps)
    if gaps:  # where nothing is observed at the end of a last patch cannot be told from its room
        before.observed[before.offsets[1:] - 1] = True
    expected = patched(augmenter(ALL, SEED)(before, EPOCH), patch, missing=True)
    after = augmenter(ALL, SEED, patch)(patched(before, patch, missing=True), EPOCH)
    assert np.array_equal(after.values, expected.values)
    assert np.array_equal(after.observed, expected.observed)


def test_a_task_of_patches_is_changed_position_by_position(tmp_path) -> None:
    folder = write(tmp_path, table(length=7, gap=lambda i, j: j > 4 and i % 3 == 0))
    plain = open_task(of(folder), folder)
    task = open_task(of(folder, patch=3, augment=["warp", "jitter"]), folder)
    change = augmenter(("jitter", "warp"), 0)
    expected = patched(change(plain.train, 2), 3, missing=True)
    after = task.augment(task.train, 2)
    assert np.array_equal(after.values, expected.values)
    assert np.array_equal(after.observed, expected.observed)


def test_names_stand_in_any_order_and_none_is_the_task_of_before(tmp_path) -> None:
    folder = write(tmp_path, table())
    plain, none = of(folder), of(folder, augment=[])
    assert plain == none
    assert "augment" not in plain.document()
    assert plain.augmentation() is None
    both = of(folder, augment=["warp", "jitter", "warp"])
    assert both == of(folder, augment=["jitter", "warp"])
    assert both.document()["augment"] == ["jitter", "warp"]
    assert open_task(both, folder).fingerprint == open_task(plain, folder).fingerprint, "the data are the same"


def test_another_machine_changes_them_alike(tmp_path) -> None:
    folder = write(tmp_path, table(gap=lambda i, j: (i + j) % 5 == 0))
    spec = of(folder, augment=list(ALL), patch=2)
    facts, arrays = packed(spec, folder)
    away, here = narrowed(spec, unpacked({**facts, "digest": "x"}, lambda: arrays)), open_task(spec, folder)
    assert np.array_equal(away.augment(away.train, 4).values, here.augment(here.train, 4).values)


def test_what_cannot_be_changed_is_refused_with_the_way_out(tmp_path) -> None:
    folder = write(tmp_path, table())
    write(folder, ["text\tlabel", *(f"{'ab' * (i + 3)}\t{'xy'[i % 2]}" for i in range(40))], "words.tsv")
    text = why(folder, "words.tsv", target="label", layout={"kind": "text"}, augment=["scale", "warp"])
    assert text == (
        "task.augment: ['scale', 'warp'] is for sequences of numbers, and these are text, as bytes of UTF-8; leave it out"
    )
    states = [",".join(["id", "label", "x", "t"]), *(f"{i // 9},{'ab'[i % 2]},{i % 7}.5,{i}" for i in range(360))]
    write(folder, states, "states.csv")
    layout = {"per_position": True}
    text = why(folder, "states.csv", target="label", id="id", time="t", layout=layout, augment=["warp"])
    assert text == "task.augment: 'warp' moves positions, each of which has a target here; leave 'warp' out"
    noisy = of(folder, "states.csv", target="label", id="id", time="t", layout=layout, augment=["jitter"])
    assert noisy.load(folder).signature.per_position
    with pytest.raises(
        BadInput, match=r"task: augment: 'jitter' needs standardised values; set standardise = true, or"
    ):
        of(folder, augment=["jitter"], standardise=False)
    with pytest.raises(BadInput, match=r"task\.augment\[0\]: 'jiter' should be 'jitter', 'scale' or 'warp'"):
        of(folder, augment=["jiter"])


def spec(folder: Path, **task: object) -> StageSpec:
    return read_stage(
        {
            "task": {"kind": "own", "file": "train.csv", "augment": list(ALL), **task},
            "objective": {"kind": "classify"},
            "budget": {"steps": 12},
            "optim": {"batch_size": 4},
            "model": {"width": 8, "blocks": 1},
        },
    )


def test_a_training_that_is_taken_up_again_sees_the_same_sequences(tmp_path) -> None:
    folder = write(tmp_path, table(count=30, gap=lambda i, j: (i + j) % 7 == 0))
    stage = spec(folder)
    task = open_task(stage.task, folder)
    whole, first = TrainedRun(stage, task), TrainedRun(stage, task)
    assert whole.setting.per_epoch < 8, "it is stopped in its second epoch"
    for _ in whole.steps():
        pass
    for tick in first.steps():
        if tick.step == 7:
            state = tick.state()
            break
    later = TrainedRun(stage, open_task(stage.task, folder), resume=state)
    for _ in later.steps():
        pass
    weights, again = whole.finish().last, later.finish().last
    assert all(np.array_equal(weights[name], again[name]) for name in weights)
    plain = stage.model_copy(update={"task": stage.task.model_copy(update={"augment": ()})})
    other = TrainedRun(plain, open_task(plain.task, folder))
    for _ in other.steps():
        pass
    assert not all(np.array_equal(weights[name], x) for name, x in other.finish().last.items())


def test_rows_without_a_label_are_not_changed_where_they_are_not_trained_on(tmp_path) -> None:
    folder = write(tmp_path, table(count=60))
    stage = spec(folder, labelled=10)
    task = open_task(stage.task, folder)
    run = TrainedRun(stage, task)
    assert run.setting.fresh is not None
    feed = run.setting.fresh(1)
    assert len(feed.examples) == 10
    labelled = task.augment(task.train, 1).take(task.train.labelled_units())
    assert np.array_equal(feed.examples.values, labelled.values)
    assert np.array_equal(feed.examples.target, labelled.target)
