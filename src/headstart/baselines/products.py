"""How many threads matrix products have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

LONG_PRODUCTS = 20.0
"""Processor seconds of a fit's products from which on they have a thread for each core."""
_threads = Lock()
"""Of who has set how many threads a product has; whoever comes meanwhile leaves that as it is."""


@contextmanager
def one_product_thread(seconds: float | None = None) -> Iterator[int]:
    """A matrix product takes one thread meanwhile, unless these take long; gives how many it had (0: somebody else has
    limited them).

    A thread waits for another by turning: where other programs want the cores too, small products of two threads took
    up to ten times as long as those of one, and three times the processor. seconds: of all products of a
    fit; None: of answers, in which scipy has no part.
    """
    if (seconds or 0.0) > LONG_PRODUCTS or not _threads.acquire(blocking=False):
        yield 0
        return
    try:
        if seconds is not None:
            import scipy.linalg  # noqa: F401  (its library of products is another than numpy's)
        from threadpoolctl import ThreadpoolController

        products = ThreadpoolController().select(user_api="blas")
        threads = max((library.num_threads for library in products.lib_controllers), default=1)
        with products.limit(limits=1):
            yield threads
    finally:
        _threads.release()
