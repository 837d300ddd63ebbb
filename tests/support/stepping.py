"""A state space stepped one position at a time, in float64: the slow, obvious reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from support.dense import close


def step_through(matrix: Tensor, column: Tensor, row: Tensor, skip: Tensor, x: Tensor, lengths: list[int]) -> Tensor:
    """h <- A h + B x, y = Re C h + skip x over each row's own length; the second row runs from the end.

    matrix (D, N, N), column (D, N), row (C, D, N), skip (D,), x (B, L, D) -> (B, L, D), 0 at padding.
    """
    out = []
    for example, length in zip(x, lengths, strict=True):
        rows = [example[at] * skip for at in range(length)]
        state = torch.zeros_like(column)
        for at in range(length):
            state = torch.einsum("dnm,dm->dn", matrix, state) + column * example[at][:, None]
            rows[at] = rows[at] + (row[0] * state).sum(-1).real
        if row.shape[0] == 2:
            state = torch.zeros_like(column)
            for at in reversed(range(length)):
                rows[at] = rows[at] + (row[1] * state).sum(-1).real
                state = torch.einsum("dnm,dm->dn", matrix, state) + column * example[at][:, None]
        rows += [torch.zeros_like(rows[0])] * (x.shape[1] - length)
        out.append(torch.stack(rows))
    return torch.stack(out)


def gated(module: Any, y: Tensor) -> Tensor:
    """What the gate does after the sum, written out."""
    if module.gate == "none":
        return y
    y = 0.5 * y * (1 + torch.erf(y / 2**0.5))
    y = y @ module.output.weight.T + module.output.bias
    width = module.skip.shape[0]
    out: Tensor = y[..., :width] / (1 + torch.exp(-y[..., width:])) if module.gate == "glu" else y
    return out


def ragged_batch(lengths: list[int], width: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (B, L, D) float64, noise at padding too, and what is valid."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths) + seed % 3
    x = torch.randn(len(lengths), longest, width, generator=generator, dtype=torch.float64)
    return x, torch.arange(longest) < torch.tensor(lengths)[:, None]


def check_against(
    module: nn.Module,
    reference: Callable[[Any, Tensor, list[int]], Tensor],
    lengths: list[int],
    seed: int,
    tolerance: float = 1e-10,
    width: int = 3,
) -> None:
    """Valid outputs and all gradients of a module equal those of `reference(module, x, lengths)`."""
    x, valid = ragged_batch(lengths, width, seed)
    x.requires_grad_()
    cotangent = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed + 1), dtype=x.dtype)
    cotangent = cotangent * valid[..., None]
    leaves = [x, *module.parameters()]
    outputs, expected = module(x, valid), reference(module, x, lengths)
    close(outputs[valid], expected[valid], tolerance)
    ours = torch.autograd.grad((outputs * cotangent).sum(), leaves)
    theirs = torch.autograd.grad((expected * cotangent).sum(), leaves)
    for ours_of, theirs_of in zip(ours, theirs, strict=True):
        close(ours_of, theirs_of, tolerance)


def check_padding(module: nn.Module, tolerance: float, width: int = 3) -> None:
    """More padding, with any numbers in it, moves no valid position by more than `tolerance` of scale."""
    dtype = next(module.parameters()).dtype
    x = torch.randn(2, 30, width, dtype=dtype)
    valid = torch.arange(30) < torch.tensor([30, 11])[:, None]
    short = module(x, valid)
    longer = torch.cat([x, 1e3 * torch.randn(2, 17, width, dtype=dtype)], 1)
    longer = torch.where(torch.arange(47)[None, :, None] < torch.tensor([30, 11])[:, None, None], longer, 1e3)
    far = module(longer, torch.arange(47) < torch.tensor([30, 11])[:, None])
    close(far[:, :30][valid], short[valid], tolerance)


def check_stacked_training(
    build: Callable[[int], nn.Module], tolerance: float, dtype: torch.dtype, steps: int = 20
) -> None:
    """3 stacked models trained under torch.func equal three separate trainings."""
    from torch.func import functional_call, grad, stack_module_state, vmap

    models = [build(seed) for seed in range(3)]
    width = 6
    x = torch.randn(2, 24, width, dtype=dtype)
    valid = torch.arange(24) < torch.tensor([24, 13])[:, None]
    goal = torch.randn(2, 24, width, dtype=dtype) * valid[..., None]

    def loss(parameters: Mapping[str, Tensor], model: nn.Module) -> Tensor:
        y = functional_call(model, dict(parameters), (x, valid))
        error: Tensor = ((y - goal) * valid[..., None]).square().mean()
        return error

    stacked, _ = stack_module_state(models)
    stacked = {name: value.detach() for name, value in stacked.items()}
    step = vmap(grad(lambda p: loss(p, models[0])))
    for _ in range(steps):
        gradients = step(stacked)
        stacked = {name: value - 0.1 * gradients[name] for name, value in stacked.items()}
    for number, model in enumerate(models):
        for _ in range(steps):
            parameters = dict(model.named_parameters())
            gradients = torch.autograd.grad(loss(parameters, model), list(parameters.values()))
            with torch.no_grad():
                for value, gradient in zip(parameters.values(), gradients, strict=True):
                    value.sub_(0.1 * gradient)
        for name, value in model.named_parameters():
            close(stacked[name][number], value.detach(), tolerance)
