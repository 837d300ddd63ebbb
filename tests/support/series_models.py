"""Small random models of series in folders of their official layout: names of tensors, shapes and configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

PATCHES = {"context_length": 48, "input_patch_size": 4, "input_patch_stride": 4, "use_reg_token": True}
BUCKETS = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
BOLT: dict[str, Any] = {
    **{"model_type": "t5", "architectures": ["ChronosBoltModelForForecasting"], "d_model": 16, "d_kv": 8, "d_ff": 24},
    **{"num_heads": 3, "num_layers": 2, "feed_forward_proj": "relu", "dense_act_fn": "relu", "vocab_size": 2},
    **BUCKETS,
    "chronos_config": {**PATCHES, "prediction_length": 8, "quantiles": [0.1, 0.5, 0.9]},
}
MOMENT: dict[str, Any] = {
    **{"model_name": "MOMENT", "task_name": "reconstruction", "transformer_type": "encoder_only", "d_model": None},
    **{"seq_len": 32, "patch_len": 4, "patch_stride_len": 4, "transformer_backbone": "google/flan-t5-small"},
    "t5_config": {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 24, "num_heads": 3, "num_layers": 2}
    | {"feed_forward_proj": "gated-gelu", "vocab_size": 20, **BUCKETS},
}
MANTIS: dict[str, Any] = {
    **{"seq_len": 32, "hidden_dim": 16, "num_patches": 8, "scalar_scales": None, "hidden_dim_scalar_enc": 6},
    **{"epsilon_scalar_enc": 1.1, "transf_depth": 2, "transf_num_heads": 2, "transf_mlp_dim": 20},
    **{"transf_dim_head": 12, "transf_dropout": 0.1, "device": "cpu", "pre_training": False},
}
MANTIS_V2: dict[str, Any] = {
    **MANTIS,
    **{"kernel_size": 5, "transf_depth": 4, "transf_dim_head": 8},
}
CONFIGS = {"chronos_bolt": BOLT, "moment": MOMENT, "mantis": MANTIS, "mantis_v2": MANTIS_V2}
SCALES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4]


def series_weights(kind: str, seed: int = 0) -> dict[str, Tensor]:
    """Random tensors by the names of the official files, those that are left out among them."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return 0.3 * torch.randn(shape, generator=random)

    if kind == "chronos_bolt":
        out = {"shared.weight": draw(2, 16)} | t5_weights(BOLT, draw)
        for name, (inputs, outputs) in {"input": (8, 16), "output": (16, 24)}.items():
            layers = {"hidden": (24, inputs), "output": (outputs, 24), "residual": (outputs, inputs)}
            for layer, shape in layers.items():
                out[f"{name}_patch_embedding.{layer}_layer.weight"] = draw(*shape)
                out[f"{name}_patch_embedding.{layer}_layer.bias"] = draw(shape[0])
        return out | {"decoder.final_layer_norm.weight": draw(16)}
    if kind == "moment":
        position = torch.arange(5_000)[:, None] * 10_000 ** (-torch.arange(0, 16, 2) / 16)
        return t5_weights(MOMENT["t5_config"], draw) | {
            "patch_embedding.value_embedding.weight": draw(16, 4),
            "patch_embedding.mask_embedding": draw(16),
            "patch_embedding.position_embedding.pe": torch.stack([position.sin(), position.cos()], -1).flatten(1)[None],
            "encoder.embed_tokens.weight": draw(20, 16),
            "head.linear.weight": draw(4, 16),
            "head.linear.bias": draw(4),
        }
    return mantis_weights(kind, draw)


def t5_weights(config: dict[str, Any], draw: Any) -> dict[str, Tensor]:
    """The encoder of T5."""
    width, inner, hidden = config["d_model"], config["d_kv"] * config["num_heads"], config["d_ff"]
    out = {"encoder.final_layer_norm.weight": 1 + draw(width)}
    for i in range(config["num_layers"]):
        block = f"encoder.block.{i}.layer"
        out |= {f"{block}.0.SelfAttention.{name}.weight": draw(inner, width) for name in "qkv"}
        out[f"{block}.0.SelfAttention.o.weight"] = draw(width, inner)
        names = ("wi_0", "wi_1") if config["feed_forward_proj"] == "gated-gelu" else ("wi",)
        out |= {f"{block}.1.DenseReluDense.{name}.weight": draw(hidden, width) for name in names}
        out[f"{block}.1.DenseReluDense.wo.weight"] = draw(width, hidden)
        out |= {f"{block}.{layer}.layer_norm.weight": 1 + draw(width) for layer in (0, 1)}
    table = draw(config["relative_attention_num_buckets"], config["num_heads"])
    return out | {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": table}


def mantis_weights(kind: str, draw: Any) -> dict[str, Tensor]:
    """Mantis, whose transformer is `vit_unit` in its files, or MantisV2."""
    first, config = kind == "mantis", CONFIGS[kind]
    width, scalar, hidden = 16, 6, 20
    inner, kernel = config["transf_num_heads"] * config["transf_dim_head"], config.get("kernel_size", 5)
    out: dict[str, Tensor] = {}

    def layer(name: str, *shape: int, bias: bool = True, norm: bool = False) -> None:
        out[f"{name}.weight"] = draw(*shape) + norm
        if bias:
            out[f"{name}.bias"] = draw(shape[0])

    for i in range(2):
        layer(f"tokgen_unit.convs.{i}.conv", width, 1, kernel)
        layer(f"tokgen_unit.layer_norms.{i}", width, norm=True)
        out[f"tokgen_unit.scalar_encoders.{i}.scales"] = torch.tensor(SCALES)
        for j in range(9):
            encoder = f"tokgen_unit.scalar_encoders.{i}.encoders.{j}"
            out |= {f"{encoder}.w": draw(1, scalar), f"{encoder}.b": draw(1, scalar)}
            layer(f"{encoder}.layer_norm", scalar, norm=True)
    layer("tokgen_unit.linear_encoder.linear", width, 2 * (width + scalar))
    layer("tokgen_unit.linear_encoder.layer_norm", width, norm=True)
    unit = "vit_unit" if first else "transf_unit"
    out[f"{unit}.cls_token"] = draw(width)
    out |= {f"{unit}.pos_encoder.pe": draw(9, 1, width)} if first else {}
    for i in range(config["transf_depth"]):
        block = f"{unit}.transformer.layers.{i}"
        if first:
            layer(f"{block}.0.norm", width, norm=True)
            layer(f"{block}.0.fn.to_qkv", 3 * inner, width, bias=False)
            layer(f"{block}.0.fn.to_out.0", width, inner)
            layer(f"{block}.1.norm", width, norm=True)
            layer(f"{block}.1.fn.net.0", hidden, width)
            layer(f"{block}.1.fn.net.3", width, hidden)
        else:
            out |= {f"{block}.norm{j}.scale": 1 + draw(width) for j in (1, 2)}
            layer(f"{block}.attention.wQKV", 3 * inner, width)
            layer(f"{block}.attention.wO", width, inner)
            layer(f"{block}.mlp.0", 2 * hidden, width)
            layer(f"{block}.mlp.2", width, hidden)
    layer("prj.0", width, norm=True)
    layer("prj.1", width, width)
    return out


def saved_series(folder: Path, kind: str, seed: int = 0, **changes: Any) -> Path:
    """The folder with such a model; changes: of its config (None: the key is left out)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        name: value for name, value in {**CONFIGS[kind], **changes}.items() if name not in changes or value is not None
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    save_file({name: x.contiguous() for name, x in series_weights(kind, seed).items()}, folder / "model.safetensors")
    return folder
