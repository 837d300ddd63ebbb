"""MNIST from the official idx files: pixels row by row, or patches of 4 x 4."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.splits import groups
from headstart.data.standardise import moments
from headstart.errors import BadInput
from headstart.seeds import bits
from headstart.sequence import Examples, Signature
from headstart.spec import neutral
from headstart.tasks.augment import augmenter
from headstart.tasks.idx import find_idx, read_idx
from headstart.tasks.task import Task, TaskSpec

SIDE = 28
FILES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}
ORIGIN = "MNIST (LeCun, Cortes and Burges) is at https://yann.lecun.com/exdb/mnist and its mirrors"


class MnistSpec(TaskSpec):
    """70,000 handwritten digits of 28 x 28 pixels with 256 grey levels, ten classes.

    Read from the four official files, plain or .gz, in `mnist/` of the data folder, and standardised with the
    mean and deviation of the train pixels. An example of the default begins `-0.42 -0.42 -0.42 ...` (the dark
    upper border) and has a label such as `five`. Splits: the official 10,000 test images; `val_per_class` of
    each class of the official 60,000 train images are held out by `split_seed` (50,000 train, 10,000 val).

    side: 28, or 32 for the image padded with two dark pixels on each side.
    augment: train images are shifted and turned anew each epoch, as the code of Lu et al. does with CIFAR-10 (digits
        are not mirrored).
    tile: 1 reads pixels row by row (784 or 1,024 positions of width 1); 4 reads patches of 4 x 4 row by row
        (49 or 64 positions of width 16). Lu et al. describe side 32 with tile 4; their code has side 28.
    """

    kind: Literal["mnist"] = "mnist"
    side: Literal[28, 32] = 28
    tile: Literal[1, 4] = 1
    val_per_class: int = Field(default=1000, ge=1)
    augment: bool = neutral(False)

    shows_not: ClassVar[str] = "MNIST is nearly solved: small differences near the top say little of harder images."
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "l1"

    def files(self, data: Path) -> tuple[Path, ...]:
        """The four files. Raises: BadInput naming a missing one, the folder and where it comes from."""
        return tuple(find_idx(data / "mnist", name, "mnist", ORIGIN) for name in FILES.values())

    def load(self, data: Path) -> Task:
        """The whole task. Raises: BadInput for a missing, cut, corrupt or unfitting file."""
        paths = dict(zip(FILES, self.files(data), strict=True))
        images, label = _read_pair(paths["train images"], paths["train labels"])
        test_images, test_label = _read_pair(paths["test images"], paths["test labels"])
        val = _held_out(label, self.val_per_class, self.split_seed, paths["train labels"])
        train = np.setdiff1d(np.arange(len(label)), val)
        mean, deviation = _moments(images[train], self.side)
        _refuse_copies(images, train, val, paths["train images"])
        side, tile = self.side, self.tile

        def examples(pixels: np.ndarray, target: np.ndarray, index: np.ndarray) -> Examples:
            values = tiles(_padded(pixels, side), tile)  # bytes stay bytes until a batch is made
            offsets = np.arange(len(pixels) + 1, dtype=np.int64) * values.shape[1]
            return Examples(
                values.reshape(-1, tile * tile),
                offsets,
                target.astype(np.int64),
                index,
                scale=1 / deviation,
                shift=-mean / deviation,
            )

        def picture(x: np.ndarray) -> np.ndarray:
            image = untiled(np.asarray(x, dtype=np.float64), side, tile)
            return np.clip((image * deviation + mean) / 255.0, 0.0, 1.0)

        def images_of(rows: np.ndarray) -> np.ndarray:
            count = side // tile
            cut = rows.reshape(len(rows), count, count, tile, tile).transpose(0, 1, 3, 2, 4)
            return cut.reshape(len(rows), side, side, 1)

        change = augmenter(images_of, lambda new: tiles(new[..., 0], tile), self.split_seed, mirror=False)
        positions = (side // tile) ** 2
        signature = Signature(
            input="floats",
            width=tile * tile,
            length=positions,
            shortest=positions,
            target="class",
            classes=10,
            levels=256,
            level_scale=deviation,
            level_shift=mean,
        )
        return Task(
            signature,
            examples(images[train], label[train], train),
            examples(images[val], label[val], val),
            examples(test_images, test_label, len(label) + np.arange(len(test_label))),
            labels=("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
            notes=_notes(len(label), len(test_label)),
            picture=picture,
            augment=change if self.augment else None,
        )


def tiles(images: np.ndarray, tile: int) -> np.ndarray:
    """Images (n, side, side) -> (n, (side / tile)^2, tile^2): tiles row by row, pixels of each row by row."""
    n, side, _ = images.shape
    count = side // tile
    cut = images.reshape(n, count, tile, count, tile).transpose(0, 1, 3, 2, 4)
    return cut.reshape(n, count * count, tile * tile)


def untiled(x: np.ndarray, side: int, tile: int) -> np.ndarray:
    """One sequence of tiles -> (side, side): the inverse of `tiles`."""
    count = side // tile
    return x.reshape(count, count, tile, tile).transpose(0, 2, 1, 3).reshape(side, side)


def _read_pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """(n, 28, 28) and (n,) uint8 of one split."""
    pixels, label = read_idx(images, 3), read_idx(labels, 1)
    if pixels.shape[1:] != (SIDE, SIDE):
        raise BadInput(
            f"{images}: images of {pixels.shape[1]} x {pixels.shape[2]} pixels, MNIST has {SIDE} x {SIDE}; "
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
            f"{labels}: label {label[wrong[0]]} of image {wrong[0]} is no digit 0 to 9; give the official file"
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
    counts[0] += len(images) * (side * side - SIDE * SIDE)
    mean, deviation = moments(counts)
    if deviation == 0:
        raise BadInput("task.kind: 'mnist': all train pixels are equal; give the official files")
    return mean, deviation


def _padded(images: np.ndarray, side: int) -> np.ndarray:
    border = (side - SIDE) // 2
    return np.pad(images, ((0, 0), (border, border), (border, border))) if border else images


def _notes(train: int, test: int) -> tuple[str, ...]:
    if (train, test) == (60_000, 10_000):
        return ()
    return (f"not the official MNIST: {train} train and {test} test images (official: 60000 and 10000)",)
