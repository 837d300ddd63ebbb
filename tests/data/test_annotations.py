"""Annotations of EDF and WFDB label the windows that are cut from recordings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_files import needs, record
from support.made_tables import read

from headstart.data.annotations import Annotation, words_of_positions

STAGES = ["Wake", "N2", "N2", "REM", "Wake", "N2"]


def night(path: Path, stages: list[str], samples: bool = True) -> Path:
    """Ten samples a second, of which each stage lasts 30 s."""
    edfio = pytest.importorskip("edfio")
    noise = np.random.default_rng(0).normal(size=300 * len(stages))
    notes = [edfio.EdfAnnotation(30 * i, 30, stage) for i, stage in enumerate(stages)]
    path.parent.mkdir(parents=True, exist_ok=True)
    edfio.Edf([edfio.EdfSignal(noise, 10, label="EEG")] if samples else [], annotations=notes).write(path)
    return path


def test_an_annotation_holds_for_its_duration_or_until_the_next() -> None:
    notes = [Annotation(1, 2, "a"), Annotation(4, None, "b"), Annotation(6, None, "c")]
    words = words_of_positions(notes, 8, 1)
    assert words.tolist() == ["", "a", "a", "", "b", "b", "c", "c"]


def test_windows_are_labelled_by_the_annotations_of_a_recording(tmp_path: Path) -> None:
    needs("edf")
    path = night(tmp_path / "f.edf", STAGES)
    result = read(path, window="30s")
    assert (list(result.labels), result.layout.target) == (STAGES, "annotation")
    assert list(read(path, window="10s").labels) == [stage for stage in STAGES for _ in range(3)]
    plain = read(path)
    assert plain.layout.target is None
    assert any("6 annotations are not read ('Wake', 'N2', 'REM'); --window 30s cuts" in note for note in plain.notes)


def test_folders_of_persons_are_groups_where_annotations_are_labels(tmp_path: Path) -> None:
    needs("edf")
    for i in range(3):
        night(tmp_path / "eeg" / f"S{i:02}" / "r.edf", STAGES)
    result = read(tmp_path / "eeg", window="30s")
    assert (result.layout.target, result.layout.group) == ("annotation", "folder")
    assert list(result.labels) == STAGES * 3
    for i in range(3):
        night(tmp_path / "classes" / ["well", "ill"][i % 2] / f"{i}.edf", STAGES)
    result = read(tmp_path / "classes", window="30s")
    assert result.layout.target == "folder"
    assert "annotations of the recordings are not used (--target annotation: labels of windows)" in result.notes
    assert list(read(tmp_path / "classes", window="30s", target="annotation").labels) == STAGES * 3


def test_a_file_of_annotations_alone_belongs_to_the_recording_whose_name_begins_like_it(tmp_path: Path) -> None:
    needs("edf")
    for i in range(3):
        edf = tmp_path / "sleep" / f"SC400{i}E0-PSG.edf"
        night(edf, STAGES).write_bytes(night(tmp_path / "other.edf", STAGES[i:] + STAGES[:i]).read_bytes())
        night(tmp_path / "sleep" / f"SC400{i}EC-Hypnogram.edf", STAGES[i:] + STAGES[:i], samples=False)
    result = read(tmp_path / "sleep", window="30s")
    assert len(set(result.groups or ())) == 3
    assert list(result.labels) == [stage for i in range(3) for stage in STAGES[i:] + STAGES[:i]]


@pytest.mark.parametrize(
    ("symbols", "notes", "labels"),
    [
        (["N", "V", "N"], None, ["N", "V", "N"]),
        (["+", "N", "+"], ["(AFIB", "", "(N"], ["AFIB", "AFIB", "N"]),
    ],
)
def test_beats_or_rhythms_of_physionet_label_windows(
    symbols: list[str], notes: list[str] | None, labels: list[str], tmp_path: Path
) -> None:
    needs("wfdb")
    wfdb: Any = pytest.importorskip("wfdb")
    path = record(tmp_path / "r1.hea", np.random.default_rng(0).normal(size=(750, 2)))
    at = np.array([0, 250, 500])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how it calls pandas
        wfdb.wrann("r1", "atr", at, symbol=symbols, aux_note=notes, write_dir=str(tmp_path), fs=250)
    assert list(read(path, window=250).labels) == labels
