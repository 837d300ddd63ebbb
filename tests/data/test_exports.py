"""Exports of instruments: what stands around their tables is passed over where that is certain, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import command
from support.made_files import needs, workbook
from support.made_tables import numbers, read, why, wide, write

from headstart.data import LayoutSpec, Sequences, read_blocks
from headstart.data.card import data_card
from headstart.data.exports import is_unit

VALUES = numbers(12, 6).astype(np.float32)
NAMES, *ROWS = wide()


def plainly(sequences: Sequences) -> None:
    """The twelve sequences of the table, and nothing else."""
    np.testing.assert_array_equal(sequences.values.reshape(12, 6), VALUES)
    assert (sequences.layout.id, sequences.layout.target) == ("id", "label")
    assert sequences.labels == tuple("ab" * 6)


def text(*lines: str, end: str = "\n") -> str:
    return "".join(line + end for line in lines)


ABOVE = {
    "comments": ["# Sample: A", "# Rate 50 Hz"],
    "colons": ["Device: LoggerX v2.1", "Sample rate: 50 Hz", "Date: 2024-03-01", ""],
    "a title": ["Heart rates of spring"],
    "dashes": ["----- made by the logger -----", "Start 10:00:00", "Epoch (hh:mm:ss) 00:00:15", "-----"],
    "pairs": ["device,M5", "rate,50", ""],
    "pairs filled up": [f"device,M5{',' * 6}", f"rate,50{',' * 6}", "," * 7],
    "percents": ["% made by hand", "%"],
}


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_above_the_header_are_passed_over_and_said(above: str, end: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text(*ABOVE[above], NAMES, *ROWS, end=end))
    sequences = read(path)
    plainly(sequences)
    count = len(ABOVE[above])
    lines = "1 line above the table was" if count == 1 else f"{count} lines above the table were"
    assert sequences.notes[0] == f"{lines} passed over (--skip sets how many)"
    assert sequences.places.of(0) == f"{path}:{count + 2}"
    plainly(read(path, skip=count))


def test_a_mistake_below_lines_that_are_passed_over_is_named_by_its_line(tmp_path: Path) -> None:
    bad = ROWS[3].rpartition(",")[0] + ",bad"
    path = write(tmp_path / "f.csv", text("Device: X", "", NAMES, *ROWS[:3], bad, *ROWS[4:]))
    assert why(path).startswith("f.csv:7 column 't5': 'bad' is not a number")


@pytest.mark.parametrize(
    "units",
    [["", "", *["mV"] * 6], ["-", "-", *["mV"] * 6], ["", "", *["(m/s^2)"] * 6], ["string", "string", *["float"] * 6]],
)
def test_a_row_of_units_or_types_is_passed_over_and_said(units: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text(NAMES, ",".join(units), *ROWS))
    plainly(read(path))
    assert read(path).notes[0].startswith("line 2 was passed over as units or types (")
    assert "--units-row sets how many" in read(path).notes[0]
    plainly(read(path, units_row=1))
    assert "is not a number" in why(path, units_row=0)


def test_two_rows_of_units_below_lines_of_the_instrument_are_passed_over(tmp_path: Path) -> None:
    units = [",".join(["", "", *["mV"] * 6]), ",".join(["-", "-", *["s"] * 6])]
    path = write(tmp_path / "f.csv", text("Logger 5", NAMES, *units, *ROWS))
    plainly(read(path))
    assert "lines 3 to 4 were passed over as units or types" in read(path).notes[1]


@pytest.mark.parametrize(
    "rows",
    [
        ["string,string,c,c,c,c,c,c", "meta,class,,,,,,"],
        [",,raw counts,raw counts,raw counts,raw counts,raw counts,raw counts"],
        ["string,yes no,c,c,c,c,c,c"],
    ],
)
def test_rows_of_types_and_flags_hide_no_header(rows: list[str], tmp_path: Path) -> None:
    plainly(read(write(tmp_path / "f.csv", text(NAMES, *rows, *ROWS))))


def test_exports_below_one_another_are_one_table(tmp_path: Path) -> None:
    units = "-,-,mV,mV,mV,mV,mV,mV"
    sequences = read(write(tmp_path / "f.csv", text("Device: X", NAMES, units, *ROWS[:6], "", NAMES, units, *ROWS[6:])))
    plainly(sequences)
    assert "2 repeated headers were passed over" in sequences.notes


def test_a_title_over_two_lines_is_told_with_a_way_that_works(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text('"A title', 'of two lines"', NAMES, *ROWS))
    assert why(path).startswith("f.csv:3: holds words ('t0', 't1', 't2' and 3 more)")
    assert "--skip 2 where they are the header" in why(path)
    plainly(read(path, skip=2))


def test_two_lines_that_may_both_be_the_header_are_asked_about_and_both_ways_work(tmp_path: Path) -> None:
    other = ",".join(["subject", "state", *(f"Reading{'ABCDEF'[i]}" for i in range(6))])
    path = write(tmp_path / "f.csv", text(other, NAMES, *ROWS))
    message = why(path)
    assert message.startswith("f.csv:2: holds words ('t0', 't1', 't2' and 3 more) where the rows below hold numbers")
    assert "give --skip 1 where line 2 is the header, --units-row 1 where line 1 is" in message
    plainly(read(path, skip=1))
    assert read(path, units_row=1).layout.target == "state"


def test_names_in_a_comment_above_rows_of_numbers_are_the_header(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text("# made by numpy", "# " + NAMES, *ROWS))
    plainly(read(path))
    assert "names of columns were read from the comment in line 2" in read(path).notes


@pytest.mark.parametrize("first", ["sep=;", "\ufeffsep=;", '"sep=;"'])
def test_a_line_for_excel_that_names_the_separator_is_passed_over(first: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text(first, *wide(mark=";")))
    plainly(read(path))


@pytest.mark.parametrize("which", ["rows", "some rows", "header too", "several"])
def test_separators_at_the_ends_of_lines_make_no_column(which: str, tmp_path: Path) -> None:
    ends = {"rows": ",", "some rows": ",", "header too": ",", "several": ",,,"}[which]
    head = NAMES + (ends if which in ("header too", "several") else "")
    rows = [row + (ends if which != "some rows" or i % 3 == 0 else "") for i, row in enumerate(ROWS)]
    sequences = read(write(tmp_path / "f.csv", text(head, *rows)))
    plainly(sequences)
    assert sequences.layout.unused == ()


def test_a_cell_behind_the_header_is_refused_though_others_are_empty(tmp_path: Path) -> None:
    rows = [f"{row}," for row in ROWS[:-1]] + [f"{ROWS[-1]},7"]
    assert why(write(tmp_path / "f.csv", text(NAMES, *rows))).startswith("f.csv:13: has 9 cells, the header has 8")


def test_a_header_that_comes_again_comments_and_a_last_line_are_passed_over_and_counted(tmp_path: Path) -> None:
    lines = [NAMES, *ROWS[:4], NAMES, *ROWS[4:7], "# pause", *ROWS[7:], "", "Total rows: 12"]
    sequences = read(write(tmp_path / "f.csv", text(*lines)))
    plainly(sequences)
    assert {
        "1 repeated header was passed over",
        "1 comment was passed over",
        "1 closing line was passed over",
    } <= set(sequences.notes)


def test_a_last_row_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    for last in ("s11,b,0.5", "s11"):
        assert "the row is cut short" in why(write(tmp_path / "f.csv", text(NAMES, *ROWS[:-1], last)))


def test_comments_of_a_mark_of_their_own_are_passed_over_where_it_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text("!made by hand", NAMES, *ROWS[:5], f"!{ROWS[5]}", *ROWS[5:]))
    plainly(read(path, comment="!"))
    done = command("show", "f.csv", "--comment", "!", cwd=tmp_path)
    assert "12, all of them labelled" in done.stdout


def test_a_table_of_two_columns_below_pairs_is_read(tmp_path: Path) -> None:
    rows = [f"{i}.5,{i * i % 7}.25,{'ab'[i // 6]}" for i in range(12)]
    path = write(tmp_path / "f.csv", text("Device,Logger,", "Rate,50,Hz", "value,other,kind", *rows))
    sequences = read(path, values=("value", "other"))
    assert (len(sequences), sequences.layout.target) == (12, "kind")


def test_a_clean_file_is_read_as_it_stands(tmp_path: Path) -> None:
    assert not read(write(tmp_path / "f.csv", text(NAMES, *ROWS))).notes
    texts = [f"#tag number {i},{'ab'[i % 2]}" for i in range(12)]
    sequences = read(write(tmp_path / "g.csv", text("text,label", *texts)))
    assert len(sequences) == 12


def test_a_large_export_is_read_by_arrow_and_in_blocks_as_row_by_row(tmp_path: Path, monkeypatch: Any) -> None:
    lines = ["Device: X", "", NAMES, ",".join(["-", "-", *["mV"] * 6]), *(f"{row}," for row in ROWS * 100)]
    path = write(tmp_path / "f.csv", text(*lines))
    slow = read(path)
    layout = slow.layout.fixed()
    blocks = list(read_blocks(path, layout, 20_000))
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), slow.values)
    assert blocks[0].places.of(0) == slow.places.of(0) == f"{path}:5"
    assert blocks[-1].places.of(len(blocks[-1]) - 1) == slow.places.of(len(slow) - 1)
    monkeypatch.setattr("headstart.data.csv.PARSED_BYTES", 0)
    monkeypatch.setattr("headstart.data._latest", {}, raising=False)
    monkeypatch.setattr("headstart.data.csv._any_table", None)
    np.testing.assert_array_equal(read(path, id="id").values, slow.values)


def test_an_export_is_predicted_as_it_was_fitted(tmp_path: Path) -> None:
    units = ",".join(["-", "-", *["mV"] * 6])
    layout = read(write(tmp_path / "f.csv", text("Device: X", NAMES, units, *ROWS))).layout.fixed()
    assert layout.document() == LayoutSpec(**dict(layout)).document()
    new = write(tmp_path / "new.csv", text("Device: Y", "Another line", NAMES, units, *ROWS[:3]))
    np.testing.assert_array_equal(read(new, **dict(layout)).values, VALUES[:3].reshape(-1, 1))


def test_a_sheet_with_a_title_and_units_is_read(tmp_path: Path) -> None:
    needs("xlsx")
    rows: list[list[Any]] = [["Heart rates"], [], NAMES.split(","), [None, None, *["mV"] * 6]]
    rows += [[row.split(",")[0], row.split(",")[1], *map(float, row.split(",")[2:])] for row in ROWS]
    sequences = read(workbook(tmp_path / "f.xlsx", {"Data": rows}))
    plainly(sequences)
    assert "2 lines above the table were passed over (--skip sets how many)" in sequences.notes


def test_the_card_says_what_was_passed_over(tmp_path: Path) -> None:
    card = data_card(read(write(tmp_path / "f.csv", text("Device: X", NAMES, *ROWS))))
    assert ("note", "1 line above the table was passed over (--skip sets how many)") in card.head


def test_units_are_told_from_names() -> None:
    for unit in ("mV", "(s)", "[°C]", "m/s^2", "m/s²", "-", "", "%", "uV", "µV", "bpm", "mmHg", "deg/s"):
        assert is_unit(unit), unit
    for name in ("time", "id", "state", "t0", "acc_x", "EEG", "label", "walk", "V5", "x1"):
        assert not is_unit(name), name


def test_a_skip_beyond_the_file_is_refused(tmp_path: Path) -> None:
    assert why(write(tmp_path / "f.csv", text(NAMES, *ROWS)), skip=40).startswith("f.csv: skip: it has 13 lines")


@pytest.mark.parametrize("unit", [" mg", "%", " °C", "mV", " m/s"])
def test_a_unit_in_each_cell_of_a_column_of_numbers_is_left_out_and_said(unit: str, tmp_path: Path) -> None:
    rows = [f"{row},{40 + i}.{i:02}{unit}" for i, row in enumerate(ROWS)]
    path = write(tmp_path / "f.csv", text(f"{NAMES},dose", *rows))
    sequences = read(path, target="dose")
    assert sequences.target == "number"
    np.testing.assert_allclose(sequences.numbers(), [40 + i + i / 100 for i in range(12)])
    assert f"the unit {unit.strip()!r} is left out of the numbers of 'dose'" in sequences.notes


@pytest.mark.parametrize(
    ("mark", "form"),
    [(",", "${}"), (",", "{} €"), (",", "US$ {}"), (",", "{} USD"), (";", "{} €"), (";", "{} N"), (";", "€ {}")],
)
@pytest.mark.parametrize("thousands", [False, True])
def test_numbers_with_a_currency_or_a_unit_are_numbers(mark: str, form: str, thousands: bool, tmp_path: Path) -> None:
    values = [1000 + 7 * i + i / 100 for i in range(24)]

    def cell(value: float) -> str:
        word = f"{value:,.2f}" if thousands else f"{value:.2f}"
        word = word.translate(str.maketrans(".,", ",.")) if mark == ";" else word
        return f'"{form.format(word)}"'

    rows = [mark.join([str(i // 6), str(i % 6), cell(value), "ab"[i // 12]]) for i, value in enumerate(values)]
    sequences = read(write(tmp_path / "f.csv", text(mark.join(["run", "t", "amount", "grade"]), *rows)))
    assert sequences.kind == "numbers"
    np.testing.assert_allclose(sequences.values[:, 0], values, rtol=1e-6)
    assert any("is left out of the numbers of 'amount'" in note for note in sequences.notes)


@pytest.mark.parametrize("form", ["({})", "(${})", "$({})", "({} €)", "€ ({})"])
@pytest.mark.parametrize("thousands", [False, True])
def test_numbers_of_an_account_in_brackets_are_below_zero(form: str, thousands: bool, tmp_path: Path) -> None:
    values = (np.random.default_rng(1).normal(0, 2000, (12, 4))).round(2)

    def cell(value: float) -> str:
        word = f"{abs(value):,.2f}" if thousands else f"{abs(value):.2f}"
        word = form.format(word)
        return f'"{word if value < 0 else word.replace("(", "").replace(")", "")}"'

    rows = [f"r{i},{'ab'[i % 2]},{','.join(map(cell, row))}" for i, row in enumerate(values.tolist())]
    sequences = read(write(tmp_path / "f.csv", text("id,label,m0,m1,m2,m3", *rows)))
    np.testing.assert_allclose(sequences.values[:, 0], values.reshape(-1), rtol=1e-6)
    (note,) = sequences.notes
    text_of_note = "minus is written as brackets in" if form == "({})" else "is left out of"
    assert text_of_note in note
    assert note.endswith("the numbers of 'm0', 'm1', 'm2' and 1 more")


@pytest.mark.parametrize("form", ["~{:.2f}", "{:.2f}±0.05", "0x{:04X}", "{}/80", "{:.1f} to 9", "v{:.2f}"])
def test_cells_that_nearly_all_differ_and_hold_digits_are_no_symbols_unless_it_is_said(
    form: str, tmp_path: Path
) -> None:
    values = [form.format(1000 + 7 * i) for i in range(24)]
    rows = [f"{i // 6},{i % 6},{word},{'ab'[i // 12]}" for i, word in enumerate(values)]
    path = write(tmp_path / "f.csv", text("run,t,amount,grade", *rows))
    assert "--kind tokens where each is a symbol" in why(path)
    assert read(path, kind="tokens").kind == "tokens"


def test_symbols_with_digits_that_come_again_are_symbols(tmp_path: Path) -> None:
    rows = [f"{i // 6},{i % 6},item{i % 7},{'ab'[i // 12]}" for i in range(24)]
    assert read(write(tmp_path / "f.csv", text("run,t,amount,grade", *rows))).kind == "tokens"


def test_few_numbers_with_a_unit_are_classes_and_ids_stay_texts(tmp_path: Path) -> None:
    rows = [f"{1000 + i}A,{5 + 5 * (i % 2)} mg,{row.split(',', 2)[2]}" for i, row in enumerate(ROWS)]
    sequences = read(write(tmp_path / "f.csv", text(NAMES, *rows)))
    assert sequences.classes == ("10 mg", "5 mg")
    assert sequences.ids is not None
    assert sequences.ids[0] == "1000A"


def test_units_in_values_are_read_alike_where_a_model_is_served(tmp_path: Path) -> None:
    def row(i: int, first: float) -> str:
        return f"s{i},{'ab'[i % 2]},{first:.1f} mV,{i + 1} mV,{i + 2} mV"

    path = write(tmp_path / "f.csv", text("id,label,t0,t1,t2", *(row(i, i + 0.5) for i in range(20))))
    layout = read(path).layout.fixed()
    new = write(tmp_path / "new.csv", text("id,label,t0,t1,t2", row(1, 2), row(2, 4)))
    assert read(new, **dict(layout)).values[:, 0].tolist() == [2, 2, 3, 4, 3, 4]


def test_a_header_above_nothing_but_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", text(NAMES, *ROWS[:4]))
    assert len(read(path)) == 4
    alone = write(tmp_path / "g.csv", text(NAMES, NAMES, NAMES))
    assert why(alone).startswith("g.csv: ")


@pytest.mark.parametrize("ends", [["Mean", "Std"], ["Total:"], ["Std. Dev."]])
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_sum_up_those_above_are_passed_over_and_said(
    ends: list[str], ids: bool, whole: bool, tmp_path: Path
) -> None:
    rows = [f"{'s' * ids}{i},{row.split(',', 1)[1]}" for i, row in enumerate(ROWS)]
    sums = [f"{word},{'b' * whole},{','.join(['0.5'] * 6)}" for word in ends]
    sequences = read(write(tmp_path / "f.csv", text(NAMES, *rows, *sums)))
    plainly(sequences)
    assert any("up those above" in note and repr(ends[0].strip()) in note for note in sequences.notes)


def test_classes_that_are_named_as_sums_are_rows(tmp_path: Path) -> None:
    rows = [f"{('mean', 'max')[i % 2]},{row.split(',', 2)[2]}" for i, row in enumerate(ROWS)]
    names = f"label,{NAMES.split(',', 2)[2]}"
    assert len(read(write(tmp_path / "f.csv", text(names, *rows)))) == 12


@pytest.mark.parametrize(
    ("above", "names"),
    [
        (["#Laser=\t532 nm", "#Date=\t05.03.2024", "#Unit[0]=\tCnt"], ("1", "2")),
        (["Injection:", "Volume\t10", "", "Chromatogram Data:", "Time (min)\tValue"], ("Time (min)", "Value")),
    ],
)
def test_lines_of_a_name_and_a_value_are_no_header(above: list[str], names: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", "\n".join([*above, *(f"{i * 0.5:.1f}\t{i % 7}.25" for i in range(60))]) + "\n")
    result = read(path, window=10)
    assert (result.layout.time, *result.channels) == names
    np.testing.assert_allclose(result.values[:, 0], [i % 7 + 0.25 for i in range(60)])


def test_rows_below_pairs_need_no_header_and_milliseconds_may_stand_behind_a_colon(tmp_path: Path) -> None:
    lines = ["Device,X1", "Sex,female", *[""] * 5, "Units,g"]
    lines += [f"2024-03-05 09:12:44:{20 * i:03d},{i}.5,{i % 3}.25,0.125,1,0" for i in range(40)]
    result = read(write(tmp_path / "f.csv", "\n".join(lines) + "\n"), window="200ms")
    assert (len(result), result.lengths[0], result.values[:3, 0].tolist()) == (4, 10, [0.5, 1.5, 2.5])


def test_a_blank_between_the_sign_and_a_number_is_passed_over_and_said(tmp_path: Path) -> None:
    rows = [f"{i * 0.5:.1f},{'+-'[i % 2]}   {i}.5,a" for i in range(40)]
    result = read(write(tmp_path / "f.csv", "\n".join(["time,x,label", *rows])), window=10)
    assert result.values[:3, 0].tolist() == [0.5, -1.5, 2.5]
    assert "blanks between the sign and a number are passed over" in result.notes
    bullets = "".join(f"- {i} apples and pears,{'ab'[i % 2]}\n" for i in range(20))
    texts = read(write(tmp_path / "g.csv", f"text,label\n{bullets}"))
    assert bytes(texts.values[:6].tolist()) == b"- 0 ap"


def test_a_line_about_the_file_with_fewer_cells_than_the_header_is_no_header(tmp_path: Path) -> None:
    rows = [f"{i * 0.5:.1f},{i % 7}.5,{i % 5}.5" for i in range(40)]
    above = ['"HIOKI 8861"', '"Channels","2"', '"Sampling interval","1ms"', "", '"Time","CH1[V]","CH2[V]"']
    result = read(write(tmp_path / "f.csv", "\n".join([*above, *rows])), window=10)
    assert (result.layout.time, result.channels) == ("Time", ("CH1[V]", "CH2[V]"))


def test_a_line_of_names_with_values_above_rows_without_a_header_is_passed_over(tmp_path: Path) -> None:
    above = "title:s1, recorded:05.03.24, sampling:128, subject:P1, chan:3, units:emotiv"
    rows = [f"{i % 7}.5,{i % 5}.25,{i % 3}.125" for i in range(40)]
    result = read(write(tmp_path / "f.csv", "\n".join([above, *rows])), window=10)
    assert (len(result), result.width, result.values[0].tolist()) == (4, 3, [0.5, 0.25, 0.125])
