"""A model of series: its frozen features under a linear readout, a model without gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headstart.fit.arms.arm import Arm, Frame, Networks
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings

if TYPE_CHECKING:
    from headstart.fit.reading import SeriesModel

EMBEDDING = "embedding"


class Features(Arm):
    """Wanted where `--backbone` names a model of series whose features take at most half of the time."""

    names = (EMBEDDING,)
    network = False
    slow = True
    servable = True
    option = "backbone"
    rank = 1

    def weights(self, known: Known) -> SeriesModel | None:
        return known.series

    def title(self, known: Known) -> str:
        return "" if known.series is None else f", beside frozen features of {known.series.name}"

    def tables(self, frame: Frame) -> dict[str, Any]:
        series = frame.known.series
        return {EMBEDDING: {"model": series.model}} if series is not None and series.fits(frame.settings.time) else {}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        series, signature = frame.known.series, frame.known.signature
        if series is None:
            return []
        return series.texts(EMBEDDING, signature.width, signature.target == "class", series.fits(frame.settings.time))

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {} if known.series is None else {EMBEDDING: known.series.text(known.signature.target == "class")}
