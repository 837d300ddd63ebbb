"""Long Range Arena's folders of Pathfinder images, written here in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headstart.errors import BadInput
from headstart.tasks.pathfinder import PathfinderFilesSpec
from headstart.tasks.task import open_task

SPEC = PathfinderFilesSpec()


def _archive(root: Path, count: int = 40, outer: str = "lra_release") -> Path:
    folder = root / outer / "pathfinder32" / "curv_contour_length_14"
    (folder / "metadata").mkdir(parents=True)
    random = np.random.default_rng(0)
    for part in (0, 1):
        (folder / "imgs" / str(part)).mkdir(parents=True)
        lines = []
        for i in range(count // 2):
            pixels = random.integers(0, 256, (32, 32), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "imgs" / str(part) / f"sample_{i}.png")
            lines.append(f"imgs/{part} sample_{i}.png {i} {(i + part) % 2} 1.0 14 4 2 0.5 1 1")
        (folder / "metadata" / f"{part}.npy").write_text("\n".join(lines) + "\n")
    return folder


def test_the_archive_is_split_in_tenths_with_its_images_and_labels(tmp_path: Path) -> None:
    folder = _archive(tmp_path)
    task = open_task(SPEC, tmp_path)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [32, 4, 4]
    assert np.array_equal(
        np.sort(np.concatenate([task.split(s).index for s in ("train", "val", "test")])), np.arange(40)
    )
    for split in ("train", "test"):
        examples = task.split(split)
        for row in range(len(examples)):
            part, i = divmod(int(examples.index[row]), 20)
            with Image.open(folder / "imgs" / str(part) / f"sample_{i}.png") as image:
                pixels = np.asarray(image).reshape(-1, 1)
            assert np.array_equal(examples.values[row * 1024 : (row + 1) * 1024], pixels)
            assert examples.target is not None
            assert examples.target[row] == (i + part) % 2
    assert task.notes == ()


def test_metadata_that_are_arrays_of_texts_are_those_of_text_files(tmp_path: Path) -> None:
    _archive(tmp_path / "text")
    folder = _archive(tmp_path / "arrays")
    for file in (folder / "metadata").iterdir():
        np.save(file, np.array([line.split() for line in file.read_text().splitlines()]))
    assert SPEC.load(tmp_path / "arrays").fingerprint == SPEC.load(tmp_path / "text").fingerprint
    for array, message in (
        (
            np.array([["imgs/0", 1]], dtype=object),
            r"1.npy: cannot be read as an array of texts \(.*\); save it as text",
        ),
        (np.zeros((3, 4)), r"1.npy: holds float64 of the shape \(3, 4\), not a text"),
        (np.array([["imgs/0", "sample_0.png", "0", "2"]]), r"1.npy, row 1: 'imgs/0 sample_0.png 0 2' is not `folder"),
    ):
        np.save(folder / "metadata" / "1.npy", array, allow_pickle=True)
        with pytest.raises(BadInput, match=message):
            SPEC.load(tmp_path / "arrays")


def test_the_archive_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _archive(tmp_path, outer="")
    first = SPEC.load(tmp_path).fingerprint
    monkeypatch.setattr(Image, "open", None)
    assert SPEC.load(tmp_path).fingerprint == first


def test_other_splits_come_from_another_split_seed(tmp_path: Path) -> None:
    _archive(tmp_path)
    other = PathfinderFilesSpec(split_seed=1).load(tmp_path)
    assert not np.array_equal(other.test.index, SPEC.load(tmp_path).test.index)


def test_an_absent_archive_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"looks for pathfinder32/curv_contour_length_14/metadata in .*lra_release"):
        SPEC.load(tmp_path)


def test_mistakes_are_gathered_with_file_and_row_and_nothing_is_left_behind(tmp_path: Path, own_cache: Path) -> None:
    folder = _archive(tmp_path)
    (folder / "imgs" / "0" / "sample_3.png").unlink()
    (folder / "imgs" / "0" / "sample_4.png").write_bytes(b"")
    Image.new("L", (64, 64)).save(folder / "imgs" / "0" / "sample_5.png")
    Image.new("RGB", (32, 32)).save(folder / "imgs" / "0" / "sample_6.png")
    with (folder / "metadata" / "1.npy").open("a") as more:
        more.write("imgs/1 sample_1.png\nimgs/1 sample_1.png 0 7\n../imgs sample_1.png 0 1\n")
    with pytest.raises(BadInput) as error:
        SPEC.load(tmp_path)
    text = str(error.value)
    for piece in (
        "0.npy, row 4: ",
        "sample_3.png: is missing",
        "sample_4.png: is cut short or not an image",
        "sample_5.png: has 64 x 64 pixels, not 32 x 32",
        "sample_6.png: has mode RGB, not 8-bit grey",
        "1.npy, row 21: 'imgs/1 sample_1.png' is not",
        "label 0 or 1 (1 more like it)",
        "1.npy, row 23: ../imgs/sample_1.png leads out of",
        "task.skip",
    ):
        assert piece in text
    assert not list((own_cache / "prepared").glob("pathfinder*"))


def test_images_that_are_missing_are_one_line_with_their_number(tmp_path: Path) -> None:
    folder = _archive(tmp_path, 60)
    for image in (folder / "imgs" / "0").iterdir():
        image.unlink()
    with pytest.raises(BadInput) as error:
        SPEC.load(tmp_path)
    assert str(error.value).endswith("(29 more like it)")


def test_an_unreadable_image_can_be_left_out_by_name(tmp_path: Path) -> None:
    folder = _archive(tmp_path)
    (folder / "imgs" / "0" / "sample_4.png").write_bytes(b"")
    task = PathfinderFilesSpec(skip=("imgs/0/sample_4.png",)).load(tmp_path)
    assert sum(len(task.split(s)) for s in ("train", "val", "test")) == 39
    with pytest.raises(BadInput, match=r"task.skip: 'imgs/9/x.png' is in no metadata line"):
        PathfinderFilesSpec(skip=("imgs/0/sample_4.png", "imgs/9/x.png")).load(tmp_path)


def test_repeated_images_are_left_out_and_said(tmp_path: Path) -> None:
    folder = _archive(tmp_path)
    twin = (folder / "imgs" / "0" / "sample_0.png").read_bytes()
    (folder / "imgs" / "1" / "sample_9.png").write_bytes(twin)
    task = SPEC.load(tmp_path)
    assert task.notes == ("1 images that repeat an earlier one are left out",)
    assert sum(len(task.split(s)) for s in ("train", "val", "test")) == 39


def test_metadata_that_are_no_text_are_said_to_be_none(tmp_path: Path) -> None:
    folder = _archive(tmp_path)
    (folder / "metadata" / "1.npy").write_bytes(b"\xff" * 9)
    with pytest.raises(BadInput, match=r"1.npy, row 1: is not UTF-8"):
        SPEC.load(tmp_path)
