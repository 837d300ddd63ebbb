"""Weights copied across to transformers' own layers, at unpadded multiples of the block."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.dense import Sizes, built, close, inputs
from test_bigbird import blocks_seen

from headstart.models.mixers.bigbird import BigBirdSpec
from headstart.models.mixers.local_attention import LongformerSpec
from headstart.models.mixers.reformer import ReformerSpec

pytest.importorskip("transformers", reason="compared only where transformers is: pip install 'headstart[dev]'")

HEADS, WIDTH = 2, 8


def whole(length: int) -> tuple[Sizes, torch.Tensor]:
    """Two unpadded rows, float32."""
    of = Sizes(heads=HEADS, width=WIDTH, lengths=[length, length], seed=4)
    return of, inputs(of)[0].float()


def mixed(module, x: torch.Tensor) -> torch.Tensor:
    """What a mixer hands to its output layer."""
    seen: list[torch.Tensor] = []
    hook = module.output.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    module(x, None)
    hook.remove()
    return seen[0].detach()


def copied(module, layer, names: dict[str, str]) -> None:
    """Copy linear layers of ours into theirs: names of ours -> of theirs."""
    for ours, theirs in names.items():
        getattr(layer, theirs).load_state_dict(getattr(module, ours).state_dict())
    layer.eval()


def test_longformer_is_that_of_transformers():
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    of, x = whole(24)
    module = built(LongformerSpec(heads=HEADS, window=4, global_positions=2), of).float()
    layer = LongformerSelfAttention(
        LongformerConfig(
            hidden_size=WIDTH, num_attention_heads=HEADS, attention_window=[8], attention_probs_dropout_prob=0.0
        ),
        layer_id=0,
    )
    names = ("query", "key", "value", "query_global", "key_global", "value_global")
    copied(module, layer, {name: name for name in names})
    seen = torch.zeros(2, 24)
    # Their code for a position: 0 local, above 0 global, below 0 padding.
    seen[:, :2] = 10_000.0
    with torch.no_grad():
        output = layer(
            x, attention_mask=seen, is_index_masked=seen < 0, is_index_global_attn=seen > 0, is_global_attn=True
        )[0]
    close(mixed(module, x), output, 1e-5)


def test_bigbird_is_that_of_transformers(monkeypatch):
    from transformers import BigBirdConfig, BigBirdModel
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

    block, count = 4, 10
    of, x = whole(block * count)
    spec = BigBirdSpec(heads=HEADS, block=block, random=2)
    module = built(spec, of).float()
    layer = BigBirdBlockSparseAttention(
        BigBirdConfig(
            hidden_size=WIDTH,
            num_attention_heads=HEADS,
            block_size=block,
            num_random_blocks=2,
            max_position_embeddings=block * count,
            attention_probs_dropout_prob=0.0,
        )
    )
    copied(module, layer, {name: name for name in ("query", "key", "value")})

    def ours(*_, **__):
        """Our random blocks for their blocks 1 to n - 2, for each head."""
        fixed = [{0, count - 1, own - 1, own, own + 1} for own in range(count)]
        return [
            np.array([sorted(blocks_seen(spec, head, own, count, False) - fixed[own]) for own in range(1, count - 1)])
            for head in range(HEADS)
        ]

    monkeypatch.setattr(layer, "_bigbird_block_rand_mask_with_head", ours)
    blocked, band, of_queries, of_keys = BigBirdModel.create_masks_for_block_sparse_attn(
        torch.ones(2, block * count), block
    )
    with torch.no_grad():
        output = layer(
            x, band_mask=band, from_mask=of_queries, to_mask=of_keys, from_blocked_mask=blocked, to_blocked_mask=blocked
        )[0]
    close(mixed(module, x), output, 1e-5)


def test_reformer_in_one_chunk_is_that_of_transformers():
    """More chunks differ by design: theirs see other buckets of a chunk too, and the first sees the last."""
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    of, x = whole(16)
    module = built(ReformerSpec(heads=HEADS, chunk=16, hashes=2, bias=False), of).float()
    config = ReformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_head_size=WIDTH // HEADS,
        lsh_attn_chunk_length=16,
        num_hashes=2,
        is_decoder=False,
        lsh_attention_probs_dropout_prob=0.0,
    )
    layer = LSHSelfAttention(config)
    copied(module, layer, {"query": "query_key", "value": "value"})
    with torch.no_grad():
        output = layer(x).hidden_states
    close(mixed(module, x), output, 1e-5)
