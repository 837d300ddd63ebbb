"""The same network, self-pretrained on the sequences: where it is expected to help, or the time allows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit import defaults
from headstart.fit.arms.arm import Arm, Frame, Networks, Offer, Spent
from headstart.fit.basis import Basis
from headstart.request.settings import FitSettings
from headstart.words import percent

STARTS: Mapping[str, Any] = {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}
"""What an arm adds to start from self-pretraining."""
TWIN = "_self_pretrained"
"""End of the name of an arm whose model, of a person's own, is self-pretrained."""


def asked_for(settings: FitSettings) -> bool:
    """Whether a person asked for it: by name, by a setting of self-pretraining, or by what is to be served."""
    named = settings.pretrain or settings.pretrain_epochs or settings.serve.endswith(TWIN)
    return bool(named) or any(path[0] == "pretrain" for path in settings.paths)


class SelfPretrainedArm(Arm):
    """Wanted unless a person leaves it out. It takes part where a person asks for it, or where it has enough steps to
    learn something and leaves enough for training; where it is not expected to help that is half of them."""

    names = ("self_pretrained",)
    rank = 4
    helps: Mapping[str, str] = {"self_pretrained": "self-pretraining"}
    missed = "Self-pretraining was not tried; the plan says why."
    pretrained = True

    def wanted(self, basis: Basis, settings: FitSettings) -> bool:
        return settings.pretrains

    def worth(self, basis: Basis, settings: FitSettings) -> float:
        if asked_for(settings):
            return 4.5
        return 4.0 if defaults.expects_gain(basis.labelled, basis.rows) else 2.0

    def lacks(self, offer: Offer) -> bool:
        return not offer.network or bool(self._why(offer))

    def left_out(self, offer: Offer) -> list[str]:
        basis = offer.basis
        expectation = defaults.expectation(basis.labelled, basis.rows)
        if not offer.network:
            return [f"nothing is pretrained: {expectation}"] if basis.rows > basis.labelled else []
        return [f"self-pretraining is skipped: {self._why(offer)}; --pretrain forces it", expectation]

    def _why(self, offer: Offer) -> str:
        if asked_for(offer.settings):
            return ""
        basis, amount, whole = offer.basis, offer.amount, offer.whole
        before = min(defaults.LEAST_PRETRAIN_STEPS, whole.pretrain_steps)
        beside = defaults.LEAST_STEPS if offer.settings.asks_for_network else defaults.wanted_steps(basis.kind)
        if amount.pretrain_steps < before:
            return f"the time leaves fewer than {before} steps for it"
        if amount.steps < min(beside, whole.steps):
            return f"the time leaves fewer than {beside:,} steps of training beside it"
        if amount.steps < defaults.WORTH * whole.steps and not defaults.expects_gain(basis.labelled, basis.rows):
            return f"the time leaves less than {percent(defaults.WORTH)} of the steps, and it is not expected to help"
        return ""

    def seconds(self, spent: Spent) -> float:
        return spent.training()

    def seconds_before(self, spent: Spent) -> float:
        return spent.pretraining()

    def tables(self, frame: Frame) -> dict[str, Any]:
        return {"self_pretrained": {**frame.usual, **STARTS}}

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        basis = frame.basis
        asked = next((spec.objective for stage, spec in networks if stage.name == "pretrain"), None)
        rate = getattr(asked, "mask_rate", None)
        hidden = f"{rate:.0%} of positions masked" if rate else "each next position predicted"
        how = f"{hidden}; {'absolute error' if basis.kind == 'numbers' else 'cross-entropy'}"
        if asked is not None and asked.source_digest:
            how = f"the objective {asked.kind}, of your own"
        steps = frame.amount.pretrain_steps
        reason = "it was asked for" if asked_for(frame.settings) else "the time allows it"
        return [
            f"self-pretraining: {steps:,} steps on {basis.rows:,} train sequences, {how}",
            defaults.expectation(basis.labelled, basis.rows, reason),
        ]

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        return {"self_pretrained": "network, self-pretrained on the sequences"}
