"""Classes of sequences or of positions."""

from __future__ import annotations

from typing import Literal

import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.objectives.classes import Classes
from headstart.objectives.objective import Sums, cross_entropy_sums
from headstart.sequence import Batch, Signature


class ClassifySpec(Classes):
    """Cross-entropy over classes, of a sequence or of each position (as the target is)."""

    kind: Literal["classify"] = "classify"

    def describe(self) -> str:
        return "classified sequences"

    def output(self, signature: Signature) -> Output:
        if signature.paired:
            raise BadInput("objective.kind: 'classify' needs single sequences, the task has pairs; use 'retrieve'")
        where: Literal["position", "sequence"] = "position" if signature.per_position else "sequence"
        return self.output_of(where, signature.targets * signature.classes, signature)

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        assert batch.target is not None
        rows = output.reshape(-1, signature.classes)
        return cross_entropy_sums(rows, batch.target.flatten(), self.label_smoothing, self.class_weights)
