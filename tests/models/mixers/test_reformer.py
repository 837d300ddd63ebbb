from __future__ import annotations

import math

import pytest
import torch
from support.dense import Sizes, built, check, close, heads_of, inputs, mask_of, sizes

from headstart.models.mixers.reformer import KEY_EPSILON, SELF_SCORE, ReformerSpec, most_sides, sides
from headstart.seeds import Draw


def buckets_of(query, directions, length: int, chunk: int) -> list[int]:
    """Bucket of each position: for each of two hashes, the nearest of a directions and their opposites."""
    if length <= chunk:
        return [0] * len(query)
    pairs = math.ceil(length / (2 * chunk))
    first = math.ceil(math.sqrt(pairs / 2))
    counts = [first, math.ceil(pairs / (2 * first)) if pairs > 1 else 0]
    out = []
    for vector in query.detach():
        number = 0
        for which, count in enumerate(counts):
            along = [float(vector @ directions[:, which, p]) for p in range(count)]
            both = along + [-a for a in along]
            number = number * 10_000 + (both.index(max(both)) if both else 0)
        # The second hash weighs more; any other order of buckets would be another Reformer.
        low, high = divmod(number, 10_000)
        side = lambda b, count: b if b < count else b - count + 5_000  # noqa: E731
        out.append(side(high, counts[1]) * 10_000 + side(low, counts[0]))
    return out


def seen_in_round(buckets: list[int], chunk: int, causal: bool):
    """Which positions see which, from the order by bucket and place."""
    order = sorted(range(len(buckets)), key=lambda i: (buckets[i], i))
    rank = {i: r for r, i in enumerate(order)}

    def sees(i, j, _):
        if buckets[i] != buckets[j]:
            return False
        if causal:
            return j <= i and rank[i] - rank[j] <= chunk
        return rank[i] // chunk - rank[j] // chunk in (0, 1)

    return sees


def reference(spec: ReformerSpec, causal: bool, built_for: int, draw=None):
    def row(module, x, number):
        q, v = heads_of(module.query, x, module.heads), heads_of(module.value, x, module.heads)
        k = q / torch.sqrt((q**2).mean(-1, keepdim=True) + KEY_EPSILON) / math.sqrt(q.shape[-1])
        drawn = module._directions(torch.zeros(draw.index.shape[0] if draw else 1, 1, dtype=x.dtype), draw)
        directions = drawn[number if draw else 0] if draw else drawn
        heads = []
        for head in range(module.heads):
            outputs, sums = [], []
            for turn in range(spec.hashes):
                length = built_for if causal else len(x)
                buckets = buckets_of(q[head], directions[head, turn], length, spec.chunk)
                mask = mask_of(seen_in_round(buckets, spec.chunk, causal), len(x))
                scores = q[head] @ k[head].T
                scores = torch.where(torch.eye(len(x), dtype=torch.bool), SELF_SCORE, scores)
                scores = torch.where(mask > 0, scores, -torch.inf)
                outputs.append(scores.softmax(-1) @ v[head])
                sums.append(torch.logsumexp(scores, -1))
            share = torch.stack(sums).softmax(0)
            heads.append((torch.stack(outputs) * share[..., None]).sum(0))
        return torch.stack(heads)

    return row


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_dense_attention_under_a_mask_of_buckets_in_each_round(seed, training, causal):
    of = sizes(seed, longest=36)
    spec = ReformerSpec(heads=of.heads, chunk=[1, 2, 3, 4, 5, 8, 12, 64][seed], hashes=1 + seed % 3)
    draw = Draw(seed, 1, torch.arange(len(of.lengths)) + 7) if training else None
    check(built(spec, of, causal), of, reference(spec, causal, 40, draw), draw)


@pytest.mark.parametrize("causal", [False, True])
def test_a_bucket_that_covers_all_is_shared_query_key_attention(causal):
    of = Sizes(heads=2, width=8, lengths=[20, 13], seed=1)
    x, valid = inputs(of)
    module = built(ReformerSpec(heads=2, chunk=40, hashes=3), of, causal)
    output = module(x, valid)
    for number, length in enumerate(of.lengths):
        row = x[number, :length]
        q, v = heads_of(module.query, row, 2), heads_of(module.value, row, 2)
        k = q / torch.sqrt((q**2).mean(-1, keepdim=True) + KEY_EPSILON) / 2
        seen = torch.ones(length, length, dtype=torch.float64) - torch.eye(length, dtype=torch.float64)
        seen = seen.tril() if causal else seen
        # The first position of a causal row sees nothing else, and so itself.
        seen[0, 0] = float(causal)
        weights = torch.exp(q @ k.transpose(1, 2)) * seen
        mixed = (weights @ v / weights.sum(-1, keepdim=True)).transpose(0, 1).reshape(length, -1)
        close(output[number, :length], mixed @ module.output.weight.T + module.output.bias, 1e-10)


def test_buckets_hold_about_a_chunk_and_their_number_follows_the_length():
    lengths = torch.tensor([1, 64, 65, 128, 129, 256, 1024, 4096, 16384])
    first, second = sides(lengths, 64)
    buckets = (2 * first).clamp(min=1) * (2 * second).clamp(min=1)
    assert buckets.tolist() == [1, 1, 2, 2, 4, 4, 16, 64, 256]
    assert (first >= second).all()
    assert [most_sides(int(n), 64) for n in lengths] == first.clamp(min=1).tolist()


def test_near_vectors_share_buckets_more_often_than_far_ones():
    module = ReformerSpec(heads=1, chunk=4, hashes=64).build(16, 64, False)
    torch.manual_seed(0)
    vector = torch.randn(1, 1, 32, 16)
    together = torch.cat([vector, vector + 0.1 * torch.randn_like(vector)], 2)
    buckets = module._buckets(together, torch.ones(1, 64, dtype=torch.bool), None)[0, 0]
    near = (buckets[:, :32] == buckets[:, 32:]).float().mean()
    far = (buckets[:, :32] == buckets[:, 32:].roll(1, -1)).float().mean()
    assert near > 0.6
    assert far < 0.2


def test_training_draws_directions_by_example_and_evaluation_keeps_them():
    module = ReformerSpec(heads=2, chunk=3, hashes=2).build(8, 30, False)
    x = torch.randn(2, 30, 8)
    assert torch.equal(module(x, None), module(x, None))
    drawn = module(x, None, Draw(0, 0, torch.tensor([4, 5])))
    swapped = module(x.flip(0), None, Draw(0, 0, torch.tensor([5, 4])))
    close(swapped.flip(0), drawn, 1e-5)
    assert not torch.allclose(drawn, module(x, None, Draw(0, 1, torch.tensor([4, 5]))))
