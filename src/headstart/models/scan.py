"""Long convolutions by FFT, kernels of diagonal recurrences from two small power tables, and recurrences in chunks.

Real arithmetic throughout (a complex number is a pair of real tensors): it is as fast, runs on every device
and stacks under `torch.func`. Nothing here keeps state; but for `mamba`, nothing holds D x N x L numbers.
Letters: B batch, L length, D width, N state, C kernels per channel (one per direction).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

KEYED_CHUNK = 16
"""Positions of a chunk whose weights are written out for each number of a key."""

Pair = tuple[Tensor, Tensor]
"""Real and imaginary parts."""


def precise(x: Tensor) -> Tensor:
    """Half-precision numbers as float32, for sums and exponents that 8 bits would spoil."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def multiply(a: Pair, b: Pair) -> Pair:
    """Product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def fast_length(least: int) -> int:
    """The smallest even 2^a 3^b 5^c that is at least `least`: a length at which FFTs are fast."""
    lengths = _fast_lengths(max(least - 1, 1).bit_length())
    return lengths[bisect_left(lengths, least)]


@cache
def _fast_lengths(twos: int) -> list[int]:
    """Every even 2^a 3^b 5^c up to 2^`twos`, in order."""
    out, most = [], 2**twos
    five = 2
    while five <= most:
        three = five
        while three <= most:
            out += [three << more for more in range((most // three).bit_length())]
            three *= 3
        five *= 5
    return sorted(out)


class Gradient(torch.autograd.Function):
    """Base of gradients that are written out and have none themselves, so that nothing is kept for it."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise NotImplementedError(
            "convolutions, attention and LSTMs have no second derivatives: gradients of gradients are not written out"
        )


def folded(tensors: Iterable[Tensor], dims: Iterable[int | None], size: int, axes: Iterable[int]) -> list[Tensor]:
    """Tensors with a stacked axis at `dims` (None: shared by the stack), which is folded into the one at `axes`."""
    out = []
    for x, dim, axis in zip(tensors, dims, axes, strict=True):
        before, after = x.shape[:axis], x.shape[axis:]
        stack = x.unsqueeze(axis).expand(*before, size, *after) if dim is None else x.movedim(dim, axis)
        out.append(stack.flatten(axis, axis + 1))
    return out


class _Convolve(torch.autograd.Function):
    """Circular convolution along the last axis, cut to the input's length.

    Written out because autograd's own backward of `rfft` is a full complex FFT of the padded length.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(inputs: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = kernel.shape[-1]
        spectrum, response = torch.fft.rfft(inputs, n=size), torch.fft.rfft(kernel)
        out = torch.fft.irfft(spectrum * response, n=size)
        return out[..., : inputs.shape[-1]], spectrum, response

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.length, ctx.size = inputs[0].shape[-1], inputs[1].shape[-1]
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1], output[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        needed = [i for i in (0, 1) if ctx.needs_input_grad[i]]
        out = _ConvolveBackward.apply(grads[0], *ctx.saved_tensors, ctx.length, ctx.size, needed)  # type: ignore[no-untyped-call]
        gradients = dict(zip(needed, out, strict=True))
        return gradients.get(0), gradients.get(1)


class _ConvolveBackward(Gradient):
    """Gradients of the inputs (0) and of the kernel (1), those that are needed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        grad: Tensor, spectrum: Tensor, response: Tensor, length: int, size: int, needed: list[int]
    ) -> tuple[Tensor, ...]:
        toward = torch.fft.rfft(grad, n=size)
        made = (
            lambda: torch.fft.irfft(toward * response.conj(), n=size)[..., :length],
            lambda: torch.fft.irfft((toward * spectrum.conj()).sum(0), n=size),
        )
        return tuple(made[i]() for i in needed)


def convolve(inputs: Tensor, kernels: Tensor, skip: Tensor | None = None) -> Tensor:
    """Each channel's inputs with its own kernel, in one or both directions.

    y[l] = sum_j forward[j] x[l-j] + sum_j backward[j] x[l+1+j] + skip x[l]: the backward kernel begins at the
    next position, so that the present one counts once.
    Shapes: inputs (B, D, L), kernels (C, D, L) with C 1 (forward) or 2 (forward, backward), skip (D,) ->
    (B, D, L). Cost O(B D L log L). Half precision is computed in float32. In a graph, where a transform of any length
    is neither known nor precise, it is one convolution of cost O(B D L^2).
    """
    length = inputs.shape[-1]
    dtype = inputs.dtype
    inputs, kernels = precise(inputs), precise(kernels)
    forward = kernels[0]
    if skip is not None:
        now = forward[:, :1] + skip.to(forward.dtype)[:, None]
        forward = torch.cat([now, forward[:, 1:]], -1)
    two = kernels.shape[0] == 2
    if torch.compiler.is_exporting():
        line = torch.cat([forward.flip(-1), kernels[1, :, : length - 1]], -1) if two else forward.flip(-1)
        around = pad(inputs, (length - 1, length - 1 if two else 0))
        return conv1d(around, line.unsqueeze(1), groups=inputs.shape[1])
    # 2 L - 1 numbers keep both tails apart; the backward kernel lies reversed at the end of the circle.
    size = fast_length(2 * length - 1)
    if not two:
        circle = pad(forward, (0, size - length))
    else:
        backward = kernels[1, :, : length - 1].flip(-1)
        gap = forward.new_zeros(forward.shape[0], size - 2 * length + 1)
        circle = torch.cat([forward, gap, backward], -1)
    out: Tensor = _Convolve.apply(inputs, circle)[0]  # type: ignore[no-untyped-call]
    return out.to(dtype)


def stride_of(length: int, copies: int = 1) -> int:
    """S of the split l = a S + b: the power of two nearest to sqrt(copies * length), at most `length`.

    A mixer fixes it once from its longest input, so that a shorter batch rounds each power alike.
    """
    nearest = round(math.log2(max(copies * length, 1)) / 2)
    return int(2 ** min(nearest, math.ceil(math.log2(max(length, 1)))))


def powers(rate: Pair, steps: Tensor) -> Pair:
    """exp(rate * step): rate (..., N), steps (S,) -> (..., N, S)."""
    size = torch.exp(rate[0].unsqueeze(-1) * steps)
    angle = rate[1].unsqueeze(-1) * steps
    return size * torch.cos(angle), size * torch.sin(angle)


def diagonal_kernel(weight: Pair, rate: Pair, length: int, stride: int) -> Tensor:
    """K[c, d, l] = Re sum_n weight[c, d, n] exp(rate[d, n] l), for l below `length`.

    With l = a S + b a power is a product of two, exp(rate a S) exp(rate b), so that the sum over n is one
    batched matrix product of an (A, 2N) and a (2N, S) table.
    Shapes: weight (C, D, N); rate (D, N), or (N,) where all channels share it -> (C, D, L). Real parts of
    rates are at most 0. Cost O(C D N L) multiply-adds, memory O(C D (N (A + S) + L)).
    """
    shared = rate[0].dim() == 1
    rows = -(-length // stride)
    steps = torch.arange(max(rows, stride), device=rate[0].device, dtype=rate[0].dtype)
    with torch.autocast(rate[0].device.type, enabled=False):
        coarse = powers((rate[0] * stride, rate[1] * stride), steps[:rows])
        fine = powers(rate, steps[:stride])
        right = torch.cat([fine[0], -fine[1]], -2)
        left = multiply((weight[0].unsqueeze(-1), weight[1].unsqueeze(-1)), coarse)
        table = torch.cat(left, -2).transpose(-1, -2)
        if shared:
            out = torch.matmul(table.flatten(0, 2), right).reshape(*table.shape[:3], stride)
        else:
            by_channel = table.movedim(0, 1).flatten(1, 2)
            out = torch.matmul(by_channel, right)
            out = out.reshape(out.shape[0], -1, rows, stride).movedim(1, 0)
    return out.flatten(2)[..., :length]


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """(..., L, C) -> (..., n, chunk, C), zeros behind the last position."""
    missing = -x.shape[-2] % chunk
    # To add nothing would copy everything.
    return torch.unflatten(pad(x, (0, 0, 0, missing)) if missing else x, -2, (-1, chunk))


def recurrence(decay: Tensor, inputs: Tensor) -> Tensor:
    """h[l] = decay[l] h[l-1] + inputs[l] along the last axis but one, from 0.

    Positions are cut into about sqrt(L) chunks that advance side by side, so that 3 sqrt(L) operations follow one
    another. Shapes: decay and inputs (..., L, C) -> (..., L, C).
    """
    if torch.compiler.is_exporting():
        return _advance(decay, inputs, False)
    return _Recurrence.apply(decay, inputs, False)  # type: ignore[no-untyped-call]


def _advance(decay: Tensor, inputs: Tensor, back: bool) -> Tensor:
    """`recurrence`, or its transpose: h[l] = decay[l + 1] h[l + 1] + inputs[l] from the last position back."""
    length = inputs.shape[-2]
    chunk = 2 ** math.ceil(math.log2(length) / 2)
    decay, inputs = in_chunks(decay, chunk), in_chunks(inputs, chunk)
    way, fades = (-1 if back else 1), decay.unbind(-2)
    if back:
        fades = (*fades[1:], pad(fades[0][..., 1:, :], (0, 0, 0, 1)))
    steps = list(zip(fades, inputs.unbind(-2), strict=True))[::way]
    state = torch.zeros_like(steps[0][1])
    if inputs.shape[-3] > 1:
        # What each chunk makes of a zero state, and what it keeps of another one.
        (keep, end), *rest = steps
        for fade, new in rest:
            keep, end = keep * fade, torch.addcmul(new, fade, end)
        states = [state[..., 0, :]]
        for fade, new in list(zip(keep.unbind(-2), end.unbind(-2), strict=True))[::way][:-1]:
            states.append(torch.addcmul(new, fade, states[-1]))
        state = torch.stack(states[::way], -2)
    out = torch.empty_like(inputs)
    for (fade, new), row in zip(steps, out.unbind(-2)[::way], strict=True):
        state = torch.addcmul(new, fade, state, out=row)
    return out.flatten(-3, -2)[..., :length, :]


class _Recurrence(torch.autograd.Function):
    """(decay, inputs, back) -> states; each way is the gradient of the other one."""

    @staticmethod
    def forward(decay: Tensor, inputs: Tensor, back: bool) -> Tensor:
        return _advance(decay, inputs, back)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
        ctx.back = inputs[2]
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        decay, states = ctx.saved_tensors
        toward: Tensor = _Recurrence.apply(decay, grad, not ctx.back)  # type: ignore[no-untyped-call]
        later, earlier = (states, toward) if ctx.back else (toward, states)
        return pad(later[..., 1:, :] * earlier[..., :-1, :], (0, 0, 1, 0)), toward, None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], decay: Tensor, inputs: Tensor, back: bool) -> tuple[Tensor, int]:
        decay, inputs = (
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((decay, inputs), dims[:2], strict=True)
        )
        return _Recurrence.apply(decay, inputs, back), 0  # type: ignore[no-untyped-call]


def gated_sums(
    query: Tensor, key: Tensor, value: Tensor, fade: Tensor, chunk: int, bonus: Tensor | None = None
) -> Tensor:
    """out[i] = q[i] S[i] of the matrix state S[i] = exp(fade[i]) S[i-1] + k[i]^T v[i], from 0.

    With `bonus`, out[i] = q[i] (S[i-1] + bonus k[i]^T v[i]). Positions go in chunks: within one, weights are written
    out, from exponents that are never above 0; what came before a chunk enters as its state.
    Shapes: query and key (..., L, K), value (..., L, V); fade (..., L, K), or (..., L, 1) where all of K fade alike, at
    most 0; bonus (..., 1, K) -> (..., L, V). Cost O(L (c K + c V + K V)), memory O(L (c + K V / c)), where fades are
    K numbers O(L (c K + K V / c)).
    """
    with torch.autocast(query.device.type, enabled=False):
        parts = (precise(query), precise(key), precise(value), precise(fade))
        return _gated_sums(*parts, chunk, bonus).to(value.dtype)


def _gated_sums(query: Tensor, key: Tensor, value: Tensor, fade: Tensor, chunk: int, bonus: Tensor | None) -> Tensor:
    length = query.shape[-2]
    chunk = min(chunk, length)
    query, key, value, fade = (in_chunks(x, chunk) for x in (query, key, value, fade))
    total = fade.cumsum(-2)
    since = total if bonus is None else total - fade
    later = torch.ones(chunk, chunk, dtype=torch.bool, device=query.device).triu(1 if bonus is None else 0)
    gap = since.unsqueeze(-2) - total.unsqueeze(-3)
    weight = gap.masked_fill(later.unsqueeze(-1), -torch.inf).exp()
    if fade.shape[-1] == 1:
        inside = (query @ key.mT) * weight.squeeze(-1)
    else:
        inside = ((query.unsqueeze(-2) * weight) * key.unsqueeze(-3)).sum(-1)
    if bonus is not None:
        inside = inside + torch.diag_embed((query * bonus.unsqueeze(-3) * key).sum(-1))
    out = inside @ value
    if query.shape[-3] > 1:
        end = total[..., :-1, -1:, :]
        states = (key[..., :-1, :, :] * (end - total[..., :-1, :, :]).exp()).mT @ value[..., :-1, :, :]
        decay = end.exp().mT.expand(states.shape)
        states = torch.unflatten(recurrence(decay.flatten(-2), states.flatten(-2)), -1, states.shape[-2:])
        before = (query * since.exp())[..., 1:, :, :] @ states
        out = out + pad(before, (0, 0, 0, 0, 1, 0))
    return out.flatten(-3, -2)[..., :length, :]


def gated_sums_flops(length: int, chunk: int, key: int, value: int) -> float:
    """Of one head of `gated_sums`: multiply-adds times two, positions padded to chunks."""
    chunk = min(chunk, length)
    padded = -(-length // chunk) * chunk
    return 2.0 * padded * chunk * (key + value) + 4.0 * (padded - chunk) * key * value


def short_convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each channel's last W positions with its own kernel: x (B, L, D), weight (D, W) -> (B, L, D)."""
    behind = pad(x.transpose(1, 2), (weight.shape[-1] - 1, 0))
    return conv1d(behind, weight.unsqueeze(1), bias, groups=x.shape[-1]).transpose(1, 2)
