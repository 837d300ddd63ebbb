"""CIFAR-10's files: the official binary ones, or class folders of images; what its three tasks share."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import listed, members, stamps
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.problems import Mistakes
from headstart.data.splits import groups
from headstart.errors import BadInput

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
"""Bytes of one image of the official files: its label, then its red, green and blue pixels row by row."""
BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
OFFICIAL = {"train": 50_000, "test": 10_000}
ORIGIN = "CIFAR-10 (Krizhevsky 2009), binary version, is at https://www.cs.toronto.edu/~kriz/cifar.html"
FORMATS = ("JPEG", "PNG", "BMP", "PPM", "WEBP")
LOSSY = ("JPEG", "WEBP")
_READER = 1
"""Raised when the same files give other arrays."""

_IMAGE = re.compile(rf"(?:^|/)(train|test)/({'|'.join(CLASSES)})/([^/]+)\.(?:png|jpe?g|bmp|ppm|webp)$", re.I)
_BATCH = re.compile(rf"(?:^|/)({'|'.join(re.escape(name) for name in BATCHES)})$")
_ARCHIVE = re.compile(r"\.(tar|tgz|tar\.(gz|xz|bz2))$")


def find(data: Path, task: str) -> tuple[Path, tuple[Path, ...]]:
    """Where CIFAR-10 is read from (a folder or an archive), and all the files that are read.

    Looked for in `cifar10/` and `cifar-10-batches-bin/` of the data folder: the batches, then class folders
    `train/<class>/` and `test/<class>/`, then a tar archive of either.
    Raises: BadInput naming what is missing, the folder, and where the data set comes from.
    """
    outer = data / "cifar10"
    inner = sorted(p for p in outer.glob("*") if p.is_dir() and not p.name.startswith("."))
    folders = [outer, data / "cifar-10-batches-bin", *inner]
    for root in folders:
        there = [name for name in BATCHES if (root / name).is_file()]
        if there:
            _refuse_missing([str(root / name) for name in BATCHES if name not in there], task)
            return root, tuple(root / name for name in BATCHES)
    orders = tuple(file for split in OFFICIAL for root in folders if (file := root / order_file(split)).is_file())
    for root in folders:
        halves = [split for split in OFFICIAL if (root / split).is_dir()]
        if halves:
            _refuse_missing([str(root / split) for split in OFFICIAL if split not in halves], task)
            return root, (*(root / name for name in listed(root, _is_image)), *orders)
    found = sorted(p for p in outer.glob("*") if _ARCHIVE.search(p.name) and "python" not in p.name)
    if len(found) > 1:
        raise BadInput(
            f"task.kind: {task!r}: {outer} holds several archives ({', '.join(p.name for p in found)}); "
            "leave the one that is meant"
        )
    if found:
        return found[0], (found[0], *orders)
    pickled = any(outer.glob("*python*")) or (outer / "data_batch_1").is_file()
    raise BadInput(
        f"task.kind: {task!r} looks for {BATCHES[0]} to {BATCHES[4]} and {BATCHES[5]}, for folders train/<class> "
        f"and test/<class> of images, or for a tar archive of either in {outer}, and none is there"
        f"{' (files of the Python version are pickles, which are never opened)' if pickled else ''}; {ORIGIN}; "
        "name the folder above it with --data or HEADSTART_DATA"
    )


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
    return prepared(data, "cifar10", document, lambda builder: _build(builder, root, files))


def grey(pixels: np.ndarray) -> np.ndarray:
    """Colours (..., 3) uint8 -> levels (...) uint8: 0.299 R + 0.587 G + 0.114 B, rounded, a half up."""
    r, g, b = (pixels[..., i].astype(np.uint32) for i in range(3))
    return ((299 * r + 587 * g + 114 * b + 500) // 1000).astype(np.uint8)


def _refuse_missing(names: list[str], task: str) -> None:
    if names:
        raise BadInput(
            f"task.kind: {task!r}: {', '.join(names)} is missing; {ORIGIN}; name the folder that holds "
            "all of it with --data or HEADSTART_DATA"
        )


def _is_image(name: str) -> bool:
    return _IMAGE.search(name) is not None


def _build(builder: Builder, root: Path, files: tuple[Path, ...]) -> dict[str, Any]:
    batches, images, formats = _read(builder, root)
    splits, held = _from_batches(batches, root) if batches else _from_folders(images, root, files)
    train = len(splits["train"][1])
    pixels = builder.empty("pixels", (train + len(splits["test"][1]), SIDE, SIDE, 3), np.uint8)
    pixels[:train], pixels[train:] = splits["train"][0], splits["test"][0]
    builder.save("label", np.concatenate([splits["train"][1], splits["test"][1]]).astype(np.uint8))
    chunks = (grey(pixels[first : first + 1000]) for first in range(0, len(pixels), 1000))
    builder.save("group", groups(image for chunk in chunks for image in chunk))
    return {"train": train, "held_batch": held, "formats": sorted(formats), "folders": not batches}


Images = dict[tuple[str, int], list[tuple[tuple[int, str], np.ndarray]]]
"""Of each (split, class): (key that orders them, image)."""


def _read(builder: Builder, root: Path) -> tuple[dict[str, bytes], Images, set[str]]:
    """The batches that are there, else every image of the class folders."""
    mistakes, batches, formats, done = Mistakes(), {}, set(), 0
    images: Images = {}
    for name, content in members(root, lambda n: _is_image(n) or _BATCH.search(n) is not None, mistakes):
        batch, image = _BATCH.search(name), _IMAGE.search(name)
        if batch is not None:
            batches[batch[1]] = content
        elif image is not None:
            decoded = decode(content, f"{root / name if root.is_dir() else f'{root}, member {name}'}", mistakes)
            if decoded is not None:
                images.setdefault((image[1].lower(), CLASSES.index(image[2].lower())), []).append(
                    (_key(image[3]), decoded[0])
                )
                formats.add(decoded[1])
            done += 1
            if done % 1000 == 0:
                builder.report(min(done, sum(OFFICIAL.values())), sum(OFFICIAL.values()))
    mistakes.check()
    return batches, images, formats


def _key(stem: str) -> tuple[int, str]:
    """Orders `2.png` before `10.png`, and names without a number by their letters."""
    number = re.search(r"\d+", stem)
    return int(number[0]) if number and len(number[0]) < 19 else 0, stem


def decode(content: bytes, place: str, mistakes: Mistakes) -> tuple[np.ndarray, str] | None:
    """An image file as ((32, 32, 3) uint8, its format); None and a mistake where it is none of that size."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.size != (SIDE, SIDE):  # known from the header: nothing large is ever decoded
                width, height = image.size
                mistakes.add(place, f"has {width} x {height} pixels, CIFAR-10 has {SIDE} x {SIDE}")
                return None
            colour = image if image.mode == "RGB" else image.convert("RGB")
            return np.asarray(colour, dtype=np.uint8), str(image.format)
    except Exception as error:  # Pillow's readers raise whatever a damaged file leads them to
        mistakes.add(place, f"is cut short or no image ({type(error).__name__}); give the file again")
        return None


Splits = dict[str, tuple[np.ndarray, np.ndarray]]
"""(pixels (n, 32, 32, 3), labels (n,)) of train and test."""


def _from_batches(batches: dict[str, bytes], root: Path) -> tuple[Splits, int]:
    """The official files, one after another, and the size of the fifth."""
    _refuse_missing([f"{root}, member {name}" for name in BATCHES if name not in batches], "cifar10")
    mistakes = Mistakes()
    read = {name: _records(batches[name], f"{root}, {name}", mistakes) for name in BATCHES}
    mistakes.check()
    train = [np.concatenate(part) for part in zip(*(read[name] for name in BATCHES[:5]), strict=True)]
    return {"train": (train[0], train[1]), "test": read[BATCHES[5]]}, len(read[BATCHES[4]][1])


def _records(content: bytes, place: str, mistakes: Mistakes) -> tuple[np.ndarray, np.ndarray]:
    whole = len(content) // RECORD
    if len(content) % RECORD or not whole:
        mistakes.add(
            place,
            f"{len(content)} bytes are no whole number of records of {RECORD} bytes: it is cut "
            "short or of another kind; download it again",
        )
    table = np.frombuffer(content, dtype=np.uint8, count=whole * RECORD).reshape(whole, RECORD)
    for row in np.flatnonzero(table[:, 0] > 9):
        mistakes.add(f"{place}, image {row}", f"label {table[row, 0]} is none of 0 to 9; download it again")
    return table[:, 1:].reshape(whole, 3, SIDE, SIDE).transpose(0, 2, 3, 1), table[:, 0]


def _from_folders(images: Images, root: Path, files: tuple[Path, ...]) -> tuple[Splits, int]:
    """Images of class folders, in the official order where its file is there, else class by class."""
    mistakes, splits, ordered = Mistakes(), {}, {}
    for split in OFFICIAL:
        for value, name in enumerate(CLASSES):
            if not images.get((split, value)):
                mistakes.add(f"{root}, {split}/{name}", "the class has no image (links to folders are not followed)")
        order = next((file for file in files if file.name == order_file(split)), None)
        counts = np.array([len(images.get((split, value), ())) for value in range(10)])
        label = np.repeat(np.arange(10), counts) if order is None else _order(order, counts, mistakes)
        ordered[split], splits[split] = order is not None, label
    mistakes.check()
    out = {split: (np.stack(list(_in_order(images, split, label))), label) for split, label in splits.items()}
    whole = ordered["train"] and len(splits["train"]) % 5 == 0
    return out, len(splits["train"]) // 5 if whole else 0


def _order(file: Path, counts: np.ndarray, mistakes: Mistakes) -> np.ndarray:
    """The labels of a split in the official order."""
    label = np.fromfile(file, dtype=np.uint8).astype(np.int64)
    for row in np.flatnonzero(label > 9):
        mistakes.add(f"{file}, byte {row}", f"label {label[row]} is none of 0 to 9")
    for value, count in enumerate(np.bincount(label, minlength=10)[:10]):
        if count != counts[value]:
            mistakes.add(
                str(file),
                f"has {count} labels of {CLASSES[value]}, the folder has {counts[value]} images; "
                "give the file of this copy",
            )
    return label


def _in_order(images: Images, split: str, label: np.ndarray) -> Iterator[np.ndarray]:
    """Image i of label c is number (how many of c came before) of c's folder."""
    waiting = {value: iter(sorted(images[split, value], key=lambda item: item[0])) for value in range(10)}
    return (next(waiting[int(value)])[1] for value in label)
