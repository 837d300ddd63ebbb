from __future__ import annotations

import pytest
import torch
from support.stepping import check_against, check_padding, check_stacked_training, gated, step_through

from headstart.errors import BadInput
from headstart.models.contract import MIXER_CHECKS
from headstart.models.mixers.state_space import S4DSpec, legs, normal_basis


def build(spec: S4DSpec, width: int = 3, length: int = 40, causal=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return spec.build(width, length, causal).to(dtype)


def reference(module, x, lengths):
    """Each conjugate pair written out as two states; the hold's integral as (exp(dt a) - 1) / a."""
    kernel = module.kernel
    rate = torch.complex(-torch.exp(kernel.log_decay), kernel.angle)
    rate = torch.cat([rate, rate.conj()], -1)
    weight = torch.complex(kernel.weight[..., 0], kernel.weight[..., 1])
    weight = torch.cat([weight, weight.conj()], -1)
    step = torch.exp(kernel.log_dt)[:, None]
    matrix = torch.diag_embed(torch.exp(rate * step))
    column = (torch.exp(rate * step) - 1) / rate
    return gated(module, step_through(matrix, column, weight, module.skip, x, lengths))


@pytest.mark.parametrize("gate", ["glu", "linear", "none"])
@pytest.mark.parametrize(
    ("directions", "lengths", "state", "init"),
    [
        (1, [1], 2, "legs"),
        (2, [13, 1, 8], 6, "legs"),
        (2, [40, 7], 4, "lin"),
        (1, [21, 34], 8, "lin"),
    ],
)
def test_s4d_equals_its_recurrence_stepped_one_position_at_a_time(gate, directions, lengths, state, init):
    spec = S4DSpec(state=state, directions=directions, init=init, gate=gate)
    check_against(build(spec), reference, lengths, seed=len(lengths))


@pytest.mark.parametrize("fields", [{"input": "linear"}, {"norm": "layer"}, {"input": "linear", "norm": "layer"}])
def test_a_layer_before_and_a_norm_behind_the_recurrence_are_those_written_out(fields):
    def written_out(module, x, lengths):
        kernel = module.kernel
        x = x if module.before is None else x @ module.before.weight.T + module.before.bias
        rate = torch.complex(-torch.exp(kernel.log_decay), kernel.angle)
        weight = torch.complex(kernel.weight[..., 0], kernel.weight[..., 1])
        rate, weight = (torch.cat([part, part.conj()], -1) for part in (rate, weight))
        step = torch.exp(kernel.log_dt)[:, None]
        matrix, column = torch.diag_embed(torch.exp(rate * step)), (torch.exp(rate * step) - 1) / rate
        y = step_through(matrix, column, weight, module.skip, x, lengths)
        if module.norm is not None:
            centred = y - y.mean(-1, keepdim=True)
            y = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            y = y * module.norm.weight + module.norm.bias
        return gated(module, y)

    check_against(build(S4DSpec(state=4, **fields)), written_out, [13, 8], seed=2)


@pytest.mark.parametrize("check", ["padding", "gradients", "names", "flops"])
def test_ms4n_holds_to_the_contract(check):
    MIXER_CHECKS[check](S4DSpec(state=8, input="linear", norm="layer"))


def test_legs_less_its_low_rank_part_has_the_eigenvalues_that_s4d_starts_from():
    matrix, _, low = legs(16)
    angles, _ = normal_basis(16)
    eigenvalues = torch.linalg.eigvals(matrix + torch.outer(low, low))
    torch.testing.assert_close(eigenvalues.real, torch.full((16,), -0.5, dtype=torch.float64))
    torch.testing.assert_close(eigenvalues.imag.sort().values[8:], angles.sort().values)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_padded_position_cannot_change_a_valid_one(dtype, tolerance):
    check_padding(build(S4DSpec(state=8), length=47, dtype=dtype), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_stacked_models_train_as_they_do_alone(dtype, tolerance):
    check_stacked_training(lambda seed: build(S4DSpec(state=4), 6, 24, dtype=dtype, seed=seed), tolerance, dtype)


def test_a_causal_s4d_does_not_see_what_comes():
    module = build(S4DSpec(state=4), causal=True)
    x = torch.randn(1, 20, 3, dtype=torch.float64)
    other = x.clone()
    other[:, 12:] += 1.0
    valid = torch.ones(1, 20, dtype=torch.bool)
    torch.testing.assert_close(module(x, valid)[:, :12], module(other, valid)[:, :12], rtol=0, atol=1e-12)


def test_a_kernel_drawn_at_random_stays_finite():
    module = build(S4DSpec(state=8), dtype=torch.float32, length=2000)
    with torch.no_grad():
        for value in module.kernel.parameters():
            value.normal_(0, 0.1)
    x = torch.randn(1, 2000, 3)
    y = module(x, torch.ones(1, 2000, dtype=torch.bool))
    gradients = torch.autograd.grad(y.square().sum(), list(module.parameters()))
    assert all(torch.isfinite(g).all() for g in [y, *gradients])


def test_state_space_parameters_are_undecayed_and_have_their_own_rate():
    module = build(S4DSpec())
    assert module.parts == {"kernel": "kernel"}
    assert module.undecayed == {"kernel"}
    assert module.rates == {"kernel": 1e-3}
    assert {n for n, _ in module.named_parameters() if not n.startswith("kernel.")} == {
        "skip",
        "output.weight",
        "output.bias",
    }


@pytest.mark.parametrize(
    ("fields", "causal", "text"),
    [
        ({"directions": 2}, True, r"model.mixer.directions: 2 cannot be causal"),
        ({"state": 5}, False, r"model.mixer.state: 5 is odd.*set 6"),
        ({"dt_min": 0.2}, False, r"model.mixer.dt_min: 0.2 is not in \(0, dt_max = 0.1\]"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_way_out(fields, causal, text):
    with pytest.raises(BadInput, match=text):
        S4DSpec(**fields).build(4, 10, causal)


def test_eigenvectors_have_one_phase_whatever_solver_found_them():
    matrix, column, low = legs(12)
    angles, vectors = normal_basis(12)
    share = vectors.conj().T @ column.to(vectors.dtype)
    assert float(share.real.min()) > 0
    assert float(share.imag.abs().max()) < 1e-12
    product = (matrix + torch.outer(low, low)).to(vectors.dtype) @ vectors
    torch.testing.assert_close(product, vectors * torch.complex(torch.full_like(angles, -0.5), angles))
