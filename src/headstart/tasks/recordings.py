"""Labelled recordings from folders or archives of .wav files, with the official splits where there are any."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.archives import members
from headstart.data.named_files import archives_or_files
from headstart.data.prepared import Builder, Writer
from headstart.data.problems import Mistakes
from headstart.data.rows import in_order
from headstart.data.splits import copies_note, drawn, groups
from headstart.data.standardise import moments
from headstart.data.wav import at_rate, read_wav, to_levels
from headstart.errors import BadInput
from headstart.tasks.task import SPLITS

FOLDERS = {
    "commands": ("speech_commands", "speech_commands_v0.02", "SpeechCommands/speech_commands_v0.02"),
    "digits": ("fsdd", "fsdd/recordings", "free-spoken-digit-dataset/recordings"),
    "folders": ("sounds",),
}
LOOKS = {
    "commands": "folders <word>/*.wav with validation_list.txt and testing_list.txt, or a tar archive of them,",
    "digits": "<digit>_<speaker>_<take>.wav, or a tar archive of such files,",
    "folders": "folders <label>/*.wav, or a tar archive of them,",
}
ORIGINS = {
    "commands": "Speech Commands (Warden 2018) is at http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
    "digits": "the Free Spoken Digit Dataset is at https://github.com/Jakobovski/free-spoken-digit-dataset",
    "folders": "there is no download for it, these are recordings of your own (https://en.wikipedia.org/wiki/WAV)",
}
RATES: dict[str, int | None] = {"commands": 16_000, "digits": 8_000, "folders": None}
"""Samples per second; None: those of the first file."""
LISTS = {"validation_list.txt": "val", "testing_list.txt": "test"}
OFFICIAL = {"train": 84_843, "val": 9_981, "test": 11_005}
"""Recordings of Speech Commands 0.02."""
TAKES = 5
"""The first takes of each speaker and digit are the official test split of the spoken digits."""

_CLASSED = re.compile(r"(?:^|/)([^/_.][^/]*/[^/]+\.wav)$", re.I)
_DIGIT = re.compile(r"(?:^|/)((\d)_(?:[^/]+)_(\d{1,6})\.wav)$", re.I)
_LIST = re.compile(r"(?:^|/)(validation_list\.txt|testing_list\.txt)$")


@dataclass(frozen=True)
class Asked:
    """What recordings are read and how: fields of the spec that change the arrays."""

    source: str
    length: int
    pad: bool
    resample: int | None
    val_share: float
    test_share: float
    seed: int


@dataclass
class _Found:
    """What was read: for each recording its key (`label/file` or the file), its place, and its content's number."""

    keys: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    lists: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    rate: int | None = None
    cut: int = 0
    rates: set[int] = field(default_factory=set)


def find_recordings(data: Path, task: str, source: str) -> tuple[Path, tuple[Path, ...]]:
    """Where the recordings are read from, and all files. Raises: BadInput naming what is missing and its origin."""
    for folder in FOLDERS[source]:
        found = archives_or_files(data / folder, _pattern(source))
        if found is not None:
            return found
    raise BadInput(
        f"task.kind: {task!r} looks for {LOOKS[source]} in {' or '.join(FOLDERS[source])} of {data}, and "
        f"none is there; {ORIGINS[source]}; name the folder above it with --data or HEADSTART_DATA, or take "
        "another task.source"
    )


def build(builder: Builder, root: Path, asked: Asked) -> dict[str, Any]:
    """Write each split as 16-bit levels (S,), in the order of the names. Facts: what `speech` needs.

    Raises: BadInput with up to 20 mistakes, each with its file.
    """
    mistakes = Mistakes()
    found = _read(builder, root, asked, mistakes)
    labels = [_label(key) for key in found.keys]
    if not found.keys:
        mistakes.add(str(root), "holds no recording that can be read")
    classes = in_order(set(labels))
    _check_labels(root, classes, mistakes)
    mistakes.check()
    order = sorted(range(len(found.keys)), key=lambda i: _natural(found.keys[i]))
    target = np.array([classes.index(labels[i]) for i in order], dtype=np.int64)
    values = np.load(builder.folder / "all_values.npy", mmap_mode="r")
    offsets = np.load(builder.folder / "all_offsets.npy")
    clips = [values[offsets[i] : offsets[i + 1]] for i in order]
    group = groups(np.ascontiguousarray(clip) for clip in clips)
    rows = _split(found, order, target, group, asked, root, mistakes)
    for value in sorted(set(range(len(classes))) - set(target[rows["train"]].tolist())):
        mistakes.add(f"{root}, {classes[value]}", "the label has no train recording; give some, or leave it out")
    mistakes.check()
    counts = _counts(clips, rows["train"])
    mean, deviation = moments(counts)  # of levels counted from 0
    mean -= 2**15
    if deviation == 0:
        raise BadInput(f"{root}: all train samples are equal; give recordings that can be heard")
    lengths = _write(builder, clips, target, rows, asked)
    del values, clips
    for name in ("values", "offsets", "target", "index"):
        builder.drop(f"all_{name}")
    return {
        "labels": classes,
        "mean": mean,
        "deviation": deviation,
        "length": max(lengths),
        "shortest": min(lengths),
        "notes": _notes(found, rows, group, asked),
    }


def _read(builder: Builder, root: Path, asked: Asked, mistakes: Mistakes) -> _Found:
    """Every recording, cut, one after another as `all_*`, in the order in which they come."""
    found, pattern = _Found(rate=asked.resample or RATES[asked.source]), _pattern(asked.source)
    writer, total = Writer(builder, "all", np.int16), 0
    for name, content in members(root, lambda n: pattern.search(n) is not None, mistakes):
        place = str(root / name) if root.is_dir() else f"{root}, member {name}"
        listed = _LIST.search(name)
        if listed is not None:
            found.lists[LISTS[listed[1]]] = [
                (f"{place}, row {i + 1}", line.strip())
                for i, line in enumerate(content.decode(errors="replace").splitlines())
                if line.strip()
            ]
            continue
        match = pattern.search(name)
        clip = _clip(content, place, found, asked, mistakes)
        total += 1
        if clip is not None and match is not None:
            found.keys.append(match[1])
            found.places.append(place)
            found.cut += len(clip) > asked.length
            writer.add(clip[: asked.length])
        if total % 500 == 0:
            builder.report(total, max(total, sum(OFFICIAL.values()) if asked.source == "commands" else 3000))
    for key, count in Counter(found.keys).items():
        if count > 1:
            mistakes.add(str(root), f"{key} is there {count} times; leave the one that is meant")
    if found.keys:
        writer.finish(np.zeros(len(found.keys)), np.zeros(len(found.keys)))
    return found


def _clip(content: bytes, place: str, found: _Found, asked: Asked, mistakes: Mistakes) -> np.ndarray | None:
    """One recording as levels (L,) int16 at the rate that all have."""
    read = read_wav(content, place, mistakes)
    if read is None:
        return None
    rate, samples = read
    found.rate = found.rate or rate
    found.rates.add(rate)
    if asked.resample is None and (rate != found.rate or samples.shape[1] != 1):
        mistakes.add(
            place,
            f"has {rate} samples per second in {samples.shape[1]} channels, not {found.rate} in one; "
            f"set task.resample = {found.rate} to have every recording mixed and resampled",
        )
        return None
    return to_levels(at_rate(samples, rate, found.rate))


def _split(
    found: _Found,
    order: Sequence[int],
    target: np.ndarray,
    group: np.ndarray,
    asked: Asked,
    root: Path,
    mistakes: Mistakes,
) -> dict[str, np.ndarray]:
    """Rows (places in `order`) of each split: by the lists, by the takes, or drawn."""
    keys = [found.keys[i] for i in order]
    chosen = {"test": np.array([], dtype=np.int64), "val": np.array([], dtype=np.int64)}
    if asked.source == "digits":
        chosen["test"] = np.flatnonzero([int(m[3]) < TAKES for key in keys if (m := _DIGIT.search(key))])
        if not len(chosen["test"]) or len(chosen["test"]) == len(keys):
            mistakes.add(str(root), f"needs takes below {TAKES}, which are test, and others; give the whole data set")
    elif asked.source == "commands" or found.lists:
        place_of = {key: i for i, key in enumerate(keys)}
        for file, split in LISTS.items():
            if split in found.lists:
                chosen[split] = _listed(found.lists[split], place_of, mistakes)
            if not len(chosen[split]) and (asked.source == "commands" or split in found.lists):
                mistakes.add(f"{root}, {file}", "is not there, or names no recording; give the file of the data set")
        for i in np.intersect1d(chosen["val"], chosen["test"]):
            mistakes.add(str(root), f"{keys[i]} stands in both lists; leave it in one")
    mistakes.check()
    official = {split: rows for split, rows in chosen.items() if len(rows)}
    free = np.setdiff1d(np.arange(len(keys)), np.concatenate([*official.values(), np.array([], dtype=np.int64)]))
    shares = {"test": asked.test_share, "val": asked.val_share}
    shares = {split: share for split, share in shares.items() if split not in official}
    rows = {**drawn(target, group, free, shares, asked.seed), **official}
    return {split: rows[split] for split in SPLITS}


def _listed(listed: list[tuple[str, str]], place_of: dict[str, int], mistakes: Mistakes) -> np.ndarray:
    for place, key in listed:
        if key not in place_of:
            mistakes.add(place, f"{key[:80]!r} is not there; give the whole data set")
    return np.unique(np.array([place_of[key] for _, key in listed if key in place_of], dtype=np.int64))


def _check_labels(root: Path, classes: list[str], mistakes: Mistakes) -> None:
    if len(classes) == 1:
        mistakes.add(str(root), f"every recording has label {classes[0]!r}; give two labels or more")
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_dir() and folder.name[0] not in "_." and not any(folder.rglob("*.[wW][aA][vV]")):
            mistakes.add(str(folder), "the label has no recording; give some, or remove the folder")


def _counts(clips: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """How often each of the 65,536 levels occurs in these clips."""
    counts = np.zeros(2**16, dtype=np.int64)
    for first in range(0, len(rows), 100):
        some = np.concatenate([clips[i] for i in rows[first : first + 100]]).astype(np.int64)
        counts += np.bincount(some + 2**15, minlength=2**16)
    return counts


def _write(
    builder: Builder, clips: Sequence[np.ndarray], target: np.ndarray, rows: dict[str, np.ndarray], asked: Asked
) -> list[int]:
    """Write the splits; the lengths of all clips as written."""
    lengths = []
    for name in SPLITS:
        writer = Writer(builder, name, np.int16)
        for clip in (clips[i] for i in rows[name]):
            written = np.pad(clip, (0, asked.length - len(clip))) if asked.pad else clip
            lengths.append(len(written))
            writer.add(written)
        writer.finish(target[rows[name]], rows[name])
    return lengths


def _notes(found: _Found, rows: dict[str, np.ndarray], group: np.ndarray, asked: Asked) -> list[str]:
    notes, sizes = [], {name: len(chosen) for name, chosen in rows.items()}
    if asked.source == "commands" and sizes != OFFICIAL:
        given, official = (", ".join(f"{n} {name}" for name, n in counts.items()) for counts in (sizes, OFFICIAL))
        notes.append(f"not the official Speech Commands 0.02: {given} recordings (official: {official})")
    if found.rates - {found.rate}:
        came = ", ".join(str(rate) for rate in sorted(found.rates))
        notes.append(f"resampled to {found.rate} samples per second (the files have {came})")
    if found.cut:
        notes.append(f"{found.cut} recordings are longer than {asked.length} samples and lose their rest")
    return [*notes, *copies_note(group, rows, "recordings")]


def _pattern(source: str) -> re.Pattern[str]:
    if source == "digits":
        return _DIGIT
    return re.compile(f"{_CLASSED.pattern}|{_LIST.pattern}", re.I)


def _label(key: str) -> str:
    return key.partition("/")[0] if "/" in key else key[0]


def _natural(key: str) -> list[tuple[int, str]]:
    """Orders `take_2` before `take_10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _parts(key)]


def _parts(key: str) -> Iterator[str]:
    return (part for part in re.split(r"(\d{1,18})", key) if part)
