from __future__ import annotations

import pytest
import torch
from support.dense import built, check, heads_of, sizes

from headstart.models.mixers import linear_attention
from headstart.models.mixers.linear_attention import LinearAttentionSpec, positive


def reference(causal):
    def row(module, x, number):
        q, k, v = (heads_of(layer, x, module.heads) for layer in (module.query, module.key, module.value))
        weights = (torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).transpose(1, 2)
        weights = weights.tril() if causal else weights
        return weights @ v / weights.sum(-1, keepdim=True)

    return row


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chunk", [4, 128])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_a_dense_matrix_of_feature_products(seed, chunk, causal, monkeypatch):
    monkeypatch.setattr(linear_attention, "FEATURE_CHUNK", chunk)
    of = sizes(seed)
    check(built(LinearAttentionSpec(heads=of.heads), of, causal), of, reference(causal))


def test_features_are_elu_plus_one_with_its_slope_and_never_zero():
    x = torch.tensor([-60.0, -17.5, -1.0, 0.0, 1.0, 30.0], requires_grad=True)
    y = positive(x)
    torch.testing.assert_close(y[2:], torch.nn.functional.elu(x[2:]) + 1)
    assert (y > 0).all()
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slope, torch.where(x > 0, torch.ones(6), x.detach().exp()))
