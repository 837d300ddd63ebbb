from __future__ import annotations

import pytest
import torch
from support.dense import Sizes, close, inputs
from torch.nn.functional import layer_norm

from headstart.errors import BadInput
from headstart.models.mixers.parallel import ParallelSpec
from headstart.spec import read

PAIR = [{"kind": "s4d", "state": 4}, {"kind": "local_attention", "heads": 2, "window": 3}]
OF = Sizes(heads=2, width=8, lengths=[17, 9], seed=3)


def parallel(causal=False, **fields):
    torch.manual_seed(0)
    spec = read(ParallelSpec, {"kind": "parallel", "mixers": PAIR, **fields}, "model.mixer")
    return spec, spec.build(8, 20, causal).double()


@pytest.mark.parametrize("combine", ["sum", "concat"])
@pytest.mark.parametrize("norm", [False, True])
def test_it_is_its_mixers_normed_and_added_or_joined(combine, norm):
    _, module = parallel(combine=combine, norm=norm)
    x, valid = inputs(OF)
    outputs = [mixer(x, valid) for mixer in module.mixers]
    if norm:
        outputs = [layer_norm(y, (8,)) for y in outputs]
    if combine == "concat":
        weight, bias = module.joint.weight, module.joint.bias
        expected = outputs[0] @ weight[:, :8].T + outputs[1] @ weight[:, 8:].T + bias
    else:
        expected = outputs[0] + outputs[1]
    close(module(x, valid), expected, 1e-12)


def test_a_frozen_mixer_gets_no_gradient_and_the_others_do():
    _, module = parallel(frozen=[0])
    x, valid = inputs(OF)
    module(x, valid).square().sum().backward()
    frozen = {name for name, p in module.named_parameters() if p.grad is None}
    assert frozen == {f"mixers.0.{name}" for name, _ in module.mixers[0].named_parameters()}


def test_parts_rates_and_decay_of_its_mixers_keep_their_meaning():
    spec, module = parallel()
    assert module.parts["mixers.0.kernel"] == "kernel"
    assert module.parts["mixers.1.query"] == "query_key"
    assert module.parts["norms"] == "norm"
    assert module.rates == {"mixers.0.kernel": 1e-3}
    assert module.undecayed == {"mixers.0.kernel"}
    assert spec.rotary


def test_rotary_positions_reach_the_mixers_that_turn():
    spec, module = parallel()
    torch.manual_seed(0)
    turned = spec.build(8, 20, False, theta=100.0).double()
    x, valid = inputs(OF)
    close(turned.mixers[0](x, valid), module.mixers[0](x, valid), 1e-12)
    assert not torch.allclose(turned.mixers[1](x, valid), module.mixers[1](x, valid))


def test_it_is_causal_only_where_all_its_mixers_can_be():
    spec = read(ParallelSpec, {"mixers": [{"kind": "linformer"}, {"kind": "attention"}]}, "model.mixer")
    assert not spec.can_be_causal
    with pytest.raises(BadInput, match="'linformer' cannot be causal"):
        spec.build(8, 20, True)


def test_the_default_is_the_pair_of_spade():
    assert [mixer.kind for mixer in ParallelSpec().mixers] == ["s4", "local_attention"]


def test_an_unknown_mixer_a_number_of_none_and_an_empty_list_are_refused():
    with pytest.raises(BadInput, match=r"mixers\[1\]\.kind: no 'atention'; did you mean 'attention'"):
        read(ParallelSpec, {"mixers": [PAIR[0], {"kind": "atention"}]}, "model.mixer")
    with pytest.raises(BadInput, match=r"model\.mixer\.frozen: no mixer 2; there are 2, 0 to 1"):
        parallel(frozen=[2])
    with pytest.raises(BadInput, match=r"model\.mixer\.mixers: "):
        read(ParallelSpec, {"mixers": []}, "model.mixer")
