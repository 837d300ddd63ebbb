"""A model of series: its frozen features under a linear readout, a model without gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit.arms.arm import Arm, Frame, Networks, Offer
from headstart.fit.basis import Basis
from headstart.fit.settings import FitSettings

EMBEDDING = "embedding"


class EmbeddingArm(Arm):
    """Wanted where `--backbone` names a model of series; it takes part where its features take at most half of the
    time."""

    names = (EMBEDDING,)
    network = False
    slow = True
    servable = True
    option = "backbone"
    reads = "series"
    rank = 1

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        return 8.0

    def lacks(self, offer: Offer) -> bool:
        return offer.basis.series is not None and not offer.basis.series.fits(offer.settings.time)

    def left_out(self, offer: Offer) -> list[str]:
        return self._lines(offer.basis, fits=False)

    def title(self, basis: Basis) -> str:
        return "" if basis.series is None else f", beside frozen features of {basis.series.name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        series = frame.basis.series
        return {} if series is None else {EMBEDDING: {"model": series.model}}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        return self._lines(frame.basis, fits=True)

    def _lines(self, basis: Basis, fits: bool) -> list[str]:
        signature = basis.signature
        assert basis.series is not None, "it is wanted"
        return basis.series.texts(EMBEDDING, signature.width, signature.target == "class", fits)

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {} if basis.series is None else {EMBEDDING: basis.series.text(basis.signature.target == "class")}
