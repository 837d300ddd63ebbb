"""Data files that others write, cut or take away while they are read."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from contracts.test_readers import SAMPLES
from support.made_files import brain_vision

from headstart.data import data_card, matlab, read_sequences
from headstart.data.readers import READERS
from headstart.errors import BadInput


def other_ways(path: Path, whole: bytes, stop: threading.Event) -> None:
    """Cut it, take it away, put another in its place, double it, until told to stop."""
    random = Random(0)
    changes: tuple[Callable[[], object], ...] = (
        lambda: os.truncate(path, random.randrange(len(whole))),
        lambda: path.write_bytes(whole),
        path.unlink,
        lambda: path.write_bytes(whole[: random.randrange(len(whole))]),
        lambda: path.write_bytes(whole * 2),
    )
    for change in itertools.cycle(changes):
        if stop.wait(random.random() * 0.003):
            return
        with contextlib.suppress(OSError):
            change()


@pytest.mark.slow
@pytest.mark.parametrize("form", [form for form, entry in READERS.items() if str(entry.facts["endings"]).strip()])
def test_a_data_file_that_changes_while_it_is_read_is_read_or_refused_in_words(form: str, tmp_path: Path) -> None:
    pytest.importorskip(str(READERS[form].facts.get("needs", "numpy")), reason="needs the extra [formats]")
    path = tmp_path / f"data.{str(READERS[form].facts['endings']).split()[0]}"
    SAMPLES[form](path)
    stop = threading.Event()
    changing = threading.Thread(target=other_ways, args=(path, path.read_bytes(), stop))
    changing.start()
    begun, messages = time.monotonic(), list[str]()
    try:
        while time.monotonic() < begun + 0.3 or not messages:
            try:
                data_card(read_sequences(path))
            except BadInput as error:
                messages.append(str(error))
    finally:
        stop.set()
        changing.join()
    assert all("data" in message for message in messages)


def test_a_part_of_a_recording_that_goes_while_it_is_read_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    path = brain_vision(tmp_path / "a.vhdr", np.ones((40, 3), dtype=np.float32))
    monkeypatch.setattr("headstart.data.brainvision.check_samples", lambda *_: (tmp_path / "a.eeg").unlink())
    with pytest.raises(BadInput, match=r"a\.eeg: cannot be read \(No such file"):
        read_sequences(path)
    brain_vision(path, np.ones((40, 3), dtype=np.float32))
    monkeypatch.setattr("headstart.data.brainvision.check_samples", lambda *_: os.truncate(tmp_path / "a.eeg", 12))
    with pytest.raises(BadInput, match=r"a\.eeg: became shorter while it was read"):
        read_sequences(path)


def test_a_file_that_goes_before_its_reader_opens_it_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "a.mat"
    SAMPLES["mat"](path)
    whole = matlab._is_hdf5
    monkeypatch.setattr(matlab, "_is_hdf5", lambda file: whole(file) if file.unlink() is None else None)
    with pytest.raises(BadInput, match=r"a\.mat: cannot be read \(No such file"):
        read_sequences(path)
