from __future__ import annotations

import pytest
import torch
from support.dense import built, check, close, inputs, masked_attention, sizes

from headstart.errors import BadInput
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.local_attention import LocalAttentionSpec
from headstart.spec import read


def sees(window: int, causal: bool):
    return lambda i, j, _: abs(i // window - j // window) <= 1 and (not causal or j <= i)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_dense_attention_under_a_mask_of_windows(seed, causal):
    of = sizes(seed)
    for window in (1, 2 + seed, 64):
        module = built(LocalAttentionSpec(heads=of.heads, window=window), of, causal)
        check(module, of, masked_attention(sees(window, causal)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("theta", [None, 100.0])
def test_one_window_is_full_attention(causal, theta):
    of = sizes(3)
    x, valid = inputs(of)
    more = {} if theta is None else {"theta": theta}
    local = built(LocalAttentionSpec(heads=of.heads, window=len(x[0])), of, causal, **more)
    full = built(AttentionSpec(heads=of.heads), of, causal, **more)
    full.load_state_dict(local.state_dict())
    close(local(x, valid)[valid], full(x, valid)[valid], 1e-12)


def test_rotary_attention_in_windows_depends_on_relative_place_only():
    """Two windows further on, with the windows' borders moved along, equal inputs give equal outputs."""
    of = sizes(1)
    module = built(LocalAttentionSpec(heads=of.heads, window=3), of, theta=50.0)
    x = torch.randn(1, 9, of.width, dtype=torch.float64)
    far = torch.cat([torch.zeros(1, 6, of.width, dtype=torch.float64), x], 1)
    # The third window of x and what it sees stand two windows later; the first two see what is before them.
    # The table of turns is kept in float32.
    close(module(far, None)[:, 12:], module(x, None)[:, 6:], 1e-6)


def test_tied_layers_start_equal_and_apart():
    module = LocalAttentionSpec(init="tied").build(8, 10, False)
    weights = [layer.weight for layer in (module.query, module.key, module.value, module.output)]
    assert all(torch.equal(weights[0], w) and w is not weights[0] for w in weights[1:])


def test_a_window_below_one_and_heads_that_do_not_divide_are_refused():
    with pytest.raises(BadInput, match=r"model\.mixer\.window: 0 should be greater than or equal to 1"):
        read(LocalAttentionSpec, {"window": 0}, "model.mixer")
    with pytest.raises(BadInput, match=r"model\.mixer\.heads: 5 heads do not divide model.width = 64; 4 do"):
        LocalAttentionSpec(heads=5).build(64, 10, False)
    with pytest.raises(BadInput, match="rotary positions need heads of even width"):
        LocalAttentionSpec(heads=4).build(12, 10, False, theta=1e4)
