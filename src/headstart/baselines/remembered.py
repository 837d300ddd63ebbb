"""Rows of frozen features that a process has computed before, by a digest of model and sequence."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

REMEMBERED = 2**28
"""Bytes of features that a process remembers; the oldest are forgotten first."""
KNOWN_ROWS: OrderedDict[bytes, np.ndarray] = OrderedDict()


def digest_of(encoder: Any, weights: Mapping[str, np.ndarray]) -> bytes:
    """Of an encoder's settings (a spec) and its weights by name."""
    digest = hashlib.sha256(encoder.model_dump_json().encode())
    for name in sorted(weights):
        digest.update(np.ascontiguousarray(weights[name]).data)
    return digest.digest()


def remember(key: bytes, row: np.ndarray) -> None:
    """Keep a row (P,), and forget the oldest where there is no room."""
    while KNOWN_ROWS and (len(KNOWN_ROWS) + 1) * row.nbytes > REMEMBERED:
        KNOWN_ROWS.popitem(last=False)
    KNOWN_ROWS[key] = row
