"""Spoken words as raw samples: Speech Commands, the free spoken digits, or recordings of your own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.data.archives import stamps
from headstart.data.prepared import Prepared, prepared
from headstart.sequence import Examples, Signature
from headstart.tasks.recordings import Asked, build, find_recordings
from headstart.tasks.task import SPLITS, Task, TaskSpec

_READER = 1
"""Raised when the same files give other arrays."""


class SpeechSpec(TaskSpec):
    """Recordings with a label, as raw samples standardised with the mean and deviation of the train samples.

    One example of Speech Commands is 16,000 samples (one second) that begin `0.003 0.011 -0.005 ...`, label `yes`.

    source: `commands`, Speech Commands 0.02: 35 words at 16 kHz; `validation_list.txt` and `testing_list.txt` name
            val and test. `_background_noise_` is no word and is not read.
        `digits`, the free spoken digits: `{digit}_{speaker}_{take}.wav` at 8 kHz; takes 0 to 4 are the official test
            split, and `val_share` of the rest is held out.
        `folders`, your own: `sounds/<label>/*.wav` (a name that begins with _ or . is no label), with the two lists
            where they are there, else drawn.
    length: samples of an example; longer recordings lose their rest.
    pad: shorter recordings are filled with silence up to `length`, as in the papers; else they stay shorter.
    resample: samples per second that every recording is brought to, several channels mixed into one; None refuses
        recordings of another rate, and those of several channels.
    val_share, test_share: shares that are held out by `split_seed`, each label in proportion, where no file names the
        split; of recordings that occur twice all copies stay in train.
    Source: Warden 2018; Jackson et al. 2016 (digits).
    """

    kind: Literal["speech"] = "speech"
    source: Literal["commands", "digits", "folders"] = "commands"
    length: int = Field(default=16_000, ge=1, le=2**24)
    pad: bool = True
    resample: int | None = Field(default=None, ge=1_000, le=192_000)
    val_share: float = Field(default=0.1, gt=0, lt=1)
    test_share: float = Field(default=0.1, gt=0, lt=1)

    shows_not: ClassVar[str] = (
        "short clean words: this says nothing of running speech or of speakers and rooms that are not in train."
    )
    mask_rate: ClassVar[float] = 0.25
    loss: ClassVar[str] = "l1"

    def files(self, data: Path) -> tuple[Path, ...]:
        """Every file that is read. Raises: BadInput naming what is missing and where it comes from."""
        return find_recordings(data, self.kind, self.source)[1]

    def prepare(self, data: Path, workers: int = 1) -> None:
        """Read the recordings and write them as examples, where that is not done yet."""
        del workers
        self._prepared(data)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput for missing, cut, corrupt or unfitting files."""
        found = self._prepared(data)
        facts, labels = found.facts, tuple(found.facts["labels"])
        signature = Signature(
            input="floats",
            width=1,
            length=facts["length"],
            shortest=facts["shortest"],
            target="class",
            classes=len(labels),
        )
        scale, shift = 1 / facts["deviation"], -facts["mean"] / facts["deviation"]
        splits = {}
        for name in SPLITS:
            values, offsets, target, index = (
                np.asarray(found.arrays[f"{name}_{part}"]) for part in ("values", "offsets", "target", "index")
            )
            splits[name] = Examples(values.reshape(-1, 1), offsets, target, index, scale=scale, shift=shift)
        return Task(
            signature,
            splits["train"],
            splits["val"],
            splits["test"],
            labels=labels,
            notes=tuple(facts["notes"]),
            fingerprint=found.fingerprint,
        )

    def _prepared(self, data: Path) -> Prepared:
        root, files = find_recordings(data, self.kind, self.source)
        asked = Asked(
            self.source, self.length, self.pad, self.resample, self.val_share, self.test_share, self.split_seed
        )
        document = {"reader": _READER, "files": stamps(files), **asdict(asked)}
        return prepared(data, f"speech-{self.source}", document, lambda builder: build(builder, root, asked))
