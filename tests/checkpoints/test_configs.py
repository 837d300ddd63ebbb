"""What a config says in other words, and what it says against itself or against the numbers beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.checkpoints import GPT2, saved, weights

from headstart.checkpoints.like import with_like
from headstart.checkpoints.read import fields_of, read_checkpoint
from headstart.errors import BadInput

SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
ESM = {"model_type": "esm", **SIZES, "vocab_size": 9, "position_embedding_type": "rotary"}
NEOX = {"model_type": "gpt_neox", **SIZES, "rotary_pct": 1.0}
LONGFORMER = {"model_type": "longformer", **SIZES, "attention_window": 4, "max_position_embeddings": 12}
T5 = {"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 2, "d_ff": 12}
STORED = {"esm": "encoder.layer.1.attention.self.rotary_embeddings", "gpt_neox": "layers.1.attention.rotary_emb"}


def refusal(folder: Path) -> str:
    """The one message that reading a folder gets."""
    with pytest.raises(BadInput) as caught:
        read_checkpoint(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(folder: Path, config: dict[str, Any], **more: Any) -> Path:
    """A folder whose config says more than its numbers were made by."""
    saved(folder, config)
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    return folder


@pytest.mark.parametrize(
    ("more", "ours"),
    [
        ({}, {"activation": "relu"}),
        ({"dense_act_fn": "silu", "is_gated_act": False}, {"activation": "silu"}),
        ({"feed_forward_proj": "gated-gelu"}, {"kind": "glu", "gate": "gelu_tanh"}),
        ({"feed_forward_proj": "gated-gelu", "is_gated_act": True, "dense_act_fn": "gelu"}, {"gate": "gelu"}),
    ],
    ids=str,
)
def test_t5_has_the_activation_of_dense_act_fn(more: dict[str, Any], ours: dict[str, Any], tmp_path: Path) -> None:
    fed = read_checkpoint(saved(tmp_path, {**T5, **more})).fields.model["feed_forward"]
    assert {key: fed[key] for key in ours} == ours
    assert len(fed) == 2 + (2 if more.get("feed_forward_proj") else 1)


TURNS = {"type": "linear", "factor": 2.0}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (T5, {"dense_act_fn": "tanh"}, "dense_act_fn: 'tanh' is not what the blocks of headstart have"),
    (T5, {"is_gated_act": True}, "feed_forward_proj: 'relu' by default and is_gated_act: True contradict each other"),
    (
        T5,
        {"feed_forward_proj": "gated-gelu", "is_gated_act": False},
        "feed_forward_proj: 'gated-gelu' and is_gated_act: False contradict each other; correct one of them",
    ),
    (NEOX, {"rope_parameters": TURNS}, "rope_parameters: type: 'linear' is not what the blocks of headstart have"),
    (NEOX, {"rope_parameters": "linear"}, "rope_parameters: 'linear' is not a table"),
    (NEOX, {"partial_rotary_factor": 0.5}, "rotary_pct: 1.0 and partial_rotary_factor: 0.5 contradict each other"),
    (NEOX, {"rope_theta": 500.0}, "rotary_emb_base: 10000.0 by default and rope_theta: 500.0 contradict each other"),
    (GPT2, {"hidden_size": 16}, "n_embd: 8 and hidden_size: 16 contradict each other; correct one of them"),
    (GPT2, {"n_embd": 2**31}, "n_embd: 2147483648 is not a whole number from 1 to 1,073,741,824; correct it"),
    (GPT2, {"auto_map": {"AutoModel": "a.B"}}, "auto_map: {'AutoModel': 'a.B'}: the checkpoint needs code of its own"),
    (GPT2, {"quantization_config": {"bits": 4}}, "quantization_config: {'bits': 4}: the numbers are meant to be quan"),
    (
        LONGFORMER,
        {"pad_token_id": 12},
        "max_position_embeddings: 12 leaves no position behind that of padding, pad_token_id: 12; correct them",
    ),
]


@pytest.mark.parametrize(("config", "more", "message"), REFUSED, ids=lambda part: str(part) if len(part) < 3 else None)
def test_what_a_config_says_against_our_blocks_or_itself_gets_one_message(
    config: dict[str, Any], more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = changed(tmp_path / "a", config, **more)
    assert refusal(folder).startswith(f"{folder / 'config.json'}: {message}")
    with pytest.raises(BadInput):
        fields_of(folder)


def test_code_in_a_config_is_never_run_nor_is_a_model_made_like_it(tmp_path: Path) -> None:
    folder = changed(tmp_path / "a", GPT2, auto_map={"AutoModel": "evil.Model"})
    (folder / "evil.py").write_text("raise SystemExit")
    with pytest.raises(BadInput, match=r"never run; take one without such code, of the families bert, esm, gpt2"):
        with_like({"like": str(folder)})
    assert read_checkpoint(changed(tmp_path / "b", GPT2, auto_map={}, quantization_config=None)).content


def test_a_model_like_a_folder_has_at_most_as_many_blocks_as_the_folder_has_tensors(tmp_path: Path) -> None:
    """Thousands of blocks would be built for minutes, only to be refused. A config alone is taken at its word."""
    folder = changed(tmp_path / "a", GPT2, n_layer=4000)
    message = r"config\.json: asks for 4,000 blocks, and the files hold 27 tensors; download the model as a whole$"
    for model in ({"like": str(folder)}, {"like": str(folder), "blocks": 2}):
        with pytest.raises(BadInput, match=message):
            with_like(model)
    (folder / "model.safetensors").unlink()
    assert with_like({"like": str(folder)})["blocks"] == 4000
    assert with_like({"like": str(changed(tmp_path / "b", GPT2))})["blocks"] == 2


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (
            GPT2,
            {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"}
            | {"n_positions": "max_position_embeddings"},
        ),
        (
            {**T5, "d_kv": 8},
            {"d_model": "hidden_size", "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads"}
            | {"d_kv": "head_dim"},
        ),
    ],
)
def test_the_librarys_other_names_of_a_setting_are_read(
    config: dict[str, Any], names: dict[str, str], tmp_path: Path
) -> None:
    tensors, other = weights(config), {names.get(key, key): value for key, value in config.items()}
    content = read_checkpoint(saved(tmp_path / "own", config, tensors)).content
    assert read_checkpoint(saved(tmp_path / "other", other, tensors)).content == content
    assert read_checkpoint(saved(tmp_path / "both", {**config, **other}, tensors)).content == content


def with_turns(folder: Path, config: dict[str, Any], values: torch.Tensor) -> Path:
    """A folder that stores rotary frequencies."""
    saved(folder, config)
    tensors = load_file(folder / "model.safetensors")
    name = f"{STORED[config['model_type']]}.inv_freq"
    save_file({**tensors, name: values}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("config", [ESM, NEOX], ids=["esm", "gpt_neox"])
def test_stored_rotary_frequencies_are_those_of_theta_within_their_rounding(
    config: dict[str, Any], tmp_path: Path
) -> None:
    content = read_checkpoint(saved(tmp_path / "plain", config)).content
    frequencies = torch.tensor([1.0, 0.01])
    right = {
        "float32": frequencies,
        "float16": frequencies.half(),
        "bfloat16": frequencies.bfloat16(),
        "float32 of float16": frequencies.half().float(),  # as in the files of ESM-2
    }
    for name, values in right.items():
        assert read_checkpoint(with_turns(tmp_path / name, config, values)).content == content, name
    wrong = {
        "float32": frequencies * 1.0001,
        "float16": (frequencies * 1.01).half(),
        "bfloat16": (frequencies * 1.1).bfloat16(),
    }
    for name, values in wrong.items():
        message = refusal(with_turns(tmp_path / f"wrong {name}", config, values))
        assert f"{STORED[config['model_type']]}.inv_freq': holds the frequency 1." in message
        assert "where config.json implies 1 (theta 10000); correct theta there, or take another" in message
    for values in (torch.ones(3), torch.ones(2, dtype=torch.int8)):
        message = refusal(with_turns(tmp_path / f"shape {values.dtype}", config, values))
        assert "by config.json it holds 2 frequencies; download both again" in message
    folder = with_turns(tmp_path / "huge", config, frequencies)
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 2**24}))
    assert "by config.json it holds 4,194,304 frequencies" in refusal(folder)


def test_a_double_beyond_single_precision_is_refused(tmp_path: Path) -> None:
    tensors = {name: x.double() for name, x in weights(GPT2).items()}
    tensors["h.0.ln_1.bias"][3] = 1e300
    checkpoint = read_checkpoint(saved(tmp_path, GPT2, tensors))
    with pytest.raises(BadInput, match=r"'h\.0\.ln_1\.bias': 1 of its F64 numbers are beyond float32; take another"):
        list(checkpoint.tensors())
    assert dict(checkpoint.tensors(torch.float64))["blocks.0.norm_mixer.bias"][3] == 1e300
