"""Whole models of a person's own, each from random weights and, under a head of ours, self-pretrained too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.errors import BadInput
from headstart.fit.arms.arm import Arm, Frame, Networks, Spent
from headstart.fit.arms.self_pretrained import STARTS, TWIN
from headstart.fit.basis import Basis
from headstart.kinds import SORTS
from headstart.request.settings import ELSEWHERE, FitSettings


class OwnArm(Arm):
    """Wanted where plugins have models. Their names are those of the models."""

    servable = True

    def names_for(self, settings: FitSettings) -> tuple[str, ...]:
        return tuple(_models(settings, settings.pretrains))

    def check(self, settings: FitSettings) -> None:
        for path in settings.paths:
            if path[0] == "arms" and path[1] not in self.names_for(settings):
                text = f"override: {'.'.join(path)!r} is not a setting of the networks alone; {ELSEWHERE['arms']}"
                raise BadInput(text)

    def wanted(self, basis: Basis, settings: FitSettings) -> bool:
        return bool(settings.models)

    def seconds(self, spent: Spent) -> float:
        return len(_models(spent.settings, bool(spent.amount.pretrain_steps))) * spent.training()

    def seconds_before(self, spent: Spent) -> float:
        twins = len(_models(spent.settings, True)) - len(spent.settings.models)
        return twins * spent.pretraining()

    def tables(self, frame: Frame) -> dict[str, Any]:
        models = _models(frame.settings, bool(frame.amount.pretrain_steps))
        return {
            name: {**frame.alone, "model": {"kind": kind}, **(STARTS if name != kind else {})}
            for name, kind in models.items()
        }

    def lines(self, frame: Frame, networks: Networks) -> list[str]:
        lines, arms = list[str](), self.tables(frame)
        for kind in frame.settings.models:
            twin = "from scratch and self-pretrained" if f"{kind}{TWIN}" in arms else "from scratch"
            lines += [f"{kind}: a model of your own, {twin}", *frame.alone_text(kind)]
        return lines

    def texts(self, basis: Basis, settings: FitSettings, arms: Mapping[str, Any]) -> dict[str, str]:
        starts = {True: "self-pretrained on the sequences", False: "from random weights"}
        return {name: f"your own model, {starts[name != kind]}" for name, kind in _models(settings, True).items()}


def _models(settings: FitSettings, pretrains: bool) -> dict[str, str]:
    """Name of each -> the kind of the model; one under a head of ours is there twice, where anything is pretrained."""
    arms = {}
    for kind in settings.models:
        arms[kind] = kind
        if pretrains and getattr(SORTS["model"].entries[kind].load(), "head", False):
            arms[f"{kind}{TWIN}"] = kind
    return arms
