"""LSTM as a mixer (Hochreiter and Schmidhuber 1997; as in Lu et al. 2021, one layer to a block).

The recurrence is written out with its gradient so that it stacks under `torch.func`: `torch.nn.LSTM` has no
batching rule for its kernels, which on a CPU are two to three times faster than this loop on short rows of few examples
(docs/benchmarks/state-space.md).
Letters: L length, G groups (directions, stacked models), B batch, N state.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.mixers.mixer import MixerSpec, directions_of
from headstart.models.mixers.recurrent import turn
from headstart.models.scan import precise


class LSTMSpec(MixerSpec):
    """One LSTM layer from a zero state; several are several blocks.

    `state` is N per direction; None is the width shared out among the directions. Where the states do not
    fill the width, a linear output follows.
    """

    kind: Literal["lstm"] = "lstm"
    state: int | None = Field(default=None, ge=1)
    directions: Literal[1, 2] = 1

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        del length
        directions_of(self.directions, causal)
        return LSTM(width, self.state_of(width), self.directions)

    def flops(self, width: int, length: int, causal: bool) -> float:
        del causal
        state = self.state_of(width)
        filled = state * self.directions
        output = 0 if filled == width else filled * width
        return 2.0 * length * (4 * filled * (width + state) + output)

    def state_of(self, width: int) -> int:
        """N of each direction. Raises: BadInput where the directions do not divide the width."""
        if self.state is None and width % self.directions:
            raise BadInput(
                f"model.mixer.state: a width of {width} cannot be shared by {self.directions} "
                f"directions; set a state or a width of {width + 1}"
            )
        return self.state or width // self.directions


class LSTM(nn.Module):
    """x (B, L, D), valid (B, L) bool, valid positions first, or None -> (B, L, D).

    The second direction reads each row from its own last valid position, by a gather, and is gathered back.
    All weights start uniform in +-1 / sqrt(N). Cost O(B L N (D + N)), L steps one after another.
    """

    per_position = ("input", "recurrent")

    def __init__(self, width: int, state: int, directions: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(state)
        self.input = nn.Parameter(torch.empty(directions, width, 4 * state).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(directions, 4 * state).uniform_(-bound, bound))
        self.recurrent = nn.Parameter(torch.empty(directions, state, 4 * state).uniform_(-bound, bound))
        self.output = None if state * directions == width else nn.Linear(state * directions, width)

    def forward(self, x: Tensor, valid: Tensor | None, draw: object = None) -> Tensor:
        del draw
        inputs = [x] if self.input.shape[0] == 1 else [x, turn(x, valid)]
        if torch.compiler.is_exporting():
            ahead, *back = (self._operator(row, number) for number, row in enumerate(inputs))
        else:
            gates = torch.einsum("gbld,gdn->lgbn", torch.stack(inputs), self.input) + self.bias[:, None]
            ahead, *back = (hidden.transpose(0, 1) for hidden in lstm(gates, self.recurrent).unbind(1))
        hidden = torch.cat([ahead, *(turn(row, valid) for row in back)], -1) if back else ahead
        return hidden if self.output is None else self.output(hidden)

    def exportable(self, length: int) -> nn.Module:
        """Itself, at any length."""
        del length
        return self

    def _operator(self, x: Tensor, number: int) -> Tensor:
        """(B, L, N) of one direction by ONNX's own operator, which takes (L, B, D) and has the gates i, o, f, g."""

        def ordered(parameter: Tensor) -> Tensor:
            leave, enter, forget, new = parameter[number].chunk(4, -1)
            return torch.cat([enter, leave, forget, new], -1).mT.unsqueeze(0)

        state, bias = self.recurrent.shape[1], ordered(self.bias.unsqueeze(1))[..., 0]
        inputs = (x.transpose(0, 1), ordered(self.input), ordered(self.recurrent), torch.cat([bias, 0 * bias], 1))
        shape = (x.shape[1], 1, x.shape[0], state)
        out = torch.onnx.ops.symbolic("LSTM", inputs, {"hidden_size": state}, dtype=x.dtype, shape=shape, version=14)
        return out[:, 0].transpose(0, 1)


def _fold(info: Any, dims: tuple[int | None, ...], tensors: tuple[Tensor, ...], axes: tuple[int, ...]) -> list[Tensor]:
    """Stacked arguments with the stack's axis folded into the groups' axis of each."""
    out = []
    for tensor, dim, axis in zip(tensors, dims, axes, strict=True):
        if dim is None:
            before, after = tensor.shape[:axis], tensor.shape[axis:]
            moved = tensor.unsqueeze(axis).expand(*before, info.batch_size, *after)
        else:
            moved = tensor.movedim(dim, axis)
        out.append(moved.flatten(axis, axis + 1))
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
        for gate, four, three, leave, enter, forget, new, now, out in zip(*(v.unbind() for v in views), strict=True):
            torch.baddbmm(gate, state, weight, out=four)
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
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Tensor) -> Any:
        gates, weight = _fold(info, dims, inputs, (1, 0))
        out = _Step.apply(gates, weight)  # type: ignore[no-untyped-call]
        stack = (info.batch_size, -1)
        return tuple(x.unflatten(1, stack) for x in out), (1, 1, 1)


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
        for grad, kept, bend, ends, slopes, first, rest, all_four in zip(
            *(reversed(v.unbind()) for v in views), strict=True
        ):
            state = torch.baddbmm(grad, later, back)
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
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Tensor) -> Any:
        folded = _fold(info, dims, inputs, (1, 0, 1, 1, 1))
        gates, weight = _StepBack.apply(*folded)  # type: ignore[no-untyped-call]
        stack = (info.batch_size, -1)
        return (gates.unflatten(1, stack), weight.unflatten(0, stack)), (1, 0)


def lstm(gates: Tensor, weight: Tensor) -> Tensor:
    """i, f, o = sigmoid, g = tanh of gates + h W; c <- f c + i g; h = o tanh(c), from a zero state.

    Shapes: gates (L, G, B, 4N) in the order o, i, f, g, weight (G, N, 4N) -> h (L, G, B, N). Half precision
    is computed in float32. Raises: NotImplementedError when a gradient of its gradient is asked for.
    """
    dtype = gates.dtype
    gates = precise(gates)
    with torch.autocast(gates.device.type, enabled=False):
        hidden: Tensor = _Step.apply(gates, weight.to(gates.dtype))[0]  # type: ignore[no-untyped-call]
    return hidden.to(dtype)
