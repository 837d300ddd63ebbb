"""Pairs of texts: AAN's files, files of one's own, and reviews of one film."""

import gzip
import io
import json
import lzma
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.data.splits import overlaps
from headstart.errors import BadInput
from headstart.sequence import collate
from headstart.tasks import retrieval
from headstart.tasks.retrieval import AAN, RetrievalSpec, film_pairs, split_films
from headstart.tasks.task import open_task
from headstart.tasks.text import reviews


def some_pairs(count, name):
    """(label, text, text): every text is its own and has an umlaut."""
    return [(i % 2, f"{name} ä first {i} " + "x" * (i % 7), f"{name} second {i}") for i in range(count)]


SPLITS = {"train": some_pairs(40, "train"), "val": some_pairs(12, "val"), "test": some_pairs(14, "test")}


def aan_lines(some):
    return "".join(f"{label}.0\tP{i}\tQ{i}\t{first}\t{two}\n" for i, (label, first, two) in enumerate(some)).encode()


def json_lines(some):
    return "\n".join(json.dumps({"text1": first, "text2": two, "label": label}) for label, first, two in some).encode()


def table(some):
    out = io.BytesIO()
    columns = {
        "label": [label for label, *_ in some],
        "text1": [first for _, first, _ in some],
        "text2": [two for *_, two in some],
    }
    pa.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@pytest.fixture
def aan(tmp_path):
    return write(tmp_path, {f"aan/{AAN[split]}": aan_lines(some) for split, some in SPLITS.items()})


def why(data, **settings):
    with pytest.raises(BadInput) as caught:
        RetrievalSpec(**settings).load(data)
    return str(caught.value)


def texts_of(task, split):
    examples = task.split(split)
    return [
        (int(examples.target[2 * i]), task.text(examples.inputs(2 * i)), task.text(examples.inputs(2 * i + 1)))
        for i in range(examples.units)
    ]


def test_rows_2i_and_2i_plus_1_are_the_two_texts_of_a_pair(aan):
    task = RetrievalSpec().load(aan)
    for split, some in SPLITS.items():
        assert texts_of(task, split) == some
        assert np.array_equal(task.split(split).target[::2], task.split(split).target[1::2])
    assert (task.signature.paired, task.signature.width, task.labels) == (True, 256, ("no citation", "citation"))
    batch = collate(task.train, np.array([3, 5]))
    assert batch.inputs.shape[0] == 4
    assert batch.target.tolist() == [1, 1, 1, 1]


def test_texts_are_cut_to_that_many_bytes_each(aan):
    task = RetrievalSpec(length=9).load(aan)
    assert task.signature.length == 9
    assert task.train.inputs(0).tolist() == list("train ä first".encode()[:9])


def test_the_archive_s_own_folders_are_found(tmp_path):
    for i, folder in enumerate(("lra_release/lra_release/tsv_data", "lra_release/tsv_data")):
        data = write(tmp_path / str(i), {f"{folder}/{AAN[split]}": aan_lines(some) for split, some in SPLITS.items()})
        assert RetrievalSpec().load(data).train.units == 40


def test_every_form_of_the_same_pairs_has_the_same_fingerprint(aan, tmp_path):
    named = {
        split: "text2\tlabel\ttext1\n" + "".join(f"{two}\t{label}\t{first}\n" for label, first, two in some)
        for split, some in SPLITS.items()
    }
    three = {split: "".join("\t".join(map(str, row)) + "\n" for row in some) for split, some in SPLITS.items()}
    forms = {
        "jsonl": {f"pairs/{split}.jsonl": json_lines(some) for split, some in SPLITS.items()},
        "packed": {f"pairs/{split}.jsonl.xz": lzma.compress(json_lines(some)) for split, some in SPLITS.items()},
        "named": {f"pairs/{split}.tsv": text.encode() for split, text in named.items()},
        "three": {f"pairs/{split}.tsv.gz": gzip.compress(text.encode()) for split, text in three.items()},
        "parquet": {f"pairs/{split}.parquet": table(some) for split, some in SPLITS.items()},
    }
    fingerprints = {
        RetrievalSpec(source="files").load(write(tmp_path / name, files)).fingerprint for name, files in forms.items()
    }
    assert fingerprints == {RetrievalSpec().load(aan).fingerprint}


def test_without_a_val_file_pairs_are_held_out_of_train(tmp_path):
    train = SPLITS["train"] + SPLITS["train"][:10]  # ten pairs twice
    data = write(tmp_path, {"pairs/train.jsonl": json_lines(train), "pairs/test.jsonl": json_lines(SPLITS["test"])})
    task = RetrievalSpec(source="files").load(data)
    val = texts_of(task, "val")
    assert len(val) == 5
    assert not set(val) & set(SPLITS["train"][:10])
    assert sorted(val + texts_of(task, "train")) == sorted(train)
    assert sum(overlaps(task).values()) == 0
    other = RetrievalSpec(source="files", split_seed=1).load(data)
    assert texts_of(other, "val") != val
    assert np.array_equal(np.sort(np.concatenate([task.val.index, task.train.index])), np.arange(100))


def test_pairs_that_stand_in_two_official_splits_are_counted_and_said(tmp_path):
    files = {split: aan_lines(some) for split, some in SPLITS.items()}
    files["test"] = aan_lines([*SPLITS["test"], *SPLITS["train"][:3], SPLITS["val"][0]])
    files["val"] = aan_lines([*SPLITS["val"], SPLITS["train"][7]])
    data = write(tmp_path, {f"aan/{AAN[split]}": content for split, content in files.items()})
    task = RetrievalSpec().load(data)
    assert task.notes == (
        "equal pairs in two splits: 3 of test also stand in train, 1 of test also stand in val, "
        "1 of val also stand in train",
    )
    assert overlaps(task) == {("train", "val"): 1, ("train", "test"): 3, ("val", "test"): 1}


def test_pairs_are_read_once_and_opened_memory_mapped(aan, monkeypatch):
    first = RetrievalSpec().load(aan)
    monkeypatch.setattr(retrieval, "read_rows", None)
    again = RetrievalSpec().load(aan)
    assert again.fingerprint == first.fingerprint
    assert isinstance(again.train.values.base, np.memmap)


def test_fractions_and_labels_count_pairs(aan):
    task = open_task(RetrievalSpec(fraction=0.5, labelled=8), aan)
    assert (task.train.units, len(task.train), len(task.train.labelled_units())) == (20, 40, 8)


def test_missing_files_are_named_with_their_folder_and_origin(aan, tmp_path):
    (aan / "aan" / AAN["val"]).unlink()
    assert f"{aan / 'aan' / AAN['val']} is missing; it is in Long Range Arena's archive" in why(aan)
    empty = tmp_path / "empty"
    for source, words in (
        ("aan", "new_aan_pairs.train.tsv"),
        ("files", "looks for train and test"),
        ("imdb_films", "train/neg"),
    ):
        text = why(empty, source=source)
        assert words in text
        assert str(empty) in text
        assert "--data" in text
        assert "http" in text


def test_two_files_for_one_split_are_refused(tmp_path):
    write(tmp_path, {"pairs/train.jsonl": b"", "pairs/train.tsv": b""})
    assert "has train.jsonl and train.tsv; leave the one that is meant" in why(tmp_path, source="files")


def test_rows_that_are_wrong_are_all_named(aan):
    file = aan / "aan" / AAN["train"]
    lines = file.read_bytes().split(b"\n")
    lines[1], lines[2], lines[4], lines[6] = b"1.0\ta\tb\tc", b"\ta\tb\tc\td", b"1.0\ta\tb\tc\t", b"1\ta\tb\tc\t\xff"
    file.write_bytes(b"\n".join(lines))
    assert why(aan).splitlines() == [
        f"{file}, row 2: has 4 fields separated by tabs, not 3 or 5",
        f"{file}, row 3: the label is ''; give a name or a whole number",
        f"{file}, row 5, text2: the text is empty; leave the row out",
        f"{file}, row 7: is not UTF-8 (byte 0xff at 8); convert the file to UTF-8",
    ]


def test_labels_that_train_lacks_single_labels_and_empty_files_are_named(aan):
    test, val = (aan / "aan" / AAN[split] for split in ("test", "val"))
    test.write_bytes(test.read_bytes() + b"2\ta\tb\tc\td\n")
    assert why(aan) == f"{test}, row 15: label '2' does not occur in train"
    val.write_bytes(b"")
    assert f"{val}: holds no pair; give the file again" in why(aan)
    train = aan / "aan" / AAN["train"]
    train.write_bytes(aan_lines([(1, "a", "b")]))
    assert f"{train}: every train pair has label '1'; give two labels or more" in why(aan)


# Films


def imdb(root, films, alike=0):
    """Reviews and addresses: `films` of each split with three negative and four positive reviews each.

    The first review of the first `alike` train films is the same text."""
    files = {}
    for split in ("train", "test"):
        lines, addresses = [], {"neg": [], "pos": []}
        for film in range(films):
            for name, count in (("neg", 3), ("pos", 4)):
                for i in range(count):
                    text = f"{split} {name} film {film} review {i}"
                    text = "the same" if split == "train" and name == "neg" and i == 0 and film < alike else text
                    lines.append({"id": f"{len(addresses[name])}_5", "label": int(name == "pos"), "text": text})
                    addresses[name].append(f"http://films/{split}{film}/")
        files[f"imdb/imdb_{split}.jsonl"] = "\n".join(map(json.dumps, lines)).encode()
        files |= {
            f"imdb/imdb_urls/{split}/urls_{name}.txt": "\n".join(some).encode() for name, some in addresses.items()
        }
    return write(root, files)


def film_of(text):
    words = text.split()
    return words[0], words[3]


def sentiment(text):
    return text.split()[1]


def test_reviews_of_one_film_and_of_two_are_told_apart_by_the_films_alone(tmp_path):
    task = RetrievalSpec(source="imdb_films").load(imdb(tmp_path, 40))
    assert task.labels == ("two films", "one film")
    for split in ("train", "val", "test"):
        pairs = texts_of(task, split)
        assert all((film_of(first) == film_of(two)) == bool(label) for label, first, two in pairs)
        assert sum(label for label, *_ in pairs) * 2 == len(pairs)
        for side in (1, 2):  # the same first texts, and the same second ones, have both labels
            assert sorted(p[side] for p in pairs if p[0]) == sorted(p[side] for p in pairs if not p[0])
        kinds = [
            sorted((sentiment(first), sentiment(two)) for label, first, two in pairs if label == value)
            for value in (0, 1)
        ]
        assert kinds[0] == kinds[1]


def test_splits_share_no_film(tmp_path):
    task = RetrievalSpec(source="imdb_films").load(imdb(tmp_path, 40))
    films = {
        split: {film_of(text) for _, *texts in texts_of(task, split) for text in texts}
        for split in ("train", "val", "test")
    }
    assert len(films["val"]) == 4
    assert not films["train"] & films["val"]
    assert {split for split, _ in films["test"]} == {"test"}
    assert sum(overlaps(task).values()) == 0


def test_pairs_are_a_function_of_the_split_seed(tmp_path):
    data = imdb(tmp_path, 40)
    first, two = (RetrievalSpec(source="imdb_films", split_seed=seed).load(data) for seed in (0, 1))
    assert first.fingerprint != two.fingerprint
    again = RetrievalSpec(source="imdb_films").load(imdb(tmp_path / "again", 40))
    assert again.fingerprint == first.fingerprint


def test_reviews_that_occur_twice_are_left_out(tmp_path):
    task = RetrievalSpec(source="imdb_films").load(imdb(tmp_path, 40, alike=5))
    assert not any("the same" in texts for split in ("train", "val") for texts in texts_of(task, split))


def test_addresses_are_read_from_an_archive_too(tmp_path):
    data = imdb(tmp_path / "a", 40)
    folder = data / "imdb" / "imdb_urls"
    other = imdb(tmp_path / "b", 40)
    (other / "imdb" / "imdb_urls").rename(tmp_path / "away")
    with tarfile.open(other / "imdb" / "imdb_urls.tar.xz", "w:xz") as tar:
        tar.add(folder, "imdb_urls")
    spec = RetrievalSpec(source="imdb_films")
    assert spec.load(other).fingerprint == spec.load(data).fingerprint
    (other / "imdb" / "imdb_urls.tar.xz").unlink()
    assert "looks for the films' addresses, train/urls_neg.txt" in why(other, source="imdb_films")


def test_a_review_without_an_address_is_named(tmp_path):
    data = imdb(tmp_path, 40)
    file = data / "imdb" / "imdb_urls" / "train" / "urls_pos.txt"
    file.write_text("\n".join(file.read_text().split()[:-1]))
    assert why(data, source="imdb_films") == (
        f"{file.parents[1]}, train/urls_pos.txt: has no address of review 159; give the reviews and addresses of one "
        "data set"
    )


def test_reviews_without_numbers_have_no_films(tmp_path):
    data = imdb(tmp_path, 40)
    file = data / "imdb" / "imdb_test.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"id"', b'"other"'))
    text = why(data, source="imdb_films")
    assert "has no address of a review without a number (its id is not `number_rating`)" in text


def test_too_few_reviews_give_no_pairs(tmp_path):
    assert "give no pairs (of one film" in why(imdb(tmp_path, 2), source="imdb_films")


def test_films_of_the_official_test_are_left_out_of_train():
    film = np.array([0, 0, 1, 1, 2, 3, 1, 1, 4, 4])
    places = split_films(film, 6, 0.4, 0)
    assert places["test"].tolist() == [False] * 6 + [True] * 4
    assert not (places["train"] | places["val"])[[2, 3]].any()
    assert len(set(film[places["val"]])) == 1
    assert not set(film[places["train"]]) & set(film[places["val"]])


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), max_size=80), st.integers(0, 5))
def test_pairs_are_right_for_any_reviews(some, seed):
    film, label = (np.array([first[i] for first in some], dtype=np.int64) for i in (0, 1))
    rows = np.arange(len(some))[:: 2 if seed % 2 else 1]
    pairs, target = film_pairs(rows, film, label, seed)
    assert ((film[pairs[:, 0]] == film[pairs[:, 1]]) == (target == 1)).all()
    ones, twos = pairs[target == 1], pairs[target == 0]
    assert np.unique(ones).size == ones.size  # each review once
    assert set(ones.reshape(-1)) <= set(rows)
    for side in (0, 1):
        assert sorted(ones[:, side]) == sorted(twos[:, side])
    assert sorted(map(tuple, label[ones])) == sorted(map(tuple, label[twos]))


@pytest.mark.slow
def test_the_real_reviews_of_films(linked):
    if not (linked / "imdb").is_dir():
        pytest.skip("no IMDb in ../shared/data/imdb")
    task = RetrievalSpec(source="imdb_films").load(linked)
    assert (task.train.units, task.val.units, task.test.units) == (20_582, 2_264, 22_620)
    assert task.notes == ()
    base = reviews(linked, "retrieval")
    film, names = retrieval._film_of_each(base, retrieval.find_addresses(linked, "retrieval")[0])
    train = base.facts["train"]
    assert len(set(film[:train])) == 3_456
    assert len(set(film[train:])) == 3_581
    assert len(names) == 3_456 + 3_581 - 1  # one film is in both
