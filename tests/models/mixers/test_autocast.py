from __future__ import annotations

import pytest
import torch
from support.stepping import close

from headstart.models.mixers.lstm import LSTMSpec
from headstart.models.mixers.mega import MegaSpec
from headstart.models.mixers.s4 import S4Spec
from headstart.models.mixers.state_space import DLRSpec, S4DSpec

SPECS = [
    S4Spec(state=16),
    S4DSpec(state=16),
    DLRSpec(state=16),
    MegaSpec(),
    LSTMSpec(directions=2),
    LSTMSpec(norm="cell"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_in_bfloat16_a_recurrence_is_still_computed_in_float32(spec):
    torch.manual_seed(0)
    module = spec.build(8, 500, False)
    x = torch.randn(2, 500, 8, requires_grad=True)
    exact = module(x, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = module(x, None)
        kernel = getattr(module, "kernel", None)
        assert kernel is None or kernel(500).dtype == torch.float32
    half.float().square().mean().backward()
    close(half.float(), exact, 2e-2)
    assert torch.isfinite(x.grad).all()
