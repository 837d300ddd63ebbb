"""Pathfinder, PathX and PathX-256: do two discs lie on one dashed contour? Generated, or Long Range Arena's images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headstart.atomic import stamps
from headstart.data.archives import absent
from headstart.data.prepared import Builder, Prepared, prepared
from headstart.data.splits import stratified_split
from headstart.data.text import lines
from headstart.errors import BadInput, Mistakes
from headstart.sequence import Examples, Signature
from headstart.tasks.build import LONG_RANGE_ARENA, GeneratedSpec, in_threads
from headstart.tasks.images import decode, pixel_examples, pixel_task
from headstart.tasks.pathfinder.generate import images
from headstart.tasks.pathfinder.geometry import recipe, tables
from headstart.tasks.task import SPLITS, Baseline, Outline, Task, TaskSpec, each_split, rule

CONTOUR_LABELS = ("two contours", "one contour")

CONTOUR_FOLDERS = {14: "curv_contour_length_14", 9: "curv_contour_length_9", 6: "curv_baseline"}
"""Names of the contour lengths in Long Range Arena's archive."""
PATHFINDER_ORIGIN = (
    "Long Range Arena's archive (lra_release, https://github.com/google-research/long-range-arena) holds it, and the "
    "task `pathfinder` generates the like without a download"
)
ARRAY_MAGIC = b"\x93NUMPY"
"""How a file of numpy begins."""
_STEP = 4096
"""Images copied at a time."""
_TOGETHER = {16: 4096, 32: 2048, 64: 1024, 128: 256, 256: 64}
"""Images of each size that are grown together: more are slower, as their maps leave the core's cache."""


class PathfinderSpec(GeneratedSpec):
    """Grey images, row by row as scalar positions: do two discs end one dashed contour, or two? 2 classes.

    Each image holds two long contours of paddles, short distractors, and two discs of brightness 1. Inputs
    are -1 (black) to 1; the first rows of most images are black, `-1.00 -1.00 -1.00 ...`, label `one contour`
    or `two contours`. The label, a fair coin, decides nothing but which contour's end the second disc marks.

    Source: Linsley et al. 2018; sizes and settings: Tay et al. 2020. The images follow their rules and are none of
    theirs; where theirs let a contour run under a disc, ours keep off all four ends.
    """

    kind: Literal["pathfinder"] = "pathfinder"
    size: Literal[16, 32, 64, 128, 256] = 32
    """Pixels per side; 32 and 64 are Pathfinder, 128 is PathX, 256 is PathX-256. 16 is none of Long Range Arena's but a
    small size of our own, for a quick look."""
    contour_length: Literal[14, 9, 6] = 14
    """Paddles of each long contour; 14 is the hard set that the papers use. Size 16 has room for 6 only."""
    train: int = Field(default=160_000, ge=1, le=1_000_000)
    """How many units (sequences, or pairs). Unit i of a split is the same whatever these numbers are, but where a task
    draws its splits from one another's rest (`listops`): compare numbers of train examples there with `fraction` or
    `labelled`, which leave val and test as they are."""
    val: int = Field(default=20_000, ge=1, le=1_000_000)
    """How many units (sequences, or pairs). Unit i of a split is the same whatever these numbers are, but where a task
    draws its splits from one another's rest (`listops`): compare numbers of train examples there with `fraction` or
    `labelled`, which leave val and test as they are."""
    test: int = Field(default=20_000, ge=1, le=1_000_000)
    """How many units (sequences, or pairs). Unit i of a split is the same whatever these numbers are, but where a task
    draws its splits from one another's rest (`listops`): compare numbers of train examples there with `fraction` or
    `labelled`, which leave val and test as they are."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = (*TaskSpec.baselines, rule("distance of the discs"))
    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "levels"

    @model_validator(mode="after")
    def _room(self) -> PathfinderSpec:
        if self.size == 16 and self.contour_length != 6:
            raise ValueError(
                f"contour_length: {self.contour_length} paddles have no room at size 16; "
                "set contour_length = 6, or a size of at least 32"
            )
        return self

    def outline(self) -> Outline | None:
        """As many images as the spec says: nothing is generated to know that."""
        positions = self.size**2
        signature = Signature("floats", 1, positions, positions, "class", 2, levels=256)
        return Outline(signature, self.train, self.val, self.test, positions)

    def prepare(self, data: Path, workers: int = 1) -> None:
        self._prepared(workers)

    def load(self, data: Path) -> Task:
        ready = self._prepared(workers=1)
        numbers = {name: first + np.arange(getattr(self, name)) for name, first in self.firsts.items()}
        task = grey_task(self.size, ready, numbers)
        note = "16 x 16 pixels are a size of our own, none of Long Range Arena's"
        baselines = tuple(Baseline(**line) for line in ready.facts["baselines"])
        return replace(task, baselines=baselines, notes=(note,) if self.size == 16 else ())

    def _prepared(self, workers: int) -> Prepared:
        document = {
            "generator": self.version,
            "size": self.size,
            "contour_length": self.contour_length,
            "sizes": {name: getattr(self, name) for name in SPLITS},
            "seed": self.data_seed,
        }
        return prepared("pathfinder", document, lambda builder: _build(self, builder, workers))


def grey_task(size: int, ready: Prepared, index: Mapping[str, np.ndarray]) -> Task:
    """The task of prepared images (n, size, size) and labels of each split; `index` are the examples' numbers."""

    def examples(name: str) -> Examples:
        pixels, labels = (np.asarray(ready.arrays[f"{name}_{part}"]) for part in ("images", "labels"))
        return pixel_examples(pixels.reshape(len(pixels), -1, 1), labels, index[name], scale=1 / 127.5, shift=-1.0)

    task = pixel_task(each_split(examples), CONTOUR_LABELS, size, levels=256, mean=127.5, deviation=127.5)
    return replace(task, fingerprint=ready.fingerprint)


def _build(spec: PathfinderSpec, builder: Builder, workers: int) -> dict[str, Any]:
    """Generate every split into the builder's folder; refuse an image that stands in two splits."""
    sizes = {name: getattr(spec, name) for name in SPLITS}
    geometry, step = tables(recipe(spec.size, spec.contour_length)), _TOGETHER[spec.size]
    done, marks, near = 0, {}, {}
    for name, count in sizes.items():
        stream = f"pathfinder/{spec.size}/{spec.contour_length}/{name}"
        pixels = builder.empty(f"{name}_images", (count, spec.size, spec.size), np.uint8)
        labels = builder.empty(f"{name}_labels", (count,), np.uint8)
        distance, own_marks, first = np.empty(count), set(), 0

        def grow(first: int, stream: str = stream, count: int = count) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return images(geometry, spec.data_seed, stream, first, min(step, count - first))

        for some, label, discs in in_threads(grow, range(0, count, step), workers):
            last = first + len(some)
            pixels[first:last], labels[first:last] = some, label
            distance[first:last] = np.hypot(*(discs[:, 0] - discs[:, 1]).T)
            own_marks |= {blake2b(image, digest_size=16).digest() for image in some}
            first, done = last, done + len(some)
            builder.report(done, sum(sizes.values()))
        marks[name], near[name] = own_marks, (distance, np.array(labels))
    for earlier, later in combinations(SPLITS, 2):
        if marks[earlier] & marks[later]:
            raise BadInput(
                f"task.data_seed: {spec.data_seed} gives one image to both {earlier} and {later}; take another seed"
            )
    return {"baselines": [_by_distance(near)]}


def _by_distance(near: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """What the distance of the discs alone says: the commoner train label at each whole number of pixels."""
    bins = {name: np.rint(distance).astype(np.int64) for name, (distance, _) in near.items()}
    most = max(int(b.max()) for b in bins.values()) + 1
    ones = np.bincount(bins["train"], near["train"][1], minlength=most)
    answer = 2 * ones > np.bincount(bins["train"], minlength=most)
    scores = {name: float((answer[bins[name]] == near[name][1]).mean()) for name in ("val", "test")}
    return {"name": "distance of the discs", **scores}


class PathfinderFilesSpec(TaskSpec):
    """Long Range Arena's own Pathfinder images, where someone has them: grey, row by row as scalar positions.

    Read from `pathfinder<size>/<folder>/` in the data folder (or in `lra_release/` or `lra/` there), where
    `metadata/*` are text files, whatever their ending, of lines `folder file index label ...`, or arrays of numpy that
    hold these texts. Inputs are -1
    to 1, labels as in `pathfinder`, 200,000 images per folder. Split 80/10/10, stratified, by `split_seed`;
    of identical images the first is kept, and the number of the others is said. Of the archive's
    `pathfinder128` two copies are about, one of them suspect.

    Source: Tay et al. 2020.
    """

    kind: Literal["pathfinder_files"] = "pathfinder_files"
    size: Literal[32, 64, 128, 256] = 32
    """Side of the pictures, in pixels."""
    contour_length: Literal[14, 9, 6] = 14
    """Dashes of the contour."""
    skip: tuple[str, ...] = ()
    """Images to leave out, as `imgs/0/sample_172.png` (that one is empty in the archive's curv_baseline)."""

    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    mask_rate: ClassVar[float] = 0.5
    loss: ClassVar[str] = "levels"

    def folder(self, data: Path) -> Path:
        """Where the images are. Raises: BadInput naming the folders looked at."""
        inner = Path(f"pathfinder{self.size}") / CONTOUR_FOLDERS[self.contour_length]
        outers = [folder for folder in (".", "lra_release", "lra") if (data / folder / inner / "metadata").is_dir()]
        if not outers:
            raise absent(self.kind, data, (".", "lra_release", "lra"), f"{inner}/metadata", PATHFINDER_ORIGIN)
        return data / outers[0] / inner

    def files(self, data: Path) -> tuple[Path, ...]:
        """The metadata files, and the folders of the images (which change when an image comes or goes)."""
        folder = self.folder(data)
        metadata = sorted(p for p in (folder / "metadata").iterdir() if p.is_file())
        if not metadata:
            raise BadInput(f"{folder / 'metadata'}: is empty; {PATHFINDER_ORIGIN}")
        return (*metadata, *sorted(p for p in (folder / "imgs").glob("*") if p.is_dir()))

    def load(self, data: Path) -> Task:
        files, folder = stamps(self.files(data)), self.folder(data)
        document = {"reader": self.version, "size": self.size, "skip": list(self.skip), "seed": self.split_seed}
        build = partial(_write_files, self, folder)
        ready = prepared("pathfinder-files", {**document, "files": files}, build)
        task = grey_task(self.size, ready, {name: np.asarray(ready.arrays[f"{name}_index"]) for name in SPLITS})
        repeated = ready.facts["repeated"]
        return replace(task, notes=(f"{repeated} images that repeat an earlier one are left out",) * (repeated > 0))


def _write_files(spec: PathfinderFilesSpec, folder: Path, builder: Builder) -> dict[str, Any]:
    """Decode every image that the metadata name, drop repeated ones and write the splits."""
    mistakes = Mistakes()
    rows = list(_rows(spec, folder, mistakes))
    pixels = builder.empty("all", (max(len(rows), 1), spec.size, spec.size), np.uint8)
    labels = np.array([label for _, _, label in rows], dtype=np.uint8)
    fresh, marks = np.zeros(len(rows), dtype=bool), set()
    for i, (where, file, _) in enumerate(rows):
        try:
            pixels[i] = decode(file.read_bytes(), spec.size, ("PNG",), "L")[0]
        except (OSError, ValueError) as error:
            problem = error if isinstance(error, ValueError) else f"is missing or cannot be read ({error.strerror})"
            mistakes.add(where, f"{file}: {problem}; replace the image, or leave it out with task.skip")
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
    """(where, image file, label) of every line of the metadata files, in the order of their numbers."""

    def order(path: Path) -> tuple[int, str]:
        return (int(path.stem) if path.stem.isdecimal() else -1, path.name)

    skip = set(spec.skip)
    for file in sorted((p for p in (folder / "metadata").iterdir() if p.is_file()), key=order):
        for where, parts in _parts(file, mistakes):
            name = "/".join(parts[:2])
            if not parts:
                continue
            if len(parts) < 4 or parts[3] not in ("0", "1"):
                mistakes.add(where, f"{' '.join(parts)[:60]!r} is not `folder file index label ...` with label 0 or 1")
            elif PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
                mistakes.add(where, f"{name} leads out of {folder}")
            elif name in skip:
                skip.discard(name)
            else:
                yield where, folder / name, int(parts[3])
    for name in sorted(skip):
        mistakes.add("task.skip", f"{name!r} is in no metadata line of {folder}")


def _parts(file: Path, mistakes: Mistakes) -> Iterator[tuple[str, list[str]]]:
    """(where, its parts) of each line: of a text, or of an array of texts (n, parts) as Linsley's generator saves it.

    Raises: BadInput for an array of another form.
    """
    with file.open("rb") as opened:
        array = opened.read(len(ARRAY_MAGIC)) == ARRAY_MAGIC
    if not array:
        yield from ((where, line.split()) for where, line in lines(file, mistakes))
        return
    try:
        rows = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{file}: cannot be read as an array of texts ({error}); save it as text, a line a row"
        ) from None
    if rows.ndim != 2 or rows.dtype.kind != "U":
        raise BadInput(f"{file}: holds {rows.dtype} of the shape {rows.shape}, not a text (n, parts) for each image")
    yield from ((f"{file}, row {number}", row.tolist()) for number, row in enumerate(rows, 1))
