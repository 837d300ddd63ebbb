"""Models without gradients that every fit has: kernels or n-grams, summaries, and the majority."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headstart.fit.arms.arm import Arm, Frame
from headstart.fit.basis import Basis
from headstart.request.settings import FitSettings
from headstart.words import KERNEL_WORDS

# On five folds of train rows of ten choosing sets competing kernels beside random ones gained 0.004 [-0.006, 0.014],
# quantiles -0.013 and both -0.003 (docs/benchmarks/fit-features.md). They became the default by an earlier measurement:
# 0.029 on ArrowHead, 0.015 on OSULeaf and 0.010 on ECG200, nothing on Coffee, Trace and SyntheticControl.
ALSO = ("hydra",)
MANY_POSITIONS = 1 << 22
"""Positions of all sequences above which random kernels stand alone: competing ones take as long as the rest."""

KERNEL_SECONDS, ALSO_SECONDS, ALSO_CHANNELS = 2.7, 4.7, 20.0
"""Processor seconds per million positions of random kernels, and of competing ones of one and of several channels
(2-core AMD EPYC)."""
KERNEL_SHARE = 1 / 3
"""Of the time of a fit, for the features of kernels, and for a regression on all of them; else there are fewer."""


def table_of(
    kind: str, data: str, lengths: np.ndarray, channels: int = 1, seconds: float | None = None, labelled: int = 0
) -> dict[str, Any]:
    """A model without gradients, for sequences of this kind, these lengths (n,) and channels.

    seconds: that the whole fit may take; where the features of kernels, or the regression on them of so many labelled
    rows, would take much of it, there are fewer.
    """
    from headstart.baselines.hydra import hydra_size
    from headstart.baselines.kernels import FEATURES, FEW_FEATURES
    from headstart.baselines.ridge import ridge_seconds

    if kind != "kernels" or data != "numbers":
        return {"kind": kind} | ({"rough": True} if kind == "kernels" and data not in ("numbers", "text") else {})
    millions, left = float(lengths.sum()) / 1e6, KERNEL_SHARE * (math.inf if seconds is None else seconds)
    more = KERNEL_SECONDS + (ALSO_SECONDS if channels == 1 else ALSO_CHANNELS)
    both = max(millions * more, ridge_seconds(labelled, FEATURES + hydra_size(lengths)))
    if lengths.sum() <= MANY_POSITIONS and both <= left:
        return {"kind": kind, "also": list(ALSO)}
    late = max(millions * KERNEL_SECONDS, ridge_seconds(labelled, FEATURES)) > left
    return {"kind": kind, **({"features": FEW_FEATURES} if late else {})}


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
        basis, time = frame.basis, frame.settings.time
        more = basis.kind, basis.lengths, basis.signature.width, time, basis.labelled
        return {name: {"model": table_of(name, *more)} for name in reversed(self.names)}

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return KERNEL_WORDS[basis.kind == "numbers"]
