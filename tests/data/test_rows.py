"""Rows of JSON lines, Parquet and TSV files: the same rows from each, and every row that is wrong is named."""

import contextlib
import gzip
import json
import lzma
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.data import text as module
from headstart.data.labels import label_of
from headstart.data.rows import form, read_rows
from headstart.data.text import text_of
from headstart.errors import BadInput, Mistakes
from headstart.text import in_order

COLUMNS = ("text", "label")


def read(path, columns=COLUMNS, layouts=()):
    """(rows as (place after the file's name, values), mistakes)."""
    mistakes = Mistakes()
    result = [
        (location.removeprefix(str(path)), {name: row[name] for name in columns})
        for location, row in read_rows(path, columns, mistakes, layouts)
    ]
    return result, [text.removeprefix(str(path)) for text in mistakes.texts]


def write(path, content):
    path.write_bytes(content)
    return path


def test_every_form_is_told_by_its_name():
    names = ("a.jsonl", "a.JSONL.gz", "a.tsv.xz", "a.b.parquet", "a.txt", "jsonl")
    assert [form(name) for name in names] == ["jsonl", "jsonl", "tsv", "parquet", None, None]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.xz"])
def test_json_lines_are_read_packed_or_not(tmp_path, ending):
    content = b'{"text": "a\\u2028b\xe2\x80\xa8c", "label": 1, "more": [1]}\r\n{"label": "x", "text": ""}'
    pack = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.xz": lzma.compress}[ending]
    result, mistakes = read(write(tmp_path / f"f{ending}", pack(content)))
    # A line separator of Unicode ends no line.
    assert result == [(", row 1", {"text": "a\u2028b\u2028c", "label": 1}), (", row 2", {"text": "", "label": "x"})]
    assert mistakes == []


def test_every_line_that_is_no_row_is_named(tmp_path):
    lines = [
        b'{"text": "a"',
        b"[1]",
        b'{"text": "a"}',
        b"",
        b'{"text": "\xff", "label": 0}',
        b'{"text": "b", "label": 0}',
        b'{"a":' * 100_000,
    ]
    result, mistakes = read(write(tmp_path / "f.jsonl", b"\n".join(lines)))
    assert [location for location, _ in result] == [", row 6"]
    assert mistakes[0].startswith(", row 1: is not JSON (Expecting")
    assert mistakes[1] == ", row 2: is not a JSON object; give one with text and label"
    assert mistakes[2] == ", row 3: has no 'label'"
    assert mistakes[3].startswith(", row 4: is not JSON (")
    assert mistakes[4] == ", row 5: is not UTF-8 (byte 0xff at 10); convert the file to UTF-8"
    assert mistakes[5] == ", row 7: is not JSON (nested too deep); give one object a line"


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LINE", 100)
    with pytest.raises(BadInput, match=r"f\.jsonl, row 2: has more than 100 bytes; give one example per line"):
        read(write(tmp_path / "f.jsonl", b'{"text": "a", "label": 0}\n' + b"x" * 1000))


def test_a_packed_file_that_is_cut_short_is_refused(tmp_path):
    content = b"".join(b'{"text": "%d", "label": 0}\n' % i for i in range(1000))
    for name, pack in (("f.jsonl.gz", gzip.compress), ("f.jsonl.xz", lzma.compress)):
        with pytest.raises(BadInput, match=rf"{name}: is cut short or damaged \(.*\); (give the file|write it) again"):
            read(write(tmp_path / name, pack(content)[:-20]))


def test_parquet_gives_texts_as_bytes_and_numbers_rows(tmp_path):
    path = tmp_path / "f.parquet"
    for kind in (pa.string(), pa.large_string(), pa.binary()):
        table = pa.table({"text": pa.array(["å", "b", None], kind), "label": [0, 1, 1], "other": [1.0, 2.0, 3.0]})
        pa.parquet.write_table(table, path, row_group_size=2)
        result, mistakes = read(path)
        assert mistakes == []
        assert result == [
            (", row 1", {"text": "å".encode(), "label": 0}),
            (", row 2", {"text": b"b", "label": 1}),
            (", row 3", {"text": None, "label": 1}),
        ]


def test_parquet_that_is_none_or_lacks_a_column_is_named(tmp_path):
    path = tmp_path / "f.parquet"
    pa.parquet.write_table(pa.table({"text": ["a"], "labels": [0]}), path)
    assert read(path) == ([], [": has no column 'label' (it has 'text', 'labels')"])
    for content in (b"", b"PAR1", path.read_bytes()[:-3]):
        with pytest.raises(
            BadInput, match=r"f\.parquet: is not a whole Parquet file \(.*\); (give the file|write it) again"
        ):
            read(write(path, content))


def test_parquet_with_bytes_that_are_no_utf_8_is_read_as_bytes(tmp_path):
    path = tmp_path / "f.parquet"
    wrong = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    pa.parquet.write_table(pa.table({"text": wrong, "label": [0]}), path)
    assert read(path)[0] == [(", row 1", {"text": b"\xff\xfe", "label": 0})]


def test_tsv_takes_its_fields_from_a_header_or_from_their_number(tmp_path):
    layouts = (("label", "id", "text"), ("label", "text"))
    for content in (b"text\tlabel\na\t1\n", b"1\ta\n", b"1\tx\ta\n"):
        result, mistakes = read(write(tmp_path / "f.tsv", content), COLUMNS, layouts)
        assert [row for _, row in result] == [{"text": "a", "label": "1"}]
        assert mistakes == []
    result, mistakes = read(write(tmp_path / "f.tsv", b"1\ta\n1\n1\t2\t3\t4\n"), COLUMNS, layouts)
    assert mistakes == [
        ", row 2: has 1 fields separated by tabs, not 2 or 3 (1 more like it)",
    ]
    assert len(result) == 1


def test_quotes_around_a_tsv_field_are_taken_off(tmp_path):
    for field, text in (
        (b'"a ""b"" c"', 'a "b" c'),
        (b'say "x"', 'say "x"'),
        (b'"a" and "b"', '"a" and "b"'),
        (b'"', '"'),
        (b'""', ""),
    ):
        result, _ = read(write(tmp_path / "f.tsv", b"1\t" + field), COLUMNS, (("label", "text"),))
        assert result[0][1]["text"] == text


def test_texts_are_utf_8_and_not_empty():
    mistakes = Mistakes()
    assert text_of("aå", "f", mistakes) == "aå".encode()
    assert text_of(b"a\xc3\xa5", "f", mistakes) == b"a\xc3\xa5"
    for value in ("", b"", None, 3, b"\xff", "a\ud83d"):
        assert text_of(value, "f, row 2", mistakes) is None
    assert mistakes.texts == [
        "f, row 2: the text is empty; leave the row out (1 more like it)",
        "f, row 2: the text is 'None', of type NoneType; give a text",
        "f, row 2: the text is '3', of type int; give a text",
        "f, row 2: is not UTF-8 (byte 0xff at 0); convert the file to UTF-8",
        "f, row 2: character 1 of the text is none of its own (a lone surrogate)",
    ]


def test_labels_are_names_or_whole_numbers_however_they_are_written():
    mistakes = Mistakes()
    assert [label_of(value, "f", mistakes) for value in (1, 1.0, "1", "1.0", " pos ", True, "1.5", 10**400)] == [
        "1",
        "1",
        "1",
        "1",
        "pos",
        "1",
        "1.5",
        str(10**400),
    ]
    for value in (None, "", "  ", 0.5, float("nan"), [1], "inf"):
        label_of(value, "f, row 3", mistakes)
    assert mistakes.texts[0] == "f, row 3: the label is None; give a name or a whole number"
    assert len(mistakes) == 6  # "inf" is a name
    assert in_order({"10", "9", "-1"}) == ["-1", "9", "10"]
    assert in_order({"10", "9", "b"}) == ["10", "9", "b"]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.integers(-5, 5)), max_size=5))
def test_what_is_written_is_what_is_read(examples):
    with tempfile.TemporaryDirectory() as folder:
        lines = "\n".join(json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in examples)
        result, mistakes = read(write(Path(folder) / "f.jsonl", lines.encode()))
        assert [(row["text"], row["label"]) for _, row in result] == examples
        assert mistakes == []
        plain = [(text, label) for text, label in examples if not set(text) & set('\t\n\r"')]
        lines = "\n".join(f"{label}\t{text}" for text, label in plain)
        result, mistakes = read(write(Path(folder) / "f.tsv", lines.encode()), COLUMNS, (("label", "text"),))
        assert [(row["text"], int(row["label"])) for _, row in result] == plain


@settings(deadline=None, max_examples=80)
@given(
    st.binary(max_size=300),
    st.sampled_from(["jsonl", "jsonl.gz", "jsonl.xz", "tsv", "parquet"]),
    st.sampled_from([b"", b'{"text": "a", "label": 1}\n', b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"PAR1"]),
)
def test_any_bytes_give_rows_or_mistakes(content, ending, start):
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(BadInput):
        result, _ = read(write(Path(folder) / f"f.{ending}", start + content), COLUMNS, (("label", "text"),))
        for location, row in result:
            mistakes = Mistakes()
            text, label = text_of(row["text"], location, mistakes), label_of(row["label"], location, mistakes)
            assert (text is None) + (label is None) == len(mistakes.texts)
