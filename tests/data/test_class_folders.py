"""Folders of images, recordings and texts by class; .ts and FASTA files."""

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.made_tables import read, why, write

from headstart.data import data_card, folders, read_sequences


def wav(samples, rate=8000, channels=1):
    """A .wav file of 16 bits."""
    data = np.asarray(samples, dtype="<i2").tobytes()
    head = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def image(path, size=(4, 3), mode="L", value=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value,) * len(mode)).save(path)


def test_images_are_read_row_by_row_with_their_folder_as_label(tmp_path):
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels).save(tmp_path / name / "a.png")
    write(tmp_path / ".DS_Store", "x")
    write(tmp_path / "readme.md", "x")
    result = read(tmp_path, kind="numbers")
    assert result.values[:12, 0].tolist() == list(range(12))
    assert result.labels == ("cat", "dog")
    assert result.ids == ("cat/a.png", "dog/a.png")
    assert result.places.of(1) == str(tmp_path / "dog" / "a.png")
    assert result.notes == ("images of 4 x 3 (2), pixel by pixel, row by row", "1 file of another kind is not read")


@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_grey_levels_of_16_bits_are_read_in_either_order_of_bytes(tmp_path, order):
    pixels = np.array([[0, 100], [300, 65535]], dtype=order)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels).save(tmp_path / name / "a.tif")
    assert read(tmp_path, kind="numbers").values[:4].tolist() == [[0], [100], [300], [65535]]
    image(tmp_path / "dog" / "b.png", size=(2, 2))
    assert "2 images have more than 8 bits a pixel, whose levels are on another scale" in read(tmp_path).notes


def test_grey_images_among_coloured_ones_and_transparency_are_said(tmp_path):
    image(tmp_path / "a" / "1.png")
    image(tmp_path / "b" / "2.png", mode="RGB", value=9)
    image(tmp_path / "b" / "3.png", mode="RGBA", size=(2, 2), value=9)
    result = read(tmp_path)
    assert len(result.channels) == 3
    assert result.values[0].tolist() == [7, 7, 7]
    assert result.lengths.tolist() == [12, 12, 4]
    assert result.notes[0] == "1 grey images are read as colour, as 2 others are"
    assert "the images differ in size" in result.notes[2]
    assert result.notes[3] == "transparency of 1 image is not read"


def test_recordings_are_read_sample_by_sample(tmp_path):
    for i, name in enumerate(("no", "yes")):
        write(_there(tmp_path / name / "a.wav"), wav([0, 16384, -32768, 100 * i]))
    result = read(tmp_path)
    assert result.values[:3, 0].tolist() == [0, 0.5, -1]
    assert (result.labels, result.notes) == (("no", "yes"), ("8,000 samples per second",))


def test_files_without_folders_have_no_label(tmp_path):
    write(tmp_path / "a.wav", wav([1, 2, 3]))
    result = read(tmp_path, kind="numbers")
    assert (result.labels, result.layout.target) == ((None,), None)


def test_recordings_of_other_rates_and_channels_are_refused_or_brought_to_one(tmp_path):
    write(_there(tmp_path / "a" / "1.wav"), wav(np.arange(80)))
    write(tmp_path / "a" / "2.wav", wav(np.arange(80), rate=16000))
    assert why(tmp_path).endswith(
        "2.wav: has 16000 samples per second, the first file has 8000; set --rate 8000 to have "
        "every recording resampled and its channels mixed"
    )
    assert read(tmp_path, rate=8000).lengths.tolist() == [80, 40]
    write(tmp_path / "a" / "2.wav", wav(np.arange(80), channels=2))
    assert why(tmp_path).endswith(
        "2.wav: has 2 channels, the first file has 1; set --rate 8000 or the like to have channels mixed"
    )
    assert read(tmp_path, rate=8000).lengths.tolist() == [80, 40]


def test_new_recordings_are_resampled_to_the_rate_of_the_first_ones(tmp_path):
    write(_there(tmp_path / "old" / "1.wav"), wav(np.arange(80)))
    layout = read(tmp_path / "old").layout.fixed()
    assert layout.rate == 8000
    write(_there(tmp_path / "new" / "1.wav"), wav(np.arange(80), rate=16000))
    result = read_sequences(tmp_path / "new", layout)
    assert result.lengths.tolist() == [40]
    assert any("16,000 samples per second, resampled to 8,000" in note for note in result.notes)
    write(tmp_path / "old" / "1.wav", wav(np.arange(80), channels=2))
    assert read(tmp_path / "old").layout.fixed().rate is None


def test_texts_are_read_with_their_folder_as_label(tmp_path):
    write(_there(tmp_path / "neg" / "1.txt"), "was für ein Film")
    write(_there(tmp_path / "pos" / "1.txt"), b"\xef\xbb\xbfso good")
    result = read(tmp_path)
    assert (result.kind, result.labels, result.speak(1)) == ("text", ("neg", "pos"), "so good")


def _there(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_what_is_wrong_with_a_folder_is_named(tmp_path, monkeypatch):
    assert ": holds no image, recording, table or .txt file; name a file" in why(tmp_path)
    write(tmp_path / "train.bin", "a,b\n")
    assert "(but 'train.bin')" in why(tmp_path)
    write(_there(tmp_path / "a" / "1.png"), b"no image")
    write(tmp_path / "a" / "2.png", b"")
    assert why(tmp_path).endswith(
        "a/1.png: is not an image that can be read (of no known format); give it again (1 more like it)"
    )
    write(tmp_path / "a" / "1.wav", wav([1]))
    assert "holds 2 images and 1 recording; name a folder that holds one kind" in why(tmp_path)
    (tmp_path / "a" / "1.wav").unlink()
    (tmp_path / "a" / "2.png").unlink()
    image(tmp_path / "a" / "1.png", size=(50, 50))
    monkeypatch.setattr(folders, "PIXELS", 100)
    assert "has 50 x 50 pixels, at most 100 are read" in why(tmp_path)


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    image(tmp_path / "outside.png")
    image(tmp_path / "in" / "a" / "1.png")
    (tmp_path / "in" / "a" / "2.png").symlink_to(tmp_path / "outside.png")
    assert why(tmp_path / "in").endswith("2.png: is a link that leads out of its folder; put the file itself there")


HEAD = "@problemName Small\n@timeStamps false\n"


def test_ts_files_are_read_with_labels_numbers_or_neither(tmp_path):
    path = write(tmp_path / "f.ts", HEAD + "@classLabel true up down\n@data\n1,2,?:4,5,6:up\n1:2:down\n")
    result = read(path)
    assert (result.labels, result.channels, result.lengths.tolist()) == (
        ("up", "down"),
        ("channel 1", "channel 2"),
        [3, 1],
    )
    assert result.observed[:3].tolist() == [[True, True], [True, True], [False, True]]
    assert result.places.of(1) == f"{path}:6"
    result = read(write(tmp_path / "g.ts", HEAD + "@targetLabel true\n@data\n1,2:0.5\n3,4.5:1.5\n"))
    assert (result.target, result.numbers().tolist()) == ("number", [0.5, 1.5]) or result.labels == ("0.5", "1.5")
    result = read(write(tmp_path / "h.ts", HEAD + "@classLabel false\n@data\n1,2:3,4.5\n"))
    assert (result.target, result.values.tolist()) == ("none", [[1, 3], [2, 4.5]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@data\n", "f.ts: has no sequence under @data"),
        ("1,2:a\n", "f.ts: has no @data line; give a whole .ts file"),
        ("@classLabel true a b\n@data\n1,2:a\n1,x:b\n", "f.ts:6: value 2 is 'x', no number"),
        ("@classLabel true a b\n@data\n1,2:a\n1,2:c\n", "f.ts:6: label 'c' is none of the header's (a, b)"),
        ("@classLabel true a b\n@data\n1,2:a\n1,2:3:b\n", "f.ts:6: has 2 dimensions, there should be 1"),
    ],
)
def test_what_is_wrong_with_a_ts_file_is_named(tmp_path, text, message):
    assert why(write(tmp_path / "f.ts", HEAD + text)).startswith(message)


def test_fasta_files_have_their_labels_in_the_second_word(tmp_path):
    rows = [(f">P{i} {['in', 'out'][i % 2]} note{i}", "MKLVACDEFGHIWYP" + "ACDEF"[i % 5]) for i in range(10)]
    result = read(write(tmp_path / "f.fasta", "".join(f"{head}\n{text[:7]}\n{text[7:]}\n" for head, text in rows)))
    assert (result.kind, result.layout.target, result.classes) == ("protein", "word 2", ("in", "out"))
    assert result.ids == tuple(f"P{i}" for i in range(10))
    assert result.speak(3) == rows[3][1]
    assert result.places.of(1).endswith("f.fasta:4")
    assert read(tmp_path / "f.fasta", target="").target == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ACGT\n>a\nACGT\n", "f.fa:1: comes before the first header (a line that begins with >)"),
        (">a\n>b\nACGT\n", "f.fa:1: 'a' has a header and no sequence; leave it out"),
        (">a\nACGTACGTAC\n>b\nACGTACG!AC\n", "f.fa:3 column 'sequence': letter 8 is '!', no base"),
        (";\n", "f.fa: is empty; give a FASTA file"),
    ],
)
def test_what_is_wrong_with_a_fasta_file_is_named(tmp_path, text, message):
    assert why(write(tmp_path / "f.fa", text), kind="dna").startswith(message)


def _tree(folder, *names):
    for i, name in enumerate(names):
        write(_there(folder / name), wav([i, 2, 3]))
    return folder


def test_folders_of_splits_are_no_classes(tmp_path):
    names = [f"{split}/{label}/{i}.wav" for split in ("test", "train") for label in ("high", "low") for i in range(2)]
    result = read(_tree(tmp_path, *names))
    assert (result.layout.target, result.classes) == ("folder 2", ("high", "low"))
    assert result.notes[0].startswith(
        "folders 'test', 'train' are taken for splits and read together, and the class is"
    )
    assert read(tmp_path, target="folder").classes == ("test", "train")
    assert read(tmp_path / "train").layout.target == "folder"


def test_folders_of_splits_without_folders_inside_label_nothing(tmp_path):
    result = read(_tree(tmp_path, "test/1.wav", "train/1.wav"), kind="numbers")
    assert (result.labels, result.layout.target) == ((None, None), None)
    assert "no file has a label" in result.notes[0]


def test_folders_of_persons_that_hold_the_classes_are_groups(tmp_path):
    result = read(_tree(tmp_path, *(f"S{i:02}/{label}/1.wav" for i in range(3) for label in ("sit", "walk"))))
    assert (result.classes, result.groups) == (("sit", "walk"), ("S00", "S00", "S01", "S01", "S02", "S02"))


def test_folders_of_persons_below_their_class_are_groups_and_that_is_told(tmp_path):
    result = read(_tree(tmp_path, *(f"{label}/p{i}/1.wav" for i in range(3) for label in ("sit", "walk"))))
    assert (result.classes, result.groups) == (("sit", "walk"), ("p0", "p1", "p2") * 2)
    assert "are taken for persons, each in one split (--group '': they are none)" in result.notes[0]
    assert read(tmp_path, group="").groups is None


@pytest.mark.parametrize("name", ["{}/S0{}.wav", "{}/sub-0{}.wav", "{}/sub-0{}_ses-1.wav", "sub-0{1}_{0}.wav"])
def test_names_of_a_person_that_stand_in_several_classes_are_subjects(name, tmp_path):
    names = [name.format(label, i) for label in ("sit", "stand") for i in range(4)]
    result = read(_tree(tmp_path, *names))
    assert (result.classes, len(set(result.groups)), len(result)) == (("sit", "stand"), 4, 8)


def test_numbered_first_parts_of_names_in_folders_of_classes_are_subjects(tmp_path):
    names = [f"{label}/{label[0]}{i}_take{k}.wav" for label in ("sit", "stand") for i in range(4) for k in range(2)]
    result = read(_tree(tmp_path / "a", *names))
    assert result.groups == tuple(f"s{i}" for _ in "ab" for i in range(4) for _ in "ab")
    assert "is taken for the subject, each in one split (--group '': it is none)" in " ".join(result.notes)
    assert read(tmp_path / "a", group="").groups is None
    few = [
        f"{label}/rec{i + 3 * (label == 'walk')}_{k}.wav"
        for label in ("sit", "walk")
        for i in range(2)
        for k in range(3)
    ]
    result = read(_tree(tmp_path / "b", *few))
    assert result.groups is None
    assert "--group 'part 1' keeps each in one split" in " ".join(data_card(result).findings)
    assert set(read(tmp_path / "b", group="part 1").groups) == {"rec0", "rec1", "rec3", "rec4"}
    others = [f"{label}/{label}{i}_{k}.wav" for label in ("sit", "walk") for i in range(3) for k in range(2)]
    assert read(_tree(tmp_path / "c", *others)).groups is None


def test_numbers_that_count_the_takes_of_each_class_are_no_subjects(tmp_path):
    names = ["{label}/take{i:02}_{label}.wav", "{label}/s{i:02}_{label}.wav", "{label}/cam{k}_{i}.wav"]
    groups = []
    for name in names:
        files = [name.format(label=label, i=i, k=1 + i % 3) for label in ("run", "walk") for i in range(12)]
        groups.append(read(_tree(tmp_path / str(len(groups)), *files)).groups)
    assert groups[0] is groups[2] is None  # a take of each class; three cameras, too few for three splits
    assert groups[1] == tuple(f"s{i:02}" for _ in "ab" for i in range(12))


@pytest.mark.parametrize(("end", "words"), [("_label.txt", ("run", "walk")), (".txt", ("0", "1"))])
def test_a_word_in_a_text_beside_each_recording_is_its_label(tmp_path, end, words):
    for i in range(8):
        write(tmp_path / f"r{i}.csv", "ax,ay\n" + "".join(f"{(i + 5 * t) % 11},{4 * t % 9}\n" for t in range(9)))
        write(tmp_path / f"r{i}{end}", f"{words[i % 2]}\n")
    result = read(tmp_path)
    assert (result.kind, result.channels, result.labels) == ("numbers", ("ax", "ay"), words * 4)
    assert "labels are in '*.txt'" in result.notes
    write(tmp_path / f"r3{end}", "walked to the door\nand back")
    assert why(tmp_path).startswith(
        f"{tmp_path.name}: holds texts beside files of their names ('r0.csv' and 'r0{end}'), "
    )


def test_two_levels_that_may_both_be_the_class_are_refused(tmp_path):
    _tree(tmp_path, *(f"{a}/{b}/1.wav" for a in ("cat", "dog") for b in ("day", "night")))
    message = why(tmp_path)
    assert "'cat', 'dog' hold folders of the same names ('day'), so that either may be the class; give one" in message
    assert message.endswith("--target folder\n  headstart fit FILE --target 'folder 2'")
    assert read(tmp_path, target="folder 2").classes == ("day", "night")


def test_a_folder_that_holds_all_others_is_no_class_and_one_of_its_own_parts_is_none(tmp_path):
    assert read(_tree(tmp_path / "a", "data/yes/1.wav", "data/no/1.wav")).classes == ("no", "yes")
    assert read(_tree(tmp_path / "b", "cat/one/1.wav", "dog/two/1.wav")).classes == ("cat", "dog")
    assert read(_tree(tmp_path / "c", "cat/wav/1.wav", "dog/wav/1.wav")).classes == ("cat", "dog")


def test_a_table_of_labels_beside_recordings_labels_them(tmp_path):
    for i in range(4):
        write(_there(tmp_path / "a" / f"{i}.wav"), wav([1, 2, i]))
    assert "no label is known: labels are names of folders, a table beside the files" in str(
        read(tmp_path / "a", kind="numbers").notes
    )
    write(tmp_path / "a" / "labels.csv", "file,label\n" + "".join(f"{i}.wav,{'ab'[i % 2]}\n" for i in range(4)))
    assert read(tmp_path / "a", kind="numbers").labels == ("a", "b", "a", "b")


def test_a_table_in_another_folder_labels_sounds_and_folds_are_no_classes(tmp_path: Path) -> None:
    rows = [(f"fold{k % 2 + 1}/{k}-{k % 3}.wav", ["dog", "rain", "siren"][k % 3]) for k in range(12)]
    for name, _ in rows:
        made_sound(tmp_path / "audio" / name)
    result = read_sequences(tmp_path)
    assert (result.layout.target, set(result.groups or ())) == (None, {"fold1", "fold2"})
    assert any("are named as folds are, which are no classes" in note for note in result.notes)
    (tmp_path / "meta").mkdir()
    lines = [f"{Path(name).name},{label}" for name, label in rows]
    (tmp_path / "meta" / "about50.csv").write_text("\n".join(["slice,category", *lines]))
    result = read_sequences(tmp_path)
    assert dict(zip(result.ids or (), result.labels, strict=True)) == {f"audio/{name}": label for name, label in rows}


def test_one_folder_of_all_files_is_no_class(tmp_path: Path) -> None:
    for k in range(4):
        made_sound(tmp_path / "records" / "first" / f"{k}.wav")
    result = read_sequences(tmp_path)
    assert result.layout.target is None
    assert any("all files are in the folder 'records', which is no class" in note for note in result.notes)


def test_texts_about_a_data_set_beside_its_folders_are_passed_over(tmp_path: Path) -> None:
    for label in ("yes", "no"):
        for k in range(3):
            made_sound(tmp_path / label / f"{k}.wav")
    (tmp_path / "testing_list.txt").write_text("yes/1.wav\n")
    (tmp_path / "README.txt").write_text("Words.")
    assert sorted(set(read_sequences(tmp_path).labels)) == ["no", "yes"]


def made_sound(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wav(np.random.default_rng(0).integers(-99, 99, 80)))


def test_recordings_as_texts_beside_a_folder_of_pictures_are_not_passed_over(tmp_path: Path) -> None:
    for k in range(6):
        write(tmp_path / f"subject{k}.txt", "time,x\n" + "\n".join(f"{t / 50},{t % 7}.5" for t in range(30)))
    for k in range(2):
        image(tmp_path / "photos" / f"{k}.png")
    assert "holds 2 images and 6 texts; name a folder that holds one kind" in why(tmp_path)
    for k in range(2, 9):
        image(tmp_path / "photos" / f"{k}.png")
    assert "holds 9 images and 6 texts" in why(tmp_path)


@pytest.mark.parametrize("name", ["results/predictions.csv", "predictions.csv"])
def test_a_table_of_predictions_beside_folders_of_classes_is_no_table_of_labels(name: str, tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        for k in range(4):
            image(tmp_path / label / f"{label}{k}.png")
    rows = [f"{label}{k}.png,{('cat', 'dog')[k % 2]}" for label in ("cat", "dog") for k in range(4)]
    (tmp_path / "results").mkdir()
    write(tmp_path / name, "\n".join(["file,predicted", *rows]))
    result = read(tmp_path, kind="numbers")
    assert (result.layout.target, result.labels) == ("folder", ("cat",) * 4 + ("dog",) * 4)


def test_rows_without_a_time_above_the_first_are_no_readings(tmp_path: Path) -> None:
    """As limits of alerts stand above the readings of a glucose monitor; a row without a time amid others stays."""
    for number in range(6):
        folder = tmp_path / ("ill", "well")[number % 2]
        folder.mkdir(exist_ok=True)
        limits = [",Alert,400", ",Alert,55"]
        readings = [f"{'' if i == 7 else f'2023-05-04T09:{i:02}:00'},EGV,{100 + i + number}" for i in range(30)]
        write(folder / f"p{number}.csv", "\n".join(["Timestamp,Event,Glucose", *limits, *readings, ""]))
    result = read(tmp_path)
    assert (result.channels, set(result.lengths.tolist()), float(result.values.max())) == (("Glucose",), {30}, 134)
    assert any("12 rows are left out: no 'Timestamp', above the first or below the last" in n for n in result.notes)
