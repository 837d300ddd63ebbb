"""Frozen features of texts and proteins: under a readout, joined with n-grams, as stages and as what a model holds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import saved
from support.words import saved_bert, saved_t5

from headstart.baselines import from_arrays, shapes
from headstart.baselines.embedding import EmbeddingSpec
from headstart.baselines.encoded import Encoded, Joined
from headstart.baselines.linear import Linear
from headstart.baselines.ngrams import fit_ngrams
from headstart.baselines.remembered import KNOWN_ROWS
from headstart.data.alphabets import ALPHABETS
from headstart.errors import BadInput
from headstart.limits import FreeMemory
from headstart.models.model import SequenceModel
from headstart.sequence import Examples, Signature

TEXT = Signature("tokens", 256, 90, 3, "class", classes=2)
PROTEIN = Signature("tokens", 25, 90, 3, "class", classes=2)
SYMBOLS = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWC"]
ESM = {
    **{"model_type": "esm", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 24, "position_embedding_type": "rotary", "vocab_size": len(SYMBOLS)},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small models in the folder of weights; nothing is in the hub's cache."""
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    monkeypatch.setenv("HEADSTART_WEIGHTS", str(tmp_path))
    saved_bert(tmp_path / "bert")
    saved_t5(tmp_path / "t5")
    saved(tmp_path / "esm", ESM)
    (tmp_path / "esm" / "vocab.txt").write_text("\n".join(SYMBOLS))
    return tmp_path


def reviews(count: int = 60, seed: int = 0) -> Examples:
    """Texts of some words, and whether one of them is `good`; ragged."""
    rng, texts = np.random.default_rng(seed), []
    for i in range(count):
        words = rng.choice(["the", "film", "plot", "was", "a", "very", "is"], rng.integers(3, 12)).tolist()
        words.insert(rng.integers(len(words)), "good" if i % 2 else "bad")
        texts.append(np.frombuffer(" ".join(words).encode(), np.uint8))
    return Examples.from_arrays(texts, np.arange(count) % 2)


def proteins(count: int = 40) -> Examples:
    rng, letters = np.random.default_rng(0), ALPHABETS["protein"]
    some = ["".join(rng.choice(list("LAGVSERT" if i % 2 else "DPKQNFYMH"), rng.integers(3, 40))) for i in range(count)]
    return Examples.from_arrays([np.array([letters.index(x) for x in text]) for text in some], np.arange(count) % 2)


def fitted(source: str, x: Examples, signature: Signature, **more: object) -> Linear:
    model = EmbeddingSpec(source=source, **more).fit(x.take(np.arange(30)), x.take(np.arange(30, 40)), signature, 0)  # type: ignore[arg-type]
    assert isinstance(model, Linear)
    return model


@pytest.mark.parametrize("ngrams", [False, True])
@pytest.mark.parametrize("source", ["bert", "t5", "esm"])
def test_a_model_says_the_same_from_its_arrays_alone(source: str, ngrams: bool, folder: Path) -> None:
    x, signature = (proteins(), PROTEIN) if source == "esm" else (reviews(), TEXT)
    model = fitted(source, x, signature, ngrams=ngrams)
    assert isinstance(model.features, Joined if ngrams else Encoded)
    answers, facts = model.predict(x), model.facts.model_dump(mode="json")
    assert not ngrams or (answers.argmax(1) == x.target).mean() > 0.8
    arrays = model.arrays()
    assert {name: (str(a.dtype), a.shape) for name, a in arrays.items()} == shapes(facts)
    shutil.rmtree(folder)
    KNOWN_ROWS.clear()
    assert np.array_equal(from_arrays(facts, arrays).predict(x), answers), "a saved model needs no source"


def test_what_stands_beside_n_grams_has_the_length_that_its_facts_say() -> None:
    """The reference: each row by itself, from the definition."""
    x = reviews()
    model = fitted("bert", x, TEXT, ngrams=True)
    assert isinstance(model.features, Joined)
    train = x.take(np.arange(30))
    encoded, ngrams = model.features.encoded.transform(train).astype(float), fit_ngrams(train, 4).transform(train)
    rows = model.features.transform(train).toarray()
    expected = (encoded - encoded.mean(0)) / encoded.std(0)
    expected *= model.facts.sizes["tenths"] / 10 / encoded.shape[1] ** 0.5
    assert rows[:, : ngrams.shape[1]] == pytest.approx(ngrams.toarray())
    assert rows[:, ngrams.shape[1] :] == pytest.approx(expected, abs=1e-4)
    assert (rows[:, ngrams.shape[1] :] ** 2).sum(1).mean() ** 0.5 == pytest.approx(model.facts.sizes["tenths"] / 10)


def test_what_was_chosen_is_chosen_again_with_nothing_left_to_choose() -> None:
    x = reviews()
    first = fitted("bert", x, TEXT, ngrams=True)
    spec = EmbeddingSpec(source="bert", ngrams=True)
    same = spec.model_copy(update=spec.choices(first.facts))
    again = same.fit(x, x.take(np.arange(0)), TEXT, 0)
    assert again.facts.sizes == first.facts.sizes
    assert again.facts.strength == pytest.approx(first.facts.strength)


def test_fewer_pieces_are_read_where_it_is_asked_or_time_is_short() -> None:
    x = reviews()
    few = EmbeddingSpec(source="bert", pieces=5).features(1)
    assert isinstance(few, Encoded)
    assert max(map(len, few.pieces(x))) == 5
    spec, taken = EmbeddingSpec(source="bert").within(x, 10**9, 1.0)
    assert spec.pieces == 10, "a quarter of 40 positions"
    assert taken > 1.0
    assert EmbeddingSpec(source="bert").within(x, 10, 60.0)[0].pieces is None


@pytest.mark.parametrize(("source", "x"), [("bert", reviews()), ("esm", proteins())])
def test_where_memory_is_short_fewer_pass_at_once_and_no_bit_changes(
    source: str, x: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = EmbeddingSpec(source=source)
    fields = spec.fields(spec.checkpoint)
    whole, batches = spec.features(1).transform(x), list[int]()
    KNOWN_ROWS.clear()
    monkeypatch.setattr("headstart.checkpoints.encoder.memory", lambda: FreeMemory(2 * 40 * 4 * 24 * 16))
    embed = SequenceModel.embed
    monkeypatch.setattr(
        SequenceModel, "embed", lambda m, batch: (batches.append(batch.valid.numel()), embed(m, batch))[1]
    )
    assert np.array_equal(spec.features(1).transform(x), whole)
    assert max(batches) <= 48, "40 pieces, or one row"
    assert spec.describe_features(fields, 1).endswith(", 40 pieces at a time, as memory is short")


def test_sequences_that_a_model_does_not_read_get_one_line(folder: Path) -> None:
    x = reviews()
    wrong = [("bert", PROTEIN, "reads text, as bytes of UTF-8"), ("esm", TEXT, "reads proteins, letter by letter")]
    for source, signature, message in wrong:
        with pytest.raises(BadInput, match=f"model.source: '{source}' {message} .* the sequences are of"):
            EmbeddingSpec(source=source).check(signature)
    with pytest.raises(BadInput, match="and the sequences are numbers; name another model"):
        EmbeddingSpec(source="bert").check(Signature("floats", 2, 9, 9, "class", classes=2))
    foreign = [np.frombuffer("ξζ ωψ".encode(), np.uint8)] * 9
    with pytest.raises(BadInput, match="its tokeniser knows no letter of the sequences \\('ξζ ωψ'\\); take a"):
        EmbeddingSpec(source="bert").timed(Examples.from_arrays(foreign, np.arange(9) % 2), 9)
    features = EmbeddingSpec(source="bert").features(1)
    assert isinstance(features, Encoded)
    assert features.check(x) == 0.0
    damaged = replace(features, weights={**features.weights, "tokeniser": np.array([255, 254], np.uint8)})
    with pytest.raises(BadInput, match="its tokeniser is damaged; save the model again"):
        damaged.transform(x)
