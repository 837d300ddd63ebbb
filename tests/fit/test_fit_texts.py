"""A fit of texts with an encoder as backbone: two rows without gradients, served without its source."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import GPT2, saved
from support.words import saved_bert

from headstart.checkpoints.folder import read_header
from headstart.cli import main
from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier
from headstart.fit.arms.embedding import FrozenModel
from headstart.fit.arms.weights import find_backbone

FAST = ["--time", "10h", "--seeds", "1", "--workers", "0", "finetune.budget.steps=2", "--no-pretrain"]
FAST += ["finetune.optim.lr=1e-2"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small encoder in `weights` and texts; nothing is in the hub's cache."""
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    monkeypatch.setenv("HEADSTART_WEIGHTS", "weights")
    monkeypatch.chdir(tmp_path)
    saved_bert(tmp_path / "weights" / "bert")
    texts, labels = reviews()
    (tmp_path / "reviews.csv").write_text(
        "text,label\n" + "".join(f"{a},{b}\n" for a, b in zip(texts, labels, strict=True))
    )
    return tmp_path


def reviews(count: int = 40) -> tuple[list[str], list[str]]:
    rng, texts = np.random.default_rng(0), []
    for i in range(count):
        words = rng.choice(["the", "film", "plot", "was", "a", "very", "is"], rng.integers(3, 12)).tolist()
        words.insert(rng.integers(len(words)), "good" if i % 2 else "bad")
        texts.append(" ".join(words))
    return texts, ["pos" if i % 2 else "neg" for i in range(count)]


def headstart(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_texts_are_fitted_served_without_the_source_and_predicted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", "reviews.csv", "--target", "label", "--backbone", "bert", "-o", "model", *FAST]
    assert headstart(*fit, "--serve", "joined") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "checkpoint bert: BERT, 2 blocks, width 16; content " in printed
    assert "embedding: frozen features of bert with logistic regression, 16 of each sequence, the mean over" in printed
    assert "joined: frozen features of bert and n-grams with logistic regression" in printed
    assert "As asked for, predict serves joined." in printed
    shutil.rmtree(folder / "weights")
    assert headstart("predict", "model", "reviews.csv", "-o", "p.csv") == 0
    assert len((folder / "p.csv").read_text().splitlines()) == 41


@pytest.mark.slow
def test_a_list_of_texts_in_python_meets_the_encoder_too() -> None:
    texts, labels = reviews()
    model = SequenceClassifier(backbone="bert", seeds=1, epochs=1, pretrain=False, learning_rates=1e-2, serve="joined")
    model.fit(texts, labels)
    assert {"embedding", "joined"} <= {candidate.name for candidate in model.outcome_.candidates}
    assert (model.predict(texts) == np.array(labels)).mean() > 0.8


def test_what_cannot_be_read_is_refused_in_one_line_before_anything_is_fitted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved_bert(folder / "weights" / "other", vocab_size=226)
    saved_bert(folder / "weights" / "lost")
    (folder / "weights" / "lost" / "vocab.txt").unlink()
    saved(folder / "weights" / "gpt2", GPT2)
    (folder / "greek.csv").write_text("text,label\n" + "".join(f"ξζ ωψ φ{'α' * i},{'ab'[i % 2]}\n" for i in range(30)))
    for file, source, message in [
        ("reviews.csv", "other", "vocab.txt: has 26 pieces, and the checkpoint vectors for 226"),
        ("reviews.csv", "lost", "holds no tokenizer.json or vocab.txt"),
        ("reviews.csv", "gpt2", "backbone: 'gpt2' would read a text byte by byte"),
        ("greek.csv", "bert", "backbone: 'bert': its tokeniser knows no letter of the sequences ('ξζ ωψ φ"),
    ]:
        assert headstart("fit", file, "--target", "label", "--backbone", source, "--workers", "0") == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not list(folder.glob("runs/*/result.json"))


def test_weights_that_memory_has_no_room_for_are_refused_before_a_number_of_them_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has a hole in the place of its numbers: who reads them is killed."""
    path, wide = folder / "weights" / "bert" / "model.safetensors", 10**9
    config = folder / "weights" / "bert" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "intermediate_size": wide}))
    header, end = dict[str, object](), 0
    for name, (kind, shape) in read_header(path).items():
        sizes = [wide if size == 24 else size for size in shape]
        begin, end = end, end + 4 * math.prod(sizes)
        header[name] = {"dtype": kind, "shape": sizes, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + end)
    command = ["fit", "reviews.csv", "--target", "label", "--backbone", "bert", "--workers", "0"]
    assert headstart(*command) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "backbone: reading 'bert' takes about 792 GB of memory, and " in error
    assert error.endswith("allow it more, or name a smaller checkpoint")
    assert not list(folder.glob("runs/*/result.json"))


def test_a_table_of_frozen_features_counts_where_memory_is_planned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headstart.baselines.embedding.JOINED_BYTES", 10**12)
    command = ["fit", "reviews.csv", "--target", "label", "--backbone", "bert", "--workers", "0"]
    assert headstart(*command) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "reviews.csv: fitting 25 labelled sequences takes about 6.4e+05 GB of memory" in error


def test_each_worker_is_reckoned_to_hold_the_encoder_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reckoned = list[float]()

    def workers(device: str, stages: int | None = None, each: float = 0.0) -> int:
        reckoned.append(each)
        raise BadInput("it is counted, and nothing more is asked")

    monkeypatch.setattr("headstart.runner.job.default_workers", workers)
    assert headstart("fit", "reviews.csv", "--target", "label", "--backbone", "bert") == 2
    assert headstart("fit", "reviews.csv", "--target", "label") == 2
    numbers = sum(
        math.prod(shape) for _, shape in read_header(folder / "weights" / "bert" / "model.safetensors").values()
    )
    assert reckoned == [pytest.approx(12 * numbers, rel=0.1), 0.0]


def test_fewer_pieces_are_read_where_time_is_short_and_the_plan_says_so(folder: Path) -> None:
    from headstart.sequence import Examples, Signature

    backbone = find_backbone("bert", "text")
    assert isinstance(backbone, FrozenModel)
    texts = [np.frombuffer(text.encode(), np.uint8) for text in reviews()[0]]
    timed = backbone.timed(Examples.from_arrays(texts, np.arange(40) % 2), 10**9, 10.0)
    assert timed.model["pieces"] == 10
    assert not timed.fits(10.0)
    signature = Signature("tokens", 256, 90, 3, "class", classes=2)
    assert timed.texts(signature, fits=True)[1].endswith("16 of each sequence, the mean over its first 10 pieces")
    assert "pieces" not in backbone.timed(Examples.from_arrays(texts, np.arange(40) % 2), 40, None).model
