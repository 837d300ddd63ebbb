"""The rolled digits: scikit-learn's images, moved, split and standardised as the docstring says."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from headstart.errors import BadInput
from headstart.seeds import below
from headstart.tasks import digits, open_task
from headstart.tasks.digits import DigitsSpec

NOWHERE = Path("nowhere")


def grey_levels(task, examples):
    """(n, 64) the pixels 0..16 again."""
    return np.round(examples.values.reshape(-1, 64) * task.signature.level_scale + task.signature.level_shift)


def test_without_the_roll_the_images_are_those_of_scikit_learn():
    task, bunch = DigitsSpec(rolled=False).load(NOWHERE), load_digits()
    for name, size in (("train", 1097), ("val", 200), ("test", 500)):
        x = task.split(name)
        assert len(x) == size
        assert np.array_equal(grey_levels(task, x), bunch.data[x.index])
        assert np.array_equal(x.target, bunch.target[x.index])


def test_each_image_is_rolled_by_its_own_offset():
    task, bunch = DigitsSpec().load(NOWHERE), load_digits()
    images = grey_levels(task, task.val).reshape(-1, 8, 8)
    for image, number in zip(images, task.val.index, strict=True):
        down, right = (int(below(0, "digits/roll", 8, int(number), axis)) for axis in (0, 1))
        assert np.array_equal(image, np.roll(bunch.images[number], (down, right), (0, 1)))


def test_the_roll_reaches_every_place_alike():
    task = DigitsSpec().load(NOWHERE)
    ink = grey_levels(task, task.train).mean(0)
    assert ink.min() > 0.85 * ink.max()


def test_splits_are_stratified_and_follow_their_seed():
    first, second = DigitsSpec().load(NOWHERE), DigitsSpec(split_seed=1).load(NOWHERE)
    assert set(first.test.index) != set(second.test.index)
    for task in (first, second):
        counts = np.bincount(np.concatenate([task.split(n).target for n in ("train", "val", "test")]))
        for name, share in (("train", 1097 / 1797), ("val", 200 / 1797), ("test", 500 / 1797)):
            assert np.abs(np.bincount(task.split(name).target) - share * counts).max() < 1.5


def test_the_train_pixels_have_mean_0_and_deviation_1():
    task = DigitsSpec().load(NOWHERE)
    assert abs(task.train.values.mean()) < 1e-6
    assert abs(task.train.values.std() - 1) < 1e-6
    assert abs(task.test.values.mean()) > 1e-6


def test_the_data_never_change():
    """Frozen: results of the demo hang on every bit of these."""
    assert open_task(DigitsSpec(), NOWHERE).fingerprint[:16] == "0de532e7961bcc4f"


@pytest.mark.parametrize(
    ("rolled", "linear", "nearest"), [(False, (0.88, 0.97), (0.90, 0.98)), (True, (0.08, 0.20), (0.28, 0.45))]
)
def test_the_roll_takes_the_task_from_classifiers_that_trust_positions(rolled, linear, nearest):
    task = open_task(DigitsSpec(labelled=200, rolled=rolled), NOWHERE)
    units = task.train.labelled_units()
    x, y = task.train.values.reshape(-1, 64)[units], task.train.target[units]
    test = task.test.values.reshape(-1, 64)
    regression = LogisticRegression(max_iter=1000).fit(x, y).score(test, task.test.target)
    neighbour = KNeighborsClassifier(1).fit(x, y).score(test, task.test.target)
    assert linear[0] < regression < linear[1]
    assert nearest[0] < neighbour < nearest[1]


def test_another_copy_of_the_digits_is_refused(monkeypatch):
    monkeypatch.setattr(digits, "_read_table", lambda: np.zeros((1797, 65), dtype=np.uint8))
    digits._raw.cache_clear()
    try:
        with pytest.raises(BadInput, match=r"not the 1,797 that this task is defined on; install scikit-learn"):
            DigitsSpec().load(NOWHERE)
    finally:
        digits._raw.cache_clear()


def test_the_digits_are_read_without_scikit_learn_being_imported():
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from headstart.tasks.digits import DigitsSpec; "
        "DigitsSpec().load(Path('x')); print(sorted({'sklearn', 'torch', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
