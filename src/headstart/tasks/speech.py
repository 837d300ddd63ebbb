"""Spoken words as raw samples: Speech Commands, the free spoken digits, or recordings of your own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.archives import absent, members
from headstart.data.copies import groups
from headstart.data.prepared import Builder, Writer, prepared, split_arrays
from headstart.data.sequences import moments
from headstart.data.sounds import at_rate, read_wav, to_levels
from headstart.data.splits import copies_note, drawn
from headstart.data.text import archives_or_files
from headstart.errors import BadInput, Mistakes
from headstart.sequence import Signature
from headstart.tasks.build import prepared_task, size_note, write_split
from headstart.tasks.task import SPLITS, Outline, Task, TaskSpec
from headstart.text import in_order

SPEECH_FOLDERS = {
    "commands": ("speech_commands", "speech_commands_v0.02", "SpeechCommands/speech_commands_v0.02"),
    "digits": ("fsdd", "fsdd/recordings", "free-spoken-digit-dataset/recordings"),
    "folders": ("sounds",),
}
SPEECH_LAYOUTS = {
    "commands": "folders <word>/*.wav with validation_list.txt and testing_list.txt, or a tar archive of them,",
    "digits": "<digit>_<speaker>_<take>.wav, or a tar archive of such files,",
    "folders": "folders <label>/*.wav, or a tar archive of them,",
}
SPEECH_ORIGINS = {
    "commands": "Speech Commands (Warden 2018) is at http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
    "digits": "the Free Spoken Digit Dataset is at https://github.com/Jakobovski/free-spoken-digit-dataset",
    "folders": "there is no download for it, these are recordings of your own (https://en.wikipedia.org/wiki/WAV)",
}
SPEECH_RATES: dict[str, int | None] = {"commands": 16_000, "digits": 8_000, "folders": None}
"""Samples per second; None: those of the first file."""
SPLIT_LISTS = {"validation_list.txt": "val", "testing_list.txt": "test"}
COMMANDS_SIZES = {"train": 84_843, "val": 9_981, "test": 11_005}
"""Recordings of Speech Commands 0.02."""
TRAIN_DIGITS = 2_700
"""Spoken digits that are not test takes."""
TAKES = 5
"""The first takes of each speaker and digit are the official test split of the spoken digits."""

_CLASSED = re.compile(r"(?:^|/)([^/_.][^/]*/[^/]+\.wav)$", re.I)
_DIGIT = re.compile(r"(?:^|/)((\d)_(?:[^/]+)_(\d{1,6})\.wav)$", re.I)
_LIST = re.compile(r"(?:^|/)(validation_list\.txt|testing_list\.txt)$")


class SpeechSpec(TaskSpec):
    """Recordings with a label, as raw samples standardised with the mean and deviation of the train samples.

    One example of Speech Commands is 16,000 samples (one second) that begin `0.003 0.011 -0.005 ...`, label `yes`.

    Source: Warden 2018; Jackson et al. 2016 (digits).
    """

    kind: Literal["speech"] = "speech"
    source: Literal["commands", "digits", "folders"] = "commands"
    """`commands`, Speech Commands 0.02: 35 words at 16 kHz; `validation_list.txt` and `testing_list.txt` name val and
    test. `_background_noise_` is not a word and is not read. `digits`, the free spoken digits:
    `{digit}_{speaker}_{take}.wav` at 8 kHz; takes 0 to 4 are the official test split, and `val_share` of the rest is
    held out. `folders`, your own: `sounds/<label>/*.wav` (a name that begins with _ or . is not a label), with the two
    lists where they are there, else drawn."""
    length: int = Field(default=16_000, ge=1, le=2**24)
    """Samples of an example; longer recordings lose their rest."""
    pad: bool = True
    """Shorter recordings are filled with silence up to `length`, as in the papers; else they stay shorter."""
    resample: int | None = Field(default=None, ge=1_000, le=192_000)
    """Samples per second that every recording is brought to, several channels mixed into one; left out refuses
    recordings of another rate, and those of several channels."""
    val_share: float = Field(default=0.1, gt=0, lt=1)
    """Shares that are held out by `split_seed`, each label in proportion, where no file names the split; of recordings
    that occur twice all copies stay in train."""
    test_share: float = Field(default=0.1, gt=0, lt=1)
    """Shares that are held out by `split_seed`, each label in proportion, where no file names the split; of recordings
    that occur twice all copies stay in train."""

    shows_not: ClassVar[str] = (
        "short clean words: this says nothing of running speech or of speakers and rooms that are not in train."
    )
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"

    def outline(self) -> Outline | None:
        """The 105,829 recordings of Speech Commands 0.02, of one second each; 3,000 digits of some 3,400 samples."""
        if self.source == "folders":
            return None
        commands = self.source == "commands"
        classes, usual = (35, 16_000) if commands else (10, 3_400)
        positions = self.length if self.pad and not commands else min(self.length, usual)
        val = COMMANDS_SIZES["val"] if commands else round(TRAIN_DIGITS * self.val_share)
        train, test = (COMMANDS_SIZES["train"], COMMANDS_SIZES["test"]) if commands else (TRAIN_DIGITS - val, 300)
        return Outline(Signature("floats", 1, positions, positions, "class", classes), train, val, test, positions)

    def files(self, data: Path) -> tuple[Path, ...]:
        return self._find(data)[1]

    def load(self, data: Path) -> Task:
        root, files = self._find(data)
        settings = self.model_dump(include={"source", "length", "pad", "resample", "val_share", "test_share"})
        document = {"reader": self.reader, "files": stamps(files), "seed": self.split_seed, **settings}
        ready = prepared(f"speech-{self.source}", document, lambda builder: self._build(builder, root))
        mean, deviation = ready.facts["mean"], ready.facts["deviation"]
        return prepared_task(ready, "floats", width=1, scale=1 / deviation, shift=-mean / deviation)

    def _find(self, data: Path) -> tuple[Path, tuple[Path, ...]]:
        """Where the recordings are read from, and all files."""
        for folder in SPEECH_FOLDERS[self.source]:
            files = archives_or_files(data / folder, self._pattern())
            if files is not None:
                return files
        way = ", or take another task.source"
        raise absent(
            self.kind, data, SPEECH_FOLDERS[self.source], SPEECH_LAYOUTS[self.source], SPEECH_ORIGINS[self.source], way
        )

    def _pattern(self) -> re.Pattern[str]:
        return _DIGIT if self.source == "digits" else re.compile(f"{_CLASSED.pattern}|{_LIST.pattern}", re.I)

    def _build(self, builder: Builder, root: Path) -> dict[str, Any]:
        """Write each split as 16-bit levels (S,), in the order of the names. Raises: BadInput with all mistakes."""
        mistakes = Mistakes()
        recordings = self._read(builder, root, mistakes)
        order = sorted(range(len(recordings.keys)), key=lambda i: _natural(recordings.keys[i]))
        keys = [recordings.keys[i] for i in order]
        labels = [key.partition("/")[0] if "/" in key else key[0] for key in keys]
        classes = _classes(root, labels, mistakes)
        target = np.array([classes.index(label) for label in labels], dtype=np.int64)
        read = builder.written().split("all")
        clips = [read.values[read.offsets[i] : read.offsets[i + 1]] for i in order]
        group = groups(np.ascontiguousarray(clip) for clip in clips)
        official = self._official(recordings, keys, root, mistakes)
        free = np.setdiff1d(np.arange(len(keys)), np.concatenate([np.zeros(0, dtype=np.int64), *official.values()]))
        shares = {"test": self.test_share, "val": self.val_share}
        drawn_shares = {split: share for split, share in shares.items() if split not in official}
        rows = {**drawn(target, group, free, drawn_shares, self.split_seed), **official}
        for value in sorted(set(range(len(classes))) - set(target[rows["train"]].tolist())):
            mistakes.add(f"{root}, {classes[value]}", "the label has no train recording; give some, or leave it out")
        mistakes.check()
        mean, deviation = moments(_counts(clips, rows["train"]))  # of levels counted from 0
        if deviation == 0:
            raise BadInput(f"{root}: all train samples are equal; give recordings that can be heard")
        longest = self.length if self.pad else 0
        for name in SPLITS:
            some = (np.pad(clips[i], (0, max(0, longest - len(clips[i])))) for i in rows[name])
            write_split(builder, name, some, target[rows[name]], rows[name], np.int16)
        for array in split_arrays("all", read):
            builder.drop(array)
        return {
            "labels": classes,
            "mean": mean - 2**15,
            "deviation": deviation,
            "notes": [*self._notes(recordings, rows), *copies_note(group, rows, "recordings")],
        }

    def _read(self, builder: Builder, root: Path, mistakes: Mistakes) -> _Recordings:
        """Every recording, cut, one after another as `all_*`, in the order in which they come."""
        out, pattern = _Recordings(self.resample or SPEECH_RATES[self.source]), self._pattern()
        writer, total = Writer(builder, "all", np.int16), 0
        for name, content in members(root, lambda n: pattern.search(n) is not None, mistakes):
            where = str(root / name) if root.is_dir() else f"{root}, member {name}"
            if match := _LIST.search(name):
                rows = enumerate(content.decode(errors="replace").splitlines(), 1)
                out.lists[SPLIT_LISTS[match[1]]] = [
                    (f"{where}, row {i}", row.strip()) for i, row in rows if row.strip()
                ]
                continue
            match, clip = pattern.search(name), self._clip(content, where, out, mistakes)
            total += 1
            if clip is not None and match is not None:
                out.keys.append(match[1])
                out.cut += len(clip) > self.length
                writer.add(clip[: self.length])
            if total % 500 == 0:
                builder.report(total, max(total, sum(COMMANDS_SIZES.values()) if self.source == "commands" else 3000))
        for key, count in Counter(out.keys).items():
            if count > 1:
                mistakes.add(str(root), f"{key} is there {count} times; leave the one that is meant")
        if out.keys:
            writer.finish(np.zeros(len(out.keys)), np.zeros(len(out.keys)))
        return out

    def _clip(self, content: bytes, where: str, recordings: _Recordings, mistakes: Mistakes) -> np.ndarray | None:
        """One recording as levels (L,) int16 at the rate that all have."""
        sound = read_wav(content, where, mistakes)
        if sound is None:
            return None
        rate, samples = sound
        recordings.rate = recordings.rate or rate
        recordings.rates.add(rate)
        if self.resample is None and (rate != recordings.rate or samples.shape[1] != 1):
            mistakes.add(
                where,
                f"has {rate} samples per second in {samples.shape[1]} channels, not {recordings.rate} in one; "
                f"set task.resample = {recordings.rate} to have every recording mixed and resampled",
            )
            return None
        return to_levels(at_rate(samples, rate, recordings.rate))

    def _official(
        self, recordings: _Recordings, keys: Sequence[str], root: Path, mistakes: Mistakes
    ) -> dict[str, np.ndarray]:
        """Rows (places in `keys`) of the splits that the takes or the lists name."""
        if self.source == "digits":
            test = np.flatnonzero([int(m[3]) < TAKES for key in keys if (m := _DIGIT.search(key))])
            if not len(test) or len(test) == len(keys):
                mistakes.add(
                    str(root), f"needs takes below {TAKES}, which are test, and others; give the whole data set"
                )
            mistakes.check()
            return {"test": test}
        row_of, rows = {key: i for i, key in enumerate(keys)}, {}
        for file, split in SPLIT_LISTS.items():
            names = recordings.lists.get(split, [])
            for where, key in names:
                if key not in row_of:
                    mistakes.add(where, f"{key[:80]!r} is not there; give the whole data set")
            rows[split] = np.unique(np.array([row_of[key] for _, key in names if key in row_of], dtype=np.int64))
            if not len(rows[split]) and (self.source == "commands" or split in recordings.lists):
                mistakes.add(f"{root}, {file}", "is not there, or names no recording; give the file of the data set")
        for i in np.intersect1d(rows["val"], rows["test"]):
            mistakes.add(str(root), f"{keys[i]} stands in both lists; leave it in one")
        mistakes.check()
        return {split: chosen for split, chosen in rows.items() if len(chosen)}

    def _notes(self, recordings: _Recordings, rows: dict[str, np.ndarray]) -> list[str]:
        sizes = {name: len(rows[name]) for name in SPLITS}
        official = COMMANDS_SIZES if self.source == "commands" else sizes
        notes = size_note("Speech Commands 0.02", sizes, official, "recordings")
        if recordings.rates - {recordings.rate}:
            came = ", ".join(str(rate) for rate in sorted(recordings.rates))
            notes.append(f"resampled to {recordings.rate} samples per second (the files have {came})")
        if recordings.cut:
            notes.append(f"{recordings.cut} recordings are longer than {self.length} samples and lose their rest")
        return notes


@dataclass
class _Recordings:
    """What was read: the key of each recording (`label/file` or the file), the lists of splits, what was met."""

    rate: int | None
    keys: list[str] = field(default_factory=list)
    lists: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    cut: int = 0
    rates: set[int] = field(default_factory=set)


def _classes(root: Path, labels: Sequence[str], mistakes: Mistakes) -> list[str]:
    """The labels in order. Raises: BadInput with all mistakes, a folder without recordings among them."""
    classes = in_order(set(labels))
    if not labels:
        mistakes.add(str(root), "holds no recording that can be read")
    if len(classes) == 1:
        mistakes.add(str(root), f"every recording has label {classes[0]!r}; give two labels or more")
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.is_dir() and folder.name[0] not in "_." and not any(folder.rglob("*.[wW][aA][vV]")):
            mistakes.add(str(folder), "the label has no recording; give some, or remove the folder")
    mistakes.check()
    return classes


def _counts(clips: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """How often each of the 65,536 levels occurs in these clips."""
    counts = np.zeros(2**16, dtype=np.int64)
    for first in range(0, len(rows), 100):
        some = np.concatenate([clips[i] for i in rows[first : first + 100]]).astype(np.int64)
        counts += np.bincount(some + 2**15, minlength=2**16)
    return counts


def _natural(key: str) -> list[tuple[int, str]]:
    """Orders `take_2` before `take_10`."""
    parts = filter(None, re.split(r"(\d{1,18})", key))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
