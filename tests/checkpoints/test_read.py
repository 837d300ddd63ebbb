"""Folders with checkpoints: what is read, what a content is, and one message for each thing that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.checkpoints import GPT2, saved, weights

from headstart.checkpoints import FAMILIES
from headstart.checkpoints.read import Checkpoint, fields_of, read_checkpoint
from headstart.checkpoints.released import RELEASED
from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import build_model
from headstart.sequence import Signature

BERT = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
BERT |= {"max_position_embeddings": 12}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **BERT},
    "esm": {"model_type": "esm", **BERT, "vocab_size": 9, "position_embedding_type": "rotary", "token_dropout": True},
    "gpt2": GPT2,
    "gpt_neox": {"model_type": "gpt_neox", **BERT, "rotary_pct": 0.5, "use_parallel_residual": True},
    "longformer": {"model_type": "longformer", **BERT, "attention_window": [4, 8], "pad_token_id": 1},
    "t5": {"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 2, "d_ff": 12},
    "vit": {"model_type": "vit", **BERT},
}


def everything(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    return dict(checkpoint.tensors())


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_tensor_of_the_model_is_read_once_and_what_was_written_comes_back(kind: str, tmp_path: Path) -> None:
    config = CONFIGS[kind]
    tensors = weights(config)
    checkpoint = read_checkpoint(saved(tmp_path, config, tensors))
    ours = everything(checkpoint)
    assert len(ours) == sum(1 for _ in checkpoint.tensors())
    assert set(ours) == set(checkpoint.used)
    assert not checkpoint.dropped
    spec = checkpoint.fields.spec
    assert any(name.startswith(f"blocks.{spec.blocks - 1}.") for name in ours)
    again: dict[str, torch.Tensor] = {}
    for entry in checkpoint.lines:
        again |= dict(zip(entry.theirs, entry.form.write(*(ours[name] for name in entry.ours)), strict=True))
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(again[name], tensor, msg=name)
    assert fields_of(tmp_path) == checkpoint.fields


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_shapes_that_a_config_implies_are_those_of_the_model_and_of_the_files(kind: str, tmp_path: Path) -> None:
    checkpoint = read_checkpoint(saved(tmp_path, CONFIGS[kind]))
    fields, shapes = checkpoint.fields, checkpoint.fields.shapes()
    signature = Signature("tokens" if fields.vocabulary else "floats", fields.vocabulary or 1, 1, 1, "class", classes=2)
    model = build_model(fields.spec, signature, Output("sequence", 2), 0)
    state = {name: tuple(x.shape) for name, x in model.state_dict().items()}
    backbone = {name for name in state if name.split(".")[0] not in ("encoder", "head")}
    assert shapes.keys() == backbone | ({"encoder.weight"} if fields.vocabulary else set())
    assert all(state[name] == shape for name, shape in shapes.items())
    assert {name: tuple(x.shape) for name, x in checkpoint.tensors()} == shapes


@pytest.mark.parametrize("kind", FAMILIES)
def test_prefixes_shards_and_old_names_of_norms_change_no_content(kind: str, tmp_path: Path) -> None:
    config, family = CONFIGS[kind], FAMILIES[kind].load()
    tensors = weights(config)
    content = read_checkpoint(saved(tmp_path / "plain", config, tensors)).content
    forms: dict[str, Any] = {prefix: {prefix + name: x for name, x in tensors.items()} for prefix in family.prefixes}
    forms["half"] = {name: x.half().float() for name, x in tensors.items()}
    forms["gamma"] = {
        name.replace("orm.weight", "orm.gamma").replace("orm.bias", "orm.beta"): x for name, x in tensors.items()
    }
    contents = {name: read_checkpoint(saved(tmp_path / name, config, form)).content for name, form in forms.items()}
    half = contents.pop("half")
    assert set(contents.values()) <= {content}
    assert read_checkpoint(saved(tmp_path / "shards", config, tensors, shards=3)).content == content
    assert half != content
    assert read_checkpoint(saved(tmp_path / "f16", config, {n: x.half() for n, x in tensors.items()})).content == half
    double = {name: x.double() for name, x in tensors.items()}
    assert read_checkpoint(saved(tmp_path / "f64", config, double)).content == content


def test_a_content_changes_with_a_number_and_with_a_field(tmp_path: Path) -> None:
    tensors = weights(GPT2)
    contents = {read_checkpoint(saved(tmp_path / "a", GPT2, tensors)).content}
    tensors["h.1.mlp.c_fc.bias"][3] += 1e-6
    contents.add(read_checkpoint(saved(tmp_path / "b", GPT2, tensors)).content)
    for key, value in (("n_head", 4), ("layer_norm_epsilon", 1e-6), ("activation_function", "relu")):
        contents.add(read_checkpoint(saved(tmp_path / key, {**GPT2, key: value}, tensors)).content)
    assert len(contents) == 5
    assert all(len(content) == 64 for content in contents)


def test_what_is_left_out_is_named_and_changes_no_content(tmp_path: Path) -> None:
    tensors = weights(GPT2)
    plain = read_checkpoint(saved(tmp_path / "plain", GPT2, tensors))
    more = {
        "wte.weight": torch.randn(50, 8),
        "lm_head.weight": torch.randn(50, 8),
        "h.0.attn.bias": torch.ones(1, 1, 4, 4),
    }
    headed = read_checkpoint(saved(tmp_path / "head", GPT2, {**tensors, **more}))
    assert headed.dropped == {"wte.weight": "token vectors", "lm_head.weight": "a head", "h.0.attn.bias": "a mask"}
    assert headed.content == plain.content
    assert plain.used["blocks.1.mixer.key.bias"] == "h.1.attn.c_attn.bias"
    assert plain.fields.length == 12
    assert plain.fields.spec.position.length == 12
    assert "length" not in plain.fields.model["position"], "a model like it has the length of its own task"


def test_the_licence_is_that_of_the_card(tmp_path: Path) -> None:
    folder = saved(tmp_path, GPT2)
    assert read_checkpoint(folder).licence is None
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# license: none of these\n")
    assert read_checkpoint(folder).licence == "apache-2.0"
    (folder / "README.md").write_text("# GPT-2\nlicense: mit\n")
    assert read_checkpoint(folder).licence is None


@pytest.mark.parametrize("name", RELEASED)
def test_sizes_of_known_checkpoints_need_no_file(name: str) -> None:
    fields = fields_of(name)
    assert fields == fields_of(f"owner/{name}")
    assert fields.spec.blocks >= 6
    assert not fields.symbols


def test_a_link_into_the_blobs_of_the_hubs_cache_is_followed(tmp_path: Path) -> None:
    plain = saved(tmp_path / "plain", GPT2)
    snapshot = tmp_path / "models--gpt2" / "snapshots" / "abc"
    (tmp_path / "models--gpt2" / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(plain.iterdir())):
        blob = tmp_path / "models--gpt2" / "blobs" / str(number)
        blob.write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    assert read_checkpoint(snapshot).content == read_checkpoint(plain).content


def _index(folder: Path, change: Callable[[dict[str, str]], None]) -> None:
    path = folder / "model.safetensors.index.json"
    table = json.loads(path.read_text())
    change(table["weight_map"])
    path.write_text(json.dumps(table))


def _replaced(folder: Path, name: str, tensor: torch.Tensor | None) -> None:
    tensors = weights(GPT2)
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors")


def _header(folder: Path, end: int) -> None:
    """A header that says its one tensor ends at byte `end`."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [end // 4], "data_offsets": [0, end]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 64)


def _outside(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(folder.parent / "elsewhere.safetensors")


def _loop(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("config.json")


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


NAN = torch.full((8,), float("nan"), dtype=torch.float16)
SHARD = "model-00002-of-00002.safetensors"
WRONG: dict[str, tuple[int, Callable[[Path], Any], str]] = {
    "no folder": (
        1,
        lambda f: f.rename(f.parent / "b"),
        r"a: there is no such folder; name one that holds config\.json",
    ),
    "no config": (1, lambda f: (f / "config.json").unlink(), r"a: holds no config\.json; name the folder that"),
    "config": (
        1,
        lambda f: (f / "config.json").write_text("{,"),
        r"config\.json: is not JSON \(.*\); save or download it again",
    ),
    "list": (
        1,
        lambda f: (f / "config.json").write_text("[]"),
        r"config\.json: holds no JSON object but list; save or download",
    ),
    "deep": (1, lambda f: (f / "config.json").write_text("[" * 10**6), r"config\.json: is not JSON \(.*\); save or"),
    "nothing": (
        1,
        lambda f: (f / "model.safetensors").unlink(),
        r"a: holds neither model\.safetensors nor .*index\.json",
    ),
    "pickled": (
        1,
        _pickled,
        r"pytorch_model\.bin: pickled weights are not read, since opening them can run code; take",
    ),
    "missing": (
        1,
        lambda f: _replaced(f, "h.1.ln_2.bias", None),
        r"a: no tensor 'h\.1\.ln_2\.bias', which config\.json asks for \(of shape \[8\]\); download the model as a whole",
    ),
    "unknown": (
        1,
        lambda f: _replaced(f, "h.0.adapter.weight", torch.zeros(2)),
        r"model\.safetensors: 'h\.0\.adapter\.weight' is not a tensor that family 'gpt2' uses or leaves out; take a",
    ),
    "shape": (
        1,
        lambda f: _replaced(f, "ln_f.weight", torch.zeros(9)),
        r"model\.safetensors: 'ln_f\.weight' is of shape \[9\], by config\.json it is \[8\]; download both again",
    ),
    "type": (
        1,
        lambda f: _replaced(f, "ln_f.weight", torch.zeros(8, dtype=torch.int8)),
        r"'ln_f\.weight' holds numbers of type I8; F64, F32, F16, BF16 are read, take a version .* not quantised",
    ),
    "two names": (
        1,
        lambda f: _replaced(f, "transformer.ln_f.weight", torch.zeros(8)),
        r"'transformer\.ln_f\.weight' and 'ln_f\.weight' are two names of one tensor|"
        r"'ln_f\.weight' and 'transformer\.ln_f\.weight' are two names of one tensor",
    ),
    "absent shard": (
        2,
        lambda f: (f / SHARD).unlink(),
        SHARD + r": is not there, and .*index\.json names it; download",
    ),
    "cut shard": (
        2,
        lambda f: _cut(f / SHARD),
        SHARD + r": is cut short, damaged or not a safetensors file \(.*\); save",
    ),
    "index outside": (
        2,
        lambda f: _index(f, lambda table: table.update({"wpe.weight": "../other.safetensors"})),
        r"index\.json: weight_map: 'wpe\.weight' points to '\.\./other\.safetensors', which is not a safetensors file of this",
    ),
    "index of a missing tensor": (
        2,
        lambda f: _index(f, lambda table: table.update({"h.7.x": SHARD})),
        SHARD + r": lacks 'h\.7\.x', which model\.safetensors\.index\.json says it holds; download it again",
    ),
    "index of numbers": (
        2,
        lambda f: _index(f, lambda table: table.update({"h.7.x": 3})),  # type: ignore[dict-item]
        r"index\.json: weight_map is not a table of file names; download it again",
    ),
    "link": (1, _outside, r"model\.safetensors: leads out of its folder, to .*elsewhere\.safetensors; put a copy"),
    "link to itself": (1, _loop, r"a: holds no config\.json; name the folder that"),
    "header": (1, lambda f: _header(f, 2**40), r"model\.safetensors: is cut short, damaged or not a safetensors file"),
    "header length": (
        1,
        lambda f: (f / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}"),
        r"model\.safetensors: is cut short, damaged or not a safetensors file",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_folder_with_something_wrong_gets_one_message(case: str, tmp_path: Path) -> None:
    shards, spoil, message = WRONG[case]
    folder = saved(tmp_path / "a", GPT2, shards=shards)
    spoil(folder)
    with pytest.raises(BadInput, match=message) as caught:
        read_checkpoint(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model_type": None}, r"config\.json: model_type: is missing; weights of these families are read: bert, "),
        ({"model_type": "gpt3"}, r"config\.json: model_type: no 'gpt3'; did you mean 'gpt2'\?; weights of these"),
        ({"n_head": "two"}, r"config\.json: n_head: 'two' is not a whole number from 1 to 4,294,967,296; correct it"),
        ({"n_head": True}, r"config\.json: n_head: True is not a whole number"),
        (
            {"n_head": 3},
            r"config\.json: model\.mixer\.heads: 3 heads do not divide model.width = 8; .*another checkpoint",
        ),
        ({"layer_norm_epsilon": -1}, r"config\.json: layer_norm_epsilon: -1 is not a number above 0; correct it"),
        (
            {"activation_function": "tanh"},
            r"activation_function: 'tanh' is not what the blocks of headstart have, 'gelu'",
        ),
        (
            {"scale_attn_by_inverse_layer_idx": True},
            r"scale_attn_by_inverse_layer_idx: True is not what the blocks of headstart have, False; take another",
        ),
        (
            {"n_layer": 10**9},
            r"config\.json: n_layer: 1000000000 is not a whole number from 1 to 4,096; correct it",
        ),
        ({"n_layer": 4000}, r"config\.json: asks for 4,000 blocks, and the files hold 27 tensors; download the model"),
        (
            {"n_embd": 2**20},
            r"'wpe\.weight' is of shape \[12, 8\], by config\.json it is \[12, 1048576\]; download both",
        ),
        (
            {"n_positions": 10**12},
            r"config\.json: n_positions: 1000000000000 is not a whole number from 1 to 4,294,967,296",
        ),
        ({"n_positions": 2**32}, r"'wpe\.weight' is of shape \[12, 8\], by config\.json it is \[4294967296, 8\]"),
        (
            {"n_inner": 2**32},
            r"'h\.0\.mlp\.c_fc\.weight' is of shape \[8, 32\], by config\.json it is \[8, 4294967296\]",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value),
)
def test_a_config_that_asks_for_what_is_not_there_gets_one_message_before_anything_is_allocated(
    more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "a", GPT2)
    config = {**GPT2, **more}
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    for read in (read_checkpoint, fields_of):
        with pytest.raises(BadInput, match=message) as caught:
            read(folder)
        assert "\n" not in str(caught.value)


DIVERGED = "the file is damaged, or the training had diverged"


@pytest.mark.parametrize(
    ("number", "dtype", "name", "way"),
    [
        ("inf", torch.float16, "F16", "take a version of the model with more bits"),
        ("nan", torch.float16, "F16", DIVERGED),
        ("inf", torch.bfloat16, "BF16", DIVERGED),
        ("inf", torch.float32, "F32", DIVERGED),
        ("nan", torch.float32, "F32", DIVERGED),
    ],
)
def test_numbers_that_are_not_finite_are_refused_when_they_are_read(
    number: str, dtype: torch.dtype, name: str, way: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "a", GPT2)
    _replaced(folder, "h.1.ln_1.bias", torch.tensor([1, 2, float(number), 4, 5, float(number), 7, 8], dtype=dtype))
    checkpoint = read_checkpoint(folder)
    for use in (lambda: checkpoint.content, lambda: everything(checkpoint)):
        message = rf"'h\.1\.ln_1\.bias': 2 of its {name} numbers are infinite or NaN; {way}$"
        with pytest.raises(BadInput, match=message):
            use()


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, r"position_embedding_type: 'relative_key' is not what"),
        (
            "bert",
            {"is_decoder": True},
            r"is_decoder: True is not what the blocks of headstart have, False; take another",
        ),
        (
            "esm",
            {"position_embedding_type": "absolute"},
            r"position_embedding_type: 'absolute' is not what .*, 'rotary';",
        ),
        ("esm", {"vocab_size": None}, r"config\.json: vocab_size: is missing; download the model's config\.json again"),
        (
            "esm",
            {"emb_layer_norm_before": True},
            r"emb_layer_norm_before: True is not what the blocks of headstart have",
        ),
        ("gpt_neox", {"rope_parameters": {"rope_type": "yarn"}}, r"rope_type: 'yarn' is not what .*, 'default'; take"),
        (
            "gpt_neox",
            {"rope_scaling": {"type": "linear"}},
            r"rope_scaling: \{'type': 'linear'\} is not what .*, None; take",
        ),
        (
            "gpt_neox",
            {"rotary_pct": 0.3},
            r"config\.json: model\.position\.share: 0\.3 of heads of width 4 are 1 numbers",
        ),
        (
            "longformer",
            {"attention_window": 5},
            r"attention_window: \[5, 5\] is not an even number above 1 for each of 2 blocks",
        ),
        (
            "longformer",
            {"attention_window": [4]},
            r"attention_window: \[4\] is not an even number above 1 for each of 2 blocks",
        ),
        (
            "t5",
            {"feed_forward_proj": "gated-silu"},
            r"feed_forward_proj: 'gated-silu' is not what .*, 'relu' or 'gated-gelu'; take anoth",
        ),
        (
            "t5",
            {"relative_attention_num_buckets": 2},
            r"model\.position\.buckets: 2 should be greater than or equal to 4;",
        ),
        (
            "t5",
            {"num_heads": 2**32, "d_kv": 2**32},
            r"config\.json: model: a size of 18,446,744,073,709,551,616 .*, at most 4,294,967,296 are read; take another",
        ),
        ("vit", {"qkv_bias": False}, r"qkv_bias: False is not what the blocks of headstart have, True; take another"),
    ],
    ids=str,
)
def test_blocks_of_a_family_that_ours_are_not_get_one_message(
    kind: str, more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "a", CONFIGS[kind])
    (folder / "config.json").write_text(json.dumps({**CONFIGS[kind], **more}))
    with pytest.raises(BadInput, match=message) as caught:
        read_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder / "config.json"))


def test_what_each_family_is_in_our_words(tmp_path: Path) -> None:
    words = {kind: read_checkpoint(saved(tmp_path / kind, CONFIGS[kind])).fields.spec for kind in FAMILIES}
    assert (
        words["longformer"]
        .describe()
        .startswith(
            "a network with 2 blocks, longformer (2 heads, window 2, global_positions 0) in block 0 and longformer (2 heads, "
            "window 4, global_positions 0) in block 1, width 8, learned positions, layer normalisation after each layer "
            "(epsilon 1e-12) and of what enters the blocks"
        )
    )
    assert words["longformer"].position.length == 10, "two rows of its table stand for padding"
    assert words["gpt_neox"].parallel
    assert words["gpt_neox"].position.share == 0.5
    assert words["t5"].norm == "rms"
    assert words["t5"].position.kind == "relative"
    assert {kind for kind, spec in words.items() if spec.causal} == {"gpt2", "gpt_neox"}
    assert {kind for kind, spec in words.items() if spec.norm_place == "after"} == {"bert", "longformer"}


def test_vectors_of_amino_acids_come_with_their_symbols(tmp_path: Path) -> None:
    folder, symbols = (
        saved(tmp_path / "a", CONFIGS["esm"]),
        ["<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S"],
    )
    plain = read_checkpoint(folder)
    assert (plain.fields.vocabulary, plain.fields.symbols) == (9, ())
    ours = everything(plain)["encoder.weight"]
    torch.testing.assert_close(ours, 0.88 * weights(CONFIGS["esm"])["embeddings.word_embeddings.weight"])
    (folder / "vocab.txt").write_text("\n".join(symbols))
    named = read_checkpoint(folder)
    assert named.fields.symbols == tuple(symbols)
    assert named.content != plain.content
    (folder / "vocab.txt").write_text("L A G")
    with pytest.raises(
        BadInput, match=r"vocab\.txt: holds 3 symbols, by config\.json there are 9; download both again"
    ):
        read_checkpoint(folder)


LEFT_OUT: dict[str, dict[str, str]] = {
    "bert": {
        "bert.embeddings.word_embeddings.weight": "token vectors",
        "bert.embeddings.position_ids": "a constant",
        "bert.pooler.dense.weight": "a head",
        "cls.predictions.transform.LayerNorm.gamma": "a head",
        "cls.seq_relationship.bias": "a head",
    },
    "esm": {
        "esm.embeddings.position_embeddings.weight": "positions that are not used",
        "esm.encoder.layer.1.attention.self.rotary_embeddings.inv_freq": "rotary frequencies",
        "esm.contact_head.regression.weight": "a head",
        "lm_head.layer_norm.weight": "a head",
    },
    "gpt2": {"transformer.wte.weight": "token vectors", "transformer.h.1.attn.masked_bias": "a mask"},
    "gpt_neox": {
        "gpt_neox.embed_in.weight": "token vectors",
        "embed_out.weight": "a head",
        "gpt_neox.layers.0.attention.masked_bias": "a mask",
        "gpt_neox.layers.0.attention.rotary_emb.inv_freq": "rotary frequencies",
    },
    "longformer": {
        "longformer.encoder.layer.0.attention.self.query_global.weight": "layers of global positions",
        "lm_head.decoder.bias": "a head",
    },
    "t5": {
        "shared.weight": "token vectors",
        "encoder.embed_tokens.weight": "token vectors",
        "decoder.block.0.layer.1.EncDecAttention.q.weight": "the decoder",
        "lm_head.weight": "a head",
    },
    "vit": {
        "vit.embeddings.patch_embeddings.projection.weight": "patches, positions and the vector of a class",
        "vit.embeddings.cls_token": "patches, positions and the vector of a class",
        "classifier.weight": "a head",
    },
}
"""Names in published files, of what is left out."""


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_published_files_hold_besides_is_left_out_by_name(kind: str, tmp_path: Path) -> None:
    tensors, (prefix, *_) = weights(CONFIGS[kind]), FAMILIES[kind].load().prefixes
    plain = read_checkpoint(saved(tmp_path / "plain", CONFIGS[kind], tensors))
    published = {(prefix if kind != "t5" else "") + name: x for name, x in tensors.items()}
    turns = torch.tensor([1.0, 0.01] if kind == "esm" else [1.0])
    published |= {name: turns if name.endswith("inv_freq") else torch.zeros(1) for name in LEFT_OUT[kind]}
    published = {name: x.clone() for name, x in published.items()}
    checkpoint = read_checkpoint(saved(tmp_path / "published", CONFIGS[kind], published))
    assert checkpoint.dropped == LEFT_OUT[kind]
    assert checkpoint.content == plain.content


def test_weights_that_memory_has_no_room_for_are_not_called_damaged_nor_asked_for_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `safetensors` says it under `ulimit -v`, at the head and at a tensor."""

    def full(*_: object, **__: object) -> None:
        raise MemoryError("Cannot allocate memory (os error 12)")

    checkpoint = read_checkpoint(saved(tmp_path / "model", GPT2))
    message = (
        r"model\.safetensors: does not fit into memory; allow more \(`ulimit -v`, the container's limit\), close other "
        r"programs, or take a smaller model$"
    )
    monkeypatch.setattr("headstart.checkpoints.read.np.empty", full)
    with pytest.raises(BadInput, match=message):
        everything(checkpoint)
    monkeypatch.undo()
    monkeypatch.setattr("headstart.checkpoints.folder.safe_open", full)
    with pytest.raises(BadInput, match=message):
        read_checkpoint(tmp_path / "model")


def test_weights_that_are_cut_or_replaced_while_they_are_read_do_not_end_the_process(tmp_path: Path) -> None:
    """None of their pages is mapped, which would be a SIGBUS behind the end of the file."""
    checkpoint = read_checkpoint(saved(tmp_path / "model", GPT2))
    file = tmp_path / "model" / "model.safetensors"
    whole, values = file.read_bytes(), checkpoint.tensors()
    next(values)
    head = 8 + int.from_bytes(whole[:8], "little")
    for left in (whole[: len(whole) // 2], whole[: head + 8], whole[:20], b"", whole[:head].replace(b"F32", b"F16")):
        file.write_bytes(left)
        with pytest.raises(BadInput, match=r"model\.safetensors: '.*' changed while it was read; give it again"):
            everything(checkpoint)
    file.write_bytes(whole)
    assert len(everything(checkpoint)) > 1
