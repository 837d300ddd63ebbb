"""What the batches since the last record add up to: the train scores of a record, without a further forward pass."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from headstart.objectives import ObjectiveSpec, Sums
from headstart.training.evaluate import to_numbers

STATE = "running"
"""How a saved state calls it: `running/NAME` per sum; in older states `running` alone, (2,): loss and count."""


class TrainMetrics:
    """An objective's sums since the last record, float64, in one tensor on the device, where a recorded step adds.

    The first batch lays it out (steps are recorded only after some). A sum that an older state lacks is NaN until
    the next record.
    """

    def __init__(self, device: torch.device) -> None:
        self.flat = torch.zeros(0, dtype=torch.float64, device=device)
        self.shapes: dict[str, torch.Size] = {}

    @torch.no_grad()
    def add(self, sums: Sums) -> None:
        """Add a batch's sums."""
        if sums.keys() != self.shapes.keys():
            self._lay_out(sums)
        self.flat += torch.cat([sums[name].detach().double().reshape(-1) for name in self.shapes])

    def _lay_out(self, sums: Sums) -> None:
        held = self.parts()
        unknown = math.nan if held else 0.0
        self._hold({name: held.get(name, self.flat.new_full(value.shape, unknown)) for name, value in sums.items()})

    def _hold(self, parts: Mapping[str, torch.Tensor]) -> None:
        self.shapes = {name: part.shape for name, part in parts.items()}
        self.flat = torch.cat([part.to(self.flat).reshape(-1) for part in parts.values()])

    def parts(self) -> dict[str, torch.Tensor]:
        """The sums by name, as views."""
        found, first = {}, 0
        for name, shape in self.shapes.items():
            last = first + shape.numel()
            found[name], first = self.flat[first:last].view(shape), last
        return found

    @property
    def loss(self) -> float:
        """The sum of the loss."""
        return float(self.parts()["loss"])

    def scores(self, objective: ObjectiveSpec) -> dict[str, float]:
        """The objective's scores of these batches; the loss alone where another sum is not known, or no number."""
        totals = to_numbers({name: part.cpu() for name, part in self.parts().items()})
        if not bool(self.flat.isfinite().all()):
            return {"loss": float(totals["loss"] / max(totals["count"], 1.0))}
        return objective.scores(totals)

    def clear(self) -> None:
        """Begin anew, in the same place."""
        self.flat.zero_()

    def state(self) -> dict[str, torch.Tensor]:
        """What a saved state holds."""
        return {f"{STATE}/{name}": part for name, part in self.parts().items()}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go on from a saved state's tensors."""
        if STATE in tensors:
            parts = dict(zip(("loss", "count"), tensors[STATE], strict=True))
        else:
            start = f"{STATE}/"
            parts = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
        if parts:
            self._hold(parts)
