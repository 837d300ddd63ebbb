"""The encoder of T5."""

from __future__ import annotations

from typing import Any

from headstart.errors import BadInput
from headstart.models.checkpoints.family import Config, Family, Line, line


def _t5(config: Config) -> dict[str, Any]:
    config.require(feed_forward_proj="relu")
    width, heads, each = config.number("d_model", 512), config.number("num_heads", 8), config.number("d_kv", 64)
    if heads * each != width:
        raise BadInput(
            f"{config.path}: d_kv: {heads} heads of {each} numbers are not as wide as the model, {width}, as those of "
            "headstart are; take another checkpoint"
        )
    return {
        "width": width,
        "blocks": config.blocks("num_layers", 6),
        "mixer": {"kind": "attention", "heads": heads, "bias": False, "scale": False},
        "norm": "rms",
        "norm_epsilon": config.real("layer_norm_epsilon", 1e-6),
        "feed_forward": {"width": config.number("d_ff", 2048), "activation": "relu", "bias": False},
        "position": {
            "kind": "relative",
            "buckets": config.number("relative_attention_num_buckets", 32),
            "far": config.number("relative_attention_max_distance", 128),
        },
    }


def _t5_lines(config: Config) -> tuple[Line, ...]:
    del config
    block, theirs = "blocks.{i}", "encoder.block.{i}.layer"
    letters = {"query": "q", "key": "k", "value": "v", "output": "o"}
    return (
        line("position.table", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        *(line(f"{block}.mixer.{name}", f"{theirs}.0.SelfAttention.{letter}") for name, letter in letters.items()),
        line(f"{block}.feed_forward.into", f"{theirs}.1.DenseReluDense.wi"),
        line(f"{block}.feed_forward.back", f"{theirs}.1.DenseReluDense.wo"),
        line(f"{block}.norm_mixer", f"{theirs}.0.layer_norm"),
        line(f"{block}.norm_feed_forward", f"{theirs}.1.layer_norm"),
        line("norm", "encoder.final_layer_norm"),
    )


T5 = Family(
    model=_t5,
    lines=_t5_lines,
    dropped={
        r"(shared|(encoder|decoder)\.embed_tokens)\.weight": "token vectors",
        r"decoder\..*": "the decoder",
        r"(transformer\.)?(lm_head|classifier|classification_head|qa_outputs)\..*": "a head",
    },
    prefixes=("transformer.",),
)
