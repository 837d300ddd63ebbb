"""Code as a person writes it: a mixer with a helper module, a task, an objective, and a study that uses them."""

from __future__ import annotations

import contextlib
import io
import linecache
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart.cli import main

MIXER = '''
"""A mixer."""
from typing import Literal

from torch import nn

from headstart.models.mixers.mixer import MixerSpec


class ScaleSpec(MixerSpec):
    """Multiplies by a number."""

    kind: Literal["scale"] = "scale"
    by: float = 1.0

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Scale(width, self.by)

    def flops(self, width: int, length: int, causal: bool) -> float:
        return 2.0 * length * width**2


class Scale(nn.Module):
    def __init__(self, width, by):
        super().__init__()
        self.layer, self.by = nn.Linear(width, width), by

    def forward(self, x, valid, draw=None):
        return FACTOR * self.by * self.layer(x)


FACTOR = 1.0
'''
REGISTERED = MIXER + '\nimport headstart\n\nheadstart.register_mixer("scale", ScaleSpec)\n'
HELPED = REGISTERED.replace("FACTOR = 1.0", "from my_factor import FACTOR")
TASK = '''
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

import headstart
from headstart.sequence import Examples, Signature
from headstart.tasks import Task, TaskSpec

SIZE = 32


class SignsSpec(TaskSpec):
    """Is the first number above zero?"""

    kind: Literal["signs"] = "signs"
    length: int = 6
    generated: ClassVar[bool] = True
    loss: ClassVar[str | None] = "l1"

    def load(self, data: Path) -> Task:
        sets = {name: self._examples(seed) for seed, name in enumerate(("train", "val", "test"))}
        return Task(Signature("floats", 1, self.length, self.length, "class", classes=2), **sets)

    def _examples(self, seed: int) -> Examples:
        rows = np.random.default_rng(seed).normal(size=(SIZE, self.length)).astype(np.float32)
        offsets = np.arange(SIZE + 1, dtype=np.int64) * self.length
        target = (rows[:, 0] > 0).astype(np.int64)
        return Examples(rows.reshape(-1, 1), offsets, target, np.arange(SIZE, dtype=np.int64))


headstart.register_task("signs", SignsSpec)
'''
OBJECTIVE = '''
from typing import Literal

import headstart
from headstart.objectives import ClassifySpec


class SureSpec(ClassifySpec):
    """Cross-entropy, weighed."""

    kind: Literal["sure"] = "sure"
    weight: float = 2.0

    def measure(self, output, batch, signature):
        sums = super().measure(output, batch, signature)
        return {**sums, "loss": self.weight * sums["loss"]}


headstart.register_objective("sure", SureSpec)
'''
MODEL = '''
from typing import Literal

import headstart
from headstart.baselines.trivial import MajoritySpec


class SharesSpec(MajoritySpec):
    """Shares of the classes."""

    kind: Literal["shares"] = "shares"


headstart.register_model("shares", SharesSpec)
'''
OUTPUTS = '''
from typing import Literal
import torch
from torch import nn
import headstart
from headstart.models.own import OwnModelSpec


class CountsSpec(OwnModelSpec):
    """Counts of tokens, without a head of headstart's."""

    kind: Literal["counts"] = "counts"
    head = False

    def build(self, signature):
        return Counts(signature.width, signature.classes)


class Counts(nn.Module):
    def __init__(self, tokens, classes):
        super().__init__()
        self.layer, self.steps = nn.Linear(tokens, classes), 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.seen = self.seen + len(x)
        return self.layer(nn.functional.one_hot(x, self.layer.in_features).float().sum(1))


headstart.register_model("counts", CountsSpec)
'''
EXAMPLE = (Path(__file__).parents[2] / "examples" / "my_net.py").read_text()
LISTOPS = {"kind": "listops", "train": 24, "val": 8, "test": 8, "min_length": 5, "max_length": 12}


def study(mixer: Any = "scale", task: Any = LISTOPS, **more: Any) -> dict[str, Any]:
    """A study of one stage of two steps."""
    return {
        "name": "mine",
        "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 2}, "optim": {"batch_size": 8}}},
        "columns": {
            "c": {"task": task, "model": {"width": 8, "blocks": 1, "mixer": {"kind": mixer}}},
        },
        "arms": {"scratch": {}},
        "report": {"baselines": False},
        **more,
    }


@contextlib.contextmanager
def clean_process() -> Iterator[None]:
    """What a plugin leaves in a process is put back: tables of kinds, modules, finders."""
    from headstart.plugins import load

    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        for name in list(load._loaded):
            load._forget(name)
        load._known.clear()
        sys.path[:] = path
        for name in sorted(set(sys.modules) - modules):
            file = Path(str(getattr(sys.modules[name], "__file__", None)))
            foreign = "site-packages" in file.parts or file.is_relative_to(sys.base_prefix)
            if file.suffix == ".py" and not foreign and not name.startswith("headstart"):
                del sys.modules[name]


def headstart(*words: str) -> int:
    """The exit code of a command that runs in this process."""
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    return int(caught.value.code or 0)


def fitted_with(folder: Path, name: str, source: str, *words: str) -> str:
    """What a `fit` with these words printed: on 60 sequences of two classes in `folder`, with a plugin of this source."""
    rows = np.random.default_rng(0).normal(size=(60, 6)).round(3)
    lines = [",".join(["label", *(f"t{i}" for i in range(6))])]
    lines += [",".join(["up" if row[0] > 0 else "down", *map(str, row)]) for row in rows]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    (folder / name).write_text(source)
    printed = io.StringIO()
    with contextlib.chdir(folder), clean_process(), contextlib.redirect_stdout(printed):
        assert headstart(*words, "--plugin", name) == 0
    return printed.getvalue()


@contextlib.contextmanager
def copy_of(folder: Path, copy: Path) -> Iterator[Path]:
    """A copy of the folder, which is the present one, in a process without plugins."""
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    with contextlib.chdir(copy), clean_process():
        yield copy


class Cells:
    """A notebook: each cell is compiled under a name of its own, and its lines are kept, as IPython does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.main = types.ModuleType("__main__")
        self.count = 0
        monkeypatch.setitem(sys.modules, "__main__", self.main)

    def run(self, text: str) -> None:
        self.count += 1
        name = f"<ipython-input-{self.count}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec", dont_inherit=True), self.main.__dict__)  # noqa: S102
