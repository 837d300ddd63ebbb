"""EDF and BDF: recordings of EEG, sleep and the like, in physical units. Annotations are not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headstart.data.extras import library, whole
from headstart.data.layout import LayoutSpec
from headstart.data.recordings import Recording, brought, check_samples, chosen_channels, recording_table, told_apart
from headstart.data.table import Table
from headstart.errors import Mistakes
from headstart.text import many


def read_edf(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """The channels of one file. Raises: BadInput where their rates differ, or the file is damaged or cut short."""
    return recording_table(path, brought(path, edf_recording(path, spec), spec), "a recording")


def edf_recording(path: Path, spec: LayoutSpec) -> Recording:
    """The channels of one file that `values` names, or all. A label that comes again is numbered: `EMG 2`."""
    edfio = library("edfio", path, "a recording of EDF or BDF")
    with whole(path, "file of EDF or BDF"):
        content = path.read_bytes()
        wide = content.startswith(b"\xff")
        _check_length(content, 3 if wide else 2)
        file = edfio.read_bdf(content) if wide else edfio.read_edf(content)
        names = told_apart([signal.label.strip() or "channel" for signal in file.signals])
        rates = [float(signal.sampling_frequency) for signal in file.signals]
        wanted = chosen_channels(path, names, rates, spec)
        each = [file.signals[i] for i in wanted]
        check_samples(path, each[0].samples_per_data_record * file.num_data_records, len(each))
        samples = np.stack([np.asarray(signal.data, dtype=np.float32) for signal in each], 1)
        notes = [f"{many(len(file.annotations), 'annotation')} of the recording are not read"] * bool(file.annotations)
        if not file.is_continuous:
            notes.append("the recording has gaps in time, whose two sides are read as neighbours")
    return Recording(samples, rates[wanted[0]], tuple(names[i] for i in wanted), tuple(notes))


def _check_length(content: bytes, width: int) -> None:
    """Raises: ValueError where the file does not hold the records that its header says; width: bytes of a sample.

    Source: the specification of EDF: bytes of the header at 184, records at 236, signals at 252, and for each of these
    its samples in a record, behind 216 bytes a signal.
    """
    head, records, signals = int(content[184:192]), int(content[236:244]), int(content[252:256])
    if signals < 1:
        raise ValueError("the header names no signal")
    fields = content[256 + 216 * signals : 256 + 224 * signals]
    size = width * sum(int(fields[8 * i : 8 * i + 8]) for i in range(signals))
    if records < 0 or head + records * size > len(content):
        raise ValueError(f"the header says {records:,} records of {size:,} bytes, the file has {len(content):,} bytes")
