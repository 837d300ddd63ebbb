"""Gradients of bfloat16 attention, in chunks of heads, beside those of a written-out float64 attention."""

from __future__ import annotations

import pytest
import torch

from headstart.models.mixers import attend as module
from headstart.models.mixers.attend import attend, worth_chunks


def dense(query, key, value, seen):
    """Attention with its score matrix written out, in float64."""
    q, k, v = (x.detach().double().requires_grad_() for x in (query, key, value))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ v), (q, k, v)


def far(first, second):
    return float((first.detach().double() - second.detach()).norm() / second.detach().norm())


def assert_near(leaves, out, seen, output=0.01, gradient=0.015):
    """Output and gradients of `leaves` are within these shares of those of a dense attention."""
    grad = torch.randn_like(out)
    out.backward(grad)
    exact, exact_leaves = dense(*leaves, seen)
    exact.backward(grad.double())
    assert far(out, exact) < output
    for mine, theirs in zip(leaves, exact_leaves, strict=True):
        assert far(mine.grad, theirs.grad) < gradient


@pytest.mark.parametrize(("asked", "keys", "width"), [(40, 40, 16), (9, 70, 8), (130, 33, 4)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_chunked_gradients_are_those_of_a_dense_attention(asked, keys, width, masked, saved, monkeypatch):
    monkeypatch.setattr(module, "dot_products", lambda: True)  # The way taken must not hang on this machine.
    monkeypatch.setattr(module, "KEPT", 10 * asked * keys - (not saved))
    monkeypatch.setattr(
        module, "CHUNK_SCORES", 3 * asked * keys
    )  # Three heads a chunk: six do not divide evenly by chance.
    torch.manual_seed(0)
    query = torch.randn(2, 5, asked, width).bfloat16().requires_grad_()
    key, value = (torch.randn(2, 5, keys, width).bfloat16().requires_grad_() for _ in range(2))
    seen = (torch.arange(keys) < torch.tensor([keys, keys // 3])[:, None])[:, None, None] if masked else None
    assert worth_chunks(query, key, causal=False)
    out = attend(query, key, value, seen)
    weights = [x for x in out.grad_fn.saved_tensors if x is not None and x.shape == (2, 5, asked, keys)]
    assert len(weights) == saved
    assert_near((query, key, value), out, seen)


def test_sharp_attention_loses_no_precision_to_kept_weights(monkeypatch):
    """Scores of deviation 16: rounded to bfloat16 before the softmax they would give errors of 0.016 and 0.045."""
    monkeypatch.setattr(module, "dot_products", lambda: True)
    torch.manual_seed(0)
    query, key = ((4 * torch.randn(2, 3, 128, 16)).bfloat16().requires_grad_() for _ in range(2))
    value = torch.randn(2, 3, 128, 16).bfloat16().requires_grad_()
    assert_near((query, key, value), attend(query, key, value), None, output=0.005, gradient=0.02)


def test_without_gradients_no_weights_are_kept(monkeypatch):
    monkeypatch.setattr(module, "dot_products", lambda: True)
    monkeypatch.setattr(module, "chunked_means", None)
    x = torch.randn(1, 2, 20, 8).bfloat16()
    with torch.no_grad():
        assert attend(x, x, x).shape == x.shape


@pytest.mark.parametrize("limit", [0, 2**24])
def test_a_key_that_no_query_sees_has_no_gradient(limit, monkeypatch):
    monkeypatch.setattr(module, "dot_products", lambda: True)
    monkeypatch.setattr(module, "KEPT", limit)
    query, key, value = (torch.randn(1, 2, 20, 8).bfloat16().requires_grad_() for _ in range(3))
    attend(query, key, value, (torch.arange(20) < 13)[None, None, None]).float().square().sum().backward()
    assert not key.grad[:, :, 13:].any()
    assert not value.grad[:, :, 13:].any()


def test_float32_and_causal_attention_keep_the_fused_kernel(monkeypatch):
    monkeypatch.setattr(module, "dot_products", lambda: True)
    x = torch.randn(1, 1, 8, 4)
    assert not worth_chunks(x, x, causal=False)
    assert not worth_chunks(x.bfloat16(), x.bfloat16(), causal=True)


def test_bfloat16_gradients_of_a_stack_are_those_of_its_models(monkeypatch):
    monkeypatch.setattr(module, "dot_products", lambda: True)
    x = torch.randn(3, 2, 2, 30, 8).bfloat16()

    def gradient(inputs):
        return torch.func.grad(lambda q: attend(q, q, q).float().square().sum())(inputs)

    together = torch.func.vmap(gradient)(x)
    for i in range(3):
        assert far(together[i], gradient(x[i]).double()) < 1e-6
