"""Pathfinder's labels cannot be learned from a shortcut. That a CNN learns them from the pictures, which are frozen in
`test_pathfinder.py`, takes minutes: `python benchmarks/pathfinder_shortcuts.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "pathfinder_shortcuts.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pathfinder_shortcuts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pathfinder_shortcuts"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_logistic_regressions_on_pixels_and_on_lit_pixels_stay_at_chance(script: ModuleType) -> None:
    test = script.draw("test", 14, 0, script.TEST)
    for score in script.logistic_scores(script.draw("train", 14, 0, 20_000), test).values():
        assert abs(script.errors(score)) < 3
