"""Frozen layers that are computed once: the same training as with every step through the whole model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_tasks import MadeSpec
from support.mixers import example_of

from headstart.models.contract import counted_flops
from headstart.models.mixers import MIXERS
from headstart.spec import merge
from headstart.stage import StageOutcome, read_stage
from headstart.stage.trained import TrainedRun
from headstart.study.language.budgets import Outlines
from headstart.tasks import Task, open_task
from headstart.training import features

DATA = Path("none")
BASE: dict[str, Any] = {
    "objective": {"kind": "classify"},
    "budget": {"epochs": 3},
    "trainable": "head",
    "model": {"width": 8, "blocks": 2, "mixer": {"kind": "attention", "heads": 2}},
    # A key's bias has no gradient but rounding, which a smaller epsilon would make steps of.
    "optim": {"lr": 5e-3, "batch_size": 8, "epsilon": 1e-4},
}


def begun(task: Any = None, equal_lengths: bool = False, resume: Any = None, **changes: Any) -> TrainedRun:
    made = MadeSpec(**(task or {}))
    opened = open_task(made, DATA)
    if equal_lengths:
        opened = cut(opened, 5)
    return TrainedRun(read_stage({**merge(BASE, changes), "task": made}), opened, resume=resume)


def cut(task: Task, length: int) -> Task:
    """The first positions of each example, as many of each."""
    sets = {}
    for name in ("train", "val", "test"):
        examples = task.split(name)
        picked = (examples.offsets[:-1, None] + np.arange(length)).reshape(-1)
        offsets = np.arange(len(examples) + 1, dtype=np.int64) * length
        sets[name] = replace(examples, values=examples.values[picked], offsets=offsets)
    return replace(task, signature=replace(task.signature, length=length, shortest=length), **sets)


def finished(live: TrainedRun) -> tuple[StageOutcome, list[Any]]:
    records = [tick.record for tick in live.steps() if tick.record is not None]
    return live.finish(), records


APPLIES: dict[str, dict[str, Any]] = {
    **{f"mixer {name}": {"model": {"mixer": example_of(MIXERS[name].load())}} for name in MIXERS if name != "reformer"},
    **{f"pool {pool}": {"model": {"pool": pool}} for pool in ("max", "last")},
    "equal lengths": {"equal_lengths": True},
    "positions": {"task": {"shape": "positions"}},
    "tokens": {"task": {"tokens": True}},
    "numbers": {"task": {"shape": "numbers"}, "objective": {"kind": "regress"}},
    "pairs": {"task": {"shape": "pairs"}, "objective": {"kind": "retrieve"}},
    "pairs of equal lengths": {
        "task": {"shape": "pairs"},
        "objective": {"kind": "retrieve"},
        "equal_lengths": True,
    },
    "gaps": {"task": {"gaps": True}},
    "next tokens": {"task": {"tokens": True}, "objective": {"kind": "causal"}, "model": {"causal": True}},
    "norms behind": {"model": {"norm_place": "after"}},
    "relative positions": {"model": {"position": {"kind": "relative"}}, "trainable": "backbone[1:]+head"},
    "last norm": {"trainable": "norm+head-norm[0:]"},
    "last batch norm": {"trainable": "norm+head-norm[0:]", "model": {"norm": "batch"}},
    "frozen batch norms": {"model": {"norm": "batch"}},
    "last block": {"trainable": "backbone[1:]+head"},
    "a later feed-forward layer": {"trainable": "feed_forward[1:]+head", "equal_lengths": True},
    "buckets, decay": {"optim": {"length_pool": 3, "weight_decay": 0.1, "clip": 0.5}},
    "float64": {"optim": {"precision": "float64"}},
}


@pytest.mark.parametrize("name", APPLIES)
def test_features_that_are_computed_once_train_as_the_plain_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    live = begun(**APPLIES[name])
    assert set(live.progress.features) == {"train", "val", "test"}
    once, records = finished(live)
    monkeypatch.setattr(features, "FEATURE_BYTES", 0)
    live = begun(**APPLIES[name])
    assert not live.progress.features
    plain, others = finished(live)
    assert len(records) == len(others) > 0
    for which in ("best", "last", "predictions"):
        ours, theirs = getattr(once, which), getattr(plain, which)
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            assert ours[key].dtype == value.dtype
            valid = theirs.get(key.replace("/output", "/valid"))
            if key.endswith("/output") and valid is not None:  # what stands at padded positions means nothing
                ours[key], value = ours[key][valid], value[valid]
            torch.testing.assert_close(ours[key], value, rtol=0, atol=1e-5 * max(1.0, largest(value)), equal_nan=True)
    for ours, theirs in zip(records, others, strict=True):
        assert ours["tokens"] == theirs["tokens"]
        assert ours["val"] == pytest.approx(theirs["val"], rel=1e-4, abs=1e-5)
        assert ours["train"] == pytest.approx(theirs["train"], rel=1e-4, abs=1e-5)


def largest(value: torch.Tensor) -> float:
    return float(value.double().nan_to_num().abs().max()) if value.numel() else 0.0


PLAIN: dict[str, dict[str, Any]] = {
    "dropout": {"model": {"dropout": 0.1}},
    "hashing": {"model": {"mixer": example_of(MIXERS["reformer"].load())}},
    "hashing in one mixer of two": {
        "model": {"mixer": [example_of(MIXERS["reformer"].load()), {"kind": "attention"}]},
        "trainable": "backbone[1:]+head",
    },
    "masks": {"objective": {"kind": "masked"}},
    "all": {"trainable": "all"},
    "a norm in the first block": {"trainable": "norm+head"},
    "positions that every block adds": {"trainable": "position+head", "model": {"position": {"kind": "relative"}}},
    "less than an epoch": {"budget": {"epochs": None, "steps": 5}},
}


@pytest.mark.parametrize("name", PLAIN)
def test_every_step_passes_the_whole_model_where_features_would_differ(name: str) -> None:
    assert not begun(**PLAIN[name]).progress.features


def test_a_block_above_one_that_hashes_may_hash() -> None:
    mixers = [{"kind": "attention"}, example_of(MIXERS["reformer"].load())]
    assert begun(model={"mixer": mixers}, trainable="backbone[1:]+head").progress.features
    assert not begun(model={"mixer": mixers}).progress.features


def test_inputs_that_change_from_epoch_to_epoch_pass_the_whole_model() -> None:
    stage = read_stage({**BASE, "task": MadeSpec()})
    task = open_task(MadeSpec(), DATA)
    assert TrainedRun(stage, task).progress.features
    assert not TrainedRun(stage, replace(task, augment=lambda examples, _: examples)).progress.features
    assert not TrainedRun(stage, replace(task, fresh=lambda _: task.train)).progress.features


@pytest.mark.parametrize("name", ["gaps", "positions", "pairs", "last batch norm", "pairs of equal lengths"])
@pytest.mark.parametrize("ticks", [1, 4, 7, 13])
def test_a_stage_that_was_interrupted_goes_on_to_equal_bits(name: str, ticks: int) -> None:
    whole, records = finished(begun(**APPLIES[name]))
    first: list[Any] = []
    for number, tick in enumerate(begun(**APPLIES[name]).steps(), 1):
        first += [tick.record] if tick.record is not None else []
        if number == ticks:
            state = tick.state()
            break
    later = begun(**APPLIES[name], resume=state)
    assert sum(feed.done for feed in later.progress.features.values()) > 0
    resumed, second = finished(later)
    strip = [[{k: v for k, v in r.items() if k != "seconds"} for r in some] for some in (first + second, records)]
    assert strip[0] == strip[1]
    assert resumed.scores == whole.scores
    assert {k: v for k, v in resumed.budget.items() if k not in ("seconds", "peak_memory")} == {
        k: v for k, v in whole.budget.items() if k not in ("seconds", "peak_memory")
    }
    for which in ("best", "last", "predictions"):
        ours, theirs = getattr(resumed, which), getattr(whole, which)
        assert all(torch.equal(ours[k].nan_to_num(-7.0), theirs[k].nan_to_num(-7.0)) for k in theirs), which


def test_a_state_without_features_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "FEATURE_BYTES", 0)
    state = next(tick.state() for tick in begun().steps() if tick.step == 5)
    monkeypatch.undo()
    again, _ = finished(begun(resume=state))
    assert again.scores["last"]["test"] == pytest.approx(finished(begun())[0].scores["last"]["test"], abs=1e-4)


def test_a_frozen_layer_is_passed_once_a_unit_and_counted_so() -> None:
    live = begun(task={"shape": "positions"}, equal_lengths=True)
    once = counted_flops(lambda: list(live.progress.features["train"].fill()))
    assert live.unit_flops("frozen") * 48 == pytest.approx(once, rel=0.05)
    assert live.size().once == 48 + 16 + 16
    done, _ = finished(live)
    upper = live.unit_flops("training") - live.unit_flops("frozen")
    assert done.budget["examples"] == 3 * 48
    assert done.budget["flops"] == pytest.approx(48 * live.unit_flops("frozen") + 3 * 48 * upper)
    assert live.size().flops == pytest.approx(done.budget["flops"])
    assert counted_flops(lambda: list(live.steps())) == 0, "nothing is left to do"


@pytest.mark.parametrize("name", ["attention", "s4", "lstm"])
def test_a_plan_knows_without_numbers_that_frozen_layers_are_passed_once(name: str) -> None:
    mixer = example_of(MIXERS[name].load())
    with torch.device("meta"):
        live = TrainedRun(
            read_stage({**merge(BASE, {"model": {"mixer": mixer}}), "task": MadeSpec()}),
            open_task(MadeSpec(), DATA),
            device="meta",
        )
    assert live.size() == begun(model={"mixer": mixer}).size()
    assert live.size().once == 80


def test_a_budget_in_flops_buys_as_many_steps_as_without_features() -> None:
    stage = read_stage({**BASE, "task": MadeSpec(), "budget": {"flops": 1e7}})
    live = begun()
    steps = round(1e7 * 6 / (48 * live.unit_flops("training")))
    assert Outlines(DATA).in_steps(stage).budget.steps == steps > 0


def test_the_last_weights_are_scored_once_where_they_are_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    live = begun(budget={"epochs": 1, "evaluate_every": 1})
    list(live.steps())
    splits: list[str] = []
    real = TrainedRun._evaluate
    monkeypatch.setattr(TrainedRun, "_evaluate", lambda run, name, keep: splits.append(name) or real(run, name, keep))
    done = live.finish()
    assert splits == ["train", "val", "test"]
    assert done.scores["best"] == done.scores["last"]
    assert done.scores["best"] is not done.scores["last"]
