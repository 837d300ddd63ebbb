"""Arrow's parser of plain text tables and the reader that goes row by row: the same cells, or the same message."""

from __future__ import annotations

import gzip
import lzma
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.csv as arrow_csv
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from headstart.data import LayoutSpec, csv, read_sequences
from headstart.data.csv import PARSED_BYTES, read_csv
from headstart.errors import BadInput, Mistakes

BOM = b"\xef\xbb\xbf"
ROWS = [f"s{i},{'ab'[i % 2]},{i}.5,{i + 1},{2 * i}" for i in range(30)]
PLAIN = "\n".join(["id,label,t0,t1,t2", *ROWS]) + "\n"
LONG = "id,time,label,x\n" + "".join(f"{i // 10:03},{i % 10},{'ab'[i // 10 % 2]},{i}.25\n" for i in range(100))
LETTERS = "label,dna\n" + "".join(f"{'ab'[i % 2]},ACGT{'ACGT'[i % 4] * 20}\n" for i in range(20))
PROSE = "text,label\n" + "".join(f"it was a long day number {i},{'ab'[i % 2]}\n" for i in range(20))


def outcome(path: Path, spec: LayoutSpec, by_arrow: bool, block: int = 2**20) -> tuple[tuple[Any, ...], int]:
    """(all that is read of a file: cells, lines and sequences, or the message), and how often Arrow's parser read it.

    block: bytes that Arrow parses at once.
    """
    tables: list[Any] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        table = of_lines(*arguments, **options)
        tables.extend([] if table is None else [table])
        return table

    of_lines = csv.of_lines
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "PARSED_BYTES", 0 if by_arrow else sys.maxsize)
        patch.setattr("headstart.data.table.SINGLE_CELLS", 0 if by_arrow else sys.maxsize)  # cells as numbers, too
        patch.setattr(csv, "of_lines", counted)
        patch.setattr(arrow_csv, "ReadOptions", partial(arrow_csv.ReadOptions, block_size=block))
        patch.setattr("headstart.data.sources._latest", {})
        try:
            mistakes = Mistakes()
            table = read_csv(path, spec, mistakes)
            mistakes.check()
            cells = [(column.name, column.type, repr(column.data.to_pylist())) for column in table.columns.values()]
            read = (cells, table.places.lines, table.rows, table.notes, table.written, table.header, table.decimal)
        except BadInput as error:
            return (str(error),), len(tables)
        count = len(tables)
        try:
            s = read_sequences(path, spec)
        except BadInput as error:
            return (repr(read), str(error)), count
    there = None if s.observed is None else s.observed.tobytes()
    numbers = (s.values.dtype, s.values.tobytes(), there, s.offsets.tobytes(), repr(s.times))
    places = [s.places.of(row) for row in range(len(s))]
    return (repr(read), *numbers, s.ids, s.labels, s.groups, s.channels, s.layout, s.notes, places), count


def written(folder: Path, content: str | bytes) -> Path:
    """A CSV file of that content."""
    path = folder / "f.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def check_alike(path: Path, spec: LayoutSpec, block: int = 2**20) -> tuple[tuple[Any, ...], int]:
    row_by_row, none = outcome(path, spec, by_arrow=False)
    assert none == 0
    by_arrow, count = outcome(path, spec, by_arrow=True, block=block)
    assert by_arrow == row_by_row
    return by_arrow, count


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (PLAIN, {}),
        (PLAIN.rstrip("\n"), {}),
        (PLAIN.replace("\n", "\r\n"), {}),
        (BOM + PLAIN.encode(), {}),
        (BOM + BOM + PLAIN.encode(), {}),
        (PLAIN.replace(",", ";"), {}),
        (PLAIN.replace(",", "\t"), {}),
        (PLAIN.replace(",", ";").replace(".", ","), {}),
        (PLAIN.replace("s1,", '"s1",'), {}),
        (PLAIN.replace("s1,", '"s,1",'), {}),
        ("\n".join('"' + line.replace(",", '","') + '"' for line in PLAIN.splitlines()), {}),
        (PLAIN.replace("id,", '"i,d",').replace("\n", "\r\n").replace("s2,", '"s;2",'), {"id": "i,d"}),
        (PLAIN.replace("s1,", "'s1',").replace("s3", '"s3"'), {"quote": "'"}),
        (PLAIN.replace("s1,", '"s1",'), {"quote": ""}),
        (PLAIN.replace("s1,", '"s1",'), {"quote": "'"}),
        (PLAIN.partition("\n")[2], {"target": "2", "id": "1"}),
        (PLAIN.replace("s1,", "s\x0b\x0c\x1c\x85\u20281,"), {}),
        (PLAIN.encode() + BOM + b"s31,a,1,2,3\n", {}),
        (PLAIN + f"{'x' * 5_000}\0,a,1,2,3\n", {}),
        (PLAIN.replace("id,", "Größe,"), {}),
        (LONG, {}),
        (LETTERS, {}),
        (PROSE, {}),
        ("\n".join(f"it was a long day number {i}" for i in range(20)), {}),
    ],
)
def test_plain_files_are_read_by_arrow_as_they_are_row_by_row(
    tmp_path: Path, content: str | bytes, options: dict[str, Any]
) -> None:
    read, count = check_alike(written(tmp_path, content), LayoutSpec(**options))
    assert (len(read), count) == (13, 1)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("\n" + PLAIN, {}),
        ("\r\n" + PLAIN.replace("\n", "\r\n"), {}),
        (BOM + b"\n" + PLAIN.encode(), {}),
        ("\n" + PROSE, {}),
        (PLAIN.replace("s3,", "\ns3,"), {}),
        (PLAIN + "\n\n", {}),
        (PLAIN.replace("s1,", '"s""1",'), {}),
        (PLAIN.replace("s1,", '"",'), {"id": ""}),
        (PLAIN.replace("s1,", ' "s1",'), {}),
        (PLAIN.replace("s1,", '"s\n1",'), {}),
        (PLAIN + '"id",label,t0,t1,t2\n', {}),
        (PLAIN.replace("id,", '"id",') + "id,label,t0,t1,t2\n", {}),
        (PLAIN.replace("\n", "\r"), {}),
        (PLAIN.replace(",", "§"), {"delimiter": "§"}),
        ("\n".join(f"  {1 + i % 2}   {7 * i % 30}.5  {11 * i % 30 / 7:.3f}" for i in range(30)), {}),
        (PLAIN.encode("utf-16"), {"encoding": "utf-16"}),
        (BOM + PLAIN.encode(), {"encoding": "utf-8-sig"}),
    ],
)
def test_files_that_are_not_plain_are_read_row_by_row(
    tmp_path: Path, content: str | bytes, options: dict[str, Any]
) -> None:
    read, count = check_alike(written(tmp_path, content), LayoutSpec(**options))
    assert (len(read), count) == (13, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n" + PLAIN + "s31,a,1", "f.csv:33: has 3 cells, the header has 5; the row is cut short"),
        (PLAIN.replace("id,", "Größe,").encode("latin-1"), "f.csv:1: is not utf-8 (byte 0xf6 after 'Gr')"),
        (PLAIN.replace("s3,", "sé,").encode("latin-1"), "f.csv:5: is not utf-8 (byte 0xe9 after 's')"),
        (PLAIN.encode() + b"\xed\xa0\x80,a,1,2,3\n", "f.csv:32: is not utf-8 (byte 0xed after '')"),
        (PLAIN + "s31\r,a,1,2,3\n", "f.csv:32: has 1 cell, the header has 5; the row is cut short"),
        (PLAIN + "s31,a,1,2,3,4\n", "f.csv:32: has 6 cells, the header has 5; a text that holds the separator"),
        (PLAIN + "s31,a,1,,0x10\n", "f.csv:32 column 't2': '0x10' is not a number"),
        (PLAIN + "s31,a,1,1_000,2\n", "f.csv:32 column 't1': '1_000' is not a number"),
        (PLAIN + "s31,a,1e39,2,3\n", "f.csv:32 column 't0': '1e39' is infinite, or beyond 3e38"),
        (PLAIN + ",a,1,2,3\n", "f.csv:32 column 'id': the id is empty"),
        (PLAIN.replace("t1", "t0"), "f.csv:1: column 't0' is there twice (columns 3 and 4)"),
    ],
)
def test_what_is_wrong_is_said_alike(tmp_path: Path, content: str | bytes, message: str) -> None:
    read, _ = check_alike(written(tmp_path, content), LayoutSpec())
    assert read[-1].replace(f"{tmp_path}/", "").startswith(message)


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_is_the_same_above_the_size_from_which_on_arrow_reads_it(tmp_path: Path, ending: str, pack: Any) -> None:
    rows = "\n".join(f"{i:05},{'ab'[i % 2]},{i / 7:.9f},{i}e-3,{i * 0.5}" for i in range(26_000))
    plain = f"id,label,t0,t1,t2\n{rows}"
    plain = f"{'i' * (PARSED_BYTES - 1 - len(plain))}{plain}"
    results = []
    for name, content, extra in (("below", plain, 0), ("above", plain + "\n", 1)):
        path = tmp_path / name / f"f.csv{ending}"
        path.parent.mkdir()
        path.write_bytes(pack(content.encode()))
        assert len(content) == PARSED_BYTES - 1 + extra
        with pytest.MonkeyPatch.context() as patch:
            if not extra:
                patch.setattr(csv, "of_lines", None)
            else:
                patch.setattr(csv, "_any_table", None)
            s = read_sequences(path)
        results.append((s.values.tobytes(), s.labels, s.ids, s.notes, s.places.of(25_999).rpartition(":")[2]))
    assert results[0] == results[1]
    assert results[0][-1] == "26001"


NUMBERS = ["1.5", "-2", "1e3", "1E3", "+1", " 7 ", "\u00a01", ".5", "1.", "007", "9007199254740993", "1e-320", "0.1"]
GAPS = ["", " ", "nan", "NaN", "NA", "-999", "-999.0"]
WRONG = ["0x10", "1_000", "1,5", "1e400", "inf", "-nan", "nan(1)", "null", "true", "2020-01-01", "1 2", "\x1c1", "١"]
WORDS = ["007", "7", "7.0", "true", "2020-01-01", "1e3", "NA", "null", "a b", " x ", "é", "\ufeffx", "\x0by", "\u2028z"]
PROSES = ["it was a long day", "the night, though", "né à Paris 😀", "semi;colon | bar\ttab", "1 2 3", "[1, 2, 3]"]
HARMS = [
    b'"',
    b'""',
    b'"s9"x',
    b"",
    b"\n",
    b"\r\n",
    b"\r",
    b"s9",
    b'"s9"',
    b's"9',
    b'"s\n9"',
    b"\xe9",
    b"\xed\xa0\x80",
    BOM,
]


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A text table of a few rows, plain or harmed, and settings to read it by."""
    mark, end = draw(st.sampled_from([",", ";", "\t", "|"])), draw(st.sampled_from(["\n", "\r\n"]))
    cells = st.sampled_from(NUMBERS * 4 + GAPS + draw(st.sampled_from([[], [], [], WRONG])))
    columns = {"id": st.sampled_from(WORDS), "label": st.sampled_from(["a", *WORDS]), "text": st.sampled_from(PROSES)}
    names, header = draw(st.permutations([*columns, "t0", "t1", "t2"])), draw(st.booleans())
    rows = [[draw(columns.get(name, cells)) for name in names] for _ in range(draw(st.integers(1, 12)))]
    quoted = draw(st.sampled_from([(), (), ("label",), ("id", "text"), names, ("t0", "text")]))
    hidden = mark if draw(st.booleans()) and quoted else "_"  # a separator inside of quotes

    def cell(name: str, text: str) -> str:
        return f'"{text.replace(mark, hidden)}"' if name in quoted else text.replace(mark, "_")

    cut_rows = [map(cell, names, row) for row in [names] * header + rows]
    lines = [mark.join(row).encode() for row in cut_rows]
    harm = draw(st.sampled_from([None] * 2 * len(HARMS) + HARMS))
    if harm is not None:  # before a line, or in place of it
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = harm + (lines[at] if draw(st.booleans()) else b"")
    lines = draw(st.sampled_from([[], [], [], [b""]])) + lines + draw(st.sampled_from([[], [b""]]))
    content = draw(st.sampled_from([b"", BOM])) + end.encode().join(lines)

    def columns_of(*wanted: str) -> tuple[str, ...]:
        return tuple(name if header else str(names.index(name) + 1) for name in wanted)

    identifier, label, text, *numbers = columns_of("id", "label", "text", "t0", "t1", "t2")
    own: dict[str, Any] = {"header": header, "delimiter": mark, "quote": draw(st.sampled_from(['"', ""]))}
    own |= {"na": draw(st.sampled_from([(), ("NA", "-999")])), "id": identifier, "target": label}
    shapes: list[dict[str, Any]] = [
        {"shape": "wide", "values": tuple(numbers)},
        {"shape": "text", "values": (text,)},
        {"shape": "long", "values": tuple(numbers), "target": "", "time": ""},
    ]
    return content, draw(st.sampled_from([{}, *(own | shape for shape in shapes)]))


@settings(max_examples=200, deadline=None)
@example(written=(b"007,a,it was a long day,1.5,1.5,\x1c1", {}), block=2**20)
@given(files(), st.sampled_from([2**20, 100, 30]))
def test_any_file_is_read_by_arrow_as_it_is_row_by_row(
    tmp_path_factory: pytest.TempPathFactory, written: tuple[bytes, dict[str, Any]], block: int
) -> None:
    content, options = written
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    read, count = check_alike(path, LayoutSpec(**options), block)
    event(f"{'sequences' if len(read) > 2 else 'a message'} by {'Arrow' if count else 'rows'}")


@pytest.mark.parametrize("empty", ["", "\ufeff", ",,,", "\r"])
def test_an_empty_line_above_a_header_of_numbers_is_no_header(empty: str, tmp_path: Path) -> None:
    rows = "\n".join(f"a,{i},{i}.5,{i + 1}" for i in range(8))
    read, _ = check_alike(written(tmp_path, f"{empty}\nid,1,2,3\n{rows}\n"), LayoutSpec(header=True))
    assert "'id', 'a'" not in read[0]
