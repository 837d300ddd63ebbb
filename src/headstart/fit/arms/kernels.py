"""Models without gradients that every fit has: kernels or n-grams, summaries, and the majority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headstart.fit.arms.arm import Arm, Frame, Networks
from headstart.fit.basis import Basis
from headstart.request.settings import FitSettings
from headstart.words import KERNEL_WORDS


def table_of(
    kind: str,
    data: str,
    lengths: np.ndarray,
    channels: int = 1,
    seconds: float | None = None,
    labelled: int = 0,
    side: int = 0,
) -> dict[str, Any]:
    """A model without gradients, for sequences of this kind, these lengths (n,) and channels, within a fit of so many
    seconds. side: of images (0: they are none)."""
    from headstart.baselines.kernels import fields_within

    if kind != "kernels" or data != "numbers":
        return {"kind": kind} | ({"rough": True} if kind == "kernels" and data not in ("numbers", "text") else {})
    return {"kind": kind, **fields_within(lengths, channels, seconds, labelled, images=side > 0)}


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
        more = basis.kind, basis.lengths, basis.signature.width, time, basis.labelled, basis.side
        return {name: {"model": table_of(name, *more)} for name in reversed(self.names)}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        """What sequences were taken for."""
        side = frame.basis.side
        more = ", row by row: random patches stand beside the kernels"
        return [f"sequences are read as images of {side} x {side}{more}"] if _has_patches(self.tables(frame)) else []

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        own = KERNEL_WORDS[basis.kind == "numbers"]
        return {**own, "kernels": f"{own['kernels']}, and patches of images"} if _has_patches(arms) else own


def _has_patches(arms: Mapping[str, Any]) -> bool:
    """Whether kernels have random patches beside them."""
    return "patches" in arms.get("kernels", {}).get("model", {}).get("also", ())
