"""Parts: every tensor in one leaf, and the algebra against sets worked out by hand."""

from __future__ import annotations

import pytest
import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.mixers import MIXERS
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.parameters import LEAVES, UNIONS, block_of, leaves, select
from headstart.sequence import Signature
from headstart.spec import read

FLOATS = Signature("floats", 2, 10, 4, "class", classes=3)


def model_of(**more: object) -> SequenceModel:
    spec = read(
        ModelSpec,
        {"width": 16, "blocks": 3, "norm": "batch", "position": {"kind": "learned"}, "embedding_norm": True, **more},
    )
    return build_model(spec, FLOATS, Output("sequence", 3), 0)


MODEL = leaves(model_of())


def test_every_tensor_of_a_model_is_in_one_leaf() -> None:
    model = model_of()
    assert list(MODEL) == list(model.state_dict())
    assert set(MODEL.values()) == set(LEAVES) - {"kernel", "mixer_rest"}
    expected = {
        "encoder.input.weight": "encoder",
        "position.table": "position",
        "embedding_norm.weight": "norm",
        "norm.running_mean": "norm",
        "blocks.0.norm_mixer.weight": "norm",
        "blocks.2.norm_feed_forward.running_variance": "norm",
        "blocks.1.mixer.query.weight": "query_key",
        "blocks.1.mixer.key.bias": "query_key",
        "blocks.1.mixer.value.weight": "value_output",
        "blocks.1.mixer.output.bias": "value_output",
        "blocks.2.feed_forward.into.weight": "feed_forward",
        "head.output.bias": "head",
    }
    assert {name: MODEL[name] for name in expected} == expected


@pytest.mark.parametrize("kind", MIXERS)
def test_the_tensors_of_every_mixer_have_a_leaf(kind: str) -> None:
    of = leaves(model_of(blocks=1, mixer={"kind": kind}, position={"kind": "none"}))
    mixer = {leaf for name, leaf in of.items() if ".mixer." in name}
    assert mixer
    assert mixer <= {*UNIONS["mixer"], "norm"}


def test_a_model_that_is_not_ours_has_no_parts() -> None:
    with pytest.raises(ValueError, match="tensor 'weight' belongs to no part"):
        leaves(torch.nn.Linear(1, 1))


def of_leaf(*wanted: str) -> set[str]:
    return {name for name, leaf in MODEL.items() if leaf in wanted}


def in_blocks(*numbers: int) -> set[str]:
    return {name for name in MODEL if block_of(name) in numbers}


MIXER = of_leaf("query_key", "value_output")
BACKBONE = MIXER | of_leaf("feed_forward", "norm")
CASES = {
    "all": set(MODEL),
    "head": of_leaf("head"),
    "mixer": MIXER,
    "backbone": BACKBONE,
    "all-head": set(MODEL) - of_leaf("head"),
    "all - head - encoder": set(MODEL) - of_leaf("head", "encoder"),
    "encoder+norm+position+head": of_leaf("encoder", "norm", "position", "head"),
    "mixer[0]": MIXER & in_blocks(0),
    "mixer[-1]": MIXER & in_blocks(2),
    "mixer[1:]": MIXER & in_blocks(1, 2),
    "mixer[:-1]": MIXER & in_blocks(0, 1),
    "backbone[0:2]+head": (BACKBONE & in_blocks(0, 1)) | of_leaf("head"),
    "backbone[1:9]": BACKBONE & in_blocks(1, 2),
    "norm[:]": of_leaf("norm") & in_blocks(0, 1, 2),
    "mixer-mixer+head": of_leaf("head"),
    "head+kernel-mixer_rest": of_leaf("head"),
    "all-backbone[-1]+query_key[-1]": (set(MODEL) - (BACKBONE & in_blocks(2))) | (of_leaf("query_key") & in_blocks(2)),
}


@pytest.mark.parametrize("expression", CASES)
def test_the_algebra_selects_what_its_words_say_in_the_models_order(expression: str) -> None:
    assert select(expression, MODEL) == [name for name in MODEL if name in CASES[expression]]


def test_the_last_norm_is_in_no_slice() -> None:
    assert "norm.weight" in select("backbone", MODEL)
    assert "norm.weight" not in select("backbone[:]", MODEL)


MISTAKES = {
    "backbon": r"trainable: no 'backbon'; did you mean 'backbone'\?",
    "all-hed": r"trainable: no 'hed'; did you mean 'head'\?",
    "kernel": r"trainable: 'kernel' selects nothing; this model has encoder, position, norm, query_key",
    "head-all": "'head-all' selects nothing",
    "encoder[0]": r"'encoder\[0\]' selects nothing",
    "": "cannot be read from '' on; write parts joined by",
    "+": "cannot be read",
    "head encoder": "cannot be read from 'encoder' on",
    "-head": "cannot be read from '-head' on",
    "head+": r"cannot be read from '\+' on",
    "mixer[3]": r"mixer\[3\]: this model has 3 blocks, 0 to 2",
    "mixer[-4]": "this model has 3 blocks",
    "mixer[]": r"mixer\[\]: blocks are \[i\], \[i:j\], \[i:\], \[:j\] or \[-1\]",
    "mixer[a]": r"blocks are \[i\]",
    "mixer[0:1:2]": r"blocks are \[i\]",
}


@pytest.mark.parametrize("expression", MISTAKES)
def test_a_mistake_in_the_algebra_names_its_place_and_the_way_out(expression: str) -> None:
    with pytest.raises(BadInput, match=MISTAKES[expression]):
        select(expression, MODEL, "trainable")
