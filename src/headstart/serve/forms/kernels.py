"""Convolutions with kernels that are made beforehand, for the longest sequence; and the recurrence of an LSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, gelu, glu, pad, silu

from headstart.models.mixers.lstm import LSTM, turn
from headstart.models.mixers.mega import Mega
from headstart.models.mixers.state_space import StateSpace
from headstart.serve.forms.shared import places


class Convolution(nn.Module):
    """Each channel with its own kernel, in one direction or two, as `scan.convolve` has it.

    kernels (C, D, N), skip (D,). Shapes: x (B, L, D), valid (B, L) -> (B, L, D).
    """

    both: Tensor

    def __init__(self, kernels: Tensor, skip: Tensor) -> None:
        super().__init__()
        forward = torch.cat([kernels[0, :, :1] + skip[:, None], kernels[0, :, 1:]], -1).flip(-1)
        self.two, self.longest = kernels.shape[0] == 2, kernels.shape[-1]
        both = torch.cat([forward, kernels[1, :, :-1]], -1) if self.two else forward
        self.register_buffer("both", both.detach())

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        inputs = x.masked_fill(~valid[:, :, None], 0.0).transpose(1, 2)
        # The present stands at N - 1: from L - 1 before it to L - 1 behind it.
        length = x.shape[1]
        place = torch.arange(2 * length - 1 if self.two else length) + (self.longest - length)
        around = pad(inputs, (length - 1, length - 1 if self.two else 0))
        return conv1d(around, self.both[:, None, place], groups=inputs.shape[1]).transpose(1, 2)


class Convolved(nn.Module):
    """s4, s4d and dlr: a convolution, GELU and the output layer."""

    def __init__(self, of: StateSpace, length: int) -> None:
        super().__init__()
        self.output, self.gate = of.output, of.gate
        self.convolution = Convolution(of.kernel(length), of.skip)

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        y: Tensor = self.convolution(x, valid)
        if self.output is None:
            return y
        y = self.output(gelu(y))
        return glu(y, -1) if self.gate == "glu" else y


class GatedAverage(nn.Module):
    """Mega: its average as a convolution, its attention over all pairs of positions."""

    def __init__(self, of: Mega, length: int) -> None:
        super().__init__()
        self.of = of
        self.convolution = Convolution(of.average(length), of.skip)

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        of, width = self.of, x.shape[-1]
        moved = silu(self.convolution(x, valid))
        reset, candidate, update = of.gates(moved).split([of.output.in_features, width, width], -1)
        both = silu(of.query_key(moved)).unsqueeze(-2) * of.scale + of.shift
        scores = both[..., 0, :] @ both[..., 1, :].transpose(-1, -2)
        attended = self.weigh(scores, valid, places(x)) @ silu(of.value(x))
        candidate = silu(candidate + of.output(attended * silu(reset)))
        return torch.sigmoid(update) * (candidate - x)

    def weigh(self, scores: Tensor, valid: Tensor, place: Tensor) -> Tensor:
        """Weights of products (B, L, L): within pieces, and by distance."""
        of, ahead = self.of, place - place[:, None]
        piece = place // of.piece
        seen = (piece[:, None] == piece) & valid[:, None, :]
        seen = seen & (ahead <= 0) if of.causal else seen
        bias = of.distance[ahead.clamp(1 - of.piece, of.piece - 1) + of.piece - 1]
        if of.attention == "softmax":
            scores = scores * of.scale.shape[-1] ** -0.5 + bias
            return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)
        count = seen.sum(-1, keepdim=True).clamp(min=1)
        bent = 0.5 * (1 + torch.erf((scores / count + bias - 0.5**0.5) * (2 * torch.pi) ** 0.5))
        return bent.masked_fill(~seen, 0.0)


class Recurrent(nn.Module):
    """LSTM: in a graph by ONNX's own operator, else by the mixer's. The second direction reads rows turned round."""

    weights: Tensor
    recurrent: Tensor
    bias: Tensor

    def __init__(self, of: LSTM, length: int) -> None:
        del length
        super().__init__()
        self.of = of
        # Gates are o, i, f, g here and i, o, f, g in ONNX.
        for name, given in (("weights", of.input), ("recurrent", of.recurrent), ("bias", of.bias[:, None])):
            leave, enter, forget, new = given.detach().mT.chunk(4, 1)
            self.register_buffer(name, torch.cat([enter, leave, forget, new], 1))
        self.bias = torch.cat([self.bias[..., 0], torch.zeros_like(self.bias[..., 0])], 1)

    def forward(self, x: Tensor, valid: Tensor, draw: None = None) -> Tensor:
        if not torch.compiler.is_exporting():
            there: Tensor = self.of(x, valid)
            return there
        hidden = self._states(x, 0)
        if len(self.weights) == 2:
            hidden = torch.cat([hidden, turn(self._states(turn(x, valid), 1), valid)], -1)
        return hidden if self.of.output is None else self.of.output(hidden)

    def _states(self, x: Tensor, direction: int) -> Tensor:
        """(B, L, N): the operator takes (L, B, D), and has room for directions."""
        one, state = slice(direction, direction + 1), self.recurrent.shape[2]
        inputs = (x.transpose(0, 1), self.weights[one], self.recurrent[one], self.bias[one])
        out = torch.onnx.ops.symbolic(
            "LSTM", inputs, {"hidden_size": state}, dtype=x.dtype, shape=(x.shape[1], 1, x.shape[0], state), version=14
        )
        return out[:, 0].transpose(0, 1)
