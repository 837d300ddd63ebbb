"""A folder with a table for each recording; labels by folders, by a table beside the files, and by their names."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.made_tables import numbers, read, why, write

from headstart.data import LayoutSpec, read_sequences
from headstart.verbs.data import layout_of
from headstart.verbs.options import LayoutOptions

X = numbers(2_000, 3)


def recording(path: Path, number: int, rows: int = 10, head: str = "time,x,y", step: float = 0.02) -> Path:
    """A table of one recording."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{i * step:.2f},{a},{b}" for i, (a, b, _) in enumerate(X[20 * number : 20 * number + rows])]
    return write(path, "\n".join([head, *lines]) + "\n")


def folder(path: Path, *names: str) -> Path:
    """A folder with recordings of these names, each a little longer than the one before."""
    for number, name in enumerate(names):
        recording(path / name, number, 8 + number)
    return path


def test_each_table_is_a_recording_whose_label_is_its_folder(tmp_path: Path) -> None:
    result = read(folder(tmp_path, *(f"calls/{'ab'[i % 2]}/r{i}.csv" for i in range(6))))
    assert (result.channels, result.classes, result.layout.shape) == (("x", "y"), ("a", "b"), "list")
    assert sorted(result.lengths.tolist()) == list(range(8, 14))
    row = result.ids.index("calls/b/r1.csv") if result.ids else -1
    assert np.allclose(result.values[result.offsets[row] : result.offsets[row + 1]], X[20:29, :2])


def test_rows_are_put_in_the_order_of_time_and_counters_are_no_channels(tmp_path: Path) -> None:
    for number in range(4):
        lines = [f"{i},{i * 20},{a},{'ab'[number % 2]}" for i, (a, _, _) in enumerate(X[20 * number : 20 * number + 9])]
        write(tmp_path / f"r{number}.csv", "\n".join(["nr,ms,force,state", *lines]))
    result = read(tmp_path)
    assert (result.channels, result.layout.target, result.classes) == (("force",), "state", ("a", "b"))


def test_splits_are_no_classes_and_subjects_are_groups(tmp_path: Path) -> None:
    names = [
        f"{split}/s{i}/{'ab'[k]}/{split}{k}.csv" for split in ("train", "test") for i in range(3) for k in range(2)
    ]
    result = read(folder(tmp_path / "outer", *names))
    assert (result.classes, sorted(set(result.groups or ()))) == (("a", "b"), ["s0", "s1", "s2"])
    inner = read(folder(tmp_path / "inner", *(f"{'ab'[k]}/s{i}/{k}.csv" for i in range(3) for k in range(2))))
    assert (inner.classes, sorted(set(inner.groups or ()))) == (("a", "b"), ["s0", "s1", "s2"])


@pytest.mark.parametrize("key", ["{stem}.csv", "{stem}", "rec/{stem}.csv", ".\\rec\\{stem}.csv"])
def test_a_table_beside_the_files_labels_them(key: str, tmp_path: Path) -> None:
    folder(tmp_path, *(f"rec/r{i}.csv" for i in range(8)))
    rows = [f"{key.format(stem=f'r{i}')},p{i // 2},{'ab'[i % 2]}" for i in reversed(range(8))]
    write(tmp_path / "labels.csv", "\n".join(["recording,subject,state", *rows]))
    result = read(tmp_path)
    assert (result.layout.target, result.layout.group) == ("state", "subject")
    assert result.labels == tuple("abababab")
    assert "labels are in 'labels.csv'" in result.notes
    assert why(tmp_path / "labels.csv", shape="auto").startswith("labels.csv: ") or key == "{stem}"


def test_a_table_without_a_label_leaves_it_to_the_folders(tmp_path: Path) -> None:
    folder(tmp_path, *(f"{'ab'[i % 2]}/r{i}.csv" for i in range(8)))
    write(tmp_path / "metadata.csv", "\n".join(["file,age", *(f"r{i}.csv,{20 + i}" for i in range(7))]))
    result = read(tmp_path)
    assert (result.classes, result.layout.target) == (("a", "b"), "folder")
    assert "what is known of the files is in 'metadata.csv'; 1 file has no row there" in result.notes
    assert read(tmp_path, target="age", target_kind="number").target == "number"


def test_absent_files_of_a_table_are_counted_and_three_are_named(tmp_path: Path) -> None:
    folder(tmp_path, *(f"rec/r{i}.csv" for i in range(4)))
    write(tmp_path / "labels.csv", "\n".join(["file,label", *(f"r{i}.csv,{'ab'[i % 2]}" for i in range(9))]))
    assert why(tmp_path).endswith(
        "labels.csv: names 5 files that are not there ('r4.csv', 'r5.csv', 'r6.csv' and 2 more); add them, or leave "
        "their rows out"
    )


def test_a_pattern_names_parts_of_the_names_of_files(tmp_path: Path) -> None:
    folder(tmp_path, *(f"ann{i % 3}_{['low', 'high'][i % 2]}_{i}.csv" for i in range(12)))
    pattern = "{speaker}_{label}_{take}.csv"
    spec = layout_of(LayoutOptions(label_from=pattern))
    result = read_sequences(tmp_path, spec)
    assert (result.classes, result.layout.group, result.labels[0]) == (("high", "low"), "speaker", "high")
    single = folder(tmp_path / "new", "one.csv")
    assert read_sequences(single, result.layout.fixed()).labels == (None,)
    assert "'{a}_{b}_{c}.csv' names no label; give one such as --label-from" in why(
        tmp_path, label_from="{a}_{b}_{c}.csv"
    )
    message = why(tmp_path, label_from="{label}-{take}.csv")
    assert "label_from: 13 files are not named as '{label}-{take}.csv' says ('ann0_high_3.csv'," in message


def test_the_part_of_names_that_repeats_is_the_label_and_two_such_parts_are_asked_about(tmp_path: Path) -> None:
    result = read(folder(tmp_path / "a", *(f"p{i % 4}_{['low', 'high'][i // 4 % 2]}_{i:02}.csv" for i in range(16))))
    assert (result.classes, result.layout.group) == (("high", "low"), "subject")
    assert any("labels are part 2 of the names, such as 'p0_high_04.csv'" in note for note in result.notes)
    speakers = read(
        folder(tmp_path / "s", *(f"mia{i % 4}_{['low', 'high'][i // 4 % 2]}_{i:02}.csv" for i in range(16)))
    )
    assert (speakers.classes, speakers.layout.group) == (("high", "low"), "subject")
    both = folder(tmp_path / "b", *(f"{'ab'[i % 2]}_{['day', 'night'][i // 2 % 2]}_{i}.csv" for i in range(8)))
    question, first, _ = why(both).split("\n")
    assert question.endswith("as part 1 ('a', 'b') or part 2 ('day', 'night'); give one of these:")
    assert first.endswith("--label-from '{label}_{part2}_{part3}.csv'")
    assert read(both, label_from="{part1}_{label}_{part3}.csv").classes == ("day", "night")
    digits = folder(tmp_path / "d", *(f"{i % 3}_{['mia', 'tom'][i // 3 % 2]}_{i // 6}.csv" for i in range(24)))
    assert "as part 1 ('0', '1', '2') or part 2 ('mia', 'tom'); give one of these:" in why(digits)
    assert read(digits, label_from="{label}_{part2}_{part3}.csv").classes == ("0", "1", "2")
    padded = folder(tmp_path / "e", *(f"0{i % 3}_{['walk', 'run'][i // 3 % 2]}_{i // 6}.csv" for i in range(24)))
    assert read(padded).classes == ("run", "walk")
    plainly = read(folder(tmp_path / "c", *(f"rec_{i}.csv" for i in range(6))))
    assert plainly.target == "none"
    assert any("no label is known: labels are names of folders, a table beside" in note for note in plainly.notes)


def test_a_file_with_other_columns_or_without_numbers_is_named(tmp_path: Path) -> None:
    folder(tmp_path, *(f"{'ab'[i % 2]}/r{i}.csv" for i in range(4)))
    recording(tmp_path / "b" / "r9.csv", 9, head="time,x,z")
    message = why(tmp_path)
    assert "b/r9.csv: has no column 'y', which " in message
    assert message.endswith(
        "a/r0.csv has; give all recordings the same columns, or name with --values those that all have"
    )
    assert read(tmp_path, values=("x",)).channels == ("x",)
    lines = (tmp_path / "b" / "r9.csv").read_text().replace("time,x,z", "time,x,y").splitlines()
    write(tmp_path / "b" / "r9.csv", "\n".join([*lines[:3], lines[3].rsplit(",", 1)[0] + ",bad", *lines[4:]]))
    assert "b/r9.csv:4 column 'y': 'bad' is not a number" in why(tmp_path)


def test_a_list_or_a_dict_of_frames_is_read_by_names_of_columns_in_the_order_of_time() -> None:
    frames = [pd.DataFrame({"time": np.arange(8 + i) * 0.02, "x": X[: 8 + i, 0], "y": X[: 8 + i, 1]}) for i in range(4)]
    frames[2] = frames[2][["y", "time", "x"]].iloc[::-1]
    result = read(frames)
    assert (result.channels, result.lengths.tolist(), result.ids) == (("x", "y"), [8, 9, 10, 11], None)
    assert np.allclose(result.values[result.offsets[2] : result.offsets[3], 0], X[:10, 0])
    assert read({f"r{i}": frame for i, frame in enumerate(frames)}).ids == ("r0", "r1", "r2", "r3")
    message = why([frames[0], frames[1].drop(columns="y")])
    assert message.startswith("X[1]: has no column 'y', which X[0] has; give all recordings the same columns, or name")


def test_a_layout_of_a_folder_reads_another_one(tmp_path: Path) -> None:
    fixed = read(folder(tmp_path / "a", *(f"{'ab'[i % 2]}/r{i}.csv" for i in range(4)))).layout.fixed()
    again = read_sequences(folder(tmp_path / "b", "new1.csv", "new2.csv"), fixed)
    assert (again.channels, again.lengths.tolist(), again.ids) == (("x", "y"), [8, 9], ("new1.csv", "new2.csv"))
    alone = read_sequences(tmp_path / "b" / "new2.csv", fixed)
    assert (alone.ids, alone.notes) == (("new2.csv",), ())
    assert np.array_equal(alone.values, again.values[again.offsets[1] :])
    assert LayoutSpec().model_dump() == LayoutSpec(label_from=None).model_dump()


def test_one_table_beside_a_store_and_a_model_is_named_and_recordings_beside_them_are_read(tmp_path: Path) -> None:
    for name in ("runs/0123456789abcdef/stage.json", "runs/0123456789abcdef/records.jsonl", "m/model.safetensors"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, "{}")
    write(tmp_path / "m" / "predictions.csv", "a,b\n1,2\n")
    recording(tmp_path / "train.csv", 0)
    assert why(tmp_path).endswith(f"holds one table, which a folder is not needed for; give {tmp_path.name}/train.csv")
    (tmp_path / "train.csv").unlink()
    folder(tmp_path, *(f"calls/{'ab'[i % 2]}/r{i}.csv" for i in range(6)))
    assert len(read(tmp_path / "calls")) == len(read(tmp_path)) == 6


def test_a_pattern_of_names_beside_one_table_is_refused_with_the_column_that_may_be_meant(tmp_path: Path) -> None:
    path = write(
        tmp_path / "one.csv",
        "\n".join(["a,b,kind", *(f"{i * 7 % 5}.5,{i * i % 11}.25,{'xy'[i % 2]}" for i in range(20))]),
    )
    assert why(path, label_from="{label}_{take}.csv").endswith("leave it out, and name that column (--target kind)")
    assert read_sequences(path, layout_of(LayoutOptions(target="kind"))).classes == ("x", "y")


def two_clocks(path: Path, name: str, factor: float) -> Path:
    rng = np.random.default_rng(3)
    for i in range(8):
        (path / "ab"[i % 2]).mkdir(exist_ok=True)
        cells = [f"{k / 100:.2f},{rng.normal():.3f},{k / 100 * factor:.6g},{rng.normal():.3f}" for k in range(1, 40)]
        write(path / "ab"[i % 2] / f"{i}.csv", "\n".join([f"t_acc,acc,{name},gyr", *cells]))
    return path


def test_two_sensors_with_clocks_of_their_own_are_not_joined_row_by_row(tmp_path: Path) -> None:
    path = two_clocks(tmp_path, "t_gyr", 2.5)
    message = why(path)
    assert (
        "has two clocks, 't_acc' in steps of 0.01 and 't_gyr' in steps of 0.025, so that a row has no single time"
        in message
    )
    assert "--values acc --time-column t_acc" in message
    s = read(path, values=("acc",), time="t_acc")
    assert (s.channels, s.lengths.tolist()) == (("acc",), [39] * 8)
    assert read(path, values=("gyr",), time="t_gyr").channels == ("gyr",)


@pytest.mark.parametrize(
    ("name", "factor"),
    [("t_ms", 1000.0), ("t_min", 1 / 60), ("time_days", 1 / 86_400), ("frame", 100.0), ("gain", 2.5)],
)
def test_one_clock_in_two_units_is_one(tmp_path: Path, name: str, factor: float) -> None:
    assert "acc" in read(two_clocks(tmp_path, name, factor)).channels


def test_tables_whose_names_end_in_splits_are_told_from_recordings(tmp_path: Path) -> None:
    for name in ("Waves_TEST.tsv", "Waves_TRAIN.tsv"):
        (tmp_path / name).write_text("\n".join(f"{i % 2}\t{a}\t{b}\t{c}" for i, (a, b, c) in enumerate(X[:9])), "utf-8")
    text = why(tmp_path)
    assert text.endswith(f"('Waves_TEST.tsv', 'Waves_TRAIN.tsv'); give {tmp_path.name}/Waves_TRAIN.tsv")
    assert len(read(tmp_path / "Waves_TRAIN.tsv")) == 9


@pytest.mark.parametrize("ending", [".asc", ".24", ""])
def test_texts_of_numbers_with_any_ending_are_recordings(ending: str, tmp_path: Path) -> None:
    for i in range(6):
        file = tmp_path / "ab"[i % 2] / f"r{i}{ending}"
        file.parent.mkdir(exist_ok=True)
        recording(file, 0, 20)
    result = read(tmp_path)
    assert (len(result), result.channels, result.classes) == (6, ("x", "y"), ("a", "b"))
    again = read_sequences(tmp_path / "b" / f"r1{ending}", result.layout.fixed())
    assert np.allclose(again.values, X[:20, :2])


def test_a_folder_of_what_is_not_read_says_what_it_is(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        write(tmp_path / label / "r.tdms", b"TDSm" + bytes(40))
    assert "is a file of LabVIEW (TDMS), which is not read; write a group as text" in why(tmp_path)
    for label in ("a", "b"):
        (tmp_path / label / "r.tdms").unlink()
        write(tmp_path / label / "r.58", "    -1\n    58\nacc\n" + "1.5 2.5 3.5\n" * 40)
    assert "is a universal file of vibrations (UFF), which is not read" in why(tmp_path)


def test_texts_that_change_and_columns_without_a_number_are_left_out_of_recordings_and_said_once(
    tmp_path: Path,
) -> None:
    for number in range(4):
        rows = [f"{i / 10},{a},,{['low', 'high'][i % 2]}" for i, a in enumerate(X[:20, number % 3])]
        rows[5] = rows[5].replace(str(X[5, number % 3]), "n.a.")
        write(tmp_path / f"{'ab'[number % 2]}_{number}.csv", "\n".join(["time,x,z,gear", *rows]))
    result = read(tmp_path)
    assert result.channels == ("x",)
    assert "columns without a number in any recording are left out: 'z'" in result.notes
    assert any(
        note.startswith("texts that change within a recording are not read: 'gear'; --w") for note in result.notes
    )
    assert "'n.a.' in 1 row is read as missing, and so in 3 more recordings" in result.notes


def test_a_table_of_a_row_for_each_channel_is_asked_about_and_both_answers_read_it(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / "ab"[number % 2]).mkdir(exist_ok=True)
        lines = ["\t".join(["", *(f"{4 * i:.1f}" for i in range(30))])]
        lines += ["\t".join([name, *map(str, X[:30, k] + number)]) for k, name in enumerate(("C3", "C4"))]
        write(tmp_path / "ab"[number % 2] / f"r{number}.txt", "\n".join(lines) + "\n")
    message = why(tmp_path)
    assert "each of its rows ('C3', 'C4') may be a channel" in message
    ways = [line.split()[-1] for line in message.splitlines()[1:]]
    assert ways == ["time_axis=second", "time_axis=first"]
    result = read(tmp_path, time_axis="second")
    assert (result.channels, set(result.lengths.tolist())) == (("C3", "C4"), {30})
    assert np.allclose(result.values[:30], X[:30, :2])
    assert read(tmp_path, time_axis="first").width == 30
    again = read_sequences(tmp_path / "a" / "r0.txt", result.layout.fixed())
    assert np.allclose(again.values, X[:30, :2])


def test_an_archive_of_data_sets_is_refused_with_one_of_them_that_is_read(tmp_path: Path) -> None:
    for name in ("Coffee", "Gun"):
        (tmp_path / name).mkdir()
        for part in ("TRAIN", "TEST"):
            rows = ["\t".join([str(1 + i % 2), *map(str, X[i % 40])]) for i in range(12)]
            write(tmp_path / name / f"{name}_{part}.tsv", "\n".join(rows) + "\n")
    assert "holds a data set in each folder ('Coffee', 'Gun'), in splits; give " in why(tmp_path)
    assert len(read(tmp_path / "Coffee" / "Coffee_TRAIN.tsv")) == 12


def test_rows_of_numbers_in_a_file_for_each_class_are_asked_about_and_both_answers_read_them(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        np.savetxt(tmp_path / f"{name}.txt", np.random.default_rng(0).normal(size=(30, 20)))
    message = why(tmp_path)
    assert "each file may hold the sequences of a class, a row each, or be one recording" in message
    assert [line.split()[-1] for line in message.splitlines()[1:]] == ["file", "time_axis=first"]
    assert read(tmp_path, target="file").lengths.tolist() == [20] * 60
    assert read(tmp_path, time_axis="first").lengths.tolist() == [30, 30]


def test_a_table_of_participants_labels_the_files_of_their_folders_and_each_is_in_one_split(tmp_path: Path) -> None:
    rows = ["participant_id\tage\tsex\tgroup"]
    for i in range(8):
        rows.append(f"sub-{i:02d}\t{30 + i}\t{'MMF'[i % 3]}\t{['patient', 'control'][i % 2]}")
        for task in ("rest", "walk"):
            (tmp_path / f"sub-{i:02d}" / "eeg").mkdir(parents=True, exist_ok=True)
            recording(tmp_path / f"sub-{i:02d}" / "eeg" / f"sub-{i:02d}_task-{task}_eeg.csv", i % 4, 20)
    write(tmp_path / "participants.tsv", "\n".join(rows) + "\n")
    result = read(tmp_path, target="group")
    assert (len(result), result.classes) == (16, ("control", "patient"))
    assert len(set(result.groups or ())) == 8
    assert dict(zip(result.groups or (), result.labels, strict=True))["sub-01"] == "control"
    message = why(tmp_path)
    assert "has several columns that may be the label" in message
    assert [line.split()[-2:] for line in message.splitlines()[1:]] == [["--target", "sex"], ["--target", "group"]]
    again = read_sequences(tmp_path, result.layout.fixed())
    assert (again.labels, again.groups) == (result.labels, result.groups)
    rows = ["participant_id\tgroup", *(f"sub-{i:02d}\t{['patient', 'control'][i % 2]}" for i in range(8))]
    write(tmp_path / "participants.tsv", "\n".join(rows) + "\n")  # the one column is the label, though named `group`
    assert (read(tmp_path).labels, read(tmp_path).groups) == (result.labels, result.groups)


def test_classes_around_the_folders_of_participants_are_asked_about_beside_a_column_of_their_table(
    tmp_path: Path,
) -> None:
    for i in range(8):
        recording(tmp_path / ("ill" if i % 2 else "well") / f"sub-{i}" / "walk.csv", i, 20)
    write(
        tmp_path / "participants.tsv", "participant_id\tsex\n" + "".join(f"sub-{i}\t{'MMF'[i % 3]}\n" for i in range(8))
    )
    message = why(tmp_path)
    assert "its folders may be the classes, or a column of the table that names them" in message
    assert [line.split()[-1] for line in message.splitlines()[1:]] == ["folder", "sex"]
    assert read(tmp_path, target="folder").classes == ("ill", "well")
    assert len(set(read(tmp_path, target="folder").groups or ())) == 8


def test_a_table_of_files_with_a_column_of_participants_names_files(tmp_path: Path) -> None:
    rows = [f"r{i}.csv,{'xy'[i % 2]},p{i % 4},{'MF'[i % 2]}" for i in range(8)]
    folder(tmp_path, *(f"r{i}.csv" for i in range(8)))
    write(tmp_path / "labels.csv", "\n".join(["file,label,participant,sex", *rows]))
    result = read(tmp_path)
    assert (result.classes, len(set(result.groups or ()))) == (("x", "y"), 4)


def test_a_table_of_participants_labels_the_files_whose_names_hold_one(tmp_path: Path) -> None:
    rows = ["participant_id,age,group", *(f"P{i:02d},{30 + i},{['patient', 'control'][i % 2]}" for i in range(8))]
    write(tmp_path / "participants.csv", "\n".join(rows) + "\n")
    for i in range(8):
        for day in (5, 6):
            recording(tmp_path / f"Export_P{i:02d}_2023-05-0{day}.csv", i % 4, 20)
    result = read(tmp_path)
    assert (len(result), result.layout.target, len(set(result.groups or ()))) == (16, "group", 8)
    assert dict(zip(result.groups or (), result.labels, strict=True))["P01"] == "control"


def test_numbered_parts_of_names_may_each_be_the_class_and_are_asked_about(tmp_path: Path) -> None:
    names = [f"S{s:02d}_A{a:02d}_R{r}.csv" for s in range(1, 5) for a in range(1, 4) for r in (1, 2)]
    message = why(folder(tmp_path, *names))
    patterns = [line.split()[-1].strip("'") for line in message.splitlines()[1:]]
    assert patterns == ["{subject}_{label}_{part3}.csv", "{subject}_{part2}_{label}.csv"]
    assert read(tmp_path, label_from=patterns[0]).classes == ("A01", "A02", "A03")
