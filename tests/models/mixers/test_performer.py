from __future__ import annotations

import pytest
import torch
from support.dense import Sizes, built, by_rows, check, close, heads_of, inputs, masked_attention, sizes

from headstart.models.mixers import linear_attention
from headstart.models.mixers.linear_attention import PerformerSpec, orthogonal_features


def reference(causal):
    """exp(w . x - |x|^2 / 2) for each feature w, written out; the highest exponent is not taken out."""

    def row(module, x, number):
        q, k, v = (heads_of(layer, x, module.heads) for layer in (module.query, module.key, module.value))
        q, k = (a / a.shape[-1] ** 0.25 for a in (q, k))
        features = [torch.exp(a @ module.directions.T - (a**2).sum(-1, keepdim=True) / 2) for a in (q, k)]
        weights = features[0] @ features[1].transpose(1, 2)
        weights = weights.tril() if causal else weights
        return weights @ v / weights.sum(-1, keepdim=True)

    return row


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chunk", [4, 128])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_a_dense_matrix_of_feature_products(seed, chunk, causal, monkeypatch):
    monkeypatch.setattr(linear_attention, "FEATURE_CHUNK", chunk)
    of = sizes(seed)
    check(built(PerformerSpec(heads=of.heads, features=5 + seed), of, causal), of, reference(causal))


@pytest.mark.parametrize("causal", [False, True])
def test_it_approaches_softmax_attention_as_features_grow(causal):
    of = Sizes(heads=2, width=8, lengths=[20, 13], seed=1)
    x, valid = inputs(of)
    x = x / 2
    errors = []
    for features in (16, 256, 4096):
        tries = []
        for seed in range(6):
            torch.manual_seed(0)
            module = PerformerSpec(heads=2, features=features).build(8, 20, causal).double()
            module.directions = orthogonal_features(features, 4, seed)
            exact = by_rows(module, x, of.lengths, masked_attention(lambda i, j, _: not causal or j <= i))
            tries.append(float((module(x, valid) - exact)[valid].detach().square().mean().sqrt()))
        errors.append(sum(tries) / len(tries))
    # Sixteen times the features: a quarter of the error, give or take.
    assert errors[1] < errors[0] / 2
    assert errors[2] < errors[1] / 2
    assert errors[2] < 0.005


@pytest.mark.parametrize("causal", [False, True])
def test_vectors_far_too_long_for_an_exponential_give_finite_outputs_and_gradients(causal, monkeypatch):
    monkeypatch.setattr(linear_attention, "FEATURE_CHUNK", 4)
    module = PerformerSpec(heads=2, features=16).build(8, 20, causal)
    x = (100 * torch.randn(2, 20, 8)).requires_grad_()
    out = module(x, None)
    assert out.isfinite().all()
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()


def test_a_huge_later_key_changes_nothing_before_it(monkeypatch):
    monkeypatch.setattr(linear_attention, "FEATURE_CHUNK", 4)
    module = PerformerSpec(heads=2, features=16).build(8, 20, True)
    x = torch.randn(1, 20, 8)
    other = torch.cat([x[:, :10], 1e3 * torch.randn(1, 10, 8)], 1)
    close(module(other, None)[:, :10], module(x, None)[:, :10], 1e-6)


def test_features_are_orthogonal_in_blocks_and_as_long_as_normal_vectors():
    rows = orthogonal_features(20, 8, seed=0)
    for block in (rows[:8], rows[8:16], rows[16:]):
        unit = block / block.norm(dim=-1, keepdim=True)
        torch.testing.assert_close(unit @ unit.T, torch.eye(len(block), dtype=torch.float64))
    many = orthogonal_features(4000, 8, seed=1)
    assert abs(float(many.square().sum(-1).mean()) - 8) < 0.3
    assert float(many.mean(0).abs().max()) < 0.1


def test_features_follow_the_spec_not_the_seed_of_the_weights():
    torch.manual_seed(0)
    first = PerformerSpec().build(16, 8, False)
    torch.manual_seed(1)
    second = PerformerSpec().build(16, 8, False)
    assert torch.equal(first.directions, second.directions)
    assert "directions" not in first.state_dict()
