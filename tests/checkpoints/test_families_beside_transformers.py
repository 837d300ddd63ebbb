"""Each family against the library that its checkpoints come from: a small random model is saved there and read here."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headstart.checkpoints import FAMILIES
from headstart.checkpoints.read import fields_of, read_checkpoint
from headstart.checkpoints.released import RELEASED
from headstart.models.heads import Output
from headstart.models.model import SequenceModel, build_model
from headstart.sequence import Batch, Signature

pytest.importorskip("transformers", reason="compared only where transformers is: pip install 'headstart[dev]'")

LENGTHS, LONGEST, WIDTH = (24, 11, 2), 24, 32
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}


@dataclass(frozen=True)
class Case:
    """A family: the class of its model, sizes, the class with a head, and how close both come in float64.

    frozen: parameters without a part in ours alone, whose gradients count as 0 where tensors of theirs are added.
    whole: types of numbers in which sequences are not padded.
    """

    model: str
    settings: dict[str, Any]
    headed: str
    close: float = 1e-6
    frozen: tuple[str, ...] = ()
    whole: tuple[torch.dtype, ...] = ()


CASES: dict[str, Case] = {
    "bert": Case(
        "BertModel",
        {**SIZES, "max_position_embeddings": 40, "vocab_size": 50},
        "BertForMaskedLM",
        frozen=("token_type",),
    ),
    "esm": Case(
        "EsmModel",
        {**SIZES, "vocab_size": 24, "pad_token_id": 1, "mask_token_id": 3, "token_dropout": True}
        | {"position_embedding_type": "rotary"},
        "EsmForMaskedLM",
    ),
    "gpt_neox": Case(
        "GPTNeoXModel",
        {**SIZES, "vocab_size": 50, "rotary_pct": 0.25, "max_position_embeddings": 40},
        "GPTNeoXForCausalLM",
    ),
    "longformer": Case(
        "LongformerModel",
        {**SIZES, "max_position_embeddings": 42, "vocab_size": 50, "attention_window": [4, 8, 4], "pad_token_id": 1},
        "LongformerForMaskedLM",
        frozen=("token_type",),
        # Its softmax is float32, where the lowest number of float64 is -inf: gradients of padding become NaN.
        whole=(torch.float64,),
    ),
    "t5": Case(
        "T5EncoderModel",
        {"d_model": WIDTH, "d_kv": 8, "num_heads": 4, "num_layers": 3, "d_ff": 48, "vocab_size": 50}
        | {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12},
        "T5ForConditionalGeneration",
    ),
    "vit": Case(
        "ViTModel",
        {**SIZES, "image_size": 8, "patch_size": 2},
        "ViTForImageClassification",
        1e-12,
        whole=(torch.float32, torch.float64),
    ),
    "gpt2": Case(
        "GPT2Model",
        {"n_embd": WIDTH, "n_layer": 3, "n_head": 4, "n_positions": 40, "vocab_size": 50},
        "GPT2LMHeadModel",
        1e-12,
    ),
}


@cache
def library() -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def theirs_of(case: Case, headed: bool = False) -> Any:
    """A random model without dropout, whose tensors are far from their fresh values."""
    cls = getattr(library(), case.headed if headed else case.model)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(cls.config_class(**case.settings)).eval()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=random)
    return model


def store(model: Any, folder: Path, **more: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder, **more)
    return folder


class Vectors(nn.Module):
    """In the place of an encoder: the inputs are the vectors."""

    def forward(self, batch: Batch) -> Tensor:
        return batch.inputs


def ours_of(folder: Path, dtype: torch.dtype) -> tuple[SequenceModel, set[str]]:
    """The model of a folder, and the names of what was read."""
    checkpoint = read_checkpoint(folder)
    fields = checkpoint.fields
    tokens = fields.vocabulary is not None
    signature = Signature("tokens" if tokens else "floats", fields.vocabulary or WIDTH, LONGEST, 1, "class", classes=2)
    model = build_model(fields.spec, signature, Output("sequence", 2), 0).to(dtype)
    tensors = dict(checkpoint.tensors(dtype))
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert {name.split(".")[0] for name in missing} <= {"encoder", "head"}
    if not tokens:
        model.encoder = Vectors()
    return model, set(tensors)


def answers(case: Case, model: Any, inputs: Tensor, valid: Tensor) -> Tensor:
    """The last hidden states of theirs."""
    if case.model == "ViTModel":  # without its patches, positions and the vector of a class
        x = inputs
        for layer in model.layers:
            x = layer(x)
        return model.layernorm(x)  # type: ignore[no-any-return]
    if inputs.dtype == torch.int64:
        return model(input_ids=inputs, attention_mask=valid.long()).last_hidden_state  # type: ignore[no-any-return]
    return model(inputs_embeds=inputs, attention_mask=valid.long()).last_hidden_state  # type: ignore[no-any-return]


def gradients(model: Any, case: Case, folder: Path) -> dict[str, Tensor]:
    """Gradients of theirs by our names: a table is linear, so that it reads them as it reads weights."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            still = parameter.grad is None or any(part in name for part in case.frozen)
            parameter.copy_(torch.zeros_like(parameter) if still else parameter.grad)
    slopes = dict(read_checkpoint(store(model, folder)).tensors(torch.float64))
    if "encoder.weight" in slopes:  # reading multiplies it by 0.88, where its gradient is to be divided
        slopes["encoder.weight"] /= 0.88**2
    return slopes


@pytest.mark.parametrize("kind", FAMILIES)
def test_outputs_and_gradients_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    """Of inputs and of every parameter, in float32 and in float64, on ragged batches.

    ViT has whole batches alone: its layers take no mask, since all pictures have as many patches. Longformer has
    ragged batches in float32 alone: its softmax there is float32, in which the lowest number of float64, put at padded
    positions, is minus infinity, so that gradients of padding are NaN.
    """
    case, random = CASES[kind], torch.Generator().manual_seed(2)
    store(theirs_of(case), tmp_path / "saved")
    vocabulary = fields_of(tmp_path / "saved").vocabulary
    for dtype, close in ((torch.float32, 1e-5), (torch.float64, case.close)):
        theirs = theirs_of(case).to(dtype)
        lengths = (LONGEST,) * 3 if dtype in case.whole else LENGTHS
        valid = torch.arange(LONGEST)[None] < torch.tensor(lengths)[:, None]
        ours, names = ours_of(tmp_path / "saved", dtype)
        inputs = torch.randn(len(LENGTHS), LONGEST, WIDTH, generator=random).to(dtype).requires_grad_()
        if vocabulary is not None:
            inputs = torch.randint(4, 24, (len(LENGTHS), LONGEST), generator=random)
        weight = torch.randn(len(LENGTHS), LONGEST, WIDTH, generator=random).to(dtype) * valid[:, :, None]
        expected = answers(case, theirs, inputs, valid)
        answer = ours.embed(Batch(inputs, valid, torch.arange(len(LENGTHS)), full=bool(valid.all())))
        scale = float(expected.detach()[valid].abs().max())
        assert float((answer - expected).detach()[valid].abs().max()) < close * scale, dtype
        both = []
        for result in (expected, answer):
            (result * weight).sum().backward()
            both.append(None if vocabulary is not None else inputs.grad)
            inputs.grad = None
        if both[0] is not None and both[1] is not None:
            assert float((both[0] - both[1])[valid].abs().max()) < close * float(both[0].abs().max()), dtype
        slopes = gradients(theirs, case, tmp_path / str(dtype))
        assert slopes.keys() == names
        for name, parameter in ours.named_parameters():
            if name in slopes:
                assert parameter.grad is not None
                # A shift of all scores of a query changes nothing: its gradient is rounding alone.
                scale = 1.0 if name.endswith("key.bias") else float(slopes[name].abs().max())
                assert float((parameter.grad - slopes[name]).abs().max()) <= close * scale, (dtype, name)


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_form_in_which_a_model_is_saved_is_read_alike(kind: str, tmp_path: Path) -> None:
    case = CASES[kind]
    headed = theirs_of(case, headed=True)
    base = getattr(headed, headed.base_model_prefix, headed)
    folders = {
        "with head": store(headed, tmp_path / "head"),
        "in shards": store(headed, tmp_path / "shards", max_shard_size="20KB"),
    }
    if type(base).__name__ == case.model:
        folders["without head"] = store(base, tmp_path / "base")
    old = tmp_path / "old"
    old.mkdir()
    tensors = load_file(folders["with head"] / "model.safetensors")
    renamed = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): x for name, x in tensors.items()
    }
    save_file(renamed, old / "model.safetensors")
    (old / "config.json").write_text((folders["with head"] / "config.json").read_text())
    read = {name: read_checkpoint(folder) for name, folder in {**folders, "gamma and beta": old}.items()}
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    assert len({checkpoint.content for checkpoint in read.values()}) == 1
    for checkpoint in read.values():
        account = len(checkpoint.dropped) + len({n for line in checkpoint.lines for n in line.theirs})
        assert account == sum(len(load_file(path)) for path in checkpoint.source.glob("*.safetensors"))
    half, whole = (store(headed.half(), tmp_path / "half"), store(headed.float(), tmp_path / "of half"))
    assert "F16" in {x.dtype for x in read_checkpoint(half).stored.values()}
    contents = {read_checkpoint(folder).content for folder in (half, whole)}
    assert len(contents) == 1, "a copy in float32 holds the same numbers"
    assert not contents & {checkpoint.content for checkpoint in read.values()}


@pytest.mark.parametrize(
    "settings",
    [{"dense_act_fn": "silu"}, {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu"}],
    ids=str,
)
def test_the_activation_of_t5_is_that_of_the_library(settings: dict[str, Any], tmp_path: Path) -> None:
    case = replace(CASES["t5"], settings={**CASES["t5"].settings, **settings})
    theirs = theirs_of(case).double()
    ours, _ = ours_of(store(theirs, tmp_path), torch.float64)
    inputs, valid = torch.randn(2, LONGEST, WIDTH).double(), torch.ones(2, LONGEST, dtype=torch.bool)
    with torch.no_grad():
        expected = answers(case, theirs, inputs, valid)
        answer = ours.embed(Batch(inputs, valid, torch.arange(2), full=True))
    assert float((answer - expected).abs().max()) < case.close * float(expected.abs().max())


def test_a_gpt2_that_answers_questions_is_one_with_another_head(tmp_path: Path) -> None:
    questions = replace(CASES["gpt2"], headed="GPT2ForQuestionAnswering")
    checkpoint = read_checkpoint(store(theirs_of(questions, headed=True), tmp_path))
    assert checkpoint.dropped["qa_outputs.weight"] == "a head"


ROTARY = [
    {"rotary_pct": 0.5, "rotary_emb_base": 500},
    {"rotary_pct": 0.5, "partial_rotary_factor": 0.5, "rotary_emb_base": 500, "rope_theta": 500},
    {"rotary_pct": 0.5, "rotary_emb_base": 500, "rope_parameters": {"rope_theta": 900, "partial_rotary_factor": 1.0}},
    {"rotary_pct": 1.0, "rope_parameters": {"type": "default", "rope_theta": 700}},
]


@pytest.mark.parametrize("settings", ROTARY, ids=str)
def test_the_rotary_positions_of_gpt_neox_are_those_of_the_library(settings: dict[str, Any]) -> None:
    table = {"model_type": "gpt_neox", **SIZES, **settings}
    position = _fields_of_table(table).model["position"]
    rotary = library().GPTNeoXConfig.from_dict(json.loads(json.dumps(table))).rope_parameters
    assert position == {"kind": "rotary", "share": rotary["partial_rotary_factor"], "theta": rotary["rope_theta"]}


@pytest.mark.parametrize("name", RELEASED)
def test_the_known_configs_are_those_of_the_library(name: str) -> None:
    """Sizes are written out in `RELEASED`; what it leaves out is as the library has it."""
    table = RELEASED[name]
    config = library().AutoConfig.for_model(**table)
    assert config.model_type == table["model_type"]
    for key, value in table.items():
        assert getattr(config, key, value) == value, key
    written = json.loads(config.to_json_string(use_diff=False))
    assert fields_of(name) == _fields_of_table(written)


def _fields_of_table(table: dict[str, Any]) -> Any:
    from headstart.checkpoints.family import Config
    from headstart.checkpoints.fields import Fields

    family, config = FAMILIES[table["model_type"]].load(), Config(table, "config.json")
    return Fields(table["model_type"], family.model(config), family.length(config), family.vocabulary(config))
