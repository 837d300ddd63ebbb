"""Mixers whose memory is linear in the length hold no tensor that grows faster."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from headstart.models.mixers import MIXERS

SMALL = {
    "bigbird": {"block": 16, "random": 2},
    "linear_attention": {},
    "linformer": {"rank": 32},
    "local_attention": {"window": 64},
    "longformer": {"window": 16},
    "performer": {"features": 32},
    "reformer": {"chunk": 16, "hashes": 2},
}


class Largest(TorchDispatchMode):
    """Notes the most numbers that any tensor made under it holds in memory (a broadcast view counts once)."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, torch.Tensor):
                self.size = max(self.size, x.untyped_storage().nbytes() // x.element_size())
        return out


def largest(kind: str, causal: bool, length: int) -> int:
    spec = MIXERS[kind].load().model_validate({"kind": kind, "heads": 2, **SMALL[kind]})
    module = spec.build(16, length, causal)
    x = torch.randn(1, length, 16, requires_grad=True)
    valid = torch.arange(length)[None] < length - 5
    with Largest() as seen:
        module(x, valid).sum().backward()
    return seen.size


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", SMALL)
def test_four_times_the_length_takes_little_more_than_four_times_the_memory(kind, causal):
    if causal and not MIXERS[kind].load().can_be_causal:
        pytest.skip(f"{kind} cannot be causal")
    short, long = largest(kind, causal, 1024), largest(kind, causal, 4096)
    # A little more: the first window or chunk has none before it.
    assert long <= 4.3 * short
    assert long < 4096**2 / 4
