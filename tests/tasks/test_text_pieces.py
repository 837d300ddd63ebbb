"""Texts in the pieces of a checkpoint's tokeniser, as a study reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.made_data_sets import pieces

import headstart
from headstart.checkpoints.read import read_checkpoint
from headstart.errors import BadInput
from headstart.spec import read
from headstart.store import Store
from headstart.study.language.estimate import survey
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks.own import OwnSpec
from headstart.tasks.pieces import PiecesSpec
from headstart.tasks.task import open_task


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reviews, and a small encoder beside them."""
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    monkeypatch.setattr("headstart.data.prepared.cache_folder", lambda: tmp_path / "cache")
    return pieces(tmp_path)


TASK = {"kind": "pieces", "file": "reviews.csv", "target": "label", "tokeniser": "bert", "length": 10}


def test_tokens_are_the_pieces_that_the_vectors_stand_for_in_the_splits_of_the_texts(folder: Path) -> None:
    spec = read(PiecesSpec, TASK, "task")
    task, plain = open_task(spec, folder), open_task(OwnSpec(file="reviews.csv", target="label"), folder)
    assert task.signature.width == 26
    assert task.labels == ("neg", "pos")
    for name in ("train", "val", "test"):
        assert np.array_equal(task.split(name).target, plain.split(name).target)
    assert task.text is not None
    assert plain.text is not None
    first = plain.text(plain.train.values[: plain.train.lengths[0]]).split()
    expected = [*["[CLS]", *first][:9], "[SEP]"]
    assert task.text(task.train.values[: task.train.lengths[0]]) == " ".join(expected)
    assert task.symbols[2] == "[CLS]"
    assert task.signature.length == 10


STUDY = {
    "name": "reviews",
    "stages": {
        "language": {"checkpoint": {"source": "bert", "whole": True}},
        "finetune": {
            "objective": {"kind": "classify"},
            "model": {"like": "bert", "pool": "mean", "encoder": {"masked": "zero"}},
            "optim": {"lr": 1e-2, "batch_size": 8},
            "budget": {"steps": 2, "evaluate_every": 1},
            "trainable": "head",
        },
    },
    "columns": {"reviews": {"task": TASK}},
    "arms": {
        "pretrained": {
            "finetune": {"parent": "language", "start": ["take(all-position-head)", 'take(position, rows="prefix")']}
        },
        "statistics": {
            "finetune": {"parent": "language", "start": ["match(all-position-head)", 'match(position, rows="prefix")']}
        },
        "random": {},
    },
    "axes": {"seed": [0]},
}


def test_a_study_compares_a_pretrained_encoder_in_its_own_tokens_with_random_blocks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSTART_WEIGHTS", str(folder))
    results = headstart.run(STUDY, data=folder, store=folder / "runs", workers=0)
    rows = {row.arm: row for row in results.table}
    assert set(rows) == set(STUDY["arms"])
    store = Store(folder / "runs")
    taken = store.weights(dict(rows["pretrained"].runs[0].stages)["finetune"], "last")
    theirs = dict(read_checkpoint(folder / "bert", whole=True).tensors())
    assert set(theirs) < set(taken)
    assert all(
        torch.equal(taken[name][: len(tensor)], tensor) for name, tensor in theirs.items() if "position" not in name
    )
    other = store.weights(dict(rows["random"].runs[0].stages)["finetune"], "last")
    assert other["encoder.weight"].shape == (26, 16)


def test_what_has_no_pieces_is_refused_in_one_line(folder: Path) -> None:
    rows = [",".join(f"{x:.3f}" for x in row) for row in np.random.default_rng(0).normal(size=(40, 3))]
    (folder / "numbers.csv").write_text("a,b,c,label\n" + "".join(f"{x},{'xy'[i % 2]}\n" for i, x in enumerate(rows)))
    for change, message in [
        ({"file": "numbers.csv"}, "task.values: numbers.csv holds no texts"),
        ({"tokeniser": "nowhere"}, "task.tokeniser: "),
        ({"file": "nowhere.csv"}, "task.file: "),
    ]:
        with pytest.raises(BadInput) as caught:
            open_task(read(PiecesSpec, {**TASK, **change}, "task"), folder)
        assert message in str(caught.value)


def test_a_plan_goes_by_the_stated_sizes_while_texts_and_checkpoint_are_absent(tmp_path: Path) -> None:
    plan = make_plan(read_study("film-reviews", scale="small", data=tmp_path), tmp_path, absent="open")
    assert {(cost.trainable, cost.once) for cost in survey(plan) if cost.steps} == {(2 * 385, 800 + 200 + 2084)}
