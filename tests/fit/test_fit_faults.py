"""A fit that is broken off loses nothing: the same command goes on and ends with the same model."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from headstart.data.archives import reading
from headstart.errors import BadInput
from headstart.fit.prepared import in_folds
from headstart.request.settings import FitSettings
from headstart.runner.events import Failed
from headstart.verbs.fit import causes

WORDS = [
    "fit",
    "train.csv",
    "--target",
    "label",
    "--seeds",
    "2",
    "--workers",
    "0",
    "--time",
    "1h",
    "finetune.budget.steps=60",
    "pretrain.budget.steps=60",
]


def _folder(path: Path) -> Path:
    rng = np.random.default_rng(0)
    path.mkdir()
    lines = ["id,label," + ",".join(f"t{i}" for i in range(12))]
    for i in range(60):
        wave = np.sin(np.arange(12) * (0.5 + 0.7 * (i % 2)) + rng.uniform(0, 6)) + rng.normal(0, 0.3, 12)
        lines.append(f"s{i},{'ab'[i % 2]}," + ",".join(f"{x:.3f}" for x in wave))
    (path / "train.csv").write_text("\n".join(lines))
    return path


def _start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "headstart", *WORDS, *more],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200"},
    )


def _stages(folder: Path) -> list[Path]:
    return [path.parent for path in (folder / "runs").glob("*/result.json")]


def _networks(folder: Path) -> list[Path]:
    """Finished stages that took steps."""
    results = {path: json.loads((path / "result.json").read_text()) for path in _stages(folder)}
    return [path for path, result in results.items() if result["budget"]["steps"]]


SHOWN = ("scratch", "self_pretrained", "kernels")
SECONDS = re.compile(r"[\d.]+ ?s\b *| +[\d.]+ *$")
"""How long a row took, which differs from run to run; the last column of the table is seconds."""


@pytest.mark.slow
def test_a_killed_fit_goes_on_and_ends_with_the_model_of_one_in_one_go(tmp_path: Path) -> None:
    whole, broken = _folder(tmp_path / "whole"), _folder(tmp_path / "broken")
    done = _start(whole)
    out, error = done.communicate(timeout=240)
    assert done.returncode == 0, error
    first = _start(broken)
    end = time.monotonic() + 200
    plan = broken / "model" / "plan.json"
    while not (plan.exists() and len(_networks(broken)) >= 2) and time.monotonic() < end and first.poll() is None:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert plan.exists()
    assert not (broken / "model" / "config.json").exists(), "killed before its end"
    finished = {
        path.name: json.loads((path / "result.json").read_text())["provenance"]["attempts"] for path in _stages(broken)
    }
    again = _start(broken)
    second, error = again.communicate(timeout=240)
    assert again.returncode == 0, error
    for name, attempts in finished.items():
        result = json.loads((broken / "runs" / name / "result.json").read_text())
        assert result["provenance"]["attempts"] == attempts, "what was finished is not done again"
    tables = [
        [SECONDS.sub("", line) for line in text.splitlines() if line.strip().startswith(SHOWN)]
        for text in (out, second)
    ]
    assert len(tables[0]) == 3
    assert tables[0] == tables[1]
    for name in ("model.safetensors", "config.json"):
        assert (whole / "model" / name).read_bytes() == (broken / "model" / name).read_bytes()


@pytest.mark.slow
def test_other_settings_do_not_run_over_a_kept_plan(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "one")
    quick = ("finetune.budget.steps=2", "pretrain.budget.steps=2")
    first = _start(folder, *quick)
    _, error = first.communicate(timeout=240)
    assert first.returncode == 0, error
    before = (folder / "model" / "config.json").read_bytes()
    other = _start(folder, *quick, "--balanced")
    _, error = other.communicate(timeout=120)
    assert other.returncode == 2
    assert "plan.json: was made for other data or settings (balanced); give another folder with -o" in error
    assert (folder / "model" / "config.json").read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "one")
    going = _start(folder, "finetune.budget.steps=4000")
    end = time.monotonic() + 200
    while not any(path.stat().st_size for path in (folder / "runs").glob("*/records.jsonl")) and time.monotonic() < end:
        time.sleep(0.05)
    going.send_signal(signal.SIGINT)
    _, error = going.communicate(timeout=60)
    assert going.returncode == 130
    assert "the same command continues from there" in error


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_after_a_first_usable_model_leaves_a_folder_that_serves(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "one")
    going = _start(folder, "finetune.budget.steps=40000")
    assert going.stdout is not None
    lines = iter(going.stdout.readline, "")
    assert any(line.startswith("a first usable model after") for line in lines)
    while not any(path.stat().st_size for path in (folder / "runs").glob("*/records.jsonl")):
        assert going.poll() is None
        time.sleep(0.05)
    going.send_signal(signal.SIGINT)
    out, _ = going.communicate(timeout=240)
    assert going.returncode == 130
    assert "interrupted: what is finished is written as a model" in out
    card = (folder / "model" / "README.md").read_text("utf-8")
    assert "The fit was interrupted before" in card
    assert "Left out because the fit was interrupted: fitting the model that is served again" in card
    command = [sys.executable, "-m", "headstart", "predict", "model", "train.csv"]
    answers = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=True).stdout.splitlines()
    assert len(answers) == 61
    right = sum(line.split(",")[1] == "ab"[i % 2] for i, line in enumerate(answers[1:]))
    assert right > 45


@pytest.mark.slow
def test_a_fault_in_the_page_does_not_cost_the_model(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    program = (
        "import headstart.fitted.page as page\n\ndef write_page(*_):\n    raise RuntimeError('no ink')\n\n"
        "page.write_page = write_page\nfrom headstart.cli import main\nmain()\n"
    )
    words = ["fit", "train.csv", "--time", "4s", "--serve", "kernels", "--workers", "0"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 1, done.stderr
    assert "the page could not be drawn (no ink); the model is saved, and predicts without it" in done.stdout
    assert "page model" not in done.stdout
    assert not (folder / "model" / "report.html").exists()
    answers = [sys.executable, "-m", "headstart", "predict", "model", "train.csv", "-o", "new.csv"]
    subprocess.run(answers, cwd=folder, check=True, capture_output=True)
    assert len((folder / "new.csv").read_text().splitlines()) == 61


def test_why_stages_failed_is_said_once_for_each_cause() -> None:
    failures = [Failed(str(i), "finetune", "ValueError: 0 features\nmore") for i in range(3)]
    failures += [Failed("3", "finetune", "the disk is full"), Failed("4", "finetune", "its parent failed", tried=False)]
    assert causes(failures) == ["3 stages failed: ValueError: 0 features", "1 stage failed: the disk is full"]


def test_too_few_open_files_are_said_and_do_not_deal_the_rows_into_other_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer folds are for rows that are too few; a plan of them would stand in the way of the next command."""
    task = SimpleNamespace(train=SimpleNamespace(labelled_units=lambda: [0]), val=SimpleNamespace(labelled_units=list))

    def refuse(_: Path) -> None:
        with reading(Path("x.csv")):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    spec = SimpleNamespace(model_copy=lambda **_: spec, opened=refuse)
    with pytest.raises(BadInput, match="Too many open files"):
        in_folds(FitSettings(), cast(Any, spec), cast(Any, task), Path("data"))
