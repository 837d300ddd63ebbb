"""Small models on ragged made data, in double precision."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from headstart.models.heads import Output
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.sequence import Batch, collate
from headstart.spec import read
from support.made_tasks import MadeSpec


def small(mixer: Any, seed: int = 0, **more: Any) -> SequenceModel:
    """Two blocks of width 8 for sequences of up to 12 pairs of numbers; float64, tables of positions too."""
    settings: Mapping[str, Any] = {"width": 8, "blocks": 2, "mixer": mixer, **more}
    task = MadeSpec().load(None)  # type: ignore[arg-type]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return build_model(read(ModelSpec, settings), task.signature, Output("sequence", 2), seed)
    finally:
        torch.set_default_dtype(before)


def batch(size: int = 6) -> Batch:
    """The first examples: of 5 to 12 positions, padded."""
    task = MadeSpec().load(None)  # type: ignore[arg-type]
    return collate(task.val, np.arange(size)).to(torch.device("cpu"), torch.float64)


def each(settings: Batch) -> list[Batch]:
    """The examples of a batch one by one, without padding."""
    out = []
    for row in range(len(settings)):
        n = int(settings.valid[row].sum())
        out.append(
            Batch(
                settings.inputs[row : row + 1, :n],
                settings.valid[row : row + 1, :n],
                settings.index[row : row + 1],
                full=True,
            )
        )
    return out
