from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap

from headstart.models.mixers import attend as attending
from headstart.models.mixers.attend import attend


def written_out(query, key, value, seen):
    weights = torch.exp(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5) * seen
    return weights @ value / weights.sum(-1, keepdim=True)


def some(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def masks(batch, asked, keys, seed=0):
    """Masks of every shape that broadcasts, each query seeing at least one key."""
    noise = some(batch, 1, asked, keys, seed=seed) > 0
    noise[..., 0] = True
    return [noise, noise[:1], noise[:, :, :1], noise[:1, :, :1]]


@pytest.mark.parametrize(("asked", "keys"), [(1, 1), (5, 9), (300, 70)])
def test_it_is_the_formula_with_outputs_and_gradients(asked, keys):
    q, k, v = some(2, 3, asked, 4), some(2, 3, keys, 4, seed=1), some(2, 3, keys, 4, seed=2)
    for seen in (None, *masks(2, asked, keys)):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        output = attend(*leaves, seen)
        expected = written_out(*leaves, torch.ones(1) if seen is None else seen)
        torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-12)
        weight = some(*output.shape, seed=3)
        ours, theirs = (torch.autograd.grad((y * weight).sum(), leaves) for y in (output, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_causal_is_the_lower_triangle():
    q, k, v = some(2, 3, 40, 4), some(2, 3, 40, 4, seed=1), some(2, 3, 40, 4, seed=2)
    triangle = torch.ones(40, 40, dtype=torch.float64).tril()
    torch.testing.assert_close(attend(q, k, v, causal=True), written_out(q, k, v, triangle))


def test_a_query_that_sees_no_key_gives_no_nan_and_no_gradient_of_one():
    q, k, v = (some(1, 1, 3, 4, seed=s).requires_grad_() for s in range(3))
    seen = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])[None, None]
    out = attend(q, k, v, seen)
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), [q, k, v]))


@pytest.mark.parametrize("shared_mask", [True, False])
def test_a_stack_is_each_of_its_members(shared_mask):
    q, k, v = some(3, 2, 2, 7, 4), some(3, 2, 2, 9, 4, seed=1), some(3, 2, 2, 9, 4, seed=2)
    for seen in masks(2, 7, 9):
        stacked = seen if shared_mask else torch.stack([seen, torch.ones_like(seen), seen])

        def loss(q, k, v, seen):
            return attend(q, k, v, seen).square().sum()

        grads = vmap(grad(loss, (0, 1, 2)), (0, 0, 0, None if shared_mask else 0))(q, k, v, stacked)
        for member in range(3):
            own = seen if shared_mask else stacked[member]
            alone = grad(loss, (0, 1, 2))(q[member], k[member], v[member], own)
            torch.testing.assert_close(tuple(g[member] for g in grads), alone)


def test_what_a_stack_shares_gets_the_sum_of_its_gradients():
    q, k = some(3, 2, 1, 5, 4), some(2, 1, 5, 4, seed=1)

    def loss(k, q):
        return attend(q, k, k).square().sum()

    total = grad(lambda k: vmap(loss, (None, 0))(k, q).sum())(k)
    torch.testing.assert_close(total, sum(grad(loss)(k, member) for member in q))


@pytest.mark.parametrize("mask", ["none", "causal", "own", "shared"])
def test_torchs_own_call_takes_a_stack_as_one_larger_batch(mask, monkeypatch):
    """What a GPU does: one call for all models, and the gradients of each are its own."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, 2, 2, 5, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    seen = {"own": torch.rand(3, 2, 1, 1, 5, generator=generator) > 0.3, "shared": torch.rand(1, 1, 5, 5) > 0.3}.get(
        mask
    )
    causal, calls = mask == "causal", []
    real = attending.scaled_dot_product_attention
    monkeypatch.setattr(
        attending, "scaled_dot_product_attention", lambda *a, **k: (calls.append(a[0].shape), real(*a, **k))[1]
    )
    leaves = [x.requires_grad_() for x in (query, key, value)]
    rows = None if seen is None else (0 if mask == "own" else None)
    out = vmap(lambda q, k, v, s: attending.fused(q, k, v, s, causal), in_dims=(0, 0, 0, rows))(*leaves, seen)
    assert calls == [(6, 2, 5, 4)]
    slopes = torch.autograd.grad(out.square().sum(), leaves)
    for number in range(3):
        own = [x[number].detach().requires_grad_() for x in leaves]
        alone = attending.fused(*own, seen[number] if mask == "own" else seen, causal)
        assert torch.allclose(out[number], alone, atol=1e-12)
        for whole, part in zip(slopes, torch.autograd.grad(alone.square().sum(), own), strict=True):
            assert torch.allclose(whole[number], part, atol=1e-12)
