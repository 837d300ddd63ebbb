"""The optimiser against torch's own, its schedules and groups."""

import math
from pathlib import Path

import pytest
import torch
from support.made_tasks import MadeSpec
from torch import nn

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.sequence import Signature
from headstart.spec import read
from headstart.stage import read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task
from headstart.training.optim import (
    FlatParameters,
    Group,
    Moments,
    OptimSpec,
    flat_parameters,
    orthogonal,
    rates_and_undecayed,
    step_numbers,
    update_,
)


def _model(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 3)).to(dtype)


def _step(flat: FlatParameters, spec: OptimSpec, step: int, total: int = 100) -> None:
    """One step of ours from the gradients of the tensors, which are then cleared."""
    grads = [torch.zeros_like(t) if t.grad is None else t.grad for t in flat.tensors.values()]
    numbers = step_numbers(spec, flat.groups, total, step)
    update_(flat.weights, flat.moments, torch.cat([grad.reshape(-1) for grad in grads]), numbers, spec, flat.groups)
    for tensor in flat.tensors.values():
        tensor.grad = None


def _train(model: nn.Module, update, steps: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        x = torch.randn(16, 5, generator=generator, dtype=dtype)
        model(x).square().mean().backward()
        update(step)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_a_hundred_steps_equal_torch_adamw(decay: float, clip: float | None) -> None:
    dtype = torch.float64
    ours, theirs = _model(dtype), _model(dtype)
    spec = OptimSpec(lr=3e-3, schedule="constant", weight_decay=decay, clip=clip)
    names = [name for name, _ in ours.named_parameters()]
    flat = FlatParameters(ours, names, set(names), {})
    reference = torch.optim.AdamW(theirs.parameters(), lr=3e-3, weight_decay=decay)

    def torch_update(step: int) -> None:
        if clip is not None:
            nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        reference.step()
        reference.zero_grad()

    _train(ours, lambda step: _step(flat, spec, step), 100, dtype)
    _train(theirs, torch_update, 100, dtype)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a - b).abs().max() < 1e-7, name


def test_a_hundred_float32_steps_stay_within_1e_7_of_torch() -> None:
    ours, theirs = _model(), _model()
    names = [name for name, _ in ours.named_parameters()]
    flat = FlatParameters(ours, names, set(), {})
    reference = torch.optim.AdamW(theirs.parameters(), lr=1e-4, weight_decay=0.0)
    spec = OptimSpec(lr=1e-4, schedule="constant")
    _train(ours, lambda step: _step(flat, spec, step), 100, torch.float32)
    _train(theirs, lambda _: (reference.step(), reference.zero_grad()), 100, torch.float32)
    worst = max(
        float((a - b).detach().abs().max()) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True)
    )
    assert worst <= 1e-7


def test_decay_shrinks_only_the_named_and_rates_move_only_their_own() -> None:
    model = _model()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    flat = FlatParameters(model, ["0.weight", "0.bias", "3.weight"], {"0.weight"}, {"3.weight": 0.5})
    _step(flat, OptimSpec(lr=0.1, schedule="constant", weight_decay=0.1), 0, 1)
    after = dict(model.named_parameters())
    assert torch.allclose(after["0.weight"], before["0.weight"] * (1 - 0.1 * 0.1))
    assert torch.equal(after["0.bias"], before["0.bias"])
    assert torch.equal(after["3.weight"], before["3.weight"])
    for tensor in flat.tensors.values():
        tensor.grad = torch.ones_like(tensor)
    _step(flat, OptimSpec(lr=0.1, schedule="constant", epsilon=1e-12), 0, 1)
    moved = (dict(model.named_parameters())["3.weight"] - after["3.weight"].detach()).abs().max()
    assert moved == 0, "views: the parameter is the buffer"
    assert torch.allclose(before["3.weight"] - after["3.weight"], torch.tensor(0.5), atol=1e-4)
    assert torch.equal(after["3.bias"], before["3.bias"]), "a frozen tensor neither moves nor decays"


def test_the_schedule_warms_up_then_falls_along_a_cosine() -> None:
    spec = OptimSpec(warmup_steps=10)
    assert spec.factor(0, 110) == pytest.approx(0.1)
    assert spec.factor(9, 110) == 1.0
    assert spec.factor(60, 110) == pytest.approx(0.5)
    assert spec.factor(109, 110) == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.99)))
    assert OptimSpec(schedule="constant", warmup_steps=4).factor(50, 110) == 1.0
    assert OptimSpec(final_share=0.1).factor(10**6, 10**6) == pytest.approx(0.1)


def test_two_ways_to_say_the_warm_up_are_refused() -> None:
    with pytest.raises(BadInput, match="warmup_steps and warmup_share"):
        read(OptimSpec, {"warmup_steps": 1, "warmup_share": 0.1})


def test_a_share_at_the_end_of_a_constant_schedule_is_refused() -> None:
    with pytest.raises(BadInput, match=r"final_share 0.1 .* set final_share = 0, or schedule = 'cosine'"):
        read(OptimSpec, {"schedule": "constant", "final_share": 0.1})
    read(OptimSpec, {"schedule": "constant", "final_share": 0.0})


def test_a_warm_up_longer_than_the_budget_is_refused_and_one_as_long_is_not() -> None:
    spec = OptimSpec(lr=1e-2, warmup_steps=5000)
    message = (
        "optim.warmup_steps: 5,000 is more than the 8 steps of the budget, in which the rate would rise to "
        "1.6e-05 of lr = 0.01; give at most 8, or warmup_share"
    )
    with pytest.raises(BadInput) as caught:
        spec.check_total(8)
    assert str(caught.value) == message
    for total in (0, 5000):  # untrained, or the peak is the last step
        spec.check_total(total)


@pytest.mark.parametrize("decay", ["rubbish", "all-", "mixer[7]", "mixer[0:x]", "head-head"])
def test_parts_that_decay_are_read_even_where_nothing_decays(decay: str) -> None:
    model = build_model(
        ModelSpec(width=8, blocks=1), Signature("floats", 2, 8, 8, "class", 3), Output("sequence", 3), 0
    )
    names = [name for name, _ in model.named_parameters()]
    for weight_decay in (0.0, 0.1):
        with pytest.raises(BadInput, match=r"^optim\.decay: "):
            flat_parameters(model, names, OptimSpec(decay=decay, weight_decay=weight_decay))
    assert not any(group.decays for group in flat_parameters(model, names, OptimSpec(decay="head")).groups)


def test_a_module_declares_its_own_rates_and_what_never_decays() -> None:
    class Kernel(nn.Linear):
        rates = {"weight": 1e-4}  # noqa: RUF012
        undecayed = {"weight", "bias"}  # noqa: RUF012

    model = nn.Sequential(nn.Linear(2, 2), Kernel(2, 2))
    rates, undecayed = rates_and_undecayed(model)
    assert rates == {"1.weight": 1e-4}
    assert undecayed == {"1.weight", "1.bias"}


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("momentum", "clip"), [(None, None), (0.0, 0.05), (0.6, 0.05)])
def test_a_hundred_steps_of_sgd_equal_those_of_torch(decay: float, momentum: float | None, clip: float | None) -> None:
    ours, theirs = _model(torch.float64), _model(torch.float64)
    spec = OptimSpec(kind="sgd", momentum=momentum, lr=3e-2, schedule="constant", weight_decay=decay, clip=clip)
    names = [name for name, _ in ours.named_parameters()]
    flat = FlatParameters(ours, names, set(names), {})
    reference = torch.optim.SGD(
        theirs.parameters(), lr=3e-2, momentum=0.9 if momentum is None else momentum, weight_decay=decay
    )

    def torch_update(step: int) -> None:
        if clip is not None:
            nn.utils.clip_grad_norm_(theirs.parameters(), clip)
        reference.step()
        reference.zero_grad()

    _train(ours, lambda step: _step(flat, spec, step), 100, torch.float64)
    _train(theirs, torch_update, 100, torch.float64)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a - b).abs().max() < 1e-12, name


def _muon_by_hand(weight: torch.Tensor, grads: list[torch.Tensor], lr: float, decay: float) -> torch.Tensor:
    """Jordan et al.'s algorithm, one matrix: momentum, Nesterov's look ahead, five rounds of a quintic, a step."""
    buffer = torch.zeros_like(weight)
    for grad in grads:
        buffer = 0.95 * buffer + 0.05 * grad
        x = 0.95 * buffer + 0.05 * grad
        x = x / math.sqrt(sum(float(number) ** 2 for number in x.flatten()))
        flat = x if x.shape[0] <= x.shape[1] else x.T
        for _ in range(5):
            once = flat @ flat.T @ flat
            flat = 3.4445 * flat - 4.7750 * once + 2.0315 * flat @ flat.T @ once
        x = flat if x.shape[0] <= x.shape[1] else flat.T
        weight = weight * (1 - lr * decay) - lr * 0.2 * math.sqrt(max(x.shape)) * x
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon_changes_the_matrices_by_its_algorithm_and_the_rest_by_adamw(decay: float) -> None:
    ours, theirs = _model(torch.float64), _model(torch.float64)
    spec = OptimSpec(kind="muon", lr=2e-2, schedule="constant", weight_decay=decay)
    names = [name for name, _ in ours.named_parameters()]
    flat = FlatParameters(ours, names, set(names), {}, {"0.weight", "3.weight"})
    first = {name: parameter.detach().clone() for name, parameter in ours.named_parameters()}
    grads: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    reference = torch.optim.AdamW(theirs.parameters(), lr=2e-2, weight_decay=decay)
    generator = torch.Generator().manual_seed(1)
    for step in range(20):
        for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            grads[name].append(torch.randn(a.shape, generator=generator, dtype=torch.float64))
            a.grad, b.grad = grads[name][-1].clone(), grads[name][-1].clone()
        _step(flat, spec, step)
        reference.step()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        expected = _muon_by_hand(first[name], grads[name], 2e-2, decay) if name in ("0.weight", "3.weight") else b
        assert (a - expected).abs().max() < 1e-10, name


def test_a_step_of_muon_has_singular_values_near_one_whatever_the_gradient() -> None:
    for shape in ((4, 9), (9, 4), (3, 6, 6)):
        values = torch.linalg.svdvals(orthogonal(1e-3 * torch.randn(shape)))
        assert values.min() > 0.3
        assert values.max() < 1.3
    assert not orthogonal(torch.zeros(3, 3)).any(), "no gradient, no step"


def test_stacked_matrices_take_the_steps_that_each_takes_alone() -> None:
    spec, group = OptimSpec(kind="muon", schedule="constant"), Group(0, 12, None, False, (3, 4))
    weights, grad = torch.randn(2, 12, dtype=torch.float64), torch.randn(2, 12, dtype=torch.float64)
    numbers = torch.tensor(step_numbers(spec, [group], 10, 0), dtype=torch.float64)[:, None, None].expand(-1, 2, 1)
    apart = [row.clone() for row in weights]
    for row, slope in zip(apart, grad, strict=True):
        update_(row, Moments(torch.zeros_like(row), torch.zeros_like(row)), slope, numbers[:, 0], spec, [group])
    update_(weights, Moments(torch.zeros_like(weights), torch.zeros_like(weights)), grad, numbers, spec, [group])
    assert (weights - torch.stack(apart)).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"momentum": 0.5}, "momentum is for the kinds 'sgd' and 'muon'; leave it out, or set beta1"),
        ({"kind": "sgd", "beta2": 0.5}, "beta2 means nothing for the kind 'sgd'; leave it out"),
        ({"kind": "sdg"}, "'sgd'"),
    ],
)
def test_settings_of_another_optimiser_are_refused(table: dict[str, object], text: str) -> None:
    with pytest.raises(BadInput, match=text):
        read(OptimSpec, table)


@pytest.mark.parametrize("kind", ["sgd", "muon"])
def test_a_stage_learns_with_each_optimiser_and_goes_on_to_equal_bits(kind: str) -> None:
    task = MadeSpec(shape="class")
    table = {
        "task": task,
        "objective": {"kind": "classify"},
        "model": {"width": 16, "blocks": 1},
        "optim": {"kind": kind, "lr": 0.02, "batch_size": 8, "weight_decay": 0.01},
        "budget": {"steps": 40, "evaluate_every": 10},
    }
    spec = read_stage(table)
    whole = TrainedRun(spec, open_task(task, Path("none")), None)
    ticks = list(whole.steps())
    state = None
    for tick in TrainedRun(spec, open_task(task, Path("none")), None).steps():
        if tick.step == 17:
            state = tick.state()
            break
    rest = TrainedRun(spec, open_task(task, Path("none")), None, resume=state)
    for _ in rest.steps():
        pass
    assert torch.equal(whole.progress.flat.weights, rest.progress.flat.weights)
    losses = [tick.record["train"]["loss"] for tick in ticks if tick.record]
    assert losses[-1] < losses[0]


def test_muon_has_the_matrices_of_mixers_and_feed_forward_layers_and_nothing_else() -> None:
    table = {
        "task": MadeSpec(shape="class"),
        "objective": {"kind": "classify"},
        "model": {"width": 16, "blocks": 2, "mixer": [{"kind": "attention"}, {"kind": "s4d", "state": 4}]},
        "optim": {"kind": "muon", "batch_size": 8},
        "budget": {"steps": 1},
    }
    run = TrainedRun(read_stage(table), open_task(MadeSpec(shape="class"), Path("none")), None)
    flat, model = run.progress.flat, dict(run.model.named_parameters())
    matrices = sum(group.last - group.first for group in flat.groups if group.matrix)
    expected = {
        *(f"blocks.0.mixer.{layer}.weight" for layer in ("query", "key", "value", "output")),
        "blocks.1.mixer.output.weight",
        *(f"blocks.{number}.feed_forward.{layer}.weight" for number in range(2) for layer in ("into", "back")),
    }
    assert matrices == sum(model[name].numel() for name in expected)
    assert sum(group.matrix is not None for group in flat.groups) == len(expected)
