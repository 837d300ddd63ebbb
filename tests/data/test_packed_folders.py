"""Archives: what is inside is named, and the command that the message gives unpacks and reads it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from headstart.data import read_sequences
from headstart.errors import BadInput
from headstart.ways import typed

CURVE = "t,x\n" + "".join(f"{k},{k * k}\n" for k in range(12))


def _packed(path: Path, files: dict[str, str]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return path
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("ending", ["zip", "tar.gz", "tgz"])
def test_the_files_of_an_archive_are_named_and_the_command_unpacks_them(ending: str, tmp_path: Path) -> None:
    files = {f"set/{label}/{i}.csv": CURVE for label in "ab" for i in range(2)}
    path = _packed(tmp_path / f"my set.{ending}", {**files, "set/.DS_Store": "x"})
    with typed(["show", str(path)]), pytest.raises(BadInput, match=r"of 4 files \('set/a/0.csv'") as error:
        read_sequences(path)
    unpack, then = str(error.value).partition("unpack it: ")[2].split(" && headstart show ")
    subprocess.run(["sh", "-c", unpack], check=True)
    assert read_sequences(then.strip("'")).labels == ("a", "a", "b", "b")


def test_of_an_archive_of_one_file_that_is_given_and_names_that_lead_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"headstart fit \S*/data/one.csv$"):
        read_sequences(_packed(tmp_path / "data.zip", {"one.csv": CURVE}))
    with pytest.raises(BadInput, match="whose names lead out of it"):
        read_sequences(_packed(tmp_path / "out.tar.gz", {"../one.csv": CURVE, "b.csv": CURVE}))


@pytest.mark.parametrize("size", ["99999999999999999999", "-512"])
def test_a_member_of_a_size_that_no_file_has_is_refused_in_words(size: str, tmp_path: Path) -> None:
    info = tarfile.TarInfo("a.csv")
    info.pax_headers = {"size": size, "comment": "x" * 9_000}
    with tarfile.open(tmp_path / "f.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info)
    with pytest.raises(BadInput, match=r"f\.tar(: is (no whole archive|cut short)|, member 'a.csv': is cut short)"):
        read_sequences(tmp_path / "f.tar")


def test_a_packed_file_of_other_bits_is_damaged_and_not_withheld(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(CURVE.encode()))
    packed[-6] ^= 255
    (tmp_path / "f.csv.gz").write_bytes(packed)
    with pytest.raises(BadInput, match=r"is cut short or damaged .* give the file again"):
        read_sequences(tmp_path / "f.csv.gz")


@pytest.mark.parametrize("ending", ["zip", "tgz"])
def test_a_file_without_a_name_in_an_archive_is_one_of_its_files(ending: str, tmp_path: Path) -> None:
    path = _packed(tmp_path / f"odd.{ending}", {"_" if ending == "zip" else "": CURVE, "a/b.csv": CURVE})
    if ending == "zip":
        with zipfile.ZipFile(path, "a") as archive:
            archive.getinfo("_").filename, archive._didModify = "", True
    with pytest.raises(BadInput, match=r"archive of 2 files \('', 'a/b.csv'\), which is not read; unpack it"):
        read_sequences(path)


PACKERS = {"tbz2": bz2.compress, "txz": lzma.compress, "tgz": gzip.compress}


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("size", [2**40, 2**20])
def test_an_archive_that_unpacks_without_end_is_refused_at_once(ending: str, size: int, tmp_path: Path) -> None:
    """300 kB that stand for up to 60 GB: many members of zeros, or one of a size that no archive of these bytes holds."""
    pack = PACKERS[ending]
    info = tarfile.TarInfo("zeros")
    info.size = size
    piece = pack(info.tobuf() + bytes(2**20))
    path = tmp_path / f"bomb.{ending}"
    path.write_bytes(piece * (300_000 // len(piece)))
    began = time.process_time()
    with pytest.raises(BadInput, match=r"bomb\.\w+(, member 'zeros')?: unpacks to more than \d+ bytes; unpack it"):
        read_sequences(path)
    assert time.process_time() - began < 10
