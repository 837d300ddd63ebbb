from __future__ import annotations

import pytest
import torch
from support.stepping import check_against, check_padding, check_stacked_training, close, gated, step_through

from headstart.errors import BadInput
from headstart.models.mixers import s4
from headstart.models.mixers.s4 import S4Spec


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def build(spec: S4Spec, width: int = 3, length: int = 40, causal=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return spec.build(width, length, causal).to(dtype)


def bilinear(matrix, column, row, dt, length):
    """(A_bar, B_bar, C) of matrices A (D, N, N), with C of the learned C (1 - A_bar^length)."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    half = dt[:, None, None] / 2 * matrix
    stepped = torch.linalg.solve(identity - half, identity + half)
    entering = torch.linalg.solve(identity - half, (dt[:, None] * column)[..., None])[..., 0]
    difference = identity - torch.linalg.matrix_power(stepped, length)
    # x difference = row for each row vector
    return stepped, entering, torch.linalg.solve(difference.mT, row[..., None])[..., 0]


def full(pairs):
    """A (..., N/2, 2) list of one of each conjugate pair as all N complex numbers."""
    half = torch.complex(pairs[..., 0], pairs[..., 1])
    return torch.cat([half, half.conj()], -1)


def reference(module, x, lengths):
    """diag(a) - P P^* in full, both of each conjugate pair, inverted and multiplied out."""
    kernel = module.kernel
    rates = torch.stack([-torch.exp(kernel.log_decay), kernel.angle], -1)
    low = full(kernel.low)
    matrix = torch.diag_embed(full(rates)) - low[..., :, None] * low.conj()[..., None, :]
    system = bilinear(matrix, full(kernel.column), full(kernel.row), torch.exp(kernel.log_dt), kernel.length)
    return gated(module, step_through(*system, module.skip, x, lengths))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    ("gate", "directions", "lengths", "state"),
    [
        ("glu", 2, [13, 1, 8], 6),
        ("linear", 1, [1], 2),
        ("none", 2, [38, 7], 8),
        ("none", 1, [21, 34], 4),
    ],
)
def test_s4_equals_its_recurrence_stepped_one_position_at_a_time(gate, directions, lengths, state):
    module = build(S4Spec(state=state, directions=directions, gate=gate, dt_min=0.05, dt_max=0.5))
    check_against(module, reference, lengths, seed=state, tolerance=1e-9)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("length", [23, 64])
def test_a_fresh_s4_steps_the_full_hippo_legs_matrices(length):
    state, width = 16, 4
    module = build(S4Spec(state=state, directions=1, gate="none"), width, length)
    matrix = torch.tensor(
        [
            [-(((2 * i + 1) * (2 * j + 1)) ** 0.5) if i > j else -(i + 1.0) if i == j else 0.0 for j in range(state)]
            for i in range(state)
        ]
    )
    column = torch.tensor([(2 * i + 1) ** 0.5 for i in range(state)])
    # The learned row in LegS' own coordinates: through the eigenvectors of A + P P^T.
    low = torch.tensor([(i + 0.5) ** 0.5 for i in range(state)])
    values, vectors = torch.linalg.eig(matrix + torch.outer(low, low))
    values, vectors = values[values.imag > 0], vectors[:, values.imag > 0]
    order = values.imag.argsort()
    vectors = vectors[:, order] / vectors[:, order].norm(dim=0)
    entering = torch.complex(module.kernel.column[0, :, 0], module.kernel.column[0, :, 1]).detach()
    # Eigenvectors are found up to a phase; B in their basis fixes it.
    projected = vectors.conj().T @ column.to(vectors.dtype)
    vectors = vectors * (projected / entering)
    row = torch.complex(module.kernel.row[..., 0], module.kernel.row[..., 1]).detach()
    real = 2 * (row @ vectors.conj().T).real
    system = bilinear(
        matrix.repeat(width, 1, 1),
        column.repeat(width, 1),
        real,
        torch.exp(module.kernel.log_dt.detach()),
        module.kernel.length,
    )
    x = torch.randn(2, length, width)
    expected = step_through(*system, module.skip, x, [length, length])
    close(module(x, torch.ones(2, length, dtype=torch.bool)), expected, 1e-8)


@pytest.mark.usefixtures("double")
def test_a_fresh_output_row_is_complex_normal_before_it_is_truncated():
    module = build(S4Spec(state=8, dt_min=0.01, dt_max=0.1), 200, 16)
    kernel = module.kernel
    rates = torch.stack([-torch.exp(kernel.log_decay), kernel.angle], -1)
    low = full(kernel.low)
    matrix = torch.diag_embed(full(rates)) - low[..., :, None] * low.conj()[..., None, :]
    dt = torch.exp(kernel.log_dt)
    row = bilinear(matrix, full(kernel.column), full(kernel.row), dt, kernel.length)[2].detach()
    assert abs(float(row.abs().square().mean()) - 1) < 0.1
    assert abs(float(row.real.mean())) < 0.05


def test_made_in_many_chunks_or_in_one_a_kernel_is_the_same(monkeypatch):
    module = build(S4Spec(state=6), width=7)
    whole = module.kernel(40)
    cotangent = torch.randn_like(whole)
    parameters = list(module.kernel.parameters())
    gradients = torch.autograd.grad(whole, parameters, cotangent)
    monkeypatch.setattr(s4, "TABLE_NUMBERS", 2 * 3 * 21)
    parts = module.kernel(40)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(torch.autograd.grad(parts, parameters, cotangent), gradients)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_padded_position_cannot_change_a_valid_one(dtype, tolerance):
    check_padding(build(S4Spec(state=8), length=47, dtype=dtype), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_stacked_models_train_as_they_do_alone(dtype, tolerance):
    check_stacked_training(
        lambda seed: build(S4Spec(state=4, dt_min=0.05, dt_max=0.2), 6, 24, dtype=dtype, seed=seed),
        tolerance,
        dtype,
    )


def test_in_float32_a_kernel_of_full_size_equals_that_of_float64():
    module = build(S4Spec(), width=16, length=1024, dtype=torch.float32)
    with torch.no_grad():
        single = module.kernel(1024)
        close(single.double(), module.double().kernel(1024), 1e-4)


def test_a_causal_s4_does_not_see_what_comes():
    module = build(S4Spec(state=4), causal=True)
    x = torch.randn(1, 20, 3, dtype=torch.float64)
    other = x.clone()
    other[:, 12:] += 1.0
    valid = torch.ones(1, 20, dtype=torch.bool)
    torch.testing.assert_close(module(x, valid)[:, :12], module(other, valid)[:, :12], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_a_kernel_drawn_at_random_stays_finite(scale):
    module = build(S4Spec(), width=8, dtype=torch.float32, length=2000)
    with torch.no_grad():
        for value in module.kernel.parameters():
            value.normal_(0, scale)
    x = torch.randn(1, 2000, 8)
    y = module(x, torch.ones(1, 2000, dtype=torch.bool))
    gradients = torch.autograd.grad(y.square().sum(), list(module.parameters()))
    assert all(torch.isfinite(g).all() for g in [y, *gradients])


def test_no_table_over_width_state_and_length_is_ever_held():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, torch.Tensor):
                    Largest.size = max(Largest.size, tensor.numel())
            return out

    width, state, length = 32, 64, 4096
    module = build(S4Spec(state=state, directions=1), width, length, dtype=torch.float32)
    with Largest():
        module.kernel(length).sum().backward()
    assert Largest.size < width * (state // 2) * (length // 2) // 2


def test_state_space_parameters_lie_in_the_kernel():
    module = build(S4Spec(state=4))
    assert {n for n, _ in module.kernel.named_parameters()} == {"log_dt", "log_decay", "angle", "low", "column", "row"}
    assert (module.parts, module.undecayed) == ({"kernel": "kernel"}, {"kernel"})
    assert module.rates == {"kernel": 1e-3}


def test_an_input_longer_than_built_for_is_refused():
    with pytest.raises(BadInput, match="an input of 41 positions, but the model was built for 40"):
        build(S4Spec(state=4)).kernel(41)


@pytest.mark.parametrize(
    ("fields", "causal", "text"),
    [
        ({"directions": 2}, True, r"model.mixer.directions: 2 cannot be causal"),
        ({"state": 5}, False, r"model.mixer.state: 5 is odd.*set 6"),
        ({"dt_min": 0.0}, False, r"model.mixer.dt_min: 0.0 is not in \(0, dt_max = 0.1\]"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_way_out(fields, causal, text):
    with pytest.raises(BadInput, match=text):
        S4Spec(**fields).build(4, 10, causal)
