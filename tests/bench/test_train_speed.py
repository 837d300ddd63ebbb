"""`benchmarks/train_speed.py`: steps beside a plain loop and the Trainer of transformers, and the page that it makes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import train_shares
import train_speed

from headstart.errors import BadInput
from headstart.seeds import Draw
from headstart.sequence import collate


@pytest.mark.slow
def test_training_is_measured_beside_a_plain_loop(monkeypatch):
    monkeypatch.setattr(train_speed, "ENOUGH", 0.0)
    (speed,) = train_speed.survey(train_speed.read_models("digits"), "cpu", 1, 100)
    assert speed.failed is None
    assert speed.tokens == 32 * 64
    assert speed.seconds is not None
    assert speed.plain_seconds > 0
    assert speed.share_of_peak > 0
    assert sum(speed.shares.values()) == pytest.approx(1)
    assert set(speed.shares) == set(train_shares.GROUPS)
    assert all(share > 0 for share in speed.shares.values())
    heads, rows = train_speed.train_table([speed, replace(speed, failed="over the time limit", seconds=None)])
    assert rows[0][2] == "32 x 64"
    assert rows[1][1] == "over the time limit"
    assert len(heads) == len(rows[0]) == len(rows[1])
    assert speed.how == "plain: steps are not recorded on this device"
    assert speed.epoch_seconds == pytest.approx(speed.seconds * 1097 / 32)
    assert train_speed.ways([speed, speed]).startswith(f"Steps of ours: {speed.how}.")
    other = replace(speed, model="image", how="recorded")
    assert train_speed.ways([speed, other]).startswith(
        f"Steps of ours: digits, cpu: {speed.how}; image, cpu: recorded."
    )
    assert ("headstart[bench]" in train_speed.ways([speed])) == (speed.trainer_seconds is None)
    beside = train_speed.train_table([replace(speed, trainer_seconds=2 * speed.seconds)])[1][0]
    assert beside[-1] == "2.00"


@pytest.mark.skipif(
    not train_speed.trainer_installed(), reason="needs the extra [bench]: pip install 'headstart[bench]'"
)
def test_the_trainer_of_transformers_takes_its_turns():
    (speed,) = train_speed.survey(train_speed.read_models("digits"), "cpu", 1, 100)
    assert speed.failed is None
    assert 0 < speed.trainer_seconds < 100


def test_the_loss_of_the_trainer_is_that_of_the_plain_loop():
    pytest.importorskip("transformers")
    from train_trainer import _WithLoss

    example, model = train_speed.case_of({"threads": 1, "device": "cpu", "model": "digits"})
    batch = collate(train_speed.made_up(example), np.arange(example.batch))
    loss = _WithLoss(model)(batch.inputs, batch.target)["loss"]
    plain = torch.nn.functional.cross_entropy(model(batch, Draw(0, 0, batch.index)), batch.target)
    assert torch.equal(loss, plain)


def test_an_unknown_model_is_refused_with_the_nearest_name():
    with pytest.raises(BadInput) as error:
        train_speed.read_models("imag")
    assert str(error.value) == "--models: no 'imag'; did you mean 'image'?"


def test_the_published_page_is_that_of_the_stored_measurements():
    folder = Path(__file__).parents[2] / "docs" / "benchmarks"
    page = train_speed.page_of(json.loads((folder / "train.json").read_text("utf-8")))
    assert (folder / "train.md").read_text("utf-8").startswith(page)


@pytest.mark.parametrize("name", train_speed.EXAMPLES)
def test_a_made_up_batch_suits_its_model(name):
    example = train_speed.EXAMPLES[name]
    made = train_speed.made_up(example)
    assert made.units == example.batch
    assert (made.lengths.min(), made.lengths.max()) == (example.signature.shortest, example.signature.length)
    assert example.spec.blocks >= 2
    if example.signature.input == "tokens":
        assert 0 <= made.values.min() <= made.values.max() < example.signature.width


def test_operations_are_told_apart_by_name():
    assert train_shares.group_of("aten::addmm") == train_shares.PRODUCTS
    assert train_shares.group_of("aten::_scaled_dot_product_flash_attention_for_cpu_backward") == train_shares.ATTENTION
    assert train_shares.group_of("aten::_softmax") == train_shares.ATTENTION
    assert train_shares.group_of("aten::gelu") == train_shares.ELEMENTS
    assert train_shares.group_of("autograd::engine::evaluate_function: AddmmBackward0") == train_shares.OTHER
