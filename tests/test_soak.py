"""Each fault once, at an instant that a seed chooses; `make soak MINUTES=30` goes on with other seeds."""

import random
from collections import Counter

import pytest
from support.soak.trials import NEED_A_DISK, TRIALS, make_reference, may_mount


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return make_reference(tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("name", TRIALS)
def test_a_disturbed_run_ends_with_the_bits_of_an_undisturbed_one(name, reference, tmp_path):
    if name in NEED_A_DISK and not may_mount():
        pytest.skip("no right to mount a small disk here")
    TRIALS[name][0](random.Random(f"{name}/test"), reference, tmp_path, Counter())
