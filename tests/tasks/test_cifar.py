"""CIFAR-10's three tasks: from every form that the files have, and every way for them to be wrong."""

import contextlib
import io
import struct
import tarfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from headstart.errors import BadInput
from headstart.tasks import cifar, portable
from headstart.tasks.cifar import (
    BATCHES,
    CIFAR_CLASSES,
    CIFAR_FORMATS,
    CifarPatchesSpec,
    ImageSpec,
    SCifarSpec,
    colours,
    grey,
)
from headstart.tasks.images import augmented, decode, tiled, untiled
from headstart.tasks.task import narrowed, open_task

TRAIN, TEST = 100, 20


def some_images(count, seed):
    """Random images, and labels in an order that is none of the folders'."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 32, 32, 3)).astype(np.uint8), rng.permutation(np.arange(count) % 10)


def record(image, label):
    return bytes([label]) + image.transpose(2, 0, 1).tobytes()


def batch_files(train, test):
    """The content of the six official files."""
    step = len(train[0]) // 5
    parts = [[pixels[i * step : (i + 1) * step] for pixels in train] for i in range(5)] + [test]
    return {
        name: b"".join(record(image, label) for image, label in zip(*part, strict=True))
        for name, part in zip(BATCHES, parts, strict=True)
    }


def image_file(image, form="PNG"):
    out = io.BytesIO()
    Image.fromarray(image).save(out, form, **({"quality": 90} if form == "JPEG" else {}))
    return out.getvalue()


def folder_files(train, test, form="PNG"):
    """{name: content} of class folders: image i of a class is `<class>/<i>`, without leading zeros."""
    files = {}
    for split, (pixels, labels) in (("train", train), ("test", test)):
        number = [0] * 10
        for image, label in zip(pixels, labels, strict=True):
            files[f"{split}/{CIFAR_CLASSES[label]}/{number[label]}.{form.lower()}"] = image_file(image, form)
            number[label] += 1
    return files


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def orders(train, test):
    return {
        f"{split}_labels_official_order.u8": labels.astype(np.uint8).tobytes()
        for split, (_, labels) in (("train", train), ("test", test))
    }


def packed(files, folder="set/", mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(folder + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture(scope="module")
def train():
    return some_images(TRAIN, 1)


@pytest.fixture(scope="module")
def test():
    return some_images(TEST, 2)


@pytest.fixture
def data(tmp_path, train, test):
    """The official files, small."""
    write(tmp_path / "cifar10", batch_files(train, test))
    return tmp_path


def image(data, **settings):
    return ImageSpec(**{"val": 10, **settings}).load(data)


def why(data, spec=None):
    with pytest.raises(BadInput) as caught:
        (spec or ImageSpec(val=10)).load(data)
    return str(caught.value)


def bytes_of(task, examples):
    """(n, L, F) whole numbers that a model's inputs stand for."""
    s = task.signature
    seen = np.stack([examples.inputs(row) for row in range(len(examples))]).astype(np.float64)
    return np.round(seen * s.level_scale + s.level_shift).astype(np.uint8)


def test_grey_is_the_rounded_weighted_sum(train):
    pixels = train[0][:5].reshape(-1, 3)
    slow = [int(0.299 * int(r) + 0.587 * int(g) + 0.114 * int(b) + 0.5 + 1e-9) for r, g, b in pixels]
    assert grey(pixels).tolist() == slow
    assert grey(np.array([[255, 255, 255], [0, 0, 0]], dtype=np.uint8)).tolist() == [255, 0]


def test_image_reads_grey_pixels_row_by_row(data, train, test):
    task = image(data)
    assert np.array_equal(bytes_of(task, task.test)[..., 0], grey(test[0]).reshape(TEST, 1024))
    assert np.array_equal(task.test.target, test[1])
    assert np.array_equal(bytes_of(task, task.train)[..., 0], grey(train[0][task.train.index]).reshape(-1, 1024))
    assert (task.signature.width, task.signature.length, task.signature.levels) == (1, 1024, 256)


def test_scifar_reads_three_colours_of_each_pixel(data, test):
    task = SCifarSpec(val=10).load(data)
    assert np.array_equal(bytes_of(task, task.test), test[0].reshape(TEST, 1024, 3))


def test_patches_of_4_x_4_are_read_row_by_row(data, test):
    for channels, width in (("grey", 16), ("rgb", 48)):
        task = CifarPatchesSpec(val=10, channels=channels).load(data)
        assert (task.signature.length, task.signature.width) == (64, width)
        pixels = grey(test[0])[..., None] if channels == "grey" else test[0]
        second = pixels[3, 0:4, 4:8].reshape(-1)  # the second patch of the first row
        assert np.array_equal(bytes_of(task, task.test)[3, 1], second)
        ninth = pixels[3, 4:8, 0:4].reshape(-1)
        assert np.array_equal(bytes_of(task, task.test)[3, 8], ninth)


def test_tiles_go_back_to_the_image(train):
    for features in (1, 3):
        for tile in (1, 4):
            pixels = train[0][:2, ..., :features]
            assert np.array_equal(untiled(tiled(pixels, tile), 32, features, tile), pixels)


def test_a_picture_shows_the_pixels_that_went_in(data, test):
    for spec in (
        ImageSpec(val=10),
        SCifarSpec(val=10),
        CifarPatchesSpec(val=10),
        CifarPatchesSpec(val=10, channels="rgb"),
    ):
        task = spec.load(data)
        image = task.picture(task.test.inputs(5)) * 255
        assert np.abs(image - (grey(test[0][5]) if image.ndim == 2 else test[0][5])).max() < 1e-3


def test_train_inputs_have_mean_0_and_deviation_1(data):
    for spec in (ImageSpec(val=10), SCifarSpec(val=10)):
        examples = spec.load(data).train
        seen = np.concatenate([examples.inputs(row) for row in range(len(examples))]).astype(np.float64)
        assert abs(seen.mean()) < 1e-5
        assert abs(seen.std() - 1) < 1e-5


def test_every_form_of_the_same_pixels_has_the_same_fingerprint(tmp_path, train, test):
    folders, ordered = folder_files(train, test), orders(train, test)
    batches = batch_files(train, test)
    forms = {
        "batches": {"cifar10/" + name: content for name, content in batches.items()},
        "unpacked": {"cifar-10-batches-bin/" + name: content for name, content in batches.items()},
        "inner": {"cifar10/cifar-10-batches-bin/" + name: content for name, content in batches.items()},
        "archive": {"cifar10/cifar-10-binary.tar.gz": packed(batches, "cifar-10-batches-bin/")},
        "folders": {"cifar10/png/" + name: content for name, content in (folders | ordered).items()},
        "packed": {"cifar10/png.tar.xz": packed(folders, "x/", "w:xz")}
        | {"cifar10/" + name: content for name, content in ordered.items()},
    }
    fingerprints = set()
    for name, files in forms.items():
        write(tmp_path / name, files)
        fingerprints.add(image(tmp_path / name).fingerprint)
    assert len(fingerprints) == 1


def test_class_folders_without_an_order_are_read_class_by_class_by_number(tmp_path, train, test):
    write(tmp_path / "cifar10", folder_files(train, test))
    base = colours(tmp_path, "image")
    assert np.array_equal(base.arrays["label"][:TRAIN], np.sort(train[1]))
    by_class = np.argsort(train[1], kind="stable")
    assert np.array_equal(base.arrays["pixels"][:TRAIN], train[0][by_class])
    assert why(tmp_path, ImageSpec(split="rothermel")).startswith(
        "task.split: 'rothermel' holds out a stock batch, and class folders do not say which images that is; put "
        "train_labels_official_order.u8"
    )


def test_a_lossy_copy_has_its_own_fingerprint_and_is_named(data, tmp_path, train, test):
    other = tmp_path / "other"
    write(other / "cifar10", folder_files(train, test, "JPEG") | orders(train, test))
    lossy = image(other)
    assert lossy.fingerprint != image(data).fingerprint
    assert lossy.notes[0] == "lossy copy of CIFAR-10: decoded from JPEG images, not the official pixels"
    assert not any("lossy" in note for note in image(data).notes)


def test_a_set_of_another_size_is_named_in_the_notes(data):
    assert image(data).notes == (
        "not the official CIFAR-10: 100 train, 20 test images (official: 50000 train, 10000 test)",
    )


def test_validation_is_stratified_and_follows_split_seed_for_all_three_tasks_alike(data):
    first, two = image(data), image(data, split_seed=1)
    assert np.bincount(first.val.target).tolist() == [1] * 10
    assert set(first.val.index) != set(two.val.index)
    assert set(first.val.index) | set(first.train.index) == set(range(TRAIN))
    assert np.array_equal(SCifarSpec(val=10).load(data).val.index, first.val.index)
    assert np.array_equal(CifarPatchesSpec(val=10).load(data).val.index, first.val.index)


@pytest.mark.parametrize(
    ("spec", "tile"),
    [
        (ImageSpec(val=10, augment=True), 1),
        (ImageSpec(val=10, augment=True, patch=16), 1),
        (CifarPatchesSpec(val=10, augment=True, split="rothermel"), 4),
        (CifarPatchesSpec(val=10, augment=True, channels="rgb"), 4),
        (SCifarSpec(val=10, augment=True), 1),
    ],
)
def test_augmented_train_images_are_other_ones_each_epoch_and_no_others_are(data, train, spec, tile):
    task, plain = open_task(spec, data), open_task(spec.model_copy(update={"augment": False}), data)
    pixels = train[0][task.train.index]
    pixels = pixels if task.signature.width % 3 == 0 else grey(pixels)[..., None]
    for epoch in (0, 3):
        wanted = tiled(augmented(pixels, task.train.index, epoch, 0, mirror=True), tile)
        changed = bytes_of(task, task.augment(task.train, epoch))
        assert np.array_equal(changed.reshape(len(pixels), -1), wanted.reshape(len(pixels), -1))
    assert plain.augment is None
    assert np.array_equal(bytes_of(task, task.train), bytes_of(plain, plain.train))
    assert task.fingerprint == plain.fingerprint


def test_rothermel_holds_out_the_fifth_batch(data):
    task = image(data, split="rothermel")
    assert task.val.index.tolist() == list(range(80, 100))
    assert (len(task.train), len(task.val), len(task.test)) == (80, 20, 20)


def test_copies_stay_in_train_where_we_draw_and_official_overlaps_are_said(tmp_path, train, test):
    pixels, labels = train[0].copy(), train[1].copy()
    pixels[80:], labels[80:] = pixels[:20], labels[:20]  # the fifth batch is the first one again
    tested = test[0].copy()
    tested[:4] = pixels[2]
    write(tmp_path / "cifar10", batch_files((pixels, labels), (tested, test[1])))
    task = image(tmp_path, val=8, split_seed=3)
    assert set(task.val.index) <= set(range(20, 80))
    assert task.notes[-1] == "of the 20 test images, 4 also stand in train"
    stock = image(tmp_path, split="rothermel")
    assert "of the 20 val images, 20 also stand in train" in stock.notes
    assert stock.notes[-1] == "of the 20 test images, 4 also stand in train and 4 also stand in val"
    text = why(tmp_path, ImageSpec(val=90))
    assert text.startswith("task.val: holding out 90 takes ")
    assert text.endswith(" without a copy in train; take fewer")


def test_holding_out_a_whole_class_is_refused(data):
    assert "task.val: holding out 100 takes 10 of class 0" in why(data, ImageSpec(val=100))


def test_images_are_decoded_once_and_opened_memory_mapped(data, monkeypatch):
    first = image(data)

    def never(*_):
        raise AssertionError("read again")

    monkeypatch.setattr(cifar, "members", never)
    again = image(data)
    assert again.fingerprint == first.fingerprint
    assert isinstance(again.train.values.base, np.memmap)
    assert again.train.values.dtype == np.uint8
    changed = data / "cifar10" / BATCHES[0]
    changed.write_bytes(changed.read_bytes()[:-3073])
    with pytest.raises(AssertionError):
        image(data)


def test_fractions_are_taken_from_bytes(data):
    part = open_task(ImageSpec(val=10, fraction=0.5), data).train
    assert len(part) == 45
    assert part.values.dtype == np.uint8


def test_a_missing_file_is_named_with_its_folder_and_origin(data, tmp_path):
    text = why(tmp_path / "empty")
    for words in (
        "data_batch_1.bin",
        "test_batch.bin",
        "train/<class>",
        str(tmp_path / "empty" / "cifar10"),
        "https://www.cs.toronto.edu",
        "--data",
        "HEADSTART_DATA",
    ):
        assert words in text
    (data / "cifar10" / BATCHES[2]).unlink()
    assert f"{data / 'cifar10' / BATCHES[2]} is missing; CIFAR-10 (Krizhevsky 2009)" in why(data)


def test_a_missing_half_of_the_folders_and_a_missing_batch_in_an_archive_are_named(tmp_path, train, test):
    write(tmp_path / "cifar10" / "a", {k: v for k, v in folder_files(train, test).items() if "train" in k})
    assert f"{tmp_path / 'cifar10' / 'a' / 'test'} is missing" in why(tmp_path)
    batches = batch_files(train, test)
    del batches[BATCHES[5]]
    other = tmp_path / "other"
    write(other, {"cifar10/x.tar.gz": packed(batches)})
    assert f"{other / 'cifar10' / 'x.tar.gz'}, member test_batch.bin is missing" in why(other)


def test_the_python_version_is_not_opened(tmp_path):
    write(tmp_path / "cifar10", {"cifar-10-python.tar.gz": b"pickles"})
    assert "files of the Python version are pickles, which are never opened" in why(tmp_path)


def test_two_archives_are_refused(tmp_path):
    write(tmp_path / "cifar10", {"a.tar.gz": b"", "b.tar": b""})
    assert "holds several archives (a.tar.gz, b.tar); leave the one that is meant" in why(tmp_path)


def test_a_cut_batch_and_wrong_labels_are_all_named(data):
    cut, wrong = data / "cifar10" / BATCHES[0], data / "cifar10" / BATCHES[5]
    cut.write_bytes(cut.read_bytes()[:-1])
    content = bytearray(wrong.read_bytes())
    content[7 * 3073], content[9 * 3073] = 12, 255
    wrong.write_bytes(bytes(content))
    assert why(data).splitlines() == [
        f"{data / 'cifar10'}, data_batch_1.bin: 61459 bytes are not a whole number of records of 3073 bytes: it is cut "
        "short or of another kind; download it again",
        f"{data / 'cifar10'}, test_batch.bin, image 7: label 12 is none of 0 to 9; download it again (1 more like it)",
    ]


def test_images_that_are_broken_or_of_another_size_are_named(tmp_path, train, test):
    files = folder_files(train, test)
    files["train/cat/1.png"] = image_file(np.zeros((28, 30, 3), dtype=np.uint8))
    files["train/cat/2.png"] = files["train/cat/2.png"][:100]
    files["test/dog/0.png"] = b"no image"
    write(tmp_path / "cifar10", files)
    lines = why(tmp_path).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"{tmp_path / 'cifar10' / 'test/dog/0.png'}: is cut short or not an image (")
    assert lines[1] == f"{tmp_path / 'cifar10' / 'train/cat/1.png'}: has 30 x 28 pixels, not 32 x 32"
    assert lines[2].startswith(f"{tmp_path / 'cifar10' / 'train/cat/2.png'}: is cut short or not an image (")


def test_an_image_of_many_pixels_is_refused_before_it_is_decoded():
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 1, 0, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(ValueError, match=r"has 20000 x 20000 pixels|DecompressionBomb"):
        decode(content, 32, CIFAR_FORMATS, "RGB")


def test_images_with_one_fault_are_one_line(tmp_path, train, test):
    write(tmp_path / "cifar10", dict.fromkeys(folder_files(train, test), b"broken"))
    lines = why(tmp_path).splitlines()
    assert len(lines) == 1
    assert lines[0].endswith(" more like it)")


def test_a_class_without_images_is_named(tmp_path, train, test):
    files = {k: v for k, v in folder_files(train, test).items() if not k.startswith("train/frog")}
    write(tmp_path / "cifar10", files)
    assert why(tmp_path) == (
        f"{tmp_path / 'cifar10'}, train/frog: the class has no image (links to folders are not followed)"
    )


def test_an_order_that_does_not_fit_is_refused(tmp_path, train, test):
    order = orders(train, test)
    labels = bytearray(order["train_labels_official_order.u8"])
    labels[0] = (labels[0] + 1) % 10
    labels[1] = 99
    order["train_labels_official_order.u8"] = bytes(labels)
    write(tmp_path / "cifar10", folder_files(train, test) | order)
    file = tmp_path / "cifar10" / "train_labels_official_order.u8"
    lines = why(tmp_path).splitlines()
    assert lines[0] == f"{file}, byte 1: label 99 is none of 0 to 9"
    assert any(line.endswith("the folder has 10 images; give the file of this copy") for line in lines[1:])


def test_equal_pixels_are_refused(tmp_path):
    black = np.zeros((TRAIN, 32, 32, 3), dtype=np.uint8), np.arange(TRAIN) % 10
    write(tmp_path / "cifar10", batch_files(black, (black[0][:TEST], black[1][:TEST])))
    assert "all train pixels are equal" in why(tmp_path, ImageSpec(split="rothermel"))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=400), st.integers(0, 3000), st.sampled_from(["PNG", "JPEG", "BMP", "PPM"]))
def test_any_bytes_are_an_image_or_a_mistake(content, size, form):
    whole = image_file(np.arange(3072, dtype=np.uint8).reshape(32, 32, 3), form)
    for given_bytes in (content, whole[:size] + content + whole[size + len(content) :]):
        with contextlib.suppress(ValueError):
            assert decode(given_bytes, 32, CIFAR_FORMATS, "RGB")[0].shape == (32, 32, 3)


@pytest.mark.slow
def test_the_real_copy(linked):
    if not (linked / "cifar10").is_dir():
        pytest.skip("no CIFAR-10 in ../shared/data/cifar10")
    task = ImageSpec().load(linked)
    assert (len(task.train), len(task.val), len(task.test)) == (45_000, 5_000, 10_000)
    assert np.bincount(task.val.target).tolist() == [500] * 10
    assert "lossy copy of CIFAR-10: decoded from JPEG images, not the official pixels" in task.notes
    # The official order begins frog, truck, truck, deer, automobile, automobile, bird, horse, ship, cat.
    label = colours(linked, "image").arrays["label"]
    assert label[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert abs(task.signature.level_shift - 122.6) < 0.1  # the usual mean and deviation of grey CIFAR-10
    assert abs(task.signature.level_scale - 61.0) < 0.1
    stock = ImageSpec(split="rothermel").load(linked)
    counts = np.bincount(stock.val.target)
    assert (len(stock.train), len(stock.val), counts.min(), counts.max()) == (40_000, 10_000, 952, 1_025)


def test_images_that_were_sent_to_another_machine_are_augmented_there_as_here(data, own_cache):
    spec = ImageSpec(val=10, augment=True, fraction=0.5)
    facts, arrays = portable.packed(spec, data)
    asked = []
    there, again = (
        narrowed(spec, portable.unpacked({**facts, "digest": "0" * 64}, lambda: asked.append(1) or arrays))
        for _ in range(2)
    )
    here = open_task(spec, data)
    assert asked == [1], "the second time they are in the cache"
    assert there.signature == again.signature == here.signature
    assert (there.fingerprint, there.labels, there.notes) == (here.fingerprint, here.labels, here.notes)
    for split in ("train", "val", "test"):
        for part in ("values", "offsets", "target", "index", "scale", "shift"):
            assert np.array_equal(getattr(there.split(split), part), getattr(here.split(split), part))
    assert np.array_equal(there.augment(there.train, 3).values, here.augment(here.train, 3).values)
