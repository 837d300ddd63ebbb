"""Times as instruments write them put the rows of a long table into their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import LayoutSpec

BEGIN = datetime(2024, 3, 1, 10, 0, tzinfo=UTC)


def table(words: Callable[[int], str], names: str = "time", order: Sequence[int] = range(12)) -> str:
    """Two recordings of twelve positions, whose values count them."""
    rows = [f"r{r},{'ab'[r]},{words(i)},{i + 20 * r},{i}.5" for r in range(2) for i in order]
    return "\n".join([f"recording,state,{names},x,y", *rows]) + "\n"


def at(i: int, step: float = 60) -> datetime:
    return BEGIN + timedelta(seconds=step * i)


GERMAN = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
FRENCH = [
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
]
SPANISH = [
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
]
FORMS: dict[str, Callable[[int], str]] = {
    "h:m:s": lambda i: f"{at(i):%H:%M:%S}",
    "h:m:s with fractions": lambda i: f"10:00:{i:02}.{i:03}",
    "m:s": lambda i: f"{5 * i:02}:30.0",
    "d.m.y": lambda i: f"{at(i):%d.%m.%Y %H:%M:%S}",
    "d/m/y": lambda i: f"{at(i, 86_400 * 2):%d/%m/%Y %H:%M}",
    "m/d/y": lambda i: f"{at(i, 3600):%m/%d/%Y %I:%M:%S %p}",
    "iso": lambda i: f"{at(i):%Y-%m-%dT%H:%M:%SZ}",
    "y/m/d": lambda i: f"{at(i):%Y/%m/%d %H:%M:%S}",
    "milliseconds": lambda i: str(1_709_287_200_000 + 20 * i),
    "nanoseconds": lambda i: str(1_709_287_200_000_000_000 + 7 * i),
    "iso weeks": lambda i: (
        f"{at(i, 86_400).isocalendar().year}-W{at(i, 86_400).isocalendar().week:02}"
        + f"-{at(i, 86_400).isocalendar().weekday}"
    ),
    "quarters": lambda i: f"{2020 + i // 4}Q{i % 4 + 1}",
    "days of a year": lambda i: f"2024-{i + 27:03}",
    "German months": lambda i: f"{3 + i}. {GERMAN[i]} 2024",
    "German months in short, and times": lambda i: f"{3 + i}. {GERMAN[i][:3]}. 2024 10:00",
    "months in short, and years in two digits": lambda i: f"{3 + i:02}-Mar-24 10:00:00",
    "years in two digits on both sides of 2000": lambda i: (
        f"{15 + i if i < 6 else i:02}-{'Dec-99' if i < 6 else 'Jan-00'}"
    ),
    "French months": lambda i: f"{3 + i} {FRENCH[i]} 2024",
    "Spanish months": lambda i: f"{3 + i} de {SPANISH[i]} de 2024",
    "durations of ISO": lambda i: f"PT{8 + i}M" if i % 2 else f"PT{7 + i}M60S",
    "durations of ISO with days": lambda i: f"P0DT0H{8 + i}M0.5S",
    "durations of pandas": lambda i: f"{i // 10} days 0{i % 10}:00:00.500000",
    "durations of Python": lambda i: f'"1 day, {i + 5}:00:00"',
    "spoken minutes": lambda i: f"{i + 5} min",
    "spoken hours": lambda i: f"{i + 5}h 30m",
    "days of Excel": lambda i: f"{45_352.41667 + i / 1440:.5f}",
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_put_in_the_order_of_their_times_however_these_are_written(form: str, tmp_path: Path) -> None:
    shuffled = [0, 2, 1, *range(3, 12)]
    sequences = read(write(tmp_path / "f.csv", table(FORMS[form], order=shuffled)))
    assert (sequences.layout.time, sequences.layout.target) == ("time", "state")
    assert sequences.values[:, 0].tolist() == [*range(12), *range(20, 32)]
    assert "rows were put in the order of 'time'" in sequences.notes


def test_date_and_time_in_two_columns_are_one_time(tmp_path: Path) -> None:
    def word(i: int) -> str:
        return f"{at(i, 7200):%d.%m.%Y},{at(i, 7200):%H:%M:%S}"

    sequences = read(write(tmp_path / "f.csv", table(word, "date,time", order=[1, 0, *range(2, 12)])))
    assert sequences.values[:12, 0].tolist() == [*range(12)]
    assert sequences.layout.target == "state"
    assert "the times are those of 'date' and 'time' together" in sequences.notes
    assert sequences.steps is not None
    assert sequences.steps.tolist() == [7200, 7200]


@pytest.mark.parametrize(("start", "form"), [("23:55:30", "%H:%M:%S"), ("23:55", "%H:%M")])
def test_a_recording_that_passes_midnight_goes_on(start: str, form: str, tmp_path: Path) -> None:
    begin = datetime.strptime(start, form).replace(tzinfo=UTC)
    text = table(lambda i: (begin + timedelta(minutes=i)).strftime(form))
    sequences = read(write(tmp_path / "f.csv", text))
    assert sequences.values[:, 0].tolist() == [*range(12), *range(20, 32)]
    assert "'time' passes midnight in 2 sequences" in sequences.notes


def test_minutes_and_seconds_that_pass_an_hour_go_on(tmp_path: Path) -> None:
    text = table(lambda i: f"{(57 + i) % 60:02}:00.0")
    sequences = read(write(tmp_path / "f.csv", text))
    assert sequences.values[:12, 0].tolist() == [*range(12)]
    assert "'time' passes a full hour in 2 sequences" in sequences.notes


def test_a_day_that_may_be_the_month_is_asked_about_and_both_ways_work(tmp_path: Path) -> None:
    def word(i: int) -> str:
        return f"{1 + i:02}/0{1 + i % 3}/2024 10:00"

    path = write(tmp_path / "f.csv", table(word))
    message = why(path)
    assert message == (
        "f.csv:2 column 'time': '01/01/2024 10:00' may begin with the day or with the month; give --time-format "
        "'%d/%m/%Y %H:%M' or --time-format '%m/%d/%Y %H:%M'"
    )
    by_day, by_month = (read(path, time_format=form) for form in ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"))
    assert by_month.values[:12, 0].tolist() == [*range(12)]
    assert by_day.values[:12, 0].tolist() == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]


def test_a_day_that_may_be_the_month_is_no_matter_within_one_day(tmp_path: Path) -> None:
    sequences = read(write(tmp_path / "f.csv", table(lambda i: f"{at(i):%d/%m/%Y %H:%M}")))
    assert sequences.values[:12, 0].tolist() == [*range(12)]


def test_a_form_of_times_is_kept_in_the_layout_and_named_where_a_cell_is_not_of_it(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(lambda i: f"{at(i):%H_%M_%S}"))
    assert "is neither a number nor a date or time" in why(path, time="time", id="recording", shape="long")
    layout = read(path, time_format="%H_%M_%S", time="time", id="recording").layout.fixed()
    assert layout.time_format == "%H_%M_%S"
    assert len(read(path, **dict(layout))) == 2
    bad = write(tmp_path / "g.csv", path.read_text().replace("10_03_00", "soon", 1))
    assert why(bad, **dict(layout)).startswith(
        "g.csv:5 column 'time': the time 'soon' is not written as '%H_%M_%S' says"
    )
    assert "is no form of times" in why(path, time_format="%Q", time="time", id="recording")


def test_a_counter_that_begins_anew_within_an_id_joins_no_two_trials(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(lambda i: str(i % 6)))
    assert why(path).startswith("f.csv:8 column 'time': '0' is a time that 'r0' has already (f.csv:2)")
    assert read(path, time="", values=("x",)).values[:12, 0].tolist() == [*range(12)]


def test_nanoseconds_are_told_apart_exactly(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", table(lambda i: str(1_709_287_200_000_000_000 + i)))
    sequences = read(path, **dict(LayoutSpec(id="recording", time="time", target="state", values=("x", "y"))))
    assert sequences.steps is not None
    assert np.array_equal(sequences.steps, [1, 1])


def two_columns(day: Callable[[int], str]) -> str:
    """Two recordings of twelve positions, one on each of twelve days."""
    return table(lambda i: f"{day(i)},{8 + i % 3:02}:30", "Date,Time")


def test_a_day_that_may_be_the_month_is_asked_about_beside_a_column_of_times_too(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", two_columns(lambda i: f"{i + 1:02}/01/2024"))
    assert "'01/01/2024' may begin with the day or with the month" in why(path)
    days, months = (read(path, time_format=form) for form in ("%d/%m/%Y", "%m/%d/%Y"))
    for sequences in (days, months):
        assert sequences.values[:12, 0].tolist() == [*range(12)]
        assert "the times are those of 'Date' and 'Time' together" in sequences.notes
    assert days.layout.beside == "Date"
    shuffled = write(tmp_path / "g.csv", two_columns(lambda i: f"{i % 12 + 1:02}/{12 - i:02}/2024"))
    assert read(shuffled, time_format="%m/%d/%Y").values[:12, 0].tolist() == [*range(12)]
    assert read(shuffled, time_format="%d/%m/%Y").values[:12, 0].tolist() == [*range(11, -1, -1)]


def test_hours_and_minutes_beside_a_date_or_after_one_are_no_minutes_and_seconds(tmp_path: Path) -> None:
    for names, mark in (("Date,Time", ","), ("time", " ")):
        text = table(lambda i, mark=mark: f"{at(i, 3600):%d.%m.%Y}{mark}{at(i, 3600):%H:%M}", names)  # type: ignore[misc]
        sequences = read(write(tmp_path / "f.csv", text))
        assert set(np.asarray(sequences.steps).tolist()) == {3600.0}
        assert (sequences.layout.unused, [note for note in sequences.notes if "unequal" in note]) == ((), [])
    assert (
        "in the order of 'Time' and 'Date'"
        in read(write(tmp_path / "g.csv", two_columns(lambda i: f"2024-01-{i + 1:02}"))).layout.sentence
    )


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S"])
@pytest.mark.parametrize("step", [30, 70])
def test_the_hour_that_comes_twice_in_autumn_does_not_mix_two_hours(form: str, step: int, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(4, 200)).round(3)
    lines = ["id,time,x,label"]
    for i, row in enumerate(values):
        for k, x in enumerate(row):
            time = datetime(2024, 10, 27 - 7 * (i % 2), 1, 30) + timedelta(seconds=step * k)
            back = timedelta(hours=1) if i % 2 == 0 and k >= 5400 // step else timedelta()
            lines.append(f"r{i},{time - back:{form}},{x},{'ab'[i % 2]}")
    result = read(write(tmp_path / "f.csv", "\n".join(lines)), id="id", time="time")
    np.testing.assert_allclose(result.values[:, 0], values.reshape(-1), rtol=1e-6)
    assert (
        "'time' goes back by an hour in 2 sequences, as clocks do in autumn; what follows is read as an hour later"
        in (result.notes)
    )


def test_conditions_that_are_written_as_durations_or_years_and_numbers_stay_labels_and_ids(tmp_path: Path) -> None:
    lines = ["sample,treatment,t0,t1,t2,t3"]
    lines += [f"2024-{i:03},{(5, 30)[i % 2]} min,{i}.5,{i + 1}.5,{i % 3}.1,{i % 5}.2" for i in range(12)]
    sequences = read(write(tmp_path / "f.csv", "\n".join(lines) + "\n"))
    assert sequences.classes == ("30 min", "5 min")
    assert sequences.layout.id == "sample"
