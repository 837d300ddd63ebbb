from __future__ import annotations

import pytest
import torch
from support.stepping import check_against, check_padding, check_stacked_training, close, ragged_batch

from headstart.errors import BadInput
from headstart.models.mixers.lstm import LSTMSpec
from headstart.models.mixers.recurrent import turn


def build(spec: LSTMSpec, width: int = 4, causal=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return spec.build(width, 40, causal).to(dtype)


def one_way(module, direction, rows):
    """The cell's equations, one position at a time."""
    size = module.recurrent.shape[1]
    hidden = cell = torch.zeros(size, dtype=rows.dtype)
    out = []
    for row in rows:
        gates = row @ module.input[direction] + hidden @ module.recurrent[direction] + module.bias[direction]
        o, i, f, g = gates.reshape(4, size)
        cell = cell / (1 + torch.exp(-f)) + torch.tanh(g) / (1 + torch.exp(-i))
        hidden = torch.tanh(cell) / (1 + torch.exp(-o))
        out.append(hidden)
    return torch.stack(out)


def reference(module, x, lengths):
    rows = []
    for example, length in zip(x, lengths, strict=True):
        row = one_way(module, 0, example[:length])
        if module.input.shape[0] == 2:
            row = torch.cat([row, one_way(module, 1, example[:length].flip(0)).flip(0)], -1)
        rows.append(torch.nn.functional.pad(row, (0, 0, 0, x.shape[1] - length)))
    y = torch.stack(rows)
    return y if module.output is None else y @ module.output.weight.T + module.output.bias


@pytest.mark.parametrize(
    ("directions", "lengths", "state"),
    [
        (1, [1], None),
        (2, [13, 1, 8], None),
        (2, [6, 17], 3),
        (1, [9, 5], 7),
    ],
)
def test_an_lstm_equals_its_equations_stepped_one_position_at_a_time(directions, lengths, state):
    module = build(LSTMSpec(directions=directions, state=state))
    check_against(module, reference, lengths, seed=len(lengths), width=4)


def test_with_copied_weights_it_is_the_lstm_of_torch():
    ours = build(LSTMSpec(directions=2), 6)
    theirs = torch.nn.LSTM(6, 3, batch_first=True, bidirectional=True).double()
    order = torch.arange(12).reshape(4, 3)[[1, 2, 3, 0]].flatten()  # ours is o, i, f, g; theirs i, f, g, o
    with torch.no_grad():
        for way, suffix in enumerate(["", "_reverse"]):
            getattr(theirs, f"weight_ih_l0{suffix}").copy_(ours.input[way].T[order])
            getattr(theirs, f"weight_hh_l0{suffix}").copy_(ours.recurrent[way].T[order])
            getattr(theirs, f"bias_ih_l0{suffix}").copy_(ours.bias[way][order])
            getattr(theirs, f"bias_hh_l0{suffix}").zero_()
    x, valid = ragged_batch([11, 4, 7], 6, seed=1)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, valid.sum(1), batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True, total_length=x.shape[1])
    close(ours(x, valid)[valid], expected[valid], 1e-12)


def test_each_row_is_turned_round_within_its_valid_positions():
    valid = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    x = torch.arange(4).repeat(3, 1)[..., None]
    assert turn(x, valid)[..., 0].tolist() == [[2, 1, 0, 3], [0, 1, 2, 3], [3, 2, 1, 0]]
    assert turn(x, None)[0, :, 0].tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_padded_position_cannot_change_a_valid_one(dtype, tolerance):
    check_padding(build(LSTMSpec(directions=2), dtype=dtype), tolerance, width=4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("directions", [1, 2])
def test_stacked_models_train_as_they_do_alone(dtype, tolerance, directions):
    check_stacked_training(
        lambda seed: build(LSTMSpec(directions=directions), 6, dtype=dtype, seed=seed), tolerance, dtype
    )


def test_one_direction_does_not_see_what_comes():
    module = build(LSTMSpec(), causal=True)
    x = torch.randn(1, 20, 4, dtype=torch.float64)
    other = x.clone()
    other[:, 12:] += 1.0
    valid = torch.ones(1, 20, dtype=torch.bool)
    assert torch.equal(module(x, valid)[:, :12], module(other, valid)[:, :12])


def test_a_gradient_of_a_gradient_is_refused():
    module, x = build(LSTMSpec()), torch.randn(1, 5, 4, dtype=torch.float64, requires_grad=True)
    y = module(x, torch.ones(1, 5, dtype=torch.bool)).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("fields", "causal", "text"),
    [
        ({"directions": 2}, True, r"model.mixer.directions: 2 cannot be causal"),
        ({"directions": 2}, False, r"model.mixer.state: a width of 5 cannot be shared by 2.*width of 6"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_way_out(fields, causal, text):
    with pytest.raises(BadInput, match=text):
        LSTMSpec(**fields).build(5, 10, causal)
