"""The model: shapes, what masks and padding do, seeds, and what is refused."""

from __future__ import annotations

import pytest
import torch

from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.sequence import Batch, Signature
from headstart.spec import read

FLOATS = Signature("floats", 2, 10, 4, "class", classes=3)
TOKENS = Signature("tokens", 7, 10, 4, "class", classes=3)
ASKED = Output("sequence", 3)


def batch_of(signature: Signature, lengths: tuple[int, ...] = (10, 10), length: int = 10) -> Batch:
    made = torch.Generator().manual_seed(5)
    shape = (len(lengths), length)
    inputs = (torch.randint(0, signature.width, shape, generator=made) if signature.input == "tokens"
              else torch.randn(*shape, signature.width, generator=made))
    valid = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    return Batch(inputs, valid, torch.arange(len(lengths)), full=bool(valid.all()))


@pytest.mark.parametrize("signature", [FLOATS, TOKENS])
@pytest.mark.parametrize(
    ("kind", "shape"), [("sequence", (2, 3)), ("position", (2, 10, 3)), ("pair", (1, 3))]
)
def test_each_head_answers_in_its_shape(signature: Signature, kind: str, shape: tuple[int, ...]) -> None:
    model = build_model(ModelSpec(width=16), signature, Output(kind, 3), 0)  # type: ignore[arg-type]
    answer = model(batch_of(signature))
    assert answer.shape == shape
    answer.sum().backward()


def test_equal_seeds_give_equal_models_and_a_component_does_not_see_the_others() -> None:
    one = build_model(ModelSpec(width=16), FLOATS, ASKED, 3).state_dict()
    two = build_model(ModelSpec(width=16, blocks=3, norm="batch"), FLOATS, Output("pair", 5), 3).state_dict()
    other = build_model(ModelSpec(width=16), FLOATS, ASKED, 4).state_dict()
    for name in ("encoder.input.weight", "blocks.1.mixer.key.weight", "blocks.0.feed_forward.into.bias"):
        assert torch.equal(one[name], two[name])
        assert not torch.equal(one[name], other[name])


def test_a_list_needs_one_mixer_per_block_and_names_the_place_of_a_mistake() -> None:
    mixer = {"kind": "attention", "heads": 2}
    assert len(read(ModelSpec, {"mixer": [mixer, mixer]}).mixers) == 2
    with pytest.raises(BadInput, match=r"lists 2 mixers for 3 blocks; give one per block, or one for all"):
        read(ModelSpec, {"mixer": [mixer, mixer], "blocks": 3}, "model")
    with pytest.raises(BadInput, match=r"model\.mixer\[1\]\.head: no 'head'; did you mean 'heads'\?"):
        read(ModelSpec, {"mixer": [mixer, {"kind": "attention", "head": 2}]}, "model")
    with pytest.raises(BadInput, match=r"model\.mixer\[0\]\.kind: no 'atention'; did you mean 'attention'\?"):
        read(ModelSpec, {"mixer": [{"kind": "atention"}, mixer]}, "model")
