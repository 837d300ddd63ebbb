"""Scores over every example of a split, at given weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from headstart.models.model import SequenceModel
from headstart.objectives import ObjectiveSpec, Sums
from headstart.sequence import Signature
from headstart.training.batches import Batches

PICTURED = 16
"""How many examples of a per-position objective are kept with their outputs."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of a split, and outputs where they were asked for."""

    scores: dict[str, float]
    outputs: dict[str, torch.Tensor]


def add(total: dict[str, Any], sums: Sums) -> None:
    """Add a batch's sums, in float64."""
    for name, value in sums.items():
        value = value.detach().double()
        total[name] = total[name] + value if name in total else value


def to_numbers(total: dict[str, Any]) -> dict[str, Any]:
    """Totals on the CPU; scalars as floats."""
    return {k: (v.item() if v.ndim == 0 else v.cpu()) for k, v in total.items()}


@torch.no_grad()
def evaluate(
    model: SequenceModel,
    feed: Batches,
    objective: ObjectiveSpec,
    signature: Signature,
    *,
    seed: int,
    precision: str = "float32",
    keep: bool = False,
) -> Evaluation:
    """Scores of `model` on all units of `feed`, with the masks of epoch 0.

    keep: also return `output`, `target` and `index` of every unit (per sequence or pair), or, for objectives
    that answer per position, `inputs`, `masked`, `valid` and `output` of the first examples: 16, or as many as the
    first batch holds.
    """
    total: dict[str, Any] = {}
    kept: dict[str, list[torch.Tensor]] = {}
    per_position = objective.output(signature).kind == "position"
    for batch in feed.in_order():
        batch = objective.prepare(batch, signature, seed, 0)
        with forward_precision(feed.device, precision):
            output = model(batch)
        add(total, objective.measure(output, batch, signature))
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
    scores = objective.scores(to_numbers(total)) if total else {}
    return Evaluation(scores, outputs)


def forward_precision(device: torch.device, precision: str) -> torch.autocast:
    """Mixed precision where it is asked for; nothing otherwise."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False)
