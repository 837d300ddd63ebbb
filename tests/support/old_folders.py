"""What this version writes, kept for later ones: `python -m support.old_folders`, from the folder `tests`.

Makes `tests/old/VERSION`: model folders with their predictions, a store and its packed form, and results.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from random import Random

import headstart
from headstart.cli import main

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
NETWORK = ("model.width=8", "model.blocks=1", "finetune.budget.steps=2", "finetune.optim.lr=[0.001]")
FIT = ("--time=1m", "--seeds=1", "--folds=1", "--no-pretrain", "--no-examples", "--workers=0", "--device=cpu")
MODELS = ("network", "summary")


def command(*words: str) -> None:
    """`headstart WORDS`. Raises: SystemExit where it fails."""
    try:
        main([*words])
    except SystemExit as end:
        if end.code:
            raise


def make(folder: Path) -> None:
    """Write all of it into an empty folder."""
    random, lines = Random(0), ["id,label,dna"]
    for row in range(40):
        letters = random.choices("ACGT", k=20)
        letters[5:11] = "TATAAT" if row % 2 else letters[5:11]
        lines.append(f"s{row},{'ab'[row % 2]},{''.join(letters)}")
    with contextlib.chdir(folder):
        Path("train.csv").write_text("\n".join(lines) + "\n")
        for name in MODELS:
            words = ("fit", "train.csv", "--target=label", f"--serve={name}", f"--out={name}", "--store=fits")
            command(*words, *FIT, *NETWORK)
            command("predict", name, "train.csv", "-o", f"{name}.csv")
            for file in ("report.html", "README.md", "plan.json", "study.toml"):  # large, or of this machine
                Path(name, file).unlink(missing_ok=True)
        shutil.rmtree("fits")
        Path("old.toml").write_text(STUDY)
        command("run", "old.toml", "--workers=0", "--device=cpu", "--store=runs", "--json=results.json")
        command("store", "pack", "old.toml", "--store=runs", "-o", "packed.zip")
        shutil.rmtree(Path("runs", "reports"))
        shutil.rmtree(Path("runs", ".locks"), ignore_errors=True)


if __name__ == "__main__":
    os.environ["HEADSTART_CACHE"] = tempfile.mkdtemp()
    goal = OLD / headstart.__version__
    with tempfile.TemporaryDirectory() as base:
        made = Path(base, "old")
        made.mkdir()
        make(made)
        shutil.rmtree(goal, ignore_errors=True)
        shutil.copytree(made, goal)
    shutil.rmtree(os.environ["HEADSTART_CACHE"])
    print(json.dumps({path.relative_to(goal).as_posix(): path.stat().st_size for path in goal.rglob("*.*")}, indent=1))
