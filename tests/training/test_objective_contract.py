"""The contract of objectives catches each way to break it, and says so."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest
import torch

from headstart.objectives import ClassifySpec, Monitor
from headstart.training.objective_contract import OBJECTIVE_CHECKS, check_objective


class MeanSpec(ClassifySpec):
    """The mean of a batch in place of the sum."""

    def measure(self, output: Any, batch: Any, signature: Any) -> Any:
        sums = super().measure(output, batch, signature)
        return {**sums, "loss": sums["loss"] / sums["count"]}


class CountlessSpec(ClassifySpec):
    """A mean, counted as one."""

    def measure(self, output: Any, batch: Any, signature: Any) -> Any:
        sums = super().measure(output, batch, signature)
        return {**sums, "loss": sums["loss"] / sums["count"], "count": torch.ones_like(sums["count"])}


class AbsentSpec(ClassifySpec):
    """A monitor that names no score."""

    def monitored(self, signature: Any) -> Monitor:
        return Monitor("f1", greater=True)


class TurnedSpec(ClassifySpec):
    """Accuracy, as if less were better."""

    def monitored(self, signature: Any) -> Monitor:
        return Monitor("accuracy", greater=False)


class NoisySpec(ClassifySpec):
    """Numbers of torch's own generator in the loss."""

    def measure(self, output: Any, batch: Any, signature: Any) -> Any:
        return super().measure(output + 0.1 * torch.randn_like(output), batch, signature)


class UnsureSpec(ClassifySpec):
    """A score that is no number."""

    def scores(self, totals: Any) -> dict[str, float]:
        return {**super().scores(totals), "accuracy": math.nan}


class PlacedSpec(ClassifySpec):
    """What is hidden follows the place in the batch."""

    def prepare(self, batch: Any, signature: Any, seed: Any, epoch: Any) -> Any:
        from dataclasses import replace

        return replace(
            batch, inputs=batch.inputs + torch.arange(len(batch.inputs)).reshape(-1, *[1] * (batch.inputs.ndim - 1))
        )


class RaisingSpec(ClassifySpec):
    """It fails."""

    source_digest: ClassVar[str | None] = None

    def measure(self, output: Any, batch: Any, signature: Any) -> Any:
        raise KeyError("lost")


BROKEN = [
    (MeanSpec, "adding up", "the sums 'loss' of a batch are not those of its halves added up"),
    (CountlessSpec, "adding up", "the sums 'loss' and 'count' of a batch are not those of its halves"),
    (AbsentSpec, "scores", "monitors 'f1', and its scores are loss and accuracy"),
    (TurnedSpec, "direction", "and monitored says that less is better; turn `greater` round"),
    (NoisySpec, "sums", "measure gives two values of 'loss' for one batch"),
    (UnsureSpec, "scores", "scores gives 'accuracy' = nan for 24 examples"),
    (PlacedSpec, "preparing", "prepare gives another example alone than in a batch"),
    (RaisingSpec, "sums", "KeyError: 'lost'"),
]


@pytest.mark.parametrize(("cls", "check", "words"), BROKEN, ids=[check for _, check, _ in BROKEN])
def test_each_way_to_break_the_contract_is_caught_in_words(cls: type[ClassifySpec], check: str, words: str) -> None:
    assert words in str(check_objective(cls())[check])


def test_an_objective_that_holds_to_the_contract_passes_every_check() -> None:
    assert check_objective(ClassifySpec()) == dict.fromkeys(OBJECTIVE_CHECKS)
