from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from support.stepping import check_against, check_padding, check_stacked_training, close, ragged_batch

from headstart.errors import BadInput
from headstart.models.contract import MIXER_CHECKS
from headstart.models.heads import Output
from headstart.models.mixers.lstm import LSTMSpec
from headstart.models.mixers.recurrent import turn
from headstart.models.model import ModelSpec, build_model
from headstart.parameters import leaves
from headstart.sequence import Signature
from headstart.spec import read


def build(spec: LSTMSpec, width: int = 4, causal=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return spec.build(width, 40, causal).to(dtype)


def normed(norm, direction, x):
    """(x - mean) / sqrt(variance + 1e-6) times gain plus shift; x as it is where there is no norm."""
    if norm is None:
        return x
    apart = x - x.sum() / len(x)
    return apart / torch.sqrt((apart * apart).sum() / len(x) + 1e-6) * norm[direction].weight + norm[direction].bias


def one_way(module, direction, rows):
    """The cell's equations, one position at a time."""
    size = module.recurrent.shape[1]
    hidden = cell = torch.zeros(size, dtype=rows.dtype)
    of_input, of_state, of_cell = (getattr(module, f"norm_{n}", None) for n in ("input", "recurrent", "cell"))
    more = module.recurrent_bias[direction] if of_state is not None else 0.0
    out = []
    for row in rows:
        gates = normed(of_input, direction, row @ module.input[direction] + module.bias[direction])
        gates = gates + normed(of_state, direction, hidden @ module.recurrent[direction] + more)
        o, i, f, g = gates.reshape(4, size)
        cell = cell / (1 + torch.exp(-f)) + torch.tanh(g) / (1 + torch.exp(-i))
        cell = normed(of_cell, direction, cell)
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


class BothWays(LSTMSpec):
    """Of which the contract asks nothing causal."""

    can_be_causal: ClassVar[bool] = False


NORMED = ({"norm": "cell"}, {"norm": "cell", "gain": "small"})


@pytest.mark.parametrize("norms", [{}, *NORMED])
@pytest.mark.parametrize(
    ("directions", "lengths", "state"),
    [
        (1, [1], None),
        (2, [13, 1, 8], None),
        (2, [6, 17], 3),
        (1, [9, 5], 7),
    ],
)
def test_an_lstm_equals_its_equations_stepped_one_position_at_a_time(directions, lengths, state, norms):
    module = build(LSTMSpec(directions=directions, state=state, **norms))
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


@pytest.mark.slow
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("check", MIXER_CHECKS)
def test_norms_inside_the_cell_hold_to_the_contract_of_mixers(check, directions):
    for norms in NORMED:
        MIXER_CHECKS[check](BothWays(directions=2, **norms) if directions == 2 else LSTMSpec(**norms))


def test_small_gains_leave_the_gates_near_a_half_and_ones_do_not():
    x, valid = ragged_batch([40, 40], 64, seed=2)
    opened = []
    for norms in NORMED:
        module = build(LSTMSpec(**norms), 64)
        assert module.parts == {"norm_input": "norm", "norm_recurrent": "norm", "norm_cell": "norm"}
        for (norm,), size in ((module.norm_input, 256), (module.norm_recurrent, 256), (module.norm_cell, 64)):
            assert norm.weight.shape == norm.bias.shape == (size,)
            if norms == NORMED[1]:
                assert 0.8 / size**0.5 < norm.weight.abs().max() <= 1 / size**0.5
                assert 0.8 / size**0.5 < norm.bias.abs().max() <= 1 / size**0.5
            else:
                assert (norm.weight == 1).all()
                assert (norm.bias == 0).all()
        gates = module.norm_input[0](module.gates([x]))[..., : 3 * 64]
        opened.append((torch.sigmoid(gates) - 0.5).abs().mean().item())
        assert module(x, valid).isfinite().all()
    ones, small = opened
    assert small < 0.02 < 0.15 < ones


def test_the_parameters_of_norms_inside_the_cell_are_of_the_part_norm():
    table = {"width": 8, "blocks": 2, "mixer": {"kind": "lstm", "norm": "cell"}, "norm": "none", "causal": True}
    table |= {"position": {"kind": "none"}, "feed_forward": {"kind": "none"}}
    model = build_model(read(ModelSpec, table), Signature("floats", 1, 6, 6, "class", 2), Output("sequence", 2), 0)
    norms = {name for name, leaf in leaves(model).items() if leaf == "norm"}
    assert norms == {
        f"blocks.{block}.mixer.norm_{of}.0.{name}"
        for block in range(2)
        for of in ("input", "recurrent", "cell")
        for name in ("weight", "bias")
    }


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


def test_a_small_gain_without_norms_inside_is_refused_with_the_way_out():
    with pytest.raises(BadInput, match=r"gain is that of norms inside.*set norm = 'cell'"):
        read(LSTMSpec, {"gain": "small"})
    assert read(LSTMSpec, {"norm": "cell", "gain": "small"}).describe() == "lstm (norms of small gains inside)"
    assert LSTMSpec(norm="cell", state=3).describe() == "lstm (state 3, norms of gains of 1 inside)"


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
