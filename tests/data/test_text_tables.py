"""CSV and its kin: what separates cells, headers, quotes, encodings; and every way in which a file can be wrong."""

import codecs
import contextlib
import csv
import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made_tables import numbers, read, why, wide, write

from headstart.data import csv as csv_module
from headstart.data import text as text_module
from headstart.data.csv import find_delimiter, has_header
from headstart.errors import BadInput

PLAIN = "\n".join(wide()) + "\n"


def same(result, count=12, length=6):
    assert len(result) == count
    assert np.array_equal(result.values[:, 0], np.float32(numbers(count, length)).reshape(-1))
    assert result.labels == tuple("ab"[i % 2] for i in range(count))
    assert result.ids == tuple(f"s{i:02}" for i in range(count))


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_what_separates_cells_is_found(tmp_path, mark):
    same(read(write(tmp_path / "f.csv", "\n".join(wide(mark=mark)))))


@pytest.mark.parametrize("form", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way(tmp_path, form):
    same(read(write(tmp_path / "f.csv", PLAIN.replace("\n", form))))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    same(read(write(tmp_path / "f.csv", b"\xef\xbb\xbf" + PLAIN.encode())))


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_read(tmp_path, ending, pack):
    same(read(write(tmp_path / f"f.csv{ending}", pack(PLAIN.encode()))))


def test_a_packed_file_that_is_cut_short_is_refused(tmp_path):
    path = write(tmp_path / "f.csv.gz", gzip.compress(PLAIN.encode())[:-20])
    assert why(path).startswith("f.csv.gz: is cut short or damaged")


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_utf_16_is_read_where_its_mark_says_it_or_it_is_set(tmp_path, mark):
    name = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    path = write(tmp_path / "f.csv", mark + PLAIN.encode(name))
    same(read(path))
    assert read(path).notes[0] == "UTF-16, as the mark at its beginning says"
    same(read(path, encoding="utf-16"))
    assert why(path, encoding="latin-1") == "f.csv: is UTF-16, not latin-1; leave --encoding out"
    header, *rows = PLAIN.splitlines()
    many = "\n".join([header, *rows * (2**20 // len(PLAIN))])
    assert len(read(write(tmp_path / "g.csv", mark + many.encode(name)), id="")) == len(many.splitlines()) - 1


def test_latin_1_bytes_are_named_with_their_line_and_the_way_out(tmp_path):
    path = write(tmp_path / "f.csv", "id,text,label\n1,un café noir,a\n2,une bière brune,b\n".encode("latin-1"))
    assert why(path) == (
        "f.csv:2: is not utf-8 (byte 0xe9 after '1,un caf', 2 such lines); save it as UTF-8, or give "
        "--encoding cp1252, which reads 'café'"
    )
    assert read(path, encoding="cp1252").speak(0) == "un café noir"


def test_an_encoding_that_is_none_is_refused(tmp_path):
    assert why(write(tmp_path / "f.csv", PLAIN), encoding="klingon").startswith(
        "f.csv: encoding: 'klingon' is not an encoding"
    )
    assert why(tmp_path / "f.csv", sheet="A") == "f.csv: sheet: 'A' is of a workbook, and this is none; leave it out"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f.csv: is empty; give a file with rows"),
        (b"\n\n  \n"[:2], "f.csv: is empty; give a file with rows"),
        (b"\xef\xbb\xbf", "f.csv: is empty; give a file with rows"),
        (b"id,label,t0,t1\n", "f.csv: has a header and no row; give rows, or set header=false where the row is data"),
        (
            b"PK\x03\x04....",
            "f.csv: is a zip file or a spreadsheet, not text; give it the ending that says so, or save it as CSV",
        ),
        (b"@r1\nACGT\n+\nIIII\n", "f.csv: is FASTQ; give it the ending .fastq, or set format=fastq"),
        (b"a,b\n1,\0\n", "f.csv: is not text (byte 6 is 0); give a text file"),
        (b"\0\0\x08\x03\0\0\0\x0a" + b"\0\0\7" * 40, "f.csv: is not text (byte 0 is 0); give a text file"),
    ],
)
def test_files_without_rows_or_text_are_refused(tmp_path, content, message):
    assert why(write(tmp_path / "f.csv", content)) == message


def test_lines_are_counted_as_an_editor_does_where_cells_hold_newlines(tmp_path):
    path = write(tmp_path / "f.csv", 'id,text,label\n1,"one ""two""\nthree\n four",a\n\n2,,b\n')
    assert why(path) == "f.csv:6 column 'text': the text is empty; leave the row out"
    path.write_text(path.read_text().replace("2,,b", "2,five six seven,b"))
    result = read(path)
    assert result.speak(0) == 'one "two"\nthree\n four'
    assert [result.places.of(row).rpartition("/")[2] for row in (0, 1)] == ["f.csv:2", "f.csv:6"]
    assert result.notes == ("1 empty line was passed over",)


def test_a_quote_that_never_closes_is_named_where_it_opens(tmp_path):
    path = write(tmp_path / "f.csv", 'id,text,label\n1,all is well here,a\n2,"abc,a\n3,def,b\n')
    assert why(path) == (
        "f.csv:3: a quote opens here and never closes; close it, or give --quote '' where quotes are part of the texts"
    )
    result = read(path, quote="")
    assert result.speak(1) == '"abc'


def test_rows_that_are_cut_short_or_too_long_are_each_named(tmp_path):
    lines = wide()
    lines[3], lines[5] = lines[3].rsplit(",", 1)[0], lines[5] + ",1"
    assert why(write(tmp_path / "f.csv", "\n".join(lines))).split("\n") == [
        "f.csv:4: has 7 cells, the header has 8; the row is cut short: correct it, or leave the row out",
        "f.csv:6: has 9 cells, the header has 8; a text that holds the separator needs quotes: correct it, or leave "
        "the row out",
    ]


def test_rows_with_one_fault_are_one_line_with_their_number(tmp_path):
    lines = wide(40)
    path = write(tmp_path / "f.csv", "\n".join([lines[0], *(line + ",1" for line in lines[1:])]))
    assert why(path) == (
        "f.csv:2: has 9 cells, the header has 8; a text that holds the separator needs quotes: correct it, or leave "
        "the row out (39 more like it)"
    )


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "f.csv", "id,t0,t0,label,id\n1,2,3,a,1\n")
    assert why(path).split("\n") == [
        "f.csv:1: columns are there twice: 'id' (columns 1 and 5), 't0' (columns 2 and 3); rename one of each",
    ]


def test_a_mark_that_cuts_nothing_is_refused_with_the_one_that_does(tmp_path):
    assert why(write(tmp_path / "f.csv", PLAIN), delimiter=";") == (
        "f.csv: cut at ';' it has one column, cut at ',' 8; give --delimiter ',', or leave it out"
    )


def test_a_cell_that_is_no_number_is_named_once_with_its_rows_and_the_way_out(tmp_path):
    lines = wide(1_100)
    for row in range(1_042, 1_079):
        lines[row] = lines[row].rsplit(",", 1)[0] + ",x/y"
    path = write(tmp_path / "train.csv", "\n".join([lines[0].replace("t", "ecg_"), *lines[1:]]))
    assert why(path) == (
        "train.csv:1043 column 'ecg_5': 'x/y' is not a number (37 such rows; --na x/y reads them as missing)"
    )
    result = read(path, na=("x/y",))
    assert len(result) == 1_100
    assert (result.lengths == 5).sum() == 37


def test_usual_words_for_a_missing_value_are_missing_and_that_is_said(tmp_path):
    lines = wide(24)
    for row, word in enumerate(("n/a", "NA", "#N/A", "null", "None", "<NA>"), 2):
        lines[row] = lines[row].rsplit(",", 2)[0] + f",{word},1.5"
    result = read(write(tmp_path / "f.csv", "\n".join(lines)))
    assert result.notes == ("'n/a', 'NA', '#N/A', 'null' and 2 more in 6 rows are read as missing",)
    assert result.observed is not None
    assert (~result.observed).sum() == 6


def test_a_row_of_words_for_missing_values_is_no_row_of_units(tmp_path):
    names, *rows = wide()
    missing = [names, ",".join(["s99", "a", *["-"] * 6]), rows[0].replace(rows[0].split(",")[3], "-"), *rows[1:]]
    assert "'-' is not a number" in why(write(tmp_path / "f.csv", "\n".join(missing)))


def test_infinity_and_what_float32_cannot_hold_are_refused(tmp_path):
    lines = wide()
    for row, text in ((2, "inf"), (4, "1e400"), (6, "-Infinity"), (8, "1e39")):
        lines[row] = lines[row].rsplit(",", 1)[0] + f",{text}"
    ways = "--na inf --na 1e400 --na -Infinity --na 1e39 reads them as missing"
    assert why(write(tmp_path / "f.csv", "\n".join(lines))) == (
        "f.csv:3 column 't5': 'inf' is infinite, or beyond 3e38, like '1e400', '-Infinity', '1e39' (4 such rows; "
        f"{ways})"
    )
    assert len(read(tmp_path / "f.csv", na=("inf", "1e400", "-Infinity", "1e39"))) == 12


def test_a_word_for_missing_may_be_a_number(tmp_path):
    path = write(tmp_path / "f.csv", "id,label,t0,t1,t2\n1,a,-999,2.5,1\n2,b,3,-999.0,1\n")
    result = read(path, na=("-999",))
    assert result.observed is not None
    assert result.observed[:, 0].tolist() == [False, True, True, True, False, True]
    assert result.values.min() == 0


def test_decimal_commas_are_read_in_values_and_targets(tmp_path):
    path = write(tmp_path / "f.csv", "id;y;t0;t1;t2\n" + "".join(f"{i};{i},5;1,5;-2,25;3\n" for i in range(30)))
    result = read(path)
    assert result.layout.written == "semicolon-separated with a header, decimal commas"
    assert result.values[:3, 0].tolist() == [1.5, -2.25, 3]
    assert result.target == "number"
    assert result.numbers()[:2].tolist() == [0.5, 1.5]


def test_numbers_without_a_header_begin_with_their_label(tmp_path):
    values = numbers()
    path = write(
        tmp_path / "f.tsv", "\n".join("\t".join([str(1 + i % 2), *map(str, row)]) for i, row in enumerate(values))
    )
    result = read(path)
    assert result.labels == tuple(str(1 + i % 2) for i in range(12))
    assert np.array_equal(result.values[:, 0], np.float32(values).reshape(-1))
    assert "without a header" in result.layout.sentence
    assert "target '1'" in result.layout.sentence


def test_numbers_without_a_header_may_have_any_length(tmp_path):
    path = write(tmp_path / "f.csv", "\n".join(f"{1 + i % 2}," + ",".join(["0.5"] * (2 + i)) for i in range(1_100)))
    result = read(path)
    assert result.lengths.tolist() == [2 + i for i in range(1_100)]
    assert "rows have 2 to 1,101 values" in result.notes[0]


def test_a_file_whose_first_rows_are_alike_and_a_later_one_shorter_is_read_to_its_end(tmp_path):
    rows = [f"{1 + i % 2},0.5,0.25,{i}.5" for i in range(1_500)] + ["1,0.5"]
    result = read(write(tmp_path / "f.csv", "\n".join(rows)))
    assert len(result) == 1_501
    assert result.lengths[-1] == 1


def test_numbers_may_be_separated_by_runs_of_blanks(tmp_path):
    path = write(tmp_path / "f.txt", "\n".join(f"  {1 + i % 2}.0000e+00   0.5  -2.5e-01   {i}.0" for i in range(12)))
    result = read(path)
    assert result.labels == tuple(str(1 + i % 2) for i in range(12))
    assert result.values[:3, 0].tolist() == [0.5, -0.25, 0]


def test_prose_with_commas_is_one_text_a_line(tmp_path):
    path = write(
        tmp_path / "f.txt", "Once upon a time, there was a fox.\nIt lived, as foxes do, in a hole, far away.\nEnd\n"
    )
    result = read(path)
    assert (result.kind, len(result), result.speak(2)) == ("text", 3, "End")


def test_a_header_is_told_from_rows():
    rows = [["1", "0.5", "0.1"], ["2", "0.25", "0.3"]]
    assert not has_header(rows, ".")
    assert has_header([["a", "b", "c"], *rows], ".")
    assert has_header([["label", "0", "1"], *rows], ".")  # names that count on
    assert not has_header([["1", "0.5", "n/a"], *rows], ".")  # a wrong cell makes no header
    assert has_header([["text", "label"], ["it was good", "pos"]], ".")
    assert has_header([["grade", "1200.5", "1201.7", "1202.1"], ["a", "0.3", "0.2", "0.4"]], ".")
    assert not has_header([["y", "0.5", "0.3", "0.1"], ["n", "0.3", "0.2", "0.4"], ["y", "0.3", "0.2", "0.4"]], ".")
    assert not has_header([["CAGTCAGTACGTACGATCGACTAGCTAGCATCAGCATCAGCT"], ["ACGATCAGCATCAGCATCAGCAT"]], ".")


def test_semicolons_win_where_numbers_hold_commas():
    assert find_delimiter(["1,5;2,5;3,5\n", "4,5;5,5;6,5\n"], "f.csv", '"') == ";"
    assert find_delimiter(["1,5,2\n", "4,5,6\n"], "f.csv", '"') == ","


def test_ids_keep_their_zeros_and_labels_lose_their_point(tmp_path):
    path = write(
        tmp_path / "f.csv", "id,label,t0,t1,t2\n" + "".join(f"{i:03},{i % 2}.0,{i}.5,1,2\n" for i in range(12))
    )
    result = read(path)
    assert result.ids is not None
    assert result.ids[:3] == ("000", "001", "002")
    assert result.classes == ("0", "1")


def test_labels_survive_whatever_they_hold(tmp_path):
    names = ["[red]x", "=1+1", "😀", "a,b", 'say "hi"', "007"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "label", "t0", "t1", "t2"])
    writer.writerows([[i, names[i % 6], i, 1.5, 2] for i in range(24)])
    result = read(write(tmp_path / "f.csv", out.getvalue()))
    assert result.labels[:6] == tuple(names)


def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "f.csv", PLAIN)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(text_module, "unpacked", refuse)
    assert why(path) == "f.csv: cannot be read (Permission denied); give access to it, or name another file"
    assert why(tmp_path / "g.csv") == "g.csv: is not there; give the path of a file or a folder"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("f.numbers", "is a spreadsheet of Numbers, which is not read; save it as CSV"),
        ("f.pkl", "is pickled, which is not read; save it as CSV"),
        ("f.rds", "is a file of R, which is not read; write it as text: write.csv(x, 'x.csv')"),
        ("f.zip", "is no archive, whatever its name says; give it the ending of what it is"),
        ("f.tar.gz", "is no archive, whatever its name says; give it the ending of what it is"),
        ("f.7z", "is an archive of 7-Zip, which is not read; 7z x"),
    ],
)
def test_formats_that_are_not_read_are_named_with_what_to_do(tmp_path, name, way):
    assert way in why(write(tmp_path / name, b"abc"))


def test_the_limit_of_a_cell_is_put_back(tmp_path):
    before = csv.field_size_limit()
    text = "abcdefghij " * 20_000  # longer than the limit
    result = read(write(tmp_path / "f.csv", f"text,label\n{text},a\nshort text here,b\n"))
    assert result.lengths[0] == len(text)
    assert csv.field_size_limit() == before


def test_rows_are_converted_alike_in_one_go_and_in_many(tmp_path, monkeypatch):
    lines = wide()
    lines[4] = "s03,b,,0.5, 1 ,,nan,2"
    path = write(tmp_path / "f.csv", "\n".join(lines))
    whole = read(path)
    monkeypatch.setattr(csv_module, "ROWS_AT_ONCE", 1)
    item = read(path)
    assert np.array_equal(whole.values, item.values)
    assert np.array_equal(whole.observed, item.observed)
    assert whole.observed[18:24, 0].tolist() == [False, True, True, False, False, True]


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CELL, st.floats(-1e30, 1e30), st.floats(-1e30, 1e30)), min_size=1, max_size=8))
def test_whatever_a_csv_writer_wrote_is_read_back(tmp_path_factory, rows):
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["id", "label", "t0", "t1", "t2"])
    writer.writerows([[f"s{i}", text, a, b, 1.5] for i, (text, a, b) in enumerate(rows)])
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(out.getvalue().encode())
    result = read(path, target="label", id="id", target_kind="class")
    number = result.values.dtype.type
    assert result.values[:, 0].tolist() == [float(number(x)) for _, a, b in rows for x in (a, b, 1.5)]
    assert result.ids == tuple(f"s{i}" for i in range(len(rows)))
    assert [label is None for label in result.labels] == [text.strip().lower() in ("", "nan") for text, _, _ in rows]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_ends_in_anything_but_sequences_or_a_sentence(tmp_path_factory, content):

    folder = tmp_path_factory.getbasetemp()
    for name in ("any.csv", "any.tsv", "any.jsonl", "any.fasta", "any.ts", "any.npy", "any.npz", "any.dat"):
        path = folder / name
        path.write_bytes(content)
        try:
            message, count = "", len(read(path))
        except BadInput as error:
            message, count = str(error), 0
        assert count > 0 or message.startswith((str(path), "layout."))


@pytest.mark.parametrize("large", [0, csv_module.LARGE_BYTES])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_plain_file_is_read_by_arrow_as_the_others_are_row_by_row(tmp_path, monkeypatch, end, large):
    path = write(tmp_path / "f.csv", end.join([*wide(count=40), ""]))
    row_by_row = read(path)
    monkeypatch.setattr(csv_module, "PARSED_BYTES", 0)
    monkeypatch.setattr(csv_module, "LARGE_BYTES", large)
    monkeypatch.setattr(csv_module, "_any_table", None)
    by_arrow = read(path)
    assert np.array_equal(by_arrow.values, row_by_row.values)
    assert (by_arrow.labels, by_arrow.ids, by_arrow.notes) == (row_by_row.labels, row_by_row.ids, row_by_row.notes)
    assert by_arrow.places.of(39) == row_by_row.places.of(39)


@pytest.mark.parametrize("harm", ['s99,"a\nb",1,2,3,4,5,6\n', "\n\n", "\r", "1,2\n"])
def test_what_is_not_plain_is_left_to_the_reader_that_knows_lines(tmp_path, monkeypatch, harm):
    path = write(tmp_path / "f.csv", "\n".join(wide(count=40)) + "\n" + harm)
    monkeypatch.setattr(csv_module, "PARSED_BYTES", 0)
    called = []
    monkeypatch.setattr(csv_module, "_any_table", lambda *_: called.append(1))
    with contextlib.suppress(BadInput):
        read(path)
    assert called == [1]


def test_a_name_of_a_column_that_is_not_of_the_encoding_is_a_sentence(tmp_path):
    assert "is not utf-8" in why(write(tmp_path / "f.csv", b"T\x80\r\x01"))


def test_a_mark_that_ends_each_line_separates_nothing(tmp_path):
    rows = [f"{i // 20},{'Walking' if i < 40 else 'Sitting'},{4910596 + 50 * i},{i / 8},-{i}.5" for i in range(80)]
    plainly, closed = (
        write(tmp_path / f"{i}.txt", f"{end}\n".join(rows) + f"{end}\n") for i, end in enumerate(["", ";"])
    )
    expected, result = (read(path, id="1", target="2", time="3", shape="long") for path in (plainly, closed))
    assert "comma-separated without a header" in result.layout.written
    assert np.array_equal(result.values, expected.values)
    assert "the mark ';' at the end of lines is passed over" in result.notes
    decimals = write(tmp_path / "d.txt", "".join(f"{i};{i},5;{i},25;\n" for i in range(12)))
    assert "semicolon-separated" in read(decimals).layout.written


def test_two_tabs_behind_a_comma_are_blanks_and_names_of_which_some_are_numbers_are_no_header(tmp_path):
    letters = ["".join("acgt"[int(999 * np.sin(7 * i + 3 * k)) % 4] for k in range(57)) for i in range(30)]
    names = [f"S{i}" if i % 3 == 0 else f" {100 + i}" for i in range(30)]
    lines = [f"{'+-'[i % 2]},{names[i]},\t\t{letters[i]}\n" for i in range(30)]
    result = read(write(tmp_path / "promoters.data", "".join(lines)))
    assert [result.speak(i).lower() for i in range(30)] == letters
    assert result.labels == tuple("+-"[i % 2] for i in range(30))


def r_table(mark: str, text: str = "{y} out") -> str:
    """A table as R writes it: texts in quotes, names of rows that the header does not name."""
    lines = [mark.join(['"label"', *(f'"t{k}"' for k in range(6))])]
    for i, row in enumerate(numbers(12, 6)):
        word = text.format(y="ab"[i % 2])
        lines.append(mark.join([f'"{i + 1}"', f'"{word}"', *map(str, row.tolist())]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("mark", [" ", ",", "\t", ";"])
@pytest.mark.parametrize("text", ["{y} out", "{y}, out", '{y} \\"out\\"'])
def test_tables_of_r_are_read_with_their_quotes_and_names_of_rows(tmp_path, mark, text):
    result = read(write(tmp_path / "f.txt", r_table(mark, text)))
    assert np.array_equal(result.values[:, 0], np.float32(numbers(12, 6)).reshape(-1))
    assert result.labels == tuple(text.format(y="ab"[i % 2]).replace("\\", "") for i in range(12))
    assert result.channels == ("t",)


def test_a_text_with_an_unquoted_comma_is_no_name_of_a_row(tmp_path):
    lines = ["id,text", *(f"{i},hello, world {i}" for i in range(12))]
    assert "a text that holds the separator needs quotes" in why(write(tmp_path / "f.csv", "\n".join(lines)))


def test_backslashes_that_stand_before_no_quote_stay(tmp_path):
    lines = ["label,text", *(f'{"ab"[i % 2]},"C:\\data\\{i}, said ""it"" twice"' for i in range(12))]
    result = read(write(tmp_path / "f.csv", "\n".join(lines)))
    assert result.speak(3) == 'C:\\data\\3, said "it" twice'


LETTERS = ["".join(row) for row in np.random.default_rng(0).choice(list("ACDEFGHIKL"), (40, 12))]


def test_letters_under_the_name_of_a_sequence_win_over_numbers_beside_them(tmp_path):
    rows = [f"{i},{i + 90},{i % 9},{text},{'ab'[i % 2]}" for i, text in enumerate(LETTERS)]
    result = read(write(tmp_path / "f.csv", "\n".join(["start,end,score,sequence,label", *rows])))
    assert (result.layout.shape, result.layout.target, len(result)) == ("text", "label", 40)


def test_several_columns_of_letters_are_asked_about_and_each_is_read(tmp_path):
    rows = [f"CASS{text},{text[:9]},{i % 2}" for i, text in enumerate(LETTERS)]
    path = write(tmp_path / "f.csv", "\n".join(["CDR3,peptide,label", *rows]))
    message = why(path)
    assert "has several columns of letters that may each be the sequence" in message
    assert [line.split()[-2:] for line in message.splitlines()[1:]] == [["--values", "CDR3"], ["--values", "peptide"]]
    assert read(path, values=("peptide",)).lengths.tolist() == [9] * 40
