"""A mixer, task, model, objective, reader, family of checkpoints and arm of a fit are one file and one line each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import headstart
from headstart.analysis.attention import attention_maps
from headstart.analysis.stages import first_batch, opened
from headstart.analysis.weights import kernels
from headstart.api import Study
from headstart.checkpoints import CHECKPOINT_READERS as FAMILIES_READ
from headstart.checkpoints.read import fields_of, read_checkpoint
from headstart.cli import app
from headstart.data import read_sequences
from headstart.data.readers import READERS as DATA_READERS
from headstart.errors import BadInput
from headstart.fit.arms import ARMS
from headstart.fit.perform import fit_sequences
from headstart.models import MODELS
from headstart.models.contract import MIXER_CHECKS, check_mixer
from headstart.models.exporting import exportable_network
from headstart.models.mixers import MIXERS
from headstart.objectives import OBJECTIVES
from headstart.report.page import write_report
from headstart.request.settings import FitSettings
from headstart.spec import Entry
from headstart.tasks import TASKS

MIXER = '''
from typing import Literal

import math
import torch
from safetensors.torch import save_file
from torch import nn

from headstart.models.mixers.attend import AttentionView, visible_pairs
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.scan import convolve, fast_length


class DecaySpec(MixerSpec):
    """Running means with a learned rate per channel."""

    kind: Literal["decay"] = "decay"
    start: float = 0.0

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Decay(width, self.start)

    def flops(self, width: int, length: int, causal: bool) -> float:
        size = fast_length(2 * length - 1)
        return 7.5 * width * size * math.log2(size) + 2.0 * length * width**2


class Decay(nn.Module):
    parts = {"rate": "kernel"}

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.rate = nn.Parameter(start + torch.linspace(-3.0, 3.0, width))
        self.output = nn.Linear(width, width)

    def forward(self, x, valid, draw=None):
        kept = x if valid is None else x * valid.unsqueeze(-1)
        return self.output(convolve(kept.transpose(1, 2), self.kernel(x.shape[1])).transpose(1, 2))

    def kernel(self, length):
        steps = torch.arange(length, device=self.rate.device, dtype=self.rate.dtype)
        return (nn.functional.logsigmoid(self.rate)[:, None] * steps).exp()[None]

    def attention(self, x, valid):
        return AttentionView(x[:, None], x[:, None], visible_pairs(valid, True))
'''
TASK = '''
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from headstart.seeds import below, normal
from headstart.sequence import Examples, Signature, ragged
from headstart.tasks.task import Task, TaskSpec


class TonesSpec(TaskSpec):
    """Slow and fast waves. One example: 8 to 12 floats."""

    kind: Literal["tones"] = "tones"
    generated: ClassVar[bool] = True
    loss: ClassVar[str | None] = "l1"
    shows_not: ClassVar[str] = "two tones are easy: a high score says little."

    def load(self, data: Path) -> Task:
        sets = {name: tones(number, size) for number, (name, size) in enumerate((("train", 32), ("val", 16), ("test", 16)))}
        return Task(Signature("floats", 1, 12, 8, "class", classes=2), **sets, labels=("slow", "fast"))


def tones(number: int, size: int) -> Examples:
    fast = np.arange(size) % 2
    rows = []
    for i, n in enumerate(8 + below(number, "tones/length", 5, np.arange(size))):
        place = np.arange(n)
        rows.append((np.sin((0.5 + fast[i]) * place) + 0.1 * normal(number, "tones/noise", i, place))[:, None])
    values, offsets = ragged([row.astype(np.float32) for row in rows])
    return Examples(values, offsets, index=np.arange(size), target=fast.astype(np.int64))
'''
MODEL = '''
from typing import Literal

from headstart.models.model import ModelSpec


class TinySpec(ModelSpec):
    """One block of width 4."""

    kind: Literal["tiny"] = "tiny"
    width: int = 4
    blocks: int = 1

    def describe(self) -> str:
        return "a tiny network"
'''
OBJECTIVE = '''
from typing import Literal

from headstart.objectives import ClassifySpec


class SureSpec(ClassifySpec):
    """Classification, the loss weighed twice."""

    kind: Literal["sure"] = "sure"

    def measure(self, output, batch, signature):
        return super().measure(2 * output, batch, signature)

    def describe(self) -> str:
        return "classified sequences with sharpened scores"
'''
KINDS: dict[str, tuple[dict[str, Entry], str, str, str]] = {
    "decay": (MIXERS, "one_mixer:DecaySpec", "a running mean", MIXER),
    "tones": (TASKS, "one_task:TonesSpec", "two tones", TASK),
    "tiny": (MODELS, "one_model:TinySpec", "a tiny network", MODEL),
    "sure": (OBJECTIVES, "one_objective:SureSpec", "sharpened classification", OBJECTIVE),
}
STUDY: dict[str, Any] = {
    "name": "one-file",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 1}},
        "finetune": {"objective": {"kind": "sure"}, "budget": {"epochs": 1}},
    },
    "columns": {"tones": {"task": {"kind": "tones"}, "model": {"width": 8, "blocks": 1, "position": {"kind": "none"}}}},
    "arms": {
        "attention": {"model": {"mixer": {"kind": "attention", "heads": 2}}},
        "decay": {"model": {"mixer": {"kind": "decay", "start": 1.0}}},
        "decay_self_pretrained": {
            "model": {"mixer": {"kind": "decay", "start": 1.0}},
            "finetune": {"parent": "pretrain", "start": ["take(all-head)"]},
        },
        "tiny": {"model": {"kind": "tiny", "position": {"kind": "none"}}},
    },
    "axes": {"seed": [0, 1]},
    "report": {"against": "attention", "figures": ["kernels", "attention"]},
}


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four files, and four lines."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for kind, (table, path, summary, source) in KINDS.items():
        (tmp_path / f"{path.partition(':')[0]}.py").write_text(source)
        monkeypatch.setitem(table, kind, Entry(path, summary, "made up"))


@pytest.mark.usefixtures("kinds")
def test_a_new_kind_goes_through_contract_study_report_methods_analysis_and_export(tmp_path: Path) -> None:
    assert check_mixer(MIXERS["decay"].load()) == dict.fromkeys(MIXER_CHECKS)
    study = Study(STUDY, store=tmp_path / "runs", data=tmp_path)
    results = headstart.run(study)
    assert {row.arm: row.n for row in results.table if row.arm in STUDY["arms"]} == dict.fromkeys(STUDY["arms"], 2)

    text = write_report(study.plan, results, study.store, tmp_path / "page").parent.joinpath("page.html").read_text()
    for part in (
        "the model was a network with 1 block of decay (start 1), width 8",
        "n tiny, the model was a tiny network",
        "tage finetune classified sequences with sharpened scores with AdamW",
        "tage pretrain reconstructed",
        "two tones are easy: a high score says little.",
    ):
        assert part in text, part

    row = results.row("decay", "tones")
    assert row is not None
    stage = opened(row.stages[0], study.store, tmp_path)
    (kernel,) = kernels(stage.model, 12)
    assert (kernel.mixer, kernel.directions, len(kernel.largest)) == ("mixer", 1, 12)
    batch = first_batch(stage)
    (weights,) = list(attention_maps(stage.model, batch))
    assert weights.weights.shape == (12, 12)
    again = exportable_network(stage.model, 12)
    with torch.no_grad():
        torch.testing.assert_close(again(batch), stage.model(batch), rtol=1e-5, atol=1e-5)


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "adding.md"


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader, the family and the arm of the guide: their files and lines."""
    monkeypatch.syspath_prepend(str(tmp_path))
    files = dict(re.findall(r"```python file=(\S+)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL))
    for name in ("colon_lines.py", "lab_gpt.py", "wide.py"):
        (tmp_path / name).write_text(files[name])
    colon = Entry("colon_lines:read_colon_lines", "a label, a colon and numbers", "", {"endings": "colon"})
    monkeypatch.setitem(DATA_READERS, "colon", colon)
    monkeypatch.setitem(FAMILIES_READ, "lab_gpt", Entry("lab_gpt:LAB_GPT", "our lab's GPT", "made up"))
    monkeypatch.setitem(ARMS, "wide", Entry("wide:Wide", "the network from random weights, wider"))
    return tmp_path


def test_a_new_format_of_files_is_read_listed_and_shown(guide: Path) -> None:
    (guide / "data.colon").write_text("up: 1.5 2 0.5\ndown: 1 2\nup: 2 2 1\n")
    sequences = read_sequences(guide / "data.colon")
    assert len(sequences) == 3
    (guide / "bad.colon").write_text("up: 1.5 two\ndown: 1\n")
    with pytest.raises(BadInput, match=r"bad\.colon:1: could not convert string to float: 'two'; give numbers"):
        read_sequences(guide / "bad.colon")
    for words in (["ls", "readers"], ["show", "colon"]):
        assert "a label, a colon and numbers" in CliRunner().invoke(app, words).output


def test_a_new_family_of_checkpoints_is_read_listed_and_shown(guide: Path) -> None:
    config = {"model_type": "lab_gpt", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 11}
    (guide / "weights").mkdir()
    (guide / "weights" / "config.json").write_text(json.dumps(config))
    linear = {"attn.c_attn": (8, 24), "attn.c_proj": (8, 8), "mlp.c_fc": (8, 32), "mlp.c_proj": (32, 8)}
    tensors = {"wte.weight": (11, 8), "wpe.weight": (16, 8)}
    for name, shape in linear.items():
        tensors |= {f"h.0.{name}.weight": shape, f"h.0.{name}.bias": shape[1:]}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        tensors |= {f"{name}.weight": (8,), f"{name}.bias": (8,)}
    weights = {f"lab.{name}": torch.ones(shape) for name, shape in tensors.items()}
    save_file(weights, guide / "weights" / "model.safetensors")
    assert len(dict(read_checkpoint(str(guide / "weights")).tensors())) >= 16
    fields = fields_of(str(guide / "weights"))
    assert fields.family == "lab_gpt"
    assert fields.spec.width == 8
    for words in (["ls", "checkpoints"], ["show", "lab_gpt"]):
        assert "our lab's GPT" in CliRunner().invoke(app, words).output


@pytest.mark.usefixtures("kinds")
def test_a_new_kind_is_listed_and_shown() -> None:
    runner = CliRunner()
    for words, part in (
        (["ls", "models"], "a tiny network"),
        (["ls", "objectives"], "sharpened classification"),
        (["show", "tiny"], "width"),
        (["show", "sure"], "label_smoothing"),
        (["ls", "mixers"], "a running mean"),
        (["ls", "tasks"], "two tones"),
        (["show", "decay"], "grows as L log L"),
        (["show", "tones"], "2 classes"),
    ):
        answer = runner.invoke(app, words)
        assert answer.exit_code == 0, answer.output
        assert part in answer.output


@pytest.mark.usefixtures("guide")
def test_a_new_arm_is_planned_trained_compared_named_listed_and_served(tmp_path: Path) -> None:
    rows = [f"{'ab'[i % 2]},{i % 7}.{i},{i % 3}.5,{(i % 2) * 9}.25" for i in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["label,t0,t1,t2", *rows]) + "\n")
    asked = FitSettings(time=None, epochs=1.0, seeds=(0,), rates=(0.01,), pretrain=False, serve="wide")
    outcome = fit_sequences(tmp_path / "rows.csv", asked, store=tmp_path / "runs")
    assert "wide: 48" in outcome.plan
    assert outcome.candidate("wide").text == "network, of width 48"
    assert outcome.candidate("wide").is_network
    assert "Whether width helped" in outcome.answer
    assert outcome.served.config.network is not None
    assert outcome.served.config.network.arm == outcome.serves == "wide"
    for words, part in ((["ls", "arms"], "random weights, wider"), (["show", "wide"], "with --serve, by name")):
        assert part in CliRunner().invoke(app, words).output
