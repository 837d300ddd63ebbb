"""`headstart bench` as a person meets it: tiny lengths, real processes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from support.command import command

from headstart.bench import machine, mixers, pages, process
from headstart.bench.pages import spread, times
from headstart.errors import BadInput
from headstart.models.mixers import MIXERS

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


@pytest.mark.slow
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
        drawn=True,
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


def test_a_case_over_the_time_limit_is_a_cell():
    (cell,) = mixers.survey([mixers.BenchCase("attention", 8, "cpu", 1, width=8)], limit=0.05)
    assert cell.failed == process.OUT_OF_TIME
    assert pages.mixer_table([cell]) == (["mixer", "parameters", "L 8"], [["attention", pages.NONE, cell.failed]])


def test_a_process_that_dies_says_its_last_line():
    with pytest.raises(process.ProcessFailed, match=r"code 1: AttributeError: .*no_such_work"):
        process.once("headstart.bench.mixers:no_such_work", {}, 60)


def test_a_measurement_runs_no_file_of_the_working_directory(tmp_path, monkeypatch):
    for name in ("json", "types", "operator"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(process.ProcessFailed, match=r"code 1: AttributeError: .*no_such_work"):
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


def test_seconds_have_three_digits_at_least():
    texts = [pages.seconds(value) for value in (None, 0.0246, 3.13, 122_800.0)]
    assert texts == [pages.NONE, "24.6 ms", "3.13 s", "122,800 s"]


def test_labels_are_moved_apart_no_more_than_needed():
    assert spread([0.1, 0.5, 0.9], 0.05) == pytest.approx([0.1, 0.5, 0.9])
    moved = spread([0.5, 0.5, 0.52, 0.9], 0.1)
    assert all(b - a >= 0.1 - 1e-12 for a, b in itertools.pairwise(moved))
    assert sum(moved[:3]) / 3 == pytest.approx((0.5 + 0.5 + 0.52) / 3)
    assert moved[3] == pytest.approx(0.9)


def test_a_picture_has_a_panel_per_device_and_a_name_per_line():
    cells = [
        mixers.BenchCell(f"m{i}", length, device, seconds=1e-3 * length, memory=1)
        for device in ("cpu", "cuda")
        for i in range(16)
        for length in (256, 1024)
    ]
    cells.append(mixers.BenchCell("gone", 256, "cpu", failed="out of memory"))
    figure = times(cells)
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert sorted(text.get_text() for text in axes.texts) == sorted(f"m{i}" for i in range(16))
    assert times(cells[-1:]) is None


def test_names_of_all_mixers_stand_apart_beside_the_axes():
    cells = [
        mixers.BenchCell(name, length, "cpu", 1, 1.0, length * (1 + 0.1 * number) * 1e-6, 1e-3, 3, 1)
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
