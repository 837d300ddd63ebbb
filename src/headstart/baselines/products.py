"""How many threads matrix products have, and products during which other threads run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

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


def routine(capsule: Any) -> Callable[..., None]:
    """A routine of Fortran out of `scipy.linalg.cython_blas` or `cython_lapack`, by its entry in `__pyx_capi__`.

    Arguments are letters, whole numbers and arrays in Fortran's order; other threads run meanwhile, as they do not
    within the functions of scipy, so that a long one does not keep a fit from saying what it is at.
    """
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = name(capsule)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (signature.count(b",") + 1))(pointer(capsule, signature))

    def call(*arguments: str | int | float | np.ndarray) -> None:
        arrays = [x if isinstance(x, np.ndarray) else np.array(_PLAIN[type(x)](x)) for x in arguments]
        function(*(array.ctypes.data for array in arrays))

    return call


_PLAIN: dict[type, Callable[[Any], Any]] = {str: str.encode, int: np.int32, float: np.float64}
