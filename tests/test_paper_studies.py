"""The papers' studies at work: one stage of every kind that they hold, and a study that is broken off and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.planning import has_scales

from headstart.runner.events import Failed, Finished
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.stage import StageSpec, identity
from headstart.store import Store
from headstart.study.language.files import built_in_studies
from headstart.study.language.plan import PlannedStage, make_plan
from headstart.study.language.spec import read_study

pytestmark = pytest.mark.slow
STEPS = 2
WORDS = ("take", "match", "draw")


def kinds_of(spec: StageSpec) -> list[tuple[Any, ...]]:
    """What makes a stage unlike others: how it is asked, started and trained; and what its blocks mix with."""
    starts = tuple(sorted({word for word in WORDS for entry in spec.start if entry.strip().startswith(word)}))
    asked = (spec.objective.kind, getattr(spec.objective, "loss", None), spec.model.causal)
    above = None if spec.parent is None else spec.parent.objective.kind
    mixers = tuple(sorted({mixer.kind for mixer in spec.model.mixers}))
    return [("asked", asked, starts, spec.trainable == "all", above), ("mixes", mixers)]


def size_of(spec: StageSpec) -> float:
    """About what a step costs, to take the cheapest of a kind."""
    train = getattr(spec.task, "train", 1000) * spec.task.fraction
    return spec.model.width * spec.model.blocks * (train + 1) * (1 if spec.parent is None else 2)


def short(spec: StageSpec) -> StageSpec:
    """The same stage and its parents with a few steps each, on few examples."""
    parent = None if spec.parent is None else short(spec.parent)
    budget = spec.budget.model_copy(update={"epochs": None, "tokens": None, "steps": STEPS, "evaluate_every": 2.0})
    few: dict[str, Any] = {name: 60 for name in ("train", "val", "test") if hasattr(spec.task, name)}
    task = type(spec.task).model_validate(
        {**spec.task.model_dump(), **few, "fraction": 1.0 if few else 0.2, "labelled": None}
    )
    optim = spec.optim.model_copy(
        update={"batch_size": min(spec.optim.batch_size, 16), "warmup_steps": min(spec.optim.warmup_steps, STEPS)}
    )
    return spec.model_copy(update={"parent": parent, "budget": budget, "task": task, "optim": optim})


@cache
def kinds(folder: Path = Path("/nonexistent")) -> dict[tuple[Any, ...], StageSpec]:
    """The cheapest stage of every kind, over all studies at scale tiny, with what it leaves out of them."""
    cheapest: dict[tuple[Any, ...], StageSpec] = {}
    for name in built_in_studies():
        whole = read_study(name, scale="paper" if has_scales(name) else None)
        every = [f"{kind}={json.dumps(list(getattr(whole, kind)))}" for kind in ("columns", "arms")]
        plan = make_plan(read_study(name, every, data=folder), folder, absent="open")
        for planned in plan.stages.values():
            if planned.open:
                continue
            for key in kinds_of(planned.spec):
                if key not in cheapest or size_of(planned.spec) < size_of(cheapest[key]):
                    cheapest[key] = planned.spec
    return cheapest


def with_parents(spec: StageSpec, folder: Path) -> list[PlannedStage]:
    above = [] if spec.parent is None else with_parents(spec.parent, folder)
    return [*above, PlannedStage(spec.objective.kind, spec, identity(spec, folder))]


def test_the_kinds_of_stages_are_those_that_the_papers_need() -> None:
    asked = [key for key in kinds() if key[0] == "asked"]
    assert {key[1][0] for key in asked} == {"masked", "causal", "classify", "regress", "retrieve"}
    mixers = {mixer for key in kinds() if key[0] == "mixes" for mixer in key[1]}
    assert {
        "attention",
        "local_attention",
        "longformer",
        "linformer",
        "reformer",
        "bigbird",
        "linear_attention",
        "performer",
        "s4",
        "dlr",
        "mega",
        "parallel",
        "lstm",
    } <= mixers
    assert {word for key in asked for word in key[2]} == set(WORDS)
    assert {key[3] for key in asked} == {True, False}


@pytest.mark.parametrize("part", range(4))
def test_a_stage_of_every_kind_trains_and_is_scored(part: int, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    wanted = {}
    for spec in list({id(spec): spec for spec in kinds().values()}.values())[part::4]:
        for planned in with_parents(short(spec), tmp_path):
            wanted[planned.identity] = planned
    events = list(perform(wanted.values(), store, Runtime(tmp_path, "cpu", 0, 1)))
    assert not [event for event in events if isinstance(event, Failed)]
    done = {event.identity: event.result for event in events if isinstance(event, Finished)}
    assert set(done) == set(wanted)
    for result in done.values():
        assert result["status"] == "complete"
        assert result["budget"]["steps"] == STEPS
        name = result["monitor"]["name"]
        assert isinstance(result["scores"]["best"]["test"][name], float)


BROKEN_OFF = [
    "headstart",
    "run",
    "coser-4",
    "--scale",
    "tiny",
    'columns=["image"]',
    "seed=[0,1]",
    "pretrain.budget.steps=4",
    "finetune.budget.steps=4",
    "finetune.budget.evaluate_every=2",
]
SECTIONS = ("Beside the paper, cell by cell", "Claims of the paper, checked here")


def ran(folder: Path, *more: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", *BROKEN_OFF, "--json", "rows.json", *more],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=quiet(folder),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads((folder / "rows.json").read_text("utf-8"))
    for row in document["rows"]:
        for amounts in (row["budget"], row["budget"]["last_stage"], row["budget"]["all_tried"]):
            amounts.pop("seconds")
    (page,) = folder.glob("runs/reports/*/results.md")
    folds = page.read_text("utf-8").split('<details markdown="1"><summary>')[1:]
    of = dict(part.split("</summary>", 1) for part in folds)
    return {**document, **{name: of[name] for name in SECTIONS}}


def quiet(folder: Path) -> dict[str, str]:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("HEADSTART_")}
    return {**variables, "HEADSTART_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}


def test_a_study_that_is_killed_and_resumed_prints_the_same_table(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected = ran(whole, "--workers", "0")
    child = subprocess.Popen(
        [sys.executable, "-m", *BROKEN_OFF, "--workers", "2"],
        cwd=broken,
        env=quiet(broken),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and child.poll() is None and not list(broken.glob("runs/*/result.json")):
        time.sleep(0.02)
    finished = child.poll()
    if finished is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    results = len(list(broken.glob("runs/*/result.json")))
    assert results >= 1
    again = ran(broken, "--workers", "2")
    assert again["rows"] == expected["rows"]
    assert again["caveats"] == expected["caveats"]
    for name, part in zip(SECTIONS, ("| image", "2 paired seeds"), strict=True):
        assert part in expected[name]
        assert again[name] == expected[name]
