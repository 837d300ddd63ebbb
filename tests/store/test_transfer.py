"""A stage's files on their way: nothing that was changed on it enters a store."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headstart.errors import Damaged
from headstart.store import Store, seal
from headstart.store.transfer import News, check_files, finished_files, pack, partial_files, unpack

MESSAGE = pack({"a": [1, None, "x"], "b": {"c": 0.1}}, {"one": b"", "two": b"12345", "three": bytes(300)})
IDENTITY = "0123456789abcdef"


def test_what_was_packed_comes_out() -> None:
    head, files = unpack(MESSAGE)
    assert head == {"a": [1, None, "x"], "b": {"c": 0.1}}
    assert files == {"one": b"", "two": b"12345", "three": bytes(300)}


@given(st.integers(0, len(MESSAGE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed(position: int, change: int) -> None:
    message = bytearray(MESSAGE)
    message[position] ^= change
    with pytest.raises(Damaged):
        unpack(bytes(message))


@given(st.integers(0, len(MESSAGE) - 1))
def test_a_cut_message_is_noticed(length: int) -> None:
    with pytest.raises(Damaged):
        unpack(MESSAGE[:length])
    with pytest.raises(Damaged):
        unpack(MESSAGE + b"\0")


def test_each_state_is_news_once_with_the_records_before_it_and_goes_on_elsewhere(tmp_path: Path) -> None:
    near, far = Store(tmp_path / "near"), Store(tmp_path / "far")
    with near.claim(IDENTITY, {"name": "s"}) as here, far.claim(IDENTITY, {"name": "s"}) as there:
        assert here is not None
        assert there is not None
        there.path.mkdir(parents=True)
        news = News(there.path)
        there.begin()
        here.receive(news.files(), news.names())
        assert near.stage(IDENTITY) == far.stage(IDENTITY)
        for step in (1, 2, 3):
            there.append({"step": step})
            assert not news.files(), "a record alone is none"
            there.save(step, {"x": torch.full((3,), float(step))}, {"step": step})
            files = news.files()
            assert set(files) == {"records.jsonl", f"state-{step}.safetensors"}
            here.receive(files, news.names())
        assert not news.files()
    assert sorted(path.name for path in near.folder(IDENTITY).glob("state-*")) == [
        f"state-{step}.safetensors" for step in (2, 3)
    ]
    assert partial_files(near.folder(IDENTITY)) == partial_files(far.folder(IDENTITY))
    with near.claim(IDENTITY, {"name": "s"}) as here:
        assert here is not None
        tensors, meta = here.begin() or ({}, {})
    assert meta == {"step": 3}
    assert torch.equal(tensors["x"], torch.full((3,), 3.0))
    assert near.records(IDENTITY) == [{"step": 1}, {"step": 2}, {"step": 3}]


def finished(store: Store, frozen: bool = False) -> dict[str, bytes]:
    weights = {"x": torch.arange(40_000.0)}
    with store.claim(IDENTITY, {"name": "s"}) as folder:
        assert folder is not None
        folder.begin()
        names = ["x"] if frozen else []
        folder.finish({"status": "complete"}, weights, weights, {}, sources={"a/b.py": b"1"}, frozen=names)
    return finished_files(store.folder(IDENTITY))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_finished_stage_arrives_whole_and_what_it_had_before_its_end_goes(tmp_path: Path, frozen: bool) -> None:
    files, store = finished(Store(tmp_path / "far"), frozen), Store(tmp_path / "near")
    with store.claim(IDENTITY, {"name": "s"}) as folder:
        assert folder is not None
        folder.begin()
        folder.save(1, {"x": torch.zeros(2)}, {})
        folder.fail("before", "")
        folder.receive(files, list(files))
    assert store.problem(IDENTITY) is None
    assert finished_files(store.folder(IDENTITY)) == files
    assert torch.equal(store.weights(IDENTITY)["x"], torch.arange(40_000.0))
    assert {str(path.relative_to(store.folder(IDENTITY))) for path in store.folder(IDENTITY).rglob("*.*")} == set(files)
    assert len(list((store.root / ".tensors").glob("*"))) == int(frozen)


def test_files_that_are_not_of_the_stage_are_refused_before_any_is_written(tmp_path: Path) -> None:
    files = finished(Store(tmp_path / "far"))
    result = files["result.json"]
    state = seal({"x": torch.zeros(1)}, {})
    wrong: list[dict[str, bytes]] = [
        {**files, "best.safetensors": state},
        {**files, "more.txt": b""},
        {name: content for name, content in files.items() if name != "records.jsonl"},
        {**files, "result.json": result.replace(b"complete", b"diverged")},
        {"result.json": result},
        {"state-1.safetensors": state, "../escape": b"1"},
        {"best.safetensors": state},
        {"stage.json": files["stage.json"].replace(IDENTITY.encode(), IDENTITY[::-1].encode())},
    ]
    store = Store(tmp_path / "near")
    with store.claim(IDENTITY, {"name": "s"}) as folder:
        assert folder is not None
        for sent in wrong:
            with pytest.raises(Damaged):
                folder.receive(sent, [])
    assert not store.folder(IDENTITY).exists()
    with pytest.raises(Damaged, match="is not the result of these files"):
        check_files(IDENTITY[::-1], files)


def test_a_result_that_names_a_path_outside_its_folder_is_refused(tmp_path: Path) -> None:
    from headstart.store import publish_json

    content = b"1"
    for name in ("../x", "/x", "source/../../x", "a\\b"):
        document = {"identity": IDENTITY, "status": "complete", "files": {name: hashlib.sha256(content).hexdigest()}}
        publish_json(tmp_path / "result.json", document)
        with pytest.raises(Damaged, match="leads out of the stage's folder"):
            check_files(IDENTITY, {"result.json": (tmp_path / "result.json").read_bytes(), name: content})
