"""Sets of classes hold the truth as often as asked for the sequences of every class, the rare ones too."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from headstart.errors import BadInput
from headstart.estimator.inputs import reach_of
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel, held_out
from headstart.fitted.wording import _rare
from headstart.serve.config import HeldOut
from headstart.serve.predictions import in_sets

SHARES = np.array([0.9, 0.08, 0.02])


def drawn(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Classes of very different frequency, and what a model that knows these frequencies answers to a noisy number."""
    truth = rng.choice(3, count, p=SHARES)
    seen = truth + rng.normal(0, 0.7, count)
    scores = SHARES * np.exp(-((seen[:, None] - np.arange(3)) ** 2) / (2 * 0.7**2))
    return truth, scores / scores.sum(axis=1, keepdims=True)


def calibrated(truth: np.ndarray, shares: np.ndarray) -> HeldOut:
    none = Answers(truth[:0], shares[:0])
    model = TrainedModel(0, "0", none, Answers(truth, shares), (0.0, 0.0))
    return held_out(FitCandidate(cast(Any, None), "", models=(model,)), False, 1)


def test_nine_of_ten_of_every_class_are_inside_where_classes_are_of_very_different_frequency() -> None:
    rng, inside = np.random.default_rng(0), list[list[float]]()
    for _ in range(60):
        reach = calibrated(*drawn(1_500, rng)).reach(0.9)
        truth, shares = drawn(6_000, rng)
        there = in_sets(shares, reach)[np.arange(len(truth)), truth]
        inside.append([float(there[truth == k].mean()) for k in range(3)])
    assert (np.mean(inside, axis=0) >= 0.9).all()


def test_one_threshold_for_all_loses_the_rare_class_on_the_same_data() -> None:
    """The control: what folders of before have."""
    rng = np.random.default_rng(0)
    reach = HeldOut(errors=calibrated(*drawn(1_500, rng)).errors, source="test").reach(0.9)
    truth, shares = drawn(6_000, rng)
    there = in_sets(shares, reach)[np.arange(len(truth)), truth]
    assert there.mean() > 0.88
    assert there[truth == 2].mean() < 0.5


def test_thresholds_are_the_smallest_errors_that_enough_held_out_sequences_stay_within() -> None:
    """The reference: counted one by one."""
    rng = np.random.default_rng(1)
    truth, shares = drawn(400, rng)
    held = calibrated(truth, shares)
    for confidence in (0.5, 0.8, 0.9):
        reaches = cast(tuple[float, ...], held.reach(confidence))
        for k, reach in enumerate(reaches):
            errors = sorted(1 - shares[truth == k, k])
            wanted = [e for i, e in enumerate(errors, 1) if i >= confidence * (len(errors) + 1) - 1e-9]
            assert reach == pytest.approx(wanted[0] if wanted else math.inf, rel=2e-5)


def test_a_class_with_too_few_is_in_every_set_and_is_named_before() -> None:
    held = HeldOut(errors=(0.1,) * 12, source="test", class_errors=(0.1,) * 12, class_counts=(9, 3))
    assert held.reach(0.9) == (0.1, math.inf)
    assert in_sets(np.array([[0.99, 0.01]]), held.reach(0.9)).tolist() == [[True, True]]
    assert held.warning(0.9, ("well", "sick")) == (
        "too few sequences were held out of 'sick' (3): 0.9 takes 9 of each class, so that every set holds these; label "
        "more of them, or ask for less"
    )
    assert not held.warning(0.7, ("well", "sick"))
    assert "for at least 0.9 of new sequences of each class" in held.says(0.9)
    with pytest.raises(BadInput, match=r"0\.95 is more than 9 held-out sequences of the largest class allow; give at "):
        held.reach(0.95)
    assert not HeldOut(errors=(0.1,) * 12, source="test").warning(0.9, ("well", "sick")), "a folder of before"
    assert "class_errors" not in HeldOut(errors=(0.1,), source="test").document()


def test_python_warns_and_refuses_as_the_command_does() -> None:
    held = {"kernels": HeldOut(errors=(0.1,) * 12, source="test", class_errors=(0.1,) * 12, class_counts=(9, 3))}
    config = SimpleNamespace(serve="kernels", held_out=held, preparation=SimpleNamespace(classes=("well", "sick")))
    served = cast(Any, SimpleNamespace(config=config))
    with pytest.warns(UserWarning, match="too few sequences were held out of 'sick'"):
        assert reach_of(served, 0.9) == (0.1, math.inf)
    held.clear()
    with pytest.raises(BadInput, match="the model holds no errors of kernels on held-out sequences; fit it again"):
        reach_of(served, 0.9)


def test_a_class_name_of_any_length_is_short_in_a_warning() -> None:
    few = HeldOut(errors=(0.1,), source="test", class_errors=(0.1,), class_counts=(1, 0))
    assert len(few.warning(0.9, ["a", "b" * 10**6])) < 300
    (caveat,) = _rare(np.array([30, 9]), ("a", "b" * 10**6))
    assert len(caveat) < 200
