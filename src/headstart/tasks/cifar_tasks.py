"""What the tasks made of CIFAR-10 share: splits, tiles, scaling, notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.prepared import Builder, Prepared, prepared, stored
from headstart.data.splits import hold_out, occurs_once, shared_note
from headstart.data.standardise import moments
from headstart.errors import BadInput
from headstart.sequence import Signature
from headstart.spec import neutral
from headstart.tasks.augment import augmenter
from headstart.tasks.cifar import CLASSES, LOSSY, OFFICIAL, SIDE, colours, find, grey
from headstart.tasks.task import SPLITS, Task, TaskSpec

_MAKER = 1
"""Raised when the same images give other examples."""


class CifarSpec(TaskSpec):
    """Fields of the tasks made of CIFAR-10. `kind` and what an example looks like are theirs.

    split: `drawn` holds out `val` of the official 50,000 train images, each class in proportion, by
        `split_seed`; of images that occur twice all copies stay in train. `rothermel` holds out the fifth
        stock batch as Rothermel et al. do (40,000 and 10,000; its classes have 952 to 1,025 images).
    val: images held out where they are drawn.
    augment: train images are shifted, turned and mirrored anew each epoch, as the code of Lu et al. does with CIFAR-10
        in colour and in grey (the paper does not say so).
    """

    split: Literal["drawn", "rothermel"] = "drawn"
    val: int = Field(default=5_000, ge=1)
    augment: bool = neutral(False)

    shows_not: ClassVar[str] = (
        "small pictures of ten kinds of thing: this says little of larger images, nor of real sequences."
    )
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "l1"

    def layout(self) -> tuple[int, int]:
        """(features of a pixel: 1 grey or 3 colours, side of a tile)."""
        raise NotImplementedError

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        return find(data, self.kind)[1]

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Decode the images and lay them out as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        found = self._prepared(data)
        features, tile = self.layout()
        mean, deviation = found.facts["mean"], found.facts["deviation"]
        positions = (SIDE // tile) ** 2

        def picture(x: np.ndarray) -> np.ndarray:
            image = untiled(np.asarray(x, dtype=np.float64), features, tile)
            shown: np.ndarray = np.clip((image * deviation + mean) / 255.0, 0.0, 1.0)
            return shown

        signature = Signature(
            input="floats",
            width=features * tile * tile,
            length=positions,
            shortest=positions,
            target="class",
            classes=10,
            levels=256,
            level_scale=deviation,
            level_shift=mean,
        )
        splits = {name: stored(found, name, scale=1 / deviation, shift=-mean / deviation) for name in SPLITS}
        task = Task(
            signature,
            splits["train"],
            splits["val"],
            splits["test"],
            labels=CLASSES,
            notes=tuple(found.facts["notes"]),
            picture=picture,
            fingerprint=found.fingerprint,
        )
        if not self.augment:
            return task
        change = augmenter(lambda x: untiled_many(x, features, tile), lambda i: tiled(i, tile), self.split_seed, True)
        return replace(task, augment=change)

    def _prepared(self, data: Path) -> Prepared:
        base = colours(data, self.kind)
        features, tile = self.layout()
        drawn = {"val": self.val, "seed": self.split_seed} if self.split == "drawn" else {}
        document = {
            "maker": _MAKER,
            "images": base.fingerprint,
            "facts": dict(base.facts),
            "features": features,
            "tile": tile,
            "split": self.split,
            **drawn,
        }
        return prepared(
            data,
            "cifar10-grey" if features == 1 else "cifar10-colours",
            document,
            lambda builder: _build(builder, self, base),
        )


def tiled(images: np.ndarray, tile: int) -> np.ndarray:
    """Images (n, 32, 32, C) -> (n, (32 / tile)^2, tile^2 C): tiles row by row, in each its pixels row by row."""
    n, side, _, features = images.shape
    count = side // tile
    cut = images.reshape(n, count, tile, count, tile, features).transpose(0, 1, 3, 2, 4, 5)
    return cut.reshape(n, count * count, tile * tile * features)


def untiled_many(x: np.ndarray, features: int, tile: int) -> np.ndarray:
    """Sequences (n, L, F) -> images (n, 32, 32, C): the inverse of `tiled`."""
    count = SIDE // tile
    cut = x.reshape(len(x), count, count, tile, tile, features).transpose(0, 1, 3, 2, 4, 5)
    images: np.ndarray = cut.reshape(len(x), SIDE, SIDE, features)
    return images


def untiled(x: np.ndarray, features: int, tile: int) -> np.ndarray:
    """One sequence -> (32, 32) or (32, 32, 3)."""
    image: np.ndarray = untiled_many(x[None], features, tile)[0]
    return image[..., 0] if features == 1 else image


def _build(builder: Builder, spec: CifarSpec, base: Prepared) -> dict[str, object]:
    """Write the examples of each split as bytes, and the mean and deviation of the train bytes."""
    features, tile = spec.layout()
    pixels, label, group = (base.arrays[name] for name in ("pixels", "label", "group"))
    rows, counts, done = split_rows(spec, base), np.zeros(256, dtype=np.int64), 0
    for name, chosen in rows.items():
        length = (SIDE // tile) ** 2
        values = builder.empty(f"{name}_values", (len(chosen) * length, features * tile * tile), np.uint8)
        for first in range(0, len(chosen), 500):  # so that the counts below stay in the core's cache
            some = pixels[chosen[first : first + 500]]
            cut = tiled(grey(some)[..., None] if features == 1 else some, tile)
            values[first * length : (first + len(some)) * length] = cut.reshape(-1, cut.shape[-1])
            if name == "train":
                counts += np.bincount(cut.reshape(-1), minlength=256)
            done += len(some)
            builder.report(done, len(label))
        builder.save(f"{name}_offsets", np.arange(len(chosen) + 1, dtype=np.int64) * length)
        builder.save(f"{name}_target", np.asarray(label[chosen], dtype=np.int64))
        builder.save(f"{name}_index", chosen)
    mean, deviation = moments(counts)
    if deviation == 0:
        raise BadInput(f"task.kind: {spec.kind!r}: all train pixels are equal; give the official files")
    return {"mean": mean, "deviation": deviation, "notes": _notes(base, np.asarray(group), rows)}


def split_rows(spec: CifarSpec, base: Prepared) -> dict[str, np.ndarray]:
    """Rows of the images of each split, in ascending order."""
    train, held = int(base.facts["train"]), int(base.facts["held_batch"])
    label, group = np.asarray(base.arrays["label"]), np.asarray(base.arrays["group"])
    if spec.split == "drawn":
        val = hold_out(label[:train], occurs_once(group[:train]), spec.val, spec.split_seed, "task.val")
    elif held:
        val = np.arange(train - held, train)
    else:
        raise BadInput(
            "task.split: 'rothermel' holds out a stock batch, and class folders do not say which images that is; "
            "put train_labels_official_order.u8 (one byte per label, in the official order) beside them"
        )
    return {"train": np.setdiff1d(np.arange(train), val), "val": val, "test": np.arange(train, len(label))}


def _notes(base: Prepared, group: np.ndarray, rows: dict[str, np.ndarray]) -> list[str]:
    """What a table must say of these images."""
    notes, sizes = [], {"train": int(base.facts["train"]), "test": len(rows["test"])}
    lossy = [name for name in base.facts["formats"] if name in LOSSY]
    if lossy:
        notes.append(f"lossy copy of CIFAR-10: decoded from {' and '.join(lossy)} images, not the official pixels")
    if sizes != OFFICIAL:
        notes.append(
            f"not the official CIFAR-10: {sizes['train']} train and {sizes['test']} test images "
            "(official: 50000 and 10000)"
        )
    inner = int(np.isin(group[rows["val"]], group[rows["train"]]).sum())
    if inner:
        notes.append(f"of the {len(rows['val'])} images of the held-out stock batch, {inner} also stand in train")
    return [*notes, *shared_note(group, rows, "images")]
