"""IMDb's reviews in every form, and the text task made of them."""

import gzip
import io
import json
import lzma
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.errors import BadInput
from headstart.tasks import text as module
from headstart.tasks.task import open_task
from headstart.tasks.text import END, RARE_MARK, TextSpec, code_points, decoder, reviews, vocabulary

WORDS = ["film", "très", "good", "bad", "😀", "plot", "<br />", "naïve"]


def some_reviews(count, seed):
    """(label, number, text) in the order of label and number; every text is its own."""
    rng = np.random.default_rng(seed)
    return [
        (label, i, f"{seed}/{label}/{i} " + " ".join(rng.choice(WORDS, rng.integers(1, 30))))
        for label in (0, 1)
        for i in range(count // 2)
    ]


def json_lines(some):
    return "\n".join(
        json.dumps({"id": f"{i}_{7 * label + 1}", "label": label, "text": text}, ensure_ascii=False)
        for label, i, text in some
    ).encode()


def text_files(train, test):
    return {
        f"{split}/{('neg', 'pos')[label]}/{i}_{7 * label + 1}.txt": text.encode()
        for split, some in (("train", train), ("test", test))
        for label, i, text in some
    }


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def parquet(some):
    out = io.BytesIO()
    pa.parquet.write_table(pa.table({"text": [text for *_, text in some], "label": [first[0] for first in some]}), out)
    return out.getvalue()


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in reversed(files.items()):  # in another order than the folder's
            info = tarfile.TarInfo("aclImdb/" + name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(scope="module")
def train():
    return some_reviews(60, 1)


@pytest.fixture(scope="module")
def test():
    return some_reviews(20, 2)


@pytest.fixture
def data(tmp_path, train, test):
    return write(tmp_path, {"imdb/imdb_train.jsonl": json_lines(train), "imdb/imdb_test.jsonl": json_lines(test)})


def why(data, **settings):
    with pytest.raises(BadInput) as caught:
        TextSpec(**settings).load(data)
    return str(caught.value)


def test_bytes_are_read_with_an_end(data, train, test):
    task = TextSpec().load(data)
    assert (len(task.train), len(task.val), len(task.test)) == (54, 6, 20)
    for i, (label, _, text) in enumerate(test):
        assert task.test.inputs(i).tolist() == [*text.encode(), END]
        assert task.test.target[i] == label
    for i, row in enumerate(task.train.index):
        assert task.train.inputs(i).tolist() == [*train[row][2].encode(), END]
    s = task.signature
    assert (s.input, s.width, s.classes, task.labels) == ("tokens", 256, 2, ("negative", "positive"))
    longest = max(len(text.encode()) + 1 for *_, text in train + test)
    assert (s.length, task.text(task.test.inputs(3))) == (longest, test[3][2] + "∎")


def test_characters_are_those_seen_often_enough_in_train(data, train, test):
    task = TextSpec(symbols="characters", least=40).load(data)
    counts = Counter("".join(train[row][2] for row in task.train.index))
    characters = sorted(c for c, count in counts.items() if count >= 40)
    assert task.signature.width == len(characters) + 2
    slow = [
        [1 + characters.index(c) if c in characters else 0 for c in text] + [len(characters) + 1] for *_, text in test
    ]
    assert [task.test.inputs(i).tolist() for i in range(20)] == slow
    assert 0 in slow[3]
    assert task.text(task.test.inputs(3)) == "".join(c if c in characters else RARE_MARK for c in test[3][2]) + "∎"


def test_texts_are_cut_to_the_length_with_their_end(data, test):
    for symbols, units in (("bytes", lambda text: list(text.encode())), ("characters", list)):
        task = TextSpec(symbols=symbols, least=1, length=12).load(data)
        assert task.signature.length == 12
        for i, (*_, text) in enumerate(test):
            assert len(task.test.inputs(i)) == min(12, len(units(text)) + 1)
            assert task.test.inputs(i)[-1] == task.signature.width - 1
    assert task.text(task.test.inputs(0)) == test[0][2][:11] + "∎"


def test_long_characters_are_not_split_by_the_cut(tmp_path):
    some = [(label, i, "😀" * 30 + f"{label}{i}") for label in (0, 1) for i in range(10)]
    data = write(tmp_path, {"imdb/train.jsonl": json_lines(some), "imdb/test.jsonl": json_lines(some[5:15])})
    task = TextSpec(symbols="characters", least=1, length=8, split="published").load(data)
    assert task.text(task.train.inputs(0)) == "😀" * 7 + "∎"


def test_every_form_of_the_same_reviews_has_the_same_arrays(tmp_path, train, test):
    lines, files = (json_lines(train), json_lines(test)), text_files(train, test)
    forms = {
        "jsonl": {"imdb/train.jsonl": lines[0], "imdb/test.jsonl": lines[1]},
        "xz": {"imdb/imdb_train.jsonl.xz": lzma.compress(lines[0]), "imdb/imdb_test.jsonl.xz": lzma.compress(lines[1])},
        "gz": {"imdb/a-train.jsonl.gz": gzip.compress(lines[0]), "imdb/a-test.jsonl": lines[1]},
        "folders": {"aclImdb/" + name: content for name, content in files.items()},
        "inner": {"imdb/aclImdb/" + name: content for name, content in files.items()},
        "archive": {"imdb/aclImdb_v1.tar.gz": archive(files)},
    }
    fingerprints = {reviews(write(tmp_path / name, form), "text").fingerprint for name, form in forms.items()}
    assert len(fingerprints) == 1
    table = write(
        tmp_path / "parquet",
        {
            f"imdb/plain_text/{split}-00000-of-00001.parquet": parquet(some)
            for split, some in (("train", train), ("test", test))
        },
    )
    # Parquet says no numbers of reviews; the examples are the same.
    assert TextSpec().load(table).fingerprint == TextSpec().load(tmp_path / "jsonl").fingerprint


def test_several_parts_are_read_in_the_order_of_their_names(tmp_path, train, test):
    parts = {
        "imdb/train-00000-of-2.parquet": parquet(train[:30]),
        "imdb/train-00001-of-2.parquet": parquet(train[30:]),
        "imdb/test-00000-of-1.parquet": parquet(test),
    }
    values = reviews(write(tmp_path, parts), "text").arrays["all_values"]
    assert values.tobytes() == "".join(text for *_, text in train + test).encode()


def test_other_labels_become_classes_in_their_order(tmp_path, train, test):
    def named(some):
        return "\n".join(json.dumps({"text": text, "label": f"c{i % 3}"}) for _, i, text in some).encode()

    data = write(tmp_path, {"imdb/train.jsonl": named(train), "imdb/test.jsonl": named(test)})
    task = TextSpec().load(data)
    assert task.labels == ("c0", "c1", "c2")
    assert task.test.target.tolist() == [i % 3 for _, i, _ in test]


def test_validation_is_stratified_and_follows_split_seed(data):
    first, two = TextSpec().load(data), TextSpec(split_seed=1).load(data)
    assert np.bincount(first.val.target).tolist() == [3, 3]
    assert set(first.val.index) != set(two.val.index)
    assert set(first.val.index) | set(first.train.index) == set(range(60))


def test_published_validates_on_test_and_says_so(data):
    task = TextSpec(split="published").load(data)
    assert (len(task.train), len(task.val), len(task.test)) == (60, 20, 20)
    assert np.array_equal(task.val.values, task.test.values)
    assert "val is the official test split, as in the released code: what is chosen on val has seen test" in task.notes


def test_copies_stay_in_train_and_overlaps_of_the_official_files_are_said(tmp_path, train, test):
    doubled = train + [(label, 100 + i, text) for label, i, text in train if i % 3]
    tested = [*test, (0, 200, train[0][2]), (1, 200, train[1][2])]
    data = write(tmp_path, {"imdb/train.jsonl": json_lines(doubled), "imdb/test.jsonl": json_lines(tested)})
    task = TextSpec().load(data)
    val = [doubled[row] for row in task.val.index]
    assert len(val) == 10
    assert all(i % 3 == 0 for _, i, _ in val)
    assert "2 texts stand in both the official train and test files" in task.notes
    assert "of the 22 test texts, " in task.notes[-1]
    text = why(data, val_share=0.7)
    assert text.startswith("task.val_share: holding out 70 takes 35 of class 0, which has 10 without a copy in train")


def test_texts_that_are_equal_once_they_are_cut_are_not_held_out(tmp_path):
    some = [
        (label, i, ("same start " if i % 2 else f"{label}{i} other ") + f"end {label}{i}")
        for label in (0, 1)
        for i in range(20)
    ]
    data = write(tmp_path, {"imdb/train.jsonl": json_lines(some), "imdb/test.jsonl": json_lines(some)})
    assert all(some[row][1] % 2 == 0 for row in TextSpec(length=8, val_share=0.4).load(data).val.index)


def test_reviews_are_read_once_and_opened_memory_mapped(data, monkeypatch):
    first = TextSpec().load(data)

    def never(*_):
        raise AssertionError("read again")

    monkeypatch.setattr(module, "read_rows", never)
    again = TextSpec().load(data)
    assert again.fingerprint == first.fingerprint
    assert isinstance(again.train.values.base, np.memmap)
    assert TextSpec(symbols="characters").load(data).fingerprint != first.fingerprint
    assert len(open_task(TextSpec(fraction=0.5), data).train) == 27


def test_missing_files_are_named_with_their_folder_and_origin(data, tmp_path):
    text = why(tmp_path / "empty")
    folder = str(tmp_path / "empty" / "imdb")
    for words in ("train/neg", "aclImdb_v1.tar.gz", folder, "https://ai.stanford.edu", "--data"):
        assert words in text
    (data / "imdb" / "imdb_test.jsonl").unlink()
    assert f"{data / 'imdb' / 'test.jsonl'} is missing" in why(data)


def test_rows_that_are_wrong_are_all_named(data):
    file = data / "imdb" / "imdb_train.jsonl"
    lines = file.read_bytes().split(b"\n")
    lines[3], lines[5], lines[7] = b'{"label": 0, "text": ""}', b'{"label": null, "text": "a"}', b'{"text": "\xff'
    file.write_bytes(b"\n".join(lines))
    assert why(data).splitlines() == [
        f"{file}, row 4: the text is empty; leave the row out",
        f"{file}, row 6: the label is None; give a name or a whole number",
        f"{file}, row 8: is not UTF-8 (byte 0xff at 10); convert the file to UTF-8",
    ]


def test_a_label_without_texts_and_a_label_that_train_lacks_are_named(data, tmp_path, train, test):
    file = data / "imdb" / "imdb_test.jsonl"
    file.write_bytes(file.read_bytes() + b'\n{"label": 2, "text": "a"}')
    assert why(data) == f"{file}, row 21: label '2' does not occur in train"
    files = {k: v for k, v in text_files(train, test).items() if not k.startswith("test/pos")}
    root = write(tmp_path / "other", {"aclImdb/" + name: content for name, content in files.items()}) / "aclImdb"
    assert why(root.parent) == f"{root}, test/pos: the label has no text; give the whole data set"
    file.write_bytes(b"")
    assert f"{file}: holds no review; download it again" in why(data)


def test_one_label_alone_is_refused(tmp_path, train, test):
    write(tmp_path, {"imdb/train.jsonl": json_lines(train[:20]), "imdb/test.jsonl": json_lines(test[:5])})
    assert why(tmp_path) == f"{tmp_path / 'imdb'}: every train review has label '0'; give two labels or more"


def test_a_text_file_that_is_no_utf_8_or_empty_is_named(tmp_path, train, test):
    files = text_files(train, test)
    files["train/neg/3_1.txt"], files["test/pos/4_8.txt"] = b"caf\xe9", b""
    root = write(tmp_path, {"aclImdb/" + name: content for name, content in files.items()}) / "aclImdb"
    assert why(tmp_path).splitlines() == [
        f"{root / 'test/pos/4_8.txt'}: the text is empty; leave the row out",
        f"{root / 'train/neg/3_1.txt'}: is not UTF-8 (byte 0xe9 at 3); convert the file to UTF-8",
    ]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=8), st.integers(1, 3))
def test_encoding_and_decoding_loses_nothing_but_rare_characters(texts, least):
    say = decoder(None)
    assert [say(np.frombuffer(text.encode(), dtype=np.uint8)) for text in texts] == texts
    counts = Counter("".join(texts))
    characters = vocabulary((code_points(text.encode()) for text in texts), least)
    assert characters == "".join(sorted(c for c, count in counts.items() if count >= least))
    ids = [[characters.index(c) + 1 if c in characters else 0 for c in text] for text in texts]
    words = decoder(characters)
    assert [words(np.array(first)) for first in ids] == [
        "".join(c if counts[c] >= least else RARE_MARK for c in text) for text in texts
    ]


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=4, max_size=8, unique=True), st.integers(2, 30)
)
def test_any_text_goes_through_the_files_unchanged(texts, length):
    with tempfile.TemporaryDirectory() as folder:
        lines = "\n".join(json.dumps({"text": text, "label": i % 2}) for i, text in enumerate(texts)).encode()
        data = write(Path(folder), {"imdb/train.jsonl": lines, "imdb/test.jsonl": lines})
        for symbols in ("bytes", "characters"):
            spec = TextSpec(symbols=symbols, least=1, length=length, split="published")
            task = spec.load(data)
            for i, text in enumerate(texts):
                cut = text.encode()[: length - 1].decode(errors="replace") if symbols == "bytes" else text[: length - 1]
                assert task.text(task.train.inputs(i)) == cut + "∎"


@pytest.mark.slow
def test_the_real_reviews(linked):
    if not (linked / "imdb").is_dir():
        pytest.skip("no IMDb in ../shared/data/imdb")
    task = TextSpec().load(linked)
    assert (len(task.train), len(task.val), len(task.test)) == (22_500, 2_500, 25_000)
    assert np.bincount(task.val.target).tolist() == [1_250, 1_250]
    assert task.notes == (
        "123 texts stand in both the official train and test files",
        "of the 25000 test texts, 106 also stand in train and 17 also stand in val",
    )
    assert (task.signature.length, task.signature.shortest) == (4_096, 33)
    published = TextSpec(symbols="characters", split="published").load(linked)
    # 131 characters, the rare one, the end; with padding and a mask, which need no ids here, they are 135.
    assert published.signature.width == 133
    assert published.text(published.train.inputs(0)).startswith("Story of a man who has unnatural feelings for a pig.")
