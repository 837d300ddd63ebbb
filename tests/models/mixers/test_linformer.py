from __future__ import annotations

import pytest
import torch
from support.dense import built, check, heads_of, sizes, softmaxed

from headstart.errors import BadInput
from headstart.models.mixers.linformer import LinformerSpec


def reference(module, x, number):
    """Each mixture as a sum over the row's own positions."""
    q, k, v = (heads_of(layer, x, module.heads) for layer in (module.query, module.key, module.value))
    of_keys = module.key_mixture
    of_values = of_keys if module.shared else module.value_mixture
    keys = sum(of_keys[:, j, None] * k[:, j, None, :] for j in range(len(x)))
    values = sum(of_values[:, j, None] * v[:, j, None, :] for j in range(len(x)))
    return softmaxed(q, keys, values, torch.ones(len(x), len(of_keys), dtype=x.dtype))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_attention_to_mixtures_of_the_valid_positions(seed, shared):
    of = sizes(seed)
    spec = LinformerSpec(heads=of.heads, rank=3 + 5 * seed, shared=shared)
    check(built(spec, of), of, reference)


def test_it_cannot_be_causal_nor_longer_than_it_is_built():
    with pytest.raises(BadInput, match=r"'linformer' cannot be causal.*set model\.causal = false"):
        LinformerSpec().build(16, 10, True)
    with pytest.raises(BadInput, match=r"built for 10 positions, a sequence has 11; set model\.position\.length"):
        LinformerSpec().build(16, 10, False)(torch.zeros(1, 11, 16), None)


def test_a_fresh_mixture_of_independent_keys_is_as_large_as_a_key():
    torch.manual_seed(0)
    module = LinformerSpec(rank=64).build(16, 500, False)
    mixed = module.key_mixture @ torch.randn(500, 16)
    assert 0.8 < float(mixed.detach().std()) < 1.25
