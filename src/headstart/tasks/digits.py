"""Handwritten digits that come with scikit-learn, rolled so that no position has a meaning of its own."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from headstart.data.standardise import moments
from headstart.errors import BadInput
from headstart.seeds import below
from headstart.sequence import Examples
from headstart.spec import Seed
from headstart.tasks.build import each_split
from headstart.tasks.images import DIGITS, pixel_task
from headstart.tasks.task import Task, TaskSpec, stratified_split

SIDE = 8
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

    rolled: False leaves the images in place (a logistic regression then solves the task).
    roll_seed: seed of the offsets.
    Source: Alpaydin and Kaynak 1998, UCI "Optical recognition of handwritten digits", the test part.
    """

    kind: Literal["digits"] = "digits"
    rolled: bool = True
    roll_seed: Seed = 0

    shows_not: ClassVar[str] = (
        "64 positions of one small data set: this says nothing of long sequences, nor of other data."
    )
    generated: ClassVar[bool] = True
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "l1"

    def load(self, data: Path) -> Task:
        """The whole task. Raises: BadInput if scikit-learn's copy of the digits is missing or another one."""
        pixels, label = _raw()
        if self.rolled:
            pixels = _roll(pixels, self.roll_seed)
        rows = stratified_split(label, SIZES, self.split_seed, len(label))
        mean, deviation = moments(np.bincount(pixels[rows["train"]].reshape(-1), minlength=LEVELS))
        values = ((pixels - mean) / deviation).astype(np.float32)

        def examples(rows: np.ndarray) -> Examples:
            offsets = np.arange(len(rows) + 1, dtype=np.int64) * SIDE * SIDE
            return Examples(values[rows].reshape(-1, 1), offsets, label[rows], rows)

        return pixel_task(each_split(lambda name: examples(rows[name])), DIGITS, SIDE, LEVELS, mean, deviation)


def _roll(pixels: np.ndarray, seed: int) -> np.ndarray:
    """Each image moved down and right, round the edges, by its own two offsets in 0..7."""
    number, line = np.arange(len(pixels))[:, None], np.arange(SIDE)
    offset = below(seed, "digits/roll", SIDE, number, np.arange(2))
    rows, columns = (line - offset[:, :1]) % SIDE, (line - offset[:, 1:]) % SIDE
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
    return table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]


def _read_table() -> np.ndarray:
    """(1797, 65) uint8: the pixels of each image and its label."""
    package = importlib.util.find_spec("sklearn")
    for folder in (package.submodule_search_locations or []) if package else []:
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            with gzip.open(file, "rt") as lines:
                return np.loadtxt(lines, delimiter=",").astype(np.uint8)
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput(
            "task.kind: 'digits' needs scikit-learn, which brings the images; pip install scikit-learn"
        ) from None
    bunch = load_digits()
    return np.hstack([bunch.data, bunch.target[:, None]]).astype(np.uint8)
