"""Accuracy beside aeon's MiniRocket. Opt-in: where aeon is installed (it is not a dependency: numba is large)."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from support.made_series import signature, waves

from headstart.baselines.kernels import KernelsSpec
from headstart.sequence import Examples, ragged
from headstart.tasks.series import UcrSpec
from headstart.tasks.task import available, open_task

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, of packages that they import
    pytest.importorskip("aeon", reason="compared only where aeon is: pip install aeon")
    from aeon.classification.convolution_based import MiniRocketClassifier

SETS = ("ArrowHead", "ItalyPowerDemand", "GunPoint", "ECG200", "SyntheticControl", "Computers")


def both(train: Examples, test: Examples, of: object, seeds: int) -> tuple[float, float]:
    """Mean accuracies (ours, theirs) on test, each fitted on all of train."""
    nothing = train.take(np.zeros(0, dtype=np.int64))
    cubes = [x.values.reshape(len(x), -1, x.values.shape[1]).transpose(0, 2, 1).astype(float) for x in (train, test)]
    ours, theirs = [], []
    for seed in range(seeds):
        fitted = KernelsSpec().fit(train, nothing, of, seed)  # type: ignore[arg-type]
        ours.append(accuracy_score(test.target, fitted.predict(test).argmax(1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MiniRocketClassifier(random_state=seed, n_jobs=1).fit(cubes[0], train.target)
            theirs.append(accuracy_score(test.target, np.asarray(model.predict(cubes[1]))))
    return float(np.mean(ours)), float(np.mean(theirs))


@pytest.mark.parametrize("channels", [1, 4])
def test_accuracy_on_made_up_waves_is_that_of_aeon(channels: int) -> None:
    def noisy(n: int, seed: int) -> Examples:
        x = waves(n, seed, channels=channels, least=60, most=60)
        noise = np.random.default_rng(seed).normal(size=x.values.shape)
        values = x.values + 1.2 * channels**0.5 * noise
        return Examples(values.astype(np.float32), x.offsets, x.target, x.index)

    ours, theirs = both(noisy(120, 0), noisy(600, 1), signature("waves", channels=channels), 3)
    assert 0.4 < theirs < 0.99, "too easy or too hard to tell anything"
    assert ours == pytest.approx(theirs, abs=0.04)


def test_accuracy_on_real_sets_is_that_of_aeon(linked: Path) -> None:
    gaps = []
    for name in SETS:
        spec = UcrSpec(name=name)
        if not available(spec, linked):
            pytest.skip("no UCR sets at ../shared/data")
        task = open_task(spec, linked)
        rows = [x.inputs(i) for x in (task.train, task.val) for i in range(len(x))]
        values, offsets = ragged(rows)
        train = Examples(values, offsets, np.concatenate([task.train.target, task.val.target]), np.arange(len(rows)))
        ours, theirs = both(train, task.test, task.signature, 2)
        assert ours == pytest.approx(theirs, abs=0.06), name  # 250 test rows and fewer: 0.03 of error each
        gaps.append(ours - theirs)
    assert np.mean(gaps) == pytest.approx(0, abs=0.015)
