"""One contract for every mixer of the table: a stage in a stack is the stage alone, or its mixer says why not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from support.mixers import example_of
from support.stacked import begun, differences, finished, together

from headstart.models.contract import STACK_TOLERANCE
from headstart.models.mixers import MIXERS
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.parallel import ParallelSpec

STAGES: tuple[dict[str, Any], ...] = (
    {"seed": 0},
    {"seed": 1, "optim": {"lr": 3e-3, "weight_decay": 0.3, "clip": 0.5}, "model": {"dropout": 0.0}},
    {"seed": 2, "optim": {"schedule": "constant", "warmup_steps": 3}},
)
ALIKE: dict[str, Any] = {
    "objective": {"kind": "masked"},
    "budget": {"steps": 20, "evaluate_every": 10},
    "trainable": "all-encoder",
    "model": {"width": 8, "blocks": 1, "norm": "batch", "dropout": 0.1},
    # A key's bias has no gradient but rounding, which a smaller epsilon would make steps of.
    "optim": {"lr": 1e-3, "batch_size": 10, "epsilon": 1e-4, "weight_decay": 0.1},
}
CASES = [
    pytest.param(kind, dtype, marks=() if number % 2 and dtype == torch.float64 else pytest.mark.slow)
    for number, kind in enumerate(MIXERS)
    for dtype in STACK_TOLERANCE
]
"""Every day one type, whose tolerance tells what is not the same from what is rounded, and every other mixer: of the
rest the contract in `test_mixers.py` stacks a layer in both types."""


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_a_stacked_stage_is_the_stage_alone(kind: str, dtype: Any) -> None:
    """Own seeds, rates, schedules, decays, norms and dropout; masks, batch norm, a frozen encoder and ragged rows."""
    spec = example_of(MIXERS[kind].load())
    if spec.alone:
        pytest.skip(spec.alone)
    precision = str(dtype).removeprefix("torch.")
    both = [
        [begun(own, ALIKE, model={"mixer": spec}, optim={"precision": precision}) for own in STAGES] for _ in range(2)
    ]
    alone = [finished(live) for live in both[0]]
    stacked = together(both[1])
    assert {live.progress.how for live in both[1]} == {"stacked, 3 models"}
    assert max(differences(both[0], both[1])) <= STACK_TOLERANCE[dtype]
    for mine, theirs in zip(alone, stacked, strict=True):
        assert [(r["step"], r["examples"], r["tokens"], r["rate"]) for r in mine] == [
            (r["step"], r["examples"], r["tokens"], r["rate"]) for r in theirs
        ]


def test_at_most_three_mixers_run_alone() -> None:
    assert sum(bool(example_of(MIXERS[kind].load()).alone) for kind in MIXERS) <= 3


def test_a_mixer_of_a_plugin_trains_alone_until_its_class_says_otherwise() -> None:
    class Quiet(AttentionSpec):
        pass

    class Willing(AttentionSpec):
        stackable: ClassVar[bool] = True

    class Counting(AttentionSpec):
        stackable: ClassVar[bool] = False
        unstackable: ClassVar[str] = "it counts its calls"

    assert Quiet().alone == "mixer 'attention' is of a plugin, whose class does not say stackable = True"
    assert Willing().alone == AttentionSpec().alone == ""
    assert Counting().alone == "mixer 'attention' cannot be stacked: it counts its calls"
    both = ParallelSpec().model_copy(update={"mixers": (AttentionSpec(), Counting())})
    assert both.alone == Counting().alone
