"""What faults get, shown on one real study: kills, two processes at once, damage, a full disk.

Each way must end with the bits of a run in one go: every tensor, record and score, times and memory apart.
"""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from support.processes import alive
from support.store_content import content, differences

from headstart.runner.events import Failed, Notice, Skipped
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.stage.trained import TrainedRun
from headstart.store import Store
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task

STUDY = {
    "name": "faults",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 4}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 12}},
    },
    "columns": {
        "digits": {
            "task": {"kind": "digits", "labelled": 200},
            "model": {"width": 16, "blocks": 2, "norm": "batch", "dropout": 0.1},
        }
    },
    "arms": {
        "scratch": {},
        "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
        "frozen": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"], "trainable": "head"}},
        "frozen_once": {  # without dropout, so that its features are computed once
            "finetune": {
                "parent": "pretrain",
                "start": ["take(all-head)"],
                "trainable": "head",
                "model": {"dropout": 0.0},
            }
        },
    },
    "axes": {"pretrain.optim.lr": [3e-3], "finetune.optim.lr": [3e-3], "seed": [0]},
    "report": {"choose": ["finetune.optim.lr"], "against": "scratch"},
}

DRIVER = """
import json, resource, sys
from pathlib import Path
from headstart.runner.events import Failed, Notice
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
study, root, workers, only = json.load(sys.stdin)
stages = list(make_plan(read_study(study, []), Path("data")).stages.values())
runtime = Runtime(device="cpu", workers=workers, save_every=0.0)
failed = 0
for event in perform([s for s in stages if s.name.startswith(only)], Store(root), runtime):
    failed += isinstance(event, Failed)
    words = [getattr(event, name, "") for name in ("step", "text", "message")]
    print(type(event).__name__, event.name, *words, flush=True)
sys.exit(1 if failed else 0)
"""


def plan() -> Plan:
    return make_plan(read_study(STUDY, []), Path("data"))


@contextmanager
def driver(root: Path, workers: int = 2, only: str = "", largest_file: int | None = None) -> Iterator[Any]:
    """A process that performs the study; killed at the end if it still runs.

    A file size limit stands for a full disk: the system refuses to write further.
    """

    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps([STUDY, str(root), workers, only]))
        process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def finish(root: Path, workers: int = 2, only: str = "") -> str:
    """Perform to the end; what was said."""
    with driver(root, workers, only) as process:
        text: str = process.stdout.read()
        assert process.wait() == 0, text
        return text


def assert_equal_bits(root: Path, reference: Path, only: str = "") -> None:
    identities = [identity for identity, stage in plan().stages.items() if stage.name.startswith(only)]
    assert identities
    assert not differences(Store(root), content(Store(reference), identities))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the study performed in one go, in this process. Tests copy it; none writes to it."""
    root = tmp_path_factory.mktemp("reference")
    events = list(perform(plan().stages.values(), Store(root), Runtime(device="cpu")))
    assert not any(isinstance(event, Notice) for event in events)
    assert all(not path.name.startswith("state-") for path in root.glob("*/*"))
    return root


@pytest.mark.slow
def test_a_study_killed_again_and_again_ends_with_the_bits_of_one_in_one_go(tmp_path: Path, reference: Path) -> None:
    finished: dict[str, float] = {}
    started: list[int] = []  # steps at which stages went on
    for predicted in (9, 5, 14):
        with driver(tmp_path) as process:
            lines = [process.stdout.readline().split() for _ in range(predicted)]
            started += [int(line[2]) for line in lines if line and line[0] == "Started"]
            workers = _children(process.pid)
            process.kill()
            killed = time.monotonic()
            process.wait()
            while any(map(alive, workers)):
                assert time.monotonic() - killed < 2, "workers outlived the driver by more than 2 s"
                time.sleep(0.02)
        for identity, when in finished.items():
            assert (tmp_path / identity / "result.json").stat().st_mtime == when  # never done twice
        finished = {path.parent.name: path.stat().st_mtime for path in tmp_path.glob("*/result.json")}
    finish(tmp_path)
    assert max(started) > 0
    assert max(Store(tmp_path).stage(identity)["attempts"] for identity in plan().stages) > 1  # type: ignore[index]
    assert_equal_bits(tmp_path, reference)


@pytest.mark.slow
def test_two_processes_on_one_store_do_each_stage_once(tmp_path: Path, reference: Path) -> None:
    with driver(tmp_path, workers=1) as first, driver(tmp_path, workers=0) as two:
        texts = [first.stdout.read(), two.stdout.read()]
        assert (first.wait(), two.wait()) == (0, 0), texts
    assert sum(text.count("Finished ") for text in texts) == len(plan().stages)
    assert {entry.stage["attempts"] for entry in Store(tmp_path).listing() if entry.stage} == {1}
    assert_equal_bits(tmp_path, reference)


@pytest.mark.parametrize("more", ["", pytest.param(", patience=1", marks=pytest.mark.slow)])
def test_a_state_of_any_step_goes_on_to_equal_bits(more: str) -> None:
    study = {**STUDY, "arms": {"scratch": {}}}
    overrides = [f"finetune.budget={{epochs=3, evaluate_every=1{more}}}", "finetune.optim.batch_size=100"]
    spec = next(iter(make_plan(read_study(study, overrides), Path("data")).stages.values())).spec
    task = open_task(spec.task, Path("data"))
    whole = TrainedRun(spec, task, None)
    states = [tick.state() for tick in whole.steps()]
    outcome = whole.finish()
    assert 3 <= len(states) <= 6
    for state in states:
        run = TrainedRun(spec, task, None, "cpu", state)
        for _ in run.steps():
            pass
        again = run.finish()
        assert again.scores == outcome.scores
        assert again.budget["steps"] == outcome.budget["steps"]
        assert all(torch.equal(again.last[name], outcome.last[name]) for name in outcome.last)
        assert all(torch.equal(again.best[name], outcome.best[name]) for name in outcome.best)


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose pretraining was killed when it had two states. Tests copy it."""
    root = tmp_path_factory.mktemp("broken")
    with driver(root, workers=0, only="pretrain") as process:
        while len(list(root.glob("*/state-*.safetensors"))) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return root


@pytest.mark.slow
def test_a_killed_stage_whose_features_are_computed_once_ends_with_equal_bits(tmp_path: Path, reference: Path) -> None:
    root = tmp_path / "runs"
    shutil.copytree(reference, root)
    identity = next(cell.chain[-1].identity for cell in plan().cells if cell.arm == "frozen_once")
    shutil.rmtree(root / identity)
    with driver(root, workers=0) as process:
        while not any(_step(path) >= 3 for path in (root / identity).glob("state-*.safetensors")):
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (root / identity / "result.json").exists()
    newest = max((root / identity).glob("state-*.safetensors"), key=_step)
    assert {"features/train", "features/val"} <= _tensors(newest)
    finish(root, workers=0)
    assert Store(root).stage(identity)["attempts"] == 2  # type: ignore[index]
    assert_equal_bits(root, reference)


def _tensors(state: Path) -> set[str]:
    """The names of the tensors of a state."""
    with safe_open(state, framework="numpy") as file:
        return set(file.keys())


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "a flipped bit"])
def test_a_damaged_state_is_noticed_and_the_one_before_gives_equal_bits(
    tmp_path: Path, broken_off: Path, reference: Path, damage: str
) -> None:
    root = tmp_path / "runs"
    shutil.copytree(broken_off, root)
    older, newest = sorted(root.glob("*/state-*.safetensors"), key=_step)
    whole = bytearray(newest.read_bytes())
    whole[len(whole) // 2] ^= 4
    newest.write_bytes(whole[: len(whole) // 3] if damage == "truncated" else whole)
    predicted = finish(root, workers=0, only="pretrain")
    assert f"{newest.name}: " in predicted
    assert f"the state of step {_step(older)} is used" in predicted
    assert_equal_bits(root, reference, only="pretrain")


SHORT = "{steps=4, evaluate_every=2}"
QUICK = [
    *('arms=["self_pretrained"]', "report.against='self_pretrained'", "model.width=4"),
    *(f"pretrain.budget={SHORT}", f"finetune.budget={SHORT}"),
]
"""Overrides that leave two stages of four steps each."""


@pytest.mark.slow
def test_a_damaged_finished_stage_is_done_again_and_the_others_are_not(tmp_path: Path) -> None:
    root, reference = tmp_path / "runs", tmp_path / "reference"
    stages = make_plan(read_study(STUDY, QUICK), Path("data")).stages
    list(perform(stages.values(), Store(reference), Runtime(device="cpu")))
    shutil.copytree(reference, root)
    parent = next(identity for identity, stage in stages.items() if stage.name == "pretrain")
    path = root / parent / "last.safetensors"
    whole = bytearray(path.read_bytes())
    whole[-100] ^= 1
    path.write_bytes(whole)
    events = list(perform(stages.values(), Store(root), Runtime(device="cpu")))
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "last.safetensors: its digest does not fit" in notices[0]
    assert f"kept as {parent}.damaged-1 and is done again" in notices[0]
    skipped = [event.identity for event in events if isinstance(event, Skipped)]
    assert sorted([*skipped, parent]) == sorted(stages)
    assert not differences(Store(root), content(Store(reference), stages))


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_the_next_run_ends_with_equal_bits(
    tmp_path: Path, broken_off: Path, reference: Path
) -> None:
    root = tmp_path / "runs"
    shutil.copytree(broken_off, root)
    states = {path.name: path.read_bytes() for path in root.glob("*/state-*.safetensors")}
    with driver(root, workers=1, only="pretrain", largest_file=20_000) as process:
        predicted = process.stdout.read()
        assert process.wait() == 1
    assert "the disk is full (File too large); what was saved before is kept. Make room" in predicted
    assert {path.name: path.read_bytes() for path in root.glob("*/state-*.safetensors")} == states
    assert not list(root.glob("*/.*.tmp"))
    entry = Store(root).listing()[0]
    assert (entry.status, "Make room" in entry.message) == ("failed", True)
    finish(root, workers=0, only="pretrain")
    assert_equal_bits(root, reference, only="pretrain")


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_saves_and_leaves_no_worker(tmp_path: Path) -> None:
    with driver(tmp_path, workers=2) as process:
        for line in process.stdout:
            if line.startswith("StageProgress"):
                break
        workers = _children(process.pid)
        for pid in [process.pid, *workers]:
            os.kill(pid, signal.SIGINT)  # a terminal sends it to all
        began = time.monotonic()
        process.stdout.read()
        process.wait(10)
        assert time.monotonic() - began < 10
    assert not any(map(alive, workers))
    assert {entry.status for entry in Store(tmp_path).listing()} == {"partial"}
    assert list(tmp_path.glob("*/state-*.safetensors"))


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("state-"))


def _children(pid: int) -> list[int]:
    pairs = [tuple(map(int, line.split())) for line in _ps("-A", "-o", "pid=,ppid=").splitlines()]
    return [child for child, parent in pairs if parent == pid]


def _ps(*words: str) -> str:
    """What `ps` says of processes; nothing where there is none."""
    if shutil.which("ps") is None:
        pytest.skip("no `ps` here to look at processes with")
    return subprocess.run(["ps", *words], capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_disk_that_is_full_from_some_write_on_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From each third write on; that each alone fails is among the points of `run`."""
    stages = make_plan(read_study(STUDY, QUICK), Path("data")).stages
    runtime, write, writes = Runtime(device="cpu", workers=0, save_every=0.0), os.write, 0

    def run(root: Path, room: float) -> list[Failed]:
        """Perform the study on a disk that takes so many writes."""
        nonlocal writes
        writes = 0

        def limited(file: int, data: bytes) -> int:
            nonlocal writes
            writes += 1
            if writes > room:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data)

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", limited)
            return [event for event in perform(stages.values(), Store(root), runtime) if isinstance(event, Failed)]

    assert not run(tmp_path / "reference", math.inf)
    expected, every = content(Store(tmp_path / "reference"), stages), writes
    assert every > 20
    for room in range(0, every, 3):
        root = tmp_path / str(room)
        failed = run(root, room)
        assert not failed or "Make room" in failed[0].message, failed[0].message
        assert not run(root, math.inf)
        assert not differences(Store(root), expected)
        assert not [*root.glob("*/state-*"), *root.glob("*/.*.tmp")]
