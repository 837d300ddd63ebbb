"""Recordings of BrainVision: a header, samples and markers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_files import brain_vision
from support.made_tables import read, why

from headstart.data import read_sequences

X = np.random.default_rng(3).normal(size=(400, 3)).astype(np.float32) * 40


@pytest.mark.parametrize("form", ["INT_16", "IEEE_FLOAT_32"])
@pytest.mark.parametrize("across", [True, False])
def test_samples_are_read_in_physical_units(tmp_path: Path, form: str, across: bool) -> None:
    path = brain_vision(tmp_path / "a b.vhdr", X, form, across)
    sequences = read(path)
    np.testing.assert_allclose(sequences.values, X, atol=0.26 if form == "INT_16" else 0)
    assert sequences.channels == ("C1", "C2", "C3")
    assert sequences.steps is not None
    assert sequences.steps.tolist() == [0.01]
    assert read(path, values=("C2",), rate=50).values.shape == (200, 1)


def test_markers_label_windows_and_folders_label_recordings(tmp_path: Path) -> None:
    marks = "".join(f"Mk{k + 2}=Stimulus,S  {k % 2 + 1},{100 * k + 1},1,0\n" for k in range(4))
    path = brain_vision(tmp_path / "a.vhdr", X, marks=marks)
    windows = read(path, window="1s")
    assert windows.labels == ("S  1", "S  2", "S  1", "S  2")
    for i in range(4):
        (tmp_path / "all" / "lr"[i % 2]).mkdir(parents=True, exist_ok=True)
        brain_vision(tmp_path / "all" / "lr"[i % 2] / f"{i}.vhdr", X)
    folder = read(tmp_path / "all")
    assert folder.labels == ("l", "l", "r", "r")
    assert not any("other kind" in note for note in folder.notes)


def test_files_that_were_renamed_or_whose_samples_changed_are_read_anew(tmp_path: Path) -> None:
    path = brain_vision(tmp_path / "a.vhdr", X, DataFile="before.eeg", MarkerFile="before.vmrk")
    first = read_sequences(path)
    np.testing.assert_array_equal(first.values, X)
    (2 * X).tofile(tmp_path / "a.eeg")
    np.testing.assert_array_equal(read_sequences(path).values, 2 * X)


def test_what_cannot_be_read_is_refused_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    path = brain_vision(tmp_path / "a.vhdr", X)
    whole = path.read_text("utf-8")
    (tmp_path / "b.eeg").write_bytes(b"\0" * 13)
    cases = {
        whole.replace("BINARY", "ASCII"): "export them as BINARY",
        whole.replace("IEEE_FLOAT_32", "UINT_16"): "INT_16, INT_32, IEEE_FLOAT_32",
        whole.replace("NumberOfChannels=3", "NumberOfChannels=many"): "is not a whole header of BrainVision",
        whole.replace("Brain Vision", "Something"): "is not a whole header of BrainVision",
        whole.replace("a.eeg", "b.eeg"): "which are no whole samples of 3 channels",
    }
    for text, message in cases.items():
        path.write_text(text, "utf-8")
        assert message in why(path)
        assert "\n" not in why(path)
    (tmp_path / "a.eeg").rename(tmp_path / "c.eeg")
    path.write_text(whole.replace("a.eeg", "../c.eeg"), "utf-8")
    assert "which is no file of its own folder; put the files of a record together" in why(path)
    assert why(tmp_path / "c.eeg").startswith("c.eeg: ")
    brain_vision(path, X)
    assert "is a part of a recording of BrainVision; give its header" in why(tmp_path / "a.eeg")
