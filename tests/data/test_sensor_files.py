"""Sensors of one recording in files of their own."""

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import LayoutSpec, read_sequences
from headstart.data.folders import recordings_of

PLACES = {"files": "subj{person}_{label}_{sensor}.csv", "folders": "{sensor}/subj{person}_{label}.csv"}


def recordings(folder: Path, form: str = "files", steps: tuple[float, float] = (0.02, 0.02), rows: int = 40) -> Path:
    """Nine recordings of two sensors with axes x and y, whose values say person, sensor, axis and time."""
    for person in (1, 2, 3):
        for label in ("run", "sit", "walk"):
            for number, (sensor, step) in enumerate(zip(("acc", "gyro"), steps, strict=True)):
                times = np.arange(int(rows * 0.02 / step)) * step
                lines = [f"{t:.2f},{person + t:.4f},{10 * number + t:.4f}" for t in times]
                file = folder / PLACES[form].format(person=person, label=label, sensor=sensor)
                file.parent.mkdir(exist_ok=True)
                write(file, "\n".join(["time,x,y", *lines, ""]))
    return folder


@pytest.mark.parametrize("form", PLACES)
def test_sensors_of_a_recording_are_its_channels_and_said(form: str, tmp_path: Path) -> None:
    result = read(recordings(tmp_path, form))
    assert result.channels == ("acc x", "acc y", "gyro x", "gyro y")
    assert (len(result), set(result.lengths.tolist())) == (9, {40})
    assert sorted(set(result.labels)) == ["run", "sit", "walk"]
    assert len(set(result.groups or ())) == 3
    times = np.arange(40) * 0.02
    np.testing.assert_allclose(result.values[:40].T, [1 + times, times, 1 + times, 10 + times], atol=1e-4)
    assert any("are the sensors of one recording" in note for note in result.notes)
    assert not any("not read" in note for note in result.notes)
    again = read_sequences(tmp_path, result.layout.fixed())
    assert np.array_equal(again.values, result.values)


def test_sensors_with_clocks_of_their_own_are_brought_onto_one_by_the_rate_that_is_named(tmp_path: Path) -> None:
    message = why(recordings(tmp_path, steps=(0.02, 0.04)))
    assert "clocks of their own (steps of 0.02 in 'acc' and 0.04 in 'gyro'); --rate 50 brings all onto one" in message
    result = read(tmp_path, rate=50)
    assert (len(result), set(result.lengths.tolist())) == (9, {40})
    times = np.arange(39) * 0.02
    np.testing.assert_allclose(result.values[:39].T, [1 + times, times, 1 + times, 10 + times], atol=1e-4)
    assert np.array_equal(read_sequences(tmp_path, result.layout.fixed()).values, result.values, equal_nan=True)


def test_a_recording_that_lacks_a_sensor_is_named(tmp_path: Path) -> None:
    (recordings(tmp_path) / "subj2_walk_gyro.csv").unlink()
    assert "'subj2_walk_acc.csv' has no file of 'gyro' beside it, which other recordings have" in why(tmp_path)
    (tmp_path / "subj2_walk_acc.csv").rename(tmp_path / "a_walk_acc.csv")
    first = why(tmp_path)  # the example is one that has it, not the first of all
    assert first.partition("recordings have (")[2].partition(")")[0].count("gyro") == 1


def test_sensors_without_a_clock_are_joined_row_by_row_only_where_they_have_equal_numbers_of_rows(
    tmp_path: Path,
) -> None:
    def sensors(folder: Path, rows: int) -> Path:
        folder.mkdir()
        for name in ("walk_1", "walk_2", "sit_1", "sit_2"):
            write(folder / f"{name}_acc.csv", "x,y\n" + "1.5,2.5\n3.5,4.5\n" * 10)
            write(folder / f"{name}_gyro.csv", "x,y\n" + "5.5,6.5\n7.5,8.5\n" * rows)
        return folder

    assert read(sensors(tmp_path / "a", 10)).values[0].tolist() == [1.5, 2.5, 5.5, 6.5]
    assert "unequal numbers of rows (20 of 'acc' and 10 of 'gyro')" in why(sensors(tmp_path / "b", 5))


def test_sensors_in_files_that_are_not_joined_are_refused_and_never_read_as_classes(tmp_path: Path) -> None:
    for sensor in ("acc", "gyro"):
        for number in range(4):
            (tmp_path / sensor).mkdir(exist_ok=True)
            np.save(tmp_path / sensor / f"r{number}.npy", np.random.default_rng(number).normal(size=(60, 3)))
    assert "files such as 'acc/r0.npy' and 'gyro/r0.npy' are sensors of one recording" in why(tmp_path)
    assert len(read_sequences(tmp_path / "acc", LayoutSpec())) == 4


def test_one_sensor_alone_is_read_as_it_stands(tmp_path: Path) -> None:
    folder = recordings(tmp_path)
    for file in folder.glob("*_gyro.csv"):
        file.unlink()
    assert read(folder).channels == ("x", "y")


def test_files_of_the_sensors_of_a_recording_stay_together_in_a_part_of_a_folder() -> None:
    names = ["a_acc.csv", "a_gyro.csv", "b_acc.csv", "b_gyro.csv"]
    assert recordings_of(names)[0] == {"a.csv": names[:2], "b.csv": names[2:]}


def test_axes_of_sensors_in_files_of_their_own_are_told_with_how_to_put_them_together(tmp_path: Path) -> None:
    for sensor in ("body_acc", "body_gyro", "total_acc"):
        for axis in "xyz":
            np.savetxt(tmp_path / f"{sensor}_{axis}_train.txt", np.random.default_rng(0).normal(size=(12, 20)))
    message = why(tmp_path)
    assert "files such as 'body_acc_x_train.txt' and 'body_acc_y_train.txt' hold an axis of a sensor each" in message
    files = sorted(tmp_path.glob("*.txt"))
    np.savez(tmp_path / "all.npz", X=np.stack([np.loadtxt(file) for file in files], 2), y=np.arange(12) % 2)
    assert read(tmp_path / "all.npz").lengths.tolist() == [20] * 12


def test_files_of_events_and_texts_beside_the_sensors_of_a_person_are_passed_over(tmp_path: Path) -> None:
    for person in ("S1", "S2", "S3"):
        (tmp_path / person).mkdir()
        for name, rate in (("ACC", 32), ("BVP", 64), ("HR", 1)):
            rows = "\n".join(f"{np.sin(i):.3f}" for i in range(20 * rate))
            write(tmp_path / person / f"{name}.csv", f"1544027337.000000\n{rate}.000000\n{rows}\n")
        write(tmp_path / person / "tags.csv", "1544027341.21\n1544027350.5\n")
        write(tmp_path / person / "info.txt", "Files of a wristband.")
    assert "--rate 64 brings all onto one clock" in why(tmp_path)
    result = read(tmp_path, rate=16)
    assert (len(result), len(result.channels)) == (3, 3)
    assert any("files of other kinds are not read" in note for note in result.notes)


def test_clocks_of_sensors_that_count_other_units_are_brought_to_one(tmp_path: Path) -> None:
    for file in sorted(recordings(tmp_path, steps=(0.02, 0.04)).glob("*_acc.csv")):
        rows = [line.split(",", 1) for line in file.read_text().splitlines()[1:]]
        write(file, "\n".join(["time,x,y", *(f"{1000 * float(time):.0f},{rest}" for time, rest in rows), ""]))
    assert "not all clocks of its sensors say their unit ('time' of 'acc' and 'time' of 'gyro')" in why(tmp_path)
    for file in tmp_path.glob("*_acc.csv"):
        write(file, file.read_text().replace("time", "time_ms"))
    assert "--rate 50 brings all onto one clock" in why(tmp_path)
    result = read(tmp_path, rate=50)
    times = np.arange(39) * 0.02
    np.testing.assert_allclose(result.values[:39].T, [1 + times, times, 1 + times, 10 + times], atol=1e-4)


def test_the_rate_that_is_named_reads_sensors_whose_clock_has_no_name_of_clocks(tmp_path: Path) -> None:
    for file in recordings(tmp_path, steps=(0.02, 0.04)).glob("*.csv"):
        write(file, file.read_text().replace("time", "X[s]"))
    assert "--rate 50 brings all onto one clock" in why(tmp_path)
    result = read(tmp_path, rate=50)
    assert set(result.lengths.tolist()) == {40}
    assert np.array_equal(read_sequences(tmp_path, result.layout.fixed()).values, result.values, equal_nan=True)


def test_two_files_that_would_be_one_sensor_of_a_recording_are_told(tmp_path: Path) -> None:
    for name in ("left_acc", "acc_left", "left_gyro", "gyro_left"):
        write(tmp_path / f"{name}_1.csv", "x,y\n" + "1.5,2.5\n" * 9)
    assert "'acc_left_1.csv' and 'left_acc_1.csv' are both files of 'acc' of one recording" in why(tmp_path)


@pytest.mark.parametrize("form", ["a file a recording", "a file a sensor"])
def test_a_label_that_stands_as_a_number_in_each_row_of_a_recording_is_its_label(form: str, tmp_path: Path) -> None:
    for k in range(8):
        for sensor in ("acc", "gyro")[: 1 + (form == "a file a sensor")]:
            rows = "\n".join(f"{t / 50},{k // 2},{k % 2},{t % 7 + 0.5}" for t in range(30))
            write(tmp_path / f"r{k}_{sensor}.csv", f"time,subject,label,x\n{rows}\n")
    result = read(tmp_path, target="label", group="subject")
    assert (result.labels, len(set(result.groups or ()))) == (("0", "1") * 4, 4)
    assert not {"label", "subject"} & {word for channel in result.channels for word in channel.split()}


def test_folders_of_sensors_without_a_label_may_be_classes_and_both_answers_read_them(tmp_path: Path) -> None:
    for sensor in ("ecg", "emg"):
        (tmp_path / sensor).mkdir()
        for number in range(3):
            write(tmp_path / sensor / f"{number}.csv", "time,x\n" + "".join(f"{i / 10},{i % 7}\n" for i in range(30)))
    message = why(tmp_path)
    assert "its folders may be sensors of one recording, or classes" in message
    assert [line.split(maxsplit=3)[-1] for line in message.splitlines()[1:]] == ["--target folder", "--target ''"]
    assert (len(read(tmp_path, target="folder")), read(tmp_path, target="folder").classes) == (6, ("ecg", "emg"))
    assert (len(read(tmp_path, target="")), read(tmp_path, target="").channels) == (3, ("ecg x", "emg x"))


@pytest.mark.parametrize("part", ["train", "test"])
def test_axes_in_files_of_their_own_are_channels_where_the_folder_around_them_has_labels(
    part: str, tmp_path: Path
) -> None:
    signals = np.random.default_rng(0).normal(size=(4, 12, 20)).round(4)
    for around, rows in (("train", 12), ("test", 5)):
        folder = tmp_path / around / "Inertial Signals"
        folder.mkdir(parents=True)
        for k, name in enumerate(("acc_x", "acc_y", "acc_z", "gyro_x")):
            np.savetxt(folder / f"{name}_{around}.txt", signals[k, :rows])
        np.savetxt(tmp_path / around / f"y_{around}.txt", np.arange(rows) % 3 + 1, fmt="%d")
        np.savetxt(tmp_path / around / f"subject_{around}.txt", np.arange(rows) // 3 + 1, fmt="%d")
    train = read(tmp_path / "train" / "Inertial Signals")
    assert (train.channels, sorted(set(train.labels))) == (("acc_x", "acc_y", "acc_z", "gyro_x"), ["1", "2", "3"])
    assert len(set(train.groups or ())) == 4
    np.testing.assert_allclose(train.values[:20], signals[:, 0].T, rtol=1e-6)
    result = read_sequences(tmp_path / part / "Inertial Signals", train.layout.fixed())
    assert (len(result), result.width) == ({"train": 12, "test": 5}[part], 4)


def test_sensors_of_persons_in_folders_of_their_class_are_read_again_by_the_layout_of_the_model(tmp_path: Path) -> None:
    """As a wristband's folder of each participant, below the group that the participant is of."""
    for number in range(6):
        folder = tmp_path / ("control", "patient")[number % 2] / f"P{number:02}"
        folder.mkdir(parents=True)
        for sensor in ("ACC", "EDA"):
            lines = [f"{i / 4},{number + i % 5}" for i in range(40)]
            write(folder / f"{sensor}.csv", "\n".join(["time,x", *lines, ""]))
    result = read(tmp_path)
    assert (len(result), result.classes) == (6, ("control", "patient"))
    again = read_sequences(tmp_path, result.layout.fixed())
    assert (again.channels, again.labels) == (result.channels, result.labels)
    assert np.array_equal(again.values, result.values)
