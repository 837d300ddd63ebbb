"""The next byte of a text: windows, splits by shares or by names, bits per byte of tables and of a model."""

import gzip
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headstart
from headstart.errors import BadInput
from headstart.spec import read
from headstart.stage import identity, read_stage
from headstart.tasks.language import LanguageSpec, table_bits
from headstart.tasks.task import SPLITS, Task

TEXT = "".join(f"{i} is {'even' if i % 2 == 0 else 'odd'}, ä {i * i}.\n" for i in range(200)).encode()


def of(folder: Path, name: str = "text.txt", **settings: Any) -> Task:
    return LanguageSpec(file=name, **{"length": 32, **settings}).load(folder)


def bytes_of(task: Task, split: str) -> bytes:
    x = task.split(split)
    return b"".join(x.inputs(i).astype(np.uint8).tobytes() for i in range(len(x)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_bytes(TEXT)
    return tmp_path


def test_the_text_is_cut_into_train_val_and_test_and_each_into_windows(folder: Path) -> None:
    task = of(folder, val_share=0.1, test_share=0.2)
    ends = [round(len(TEXT) * 0.7), round(len(TEXT) * 0.8)]
    whole = {"train": TEXT[: ends[0]], "val": TEXT[ends[0] : ends[1]], "test": TEXT[ends[1] :]}
    for split in SPLITS:
        x = task.split(split)
        count = len(whole[split]) - (len(whole[split]) % 32 == 1)
        assert bytes_of(task, split) == whole[split][:count]
        assert set(x.lengths[:-1]) == {32}
        assert x.lengths[-1] >= 2
        assert x.target is None
    assert (task.signature.input, task.signature.width, task.signature.target) == ("tokens", 256, "none")
    assert task.text is not None
    assert task.text(task.train.inputs(0)).startswith("0 is even, ä 0.\n")


def test_files_of_a_folder_are_one_text_or_the_splits_that_they_are_named_after(tmp_path: Path) -> None:
    for name, part in (("b.txt", TEXT[1000:]), ("a.txt.gz", gzip.compress(TEXT[:1000]))):
        (tmp_path / "parts").mkdir(exist_ok=True)
        (tmp_path / "parts" / name).write_bytes(part)
    (tmp_path / "text.txt").write_bytes(TEXT)
    assert bytes_of(of(tmp_path, "parts"), "train") == bytes_of(of(tmp_path), "train")
    (tmp_path / "named").mkdir()
    for name, part in (("train.txt", TEXT[:2000]), ("valid.txt", TEXT[2000:2500]), ("test.txt", TEXT[2500:3000])):
        (tmp_path / "named" / name).write_bytes(part)
    named = of(tmp_path, "named")
    assert [len(bytes_of(named, split)) for split in SPLITS] == [2000, 500, 500]


def test_a_word_of_the_name_says_the_split_and_other_files_beside_the_three_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "wiki"
    folder.mkdir()
    parts = {"wiki.train-1.txt": TEXT[:900], "wiki.train-2.txt": TEXT[900:2000], "wiki.valid.txt": TEXT[2000:2500]}
    for name, part in {**parts, "README.md": b"of a text", "latest.md": b"news"}.items():
        (folder / name).write_bytes(part)
    with pytest.raises(BadInput, match="say train and val, and none says test"):
        of(tmp_path, "wiki")
    (folder / "wiki.test.txt").write_bytes(TEXT[2500:3000])
    task = of(tmp_path, "wiki")
    assert [bytes_of(task, split) for split in SPLITS] == [TEXT[:2000], TEXT[2000:2500], TEXT[2500:3000]]


def test_bits_of_tables_are_those_of_counting_byte_by_byte() -> None:
    train, test = b"abababac", b"abca"

    def slow(context: int) -> float:
        counts = {before: dict.fromkeys(range(256), 1) for before in range(256)}
        for i, byte in enumerate(train):
            counts[train[i - 1] if i and context else 0][byte] += 1
        bits = 0.0
        for i, byte in enumerate(test):
            row = counts[test[i - 1] if i and context else 0]
            bits -= math.log2(row[byte] / sum(row.values()))
        return bits / len(test)

    arrays = [np.frombuffer(text, dtype=np.uint8) for text in (train, test)]
    for context in (0, 1):
        assert table_bits(arrays[0], arrays[1], context) == pytest.approx(slow(context))


def test_a_small_model_has_fewer_bits_than_a_table_and_its_perplexity_is_their_power(
    folder: Path, tmp_path: Path
) -> None:
    study = {
        "name": "next-byte",
        "stages": {
            "train": {
                "objective": {"kind": "causal"},
                "model": {"width": 32, "blocks": 1, "causal": True, "mixer": {"kind": "attention", "heads": 2}},
                "optim": {"lr": 1e-2, "batch_size": 8},
                "budget": {"epochs": 12},
            }
        },
        "columns": {"text": {"task": {"kind": "language", "file": "text.txt", "length": 32, "test_share": 0.2}}},
        "arms": {"attention": {}},
        "axes": {"seed": [0]},
    }
    results = headstart.run(study, data=folder, store=tmp_path / "runs", workers=0)
    (row,) = results.table
    assert (row.metric, row.greater) == ("bits_per_token", False)
    assert row.test is not None
    every = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("*/result.json")]
    (result,) = [result for result in every if result["budget"]["steps"]]
    assert len(every) == 4, "with the three models of counts"
    scores = result["scores"]["best"]["test"]
    assert row.test.mean == pytest.approx(scores["loss"] / math.log(2)) == pytest.approx(scores["bits_per_token"])
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    task = of(folder, test_share=0.2)
    single = float(task.notes[0].partition("network: ")[2].partition(" by")[0])
    assert row.test.mean < single


def test_where_the_text_is_is_no_identity_and_its_content_is(folder: Path) -> None:
    (folder / "copy.txt").write_bytes(TEXT)
    (folder / "other.txt").write_bytes(TEXT + b"more\n")
    stage = {"objective": {"kind": "causal"}, "model": {"causal": True}, "budget": {"steps": 1}}
    specs = [
        read_stage({**stage, "task": {"kind": "language", "file": name}})
        for name in ("text.txt", "copy.txt", "other.txt")
    ]
    same, copy, other = (identity(spec, folder) for spec in specs)
    assert same == copy != other


def test_a_text_is_prepared_part_by_part_whatever_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = np.random.default_rng(0).integers(97, 123, 12_000_000, dtype=np.uint8).tobytes()
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.txt").write_bytes(text[:1_000_001])
    (tmp_path / "parts" / "b.txt").write_bytes(text[1_000_001:])
    monkeypatch.setattr("headstart.tasks.language.BYTES_AT_ONCE", 50_000)
    tracemalloc.start()
    try:
        task = of(tmp_path, "parts", length=4096)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(text) // 2, "a mapped file is no memory of the process"
    assert bytes_of(task, "train") + bytes_of(task, "val") + bytes_of(task, "test") == text
    assert table_bits(*(np.frombuffer(part, np.uint8) for part in (text[:9000], text[-5000:])), 1) == pytest.approx(
        float(np.log2(26)), abs=1.2
    )


def test_windows_that_stand_in_two_splits_are_said(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"0123456789abcdef" * 200)
    notes = of(tmp_path, length=16, val_share=0.25, test_share=0.25).notes
    assert "50 windows of test also stand in train" in notes


def test_what_cannot_be_a_text_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"task.file: .*gone.txt is not there; give an absolute path"):
        of(folder, "gone.txt")
    (folder / "short.txt").write_bytes(b"abc")
    with pytest.raises(BadInput, match="has 0 bytes of val, and a window has at least 2; give more text"):
        of(folder, "short.txt")
    (folder / "cut.gz").write_bytes(gzip.compress(TEXT)[:100])
    with pytest.raises(BadInput, match=r"cut.gz: is cut short or damaged .*; give the file again"):
        of(folder, "cut.gz")
    with pytest.raises(BadInput, match="leave no train; take less"):
        read(LanguageSpec, {"file": "text.txt", "val_share": 0.5, "test_share": 0.5})
