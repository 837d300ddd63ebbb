"""Small generated tasks of signatures that few real tasks have: pairs, numbers, gaps, targets per position."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from headstart.seeds import below, normal, uniform
from headstart.sequence import Examples, Signature, ragged
from headstart.tasks.task import Task, TaskSpec

SIZES = {"train": 48, "val": 16, "test": 16}


class MadeSpec(TaskSpec):
    """Ragged random walks. shape: what is asked (see `_target`); gaps: some values are missing."""

    kind: Literal["made"] = "made"
    shape: Literal["class", "numbers", "positions", "pairs"] = "class"
    gaps: bool = False
    tokens: bool = False

    generated: ClassVar[bool] = True
    source_digest: ClassVar[str] = "made"
    loss: ClassVar[Literal["l1", "l2", "levels", "tokens"]] = "l1"

    def load(self, data: Path) -> Task:
        del data
        sets = {name: _examples(self, number, size) for number, (name, size) in enumerate(SIZES.items())}
        kind: Literal["number", "class"] = "number" if self.shape == "numbers" else "class"
        signature = Signature(
            "tokens" if self.tokens else "floats",
            6 if self.tokens else 2,
            12,
            5,
            kind,
            classes=0 if kind == "number" else 2,
            targets=2 if kind == "number" else 1,
            per_position=self.shape == "positions",
            paired=self.shape == "pairs",
            missing=self.gaps,
        )
        return Task(signature, sets["train"], sets["val"], sets["test"])


def _examples(spec: MadeSpec, number: int, size: int) -> Examples:
    lengths = 5 + below(number, "made/length", 8, np.arange(size))
    walks = (normal(number, "made/value", i, np.arange(n)[:, None], np.arange(2)) for i, n in enumerate(lengths))
    rows = [walk.cumsum(0) for walk in walks]
    values, offsets = ragged([row.astype(np.float32) for row in rows])
    up = np.array([float(row[-1, 0] > 0) for row in rows])
    index = np.arange(size, dtype=np.int64)
    if spec.shape == "numbers":
        target = np.array([[row[:, 0].mean(), row[:, 1].max()] for row in rows], dtype=np.float32)
        target[::7, 1] = np.nan
    elif spec.shape == "positions":
        target = (values[:, 0] > 0).astype(np.int64)
    elif spec.shape == "pairs":
        target = np.repeat((up[::2] == up[1::2]).astype(np.int64), 2)
    else:
        target = up.astype(np.int64)
    out = Examples(values, offsets, target, index, per_position=spec.shape == "positions", paired=spec.shape == "pairs")
    if spec.tokens:
        out = replace(out, values=np.clip(np.round(values[:, 0] + 3), 0, 5).astype(np.int64))
    if spec.gaps:
        seen = uniform(number, "made/gap", np.arange(len(values))[:, None], np.arange(2)) > 0.2
        out = replace(out, observed=seen, values=np.where(seen, values, 0).astype(np.float32))
    return out
