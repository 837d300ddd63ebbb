"""Real stages on several processes: the numbers of one, one message where one fails, and nothing lost where one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from support.own_code import EXAMPLE, OBJECTIVE, clean_process, headstart
from support.ranks import ended

import headstart as hs
from headstart.errors import BadInput
from headstart.runner.events import Failed, Finished, Notice, StageProgress, Started
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.runner.ranks import check_ranks, ranks_of
from headstart.store import Store
from headstart.study.language.files import to_toml
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study

STUDY = {
    "name": "shared",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 20, "evaluate_every": 10}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 60, "evaluate_every": 20}},
    },
    "columns": {
        "digits": {
            "task": {"kind": "digits", "fraction": 0.1},
            "model": {"width": 16, "blocks": 2, "norm": "batch", "dropout": 0.1},
            "optim": {"precision": "float64", "clip": 1.0},
        }
    },
    "arms": {"self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}},
    "report": {"baselines": False},
}


def plan(*overrides: str) -> Plan:
    return make_plan(read_study(STUDY, list(overrides)), Path("data"))


def run(root: Path, ranks: int, *overrides: str, **more: Any) -> Iterator[Any]:
    runtime = Runtime(**{"device": "cpu", "ranks": ranks, "save_every": 0.0, **more})
    return perform(plan(*overrides).stages.values(), Store(root), runtime)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The stages on one rank."""
    root = tmp_path_factory.mktemp("one")
    assert not [event for event in run(root, 1) if isinstance(event, Failed)]
    return Store(root)


def assert_equal_numbers(store: Store, reference: Store) -> None:
    """To the order of summation, in float64: weights, records, predictions and scores."""
    for identity in plan().stages:
        result, expected = store.result(identity), reference.result(identity)
        assert result is not None
        assert expected is not None
        assert result["budget"]["examples"] == expected["budget"]["examples"]
        assert result["scores"]["best"]["step"] == expected["scores"]["best"]["step"]
        for which in ("best", "last"):
            weights = store.weights(identity, which)  # type: ignore[arg-type]
            for name, value in reference.weights(identity, which).items():  # type: ignore[arg-type]
                assert (weights[name] - value).abs().max() <= 1e-9 * value.abs().max().clamp_min(1e-3), name
            for split in ("train", "val", "test"):
                assert result["scores"][which][split] == pytest.approx(expected["scores"][which][split], rel=1e-8)
        records = [{k: v for k, v in r.items() if k in ("step", "examples")} for r in store.records(identity)]
        assert records == [{k: r[k] for k in ("step", "examples")} for r in reference.records(identity)]
        for name, value in reference.predictions(identity).items():
            assert torch.allclose(store.predictions(identity)[name].double(), value.double(), atol=1e-6)


def ranks_alive() -> dict[str, int]:
    """Rank -> process, of those that this process has started."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("no /proc here to look at processes with")
    out = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            words = dict(word.split("=", 1) for word in (folder / "environ").read_text().split("\0") if "=" in word)
            if int(parent) == os.getpid() and state != "Z" and "RANK" in words:
                out[words["RANK"]] = int(folder.name)
    return out


def kill(rank: int) -> None:
    os.kill(ranks_alive()[str(rank)], signal.SIGKILL)


@pytest.mark.slow
def test_a_rank_that_is_killed_loses_nothing_and_the_stage_goes_on_on_any_number(
    tmp_path: Path, reference: Store
) -> None:
    store, (first, _) = Store(tmp_path), plan().stages.values()
    events, killed = [], 0
    for event in run(tmp_path, 2):
        events.append(event)
        if isinstance(event, StageProgress) and event.name == first.name and event.step > 4 and killed < 2:
            kill(1 - killed)  # first the other rank, then rank 0 itself
            killed, began = killed + 1, time.monotonic()
        elif isinstance(event, (Notice, Failed)) and event.identity == first.identity:
            assert time.monotonic() - began < 20
    (notice,) = [e for e in events if isinstance(e, Notice)]
    assert notice.text.startswith(
        "its worker (rank 1 of 2) was killed by SIGKILL (by the system if memory ran out; give"
    )
    assert notice.text.endswith("fewer --ranks then); the stage is tried once more")
    failed = [e for e in events if isinstance(e, Failed)]
    assert failed[0].message.startswith("its worker (rank 0 of 2) was killed by SIGKILL")
    assert failed[0].message.endswith(", twice")
    assert not ranks_alive()
    assert store.status(first.identity) == "failed"
    with closing(run(tmp_path, 3)) as again:  # type: ignore[type-var]
        started = next(e for e in again if isinstance(e, Started))
        assert started.step >= 4
        assert next(e for e in again if isinstance(e, StageProgress)).step > started.step
    assert not ranks_alive()
    events = list(run(tmp_path, 1))
    assert [e.name for e in events if isinstance(e, Finished)] == ["pretrain", "finetune"]
    changes = "2 ranks (gloo) then 3 ranks (gloo) then alone"
    assert any(f"way changed within the stage ({changes})" in e.text for e in events if isinstance(e, Notice))
    ways = [store.result(identity)["provenance"].get("way") for identity in plan().stages]  # type: ignore[index]
    assert ways == [changes, None]
    assert_equal_numbers(store, reference)


LOOPBACK = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}


def command(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A command line on the study in `s.toml`, in a session of its own; `ended` ends all of it."""
    (folder / "s.toml").write_text(to_toml(STUDY))
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, **LOOPBACK},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_ctrl_c_saves_on_all_ranks_and_torchrun_goes_on(tmp_path: Path, reference: Store) -> None:
    store, (first, _) = Store(tmp_path / "runs"), plan().stages.values()
    on_cpu = ("--device", "cpu", "pretrain.budget.steps=100000")
    process = command(tmp_path, "headstart", "run", "s.toml", "--ranks", "2", *on_cpu)
    long = next(iter(plan("pretrain.budget.steps=100000").stages))
    while store.status(long) != "running" or not store.records(long):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all
    ((code, text),) = ended([process], 30)
    assert (code, store.status(long)) == (130, "partial"), text
    assert "Traceback" not in text
    torchrun = ["torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
    process = command(tmp_path, *torchrun, "-m", "headstart", "run", "s.toml", "--device", "cpu")
    ((code, text),) = ended([process], 120)
    assert code == 0, text
    assert text.count("page ") == 1, text
    assert store.result(first.identity)["provenance"]["way"] == "2 ranks (gloo)"  # type: ignore[index]
    assert_equal_numbers(store, reference)


RAISING = OBJECTIVE.replace("import headstart\n", "import os\nimport headstart\n").replace(
    "        sums = super()",
    """        if os.environ.get("RANK") == "1":
            raise ArithmeticError("five is too many")
        sums = super()""",
)


@pytest.mark.slow
def test_a_rank_that_raises_gives_its_message_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RAISING)
    study = {
        **STUDY,
        "stages": {"finetune": {"objective": {"kind": "sure"}, "budget": {"steps": 2}}},
        "arms": {"a": {}},
    }
    with clean_process():
        bound = hs.Study(study, plugins=["mine.py"])
        (event,) = [e for e in bound.perform(ranks=2, device="cpu") if isinstance(e, (Failed, Finished, Notice))]
        assert isinstance(event, Failed)
        assert event.message.startswith("rank 1 of 2: ")
        assert event.message.endswith("ArithmeticError: five is too many")
        assert bound.store.status(event.identity) == "failed"
    assert not ranks_alive()


def test_what_excludes_several_ranks_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(to_toml(STUDY))
    assert headstart("run", "s.toml", "--ranks", "2", "--workers", "3", "--device", "cpu") == 2
    assert "--workers: 3 with 2 ranks, which do one stage after another; leave" in capsys.readouterr().err
    assert headstart("run", "s.toml", "--ranks", "2", "--stack", "3", "--device", "cpu") == 2
    assert "--stack: 3 with 2 ranks, which do a stage at a time; leave one out" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for device, count, words in (("cuda", 4, "4 on 3 GPUs (cuda)"), ("cuda:1", 2, "2 on 1 GPU (cuda:1)")):
        assert headstart("run", "s.toml", "--ranks", str(count), "--device", device) == 2
        assert f"--ranks: {words}, and each rank takes a GPU of its own; give at most" in capsys.readouterr().err
    assert not list(Path().glob("runs/*"))
    check_ranks(Runtime(device="cuda", ranks=3), plan().stages.values())
    Path("my_net.py").write_text(EXAMPLE)
    with clean_process():
        own = hs.Study(
            {**STUDY, "columns": {"digits": {"task": {"kind": "digits"}, "model": {"kind": "my_conv"}}}},
            plugins=["my_net.py"],
        )
        with pytest.raises(BadInput, match="--ranks: stage 'pretrain' trains 'my_conv', a whole model of your own"):
            list(own.perform(ranks=2, device="cpu"))


def test_torchruns_ranks_are_taken_and_another_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [ranks_of(wanted) for wanted in (None, 1, 3)] == [(1, False), (1, False), (3, False)]
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert [ranks_of(wanted) for wanted in (None, 1, 2)] == [(2, True), (1, False), (2, True)]
    with pytest.raises(BadInput, match="--ranks: 3, but torchrun has started 2 ranks; leave --ranks out"):
        ranks_of(3)
