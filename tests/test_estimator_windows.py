"""Estimators on recordings that are cut into windows."""

import numpy as np
import pytest
from sklearn.base import clone

from headstart import BadInput, SequenceClassifier

QUICK = {"epochs": 1, "pretrain_epochs": 1, "seeds": 1, "learning_rates": (3e-3,), "serve": "summary"}


def test_each_recording_has_one_answer_the_mean_of_its_windows() -> None:
    rng = np.random.default_rng(0)
    y = np.array(["calm", "wild"] * 10)
    x = [rng.normal(0, 1 + 2 * (label == "wild"), size=rng.integers(40, 60)) for label in y]
    model = clone(SequenceClassifier(window=20, step=10, **QUICK)).fit(x, y)
    assert model.predict_proba(x).shape == (20, 2)
    assert model.score(x, y) > 0.9
    windows = model._read(x)
    assert (len(windows) > 40, set(windows.lengths.tolist())) == (True, {20})
    with pytest.raises(BadInput, match="1 recording is shorter than a window of 20 positions, of 1"):
        model.predict([np.zeros(15)])
