"""Models without gradients: kernels or n-grams, summaries and the majority, which every fit has, and further kernels.

On ten choosing sets (docs/benchmarks/fit-members.md) competing kernels in a regression of their own, and pools beside
them, lowered the log-loss of the average by 0.050 [0.036, 0.062], against both kernels in one regression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Offer
from headstart.fit.basis import Basis
from headstart.request.settings import FitSettings

KERNEL_WORDS = {
    True: {
        "kernels": "random convolution kernels with ridge",
        "summary": "a linear model of summary features",
        "majority": "shares of the classes, or the mean",
    },
    False: {
        "kernels": "a linear model of n-grams",
        "summary": "a linear model of single symbols and pairs",
        "majority": "shares of the classes, or the mean",
    },
}
"""Each in words, for numbers or for symbols."""

MANY_POSITIONS = 1 << 22
"""Positions of all sequences above which random kernels stand alone: the others take longer than they do."""
KERNEL_SECONDS, COMPETING_SECONDS, COMPETING_CHANNELS, POOL_SECONDS = 2.7, 4.7, 20.0, 10.0
"""Processor seconds per million positions of random kernels, of competing ones of one and of several channels, and of
10,080 features of four pools on sequences and on steps (2-core AMD EPYC)."""
KERNEL_SHARE, POOL_SHARE = 1 / 3, 1 / 4
"""Of the time that a fit may take, so much is for the features of kernels, of one run; and for pools, of all folds."""
POOL_FEATURES = (10_080, 5_040)
"""Of pools, on the sequences and as many on their steps: where the time suffices, or else."""
RIDGE_PRODUCTS = 5e9
"""Multiplications of a ridge regression in a second."""


def table_of(kind: str, data: str, lengths: np.ndarray, seconds: float | None = None) -> dict[str, Any]:
    """A model without gradients, for sequences of this kind and these lengths (n,).

    seconds: that the whole fit may take; where the features of kernels would take much of it, there are fewer.
    """
    from headstart.baselines.kernels import FEW_FEATURES

    if kind != "kernels" or data != "numbers":
        return {"kind": kind}
    left = KERNEL_SHARE * (math.inf if seconds is None else seconds)
    return {"kind": kind, **({"features": FEW_FEATURES} if lengths.sum() / 1e6 * KERNEL_SECONDS > left else {})}


class KernelsArm(Arm):
    """Always wanted: they take seconds, and are fitted before the time is planned."""

    names = ("majority", "summary", "kernels")
    network = False
    constant = "majority"
    servable = True
    rank = 0

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 9.0

    def tables(self, frame: Frame) -> dict[str, Any]:
        more = frame.basis.kind, frame.basis.lengths, frame.settings.time
        return {name: {"model": table_of(name, *more)} for name in reversed(self.names)}

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return KERNEL_WORDS[basis.kind == "numbers"]


class _FurtherKernels(Arm):
    """Of numbers, in a regression of its own: what it sees differently the average of models takes from it."""

    network = False
    servable = True
    rank = 0
    words = ""

    def wanted(self, basis: Basis, settings: FitSettings) -> bool:
        return basis.kind == "numbers"

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 8.5

    def left_out(self, offer: Offer) -> list[str]:
        return [f"{self.names[0]}: {self.words}, are left out: they take too much of the time"]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {self.names[0]: f"{self.words} with ridge"}


class CompetingArm(_FurtherKernels):
    """It takes part where its features and those of random kernels have their share of the time."""

    names = ("competing",)
    words = "competing convolution kernels"

    def lacks(self, offer: Offer) -> bool:
        lengths, channels = offer.basis.lengths, offer.basis.signature.width
        each = KERNEL_SECONDS + (COMPETING_SECONDS if channels == 1 else COMPETING_CHANNELS)
        late = float(lengths.sum()) / 1e6 * each > KERNEL_SHARE * (offer.settings.time or math.inf)
        return bool(lengths.sum() > MANY_POSITIONS) or late

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {self.names[0]: {"model": {"kind": "kernels", "features": 84, "also": ["hydra"]}}}


class PoolsArm(_FurtherKernels):
    """Fitted after the others; it takes part where all of its runs, and a second fit, have their share of the time."""

    names = ("pools",)
    slow = True
    words = "four features of random kernels, on sequences and steps,"

    def lacks(self, offer: Offer) -> bool:
        return _pool_features(offer.basis, offer.settings) is None

    def tables(self, frame: Frame) -> dict[str, Any]:
        features = _pool_features(frame.basis, frame.settings) or POOL_FEATURES[-1]
        model = {"kind": "kernels", "features": features, "pools": 4, "also": ["steps"]}
        return {self.names[0]: {"model": model}}


def _pool_features(basis: Basis, settings: FitSettings) -> int | None:
    """Of pools, as many as there is time for; None where even the fewer ones would be late."""
    positions, n = float(basis.lengths.sum()), basis.labelled
    if positions > MANY_POSITIONS:
        return None
    for features in POOL_FEATURES:
        regression = (4.0 * n * n * features + 10.0 * n**3) / RIDGE_PRODUCTS
        each = positions / 1e6 * POOL_SECONDS * features / POOL_FEATURES[0] + regression
        if (defaults.FOLDS + 1) * each <= POOL_SHARE * (settings.time or math.inf):
            return features
    return None
