"""Whole models of a person's own, each from random weights and, under a head of ours, self-pretrained too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.arms.self_pretrained import STARTS
from headstart.fit.known import Known
from headstart.fit.settings import PRETRAINED, FitSettings


class Own(Arm):
    """Wanted where plugins have models. Their names are those of the models."""

    def tables(self, frame: Frame) -> dict[str, Any]:
        arms = frame.settings.own_arms.items()
        return {
            name: {**frame.alone, "model": {"kind": kind}, **(STARTS if name != kind else {})} for name, kind in arms
        }

    def seconds(self, spent: Spent) -> float:
        return len(spent.settings.own_arms) * spent.training()

    def seconds_before(self, spent: Spent) -> float:
        pretrained = len(spent.settings.own_arms) - len(spent.settings.models)
        return pretrained * spent.pretraining() if spent.settings.pretrains else 0.0

    def singly(self, frame: Frame) -> list[str]:
        return list(frame.settings.models)

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        ways = {True: "from scratch and self-pretrained", False: "from scratch"}
        arms, models = frame.settings.own_arms, frame.settings.models
        return [f"{kind}: a model of your own, {ways[f'{kind}{PRETRAINED}' in arms]}" for kind in models]

    def texts(self, known: Known, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        starts = {True: "self-pretrained on the sequences", False: "from random weights"}
        return {name: f"your own model, {starts[name.endswith(PRETRAINED)]}" for name in settings.own_arms}
