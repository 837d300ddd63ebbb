"""BERT, Longformer, ViT and ESM-2: encoders whose blocks have the names of BERT's."""

from __future__ import annotations

from typing import Any

from headstart.checkpoints.family import FLAGS, TURNS, Config, Family, Line, added, line, scaled
from headstart.errors import BadInput

BERT_HEADS = r"(pooler|cls|classifier|qa_outputs|lm_head|mlm|decoder)\..*"
MASKED_SHARE = 0.15 * 0.8
"""Share of the tokens that ESM-2's training replaced by a vector of zeros; the others are scaled as if it still did."""


def _sizes(config: Config) -> dict[str, Any]:
    """Of BERT's keys; the defaults are those of its base model, which the four families share."""
    return {
        "width": config.number("hidden_size", 768),
        "blocks": config.blocks("num_hidden_layers", 12),
        "mixer": {"kind": "attention", "heads": config.number("num_attention_heads", 12)},
        "norm_epsilon": config.real("layer_norm_eps", 1e-12),
        "feed_forward": {
            "width": config.number("intermediate_size", 3072),
            "activation": config.activation("hidden_act", "gelu"),
        },
    }


def _bert(config: Config) -> dict[str, Any]:
    config.require(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return {**_sizes(config), "norm_place": "after", "embedding_norm": True, "position": {"kind": "learned"}}


def _longformer(config: Config) -> dict[str, Any]:
    model = _bert(config)
    windows = config.table.get("attention_window", 512)
    windows = windows if isinstance(windows, list) else [windows] * model["blocks"]
    even = all(type(size) is int and size > 1 and size % 2 == 0 for size in windows)
    if len(windows) != model["blocks"] or not even:
        raise BadInput(
            f"{config.path}: attention_window: {windows!r} is not an even number above 1 for each of {model['blocks']} "
            "blocks; correct it"
        )
    mixers = [{**model["mixer"], "kind": "longformer", "window": size // 2, "global_positions": 0} for size in windows]
    return {**model, "mixer": mixers[0] if len(set(windows)) == 1 else mixers}


def _vit(config: Config) -> dict[str, Any]:
    config.require(qkv_bias=True)
    return {**_sizes(config), "position": {"kind": "none"}}


def _esm(config: Config) -> dict[str, Any]:
    config.choice("position_embedding_type", "absolute", {"rotary": None})
    config.require(emb_layer_norm_before=False, is_decoder=False, is_folding_model=False)
    sizes = _sizes(config)
    feed_forward = {**sizes["feed_forward"], "activation": "gelu"}  # whatever the config names
    position = {"kind": "rotary", "theta": config.real("rope_theta", 1e4)}
    return {**sizes, "feed_forward": feed_forward, "position": position}


def _blocks(attention: str, norms: tuple[str, str]) -> tuple[Line, ...]:
    """Lines of a block: what stands before the names of query, key and value, and the two norms."""
    block, theirs = "blocks.{i}", "encoder.layer.{i}"
    layers = [
        line(f"{block}.mixer.{name}", f"{theirs}.attention.{attention}.{name}") for name in ("query", "key", "value")
    ]
    return (
        *layers,
        line(f"{block}.mixer.output", f"{theirs}.attention.output.dense"),
        line(f"{block}.feed_forward.into", f"{theirs}.intermediate.dense"),
        line(f"{block}.feed_forward.back", f"{theirs}.output.dense"),
        line(f"{block}.norm_mixer", f"{theirs}.{norms[0]}"),
        line(f"{block}.norm_feed_forward", f"{theirs}.{norms[1]}"),
    )


def _bert_lines(config: Config) -> tuple[Line, ...]:
    return _with_positions(config, 0, 2)


def _longformer_lines(config: Config) -> tuple[Line, ...]:
    return _with_positions(config, 1 + config.number("pad_token_id", 1, 0), 2)


def _with_positions(config: Config, skipped: int, kinds: int) -> tuple[Line, ...]:
    names = ("position", "token_type")
    return (
        line(
            "position.table",
            " ".join(f"embeddings.{name}_embeddings.weight" for name in names),
            added(skipped, config.number("type_vocab_size", kinds)),
        ),
        line("embedding_norm", "embeddings.LayerNorm"),
        *_blocks("self", ("attention.output.LayerNorm", "output.LayerNorm")),
    )


def _longformer_length(config: Config) -> int:
    most, padding = config.number("max_position_embeddings", 512), config.number("pad_token_id", 1, 0)
    if most < padding + 2:
        raise BadInput(
            f"{config.path}: max_position_embeddings: {most} leaves no position behind that of padding, pad_token_id: "
            f"{padding}; correct them"
        )
    return most - 1 - padding


def _vit_lines(config: Config) -> tuple[Line, ...]:
    del config
    return (*_blocks("attention", ("layernorm_before", "layernorm_after")), line("norm", "layernorm"))


def _esm_lines(config: Config) -> tuple[Line, ...]:
    factor = 1 - MASKED_SHARE if config.choice("token_dropout", False, FLAGS) else 1.0
    return (
        line("encoder.weight", "embeddings.word_embeddings.weight", scaled(factor)),
        *_blocks("self", ("attention.LayerNorm", "LayerNorm")),
        line("norm", "encoder.emb_layer_norm_after"),
    )


BERT = Family(
    model=_bert,
    lines=_bert_lines,
    dropped={
        r"embeddings\.word_embeddings\.weight": "token vectors",
        r"embeddings\.position_ids": "a constant",
        BERT_HEADS: "a head",
    },
    prefixes=("bert.",),
    length=lambda config: config.number("max_position_embeddings", 512),
)
LONGFORMER = Family(
    model=_longformer,
    lines=_longformer_lines,
    dropped={
        **BERT.dropped,
        r"encoder\.layer\.\d+\.attention\.self\.(query|key|value)_global\.(weight|bias)": "layers of global positions",
    },
    prefixes=("longformer.",),
    length=_longformer_length,
)
VIT = Family(
    model=_vit,
    lines=_vit_lines,
    dropped={r"embeddings\..*": "patches, positions and the vector of a class", BERT_HEADS: "a head"},
    prefixes=("vit.",),
)
ESM = Family(
    model=_esm,
    lines=_esm_lines,
    dropped={
        r"embeddings\.(position_ids|position_embeddings\.weight)": "positions that are not used",
        r"(encoder\.layer\.(\d+|\*)\.attention\.self\.)?rotary_embeddings\.inv_freq": TURNS,
        r"contact_head\..*": "a head",
        BERT_HEADS: "a head",
    },
    prefixes=("esm.",),
    vocabulary=lambda config: config.number("vocab_size"),
)
