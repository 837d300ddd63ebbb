"""What a person may set of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headstart.data import LayoutSpec
from headstart.documents import parse_override
from headstart.errors import BadInput, nearest
from headstart.kinds import SORTS
from headstart.spec import nested
from headstart.ways import argument

DEFAULT_TIME = 300.0
"""Seconds that a fit on a CPU may take, where nothing is said."""
SPLIT_WAYS = ("random", "time")
"""How rows are dealt out to train, validation and test."""
MOST_FOLDS = 100
"""As many as there are seeds at most: every model is fitted once for each."""
SEEDS = 3
"""Runs of each setting, where nothing is said and there are no folds."""


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit; what is None is decided by kind of data and time.

    layout: how the data are written. val, test, unlabelled: further files. time: seconds that all of it may take (None:
    as long as the default training takes). seeds: of the runs of each setting (None: one per fold, or 3). rates: of the
    networks, chosen on validation. folds: in each run another of so many folds of train and validation is validation
    (1: the same rows in all; None: 5 below 300 labels, without a file of validation). epochs, pretrain_epochs: of
    training and of self-pretraining. balanced: each class weighs the same. serve: `auto` (the best on validation),
    `network`, `ensemble`, or an arm that can be served. pretrain: whether a network is self-pretrained (None: where it
    is worth its time). val_share, test_share (0: none), split, split_seed, by_group: of the split, as
    task `own` has them. overrides: settings of the networks' study, `name=value`. models: kinds of whole models of a
    person's own, each an arm more. backbone: a checkpoint whose frozen layers or features are an arm more, by its name
    or folder. start: another model, by its folder or a stage's id, whose weights an arm more starts from.
    """

    layout: LayoutSpec = field(default_factory=LayoutSpec)
    val: Path | None = None
    test: Path | None = None
    unlabelled: Path | None = None
    time: float | None = DEFAULT_TIME
    seeds: tuple[int, ...] | None = None
    folds: int | None = None
    rates: tuple[float, ...] | None = None
    epochs: float | None = None
    pretrain_epochs: float | None = None
    balanced: bool = False
    serve: str = "auto"
    pretrain: bool | None = None
    val_share: float = 0.2
    test_share: float = 0.2
    split_seed: int = 0
    split: str = "random"
    by_group: bool = True
    overrides: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    backbone: str | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None and (not self.seeds or len(set(self.seeds)) != len(self.seeds)):
            raise BadInput(f"seeds: {list(self.seeds)} must be at least one number, each once")
        if self.folds is not None and self.folds < 1:
            raise BadInput(f"folds: {self.folds} must be 2 or more, or 1 for the same validation rows in all runs")
        if self.folds is not None and self.folds > MOST_FOLDS:
            raise BadInput(
                f"{argument('folds')}: {self.folds:,} are too many, as each has a model of its own; "
                f"give at most {MOST_FOLDS}"
            )
        if self.val is not None and (self.folds or 1) > 1:
            raise BadInput(f"folds: {self.folds} deal validation out anew, and --val names a file of it; leave one out")
        if self.split not in SPLIT_WAYS:
            raise BadInput(f"{argument('split')}: {nearest(self.split, SPLIT_WAYS)}")
        if self.split == "time" and (self.folds or 1) > 1:
            raise BadInput(
                f"folds: {self.folds} of rows that are split by time would train on later ones; leave one out"
            )
        if self.rates is not None and (not self.rates or any(not 0 < rate < math.inf for rate in self.rates)):
            raise BadInput(f"rates: {list(self.rates)} must be numbers above 0, one or more")
        for name in ("epochs", "pretrain_epochs", "time"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise BadInput(f"{name}: {value} must be a number above 0")
        for word in self.overrides:
            _check_override(word, bool(self.models))

    @property
    def paths(self) -> list[list[str]]:
        """Which setting of the study each override sets, part by part."""
        return [word.partition("=")[0].strip().split(".") for word in self.overrides]

    @property
    def pretrains(self) -> bool:
        """Whether a network is self-pretrained, as long as nothing has decided against it."""
        return self.pretrain is not False

    @property
    def asks_for_network(self) -> bool:
        """Whether a person asked for it: as what is served, by a setting of networks, or by an arm that is one."""
        asked = (self.rates, self.epochs, self.overrides, self.models, self.backbone, self.start)
        return any((*asked, self.pretrain, self.pretrain_epochs)) or self.serve not in ("auto", *SORTS["model"].entries)

    @property
    def leaves_mixer(self) -> bool:
        """Whether the network's mixer is left to the defaults: no setting of a person's names it, or the network."""
        inside = [path[path.index("model") + 1 :] for path in self.paths if "model" in path[:2]]
        return not any(path[:1] in ([], ["kind"], ["mixer"]) for path in inside)

    @property
    def runs(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(range(SEEDS)) if self.seeds is None else self.seeds

    def document(self) -> dict[str, Any]:
        """What of the settings decides what a plan is for, as JSON material: no place of a file, and not the time."""
        names = ["seeds", "rates", "epochs", "pretrain_epochs", "balanced", "pretrain", "overrides"]
        names += ["models"] if self.models else []
        names += ["folds"] if (self.folds or 1) > 1 else []
        return {name: list(value) if isinstance(value := getattr(self, name), tuple) else value for name in names}


def _check_override(word: str, own: bool) -> None:
    """Raises: BadInput for a setting that would part the networks from the models beside them, or from what is said.

    own: there are whole models of a person's own, which may be set (`arms.own` checks their names).
    """
    from headstart.core import Plan  # imports torch

    path, value = parse_override(word)
    first, *rest = path.split(".")
    if own and first == "arms" and len(rest) > 2 and rest[1] == "model":
        return
    if first in ELSEWHERE:
        raise BadInput(f"override: {path!r} is not a setting of the networks alone; {ELSEWHERE[first]}")
    if isinstance(value, list) and not path.endswith((".optim.lr", ".start", ".mixer", ".class_weights")):
        raise BadInput(f"override: {path}={value}: a fit sweeps finetune.optim.lr alone; give one value")
    table = nested(path, value)
    tables = [layer.get("budget", {}) for layer in (table, *table.values()) if isinstance(layer, Mapping)]
    if other := [name for name in Plan.MEASURES if name != "steps" and any(name in budget for budget in tables)]:
        raise BadInput(
            f"override: {path}={value}: a fit plans its training in steps, not in {other[0]}; give them: "
            "finetune.budget.steps=N, pretrain.budget.steps=N"
        )


ELSEWHERE = {
    "task": "set how the file is read with layout.NAME=value, and the splits with --val, --test, --val-share, "
    "--test-share, --split-seed and --no-group",
    "seed": "give --seeds N",
    "arms": "a fit chooses itself what it compares, and sets models of your own alone (arms.NAME.model.KEY=value); "
    "others are compared by an edited copy of the study.toml that it writes, with `headstart run`",
    "columns": "a fit has one file; fit each file by itself",
    "report": "a fit reports all that it compared; `headstart run` reports otherwise, from the study.toml that a fit "
    "writes",
}
"""Settings of a study that a fit takes elsewhere, and where."""
