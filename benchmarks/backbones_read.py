"""Reading pretrained weights: what a stage that reads takes, and a plan that knows them; random ones of GPT-2's size.

    python benchmarks/backbones_read.py [--write docs/benchmarks/backbones.md]

Claims: weights of GPT-2's size are read into a store within 5 s, and a plan of a study that knows them already takes at
most 0.3 s longer than one without them. Every time is the median of a few runs, each in a process of its own, as a
command's is, imports apart. Processor time stands beside the clock's, which on a shared machine counts others' work too.
--write replaces the section of the page and leaves the others alone.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from harness import parser_of, with_section, write
from safetensors.torch import save_file

from headstart.bench.machine import sentence, setting
from headstart.checkpoints import FAMILIES
from headstart.checkpoints.family import Config, Family, expanded
from headstart.checkpoints.known import KNOWN
from headstart.checkpoints.read import fields_of

NAME = "gpt2"
GOAL_READ, GOAL_PLAN = 5.0, 0.3
ROUNDS = 3
TITLE, HEADING = "# Backbones: what they cost", "Reading pretrained weights"
STUDY = """
name = "backbone"
[stages.gpt2]
checkpoint = {{ source = "gpt2" }}
[stages.finetune]
objective = {{ kind = "classify" }}
budget = {{ steps = 1 }}
[columns.digits]
task = {{ kind = "digits" }}
model = {{ like = "gpt2" }}
[arms.one]
{finetune}
[axes]
seed = [0, 1, 2, 3, 4, 5]
[report]
baselines = false
"""
PARENT = 'finetune = { parent = "gpt2", start = ["take(backbone)"] }'
TIMED = """
import json, sys, time
from pathlib import Path
{imports}
clock, processor = time.perf_counter(), time.process_time()
{work}
print(json.dumps([time.perf_counter() - clock, time.process_time() - processor]))
"""
READ = (
    """
from headstart.runner.job import Job, Runtime, training
from headstart.runner.worker import perform_one
from headstart.stage import identity, StageSpec
from headstart.store import Store
spec = StageSpec.model_validate({"checkpoint": {"source": "gpt2"}}).settled()
job = Job("gpt2", identity(spec, Path("data")), spec, None)
import headstart.stage.read
""",
    "assert [*perform_one(job, Store(sys.argv[1]), Runtime(), training())][-1].result['status'] == 'complete'",
)
PLAN = "from headstart.api import Study", "Study(sys.argv[1])"
PLAIN = "", "data = Path(sys.argv[1]).read_bytes(); Path(sys.argv[2]).write_bytes(data)"


def written(folder: Path) -> int:
    """Random weights of GPT-2's size and config.json; the bytes of the weights."""
    fields, config = fields_of(NAME), Config(KNOWN[NAME], "config.json")
    family: Family = FAMILIES[fields.family].load()  # type: ignore[assignment]
    ours = {name: torch.randn(shape) for name, shape in fields.shapes().items()}
    theirs = dict[str, torch.Tensor]()
    for line in expanded(family.lines(config), fields.spec.blocks, ours):
        tensors = line.form.write(*(ours[name] for name in line.ours))
        theirs |= {name: tensor.contiguous() for name, tensor in zip(line.theirs, tensors, strict=True)}
    folder.mkdir(parents=True)
    save_file(theirs, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(KNOWN[NAME]))
    return (folder / "model.safetensors").stat().st_size


def timed(program: tuple[str, str], *words: str, cwd: Path) -> tuple[float, float]:
    """Seconds by the clock and of the processor that the work of a program took, in a process of its own."""
    code = TIMED.format(imports=program[0], work=program[1])
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=cwd, capture_output=True, text=True, check=True)
    clock, processor = json.loads(done.stdout.splitlines()[-1])
    return clock, processor


def medians(run: Callable[[], tuple[float, float]], rounds: int = ROUNDS) -> tuple[float, float]:
    """Of both times over some rounds."""
    clock, processor = zip(*(run() for _ in range(rounds)), strict=True)
    return statistics.median(clock), statistics.median(processor)


def reading() -> str:
    """What a stage that reads takes, beside a plain copy of the file; and plans with it and without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"HEADSTART_WEIGHTS": str(folder / "weights"), "HEADSTART_CACHE": str(folder / "cache")}
        (folder / "cache").mkdir()
        size = written(folder / "weights" / NAME)
        for file, finetune in (("with", PARENT), ("without", "")):
            (folder / f"{file}.toml").write_text(STUDY.format(finetune=finetune))
        first = timed(PLAN, "with.toml", cwd=folder)
        plans = {file: medians(partial(timed, PLAN, f"{file}.toml", cwd=folder)) for file in ("with", "without")}

        def read() -> tuple[float, float]:
            shutil.rmtree(folder / "runs", ignore_errors=True)
            return timed(READ, "runs", cwd=folder)

        whole = medians(read)
        stored = sum(path.stat().st_size for path in (folder / "runs").rglob("*") if path.is_file())
        weights = str(folder / "weights" / NAME / "model.safetensors")
        copied = medians(partial(timed, PLAIN, weights, str(folder / "copy"), cwd=folder))
    slower = plans["with"][0] - plans["without"][0]
    rows = [
        ("a plain copy of the file, not flushed to the disk", copied, ""),
        ("the stage: read, compared, copied into the store, flushed", whole, f"{GOAL_READ:g} s"),
        ("the first plan, which takes the content", first, ""),
        ("a plan of six runs with it, from then on", plans["with"], ""),
        ("the same plan without it", plans["without"], ""),
    ]
    lines = [f"| {text} | {clock:.2f} s | {processor:.2f} s | {goal} |" for text, (clock, processor), goal in rows]
    return (
        f"Random weights of GPT-2's size, {size / 1e6:,.0f} MB; {stored / 1e6:,.0f} MB in the store. A later plan is "
        f"{slower:.2f} s slower with them (goal: {GOAL_PLAN:g} s).\n\n"
        + "\n".join(["| | clock | processor | goal |", "|---|---:|---:|---:|", *lines])
    )


def main() -> None:
    """Measure, and print or write the section."""
    parser = parser_of(__doc__)
    parser.add_argument("--write", type=Path)
    page = parser.parse_args().write
    section = f"{reading()}\n\nMeasured {sentence(setting('cpu', 1))}. `python benchmarks/backbones_read.py` makes this section."
    print(section)
    if page is not None:
        write(page, with_section(page.read_text("utf-8") if page.is_file() else TITLE, HEADING, section))


if __name__ == "__main__":
    main()
