"""Classes of pairs of sequences."""

from __future__ import annotations

from typing import Literal

import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.objectives.classes import Classes
from headstart.objectives.objective import Sums, cross_entropy_sums
from headstart.sequence import Batch, Signature


class RetrieveSpec(Classes):
    """Cross-entropy over classes of a pair of sequences (rows 2i and 2i + 1). Source: Tay et al. 2020."""

    kind: Literal["retrieve"] = "retrieve"

    def describe(self) -> str:
        return "classified pairs of sequences"

    def output(self, signature: Signature) -> Output:
        if not signature.paired:
            raise BadInput("objective.kind: 'retrieve' needs pairs, the task has single sequences; use 'classify'")
        return self.output_of("pair", signature.classes, signature)

    def measure(self, output: torch.Tensor, batch: Batch, signature: Signature) -> Sums:
        del signature
        assert batch.target is not None
        return cross_entropy_sums(output, batch.target[::2], self.label_smoothing, self.class_weights)
