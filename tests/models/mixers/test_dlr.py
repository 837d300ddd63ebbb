from __future__ import annotations

import pytest
import torch
from support.stepping import check_against, check_padding, check_stacked_training, gated, step_through

from headstart.errors import BadInput
from headstart.models.mixers.state_space import DLRSpec


def build(spec: DLRSpec, width: int = 3, length: int = 40, causal=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return spec.build(width, length, causal).to(dtype)


def reference(module, x, lengths):
    kernel = module.kernel
    rate = torch.complex(-(kernel.root_decay**2), kernel.angle)
    width = module.skip.shape[0]
    matrix = torch.diag_embed(torch.exp(rate)).repeat(width, 1, 1)
    weight = torch.complex(kernel.weight[..., 0], kernel.weight[..., 1])
    column = torch.ones(width, rate.shape[0], dtype=rate.dtype)
    return gated(module, step_through(matrix, column, weight, module.skip, x, lengths))


@pytest.mark.parametrize(
    ("gate", "directions", "lengths", "state"),
    [
        ("linear", 1, [1], 1),
        ("linear", 2, [13, 1, 8], 5),
        ("glu", 2, [40, 7], 4),
        ("none", 1, [21, 34], 8),
    ],
)
def test_dlr_equals_its_recurrence_stepped_one_position_at_a_time(gate, directions, lengths, state):
    spec = DLRSpec(state=state, directions=directions, gate=gate)
    check_against(build(spec), reference, lengths, seed=state)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_padded_position_cannot_change_a_valid_one(dtype, tolerance):
    check_padding(build(DLRSpec(state=16), length=47, dtype=dtype), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_stacked_models_train_as_they_do_alone(dtype, tolerance):
    check_stacked_training(lambda seed: build(DLRSpec(state=4), 6, 24, dtype=dtype, seed=seed), tolerance, dtype)


def test_a_kernel_drawn_at_random_stays_finite_since_no_state_can_grow():
    module = build(DLRSpec(state=32), dtype=torch.float32, length=20000)
    with torch.no_grad():
        for value in module.kernel.parameters():
            value.normal_(0, 0.1)
    kernel = module.kernel(20000)
    assert torch.isfinite(kernel).all()
    assert kernel.abs().max() <= module.kernel.weight.abs().sum((-1, -2)).max()


def test_state_space_parameters_lie_in_the_kernel_with_their_published_rate():
    module = build(DLRSpec(state=4))
    assert module.rates == {"kernel": 1e-4}
    assert {n for n, _ in module.kernel.named_parameters()} == {"root_decay", "angle", "weight"}
    assert DLRSpec(state=4, kernel_rate=None).build(3, 9, False).rates == {}


def test_two_directions_cannot_be_causal():
    with pytest.raises(BadInput, match=r"model.mixer.directions: 2 cannot be causal; leave it out or set 1"):
        DLRSpec(directions=2).build(4, 10, True)
