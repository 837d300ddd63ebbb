"""What the order of rows tells: clocks and ids under any name, rows that are samples, and what is no clock."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.made_tables import numbers, read, why, write

from headstart.data import data_card, read_sequences

Columns = dict[str, Any]


def recording(rows: int = 120, block: int = 40, **first: Any) -> Columns:
    """Noise in three channels under a label that stands in blocks, the columns of `first` before them."""
    noise = numbers(rows, 3)
    label = [("walk", "sit", "stairs")[i // block % 3] for i in range(rows)]
    return {**first, "acc_x": noise[:, 0], "acc_y": noise[:, 1], "acc_z": noise[:, 2], "activity": label}


def pieces(count: int = 12, length: int = 8, time: str = "time", name: str = "bout", absolute: bool = False) -> Columns:
    """A long table of noise: pieces one below the other, a time in each, a label for each."""
    piece = np.repeat(np.arange(count) + 1, length)
    step = np.arange(count * length) if absolute else np.tile(np.arange(length), count)
    noise, label = numbers(count * length, 2), np.where(piece % 2, "walk", "sit")
    return {name: piece, "activity": label, time: step * 0.02, "acc_x": noise[:, 0], "acc_y": noise[:, 1]}


@pytest.mark.parametrize("name", ["time", "time (s)", "elapsed", "cycle", "q"])
def test_a_recording_without_an_id_is_refused_whatever_its_clock_is_called(name: str) -> None:
    for clock in (np.arange(120) * 0.02, 1_711_850_280_000 + 20 * np.arange(120)):
        message = why(recording(**{name: clock}))
        assert message.startswith(f"X: {name!r} never falls from row to row, as a clock does, and no column says")
        assert "name it with layout={'id': ...}" in message


@pytest.mark.parametrize(
    "values", [np.arange(120), np.arange(120) % 40, np.tile([f"10:00:{i:02}" for i in range(40)], 3)]
)
def test_counters_and_times_of_day_that_begin_anew_do_not_make_rows_sequences(values: Any) -> None:
    assert "as a clock does" in why(recording(time=values))


def test_a_clock_in_shuffled_rows_is_no_value() -> None:
    order = np.random.default_rng(0).permutation(120)
    columns = {name: np.asarray(cells)[order] for name, cells in recording(time=np.arange(120) * 0.02).items()}
    assert why(columns).startswith("X: 'time' stands in equal steps, as a clock does")


def test_what_the_refusal_names_works() -> None:
    columns = recording(time=np.arange(120) * 0.02)
    assert read(columns, values=("acc_x", "acc_y", "acc_z")).lengths.tolist() == [3] * 120
    result = read(columns | {"window": np.arange(120) // 10}, id="window")
    assert (result.layout.time, result.channels, len(result)) == ("time", ("acc_x", "acc_y", "acc_z"), 12)
    numbered = read(columns | {"piece": np.arange(120)}, id="piece")
    assert (numbered.lengths[0], numbered.layout.unused) == (3, ("time",))


def test_a_recording_in_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    rows = [f"{i * 0.02:.2f},{a},{b},{'ws'[i // 30]}" for i, (a, b) in enumerate(numbers(60, 2))]
    assert why(write(tmp_path / "f.csv", "\n".join(rows))).startswith("f.csv: '1' never falls from row to row")


@pytest.mark.parametrize("name", ["segment_id", "bout", "instance", "track", "segment", "q"])
@pytest.mark.parametrize("time", ["time", "time_s", "elapsed", "k"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_column_in_runs_of_equal_values_is_the_id_whatever_its_name(name: str, time: str, absolute: bool) -> None:
    result = read(pieces(name=name, time=time, absolute=absolute))
    assert (result.layout.id, result.layout.time, result.layout.target) == (name, time, "activity")
    assert (result.channels, len(result)) == (("acc_x", "acc_y"), 12)


def test_what_order_decided_is_said_with_its_reason() -> None:
    result = read(pieces())
    decision = next(decision for decision in result.layout.decisions if decision.role == "id")
    assert (decision.column, decision.by, decision.option) == ("bout", "content", "--id")
    note = "'bout' stands in 12 runs of equal values: taken for the id (layout={'id': ...} names another column)"
    assert ("note", note) in data_card(result).head


def test_runs_of_equal_values_need_no_clock_where_the_label_is_one_in_each() -> None:
    columns = pieces()
    del columns["time"]
    result = read(columns)
    assert (result.layout.id, result.layout.time, result.channels) == ("bout", None, ("acc_x", "acc_y"))


def test_rows_of_several_pieces_at_one_time_are_taken_apart_by_their_id() -> None:
    table = pd.DataFrame(pieces()).sort_values(["time", "bout"])
    result = read(table)
    assert (result.layout.id, result.layout.time, len(result)) == ("bout", "time", 12)


def test_pieces_that_count_anew_for_each_person_are_never_joined() -> None:
    columns = pieces(count=24)
    person = (columns["bout"] - 1) // 6
    columns |= {
        "bout": (columns["bout"] - 1) % 6,
        "person_code": person,
        "activity": np.where(person % 2, "ill", "well"),
    }
    assert "begins anew" in why(columns)


def test_a_second_clock_and_a_number_of_the_person_are_no_channels() -> None:
    columns = pieces(count=12, name="id")
    result = read(columns | {"elapsed_ms": columns["time"] * 1000, "person_no": (columns["id"] - 1) // 3})
    assert (result.channels, result.layout.group) == (("acc_x", "acc_y"), "person_no")
    assert result.layout.unused == ("elapsed_ms",)


def test_a_number_of_each_row_is_an_id_and_no_value() -> None:
    columns = {"nr": np.arange(20), "a": numbers(20, 2)[:, 0], "b": numbers(20, 2)[:, 1], "label": list("ab" * 10)}
    result = read(columns)
    assert (result.layout.id, result.layout.channels[0].columns) == ("nr", ("a", "b"))


def test_rows_that_are_examples_stay_rows() -> None:
    noise = numbers(24, 5)
    run = {f"t{i}": noise[:, i] for i in range(5)}
    label = {"label": ["a"] * 12 + ["b"] * 12}
    dates = {"recorded": [f"2024-01-{i + 1:02}" for i in range(24)], "nr": np.arange(24)}
    assert read({**dates, **label, **run}).layout.shape == "wide"
    visits = {"person": np.repeat(np.arange(8), 3), "rep": np.tile(np.arange(3), 8)}
    assert read({**visits, **run, "label": list("ab" * 12)}).layout.shape == "wide"
    features = {
        "name": [f"p{i}" for i in range(24)],
        "age": np.arange(24) + 30,
        "mean": noise[:, 0],
        "peak": noise[:, 1],
    }
    assert read({**features, "state": list("ab" * 12)}).layout.shape == "wide"
    rising = {f"t{i}": np.sort(noise[:, i]) for i in range(5)}
    assert read({**rising, **label}).layout.shape == "wide"


def test_a_recording_whose_channels_have_numbers_is_refused_beside_its_clock() -> None:
    columns = {"time": np.arange(60) * 0.004, **{f"ch{i}": numbers(60, 4)[:, i] for i in range(4)}}
    assert "as a clock does" in why({**columns, "state": ["a"] * 30 + ["b"] * 30})


def test_recordings_that_stand_in_columns_are_asked_about_and_read() -> None:
    values = numbers(12, 8)
    names = [f"r{i:02}_{['calm', 'tremor'][i % 2]}" for i in range(8)]
    columns = {"time": np.arange(12), **{name: values[:, i] for i, name in enumerate(names)}}
    fine = columns | {"time": np.arange(12) * 0.02}
    assert why(fine).endswith("where each column is a recording, give layout={'shape': 'columns'}")
    question, first, second = why(columns).split("\n")
    assert question.endswith("so that recordings may stand in columns, or in rows; give one of these:")
    assert [first, second] == ["  layout={'shape': 'columns'}", "  layout={'shape': 'wide'}"]
    result = read(columns, shape="columns")
    assert (result.ids, result.classes, set(result.lengths.tolist())) == (tuple(names), ("calm", "tremor"), {12})
    assert np.allclose(result.values[:12, 0], values[:, 0])
    fixed = result.layout.fixed()
    again = read_sequences({"time": columns["time"], "new 1": values[:, 0], "new 2": values[:, 1]}, fixed)
    assert (again.ids, again.lengths.tolist()) == (("new 1", "new 2"), [12, 12])
    assert len(read(columns, shape="wide")) == 12


def test_an_axis_y_is_no_target() -> None:
    noise = numbers(20, 3)
    axes = {name: noise[:, i] for i, name in enumerate("xyz")}
    result = read({**axes, "activity": list("ab" * 10)})
    assert (result.layout.target, result.layout.channels[0].columns) == ("activity", ("x", "y", "z"))
    assert read(axes).layout.target is None
    assert read({"x": noise[:, 0], "w": noise[:, 1], "y": noise[:, 2]}).layout.target == "y"


def test_names_of_files_are_no_sequence(tmp_path: Path) -> None:
    for extra in ("", ",1.5"):
        rows = [f"S{i // 5:02}_{i % 5}.csv,S{i // 5:02},{'ab'[i % 2]}{extra}" for i in range(20)]
        path = write(tmp_path / "f.csv", "\n".join(["file,subject,activity" + extra.replace("1.5", "seconds"), *rows]))
        assert why(path).startswith(
            "f.csv: the cells of 'file' are names of files, which no table brings along; name the"
        )
    assert "names of files" in why(["a/1.wav", "a/2.wav", "b/3.wav"])
    features = {"filename": [f"{i}.wav" for i in range(12)], "a": numbers()[:, 0], "b": numbers()[:, 1]}
    assert read({**features, "label": list("ab" * 6)}).layout.channels[0].columns == ("a", "b")


def test_a_label_that_changes_within_a_sequence_is_asked_about() -> None:
    columns = pieces(name="recording")
    columns["activity"] = ["walk", "walk", "walk", "sit", "sit", "sit", "sit", "sit"] * 12
    message = why(columns)
    assert message.startswith(
        "X, row 4 column 'activity': 'sit' is not the first value of 'activity' in '1', so that it"
    )
    assert read(columns, target="").target == "none"
    columns["piece"] = columns["recording"] * 2 + (np.array(columns["activity"]) == "sit")
    assert read(columns, id="piece").classes == ("sit", "walk")


def test_a_row_for_each_sensor_is_never_joined_in_one_channel() -> None:
    rows = [
        (f"r{i}", "ab"[i % 2], 20 * t + 7 * s, ("acc", "temp")[s], t + s / 8)
        for i in range(6)
        for t in range(5)
        for s in (0, 1)
    ]
    columns = dict(zip(("recording", "state", "time", "limb", "value"), zip(*rows, strict=True), strict=True))
    table = pd.DataFrame(columns)
    message = why(table)
    assert message.startswith("X, row 2 column 'limb': 'temp' is not the first value of 'limb' in 'r0', so that")
    assert message.endswith(
        "; write a column for each where it names sensors, or give layout={'values': ['value']} to leave it out"
    )
    assert read(table, values=("value",)).channels == ("value",)
    named = read(table.rename(columns={"limb": "sensor"}))
    assert (named.channels, len(named)) == (("acc", "temp"), 6)
    assert any("'sensor' names 2 channels" in note and "missing" in note for note in named.notes)


@pytest.mark.parametrize(("end", "what"), [("0", "zeros"), ("last", "equal values")])
def test_sequences_that_end_in_equal_values_may_be_padded_and_that_is_told(end: str, what: str) -> None:
    table = numbers(12, 10)
    for i, row in enumerate(table):
        row[7 - i % 3 :] = 0 if end == "0" else row[6 - i % 3]
    text = f"12 of 12 sequences end in 3 or more {what} (X, row 1: {3 if end == '0' else 4}); where they are padding"
    assert any(text in finding for finding in data_card(read(table)).findings)
    table[:7] = numbers(7, 10)
    table[11] = 1.0
    assert not any("padding" in finding for finding in data_card(read(table)).findings)


def test_ids_that_are_few_texts_and_names_of_clocks_in_ids_are_told_apart() -> None:
    columns = pieces(name="clip")
    assert read(columns | {"clip": [f"c{i}" for i in columns["clip"]]}).layout.id == "clip"
    assert read(pieces(name="epoch_nr")).layout.id == "epoch_nr"
    assert "never rises" in why(recording(remaining=np.arange(120)[::-1] * 0.02))


def test_a_number_of_the_person_beside_features_is_the_group_and_no_value() -> None:
    noise = numbers(24, 2)
    columns = {
        "person_nr": np.repeat(np.arange(8), 3),
        "mean": noise[:, 0],
        "std": noise[:, 1],
        "label": list("abb" * 8),
    }
    result = read(columns)
    assert (result.layout.group, result.layout.channels[0].columns) == ("person_nr", ("mean", "std"))


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%I:%M:%S %p"])
def test_dates_of_a_recording_are_a_clock_in_whatever_form_and_never_the_sequence(form: str) -> None:
    stamps = pd.date_range("2024-05-03 11:30", periods=120, freq="s").strftime(form)
    assert "'stamp' never falls from row to row, as a clock does" in why(recording(stamp=np.asarray(stamps)))


def test_a_clock_with_gaps_is_a_clock() -> None:
    clock = np.arange(120) * 0.02
    clock[[3, 70, 71]] = np.nan
    assert "'t9x' never falls from row to row" in why(recording(t9x=clock))


def test_samples_in_shuffled_rows_and_labels_that_come_again_in_blocks_are_asked_about() -> None:
    order = np.random.default_rng(0).permutation(96)
    shuffled = {name: np.asarray(cells)[order] for name, cells in pieces(name="stueck", time="nth").items()}
    question, *ways = why(shuffled).split("\n")
    assert question.startswith("X: 'nth' has the same values, each once, within those of 'stueck', so that")
    assert ways == [
        "  layout={'id': 'stueck', 'time': 'nth'}",
        "  layout={'group': 'stueck', 'time': 'nth', 'shape': 'wide'}",
    ]
    assert len(read(shuffled, id="stueck", time="nth")) == 12
    result = read(shuffled, group="stueck", time="nth", shape="wide")
    assert (len(result), result.layout.channels[0].columns) == (96, ("acc_x", "acc_y"))
    message = why(recording(160))
    assert message.startswith("X: 'activity' stands in 4 runs of equal values that come again, as samples of a long")
    assert message.endswith("give layout={'shape': 'wide'}")
    assert read(recording(160), shape="wide").layout.channels[0].columns == ("acc_x", "acc_y", "acc_z")
    rare = np.where(np.random.default_rng(0).random(160) < 0.05, "rare", "often")
    for honest in (rare, np.sort(rare)):
        assert not read(recording(160) | {"activity": honest}).layout.doubts


def test_numbers_of_patients_are_ids_and_a_sorted_amount_beside_positions_is_asked_about() -> None:
    noise, label = numbers(60, 3), np.tile(["a", "b", "b", "a"], 15)
    columns = {"patient_id": 5000 + 3 * np.arange(60), "bp": noise[:, 0], "chol": noise[:, 1], "label": label}
    layout = read(columns).layout
    assert (layout.id, layout.channels[0].columns) == ("patient_id", ("bp", "chol"))
    layout = read({"conc": np.arange(60) * 0.5, **{f"t{i}": noise[:, i] for i in range(3)}, "label": label}).layout
    assert layout.unused == ("conc",)
    assert "'conc' never falls from row to row" in layout.doubts[0]


def test_a_first_column_of_sorted_classes_is_the_target_and_no_id(tmp_path: Path) -> None:
    noise, sizes = numbers(84, 30), {2: 42, 12: 7, 28: 3}
    for classes, each in sizes.items():
        rows = [" ".join([str(i // each + 1), *map(str, noise[i])]) for i in range(84)]
        layout = read(write(tmp_path / "ucr.txt", "\n".join(rows))).layout
        assert (layout.shape, layout.target, layout.id, len(layout.channels)) == ("wide", "1", None, 1), classes
    features = {"species": np.repeat([1, 2, 3], 28), "sepal": noise[:, 0], "petal": noise[:, 1]}
    assert why(features).startswith("X: 'species' stands in 3 runs of equal values, so that")
    assert (read(features, target="species").classes, len(read(features, id="species"))) == (("1", "2", "3"), 3)


def test_long_rows_of_one_class_that_stand_together_now_and_then_are_examples_unless_their_values_go_on() -> None:
    label = np.repeat(["a", "b", "a", "b", "a"], [12, 9, 14, 10, 15])
    rows = np.cumsum(numbers(60, 80), axis=1)
    names = [f"v{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(80)]
    assert read({"label": label, **dict(zip(names, rows.T, strict=True))}, target="label").lengths.tolist() == [80] * 60
    samples = np.cumsum(numbers(60, 80), axis=0)
    message = why({"label": label, **dict(zip(names, samples.T, strict=True))}, target="label")
    assert message.startswith("X: 'label' stands in 5 runs of equal values that come again, as samples of a long")


@pytest.mark.parametrize("index", [False, True])
def test_what_is_left_of_a_life_is_no_id_and_is_asked_about(index: bool) -> None:
    lengths = [20 + 3 * (i % 7) for i in range(30)]
    count = sum(lengths)
    columns: Columns = {"": np.arange(count)} if index else {}
    columns |= {
        "unit": np.repeat(np.arange(30) + 1, lengths),
        "cycle": np.concatenate([np.arange(length) + 1 for length in lengths]),
        "s1": numbers(count, 2)[:, 0],
        "s2": numbers(count, 2)[:, 1],
        "RUL": np.concatenate([np.arange(length)[::-1] for length in lengths]),
    }
    message = why(columns)
    assert message.startswith("X: 'RUL' counts down in each value of 'unit', as the rest of a life does")
    options: dict[str, Any] = {"shape": "long", "id": "unit", "time": "cycle", "values": ("s1", "s2")}
    assert "'window_label': 'end'" in message
    windows = read(columns, target="RUL", target_kind="number", window=10, window_label="end", **options)
    assert windows.target == "number"
    assert len(read(columns, target="", **options)) == 30


@pytest.mark.parametrize("form", ["{0}-{1:02}", "{0}/{1:02}", "{1:02}/{0}", "{1}/{0}"])
def test_a_month_is_a_time_and_never_a_value(form: str) -> None:
    months = [form.format(2022 + i // 12, i % 12 + 1) for i in range(15)]
    columns = {
        "customer": np.repeat(np.arange(8) + 10_000, 15),
        "month": months * 8,
        "spend": numbers(120, 1)[:, 0],
        "churned": np.repeat(["N", "Y"] * 4, 15),
    }
    sequences = read(columns)
    assert (sequences.layout.time, sequences.layout.id, sequences.channels) == ("month", "customer", ("spend",))
    assert not any("unequal" in note for note in sequences.notes)


@pytest.mark.parametrize("name", ["batch", "material"])
def test_a_text_before_the_sequence_and_a_number_behind_it_are_group_and_target_or_asked_about(name: str) -> None:
    columns: Columns = {"id": np.arange(40), name: np.repeat(["B0", "B1", "B2", "B3"], 10)}
    columns |= {f"t{i}": column for i, column in enumerate(numbers(40, 6).T)}
    columns["yield"] = np.arange(40) * 1.37 % 7
    if name == "batch":
        sequences = read(columns)
        assert (sequences.layout.target, sequences.layout.group) == ("yield", "batch")
        return
    message = why(columns)
    assert "either may be the target" in message
    assert "layout={'target': 'material'}" in message
    assert read(columns, target="yield").target == "number"
    assert read(columns, target="material").classes == ("B0", "B1", "B2", "B3")


@pytest.mark.parametrize("name", ["sample", "scan", "k"])
@pytest.mark.parametrize("step", [1, 3])
def test_what_numbers_the_rows_of_each_piece_in_shuffled_rows_is_the_clock(name: str, step: int) -> None:
    order = np.random.default_rng(0)
    columns = {
        "trial": np.repeat(np.arange(12), 20),
        name: np.concatenate([step * order.permutation(20) for _ in range(12)]),
        "emg": numbers(240, 1)[:, 0],
        "gesture": np.repeat(["fist", "open"] * 6, 20),
    }
    sequences = read(columns)
    assert (sequences.layout.time, sequences.channels) == (name, ("emg",))
    assert f"rows were put in the order of {name!r}" in sequences.notes


def test_a_column_of_runs_beside_a_clock_that_begins_anew_is_named_as_the_id() -> None:
    rows = np.arange(24 * 30)
    columns = {
        "logger": [f"L{row // 30}" for row in rows],
        "time": rows % 15,
        "temp": numbers(len(rows), 1)[:, 0],
        "door": ["open" if row // 30 % 2 else "shut" for row in rows],
    }
    assert "give layout={'id': 'logger'} where its rows of one value are one sequence; or cut recordings" in why(
        columns
    )
    assert len(read(columns, id="logger", time="")) == 24


def test_a_label_that_changes_within_a_sequence_is_asked_about_with_windows_and_these_work() -> None:
    columns = {
        "subject": np.repeat(np.arange(6), 80),
        "t": np.tile(np.arange(80) / 50, 6),
        "ax": numbers(480, 1)[:, 0],
        "ay": numbers(480, 1, seed=1)[:, 0],
        "label": np.tile(np.repeat(["sit", "run"], 40), 6).tolist(),
    }
    message = why(columns)
    assert "cut recordings into windows with a label each (layout={'window': 40})" in message
    assert len(read(columns, window=40)) == 12


def test_a_table_of_one_column_is_said_as_one() -> None:
    columns = {"id": np.arange(12), "share": numbers(12, 1)[:, 0], "label": list("ab" * 6)}
    assert "in the column 'share';" in read(columns, values=("share",)).layout.sentence


@pytest.mark.parametrize("names", [("engine", "flight"), ("unit", "cycle"), ("a", "b")])
def test_what_counts_the_rows_of_each_block_is_its_clock_and_no_id(names: tuple[str, str]) -> None:
    lengths = [26 + i % 3 for i in range(12)]
    columns = {
        names[0]: np.repeat(np.arange(12), lengths),
        names[1]: np.concatenate([np.arange(length) for length in lengths]),
        "temp": numbers(sum(lengths), 1)[:, 0],
        "load": numbers(sum(lengths), 2)[:, 1],
    }
    layout = read(columns).layout
    assert (layout.id, layout.time) == names


def test_axes_of_a_sensor_in_a_file_without_labels_are_no_sequences_of_three(tmp_path: Path) -> None:
    lines = [",".join(f"{value:.3f}" for value in row) for row in numbers(300, 3)]
    path = write(tmp_path / "f.csv", "\n".join(["Accelerometer X,Accelerometer Y,Accelerometer Z", *lines]))
    message = why(path)
    assert "are the axes of a sensor, so that a row may be a moment of a recording; give one of these" in message
    assert [line.split("FILE ")[1] for line in message.splitlines()[1:]] == ["--window 100", "--layout wide"]
    assert read(path, window=100).lengths.tolist() == [100] * 3
    assert len(read(path, shape="wide")) == 300


def test_a_column_of_one_value_is_neither_an_id_nor_a_question(tmp_path: Path) -> None:
    rows = [f"{'ACDEFGHIK'[k % 9 :]}{'LMNPQRSTV'[: k % 9 + 1]},A*02:01,{k % 2}" for k in range(30)]
    result = read(write(tmp_path / "f.csv", "\n".join(["peptide,allele,binding", *rows])), target="binding")
    assert (result.layout.channels[0].columns, len(result)) == (("peptide",), 30)


def test_rising_temperatures_in_a_column_temps_are_no_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"s{k},{t:.2f},{rng.normal():.3f}" for k in range(6) for t in 20 + np.cumsum(rng.exponential(1, 20))]
    result = read(write(tmp_path / "f.csv", "\n".join(["sample,temps,rh", *rows])), shape="long", id="sample")
    assert (result.layout.time, result.channels) == (None, ("temps", "rh"))
    rows = [f"s{k},{0.01 * t:.2f},{rng.normal():.3f}" for k in range(6) for t in range(20)]
    result = read(write(tmp_path / "g.csv", "\n".join(["sample,temps,force", *rows])))
    assert (result.layout.time, result.channels) == ("temps", ("force",))
