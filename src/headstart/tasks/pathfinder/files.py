"""Pathfinder as Long Range Arena released it: folders of PNG images with text metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np

from headstart.data.archives import stamps
from headstart.data.prepared import Builder, prepared
from headstart.data.text import lines
from headstart.errors import BadInput, Mistakes
from headstart.tasks.images import decode
from headstart.tasks.pathfinder import grey_task
from headstart.tasks.task import LONG_RANGE_ARENA, SPLITS, Task, TaskSpec, stratified_split

FOLDERS = {14: "curv_contour_length_14", 9: "curv_contour_length_9", 6: "curv_baseline"}
"""The archive's names of its contour lengths."""
ORIGIN = (
    "Long Range Arena's archive (lra_release, https://github.com/google-research/long-range-arena) holds "
    "it; name the folder above it with --data or HEADSTART_DATA; the task `pathfinder` generates the like "
    "without a download"
)
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

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput with up to 20 mistakes, each with file and row."""
        document = {
            "reader": self.version,
            "size": self.size,
            "skip": list(self.skip),
            "seed": self.split_seed,
            "files": stamps(self.files(data)),
        }
        ready = prepared(data, "pathfinder-files", document, lambda builder: _build(self, self.folder(data), builder))
        task = grey_task(self.size, ready, {name: np.asarray(ready.arrays[f"{name}_index"]) for name in SPLITS})
        repeated = ready.facts["repeated"]
        return replace(task, notes=(f"{repeated} images that repeat an earlier one are left out",) * (repeated > 0))


def _build(spec: PathfinderFilesSpec, folder: Path, builder: Builder) -> dict[str, Any]:
    """Decode every image that the metadata name, drop repeated ones and write the splits."""
    mistakes = Mistakes()
    rows = list(_rows(spec, folder, mistakes))
    pixels = builder.empty("all", (max(len(rows), 1), spec.size, spec.size), np.uint8)
    labels = np.array([label for _, _, label in rows], dtype=np.uint8)
    fresh, marks = np.zeros(len(rows), dtype=bool), set()
    for i, (place, file, _) in enumerate(rows):
        try:
            pixels[i] = decode(file.read_bytes(), spec.size, ("PNG",), "L")[0]
        except (OSError, ValueError) as error:
            problem = error if isinstance(error, ValueError) else f"is missing or cannot be read ({error.strerror})"
            mistakes.add(place, f"{file}: {problem}; replace the image, or leave it out with task.skip")
            continue
        mark = blake2b(pixels[i], digest_size=16).digest()
        fresh[i] = mark not in marks
        marks.add(mark)
        if i % 1000 == 0:
            builder.report(i, len(rows))
    mistakes.check()
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


def _rows(spec: PathfinderFilesSpec, folder: Path, mistakes: Mistakes) -> Iterator[tuple[str, Path, int]]:
    """(place, image file, label) of every line of the metadata files, in the order of their numbers."""

    def order(path: Path) -> tuple[int, str]:
        return (int(path.stem) if path.stem.isdecimal() else -1, path.name)

    skip = set(spec.skip)
    for file in sorted((p for p in (folder / "metadata").iterdir() if p.is_file()), key=order):
        for place, line in lines(file, mistakes):
            parts = line.split()
            name = "/".join(parts[:2])
            if not parts:
                continue
            if len(parts) < 4 or parts[3] not in ("0", "1"):
                mistakes.add(place, f"{line[:60]!r} is not `folder file index label ...` with label 0 or 1")
            elif PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
                mistakes.add(place, f"{name} leads out of {folder}")
            elif name in skip:
                skip.discard(name)
            else:
                yield place, folder / name, int(parts[3])
    for name in sorted(skip):
        mistakes.add("task.skip", f"{name!r} is in no metadata line of {folder}")
