"""The door to the research core: what `fit`, `serve` and `estimator` ask of studies, stages and networks, and no more.

A name is imported from its home when it is first asked for, so that what needs one does not wait for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstart.late import late_names

if TYPE_CHECKING:
    from headstart.checkpoints.folder import Folder
    from headstart.models.model import Network
    from headstart.plugins import kinds_allowed, load_networks, plugins_of
    from headstart.runner.events import Event, Failed, StepTime
    from headstart.runner.job import Runtime, begin
    from headstart.runner.perform import perform
    from headstart.stage.elsewhere import find_checkpoint, find_network
    from headstart.stage.finished import FinishedStage
    from headstart.store import Store
    from headstart.study.language.estimate import plan_study, step_times
    from headstart.study.language.plan import Plan, PlannedStage
    from headstart.study.paper.summary import results_on_task
    from headstart.study.results.results import Results
    from headstart.study.results.rows import Row
    from headstart.tasks.task import Task
    from headstart.training.answers import Predictor
    from headstart.training.saved import NetworkSpec

__all__ = [
    "Event",
    "Failed",
    "FinishedStage",
    "Folder",
    "Network",
    "NetworkSpec",
    "Plan",
    "PlannedStage",
    "Predictor",
    "Results",
    "Row",
    "Runtime",
    "StepTime",
    "Store",
    "Task",
    "begin",
    "find_checkpoint",
    "find_network",
    "kinds_allowed",
    "load_networks",
    "perform",
    "plan_study",
    "plugins_of",
    "results_on_task",
    "step_times",
]

_HOMES = {
    "Event": "runner.events",
    "Failed": "runner.events",
    "FinishedStage": "stage.finished",
    "Folder": "checkpoints.folder",
    "Network": "models.model",
    "NetworkSpec": "training.saved",
    "Plan": "study.language.plan",
    "PlannedStage": "study.language.plan",
    "Predictor": "training.answers",
    "Results": "study.results.results",
    "Row": "study.results.rows",
    "Runtime": "runner.job",
    "StepTime": "runner.events",
    "Store": "store",
    "Task": "tasks.task",
    "begin": "runner.job",
    "find_checkpoint": "stage.elsewhere",
    "find_network": "stage.elsewhere",
    "kinds_allowed": "plugins",
    "load_networks": "plugins",
    "perform": "runner.perform",
    "plan_study": "study.language.estimate",
    "plugins_of": "plugins",
    "results_on_task": "study.paper.summary",
    "step_times": "study.language.estimate",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
