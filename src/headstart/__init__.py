"""Sequence models from data-driven starting weights, compared fairly because of it.

`run` performs a study and returns its `Results`, `Study` holds one, `load` gives a trained model.
`SequenceClassifier` and `SequenceRegressor` fit sequences of your own.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] in ("headstart", "-mheadstart") and not sys.flags.safe_path:
    # `python -m headstart` puts the working directory, which may be anybody's, first: a json.py in it would be run.
    sys.path.append(sys.path.pop(0))

from typing import TYPE_CHECKING, Any

from headstart.errors import BadInput

if TYPE_CHECKING:
    from headstart.api import Study, load, run
    from headstart.estimator import SequenceClassifier, SequenceRegressor
    from headstart.plugins import register_mixer, register_model, register_objective, register_task
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
    "evaluate",
    "load",
    "make_task",
    "pretrain",
    "register_mixer",
    "register_model",
    "register_objective",
    "register_task",
    "run",
    "train",
]

_HOMES = {
    "run": "headstart.api",
    "load": "headstart.api",
    "train": "headstart.training.library",
    "pretrain": "headstart.training.library",
    "evaluate": "headstart.training.library",
    "Study": "headstart.api",
    "register_mixer": "headstart.plugins",
    "register_model": "headstart.plugins",
    "register_objective": "headstart.plugins",
    "register_task": "headstart.plugins",
    "Examples": "headstart.sequence",
    "Task": "headstart.tasks.task",
    "TaskSpec": "headstart.tasks.task",
    "make_task": "headstart.tasks.build",
    "Results": "headstart.study.results.results",
    "SequenceClassifier": "headstart.estimator",
    "SequenceRegressor": "headstart.estimator",
}


def __getattr__(name: str) -> Any:
    """Import late: `headstart --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headstart' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Names that are imported late are there, too: for completion in a notebook."""
    return sorted({*globals(), *__all__})
