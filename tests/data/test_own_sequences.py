"""The value that every source is read into: examples, signatures, targets, copies, and the card of it."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest
from support.made_tables import numbers, read, wide, write

from headstart.data import LayoutSpec, data_card, read_sequences
from headstart.data.labels import class_name, target_kind
from headstart.data.sequences import check_alike, check_ids, check_target_kind
from headstart.errors import BadInput
from headstart.sequence import IGNORE


def lines(data, **settings):
    card = data_card(read_sequences(data, **settings))
    return ["  ".join(row) for row in (*card.head, *card.classes, *card.channels)]


def findings(data, **settings):
    return data_card(read_sequences(data, **settings)).findings


def test_a_row_without_a_label_is_ignored_and_a_gap_is_not_observed():
    labels = ["b", None, "a", "b"]
    sequences = read_sequences([[1.5, np.nan, 3.0], [4.0], [5.0, 6.0], [7.0]], labels=labels)
    assert (sequences.kind, sequences.target, sequences.classes) == ("numbers", "class", ("a", "b"))
    assert (sequences.width, sequences.lengths.tolist()) == (1, [3, 1, 2, 1])
    assert sequences.codes().tolist() == [1, IGNORE, 0, 1]
    assert sequences.labelled.tolist() == [True, False, True, True]
    assert sequences.observed is not None
    assert sequences.observed[:3, 0].tolist() == [True, False, True]


def test_numbers_are_targets_with_gaps():
    result = read_sequences(numbers(), labels=[0.5, None, *np.linspace(1, 2, 10)])
    assert result.target == "number"
    assert np.isnan(result.numbers()).tolist() == [False, True, *[False] * 10]


def test_classes_of_a_model_refuse_labels_that_they_do_not_have(tmp_path):
    result = read(write(tmp_path / "f.csv", "\n".join(wide(label=lambda i: "abc"[i % 3]))))
    assert result.codes(("c", "b", "a"))[:3].tolist() == [2, 1, 0]
    with pytest.raises(BadInput, match=r"f.csv:4: label 'c' is none of 'a', 'b'; correct it, or leave it empty"):
        result.codes(("a", "b"))


def test_a_target_that_is_no_number_is_named(tmp_path):
    path = write(tmp_path / "f.csv", "\n".join(wide(label=lambda i: "1e400" if i == 3 else str(i))))
    with pytest.raises(BadInput, match=r"f.csv:5: the target '1e400' is not a finite number"):
        read(path, target_kind="number")


def test_rows_are_taken_with_all_that_belongs_to_them(tmp_path):
    result = read(write(tmp_path / "f.csv", "\n".join(wide())))
    some = result.take(np.array([5, 2]))
    assert some.ids == ("s05", "s02")
    assert some.labels == ("b", "a")
    assert [some.places.of(i).rpartition(":")[2] for i in (0, 1)] == ["7", "4"]
    assert np.array_equal(some.values, np.concatenate([result.values[30:36], result.values[12:18]]))
    assert read_sequences(numbers()).take(np.array([4])).take(np.array([0])).places.of(0) == "X, row 5"


def test_other_kinds_and_channels_than_those_of_a_model_are_refused():
    result = read_sequences(numbers())
    check_alike(result, "numbers", ("values",))
    with pytest.raises(BadInput, match=r"X: holds numbers, the model was fitted to DNA"):
        check_alike(result, "dna", ("seq",))
    with pytest.raises(BadInput, match=r"X: has 1 channels \('values'\), the model was fitted to 2 \('a', 'b'\)"):
        check_alike(result, "numbers", ("a", "b"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1.0", "1"),
        (" a ", "a"),
        ("1e0", "1e0"),
        ("1E2", "1E2"),
        ("1.0000000e+00", "1"),
        ("007", "007"),
        ("0.50", "0.50"),
        ("-1", "-1"),
        ("1e400", "1e400"),
        ("=1+1", "=1+1"),
        ("1e20", "1e20"),
    ],
)
def test_labels_keep_their_text_but_for_the_point_of_whole_numbers(text, name):
    assert class_name(text) == name


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a", "b"], "class"),
        ([None, None], "none"),
        (["0", "1"] * 9, "class"),
        (["0.5", "1.5", "2.25"] * 9, "number"),
        (["1.0", "2.0"] * 9, "class"),
        ([str(i / 7) for i in range(30)], "number"),
        ([str(20 + i) for i in range(60)] * 2, "number"),
        ([str(1 + i) for i in range(52)] * 2, "class"),
        (["1", "x"], "class"),
        (["0.5", "1.5"], "number"),
    ],
)
def test_classes_are_told_from_numbers(labels, kind):
    assert target_kind(labels) == kind


def test_equal_sequences_are_told_by_values_gaps_and_length():
    result = read_sequences([[1.0, 2.5], [1.0, 2.5], [1.0, 0, 2.5], [1.0, np.nan, 2.5], [-0.0, 1], [0.0, 1]])
    assert result.copies().tolist() == [0, 0, 2, 3, 4, 4]


def test_the_card_says_what_there_is():
    data = [[1.5, np.nan, 3.0], [4.0], [5.0, 6.0], [7.0]]
    card = data_card(read_sequences(data, labels=["b", None, "a", "b"], groups=list("xxyy")))
    message = dict(card.head)
    assert message["sequences"] == "4, 3 of them labelled"
    assert message["length"] == "1 to 3, median 2"
    assert message["missing"] == "14.3 % of the values, in 1 sequence"
    assert message["target"] == "2 classes"
    assert message["groups"] == "2"
    assert card.classes == (("a", "1", "33.3 %"), ("b", "2", "66.7 %"))
    assert card.channels[0][:3] == ("values", "14.3 %", "1.5")


def test_facts_are_json_without_rows_ids_or_files(tmp_path):
    path = write(tmp_path / "secret.csv", "\n".join(wide(label=lambda i: "ab"[i % 2])))
    text = json.dumps(data_card(read(path)).facts)
    assert "secret" not in text
    assert "s01" not in text
    assert json.loads(text)["target"]["classes"] == {"a": 6, "b": 6}


def test_copies_labels_at_odds_and_leaks_between_groups_are_found():
    data = [[1.0, 2.5], [3.0, 4.0], [1.0, 2.5], [3.0, 4.0], [5.0, 6.0]]
    message = findings(data, labels=["a", "b", "b", "b", "a"], groups=["x", "x", "y", "x", "y"])
    assert message[:3] == (
        "2 sequences are an exact copy of an earlier one (X, row 1 and X, row 3); copies must not stand in train and "
        "test",
        "1 sequence has copies with another label ('a' in X, row 1, 'b' in X, row 3); correct one of the labels, or "
        "leave both out",
        "1 sequence stands in two groups, so that groups leak (X, row 1 and X, row 3); give both one group, or leave "
        "one of them out",
    )


def test_lines_of_one_file_are_named_once(tmp_path):
    rows = wide()
    rows[7] = rows[3].replace("s02", "s06")
    result = data_card(read(write(tmp_path / "f.csv", "\n".join(rows)))).findings
    assert "f.csv:4 and 8)" in result[0]


def test_one_class_and_a_class_with_one_member_are_found():
    (text,) = findings(numbers(), labels=["a"] * 12)
    assert text == "every label is 'a'; a classifier needs two classes or more; give rows of another class"
    message = findings(numbers(), labels=["a"] * 8 + ["b"] + ["c"] * 3)
    assert message == (
        "1 class has one member ('b'), which cannot be both learned and tested; give more rows of them, or merge them with other classes",
        "1 class has fewer than 5 members ('c'); give more rows of them, or merge them with other classes",
    )


def test_one_sequence_a_thousand_times_longer_is_read_and_found():
    rng = np.random.default_rng(0)
    data = [rng.normal(size=10) for _ in range(50)]
    data[20] = rng.normal(size=10_000)
    result = read_sequences(data)
    assert result.values.shape == (10_490, 1)
    assert data_card(result).findings == (
        "1 sequence is more than 10 times as long as the median, the longest with 10,000 positions (X, row 21); leave "
        "mistakes out, or --window 10 cuts pieces of one length",
    )


def test_sequences_of_length_one_are_read_and_found():
    result = read_sequences([[1.5], [2.0, 3.0], [2.5, 3.5]])
    assert result.lengths.tolist() == [1, 2, 2]
    assert data_card(result).findings == ("1 sequence has one position (X, row 1); leave out what is no sequence",)


def test_constant_and_missing_channels_are_found():
    data = np.random.default_rng(0).normal(size=(6, 9, 4))
    data[:, :, 1], data[:, :, 2] = 3, np.nan
    data[:, :, 3] = np.arange(6)[:, None]
    assert findings(data) == (
        "1 channel is missing everywhere ('channel 3')",
        "1 channel is constant ('channel 2')",
        "1 channel does not change within any sequence ('channel 4'); where it is the label, name it with --target",
    )
    flat = numbers()
    flat[:, 2:4] = 1
    assert findings(flat) == ("at 2 positions every sequence has the same value",)


def test_ids_that_repeat_are_found_with_the_way_out(tmp_path):
    message = data_card(read(write(tmp_path / "f.csv", "\n".join(wide()).replace("s04", "s01")))).findings
    assert message[0].endswith("f.csv:3 and 6); where rows of one id belong together, give --group id")


def test_a_card_spells_control_characters_out():
    labels = ["a\x1b[31mred", "b"] * 6
    text = "\n".join(lines(numbers(), labels=labels))
    assert "\x1b" not in text
    assert "a\\x1b[31mred" in text


def test_many_classes_are_cut():
    text = lines(numbers(120), labels=[f"c{i % 30:02}" for i in range(120)])
    assert any("and 10 more" in line for line in text)


def test_tokens_and_texts_have_cards():
    message = dict(data_card(read_sequences(["some text", "more of it"])).head)
    assert message["kind"] == "text, as bytes of UTF-8"
    message = dict(data_card(read_sequences([["a", "b", "c"], ["b", "a"]])).head)
    assert message["kind"] == "tokens (3 symbols)"


def _with_ids(tmp_path, names):
    header, *rows = wide(count=len(names))
    return write(
        tmp_path / "f.csv", "\n".join([header, *(name + row[3:] for name, row in zip(names, rows, strict=True))])
    )


def test_an_id_that_more_than_half_of_the_rows_share_is_refused_with_two_ways_out(tmp_path):
    path = _with_ids(tmp_path, ["same"] * 7 + [f"s{i}" for i in range(5)])
    with pytest.raises(BadInput) as caught:
        check_ids(read(path, shape="wide"))
    assert str(caught.value).removeprefix(f"{tmp_path}/") == (
        f"f.csv:2: 7 of 12 sequences have the id 'same' (the next is at {path}:3), so 'id' does not tell sequences apart; "
        "name the column of the ids with --id ('' for none), or, where rows of one id belong together, give "
        "--group id"
    )


def test_ids_that_few_rows_share_and_rows_of_known_groups_are_accepted(tmp_path):
    check_ids(read(_with_ids(tmp_path, ["same"] * 6 + [f"s{i}" for i in range(6)]), shape="wide"))
    path = _with_ids(tmp_path, ["same"] * 12)
    check_ids(read(path, shape="wide", group="id", id=""))
    check_ids(read(path, shape="wide", id=""))


READ = """
import sys
from pathlib import Path
from headstart.data import read_sequences
from headstart.data.sequences import check_ids
from headstart.data.card import data_card
from headstart.errors import BadInput
from headstart.tasks.own import OwnSpec
try:
    check_ids(read_sequences(Path(sys.argv[1])))
except BadInput as error:
    print(error)
print({"torch", "sklearn", "scipy", "matplotlib", "pandas"} & set(sys.modules))
"""


def test_a_file_is_read_and_refused_without_the_libraries_that_take_seconds_to_load(tmp_path):
    lines = wide(count=1_500, length=100)
    lines[900] = lines[900].replace(".", "x", 1)
    path = write(tmp_path / "f.csv", "\n".join(lines))
    assert path.stat().st_size > 10**6
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True).stdout
    assert "f.csv:901 column 't0': '" in out
    assert "is not a number" in out
    assert out.endswith("set()\n")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start < 1.5, "0.5 s on a quiet machine"


@pytest.mark.parametrize(
    ("labels", "kind", "doubt"),
    [
        ([i % 3 for i in range(60)], "class", False),
        ([i % 30 for i in range(60)], "class", False),  # they count up from 0
        ([7 * (i % 30) for i in range(60)], "number", True),  # they repeat: ages, or ids of classes with gaps
        ([11 * i for i in range(12)], "class", True),  # few, and each is its own
        ([11 * i for i in range(60)], "number", False),
        ([3 + 5 * (i % 2) for i in range(3)], "class", False),
        ([10 * 2 ** (i % 3) for i in range(60)], "class", True),
        ([20 + i % 8 for i in range(60)], "class", True),  # ages, perhaps
        ([1 + i % 3 for i in range(60)], "class", False),
        ([-1 + i % 3 for i in range(60)], "class", False),
        ([-1 + 2 * (i % 2) for i in range(60)], "class", False),
        ([0.5 + 0.75 * (i % 3) for i in range(60)], "number", False),
        ([i + 0.5 for i in range(60)], "number", False),
        (["a", "b"] * 6, "class", False),
    ],
)
def test_whole_numbers_that_may_be_classes_or_numbers_are_asked_about(labels, kind, doubt):
    data = numbers(len(labels))
    sequences = read_sequences(data, labels=labels)
    assert sequences.target == kind
    message = [finding for finding in data_card(sequences).findings if "names of classes or numbers" in finding]
    assert bool(message) == doubt
    if not doubt:
        check_target_kind(sequences)
        return
    with pytest.raises(
        BadInput, match=r"X: the target has \d+ different whole numbers \(\d+, .*give --target-kind class or"
    ):
        check_target_kind(sequences)
    for answer in ("class", "number"):
        sequences = read_sequences(data, LayoutSpec(target_kind=answer), labels=labels)
        check_target_kind(sequences)
        assert sequences.target == answer
