"""ViT with its patches: features of small images, beside those of the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.checkpoints import saved

from headstart.baselines.embedding import Embedding, EmbeddingSpec
from headstart.checkpoints.read import read_checkpoint
from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier
from headstart.sequence import Examples, Signature

SIZES: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
SIZES |= {"image_size": 12, "patch_size": 4}


@pytest.fixture
def library(tmp_path: Path) -> Any:
    """A ViT of the library with random weights, saved in `vit`."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.ViTModel(transformers.ViTConfig(**SIZES)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(tmp_path / "vit")
    return model


def features(folder: Path, images: np.ndarray) -> np.ndarray:
    """Of images (n, C, H, W), each a sequence of pixels row by row."""
    rows = list(images.reshape(*images.shape[:2], -1).transpose(0, 2, 1))
    model = EmbeddingSpec(source=str(folder)).features(images.shape[1])
    assert isinstance(model, Embedding)
    return model.transform(Examples.from_arrays(rows, np.zeros(len(rows), np.int64)))


@pytest.mark.parametrize("colours", [1, 3])
@pytest.mark.parametrize("side", [8, 12, 20])
def test_features_of_an_image_are_those_of_the_library(side: int, colours: int, library: Any, tmp_path: Path) -> None:
    spec = EmbeddingSpec(source=str(tmp_path / "vit"))
    assert spec.describe_features(spec.fields(spec.checkpoint), colours) == "16 of each sequence", (
        "no mean over colours"
    )
    images = np.random.default_rng(1).uniform(0, 255, (3, colours, side, side)).astype(np.float32)
    low, high = (end(images, axis=(1, 2, 3), keepdims=True) for end in (np.min, np.max))
    pixels = torch.from_numpy(2 * (images - low) / (high - low) - 1).expand(-1, 3, -1, -1)
    pixels = F.interpolate(pixels, (12, 12), mode="bilinear", antialias=side > 12) if side != 12 else pixels
    with torch.no_grad():
        hidden = library(pixel_values=pixels).last_hidden_state
    expected = torch.cat([hidden[:, 1:].mean(1), hidden[:, 0]], 1).numpy()
    assert np.abs(features(tmp_path / "vit", images) - expected).max() < 1e-5 * np.abs(expected).max()


def test_an_image_without_contrast_and_one_of_another_length_have_features(library: Any, tmp_path: Path) -> None:
    assert np.isfinite(features(tmp_path / "vit", np.full((2, 1, 8, 8), 7.0, np.float32))).all()
    assert np.isfinite(features(tmp_path / "vit", np.random.default_rng(0).normal(size=(2, 1, 1, 61)))).all()


def test_images_of_a_table_meet_frozen_features_and_series_do_not(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    target = np.arange(40) % 2
    images = draw.normal(size=(40, 8, 8))
    images[target == 1, :4] += 2
    settings: dict[str, Any] = {"backbone": tmp_path / "vit", "seeds": 1, "epochs": 1, "learning_rates": 1e-2}
    model = SequenceClassifier(**settings, pretrain=False, serve="embedding")
    model.fit(images.reshape(40, 64), target)
    plan = " ".join(model.outcome_.plan)
    assert "embedding: frozen features of vit with logistic regression, 16 of each sequence" in plan
    assert (model.predict(images.reshape(40, 64)) == target).mean() > 0.8
    model.save_pretrained(tmp_path / "model")
    again = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert np.array_equal(again.predict_proba(images.reshape(40, 64)), model.predict_proba(images.reshape(40, 64)))
    series = SequenceClassifier(**settings, pretrain=False, serve="backbone").fit(
        images.reshape(40, 64)[:, :60], target
    )
    assert "embedding" not in " ".join(series.outcome_.plan)


def test_what_a_vit_of_images_does_not_read_gets_one_message(tmp_path: Path) -> None:
    config = {"model_type": "vit", **SIZES}
    folder = saved(tmp_path / "odd", config | {"patch_size": 5})
    with pytest.raises(BadInput, match="patch_size: 5 is no whole part of image_size: 12"):
        read_checkpoint(folder, whole=True)
    with pytest.raises(BadInput, match="no tensor 'embeddings"):
        read_checkpoint(saved(tmp_path / "blocks", config), whole=True)


def test_channels_that_are_no_colours_are_refused(library: Any, tmp_path: Path) -> None:
    spec = EmbeddingSpec(source=str(tmp_path / "vit"))
    with pytest.raises(BadInput, match="reads images of 1 or 3 channels, and the sequences have 2"):
        spec.check(Signature("floats", 2, 64, 64, "class", classes=2))
