"""The recurrence of an LSTM, written out with its gradient so that it stacks under `torch.func`.

`torch.nn.LSTM` has no batching rule for its kernels; on a CPU they are two to three times faster than this loop
on short rows of few examples (docs/benchmarks/state-space.md).
Letters: L length, G groups (directions, stacked models), B batch, N state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _fold(info: Any, dims: tuple[int | None, ...], tensors: tuple[Tensor, ...], at: tuple[int, ...]) -> list[Tensor]:
    """Stacked arguments with the stack's axis folded into the groups' axis `at`."""
    out = []
    for tensor, dim, place in zip(tensors, dims, at, strict=True):
        if dim is None:
            before, after = tensor.shape[:place], tensor.shape[place:]
            moved = tensor.unsqueeze(place).expand(*before, info.batch_size, *after)
        else:
            moved = tensor.movedim(dim, place)
        out.append(moved.flatten(place, place + 1))
    return out


class _Step(torch.autograd.Function):
    """(gates before activation (L, G, B, 4N), weight (G, N, 4N)) -> hidden, activated gates, cells."""

    @staticmethod
    def forward(gates: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = weight.shape[1]
        active = torch.empty_like(gates, memory_format=torch.contiguous_format)
        cells = gates.new_empty(*gates.shape[:-1], size)
        hidden = torch.empty_like(cells)
        state = cell = cells.new_zeros(cells.shape[1:])
        # Views of all positions at once: made one by one they would take longer than the arithmetic.
        views = (gates, active, active[..., : 3 * size], *torch.split(active, size, -1), cells, hidden)
        for given, four, three, leave, enter, forget, new, now, out in zip(*(v.unbind() for v in views), strict=True):
            torch.baddbmm(given, state, weight, out=four)
            three.sigmoid_()
            new.tanh_()
            torch.mul(forget, cell, out=now).addcmul_(enter, new)
            torch.mul(leave, torch.tanh(now), out=out)
            state, cell = out, now
        return hidden, active, cells

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(inputs[1], *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _StepBack.apply(grads[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> Any:
        gates, weight = _fold(info, dims, given, (1, 0))
        out = _Step.apply(gates, weight)  # type: ignore[no-untyped-call]
        stack = (info.batch_size, -1)
        return tuple(one.unflatten(1, stack) for one in out), (1, 1, 1)


class _StepBack(torch.autograd.Function):
    """Gradients of the gates and of the weight; what needs no order is done for all positions at once."""

    @staticmethod
    def forward(toward: Tensor, weight: Tensor, hidden: Tensor, active: Tensor, cells: Tensor) -> Any:
        size = weight.shape[1]
        leave, enter, forget, new = torch.split(active, size, -1)
        before = torch.cat([torch.zeros_like(cells[:1]), cells[:-1]])
        bent = torch.tanh(cells)
        through = leave * (1 - bent * bent)
        leaving = bent * leave * (1 - leave)
        entering = torch.stack([new * enter * (1 - enter), before * forget * (1 - forget), enter * (1 - new * new)], -2)
        gates = torch.empty_like(active)
        inner = gates[..., size:].view(*gates.shape[:-1], 3, size)
        back = weight.mT.contiguous()
        later = gates.new_zeros(gates.shape[1:])
        cell = cells.new_zeros(*cells.shape[1:-1], 1, size)
        keep = cell
        views = (
            toward,
            forget.unsqueeze(-2),
            through.unsqueeze(-2),
            leaving,
            entering,
            gates[..., :size],
            inner,
            gates,
        )
        for one, kept, bend, ends, slopes, first, rest, all_four in zip(
            *(reversed(v.unbind()) for v in views), strict=True
        ):
            state = torch.baddbmm(one, later, back)
            cell = torch.addcmul(cell * keep, state.unsqueeze(-2), bend)
            torch.mul(ends, state, out=first)
            torch.mul(slopes, cell, out=rest)
            later, keep = all_four, kept
        earlier = hidden[:-1].movedim(0, 1).flatten(1, 2)
        return gates, earlier.mT @ gates[1:].movedim(0, 1).flatten(1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: the gradient has no gradient."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise NotImplementedError("lstm: gradients of gradients are not written out")

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> Any:
        folded = _fold(info, dims, given, (1, 0, 1, 1, 1))
        gates, weight = _StepBack.apply(*folded)  # type: ignore[no-untyped-call]
        stack = (info.batch_size, -1)
        return (gates.unflatten(1, stack), weight.unflatten(0, stack)), (1, 0)


def lstm(gates: Tensor, weight: Tensor) -> Tensor:
    """i, f, o = sigmoid, g = tanh of gates + h W; c <- f c + i g; h = o tanh(c), from a zero state.

    Shapes: gates (L, G, B, 4N) in the order o, i, f, g, weight (G, N, 4N) -> h (L, G, B, N). Half precision
    is computed in float32. Raises: NotImplementedError when a gradient of its gradient is asked for.
    """
    dtype = gates.dtype
    if dtype in (torch.bfloat16, torch.float16):
        gates = gates.float()
    with torch.autocast(gates.device.type, enabled=False):
        hidden: Tensor = _Step.apply(gates, weight.to(gates.dtype))[0]  # type: ignore[no-untyped-call]
    return hidden.to(dtype)
