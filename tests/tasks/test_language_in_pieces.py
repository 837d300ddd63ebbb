"""The next piece of a text, in the pieces of a tokeniser: cut part by part, scored by piece and by byte."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headstart
from headstart.errors import BadInput
from headstart.stage import identity, read_stage
from headstart.tasks.language import LanguageSpec
from headstart.tasks.task import SPLITS

tokenizers = pytest.importorskip("tokenizers")
TEXT = "".join(f"{i} is {'even' if i % 2 == 0 else 'odd'}, ä {i * i}.\n" for i in range(600))


def byte_pairs(path: Path, size: int = 300, text: str = TEXT) -> None:
    """A tokeniser of byte pairs, as GPT-2 has one."""
    level = tokenizers.pre_tokenizers.ByteLevel
    tokeniser = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokeniser.pre_tokenizer = level(add_prefix_space=False)
    tokeniser.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, initial_alphabet=level.alphabet(), show_progress=False)
    tokeniser.train_from_iterator([text], trainer)
    tokeniser.save(str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "pairs").mkdir()
    byte_pairs(tmp_path / "pairs" / "tokenizer.json")
    return tmp_path


def spec(name: str = "pairs", **settings: Any) -> LanguageSpec:
    return LanguageSpec(file="text.txt", tokeniser=name, length=32, **settings)


def test_tokens_are_the_pieces_of_each_split_whatever_is_cut_at_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = TEXT.encode()
    ends = [0, round(len(data) * 0.9), round(len(data) * 0.95), len(data)]
    reference = tokenizers.Tokenizer.from_file(str(folder / "pairs" / "tokenizer.json"))
    for size in (500, 2**18):
        monkeypatch.setattr("headstart.tasks.language.CUT_AT_ONCE", size)
        monkeypatch.setenv("HEADSTART_CACHE", str(folder / f"cache-{size}"))
        task = spec().load(folder)
        for split, begin, end in zip(SPLITS, ends, ends[1:], strict=False):
            own = task.split(split).values
            expected = reference.encode(data[begin:end].decode(errors="replace"), add_special_tokens=False).ids
            assert own.tolist() == expected[: len(own)]
            assert len(expected) - len(own) <= 1, "a single piece at the end has no next one"
            assert task.bytes_per_token[split] == pytest.approx((end - begin) / len(expected))
        assert (task.signature.width, task.signature.length, task.train.values.dtype) == (300, 32, np.uint16)
        assert task.text is not None
        assert task.text(task.train.inputs(0)).startswith("0 Ġis Ġeven")


def test_a_line_without_an_end_is_cut_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.tasks.language.CUT_AT_ONCE", 100)
    (folder / "text.txt").write_text("even odd ä " * 900)
    task = spec().load(folder)
    decode = tokenizers.Tokenizer.from_file(str(folder / "pairs" / "tokenizer.json")).decode
    text = "".join(decode(task.split(name).values.tolist()) for name in SPLITS)
    assert text.count("even odd") == pytest.approx(900, abs=3)


def test_final_scores_are_by_piece_and_by_byte(folder: Path, tmp_path: Path) -> None:
    task = {"kind": "language", "file": "text.txt", "tokeniser": "pairs", "length": 32}
    model = {"width": 16, "blocks": 1, "causal": True, "mixer": {"kind": "attention", "heads": 2}}
    study = {
        "name": "next-piece",
        "stages": {"train": {"objective": {"kind": "causal"}, "model": model, "budget": {"steps": 3}}},
        "columns": {"text": {"task": task}},
        "arms": {"attention": {}},
        "axes": {"seed": [0]},
        "report": {"baselines": False},
    }
    headstart.run(study, data=folder, store=tmp_path / "runs")
    (file,) = (tmp_path / "runs").glob("*/result.json")
    size = spec().load(folder).bytes_per_token
    for weights in json.loads(file.read_text())["scores"].values():
        for split in ("val", "test"):
            scores = weights[split]
            assert scores["bits_per_byte"] == pytest.approx(scores["loss"] / math.log(2) / size[split])
            assert scores["perplexity_per_byte"] == pytest.approx(2 ** scores["bits_per_byte"])
            assert scores["perplexity_per_byte"] < scores["perplexity"]


def test_where_the_tokeniser_is_is_no_identity_and_its_pieces_are(folder: Path) -> None:
    for name, size in (("copy.json", 300), ("other.json", 280)):
        byte_pairs(folder / name, size)
    names = ("pairs", "copy.json", "other.json", None)
    task = {"kind": "language", "file": "text.txt"}
    stage = {"objective": {"kind": "causal"}, "model": {"causal": True}, "budget": {"steps": 1}}
    specs = [read_stage({**stage, "task": {**task, **({"tokeniser": name} if name else {})}}) for name in names]
    same, copy, other, plain = (identity(each, folder) for each in specs)
    assert same == copy
    assert len({same, other, plain}) == 3


def test_what_is_no_tokeniser_of_this_text_is_refused_in_one_message(folder: Path) -> None:
    (folder / "broken.json").write_text("{}")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "even": 1}, unk_token="[UNK]"))  # noqa: S106
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(folder / "words.json"))
    (folder / "empty").mkdir()
    for name, message in (
        ("broken.json", r"broken.json: is no tokeniser \(.*\); download it again"),
        (
            "words.json",
            r"task.tokeniser: 9\d(\.\d)? % of the pieces of text.txt are unknown to it, .*name one that knows",
        ),
        ("gone", r"task.tokeniser: .*gone is not there"),
        ("empty", r"tokenizer.json: is not there; name a folder with a tokenizer.json, or that file"),
    ):
        with pytest.raises(BadInput, match=message) as error:
            spec(name).load(folder)
        assert len(str(error.value).splitlines()) == 1


def test_weights_of_another_vocabulary_are_refused_with_both_sizes(folder: Path, tmp_path: Path) -> None:
    model = {"width": 16, "blocks": 1, "causal": True, "mixer": {"kind": "attention", "heads": 2}}
    task = {"kind": "language", "file": "text.txt", "length": 32}
    study = {
        "name": "moved",
        "stages": {
            "bytes": {"objective": {"kind": "causal"}, "budget": {"steps": 1}, "task": task},
            "pieces": {"objective": {"kind": "causal"}, "budget": {"steps": 1}, "task": {**task, "tokeniser": "pairs"}},
        },
        "columns": {"text": {"model": model}},
        "arms": {"moved": {"pieces": {"parent": "bytes", "start": ["take(encoder)"]}}},
        "axes": {"seed": [0]},
    }
    with pytest.raises(BadInput) as error:
        headstart.Study(study, data=folder, store=tmp_path / "runs").survey()
    assert "256" in str(error.value)
    assert "300" in str(error.value)
    assert len(str(error.value).splitlines()) == 1
