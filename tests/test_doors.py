"""`fit`, `serve` and `estimator` come in through two doors, `headstart.core` and `headstart.data`."""

from pathlib import Path

from test_layers import ROOT, modules_imported

import headstart.data
from headstart import core

PRODUCT = ("request", "fit", "fitted", "serve", "estimator")
WORDS = (
    *("atomic", "disk", "documents", "errors", "guard", "kinds", "limits", "normal", "seeds", "sequence", "spec"),
    *("statistics", "text", "ways", "words"),
)
"""Words of the house: they say and write things, and know nothing of stages and files of data."""
BESIDE = ("analysis", "baselines", "report", "tasks.own")
"""Beside the core: models without gradients, which a folder holds too; what every page is made of, and where a model
looks; and the task that a person's own file is."""


def _rooms(path: Path) -> set[str]:
    """Rooms of the core and of the data that a file of the product imports past the doors."""
    names = {name.removeprefix("headstart").lstrip(".") for name in modules_imported(path)}
    rooms = {*PRODUCT, *WORDS, *BESIDE}
    return {name for name in names - {"core", "data", *BESIDE} if name.partition(".")[0] not in rooms}


def test_the_product_comes_in_through_the_doors() -> None:
    inside = {}
    for room in PRODUCT:
        for path in sorted((ROOT / room).rglob("*.py")):
            if rooms := _rooms(path):
                inside[path.relative_to(ROOT).as_posix()] = rooms
    assert not inside


def test_the_door_of_the_core_has_at_most_twenty_five_names_each_with_one_home() -> None:
    assert len(core.__all__) <= 25
    assert {name: getattr(core, name) for name in core.__all__}


def test_the_door_of_data_has_at_most_fifteen_names() -> None:
    assert len(headstart.data.__all__) <= 15
