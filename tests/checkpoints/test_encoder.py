"""Encoders of texts and proteins, whole: beside the library that they come from, and one sequence at a time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.checkpoints import saved
from support.words import PIECES, saved_bert, saved_t5

from headstart.checkpoints.encoder import EncoderFields, means, protein_encoder
from headstart.checkpoints.folder import Folder
from headstart.checkpoints.read import read_checkpoint
from headstart.checkpoints.spec import CheckpointSpec, ModelSource
from headstart.checkpoints.tokeniser import pieces_of, tokeniser_text, unknown_share
from headstart.errors import BadInput

REAL = Path(__file__).parents[3] / "shared" / "weights"
"""Where real weights lie beside a checkout that has them."""
TEXTS = ["the film was good.", "the plot is very very badly acting, and the film was bad!", "a", "Film plot UNGOOD"]


def fields_of(source: Path) -> EncoderFields:
    fields = ModelSource(source=str(source)).fields
    assert isinstance(fields, EncoderFields)
    return fields


def features(source: Path, texts: list[str]) -> np.ndarray:
    _, weights, _ = ModelSource(source=str(source)).loaded()
    fields = fields_of(source)
    encoder = fields.encoder
    rows = pieces_of(fields.tokeniser, texts, encoder.length)
    return means(encoder.built(weights), rows, encoder.size, False, encoder.positions)


@pytest.mark.parametrize(("save", "cls"), [(saved_bert, "BertModel"), (saved_t5, "T5EncoderModel")])
def test_features_are_the_means_of_what_transformers_makes_of_the_same_pieces(
    tmp_path: Path, save: object, cls: str
) -> None:
    transformers = pytest.importorskip("transformers", reason="compared only where transformers is")
    folder = save(tmp_path / "model")  # type: ignore[operator]
    theirs = getattr(transformers, cls).from_pretrained(folder).eval()
    fields = fields_of(folder)
    rows = pieces_of(fields.tokeniser, TEXTS, 40)
    with torch.inference_mode():
        expected = [theirs(torch.from_numpy(row[None])).last_hidden_state[0].mean(0).numpy() for row in rows]
    assert np.abs(features(folder, TEXTS) - np.stack(expected)).max() < 1e-5


@pytest.mark.skipif(not (REAL / "minilm-l6").is_dir(), reason="real weights of MiniLM are not here")
def test_the_real_minilm_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="compared only where transformers is")
    texts = [*TEXTS, "A much longer text, which says that it was " + "very " * 300 + "bad.", "Über 日本, naïve!"]
    theirs = transformers.AutoModel.from_pretrained(REAL / "minilm-l6").eval()
    tokeniser = transformers.AutoTokenizer.from_pretrained(REAL / "minilm-l6")
    expected, fields = [], fields_of(REAL / "minilm-l6")
    for text, row in zip(texts, pieces_of(fields.tokeniser, texts, 256), strict=True):
        assert tokeniser(text, truncation=True, max_length=256)["input_ids"] == row.tolist()
        with torch.inference_mode():
            expected.append(theirs(torch.from_numpy(row[None])).last_hidden_state[0].mean(0).numpy())
    assert np.abs(features(REAL / "minilm-l6", texts) - np.stack(expected)).max() < 1e-5
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(REAL / "minilm-l6" / name, tmp_path)
    (tmp_path / "model.safetensors").symlink_to(REAL / "minilm-l6" / "model.safetensors")
    shutil.copy((REAL / "minilm-l6" / "model.safetensors").resolve(), tmp_path / "copy")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "copy").rename(tmp_path / "model.safetensors")
    plain = pieces_of(fields_of(tmp_path).tokeniser, texts, 256)
    again = pieces_of(fields.tokeniser, texts, 256)
    assert all(np.array_equal(a, b) for a, b in zip(plain, again, strict=True)), "vocab.txt alone cuts alike"


@pytest.mark.skipif(not (REAL / "esm2-haemolysis").is_dir(), reason="real weights of ESM-2 are not here")
def test_the_real_esm_is_read_as_transformers_reads_it() -> None:
    transformers = pytest.importorskip("transformers", reason="compared only where transformers is")
    proteins = ["MKTAYIAKQRQISFVKSHFSRQ", "GIGAVLKVLTTGLPALISWIKRKRQQ", "A", "MKV" * 60]
    folder = REAL / "esm2-haemolysis"
    checkpoint, weights, _ = CheckpointSpec(source=str(folder)).loaded()
    encoder = protein_encoder(checkpoint.fields)
    theirs = transformers.EsmModel.from_pretrained(folder).eval()
    for name, turns in theirs.named_buffers():
        if name.endswith("inv_freq"):  # the file holds what half precision made of them, and we compute them
            turns.copy_(10_000 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16))
    tokeniser = transformers.AutoTokenizer.from_pretrained(folder)
    rows, expected = [encoder.rows_of(protein) for protein in proteins], []
    for protein, row in zip(proteins, rows, strict=True):
        assert tokeniser(protein)["input_ids"] == row.tolist()
        with torch.inference_mode():
            expected.append(theirs(torch.from_numpy(row[None])).last_hidden_state[0][1:-1].mean(0).numpy())
    assert np.abs(means(encoder.built(weights), rows, encoder.size, True) - np.stack(expected)).max() < 1e-5


def test_a_row_has_the_same_bits_alone_and_in_any_company(tmp_path: Path) -> None:
    texts = [" ".join((PIECES[5:14] * 5)[i : i + 1 + i % 19]) for i in range(24)]
    whole = features(saved_bert(tmp_path / "model"), texts)
    for at in (0, 7, 23):
        assert np.array_equal(features(tmp_path / "model", [texts[at]])[0], whole[at])
    assert np.array_equal(features(tmp_path / "model", texts[::-1])[::-1], whole)


def test_padding_to_fixed_lengths_changes_no_feature(tmp_path: Path) -> None:
    """The reference: each row by itself, unpadded, in float64."""
    folder = saved_bert(tmp_path / "model")
    _, weights, _ = ModelSource(source=str(folder)).loaded()
    fields = fields_of(folder)
    rows = pieces_of(fields.tokeniser, [*TEXTS, "good " * 60], 40)
    assert max(map(len, rows)) == 40
    model = fields.encoder.built(weights, torch.float64)
    from headstart.sequence import Batch

    with torch.inference_mode():
        slow = [model.embed(Batch.of(row[None]))[0].mean(0).numpy() for row in rows]
    assert np.abs(features(folder, [*TEXTS, "good " * 60]) - np.stack(slow)).max() < 1e-5


def test_the_content_follows_vectors_and_tokeniser_and_that_of_the_blocks_does_not(tmp_path: Path) -> None:
    folder = saved_bert(tmp_path / "model")
    whole, blocks = (read_checkpoint(folder, whole).content for whole in (True, False))
    assert whole != blocks
    (folder / "vocab.txt").write_text("\n".join([*PIECES[:-1], "##bad"]) + "\n")
    assert (read_checkpoint(folder, True).content, read_checkpoint(folder).content) != (whole, blocks)
    assert read_checkpoint(folder).content == blocks


def test_a_tokeniser_that_is_missing_damaged_or_of_another_checkpoint_gets_one_line(tmp_path: Path) -> None:
    folder = saved_bert(tmp_path / "bert")
    (folder / "vocab.txt").unlink()
    with pytest.raises(BadInput, match=r"bert: holds no tokenizer\.json or vocab\.txt, which says how a text becomes"):
        fields_of(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match=r"tokenizer\.json: is no tokeniser \(.*\); download it again"):
        fields_of(folder)
    (folder / "tokenizer.json").write_text("[" * 5000)
    with pytest.raises(BadInput, match=r"tokenizer\.json: is no tokeniser"):
        fields_of(folder)
    more = saved_bert(tmp_path / "more", pieces=[*PIECES, "more"])
    with pytest.raises(
        BadInput, match=r"vocab\.txt: has 27 pieces, and the checkpoint vectors for 26; it is the token"
    ):
        fields_of(more)
    few = saved_bert(tmp_path / "few", vocab_size=len(PIECES) + 200)
    with pytest.raises(BadInput, match=r"has 26 pieces, and the checkpoint vectors for 226"):
        fields_of(few)
    plain = saved_bert(tmp_path / "plain", pieces=["the", *PIECES[5:]] + [f"x{i}" for i in range(4)])
    with pytest.raises(BadInput, match=r"/plain/vocab\.txt: lacks '\[UNK\]', which BERT's rules need; put the tok"):
        fields_of(plain)
    t5 = saved_t5(tmp_path / "t5")
    (t5 / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match=r"t5: holds no tokenizer\.json, which says"):
        fields_of(t5)


@pytest.mark.parametrize("wrong", ["a mark that is not there", "no piece for the unknown", "brackets in brackets"])
def test_rules_that_fail_at_a_text_are_said_in_words(wrong: str, tmp_path: Path) -> None:
    """The library ends in a panic, in an exception of its own, or ends the process."""
    file = saved_t5(tmp_path / "t5") / "tokenizer.json"
    table, words = json.loads(file.read_text()), "its rules fail at a text"
    if wrong == "a mark that is not there":
        table["post_processor"]["special_tokens"] = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
        words = r"is no tokeniser \(its rules name '</s>', which is none of its marks\)"
    elif wrong == "no piece for the unknown":
        table["model"]["unk_id"] = None
    file.write_text(json.dumps(table))
    if wrong == "brackets in brackets":
        deep = "[" * 900 + "]" * 900
        file.write_text(json.dumps(table).replace('"normalizer": null', f'"normalizer": {deep}'))
        words = r"is no tokeniser \(its brackets are nested"
    with pytest.raises(BadInput, match=rf"tokenizer\.json: {words}"):
        pieces_of(tokeniser_text(Folder(file.parent), 40, False), ["a film \u65e5"], 40)


def test_cut_and_padding_of_a_folder_are_not_ours(tmp_path: Path) -> None:
    fields = fields_of(saved_t5(tmp_path / "t5"))
    assert json.loads(fields.tokeniser)["truncation"] is None
    row = pieces_of(fields.tokeniser, ["the film was very good and the plot was bad"], 40)[0]
    assert len(row) > 9
    assert row[-1] == 1, "the mark of the end"


def test_the_share_of_unknown_pieces_counts_no_marks(tmp_path: Path) -> None:
    for folder in (saved_bert(tmp_path / "bert"), saved_t5(tmp_path / "t5")):
        text = fields_of(folder).tokeniser
        assert unknown_share(text, ["the film", "good"], 40) == 0.0
        assert unknown_share(text, ["ξζ", "ж"], 40) >= 0.5
    assert unknown_share(fields_of(tmp_path / "bert").tokeniser, ["ξ film"], 40) == 0.5
    assert unknown_share(fields_of(tmp_path / "bert").tokeniser, ["ξ ζζ"], 40) == 1.0


def test_blocks_alone_need_no_tokeniser(tmp_path: Path) -> None:
    folder = saved(tmp_path / "bert", {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1}
                   | {"num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 9})  # fmt: skip
    assert read_checkpoint(folder).fields.family == "bert"
