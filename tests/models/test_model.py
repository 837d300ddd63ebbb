"""The model: shapes, padding, seeds, stacks, FLOPs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

from headstart.errors import BadInput
from headstart.models.contract import counted_flops
from headstart.models.encoders import there
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.seeds import Draw
from headstart.sequence import Batch, Signature
from headstart.spec import read

FLOATS = Signature("floats", 2, 10, 4, "class", classes=3)
TOKENS = Signature("tokens", 7, 10, 4, "class", classes=3)
ASKED = Output("sequence", 3)


def batch_of(signature: Signature, lengths: tuple[int, ...] = (10, 10), length: int = 10) -> Batch:
    made = torch.Generator().manual_seed(5)
    shape = (len(lengths), length)
    inputs = (
        torch.randint(0, signature.width, shape, generator=made)
        if signature.input == "tokens"
        else torch.randn(*shape, signature.width, generator=made)
    )
    valid = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    return Batch(inputs, valid, torch.arange(len(lengths)), full=bool(valid.all()))


@pytest.mark.parametrize("signature", [FLOATS, TOKENS])
@pytest.mark.parametrize(("kind", "shape"), [("sequence", (2, 3)), ("position", (2, 10, 3)), ("pair", (1, 3))])
def test_each_head_answers_in_its_shape(signature: Signature, kind: Any, shape: tuple[int, ...]) -> None:
    model = build_model(ModelSpec(width=16), signature, Output(kind, 3), 0)
    answer = model(batch_of(signature))
    assert answer.shape == shape
    answer.sum().backward()


def test_equal_seeds_give_equal_models_and_a_component_does_not_see_the_others() -> None:
    plain = build_model(ModelSpec(width=16), FLOATS, ASKED, 3).state_dict()
    two = build_model(ModelSpec(width=16, blocks=3, norm="batch"), FLOATS, Output("pair", 5), 3).state_dict()
    other = build_model(ModelSpec(width=16), FLOATS, ASKED, 4).state_dict()
    for name in ("encoder.input.weight", "blocks.1.mixer.key.weight", "blocks.0.feed_forward.into.bias"):
        assert torch.equal(plain[name], two[name])
        assert not torch.equal(plain[name], other[name])
    assert not torch.equal(plain["blocks.0.mixer.key.weight"], plain["blocks.1.mixer.key.weight"])


def test_building_a_model_leaves_torchs_own_random_numbers_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    build_model(ModelSpec(width=16), FLOATS, ASKED, 3)
    assert torch.equal(before, torch.get_rng_state())


def test_a_list_needs_one_mixer_per_block_and_names_the_place_of_a_mistake() -> None:
    mixer = {"kind": "attention", "heads": 2}
    assert len(read(ModelSpec, {"mixer": [mixer, mixer]}).mixers) == 2
    with pytest.raises(BadInput, match=r"lists 2 mixers for 3 blocks; give one per block, or one for all"):
        read(ModelSpec, {"mixer": [mixer, mixer], "blocks": 3}, "model")
    with pytest.raises(BadInput, match=r"model\.mixer\[1\]\.head: no 'head'; did you mean 'heads'\?"):
        read(ModelSpec, {"mixer": [mixer, {"kind": "attention", "head": 2}]}, "model")
    with pytest.raises(BadInput, match=r"model\.mixer\[0\]\.kind: no 'atention'; did you mean 'attention'\?"):
        read(ModelSpec, {"mixer": [{"kind": "atention"}, mixer]}, "model")


def test_a_spec_with_several_mixers_comes_back_from_its_json() -> None:
    spec = read(ModelSpec, {"mixer": [{"kind": "attention", "heads": 2}, {"kind": "s4d", "state": 8}]})
    assert read(ModelSpec, spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(("norm", "pool"), list(product(["layer", "batch", "none"], ["mean", "max", "last"])))
def test_a_padded_position_cannot_change_an_answer(norm: Any, pool: Any) -> None:
    spec = ModelSpec(width=16, norm=norm, pool=pool, dropout=0.3)
    model = build_model(spec, FLOATS, ASKED, 0).double()
    padded = batch_of(FLOATS, (10, 6, 4)).to(torch.device("cpu"), torch.float64)
    changed = replace(padded, inputs=padded.inputs.masked_fill(~padded.valid[:, :, None], 50.0))
    draw = Draw(1, 0, padded.index)
    for more in ((draw, {}), (None, None)):
        torch.testing.assert_close(model(padded, *more), model(changed, *more), rtol=0, atol=1e-12)
    for row, length in enumerate((10, 6, 4)):
        alone = Batch(
            padded.inputs[row : row + 1, :length],
            padded.valid[row : row + 1, :length],
            padded.index[row : row + 1],
            full=True,
        )
        torch.testing.assert_close(model(alone)[0], model(padded)[row], rtol=0, atol=1e-12)


def test_a_causal_model_sees_no_later_position() -> None:
    model = build_model(ModelSpec(width=16, causal=True), FLOATS, Output("position", 3), 0).double()
    batch = batch_of(FLOATS).to(torch.device("cpu"), torch.float64)
    inputs = batch.inputs.clone()
    inputs[:, 6:] += 1.0
    moved = (model(batch) - model(replace(batch, inputs=inputs))).detach().abs().amax((0, 2))
    assert float(moved[:6].max()) < 1e-12
    assert float(moved[6:].min()) > 1e-6


def test_only_statistics_tell_of_a_training_forward() -> None:
    model = build_model(ModelSpec(width=16, norm="batch", dropout=0.5), FLOATS, ASKED, 0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = batch_of(FLOATS)
    statistics: dict[str, torch.Tensor] = {}
    trained = model(batch, Draw(0, 0, batch.index), statistics)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert set(statistics) == {name for name, _ in model.named_buffers() if "running" in name}
    assert all(value.shape == before[name].shape and not value.requires_grad for name, value in statistics.items())
    assert torch.equal(trained, model(batch, Draw(0, 0, batch.index), {}))
    assert not torch.equal(trained, model(batch))


def test_what_is_embedded_is_what_the_head_reads() -> None:
    model = build_model(ModelSpec(width=16), FLOATS, ASKED, 0)
    batch = batch_of(FLOATS, (10, 5))
    x = model.embed(batch)
    assert x.shape == (2, 10, 16)
    assert torch.equal(model.head(x, batch.valid), model(batch))
    torch.testing.assert_close(x.mean(-1), torch.zeros(2, 10), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("signature", "patch"), [(FLOATS, 1), (TOKENS, 1), (TOKENS, 4)])
@pytest.mark.parametrize("kind", ["sequence", "position", "pair"])
def test_model_flops_are_those_of_a_count(signature: Signature, patch: int, kind: Any) -> None:
    table = {"width": 16, "feed_forward": {"kind": "glu"}, "mixer": {"kind": "attention"}, "encoder": {"patch": patch}}
    spec = read(ModelSpec, table)
    output = Output(kind, 3)
    model = build_model(spec, signature, output, 0)
    batch = batch_of(signature)
    assert 2 * sum(flops for _, flops in spec.layer_flops(signature, output, 10)) == counted_flops(lambda: model(batch))


def _step(model: SequenceModel, batch: Batch, weights: Any, rest: Any, seed: Any) -> tuple[Any, Any]:
    """Gradients and new statistics of one training step."""

    def loss(own: Any) -> Any:
        statistics: dict[str, torch.Tensor] = {}
        answer = functional_call(model, {**rest, **own}, (batch, Draw(seed, 0, batch.index), statistics))
        return answer.square().mean(), statistics

    return grad(loss, has_aux=True)(weights)


def test_a_stack_of_models_with_batch_norm_and_dropout_trains_like_each_apart() -> None:
    spec = ModelSpec(width=16, norm="batch", dropout=0.2)
    batch = batch_of(FLOATS, (10, 6, 4))
    models = [build_model(spec, FLOATS, ASKED, seed) for seed in range(3)]
    weights, rest = stack_module_state(models)  # type: ignore[arg-type]
    weights = {name: value.detach() for name, value in weights.items() if name != "encoder.masked"}
    still = {
        name: torch.stack([dict(m.named_parameters())[name].detach() for m in models]) for name in ("encoder.masked",)
    }
    stacked, statistics = vmap(lambda w, r, s: _step(models[0], batch, w, r, s))(
        weights, {**rest, **still}, torch.arange(3)
    )
    for seed, model in enumerate(models):
        own = {name: value[seed] for name, value in weights.items()}
        slopes, new = _step(model, batch, own, dict(model.named_buffers()), seed)
        for name, slope in slopes.items():
            torch.testing.assert_close(stacked[name][seed], slope, rtol=1e-4, atol=1e-6)
        for name, value in new.items():
            torch.testing.assert_close(statistics[name][seed], value, rtol=1e-5, atol=1e-6)


def test_blocks_start_as_those_of_gpt2_where_the_spec_says_so() -> None:
    spec = read(ModelSpec, {"width": 64, "blocks": 3, "init": "gpt2"}, "model")
    model, usual = (build_model(s, TOKENS, ASKED, 0) for s in (spec, spec.model_copy(update={"init": "standard"})))
    for block in model.blocks:
        for name, layer in block.named_modules():
            if isinstance(layer, torch.nn.Linear):
                expected = 0.02 / 6**0.5 if name in ("mixer.output", "feed_forward.back") else 0.02
                assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)
                assert not layer.bias.any()
    for part in ("encoder", "head"):
        ours, theirs = getattr(model, part).state_dict(), getattr(usual, part).state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs), "only blocks are drawn so"
    again = build_model(spec, TOKENS, ASKED, 0)
    assert torch.equal(again.blocks[0].mixer.query.weight, model.blocks[0].mixer.query.weight)


@pytest.mark.parametrize("mixer", [{"kind": "s4d"}, {"kind": "attention", "init": "tied"}])
def test_gpt2s_start_is_of_attention_whose_layers_are_drawn_apart(mixer: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"init 'gpt2' draws query, key, value and output layers apart"):
        read(ModelSpec, {"init": "gpt2", "mixer": mixer}, "model")


FIELDS: dict[str, dict[str, Any]] = {
    "GPT-NeoX": {"causal": True, "parallel": True, "position": {"kind": "rotary", "share": 0.5}},
    "BERT": {"norm_place": "after", "embedding_norm": True, "norm_epsilon": 1e-12, "position": {"kind": "learned"}},
    "T5": {
        "norm": "rms",
        "norm_epsilon": 1e-6,
        "position": {"kind": "relative", "buckets": 8, "far": 9},
        "mixer": {"kind": "attention", "bias": False, "scale": False},
        "feed_forward": {"activation": "relu", "bias": False},
    },
}


@pytest.mark.parametrize("name", FIELDS)
def test_with_the_blocks_of_other_families_padding_changes_nothing_and_every_tensor_learns(name: str) -> None:
    model = build_model(read(ModelSpec, {"width": 16, **FIELDS[name]}), FLOATS, ASKED, 0).double()
    padded = batch_of(FLOATS, (10, 6, 4)).to(torch.device("cpu"), torch.float64)
    changed = replace(padded, inputs=padded.inputs.masked_fill(~padded.valid[:, :, None], 50.0))
    draw = Draw(1, 0, padded.index)
    for more in ((draw, {}), (None, None)):
        torch.testing.assert_close(model(padded, *more), model(changed, *more), rtol=0, atol=1e-12)
    model(padded).square().sum().backward()
    still = {n for n, p in model.named_parameters() if n != "encoder.masked" and (p.grad is None or not p.grad.any())}
    # The shift of all scores of a query by one number changes no softmax.
    assert all(n.endswith("key.bias") for n in still)


def test_a_norm_after_the_positions_stands_before_dropout_and_blocks() -> None:
    spec = read(ModelSpec, {"width": 16, "embedding_norm": True, "norm_epsilon": 0.1})
    model = build_model(spec, FLOATS, ASKED, 0)
    batch, seen = batch_of(FLOATS), []
    model.blocks[0].register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    model(batch)
    x = model.position(model.encoder(batch))
    centred = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(seen[0], centred / (centred.square().mean(-1, keepdim=True) + 0.1).sqrt())
    for name in ("embedding_norm", "norm", "blocks.1.norm_mixer"):
        assert model.get_submodule(name).epsilon == 0.1


@pytest.mark.parametrize(
    ("more", "name"), [({"embedding_norm": True}, "embedding_norm"), ({"norm_epsilon": 1e-6}, "norm_epsilon")]
)
def test_settings_of_a_norm_need_one(more: dict[str, Any], name: str) -> None:
    with pytest.raises(BadInput, match=rf"model: {name} is of a norm, and norm is 'none'; leave it out, or set norm"):
        read(ModelSpec, {"norm": "none", **more}, "model")


def test_what_other_families_blocks_have_is_said_in_words() -> None:
    text = read(ModelSpec, {"width": 16, **FIELDS["T5"]}).describe()
    assert (
        "attention (4 heads, bias false, scale false), width 16, relative positions, rms normalisation before" in text
    )
    assert "(epsilon 1e-06)" in text
    assert "with relu without biases as feed-forward layer" in text
    assert "as feed-forward layer beside each mixer" in read(ModelSpec, FIELDS["GPT-NeoX"]).describe()
    assert (
        "after each layer (epsilon 1e-12) and of what enters the blocks" in read(ModelSpec, FIELDS["BERT"]).describe()
    )


def test_a_stack_of_models_with_relative_positions_trains_like_each_apart() -> None:
    spec = read(ModelSpec, {"width": 16, **FIELDS["T5"]})
    batch = batch_of(FLOATS, (10, 6, 4))
    models = [build_model(spec, FLOATS, ASKED, seed) for seed in range(2)]
    weights, rest = stack_module_state(models)  # type: ignore[arg-type]
    still = {"encoder.masked": weights.pop("encoder.masked").detach()}
    weights = {name: value.detach() for name, value in weights.items()}
    stacked, _ = vmap(lambda w, r, s: _step(models[0], batch, w, r, s))(weights, {**rest, **still}, torch.arange(2))
    for seed, model in enumerate(models):
        slopes, _ = _step(model, batch, {n: v[seed] for n, v in weights.items()}, dict(model.named_buffers()), seed)
        for name, slope in slopes.items():
            torch.testing.assert_close(stacked[name][seed], slope, rtol=1e-4, atol=1e-6)


JOINED = read(ModelSpec, {"width": 16, "encoder": {"patch": 4}})


@pytest.mark.parametrize("patch", [2, 4, 11])
@pytest.mark.parametrize("kind", ["sequence", "position"])
@pytest.mark.parametrize(("norm", "pool"), [("layer", "max"), ("batch", "mean"), ("none", "last")])
def test_of_joined_tokens_padding_changes_nothing(patch: int, kind: Any, norm: Any, pool: Any) -> None:
    spec = read(ModelSpec, {"width": 16, "norm": norm, "pool": pool, "dropout": 0.3, "encoder": {"patch": patch}})
    model = build_model(spec, TOKENS, Output(kind, 3), 0).double()
    lengths = (10, 6, 1)
    padded = batch_of(TOKENS, lengths)
    changed = replace(padded, inputs=torch.where(padded.valid, padded.inputs, 6))
    draw = Draw(1, 0, padded.index)
    for more in ((draw, {}), (None, None)):
        ours, theirs = (model(batch, *more) for batch in (padded, changed))
        there = padded.valid if kind == "position" else slice(None)
        torch.testing.assert_close(ours[there], theirs[there], rtol=0, atol=1e-12)
    for row, length in enumerate(lengths):
        alone = Batch(padded.inputs[row : row + 1, :length], padded.valid[row : row + 1, :length], padded.index[:1])
        tokens = slice(length) if kind == "position" else slice(None)
        for batch in (alone, replace(alone, full=True)):
            torch.testing.assert_close(model(batch)[0], model(padded)[row, tokens], rtol=0, atol=1e-12)


def test_blocks_see_the_joined_tokens() -> None:
    model, batch = build_model(JOINED, TOKENS, ASKED, 0), batch_of(TOKENS, (10, 5, 4))
    assert model.embed(batch).shape == (3, 3, 16)
    assert torch.equal(model.head(model.embed(batch), there(batch, 4)), model(batch))
    few = replace(batch, inputs=batch.inputs[:1, :4], valid=batch.valid[:1, :4], index=batch.index[:1])
    torch.testing.assert_close(model.embed(few)[0, 0], model.embed(replace(few, full=True))[0, 0])
    learned = read(ModelSpec, {"encoder": {"patch": 4}, "position": {"kind": "learned"}})
    assert build_model(learned, TOKENS, ASKED, 0).position.table.shape == (3, 64)  # type: ignore[union-attr]
    with pytest.raises(BadInput, match=r"position\.length: 2 is less than the task's longest sequence of 3"):
        build_model(read(ModelSpec, {"encoder": {"patch": 4}, "position": {"length": 2}}), TOKENS, ASKED, 0)


@pytest.mark.parametrize("bare", [False, True])
def test_each_of_the_joined_tokens_has_an_answer_of_its_own(bare: bool) -> None:
    model, batch = build_model(JOINED, TOKENS, Output("position", 7, bare), 0), batch_of(TOKENS, (10, 9))
    blocks, tokens, answer = model.embed(batch), model.encoder(batch), model(batch)
    assert answer.shape == (2, 10, 16 if bare else 7)
    for row, token in product(range(2), range(10)):
        x = tokens[row, token] + blocks[row, token // 4]
        torch.testing.assert_close(answer[row, token], x if bare else model.head.output(x))


def test_what_cannot_be_asked_of_joined_tokens_is_refused() -> None:
    causal = read(ModelSpec, {"causal": True, "encoder": {"patch": 4}})
    assert build_model(causal, TOKENS, ASKED, 0)(batch_of(TOKENS)).shape == (2, 3)
    with pytest.raises(BadInput, match=r"model\.encoder\.patch: 4 tokens .*; set patch = 1, or causal = false"):
        build_model(causal, TOKENS, Output("position", 7), 0)


def test_joined_tokens_are_said_in_words() -> None:
    assert JOINED.describe().endswith(", 4 tokens joined into each position")


def test_a_causal_model_with_norms_over_the_batch_says_that_training_is_not_causal() -> None:
    text = ModelSpec(causal=True, norm="batch").shows_not
    assert "later ones too" in text
    assert text.endswith("norms 'layer' and 'rms' keep to it.")
    assert not any(ModelSpec(causal=causal, norm=norm).shows_not for causal, norm in ((True, "rms"), (False, "batch")))


@pytest.mark.parametrize(("width", "spread"), [(64, 0.02 * 12**0.5), (768, 0.02), (1024, 0.02)])
def test_a_scaled_start_has_gpt2s_spread_from_its_width_on_and_a_larger_one_below(width: int, spread: float) -> None:
    spec = read(
        ModelSpec, {"width": width, "blocks": 1, "init": "gpt2_scaled", "mixer": {"kind": "attention"}}, "model"
    )
    signature = Signature("tokens", 5, 8, 8, "class", classes=2)
    weights = build_model(spec, signature, Output("sequence", 2), 0).state_dict()
    drawn = {name: x.std().item() for name, x in weights.items() if "blocks.0.mixer" in name and x.ndim == 2}
    assert drawn
    for name, value in drawn.items():
        assert value == pytest.approx(spread / (2**0.5 if "output" in name else 1.0), rel=0.05), name


def test_a_random_block_mixes_at_a_small_width_only_where_its_start_is_scaled() -> None:
    def share(init: str) -> float:
        """Of the last position's state after the blocks, what depends on the other positions."""
        spec = read(ModelSpec, {"width": 64, "blocks": 4, "init": init, "causal": True, "pool": "last"}, "model")
        signature = Signature("floats", 8, 32, 32, "class", classes=2)
        model = build_model(spec, signature, Output("sequence", 2), 0).eval()
        inputs = torch.randn(16, 32, 8, generator=torch.Generator().manual_seed(0))
        inputs[:, -1] = inputs[0, -1]
        batch = Batch(inputs, torch.ones(16, 32, dtype=torch.bool), torch.arange(16))
        states = []
        hook = model.norm.register_forward_hook(lambda _module, _inputs, output: states.append(output))
        with torch.no_grad():
            model(batch)
        hook.remove()
        last = states[0][:, -1]
        return float(last.var(0).sum() / last.square().mean(0).sum())

    assert share("gpt2_scaled") > 4 * share("gpt2")
