"""A stage opens as what it became and what it began as."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headstart
from headstart.analysis.stages import Opened, first_batch, opened, started
from headstart.analysis.weights import deviations, moved
from headstart.store import Store

STUDY: dict[str, Any] = {
    "name": "opened",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 4}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 4}},
    },
    "columns": {
        "digits": {
            "task": {"kind": "digits", "labelled": 100},
            "model": {"width": 8, "blocks": 2, "mixer": {"kind": "s4d", "state": 4}},
        }
    },
    "arms": {
        "scratch": {},
        "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)", "draw(kernel, 0.1)"]}},
        "untrained": {"finetune": {"budget": {"steps": 0}}},
        "double": {"finetune": {"optim": {"precision": "float64"}}},
    },
    "axes": {},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis") / "runs"
    headstart.run(STUDY, store=folder)
    return folder


def stage(store: Path, arm: str, at: int = -1) -> Opened:
    cells = headstart.Study(STUDY, store=store).plan.cells
    identity = next(cell.chain[at].identity for cell in cells if cell.arm == arm)
    return opened(identity[:12], store=store)


def test_a_stage_opens_with_its_trained_weights(store: Path) -> None:
    identity = stage(store, "scratch")
    assert (identity.name, identity.spec.task.kind) == ("finetune", "digits")
    loaded = headstart.load(identity.identity, store=store).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in identity.model.state_dict().items())
    assert 0 < moved(deviations(identity.model, identity.start)) < 1
    assert not identity.model.training
    assert not identity.start.training


def test_the_start_of_a_child_is_its_parents_end(store: Path) -> None:
    child, parent = stage(store, "self_pretrained"), stage(store, "self_pretrained", -2)
    fresh = stage(store, "scratch").start.state_dict()
    ended = parent.model.state_dict()
    for name, value in child.start.state_dict().items():
        if name.startswith("head"):
            assert torch.equal(value, fresh[name])
        elif ".kernel." in name:
            assert not torch.equal(value, ended[name])
        else:
            assert torch.equal(value, ended[name])


def test_an_untrained_stage_is_its_own_start(store: Path) -> None:
    identity = stage(store, "untrained")
    assert all(d.moved == 0 for d in deviations(identity.model, identity.start))
    scratch = stage(store, "scratch").start.state_dict()
    assert all(torch.equal(value, scratch[name]) for name, value in identity.start.state_dict().items())


def test_double_precision_stays_double(store: Path) -> None:
    identity = stage(store, "double")
    assert {p.dtype for p in (*identity.model.parameters(), *identity.start.parameters())} == {torch.float64}
    assert first_batch(identity).inputs.dtype == torch.float64


def test_a_start_without_its_parent_is_refused(store: Path) -> None:
    identity = stage(store, "self_pretrained")
    with pytest.raises(headstart.BadInput, match="there is no parent"):
        started(identity.spec, identity.task)
    weights = Store(store).weights(stage(store, "self_pretrained", -2).identity)
    again = started(identity.spec, identity.task, weights).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in identity.start.state_dict().items())


def test_what_is_not_finished_is_refused(store: Path) -> None:
    with pytest.raises(headstart.BadInput, match="no stage's id begins with '0123456789abcdef'"):
        opened("0123456789abcdef", store=store)


def test_a_parent_that_is_gone_is_named(store: Path, tmp_path: Path) -> None:
    child, parent = (stage(store, "self_pretrained", at).identity for at in (-1, -2))
    copy = tmp_path / "runs"
    shutil.copytree(store, copy)
    shutil.rmtree(copy / parent)
    with pytest.raises(headstart.BadInput, match=f"stage {parent}: is absent"):
        opened(child, store=copy)


def test_the_first_batch_is_masked_as_validation_is(store: Path) -> None:
    parent = stage(store, "self_pretrained", -2)
    prepared = first_batch(parent, 3)
    predictions = Store(store).predictions(parent.identity)
    assert prepared.masked is not None
    assert torch.equal(prepared.masked, predictions["val/masked"][:3].bool())
    plain = first_batch(stage(store, "scratch"))
    assert plain.masked is None
    assert len(plain) == 16
    assert np.array_equal(plain.index.numpy(), parent.task.val.index[:16])


def test_the_package_waits_for_torch() -> None:
    code = "import sys, headstart.analysis; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
