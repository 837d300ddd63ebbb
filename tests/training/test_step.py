"""The training step is a function of its arguments: alone, with foreign weights, and mapped over a stack of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import vmap

from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.objectives import ClassifySpec, MaskedSpec, ObjectiveSpec
from headstart.sequence import Batch, Signature
from headstart.spec import read
from headstart.training.optim import FlatParameters, Moments, OptimSpec, Weights, step_numbers, update_
from headstart.training.step import TrainStep

SIGNATURE = Signature("floats", 2, 6, 6, "class", classes=3)
SETTINGS = ({"lr": 1e-3}, {"lr": 1e-2, "weight_decay": 0.3, "clip": 0.05}, {"lr": 3e-3, "clip": 0.5})
TOTAL = 20


def statistics_of(model: SequenceModel) -> dict[str, Tensor]:
    return {name: value for name, value in model.named_buffers() if "running" in name}


def started(objective: ObjectiveSpec, seed: int, optim: dict[str, Any]) -> tuple[TrainStep, FlatParameters]:
    spec = read(
        ModelSpec,
        {"width": 8, "blocks": 1, "dropout": 0.2, "norm": "batch", "mixer": {"kind": "attention", "heads": 2}},
    )
    model = build_model(spec, SIGNATURE, objective.output(SIGNATURE), seed).double()
    names = [name for name, _ in model.named_parameters()]
    flat = FlatParameters(model, names, {name for name in names if "weight" in name}, {"head.bias": 0.1})
    step = TrainStep(
        model, objective, SIGNATURE, read(OptimSpec, optim), (flat.tensors, statistics_of(model)), flat.groups
    )
    return step, flat


def batch_of(number: int) -> Batch:
    draw = np.random.default_rng(number)
    inputs = torch.from_numpy(draw.standard_normal((5, 6, 2)))
    index = torch.from_numpy(draw.permutation(40)[:5])
    return Batch(inputs, torch.ones(5, 6, dtype=torch.bool), index, torch.from_numpy(draw.integers(0, 3, 5)), full=True)


OBJECTIVES = [ClassifySpec(), MaskedSpec(mask_rate=0.4, loss="l2")]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["classify", "masked"])
def test_weights_from_elsewhere_give_the_bits_of_the_models_own(objective: ObjectiveSpec) -> None:
    """A step reads its arguments only: a model of another seed, given the weights, takes the same steps."""
    results = []
    for seed in (3, 4):
        step, own = started(objective, seed, SETTINGS[1])
        source, flat = (step, own) if seed == 3 else started(objective, 3, SETTINGS[1])
        weights, statistics = Weights(flat.weights, flat.tensors), source.own[1]
        for index in range(4):
            numbers = step_numbers(step.optim, flat.groups, TOTAL, index)
            sums = step(weights, flat.moments, statistics, batch_of(index), numbers, 7, 0)
        results.append((weights.flat, *flat.moments, *statistics.values(), *sums.values()))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["classify", "masked"])
def test_a_stack_of_models_takes_the_steps_that_each_takes_alone(objective: ObjectiveSpec) -> None:
    """Mapped over models with rates, decays, clips and step counts of their own; float64, within 1e-10."""
    alone = [started(objective, seed, optim) for seed, optim in enumerate(SETTINGS)]
    model, layout = started(objective, 0, SETTINGS[1])
    groups, ahead, seeds = layout.groups, (0, 3, 5), torch.arange(3)
    weights = torch.stack([flat.weights for _, flat in alone])
    moments = Moments(torch.zeros_like(weights), torch.zeros_like(weights))
    states = [step.own[1] for step, _ in alone]
    statistics = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    for index in range(4):
        batch, numbers = batch_of(index), []
        for seed, (step, flat) in enumerate(alone):
            count = index + ahead[seed]
            numbers.append(step_numbers(step.optim, groups, TOTAL, count))
            own = Weights(flat.weights, flat.tensors)
            plain = step_numbers(step.optim, flat.groups, TOTAL, count)
            step(own, flat.moments, states[seed], batch, plain, seed, 0)
        leaf, tensors, first = weights.detach().requires_grad_(), {}, 0
        for name, tensor in layout.tensors.items():
            tensors[name] = leaf[:, first : first + tensor.numel()].view(3, *tensor.shape)
            first += tensor.numel()
        forward = vmap(model.forward_loss, in_dims=(0, 0, None, 0, None))
        sums, statistics = forward(tensors, statistics, batch, seeds, 0)
        (grad,) = torch.autograd.grad((sums["loss"] / sums["count"]).sum(), leaf)
        table = torch.tensor(numbers, dtype=weights.dtype).T.unsqueeze(2)  # (columns, models, 1)
        update_(weights, moments, grad, table, model.optim, groups)
    for number, (_, flat) in enumerate(alone):
        assert (weights[number] - flat.weights).abs().max() < 1e-10
        for name, value in states[number].items():
            assert (statistics[name][number] - value).abs().max() < 1e-10
