"""Sweeps of equal cases, of which some at a fixed stride are tried every day and the rest by `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def thinned(cases: Iterable[Any], stride: int, also: Sequence[int] = ()) -> list[Any]:
    """The cases of a `parametrize`, of which all but each `stride`-th are `slow`; also: numbers of others for every day."""
    return [case if number % stride == 0 or number in also else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
