"""FLOPs of training against torch's counter, on networks of which parts are frozen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headstart.initial import trainable
from headstart.models.counting import Learning, flop_counter
from headstart.models.counting import training_flops as flops_of_training
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.sequence import Batch, Signature
from headstart.spec import read

LENGTH = 24
FLOATS = Signature("floats", 5, LENGTH, LENGTH, "class", 3)
TOKENS = Signature("tokens", 11, LENGTH, LENGTH, "class", 3)
GAPS = Signature("floats", 5, LENGTH, LENGTH, "class", 3, missing=True)
BLOCKS: dict[str, Any] = {"width": 16, "blocks": 3, "mixer": {"kind": "attention"}}
TRAINABLE = (
    "all",
    "head",
    "backbone+head",
    "encoder+norm+position+head",
    "feed_forward",
    "feed_forward[1]",
    "mixer[0]+head",
    "mixer[-1]",
    "norm[1]",
    "norm",
    "encoder",
    "all-mixer",
    "all-feed_forward[0:2]",
)
FORMS: dict[str, dict[str, Any]] = {
    "before": {},
    "after": {"norm_place": "after", "embedding_norm": True},
    "glu": {"feed_forward": {"kind": "glu", "width": 12}},
    "parallel": {"parallel": True, "norm": "rms"},
    "relative": {"position": {"kind": "relative", "buckets": 8, "far": 9}, "feed_forward": {"bias": False}},
    "partly rotary": {"position": {"kind": "rotary", "share": 0.5}, "mixer": {"kind": "attention", "scale": False}},
}


def batch(signature: Signature, rows: int = 2) -> Batch:
    valid, index = torch.ones(rows, LENGTH, dtype=torch.bool), torch.arange(rows)
    if signature.input == "tokens":
        return Batch(torch.randint(0, signature.width, (rows, LENGTH)), valid, index, None, full=True)
    observed = torch.rand(rows, LENGTH, signature.width) < 0.7 if signature.missing else None
    return Batch(torch.randn(rows, LENGTH, signature.width), valid, index, None, observed=observed, full=True)


def counted(model: SequenceModel, names: list[str], signature: Signature) -> float:
    """Of a sequence's share of a step, as torch counts it while autograd takes only the gradients that are needed."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in names)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(batch(signature)).sum().backward()
    return counter.get_total_flops() / 2


def training_flops(
    model: nn.Module, layers: Iterable[tuple[str, float]], names: Iterable[str], length: int, *more: Any
) -> float:
    return float(flops_of_training(Learning(model, list(names)), layers, length, *more))


@pytest.mark.parametrize("expression", TRAINABLE)
@pytest.mark.parametrize("signature", [FLOATS, TOKENS, GAPS], ids=["floats", "tokens", "gaps"])
@pytest.mark.parametrize("form", FORMS)
def test_frozen_weights_get_no_weight_gradient_and_nothing_below_the_first_trained_part_any(
    expression: str, signature: Signature, form: str
) -> None:
    spec, output = read(ModelSpec, {**BLOCKS, **FORMS[form]}), Output("position", 3)
    model = build_model(spec, signature, output, 0)
    names = trainable(model, expression)
    stated = training_flops(model, spec.layer_flops(signature, output, LENGTH), names, LENGTH)
    assert stated == pytest.approx(counted(model, names, signature), rel=1e-9)


@pytest.mark.parametrize("expression", [text for text in TRAINABLE if "encoder" not in text and "all" not in text])
@pytest.mark.parametrize("kind", ["sequence", "position"])
def test_layers_above_joined_tokens_are_counted_by_their_own_positions(expression: str, kind: Any) -> None:
    spec, output = read(ModelSpec, {**BLOCKS, "encoder": {"patch": 5}}), Output(kind, 3)
    model = build_model(spec, TOKENS, output, 0)
    layers, names = spec.layer_flops(TOKENS, output, LENGTH), trainable(model, expression)
    assert training_flops(model, layers, names, LENGTH) == pytest.approx(counted(model, names, TOKENS), rel=1e-9)
    # torch counts the gradient of a convolution of single channels as that of all pairs of them: by hand, two more.
    whole = training_flops(model, layers, [name for name, _ in model.named_parameters()], LENGTH)
    assert whole == pytest.approx(3 * sum(flops for _, flops in layers))


def test_relative_positions_alone_need_hardly_more_than_the_gradients_of_what_follows_them() -> None:
    spec, output = read(ModelSpec, {**BLOCKS, **FORMS["relative"]}), Output("position", 3)
    for expression, most in (("position", 1.1), ("position+head", 1.1), ("position+norm+head", 1.0)):
        model = build_model(spec, FLOATS, output, 0)
        names = trainable(model, expression)
        stated = training_flops(model, spec.layer_flops(FLOATS, output, LENGTH), names, LENGTH)
        truth = counted(model, names, FLOATS)
        assert 0.999 * truth <= stated <= most * 1.001 * truth, expression


@pytest.mark.parametrize("kind", ["sequence", "pair"])
@pytest.mark.parametrize("expression", ["all", "head", "encoder+head"])
def test_heads_that_pool_are_counted_once_a_sequence(kind: Any, expression: str) -> None:
    spec, output = read(ModelSpec, BLOCKS), Output(kind, 3)
    model = build_model(spec, FLOATS, output, 0)
    names = trainable(model, expression)
    stated = training_flops(model, spec.layer_flops(FLOATS, output, LENGTH), names, LENGTH)
    assert stated == pytest.approx(counted(model, names, FLOATS), rel=1e-9)


@pytest.mark.parametrize("mixer", ["linear_attention", "min_gru", "retnet", "inception", "rwkv7"])
@pytest.mark.parametrize("expression", ["all", "head", "all-mixer", "encoder+norm+head"])
def test_other_mixers_agree_within_a_tenth(mixer: str, expression: str) -> None:
    spec, output = read(ModelSpec, {**BLOCKS, "mixer": {"kind": mixer}, "causal": True}), Output("position", 3)
    model = build_model(spec, FLOATS, output, 0)
    names = trainable(model, expression)
    stated = training_flops(model, spec.layer_flops(FLOATS, output, LENGTH), names, LENGTH)
    assert stated == pytest.approx(counted(model, names, FLOATS), rel=0.1)


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("mixer", ["s4", "s4d", "dlr", "mega", "rwkv6", "hyena"])
@pytest.mark.parametrize("expression", ["all", "head", "norm+head", "all-mixer"])
def test_a_kernel_is_made_once_a_batch_and_has_a_backward_pass_where_it_learns(
    mixer: str, expression: str, size: int
) -> None:
    settings = {"kind": mixer, **({"state": 64} if mixer in ("dlr", "s4") else {})}
    spec, output = read(ModelSpec, {**BLOCKS, "mixer": settings}), Output("position", 3)
    model = build_model(spec, FLOATS, output, 0)
    names = trainable(model, expression)
    learns = [parameter for name, parameter in model.named_parameters() if name in names]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in names)
    with flop_counter() as counter:
        torch.autograd.grad(model(batch(FLOATS, size)).sum(), learns, allow_unused=True)
    layers, kernels = spec.layer_flops(FLOATS, output, LENGTH), spec.kernel_flops(LENGTH)
    stated = training_flops(model, layers, names, LENGTH, kernels, size)
    # torch's counter takes the backward pass of a convolution within channels (a fiftieth) for one across them.
    misread = counter.get_flop_counts()["Global"].get(torch.ops.aten.convolution_backward, 0)
    assert size * stated == pytest.approx(counter.get_total_flops() - misread, rel=0.12)


def test_the_weights_of_a_frozen_recurrence_are_not_counted_though_its_own_backward_pass_computes_their_gradients() -> (
    None
):
    spec, output = read(ModelSpec, {**BLOCKS, "mixer": {"kind": "lstm"}, "causal": True}), Output("position", 3)
    model = build_model(spec, FLOATS, output, 0)
    names = {part: trainable(model, part) for part in ("all", "all-mixer", "head")}
    flops = {
        part: training_flops(model, spec.layer_flops(FLOATS, output, LENGTH), names[part], LENGTH) for part in names
    }
    for part in ("all", "head"):
        assert flops[part] == pytest.approx(counted(model, names[part], FLOATS), rel=0.02)
    weights = 2 * LENGTH * sum(p.numel() for n, p in model.named_parameters() if ".mixer." in n and p.dim() == 3)
    assert flops["all"] - flops["all-mixer"] == pytest.approx(weights, rel=0.02)


@pytest.mark.parametrize("expression", ["query_key", "value_output", "query_key+head"])
def test_a_part_of_a_mixer_counts_at_most_as_if_its_first_layers_passed_a_gradient(expression: str) -> None:
    spec, output = read(ModelSpec, BLOCKS), Output("position", 3)
    model = build_model(spec, TOKENS, output, 0)
    names = trainable(model, expression)
    stated, truth = (
        training_flops(model, spec.layer_flops(TOKENS, output, LENGTH), names, LENGTH),
        counted(model, names, TOKENS),
    )
    assert truth <= stated <= 1.1 * truth


def test_training_all_of_a_model_of_tokens_costs_three_forward_passes() -> None:
    spec, output = read(ModelSpec, {**BLOCKS, "mixer": {"kind": "s4"}}), Output("position", 3)
    model = build_model(spec, TOKENS, output, 0)
    whole = training_flops(model, spec.layer_flops(TOKENS, output, LENGTH), trainable(model, "all"), LENGTH)
    assert whole == pytest.approx(3 * sum(flops for _, flops in spec.layer_flops(TOKENS, output, LENGTH)))


def test_of_a_model_of_ones_own_the_weights_that_train_are_known() -> None:
    net = torch.nn.Module()
    net.net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 4))  # 30 and 28 numbers
    net.head = torch.nn.Linear(4, 2)
    layers = [("net", 580.0), ("head", 16.0)]
    names = [name for name, _ in net.named_parameters()]
    assert training_flops(net, layers, names, 1) == pytest.approx(3 * (580 + 16))
    assert training_flops(net, layers, [name for name in names if ".1." in name], 1) == pytest.approx(
        580 * (2 + 28 / 58) + 2 * 16
    ), "the frozen head passes the gradient"
    assert training_flops(net, layers, ["head.weight", "head.bias"], 1) == 580 + 2 * 16


@pytest.mark.parametrize("form", ["before", "after", "glu", "parallel"])
@pytest.mark.parametrize("kind", ["attention", "s4", "hyena"])
def test_flops_of_many_lengths_at_once_are_those_of_each_length(form: str, kind: str) -> None:
    spec = read(ModelSpec, {**BLOCKS, **FORMS[form], "mixer": {"kind": kind}})
    output, lengths = Output("sequence", 3), [1, 2, 7, LENGTH]
    model = build_model(spec, FLOATS, output, 0)
    for expression in ("all", "head", "mixer+head"):
        learning = Learning(model, trainable(model, expression))
        layers = [(name, np.array(flops)) for name, flops in spec.layers_at(FLOATS, output, lengths)]
        kernels = {name: np.array(flops) for name, flops in spec.kernels_at(lengths).items()}
        together = flops_of_training(learning, layers, np.array(lengths), kernels, 4)
        each = [
            flops_of_training(learning, spec.layer_flops(FLOATS, output, n), n, spec.kernel_flops(n), 4)
            for n in lengths
        ]
        assert np.asarray(together).tolist() == each
