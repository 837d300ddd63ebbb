"""GPT-2 and GPT-NeoX: decoders."""

from __future__ import annotations

from typing import Any

from headstart.checkpoints.family import (
    FLAGS,
    FUSED_TURNED,
    LARGEST_NUMBER,
    TURNED,
    TURNS,
    Config,
    Family,
    Line,
    interleaved,
    line,
)
from headstart.errors import BadInput

FUSED = " ".join(f"blocks.{{i}}.mixer.{name}" for name in ("query", "key", "value"))


def _gpt2(config: Config) -> dict[str, Any]:
    config.require(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    width = config.number(config.key("n_embd", "hidden_size"), 768, most=LARGEST_NUMBER // 4)
    return {
        "width": width,
        "blocks": config.blocks(config.key("n_layer", "num_hidden_layers"), 12),
        "mixer": {"kind": "attention", "heads": config.number(config.key("n_head", "num_attention_heads"), 12)},
        "norm_epsilon": config.real("layer_norm_epsilon", 1e-5),
        "feed_forward": {
            "width": config.number("n_inner", 4 * width),
            "activation": config.activation("activation_function", "gelu_new"),
        },
        "position": {"kind": "learned"},
        "causal": True,
    }


def _gpt2_lines(config: Config) -> tuple[Line, ...]:
    del config
    block, theirs = "blocks.{i}", "h.{i}"
    return (
        line("position.table", "wpe.weight"),
        line(FUSED, f"{theirs}.attn.c_attn", FUSED_TURNED),
        line(f"{block}.mixer.output", f"{theirs}.attn.c_proj", TURNED),
        line(f"{block}.feed_forward.into", f"{theirs}.mlp.c_fc", TURNED),
        line(f"{block}.feed_forward.back", f"{theirs}.mlp.c_proj", TURNED),
        line(f"{block}.norm_mixer", f"{theirs}.ln_1"),
        line(f"{block}.norm_feed_forward", f"{theirs}.ln_2"),
        line("norm", "ln_f"),
    )


GPT2 = Family(
    model=_gpt2,
    lines=_gpt2_lines,
    dropped={
        r"wte\.weight": "token vectors",
        r"(lm_head|score|classifier|qa_outputs|multiple_choice_head\..*)\.(weight|bias)": "a head",
        r"h\.\d+\.attn\.(bias|masked_bias)": "a mask",
    },
    prefixes=("transformer.",),
    length=lambda config: config.number(config.key("n_positions", "max_position_embeddings"), 1024),
)


def _gpt_neox(config: Config) -> dict[str, Any]:
    return {
        "width": config.number("hidden_size", 6144),
        "blocks": config.blocks("num_hidden_layers", 44),
        "mixer": {
            "kind": "attention",
            "heads": config.number("num_attention_heads", 64),
            "bias": config.choice("attention_bias", True, FLAGS),
        },
        "norm_epsilon": config.real("layer_norm_eps", 1e-5),
        "parallel": config.choice("use_parallel_residual", True, FLAGS),
        "feed_forward": {
            "width": config.number("intermediate_size", 24_576),
            "activation": config.activation("hidden_act", "gelu"),
        },
        "position": _turns(config),
        "causal": True,
    }


def _turns(config: Config) -> dict[str, Any]:
    """Rotary positions: those of `rope_parameters` come first, then names of the family's own."""
    config.require(rope_scaling=None)
    table = config.table.get("rope_parameters") or {}
    if not isinstance(table, dict):
        raise BadInput(
            f"{config.path}: rope_parameters: {table!r} is not a table; download the model's config.json again"
        )
    inner = Config(table, f"{config.path}: rope_parameters")
    inner.require(**{"rope_type" if "rope_type" in table else "type": "default"})
    position: dict[str, Any] = {"kind": "rotary"}
    for ours, own, other, default in (
        ("share", "rotary_pct", "partial_rotary_factor", 0.25),
        ("theta", "rotary_emb_base", "rope_theta", 1e4),
    ):
        value = position[ours] = inner.real(other, default) if other in table else config.real(own, default)
        if other not in table and config.real(other, value) != value:
            raise config.contradiction(own, value, other)
    return position


def _gpt_neox_lines(config: Config) -> tuple[Line, ...]:
    block, theirs = "blocks.{i}", "layers.{i}"
    return (
        line(FUSED, f"{theirs}.attention.query_key_value", interleaved(config.number("num_attention_heads", 64))),
        line(f"{block}.mixer.output", f"{theirs}.attention.dense"),
        line(f"{block}.feed_forward.into", f"{theirs}.mlp.dense_h_to_4h"),
        line(f"{block}.feed_forward.back", f"{theirs}.mlp.dense_4h_to_h"),
        line(f"{block}.norm_mixer", f"{theirs}.input_layernorm"),
        line(f"{block}.norm_feed_forward", f"{theirs}.post_attention_layernorm"),
        line("norm", "final_layer_norm"),
    )


GPT_NEOX = Family(
    model=_gpt_neox,
    lines=_gpt_neox_lines,
    dropped={
        r"embed_in\.weight": "token vectors",
        r"(embed_out|score|classifier|qa_outputs)\.(weight|bias)": "a head",
        r"layers\.\d+\.attention\.(bias|masked_bias)": "a mask",
        r"(layers\.\d+\.attention\.rotary_emb|rotary_emb)\.inv_freq": TURNS,
    },
    prefixes=("gpt_neox.",),
)
