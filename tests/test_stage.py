"""Stages on real (tiny) trainings: every objective learns, resumes bit for bit, and freezes what it should."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_tasks import MadeSpec

from headstart.errors import BadInput
from headstart.spec import merge, read
from headstart.stage import StageOutcome, StageSpec, identity, identity_document, read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task
from headstart.training.loop import BudgetSpec
from headstart.training.optim import FlatParameters

DATA = Path("none")
BASE: dict[str, Any] = {
    "task": MadeSpec(),
    "objective": {"kind": "classify"},
    "budget": {"epochs": 4},
    "model": {"width": 8, "blocks": 2, "mixer": {"kind": "attention", "heads": 2}},
    "optim": {"lr": 5e-3, "batch_size": 8},
}


def spec(**changes: Any) -> StageSpec:
    return read_stage(
        {**merge({k: v for k, v in BASE.items() if k != "task"}, changes), "task": changes.get("task", BASE["task"])},
    )


def run(stage: StageSpec, parent: StageOutcome | None = None, resume: Any = None) -> TrainedRun:
    return TrainedRun(stage, open_task(stage.task, DATA), None if parent is None else parent.best, resume=resume)


def trained(stage: StageSpec, parent: StageOutcome | None = None) -> tuple[StageOutcome, list[dict[str, Any]]]:
    live = run(stage, parent)
    records = [tick.record for tick in live.steps() if tick.record is not None]
    return live.finish(), records


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal bits; a missing target is NaN on both sides."""
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(-7.0), b.nan_to_num(-7.0))


def plain(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


CASES: dict[str, dict[str, Any]] = {
    "classify": {},
    "positions": {"task": MadeSpec(shape="positions")},
    "numbers": {"task": MadeSpec(shape="numbers"), "objective": {"kind": "regress"}},
    "pairs": {"task": MadeSpec(shape="pairs"), "objective": {"kind": "retrieve"}},
    "masked": {"objective": {"kind": "masked"}},
    "masked with gaps": {"task": MadeSpec(gaps=True), "objective": {"kind": "masked", "loss": "l2"}},
    "masked tokens": {"task": MadeSpec(tokens=True), "objective": {"kind": "masked", "loss": "tokens"}},
    "masked tokens that are joined": {
        "task": MadeSpec(tokens=True),
        "objective": {"kind": "masked", "loss": "tokens"},
        "model": {"encoder": {"patch": 5}},
    },
    "classes of joined tokens": {
        "task": MadeSpec(tokens=True, shape="positions"),
        "model": {"encoder": {"patch": 3}},
        "trainable": "backbone[1:]+head",
    },
    "masked channel": {"objective": {"kind": "masked"}, "model": {"encoder": {"masked": "channel"}}},
    "causal": {"objective": {"kind": "causal", "loss": "l1"}, "model": {"causal": True}},
    "batch norm": {"model": {"norm": "batch", "dropout": 0.1}},
    "buckets": {"optim": {"length_pool": 3, "weight_decay": 0.1, "clip": 0.5, "warmup_steps": 3}},
    "bfloat16": {"optim": {"precision": "bfloat16"}},
    "float64": {"optim": {"precision": "float64"}},
    "without validation": {"task": MadeSpec(validation=0)},
    "frozen features without validation": {"task": MadeSpec(validation=0), "trainable": "head"},
}


@pytest.mark.parametrize("name", CASES)
def test_a_stage_learns_and_goes_on_from_any_state_bit_for_bit(name: str) -> None:
    stage = spec(**CASES[name])
    whole, records = trained(stage)
    assert records[-1]["train"]["loss"] < records[0]["train"]["loss"] * 1.02
    live = run(stage)
    first = []
    for tick in live.steps():
        if tick.record is not None:
            first.append(tick.record)
        if tick.step == 11:
            state = tick.state()
            break
    later = run(stage, resume=state)
    second = [tick.record for tick in later.steps() if tick.record is not None]
    resumed = later.finish()
    assert plain(first + second) == plain(records)
    assert resumed.scores == whole.scores
    for which in ("best", "last", "predictions"):
        ours, theirs = getattr(resumed, which), getattr(whole, which)
        assert ours.keys() == theirs.keys()
        assert all(same(ours[k], theirs[k]) for k in ours), which


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    first, two, other = trained(spec())[0], trained(spec())[0], trained(spec(seed=1))[0]
    assert all(torch.equal(first.last[k], two.last[k]) for k in first.last)
    assert first.scores == two.scores
    assert any(not torch.equal(first.last[k], other.last[k]) for k in first.last)


def test_frozen_parts_keep_their_parents_bits_and_are_stored_as_a_reference() -> None:
    parent = spec(objective={"kind": "masked"})
    before = trained(parent)[0]
    child = read_stage({**_table(spec(trainable="head")), "parent": parent, "start": ["take(all-head)"]})
    after = trained(child, before)[0]
    assert set(after.frozen) == {k for k in after.last if not k.startswith("head")}
    assert all(torch.equal(after.last[k], before.best[k]) for k in after.frozen)
    assert after.account["trainable"] == sum(v.numel() for k, v in after.last.items() if k.startswith("head"))


def test_a_parent_in_double_precision_is_taken_as_it_is() -> None:
    parent = spec(optim={"precision": "float64"})
    before = trained(parent)[0]
    child = read_stage({**_table(parent), "parent": parent, "start": ["take(all)"], "trainable": "head"})
    after = trained(child, before)[0]
    frozen = [name for name in after.last if not name.startswith("head")]
    assert all(torch.equal(after.last[name], before.best[name]) for name in frozen)


def _table(stage: StageSpec) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in type(stage).model_fields}


def test_no_steps_means_started_and_untrained_and_still_scored() -> None:
    done, records = trained(spec(budget={"epochs": None, "steps": 0}))
    assert records == []
    assert done.scores["best"] == done.scores["last"]
    assert done.scores["best"]["test"]["accuracy"] >= 0
    assert done.budget["steps"] == 0


def test_tokens_are_a_budget_and_patience_ends_a_stage() -> None:
    done, _ = trained(spec(budget={"epochs": None, "tokens": 700}))
    assert 700 <= done.budget["tokens"] <= 700 + 8 * 12
    stale, records = trained(spec(budget={"epochs": 50, "evaluate_every": 1, "patience": 2}, optim={"lr": 1e-9}))
    assert len(records) < 50
    assert stale.budget["epochs"] == len(records)


def test_a_loss_that_is_no_number_diverges() -> None:
    done, records = trained(spec(optim={"lr": 1e30}, budget={"epochs": 20}))
    assert done.status == "diverged"
    assert records[-1]["train"]["loss"] is None


def test_an_early_best_is_kept_and_scored() -> None:
    done, records = trained(spec(optim={"lr": 0.3}, budget={"epochs": 6, "evaluate_every": 1}))
    scores = [r["val"]["accuracy"] for r in records]
    best = scores.index(max(scores))
    assert done.scores["best"]["step"] == records[best]["step"]
    assert done.scores["best"]["val"]["accuracy"] == pytest.approx(max(scores))
    assert done.scores["last"]["val"]["accuracy"] == pytest.approx(scores[-1])


@pytest.mark.parametrize(("scored", "splits"), [("val", {"val"}), ("held_out", {"val", "test"})])
def test_a_stage_may_leave_splits_unscored_and_trains_the_same_weights(scored: str, splits: set[str]) -> None:
    early = spec(optim={"lr": 0.3}, budget={"epochs": 6, "evaluate_every": 1})
    few = spec(optim={"lr": 0.3}, budget={"epochs": 6, "evaluate_every": 1, "scored": scored})
    (whole, records), (part, same_records) = trained(early), trained(few)
    assert plain(records) == plain(same_records)
    assert whole.scores["best"]["step"] < whole.scores["last"]["step"]
    assert all(same(whole.best[k], part.best[k]) and same(whole.last[k], part.last[k]) for k in whole.best)
    for which in ("best", "last"):
        for split in ("train", "val", "test"):
            assert part.scores[which][split] == (whole.scores[which][split] if split in splits else {})
    assert {name.partition("/")[0] for name in part.predictions} == splits
    assert identity(few, DATA) != identity(early, DATA)
    assert identity(spec(budget={"scored": "all"}), DATA) == identity(spec(), DATA), "neutral"
    sizes, task = (run(early).size(), run(few).size()), open_task(early.task, DATA)
    assert sizes[0].scored - sizes[1].scored == 2 * sum(
        task.split(name).units for name in ("train", "val", "test") if name not in splits
    )


def test_training_that_would_stop_by_validation_needs_some() -> None:
    with pytest.raises(BadInput, match=r"budget\.patience: .* task\.validation = 0 leaves none; leave one of both out"):
        spec(task=MadeSpec(validation=0), budget={"patience": 2})
    read_stage({"task": MadeSpec(validation=0), "objective": {"kind": "classify"}, "model": {"kind": "majority"}})


def test_where_val_trains_too_the_last_weights_stay_and_are_those_of_the_joined_rows() -> None:
    both, records = trained(spec(task=MadeSpec(validation=0)))
    task = open_task(MadeSpec(), DATA)
    by_hand = TrainedRun(spec(), replace(task, train=task.train.followed_by(task.val)))
    list(by_hand.steps())
    last = by_hand.finish().last
    assert all(same(both.best[k], last[k]) and same(both.last[k], last[k]) for k in last)
    assert len(records) == 10
    assert not any("val" in record for record in records)
    assert both.scores["best"] == both.scores["last"]
    assert both.scores["best"]["val"] == {}
    assert both.scores["best"]["test"]["accuracy"] > 0
    assert both.status == "complete"


def test_padding_and_batching_do_not_change_a_score() -> None:
    live = run(spec(task=MadeSpec(gaps=True)))
    wide = next(live.feeds["test"].in_order())
    alone = [live.feeds["test"].batch(np.array([i])) for i in range(len(wide))]
    together = live.model(wide)
    for i, first in enumerate(alone):
        assert torch.allclose(live.model(first)[0], together[i], atol=1e-5)


def test_json_holds_a_stage_whole() -> None:
    import json

    stage = read_stage({**BASE, "task": {"kind": "digits", "labelled": 100}})
    back = read_stage(json.loads(json.dumps(stage.model_dump(mode="json"))))
    assert back == stage
    assert identity(back, DATA) == identity(stage, DATA)


def test_place_and_runtime_are_no_part_of_an_identity(tmp_path: Path) -> None:
    stage = read_stage({**BASE, "task": {"kind": "digits"}})
    assert identity(stage, tmp_path) == identity(stage, tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optim": {"batch_size": 100}}, "optim.batch_size: 100 is more than the 48 train examples"),
        ({"objective": {"kind": "causal", "loss": "l1"}}, "set model.causal = true"),
        ({"objective": {"kind": "regress"}}, "'regress' needs number targets"),
        ({"objective": {"kind": "retrieve"}}, "needs pairs"),
        ({"trainable": "kernel"}, "trainable"),
        ({"trainable": "heed"}, "did you mean 'head'?"),
        ({"optim": {"decay": "hed", "weight_decay": 0.1}}, "optim.decay"),
        ({"optim": {"decay": "hed"}}, "optim.decay: no 'hed'; did you mean 'head'?"),
        ({"optim": {"warmup_steps": 5000}}, "optim.warmup_steps: 5,000 is more than the"),
        ({"objective": {"kind": "masked", "loss": "levels"}}, "needs an input of known levels"),
    ],
)
def test_what_does_not_fit_the_task_is_refused_before_training(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        run(spec(**changes))
    assert message in str(caught.value)


def test_an_endless_task_gives_every_epoch_its_own_examples() -> None:
    stage = read_stage(
        {**BASE, "task": {"kind": "bit_xor", "train": 32, "val": 16, "test": 16}, "budget": {"epochs": 3}}
    )
    live = run(stage)
    assert live.setting.fresh is not None
    first, second = (live.setting.fresh(epoch).batch(np.arange(32)).inputs for epoch in (0, 1))
    assert not torch.equal(first, second)
    whole, _ = trained(stage)
    ticks = live.steps()
    state = next(tick for tick in ticks if tick.step == 7).state()
    later = run(stage, resume=state)
    assert all(tick.step for tick in later.steps())
    resumed = later.finish().last
    assert all(torch.equal(resumed[k], v) for k, v in whole.last.items())


def test_marks_of_evaluations_are_the_nearest_steps_and_the_last() -> None:
    budget = read(BudgetSpec, {"epochs": 2.0, "evaluate_every": 0.3})
    assert [s for s in range(1, 21) if budget.evaluates_at(s, 10, 20)] == [3, 6, 9, 12, 15, 18, 20]
    endless = read(BudgetSpec, {"epochs": 1e9, "evaluate_every": 1e-6})
    assert endless.evaluates_at(10**9, 35, 35 * 10**9)


def test_an_untrained_parent_on_another_task_is_still_a_parent() -> None:
    def child(task: MadeSpec) -> StageSpec:
        parent = read_stage({**dict(spec()), "task": task, "objective": {"kind": "masked"}, "budget": {"steps": 0}})
        return read_stage({**dict(spec()), "parent": parent, "start": ("take(all-head)",)})

    assert child(MadeSpec()).parent is None
    assert child(MadeSpec(tokens=True)).parent is not None


def test_a_model_that_memory_cannot_hold_is_bad_input() -> None:
    stage = spec(model={"width": 2**24, "position": {"kind": "none"}})
    with pytest.raises(BadInput, match="model: width 16777216 and blocks 2 does not fit into memory"):
        run(stage)


def test_nothing_trainable_lives_where_the_model_does() -> None:
    model = torch.nn.Linear(2, 2, dtype=torch.float64)
    assert FlatParameters(model, [], set(), {}).weights.dtype == torch.float64


@pytest.mark.parametrize(
    ("changes", "hardly"),
    [
        ({}, True),
        ({"model": {"init": "gpt2_scaled"}}, False),
        ({"model": {"init": "standard"}}, False),
        ({"model": {"width": 768}}, False),
        ({"trainable": "all"}, False),
        ({"trainable": "head+mixer[1:2]"}, True),
        ({"start": ["draw(mixer, 0.07)"]}, False),
        ({"start": ["draw(query_key, 0.07)"]}, True),
    ],
)
def test_frozen_blocks_drawn_as_gpt2s_at_a_small_width_hardly_mix(changes: dict[str, Any], hardly: bool) -> None:
    model = {"width": 64, "init": "gpt2", **changes.pop("model", {})}
    table = {"task": {"kind": "digits"}, "objective": {"kind": "classify"}, "budget": {"steps": 1}, "trainable": "head"}
    stage = read_stage({**table, "model": model, **changes})
    assert stage.hardly_mixes is hardly
    assert ("hardly mix positions" in stage.shows_not) is hardly


@pytest.mark.parametrize(
    ("parent_init", "own_init", "width", "caveat"),
    [
        ("gpt2", "gpt2_scaled", 64, True),
        ("gpt2_scaled", "gpt2_scaled", 64, False),
        ("standard", "gpt2_scaled", 64, False),
        ("gpt2", "standard", 64, True),
        ("gpt2", "gpt2", 64, True),
        ("gpt2", "gpt2_scaled", 768, False),
    ],
)
def test_pretraining_from_a_deviation_that_is_small_at_its_width_is_said(
    parent_init: str, own_init: str, width: int, caveat: bool
) -> None:
    table = {"task": {"kind": "digits"}, "objective": {"kind": "classify"}, "budget": {"steps": 1}}
    parent = read_stage({**table, "model": {"width": width, "init": parent_init}})
    child = {**table, "model": {"width": width, "init": own_init}, "start": ["take(backbone)"], "trainable": "head"}
    assert ("pretraining began" in read_stage({**child, "parent": parent}).shows_not) is caveat
    drawn = read_stage({**table, "model": {"width": width, "init": parent_init}, "start": ["draw(mixer, 0.07)"]})
    assert "pretraining began" not in read_stage({**child, "parent": drawn}).shows_not


def test_frozen_blocks_of_a_parent_are_no_random_start() -> None:
    table = {"task": {"kind": "digits"}, "objective": {"kind": "classify"}, "budget": {"steps": 1}}
    model = {"width": 64, "init": "gpt2"}
    parent = read_stage({**table, "model": model})
    for start, hardly in (("take(backbone)", False), ("match(backbone)", False), ("take(feed_forward)", True)):
        child = {**table, "model": model, "parent": parent, "start": [start], "trainable": "head"}
        assert read_stage(child).hardly_mixes is hardly


def test_a_mixer_whose_results_in_half_precision_changed_has_another_identity_there_alone() -> None:
    def of(precision: str, mixer: dict[str, object]) -> dict[str, object]:
        model = {"width": 8, "blocks": 1, "mixer": mixer}
        return identity_document(spec(model=model, optim={"precision": precision}), DATA)

    changed = {"kind": "retnet", "heads": 2}
    assert of("bfloat16", changed)["mixed version"] == 2
    assert of("bfloat16", {"kind": "parallel", "mixers": [{"kind": "s4d"}, changed]})["mixed version"] == 2
    assert "mixed version" not in of("float32", changed)
    assert "mixed version" not in of("bfloat16", {"kind": "attention"})
