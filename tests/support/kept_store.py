"""A real store of a tiny study with parents, references and shared tensors, and the command line on copies of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import headstart
from headstart.cli import main
from headstart.store import Store

STUDY = """
name = "kept"
[stages.pretrain]
objective = { kind = "masked" }
[stages.finetune]
objective = { kind = "classify" }
[columns.lists]
task = { kind = "listops", train = 48, val = 8, test = 8, min_length = 5, max_length = 12 }
model = { width = 72, blocks = 1, mixer = { kind = "attention", heads = 2 } }
pretrain = { budget = { steps = 1 } }
finetune = { budget = { steps = 1 } }
[arms.scratch]
[arms.frozen]                 # refers to weights of its parent
finetune = { parent = "pretrain", start = ["take(all-head)"], trainable = "head" }
[arms.drawn]                  # two rates share the tensors that they draw and do not train
finetune = { trainable = "head" }
[axes]
"finetune.optim.lr" = [1e-3, 3e-3]
[report]
baselines = false
"""
STAGES = 7


def make_store(folder: Path) -> headstart.Study:
    """The study, performed, with the store in `folder/runs` and the study in `folder/kept.toml`."""
    (folder / "kept.toml").write_text(STUDY)
    study = headstart.Study(str(folder / "kept.toml"), store=folder / "runs")
    list(study.perform())
    return study


def copied(study: headstart.Study, folder: Path) -> Store:
    """A copy of its store as a file system with hard links keeps it."""
    root = folder / "copy"
    shutil.copytree(study.store.root, root, copy_function=_linked_copy(study.store.root, root))
    return Store(root)


def _linked_copy(source: Path, root: Path):  # type: ignore[no-untyped-def]
    copies: dict[int, str] = {}

    def copy(path: str, target: str) -> str:
        inode = Path(path).stat().st_ino
        if inode in copies:
            Path(target).hardlink_to(copies[inode])
        else:
            shutil.copy2(path, target)
            copies[inode] = target
        return target

    return copy


def command(*words: object) -> int:
    """The exit code of a command, in this process."""
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def tree(root: Path) -> dict[str, bytes]:
    """All files of a store by name, locks apart."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".locks" not in path.parts
    }
