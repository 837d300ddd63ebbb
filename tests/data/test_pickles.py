"""A pickle runs code when it is read: whatever a file is called and wherever it lies, none is, and one line says so."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.command import command
from support.made_files import needs
from support.made_tables import why, wide, write

RAN = "it-ran"


class Runs:
    """What makes a folder in the working folder when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (RAN,)


def objects(count: int = 12) -> np.ndarray:
    """Sequences of numbers of unequal lengths as Python objects, and one that runs."""
    array = np.empty(count, dtype=object)
    for i in range(count):
        array[i] = np.arange(5 + i) if i else Runs()
    return array


def npy(path: Path) -> None:
    np.save(path, objects(), allow_pickle=True)


def npz(path: Path) -> None:
    np.savez(path, X=np.zeros((12, 5)), y=objects())


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps({"X": objects(), "y": ["a", "b"] * 6}))


def packed(path: Path) -> None:
    path.write_bytes(gzip.compress(pickle.dumps(objects())))


def frame(path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"x": list(objects())}).to_pickle(path)


def joblib_dump(path: Path) -> None:
    import joblib

    joblib.dump(objects(), path)


def torch_save(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data/data.pkl", pickle.dumps(Runs()))


def hdf5(path: Path) -> None:
    needs("hdf5")
    import h5py

    with h5py.File(path, "w") as file:
        file["X"] = np.void(pickle.dumps(objects()))
        file["X"].attrs["pickled"] = np.void(pickle.dumps(Runs()))


def mat(path: Path) -> None:
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, {"X": np.frombuffer(pickle.dumps(objects()), dtype=np.uint8), "y": pickle.dumps(Runs()).hex()})
    path.write_bytes(buffer.getvalue())


DOORS: list[tuple[str, Callable[[Path], None]]] = [
    ("X.npy", npy),
    ("X.npz", npz),
    ("data.pkl", pickled),
    ("data.pickle", pickled),
    ("data.pkl.gz", packed),
    ("frame.pkl", frame),
    ("dump.joblib", joblib_dump),
    ("tensors.pt", torch_save),
    ("data.h5", hdf5),
    ("data.mat", mat),
    *(
        (f"renamed.{ending}", pickled)
        for ending in ("csv", "txt", "npy", "npz", "mat", "h5", "parquet", "jsonl", "xlsx")
    ),
    *((f"renamed.{ending}", pickled) for ending in ("json", "arff", "edf", "wav", "fa", "ts", "feather", "ods")),
]


@pytest.mark.parametrize(("name", "make"), DOORS, ids=[name for name, _ in DOORS])
def test_no_door_of_data_unpickles(name: str, make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    for source in (tmp_path / name, tmp_path):
        text = why(source)
        assert len(text.splitlines()) == 1
        assert not Path(RAN).exists()


def test_a_pickle_beside_recordings_labels_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for i in range(3):
        write(tmp_path / f"r{i}.csv", "t,x\n" + "".join(f"{t},{t * i}.5\n" for t in range(9)))
    pickled(tmp_path / "labels.pkl")
    shown = command("show", ".", cwd=tmp_path)
    assert "no label is known" in " ".join(shown.stdout.split())
    assert not Path(RAN).exists()


def test_objects_are_refused_with_what_to_save_in_their_place(tmp_path: Path) -> None:
    npy(tmp_path / "X.npy")
    pickled(tmp_path / "data.pkl")
    write(tmp_path / "f.csv", "\n".join(wide()))
    for name, words in (("X.npy", "which are never unpickled; save numbers or texts"), ("data.pkl", "save it as CSV")):
        for verb in (["show", name], ["fit", name, "-o", "m"], ["fit", "f.csv", "-o", "m", "--val", name]):
            done = command(*verb, cwd=tmp_path)
            assert done.returncode == 2
            assert words in " ".join(done.stderr.split())
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / RAN).exists()
