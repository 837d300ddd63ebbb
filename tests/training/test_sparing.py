"""Examples that are read batch by batch give the bits of those that are held as a whole, in less memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headstart.stage.trained import TrainedRun
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task
from headstart.training import batches
from headstart.training.batches import Batches, sparing


def test_a_run_that_holds_no_set_has_the_bits_of_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    study = {
        "name": "sparing",
        "arms": {"scratch": {}},
        "stages": {
            "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 2}, "optim": {"batch_size": 12}}
        },
        "columns": {
            "waves": {
                "task": {"kind": "waves", "length": 96, "train": 40, "val": 10, "test": 10},
                "model": {"width": 8, "blocks": 1, "dropout": 0.1},
            }
        },
    }
    spec = next(iter(make_plan(read_study(study, []), Path("data")).stages.values())).spec
    task = open_task(spec.task, Path("data"))
    held, plain = list[bool](), vars(Batches)["batch"]
    monkeypatch.setattr(Batches, "batch", lambda self, places: held.append(self.picks) or plain(self, places))
    outcomes = []
    for wanted in (False, True):
        held.clear()
        with sparing(wanted):
            run = TrainedRun(spec, task, None)
            for _ in run.steps():
                pass
            outcomes.append(run.finish())
        assert set(held) == {not wanted}
    whole, spare = outcomes
    assert whole.scores == spare.scores
    assert all(torch.equal(whole.best[name], spare.best[name]) for name in whole.best)
    assert all(torch.equal(whole.predictions[name], spare.predictions[name]) for name in whole.predictions)
    assert batches.room(torch.device("cpu")) == batches.DENSE_LIMIT
