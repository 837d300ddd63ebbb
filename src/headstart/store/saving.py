"""When a state is saved: often, so that little is lost; seldom enough that a large one does not hold up training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SAVING_SHARE = 0.05
"""Of the time, what saving may take."""
SAVING_RATE = 2**28
"""Bytes a second at which a first state is taken to be saved: copying, two digests and a slow disk."""


class SaveTimes:
    """Seconds between states: `every`, or as many as bring the cost of the last one down to SAVING_SHARE of the time.

    every: 0 saves whenever it is asked. since: where the first interval begins, in seconds of any clock. share: of the
    time, where several stages save in one process.
    """

    def __init__(self, every: float, since: float, share: float = SAVING_SHARE) -> None:
        self.every, self.since, self.share = every, since, share
        self.cost: float | None = None

    def due(self, now: float) -> bool:
        """Whether a state should be saved now, as far as is known of what it costs."""
        rest = (self.cost or 0.0) * (1 / self.share - 1)
        return self.every == 0 or now - self.since >= max(self.every, rest)

    def affordable(self, tensors: Mapping[str, torch.Tensor], now: float) -> bool:
        """The same for a state that is at hand: of a first one the size says what it will cost."""
        if self.cost is None:
            self.cost = sum(tensor.nbytes for tensor in tensors.values()) / SAVING_RATE
        return self.due(now)

    def saved(self, began: float, ended: float) -> None:
        """A state has been saved."""
        self.cost, self.since = ended - began, ended
