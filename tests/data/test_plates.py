"""Exports of plate readers: times, counts and temperatures that stand among wells are no sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_files import needs, workbook
from support.made_tables import numbers, read, why, write

from headstart.data import LayoutSpec, read_blocks

WELLS = [f"{letter}{i}" for letter in "ABC" for i in range(1, 5)]
VALUES = numbers(12, 10)
TIMES = [f"{300.2 * i:.1f}" for i in range(10)]
CLOCKS = [
    ["Cycle Nr.", *map(str, range(1, 11))],
    ["Time [s]", *TIMES],
    ["Temp. [°C]", *["37.1"] * 10],
]


def lying(factor: float = 1.0) -> list[list[str]]:
    """Rows of wells below those of counts, times and temperatures."""
    rows = [[well, *map(str, (factor * row).tolist())] for well, row in zip(WELLS, VALUES, strict=True)]
    return [*CLOCKS, *rows]


def text(rows: list[list[str]], mark: str = ",") -> str:
    return "\n".join(mark.join(row) for row in rows) + "\n"


def turned(rows: list[list[str]]) -> list[list[str]]:
    return [list(row) for row in zip(*rows, strict=True)]


ABOVE = "Application: Tecan i-control\n\nDate:,2024-03-12\nPlate,GRE96ft\n\nStart Time:,2024-03-12 14:22:20\n\n"
SPOKEN = ["0 h ", *(f"0 h {5 * i} min" for i in range(1, 10))]
BODY = [[w[0], w[1:], f"Sample X{i}", *map(str, VALUES[i].tolist())] for i, w in enumerate(WELLS)]
DAYTIMES = [f"0:{5 * i:02d}:00" for i in range(10)]
FORMS = {
    "rows of wells": text(lying()),
    "rows of wells among lines about the device": ABOVE + text(lying()) + "\n\nEnd Time:,2024-03-12 15:00:00\n",
    "columns of wells": text(turned(lying())),
    "letters and numbers apart, a header and times": text(
        [["Well Row", "Well Col", "Content", *["Raw Data (600)"] * 10], ["", "", "Time", *SPOKEN], *BODY]
    ),
    "times in the header": text([["Well", "Content", *SPOKEN], *([r[0] + r[1], *r[2:]] for r in BODY)]),
    "counts in the header": text(
        [
            ["Well", "Content", *(f"Raw Data (600 {i})" for i in range(10))],
            ["", "Time [s]", *TIMES],
            ["", "Temp. [°C]", *["37.0"] * 10],
            *([r[0] + r[1], *r[2:]] for r in BODY),
        ]
    ),
    "columns of wells behind times of day": "Plate Type,96 WELL PLATE\n\nOD600\n\n"
    + text(turned([["Time", *DAYTIMES], ["T° OD600:600", *["37.0"] * 10], *lying()[3:]]))
    + "0:00:00,,,,,,,,,,,,,\n\nResults\n\n,1,2,3,4\nA,0.1,0.2,0.3,0.4\n",
    "a first column without a name": "##BLOCKS= 1\nPlate:,Plate1,TimeFormat\n"
    + text(turned([["", *DAYTIMES], ["Temperature(°C)", *["37.0"] * 10], *lying()[3:]]))
    + "\n~End\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_each_well_of_a_plate_is_a_sequence_and_no_clock_or_temperature_is(form: str, tmp_path: Path) -> None:
    result = read(write(tmp_path / "f.csv", FORMS[form]))
    assert (len(result), result.lengths.tolist(), result.layout.id) == (12, [10] * 12, "Well")
    assert result.ids == tuple(WELLS)
    assert np.allclose(result.values[:, 0].reshape(12, 10), VALUES, atol=1e-6)
    assert any("positions are 300" in note and "s apart" in note for note in result.notes)
    again = read(tmp_path / "f.csv", **dict(result.layout.fixed()))
    assert np.array_equal(again.values, result.values)


def test_a_plate_with_decimal_commas_and_names_in_another_language_is_read_alike(tmp_path: Path) -> None:
    rows = [[cell.replace(".", ",") for cell in row] for row in lying()]
    rows[0][0], rows[1][0], rows[2][0] = "Zyklus Nr.", "Zeit [s]", "Temp. [°C]"
    result = read(write(tmp_path / "f.csv", text(rows, ";")))
    assert np.allclose(result.values[:, 0].reshape(12, 10), VALUES, atol=1e-6)


def test_two_measurements_of_one_plate_are_two_channels(tmp_path: Path) -> None:
    both = f"Label: OD600\n{text(lying())}\nLabel: GFP\n{text(lying(2.0))}"
    result = read(write(tmp_path / "f.csv", both))
    assert (len(result), result.channels) == (12, ("OD600", "GFP"))
    assert np.allclose(result.values[:, 1], 2 * result.values[:, 0], atol=1e-6)
    beside = [[*row, *row[1:]] for row in lying()]
    heads = ["Well", *["Raw (600)"] * 10, *["Raw (700)"] * 10]
    assert read(write(tmp_path / "g.csv", text([heads, *beside]))).channels == ("Raw (600)", "Raw (700)")


def test_two_tables_that_are_not_told_apart_are_refused_and_each_alone_is_read(tmp_path: Path) -> None:
    message = why(write(tmp_path / "f.csv", f"{text(lying())}\n{text(lying(2.0))}"))
    assert "f.csv: holds 2 tables of wells (" in message
    assert "save each as a file of its own" in message
    assert len(read(write(tmp_path / "g.csv", text(lying(2.0))))) == 12


def test_sequences_below_counts_and_times_need_no_names_of_wells(tmp_path: Path) -> None:
    rows = [*CLOCKS, *([f"tube {i}", *map(str, row)] for i, row in enumerate(VALUES.tolist()))]
    result = read(write(tmp_path / "f.csv", text(rows)))
    assert (len(result), result.layout.id) == (12, "row")


def test_labels_of_wells_stand_in_a_table_beside_the_file(tmp_path: Path) -> None:
    labels = "\n".join(["well,strain", *(f"{well},{'wt' if i % 2 else 'mut'}" for i, well in enumerate(WELLS))])
    write(tmp_path / "labels.csv", labels)
    result = read(write(tmp_path / "f.csv", FORMS["columns of wells"]))
    assert (result.layout.target, result.labels[:2]) == ("strain", ("mut", "wt"))  # type: ignore[index]


def test_a_word_in_place_of_a_value_is_named_and_may_be_missing(tmp_path: Path) -> None:
    rows = lying()
    rows[5][4] = "OVER"
    path = write(tmp_path / "f.csv", text(rows))
    assert "'OVER'" in why(path)
    assert "--na OVER" in why(path)
    assert read(path, na=("OVER",)).observed is not None


def test_inputs_of_one_recording_that_are_named_as_wells_are_asked_about_as_before(tmp_path: Path) -> None:
    rows = turned(
        [["time", *TIMES], ["temp", *["37.0"] * 10], *([w, *map(str, VALUES[0])] for w in ("A1", "A2", "A3"))]
    )
    assert "'time' never falls" in why(write(tmp_path / "f.csv", text(rows)))


def test_a_workbook_of_a_plate_reader_is_read_as_its_text_is(tmp_path: Path) -> None:
    needs("xlsx")
    above = [["Application: Tecan i-control"], ["Plate", "GRE96ft"]]
    cells = [[cell if k == 0 else float(cell) for k, cell in enumerate(row)] for row in lying()]
    result = read(workbook(tmp_path / "f.xlsx", {"Sheet2": [*above, *cells]}))
    assert (len(result), result.ids) == (12, tuple(WELLS))
    assert np.allclose(result.values[:, 0].reshape(12, 10), VALUES, atol=1e-6)


def test_a_model_of_one_plate_reads_another_with_other_times(tmp_path: Path) -> None:
    fixed = read(write(tmp_path / "f.csv", text(lying()))).layout.fixed()
    other = text(turned([row[:8] for row in lying()]))
    result = read(write(tmp_path / "g.csv", other), **dict(LayoutSpec(**dict(fixed))))
    assert (len(result), set(result.lengths.tolist())) == (12, {7})


@pytest.mark.parametrize("form", FORMS)
def test_a_plate_that_is_larger_than_a_block_is_served_as_it_is_read(form: str, tmp_path: Path) -> None:
    result = read(write(tmp_path / "f.csv", FORMS[form]))
    blocks = list(read_blocks(tmp_path / "f.csv", result.layout.fixed(), 100))
    assert np.array_equal(np.concatenate([block.values for block in blocks]), result.values)
    assert [name for block in blocks for name in block.ids or ()] == list(result.ids or ())
