"""EDF and BDF: recordings of EEG, sleep and the like, in physical units, with their annotations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headstart.data.annotations import Annotation
from headstart.data.extras import library, whole
from headstart.data.layout import LayoutSpec
from headstart.data.recordings import (
    Recording,
    brought,
    check_samples,
    chosen_channels,
    on_one_clock,
    recording_table,
    told_apart,
)
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes
from headstart.text import first_few


def read_edf(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """The channels of one file. Raises: BadInput where their rates differ and none was set, or the file is damaged or
    cut short."""
    recording = edf_recording(path, spec)
    if not recording.channels:
        raise BadInput(f"{path}: holds annotations without a channel; name the folder that holds the recording too")
    return recording_table(path, brought(path, recording, spec), "a recording", spec)


def edf_recording(path: Path, spec: LayoutSpec) -> Recording:
    """The channels of one file that `values` names, or all, those of several rates at the rate that was set; none of a
    file of annotations alone. A label that comes again is numbered: `EMG 2`."""
    edfio = library("edfio", path, "a recording of EDF or BDF")
    with whole(path, "file of EDF or BDF"):
        content = path.read_bytes()
        wide = content.startswith(b"\xff")
        _check_length(content, 3 if wide else 2)
        file = edfio.read_bdf(content) if wide else edfio.read_edf(content)
        annotations = tuple(
            Annotation(float(a.onset), a.duration, a.text.strip()) for a in file.annotations if a.text.strip()
        )
        if annotations and not file.signals:
            return Recording(np.zeros((0, 0)), 1.0, (), annotations=annotations)
        names = told_apart([signal.label.strip() or "channel" for signal in file.signals])
        rates = [float(signal.sampling_frequency) for signal in file.signals]
        wanted = chosen_channels(path, names, rates, spec)
        each, rate = [file.signals[i] for i in wanted], rates[wanted[0]]
        check_samples(path, max(x.samples_per_data_record for x in each) * file.num_data_records, len(each))
        signals, notes = [np.asarray(signal.data, dtype=np.float32) for signal in each], []
        if len({rates[i] for i in wanted}) > 1 and spec.rate is not None:
            samples, rate = on_one_clock(path, signals, [rates[i] for i in wanted], spec.rate), float(spec.rate)
            several = first_few([f"{own:g}" for own in dict.fromkeys(rates[i] for i in wanted)], 4)
            notes.append(f"signals of {several} samples per second are brought to {rate:g}")
        else:
            samples = np.stack(signals, 1)
        if not file.is_continuous:
            notes.append("the recording has gaps in time, whose two sides are read as neighbours")
            notes += ["annotations are not read, as the gaps move their times"] * bool(annotations)
            annotations = ()
    return Recording(samples, rate, tuple(names[i] for i in wanted), tuple(notes), annotations)


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
