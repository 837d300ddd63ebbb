"""WFDB, the format of PhysioNet: a header (.hea) that names the files of its samples, with its annotations (.atr)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.annotations import Annotation
from headstart.data.extras import library, whole
from headstart.data.layout import LayoutSpec
from headstart.data.recordings import (
    Recording,
    brought,
    check_rate,
    check_samples,
    chosen_channels,
    file_beside,
    recording_table,
    told_apart,
)
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes

MOST_SEGMENTS = 1_000
"""Segments that a record may have."""
ANNOTATIONS = ("atr", "st")
"""Endings of files of annotations: of beats and rhythms, of stages of sleep."""


def read_wfdb(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """The channels of one record. Raises: BadInput where one of its files is absent, damaged or in another folder."""
    return recording_table(path, brought(path, wfdb_recording(path, spec), spec), "a record", spec)


def wfdb_recording(path: Path, spec: LayoutSpec) -> Recording:
    """The channels of the record of a header that `values` names, or all, in physical units."""
    wfdb = library("wfdb", path, "a record of WFDB")
    with whole(path, "header of WFDB"):
        name = str(path.with_suffix(""))
        head = wfdb.rdheader(name)
        segments = list(getattr(head, "seg_name", None) or [])
        if len(segments) > MOST_SEGMENTS:
            raise BadInput(f"{path}: has {len(segments):,} segments, at most {MOST_SEGMENTS:,} are read; cut it")
        heads = [head] if not segments else [_segment(wfdb, path, part) for part in segments if part != "~"]
        for file in {file for part in heads for file in part.file_name or ()}:
            file_beside(path, file)
        first = next((part for part in heads if part.sig_len != 0), heads[0])  # a layout has no samples
        names = told_apart([label or f"signal {i}" for i, label in enumerate(first.sig_name or (), 1)])
        check_rate(path, rate := float(head.fs))
        wanted = chosen_channels(path, names, [rate] * len(names), spec)
        if head.sig_len is not None:
            check_samples(path, head.sig_len, len(names))
    with whole(path.with_suffix(".dat"), "file of samples"):
        record = wfdb.rdrecord(name, channels=wanted)
        samples = np.asarray(record.p_signal, dtype=np.float32)
        check_samples(path, *samples.shape)
        finer = [n for part in heads for n, k in zip(part.sig_name, part.samps_per_frame or (), strict=False) if k > 1]
        notes = [f"{n!r} has several samples a frame, whose mean is read" for n in dict.fromkeys(finer)][:5]
    annotations = _annotations(wfdb, path, rate)
    return Recording(samples, rate, tuple(names[i] for i in wanted), tuple(notes), annotations)


def _annotations(wfdb: Any, path: Path, rate: float) -> tuple[Annotation, ...]:
    """Those of a record: changes of rhythm, such as AFIB, where there are some, else whatever is marked, as beats."""
    ending = next((ending for ending in ANNOTATIONS if path.with_suffix(f".{ending}").is_file()), None)
    if ending is None:
        return ()
    file = file_beside(path, path.with_suffix(f".{ending}").name)
    with whole(file, "file of annotations"):
        marks = wfdb.rdann(str(path.with_suffix("")), ending)
    texts = [(note.strip("\0 ") or symbol) for note, symbol in zip(marks.aux_note, marks.symbol, strict=True)]
    rhythms = any(text.startswith("(") for text in texts)
    return tuple(
        Annotation(float(sample) / (marks.fs or rate), None, text.removeprefix("("))
        for sample, text in zip(marks.sample.tolist(), texts, strict=True)
        if text.startswith("(") or not rhythms
    )


def _segment(wfdb: Any, path: Path, name: str) -> Any:
    return wfdb.rdheader(str(file_beside(path, f"{name}.hea").with_suffix("")))
