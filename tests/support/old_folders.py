"""What this version writes, kept for later ones: `python -m support.old_folders`, from the folder `tests`.

Adds to `tests/old/VERSION` what is not there yet: model folders with their predictions, stores, one packed, and results.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from unittest import mock

import headstart
from headstart.cli import main
from support.checkpoints import GPT2, saved, started_study
from support.series_models import saved_series
from support.words import saved_bert

OLD = Path(__file__).parents[1] / "old"
STUDY = """
name = "old"
[stages.pretrain]
objective = { kind = "masked" }
budget = { steps = 2 }
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 2 }
[columns.lists]
task = { kind = "listops", train = 48, val = 8, test = 8, min_length = 5, max_length = 12 }
model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }
[arms.frozen]
finetune = { parent = "pretrain", start = ["take(all-head)"], trainable = "head" }
[arms.summary]
model = { kind = "summary" }
[axes]
seed = [0]
[report]
baselines = false
"""
SEARCH = """
name = "search"
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 1 }
[columns.lists]
task = { kind = "listops", train = 48, val = 8, test = 8, min_length = 5, max_length = 12 }
model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }
[arms.plain]
[axes]
seed = [0]
[search]
with = "optuna"
trials = 2
batch = 2
over = { "finetune.optim.lr" = "loguniform 1e-4 3e-2" }
[report]
baselines = false
"""
READ = started_study("small", "small", "small", "backbone+position").replace('"started"', '"read"')
NETWORK = ("model.width=8", "model.blocks=1", "finetune.budget.steps=2", "finetune.optim.lr=[0.001]")
FIT = ("--time=1m", "--folds=1", "--no-pretrain", "--no-examples", "--workers=0", "--device=cpu")
MODELS: dict[str, tuple[str, ...]] = {
    "network": ("train.csv", "label", "network"),
    "summary": ("train.csv", "label", "summary"),
    "ngrams": ("train.csv", "label", "kernels"),
    "kernels": ("waves.csv", "label", "kernels"),
    "ensemble": ("waves.csv", "label", "ensemble", "--seeds=2"),
    "embedding": ("waves.csv", "label", "embedding", "--backbone=bolt", "--weights=series"),
    "joined": ("films.csv", "label", "joined", "--backbone=bert", "--weights=series"),
    "regression": ("amounts.csv", "amount", "network"),
    "numbers": ("amounts.csv", "amount", "kernels"),
    "windows": ("recordings.csv", "label", "kernels", "--window=20"),
}
"""Of each model folder the table that it was fitted to, the target there, what it serves, and more words of the fit."""
STORES = {"old": ("runs", "results.json"), "read": ("read", "read.json"), "search": ("search", "search.json")}
"""Of each study NAME.toml its store and its results."""


def command(*words: str) -> None:
    """`headstart WORDS`. Raises: SystemExit where it fails."""
    try:
        main([*words])
    except SystemExit as end:
        if end.code:
            raise


def dna() -> str:
    """A table of DNA, of which half of the rows hold a motif."""
    random, lines = Random(0), ["id,label,dna"]
    for row in range(40):
        letters = random.choices("ACGT", k=20)
        letters[5:11] = "TATAAT" if row % 2 else letters[5:11]
        lines.append(f"s{row},{'ab'[row % 2]},{''.join(letters)}")
    return "\n".join(lines) + "\n"


def waves(target: str) -> str:
    """A table of waves: their rate tells the label, or their height the amount."""
    random, lines = Random(1), [",".join(["id", target, *(f"t{i}" for i in range(24))])]
    for row in range(40):
        rate, height = (0.7 + 0.5 * (row % 2), 1.0) if target == "label" else (0.8, random.uniform(1, 4))
        values = [f"{height * math.sin(i * rate + row) + random.gauss(0, 0.2):.2f}" for i in range(24)]
        lines.append(",".join([f"s{row}", "ab"[row % 2] if target == "label" else f"{height:.3f}", *values]))
    return "\n".join(lines) + "\n"


def recordings() -> str:
    """Eight recordings of two channels, whose rate tells the label."""
    random, lines = Random(2), ["id,time,label,x,y"]
    for row in range(800):
        name, label = f"r{row // 100}", row // 100 % 2
        x, y = math.sin(row * (0.4 + 0.6 * label)), math.cos(row * (0.4 + 0.6 * label))
        x, y = x + random.gauss(0, 0.2), y + random.gauss(0, 0.2)
        lines.append(f"{name},{row % 100},{'ab'[label]},{x:.2f},{y:.2f}")
    return "\n".join(lines) + "\n"


def films() -> str:
    """Sentences, whose last word tells the label."""
    random, lines = Random(3), ["id,label,text"]
    for row in range(40):
        words = random.choices(["the", "a", "film", "plot", "was", "is", "very", "acting", "and"], k=6)
        lines.append(f"s{row},{'ab'[row % 2]},{' '.join([*words, ('good', 'bad')[row % 2]])}.")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "train.csv": dna,
    "waves.csv": lambda: waves("label"),
    "amounts.csv": lambda: waves("amount"),
    "recordings.csv": recordings,
    "films.csv": films,
}


def few_kernels(kind: str, data: str, *_: object, also: tuple[str, ...] = ()) -> dict[str, object]:
    """Models without gradients as a fit has them, with few of the kernels, so that the folder is small."""
    few: dict[str, object] = {"features": 84, **({"also": list(also)} if also else {})}
    return {"kind": kind, **(few if (kind, data) == ("kernels", "numbers") else {})}


def make_model(name: str) -> None:
    """A model folder and its predictions."""
    table, target, served, *more = MODELS[name]
    Path(table).write_text(TABLES[table]())
    if "--backbone=bolt" in more:
        saved_series(Path("series", "bolt"), "chronos_bolt")
    if "--backbone=bert" in more:
        saved_bert(Path("series", "bert"))
    words = ("fit", table, f"--target={target}", f"--serve={served}", f"--out={name}", "--store=fits")
    table_of = partial(few_kernels, also=("hydra",) if name == "kernels" else ())
    with mock.patch("headstart.fit.arms.kernels.table_of", table_of):
        command(*words, *FIT, *(more if "--seeds=2" in more else ["--seeds=1", *more]), *NETWORK)
    command("predict", name, table, "-o", f"{name}.csv")
    for file in ("report.html", "README.md", "plan.json", "study.toml"):  # large, or of this machine
        Path(name, file).unlink(missing_ok=True)
    for folder in ("fits", "series"):
        shutil.rmtree(folder, ignore_errors=True)


def make_store(name: str) -> None:
    """A store with all of a study, and its results; of one the packed form, too."""
    store, results = STORES[name]
    Path(f"{name}.toml").write_text({"old": STUDY, "read": READ, "search": SEARCH}[name])
    if name == "read":
        saved(Path("weights", "small"), GPT2 | {"n_positions": 64})
    words = ("--workers=0", "--device=cpu", "--weights=weights", f"--store={store}", f"--json={results}")
    command("run", f"{name}.toml", *words)
    if name == "old":
        command("store", "pack", "old.toml", f"--store={store}", "-o", "packed.zip")
    for folder in ("reports", ".locks"):
        shutil.rmtree(Path(store, folder), ignore_errors=True)


def make(folder: Path) -> None:
    """Write what the folder lacks."""
    with contextlib.chdir(folder):
        for name in MODELS:
            if not Path(name).exists():
                make_model(name)
        for name, (store, _) in STORES.items():
            if not Path(store).exists():
                make_store(name)


if __name__ == "__main__":
    os.environ["HEADSTART_CACHE"] = tempfile.mkdtemp()
    goal = OLD / headstart.__version__
    with tempfile.TemporaryDirectory() as base:
        made = Path(base, "old")
        if goal.exists():
            shutil.copytree(goal, made)
        made.mkdir(exist_ok=True)
        make(made)
        shutil.rmtree(goal, ignore_errors=True)
        shutil.copytree(made, goal)
    shutil.rmtree(os.environ["HEADSTART_CACHE"])
    print(json.dumps({path.relative_to(goal).as_posix(): path.stat().st_size for path in goal.rglob("*.*")}, indent=1))
