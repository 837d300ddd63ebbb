"""Claim: `headstart ls` over 10,000 finished stages answers within 2 s.

    python benchmarks/store_index.py [--stages 10000] [--rounds 5] [--write docs/benchmarks/store-index.md]

One stage of a tiny study is trained; the others are copies of its folder under the identities and specs of a study of so
many seeds and rates. Each command runs in a process of its own, some times; of wall and processor seconds the median is
printed. Without the index means that it has been deleted, so that every stage is read (and the index
written). Python keeps its bytecode, as it does unless it is told otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import filled, parser_of, write

import headstart
from headstart.bench.machine import sentence, setting
from headstart.documents import as_json, canonical
from headstart.store.index import INDEX_FOLDER
from headstart.study.language.files import to_toml
from headstart.study.results.listing import states

SEEDS = 100


def study_of(stages: int) -> dict[str, Any]:
    """A study of so many stages (a multiple of 100)."""
    return {
        "name": "many",
        "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 1}}},
        "columns": {"digits": {"task": {"kind": "digits", "fraction": 0.1}, "model": {"width": 8, "blocks": 1}}},
        "arms": {"scratch": {}},
        "axes": {
            "finetune.optim.lr": [1e-4 * (1 + i / 100) for i in range(stages // SEEDS)],
            "seed": list(range(SEEDS)),
        },
        "report": {"baselines": False},
    }


def put(path: Path, document: dict[str, Any]) -> None:
    """A document as the store has it, without waiting for the disk."""
    document = as_json({name: value for name, value in document.items() if name != "digest"})
    document["digest"] = hashlib.sha256(canonical(document)).hexdigest()
    path.write_text(json.dumps(document, indent=1) + "\n")


def fill(folder: Path, stages: int) -> headstart.Study:
    """A store of so many finished stages, all copies of one that was trained."""
    first = headstart.Study(study_of(SEEDS), ["seed=[0]"], store=folder / "first")
    list(first.perform())
    (name,) = first.store.names()
    source = first.store.folder(name)
    stage, result = (json.loads((source / file).read_text()) for file in ("stage.json", "result.json"))
    study = headstart.Study(study_of(stages), store=folder / "runs")
    study.store.root.mkdir(exist_ok=True)
    for identity, planned in study.plan.stages.items():
        shutil.copytree(source, study.store.folder(identity))
        document = {**stage, "identity": identity, "spec": planned.spec.model_dump(mode="json")}
        put(study.store.folder(identity) / "stage.json", document)
        put(study.store.folder(identity) / "result.json", {**result, "identity": identity})
    return study


def timed(words: list[str], folder: Path, rounds: int, index: bool) -> tuple[float, float]:
    """(wall, processor) seconds of Python with these words, medians."""
    walls, works = [], []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(rounds):
        if not index:
            (folder / "runs" / INDEX_FOLDER).unlink(missing_ok=True)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        program = [sys.executable, *words]
        subprocess.run(program, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        works.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(walls), statistics.median(works)


def asked(study: headstart.Study, rounds: int, index: bool) -> tuple[float, float]:
    """(wall, processor) seconds of asking for the state of every stage, as a dry run does, medians."""
    walls, works = [], []
    for _ in range(rounds):
        if not index:
            (study.store.root / INDEX_FOLDER).unlink(missing_ok=True)
        start, began = time.perf_counter(), time.process_time()
        assert set(states(study.store, study.plan.stages).values()) == {"complete"}
        walls.append(time.perf_counter() - start)
        works.append(time.process_time() - began)
    return statistics.median(walls), statistics.median(works)


def main() -> None:
    """Time each with and without the index, print a table, and write it where a file is named."""
    parser = parser_of(__doc__)
    parser.add_argument("--stages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    words = parser.parse_args()
    where = setting("cpu", 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = fill(folder, words.stages)
        (folder / "many.toml").write_text(to_toml(study_of(words.stages)))
        (folder / "empty").mkdir()
        dry = ["-m", "headstart", "run", "many.toml", "--dry-run", "--workers", "1"]
        ls = ["-m", "headstart", "ls"]
        single = [*dry, "seed=[0]", f"finetune.optim.lr=[{study_of(SEEDS)['axes']['finetune.optim.lr'][0]!r}]"]
        cases: dict[str, Any] = {
            "`headstart ls`, an empty store": lambda _: timed([*ls, "--store", "empty"], folder, words.rounds, True),
            "`headstart ls`": lambda index: timed(ls, folder, words.rounds, index),
            "the states of all stages, as `run --dry-run` asks": lambda index: asked(study, words.rounds, index),
            "`headstart run --dry-run`, a study of one of the stages": lambda index: timed(
                single, folder, words.rounds, index
            ),
            "`headstart run --dry-run`, the study of all stages": lambda index: timed(dry, folder, words.rounds, index),
            "`import torch` alone, which a dry run does": lambda _: timed(
                ["-c", "import torch"], folder, words.rounds, True
            ),
        }
        lines: list[str] = []
        for case, measured in cases.items():
            cells = []
            for index in (False, True):
                measured(True) if index else None  # the index is there
                wall, work = measured(index)
                cells.append(f"{wall:.2f} ({work:.2f})")
            lines.append(f"| {case} | {' | '.join(cells)} |")
        size = os.path.getsize(folder / "runs" / INDEX_FOLDER)
    page = filled(
        "store-index", stages=words.stages, where=sentence(where), rounds=words.rounds, size=size / 1e6, lines=lines
    )
    print(page)
    if words.write:
        write(words.write, page)


if __name__ == "__main__":
    main()
