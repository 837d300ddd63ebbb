"""A checkpoint whose blocks know no positions of a sequence, as the backbone of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import saved

from headstart.estimator import SequenceClassifier
from headstart.fit.arms.backbone import Backbone
from headstart.fit.arms.weights import find_backbone

VIT: dict[str, Any] = {"model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
VIT |= {"intermediate_size": 12}


@pytest.mark.parametrize("tuned", [False, True])
def test_positions_of_a_vit_are_new_and_learned(tuned: bool, tmp_path: Path) -> None:
    backbone = find_backbone(str(saved(tmp_path / "vit", VIT)), "numbers")
    assert isinstance(backbone, Backbone)
    arm = backbone.arm("backbone", {"steps": 10}, tuned=tuned)
    assert arm["model"]["position"] == {"kind": "learned"}
    assert arm["finetune"]["start"] == ["take(backbone)"]
    assert "position" in arm["finetune"]["trainable"]
    assert "new positions" in backbone.text(tuned=tuned)


def test_a_fit_of_a_vit_sees_the_order_of_a_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(size=(30, 12))
    classifier = SequenceClassifier(
        backbone=saved(tmp_path / "vit", VIT), seeds=1, epochs=1, pretrain=False, learning_rates=1e-2, serve="backbone"
    )
    classifier.fit(values, values[:, 0] > values[:, -1])
    assert "a new input layer, new positions and the head are trained" in " ".join(classifier.outcome_.plan)
    there, back = classifier.predict_proba(values), classifier.predict_proba(values[:, ::-1].copy())
    assert float(np.abs(there - back).max()) > 1e-6
