"""`fit`, `serve` and `estimator` come in through two doors, `headstart.core` and `headstart.data`."""

from pathlib import Path

from test_layers import ROOT, modules_imported

import headstart.data
from headstart import core

PRODUCT = ("fit", "serve", "estimator")
WORDS = (
    *("atomic", "documents", "errors", "guard", "kinds", "limits", "normal", "seeds", "sequence", "spec"),
    *("statistics", "text", "words"),
)
"""Words of the house: they say and write things, and know nothing of stages and files of data."""
BESIDE = ("baselines", "report")
"""Rooms beside the core: models without gradients, which a folder holds too, and what every page is made of."""
INSIDE: dict[str, set[str]] = {
    "fit/again.py": {"stage", "stage.finished", "store", "study.language.plan", "study.language.scales"},
    "fit/arms/arm.py": {"runner.events", "stage", "study.language.plan"},
    "fit/arms/backbone.py": {"study.language.costs"},
    "fit/arms/own.py": {"models"},
    "fit/budget.py": {
        "runner.events",
        "runner.job",
        "study.language.costs",
        "study.language.estimate",
        "study.language.plan",
        "study.language.spec",
    },
    "fit/choose.py": {
        "runner.events",
        "runner.job",
        "runner.perform",
        "study.language.plan",
        "study.paper.caveats",
        "study.paper.summary",
        "study.results.collect",
        "study.results.results",
    },
    "fit/ensemble.py": {"study.results.results", "study.results.rows"},
    "fit/evidence.py": {"analysis.occlusion"},
    "fit/outcome.py": {"analysis.occlusion", "store", "study.results.results", "study.results.rows", "tasks.own"},
    "fit/perform.py": {
        "runner.events",
        "runner.job",
        "runner.machine",
        "runner.perform",
        "store",
        "study.language.files",
    },
    "fit/plan.py": {"runner.events", "runner.machine", "stage", "study.language.plan", "study.language.spec"},
    "fit/prepared.py": {
        "runner.job",
        "runner.machine",
        "stage",
        "store",
        "study.language.estimate",
        "study.language.plan",
        "study.language.spec",
        "tasks.own",
        "tasks.task",
    },
    "fit/reading.py": {
        "checkpoints",
        "checkpoints.fields",
        "checkpoints.folder",
        "checkpoints.like",
        "checkpoints.own",
        "checkpoints.series",
        "checkpoints.source",
        "checkpoints.spec",
        "data.layout",
        "data.letters",
        "initial",
        "models.model",
        "stage",
        "stage.finished",
        "store",
        "tasks",
        "tasks.task",
    },
    "fit/serving.py": {
        "analysis.occlusion",
        "plugins",
        "runner.events",
        "runner.machine",
        "stage",
        "stage.finished",
        "stage.trained",
        "store",
        "tasks.task",
    },
    "fit/settings.py": {"models", "store", "study.language.scales", "training"},
    "fit/source.py": {"tasks.own", "tasks.task"},
    "fit/wording.py": {"study.results.results", "tasks.own", "tasks.task"},
    "serve/network.py": {"training.answers"},
}
"""File -> rooms that it still enters past the doors. It only shrinks."""


def _rooms(path: Path) -> set[str]:
    """Rooms of the core and of the data that a file of the product imports past the doors."""
    names = {name.removeprefix("headstart").lstrip(".") for name in modules_imported(path)}
    allowed = {"core", "data", *PRODUCT, *WORDS, *BESIDE}
    return {name for name in names if name not in allowed and name.partition(".")[0] not in allowed - {"data", "core"}}


def test_the_product_comes_in_through_the_doors() -> None:
    inside = {}
    for room in PRODUCT:
        for path in sorted((ROOT / room).rglob("*.py")):
            if rooms := _rooms(path):
                inside[path.relative_to(ROOT).as_posix()] = rooms
    assert inside == INSIDE


def test_the_door_of_the_core_has_at_most_twenty_five_names_each_with_one_home() -> None:
    assert len(core.__all__) <= 25
    assert {name: getattr(core, name) for name in core.__all__}


def test_the_door_of_data_has_at_most_fifteen_names() -> None:
    assert len(headstart.data.__all__) <= 15
