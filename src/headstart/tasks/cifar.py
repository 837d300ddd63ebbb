"""CIFAR-10 as three tasks (grey, colour, patches), from the official binary files or class folders of images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.archives import absent, incomplete, listed, members
from headstart.data.copies import groups
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.sequences import moments
from headstart.data.splits import copies_note, hold_out, occurs_once
from headstart.data.text import ARCHIVE
from headstart.errors import BadInput, Mistakes
from headstart.sequence import Signature
from headstart.spec import neutral
from headstart.tasks.build import LONG_RANGE_ARENA, size_note
from headstart.tasks.images import augmenter, decode, pixel_task, tiled
from headstart.tasks.task import Augment, Outline, Task, TaskSpec, each_split

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_SIDE = 32
RECORD = 1 + 3 * CIFAR_SIDE * CIFAR_SIDE
"""Bytes of one image of the official files: its label, then its red, green and blue pixels row by row."""
BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
CIFAR_SIZES = {"train": 50_000, "test": 10_000}
CIFAR_ORIGIN = "CIFAR-10 (Krizhevsky 2009), binary version, is at https://www.cs.toronto.edu/~kriz/cifar.html"
CIFAR_FORMATS = ("JPEG", "PNG", "BMP", "PPM", "WEBP")
LOSSY = ("JPEG", "WEBP")
_READER, _MAKER = 1, 1
"""Raised when the same files give other images, and when the same images give other examples."""

_IMAGE = re.compile(rf"(?:^|/)(train|test)/({'|'.join(CIFAR_CLASSES)})/([^/]+)\.(?:png|jpe?g|bmp|ppm|webp)$", re.I)
_BATCH = re.compile(rf"(?:^|/)({'|'.join(re.escape(name) for name in BATCHES)})$")

Images = dict[tuple[str, int], list[tuple[tuple[int, str], np.ndarray]]]
"""Of each (split, class): (key that orders them, image)."""
LabelledImages = dict[str, tuple[np.ndarray, np.ndarray]]
"""(pixels (n, 32, 32, 3), labels (n,)) of train and test."""


class CifarSpec(TaskSpec):
    """Fields of the tasks made of CIFAR-10. `kind` and what an example looks like are theirs."""

    split: Literal["drawn", "rothermel"] = "drawn"
    """`drawn` holds out `val` of the official 50,000 train images, each class in proportion, by `split_seed`; of images
    that occur twice all copies stay in train. `rothermel` holds out the fifth stock batch as Rothermel et al. do
    (40,000 and 10,000; its classes have 952 to 1,025 images)."""
    val: int = Field(default=5_000, ge=1)
    """Images held out where they are drawn."""
    augment: bool = neutral(False)
    """Train images are shifted, turned and mirrored anew each epoch, as the code of Lu et al. does with CIFAR-10 in
    colour and in grey (the paper does not say so)."""

    shows_not: ClassVar[str] = (
        "small pictures of ten kinds of thing: this says little of larger images, nor of real sequences."
    )
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "l1"

    def layout(self) -> tuple[int, int]:
        """Features of a pixel (1 grey or 3 colours) and side of a tile."""
        return 1, 1

    def outline(self) -> Outline | None:
        """The official 50,000 and 10,000 images."""
        features, tile = self.layout()
        positions, val = (CIFAR_SIDE // tile) ** 2, CIFAR_SIZES["train"] // 5 if self.split == "rothermel" else self.val
        signature = Signature("floats", features * tile * tile, positions, positions, "class", 10, levels=256)
        return Outline(signature, CIFAR_SIZES["train"] - val, val, CIFAR_SIZES["test"], positions)

    def files(self, data: Path) -> tuple[Path, ...]:
        return find(data, self.kind)[1]

    def load(self, data: Path) -> Task:
        ready, (features, tile) = self._prepared(data), self.layout()
        mean, deviation = ready.facts["mean"], ready.facts["deviation"]
        splits = each_split(lambda name: ready.split(name, scale=1 / deviation, shift=-mean / deviation))
        task = pixel_task(splits, CIFAR_CLASSES, CIFAR_SIDE, 256, mean, deviation, features, tile)
        return replace(task, notes=tuple(ready.facts["notes"]), fingerprint=ready.fingerprint)

    def augmentation(self) -> Augment | None:
        return augmenter(CIFAR_SIDE, *self.layout(), self.split_seed, mirror=True) if self.augment else None

    def _prepared(self, data: Path) -> Prepared:
        base, (features, tile) = colours(data, self.kind), self.layout()
        document = {
            "maker": _MAKER,
            "images": base.fingerprint,
            "facts": dict(base.facts),
            "features": features,
            "tile": tile,
            "split": self.split,
        }
        if self.split == "drawn":
            document |= {"val": self.val, "seed": self.split_seed}
        name = "cifar10-grey" if features == 1 else "cifar10-colours"
        return prepared(name, document, lambda builder: _write_splits(builder, self, base))


class ImageSpec(CifarSpec):
    """60,000 photographs of 32 x 32 pixels in ten classes, as 1,024 grey pixels row by row.

    Grey is 0.299 R + 0.587 G + 0.114 B, rounded to one of 256 levels, and standardised with the mean and
    deviation of the train pixels: an example begins `-0.96 -1.27 -1.15 ...`, label `frog`. Splits: 45,000 train
    and 5,000 val of the official train images, the official 10,000 test images; or `split` as Rothermel et
    al. have it.
    Source: Krizhevsky 2009; as a sequence: Tay et al. 2020.
    """

    kind: Literal["image"] = "image"

    shows_not: ClassVar[str] = LONG_RANGE_ARENA


class SCifarSpec(CifarSpec):
    """60,000 photographs of 32 x 32 pixels in ten classes, as 1,024 pixels of red, green and blue row by row.

    Standardised with one mean and one deviation of all train bytes, so that colours keep their balance: an
    example begins `(-0.96, -0.97, -0.95) (-1.28, -1.25, -1.27) ...`, label `frog`. Splits as in `image`.
    Source: Krizhevsky 2009; as a sequence: Gu et al. 2022.
    """

    kind: Literal["scifar"] = "scifar"

    def layout(self) -> tuple[int, int]:
        """Pixels of three colours, one at a time."""
        return 3, 1


class CifarPatchesSpec(CifarSpec):
    """60,000 photographs of 32 x 32 pixels in ten classes, as 64 patches of 4 x 4 row by row.

    An example in grey begins `(-0.96, -1.27, ... 16 numbers) (...) ...`, label `frog`; pixels are standardised
    with the mean and deviation of the train pixels. Splits as in `image`; Lu et al. train on all 50,000 and
    look at test images only.

    Source: Krizhevsky 2009; as patches: Lu et al. 2021.
    """

    kind: Literal["cifar_patches"] = "cifar_patches"
    channels: Literal["grey", "rgb"] = "grey"
    """`grey` has patches of 16 numbers (Lu et al. describe that), `rgb` of 48 (their code), the three colours of a
    pixel side by side."""

    def layout(self) -> tuple[int, int]:
        """Tiles of 4 x 4 in grey or colour."""
        return (1 if self.channels == "grey" else 3), 4


def find(data: Path, task: str) -> tuple[Path, tuple[Path, ...]]:
    """Where CIFAR-10 is read from (a folder or an archive), and all the files that are read.

    Looked for in `cifar10/` and `cifar-10-batches-bin/` of the data folder: the batches, then class folders
    `train/<class>/` and `test/<class>/`, then a tar archive of either.
    Raises: BadInput naming what is missing, the folder, and where the data set comes from.
    """
    outer = data / "cifar10"
    inner = sorted(p for p in outer.glob("*") if p.is_dir() and not p.name.startswith("."))
    folders = [outer, data / "cifar-10-batches-bin", *inner]
    orders = tuple(file for split in CIFAR_SIZES for root in folders if (file := root / order_file(split)).is_file())
    for names in (BATCHES, tuple(CIFAR_SIZES)):
        for root in folders:
            missing = [root / name for name in names if not (root / name).exists()]
            if missing and len(missing) < len(names):
                raise incomplete(task, missing, CIFAR_ORIGIN)
            if not missing and names == BATCHES:
                return root, tuple(root / name for name in BATCHES)
            if not missing:
                return root, (*(root / name for name in listed(root, _is_image)), *orders)
    archives = sorted(p for p in outer.glob("*") if ARCHIVE.search(p.name) and "python" not in p.name)
    if len(archives) > 1:
        several = ", ".join(path.name for path in archives)
        raise BadInput(f"task.kind: {task!r}: {outer} holds several archives ({several}); leave the one that is meant")
    if archives:
        return archives[0], (archives[0], *orders)
    pickled = any(outer.glob("*python*")) or (outer / "data_batch_1").is_file()
    looks = (
        f"{BATCHES[0]} to {BATCHES[4]} and {BATCHES[5]}, for folders train/<class> and test/<class> of images, or for "
        "a tar archive of either"
    )
    never = " (files of the Python version are pickles, which are never opened)" if pickled else ""
    raise absent(task, data, ("cifar10",), looks + never, CIFAR_ORIGIN)


def order_file(split: str) -> str:
    """Name of the optional file with the labels of a split, one byte each, in the official order."""
    return f"{split}_labels_official_order.u8"


def colours(data: Path, task: str) -> Prepared:
    """All images, decoded once: `pixels` (n, 32, 32, 3) and `label` (n,) uint8, train before test, and `group`.

    `group` (n,) is equal where grey images are equal. Facts: `train` (how many of n), `held_batch` (images of
    the last stock batch, the last of train; 0 where the order is not the official one), `formats`.
    Raises: BadInput with up to 20 mistakes, each with its file and row.
    """
    root, files = find(data, task)
    document = {"reader": _READER, "files": stamps(files)}
    return prepared("cifar10", document, lambda builder: _write_images(builder, root, files))


def grey(pixels: np.ndarray) -> np.ndarray:
    """Colours (..., 3) uint8 -> levels (...) uint8: 0.299 R + 0.587 G + 0.114 B, rounded, a half up."""
    r, g, b = (pixels[..., i].astype(np.uint32) for i in range(3))
    return ((299 * r + 587 * g + 114 * b + 500) // 1000).astype(np.uint8)


def split_rows(spec: CifarSpec, base: Prepared) -> dict[str, np.ndarray]:
    """Rows of the images of each split, in ascending order."""
    train, last = int(base.facts["train"]), int(base.facts["held_batch"])
    label, group = np.asarray(base.arrays["label"]), np.asarray(base.arrays["group"])
    if spec.split == "drawn":
        val = hold_out(label[:train], occurs_once(group[:train]), spec.val, spec.split_seed, "task.val")
    elif last:
        val = np.arange(train - last, train)
    else:
        raise BadInput(
            "task.split: 'rothermel' holds out a stock batch, and class folders do not say which images that is; "
            "put train_labels_official_order.u8 (one byte per label, in the official order) beside them"
        )
    return {"train": np.setdiff1d(np.arange(train), val), "val": val, "test": np.arange(train, len(label))}


def _is_image(name: str) -> bool:
    return _IMAGE.search(name) is not None


def _write_splits(builder: Builder, spec: CifarSpec, base: Prepared) -> dict[str, object]:
    """Write the examples of each split as bytes, and the mean and deviation of the train bytes."""
    features, tile = spec.layout()
    pixels, label, group = (base.arrays[name] for name in ("pixels", "label", "group"))
    rows, counts, done = split_rows(spec, base), np.zeros(256, dtype=np.int64), 0
    length = (CIFAR_SIDE // tile) ** 2
    for name, chosen in rows.items():
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
    sizes = {"train": int(base.facts["train"]), "test": len(rows["test"])}
    lossy = " and ".join(name for name in base.facts["formats"] if name in LOSSY)
    notes = [f"lossy copy of CIFAR-10: decoded from {lossy} images, not the official pixels"] if lossy else []
    notes += size_note("CIFAR-10", sizes, CIFAR_SIZES, "images")
    return {"mean": mean, "deviation": deviation, "notes": [*notes, *copies_note(np.asarray(group), rows, "images")]}


def _write_images(builder: Builder, root: Path, files: tuple[Path, ...]) -> dict[str, Any]:
    batches, images, formats = _read(builder, root)
    splits, last = _from_batches(batches, root) if batches else _from_folders(images, root, files)
    train = len(splits["train"][1])
    pixels = builder.empty("pixels", (train + len(splits["test"][1]), CIFAR_SIDE, CIFAR_SIDE, 3), np.uint8)
    pixels[:train], pixels[train:] = splits["train"][0], splits["test"][0]
    builder.save("label", np.concatenate([splits["train"][1], splits["test"][1]]).astype(np.uint8))
    builder.save("group", groups(grey(image) for image in pixels))
    return {"train": train, "held_batch": last, "formats": sorted(formats), "folders": not batches}


def _read(builder: Builder, root: Path) -> tuple[dict[str, bytes], Images, set[str]]:
    """The batches that are there, else every image of the class folders."""
    mistakes, batches, formats, done = Mistakes(), {}, set(), 0
    images: Images = {}
    for name, content in members(root, lambda n: _is_image(n) or _BATCH.search(n) is not None, mistakes):
        batch, image = _BATCH.search(name), _IMAGE.search(name)
        if batch is not None:
            batches[batch[1]] = content
        elif image is not None:
            try:
                pixels, form = decode(content, CIFAR_SIDE, CIFAR_FORMATS, "RGB")
            except ValueError as error:
                mistakes.add(f"{root / name if root.is_dir() else f'{root}, member {name}'}", str(error))
            else:
                key = (image[1].lower(), CIFAR_CLASSES.index(image[2].lower()))
                images.setdefault(key, []).append((_key(image[3]), pixels))
                formats.add(form)
            done += 1
            if done % 1000 == 0:
                builder.report(min(done, sum(CIFAR_SIZES.values())), sum(CIFAR_SIZES.values()))
    mistakes.check()
    return batches, images, formats


def _key(stem: str) -> tuple[int, str]:
    """Orders `2.png` before `10.png`, and names without a number by their letters."""
    number = re.search(r"\d+", stem)
    return int(number[0]) if number and len(number[0]) < 19 else 0, stem


def _from_batches(batches: dict[str, bytes], root: Path) -> tuple[LabelledImages, int]:
    """The official files, one after another, and the size of the fifth."""
    mistakes, missing = Mistakes(), [f"{root}, member {name}" for name in BATCHES if name not in batches]
    if missing:
        raise incomplete("cifar10", missing, CIFAR_ORIGIN)
    parts = [_records(batches[name], f"{root}, {name}", mistakes) for name in BATCHES]
    mistakes.check()
    pixels, labels = (np.concatenate(part) for part in zip(*parts[:5], strict=True))
    return {"train": (pixels, labels), "test": parts[5]}, len(parts[4][1])


def _records(content: bytes, where: str, mistakes: Mistakes) -> tuple[np.ndarray, np.ndarray]:
    whole = len(content) // RECORD
    if len(content) % RECORD or not whole:
        problem = f"{len(content)} bytes are not a whole number of records of {RECORD} bytes"
        mistakes.add(where, f"{problem}: it is cut short or of another kind; download it again")
    table = np.frombuffer(content, dtype=np.uint8, count=whole * RECORD).reshape(whole, RECORD)
    for row in np.flatnonzero(table[:, 0] > 9):
        mistakes.add(f"{where}, image {row}", f"label {table[row, 0]} is none of 0 to 9; download it again")
    return table[:, 1:].reshape(whole, 3, CIFAR_SIDE, CIFAR_SIDE).transpose(0, 2, 3, 1), table[:, 0]


def _from_folders(images: Images, root: Path, files: tuple[Path, ...]) -> tuple[LabelledImages, int]:
    """Images of class folders, in the official order where its file is there, else class by class."""
    mistakes, labels, ordered = Mistakes(), {}, {}
    for split in CIFAR_SIZES:
        counts = np.array([len(images.get((split, value), ())) for value in range(10)])
        for value in np.flatnonzero(counts == 0):
            name = f"{root}, {split}/{CIFAR_CLASSES[value]}"
            mistakes.add(name, "the class has no image (links to folders are not followed)")
        order = next((file for file in files if file.name == order_file(split)), None)
        ordered[split] = order is not None
        labels[split] = np.repeat(np.arange(10), counts) if order is None else _order(order, counts, mistakes)
    mistakes.check()
    splits = {split: (np.stack(list(_in_order(images, split, label))), label) for split, label in labels.items()}
    whole = ordered["train"] and len(labels["train"]) % 5 == 0
    return splits, len(labels["train"]) // 5 if whole else 0


def _order(file: Path, counts: np.ndarray, mistakes: Mistakes) -> np.ndarray:
    """The labels of a split in the official order."""
    label = np.fromfile(file, dtype=np.uint8).astype(np.int64)
    for row in np.flatnonzero(label > 9):
        mistakes.add(f"{file}, byte {row}", f"label {label[row]} is none of 0 to 9")
    for value, count in enumerate(np.bincount(label, minlength=10)[:10]):
        if count != counts[value]:
            problem = f"has {count} labels of {CIFAR_CLASSES[value]}, the folder has {counts[value]} images"
            mistakes.add(str(file), f"{problem}; give the file of this copy")
    return label


def _in_order(images: Images, split: str, label: np.ndarray) -> Iterator[np.ndarray]:
    """Image i of label c is number (how many of c came before) of c's folder."""
    waiting = {value: iter(sorted(images[split, value], key=lambda item: item[0])) for value in range(10)}
    return (next(waiting[int(value)])[1] for value in label)
