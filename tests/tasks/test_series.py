"""Sets of the UCR and UEA archives: small files of our own, the real ones, and every way to be wrong."""

import io
import lzma
import math
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headstart.data.series import read_ts, read_tsv
from headstart.errors import BadInput, Mistakes
from headstart.tasks.series import UcrSpec, UeaSpec
from headstart.tasks.task import open_task

HEAD = [
    "# a comment",
    "@problemName Small",
    "@timeStamps false",
    "@univariate false",
    "@classLabel true up down",
    "@data",
]


def placed(lines):
    return ((f"file, row {i + 1}", line) for i, line in enumerate(lines))


def tsv(count, seed, length=12):
    rng = np.random.default_rng(seed)
    return ["\t".join([("-1", "1")[i % 2], *(f"{x:.4f}" for x in rng.normal(3, 2, length))]) for i in range(count)]


def ts(count, seed):
    rng = np.random.default_rng(seed)
    return [
        *HEAD,
        *(
            ":".join(
                [
                    *(",".join(f"{x:.4f}" for x in rng.normal(5 * c, 1 + c, 5 + i % 4)) for c in range(3)),
                    ("up", "down")[i % 2],
                ]
            )
            for i in range(count)
        ),
    ]


def put(root, files):
    for name, lines in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def ucr(tmp_path):
    return put(tmp_path, {"ucr/Small/Small_TRAIN.tsv": tsv(30, 1), "ucr/Small/Small_TEST.tsv": tsv(20, 2)})


@pytest.fixture
def uea(tmp_path):
    return put(tmp_path, {"uea/Small_TRAIN.ts": ts(30, 1), "uea/Small_TEST.ts": ts(20, 2)})


def why(spec, data, **settings):
    with pytest.raises(BadInput) as caught:
        spec(name="Small", **settings).load(data)
    return str(caught.value)


def test_a_row_of_tsv_is_a_label_and_its_values(ucr):
    task = UcrSpec(name="Small", standardise=False).load(ucr)
    assert (len(task.train), len(task.val), len(task.test)) == (24, 6, 20)
    assert task.labels == ("-1", "1")
    rows = tsv(30, 1)
    for i, row in enumerate(task.train.index):
        label, *values = rows[row].split("\t")
        assert task.labels[task.train.target[i]] == label
        assert np.array_equal(task.train.inputs(i)[:, 0], np.float32(values))


def test_channels_are_standardised_over_train(uea):
    plain, scaled = (UeaSpec(name="Small", standardise=on).load(uea) for on in (False, True))
    assert np.abs(scaled.train.values.mean(0)).max() < 1e-5
    assert np.abs(scaled.train.values.std(0) - 1).max() < 1e-5
    assert np.array_equal(plain.test.target, scaled.test.target)
    gain = plain.train.values.std(0)
    assert np.allclose(np.diff(plain.test.values, axis=0) / gain, np.diff(scaled.test.values, axis=0), atol=1e-4)


def test_series_of_several_channels_keep_their_lengths_and_labels(uea):
    task = UeaSpec(name="Small", standardise=False).load(uea)
    assert (task.signature.width, task.signature.shortest, task.signature.length) == (3, 5, 8)
    assert task.labels == ("down", "up")
    *channels, label = ts(20, 2)[len(HEAD) + 3].split(":")
    assert np.array_equal(task.test.inputs(3), np.float32([c.split(",") for c in channels]).T)
    assert task.labels[task.test.target[3]] == label


def test_missing_values_are_zero_and_not_observed_and_trailing_ones_end_a_series(tmp_path):
    train, test = tsv(30, 1), tsv(20, 2)
    test[0] = "1\t4.5\tNaN\t?\t\t2.5\tNaN\tnan"
    task = UcrSpec(name="Small").load(put(tmp_path, {"ucr/Small_TRAIN.tsv": train, "ucr/Small_TEST.tsv": test}))
    assert task.signature.missing
    assert task.signature.shortest == 5
    assert task.test.observed[:5, 0].tolist() == [True, False, False, False, True]
    assert task.test.values[1:4].tolist() == [[0], [0], [0]]


def test_a_channel_that_ends_early_is_missing_from_there_on():
    rows = read_ts(placed([*HEAD, "1,2,?:4:up"]), "file", Mistakes())
    assert np.array_equal(rows.values[0], np.float32([[1, 4], [2, np.nan], [np.nan, np.nan]]), equal_nan=True)


def test_val_is_in_proportion_and_holds_no_copy_of_train(tmp_path):
    train = tsv(30, 1)
    train[2:20:2] = [train[0]] * 9
    data = put(tmp_path, {"ucr/Small_TRAIN.tsv": train, "ucr/Small_TEST.tsv": [*tsv(9, 2), train[0]]})
    task = UcrSpec(name="Small").load(data)
    assert np.bincount(task.val.target).tolist() == [3, 3]
    assert not set(task.val.index) & set(range(0, 20, 2))
    assert task.notes == ("of the 10 test sequences, 1 also stand in train",)
    assert "task.val_share: holding out 18 takes 9 of class" in why(UcrSpec, data, val_share=0.6)


@pytest.mark.parametrize("packed", [False, True])
def test_a_set_is_read_from_an_archive_as_from_its_folder(ucr, tmp_path, packed):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(ucr / "ucr" / "Small", "Small")
    other = tmp_path / "other" / "ucr"
    other.mkdir(parents=True)
    if packed:
        (other / "ucr.tar.xz").write_bytes(lzma.compress(out.getvalue()))
    else:
        (other / "ucr.tar").write_bytes(out.getvalue())
    assert UcrSpec(name="Small").load(other.parent).fingerprint == UcrSpec(name="Small").load(ucr).fingerprint
    with pytest.raises(BadInput, match=r"ucr\.tar.*: no 'Smal_T.*did you mean 'Small_T"):
        UcrSpec(name="Smal").load(other.parent)


def test_a_packed_file_is_read(ucr):
    whole = UcrSpec(name="Small").load(ucr).fingerprint
    path = ucr / "ucr/Small/Small_TEST.tsv"
    (path.parent / "Small_TEST.tsv.xz").write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()
    assert UcrSpec(name="Small").load(ucr).fingerprint == whole


def test_a_missing_file_is_named(ucr, tmp_path):
    (ucr / "ucr/Small/Small_TEST.tsv").unlink()
    text = why(UcrSpec, ucr)
    assert str(ucr / "ucr" / "Small_TEST.tsv") in text
    assert "cs.ucr.edu" in text
    assert f"uea or Multivariate_ts of {tmp_path}" in why(UeaSpec, tmp_path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1\t2\tx7\t3", "value 2 is 'x7', no number"),
        ("1\tNaN\tNaN", "has a label and no value"),
        ("1", "has a label and no value"),
        ("1\t2\tinf\t3", "value 2 is 'inf'"),
        ("1\t2\t1e300\t3", "value 2 is '1e300'"),
        ("\t2\t3", "the label is ''"),
        ("7\t2\t3", "label '7' does not occur in train"),
    ],
)
def test_what_is_wrong_with_a_row_of_tsv_is_said_with_its_place(ucr, line, words):
    path = ucr / "ucr/Small/Small_TEST.tsv"
    path.write_text("\n".join([*tsv(4, 2), line]))
    text = why(UcrSpec, ucr)
    assert f"{path}, row 5: {words}" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,2:3,4:up", "has 2 dimensions, there should be 3"),
        ("1,2:3,4:5,6", "has 2 dimensions, there should be 3"),
        ("1,2:3,x:5,6:up", "value 2 is 'x', no number"),
        ("1,,2:3:5:up", "value 2 is '', no number"),
        ("1,2:3,4:5,6:left", "label 'left' is none of the header's (up, down)"),
        ("?:?:?:up", "has no value"),
    ],
)
def test_what_is_wrong_with_a_row_of_ts_is_said_with_its_place(uea, line, words):
    path = uea / "uea/Small_TEST.ts"
    path.write_text("\n".join([*ts(4, 2), line]))
    text = why(UeaSpec, uea)
    assert f"{path}, row {len(HEAD) + 5}: {words}" in text


def test_a_header_that_is_wrong_or_cut_is_refused(uea):
    path = uea / "uea/Small_TEST.ts"
    for lines, words in [
        (HEAD[:-1], "Small_TEST.ts: has no @data line"),
        ([HEAD[0], "@timestamps true", HEAD[4], "@data", "(0,1):up"], "has time stamps"),
        ([*HEAD[:4], "@classLabel false", "@data", "1:2:3"], "@classLabel is 'false'"),
        (
            [*HEAD[:5], "@equalLength true", "@seriesLength 3", "@data", "1,2:1,2:1,2:up"],
            "has 2 values, the header says 3",
        ),
        ([*HEAD, "1:2:up"], "has 2 dimensions, the first row of all has 3"),
        (HEAD, "holds no sequence"),
    ]:
        path.write_text("\n".join(lines))
        assert words in why(UeaSpec, uea)


def test_a_label_of_the_header_without_sequences_and_too_many_dimensions_are_refused(uea, monkeypatch):
    train = uea / "uea/Small_TRAIN.ts"
    train.write_text(train.read_text().replace("true up down", "true up down left"))
    assert "label 'left' of the header has no sequence" in why(UeaSpec, uea)
    monkeypatch.setattr("headstart.data.series.DIMENSIONS", 2)
    assert "there should be 3 (at most 2)" in why(UeaSpec, uea)


def test_one_cause_is_one_line_with_its_number(ucr):
    (ucr / "ucr/Small/Small_TEST.tsv").write_text("\n".join(["1\tx"] * 50))
    text = why(UcrSpec, ucr)
    assert text.count("no number") == 1
    assert text.endswith("(49 more like it)")


def test_one_label_alone_and_text_in_another_encoding_are_refused(ucr):
    train = ucr / "ucr/Small/Small_TRAIN.tsv"
    train.write_text("\n".join(line for line in tsv(30, 1) if line.startswith("1")))
    assert "every train sequence has label '1'" in why(UcrSpec, ucr)
    train.write_bytes(b"1\t2\t3\n\xff\t2\n")
    assert f"{train}, row 2: is not UTF-8" in why(UcrSpec, ucr)


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / "ucr").mkdir()
    (tmp_path / "ucr" / "ucr.tar.xz").write_bytes(lzma.compress(b"x" * 9000)[:60])
    assert "ucr.tar.xz: is cut short or damaged" in why(UcrSpec, tmp_path)


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=False)


@given(st.lists(st.lists(FLOATS, min_size=1, max_size=6), min_size=1, max_size=4))
def test_what_is_written_as_tsv_is_read_again(rows):
    lines = ["\t".join(["a", *("NaN" if math.isnan(x) else repr(x) for x in row)]) for row in rows]
    mistakes = Mistakes()
    result = read_tsv(placed(lines), mistakes)
    whole = [row for row in rows if not all(map(math.isnan, row))]
    assert bool(mistakes.texts) == (len(whole) < len(rows))
    for values, row in zip(result.values, whole, strict=True):
        last = max(i for i, x in enumerate(row) if not math.isnan(x))
        assert np.array_equal(values[:, 0], np.float32(row[: last + 1]), equal_nan=True)


@given(st.lists(st.text(max_size=30), max_size=12))
def test_any_text_gives_rows_or_mistakes_and_nothing_else(lines):
    for read in (
        lambda m: read_tsv(placed(lines), m),
        lambda m: read_ts(placed([*HEAD, *lines]), "f", m),
        lambda m: read_ts(placed(lines), "f", m),
    ):
        mistakes = Mistakes()
        rows = read(mistakes)
        assert len(rows.values) == len(rows.labels) == len(rows.places)
        for values in rows.values:
            assert values.dtype == np.float32
            assert not np.isnan(values).all()
            assert not np.isinf(values).any()


def test_the_real_sets(linked):
    if not (linked / "ucr").is_dir():
        pytest.skip("../shared/data/ucr is not here")
    task = UcrSpec(name="ECG200").load(linked)
    assert (len(task.train), len(task.val), len(task.test)) == (80, 20, 100)
    assert (task.signature.length, task.labels) == (96, ("-1", "1"))
    vowels = open_task(UeaSpec(name="JapaneseVowels"), linked)
    assert (len(vowels.train), len(vowels.val), len(vowels.test)) == (216, 54, 370)
    assert (vowels.signature.width, vowels.signature.shortest, vowels.signature.length) == (12, 7, 29)
    assert vowels.labels == tuple("123456789")
    motions = UeaSpec().load(linked)
    assert motions.labels == ("Badminton", "Running", "Standing", "Walking")
    assert (motions.signature.width, motions.signature.length) == (6, 100)
    with pytest.raises(BadInput, match=r"ucr\.tar\.xz: no 'ECG5000_TEST\.tsv'"):  # its rows are a .npy file there
        UcrSpec(name="ECG5000").load(linked)
