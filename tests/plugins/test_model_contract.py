"""The contract of whole models of a person's own: each promise, and what is said where it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.own_code import EXAMPLE, MODEL, OBJECTIVE, OUTPUTS, REGISTERED, clean_process, headstart

from headstart.models import MODELS
from headstart.plugins import load_plugins, own_networks
from headstart.spec import read
from headstart.training.model_contract import MODEL_CHECKS, check_model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with clean_process():
        yield tmp_path


def checked(text: str) -> tuple[dict[str, str | None], list[str]]:
    """What the contract says of the model of a plugin with this text."""
    Path("my_net.py").write_text(text)
    (kind,) = own_networks(load_plugins(["my_net.py"]))
    return check_model(read(MODELS[kind].load(), {}, kind))


def test_the_model_of_the_guide_keeps_every_promise() -> None:
    problems, notes = checked(EXAMPLE)
    assert problems == dict.fromkeys(MODEL_CHECKS)
    assert notes[0] == "parts: encoder (1 tensor), mixer_rest (14 tensors)"
    assert notes[1].startswith("FLOPs of a sequence of 12: flops() says ")


def test_a_model_that_gives_outputs_itself_is_held_to_their_shape_where_it_can_give_them() -> None:
    problems, notes = checked(OUTPUTS.replace("self.steps = self.steps", "pass"))
    assert problems["padding"] is not None, "it counts tokens of the padding"
    source = (
        OUTPUTS.replace("forward(self, x)", "forward(self, x, lengths)")
        .replace(
            "one_hot(x, self.layer.in_features).float().sum(1)",
            "one_hot(x, self.layer.in_features).float().mul(valid[:, :, None]).sum(1)",
        )
        .replace(
            "        if self.training",
            "        valid = torch.arange(x.shape[1]) < lengths[:, None]\n        if self.training",
        )
    )
    problems, notes = checked(source)
    assert problems == dict.fromkeys(MODEL_CHECKS)
    assert notes[0].startswith(
        "not on tokens, a class per position: it gives (3, 3) for inputs (3, 12); let it give (3, 12, 3)"
    )
    assert sum(note.startswith("not on floats") for note in notes) == 4
    assert any(note.startswith("not on tokens, a number per sequence: model: 'counts' gives (3, 0)") for note in notes)
    assert not any("Warning" in note for note in notes), "torch warns of the layer without outputs"


FORWARD = "        x = self.embed(x).transpose(1, 2)\n"
BUILD = "        self.dropout = nn.Dropout(dropout)\n"
BROKEN = {
    "outputs": ("signature.width, width) if tokens", "signature.width - 1, width) if tokens",
                "a masked token has the id signature.width - 1 = 5, which it cannot take"),
    "padding": ("norm(conv(x * valid[:, None]))", "norm(conv(x))", "other values in the padding move an answer by "),
    "causality": ("    width: int = 32", "    causal = True\n    width: int = 32",
                  "of 12 positions those from 1 on move an earlier one"),
    "causality ": ("    width: int = 32", "    causal = True\n    width: int = 32",
                   "of 515 positions those from 1 on move an earlier one"),
    "determinism": (FORWARD, FORWARD + "        x = x * float(np.random.default_rng().random()) if self.training else x\n",
                    "one step of training gives two answers; draw random numbers with torch's generator"),
    "determinism ": (BUILD, BUILD + "        torch.nn.init.constant_(self.embed.weight, float(np.random.default_rng().random()))\n",
                     "two builds with one seed have other weights"),
    "determinism  ": (BUILD, "        self.seen = 0\n" + BUILD, "an evaluation repeated gives two answers"),
    "saved state": (BUILD, '        self.register_buffer("mean", torch.zeros(()), persistent=False)\n' + BUILD,
                    "a fresh network with the saved weights answers differently"),
    "saved state ": (BUILD, "        self.mean = 0.0\n" + BUILD, "a fresh network with the saved weights answers differently"),
    "resuming": (BUILD, "        self.steps = 0\n" + BUILD, "a training that was broken off at step 3 of 6 ends with another"),
    "gradients": (BUILD, "        self.spare = nn.Linear(3, 3)\n" + BUILD,
                  "no gradient reaches 'spare.weight', 'spare.bias'; use them, or set their requires_grad False"),
    "parts": ('"embed": "encoder"', '"embeds": "encoder"', "parts: 'embeds' begins no tensor's name"),
    "flops": ("    def build(self", "    def flops(self, signature, length):\n        return -1.0\n\n    def build(self",
              "flops says -1 for one position"),
    "flops ": ("    def build(self", "    def flops(self, signature, length):\n        return 7.0 * length\n\n    def build(self",
               "flops says 84 for 12 positions, a count"),
}  # fmt: skip
LINES = {
    "causality ": "        x = x if x.shape[2] < 64 else x.roll(-1, 2)\n        if x.shape[2] < 64:\n            return x.transpose(1, 2)\n",
    "determinism  ": "        self.seen += 1\n        x = x * self.seen\n",
    "saved state": "        self.mean = x.mean().detach() if self.training else self.mean\n        x = x + self.mean\n",
    "saved state ": "        self.mean = float(x.mean()) if self.training else self.mean\n        x = x + self.mean\n",
    "resuming": "        self.steps += self.training\n        x = x * (1 + 0.1 * self.steps) if self.training else x\n",
}


@pytest.mark.parametrize("check", BROKEN)
def test_a_promise_that_is_broken_is_said(check: str) -> None:
    text, other, message = BROKEN[check]
    changed = EXAMPLE.replace("import torch\n", "import numpy as np\nimport torch\n", 1).replace(text, other)
    changed = changed.replace(FORWARD, FORWARD + LINES.get(check, ""))
    assert text in EXAMPLE
    problems, _ = checked(changed)
    assert message in str(problems[check.strip()])


def test_a_model_that_cannot_be_run_at_all_is_said_by_its_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    problems, notes = checked(EXAMPLE.replace("self.embed(x)", "self.embde(x)"))
    assert problems == {"outputs": "my_net.py, line 35: AttributeError: 'ConvNet' object has no attribute 'embde'"}
    assert not notes
    assert headstart("check", "my_conv", "--plugin", "my_net.py") == 2
    assert "check: model 'my_conv' does not keep the contract: outputs" in capsys.readouterr().err


def test_every_kind_of_a_plugin_is_checked_and_all_that_fails_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaky = REGISTERED.replace("self.layer(x)", "self.layer(x + x.mean(1, keepdim=True))")
    (folder / "all.py").write_text(leaky + OBJECTIVE + MODEL)
    (folder / "my_net.py").write_text(EXAMPLE.replace('"embed": "encoder"', '"embed": "encode"'))
    assert headstart("check", "--plugin", "all.py", "--plugin", "my_net.py") == 2
    printed = capsys.readouterr()
    assert "mixer 'scale' does not keep the contract: padding" in printed.err
    assert "model 'my_conv' does not keep the contract:" in printed.err
    assert "parts" in printed.err
    assert "objective 'sure'" in printed.out
    assert "model 'shares' is fitted without gradients" in " ".join(printed.out.split())
    assert headstart("check", "my_net.py:ConvSpec", "widht=4") == 2
    assert "model.widht: no 'widht'; did you mean 'width'?" in capsys.readouterr().err
