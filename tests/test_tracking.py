"""Tracking passes records on as they come, changes nothing, and never stops a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from support.kept_store import command
from support.store_content import content, differences

import headstart
from headstart.errors import BadInput
from headstart.runner.events import Event, Failed, Finished, Notice, Skipped, StageProgress, Started, Stopped
from headstart.tracking import TRACKERS, Tracking

STUDY: dict[str, Any] = {
    "name": "tracked",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 2, "evaluate_every": 1}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 3, "evaluate_every": 1}},
    },
    "columns": {
        "lists": {
            "task": {"kind": "listops", "train": 48, "val": 8, "test": 8, "min_length": 5, "max_length": 12},
            "model": {"width": 8, "blocks": 1},
        }
    },
    "arms": {"pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}},
    "report": {"baselines": False},
}
SCORES = {"epoch", "rate", "train/loss", "train/accuracy", "val/loss", "val/accuracy"}


def performed(root: Path, *track: Any) -> tuple[headstart.Study, list[Event]]:
    study = headstart.Study(STUDY, store=root)
    return study, list(study.perform(workers=0, tracking=Tracking(track, study.plan, study.store)))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the study gives when nobody watches."""
    study, _ = performed(tmp_path_factory.mktemp("alone"))
    return content(study.store, study.plan.stages)


class Notes:
    """A tracker that writes down in a file of each stage what it is told."""

    def __init__(self, folder: Path, study: str) -> None:
        self.folder = folder

    def _note(self, identity: str, *words: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / identity).open("a") as file:
            file.write(json.dumps(words) + "\n")

    def begin(self, stage: Any, step: int) -> None:
        self._note(stage.identity, "begin", stage.name, step)

    def record(self, identity: str, step: int, values: Any) -> None:
        self._note(identity, "record", step, values)

    def end(self, identity: str, status: str, values: Any) -> None:
        self._note(identity, "end", status)

    def close(self) -> None:
        pass


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """The tracker `notes`, and what it wrote down of a stage of the store in `tmp_path`."""
    monkeypatch.setitem(TRACKERS, "notes", Notes)

    def read(identity: str) -> list[Any]:
        path = tmp_path / "tracking" / "notes" / identity
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return read


def test_a_tracker_gets_each_record_of_each_stage(tmp_path: Path, alone: dict[str, Any], notes: Any) -> None:
    study, _ = performed(tmp_path, "notes")
    assert not differences(study.store, alone)
    for name, planned in study.plan.stages.items():
        begin, *records, end = notes(name)
        assert (begin, end) == (["begin", planned.name, 0], ["end", "complete"])
        stored = study.store.records(name)
        assert [step for _, step, _ in records] == [record["step"] for record in stored]
        assert [values["val/loss"] for *_, values in records] == [record["val"]["loss"] for record in stored]
        assert [values["rate"] for *_, values in records] == [record["rate"] for record in stored]


def test_records_come_as_they_are_made(tmp_path: Path, notes: Any) -> None:
    study = headstart.Study(STUDY, store=tmp_path)
    counts = []
    for event in study.perform(workers=0, tracking=Tracking(["notes"], study.plan, study.store)):
        if isinstance(event, StageProgress):
            counts.append(len(notes(event.identity)) - 1)
    assert sorted(set(counts)) == [0, 1, 2]


def test_a_resumed_stage_begins_after_its_last_step_and_what_is_not_finite_is_left_out(
    tmp_path: Path, notes: Any
) -> None:
    study = headstart.Study(STUDY, store=tmp_path)
    name, planned = next(iter(study.plan.stages.items()))
    tracking = Tracking(["notes"], study.plan, study.store)

    def event(kind: Any, **more: Any) -> None:
        assert list(tracking.take(kind(name, planned.name, **more))) == []

    event(Started, attempt=1)
    event(StageProgress, step=1, steps=5, record={"step": 1, "val": {"loss": 1.0}})
    event(Stopped, reason="limit")
    event(Started, attempt=2, step=2)
    event(Started, attempt=3, step=3)  # its worker died
    event(StageProgress, step=4, steps=5, record={"step": 4, "val": {"loss": None, "accuracy": 1.0}})
    assert notes(name) == [
        ["begin", planned.name, 0],
        ["record", 1, {"val/loss": 1.0}],
        ["end", "stopped"],
        ["begin", planned.name, 2],
        ["end", "stopped"],
        ["begin", planned.name, 3],
        ["record", 4, {"val/accuracy": 1.0}],
    ]


def test_a_function_gets_copies_of_all_events_and_cannot_change_a_result(tmp_path: Path, alone: dict[str, Any]) -> None:
    seen: list[Event] = []

    def spoil(event: Event) -> None:
        seen.append(event)
        if isinstance(event, StageProgress) and event.record is not None:
            event.record.clear()
        if isinstance(event, Finished):
            event.result["status"] = "failed"
            event.result["scores"].clear()

    study = headstart.Study(STUDY, store=tmp_path)
    headstart.run(study, track=spoil)
    assert not differences(study.store, alone)
    assert [type(event) for event in seen if not isinstance(event, StageProgress)] == [Started, Finished] * 2


def test_functions_of_one_name_all_get_the_events(tmp_path: Path) -> None:
    seen: tuple[list[Event], ...] = ([], [], [])
    headstart.run(headstart.Study(STUDY, store=tmp_path), track=[lambda e, own=own: own.append(e) for own in seen])
    assert seen[0]
    assert (
        [type(event) for event in seen[0]] == [type(event) for event in seen[1]] == [type(event) for event in seen[2]]
    )


@pytest.mark.parametrize("error", [ValueError("no room\nfor it"), SystemExit(3)])
def test_a_tracker_that_fails_is_said_once_and_dropped(
    tmp_path: Path, alone: dict[str, Any], error: BaseException, notes: Any
) -> None:
    calls: list[Event] = []

    def fail(event: Event) -> None:
        calls.append(event)
        raise error

    study, events = performed(tmp_path, fail, "notes")
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len(notices) == len(calls) == 1
    assert "fail failed (" in notices[0]
    assert "the run goes on" in notices[0]
    assert "\n" not in notices[0]
    assert not differences(study.store, alone)
    assert all(notes(name)[-1] == ["end", "complete"] for name in study.plan.stages)


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(
    tmp_path: Path, alone: dict[str, Any], notes: Any
) -> None:
    (tmp_path / "tracking").write_text("in the way")
    study, events = performed(tmp_path, "notes")
    assert sum(isinstance(event, Notice) for event in events) == 1
    assert not differences(study.store, alone)


def test_stages_that_are_done_already_are_not_tracked_again(tmp_path: Path, notes: Any) -> None:
    performed(tmp_path)
    _, events = performed(tmp_path, "notes")
    assert all(isinstance(event, Skipped) for event in events)
    assert not (tmp_path / "tracking").exists()


class FakeWriter:
    """As torch.utils.tensorboard.SummaryWriter."""

    made: ClassVar[list[Any]] = []

    def __init__(self, log_dir: str, purge_step: int | None = None) -> None:
        self.log_dir, self.purge_step = Path(log_dir), purge_step
        self.scalars: dict[int, dict[str, float]] = defaultdict(dict)
        self.text, self.open = "", True
        FakeWriter.made.append(self)

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars[global_step][tag] = scalar_value

    def add_text(self, tag: str, text_string: str, global_step: int) -> None:
        self.text = f"{tag} {global_step} {text_string}"

    def flush(self) -> None:
        assert self.open

    def close(self) -> None:
        self.open = False


def test_tensorboard_gets_a_folder_for_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, Any]
) -> None:
    board = ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = FakeWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    FakeWriter.made.clear()
    study, events = performed(tmp_path, "tensorboard")
    assert not any(isinstance(event, Notice) for event in events)
    assert not differences(study.store, alone)
    writer = FakeWriter.made[1]
    name = next(identity for identity, planned in study.plan.stages.items() if planned.name == "finetune")
    assert writer.log_dir == tmp_path / "tracking" / "tensorboard" / "tracked" / f"finetune-{name}"
    assert [writer.scalars[record["step"]]["val/accuracy"] for record in study.store.records(name)] == [
        record["val"]["accuracy"] for record in study.store.records(name)
    ]
    assert set(writer.scalars[1]) >= SCORES
    assert not any("test" in name for name in writer.scalars[3]), "dashboards are for choosing"
    assert '"mask_rate"' in FakeWriter.made[0].text
    assert not writer.open


class FakeRun:
    """As wandb.Run."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.logs, self.summary = settings, list[Any](), dict[str, Any]()
        self.exit_code: int | None = None

    def log(self, data: dict[str, Any], step: int) -> None:
        self.logs.append((step, data))

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_wandb_gets_an_offline_run_for_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, Any]
) -> None:
    runs: list[FakeRun] = []

    def init(**settings: Any) -> FakeRun:
        assert set(settings) == {*("project", "id", "name", "dir", "config", "mode", "resume", "reinit", "settings")}
        runs.append(FakeRun(settings))
        return runs[-1]

    fake = ModuleType("wandb")
    fake.init, fake.Settings = init, lambda **words: SimpleNamespace(**words)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    study, events = performed(tmp_path, "wandb")
    assert not any(isinstance(event, Notice) for event in events)
    assert not differences(study.store, alone)
    assert [run.settings["id"] for run in runs] == list(study.plan.stages)
    assert {run.settings["mode"] for run in runs} == {"offline"}
    assert [step for step, _ in runs[1].logs] == [1, 2, 3]
    assert set(runs[1].logs[0][1]) >= SCORES
    assert runs[1].summary["status"] == "complete"
    assert set(runs[1].summary) == {"status", "best/val/loss", "best/val/accuracy"}
    assert [run.exit_code for run in runs] == [0, 0]


class FakeClient:
    """As mlflow.MlflowClient."""

    made: ClassVar[list[Any]] = []

    def __init__(self, tracking_uri: str) -> None:
        self.uri = tracking_uri
        self.params: dict[str, dict[str, str]] = defaultdict(dict)
        self.metrics: dict[str, list[Any]] = defaultdict(list)
        self.ends: dict[str, str] = {}
        FakeClient.made.append(self)

    def get_experiment_by_name(self, name: str) -> None:
        assert name == "tracked"

    def create_experiment(self, name: str, artifact_location: str) -> str:
        assert artifact_location.startswith("file://")
        return f"experiment {name}"

    def create_run(self, experiment_id: str, tags: dict[str, str], run_name: str) -> Any:
        assert experiment_id == "experiment tracked"
        assert run_name
        return SimpleNamespace(info=SimpleNamespace(run_id=tags["identity"]))

    def log_param(self, run_id: str, key: str, value: str) -> None:
        self.params[run_id][key] = value

    def log_metric(self, run_id: str, key: str, value: float, timestamp: int = 0, step: int = 0) -> None:
        self.metrics[run_id].append((step, key, value))

    def set_terminated(self, run_id: str, status: str) -> None:
        self.ends[run_id] = status


def test_mlflow_gets_a_run_for_each_stage_in_a_database_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, Any]
) -> None:
    fake = ModuleType("mlflow")
    fake.MlflowClient = FakeClient  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    FakeClient.made.clear()
    study, events = performed(tmp_path, "mlflow")
    assert not any(isinstance(event, Notice) for event in events)
    assert not differences(study.store, alone)
    (client,) = FakeClient.made
    assert client.uri == f"sqlite:///{tmp_path}/tracking/mlflow/mlflow.db"
    assert client.ends == dict.fromkeys(study.plan.stages, "FINISHED")
    name = list(study.plan.stages)[1]
    assert client.params[name]["model.width"] == "8"
    assert client.params[name]["stage"] == "finetune"
    steps = [(step, value) for step, key, value in client.metrics[name] if key == "val/loss"]
    assert steps == [(record["step"], record["val"]["loss"]) for record in study.store.records(name)]


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_package_that_is_not_installed_is_said_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    file = tmp_path / "study.toml"
    file.write_text(headstart_toml())
    assert command("run", file, "--track", name, "--workers", 0, "--store", tmp_path / "runs") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headstart: --track: {name} is not installed")
    assert "pip install 'headstart[track]'" in error
    assert not (tmp_path / "runs").exists()


def headstart_toml() -> str:
    from headstart.study.language.files import to_toml

    return to_toml(STUDY)


def test_an_unknown_tracker_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="track: no 'tensorbord'; did you mean 'tensorboard'"):
        headstart.run(STUDY, store=tmp_path, track="tensorbord")


def test_csv_is_refused_with_what_holds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "study.toml"
    file.write_text(headstart_toml())
    assert command("run", file, "--track", "csv", "--store", tmp_path / "runs") == 2
    assert capsys.readouterr().err == (
        "headstart: --track: csv is no tracker any more; `--tidy FILE.csv` of run and report writes scores and curves, "
        "and `headstart show STAGE` prints the records of a stage\n"
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_command_line_tracks_with_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRACKERS, "notes", Notes)
    file = tmp_path / "study.toml"
    file.write_text(headstart_toml())
    words = ["run", file, "--track", "notes", "--workers", 1, "--store", tmp_path / "runs"]
    assert command(*words) == 0, capsys.readouterr().err
    paths = (tmp_path / "runs" / "tracking" / "notes").iterdir()
    assert {len(path.read_text().splitlines()) for path in paths} == {2 + 2, 2 + 3}


def test_trackers_are_imported_where_they_are_asked_for_only(tmp_path: Path) -> None:
    code = (
        (
            "import sys, headstart, headstart.tracking\n"
            f"study = headstart.Study({json.dumps(STUDY)}, store={str(tmp_path)!r})\n"
            "headstart.run(study, track=lambda event: None)\n"
            "sys.exit(','.join({'tensorboard', 'wandb', 'mlflow', 'torch.utils.tensorboard'} & set(sys.modules)) or 0)"
        )
        .replace("true", "True")
        .replace("false", "False")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stage_that_fails_ends_in_its_tracker(tmp_path: Path, notes: Any) -> None:
    study = headstart.Study(STUDY, store=tmp_path)
    name, planned = next(iter(study.plan.stages.items()))
    tracking = Tracking(["notes"], study.plan, study.store)
    list(tracking.take(Failed(name, planned.name, "not tried", tried=False)))
    assert notes(name) == []
    list(tracking.take(Started(name, planned.name, 1)))
    list(tracking.take(Failed(name, planned.name, "broken")))
    assert notes(name) == [["begin", planned.name, 0], ["end", "failed"]]
