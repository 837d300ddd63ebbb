"""`headstart bench` as a person meets it: tiny lengths, real processes."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from support.command import command

from headstart.bench import machine, mixers, pages, process, shares, train
from headstart.bench.pages import spread, times
from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.seeds import Draw
from headstart.sequence import collate

OWN = '''
from typing import Literal
import torch
from torch import nn
from headstart.models.mixers.mixer import MixerSpec


class Greedy(nn.Module):
    def forward(self, x, valid, draw=None):
        return x + torch.zeros(10 ** (12 if x.shape[1] > 8 else 1)).sum()


class GreedySpec(MixerSpec):
    """Wants more memory than there is."""
    kind: Literal["greedy"] = "greedy"

    def build(self, width, length, causal):
        return Greedy()

    def flops(self, width, length, causal):
        return 1.0
'''


def test_every_cell_has_a_time_or_a_reason_and_is_written_in_three_forms(tmp_path):
    (tmp_path / "greed.py").write_text(OWN)
    done = command(
        "bench",
        "mixers",
        "--mixers",
        "attention",
        "--mixer",
        "greed:GreedySpec",
        "--lengths",
        "8,16",
        "--width",
        "8",
        "-o",
        "out",
        "--device",
        "cpu",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "out of memory" in done.stdout
    assert "1 thread" in done.stdout
    document = json.loads((tmp_path / "out" / "mixers.json").read_text())
    rows = {(row["mixer"], row["length"]): row for row in document["rows"]}
    assert list(rows) == [("attention", 8), ("attention", 16), ("greedy", 8), ("greedy", 16)]
    assert rows["greedy", 16]["failed"] == "out of memory"
    assert rows["greedy", 8]["seconds"] > 0
    assert rows["attention", 16]["parameters"] == 4 * (8 * 8 + 8)
    assert rows["attention", 16]["flops"] == 8 * 16 * 8**2 + 4 * 16**2 * 8
    assert rows["attention", 16]["steps"] >= 3
    assert rows["attention", 16]["memory"] >= 0
    page = (tmp_path / "out" / "mixers.md").read_text()
    assert "| attention | 288 |" in page
    assert "![Seconds of a step against length](mixers.svg)" in page
    assert "<svg" in (tmp_path / "out" / "mixers.svg").read_text()


def test_training_is_measured_beside_a_plain_loop(monkeypatch):
    monkeypatch.setattr(train, "ENOUGH", 0.0)
    (speed,) = train.survey(train.read_models("digits"), "cpu", 1, 100)
    assert speed.failed is None
    assert speed.tokens == 32 * 64
    assert speed.seconds is not None
    assert speed.plain_seconds > 0
    assert speed.share_of_peak > 0
    assert sum(speed.shares.values()) == pytest.approx(1)
    assert set(speed.shares) == set(shares.GROUPS)
    assert all(share > 0 for share in speed.shares.values())
    heads, rows = pages.train_table([speed, replace(speed, failed="over the time limit", seconds=None)])
    assert rows[0][2] == "32 x 64"
    assert rows[1][1] == "over the time limit"
    assert len(heads) == len(rows[0]) == len(rows[1])
    assert speed.how == "plain: steps are not recorded on this device"
    assert speed.epoch_seconds == pytest.approx(speed.seconds * 1097 / 32)
    assert pages.ways([speed, speed]).startswith(f"Steps of ours: {speed.how}.")
    other = replace(speed, model="image", how="recorded")
    assert pages.ways([speed, other]).startswith(f"Steps of ours: digits, cpu: {speed.how}; image, cpu: recorded.")
    assert [pages.seconds(value) for value in (None, 0.0246, 3.13, 122_800.0)] == [
        pages.NONE,
        "24.6 ms",
        "3.13 s",
        "122,800 s",
    ]
    assert ("headstart[bench]" in pages.ways([speed])) == (speed.trainer_seconds is None)
    beside = pages.train_table([replace(speed, trainer_seconds=2 * speed.seconds)])[1][0]
    assert beside[-1] == "2.00"


@pytest.mark.skipif(not train.trainer_installed(), reason="needs the extra [bench]: pip install 'headstart[bench]'")
def test_the_trainer_of_transformers_takes_its_turns():
    (speed,) = train.survey(train.read_models("digits"), "cpu", 1, 100)
    assert speed.failed is None
    assert 0 < speed.trainer_seconds < 100


def test_the_loss_of_the_trainer_is_that_of_the_plain_loop():
    pytest.importorskip("transformers")
    from headstart.bench.trainer import _WithLoss

    case, example, model = train.case_of({"threads": 1, "device": "cpu", "case": {"model": "digits"}})
    batch = collate(train.made_up(example), np.arange(example.batch))
    loss = _WithLoss(model)(batch.inputs, batch.target)["loss"]
    plain = torch.nn.functional.cross_entropy(model(batch, Draw(0, 0, batch.index)), batch.target)
    assert case.name == "digits"
    assert torch.equal(loss, plain)


def test_a_case_over_the_time_limit_is_a_cell():
    (cell,) = mixers.survey([mixers.Case("attention", 8, "cpu", 1, width=8)], limit=0.05)
    assert cell.failed == process.OUT_OF_TIME
    assert pages.mixer_table([cell]) == (["mixer", "parameters", "L 8"], [["attention", pages.NONE, cell.failed]])


def test_a_process_that_dies_says_its_last_line():
    with pytest.raises(process.Failed, match=r"code 1: AttributeError: .*no_such_work"):
        process.once("headstart.bench.mixers:no_such_work", {}, 60)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mixers.read_lengths("256,long"), "--lengths: '256,long' is not a list of whole numbers"),
        (lambda: mixers.read_lengths("0"), "--lengths: 0 is below 1"),
        (lambda: mixers.read_mixers("atention", None), "--mixers: no 'atention'; did you mean 'attention'?"),
        (lambda: mixers.read_mixers(None, "nowhere:X"), "--mixer: nowhere cannot be imported"),
        (lambda: mixers.check_width(["attention"], 10), "--width: 10 does not suit mixer 'attention' "),
        (lambda: mixers.check_width(["attention"], 0), "--width: 0 is below 1"),
        (lambda: train.read_models("imag"), "--models: no 'imag'; did you mean 'image'?"),
    ],
)
def test_what_is_given_wrongly_is_said_before_anything_runs(call, text):
    with pytest.raises(BadInput) as error:
        call()
    assert str(error.value).startswith(text)


def test_a_folder_that_cannot_be_made_is_said_first(tmp_path):
    (tmp_path / "file").write_text("")
    done = command("bench", "mixers", "--lengths", "8", "-o", "file/out", cwd=tmp_path)
    assert done.returncode == 2
    assert "headstart: -o: 'file/out' cannot be made (Not a directory); name another folder" in done.stderr


@pytest.mark.parametrize("name", train.EXAMPLES)
def test_a_made_up_batch_suits_its_model(name):
    example = train.EXAMPLES[name]
    made = train.made_up(example)
    assert made.units == example.batch
    assert (made.lengths.min(), made.lengths.max()) == (example.signature.shortest, example.signature.length)
    assert example.spec.blocks >= 2
    if example.signature.input == "tokens":
        assert 0 <= made.values.min() <= made.values.max() < example.signature.width


def test_operations_are_told_apart_by_name():
    assert shares.group_of("aten::addmm") == shares.PRODUCTS
    assert shares.group_of("aten::_scaled_dot_product_flash_attention_for_cpu_backward") == shares.ATTENTION
    assert shares.group_of("aten::_softmax") == shares.ATTENTION
    assert shares.group_of("aten::gelu") == shares.ELEMENTS
    assert shares.group_of("autograd::engine::evaluate_function: AddmmBackward0") == shares.OTHER


def test_labels_are_moved_apart_no_more_than_needed():
    assert spread([0.1, 0.5, 0.9], 0.05) == pytest.approx([0.1, 0.5, 0.9])
    moved = spread([0.5, 0.5, 0.52, 0.9], 0.1)
    assert all(b - a >= 0.1 - 1e-12 for a, b in itertools.pairwise(moved))
    assert sum(moved[:3]) / 3 == pytest.approx((0.5 + 0.5 + 0.52) / 3)
    assert moved[3] == pytest.approx(0.9)


def test_a_picture_has_a_panel_per_device_and_a_name_per_line():
    cells = [
        mixers.Cell(f"m{i}", length, device, seconds=1e-3 * length, memory=1)
        for device in ("cpu", "cuda")
        for i in range(16)
        for length in (256, 1024)
    ]
    cells.append(mixers.Cell("gone", 256, "cpu", failed="out of memory"))
    figure = times(cells)
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert sorted(text.get_text() for text in axes.texts) == sorted(f"m{i}" for i in range(16))
    assert times(cells[-1:]) is None


def test_names_of_all_mixers_stand_apart_beside_the_axes():
    cells = [
        mixers.Cell(name, length, "cpu", 1, 1.0, length * (1 + 0.1 * number) * 1e-6, 1e-3, 3, 1)
        for number, name in enumerate(MIXERS)
        for length in (256, 16384)
    ]
    figure = times(cells)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    # Of an annotation without its line.
    boxes = [Text.get_window_extent(text, canvas.get_renderer()) for text in axes.texts]
    boxes.sort(key=lambda box: box.y0)
    assert len(boxes) == len(MIXERS) > 20
    assert all(lower.y1 <= upper.y0 for lower, upper in itertools.pairwise(boxes))
    assert boxes[0].y0 > 0
    assert boxes[-1].y1 < axes.title.get_window_extent(canvas.get_renderer()).y0 < figure.bbox.height


def test_every_mixer_is_measured_where_none_is_named():
    assert list(mixers.read_mixers(None, None)) == list(MIXERS)


def test_the_published_page_has_every_mixer():
    document = json.loads((Path(__file__).parents[2] / "docs" / "benchmarks" / "mixers.json").read_text())
    assert {row["mixer"] for row in document["rows"]} == set(MIXERS)


def test_other_work_on_the_machine_is_said_aloud():
    where = {**machine.setting("cpu", 1), "cores": 2, "load": 3.0}
    assert "the machine was shared (load 3 at the start)" in machine.sentence(where)
    assert "shared" not in machine.sentence({**where, "load": 0.1})
    assert machine.devices("cuda", "auto") == ["cpu", "cuda"]
    assert machine.devices("cuda", "cuda") == ["cuda"]
