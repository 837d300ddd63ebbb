"""Configs of checkpoints that are known by their names: what `like` needs without any file.

Source: the config.json that each was published with, of which the keys that say something about the blocks stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _gpt2(width: int, blocks: int, heads: int) -> dict[str, Any]:
    return {"model_type": "gpt2", "n_embd": width, "n_layer": blocks, "n_head": heads, "n_positions": 1024}


ESM2: Mapping[str, Any] = {
    **{"model_type": "esm", "hidden_size": 320, "num_hidden_layers": 6, "num_attention_heads": 20},
    **{"intermediate_size": 1280, "layer_norm_eps": 1e-5, "position_embedding_type": "rotary", "token_dropout": True},
    "vocab_size": 33,
}


def _t5(width: int, blocks: int, heads: int, hidden: int) -> dict[str, Any]:
    sizes = {"d_model": width, "num_layers": blocks, "num_heads": heads, "d_ff": hidden, "d_kv": 64}
    return {"model_type": "t5", **sizes}


_PYTHIA_70M: Mapping[str, Any] = {
    **{"model_type": "gpt_neox", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8},
    **{"intermediate_size": 2048, "rotary_pct": 0.25, "use_parallel_residual": True},
}


def _bert(width: int, blocks: int, heads: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": blocks, "num_attention_heads": heads}
    return {"model_type": "bert", **sizes, "intermediate_size": 4 * width}


def _bolt(width: int, blocks: int, heads: int) -> dict[str, Any]:
    patches = {"context_length": 2048, "input_patch_size": 16, "input_patch_stride": 16, "use_reg_token": True}
    kind = {"architectures": ["ChronosBoltModelForForecasting"], "chronos_config": patches}
    return _t5(width, blocks, heads, 4 * width) | kind


def _moment(width: int, blocks: int, heads: int, hidden: int) -> dict[str, Any]:
    own = {**_t5(width, blocks, heads, hidden), "feed_forward_proj": "gated-gelu"}
    return {"model_name": "MOMENT", "seq_len": 512, "patch_len": 8, "t5_config": own}


RELEASED_SERIES: Mapping[str, Mapping[str, Any]] = {
    "chronos-bolt-tiny": _bolt(256, 4, 4),
    "chronos-bolt-mini": _bolt(384, 4, 8),
    "chronos-bolt-small": _bolt(512, 6, 8),
    "chronos-bolt-base": _bolt(768, 12, 12),
    "MOMENT-1-small": _moment(512, 8, 6, 1024),
    "MOMENT-1-base": _moment(768, 12, 12, 2048),
    "MOMENT-1-large": _moment(1024, 24, 16, 2816),
    "Mantis-8M": {"transf_depth": 6, "num_patches": 32, "seq_len": 512},
    "MantisV2": {"transf_depth": 6, "num_patches": 32, "kernel_size": 41},
}
"""The same of models of series."""
RELEASED: Mapping[str, Mapping[str, Any]] = {
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "distilgpt2": _gpt2(768, 6, 12),
    "pythia-70m": _PYTHIA_70M,
    "pythia-70m-deduped": _PYTHIA_70M,
    "bert-base-uncased": {"model_type": "bert"},
    "all-MiniLM-L6-v2": _bert(384, 6, 12),
    "t5-small": _t5(512, 6, 8, 2048),
    "t5-base": _t5(768, 12, 12, 3072),
    "longformer-base-4096": {
        **{"model_type": "longformer", "layer_norm_eps": 1e-5, "max_position_embeddings": 4098, "type_vocab_size": 1},
        **{"pad_token_id": 1, "attention_window": [512] * 12},
    },
    "vit-base-patch16-224": {"model_type": "vit"},
    "esm2_t6_8M_UR50D": ESM2,
    "esm2_t6_8M": ESM2,
}
REPOSITORIES: Mapping[str, str] = {
    "gpt2": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "distilgpt2": "distilbert/distilgpt2",
    "all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2",
    "pythia-70m": "EleutherAI/pythia-70m",
    "pythia-70m-deduped": "EleutherAI/pythia-70m-deduped",
    "bert-base-uncased": "google-bert/bert-base-uncased",
    "t5-small": "google-t5/t5-small",
    "t5-base": "google-t5/t5-base",
    "longformer-base-4096": "allenai/longformer-base-4096",
    "vit-base-patch16-224": "google/vit-base-patch16-224",
    "esm2_t6_8M_UR50D": "facebook/esm2_t6_8M_UR50D",
    "esm2_t6_8M": "facebook/esm2_t6_8M_UR50D",
    **{f"chronos-bolt-{size}": f"amazon/chronos-bolt-{size}" for size in ("tiny", "mini", "small", "base")},
    **{f"MOMENT-1-{size}": f"AutonLab/MOMENT-1-{size}" for size in ("small", "base", "large")},
    **{name: f"paris-noah/{name}" for name in ("Mantis-8M", "MantisV2")},
}
"""Name of a known checkpoint -> its repository on the hub."""


def released_config(name: str) -> Mapping[str, Any] | None:
    """The config of a checkpoint whose sizes are known by its name, with or without its owner's; None for any other."""
    last = name.rpartition("/")[2]
    return RELEASED.get(last) or RELEASED_SERIES.get(last)
