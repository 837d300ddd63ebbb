"""The question that the project turns on, asked of a real training: does self-pretraining help on rolled digits?"""

from pathlib import Path

import headstart
from headstart.study.statistics import mean


def test_self_pretraining_on_digits_beats_scratch_on_the_mean_of_three_seeds(tmp_path: Path) -> None:
    study = headstart.Study(
        "digits",
        [
            "seed=[0,1,2]",
            "finetune.optim.lr=[3e-3]",
            "arms=['scratch','self_pretrained']",
            "pretrain.budget.epochs=25",
            "finetune.budget.epochs=40",
        ],
        store=tmp_path / "runs",
    )
    for _ in study.perform(workers=0):
        pass
    scratch, self_pretrained = study.results(baselines=False).table
    assert scratch.n == self_pretrained.n == 3
    assert scratch.test is not None
    assert self_pretrained.test is not None
    assert mean(self_pretrained.test.values) - mean(scratch.test.values) >= 0.03
