"""Scores over every example of a split, at given weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headstart.models.model import Network
from headstart.objectives import ObjectiveSpec
from headstart.sequence import Signature
from headstart.training.batches import Batches
from headstart.training.metrics import TrainMetrics

PICTURED = 16
"""How many examples of a per-position objective are kept with their outputs."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a split, and outputs where they were asked for."""

    scores: dict[str, float]
    outputs: dict[str, torch.Tensor]


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
) -> Evaluation:
    """Scores of `model` on all units of `batches`, with the masks of epoch 0.

    keep: also return `output`, `target` and `index` of every unit (per sequence or pair), or, for objectives
    that answer per position, `inputs`, `masked`, `valid` and `output` of the first examples: 16, or as many as the
    first batch holds.
    """
    metrics = TrainMetrics(batches.device)
    kept: dict[str, list[torch.Tensor]] = {}
    per_position = objective.output(signature).kind == "position"
    for batch in batches.in_order():
        batch = objective.prepare(batch, signature, seed, 0)
        with forward_precision(batches.device, precision):
            output = model(batch)
        metrics.add(objective.measure(output, batch, signature))
        if keep and not (per_position and kept):
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
                    kept.setdefault(name, []).append(value[:PICTURED] if per_position else value)
    outputs = {name: torch.cat(values).contiguous().cpu() for name, values in kept.items()}
    return Evaluation(objective.scores(metrics.totals()) if metrics.shapes else {}, outputs)


def forward_precision(device: torch.device, precision: str) -> torch.autocast:
    """Mixed precision where it is asked for; nothing otherwise."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False)
