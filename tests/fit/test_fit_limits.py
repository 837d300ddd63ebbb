"""A fit keeps to its time and memory, and what it has is never lost: real processes."""

import importlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headstart.baselines.pieces import Pieces
from headstart.cli import main
from headstart.fit import perform
from headstart.fit.choose import unheard
from headstart.request.settings import FitSettings

CODE = "import sys; from headstart.cli import main; main(sys.argv[1:])"


def rows(folder: Path, count: int = 240, length: int = 24) -> Path:
    """Two classes of waves."""
    draw, at = np.random.default_rng(0), np.arange(length)
    waves = [np.sin(at / (2 + i % 2) + draw.random()) + draw.normal(size=length) * 0.3 for i in range(count)]
    lines = [f"{'ab'[i % 2]}," + ",".join(f"{x:.3f}" for x in wave) for i, wave in enumerate(waves)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.csv").write_text("label," + ",".join(f"t{i}" for i in at) + "\n" + "\n".join(lines) + "\n")
    return folder


def started(folder: Path, *words: str, code: str = CODE, limit: int | None = None) -> subprocess.Popen[str]:
    """A fit in a process of its own. limit: bytes of data that it may have."""
    command = [sys.executable, "-c", code, "fit", "rows.csv", "--store", "runs", "--workers", "0", *words]
    bound = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, text=True, stdout=pipe, stderr=pipe, env=environment, preexec_fn=bound)


SLOW = f"""
import time
from headstart.baselines.pieces import Pieces
Pieces.first, Pieces.more = lambda self, *_: self.sizes[-1], lambda self, *_: self.sizes[0] if self.done < self.sizes[0] else None
from headstart.baselines import kernels
fit = kernels.KernelsSpec.fit
def slow(self, train, *words):
    model = fit(self, train, *words)
    if train.units > 300:
        print("a long piece", flush=True)
        for _ in range(600):  # a signal just before one long sleep would not end it
            time.sleep(0.1)
    return model
kernels.KernelsSpec.fit = slow
{CODE}
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_within_a_long_piece_leaves_the_model_of_the_piece_before(tmp_path: Path) -> None:
    folder = rows(tmp_path / "one", count=900)
    going = started(folder, "--time", "300s", code=SLOW)
    assert going.stdout is not None
    lines = []
    for line in going.stdout:
        lines.append(line)
        if line.startswith("a long piece"):
            break
    going.send_signal(signal.SIGINT)
    out, error = going.communicate(timeout=60)
    assert going.returncode == 130, error
    assert any("a first usable model after" in line for line in lines)
    assert "interrupted: what is finished is written as a model" in out
    assert "Models without a network learn from" in " ".join(out.split())
    with pytest.raises(SystemExit) as done:
        main(["predict", str(folder / "model"), str(folder / "rows.csv"), "-o", str(tmp_path / "answers.csv")])
    assert done.value.code == 0
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 901


@pytest.mark.parametrize("function", ["headstart.fit.serving.serve", "headstart.fitted.page.write_page"])
def test_ctrl_c_while_the_model_is_put_together_or_its_page_is_drawn_leaves_one_that_serves(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pressed = rows(tmp_path / "one", count=60), []
    module, _, name = function.rpartition(".")
    whole = getattr(importlib.import_module(module), name)

    def once(*words: Any, **more: Any) -> Any:
        if not pressed:
            pressed.append(name)
            raise KeyboardInterrupt
        return whole(*words, **more)

    monkeypatch.setattr(function, once)
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main(["fit", "rows.csv", "--target", "label", "--time", "1s", "--workers", "0"])
    assert end.value.code == 130
    out = " ".join(capsys.readouterr().out.split())
    assert ("what is finished is written as a model" if name == "serve" else "(interrupted); the model is saved") in out
    with pytest.raises(SystemExit) as done:
        main(["predict", "model", "rows.csv", "-o", "answers.csv"])
    assert done.value.code == 0
    assert len((folder / "answers.csv").read_text().splitlines()) == 61


EARLY = f"""
import time
from headstart.data import part
from headstart.verbs import fit
part.WHOLE_FILE, part.FIRST_BYTES, part.TIMED_BYTES, part.PART_OF_TIME = 1, 1 << 13, 1 << 14, 1e-6
read, times = fit.read_source, []
def slow(path, settings, store):
    times.append(settings.time)
    if len(times) > 1:
        print("reads more of", times, flush=True)
        for _ in range(600):  # a signal just before one long sleep would not end it
            time.sleep(0.1)
    return read(path, settings, store)
fit.read_source = slow
{CODE}
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_while_more_of_a_large_file_is_read_a_model_of_a_small_part_serves(tmp_path: Path) -> None:
    folder = rows(tmp_path / "one", count=900)
    going = started(folder, "--time", "1000s", code=EARLY)
    assert going.stdout is not None
    lines = []
    for line in going.stdout:
        lines.append(line)
        if line.startswith("reads more of [150.0, 1000.0]"):
            break
    going.send_signal(signal.SIGINT)
    out, error = going.communicate(timeout=60)
    assert going.returncode == 130, error
    assert any("a first usable model after" in line for line in lines)
    assert "of 900 rows of the file are read" in " ".join(out.split())
    with pytest.raises(SystemExit) as done:
        main(["predict", str(folder / "model"), str(folder / "rows.csv"), "-o", str(tmp_path / "answers.csv")])
    assert done.value.code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_small_fit_keeps_to_the_memory_that_it_may_take(tmp_path: Path) -> None:
    folder = rows(tmp_path / "one")
    going = started(folder, "--time", "5s", "--memory", "1G", limit=2 * 10**9)
    _, error = going.communicate(timeout=120)
    assert going.returncode == 0, error
    assert (folder / "model" / "report.html").is_file()


def test_a_memory_in_which_nothing_could_be_done_is_refused_before_anything_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rows(tmp_path / "one")
    with pytest.raises(SystemExit) as done:
        main(["fit", str(folder / "rows.csv"), "--memory", "10M", "-o", str(tmp_path / "model")])
    assert done.value.code == 2
    assert "--memory: 10 MB is less than the 700 MB" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


BUSY = """
import sys, time
from pathlib import Path
from headstart import limits
time.monotonic = lambda: SLOW * time.process_time()
for function in (limits.cores, limits.follow_quota, limits.memory):
    function.__defaults__ = (Path("container"),)
assert limits.cores() == 1, "the quota of the group counts"
from headstart.cli import main
main(sys.argv[1:])
"""
"""Each second of the processor takes so many by the clock, as where a container has a tenth of a core, which the files of
its control group say."""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["1s", "20s"])
def test_a_tenth_of_a_processor_leaves_a_model_that_serves(tmp_path: Path, seconds: str) -> None:
    folder = rows(tmp_path / "one", count=60)
    group, own = folder / "container" / "sys/fs/cgroup", folder / "container" / "proc/self"
    for made in (group, own):
        made.mkdir(parents=True)
    (group / "cpu.max").write_text("10000 100000\n")
    (own / "cgroup").write_text("0::/\n")
    (own / "mountinfo").write_text("31 23 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n")
    going = started(folder, "--time", seconds, code=BUSY.replace("SLOW", "10"))
    out, error = going.communicate(timeout=240)
    assert going.returncode == 0, error
    assert "Traceback" not in error
    assert "(predicts)" in out
    assert "a first usable model after" in out
    assert "networks at a time" not in out


@pytest.mark.slow
def test_where_all_probabilities_out_of_fold_are_equal_the_majority_serves_with_a_sentence(tmp_path: Path) -> None:
    """Each text is the same but for a letter that no other has: nothing of a text is in another class's alone."""
    letters = [chr(code) for code in (*range(65, 91), *range(97, 123))]
    lines = [f"0101010{letter},{('neg', 'pos')[i % 2]}" for i, letter in enumerate(letters)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    going = started(tmp_path, "--kind", "text", "--time", "15s")
    out, error = going.communicate(timeout=240)
    printed = " ".join(out.split())
    assert going.returncode == 0, error
    assert "Traceback" not in error
    assert "The model majority (shares of the classes, or the mean) is taken" in printed
    assert "no model tells the sequences apart: on validation none is better than one answer for all" in printed


def test_a_second_for_many_rows_leaves_a_model_of_a_part_of_them(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    numbers = np.random.default_rng(0).integers(0, 1_000, (60_000, 48))
    lines = (f"{'ab'[i % 2]},{','.join(map(str, row))}\n" for i, row in enumerate(numbers.tolist()))
    (tmp_path / "one" / "rows.csv").write_text("label," + ",".join(f"t{i}" for i in range(48)) + "\n" + "".join(lines))
    going = started(tmp_path / "one", "--time", "1s")
    out, error = going.communicate(timeout=240)
    assert going.returncode == 0, error
    printed = " ".join(out.split())
    assert "of 60,000 rows of the file are read" in printed
    assert "(predicts)" in out
    warned = printed.index("--time 1.0 s: libraries, a first model and the page alone take about 5 s of one processor")
    assert warned < printed.index("a first usable model after"), "before anything begins"


@pytest.mark.parametrize(
    ("rest", "serve", "fitted"),
    [
        (9.0, "auto", ["majority", "kernels"]),
        (3.0, "auto", ["majority"]),
        (-20.0, "auto", ["majority"]),
        (3.0, "kernels", ["majority", "kernels"]),
    ],
)
def test_the_dearest_model_is_left_out_where_it_would_end_too_late_and_a_cheaper_one_serves(
    rest: float, serve: Any, fitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = {name: SimpleNamespace(name=name, arms=(name,)) for name in ("kernels", "majority")}
    performed, settings = list[str](), FitSettings(time=20.0, seeds=(0,), serve=serve)
    monkeypatch.setattr(perform, "perform", lambda part, *_: performed.extend(stage.name for stage in part) or [])
    fit: Any = SimpleNamespace(
        settings=settings, splits=(None,), data=Path(), store=None, spent=1.0, rest=rest, begun=0.0
    )
    fit.store = SimpleNamespace(finished=lambda _: False)
    pieces = Pieces([300], lambda _: 4.0)
    fit.without_networks = lambda *_, **__: SimpleNamespace(stages=stages)
    assert perform._fit_here(fit, 0, unheard, learnt=300, pieces=pieces) == (len(fitted) == 2)
    assert performed == fitted


def test_where_others_have_the_processor_a_piece_is_taken_to_last_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stages = [0.0], {name: SimpleNamespace(name=name, arms=(name,)) for name in ("kernels", "majority")}
    performed = list[str]()

    def busy(part: list[Any], *_: object) -> list[object]:
        now[0] += 5.0  # by the clock, of one second of the processor
        performed.extend(stage.name for stage in part)
        return []

    monkeypatch.setattr(perform, "perform", busy)
    monkeypatch.setattr(perform.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(perform.time, "process_time", lambda: now[0] / 5)
    fit: Any = SimpleNamespace(settings=FitSettings(time=20.0, seeds=(0,)), data=Path(), spent=1.0, rest=9.0)
    fit.store = SimpleNamespace(finished=lambda _: False)
    fit.without_networks = lambda *_, **__: SimpleNamespace(stages=stages)
    assert not perform._fit_here(fit, 0, unheard, learnt=300, pieces=Pieces([300], lambda _: 4.0))
    assert performed == ["majority"]
