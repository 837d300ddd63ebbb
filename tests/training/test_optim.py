"""The optimiser against torch's own, its schedules and groups."""

import math

import pytest
import torch
from torch import nn

from headstart.errors import BadInput
from headstart.spec import read
from headstart.training.optim import FlatParameters, OptimSpec, adamw_, rates_and_undecayed, step_numbers


def _model(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 3)).to(dtype)


def _step(flat: FlatParameters, spec: OptimSpec, step: int, total: int = 100) -> None:
    """One step of ours from the gradients of the tensors, which are then cleared."""
    grads = [torch.zeros_like(t) if t.grad is None else t.grad for t in flat.tensors.values()]
    numbers = step_numbers(spec, flat.groups, total, step)
    adamw_(flat.weights, flat.moments, torch.cat([grad.reshape(-1) for grad in grads]), numbers, spec, flat.groups)
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


def test_a_module_declares_its_own_rates_and_what_never_decays() -> None:
    class Kernel(nn.Linear):
        rates = {"weight": 1e-4}  # noqa: RUF012
        undecayed = {"weight", "bias"}  # noqa: RUF012

    model = nn.Sequential(nn.Linear(2, 2), Kernel(2, 2))
    rates, undecayed = rates_and_undecayed(model)
    assert rates == {"1.weight": 1e-4}
    assert undecayed == {"1.weight", "1.bias"}
