from __future__ import annotations

import pytest
import torch

from headstart.models.scan import convolve, diagonal_kernel, fast_length, recurrence, stride_of

torch.manual_seed(0)


def direct(inputs, kernels, skip):
    """y[l] = sum_j forward[j] x[l-j] + sum_j backward[j] x[l+1+j] + skip x[l], term by term."""
    length = inputs.shape[-1]
    out = []
    for at in range(length):
        y = skip * inputs[..., at]
        for j in range(at + 1):
            y = y + kernels[0, :, j] * inputs[..., at - j]
        for j in range(length - at - 1 if kernels.shape[0] == 2 else 0):
            y = y + kernels[1, :, j] * inputs[..., at + 1 + j]
        out.append(y)
    return torch.stack(out, -1)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("length", [1, 2, 7, 16, 31])
def test_a_convolution_and_its_gradients_equal_the_sum_term_by_term(directions, length):
    x = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
    k = torch.randn(directions, 3, length, dtype=torch.float64, requires_grad=True)
    skip = torch.randn(3, dtype=torch.float64, requires_grad=True)
    output, expected = convolve(x, k, skip), direct(x, k, skip)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    cotangent = torch.randn_like(output)
    ours = torch.autograd.grad(output, [x, k, skip], cotangent)
    theirs = torch.autograd.grad(expected, [x, k, skip], cotangent, materialize_grads=True)
    for grad, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(grad, other, rtol=0, atol=1e-12)


def test_convolutions_stack_under_vmap_whatever_is_stacked():
    x, k = torch.randn(4, 2, 3, 9, dtype=torch.float64), torch.randn(4, 2, 3, 9, dtype=torch.float64)
    alone = torch.stack([convolve(a, b) for a, b in zip(x, k, strict=True)])
    torch.testing.assert_close(torch.func.vmap(convolve)(x, k), alone)
    same_kernel = torch.stack([convolve(a, k[0]) for a in x])
    torch.testing.assert_close(torch.func.vmap(convolve, (0, None))(x, k[0]), same_kernel)


def test_half_precision_inputs_are_convolved_in_float32():
    x, k = torch.randn(2, 3, 50), torch.randn(1, 3, 50)
    half = convolve(x.bfloat16(), k)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), convolve(x.bfloat16().float(), k), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("least", [1, 2, 3, 7, 121, 2047, 2049, 32767, 131071])
def test_a_fast_length_is_the_smallest_even_product_of_2_3_and_5(least):
    def smooth(n):
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n == 1

    length = fast_length(least)
    assert length >= least
    assert length % 2 == 0
    assert smooth(length)
    assert not any(smooth(n) and n % 2 == 0 for n in range(max(least, 2), length))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("length", "built"), [(1, 1), (5, 40), (40, 40), (37, 64), (100, 30)])
def test_a_diagonal_kernel_equals_its_sum_of_exponentials(shared, length, built):
    c, d, n = 2, 3, 5
    weight = torch.randn(2, c, d, n, dtype=torch.float64, requires_grad=True)
    rate = torch.randn(2, *(() if shared else (d,)), n, dtype=torch.float64)
    rate[0] = -rate[0].abs() * 0.1
    rate.requires_grad_()
    kernel = diagonal_kernel((weight[0], weight[1]), (rate[0], rate[1]), length, stride_of(built))
    steps = torch.arange(length, dtype=torch.float64)
    power = torch.exp(torch.complex(rate[0], rate[1])[..., None] * steps)
    expected = (torch.complex(weight[0], weight[1])[..., None] * power).sum(-2).real
    torch.testing.assert_close(kernel, expected, rtol=0, atol=1e-11)
    cotangent = torch.randn_like(kernel)
    for grad, other in zip(
        torch.autograd.grad(kernel, [weight, rate], cotangent),
        torch.autograd.grad(expected, [weight, rate], cotangent),
        strict=True,
    ):
        torch.testing.assert_close(grad, other, rtol=0, atol=1e-9)


def test_a_convolution_has_no_second_derivatives_and_says_so():
    inputs, kernels = (torch.randn(*shape, requires_grad=True) for shape in ((2, 3, 8), (2, 3, 8)))
    (grad,) = torch.autograd.grad(convolve(inputs, kernels).square().sum(), inputs, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        grad.square().sum().backward()


def test_a_kernel_is_never_held_as_width_by_state_by_length():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, torch.Tensor):
                    Largest.size = max(Largest.size, tensor.numel())
            return out

    d, n, length = 8, 32, 4096
    weight, rate = torch.randn(2, 1, d, n, requires_grad=True), torch.randn(2, d, n)
    with Largest():
        kernel = diagonal_kernel((weight[0], weight[1]), (-rate[0].abs(), rate[1]), length, stride_of(length))
        kernel.sum().backward()
    assert Largest.size <= d * length


@pytest.mark.parametrize("length", [1, 2, 7, 16, 37])
def test_a_recurrence_is_stepped_position_by_position_alone_and_in_a_stack(length):
    decay, inputs = torch.rand(3, 2, length, 5).double(), torch.randn(3, 2, length, 5).double()
    state, rows = torch.zeros(3, 2, 5).double(), []
    for position in range(length):
        state = decay[:, :, position] * state + inputs[:, :, position]
        rows.append(state)
    expected = torch.stack(rows, 2)
    torch.testing.assert_close(recurrence(decay, inputs), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.func.vmap(recurrence)(decay, inputs), expected, rtol=1e-12, atol=1e-12)


def test_first_and_second_gradients_of_a_recurrence_are_those_of_differences():
    decay = torch.rand(2, 9, 3, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(recurrence, (decay, inputs))
    assert torch.autograd.gradgradcheck(recurrence, (decay, inputs))
