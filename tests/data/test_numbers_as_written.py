"""Numbers, ids and labels as people's files have them: what they mean is read, and where it is not clear, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.made_tables import write

from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.data.sequences import channel_moments, standardised
from headstart.errors import BadInput
from headstart.text import count_numbers, is_number

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(24, 6)).round(2)
LABELS = ["ab"[row % 2] for row in range(24)]


def table(path: Path, mark: str, cell: str, scale: float = 1.0, digits: int = 2) -> Path:
    """A wide table; `cell` holds a number that has a comma where it has a point."""
    rows = [mark.join(["id", "label", *(f"t{i}" for i in range(6))])]
    for row, (label, values) in enumerate(zip(LABELS, VALUES, strict=True)):
        texts = [f"{scale * value:.{digits}f}".replace(".", ",") for value in values]
        rows.append(mark.join([f"r{row}", label, *(cell.format(text) for text in texts)]))
    return write(path, "\n".join(rows))


@pytest.mark.parametrize(("mark", "cell"), [(",", '"{}"'), (";", "{}"), ("\t", "{}")])
def test_decimal_commas_are_read_quoted_or_not(tmp_path: Path, mark: str, cell: str) -> None:
    result = read_sequences(table(tmp_path / "f.csv", mark, cell))
    assert result.layout.decimal == ","
    np.testing.assert_array_equal(result.values.reshape(24, 6), VALUES.astype(np.float32))


def test_a_target_with_decimal_commas_among_numbers_with_points_is_a_number(tmp_path: Path) -> None:
    rows = ["target,a,b,c", *(f'"{v[0]:.2f}",{v[1]},{v[2]},{v[3]}'.replace(".", ",", 1) for v in VALUES)]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))
    assert result.target == "number"
    np.testing.assert_array_equal(result.numbers(), VALUES[:, 0])
    np.testing.assert_array_equal(result.values.reshape(24, 3), VALUES[:, 1:4].astype(np.float32))


def test_lists_of_two_are_lists_where_that_is_set(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "label,v\n" + '\na,"1,2"\nb,"3,4"\n'[1:])
    assert read_sequences(path, LayoutSpec(shape="list")).values.ravel().tolist() == [1, 2, 3, 4]


def test_lists_of_more_are_lists(tmp_path: Path) -> None:
    rows = ["label,v", *(f'{"ab"[i % 2]},"{",".join(str(100 + j + i) for j in range(2 + i % 9))}"' for i in range(20))]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))
    assert (result.layout.shape, len(result.values)) == ("list", sum(2 + i % 9 for i in range(20)))


@pytest.mark.parametrize(
    ("text", "number"), [("-3,210.71", -3210.71), ("4.721,01", 4721.01), ("1,234,567", 1234567), ("1.234.567", 1234567)]
)
def test_marks_between_thousands_that_leave_no_doubt_are_read(tmp_path: Path, text: str, number: float) -> None:
    rows = ["label;a;b;c", *(f"{label};{text};{text};913" for label in LABELS)]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)), LayoutSpec(kind="numbers"))
    assert result.values[:3, 0].tolist() == np.float32([number, number, 913]).tolist()
    assert "between thousands" in result.layout.sentence


def test_a_comma_that_may_be_either_is_refused_until_it_is_set(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(["label;a;b", *(f"{label};-3,210;4,721" for label in LABELS)]))
    with pytest.raises(BadInput, match=r"f\.csv: '-3,210' may be -3\.210 or -3210; give --decimal ',' for the first"):
        read_sequences(path)
    assert read_sequences(path, LayoutSpec(decimal=",")).values[:2, 0].tolist() == np.float32([-3.21, 4.721]).tolist()


def test_a_time_with_decimal_commas_orders_a_long_table(tmp_path: Path) -> None:
    rows = ["id;time;label;x"]
    for sequence in range(4):
        rows += [
            f"r{sequence};{step * 4 // 100},{step * 4 % 100:02};{'ab'[sequence % 2]};{step},5" for step in (2, 1, 0)
        ]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))
    assert result.values.ravel().tolist() == [0.5, 1.5, 2.5] * 4


def nested(form: str, folder: Path) -> object:
    """24 sequences of 2 channels and 3 positions, written (F, L)."""
    lists = [row.reshape(2, 3).tolist() for row in VALUES]
    if form == "frame":
        return pd.DataFrame({"label": LABELS, "x": lists})
    columns = {"label": pa.array(LABELS), "x": pa.array(lists)}
    if form == "tensor":
        flat = pa.array(VALUES.ravel())
        storage = pa.FixedSizeListArray.from_arrays(flat, 6)
        columns["x"] = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), [2, 3]), storage)
    path = folder / ("f.jsonl" if form == "lines" else "f.parquet")
    if form == "lines":
        pd.DataFrame({"label": LABELS, "x": lists}).to_json(path, orient="records", lines=True)
    else:
        pyarrow.parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("form", ["frame", "lines", "parquet", "tensor"])
def test_nested_lists_are_channels_first_where_that_is_set(tmp_path: Path, form: str) -> None:
    result = read_sequences(nested(form, tmp_path), LayoutSpec(channels_first=True))
    assert result.channels == ("channel 1", "channel 2")
    np.testing.assert_array_equal(
        result.values.reshape(24, 3, 2), VALUES.reshape(24, 2, 3).swapaxes(1, 2).astype(np.float32)
    )
    assert not result.notes
    with pytest.raises(BadInput, match=r"a matrix \(2 x 3\) whose sizes do not tell which axis is time"):
        read_sequences(nested(form, tmp_path))


def test_channels_first_of_sequences_of_any_length(tmp_path: Path) -> None:
    lists = [[[1, 2, 3], [4, 5, 6]], [[7], [8]], [[9, 1], [2]]]
    pyarrow.parquet.write_table(pa.table({"x": lists}), tmp_path / "f.parquet")
    result = read_sequences(tmp_path / "f.parquet", LayoutSpec(channels_first=True))
    assert result.offsets.tolist() == [0, 3, 4, 6]
    assert result.values.tolist() == [[1, 4], [2, 5], [3, 6], [7, 8], [9, 2], [1, 0]]
    assert result.observed is not None
    assert result.observed.ravel().tolist() == [True] * 11 + [False]
    path = write(tmp_path / "f.jsonl", '{"x": [[1, 2, 3], [4, 5, 6]]}\n{"x": [[7], [8]]}\n')
    assert read_sequences(path, LayoutSpec(channels_first=True)).values.tolist() == [[1, 4], [2, 5], [3, 6], [7, 8]]
    pyarrow.parquet.write_table(pa.table({"x": [*lists, [[7]]]}), tmp_path / "f.parquet")
    with pytest.raises(BadInput, match=r"f\.parquet, row 4 column 'x': has 1 channels, the first sequence has 2"):
        read_sequences(tmp_path / "f.parquet", LayoutSpec(channels_first=True))


def trials(path: Path) -> Path:
    rows = ["subject,trial,seconds,x,label"]
    for subject in range(4):
        for trial in range(3):
            rows += [f"s{subject},{trial},{10 * subject + step},{step},{'ab'[subject % 2]}" for step in range(8)]
    return write(path, "\n".join(rows))


def test_trials_that_are_counted_anew_in_each_subject_do_not_join(tmp_path: Path) -> None:
    path = trials(tmp_path / "f.csv")
    direct = read_sequences(path)
    assert (len(direct), direct.layout.id, direct.layout.group) == (12, "subject,trial", "subject")
    joined = pd.read_csv(path).assign(id=lambda data: data["subject"] + "-" + data["trial"].astype(str))
    result = read_sequences(joined.drop(columns="trial"), LayoutSpec(shape="long"))
    assert (len(result), result.layout.group) == (12, "subject")


def headless(path: Path, label: str) -> Path:
    """Rows without a header: a class first, last, or none."""
    rows = []
    for name, values in zip(LABELS, VALUES, strict=True):
        word = {"first": name, "number": str("ab".index(name) + 1)}.get(label, "")
        rows.append(",".join([*([word] if word else []), *map(str, values)]))
    return write(path, "\n".join(rows))


@pytest.mark.parametrize("label", ["first", "number"])
def test_rows_without_a_header_are_told_by_their_number_of_cells(tmp_path: Path, label: str) -> None:
    fitted = read_sequences(headless(tmp_path / "f.csv", label))
    assert (fitted.layout.target, fitted.target) == ("1", "class")
    served = read_sequences(headless(tmp_path / "new.csv", "none"), fitted.layout.fixed())
    np.testing.assert_array_equal(served.values, fitted.values)
    assert set(served.labels) == {None}
    again = read_sequences(headless(tmp_path / "f.csv", label), fitted.layout.fixed())
    assert again.labels == fitted.labels


def test_rows_of_another_width_without_a_header_are_refused(tmp_path: Path) -> None:
    rows = [",".join([*map(str, values), name]) for name, values in zip(LABELS, VALUES, strict=True)]
    fitted = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))
    assert (fitted.layout.target, len(fitted.values)) == ("7", 24 * 6)
    short = write(tmp_path / "short.csv", "\n".join(",".join(row.split(",")[:4]) for row in rows))
    with pytest.raises(BadInput, match="has 4 cells, the rows of the file that was fitted have 7, and no header"):
        read_sequences(short, fitted.layout.fixed())
    write(short, "\n".join(",".join([*row.split(",")[:4], "", "", ""]) for row in rows))
    assert len(read_sequences(short, fitted.layout.fixed()).values) == 24 * 4


def test_a_decimal_mark_that_is_not_the_files_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "f.csv", ";", "{}")
    with pytest.raises(
        BadInput, match=r"has a decimal comma, and decimal is set to '\.'; leave it out, or give --decimal ','"
    ):
        read_sequences(path, LayoutSpec(decimal="."))


def of_targets(words: list[str]) -> Sequences:
    return read_sequences(VALUES, labels=words)


@pytest.mark.parametrize("word", ["NA", "38.0%", "unknown"])
def test_a_word_among_numbers_is_refused_and_not_a_class(word: str) -> None:
    words = [f"{value[0]}" for value in VALUES]
    words[5] = word
    text = rf"row 6: the target '{word}' is no number, like 1 of 24; write it as one, give layout=\{{'na': \['{word}'\]"
    with pytest.raises(BadInput, match=text):
        of_targets(words)
    assert read_sequences(VALUES, LayoutSpec(target_kind="class"), labels=words).target == "class"
    result = read_sequences(VALUES, LayoutSpec(na=(word,)), labels=words)
    assert (result.target, result.labels[5]) == ("number", None)


def test_names_among_few_whole_numbers_are_classes() -> None:
    assert of_targets(["1", "2", "unknown"] * 8).target == "class"
    assert set(of_targets(["1E2", "100"] * 12).labels) == {"1E2", "100"}


def test_targets_in_per_cent_are_no_classes() -> None:
    with pytest.raises(BadInput, match=r"row 1: the target '.*%' is no number, like 24 of 24; write it as one"):
        of_targets([f"{abs(value[0])}%" for value in VALUES])


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_a_word_for_missing_is_found_among_numbers_of_single_precision(tmp_path: Path, form: str) -> None:
    values = VALUES.astype(np.float32)
    values[2, 3] = -999.9
    path = tmp_path / f"f.{form}"
    if form == "npy":
        np.save(path, values)
    else:
        columns = {f"t{i}": values[:, i] for i in range(6)}
        pyarrow.parquet.write_table(pa.table({**columns, "label": LABELS}), path)
    result = read_sequences(path, LayoutSpec(na=("-999.9", "1e300")))
    assert result.observed is not None
    assert np.argwhere(~result.observed.reshape(24, 6)).tolist() == [[2, 3]]


def test_a_word_for_missing_has_the_decimal_mark_of_the_file(tmp_path: Path) -> None:
    rows = ["label;a;b", *(f"{label};{'-999,9' if i == 3 else '1,5'};{7 * i % 24},5" for i, label in enumerate(LABELS))]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)), LayoutSpec(na=("-999,9",)))
    assert result.observed is not None
    assert (int((~result.observed).sum()), float(result.values.max())) == (1, 23.5)


def test_a_target_that_is_missing_may_be_written_in_another_way(tmp_path: Path) -> None:
    rows = ["y,a,b", *(f"{'-999.0' if i % 5 == 3 else i * 0.37},{7 * i % 24}.5,2" for i in range(24))]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)), LayoutSpec(na=("-999",), target="y"))
    assert int(np.isnan(result.numbers()).sum()) == 5
    assert result.target == "number"


def test_other_files_of_a_table_without_header_have_the_columns_of_the_first(tmp_path: Path) -> None:
    def lines(name: str, ids: str) -> Path:
        rows = [
            ",".join([ids.format(60 + i), *map(str, values[:4]), label])
            for i, (values, label) in enumerate(zip(VALUES, LABELS, strict=True))
        ]
        return write(tmp_path / name, "\n".join(rows))

    first = read_sequences(lines("first.csv", "r{}"))
    assert first.offsets[1] == 4
    for name, ids in (("again.csv", "r{}"), ("numbers.csv", "{}")):
        other = read_sequences(lines(name, ids), first.layout.fixed())
        np.testing.assert_array_equal(other.values, first.values)


def test_a_row_of_a_label_and_numbers_that_grow_is_no_header(tmp_path: Path) -> None:
    rows = ["up,1.0,1.3,1.9,2.4", "down,3.0,2.2,1.1,0.4", "up,0.2,0.1,0.9,1.4", "down,5.0,4.0,2.0,2.5"] * 5
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))
    assert (len(result), set(result.labels)) == (20, {"up", "down"})
    named = "name,0,1,2,4\n" + "\n".join(f"r{i},{','.join(map(str, VALUES[i, :4]))}" for i in range(20))
    assert len(read_sequences(write(tmp_path / "g.csv", named))) == 20


def test_times_are_those_of_the_earliest_row_of_each_sequence(tmp_path: Path) -> None:
    rows = [f"s{i},{10 * i + k},{k}.5,{'ab'[i % 2]}" for i in range(6) for k in (4, 3, 2, 1, 0)]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(["id,time,v,label", *rows])))
    assert result.times is not None
    assert result.times.tolist() == [0, 10, 20, 30, 40, 50]


def test_rows_of_any_length_without_a_target_keep_their_first_value(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "0.5,0.3,0.1\n0.7,0.2\n0.9,0.8,0.6,0.4\n0.1,0.2\n")
    result = read_sequences(path, LayoutSpec(target=""))
    assert result.lengths.tolist() == [3, 2, 4, 2]
    assert result.values[:3].ravel().tolist() == pytest.approx([0.5, 0.3, 0.1])


def test_a_name_with_an_underscore_is_no_number(tmp_path: Path) -> None:
    names = [f"{a}_{b:02d}" for a in range(1, 6) for b in range(1, 7)] * 2
    rows = ["label,a,b", *(f"{name},{7 * i % 60}.5,{i % 7}" for i, name in enumerate(names))]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))
    assert (result.target, len(result.classes)) == ("class", 30)


def test_points_between_thousands_beside_decimal_commas_are_refused(tmp_path: Path) -> None:
    rows = ["label;a;b", *(f"{label};{i},5;1.{234 + i}" for i, label in enumerate(LABELS))]
    with pytest.raises(BadInput, match=r"'1\.234' has a point between thousands"):
        read_sequences(write(tmp_path / "f.csv", "\n".join(rows)))


def test_masked_numbers_are_missing_and_masked_labels_are_none() -> None:
    values = np.ma.masked_equal(np.array([[1.5, -9.0], [2.0, 3.0], [4.0, 5.0]]), -9.0)
    labels = np.ma.masked_equal(np.array([0, -9, 1]), -9)
    for source in (values, [values[0], values[1], values[2]]):
        result = read_sequences(source, labels=labels)
        assert result.labels == ("0", None, "1")
        assert result.observed is None or result.observed.sum() == 5
        assert -9 not in result.values


@pytest.mark.parametrize("source", [[[], []], np.zeros((3, 0)), np.zeros((3, 2, 0)), {}])
def test_what_holds_no_value_is_refused_in_words(source: object) -> None:
    with pytest.raises(BadInput, match=r"empty|shape|no columns"):
        read_sequences(source)


@pytest.mark.parametrize(("mean", "spread"), [(101_325.4, 0.3), (654_321.0, 0.5), (1_234_567.8, 2.0), (3.0, 0.5)])
def test_channels_far_from_zero_have_mean_0(mean: float, spread: float) -> None:
    values = (mean + spread * RNG.normal(size=(500, 1))).astype(np.float32)
    own = channel_moments([values])
    scaled = standardised(values, None, *own)
    assert abs(float(scaled.mean(dtype=np.float64))) < 2e-3
    assert float(scaled.std(dtype=np.float64)) == pytest.approx(1, abs=1e-3)
    if mean == 3.0:  # as always: six digits of both, in single precision
        assert own[0].tolist() == [float(np.float32(f"{values.mean(dtype=np.float64):.6g}"))]


@pytest.mark.parametrize("mark", [" ", ",", "  "])
def test_exponents_of_fortran_are_read_and_said(tmp_path: Path, mark: str) -> None:
    rows = VALUES * 1000
    cells = [[f"{x:.4E}".replace("E", "D") for x in row] for row in rows.tolist()]
    lines = [mark.join(["label", *(f"t{k}" for k in range(6))])]
    lines += [mark.join(["ab"[i % 2], *row]) for i, row in enumerate(cells)]
    s = read_sequences(write(tmp_path / "f.txt", "\n".join(lines)))
    np.testing.assert_allclose(s.values[:, 0], rows.reshape(-1), rtol=1e-4)
    assert s.labels == tuple("ab" * 12)
    assert "exponents are written as Fortran writes them, 1.5D+02" in s.notes
    bare = "\n".join(mark.join(["1.0D+00" if i % 2 else "2.0D+00", *row]) for i, row in enumerate(cells))
    np.testing.assert_allclose(
        read_sequences(write(tmp_path / "g.txt", bare)).values[:, 0], rows.reshape(-1), rtol=1e-4
    )


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_minus_of_typesetters_is_read_and_said(tmp_path: Path, mark: str) -> None:
    lines = [mark.join(["label", *(f"t{k}" for k in range(6))])]
    for i, row in enumerate(VALUES.tolist()):
        lines.append(mark.join(["ab"[i % 2], *(f"{x}".replace("-", "\u2212") for x in row)]))
    s = read_sequences(write(tmp_path / "f.csv", "\n".join(lines)))
    np.testing.assert_allclose(s.values[:, 0], VALUES.reshape(-1), rtol=1e-6)
    assert any("the minus sign is the typographic one" in text for text in s.notes)


def test_exponents_of_fortran_in_an_uneven_table_are_said_too(tmp_path: Path) -> None:
    lines = ["a,1.5D+02,2.0D+00,3.0D+00", "b,1.0D+00,2.5D+00", "a,1.0D+00,2.0D+00,3.5D+00,4.0D+00"]
    s = read_sequences(write(tmp_path / "f.csv", "\n".join(lines * 4)))
    assert "exponents are written as Fortran writes them, 1.5D+02" in s.notes


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_are_counted_at_once_as_one_by_one(decimal: str) -> None:
    columns = ([], ["1", " 2.5 ", "nan", "inf"], ["1", "1_000"], ["1", "", "a"], ["1,5", "2"], ["1e3", "-4,5"], ["1.5"])
    for cells in columns:
        assert count_numbers(cells, decimal) == sum(is_number(cell, decimal) for cell in cells)
