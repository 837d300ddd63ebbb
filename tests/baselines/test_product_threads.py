"""How many threads matrix products have while a model is fitted."""

import numpy as np
import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController, threadpool_limits

from headstart.baselines import linear
from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.linear import LinearSpec
from headstart.baselines.products import LONG_PRODUCTS, one_product_thread
from headstart.sequence import Examples, Signature


def counts() -> set[int]:
    """Threads of each library of products."""
    return {library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers}


def test_small_products_have_one_thread_and_long_ones_keep_theirs() -> None:
    with threadpool_limits(2, user_api="blas"):
        with one_product_thread() as threads:
            assert (threads, counts()) == (2, {1})
            with one_product_thread() as nested:
                assert (nested, counts()) == (0, {1})  # whoever limited them sets them back
        with one_product_thread(LONG_PRODUCTS + 1) as threads:
            assert (threads, counts()) == (0, {2})
        with pytest.raises(ZeroDivisionError), one_product_thread():
            raise ZeroDivisionError
        assert counts() == {2}


def test_a_regression_is_fitted_with_one_thread_unless_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = list[set[int]](), linear.split_of

    def looked_at(*args: object, tall: bool) -> object:
        seen.append(counts())
        return real(*args, tall=tall)  # type: ignore[arg-type]

    monkeypatch.setattr(linear, "split_of", looked_at)
    target = np.arange(12) % 2
    examples = Examples(np.random.default_rng(0).normal(size=(60, 1)), np.arange(13) * 5, target, np.arange(12))
    signature = Signature("floats", 1, 5, 5, "number")
    numbers = Examples(examples.values, examples.offsets, target[:, None].astype(float), examples.index)
    with threadpool_limits(2, user_api="blas"):
        LinearSpec().fit(examples, examples, Signature("floats", 1, 5, 5, "class", classes=2), 0)
        LinearSpec().fit(numbers, numbers, signature, 0)
        monkeypatch.setattr(linear, "ridge_seconds", lambda n, columns: LONG_PRODUCTS + n * columns)
        LinearSpec().fit(numbers, numbers, signature, 0)
    assert seen == [{1}, {1}, {1}, {1}, {2}, {2}]


def test_competing_kernels_are_reckoned_to_take_several_times_as_long_as_random_ones() -> None:
    """On 45 sequences of 5,000 positions: 9.9 processor seconds beside 2.8, on 150 of 300 positions 1.9 beside 0.8."""
    for length, least in ((5_000, 2.5), (300, 1.5)):
        signature = Signature("floats", 1, length, length, "class", classes=3)
        both, alone = (
            KernelsSpec(also=also).seconds(45, 125, signature, np.full(45, length)) for also in (("hydra",), ())
        )
        assert least < both / alone < 4.5
