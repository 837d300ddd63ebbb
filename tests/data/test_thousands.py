"""Marks between thousands: refused where they may be decimal points, and what says that they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.made_tables import read, why, write

from headstart import BadInput
from headstart.data import LayoutSpec, data_card, read_sequences


def table(cells: list[str], mark: str = ";", first: str = "") -> str:
    """A file of 12 rows with four cells each, in their order over and over."""
    rows = [mark.join([f"r{i}", "ab"[i % 2], *((cells * 4)[4 * i % len(cells) :][:4])]) for i in range(12)]
    return "\n".join([mark.join(["id", "state", *(f"t{i}" for i in range(4))]), *([first] if first else []), *rows])


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_a_point_beside_whole_numbers_may_stand_between_thousands_and_is_refused(mark: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(["967", "890", "1.005", "12", "1.143", "7"], mark))
    message = why(path)
    assert message.startswith("f.csv:3 column 't0': '1.143' may be 1.143 or 1143, as whole numbers stand beside it")
    assert read(path, decimal=".").values.max() == 967


def test_a_point_far_down_is_seen_too(tmp_path: Path) -> None:
    rows = [
        "id;state;t0;t1;t2",
        *(f"r{i};{'ab'[i % 2]};{i % 900};{i % 7};{i % 5}" for i in range(1500)),
        "r;a;1.005;3;4",
    ]
    assert why(write(tmp_path / "f.csv", "\n".join(rows))).startswith("f.csv:1502 column 't0': '1.005' may be 1.005 or")


def test_columns_of_one_run_say_together_what_their_points_are(tmp_path: Path) -> None:
    rows = [f"r{i};{'ab'[i % 2]};{900 + i};1.{100 + i};{800 + i}" for i in range(12)]
    assert "'1.100' may be 1.100 or 1100" in why(write(tmp_path / "f.csv", "id;state;t0;t1;t2\n" + "\n".join(rows)))


def test_points_in_other_numbers_say_that_they_are_decimal(tmp_path: Path) -> None:
    for cell in ("0.5", "12.25", "1234", "1234.567"):
        path = write(tmp_path / "f.csv", table(["967", "1.005", cell, "12"]))
        assert read(path).values[1, 0] == pytest.approx(1.005)


def test_numbers_that_all_look_like_thousands_are_noted(tmp_path: Path) -> None:
    card = data_card(read(write(tmp_path / "f.csv", table(["14.512", "15.255", "9.881"]))))
    assert any(text.startswith("every number with a point looks like 14.512") for name, text in card.head)
    plain = data_card(read(write(tmp_path / "g.csv", table(["14.512", "15.255", "9.881"], ","))))
    assert not any("looks like" in text for name, text in plain.head)


def test_a_point_between_thousands_far_below_decimal_commas_is_refused(tmp_path: Path) -> None:
    rows = ["id;state;a;b", *(f"r{i};{'ab'[i % 2]};{i},5;7" for i in range(300)), "r;a;0,5;1.234"]
    path = write(tmp_path / "f.csv", "\n".join(rows))
    message = why(path)
    assert (
        message
        == "f.csv:302 column 'b': '1.234' has a point between thousands, beside decimal commas; give --thousands . "
        "(thousands in Python and in a layout)"
    )
    assert read(path, thousands=".").values.max() == 1234


@pytest.mark.parametrize("cell", ["1 012,06", "1\u202f012,06", "1'012.06", "12\u00a0345", "1\u2019012.06"])
def test_blanks_and_apostrophes_between_thousands_are_read(cell: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / "f.csv", table([cell, "577,05" if "," in cell else "577", "817,91" if "," in cell else "8"])
    )
    number = float("".join(mark for mark in cell.replace(",", ".") if mark in "0123456789."))
    result = read(path)
    assert result.values[0, 0] == pytest.approx(number)
    assert result.layout.fixed().thousands == ("'" if "'" in cell or "\u2019" in cell else " ")
    assert read(path, **dict(result.layout.fixed())).values.tolist() == result.values.tolist()


@pytest.mark.parametrize(("mark", "number"), [(".", 1143), ("", 1.143)])
def test_a_point_that_may_be_either_is_what_the_option_says(mark: str, number: float, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(["967", "890", "1.005", "12", "1.143", "7"]))
    assert "give --decimal '.' for the first, or --thousands '.' for the second" in why(path)
    assert read(path, thousands=mark).values[4, 0] == pytest.approx(number)


def test_a_comma_that_may_be_either_is_what_the_option_says(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(["967", "1,143", "12,500"]))
    assert "'1,143' may be 1.143 or 1143; give --decimal ',' for the first, or --thousands ',' for the second" in why(
        path
    )
    assert read(path, thousands=",").values[1, 0] == 1143
    assert read(path, decimal=",").values[1, 0] == pytest.approx(1.143)


def test_two_marks_between_thousands_in_one_file_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(["1.234,5", "12,5", "1 234,5", "7,5"]))
    assert "'1.234,5' has '.' between thousands, '1 234,5' has ' '; write them alike" in why(path)


def test_a_mark_that_stands_elsewhere_than_between_thousands_is_named(tmp_path: Path) -> None:
    lines = table(["1.234,5", "12,5", "2.500,25", "7,5"]).replace("r7;b;1.234,5", "r7;b;12.5")
    message = why(write(tmp_path / "f.csv", lines))
    assert message.startswith("f.csv:9 column 't0': '12.5' has '.', which stands between thousands in other numbers")


def test_a_comma_in_quotes_is_between_thousands_where_points_stand_before_decimals(tmp_path: Path) -> None:
    lines = ["id,time,speed,steps,label"]
    for i, t in ((i, t) for i in range(4) for t in range(6)):
        lines.append(f'r{i},{t},"{5 + i}.{t}1","{900 + 60 * t:,}",{"ab"[i % 2]}')
    sequences = read(write(tmp_path / "f.csv", "\n".join(lines) + "\n"))
    assert sequences.values[:6, 1].tolist() == [900 + 60 * t for t in range(6)]
    whole = [line.replace(".", "") for line in lines]
    question = why(write(tmp_path / "g.csv", "\n".join(whole) + "\n"))
    assert "give --decimal ',' for the first, or --thousands ',' for the second" in question
    assert read(tmp_path / "g.csv", thousands=",").values[:6, 1].tolist() == [900 + 60 * t for t in range(6)]


@pytest.mark.parametrize("write", [lambda frame, _: frame, lambda frame, path: frame.to_parquet(path) or path])
def test_texts_with_decimal_commas_in_a_table_are_numbers_and_no_lists_of_two(tmp_path: Path, write: Any) -> None:
    values = np.random.default_rng(0).normal(size=(12, 4)).round(2)
    frame = pd.DataFrame(values, columns=["alpha", "beta", "gamma", "delta"]).map(lambda v: str(v).replace(".", ","))
    frame.loc[3, "beta"] = "NA"
    result = read_sequences(write(frame, tmp_path / "f.parquet"), LayoutSpec(target=""))
    assert (result.layout.shape, result.lengths.tolist()) == ("wide", [4] * 12)
    np.testing.assert_allclose(result.values[:4, 0], values[0], atol=1e-6)
    assert any("numbers with commas before decimals in 'alpha', 'beta', 'gamma' and 1 more" in n for n in result.notes)


def test_texts_in_a_table_whose_commas_may_stand_between_thousands_are_asked_about() -> None:
    frame = pd.DataFrame({f"t{i}": [f"{k + 1},{i}00" for k in range(9)] for i in range(4)})
    with pytest.raises(BadInput, match=r"'1,000' may be 1\.000 or 1000; give layout=\{'decimal': ','\}"):
        read_sequences(frame)
    assert read_sequences(frame, LayoutSpec(thousands=",")).values[0] == 1000
    lists = pd.DataFrame({"x": [f"{k},2,{k}" for k in range(9)]})
    assert read_sequences(lists).layout.shape == "list"


def test_many_whole_numbers_of_three_digits_between_blanks_are_a_list(tmp_path: Path) -> None:
    rows = [f"{'ab'[k % 2]},{' '.join(str(400 + (7 * i * k) % 300) for i in range(30))}" for k in range(1, 21)]
    result = read_sequences(write(tmp_path / "f.csv", "\n".join(["label,signal", *rows])))
    assert result.lengths.tolist() == [30] * 20
    assert result.values[0, 0] == 400
