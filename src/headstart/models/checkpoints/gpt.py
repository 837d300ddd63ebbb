"""GPT-2."""

from __future__ import annotations

from typing import Any

from headstart.models.checkpoints.family import FUSED_TURNED, TURNED, Config, Family, Line, line


def _gpt2(config: Config) -> dict[str, Any]:
    config.require(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    width = config.number("n_embd", 768)
    return {
        "width": width,
        "blocks": config.number("n_layer", 12),
        "mixer": {"kind": "attention", "heads": config.number("n_head", 12)},
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
    fused = " ".join(f"{block}.mixer.{name}" for name in ("query", "key", "value"))
    return (
        line("position.table", "wpe.weight"),
        line(fused, f"{theirs}.attn.c_attn", FUSED_TURNED),
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
        r"(lm_head|score|classifier|multiple_choice_head\..*)\.(weight|bias)": "a head",
        r"h\.\d+\.attn\.(bias|masked_bias)": "a mask",
    },
    prefixes=("transformer.",),
    length=lambda config: config.number("n_positions", 1024),
)
