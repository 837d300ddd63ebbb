"""The same network, self-pretrained on the sequences: where it is expected to help, or the time allows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.known import Known
from headstart.fit.settings import FitSettings

STARTS: Mapping[str, Any] = {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}
"""What an arm adds to start from self-pretraining."""


class SelfPretrained(Arm):
    """Wanted unless it is left out for want of time (`budget.left_out`) or by a person."""

    names = ("self_pretrained",)
    rank = 4
    helps: Mapping[str, str] = {"self_pretrained": "self-pretraining"}
    missed = "Self-pretraining was not tried; the plan says why."

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {"self_pretrained": {**frame.usual, **STARTS}} if frame.settings.pretrains else {}

    def seconds(self, spent: Spent) -> float:
        return spent.training() if spent.settings.pretrains else 0.0

    def seconds_before(self, spent: Spent) -> float:
        return spent.pretraining() if spent.settings.pretrains else 0.0

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        known, settings, lines = frame.known, frame.settings, list[str]()
        if settings.pretrains:
            asked = next((spec.objective for stage, spec in networks if stage.name == "pretrain"), None)
            rate = getattr(asked, "mask_rate", None)
            hidden = f"{rate:.0%} of positions masked" if rate else "each next position predicted"
            how = f"{hidden}; {'absolute error' if known.kind == 'numbers' else 'cross-entropy'}"
            if asked is not None and asked.source_digest:
                how = f"the objective {asked.kind}, of your own"
            steps = frame.amount.pretrain_steps
            lines.append(f"self-pretraining: {steps:,} steps on {known.rows:,} train sequences, {how}")
        lines += [frame.why] if frame.why else []
        if settings.pretrains or frame.why:
            reason = "it was asked for" if settings.asks_to_pretrain else "the time allows it"
            lines.append(defaults.expectation(known.labelled, known.rows, reason if settings.pretrains else ""))
        return lines

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {"self_pretrained": "network, self-pretrained on the sequences"}
