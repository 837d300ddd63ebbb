"""Scores: of the batches since the last record, and over every example of a split at given weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headstart.models.model import Network
from headstart.objectives import ObjectiveSpec, Sums
from headstart.sequence import IGNORE, Batch, Signature
from headstart.training.batches import Batches

PICTURED = 16
"""How many examples of a per-position objective are kept with their outputs."""


STATE = "running"
"""Its name in a saved state: `running/NAME` per sum; in older states `running` alone, (2,): loss and count."""


Reading = Callable[[], float | None]


def read_later(number: torch.Tensor) -> Reading:
    """A number () on its way from a GPU, which nobody waits for: what is returned gives None until it is there."""
    if number.device.type == "cpu":
        value = float(number)
        return lambda: value
    copy = torch.empty((), dtype=number.dtype, pin_memory=True)
    copy.copy_(number, non_blocking=True)
    arrived: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return lambda: float(copy) if arrived.query() else None


class TrainMetrics:
    """An objective's sums over batches, float64, in one tensor on the device, so that a recorded step can add to it.

    The first batch lays it out (steps are recorded only after some). A sum that an older state lacks is NaN until
    the next record.
    """

    def __init__(self, device: torch.device) -> None:
        self.flat = torch.zeros(0, dtype=torch.float64, device=device)
        self.shapes: dict[str, torch.Size] = {}
        self.reading: Reading = lambda: 0.0

    @torch.no_grad()
    def add(self, sums: Sums) -> None:
        """Add a batch's sums."""
        self.expect({name: x.shape for name, x in sums.items()})
        self.flat += torch.cat([sums[name].detach().double().reshape(-1) for name in self.shapes])

    def expect(self, shapes: Mapping[str, torch.Size]) -> None:
        """Make room for sums of these shapes, in this order: a restored state may have another one."""
        if list(shapes) != list(self.shapes):
            sums = self.parts()
            missing = math.nan if sums else 0.0
            self._lay_out({name: sums.get(name, torch.full(shape, missing)) for name, shape in shapes.items()})

    def _lay_out(self, parts: Mapping[str, torch.Tensor]) -> None:
        self.shapes = {name: part.shape for name, part in parts.items()}
        self.flat = torch.cat([part.to(self.flat, non_blocking=True).reshape(-1) for part in parts.values()])

    def parts(self) -> dict[str, torch.Tensor]:
        """The sums by name, as views."""
        pieces = self.flat.split_with_sizes([shape.numel() for shape in self.shapes.values()]) if self.shapes else ()
        return {name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)}

    def totals(self) -> dict[str, Any]:
        """The sums by name, on the CPU; scalars as floats."""
        parts = {name: part.cpu() for name, part in self.parts().items()}
        return {name: part.item() if part.ndim == 0 else part for name, part in parts.items()}

    @property
    def loss(self) -> float:
        """The sum of the loss."""
        return float(self.parts()["loss"])

    def glance(self) -> float:
        """The sum of the loss as far as it is known without waiting for a GPU: now, at the last glance, or before."""
        before, self.reading = self.reading, read_later(self.parts()["loss"])
        now = self.reading()
        if now is None:
            now = before()
        return 0.0 if now is None else now

    def scores(self, objective: ObjectiveSpec) -> dict[str, float]:
        """The objective's scores of these batches; the loss alone where another sum is unknown or not finite."""
        totals = self.totals()
        if not bool(self.flat.isfinite().all()):
            return {"loss": float(totals["loss"] / (totals["count"] or 1.0))}
        return objective.scores(totals)

    def clear(self) -> None:
        """Begin anew, in the same memory."""
        self.flat.zero_()

    def state(self) -> dict[str, torch.Tensor]:
        """The tensors of a saved state."""
        return {f"{STATE}/{name}": part for name, part in self.parts().items()}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go on from a saved state's tensors."""
        if STATE in tensors:
            parts = dict(zip(("loss", "count"), tensors[STATE], strict=True))
        else:
            start = f"{STATE}/"
            parts = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
        if parts:
            self._lay_out(parts)


@dataclass(frozen=True)
class Evaluation:
    """Scores of a split, and outputs where they were asked for."""

    scores: dict[str, float]
    outputs: dict[str, torch.Tensor]


Slices = Callable[[Batch], Mapping[str, torch.Tensor]]
"""A batch -> by name, whole numbers (B, L) of its positions."""


class SliceCounts:
    """Right answers and answers asked for, of each number of each slice."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, int], list[int]] = {}

    def add(self, output: torch.Tensor, batch: Batch, slices: Mapping[str, torch.Tensor]) -> None:
        """Count a batch. output: (B, L, K) of classes; target (B, L)."""
        assert batch.target is not None
        asked = batch.target != IGNORE
        right = (output.argmax(-1) == batch.target)[asked]
        for name, numbers in slices.items():
            values, where = torch.unique(numbers[asked], return_inverse=True)
            hits, each = (torch.bincount(where, weights, len(values)) for weights in (right.double(), None))
            for value, hit, count in zip(values.tolist(), hits.tolist(), each.tolist(), strict=True):
                total = self.counts.setdefault((name, value), [0, 0])
                total[0], total[1] = total[0] + int(hit), total[1] + int(count)

    def scores(self) -> dict[str, float]:
        """`accuracy[length=64]` and so on, in the order of their names and numbers."""
        return {
            f"accuracy[{name}={value}]": hits / count for (name, value), (hits, count) in sorted(self.counts.items())
        }


@torch.no_grad()
def evaluate(
    model: Network,
    batches: Batches,
    objective: ObjectiveSpec,
    signature: Signature,
    *,
    seed: int,
    precision: str = "float32",
    keep: bool = False,
    slices: Slices | None = None,
) -> Evaluation:
    """Scores of `model` on all units of `batches`, with the masks of epoch 0.

    slices: as `Task.slices`; the accuracy of each is a score of its own, `accuracy[length=64]`.

    keep: also return `output`, `target` and `index` of every unit (per sequence or pair), or, for objectives
    that answer per position, `inputs`, `masked`, `valid` and `output` of the first examples: 16, or as many as the
    first batch holds.
    """
    metrics, counts = TrainMetrics(batches.device), SliceCounts()
    pieces: dict[str, list[torch.Tensor]] = {}
    per_position = objective.output(signature).kind == "position"
    for batch in batches.in_order():
        batch = objective.prepare(batch, signature, seed, 0)
        with forward_precision(batches.device, precision):
            output = model(batch)
        metrics.add(objective.measure(output, batch, signature))
        if slices is not None:
            counts.add(output, batch, slices(batch))
        if keep and not (per_position and pieces):
            parts = {
                "output": output.to(torch.promote_types(output.dtype, torch.float32)),
                "index": batch.index,
                "target": batch.target,
                "inputs": batch.inputs,
                "masked": batch.masked,
                "valid": batch.valid,
            }
            wanted = ("output", "index", "inputs", "masked", "valid") if per_position else ("output", "index", "target")
            for name in wanted:
                value = parts[name]
                if value is not None:
                    pieces.setdefault(name, []).append(value[:PICTURED] if per_position else value)
    outputs = {name: torch.cat(values).contiguous().cpu() for name, values in pieces.items()}
    scores = objective.scores(metrics.totals()) if metrics.shapes else {}
    return Evaluation({**scores, **counts.scores()} if scores else scores, outputs)


def forward_precision(device: torch.device, precision: str) -> torch.autocast:
    """Mixed precision where it is asked for; nothing otherwise."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False)
