"""A real Ray cluster of two nodes on loopback: tables as at home, whatever becomes of a node, and no process left behind."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import own_code
from support.loopback_cluster import ENVIRONMENT, LoopbackCluster

import headstart
from headstart.runner import machine
from headstart.store import Store

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'headstart[cluster]'"
    ),
    pytest.mark.timeout(600),
]

STUDY = {
    "name": "chain",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 400}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 400}},
    },
    "columns": {
        "c": {
            "task": {"kind": "own", "file": "waves.csv", "target": "label"},
            "model": {"width": 8, "blocks": 1, "mixer": {"kind": "scale"}},
        }
    },
    "arms": {"scratch": {}, "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}},
    "report": {"baselines": False},
}
WAVES = "x0,x1,x2,label\n" + "".join(f"{i % 7},{i % 5},{i % 3},{'ab'[i % 2]}\n" for i in range(200))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cluster = LoopbackCluster(tmp_path_factory.mktemp("elsewhere"), port)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headstart.Study]:
    """The study at home, with its data and a mixer of its own beside it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "waves.csv").write_text(WAVES)
    (folder / "my_mixer.py").write_text(own_code.HELPED)
    (folder / "my_factor.py").write_text("FACTOR = 0.5\n")
    (folder / "study.json").write_text(json.dumps(STUDY))
    with own_code.clean_process():
        study = headstart.Study(STUDY, store=folder / "home", data=folder, plugins=[str(folder / "my_mixer.py")])
        headstart.run(study)
        yield study


DRIVER = """
import json, sys
from dataclasses import replace
from pathlib import Path
from headstart import Study
from headstart.runner.perform import Interrupted, perform
folder, store, on, save_every = sys.argv[1:]
if __name__ == "__main__":
    table = json.loads(Path(folder, "study.json").read_text())
    study = Study(table, store=store, data=folder, plugins=[f"{folder}/my_mixer.py"])
    runtime = replace(study.runtime(on=on), save_every=float(save_every))
    try:
        for event in perform(study.plan.every_stage.values(), study.store, runtime):
            shown = {name: getattr(event, name, None) for name in ("identity", "name", "step", "attempt", "text", "message")}
            print(json.dumps({"kind": type(event).__name__, **shown}), flush=True)
    except Interrupted as error:
        print(json.dumps({"kind": "Interrupted", "text": str(error)}), flush=True)
        sys.exit(130)
"""


def drive(
    cluster: LoopbackCluster,
    home: headstart.Study,
    store: Path,
    on: str = "ray",
    save_every: float = 20.0,
    watch: Callable[[dict[str, Any], subprocess.Popen[str]], None] = lambda *_: None,
) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the events of a run in a process of its own; `watch` sees each event as it comes."""
    command = [sys.executable, "-c", DRIVER, str(home.data), str(store), on, str(save_every)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=cluster.environment) as driver:
        assert driver.stdout is not None
        events = []
        for line in driver.stdout:
            events.append(json.loads(line))
            watch(events[-1], driver)
        return driver.wait(60), events


def assert_equal(home: headstart.Study, store: Path) -> None:
    away = headstart.Study(STUDY, store=store, data=home.data, plugins=[str(home.data / "my_mixer.py")])
    for identity in home.plan.stages:
        assert away.store.problem(identity) is None
        ours, theirs = away.store.weights(identity), home.store.weights(identity)
        assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)
    tables = [
        [{key: value for key, value in row.items() if key != "budget"} for row in study.results().rows()]
        for study in (away, home)
    ]
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_a_node_that_is_lost_in_the_middle_leaves_the_table_as_it_is(
    cluster: LoopbackCluster, home: headstart.Study, tmp_path: Path
) -> None:
    removed: list[float] = []

    def watch(event: dict[str, Any], driver: subprocess.Popen[str]) -> None:
        del driver
        states = {path.parent for path in tmp_path.glob("*/state-*.safetensors")}
        if not removed and len(states) == 2:
            removed.append(time.monotonic())
            cluster.tell("remove")

    try:
        code, events = drive(cluster, home, tmp_path, save_every=0.0, watch=watch)
    finally:
        if removed:
            cluster.tell("add")
    assert code == 0, events
    assert removed
    notices = [event for event in events if event["kind"] == "Notice"]
    assert len(notices) == 1
    assert notices[0]["text"].endswith("the stage goes on elsewhere")
    begun = [e for e in events if e["kind"] == "Started" and e["identity"] == notices[0]["identity"]]
    assert [event["attempt"] for event in begun] == [1, 2]
    assert begun[1]["step"] > 0, "from a state that had reached the driver"
    assert_equal(home, tmp_path)


@pytest.mark.slow
def test_ctrl_c_saves_what_runs_on_the_nodes_and_the_store_goes_on_at_home(
    cluster: LoopbackCluster, home: headstart.Study, tmp_path: Path
) -> None:
    asked: list[bool] = []

    def watch(event: dict[str, Any], driver: subprocess.Popen[str]) -> None:
        if not asked and event["kind"] == "StageProgress" and event["step"] > 5:
            asked.append(True)
            driver.send_signal(signal.SIGINT)

    code, events = drive(cluster, home, tmp_path, watch=watch)
    assert code == 130
    stopped = [event["identity"] for event in events if event["kind"] == "Stopped"]
    assert stopped
    assert events[-1]["text"] == "interrupted; 3 of 3 stages are left"
    assert "partial" in {Store(tmp_path).status(identity) for identity in stopped}
    again = headstart.Study(STUDY, store=tmp_path, data=home.data, plugins=[str(home.data / "my_mixer.py")])
    resumed: list[Any] = []
    headstart.run(again, on_event=resumed.append)
    assert any(getattr(event, "step", 0) > 5 for event in resumed if type(event).__name__ == "Started")
    assert_equal(home, tmp_path)


@pytest.mark.slow
def test_the_command_line_runs_a_study_through_the_client_port(cluster: LoopbackCluster, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["run", "tiny.toml", "--on", cluster.client, "--device", "cpu"]
    for _ in range(3):  # Ray's own server for a client has 30 s to start, which is little on a busy machine
        done = headstart_command(cluster, tmp_path, *words)
        if "Starting Ray client server failed" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    assert "1 run of 1 stage, 0 done before" in done.stdout
    again = headstart_command(cluster, tmp_path, "run", "tiny.toml", "--workers", "0")
    assert "1 done before" in again.stdout


TINY = """
name = "tiny"
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 2 }
[columns.digits]
task = { kind = "digits", labelled = 60 }
model = { width = 8, blocks = 1 }
[arms.scratch]
[report]
baselines = false
"""


def headstart_command(cluster: LoopbackCluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headstart", *words],
        cwd=folder,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_bad_input_for_a_real_cluster_ends_with_one_message_and_code_2(
    cluster: LoopbackCluster, tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    done = headstart_command(cluster, tmp_path, "run", "tiny.toml", "--on", "ray", "--gpus-per-stage", "0.25")
    assert done.returncode == 2
    assert done.stderr.startswith("headstart: --gpus-per-stage: 0.25 asked, and no node of the cluster has more than 0")
    other = "import headstart.runner.machine as m, headstart.cli as c; real = m.version\n"
    other += "from headstart.runner import node\n"
    other += "node.version = lambda name: '9.9' if name == 'headstart' else real(name)\n"
    other += "c.main(['run', 'tiny.toml', '--on', 'ray'])"
    done = subprocess.run(
        [sys.executable, "-c", other],
        cwd=tmp_path,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    own = machine.version("headstart")
    text = f"headstart: --on: node 127.0.0.1 has headstart {own}, and this machine has 9.9; install the same on both\n"
    assert done.stderr == text
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_cluster_leaves_no_process_behind(tmp_path: Path) -> None:
    assert ENVIRONMENT["RAY_USAGE_STATS_ENABLED"] == "0"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cluster = LoopbackCluster(tmp_path, port)
    cluster.close()
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    assert not [command for command in commands if cluster.address in command and str(os.getpid()) not in command]
