from __future__ import annotations

import pytest
import torch
from support.dense import built, check, close, heads_of, inputs, masked_attention, sizes, softmaxed

from headstart.errors import BadInput
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.local_attention import LongformerSpec
from headstart.spec import read


def reference(window: int, some: int, causal: bool):
    """The mask of a window and of global columns; rows of global positions through their own layers."""

    def sees(i, j, _):
        return (abs(i - j) <= window or j < some) and (not causal or j <= i)

    def row(module, x, number):
        mixed = masked_attention(sees)(module, x, number)
        if causal or not some:
            return mixed
        names = ["query", "key", "value"]
        layers = [getattr(module, f"{name}_global" if module.separate else name) for name in names]
        everything = torch.ones(len(x), len(x), dtype=x.dtype)
        of_global = softmaxed(*(heads_of(layer, x, module.heads) for layer in layers), everything)
        return torch.cat([of_global[:, :some], mixed[:, some:]], 1)

    return row


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_dense_attention_under_a_mask_of_window_and_global_positions(seed, separate, causal):
    of = sizes(seed)
    window, some = [1, 2, 3, 5, 8, 13, 29, 100][seed], [0, 1, 2, 3, 1, 40, 0, 2][seed]
    spec = LongformerSpec(heads=of.heads, window=window, global_positions=some, separate=separate)
    check(built(spec, of, causal), of, reference(window, some, causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("theta", [None, 100.0])
def test_a_window_as_long_as_the_sequence_is_full_attention(causal, theta):
    of = sizes(5)
    x, valid = inputs(of)
    more = {} if theta is None else {"theta": theta}
    spec = LongformerSpec(heads=of.heads, window=x.shape[1], separate=False)
    module, full = built(spec, of, causal, **more), built(AttentionSpec(heads=of.heads), of, causal, **more)
    full.load_state_dict(module.state_dict())
    close(module(x, valid)[valid], full(x, valid)[valid], 1e-12)


def test_layers_of_global_positions_belong_to_the_parts_of_attention():
    module = LongformerSpec().build(16, 20, False)
    assert module.parts["key_global"] == "query_key"
    assert module.parts["value_global"] == "value_output"
    assert "key_global" not in LongformerSpec().build(16, 20, True).parts


def test_a_window_below_one_is_refused():
    with pytest.raises(BadInput, match=r"model\.mixer\.window: 0 should be greater than or equal to 1"):
        read(LongformerSpec, {"window": 0}, "model.mixer")
