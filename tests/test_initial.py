"""Starts: what is taken, matched, drawn and left fresh, and the account of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headstart.errors import BadInput
from headstart.initial import SYMBOL_TENSOR, apply_start, symbol_tensor, trainable
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.parameters import leaves, select
from headstart.seeds import normal
from headstart.sequence import Batch, Signature
from headstart.spec import read
from headstart.stage import read_stage

SIGNATURE = Signature("floats", 2, 10, 4, "class", classes=3)
Tensors = dict[str, torch.Tensor]


def model_of(seed: int = 0, size: int = 3, **more: Any) -> SequenceModel:
    value = {"width": 16, "blocks": 2, "norm": "batch", "position": {"kind": "learned"}, **more}
    return build_model(read(ModelSpec, value), SIGNATURE, Output("sequence", size), seed)


def values_of(model: SequenceModel) -> Tensors:
    return {name: value.clone() for name, value in model.state_dict().items()}


def parent_of(**more: Any) -> Tensors:
    """Tensors of another seed, with running statistics that are not the fresh ones."""
    values = values_of(model_of(seed=9, **more))
    return {name: value + 0.5 if "running" in name else value for name, value in values.items()}


def started(*start: str, parent: Tensors | None = None, **more: Any) -> tuple[Tensors, Tensors, list[dict[str, Any]]]:
    """(fresh values, values after the start, account)."""
    model = model_of(**more)
    fresh = values_of(model)
    account = apply_start(model, start, parent, seed=0).to_json()
    return fresh, values_of(model), account


def test_without_a_start_everything_is_fresh() -> None:
    fresh, now, account = started()
    assert all(torch.equal(fresh[name], now[name]) for name in now)
    assert all(row["fresh"] == row["total"] and not row["frozen"] for row in account)
    assert sum(row["total"] for row in account) == sum(value.numel() for value in now.values())


def test_what_is_taken_is_the_parents_and_the_rest_is_fresh() -> None:
    parent = parent_of()
    fresh, now, account = started("take(query_key+norm)", parent=parent)
    taken = set(select("query_key+norm", leaves(model_of())))
    for name, value in now.items():
        assert torch.equal(value, parent[name] if name in taken else fresh[name])
    rows = {row["part"]: row for row in account}
    assert rows["query_key"]["taken"] == rows["query_key"]["total"] == 2 * 2 * (16 * 16 + 16)
    assert rows["norm"]["taken"] == rows["norm"]["total"] == 5 * 4 * 16
    assert rows["value_output"]["fresh"] == rows["value_output"]["total"]


def test_tensors_are_copied_never_shared() -> None:
    parent = parent_of()
    model = model_of()
    apply_start(model, ["take(all)"], parent, 0)
    before = {name: value.clone() for name, value in parent.items()}
    for value in model.state_dict().values():
        value.add_(1)
    assert all(torch.equal(parent[name], before[name]) for name in parent)


def test_a_taken_model_answers_as_its_parent_did() -> None:
    parent, child = model_of(seed=9), model_of(seed=1)
    apply_start(child, ["take(all)"], parent.state_dict(), 1)
    batch = Batch(torch.randn(2, 10, 2), torch.ones(2, 10, dtype=torch.bool), torch.arange(2), full=True)
    assert torch.equal(parent(batch), child(batch))


def test_matched_tensors_have_the_parents_mean_and_spread_but_other_numbers() -> None:
    parent = parent_of()
    parent["position.table"] = 3 + 0.1 * torch.randn(10, 16)
    fresh, now, account = started("match(backbone+position)", parent=parent)
    table = now["position.table"]
    assert float(table.mean()) == pytest.approx(3.0, abs=0.05)
    assert float(table.std()) == pytest.approx(0.1, rel=0.2)
    big, like = now["blocks.0.feed_forward.into.weight"], parent["blocks.0.feed_forward.into.weight"]
    assert float(big.std()) == pytest.approx(float(like.std()), rel=0.1)
    assert not torch.equal(big, like)
    # A gain of ones has no spread: it is matched by ones.
    assert torch.equal(now["norm.weight"], torch.ones(16))
    # A normal draw is not a variance: running statistics stay fresh.
    assert torch.equal(now["norm.running_variance"], fresh["norm.running_variance"])
    rows = {row["part"]: row for row in account}
    assert rows["position"]["matched"] == 160
    assert (rows["norm"]["matched"], rows["norm"]["fresh"]) == (5 * 32, 5 * 32)


def test_drawn_tensors_have_the_given_spread_around_zero() -> None:
    _, now, account = started("draw(all, 0.1)")
    weights = torch.cat([now[name].flatten() for name, _ in model_of().named_parameters()])
    assert float(weights.std()) == pytest.approx(0.1, rel=0.05)
    assert float(weights.mean()) == pytest.approx(0.0, abs=0.005)
    assert torch.equal(now["norm.running_variance"], torch.ones(16))
    assert sum(row["drawn"] for row in account) == weights.numel()
    _, other, _ = started("draw(query_key, std=0.1)")
    assert torch.equal(now["blocks.0.mixer.key.weight"], other["blocks.0.mixer.key.weight"])
    assert not torch.equal(now["blocks.0.mixer.key.weight"], now["blocks.1.mixer.key.weight"])


def test_the_last_word_on_a_tensor_counts() -> None:
    parent = parent_of()
    _, now, account = started("take(all-head)", "draw(mixer[-1], 0.1)", "take(query_key[-1])", parent=parent)
    assert torch.equal(now["blocks.1.mixer.key.weight"], parent["blocks.1.mixer.key.weight"])
    assert not torch.equal(now["blocks.1.mixer.value.weight"], parent["blocks.1.mixer.value.weight"])
    rows = {row["part"]: row for row in account}
    assert rows["query_key"]["drawn"] == 0
    assert rows["value_output"]["drawn"] == rows["value_output"]["taken"] == 2 * (16 * 16 + 16)
    assert rows["head"]["fresh"] == rows["head"]["total"]
    for row in account:
        assert row["total"] == row["taken"] + row["matched"] + row["drawn"] + row["fresh"]


def test_longer_positions_begin_with_the_parents_rows() -> None:
    longer = {"position": {"kind": "learned", "length": 14}}
    parent = parent_of()
    fresh, now, _ = started('take(all, rows="prefix")', parent=parent, **longer)
    assert torch.equal(now["position.table"][:10], parent["position.table"])
    assert torch.equal(now["position.table"][10:], fresh["position.table"][10:])
    words = r'position\.table.*\(14, 16\) here and \(10, 16\).*write take\(position, rows="prefix"\)'
    with pytest.raises(BadInput, match=words):
        started("take(position)", parent=parent, **longer)


def test_shorter_positions_are_the_parents_first_rows_and_count_as_the_child_has_them() -> None:
    parent = parent_of(position={"kind": "learned", "length": 1024})
    model = model_of()
    trained = trainable(model, "position+head")
    account = apply_start(model, ["take(position, rows='prefix')"], parent, 0, trained).to_json()
    assert torch.equal(model.state_dict()["position.table"], parent["position.table"][:10])
    row = next(row for row in account if row["part"] == "position")
    assert row["total"] == row["taken"] == 10 * 16
    assert row["frozen"] == 0
    assert sum(dict(model.named_parameters())[name].numel() for name in trained) == 10 * 16 + 16 * 3 + 3
    words = r'position\.table.*\(10, 16\) here and \(1024, 16\).*write take\(position, rows="prefix"\)'
    with pytest.raises(BadInput, match=words):
        started("take(position)", parent=parent)


def test_statistics_of_a_prefix_are_those_of_the_rows_that_both_have() -> None:
    parent = dict(parent_of(position={"kind": "learned", "length": 1024}))
    table = parent["position.table"]
    table[:10], table[10:] = table[:10] * 0.5 + 3.0, 100.0
    _, now, _ = started('match(position, rows="prefix")', parent=parent)
    assert now["position.table"].shape == (10, 16)
    mean, std = float(table[:10].mean()), float(table[:10].std())
    assert float(now["position.table"].mean()) == pytest.approx(mean, abs=4 * std / 160**0.5)
    assert float(now["position.table"].std()) == pytest.approx(std, rel=0.2)
    words = r'position\.table.*\(10, 16\) here and \(1024, 16\).*write match\(position, rows="prefix"\)'
    with pytest.raises(BadInput, match=words):
        started("match(position)", parent=parent)


@pytest.mark.parametrize(("theirs", "fits"), [((14, 16), True), ((4, 16), True), ((14, 8), False), ((14,), False)])
def test_a_prefix_is_about_rows_alone(theirs: tuple[int, ...], fits: bool) -> None:
    parent = {"position.table": torch.randn(theirs)}
    if not fits:
        with pytest.raises(BadInput, match=r"position\.table.*give both stages the same sizes"):
            started("take(position, rows='prefix')", parent=parent)
        return
    fresh, now, account = started("take(position, rows='prefix')", parent=parent)
    row = next(row for row in account if row["part"] == "position")
    assert (row["taken"], row["fresh"]) == (16 * min(10, theirs[0]), 16 * max(10 - theirs[0], 0))
    expected = fresh["position.table"].clone()
    for row in range(min(len(expected), theirs[0])):
        expected[row] = parent["position.table"][row]
    assert torch.equal(now["position.table"], expected)


def test_what_is_drawn_with_no_spread_is_zero() -> None:
    _, now, account = started("draw(position, 0)")
    assert torch.equal(now["position.table"], torch.zeros(10, 16))
    row = next(row for row in account if row["part"] == "position")
    assert row["drawn"] == row["total"]


def test_a_part_that_this_model_lacks_counts_nothing() -> None:
    rotary = {"position": {"kind": "rotary"}}
    _, now, account = started("take(all-head)", parent=parent_of(), **rotary)
    assert "position" not in {row["part"] for row in account}
    assert "position.table" not in now
    with pytest.raises(BadInput, match=r"start: take\(position\): 'position' selects nothing"):
        started("take(position)", parent=parent_of(), **rotary)


def test_a_tensor_that_the_parent_lacks_is_named_with_a_way_out() -> None:
    parent = parent_of(position={"kind": "rotary"})
    words = r"start: take\(all\): the parent has no tensor 'position\.table'.*take\(all-position\)"
    with pytest.raises(BadInput, match=words):
        started("take(all)", parent=parent)


def test_shapes_that_differ_are_named_with_both_and_a_way_out() -> None:
    for verb in ("take", "match"):
        words = rf"{verb}\(all\): tensor 'head\.output\.weight' is \(5, 16\) here and \(3, 16\) in the parent; "
        words += rf"write {verb}\(all, rows"
        with pytest.raises(BadInput, match=words):
            started(f"{verb}(all)", parent=parent_of(), size=5)


TOKENS = Signature("tokens", 3, 10, 4, "class", classes=3)


def by_symbol(parent: Tensors, symbols: tuple[str, ...] = ("B", "A", "Z")) -> torch.Tensor:
    """The token vectors of a model whose three ids stand for these symbols."""
    spec = read(ModelSpec, {"width": 16, "blocks": 1, "encoder": {"masked": "zero"}})
    model = build_model(spec, TOKENS, Output("sequence", 3), 0)
    apply_start(model, ['take(encoder, rows="symbols")'], parent, 0, symbols=symbols)
    return model.state_dict()["encoder.weight"]


def test_token_vectors_are_taken_by_what_they_stand_for() -> None:
    vectors = torch.randn(4, 16)
    parent = {"encoder.weight": vectors, SYMBOL_TENSOR: symbol_tensor(["<unk>", "A", "B", "C"])}
    assert torch.equal(by_symbol(parent), vectors[[2, 1, 0]])
    with pytest.raises(
        BadInput, match=r"the parent has a vector for no symbol of this task \('x', 'y', 'z'\); take less"
    ):
        by_symbol(parent, ("x", "y", "z"))
    named = {**parent, SYMBOL_TENSOR: symbol_tensor(["D", "A", "B", "C"])}
    with pytest.raises(BadInput, match=r"no vector for 'Z', and none for unknown symbols \(<unk>\)"):
        by_symbol(named)
    with pytest.raises(BadInput, match=r"the parent does not say what its token vectors stand for.*vocab\.txt"):
        by_symbol({"encoder.weight": vectors})
    with pytest.raises(BadInput, match=r"start: match.* means nothing here"):
        started('match(encoder, rows="symbols")', parent=parent_of())


MISTAKES = {
    "take": "start: 'take' cannot be read; write take",
    "take(all": "cannot be read",
    "grab(all)": r"start: grab\(all\): there are|no 'grab'",
    "takes(all)": r"no 'takes'; did you mean 'take'\?",
    "take(hed)": r"start: take\(hed\): no 'hed'; did you mean 'head'\?",
    "take(all, 0.1)": "'0.1' means nothing here",
    'take(all, rows="suffix")': "means nothing here",
    'match(all, rows="suffix")': "means nothing here",
    'draw(all, rows="prefix")': "draw needs a standard deviation, 0 or more",
    "draw(all)": r"draw needs a standard deviation, 0 or more, as in draw\(kernel, 0\.1\)",
    "draw(all, -1)": "draw needs a standard deviation, 0 or more",
    "draw(all, nan)": "draw needs a standard deviation, 0 or more",
    "draw(all, much)": "draw needs a standard deviation, 0 or more",
}


@pytest.mark.parametrize("entry", MISTAKES)
def test_a_mistake_in_a_start_names_the_entry_and_the_way_out(entry: str) -> None:
    with pytest.raises(BadInput, match=MISTAKES[entry]):
        started(entry, parent=parent_of())


def test_taking_needs_a_parent() -> None:
    with pytest.raises(BadInput, match=r"start: take\(all\): there is no parent; name one"):
        started("take(all)")


def test_trainable_names_parameters_and_leaves_out_what_is_held_fixed() -> None:
    model = model_of()
    model.encoder.input.bias.requires_grad_(False)
    names = trainable(model, "encoder+norm")
    assert "encoder.input.weight" in names
    assert "encoder.input.bias" not in names
    assert not [name for name in names if "running" in name]
    with pytest.raises(BadInput, match=r"trainable: no 'encodr'; did you mean 'encoder'\?"):
        trainable(model, "encodr")


def test_norms_that_do_not_learn_stand_still_and_count_as_frozen() -> None:
    model = model_of()
    account = apply_start(model, [], None, 0, trained=trainable(model, "head+norm[0]")).to_json()
    batch = Batch(torch.randn(4, 10, 2), torch.ones(4, 10, dtype=torch.bool), torch.arange(4), full=True)
    statistics: Tensors = {}
    model(batch, None, statistics)
    assert {name.rpartition(".")[0] for name in statistics} == {"blocks.0.norm_mixer", "blocks.0.norm_feed_forward"}
    rows = {row["part"]: row for row in account}
    assert rows["norm"]["frozen"] == 3 * 4 * 16
    assert rows["head"]["frozen"] == 0
    assert rows["encoder"]["frozen"] == rows["encoder"]["total"]


def _product(name: str, noise: float, identity: float, head: int, width: int = 16) -> np.ndarray:
    """noise * Z + identity * I, number by number."""
    out = np.zeros((width, width))
    for i in range(width):
        for j in range(width):
            number = float(normal(0, f"start/mimetic/{name}", np.array(i * width + j), head))
            out[i, j] = noise * number / width**0.5 + identity * (i == j)
    return out


def test_a_mimetic_start_has_the_products_of_its_source_head_by_head() -> None:
    mixer = {"kind": "attention", "heads": 2}
    fresh, now, account = started("mimetic(query_key+value_output)", mixer=mixer)
    for block in ("blocks.0.mixer", "blocks.1.mixer"):
        query, key, value, output = (
            now[f"{block}.{n}.weight"].double().numpy() for n in ("query", "key", "value", "output")
        )
        for head in range(2):
            rows = slice(8 * head, 8 * head + 8)
            u, s, v = np.linalg.svd(_product(f"{block}.query.weight", 0.7, 0.7, head))
            best = sum(s[i] * np.outer(u[:, i], v[i]) for i in range(8))
            np.testing.assert_allclose(query[rows].T @ key[rows], best, atol=1e-5)
        np.testing.assert_allclose(value.T @ output.T, _product(f"{block}.value.weight", 0.4, -0.4, 0), atol=1e-5)
    moved = {name for name in now if not torch.equal(now[name], fresh[name])}
    assert moved == {name for name in now if ".mixer." in name and name.endswith("weight")}, "biases stay"
    rows_of = {row["part"]: row for row in account}
    assert rows_of["query_key"]["drawn"] == rows_of["value_output"]["drawn"] == 2 * 2 * 16 * 16
    _, half, _ = started("mimetic(query_key)", mixer=mixer)
    assert torch.equal(half["blocks.0.mixer.value.weight"], fresh["blocks.0.mixer.value.weight"])
    assert torch.equal(half["blocks.0.mixer.query.weight"], now["blocks.0.mixer.query.weight"])


def test_a_mimetic_start_of_what_is_no_attention_names_a_way_out() -> None:
    with pytest.raises(
        BadInput, match=r"start: mimetic\(feed_forward\): no query and key, .* write mimetic\(query_key\)"
    ):
        started("mimetic(feed_forward)")
    with pytest.raises(
        BadInput, match=r"start: mimetic\(query_key, 0.1\): '0.1' means nothing here; write .* or mimetic"
    ):
        started("mimetic(query_key, 0.1)")


def test_a_mimetic_start_needs_no_parent() -> None:
    stage = {"task": {"kind": "digits"}, "objective": {"kind": "classify"}, "budget": {"steps": 1}}
    assert read_stage({**stage, "start": ["mimetic(query_key)"]}).parent is None
