"""Training as people do it: parts of a batch, averages of weights, schedules, and what does not decay."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.made_tasks import MadeSpec

from headstart.errors import BadInput
from headstart.parameters import leaves
from headstart.spec import digest, read
from headstart.stage import read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task
from headstart.training.optim import OptimSpec, flat_parameters


def begun(state: Any = None, shape: str = "class", validation: int = 1, **optim: Any) -> TrainedRun:
    """A small stage, ready to train 12 steps."""
    task = MadeSpec(shape=shape)
    table = {
        "task": task,
        "objective": {"kind": {"numbers": "regress", "pairs": "retrieve"}.get(shape, "classify")},
        "model": {"width": 16, "blocks": 1, "dropout": 0.1},
        "optim": {"lr": 0.02, "batch_size": 8, "precision": "float64", **optim},
        "budget": {"steps": 12, "evaluate_every": 3},
    }
    return TrainedRun(read_stage(table), open_task(task, Path("none")), None, resume=state)


def ended(run: TrainedRun) -> TrainedRun:
    for _ in run.steps():
        pass
    return run


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("shape", ["class", "numbers", "pairs", "positions"])
def test_a_batch_in_parts_takes_the_step_of_the_whole(shape: str, parts: int) -> None:
    whole, divided = (ended(begun(shape=shape, accumulate=n)).progress for n in (1, parts))
    assert (whole.flat.weights - divided.flat.weights).abs().max() < 1e-6
    assert whole.examples == divided.examples


def test_parts_that_do_not_divide_a_batch_are_refused_with_sizes_that_would() -> None:
    with pytest.raises(BadInput, match=r"accumulate 3 does not divide batch_size 8; .* such as 2, or batch_size = 9"):
        read(OptimSpec, {"batch_size": 8, "accumulate": 3})
    with pytest.raises(BadInput, match=rf"such as 8, or batch_size = {10**400}$"):
        read(OptimSpec, {"batch_size": 8, "accumulate": 10**400})
    for table in ({"batch_size": 8, "accumulate": 2}, {"batch_size": 9, "accumulate": 3}):
        read(OptimSpec, table)


def test_parts_of_a_batch_are_refused_beside_a_batch_norm() -> None:
    table = {
        "task": MadeSpec(shape="class"),
        "objective": {"kind": "classify"},
        "model": {"width": 16, "blocks": 1, "norm": "batch"},
        "optim": {"batch_size": 8, "accumulate": 2},
        "budget": {"steps": 1},
    }
    with pytest.raises(BadInput, match=r"optim.accumulate: 2 parts .* batch norm"):
        TrainedRun(read_stage(table), open_task(MadeSpec(shape="class"), Path("none")), None)


def test_an_average_of_weights_is_what_a_loop_would_keep() -> None:
    run = begun(average=0.7)
    slow = run.progress.flat.weights.clone()
    for _ in run.steps():
        slow = 0.7 * slow + 0.3 * run.progress.flat.weights
    assert run.progress.flat.average is not None
    assert torch.allclose(run.progress.flat.average, slow, rtol=0, atol=1e-12)
    plain = ended(begun())
    assert torch.equal(run.progress.flat.weights, plain.progress.flat.weights), "training itself goes on as before"


def test_the_average_is_what_is_scored_and_best_and_the_plain_weights_are_saved_beside() -> None:
    run = ended(begun(average=0.7))
    plain, outcome = run.progress.flat.weights.clone(), run.finish()
    tensors, first = run.progress.flat.tensors, 0
    for name, tensor in tensors.items():
        assert torch.equal(outcome.last[name].reshape(-1), plain[first : first + tensor.numel()])
        first += tensor.numel()
    assert not all(torch.equal(outcome.best[name], outcome.last[name]) for name in tensors)
    assert outcome.scores["best"]["val"] != outcome.scores["last"]["val"]
    assert outcome.scores["best"]["step"] == run.progress.best_step


@pytest.mark.parametrize(
    "optim",
    [{"average": 0.7}, {"accumulate": 2}, {"schedule": "stable_decay"}, {"rate_shares": {"encoder": 0.1}}],
    ids=str,
)
def test_a_stage_goes_on_to_equal_bits(optim: dict[str, Any]) -> None:
    whole, state = ended(begun(**optim)), None
    for tick in begun(**optim).steps():
        if tick.step == 7:
            state = tick.state()
            break
    again = ended(begun(state, **optim))
    ours, theirs = whole.progress.state()[0], again.progress.state()[0]
    assert set(ours) == set(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert ("average" in ours) == ("average" in optim)


def test_an_average_longer_than_the_budget_is_refused_and_the_way_out_is_taken() -> None:
    with pytest.raises(BadInput, match=r"optim.average: 0.999 averages over about 1,000 steps.* at most 0.9\b"):
        OptimSpec(average=0.999).check_total(10)
    OptimSpec(average=0.9).check_total(10)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"schedule": "linear"}, lambda t: 1 - (t - 10) / 100),
        ({"schedule": "linear", "final_share": 0.1}, lambda t: 1 - 0.9 * (t - 10) / 100),
        ({"schedule": "inverse_sqrt"}, lambda t: math.sqrt(10 / (t + 1))),
        ({"schedule": "stable_decay"}, lambda t: 1.0 if t < 88 else 1 - (t - 88) / 22),
        (
            {"schedule": "stable_decay", "cooldown_share": 0.5, "final_share": 0.2},
            lambda t: 1.0 if t < 55 else 1 - 0.8 * (t - 55) / 55,
        ),
    ],
)
def test_a_schedule_is_that_of_its_formula(table: dict[str, Any], expected: Any) -> None:
    spec = read(OptimSpec, {**table, "warmup_steps": 10})
    for step in range(10):
        assert spec.factor(step, 110) == pytest.approx((step + 1) / 10)
    for step in range(10, 110):
        assert spec.factor(step, 110) == pytest.approx(expected(step))


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"schedule": "inverse_sqrt"}, "there is none; give warmup_steps or warmup_share"),
        ({"schedule": "inverse_sqrt", "warmup_steps": 3, "final_share": 0.1}, "schedule is 'inverse_sqrt'; set final"),
        ({"schedule": "linear", "cooldown_share": 0.1}, "cooldown_share is for the schedule 'stable_decay'"),
        ({"schedule": "lineal"}, "'lineal'"),
        ({"average": 1.0}, "average"),
        ({"accumulate": 0}, "accumulate"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(table: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput, match=text):
        read(OptimSpec, table)


def test_a_warm_up_and_a_fall_longer_than_the_budget_are_refused_and_the_way_out_is_taken() -> None:
    spec = OptimSpec(schedule="stable_decay", warmup_steps=5, cooldown_share=0.8)
    with pytest.raises(BadInput, match=r"optim.cooldown_share: 0.8 of the 10 steps .* give at most 0.5$"):
        spec.check_total(10)
    OptimSpec(schedule="stable_decay", warmup_steps=5, cooldown_share=0.5).check_total(10)


def test_norms_and_biases_do_not_decay_where_it_is_said() -> None:
    run = begun()
    model = run.model
    spec = OptimSpec(weight_decay=0.1, decay="all-norm-bias")
    flat = flat_parameters(model, [name for name, _ in model.named_parameters()], spec)
    decayed = [group for group in flat.groups if group.decays]
    parts, first = leaves(model), 0
    for name, tensor in flat.tensors.items():
        inside = any(group.first <= first < group.last for group in decayed)
        assert inside == (parts[name] != "norm" and not name.endswith("bias")), name
        first += tensor.numel()
    with pytest.raises(BadInput, match="no 'biass'; did you mean 'bias'"):
        flat_parameters(model, list(flat.tensors), OptimSpec(weight_decay=0.1, decay="all-biass"))


@pytest.mark.parametrize("kind", ["adamw", "sgd", "muon"])
def test_parts_learn_at_their_share_of_the_rate(kind: str) -> None:
    before = begun(kind=kind).progress.flat.tensors
    start = {name: tensor.clone() for name, tensor in before.items()}
    steps = []
    for shares in ({}, {"encoder": 0.1, "backbone-norm": 0.5}):
        run = begun(kind=kind, rate_shares=shares)
        next(run.steps())
        steps.append({name: tensor.detach() - start[name] for name, tensor in run.progress.flat.tensors.items()})
    for name, part in leaves(begun().model).items():
        share = {"encoder": 0.1, "norm": 1.0, "head": 1.0}.get(part, 0.5)
        assert torch.allclose(steps[1][name], share * steps[0][name], rtol=1e-6, atol=1e-12), name


def test_a_part_that_is_unknown_or_twice_among_shares_of_the_rate_is_refused_with_a_way_out() -> None:
    with pytest.raises(BadInput, match=r"optim.rate_shares: no 'encodr'; did you mean 'encoder'"):
        begun(rate_shares={"encodr": 0.1})
    with pytest.raises(BadInput, match=r"optim.rate_shares: 'norm' and one before it both hold .*; subtract one"):
        begun(rate_shares={"backbone": 0.1, "norm": 0.5})
    begun(rate_shares={"backbone-norm": 0.1, "norm": 0.5})
    with pytest.raises(BadInput, match=r"rate_shares.encoder: .* greater than 0"):
        read(OptimSpec, {"rate_shares": {"encoder": 0.0}})


def test_new_settings_leave_no_trace_in_an_identity_while_they_are_not_used() -> None:
    plain = OptimSpec().document()
    assert not {"accumulate", "average", "cooldown_share", "rate_shares"} & set(plain)
    assert digest(plain) == digest(OptimSpec(accumulate=1, cooldown_share=0.2).document())


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("cosin", r"^optim.schedule.kind: no 'cosin'; did you mean 'cosine'\?$"),
        (3, r"^optim.schedule: 3 is not a table"),
        (["cosine"], r"^optim.schedule: .*is not a table"),
        ({"kind": "linear", "final_share": 0.1}, r"^optim.schedule: .*write schedule = 'linear'$"),
    ],
)
def test_a_schedule_that_there_is_not_is_refused_in_one_line_and_a_table_of_a_name_is_the_name(
    schedule: Any, text: str
) -> None:
    with pytest.raises(BadInput, match=text):
        read(OptimSpec, {"schedule": schedule}, "optim")
    assert read(OptimSpec, {"schedule": {"kind": "linear"}}) == OptimSpec(schedule="linear")
