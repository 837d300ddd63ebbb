"""The encoder of T5, and the models of series that are built on it: Chronos-Bolt and MOMENT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from headstart.checkpoints.family import FLAGS, Config, Family, Line, TensorForm, line
from headstart.checkpoints.series import PatchedSpec, SeriesFields
from headstart.errors import BadInput

JOINED = TensorForm(
    lambda *parts: (torch.cat(parts),), lambda x: x.chunk(2), lambda shape: ((shape[0] // 2, *shape[1:]),) * 2
)
"""Two layers as one, the second behind the first."""
REGISTER = TensorForm(lambda x: (x[1],), lambda x: (torch.stack([x * 0, x]),), lambda shape: ((2, *shape),))
"""The second of two vectors."""
MOMENT_POSITIONS = 5_000
"""Positions for which MOMENT's files hold a vector, of which it uses the first."""


def _t5(config: Config) -> dict[str, Any]:
    width = config.number(config.key("d_model", "hidden_size"), 512)
    heads = config.number(config.key("num_heads", "num_attention_heads"), 8)
    each = config.number(config.key("d_kv", "head_dim"), 64)
    narrow = {} if heads * each == width else {"head_width": each}
    return {
        "width": width,
        "blocks": config.blocks(config.key("num_layers", "num_hidden_layers"), 6),
        "mixer": {"kind": "attention", "heads": heads, "bias": False, "scale": False, **narrow},
        "norm": "rms",
        "norm_epsilon": config.real("layer_norm_epsilon", 1e-6),
        "feed_forward": {"width": config.number("d_ff", 2048), "bias": False, **_fed(config)},
        "position": {
            "kind": "relative",
            "buckets": config.number("relative_attention_num_buckets", 32),
            "far": config.number("relative_attention_max_distance", 128),
        },
    }


def _fed(config: Config) -> dict[str, Any]:
    """Whether the feed-forward layer is gated, and its activation."""
    gated = config.choice("feed_forward_proj", "relu", {"relu": False, "gated-gelu": True})
    if config.choice("is_gated_act", gated, FLAGS) != gated:
        raise config.contradiction("feed_forward_proj", "gated-gelu" if gated else "relu", "is_gated_act")
    activation = config.activation("dense_act_fn", "gelu_new" if gated else "relu")
    return {"kind": "glu", "gate": activation} if gated else {"activation": activation}


def _t5_lines(config: Config) -> tuple[Line, ...]:
    block, theirs = "blocks.{i}", "encoder.block.{i}.layer"
    letters = {"query": "q", "key": "k", "value": "v", "output": "o"}
    into = line(f"{block}.feed_forward.into", f"{theirs}.1.DenseReluDense.wi")
    if config.table.get("feed_forward_proj") == "gated-gelu":
        # Theirs multiplies gelu(wi_0 x) by wi_1 x; our gate is the second half.
        names = (f"{theirs}.1.DenseReluDense.wi_1", f"{theirs}.1.DenseReluDense.wi_0")
        into = line(f"{block}.feed_forward.into", " ".join(names), JOINED)
    return (
        line("position.table", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        *(line(f"{block}.mixer.{name}", f"{theirs}.0.SelfAttention.{letter}") for name, letter in letters.items()),
        into,
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


def _within(config: Config, key: str) -> Config:
    """The settings of a table in the config."""
    table = config.table.get(key)
    if not isinstance(table, Mapping):
        raise BadInput(f"{config.path}: {key}: {table!r} is not a table; download the model's config.json again")
    return Config(table, f"{config.path}: {key}")


def _bolt(config: Config) -> SeriesFields:
    own = _within(config, "chronos_config")
    patch = own.number("input_patch_size", most=2**12)
    own.require(input_patch_stride=patch)
    config.require(feed_forward_proj="relu", dense_act_fn="relu")
    own.choice("use_reg_token", False, {True: True})
    length = own.number("context_length", most=2**16)
    series = PatchedSpec(kind="chronos_bolt", model=_t5(config), patch=patch, length=length)
    return SeriesFields("chronos_bolt", series.model, None, series=series)


def _bolt_lines(config: Config) -> tuple[Line, ...]:
    layers = ("hidden", "output", "residual")
    inputs = (line(f"input.{name}", f"input_patch_embedding.{name}_layer") for name in layers)
    return (*_t5_lines(config), *inputs, line("input.register", "shared.weight", REGISTER))


CHRONOS_BOLT = Family(
    model=lambda config: dict(_bolt(config).model),
    lines=_bolt_lines,
    dropped={
        r"(encoder|decoder)\.embed_tokens\.weight": "another name of the register's vectors",
        r"decoder\..*": "the decoder",
        r"(lm_head|output_patch_embedding)\..*": "a head",
    },
    fields=_bolt,
)


def _moment(config: Config) -> SeriesFields:
    config.require(transformer_type="encoder_only", value_embedding_bias=False, revin_affine=False)
    config.require(add_positional_embedding=True)
    model, patch = _t5(_within(config, "t5_config")), config.number("patch_len", 8, most=2**12)
    length = config.number("seq_len", 512, least=patch, most=2**16)
    config.require(patch_stride_len=patch, d_model=model["width"])
    series = PatchedSpec(kind="moment", model=model, patch=patch, length=length)
    return SeriesFields("moment", series.model, None, series=series)


def _moment_lines(config: Config) -> tuple[Line, ...]:
    count = _moment(config).series.tokens
    positions = TensorForm(
        lambda x: (x[0, :count],),
        lambda x: (torch.cat([x, x.new_zeros(MOMENT_POSITIONS - len(x), x.shape[1])])[None],),
        lambda shape: ((1, MOMENT_POSITIONS, shape[1]),),
    )
    return (
        *_t5_lines(_within(config, "t5_config")),
        line("input.value", "patch_embedding.value_embedding"),
        line("input.position", "patch_embedding.position_embedding.pe", positions),
    )


MOMENT = Family(
    model=lambda config: dict(_moment(config).model),
    lines=_moment_lines,
    dropped={
        r"(encoder\.embed_tokens|shared)\.weight": "token vectors",
        r"patch_embedding\.mask_embedding": "the vector of hidden patches, which are not seen here",
        r"head\..*": "a head",
    },
    fields=_moment,
)
