"""A served model answers as its parts say: prepared as in the fit, alone or in company, in a person's own words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_models import made, network_of, targeted, texts, tokens, walks

from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.sequence import Batch
from headstart.serve.config import ModelConfig
from headstart.serve.model import Served, of_examples
from headstart.spec import read
from headstart.tasks import open_task
from headstart.tasks.own import OwnSpec

SETS: dict[str, tuple[Sequences, dict[str, Any]]] = {
    "floats": (walks(), {}),
    "gaps": (walks(channels=3, gaps=True), {}),
    "patches": (walks(channels=2), {"patch": 4}),
    "patches with gaps": (walks(channels=2, gaps=True), {"patch": 3}),
    "batch norm": (walks(), {"model": {"norm": "batch", "pool": "max"}}),
    "numbers": (walks(numbers=True), {}),
    "dna": (texts("dna"), {}),
    "text": (texts("text"), {"model": {"pool": "last"}}),
    "tokens": (tokens(), {}),
    "joined letters": (texts("text"), {"model": {"encoder": {"patch": 4}, "pool": "max"}}),
}


def slowly(served: Served, s: Sequences) -> np.ndarray:
    """The network's raw answer for one sequence after another, prepared by hand."""
    preparation, out = served.config.preparation, []
    assert served.network is not None
    for row in range(len(s)):
        x = s.values[s.offsets[row] : s.offsets[row + 1]]
        if s.kind != "numbers":
            inputs, seen = torch.from_numpy(x.astype(np.int64))[None], None
        else:
            there = np.ones(x.shape, bool) if s.observed is None else s.observed[s.offsets[row] : s.offsets[row + 1]]
            mean, deviation = np.float32(preparation.mean), np.float32(preparation.deviation)
            x = np.where(there, (x - mean) / deviation, 0).astype(np.float32)
            room = -len(x) % preparation.patch
            x, there = (np.concatenate([a, np.zeros((room, a.shape[1]), a.dtype)]) for a in (x, there))
            inputs = torch.from_numpy(x.reshape(1, -1, preparation.patch * x.shape[1]))
            seen = torch.from_numpy(there.reshape(inputs.shape)) if preparation.missing else None
        batch = Batch(
            inputs, torch.ones(inputs.shape[:2], dtype=torch.bool), torch.zeros(1, dtype=torch.int64), observed=seen
        )
        with torch.no_grad():
            out.append(served.network(batch)[0].double().numpy())
    return np.stack(out)


@pytest.mark.parametrize("name", SETS)
def test_predictions_are_those_of_a_slow_reference_in_the_persons_own_unit(name: str) -> None:
    s, more = SETS[name]
    served = made(s, **more)
    raw = slowly(served, s)
    if s.target == "number":
        np.testing.assert_allclose(served.predict(s), 15 + 5 * raw[:, 0], atol=1e-4)
        assert served.scores(s).shape == (len(s),)
        return
    raised = np.exp(raw / 1.7)
    np.testing.assert_allclose(served.predict(s), raised / raised.sum(1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(served.scores(s), raw, atol=1e-4)
    assert served.predict(s).std(0).max() > 1e-3  # the sequences are told apart


@pytest.mark.parametrize("mixer", MIXERS)
def test_neither_order_nor_company_moves_an_answer(mixer: str) -> None:
    s = walks(n=10, channels=2, gaps=True, least=3, most=40)
    served = made(s, mixer=mixer)
    whole, order = served.predict(s), np.random.default_rng(0).permutation(len(s))
    np.testing.assert_allclose(served.predict(s.take(order)), whole[order], atol=1e-5)
    for row in (0, 3):
        np.testing.assert_allclose(served.predict(s.take(np.array([row])))[0], whole[row], atol=1e-5)


@pytest.mark.parametrize("name", ["patches with gaps", "numbers", "text"])
@pytest.mark.parametrize("use", ["network", "majority", "summary", "kernels"])
def test_every_model_of_a_folder_answers_for_each_kind_alone_as_in_company(name: str, use: str) -> None:
    s, more = SETS[name]
    served = made(s, ("majority", "summary", "kernels"), **more)
    assert served.choices == ("network", "majority", "summary", "kernels")
    whole = served.predict(s, use)
    assert whole.dtype == np.float64
    assert whole.shape == ((len(s), 2) if s.target == "class" else (len(s),))
    for row in (0, 5):
        np.testing.assert_allclose(served.predict(s.take(np.array([row])), use)[0], whole[row], atol=1e-4)
    if use == "majority":
        wanted = 15.0 if s.target == "number" else [np.mean([x == k for x in s.labels]) for k in s.classes]
        np.testing.assert_allclose(whole[0], wanted, atol=1e-5)


def test_a_classic_model_answers_in_the_unit_of_its_target() -> None:
    s = walks(n=30, numbers=True)
    shifted = replace(s, values=(s.values + np.repeat(s.numbers(), s.lengths)[:, None]).astype(np.float32))
    served = made(shifted, ("summary",), serve="summary")
    assert np.abs(served.predict(shifted) - shifted.numbers()).mean() < 1


def test_what_lies_beyond_the_longest_of_the_fit_cannot_change_an_answer() -> None:
    s = walks(most=20)
    served = made(s, ("summary",), patch=4, longest=18)
    far = read_sequences(
        [np.concatenate([s.values[:9, 0], np.full(200, x)]) for x in (1.0, -5.0)], LayoutSpec(kind="numbers")
    )
    for use in ("network", "summary"):
        assert served.limit(use) == 18
        first, second = served.predict(far.cut(18), use), served.predict(far, use)
        np.testing.assert_array_equal(first, second)
        assert not np.allclose(second[0], second[1])  # nine positions of 18 differ
    alone = served.predict(s.take(np.array([0])).cut(9))
    np.testing.assert_allclose(served.predict(far.cut(9)), alone[[0, 0]], atol=1e-5)


def test_a_network_sees_no_more_than_it_was_built_for_and_a_classic_model_sees_all() -> None:
    s = walks(most=20)
    served = made(s, ("summary",), patch=4)
    assert served.limit("network") == 4 * -(-int(s.lengths.max()) // 4)
    assert served.limit("summary") is None


def test_what_stands_at_a_missing_value_cannot_change_an_answer() -> None:
    s = walks(channels=2, gaps=True)
    assert s.observed is not None
    served = made(s, ("summary", "kernels"), patch=3)
    other = replace(s, values=np.where(s.observed, s.values, np.float32(1e6)))
    for use in served.choices:
        np.testing.assert_array_equal(served.predict(s, use), served.predict(other, use))


def test_gaps_are_the_mean_where_the_fit_had_none() -> None:
    s = walks(channels=2)
    served = made(s, missing=False)
    gaps = walks(channels=2, gaps=True)
    assert gaps.observed is not None
    mean = np.float32(served.config.preparation.mean)
    filled = replace(gaps, values=np.where(gaps.observed, gaps.values, mean), observed=None)
    np.testing.assert_allclose(served.predict(gaps), served.predict(filled), atol=1e-5)


def test_the_head_of_the_embeddings_gives_the_scores() -> None:
    s = walks(channels=2, gaps=True)
    served = made(s, patch=4)
    assert served.network is not None
    scores = served.embed(s)
    assert (scores.shape, scores.dtype) == ((len(s), 16), np.float32)
    with torch.no_grad():
        head: Any = served.network.head
        again = head.output(torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(again, served.scores(s), atol=1e-5)


def test_no_rows_give_no_answers() -> None:
    s = walks()
    served, none = made(s, ("summary",)), s.take(np.zeros(0, dtype=np.int64))
    assert served.predict(none).shape == (0, 2)
    assert served.predict(none, "summary").shape == (0, 2)
    assert served.embed(none).shape == (0, 16)


def test_what_is_not_there_is_named() -> None:
    s = walks()
    bare = made(s, ("majority", "summary"), network=False)
    assert bare.choices == ("majority", "summary")
    with pytest.raises(BadInput, match=r"^use: no 'sumary'; did you mean 'summary'\?$"):
        bare.predict(s, "sumary")
    for asked in (bare.embed, bare.scores):
        with pytest.raises(BadInput, match="there is no network here, only majority, summary; fit one with a network"):
            asked(s)


def test_sequences_of_another_kind_or_with_other_channels_are_refused() -> None:
    served = made(walks(channels=2), ("majority",))
    for use in served.choices:
        with pytest.raises(BadInput, match=r"has 3 channels .*the model was fitted to 2"):
            served.predict(walks(channels=3), use)
        with pytest.raises(BadInput, match="holds DNA, letter by letter, the model was fitted to numbers"):
            served.predict(texts("dna"), use)


def test_tokens_mean_what_they_meant_in_the_fit_and_others_are_refused() -> None:
    s = tokens()
    served = made(s, ("kernels",))
    turned = tokens(symbols=("9", "7", "5", "3"))
    assert turned.layout.symbols != s.layout.symbols
    for use in served.choices:
        np.testing.assert_array_equal(served.predict(turned, use), served.predict(s, use))
    strange = read_sequences([np.array([3, 5, 8]), np.array([3, 4, 3])], LayoutSpec(kind="tokens"))
    with pytest.raises(BadInput) as caught:
        served.predict(strange)
    words = "X, row 1: the token '8' was not met in the fit; correct it, or leave the row out (1 more like it)"
    assert str(caught.value) == words


@pytest.mark.parametrize("patch", [1, 4])
def test_a_file_is_prepared_as_the_task_of_the_fit_prepares_it(tmp_path: Path, patch: int) -> None:
    rng = np.random.default_rng(0)
    lines = ["id,label," + ",".join(f"t{i}" for i in range(9))]
    for i in range(40):
        cells = ["" if rng.uniform() < 0.1 else f"{x:.3f}" for x in 5 + 3 * rng.normal(size=9)]
        lines.append(f"s{i},{'ab'[i % 2]}," + ",".join([*cells[:8], "1"] if i % 3 else [*cells[:6], "", "", ""]))
    file = tmp_path / "train.csv"
    file.write_text("\n".join(lines))
    spec = read(OwnSpec, {"file": str(file), "patch": patch})
    task, facts = open_task(spec, tmp_path), spec.facts(tmp_path)
    preparation = facts.preparation(patch=patch, missing=task.signature.missing).model_dump()
    document = {
        "layout": facts.layout.model_dump(mode="json"),
        "preparation": preparation,
        "serve": "network",
        "network": {
            "model": {"width": 8, "mixer": {"kind": "attention", "heads": 2}},
            "objective": {"kind": "classify"},
            "length": task.signature.length,
        },
    }
    config = read(ModelConfig, document)
    assert (config.signature.width, config.signature.missing) == (task.signature.width, task.signature.missing)
    served = Served(config, network_of(config), {})
    whole = read_sequences(file, facts.layout)
    seen = served.examples(whole, patched=True)
    for split in (task.train, task.val, task.test):
        mine = seen.take(split.index)
        np.testing.assert_array_equal(mine.values, split.values)
        np.testing.assert_array_equal(mine.observed, split.observed)  # type: ignore[arg-type]
    if patch == 1:
        np.testing.assert_array_equal(of_examples(served, task.test), served.predict(whole.take(task.test.index)))


def test_a_target_reaches_a_model_as_the_fit_scales_it() -> None:
    s = walks(numbers=True)
    served = made(s)
    target = targeted(served, s).target
    assert target is not None
    assert (float(target.min()), float(target.max())) == (-1.0, 1.0)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a deviation of 0": ({"deviation": [0.0]}, "deviation: every one is above 0, and a float32"),
    "a deviation beyond float32": ({"deviation": [1e39]}, "deviation: every one is above 0, and a float32"),
    "a deviation that float32 takes for 0": ({"deviation": [1e-320]}, "deviation: every one is above 0, and a float32"),
    "a mean too many": ({"mean": [0.0, 1.0]}, "give one of each for every channel, or none"),
    "a class twice": ({"classes": ["a", "a"]}, "a name stands there twice"),
    "symbols of numbers": ({"symbols": ["x"]}, "tokens have some, numbers has 1"),
    "no channel": ({"channels": []}, "there are none; name each"),
    "half a scale": ({"classes": [], "low": 1.0}, "both or neither"),
    "a scale of nothing": ({"classes": [], "low": 1.0, "high": 1.0}, "is not below high"),
    "a key that is none": ({"menu": 1}, "no 'menu'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_config_that_contradicts_itself_is_refused(name: str) -> None:
    change, message = REFUSED[name]
    document = made(walks()).config.model_dump(mode="json")
    document["preparation"] |= change
    with pytest.raises(BadInput, match=message):
        read(ModelConfig, document)


def test_a_config_whose_models_are_for_other_data_is_refused() -> None:
    served = made(walks(channels=2), ("majority",))
    document = served.config.model_dump(mode="json")
    for change, message in (
        ({"serve": "kernel"}, "serve: no 'kernel'"),
        ({"classics": {"majority": {**document["classics"]["majority"], "width": 3}}}, "majority: is for other data"),
        ({"classics": {"network": document["classics"]["majority"]}}, "classics.network: is no name of such a model"),
        ({"network": {**document["network"], "objective": {"kind": "regress"}}}, "'regress', these data need 'classi"),
    ):
        with pytest.raises(BadInput, match=message):
            read(ModelConfig, {**document, **change})
