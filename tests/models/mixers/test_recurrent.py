"""Recurrent mixers against their equations, stepped one position at a time in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from support.stepping import check_against, check_padding, close
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.contract import check_mixer
from headstart.models.mixers import MIXERS
from headstart.models.mixers.recurrent import RecurrentSpec

LONGEST = 50
"""Positions that mixers are built for."""
Layer = Callable[[Any, Tensor], Tensor]
"""A causal layer's module and one row x (L, D) -> (L, D), the slow way."""


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def linear(layer: Any, x: Tensor) -> Tensor:
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def normed(norm: Any, x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


def min_gru(layer: Any, x: Tensor) -> Tensor:
    state = torch.zeros(layer.gate.weight.shape[0], dtype=x.dtype)
    rows = []
    for row in x:
        update, candidate = sigmoid(linear(layer.gate, row)), linear(layer.candidate, row)
        candidate = torch.stack([c + 0.5 if c > 0 else sigmoid(c) for c in candidate])
        state = (1 - update) * state + update * candidate
        rows.append(state)
    return torch.stack(rows) if layer.output is None else linear(layer.output, torch.stack(rows))


def gru(layer: Any, x: Tensor) -> Tensor:
    state = torch.zeros(layer.recurrent.shape[1], dtype=x.dtype)
    rows = []
    for row in x:
        reset, update, new = (layer.input @ row + layer.input_bias).chunk(3)
        reset_state, update_state, new_state = (layer.recurrent @ state + layer.recurrent_bias).chunk(3)
        keep = sigmoid(update + update_state)
        state = (1 - keep) * torch.tanh(new + sigmoid(reset + reset_state) * new_state) + keep * state
        rows.append(state)
    return torch.stack(rows) if layer.output is None else linear(layer.output, torch.stack(rows))


def heads_of(layer: Any, x: Tensor) -> list[Tensor]:
    """Queries, keys and values of a row: (H, L, E) each."""
    parts = (linear(part, x) for part in (layer.query, layer.key, layer.value))
    return [part.reshape(len(x), layer.heads, -1).transpose(0, 1) for part in parts]


def fading(query: Tensor, key: Tensor, value: Tensor, keep: Tensor) -> Tensor:
    """S <- diag(keep) S + k^T v, o = q S, of one head: (L, K), (L, K), (L, V), (L, K) -> (L, V)."""
    state = torch.zeros(key.shape[1], value.shape[1], dtype=key.dtype)
    rows = []
    for q, k, v, a in zip(query, key, value, keep, strict=True):
        state = a[:, None] * state + torch.outer(k, v)
        rows.append(q @ state)
    return torch.stack(rows)


def gated(layer: Any, x: Tensor, heads: list[Tensor]) -> Tensor:
    """The norm of each head's (L, V), joined, the gate and the output."""
    mixed = torch.cat([normed(layer.norm, head) for head in heads], -1)
    gate = linear(layer.gate, x)
    return linear(layer.output, mixed * gate * sigmoid(gate))


def gated_linear_attention(layer: Any, x: Tensor) -> Tensor:
    keep = sigmoid(linear(layer.fade[1], linear(layer.fade[0], x))) ** (1 / 16)
    heads = []
    for number, (q, k, v) in enumerate(zip(*heads_of(layer, x), strict=True)):
        own = keep[:, number * k.shape[1] : (number + 1) * k.shape[1]]
        heads.append(fading(q / math.sqrt(k.shape[1]), k, v, own))
    return gated(layer, x, heads)


def turned(x: Tensor) -> Tensor:
    """Each pair (i, i + E / 2) of a position l turned by l 10000^(-2i / E)."""
    rows, half = [], x.shape[1] // 2
    for position, row in enumerate(x):
        out = row.clone()
        for i in range(half):
            angle = position * 10_000.0 ** (-2 * i / x.shape[1])
            out[i] = row[i] * math.cos(angle) - row[half + i] * math.sin(angle)
            out[half + i] = row[half + i] * math.cos(angle) + row[i] * math.sin(angle)
        rows.append(out)
    return torch.stack(rows)


def retnet(layer: Any, x: Tensor) -> Tensor:
    heads = []
    for number, (q, k, v) in enumerate(zip(*heads_of(layer, x), strict=True)):
        keep = torch.full_like(k, 1 - 2.0 ** (-5 - number))
        heads.append(fading(turned(q) / math.sqrt(k.shape[1]), turned(k), v, keep))
    return gated(layer, x, heads)


def behind(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each channel's last W positions with its own kernel (D, W), zeros before the first."""
    size = weight.shape[1]
    rows = []
    for position in range(len(x)):
        row = torch.zeros(x.shape[1], dtype=x.dtype) if bias is None else bias
        for i in range(max(0, position - size + 1), position + 1):
            row = row + weight[:, size - 1 - (position - i)] * x[i]
        rows.append(row)
    return torch.stack(rows)


def silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


def delta_net(layer: Any, x: Tensor) -> Tensor:
    parts = []
    for projection, weight in zip((layer.query, layer.key, layer.value), layer.filters, strict=True):
        parts.append(silu(behind(weight, linear(projection, x))).reshape(len(x), layer.heads, -1))
    query, key, value = parts
    query, key = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (query, key))
    step = sigmoid(linear(layer.step, x))
    heads = []
    for head in range(layer.heads):
        state = torch.zeros(key.shape[2], value.shape[2], dtype=x.dtype)
        rows = []
        for position in range(len(x)):
            k, v = key[position, head], value[position, head]
            state = state + step[position, head] * torch.outer(k, v - k @ state)
            rows.append(query[position, head] @ state / math.sqrt(key.shape[2]))
        heads.append(normed(layer.norm, torch.stack(rows)))
    return linear(layer.output, torch.cat(heads, -1))


def mamba(layer: Any, x: Tensor) -> Tensor:
    inner, rank = layer.skip.shape[0], layer.step.weight.shape[1]
    both = linear(layer.input, x)
    u = silu(behind(layer.filter, both[:, :inner], layer.filter_bias))
    selected = linear(layer.select, u)
    step = torch.log(1 + torch.exp(linear(layer.step, selected[:, :rank])))
    enter, leave = selected[:, rank : rank + layer.state], selected[:, rank + layer.state :]
    state = torch.zeros(inner, layer.state, dtype=x.dtype)
    rows = []
    for position in range(len(x)):
        decay = torch.exp(-step[position, :, None] * torch.exp(layer.log_decay))
        state = decay * state + (step[position] * u[position])[:, None] * enter[position]
        rows.append(state @ leave[position] + layer.skip * u[position])
    return linear(layer.output, torch.stack(rows) * silu(both[:, inner:]))


def hyena(layer: Any, x: Tensor) -> Tensor:
    width = x.shape[1]
    before, after, value = behind(layer.filter, linear(layer.input, x), layer.filter_bias).split(width, -1)
    kernel = []
    for number in range(len(x)):
        sines = layer.kernel.positions[number]
        for hidden in layer.kernel.hidden:
            sines = torch.sin(layer.kernel.frequency * linear(hidden, sines))
        shares = torch.arange(width, dtype=x.dtype) / (width - 1)
        fades = math.log(100) * (1 / 1.5 + shares * (1 / 0.3 - 1 / 1.5))
        kernel.append(linear(layer.kernel.last, sines) * torch.exp(-number / (LONGEST - 1) * fades))
    rows = []
    for position in range(len(x)):
        row = layer.skip * before[position] * value[position]
        for i in range(position + 1):
            row = row + kernel[position - i] * before[i] * value[i]
        rows.append(row * after[position])
    return linear(layer.output, torch.stack(rows))


def rwkv6(layer: Any, x: Tensor) -> Tensor:
    width = x.shape[1]
    rows = []
    state = torch.zeros(layer.heads, width // layer.heads, width // layer.heads, dtype=x.dtype)
    last = torch.zeros(width, dtype=x.dtype)
    for now in x:
        shift = last - now
        ranks = torch.tanh((now + shift * layer.share) @ layer.shares_into).reshape(5, -1)
        faded, keyed, valued, asked, gate = (
            now + shift * (layer.shares[i] + ranks[i] @ layer.shares_back[i]) for i in range(5)
        )
        keep = torch.exp(-torch.exp(layer.fade + torch.tanh(faded @ layer.fade_into) @ layer.fade_back))
        parts = (linear(layer.query, asked), linear(layer.key, keyed), linear(layer.value, valued), keep, layer.bonus)
        heads, states = [], []
        for head, (q, k, v, w, u) in enumerate(zip(*(p.reshape(layer.heads, -1) for p in parts), strict=True)):
            head_out = q @ (state[head] + u[:, None] * torch.outer(k, v))
            states.append(w[:, None] * state[head] + torch.outer(k, v))
            centred = head_out - head_out.mean()
            heads.append(centred / (centred.square().mean() + 64e-5).sqrt())
        state, last = torch.stack(states), now
        mixed = torch.cat(heads) * layer.norm + layer.norm_bias
        rows.append(linear(layer.output, mixed * silu(linear(layer.gate, gate))))
    return torch.stack(rows)


def mamba2(layer: Any, x: Tensor) -> Tensor:
    inner, both, _ = layer.sizes
    z, u, step = linear(layer.input, x).split(layer.sizes, -1)
    u = silu(behind(layer.filter, u, layer.filter_bias))
    step = torch.log(1 + torch.exp(step + layer.step_bias))
    each = inner // layer.heads
    enter, leave = u[:, inner : inner + layer.state], u[:, inner + layer.state : both]
    heads = []
    for head in range(layer.heads):
        state, rows = torch.zeros(layer.state, each, dtype=x.dtype), []
        for position, own in enumerate(u[:, head * each : (head + 1) * each]):
            dt = step[position, head]
            state = torch.exp(-dt * torch.exp(layer.log_decay[head])) * state + dt * torch.outer(enter[position], own)
            rows.append(leave[position] @ state + layer.skip[head] * own)
        heads.append(torch.stack(rows))
    return linear(layer.output, normed(layer.norm, torch.cat(heads, -1) * silu(z)))


def gated_delta_net(layer: Any, x: Tensor) -> Tensor:
    width = x.shape[1]
    parts = [
        silu(behind(weight, linear(projection, x))).reshape(len(x), layer.heads, -1)
        for projection, weight in zip(
            (layer.query, layer.key, layer.value), layer.filters.split((width, width, 2 * width)), strict=True
        )
    ]
    query, key = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in parts[:2])
    step, value = sigmoid(linear(layer.step, x)), parts[2]
    keep = torch.exp(-torch.exp(layer.log_decay) * torch.log(1 + torch.exp(linear(layer.fade, x) + layer.fade_bias)))
    heads = []
    for head in range(layer.heads):
        state, rows = torch.zeros(key.shape[2], value.shape[2], dtype=x.dtype), []
        for position in range(len(x)):
            k, v = key[position, head], value[position, head]
            state = keep[position, head] * state
            state = state + step[position, head] * torch.outer(k, v - k @ state)
            rows.append(query[position, head] @ state / math.sqrt(key.shape[2]))
        heads.append(torch.stack(rows))
    return gated(layer, x, heads)


def rwkv7(layer: Any, x: Tensor) -> Tensor:
    width = x.shape[1]
    each, rows = width // layer.heads, []
    states = [torch.zeros(each, each, dtype=x.dtype) for _ in range(layer.heads)]
    last = torch.zeros(width, dtype=x.dtype)
    for now in x:
        asked, faded, keyed, valued, rated, gate = (now + (last - now) * share for share in layer.shares)
        keep = torch.exp(-math.exp(-0.5) * sigmoid(layer.fade + torch.tanh(faded @ layer.fade_into) @ layer.fade_back))
        rate = sigmoid(layer.rate + rated @ layer.rate_into @ layer.rate_back)
        query, key, value = linear(layer.query, asked), linear(layer.key, keyed), linear(layer.value, valued)
        written = key * (1 + (rate - 1) * layer.renewal)
        heads = []
        for head in range(layer.heads):
            own = slice(head * each, (head + 1) * each)
            q, k, v, w, a, bonus = (part[own] for part in (query, written, value, keep, rate, layer.bonus))
            removed = (key * layer.removal)[own]
            removed = removed / (removed.square().sum() + 1e-6).sqrt()
            matrix = torch.diag(w) - torch.outer(a * removed, removed)
            states[head] = matrix @ states[head] + torch.outer(k, v)
            out = q @ states[head]
            centred = out - out.mean()
            out = centred / (centred.square().mean() + 64e-5).sqrt() * layer.norm[own] + layer.norm_bias[own]
            heads.append(out + (q * bonus * k).sum() * v)
        last = now
        rows.append(linear(layer.output, torch.cat(heads) * (sigmoid(gate @ layer.gate_into) @ layer.gate_back)))
    return torch.stack(rows)


LAYERS: dict[str, Layer] = {
    "delta_net": delta_net,
    "gated_delta_net": gated_delta_net,
    "gated_linear_attention": gated_linear_attention,
    "gru": gru,
    "hyena": hyena,
    "mamba": mamba,
    "mamba2": mamba2,
    "min_gru": min_gru,
    "retnet": retnet,
    "rwkv6": rwkv6,
    "rwkv7": rwkv7,
}
CASES = [(kind, {}) for kind in LAYERS] + [
    ("gru", {"state": 5}),
    ("min_gru", {"state": 5}),
    ("mamba", {"expand": 1, "filter": 3}),
    ("mamba2", {"expand": 1, "filter": 3}),
]


def build(kind: str, fields: dict[str, Any], width: int, causal: bool, dtype: torch.dtype = torch.float64) -> Any:
    """The mixer with weights far enough from their first values that each of them matters."""
    torch.manual_seed(0)
    cls = MIXERS[kind].load()
    torch.set_default_dtype(dtype)  # Tables that are not weights are made in it.
    try:
        module = cls.model_validate({**cls.example, **fields}).build(width, LONGEST, causal).to(dtype)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=dtype))
    return module


def both_ways(layer: Layer) -> Callable[[Any, Tensor, list[int]], Tensor]:
    """The mixer's reference: each row without its padding, from the left and, in two directions, from the right."""

    def reference(module: Any, x: Tensor, lengths: list[int]) -> Tensor:
        rows = []
        for example, length in zip(x, lengths, strict=True):
            row = layer(module.layers[0], example[:length])
            if len(module.layers) == 2:
                row = row + layer(module.layers[1], example[:length].flip(0)).flip(0)
            rows.append(torch.nn.functional.pad(row, (0, 0, 0, x.shape[1] - length)))
        return torch.stack(rows)

    return reference


@pytest.mark.parametrize(("causal", "lengths"), [(True, [3]), (True, [37, 20]), (False, [33, 1, 18])])
@pytest.mark.parametrize(("kind", "fields"), CASES, ids=lambda x: str(x))
def test_a_recurrent_mixer_equals_its_equations_stepped_one_position_at_a_time(
    kind: str, fields: dict[str, Any], causal: bool, lengths: list[int]
) -> None:
    check_against(build(kind, fields, 8, causal), both_ways(LAYERS[kind]), lengths, seed=len(lengths), width=8)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("delta_net", "DELTA_CHUNK"),
        ("gated_delta_net", "DELTA_CHUNK"),
        ("mamba2", "MAMBA2_CHUNK"),
        ("rwkv7", "RWKV7_CHUNK"),
        ("gated_linear_attention", "KEYED_CHUNK"),
        ("retnet", "RETNET_CHUNK"),
        ("rwkv6", "KEYED_CHUNK"),
    ],
)
def test_chunks_of_any_number_of_positions_give_the_same_numbers(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x = build(kind, {}, 8, True), torch.randn(2, 37, 8, dtype=torch.float64)
    expected = both_ways(LAYERS[kind])(module, x, [37, 37])
    for chunk in (1, 4, 16):
        monkeypatch.setattr(f"{type(module.layers[0]).__module__}.{name}", chunk)
        close(module(x, None), expected, 1e-10)


@pytest.mark.parametrize("kind", LAYERS)
def test_half_precision_sums_are_those_of_single_precision(kind: str) -> None:
    module, x = build(kind, {}, 8, True, torch.float32), torch.randn(2, 37, 8)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = module(x, None)
    assert mixed.isfinite().all()
    close(mixed.float(), module(x, None), 0.1)


def off_in_half_precision(module: nn.Module, x: torch.Tensor, weight: torch.Tensor) -> float:
    """How far the gradient of a weighted sum of what a mixer gives is off in bfloat16, as a share of its size."""
    gradients = []
    for half in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            y = module(x, None)
        parts = torch.autograd.grad((y.float() * weight).sum(), list(module.parameters()))
        gradients.append(torch.cat([part.flatten() for part in parts]))
    return float((gradients[1] - gradients[0]).norm() / gradients[0].norm())


@pytest.mark.parametrize(("kind", "seeds"), [("retnet", (8, 68, 86)), ("gated_linear_attention", (3, 51, 74))])
def test_the_gradient_in_half_precision_is_near_that_of_single_precision_where_a_score_is_near_0(
    kind: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        torch.manual_seed(seed)
        module, x, weight = MIXERS[kind].load()(heads=4).build(16, 16, True), *torch.randn(2, 4, 16, 16)
        assert off_in_half_precision(module, x, weight) < 0.03


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("causal", [True, False])
def test_the_gradient_in_half_precision_is_near_that_of_single_precision(kind: str, causal: bool) -> None:
    cls = MIXERS[kind].load()
    torch.manual_seed(0)
    module, x, weight = cls.model_validate(cls.example).build(16, 48, causal), *torch.randn(2, 3, 48, 16)
    assert off_in_half_precision(module, x, weight) < 0.06


@pytest.mark.parametrize("kind", LAYERS)
def test_a_padded_position_cannot_change_a_valid_one_of_a_long_row(kind: str) -> None:
    check_padding(build(kind, {}, 8, False), 1e-12, width=8)


def test_gates_that_close_at_once_give_no_nan_and_forget_all_before() -> None:
    module = build("gated_linear_attention", {}, 8, True, torch.float32)
    with torch.no_grad():
        module.layers[0].fade[1].bias.fill_(-1e5)
    x = torch.randn(1, 40, 8, requires_grad=True)
    y = module(x, None)
    (grad,) = torch.autograd.grad(y[0, 30].sum(), x)
    assert y.isfinite().all()
    assert grad.isfinite().all()
    assert not grad[0, :30].any()


def test_a_gru_with_copied_weights_is_the_gru_of_torch() -> None:
    ours = build("gru", {}, 6, True).layers[0]
    theirs = torch.nn.GRU(6, 6, batch_first=True).double()
    with torch.no_grad():
        for name, parameter in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), ours.parameters(), strict=True):
            getattr(theirs, f"{name}_l0").copy_(parameter)
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    close(ours(x), theirs(x)[0], 1e-12)


def test_two_directions_cannot_be_causal() -> None:
    with pytest.raises(BadInput, match=r"model.mixer.directions: 2 cannot be causal; leave it out or set 1"):
        build("min_gru", {"directions": 2}, 8, True)


@pytest.mark.parametrize(
    ("kind", "heads", "text"),
    [
        ("gated_linear_attention", 3, r"model.mixer.heads: 6 heads do not divide model.width = 8"),
        ("delta_net", 3, r"model.mixer.heads: 3 heads do not divide model.width = 8"),
        ("rwkv6", 3, r"model.mixer.heads: 3 heads do not divide model.width = 8"),
        ("rwkv7", 3, r"model.mixer.heads: 3 heads do not divide model.width = 8"),
        ("gated_delta_net", 3, r"model.mixer.heads: 3 heads do not divide model.width = 8"),
        ("mamba2", 3, r"model.mixer.heads: 3 heads do not divide model.width = 16"),
        ("based", 3, r"model.mixer.heads: 3 heads do not divide model.width = 8"),
        ("retnet", 8, r"model.mixer.heads: rotary positions need heads of even width, 8 / 8 is 1"),
    ],
)
def test_heads_that_do_not_fit_the_width_are_refused(kind: str, heads: int, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        build(kind, {"heads": heads}, 8, True)


def test_equal_keys_in_one_chunk_do_not_spoil_the_delta_rule() -> None:
    module = build("delta_net", {}, 8, True, torch.float32)
    x = torch.ones(1, 40, 8)
    y = module(x, None)
    close(y.double(), both_ways(delta_net)(module.double(), x.double(), [40]), 1e-4)


def test_the_steps_of_mamba_start_between_its_bounds_and_a_range_upside_down_is_refused() -> None:
    layer = MIXERS["mamba"].load()(dt_min=0.01, dt_max=0.02).build(16, 10, True).layers[0]
    steps = torch.nn.functional.softplus(layer.step.bias)
    assert (steps > 0.0099).all()
    assert (steps < 0.0201).all()
    with pytest.raises(BadInput, match=r"model.mixer.dt_min: 0.2 is not in \(0, dt_max = 0.1\]"):
        build("mamba", {"dt_min": 0.2}, 8, True)


def test_a_sequence_longer_than_the_kernel_of_hyena_is_refused_with_the_way_out() -> None:
    with pytest.raises(BadInput, match=r"'hyena' is built for 50 positions, a sequence has 51; set model.position.len"):
        build("hyena", {}, 8, True)(torch.zeros(1, 51, 8, dtype=torch.float64), None)


def test_the_network_of_hyena_learns_at_a_rate_of_its_own_and_its_positions_at_a_hundredth() -> None:
    module = build("hyena", {}, 8, False)
    assert module.rates["layers.1.kernel"] == 1e-3
    assert module.rates["layers.1.kernel.positions"] == pytest.approx(1e-5)
    assert "layers.0.kernel" in module.undecayed
    assert build("hyena", {"kernel_rate": None}, 8, True).rates == {}


class Averages(torch.nn.Module):
    """Means of all positions so far, through one layer: a causal layer as a user writes it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = torch.nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
        mean: Tensor = self.output(x.cumsum(1) / count[:, None])
        return mean


class AveragesSpec(RecurrentSpec):
    kind: Literal["averages"] = "averages"

    def layer(self, width: int, length: int) -> torch.nn.Module:
        return Averages(width)

    def layer_flops(self, width: int, length: int) -> float:
        return 2.0 * length * width**2


def test_a_causal_layer_of_ones_own_is_a_whole_mixer_in_both_directions() -> None:
    assert set(check_mixer(AveragesSpec).values()) == {None}
    assert len(AveragesSpec().build(8, 10, False).layers) == 2
    assert len(AveragesSpec().build(8, 10, True).layers) == 1
