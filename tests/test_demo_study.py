"""The question that the project turns on, asked of real training: does self-pretraining help where labels are few?"""

from pathlib import Path

import pytest

import headstart
from headstart.statistics import mean


@pytest.mark.slow
def test_self_pretraining_beats_scratch_on_forty_labels(tmp_path: Path) -> None:
    study = headstart.Study(
        "few-labels",
        [
            "seed=[0,1]",
            "finetune.optim.lr=[3e-3]",
            "arms=['scratch','self_pretrained']",
            "report.against=scratch",
            "pretrain.budget.steps=600",
            "finetune.budget.steps=150",
        ],
        store=tmp_path / "runs",
    )
    for _ in study.perform(workers=0):
        pass
    scratch, self_pretrained = study.results(baselines=False).table
    assert scratch.n == self_pretrained.n == 2
    assert scratch.test is not None
    assert self_pretrained.test is not None
    assert mean(self_pretrained.test.values) - mean(scratch.test.values) >= 0.1
