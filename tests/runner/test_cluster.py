"""Stages on a cluster, without one: what crosses, what is checked, and what becomes of it (`test_ray.py` has a real one)."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import own_code
from support.checkpoints import saved
from support.fake_ray import FakeRay, NodeDiedError, RayTaskError, WorkerCrashedError

import headstart
from headstart import cli
from headstart.errors import BadInput
from headstart.runner import connection, machine, node
from headstart.runner.events import Event, Failed, Finished, Notice, Skipped, Started, Stopped, Waiting
from headstart.runner.job import Runtime
from headstart.runner.perform import Interrupted, perform
from headstart.store import Store
from headstart.store.transfer import pack, unpack
from headstart.study.language.files import to_toml

CPU = {"CPU": 2.0, "node:__internal_head__": 1.0}
STUDY = {
    "name": "chain",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 4}, "optim": {"batch_size": 8}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 6}, "optim": {"batch_size": 8}},
    },
    "columns": {"c": {"task": own_code.LISTOPS, "model": {"width": 8, "blocks": 1}}},
    "arms": {
        "scratch": {},
        "frozen": {
            "finetune": {"parent": "pretrain", "start": ["take(all-head)"], "trainable": "head"},
        },
    },
    "report": {"baselines": False},
}
WAVES = "x0,x1,x2,label\n" + "".join(f"{i % 7},{i % 5},{i % 3},{'ab'[i % 2]}\n" for i in range(60))


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    fake = FakeRay(CPU, {"CPU": 2.0})
    fake.install(monkeypatch)
    yield fake
    connection._connections.clear()


@pytest.fixture
def clean() -> Iterator[None]:
    with own_code.clean_process():
        yield


def on_cluster(study: headstart.Study, **runtime: Any) -> list[Event]:
    settings = Runtime(**{"data": study.data, "on": "ray", "save_every": 0.0, **runtime})
    return list(perform(study.plan.every_stage.values(), study.store, settings))


def assert_equal(ours: Store, theirs: Store) -> None:
    """Every stage of one store is in the other, sound and with equal bits."""
    names = [entry.identity for entry in theirs.listing()]
    assert sorted(entry.identity for entry in ours.listing()) == sorted(names)
    for name in names:
        assert ours.problem(name) is None
        documents = [
            {**(store.stage(name) or {}), "started": "", "attempts": 0, "digest": ""} for store in (ours, theirs)
        ]
        assert documents[0] == documents[1]
        left, right = ours.result(name), theirs.result(name)
        assert left is not None
        assert right is not None
        assert left["scores"] == right["scores"]
        assert left.get("references") == right.get("references")
        assert left.get("tensors") == right.get("tensors")
        weights, expected = ours.weights(name), theirs.weights(name)
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[key], expected[key]) for key in expected)
        assert [r["step"] for r in ours.records(name)] == [r["step"] for r in theirs.records(name)]


def test_a_chain_on_a_cluster_has_the_bits_of_one_at_home(tmp_path: Path, ray: FakeRay) -> None:
    home, away = (headstart.Study(STUDY, store=tmp_path / name) for name in ("home", "away"))
    headstart.run(home)
    events = on_cluster(away)
    assert_equal(away.store, home.store)
    assert sum(isinstance(event, Finished) for event in events) == 3
    assert all((task["num_cpus"], task["num_gpus"], task["max_retries"]) == (1, 0.0, 0) for task in ray.tasks)
    assert {type(event) for event in on_cluster(away)} == {Skipped}
    assert not list(away.store.root.glob("*/state-*"))
    assert _table(away) == _table(home)


def test_only_json_and_safetensors_cross(tmp_path: Path, ray: FakeRay) -> None:
    (tmp_path / "waves.csv").write_text(WAVES)
    task = {"kind": "own", "file": "waves.csv", "target": "label"}
    on_cluster(headstart.Study(_with(STUDY, task=task), store=tmp_path / "away", data=tmp_path))
    for submitted in ray.tasks:
        _, key, message, references = submitted["args"]
        assert isinstance(key, str)
        head, files = unpack(message)
        assert json.loads(json.dumps(head)) == head
        contents = [reference.value for reference in references if reference is not None]
        contents += [content for name, content in files.items() if name.endswith(".safetensors")]
        for content in contents:
            json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        assert all(name.endswith((".json", ".jsonl", ".safetensors")) for name in files)


def _table(study: headstart.Study) -> list[dict[str, Any]]:
    """The rows of a study's table without what takes its time."""
    return [{key: value for key, value in row.items() if key != "budget"} for row in study.results().rows()]


def _with(study: dict[str, Any], **column: Any) -> dict[str, Any]:
    return {**study, "columns": {"c": {**study["columns"]["c"], **column}}}


def test_data_of_this_machine_are_sent_and_prepared_once_by_their_content(
    tmp_path: Path, ray: FakeRay, own_cache: Path
) -> None:
    file = tmp_path / "waves.csv"
    file.write_text(WAVES)
    study = _with(STUDY, task={"kind": "own", "file": "waves.csv", "target": "label", "fraction": 0.5})
    home, away = (headstart.Study(study, store=tmp_path / name, data=tmp_path) for name in ("home", "away"))
    headstart.run(home)
    ray.before = lambda number: file.unlink() if number == 1 else None  # a node has not got it
    on_cluster(away)
    assert_equal(away.store, home.store)
    assert len(list((own_cache / "prepared").glob("received-*"))) == 1
    assert len({id(task["args"][3][1]) for task in ray.tasks}) == 1, "one object for all stages"


def test_folds_of_a_file_are_dealt_from_one_copy_of_its_data_and_keep_its_groups_together(
    tmp_path: Path, ray: FakeRay
) -> None:
    rows = (f"{i % 7},{i % 5},{i % 3},{'ab'[i // 3 % 2]},g{i // 3}\n" for i in range(60))
    (tmp_path / "waves.csv").write_text("x0,x1,x2,label,group\n" + "".join(rows))
    task = {"kind": "own", "file": "waves.csv", "target": "label", "folds": 3, "fold": "seed"}
    study = {**_with(STUDY, task=task), "arms": {"scratch": {}}, "axes": {"seed": [0, 1, 2]}}
    home, away = (headstart.Study(study, store=tmp_path / name, data=tmp_path) for name in ("home", "away"))
    headstart.run(home)
    on_cluster(away)
    assert len(ray.tasks) == 3
    assert len({id(task["args"][3][1]) for task in ray.tasks}) == 1, "one object for all folds"
    assert_equal(away.store, home.store)


def test_a_checkpoint_is_read_here_and_its_children_start_from_it_there(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSTART_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    small = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64}
    folder = saved(tmp_path / "weights" / "small", small)
    study = {
        **STUDY,
        "stages": {"small": {"checkpoint": {"source": "small"}}, "finetune": STUDY["stages"]["finetune"]},
        "columns": {"c": {"task": {"kind": "digits", "labelled": 60}, "model": {"like": "small", "blocks": 1}}},
        "arms": {"pretrained": {"finetune": {"parent": "small", "start": ["take(backbone+position)"]}}},
    }
    home, away = (headstart.Study(study, store=tmp_path / name) for name in ("home", "away"))
    headstart.run(home)
    ray.before = lambda _: folder.rename(tmp_path / "gone")  # a node has not got it
    on_cluster(away)
    assert len(ray.tasks) == 1
    assert_equal(away.store, home.store)


def test_examples_that_a_function_makes_cannot_be_sent_and_it_is_said(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstart.tasks.own import OwnSpec

    (tmp_path / "waves.csv").write_text(WAVES)
    study = headstart.Study(
        _with(STUDY, task={"kind": "own", "file": "waves.csv", "target": "label"}), store=tmp_path / "s", data=tmp_path
    )
    load = OwnSpec.load
    monkeypatch.setattr(OwnSpec, "load", lambda *words: replace(load(*words), augment=lambda x, _: x))
    failed = [event.message for event in on_cluster(study) if isinstance(event, Failed) and event.tried]
    assert len(failed) == 2
    assert "'own' makes train examples anew in each epoch by a function that cannot be sent to another" in failed[0]


def test_a_plugin_travels_as_its_source_and_is_loaded_from_there(tmp_path: Path, ray: FakeRay, clean: None) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "my_mixer.py").write_text(own_code.HELPED)
    (code / "my_factor.py").write_text("FACTOR = 0.5\n")
    file = str(code / "my_mixer.py")
    home = headstart.Study(own_code.study(), store=tmp_path / "home", plugins=[file])
    headstart.run(home)
    away = headstart.Study(own_code.study(), store=tmp_path / "away", plugins=[file])
    seen: list[str] = []

    def look(number: int) -> None:
        del number
        seen.extend(name for name in sys.modules if name in ("my_mixer", "my_factor"))

    ray.before = look
    events = on_cluster(away)
    assert isinstance(events[-1], Finished), events
    assert_equal(away.store, home.store)
    files = unpack(ray.tasks[0]["args"][2])[1]
    assert {Path(name).name for name in files if name.startswith("source/")} == {"my_mixer.py", "my_factor.py"}
    identity = next(iter(away.plan.stages))
    assert (away.store.folder(identity) / "source" / "my_factor.py").read_text() == "FACTOR = 0.5\n"


def test_a_plugin_whose_copy_differs_is_not_run(tmp_path: Path, clean: None) -> None:
    from headstart.plugins import load_copy

    (tmp_path / "my_mixer.py").write_text("raise SystemExit('it ran')\n")
    with pytest.raises(
        BadInput, match=r"my_mixer\.py: its copy on another machine has the digest [0-9a-f]{16}, not 0000"
    ):
        load_copy(tmp_path, "my_mixer", "0000")


def test_a_lost_node_costs_what_came_after_the_last_state_and_says_so(tmp_path: Path, ray: FakeRay) -> None:
    home, away = (headstart.Study(STUDY, store=tmp_path / name) for name in ("home", "away"))
    headstart.run(home)
    sent: list[int] = []

    def cut(message: bytes) -> bytes:
        sent.append(len(sent))
        if len(sent) == 4:
            raise NodeDiedError("the node is gone")
        return message

    ray.altered = cut
    events = on_cluster(away)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == ["its worker was lost with its node; the stage goes on elsewhere"]
    lost = next(event.identity for event in events if isinstance(event, Notice))
    begun = [event for event in events if isinstance(event, Started) and event.identity == lost]
    assert [event.attempt for event in begun] == [1, 2]
    assert begun[1].step > begun[0].step == 0
    assert_equal(away.store, home.store)


def test_nodes_that_are_lost_again_and_again_and_processes_that_die_twice_fail_the_stage(
    tmp_path: Path, ray: FakeRay
) -> None:
    study = headstart.Study(STUDY, ['arms=["scratch"]'], store=tmp_path)

    def die(error: Exception) -> list[str]:
        def raise_it(number: int) -> None:
            del number
            raise error

        ray.before = raise_it
        return [event.message for event in on_cluster(study) if isinstance(event, Failed)]

    assert die(NodeDiedError("gone")) == ["its worker was lost with its node, 5 times"]
    assert len(ray.tasks) == 5
    assert die(WorkerCrashedError("killed")) == ["its worker ended (WorkerCrashedError), twice"]
    assert die(RayTaskError(ValueError("of the node"))) == ["ValueError: of the node"]
    assert len(ray.tasks) == 8
    assert (study.store.folder(next(iter(study.plan.stages))) / "failure.txt").read_text().startswith("ValueError: of")


@pytest.mark.parametrize("position", [3, 60, -1])
def test_a_reply_that_was_damaged_on_the_way_does_not_enter_the_store(
    tmp_path: Path, ray: FakeRay, position: int
) -> None:
    home, away = (headstart.Study(STUDY, ['arms=["scratch"]'], store=tmp_path / name) for name in ("home", "away"))
    headstart.run(home)
    damaged: list[bytes] = []

    def flip(message: bytes) -> bytes:
        if damaged or len(message) < 10_000:
            return message
        damaged.append(message)
        return bytes(byte ^ (8 * (i == position % len(message))) for i, byte in enumerate(message))

    ray.altered = flip
    events = on_cluster(away)
    (notice,) = [event.text for event in events if isinstance(event, Notice)]
    assert notice.startswith("its worker sent what cannot be used (")
    assert notice.endswith("the stage is tried once more")
    assert_equal(away.store, home.store)


HOSTILE = "\x1b[2J\u202e<script>alert(1)</script>\nline"


@pytest.mark.parametrize(
    "changes",
    [[], None, "x", {"kind": []}, {"kind": "Notice", "text": 5}, {"kind": "Failed", "message": {}}, {"record": 5}],
)
def test_an_event_of_other_values_than_it_has_is_not_taken(tmp_path: Path, ray: FakeRay, changes: Any) -> None:
    def changed(message: bytes) -> bytes:
        head, files = unpack(message)
        head["event"] = {**head["event"], **changes} if isinstance(changes, dict) else changes
        return pack(head, files)

    ray.altered = changed
    away = headstart.Study(STUDY, ['arms=["scratch"]'], store=tmp_path)
    (failed,) = [event for event in on_cluster(away) if isinstance(event, Failed)]
    assert failed.message.startswith("its worker sent what cannot be used (an event of which ")


def test_texts_of_a_node_are_escaped_and_what_it_sends_after_the_end_is_not_taken(
    tmp_path: Path, ray: FakeRay, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(message: bytes) -> bytes:
        head, files = unpack(message)
        own = {name: head["event"][name] for name in ("identity", "name")}
        return pack({**head, "event": {"kind": "Failed", "message": HOSTILE, **own}}, files)

    ray.altered = changed
    (tmp_path / "study.toml").write_text(to_toml(STUDY))
    words = ["run", str(tmp_path / "study.toml"), "--on", "ray", "--store", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", ["headstart", *words])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    output = "".join(capsys.readouterr())
    assert output.count("failed   pretrain") == 1
    pages = [path.read_text("utf-8") for path in tmp_path.rglob("*.html")]
    assert pages
    assert not [text for text in (output, *pages) if "\x1b" in text or "\u202e" in text]
    assert not [text for text in pages if "<script>alert" in text]


def test_a_stage_that_another_process_has_is_waited_for(tmp_path: Path, ray: FakeRay) -> None:
    study = headstart.Study(STUDY, ['arms=["scratch"]'], store=tmp_path)
    identity = next(iter(study.plan.stages))
    events: list[Event] = []
    with study.store.claim(identity, {"name": "finetune"}):
        runtime = Runtime(on="ray")
        for event in perform(study.plan.every_stage.values(), study.store, runtime):
            events.append(event)
            break
    assert isinstance(events[0], Waiting)


def test_ctrl_c_takes_back_what_waits_in_the_queue_and_the_store_resumes_at_home(tmp_path: Path, ray: FakeRay) -> None:
    study = headstart.Study(STUDY, store=tmp_path)
    ray.running = False
    taken = perform(study.plan.every_stage.values(), study.store, Runtime(on="ray"))
    monitor: list[Event] = []

    def look() -> None:
        ray.wait = lambda *_, **__: (os.kill(os.getpid(), signal.SIGINT), ([], []))[1]  # type: ignore[method-assign]
        monitor.extend(taken)

    with pytest.raises(Interrupted, match="interrupted; 3 of 3 stages are left"):
        look()
    assert not monitor or {type(event) for event in monitor} == {Stopped}
    assert len(ray.cancelled) >= 2
    assert (
        sum(isinstance(event, Finished) for event in perform(study.plan.every_stage.values(), study.store, Runtime()))
        == 3
    )


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        (
            {"gpus_per_stage": 1.0},
            "--gpus-per-stage: 1 asked, and no node of the cluster has more than 0; ask for less",
        ),
        ({"device": "cuda"}, "--gpus-per-stage: 1 asked, and no node of the cluster has more than 0"),
        ({"device": "cuda:1"}, "--device: 'cuda:1': on a cluster Ray says which GPU a stage gets"),
        ({"device": "cpu", "gpus_per_stage": 0.5}, "--gpus-per-stage: 0.5 does not go with --device cpu"),
        ({"gpus_per_stage": 1.5}, "--gpus-per-stage: 1.5: above one GPU Ray gives whole ones; give 2"),
        ({"threads": 3}, r"--threads: a stage takes 3 CPU\(s\) and 0 GPU\(s\), and no node of the cluster has them"),
    ],
)
def test_what_no_node_has_is_refused_before_the_first_stage(
    tmp_path: Path, ray: FakeRay, runtime: dict[str, Any], message: str
) -> None:
    study = headstart.Study(STUDY, store=tmp_path)
    with pytest.raises(BadInput, match=message):
        on_cluster(study, **runtime)
    assert not ray.tasks
    assert not list(tmp_path.iterdir())


def test_a_share_of_a_gpu_gives_each_gpu_several_stages(ray: FakeRay) -> None:
    ray.resources = [{"CPU": 16.0, "GPU": 2.0}, {"CPU": 3.0, "GPU": 1.0}, {"CPU": 8.0}]
    joined = connection.connect("ray")
    slots = {
        share: connection.Room(joined, Runtime(on="ray", gpus_per_stage=share)).slots for share in (0.25, 0.3, 1, 2)
    }
    assert slots == {0.25: 8 + 3, 0.3: 6 + 3, 1: 3, 2: 1}
    assert connection.Room(joined, Runtime(on="ray")).slots == 3, "auto: a GPU where there are some"
    assert connection.Room(joined, Runtime(on="ray", device="cpu")).slots == 27
    assert connection.Room(joined, Runtime(on="ray", device="cpu", workers=4)).slots == 4


@pytest.mark.parametrize("name", ["headstart", "ray", "python"])
def test_nodes_with_other_versions_are_named_before_the_first_stage(
    tmp_path: Path, ray: FakeRay, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = node.versions()
    monkeypatch.setattr(node, "introduce", lambda: json.dumps({**own, name: "0.0"}))
    with pytest.raises(
        BadInput, match=rf"--on: node 10\.0\.0\.1 has {name} 0\.0, and this machine has {own[name]}; install"
    ):
        on_cluster(headstart.Study(STUDY, store=tmp_path))
    assert not ray.tasks


@pytest.mark.parametrize("answer", ["[]", "null", "\x1b[2J", "[" * 100_000, None, 5])
def test_a_node_that_does_not_say_its_versions_is_named(
    tmp_path: Path, ray: FakeRay, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "introduce", lambda: answer)
    with pytest.raises(BadInput, match=r"--on: node 10\.0\.0\.1 does not say its versions; see that it runs"):
        on_cluster(headstart.Study(STUDY, store=tmp_path))


def test_a_node_without_headstart_is_named(tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    def introduce() -> str:
        raise RayTaskError(ModuleNotFoundError("No module named 'headstart'"))

    monkeypatch.setattr(node, "introduce", introduce)
    with pytest.raises(
        BadInput, match=r"node 10\.0\.0\.1 has no headstart; install headstart .* with its extra \[cluster\]"
    ):
        on_cluster(headstart.Study(STUDY, store=tmp_path))


def test_a_node_that_has_gone_before_it_is_asked_is_left_out(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def introduce() -> str:
        raise ray.exceptions.TaskUnschedulableError("the node doesn't exist any more")

    monkeypatch.setattr(node, "introduce", introduce)
    events = on_cluster(headstart.Study(STUDY, ['arms=["scratch"]'], store=tmp_path))
    assert any(type(event).__name__ == "Finished" for event in events)


def test_a_node_that_came_later_with_another_version_does_no_stage(
    tmp_path: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = headstart.Study(STUDY, ['arms=["scratch"]'], store=tmp_path)

    def younger(number: int) -> None:
        del number
        monkeypatch.setattr(node, "versions", lambda: {"headstart": "9"})

    ray.before = younger
    (failed,) = [event for event in on_cluster(study) if isinstance(event, Failed)]
    assert "this node has {'headstart': '9'}, and the driver {" in failed.message


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("rays", "--on: 'rays' is neither ray nor ray://HOST:PORT; give one of them"),
        ("ray://host", "--on: 'ray://host' is neither ray nor ray://HOST:PORT"),
        ("ray://127.0.0.1:9", r"--on: no Ray cluster answers at ray://127\.0\.0\.1:9 \(.*refused.*\); start one with"),
        (
            "ray",
            "--on: you have started no Ray cluster on this machine, and RAY_ADDRESS names none; start one with `ray start",
        ),
    ],
)
def test_no_cluster_is_said_at_once(
    tmp_path: Path, ray: FakeRay, on: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connection, "_own_clusters", list)
    with pytest.raises(BadInput, match=message):
        connection.connect(on)


def test_workers_of_a_cluster_do_not_import_from_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []
    ray = SimpleNamespace(init=lambda **_: folders.append(os.getcwd()), exceptions=SimpleNamespace(RayError=OSError))
    monkeypatch.setattr(connection.socket, "create_connection", lambda *_: SimpleNamespace(close=lambda: None))
    before = os.getcwd()
    connection._init(ray, "ray://127.0.0.1:10001")
    assert folders == [os.sep], "Ray puts the folder that it is in before all others"
    assert os.getcwd() == before


@pytest.fixture
def shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ray's file of the current cluster is, which names one; no cluster runs here."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connection, "_own_clusters", list)
    (tmp_path / "ray").mkdir()
    file = tmp_path / "ray" / "ray_current_cluster"
    file.write_text("10.0.0.1:6379\n")
    return file


def test_the_cluster_that_somebody_else_names_in_a_shared_folder_is_not_joined(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connection._address("ray") == "10.0.0.1:6379"
    monkeypatch.setattr(connection.os, "getuid", lambda: shared_folder.stat().st_uid + 1)
    with pytest.raises(BadInput, match=r"ray_current_cluster is not yours, and whoever owns a cluster can run code as"):
        connection._address("ray")
    monkeypatch.setattr(connection, "_own_clusters", lambda: ["127.0.0.1:7001"])
    assert connection._address("ray") == "127.0.0.1:7001"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert connection._address("ray") == "10.0.0.1:6379"


def test_a_link_or_a_pipe_in_the_place_of_that_file_is_not_read(shared_folder: Path) -> None:
    shared_folder.rename(shared_folder.with_name("elsewhere"))
    shared_folder.symlink_to(shared_folder.with_name("elsewhere"))
    with pytest.raises(BadInput, match="is not yours"):
        connection._address("ray")
    shared_folder.unlink()
    os.mkfifo(shared_folder)
    with pytest.raises(BadInput, match="is not yours"):
        connection._address("ray")


def test_a_cluster_is_known_by_its_processes_wherever_its_files_are(tmp_path: Path) -> None:
    for number, words in (("7", ["/lib/ray/raylet", "--gcs-address=127.0.0.1:1"]), ("8", ["vi", "--gcs-address=2"])):
        (tmp_path / number).mkdir()
        (tmp_path / number / "cmdline").write_bytes("\0".join(words).encode())
    (tmp_path / "9").mkdir()  # it ended meanwhile
    assert connection._own_clusters(tmp_path) == ["127.0.0.1:1"]


def test_of_several_clusters_the_latest_is_taken_where_it_is_known(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_own_clusters", lambda: ["10.0.0.1:6379", "127.0.0.1:7001"])
    assert connection._address("ray") == "10.0.0.1:6379"
    shared_folder.unlink()
    with pytest.raises(
        BadInput, match=r"several Ray clusters here \(10\.0\.0\.1:6379, 127\.0\.0\.1:7001\); name one with RAY"
    ):
        connection._address("ray")


def test_a_token_goes_to_clusters_of_ones_own_alone(
    shared_folder: Path, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(shared_folder.parent))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "ray")
    monkeypatch.setattr(connection.importlib, "import_module", lambda _: ray)
    connection._import_ray("ray")
    assert "RAY_AUTH_MODE" not in os.environ
    (shared_folder.parent / ".ray").mkdir()
    (shared_folder.parent / ".ray" / "auth_token").write_text("0" * 64)
    connection._import_ray("ray://10.0.0.1:10001")
    assert "RAY_AUTH_MODE" not in os.environ
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    connection._import_ray("ray")
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.delenv("RAY_AUTH_MODE")
    connection._import_ray("ray")
    assert os.environ.pop("RAY_AUTH_MODE") == "token"


def test_no_ray_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"--on: it needs the package ray.* pip install 'headstart\[cluster\]'"):
        connection.connect("ray")


def test_gpus_per_stage_without_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--gpus-per-stage: 0\.5 needs a cluster, which --on names"):
        headstart.run(STUDY, store=tmp_path, gpus_per_stage=0.5)


def test_versions_name_what_must_agree() -> None:
    versions = node.versions()
    assert versions["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert versions["headstart"] == machine.version("headstart")
    assert set(versions) == {"python", "ray", "headstart"}
