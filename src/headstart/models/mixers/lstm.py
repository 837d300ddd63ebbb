"""LSTM as a mixer (Hochreiter and Schmidhuber 1997; as in Lu et al. 2021, one layer to a block).

The recurrence is written out with its gradient so that it stacks under `torch.func`: `torch.nn.LSTM` has no
batching rule for its kernels, which on a CPU are two to three times faster than this loop on short rows of few examples
(docs/benchmarks/state-space.md).
Letters: L length, G groups (directions, stacked models), B batch, N state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models.exporting import AtLength
from headstart.models.mixers.mixer import MixerSpec, directions_of
from headstart.models.mixers.recurrent import turn
from headstart.models.scan import Gradient, folded, precise
from headstart.spec import neutral

CELL_EPSILON = 1e-6
"""Added to the variance by norms inside the cell, as in the code of Lu et al. 2021."""


class LSTMSpec(MixerSpec):
    """One LSTM layer from a zero state; several are several blocks.

    `state` is N per direction; None is the width shared out among the directions. Where the states do not fill the
    width, a linear output follows.
    """

    kind: Literal["lstm"] = "lstm"
    state: int | None = Field(default=None, ge=1)
    """Size of the state (of each channel, where channels have their own)."""
    directions: Literal[1, 2] = 1
    """1: from left to right; 2: both. Not given: 2, or 1 in a causal model."""
    norm: Literal["none", "cell"] = neutral("none")
    """`cell` puts layer norms (part `norm`) inside the cell: of the input's and of the state's share of the gates, and
    of the cell, which is handed on normed."""
    gain: Literal["unit", "small"] = neutral("unit")
    """Their gains and shifts start at 1 and 0 (`unit`), or uniform in +-1 / sqrt(numbers normed) (`small`), as the code
    of Lu et al. 2021 does."""

    @model_validator(mode="after")
    def _gains_of_norms(self) -> LSTMSpec:
        if self.gain == "small" and self.norm == "none":
            raise ValueError(
                "gain is that of norms inside the cell, and norm is 'none'; leave it out, or set norm = 'cell'"
            )
        return self

    def describe(self) -> str:
        gain = "small gains" if self.gain == "small" else "gains of 1"
        return self.in_words({"norm": f"norms of {gain} inside" if self.norm == "cell" else "", "gain": ""})

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        directions_of(self.directions, causal)
        state = self.state_of(width)
        if self.norm == "none":
            return LSTM(width, state, self.directions)
        return NormedLSTM(width, state, self.directions, self.gain == "small")

    def flops(self, width: int, length: int, causal: bool) -> float:
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
        inputs = [x] if self.input.shape[0] == 1 else [x, turn(x, valid)]
        ahead, *back = self.read(inputs)
        hidden = torch.cat([ahead, *(turn(row, valid) for row in back)], -1) if back else ahead
        return hidden if self.output is None else self.output(hidden)

    def read(self, inputs: list[Tensor]) -> Iterable[Tensor]:
        """The states of each direction, from its own inputs (B, L, D): (B, L, N)."""
        if torch.compiler.is_exporting():
            return [self._operator(row, number) for number, row in enumerate(inputs)]
        hidden = lstm(self.gates(inputs), self.recurrent)
        return [row.transpose(0, 1) for row in hidden.unbind(1)]

    def gates(self, inputs: list[Tensor]) -> Tensor:
        """The inputs' share of the gates: (L, G, B, 4N)."""
        return torch.einsum("gbld,gdn->lgbn", torch.stack(inputs), self.input) + self.bias[:, None]

    def exportable(self, length: int) -> nn.Module:
        """Itself, at any length."""
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


class CellNorm(nn.LayerNorm):
    """A layer norm in the precision of its input. small: gains and shifts of M start uniform in +-1 / sqrt(M)."""

    def __init__(self, size: int, small: bool) -> None:
        super().__init__(size, eps=CELL_EPSILON)
        if small:
            for values in (self.weight, self.bias):
                nn.init.uniform_(values, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class NormedLSTM(LSTM):
    """An LSTM with norms inside: gates of norm(x W + b) + norm'(h U + b'), cell c = norm''(f c + i g), h = o tanh(c).

    Shapes as of `LSTM`; half precision is computed in float32. small: gains and shifts as of `CellNorm`.
    Source: Ba et al. 2016, equations 20 to 22, but that the normed cell is handed on, as in the code of Lu et al. 2021.
    """

    parts: Mapping[str, str] = {"norm_input": "norm", "norm_recurrent": "norm", "norm_cell": "norm"}

    def __init__(self, width: int, state: int, directions: int, small: bool) -> None:
        super().__init__(width, state, directions)
        bound = 1 / math.sqrt(state)
        self.recurrent_bias = nn.Parameter(torch.empty(directions, 4 * state).uniform_(-bound, bound))
        self.norm_input, self.norm_recurrent, self.norm_cell = (
            nn.ModuleList(CellNorm(size, small) for _ in range(directions)) for size in (4 * state, 4 * state, state)
        )

    def read(self, inputs: list[Tensor]) -> Iterable[Tensor]:
        gates = self.gates(inputs)
        with torch.autocast(gates.device.type, enabled=False):
            return [self._steps(precise(rows), number).to(gates.dtype) for number, rows in enumerate(gates.unbind(1))]

    def _steps(self, gates: Tensor, number: int) -> Tensor:
        """(L, B, 4N) -> (B, L, N) of one direction."""
        size = self.recurrent.shape[1]
        weight, bias = (value[number].to(gates.dtype) for value in (self.recurrent, self.recurrent_bias))
        norm, norm_cell = self.norm_recurrent[number], self.norm_cell[number]
        hidden = cell = gates.new_zeros(gates.shape[1], size)
        out = []
        for gate in self.norm_input[number](gates).unbind():
            four = gate + norm(torch.addmm(bias, hidden, weight))
            leave, enter, forget = torch.sigmoid(four[:, : 3 * size]).chunk(3, -1)
            cell = norm_cell(torch.addcmul(forget * cell, enter, torch.tanh(four[:, 3 * size :])))
            hidden = leave * torch.tanh(cell)
            out.append(hidden)
        return torch.stack(out, 1)

    def exportable(self, length: int) -> nn.Module:
        """Its steps at one length: ONNX's own operator has no norms."""
        return AtLength(self, length)


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
        gates, weight = folded(inputs, dims, info.batch_size, (1, 0))
        out = _Step.apply(gates, weight)  # type: ignore[no-untyped-call]
        stack = (info.batch_size, -1)
        return tuple(x.unflatten(1, stack) for x in out), (1, 1, 1)


class _StepBack(Gradient):
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
        for grad, decay, bend, ends, slopes, first, rest, all_four in zip(
            *(reversed(v.unbind()) for v in views), strict=True
        ):
            state = torch.baddbmm(grad, later, back)
            cell = torch.addcmul(cell * keep, state.unsqueeze(-2), bend)
            torch.mul(ends, state, out=first)
            torch.mul(slopes, cell, out=rest)
            later, keep = all_four, decay
        earlier = hidden[:-1].movedim(0, 1).flatten(1, 2)
        return gates, earlier.mT @ gates[1:].movedim(0, 1).flatten(1, 2)

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *inputs: Tensor) -> Any:
        gates, weight = _StepBack.apply(*folded(inputs, dims, info.batch_size, (1, 0, 1, 1, 1)))  # type: ignore[no-untyped-call]
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
