from __future__ import annotations

import math

import pytest
import torch
from support.stepping import check_against, check_padding, check_stacked_training, step_through
from torch.nn.functional import silu

from headstart.errors import BadInput
from headstart.models.mixers.mega import MegaSpec


def build(spec: MegaSpec, width: int = 4, length: int = 47, causal=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    module = spec.build(width, length, causal).to(dtype)
    with torch.no_grad():
        for value in module.parameters():
            # Away from the small published start, so that each term counts.
            value.add_(0.3 * torch.randn_like(value))
    return module


def average(module, x, lengths):
    """h <- alpha beta x + (1 - alpha delta) h, y = eta h / sqrt(N); a direction at a time."""
    kernel = module.average
    alpha, delta = 1 / (1 + torch.exp(-kernel.alpha)), 1 / (1 + torch.exp(-kernel.delta))
    row = kernel.eta / math.sqrt(kernel.eta.shape[-1])
    y = 0
    for way in range(row.shape[0]):
        # The stepping reference runs its second row from the end.
        rows = torch.stack([row[way], torch.zeros_like(row[way])][:: 1 if way == 0 else -1])
        skip = module.skip if way == 0 else torch.zeros_like(module.skip)
        matrix, column = torch.diag_embed(1 - alpha[way] * delta[way]), alpha[way] * kernel.beta[way]
        y = y + step_through(matrix, column, rows, skip, x, lengths)
    return y


def reference(module, x, lengths):
    moved = silu(average(module, x, lengths))
    shared, hidden, width = module.scale.shape[-1], module.output.weight.shape[1], x.shape[-1]
    base = silu(module.query_key(moved))
    query, key = base * module.scale[0] + module.shift[0], base * module.scale[1] + module.shift[1]
    value, gates = silu(module.value(x)), module.gates(moved)
    middle = module.distance.shape[0] // 2
    attended = torch.zeros(*x.shape[:2], hidden, dtype=x.dtype)
    for b, length in enumerate(lengths):
        rows = []
        for i in range(x.shape[1]):
            first = i // module.piece * module.piece
            last = min(first + module.piece, i + 1 if module.causal else length)
            scores = [(query[b, i] * key[b, j]).sum() for j in range(first, last)]
            bias = [module.distance[middle + j - i] for j in range(first, last)]
            if i >= length:
                weights = []
            elif module.weighing == "softmax":
                at = [s / shared**0.5 + p for s, p in zip(scores, bias, strict=True)]
                weights = torch.softmax(torch.stack(at), 0)
            else:
                at = torch.stack([s / len(scores) + p for s, p in zip(scores, bias, strict=True)])
                weights = 0.5 * (1 + torch.erf((at - 0.5**0.5) / (2**0.5 * (1 / (4 * math.pi)) ** 0.5)))
            nothing = torch.zeros(hidden, dtype=x.dtype)
            rows.append(sum((w * value[b, first + k] for k, w in enumerate(weights)), nothing))
        attended[b] = torch.stack(rows)
    candidate = silu(
        gates[..., hidden : hidden + width] + (attended * silu(gates[..., :hidden])) @ module.output.weight.T
    )
    return torch.sigmoid(gates[..., hidden + width :]) * (candidate - x)


@pytest.mark.parametrize(
    ("fields", "causal", "lengths"),
    [
        ({}, False, [13, 1, 8]),
        ({}, True, [6, 11]),
        ({"attention": "laplace"}, False, [12, 5]),
        ({"attention": "laplace", "shared": 3, "hidden": 5}, True, [9, 4]),
        ({"chunk": 4}, False, [13, 6]),
        ({"chunk": 4, "attention": "laplace"}, True, [13, 6]),
        ({"directions": 1, "state": 1}, False, [7]),
    ],
)
def test_mega_equals_its_equations_written_out(fields, causal, lengths):
    module = build(MegaSpec(**{"state": 3, **fields}), causal=causal)
    check_against(module, reference, lengths, seed=len(lengths), width=4)


@pytest.mark.parametrize("attention", ["softmax", "laplace"])
@pytest.mark.parametrize("chunk", [None, 8])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_padded_position_cannot_change_a_valid_one(attention, chunk, dtype, tolerance):
    check_padding(build(MegaSpec(attention=attention, chunk=chunk), dtype=dtype), tolerance, width=4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("chunk", [None, 5])
def test_stacked_models_train_as_they_do_alone(dtype, tolerance, chunk):
    spec = MegaSpec(state=2, chunk=chunk)
    check_stacked_training(lambda seed: build(spec, 6, 24, dtype=dtype, seed=seed), tolerance, dtype)


def test_chunks_as_long_as_the_sequence_are_full_attention():
    whole, cut = build(MegaSpec()), build(MegaSpec(chunk=47))
    x = torch.randn(1, 30, 4, dtype=torch.float64)
    assert torch.equal(whole(x, None), cut(x, None))


@pytest.mark.parametrize("scale", [0.1, 30.0])
def test_an_average_drawn_at_random_stays_finite(scale):
    module = build(MegaSpec(), dtype=torch.float32, length=300)
    with torch.no_grad():
        for value in module.average.parameters():
            value.normal_(0, scale)
    kernel = module.average(300)
    gradients = torch.autograd.grad(kernel.sum(), list(module.average.parameters()))
    assert all(torch.isfinite(g).all() for g in [kernel, *gradients])


def test_the_average_is_the_kernel_and_keeps_the_optimisers_rate_unless_told():
    module = build(MegaSpec())
    assert module.parts["average"] == "kernel"
    assert module.undecayed == {"average"}
    assert module.rates == {}
    assert build(MegaSpec(kernel_rate=1e-3)).rates == {"average": 1e-3}


def test_two_directions_cannot_be_causal():
    with pytest.raises(BadInput, match=r"model.mixer.directions: 2 cannot be causal"):
        MegaSpec(directions=2).build(4, 10, True)
