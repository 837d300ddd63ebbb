"""Sequence models from data-driven starting weights, compared fairly because of it.

`run` performs a study and returns its `Results`, `Study` holds one, `load` gives a trained model.
`SequenceClassifier` and `SequenceRegressor` fit sequences of your own.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] in ("headstart", "-mheadstart") and not sys.flags.safe_path:
    # `python -m headstart` puts the working directory, which may be anybody's, first: a json.py in it would be run.
    sys.path.append(sys.path.pop(0))

from typing import TYPE_CHECKING

from headstart.errors import BadInput
from headstart.late import late_names

if TYPE_CHECKING:
    from headstart.api import Study, arrays, load, run
    from headstart.estimator import SequenceClassifier, SequenceRegressor
    from headstart.plugins import (
        register_mixer,
        register_model,
        register_objective,
        register_optimizer,
        register_schedule,
        register_task,
    )
    from headstart.sequence import Examples
    from headstart.study.results.results import Results
    from headstart.tasks.build import make_task
    from headstart.tasks.task import Task, TaskSpec
    from headstart.training.library import evaluate, pretrain, train

__version__ = "0.1.0"
__all__ = [
    "BadInput",
    "Examples",
    "Results",
    "SequenceClassifier",
    "SequenceRegressor",
    "Study",
    "Task",
    "TaskSpec",
    "arrays",
    "evaluate",
    "load",
    "make_task",
    "pretrain",
    "register_mixer",
    "register_model",
    "register_objective",
    "register_optimizer",
    "register_schedule",
    "register_task",
    "run",
    "train",
]

_HOMES = {
    "run": "api",
    "arrays": "api",
    "load": "api",
    "train": "training.library",
    "pretrain": "training.library",
    "evaluate": "training.library",
    "Study": "api",
    "register_mixer": "plugins",
    "register_model": "plugins",
    "register_objective": "plugins",
    "register_optimizer": "plugins",
    "register_schedule": "plugins",
    "register_task": "plugins",
    "Examples": "sequence",
    "Task": "tasks.task",
    "TaskSpec": "tasks.task",
    "make_task": "tasks.build",
    "Results": "study.results.results",
    "SequenceClassifier": "estimator",
    "SequenceRegressor": "estimator",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
