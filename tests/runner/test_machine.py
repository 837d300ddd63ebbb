"""Devices, workers and precision: what this machine offers, with faked GPUs and a faked list of CPU flags."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from support import stand_ins

from headstart import __version__
from headstart.api import Study
from headstart.errors import BadInput
from headstart.limits import FreeMemory, cores
from headstart.runner import machine
from headstart.runner import perform as run_stages
from headstart.runner.events import Failed
from headstart.runner.job import Agenda, Runtime, training
from headstart.runner.local import WorkerMessage
from headstart.runner.machine import (
    choose_device,
    default_workers,
    gpus,
    has_bfloat16,
    instructions,
    slow_precision,
)
from headstart.runner.perform import _Interruption, _Run
from headstart.store import Store
from headstart.verbs import checks
from headstart.verbs import run as perform
from headstart.verbs.options import StudyOptions


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_cuda_stands_for_every_gpu_and_a_number_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 3)
    assert [choose_device(name) for name in ("auto", "cpu", "cuda", "cuda:2")] == ["cuda", "cpu", "cuda", "cuda:2"]
    assert gpus("auto") == gpus("cuda") == ["cuda:0", "cuda:1", "cuda:2"]
    assert (gpus("cuda:1"), gpus("cpu")) == (["cuda:1"], [])


def test_a_gpu_that_is_not_there_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 2)
    with pytest.raises(BadInput, match=r"--device: cuda:2, but torch sees 2 GPU\(s\) here; the last is cuda:1"):
        choose_device("cuda:2")
    with_gpus(monkeypatch, 0)
    with pytest.raises(BadInput, match="--device: cuda:0, but torch sees none here; use auto or cpu"):
        choose_device("cuda:0")
    with pytest.raises(BadInput, match="--device: 'cuda:one' is none of auto, cpu, cuda, cuda:0"):
        choose_device("cuda:one")
    assert choose_device("auto") == "cpu"


def test_there_is_one_worker_per_gpu_or_core_and_none_for_one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 16)
    with_gpus(monkeypatch, 4)
    assert [default_workers("cuda"), default_workers("cuda:3"), default_workers("cpu")] == [4, 0, 16]
    assert [default_workers("auto", 3), default_workers("auto", 1)] == [3, 0]
    assert cores() >= 1


def test_there_are_no_more_workers_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 16)
    monkeypatch.setattr(machine, "memory", lambda: FreeMemory(10**9))
    assert (default_workers("cpu"), default_workers("cpu", 30)) == (2, 2)
    assert default_workers("cpu", each=10**8) == 2
    assert default_workers("cpu", each=2 * 10**8) == 0, "two would need 1.2 GB"
    large: Any = SimpleNamespace(shapes=lambda: {"weights": (10_000, 5_000)})
    assert (Runtime.slots("cpu"), Runtime.slots("cpu", [large])) == (2, 0), "each reads the checkpoint"
    monkeypatch.setattr(machine, "memory", lambda: FreeMemory(10**8))
    assert default_workers("cpu") == 0


def test_each_worker_has_a_gpu_of_its_own(tmp_path: Path) -> None:
    running: set[str] = set()
    agenda = cast(Agenda, SimpleNamespace(is_running=running.__contains__, jobs={}))
    runtime, devices = Runtime(workers=2, device="cuda"), ["cuda:0", "cuda:1"]
    run = _Run(agenda, Store(tmp_path), runtime, training(), _Interruption(), devices)

    def device(identity: str) -> Any:
        running.add(identity)
        return run._on_free_device(identity).device

    assert [device("a"), device("b")] == ["cuda:0", "cuda:1"]
    running.remove("a")
    assert [device("c"), device("b")] == ["cuda:0", "cuda:1"]


class OneByOne:
    """A pool of two slots whose work fails at once; `devices` of its jobs, in their order."""

    def __init__(self, *_: Any) -> None:
        self.devices: list[str] = []
        self.free, self.busy = 2, 0
        self._reports: list[Any] = []

    def start(self, key: str, job: Any) -> None:
        self.devices.append(job[2].device)
        self.free, self.busy = self.free - 1, self.busy + 1
        self._reports += [WorkerMessage(key, Failed(key, key, "no GPU after all"))]

    def wait(self, timeout: float) -> list[Any]:
        self.free, self.busy = 2, 0
        reports, self._reports = self._reports, []
        return reports

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("device", "expected"), [("auto", ["cuda:0", "cuda:1"]), ("cuda:1", ["cuda:1", "cuda:1"])])
def test_stages_and_timed_steps_of_several_workers_go_to_all_gpus_or_to_the_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, expected: list[str]
) -> None:
    with_gpus(monkeypatch, 2)
    pool = OneByOne()
    monkeypatch.setattr(run_stages, "Workers", lambda *_: pool)
    stages = [stand_ins.stage(f"s{i}", seed=i) for i in range(2)]
    runtime = Runtime(workers=2, device=device)
    list(run_stages.perform(stages, Store(tmp_path), runtime, stand_ins.ENGINE, {"a": stages[0], "b": stages[1]}))
    assert pool.devices == [*expected, *expected]


@pytest.mark.parametrize(
    ("text", "fast"),
    [
        ("processor : 0\nflags\t\t: fpu avx512f avx512_bf16\n", True),
        ("flags : fpu avx2 amx_bf16 amx_tile\n", True),
        ("Features\t: fp asimd bf16 i8mm\n", True),
        ("flags : fpu avx2 avx512f\n", False),
        ("processor : 0\n", None),
    ],
)
def test_bfloat16_instructions_are_read_from_the_flags_of_the_cpu(tmp_path: Path, text: str, fast: bool | None) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    assert has_bfloat16(path) is fast
    assert has_bfloat16(tmp_path / "absent") is None


def test_slow_bfloat16_is_named_with_its_reason_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "has_bfloat16", lambda: False)
    note = slow_precision({"float32", "bfloat16"}, "cpu")
    assert note is not None
    assert "ten times slower than float32 on this CPU, which has no bfloat16 instructions" in note
    assert "1.5 against 18.6 GFLOP/s" in note
    assert note.endswith('set precision = "float32"')
    assert slow_precision({"float32"}, "cpu") is None
    assert slow_precision({"bfloat16"}, "cuda") is None
    monkeypatch.setattr(machine, "has_bfloat16", lambda: True)
    assert slow_precision({"bfloat16"}, "cpu") is None


def test_check_and_doctor_say_that_bfloat16_is_slow_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "has_bfloat16", lambda: False)
    monkeypatch.setattr(checks, "has_bfloat16", lambda: False)
    monkeypatch.setenv("COLUMNS", "250")
    with_gpus(monkeypatch, 0)
    settings = ['finetune.optim.precision="bfloat16"', "seed=[0]"]
    checks.check_one("digits", settings, None, StudyOptions())
    assert 'optim.precision: "bfloat16" is about ten times slower than float32' in capsys.readouterr().out
    checks.check_one("digits", ["seed=[0]"], None, StudyOptions())
    assert "bfloat16" not in capsys.readouterr().out
    checks.examine_machine(str(tmp_path), None)
    out = capsys.readouterr().out
    assert 'set precision = "float32"' in out
    assert "[hf]" in out
    assert "[cluster]" not in out


def test_run_says_before_it_trains_that_bfloat16_is_slow_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "has_bfloat16", lambda: False)
    study = Study("digits", ['finetune.optim.precision="bfloat16"', "seed=[0]"])
    monkeypatch.setattr(Study, "survey", lambda _: pytest.fail("reached the models"))
    with pytest.raises(pytest.fail.Exception, match="reached the models"):
        perform.run_study(study, study.runtime(device="cpu"))
    assert "no bfloat16 instructions" in " ".join(capsys.readouterr().out.split())


KEPT = """
import sys, numpy as np
from headstart.limits import give_back, _resident, ROOT
from headstart.runner.machine import keep_freed_memory
keep_freed_memory()
blocks = [np.ones(2_500_000) for _ in range(10)]
if sys.argv[1] == "no longer":
    keep_freed_memory(False)
last, more = np.ones(1_000), [np.ones(2_500_000) for _ in range(10)]
before, tail = _resident(ROOT), np.ones(1_000)
del more
print(before - _resident(ROOT))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
@pytest.mark.parametrize("way", ["kept", "no longer"])
def test_memory_that_is_freed_is_kept_while_steps_are_taken_and_no_longer(way: str) -> None:
    done = subprocess.run([sys.executable, "-c", KEPT, way], capture_output=True, text=True, check=True)
    assert (int(done.stdout) > 1.5e8) == (way == "no longer")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the source, as of a checkout, that nothing has installed."""
    folder = tmp_path / "src" / "headstart"
    (folder / "runner").mkdir(parents=True)
    monkeypatch.setattr(machine, "__file__", str(folder / "runner" / "machine.py"))
    monkeypatch.delenv("HEADSTART_COMMIT", raising=False)
    machine.release.cache_clear()
    yield tmp_path
    machine.release.cache_clear()


def test_the_version_is_known_where_nothing_was_installed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise machine.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(machine.metadata, "distribution", absent)
    assert machine.version("headstart") == __version__
    assert machine.release() == f"{__version__} (commit not known: HEADSTART_COMMIT may name it)"
    machine.release.cache_clear()
    monkeypatch.setenv("HEADSTART_COMMIT", "1234abcd")
    assert machine.release() == f"{__version__} (commit 1234abcd)"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_of_a_checkout_is_recorded_and_that_files_differ_from_it(checkout: Path) -> None:
    (checkout / "README.md").write_text("first")
    (checkout / "src" / "headstart" / "a.py").write_text("")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m first"):
        subprocess.run(["git", "-C", str(checkout), *words.split()], check=True)
    head = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert machine.release() == f"{__version__} (commit {head.stdout[:12]})"
    machine.release.cache_clear()
    (checkout / "README.md").write_text("second")
    assert machine.release() == f"{__version__} (commit {head.stdout[:12]}-dirty)"


def test_what_is_preloaded_stands_beside_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert instructions() == torch.backends.cpu.get_cpu_capability()
    monkeypatch.setenv("LD_PRELOAD", "/somewhere/else/kernels.so:other.so")
    assert instructions() == torch.backends.cpu.get_cpu_capability() + " with kernels.so other.so"
