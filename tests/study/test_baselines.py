"""Trivial scores on tasks whose answer is known, and on the digits."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headstart.sequence import IGNORE, Examples, Signature, ragged
from headstart.study import baselines
from headstart.study.baselines import measure, of_task
from headstart.study.features import describe
from headstart.tasks.digits import DigitsSpec
from headstart.tasks.task import Baseline as Own
from headstart.tasks.task import Task


def examples(sequences: list[np.ndarray], target: np.ndarray, paired: bool = False) -> Examples:
    values, offsets = ragged(sequences)
    return Examples(values, offsets, target, np.arange(len(sequences)), paired=paired)


def floats(n: int, seed: int, ragged_lengths: bool = False, numbers: bool = False) -> Examples:
    """Sequences whose mean gives the target away."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 3, n)
    lengths = rng.integers(5, 9, n) if ragged_lengths else np.full(n, 6)
    sequences = [rng.normal(size=(k, 1)) * 0.1 + v for k, v in zip(lengths, level, strict=True)]
    target = 2.0 * level.astype(np.float32) + 1 if numbers else level
    return examples([s.astype(np.float32) for s in sequences], target)


def task(make: object = floats, classes: int = 3, **more: bool) -> Task:
    train, val, test = (make(n, s, **more) for n, s in ((60, 0), (30, 1), (40, 2)))  # type: ignore[operator]
    numbers = more.get("numbers", False)
    signature = Signature("floats", 1, 8, 5, "number" if numbers else "class", 0 if numbers else classes)
    return Task(signature, train, val, test, labels=("a", "b", "c"), notes=("made up",))


def scores(found: object, split: str = "test") -> dict[str, float]:
    return {b.name: next(iter(b.scores[split].values())) for b in found.baselines}  # type: ignore[attr-defined]


def test_a_task_that_is_easy_on_flat_inputs_is_solved_by_both_methods_that_look() -> None:
    found = of_task("made up", task())
    assert found.sizes == {"train": 60, "val": 30, "test": 40, "labelled": 60}
    assert found.chance == {"accuracy": pytest.approx(1 / 3)}
    named = scores(found)
    assert list(named) == ["majority class", "logistic regression on flat inputs", "1-nearest neighbour on flat inputs"]
    assert list(named.values())[1:] == [1.0, 1.0]
    assert found.notes == ("made up",)


def test_the_majority_is_that_of_the_labelled_train_examples() -> None:
    made = task()
    target = np.full(60, IGNORE)
    target[:5] = [2, 2, 2, 0, 1]
    found = of_task("made up", replace(made, train=replace(made.train, target=target)))
    assert found.sizes["labelled"] == 5
    assert made.test.target is not None
    assert scores(found)["majority class"] == pytest.approx((made.test.target == 2).mean())


def test_ragged_floats_are_summarised_and_the_name_says_so() -> None:
    named = scores(of_task("made up", task(ragged_lengths=True)))
    assert named["logistic regression on summaries"] == 1.0


def test_tokens_are_counted() -> None:
    rng = np.random.default_rng(0)

    def tokens(n: int, seed: int) -> Examples:
        rng = np.random.default_rng(seed)
        label = rng.integers(0, 2, n)
        return examples([rng.integers(3 * v, 3 * v + 3, rng.integers(4, 9)) for v in label], label)

    made = Task(Signature("tokens", 6, 8, 4, "class", 2), tokens(50, 0), tokens(20, 1), tokens(30, 2))
    assert scores(of_task("made up", made))["1-nearest neighbour on token counts"] == 1.0
    what, rows = describe({"x": examples([np.array([0, 0, 2, 1])], rng.integers(0, 2, 1))}, made.signature)
    assert what == "token counts"
    assert rows["x"].tolist() == [[0.5, 0.25, 0.25, 0, 0, 0]]


def test_summaries_equal_a_slow_computation_and_ignore_what_was_not_observed() -> None:
    rng = np.random.default_rng(3)
    sequences = [rng.normal(size=(k, 2)).astype(np.float32) for k in (4, 7, 5)]
    x = examples(sequences, np.zeros(3, dtype=np.int64))
    seen = rng.random(x.values.shape) < 0.7
    seen[0] = seen[-1] = True
    x = replace(x, observed=seen)
    signature = Signature("floats", 2, 7, 4, "class", 2, missing=True)
    _, rows = describe({"x": x}, signature)
    for i, sequence in enumerate(sequences):
        there = seen[x.offsets[i] : x.offsets[i + 1]]
        for f in range(2):
            kept = sequence[there[:, f], f].astype(np.float64)
            wanted = [kept.mean(), kept.std(), kept.min(), kept.max()]
            assert rows["x"][i, [f, 2 + f, 4 + f, 6 + f]] == pytest.approx(wanted, rel=1e-6)
        assert rows["x"][i, -1] == len(sequence)


def test_numbers_are_scored_by_r2_as_the_objective_does() -> None:
    made = task(numbers=True)
    found = of_task("made up", made)
    named = scores(found)
    assert found.chance == {"r2": 0.0}
    assert named["ridge regression on flat inputs"] > 0.9
    assert named["1-nearest neighbour on flat inputs"] > 0.9
    assert made.train.target is not None
    assert made.test.target is not None
    truth, guess = made.test.target.astype(np.float64), made.train.target.astype(np.float64).mean()
    wanted = 1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    assert named["mean of train"] == pytest.approx(wanted, rel=1e-6)
    assert named["mean of train"] <= 0


def test_missing_numbers_are_neither_learnt_nor_scored() -> None:
    made = task(numbers=True)
    assert made.train.target is not None
    holes = np.stack([made.train.target, made.train.target], 1)
    holes[::2, 1] = np.nan
    sets = {
        name: replace(getattr(made, name), target=np.repeat(getattr(made, name).target[:, None], 2, 1))
        for name in ("val", "test")
    }
    two = replace(made, signature=replace(made.signature, targets=2), **sets, train=replace(made.train, target=holes))
    assert scores(of_task("made up", two))["ridge regression on flat inputs"] > 0.9


def test_pairs_are_units_and_see_both_halves() -> None:
    def pairs(n: int, seed: int) -> Examples:
        rng = np.random.default_rng(seed)
        same = rng.integers(0, 2, n)
        first = rng.integers(0, 2, n)
        level = np.stack([first, np.where(same, first, 1 - first)], 1).reshape(-1)
        sequences = [
            np.full((4, 1), v, dtype=np.float32) + rng.normal(size=(4, 1)).astype(np.float32) * 0.1 for v in level
        ]
        return examples(sequences, np.repeat(same, 2), paired=True)

    signature = Signature("floats", 1, 4, 4, "class", 2, paired=True)
    made = Task(signature, pairs(40, 0), pairs(20, 1), pairs(20, 2))
    found = of_task("made up", made)
    assert found.sizes["test"] == 20
    assert scores(found)["logistic regression on flat inputs"] == 1.0


def test_targets_of_positions_have_only_the_majority() -> None:
    values = np.zeros((12, 1), dtype=np.float32)
    target = np.array([1, 1, 0, IGNORE] * 3)
    x = Examples(values, np.arange(0, 13, 4), target, np.arange(3), per_position=True)
    made = Task(Signature("floats", 1, 4, 4, "class", 2, per_position=True), x, x, x)
    assert scores(of_task("made up", made)) == {"majority class": pytest.approx(2 / 3)}


def test_an_objective_without_a_target_has_sizes_and_no_scores() -> None:
    found = of_task("made up", task(), scored=False)
    assert (found.baselines, found.chance, found.sizes["test"]) == ((), {}, 40)


def test_the_tasks_own_baselines_stand_with_the_others() -> None:
    found = of_task("made up", replace(task(), baselines=(Own("the root alone", None, 0.4, "measured"),)))
    assert scores(found)["the root alone"] == 0.4
    assert "val" not in found.baselines[-1].scores


def test_a_large_train_split_is_thinned_and_the_name_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST", 20)
    assert "1-nearest neighbour on flat inputs, 20 of 60 labels" in scores(of_task("made up", task()))


def test_scores_are_kept_by_the_tasks_content_and_a_damaged_note_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measure(DigitsSpec(labelled=200), tmp_path, tmp_path)
    calls = []
    real = baselines.of_task
    monkeypatch.setattr(baselines, "of_task", lambda *a: (calls.append(1), real(*a))[1])
    assert measure(DigitsSpec(labelled=200), tmp_path, tmp_path) == first
    assert calls == []
    measure(DigitsSpec(labelled=100), tmp_path, tmp_path)
    assert calls == [1]
    for note in (tmp_path / "baselines").iterdir():
        note.write_text(note.read_text()[:-9])
    assert measure(DigitsSpec(labelled=200), tmp_path, tmp_path) == first
    assert calls == [1, 1]


def test_rolled_digits_resist_the_methods_that_solve_them_unrolled(tmp_path: Path) -> None:
    rolled = scores(measure(DigitsSpec(labelled=200), tmp_path, tmp_path))
    plain = scores(measure(DigitsSpec(labelled=200, rolled=False), tmp_path, tmp_path))
    name = "logistic regression on flat inputs"
    assert plain[name] > 0.85
    assert rolled[name] < 0.2
    assert 0.25 < rolled["1-nearest neighbour on flat inputs"] < 0.45


def test_reading_kept_scores_needs_no_scikit_learn() -> None:
    heavy = "{'torch', 'sklearn', 'scipy'}"
    code = f"import sys, headstart.study.baselines; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
