"""MNIST's files: the official ones where they are here, small ones of our own, and every way to be wrong."""

import contextlib
import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.errors import BadInput
from headstart.tasks.digits import MNIST_FILES, MnistSpec, read_idx
from headstart.tasks.images import tiled, untiled
from headstart.tasks.task import open_task

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"


def idx(array, dimensions=None):
    """The bytes of an idx file."""
    head = bytes([0, 0, 8, dimensions or array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.astype(np.uint8).tobytes()


def images_and_labels(count, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 28, 28)).astype(np.uint8), np.arange(count) % 10


@pytest.fixture
def data(tmp_path):
    """60 train, 20 test images in official form, two of the files packed."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for split, count in (("train", 60), ("test", 20)):
        pixels, label = images_and_labels(count, count)
        (folder / MNIST_FILES[f"{split} images"]).write_bytes(idx(pixels))
        (folder / (MNIST_FILES[f"{split} labels"] + ".gz")).write_bytes(gzip.compress(idx(label)))
    return tmp_path


def file_of(data, name):
    return next((data / "mnist").glob(MNIST_FILES[name] + "*"))


def seen(examples):
    """Values as a model sees them."""
    return examples.as_seen(examples.values)


def why(data, **settings):
    with pytest.raises(BadInput) as caught:
        MnistSpec(val_per_class=2, **settings).load(data)
    return str(caught.value)


def test_pixels_are_read_row_by_row(data):
    task = MnistSpec(val_per_class=2).load(data)
    pixels, label = images_and_labels(60, 60)
    levels = seen(task.train).reshape(-1, 784) * task.signature.level_scale + task.signature.level_shift
    assert np.array_equal(np.round(levels), pixels[task.train.index].reshape(-1, 784))
    assert np.array_equal(task.train.target, label[task.train.index])
    assert (len(task.train), len(task.val), len(task.test)) == (40, 20, 20)


def test_validation_holds_the_same_number_of_each_class_and_follows_split_seed(data):
    first, second = (MnistSpec(val_per_class=2, split_seed=seed).load(data) for seed in (0, 1))
    assert np.bincount(first.val.target).tolist() == [2] * 10
    assert set(first.val.index) != set(second.val.index)
    assert set(first.val.index) | set(first.train.index) == set(range(60))


def test_train_pixels_have_mean_0_and_deviation_1_padding_included(data):
    for side, tile in ((28, 1), (32, 1), (32, 4), (28, 4)):
        task = MnistSpec(val_per_class=2, side=side, tile=tile).load(data)
        assert task.train.values.shape == (40 * (side // tile) ** 2, tile * tile)
        assert abs(seen(task.train).mean(dtype=np.float64)) < 1e-6
        assert abs(seen(task.train).std(dtype=np.float64) - 1) < 1e-6


def test_a_padded_image_has_two_dark_pixels_on_each_side(data):
    task = MnistSpec(val_per_class=2, side=32).load(data)
    image = task.picture(seen(task.test)[:1024])
    assert image.shape == (32, 32)
    pixels, _ = images_and_labels(20, 20)
    assert np.allclose(image[2:30, 2:30], pixels[0] / 255, atol=1e-6)
    image[2:30, 2:30] = 0
    assert np.abs(image).max() < 1e-6


def test_tiles_are_read_row_by_row_and_go_back_to_the_image():
    image = np.arange(64).reshape(1, 8, 8, 1)
    cut = tiled(image, 4)
    assert cut[0, 0].tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]
    assert cut[0, 1, 0] == 4
    assert cut[0, 2, 0] == 32
    assert np.array_equal(untiled(cut, 8, 1, 4), image)


def test_pictures_of_pixels_and_tiles_are_equal(data):
    by_pixel, by_tile = (MnistSpec(val_per_class=2, tile=tile).load(data) for tile in (1, 4))
    assert np.allclose(by_pixel.picture(seen(by_pixel.val)[:784]), by_tile.picture(seen(by_tile.val)[:49]), atol=1e-6)


def test_a_set_of_another_size_is_named_in_the_notes(data):
    assert MnistSpec(val_per_class=2).load(data).notes == (
        "not the official MNIST: 60 train, 20 test images (official: 60000 train, 10000 test)",
    )


def test_a_missing_file_is_named_with_its_folder_and_origin(data):
    file_of(data, "test labels").unlink()
    text = why(data)
    assert "t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz" in text
    assert str(data / "mnist") in text
    assert "yann.lecun.com" in text
    assert "HEADSTART_DATA" in text


def test_names_with_a_dot_and_wrong_endings_are_read_too(data):
    file = file_of(data, "train images")
    file.rename(file.with_name("train-images.idx3-ubyte.gz"))  # not packed, whatever it says
    assert len(MnistSpec(val_per_class=2).load(data).train) == 40


def test_a_cut_file_is_refused(data):
    file = file_of(data, "train images")
    file.write_bytes(file.read_bytes()[:-1])
    assert why(data) == (
        f"{file}: is cut short: 47039 of the 47040 bytes that its header says (60 x 28 x 28); download it again"
    )


def test_a_cut_packed_file_is_refused(data):
    file = file_of(data, "train labels")
    file.write_bytes(file.read_bytes()[:-9])
    assert why(data).startswith(f"{file}: is cut short or damaged (")


def test_a_flipped_bit_in_a_packed_file_is_refused(data):
    file = file_of(data, "train labels")
    content = bytearray(file.read_bytes())
    content[-6] ^= 1  # in the checksum
    file.write_bytes(bytes(content))
    assert why(data).startswith(f"{file}: is cut short or damaged (")


def test_a_file_that_goes_on_is_refused(data):
    file = file_of(data, "train images")
    file.write_bytes(file.read_bytes() + b"x")
    assert "goes on after the 47040 bytes that its header says (60 x 28 x 28)" in why(data)


def test_a_file_of_another_kind_is_refused(data):
    file = file_of(data, "train images")
    for content, seen in ((b"PK\x03\x04rest", "50 4b 03 04"), (b"", "nothing"), (b"\0\0\x08", "00 00 08")):
        file.write_bytes(content)
        assert f"{file}: begins with {seen}, an idx file of this kind begins with 00 00 08 03" in why(data)
    file.write_bytes(bytes([0, 0, 8, 3, 0, 0]))
    assert f"{file}: is cut short within its header" in why(data)


def test_labels_in_the_place_of_images_are_refused(data):
    file_of(data, "train images").write_bytes(idx(np.zeros(60)))
    assert "begins with 00 00 08 01, an idx file of this kind begins with 00 00 08 03" in why(data)


def test_images_of_another_size_are_refused(data):
    file = file_of(data, "train images")
    file.write_bytes(idx(np.zeros((60, 32, 32))))
    assert f"{file}: images of 32 x 32 pixels, MNIST has 28 x 28" in why(data)


def test_another_number_of_labels_than_images_is_refused(data):
    file = file_of(data, "train labels")
    file.write_bytes(idx(np.arange(59) % 10))
    assert f"{file}: 59 labels for the 60 images of train-images-idx3-ubyte" in why(data)


def test_a_label_that_is_no_digit_is_refused_with_its_row(data):
    file = file_of(data, "train labels")
    label = np.arange(60) % 10
    label[7] = 12
    file.write_bytes(idx(label))
    assert f"{file}: label 12 of image 7 is not a digit from 0 to 9" in why(data)


def test_a_header_that_promises_too_much_is_refused_before_memory_is_taken(data):
    file = file_of(data, "train images")
    file.write_bytes(bytes([0, 0, 8, 3]) + (2**32 - 1).to_bytes(4, "big") * 3)
    assert "more than the 2147483648 that are read" in why(data)


def test_an_empty_array_and_equal_pixels_are_refused(data):
    file_of(data, "train images").write_bytes(idx(np.zeros((0, 28, 28))))
    assert "holds no data (its header says 0 x 28 x 28)" in why(data)
    file_of(data, "train images").write_bytes(idx(np.zeros((60, 28, 28))))
    assert "all train pixels are equal" in why(data)


def test_a_folder_in_the_place_of_a_file_is_not_found(data):
    file = file_of(data, "train images")
    file.unlink()
    file.mkdir()
    assert "looks for train-images-idx3-ubyte" in why(data)


def test_a_held_out_image_that_also_stands_in_train_is_refused(data):
    pixels, _ = images_and_labels(60, 60)
    pixels[30:] = pixels[:30]
    file = file_of(data, "train images")
    file.write_bytes(idx(pixels))
    text = why(data)
    assert text.startswith(f"{file}: ")
    assert text.endswith("held out for val also stand in train; remove the copies, or take another task.split_seed")


def test_holding_out_a_whole_class_is_refused(data):
    with pytest.raises(BadInput, match=r"task\.val_per_class: 6 leaves no train image of digit 0 \(6 in .*train-l"):
        MnistSpec(val_per_class=6).load(data)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        for start in (b"", bytes([0, 0, 8, 1, 0, 0, 0]), b"\x1f\x8b\x08"):
            file.write_bytes(start + content)
            with contextlib.suppress(BadInput):
                assert read_idx(file, 1).ndim == 1


def test_the_official_files():
    if not (SHARED / "mnist").is_dir():
        pytest.skip(f"the official files are not at {SHARED / 'mnist'}")
    task = open_task(MnistSpec(side=32, tile=4), SHARED)
    assert (len(task.train), len(task.val), len(task.test)) == (50_000, 10_000, 10_000)
    assert np.bincount(task.val.target).tolist() == [1000] * 10
    assert task.test.target[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]  # known to all who looked at it
    assert (task.signature.length, task.signature.width, task.notes) == (64, 16, ())
    assert task.fingerprint[:16] == "9cb5c540657d811a"
