"""Records of a running study, passed on as they come: to TensorBoard, Weights & Biases, MLflow, a function.

A tracker sees copies, after the store has what they say: it cannot change a result. One that fails is dropped, which is
said once, and the run goes on. What they write lies in `<store>/tracking/`; nothing is sent anywhere unless variables
of those tools (WANDB_MODE, MLFLOW_TRACKING_URI) say so. Test scores are left out: dashboards are for choosing.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from headstart import disk
from headstart.errors import BadInput, first_line, nearest
from headstart.runner.events import Event, Failed, Finished, Notice, StageProgress, Started, Stopped
from headstart.spec import flat
from headstart.store import Store
from headstart.study.language.plan import Plan, PlannedStage

Track = str | Callable[[Event], None]
"""A tracker's name, or a function that is called with a copy of every event."""
FOLDER = "tracking"


class Tracker(Protocol):
    """Where records go. A stage begins, perhaps after `step` steps of an earlier attempt, has records, and ends."""

    def __init__(self, folder: Path, study: str) -> None:
        """folder: of its files, not made yet. Raises: ImportError without its package."""

    def begin(self, stage: PlannedStage, step: int) -> None:
        """A stage begins, or goes on after so many steps; later records of an earlier attempt are void."""

    def record(self, identity: str, step: int, values: Mapping[str, float]) -> None:
        """What an evaluation measured, by names such as `val/accuracy`."""

    def end(self, identity: str, status: str, values: Mapping[str, float]) -> None:
        """The stage is complete, diverged, failed or stopped; values: validation scores at its best weights."""

    def close(self) -> None:
        """The run is over."""


def settings_of(stage: PlannedStage) -> dict[str, Any]:
    """What a stage is, as the trackers show it."""
    spec = stage.spec.model_dump(mode="json", exclude={"parent"})
    return {"identity": stage.identity, "stage": stage.name, "arms": ", ".join(stage.arms), **spec}


class TensorBoardTracker:
    """Event files for `tensorboard --logdir`, a folder for each stage."""

    def __init__(self, folder: Path, study: str) -> None:
        import_module("tensorboard")
        self._make = import_module("torch.utils.tensorboard").SummaryWriter
        self.folder, self.study = folder, study
        self._writers: dict[str, Any] = {}

    def begin(self, stage: PlannedStage, step: int) -> None:
        folder = self.folder / self.study / f"{stage.name}-{stage.identity}"
        writer = self._make(log_dir=str(folder), purge_step=step + 1 if step else None)
        self._writers[stage.identity] = writer
        if not step:
            writer.add_text("settings", f"    {json.dumps(settings_of(stage), indent=1)}".replace("\n", "\n    "), 0)

    def record(self, identity: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writers[identity].add_scalar(name, value, step)
        self._writers[identity].flush()

    def end(self, identity: str, status: str, values: Mapping[str, float]) -> None:
        del status, values
        self._writers.pop(identity).close()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class WandbTracker:
    """A run of Weights & Biases for each stage: offline, for `wandb sync`, unless WANDB_MODE says otherwise."""

    def __init__(self, folder: Path, study: str) -> None:
        self._wandb = import_module("wandb")
        self.folder, self.study = folder, study
        self._runs: dict[str, Any] = {}

    def begin(self, stage: PlannedStage, step: int) -> None:
        del step
        disk.make_folder(self.folder)
        self._runs[stage.identity] = self._wandb.init(
            project=self.study,
            id=stage.identity,
            name=f"{stage.name} {', '.join(stage.arms)}".strip(),
            dir=str(self.folder),
            config=settings_of(stage),
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            reinit="create_new",
            settings=self._wandb.Settings(silent=True, console="off", disable_git=True, save_code=False),
        )

    def record(self, identity: str, step: int, values: Mapping[str, float]) -> None:
        self._runs[identity].log(dict(values), step=step)

    def end(self, identity: str, status: str, values: Mapping[str, float]) -> None:
        run = self._runs.pop(identity)
        run.summary.update({"status": status, **values})
        run.finish(exit_code=int(status not in ("complete", "diverged")))

    def close(self) -> None:
        for run in self._runs.values():
            run.finish(exit_code=1)


class MlflowTracker:
    """A run of MLflow for each stage, in a database of the store unless MLFLOW_TRACKING_URI names another place."""

    def __init__(self, folder: Path, study: str) -> None:
        self._mlflow = import_module("mlflow")
        self.folder, self.study = folder, study
        self._client: Any = None
        self._experiment = ""
        self._runs: dict[str, str] = {}

    def _open(self) -> None:
        """The database, and the experiment of the study."""
        disk.make_folder(self.folder)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(self.folder / 'mlflow.db').absolute()}"
        self._client = self._mlflow.MlflowClient(tracking_uri=uri)
        experiment = self._client.get_experiment_by_name(self.study)
        if experiment is not None:
            self._experiment = experiment.experiment_id
        else:
            artifacts = (self.folder / "artifacts").absolute().as_uri()
            self._experiment = self._client.create_experiment(self.study, artifact_location=artifacts)

    def begin(self, stage: PlannedStage, step: int) -> None:
        if self._client is None:
            self._open()
        wanted = f"tags.identity = '{stage.identity}'"
        earlier = self._client.search_runs([self._experiment], filter_string=wanted, max_results=1) if step else []
        if earlier:
            self._runs[stage.identity] = earlier[0].info.run_id
            self._client.update_run(earlier[0].info.run_id, status="RUNNING")
            return
        tags = {"identity": stage.identity}
        run = self._client.create_run(self._experiment, tags=tags, run_name=f"{stage.name} {', '.join(stage.arms)}")
        self._runs[stage.identity] = run.info.run_id
        for name, value in flat(settings_of(stage)).items():
            self._client.log_param(run.info.run_id, name, str(value)[:500])

    def record(self, identity: str, step: int, values: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        for name, value in values.items():
            self._client.log_metric(self._runs[identity], name, value, timestamp=now, step=step)

    def end(self, identity: str, status: str, values: Mapping[str, float]) -> None:
        run = self._runs.pop(identity)
        for name, value in values.items():
            self._client.log_metric(run, name, value)
        ends = {"complete": "FINISHED", "diverged": "FINISHED", "failed": "FAILED"}
        self._client.set_terminated(run, ends.get(status, "KILLED"))

    def close(self) -> None:
        for run in self._runs.values():
            self._client.set_terminated(run, "KILLED")


TRACKERS: dict[str, type[Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}


INSTEAD_OF_CSV = (
    "`--tidy FILE.csv` of run and report writes scores and curves, "
    "and `headstart show STAGE` prints the records of a stage"
)


class Tracking:
    """The trackers of one run, by name.

    Raises: BadInput for a name that is no tracker's, or whose package is not installed.
    """

    def __init__(self, track: Track | Sequence[Track], plan: Plan, store: Store, option: str = "track") -> None:
        self._stages = plan.every_stage
        self._trackers: dict[str, Tracker | Callable[[Event], None]] = {}
        self._begun: dict[str, set[str]] = {}
        for item in [track] if isinstance(track, str) or callable(track) else track:
            if callable(item):
                name = getattr(item, "__qualname__", type(item).__qualname__)
                alike = sum(key.partition(" ")[0] == name for key in self._trackers)  # two lambdas have one name
                self._trackers[f"{name} {alike + 1}" if alike else name] = item
                continue
            if item == "csv":
                raise BadInput(f"{option}: csv is no tracker any more; {INSTEAD_OF_CSV}")
            if item not in TRACKERS:
                raise BadInput(f"{option}: {nearest(item, TRACKERS)}")
            try:
                self._trackers[item] = TRACKERS[item](store.root / FOLDER / item, plan.study.name)
            except ImportError as error:
                raise BadInput(
                    f"{option}: {item} is not installed ({error}): pip install 'headstart[track]', or leave it out"
                ) from None
            except Exception as error:  # a package that is there and does not go with another one
                raise BadInput(
                    f"{option}: {item} cannot be imported ({type(error).__name__}: {error}); install it again"
                ) from None

    def follow(self, plan: Plan) -> None:
        """Know the stages of a plan that has grown, as that of a search does."""
        self._stages = plan.every_stage

    def through(self, events: Iterable[Event]) -> Iterator[Event]:
        """The same events, each passed on after it was yielded, and notices of trackers that failed."""
        try:
            for event in events:
                yield event
                yield from self.take(event)
        finally:
            self.close()

    def take(self, event: Event) -> Iterator[Notice]:
        """Pass an event on; yields what a person should hear of trackers that failed, which are dropped."""
        for name, tracker in list(self._trackers.items()):
            try:
                if callable(tracker):
                    tracker(copy.deepcopy(event))
                else:
                    self._pass_on(name, tracker, event)
            except (Exception, SystemExit) as error:
                del self._trackers[name]
                reason = first_line(error, typed=True)
                text = f"tracking with {name} failed ({reason}); it is left out from here on, and the run goes on"
                yield Notice(event.identity, event.name, text)

    def close(self) -> None:
        """Close what is open; a tracker that fails in this is passed over, since nothing is lost with it."""
        for tracker in self._trackers.values():
            if not callable(tracker):
                with contextlib.suppress(Exception, SystemExit):
                    tracker.close()

    def _pass_on(self, name: str, tracker: Tracker, event: Event) -> None:
        """An event in the tracker's words. A stage that was begun twice, as its worker died, ends before."""
        key, begun = event.identity, self._begun.setdefault(name, set())
        if isinstance(event, Started):
            if key in begun:
                tracker.end(key, "stopped", {})
            begun.add(key)
            tracker.begin(self._stages[key], event.step)
        elif key in begun and isinstance(event, StageProgress):
            if event.record is not None:
                tracker.record(key, event.step, _numbers(event.record))
        elif key in begun and isinstance(event, (Finished, Failed, Stopped)):
            begun.discard(key)
            status = event.result["status"] if isinstance(event, Finished) else _END[type(event)]
            scores = event.result["scores"]["best"].get("val", {}) if isinstance(event, Finished) else {}
            tracker.end(key, status, _numbers({"best": {"val": scores}}))


_END: dict[type[Event], str] = {Failed: "failed", Stopped: "stopped"}


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record by names such as `val/accuracy`; what is not finite is left out."""
    values = flat(record, mark="/").items()
    numbers = {name: value for name, value in values if isinstance(value, (int, float)) and name != "step"}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
