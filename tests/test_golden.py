"""Frozen identities and results: who changes a result must raise a version, and then this file's numbers.

`python tests/test_golden.py` prints the present numbers for golden.json. An identity that moves without intent
makes every finished stage of every user be trained again.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from support.made_tasks import MadeSpec
from support.mixers import example_of

from headstart.models.mixers import MIXERS
from headstart.objectives import OBJECTIVES
from headstart.spec import digest
from headstart.stage import StageSpec, identity, read_stage
from headstart.stage.trained import TrainedRun
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task

FILE = Path(__file__).parent / "golden.json"
DATA = Path("none")
SMALL = {"width": 16, "blocks": 1}
FITTING = {"masked": "class", "causal": "class", "classify": "class", "regress": "numbers", "retrieve": "pairs"}


def stages() -> dict[str, StageSpec]:
    """Stages whose identity is frozen: each kind of field is used by one of them."""
    listops = {"kind": "listops", "train": 100, "val": 20, "test": 20}
    plain = {"objective": {"kind": "classify"}, "budget": {"epochs": 3}}
    parent = read_stage({"task": listops, "objective": {"kind": "masked"}, "budget": {"steps": 10}})
    return {
        "defaults": read_stage({"task": listops, **plain}),
        "settings": read_stage(
            {
                "task": {**listops, "fraction": 0.5, "labelled": 10},
                **plain,
                "seed": 3,
                "model": {"width": 32, "mixer": {"kind": "attention", "heads": 2}, "position": {"kind": "rotary"}},
                "optim": {"lr": 3e-4, "weight_decay": 0.1, "schedule": "constant"},
            },
        ),
        "child": read_stage(
            {"task": listops, **plain, "parent": parent, "start": ["take(all-head)"], "trainable": "head+norm"},
        ),
        "mixers": read_stage(
            {
                "task": listops,
                **plain,
                "model": {"blocks": 2, "position": {"kind": "none"}, "mixer": [{"kind": "s4d"}, {"kind": "attention"}]},
            },
        ),
    }


def identities() -> dict[str, str]:
    result = {name: identity(spec, DATA) for name, spec in stages().items()}
    digits = make_plan(read_study("digits"), DATA)
    return {**result, "digits": digest(sorted(digits.stages))}


def result(objective: str, mixer: str) -> list[float]:
    """Loss on val and test after eight steps of a tiny model."""
    spec = example_of(MIXERS[mixer].load())
    shape: Any = FITTING[objective]
    value = read_stage(
        {
            "task": MadeSpec(shape=shape),
            "objective": {"kind": objective},
            "model": {**SMALL, "mixer": spec, "causal": objective == "causal", "dropout": 0.1},
            "optim": {"lr": 3e-3, "batch_size": 8},
            "budget": {"steps": 8},
        },
    )
    run = TrainedRun(value, open_task(value.task, DATA), None)
    for _ in run.steps():
        pass
    scores = run.finish().scores["last"]
    return [round(scores[split]["loss"], 6) for split in ("val", "test")]


def results() -> dict[str, list[float]]:
    fitted = {f"objective {name}": result(name, "attention") for name in OBJECTIVES}
    return {**fitted, **{f"mixer {name}": result("classify", name) for name in MIXERS}}


def measured() -> dict[str, Any]:
    return {"identities": identities(), "results": results()}


GOLDEN: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {"identities": {}, "results": {}}


def test_identities_stand() -> None:
    assert identities() == GOLDEN["identities"]


def test_no_objective_and_no_mixer_with_a_golden_result_is_gone() -> None:
    named = {f"objective {name}" for name in OBJECTIVES} | {f"mixer {name}" for name in MIXERS}
    assert named >= set(GOLDEN["results"])
    new = sorted(named - set(GOLDEN["results"]))
    if new:
        pytest.skip(f"{', '.join(new)}: not frozen yet; `python tests/test_golden.py` freezes all results")


@pytest.mark.parametrize("name", sorted(GOLDEN["results"]))
def test_results_stand(name: str) -> None:
    kind, _, which = name.partition(" ")
    fitted = result(which, "attention") if kind == "objective" else result("classify", which)
    # Other processors and builds differ in the last digits; a changed rule differs in the first.
    assert fitted == pytest.approx(GOLDEN["results"][name], rel=2e-3)


if __name__ == "__main__":
    FILE.write_text(json.dumps(measured(), indent=1) + "\n")
    print(FILE.read_text())
