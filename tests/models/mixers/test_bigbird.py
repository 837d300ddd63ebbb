from __future__ import annotations

import pytest
import torch
from support.dense import Sizes, built, check, close, heads_of, inputs, sizes, softmaxed

from headstart.errors import BadInput
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.bigbird import BigBirdSpec
from headstart.seeds import bits
from headstart.spec import read


def blocks_seen(spec: BigBirdSpec, head: int, own: int, count: int, causal: bool) -> set[int]:
    """Numbers of the blocks that a block sees, one after another, from lists."""
    half, ends = spec.window // 2, spec.global_blocks
    there = range(own + 1) if causal else range(count)
    seen = {b for b in there if abs(b - own) <= half or b < ends}
    if not causal:
        seen |= {b for b in there if b >= count - ends}
    left = [b for b in there if b not in seen]
    for t in range(min(spec.random, len(left))):
        number = int(bits(0, "bigbird/blocks", head, own, t))
        seen.add(left.pop(number * len(left) >> 32))
    return seen


def mask(spec: BigBirdSpec, heads: int, length: int, causal: bool) -> torch.Tensor:
    """(H, L, L) of 0 and 1."""
    size = spec.block
    count = -(-length // size)
    out = torch.zeros(heads, length, length, dtype=torch.float64)
    for head in range(heads):
        for i in range(length):
            seen = blocks_seen(spec, head, i // size, count, causal)
            own = i // size
            if not causal and (own < spec.global_blocks or own >= count - spec.global_blocks):
                seen = set(range(count))
            for j in range(length):
                out[head, i, j] = j // size in seen and (not causal or j <= i)
    return out


def reference(spec: BigBirdSpec, causal: bool):
    def row(module, x, number):
        q, k, v = (heads_of(layer, x, module.heads) for layer in (module.query, module.key, module.value))
        return softmaxed(q, k, v, mask(spec, module.heads, len(x), causal))

    return row


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_dense_attention_under_a_mask_of_blocks(seed, causal):
    of = sizes(seed, longest=36)
    spec = BigBirdSpec(
        heads=of.heads,
        block=[1, 2, 3, 4, 2, 3, 1, 50][seed],
        window=[1, 3, 3, 1, 5, 1, 3, 3][seed],
        random=[0, 1, 2, 3, 3, 9, 4, 3][seed],
        global_blocks=[1, 1, 0, 1, 2, 0, 3, 1][seed],
    )
    check(built(spec, of, causal), of, reference(spec, causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("theta", [None, 100.0])
def test_windows_that_cover_all_are_full_attention(causal, theta):
    of = Sizes(heads=2, width=8, lengths=[23, 9], seed=2)
    x, valid = inputs(of)
    more = {} if theta is None else {"theta": theta}
    spec = BigBirdSpec(heads=2, block=4, window=2 * 7 + 1)
    module, full = built(spec, of, causal, **more), built(AttentionSpec(heads=2), of, causal, **more)
    full.load_state_dict(module.state_dict())
    close(module(x, valid)[valid], full(x, valid)[valid], 1e-12)


def test_random_blocks_are_spread_evenly_and_differ_between_heads():
    spec = BigBirdSpec(random=3)
    seen = [[blocks_seen(spec, head, own, 64, False) for own in range(64)] for head in range(8)]
    times = torch.zeros(64)
    for head in seen:
        for own, blocks in enumerate(head):
            far = [b for b in blocks if abs(b - own) > 1 and b not in (0, 63)]
            assert len(far) == 3
            times[far] += 1
    # 8 heads x 64 blocks x 3 draws over 62 blocks: 24.8 each.
    assert times[1:63].min() > 8
    assert times[1:63].max() < 46
    assert seen[0] != seen[1]


def test_windows_without_a_middle_and_below_one_are_refused():
    with pytest.raises(BadInput, match=r"model\.mixer\.window: 4 blocks have no middle; take 5"):
        BigBirdSpec(window=4).build(16, 10, False)
    with pytest.raises(BadInput, match=r"model\.mixer\.window: -1 should be greater than or equal to 1"):
        read(BigBirdSpec, {"window": -1}, "model.mixer")


@pytest.mark.parametrize("longest", [1, 3, 4, 5])
def test_sequences_of_fewer_blocks_than_are_global_are_read_whole(longest):
    of = Sizes(heads=2, width=8, lengths=[longest, 1], seed=longest)
    spec = BigBirdSpec(heads=2, block=2, global_blocks=3, random=1)
    check(built(spec, of, False), of, reference(spec, False))
