"""Copies of a mixer, trained as one stack and apart: the two ways must agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from headstart.seeds import Draw

Loss = Callable[[Mapping[str, Tensor], Any], Tensor]


@dataclass(frozen=True)
class Lesson:
    """What the copies learn: to map x (B, L, D), padded as valid (B, L) says, to target (B, L, D)."""

    x: Tensor
    valid: Tensor
    target: Tensor
    steps: int = 20
    rate: float = 0.05

    def loss(self, module: nn.Module) -> Loss:
        """(tensors, seed) -> mean squared distance of the valid outputs from the target."""
        index = torch.arange(self.x.shape[0])

        def loss(tensors: Mapping[str, Tensor], seed: Any) -> Tensor:
            answer = functional_call(module, dict(tensors), (self.x, self.valid, Draw(seed, 0, index)))
            missed: Tensor = (answer - self.target).square()
            return missed.masked_fill(~self.valid[:, :, None], 0.0).sum() / self.valid.sum() / self.x.shape[2]

        return loss

    def stepped(self, weights: Mapping[str, Tensor], slopes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One step downhill, of a length below `rate`: steep kernels must not blow up."""
        long = torch.stack([slope.square().sum() for slope in slopes.values()]).sum().sqrt()
        return {name: value - self.rate * slopes[name] / (1.0 + long) for name, value in weights.items()}


def learned(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the parameters that learn."""
    return {name: p.detach().clone() for name, p in module.named_parameters() if p.requires_grad}


def trained_apart(module: nn.Module, lesson: Lesson, seed: int) -> dict[str, Tensor]:
    """Weights after the lesson, by plain autograd."""
    weights, loss = learned(module), lesson.loss(module)
    for _ in range(lesson.steps):
        for value in weights.values():
            value.requires_grad_(True)
        slopes = torch.autograd.grad(loss(weights, seed), list(weights.values()))
        stepped = lesson.stepped(weights, dict(zip(weights, slopes, strict=True)))
        weights = {name: value.detach() for name, value in stepped.items()}
    return weights


def trained_as_stack(modules: Sequence[nn.Module], lesson: Lesson) -> dict[str, Tensor]:
    """Weights (models, ...) after the lesson under `vmap(grad(...))`; model i draws with the seed i.

    Raises: RuntimeError or UserWarning where an operation cannot be stacked, or only as a loop.
    """
    parameters, buffers = stack_module_state(list(modules))
    weights = {name: parameters.pop(name).detach() for name in learned(modules[0])}
    rest = {name: value.detach() for name, value in {**parameters, **buffers}.items()}
    loss = lesson.loss(modules[0])

    def whole(own: dict[str, Tensor], still: dict[str, Tensor], seed: Tensor) -> Tensor:
        return loss({**still, **own}, seed)

    step, seeds = vmap(lesson.stepped), torch.arange(len(modules))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*batching rule.*")
        for _ in range(lesson.steps):
            weights = step(weights, vmap(grad(whole))(weights, rest, seeds))
    return weights
