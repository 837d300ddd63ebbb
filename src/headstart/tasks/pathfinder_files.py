"""Pathfinder as Long Range Arena released it: folders of PNG images with text metadata."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np

from headstart.data.prepared import Builder, prepared
from headstart.errors import BadInput
from headstart.tasks.pathfinder import as_examples, as_task
from headstart.tasks.task import LONG_RANGE_ARENA, SPLITS, Task, TaskSpec, stratified_split

FOLDERS = {14: "curv_contour_length_14", 9: "curv_contour_length_9", 6: "curv_baseline"}
"""The archive's names of its contour lengths."""
ORIGIN = (
    "Long Range Arena's archive (lra_release, https://github.com/google-research/long-range-arena) holds "
    "it; name the folder above it with --data or HEADSTART_DATA; the task `pathfinder` generates the like "
    "without a download"
)
MOST = 20
"""Mistakes that are gathered before reading stops."""
_STEP = 4096
"""Images copied at a time."""


class PathfinderFilesSpec(TaskSpec):
    """Long Range Arena's own Pathfinder images, where someone has them: grey, row by row as scalar positions.

    Read from `pathfinder<size>/<folder>/` in the data folder (or in `lra_release/` or `lra/` there), where
    `metadata/*` are text files, whatever their ending, of lines `folder file index label ...`. Inputs are -1
    to 1, labels as in `pathfinder`, 200,000 images per folder. Split 80/10/10, stratified, by `split_seed`;
    of identical images the first is kept, and the number of the others is said. Of the archive's
    `pathfinder128` two copies are about, one of them suspect.

    skip: images to leave out, as `imgs/0/sample_172.png` (that one is empty in the archive's curv_baseline).
    Source: Tay et al. 2020.
    """

    kind: Literal["pathfinder_files"] = "pathfinder_files"
    size: Literal[32, 64, 128, 256] = 32
    contour_length: Literal[14, 9, 6] = 14
    skip: tuple[str, ...] = ()

    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "levels"

    def folder(self, data: Path) -> Path:
        """Where the images are. Raises: BadInput naming the folders looked at."""
        inner = Path(f"pathfinder{self.size}") / FOLDERS[self.contour_length]
        for outer in (data, data / "lra_release", data / "lra"):
            if (outer / inner / "metadata").is_dir():
                return outer / inner
        raise BadInput(
            f"task.kind: 'pathfinder_files': no {inner}/metadata in {data}, nor in its lra_release or "
            f"lra folder; {ORIGIN}"
        )

    def files(self, data: Path) -> tuple[Path, ...]:
        """The metadata files, and the folders of the images (which change when an image comes or goes)."""
        folder = self.folder(data)
        metadata = sorted(p for p in (folder / "metadata").iterdir() if p.is_file())
        if not metadata:
            raise BadInput(f"{folder / 'metadata'}: is empty; {ORIGIN}")
        return (*metadata, *sorted(p for p in (folder / "imgs").glob("*") if p.is_dir()))

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Decode the images, where that is not done yet (reading waits for the disk, so one thread does)."""
        del workers
        self.load(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput with up to 20 mistakes, each with file and row."""
        folder, seen = self.folder(data), [(str(p), p.stat()) for p in self.files(data)]
        document = {
            "reader": self.version,
            "size": self.size,
            "skip": list(self.skip),
            "seed": self.split_seed,
            "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in seen],
        }
        found = prepared(data, "pathfinder-files", document, lambda builder: _build(self, folder, builder))
        arrays = {name: np.asarray(array) for name, array in found.arrays.items()}
        splits = {}
        for name in SPLITS:
            examples = as_examples(arrays[f"{name}_images"], arrays[f"{name}_labels"], 0)
            splits[name] = type(examples)(**{**vars(examples), "index": arrays[f"{name}_index"]})
        task = as_task(self.size, splits, fingerprint=found.fingerprint)
        twice = found.facts["repeated"]
        notes = (f"{twice} images that repeat an earlier one are left out",) if twice else ()
        return Task(**{**vars(task), "notes": notes})


def _build(spec: PathfinderFilesSpec, folder: Path, builder: Builder) -> dict[str, Any]:
    """Decode every image that the metadata name, drop repeated ones and write the splits."""
    rows, wrong = _rows(spec, folder)
    pixels = builder.empty("all", (max(len(rows), 1), spec.size, spec.size), np.uint8)
    labels = np.array([label for _, _, label in rows], dtype=np.uint8)
    fresh, marks = np.zeros(len(rows), dtype=bool), set()
    for i, (place, file, _) in enumerate(rows):
        image = _decode(file, spec.size)
        if isinstance(image, str):
            wrong.append(f"{place}: {file}: {image}")
            if len(wrong) >= MOST:
                break
            continue
        mark = blake2b(image.tobytes(), digest_size=16).digest()
        pixels[i], fresh[i] = image, mark not in marks
        marks.add(mark)
        if i % 1000 == 0:
            builder.report(i, len(rows))
    if wrong:
        raise BadInput("\n".join(wrong[:MOST]) + "\nmend the files, or name images to leave out in task.skip")
    keep = np.flatnonzero(fresh)
    tenth = len(keep) // 10
    if not tenth:
        raise BadInput(f"{folder}: {len(keep)} different images are too few for splits of 80, 10 and 10 %")
    sizes = {"train": len(keep) - 2 * tenth, "val": tenth, "test": tenth}
    for name, chosen in stratified_split(labels[keep], sizes, spec.split_seed, len(keep)).items():
        images = builder.empty(f"{name}_images", (len(chosen), spec.size, spec.size), np.uint8)
        for first in range(0, len(chosen), _STEP):  # not all at once: 128 pixels a side are 3 GB
            images[first : first + _STEP] = pixels[keep[chosen[first : first + _STEP]]]
        builder.save(f"{name}_labels", labels[keep[chosen]])
        builder.save(f"{name}_index", keep[chosen])
    builder.drop("all")
    return {"repeated": len(rows) - len(keep)}


def _rows(spec: PathfinderFilesSpec, folder: Path) -> tuple[list[tuple[str, Path, int]], list[str]]:
    """(place, image file, label) of every line of the metadata, and what is wrong with other lines."""
    rows: list[tuple[str, Path, int]] = []
    wrong: list[str] = []
    skip = set(spec.skip)
    for place, line in _lines(folder, wrong):
        parts = line.split()
        if len(parts) < 4 or parts[3] not in ("0", "1"):
            wrong.append(f"{place}: {line[:60]!r} is not `folder file index label ...` with label 0 or 1")
        elif _outside(f"{parts[0]}/{parts[1]}"):
            wrong.append(f"{place}: {parts[0]}/{parts[1]} leads out of {folder}")
        elif f"{parts[0]}/{parts[1]}" in skip:
            skip.discard(f"{parts[0]}/{parts[1]}")
        else:
            rows.append((place, folder / parts[0] / parts[1], int(parts[3])))
        if len(wrong) >= MOST:
            break
    if skip and len(wrong) < MOST:
        wrong.append(f"task.skip: {sorted(skip)[0]!r} is in no metadata line of {folder}")
    return rows, wrong


def _lines(folder: Path, wrong: list[str]) -> Iterator[tuple[str, str]]:
    """(file:row, line) of the metadata files, in the order of their numbers."""

    def order(path: Path) -> tuple[int, str]:
        return (int(path.stem) if path.stem.isdecimal() else -1, path.name)

    for file in sorted((p for p in (folder / "metadata").iterdir() if p.is_file()), key=order):
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            wrong.append(f"{file}: is no text; the archive's metadata are text files, whatever their ending")
            continue
        for row, line in enumerate(text.splitlines()):
            if line.strip():
                yield f"{file}:{row + 1}", line


def _outside(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name


def _decode(file: Path, size: int) -> np.ndarray | str:
    """(size, size) uint8, or what is wrong. The size is read from the header, before a pixel is decoded."""
    from PIL import Image

    try:
        with Image.open(file, formats=("PNG",)) as image:
            if image.size != (size, size):
                return f"is {image.size[0]} x {image.size[1]} pixels, not {size} x {size}"
            if image.mode != "L":
                return f"has mode {image.mode}, not 8-bit grey"
            return np.asarray(image)
    except FileNotFoundError:
        return "is missing"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return f"cannot be read as PNG ({error})"
