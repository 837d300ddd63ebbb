"""Files are whole or absent, and carry what shows damage."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from headstart import atomic
from headstart.atomic import publish
from headstart.cli import main
from headstart.errors import BadInput, Damaged
from headstart.store import publish_json, read_json, seal, unseal

TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "flag": torch.tensor([True, False]),
    "half": torch.tensor([1.5, -0.0], dtype=torch.bfloat16),
    "none": torch.zeros(0, 4),
    "scalar": torch.tensor(7, dtype=torch.int64),
}
META = {"step": 3, "rate": 0.1, "nested": {"best": None}}


def test_tensors_and_meta_come_back_bit_for_bit(tmp_path: Path) -> None:
    publish(tmp_path / "x.safetensors", seal(TENSORS, META))
    tensors, meta = unseal(tmp_path / "x.safetensors")
    assert meta == META
    assert {name: (t.dtype, t.shape) for name, t in tensors.items()} == {
        name: (t.dtype, t.shape) for name, t in TENSORS.items()
    }
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    tensors["a"].add_(1)  # their own writable memory


def test_equal_content_has_equal_bytes_whatever_the_order_and_the_memory() -> None:
    base = torch.arange(4.0)
    first = seal({"x": base, "y": base, "z": base[::2]}, META)
    two = seal({"z": base[::2].clone(), "y": base.clone(), "x": base.clone()}, dict(reversed(META.items())))
    assert first == two


def test_every_flipped_bit_and_every_cut_is_detected(tmp_path: Path) -> None:
    whole = seal({"a": TENSORS["a"], "scalar": TENSORS["scalar"]}, META)
    path = tmp_path / "x.safetensors"
    for position in range(len(whole)):
        for damaged in (whole[:position], whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]):
            path.write_bytes(damaged)
            try:
                tensors, meta = unseal(path)
            except Damaged:
                continue
            # The padding of the header may hold any blank: then what is read is what was sealed.
            assert meta == META
            assert all(torch.equal(tensors[name], TENSORS[name]) for name in ("a", "scalar"))
            assert len(damaged) == len(whole)


def test_json_has_a_format_and_a_digest_that_shows_a_changed_score(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    publish_json(path, {"score": 0.25, "lost": float("nan")})
    assert read_json(path) == {"score": 0.25, "lost": None, "format": 1}
    path.write_text(path.read_text().replace("0.25", "0.26"))
    with pytest.raises(Damaged, match=r"measured\.json: its digest does not fit"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(Damaged, match="not readable as JSON"):
        read_json(path)


def test_a_newer_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"format": 3}))
    with pytest.raises(BadInput, match=r"format 3 is newer than this headstart reads \(2\); install a newer"):
        read_json(path)


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    publish(path, b"old")

    def full(file: int, data: bytes) -> None:
        os.write(file, data[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "write_all", full)
    with pytest.raises(OSError, match="No space") as caught:
        publish(path, b"newer")
    assert atomic.disk_full(caught.value)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["state"]


def test_no_link_that_waits_beside_a_file_is_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("mine")
    for name in (f".state.{os.getpid()}.tmp", ".state.0000000000000000.tmp"):
        (tmp_path / name).symlink_to("mine")
    publish(tmp_path / "state", b"old")
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda count: "00" * count)  # who plants a link had luck
    with pytest.raises(FileExistsError):
        publish(tmp_path / "state", b"new")
    assert ((tmp_path / "state").read_bytes(), (tmp_path / "mine").read_text()) == (b"old", "mine")
    assert (tmp_path / ".state.0000000000000000.tmp").is_symlink(), "it is another's"


def test_two_writers_of_one_process_number_leave_one_of_two_whole_files(tmp_path: Path) -> None:
    path, contents = tmp_path / "state", [b"a" * 300_000, b"b" * 300_000]

    def write(content: bytes) -> None:
        for _ in range(10):
            publish(path, content)

    with ThreadPoolExecutor(2) as writers:
        rounds = [writers.submit(write, content) for content in contents]
        while not all(writer.done() for writer in rounds):
            assert not path.exists() or path.read_bytes() in contents
    assert [writer.exception() for writer in rounds] == [None, None]


def test_reading_json_imports_neither_torch_nor_numpy_nor_pydantic_nor_scipy(tmp_path: Path) -> None:
    code = (
        "import sys; from headstart.store import Store; Store(sys.argv[1]).listing();"
        "heavy = {'torch', 'numpy', 'pydantic', 'scipy', 'safetensors', 'sklearn'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_no_file_takes_the_place_of_a_pipe_a_device_or_a_stream_that_others_write_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "null.json").symlink_to("/dev/null")
    (tmp_path / "stream.json").symlink_to("/proc/self/fd/0")
    before = {path: path.lstat().st_mode for path in tmp_path.iterdir()}
    for path in before:
        with pytest.raises(BadInput, match=f"{path.name}: is a pipe, a device or a stream, which no file replaces"):
            publish(path, b"")
        with pytest.raises(SystemExit) as end:
            main(["ls", f"--store={tmp_path}", f"--json={path}"])
        assert end.value.code == 2
        assert capsys.readouterr().err.endswith("which no file replaces; name a file\n")
    assert {path: path.lstat().st_mode for path in tmp_path.iterdir()} == before
