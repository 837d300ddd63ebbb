"""What stands in a stage that has no data and asks nothing, since its weights are read."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from headstart.objectives import ObjectiveSpec
from headstart.sequence import Examples, Signature
from headstart.tasks import Task, TaskSpec


class NoTask(TaskSpec):
    """No example at all. It is in no table: nobody asks for it."""

    kind: Literal["none"] = "none"
    generated: ClassVar[bool] = True
    baselines: ClassVar[tuple[()]] = ()

    def load(self, data: Path) -> Task:
        """Three empty splits."""
        del data
        empty = Examples(np.zeros((0, 1), np.float32), np.zeros(1, np.int64), None, np.zeros(0, np.int64))
        return Task(Signature("floats", 1, 1, 1, "none"), empty, empty, empty)


class NoObjective(ObjectiveSpec):
    """No question at all."""

    kind: Literal["none"] = "none"
    uses_target: ClassVar[bool] = False
