"""What is read linearly from frozen features does not depend on their scale, and is that of the stages of a store."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import linear_readout

import headstart
from headstart.api import Arrays
from headstart.cli import main


class Scaled(nn.Module):
    """Hands on a small part of what it is given."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + 1


@pytest.mark.parametrize("factor", [1.0, 1e-3])
def test_the_scale_of_features_does_not_matter(factor: float) -> None:
    rng = np.random.default_rng(0)
    splits = {}
    for name in ("train", "val", "test"):
        X = rng.normal(size=(200, 3)).astype(np.float32)
        splits[name] = Arrays(X, (X[:, 0] > 0).astype(np.int64), np.full(200, 3))
    assert linear_readout.readout(nn.Sequential(Scaled(factor), nn.Linear(3, 2)), splits) > 0.95


def test_arms_of_a_store_are_read_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "runs"))
    results, out = tmp_path / "results.json", tmp_path / "readout.json"
    words = ["lu-18", "--scale", "tiny", 'columns=["mnist"]', 'arms=["output","random_output"]', "seed=[0,1]"]
    words += ["finetune.budget={steps=1,evaluate_every=1}", "language.budget={steps=20,evaluate_every=20}"]
    for command in (["run", *words, "--workers", "0"], ["report", *words, "--json", str(results)]):
        with pytest.raises(SystemExit, match=r"^0$"):
            main(command)
    arms = [f"{results}:output", f"{results}:random_output"]
    monkeypatch.setattr(sys, "argv", ["linear_readout.py", "mnist", *arms, "--json", str(out)])
    linear_readout.main()
    scores = json.loads(out.read_text())["mnist"]
    assert list(scores) == arms
    assert all(sorted(of) == ["0", "1"] and all(0 <= score <= 1 for score in of.values()) for of in scores.values())
    # The last layer makes the model's answers of what is read.
    run = json.loads(results.read_text())["runs"][0]
    model, X = headstart.load(run["stages"]["finetune"]), headstart.arrays("digits", "test").X[:20]
    last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    read = torch.from_numpy(linear_readout.features(model, X)).float()
    assert torch.allclose(last(read), model(torch.from_numpy(X)), atol=1e-5)
