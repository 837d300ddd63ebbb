"""Handwritten digits: those that come with scikit-learn, rolled so that no position has a meaning, and MNIST's."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.archives import DAMAGED, absent, unpacked
from headstart.data.copies import groups
from headstart.data.sequences import moments
from headstart.data.splits import stratified_split
from headstart.errors import BadInput
from headstart.seeds import below, bits
from headstart.sequence import Examples, Signature
from headstart.spec import neutral
from headstart.tasks.build import size_note
from headstart.tasks.images import augmenter, pixel_examples, pixel_task, tiled
from headstart.tasks.task import Augment, Outline, Task, TaskSpec, each_split

DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGIT_SIDE = 8
SIZES = {"train": 1097, "val": 200, "test": 500}
LEVELS = 17

# Of the 1,797 x 65 numbers (64 pixels 0..16 and the label) as bytes. It lets the spec alone stand for the
# data in identities: another copy is refused, never trained on silently.
_CONTENT = "68aea062d35a127749050fa0e52dca09d6569ac08092c925610e0954e172dde2"


class DigitsSpec(TaskSpec):
    """1,797 digits of 8 x 8 pixels with 17 grey levels, read row by row as 64 scalar positions, ten classes.

    Each image is rolled by its own whole-pixel offset in both directions (what leaves on one side enters on
    the other), and then standardised with the mean and deviation of the train pixels. The first one, rolled
    by (0, 2), begins `-0.81 -0.81 -0.81 -0.81 0.02 1.35 0.68 -0.65`, label `zero`. Split: 1,097 train, 200
    val, 500 test, stratified.

    Source: Alpaydin and Kaynak 1998, UCI "Optical recognition of handwritten digits", the test part.
    """

    kind: Literal["digits"] = "digits"
    rolled: bool = True
    """`false` leaves the images in place (a logistic regression then solves the task)."""

    former: ClassVar[Mapping[str, Any]] = {"roll_seed": 0}
    shows_not: ClassVar[str] = (
        "64 positions of one small data set: this says nothing of long sequences, nor of other data."
    )
    generated: ClassVar[bool] = True
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "l1"

    def load(self, data: Path) -> Task:
        """The whole task. Raises: BadInput if scikit-learn's copy of the digits is another one."""
        pixels, label = _raw()
        if self.rolled:
            pixels = _roll(pixels)
        rows = stratified_split(label, SIZES, self.split_seed, len(label))
        mean, deviation = moments(np.bincount(pixels[rows["train"]].reshape(-1), minlength=LEVELS))
        values = ((pixels - mean) / deviation).astype(np.float32)

        def examples(rows: np.ndarray) -> Examples:
            offsets = np.arange(len(rows) + 1, dtype=np.int64) * DIGIT_SIDE * DIGIT_SIDE
            return Examples(values[rows].reshape(-1, 1), offsets, label[rows], rows)

        return pixel_task(
            each_split(lambda name: examples(rows[name])), DIGIT_NAMES, DIGIT_SIDE, LEVELS, mean, deviation
        )


def _roll(pixels: np.ndarray) -> np.ndarray:
    """Each image moved down and right, round the edges, by its own two offsets in 0..7."""
    number, line = np.arange(len(pixels))[:, None], np.arange(DIGIT_SIDE)
    offset = below(0, "digits/roll", DIGIT_SIDE, number, np.arange(2))
    rows, columns = (line - offset[:, :1]) % DIGIT_SIDE, (line - offset[:, 1:]) % DIGIT_SIDE
    return np.asarray(pixels[number[:, :, None], rows[:, :, None], columns[:, None, :]])


@cache
def _raw() -> tuple[np.ndarray, np.ndarray]:
    """(1797, 8, 8) int64 pixels in 0..16 and (1797,) int64 labels.

    Read from scikit-learn's own file, because importing scikit-learn takes a second in every worker.
    """
    table = _read_table()
    if hashlib.sha256(table.tobytes()).hexdigest() != _CONTENT:
        raise BadInput(
            "task.kind: 'digits': scikit-learn's digits here are not the 1,797 that this task is defined on; "
            "install scikit-learn again (pip install --force-reinstall scikit-learn)"
        )
    table = table.astype(np.int64)
    table.setflags(write=False)
    return table[:, :-1].reshape(-1, DIGIT_SIDE, DIGIT_SIDE), table[:, -1]


def _read_table() -> np.ndarray:
    """(1797, 65) uint8: the pixels of each image and its label."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None, "scikit-learn is a dependency"
    with gzip.open(Path(package.origin or "").parent / "datasets" / "data" / "digits.csv.gz", "rt") as lines:
        return np.loadtxt(lines, delimiter=",").astype(np.uint8)


MNIST_SIDE = 28
MNIST_FILES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}
MNIST_SIZES = {"train": 60_000, "test": 10_000}
MNIST_ORIGIN = "MNIST (LeCun, Cortes and Burges) is at https://yann.lecun.com/exdb/mnist and its mirrors"
UNPACKED_BYTES = 2**31
"""Bytes that one file may hold when it is unpacked: 45 times the largest file of MNIST."""


class MnistSpec(TaskSpec):
    """70,000 handwritten digits of 28 x 28 pixels with 256 grey levels, ten classes.

    Read from the four official files, plain or .gz, in `mnist/` of the data folder, and standardised with the
    mean and deviation of the train pixels. An example of the default begins `-0.42 -0.42 -0.42 ...` (the dark
    upper border) and has a label such as `five`. Splits: the official 10,000 test images; `val_per_class` of
    each class of the official 60,000 train images are held out by `split_seed` (50,000 train, 10,000 val).
    """

    kind: Literal["mnist"] = "mnist"
    side: Literal[28, 32] = 28
    """28, or 32 for the image padded with two dark pixels on each side."""
    tile: Literal[1, 4] = 1
    """1 reads pixels row by row (784 or 1,024 positions of width 1); 4 reads patches of 4 x 4 row by row (49 or 64
    positions of width 16). Lu et al. describe side 32 with tile 4; their code has side 28."""
    val_per_class: int = Field(default=1000, ge=1)
    """Validation examples of each class."""
    augment: bool = neutral(False)
    """Train images are shifted and turned anew each epoch, as the code of Lu et al. does with CIFAR-10 (digits are not
    mirrored)."""

    shows_not: ClassVar[str] = "MNIST is nearly solved: small differences near the top say little of harder images."
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "l1"

    def outline(self) -> Outline | None:
        """The official 60,000 and 10,000 images."""
        positions, val = (self.side // self.tile) ** 2, 10 * self.val_per_class
        signature = Signature("floats", self.tile**2, positions, positions, "class", 10, levels=256)
        return Outline(signature, 60_000 - val, val, 10_000, positions)

    def files(self, data: Path) -> tuple[Path, ...]:
        return tuple(_find(data / "mnist", name) for name in MNIST_FILES.values())

    def load(self, data: Path) -> Task:
        train_images, train_labels, *test_files = self.files(data)
        images, label = _read_pair(train_images, train_labels)
        test_images, test_label = _read_pair(*test_files)
        val = _held_out(label, self.val_per_class, self.split_seed, train_labels)
        train = np.setdiff1d(np.arange(len(label)), val)
        mean, deviation = _moments(images[train], self.side)
        _refuse_copies(images, train, val, train_images)
        border = (self.side - MNIST_SIDE) // 2

        def examples(pixels: np.ndarray, target: np.ndarray, index: np.ndarray) -> Examples:
            padded = np.pad(pixels, ((0, 0), (border, border), (border, border)))
            return pixel_examples(tiled(padded[..., None], self.tile), target, index, 1 / deviation, -mean / deviation)

        task = pixel_task(
            {
                "train": examples(images[train], label[train], train),
                "val": examples(images[val], label[val], val),
                "test": examples(test_images, test_label, len(label) + np.arange(len(test_label))),
            },
            DIGIT_NAMES,
            self.side,
            256,
            mean,
            deviation,
            tile=self.tile,
        )
        notes = size_note("MNIST", {"train": len(label), "test": len(test_label)}, MNIST_SIZES, "images")
        return replace(task, notes=tuple(notes))

    def augmentation(self) -> Augment | None:
        return augmenter(self.side, 1, self.tile, self.split_seed, mirror=False) if self.augment else None


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of an idx file of bytes, plain or packed, with that many dimensions, uint8.

    Raises: BadInput for a file that is cut short, damaged, too long, too large or of another kind.
    Source: the description on MNIST's page: two zero bytes, the type (8: unsigned byte), the number of
    dimensions, each size as a big-endian 32-bit number, the data.
    """
    kind = bytes([0, 0, 8, dimensions])
    try:
        with unpacked(path) as file:
            head = file.read(4 + 4 * dimensions)
            shape = tuple(np.frombuffer(head[4 : len(head) // 4 * 4], dtype=">u4").tolist())
            size, header = math.prod(shape), f"its header says {' x '.join(map(str, shape))}"
            if head[:4] != kind:
                problem = (
                    f"begins with {head[:4].hex(' ') or 'nothing'}, an idx file of this kind begins with "
                    f"{kind.hex(' ')}"
                )
            elif len(shape) < dimensions:
                problem = "is cut short within its header"
            elif size == 0:
                problem = f"holds no data ({header})"
            elif size > UNPACKED_BYTES:
                problem = f"{header} = {size} bytes, more than the {UNPACKED_BYTES} that are read"
            else:
                body, rest = file.read(size), file.read(1)
                bytes_of_header = f"{size} bytes that its header says ({' x '.join(map(str, shape))})"
                if len(body) == size and not rest:
                    return np.frombuffer(body, dtype=np.uint8).reshape(shape)
                cut = f"is cut short: {len(body)} of the {bytes_of_header}"
                problem = f"goes on after the {bytes_of_header}" if rest else cut
    except (*DAMAGED, OSError) as error:
        problem = f"is cut short or damaged ({error})"
    raise BadInput(f"{path}: {problem}; download it again")


def _find(folder: Path, name: str) -> Path:
    """The file `name` of a folder, plain or .gz; some mirrors write a dot for the dash before "idx"."""
    for stem in (name, name.replace("-idx", ".idx")):
        for path in (folder / stem, folder / f"{stem}.gz"):
            if path.is_file():
                return path
    raise absent("mnist", folder.parent, (folder.name,), f"{name} or {name}.gz", MNIST_ORIGIN)


def _read_pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """(n, 28, 28) and (n,) uint8 of one split."""
    pixels, label = read_idx(images, 3), read_idx(labels, 1)
    if pixels.shape[1:] != (MNIST_SIDE, MNIST_SIDE):
        raise BadInput(
            f"{images}: images of {pixels.shape[1]} x {pixels.shape[2]} pixels, MNIST has {MNIST_SIDE} x {MNIST_SIDE}; "
            "give the official file"
        )
    if len(pixels) != len(label):
        raise BadInput(
            f"{labels}: {len(label)} labels for the {len(pixels)} images of {images.name}; "
            "give two files of one data set"
        )
    wrong = np.flatnonzero(label > 9)
    if len(wrong):
        raise BadInput(
            f"{labels}: label {label[wrong[0]]} of image {wrong[0]} is not a digit from 0 to 9; give the official file"
        )
    return pixels, label


def _held_out(label: np.ndarray, per_class: int, seed: int, file: Path) -> np.ndarray:
    """`per_class` images of each digit, in ascending order of their number."""
    noise = bits(seed, "task/val", np.arange(len(label)))
    chosen = []
    for digit in range(10):
        members = np.flatnonzero(label == digit)
        if len(members) <= per_class:
            raise BadInput(
                f"task.val_per_class: {per_class} leaves no train image of digit {digit} "
                f"({len(members)} in {file}); take a smaller number"
            )
        chosen.append(members[np.argsort(noise[members], kind="stable")[:per_class]])
    return np.sort(np.concatenate(chosen))


def _refuse_copies(images: np.ndarray, train: np.ndarray, val: np.ndarray, file: Path) -> None:
    """Raises: BadInput where a held-out image also stands in train."""
    group = groups(images)
    count = int(np.isin(group[val], group[train]).sum())
    if count:
        raise BadInput(
            f"{file}: {count} of the {len(val)} images held out for val also stand in train; remove the "
            "copies, or take another task.split_seed"
        )


def _moments(images: np.ndarray, side: int) -> tuple[float, float]:
    """Mean and deviation of the pixels of images padded to `side`."""
    counts = np.bincount(images.reshape(-1), minlength=256)
    counts[0] += len(images) * (side * side - MNIST_SIDE * MNIST_SIDE)
    mean, deviation = moments(counts)
    if deviation == 0:
        raise BadInput("task.kind: 'mnist': all train pixels are equal; give the official files")
    return mean, deviation
