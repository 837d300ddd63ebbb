"""The batch file for Slurm: as it was recorded, sound for bash, and true to what was asked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from headstart.cli import main

RECORDED = Path(__file__).parent / "support" / "slurm.sh"
ASKED = "--nodes 3 --cpus 16 --gpus 4 --time 2-00:00:00 --partition long,gpu --gpus-per-stage 0.25 --store my runs"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["slurm", *words])
    output = capsys.readouterr()
    assert caught.value.code == 0, output.err
    return output.out


def test_the_batch_file_is_the_recorded_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*ASKED.split()[:-2], "my runs"]
    assert printed(capsys, "few-labels", "seed=[0, 1]", *words) == RECORDED.read_text("utf-8")


@pytest.mark.parametrize("gpus", ["0", "2"])
def test_bash_reads_it_and_the_run_is_named_word_by_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, gpus: str
) -> None:
    file = tmp_path / "job.sh"
    file.write_text(printed(capsys, "few-labels", "seed=[0, 1]", "--gpus", gpus, "--store", "it's $HOME"))
    subprocess.run(["bash", "-n", str(file)], check=True)
    (line,) = re.findall(r'^RAY_ADDRESS="\$address" (.*) &$', file.read_text(), re.M)
    device = "cuda" if gpus == "2" else "cpu"
    assert shlex.split(line) == [
        *("headstart", "run", "few-labels", "seed=[0, 1]", "--store", "it's $HOME", "--threads", "1"),
        *("--on", "ray", "--device", device),
    ]
    assert ("gpus-per-node" in file.read_text()) == (gpus == "2")


def test_what_a_terminal_would_act_on_stands_in_the_file_as_bytes_that_bash_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A name of a folder turns no line of the file around, and begins no line of its own."""
    store = "a\x1b[2J'b\\\n\u202ec\udcff é"
    text = printed(capsys, "few-labels", "--store", store)
    assert all(c.isprintable() or c in "\n\t" for c in text)
    (line,) = re.findall(r'^RAY_ADDRESS="\$address" (.*) &$', text, re.M)
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], check=True, capture_output=True).stdout
    assert os.fsencode(store) in words.split(b"\0")


TOOLS = {
    "scontrol": "echo node1; echo node2",
    "getent": "echo 10.0.0.1 STREAM node1",
    "srun": 'echo "srun $*" >> log; echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> tokens; exec sleep 60',
    "ray": "exit 0",
    "headstart": 'until [ "$(grep -c srun log)" = 2 ]; do sleep 0.1; done; echo "headstart $RAY_ADDRESS $*" >> log; echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> tokens; exit 3',
}


def test_it_starts_ray_on_every_node_and_ends_with_the_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With stand-ins for the programs of a cluster that note how they are called."""
    for name, body in TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "job.sh").write_text(printed(capsys, "few-labels", "--cpus", "8"))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_ID": "12345"}
    ran = subprocess.run(
        ["bash", "job.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 3, ran.stderr
    lines = (tmp_path / "log").read_text().splitlines()
    head, second = sorted(line for line in lines if line.startswith("srun"))
    assert "--nodelist=node1 " in head
    assert "--nodelist=node2 " in second
    assert "ray start --head --node-ip-address=10.0.0.1 --port=22345 --include-dashboard=false --num-cpus=8" in head
    assert "ray start --address=10.0.0.1:22345 --num-cpus=8 --num-gpus=0" in second
    assert "headstart 10.0.0.1:22345 run few-labels --threads 1 --on ray --device cpu" in lines
    tokens = (tmp_path / "tokens").read_text().splitlines()
    assert len(tokens) == 3
    assert len(set(tokens)) == 1
    assert re.fullmatch("token [0-9a-f]{64}", tokens[0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--time", "two days"],
            "--time: 'two days' is not a time; give one as Slurm takes it: 90 (minutes), 04:00:00",
        ),
        (["--partition", "a; rm"], "--partition: 'a; rm' is not the name of a partition; see `sinfo`"),
        (["seeds=[0]"], "did you mean 'seed'?"),
        (["--time", "00:99:99"], "--time: '00:99:99' is not a time"),
        (["--gpus-per-stage", "0.5"], "--gpus-per-stage: a stage takes 0.5, and a machine has 0 (--gpus)"),
        (["--gpus", "1", "--gpus-per-stage", "2"], "--gpus-per-stage: a stage takes 2, and a machine has 1 (--gpus)"),
        (["--cpus", "2", "--threads", "4"], "--threads: a stage takes 4, and a machine has 2 (--cpus); change one"),
    ],
)
def test_what_cannot_be_a_job_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["slurm", "few-labels", *words])
    assert caught.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
