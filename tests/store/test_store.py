"""The store: what is whole in it is true; damage is found and said; nothing finished is lost."""

from __future__ import annotations

import errno
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch

import headstart
from headstart import atomic
from headstart.errors import BadInput, Damaged
from headstart.store import ClaimedStage, Store, files, store_folder

ONE, TWO = "0123456789abcdef", "fedcba9876543210"
DOCUMENT = {"name": "pretrain", "spec": {"seed": 0}, "parent": None}


def weights(value: float) -> dict[str, torch.Tensor]:
    return {"head.weight": torch.full((2, 3), value), "encoder.weight": torch.arange(4.0)}


def begin(folder: ClaimedStage | None) -> Any:
    assert folder is not None
    return folder.begin()


FILES = [
    "best.safetensors",
    "last.safetensors",
    "predictions.safetensors",
    "records.jsonl",
    "result.json",
    "stage.json",
]


def finish(store: Store, identity: str, references: Any = None) -> dict[str, Any]:
    with store.claim(identity, DOCUMENT) as folder:
        begin(folder)
        assert folder is not None
        folder.append({"step": 1, "val": {"loss": 0.5}})
        folder.save(1, weights(0.0), {"seconds": 1.0})
        return folder.finish(
            {"status": "complete"}, weights(1.0), weights(2.0), {"val/output": torch.ones(3)}, references
        )


def partial(store: Store, steps: int = 3) -> Path:
    """A stage that was killed after `steps` steps, with a record that no state has seen."""
    with store.claim(ONE, DOCUMENT) as folder:
        begin(folder)
        assert folder is not None
        for step in range(1, steps + 1):
            folder.append({"step": step})
            folder.save(step, weights(float(step)), {"at": step})
        folder.append({"step": steps + 1})
    return store.folder(ONE)


def test_the_folder_is_the_option_then_the_variable_then_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADSTART_STORE", raising=False)
    assert store_folder(None) == Path("runs")
    monkeypatch.setenv("HEADSTART_STORE", "/elsewhere")
    assert store_folder(None) == Path("/elsewhere")
    assert store_folder("here") == Path("here")


def test_a_stage_passes_from_absent_through_running_and_partial_to_complete(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    assert store.status(ONE) == "absent"
    assert store.listing() == []
    with store.claim(ONE, DOCUMENT) as folder:
        begin(folder)
        assert store.status(ONE) == "running"
    assert store.status(ONE) == "partial"
    finish(store, ONE)
    assert store.status(ONE) == "complete"
    assert [(e.identity, e.status) for e in store.listing()] == [(ONE, "complete")]


def test_a_finished_stage_holds_what_the_design_names_and_no_state(tmp_path: Path) -> None:
    store = Store(tmp_path)
    result = finish(store, ONE)
    assert sorted(p.name for p in store.folder(ONE).iterdir()) == FILES
    assert result == store.result(ONE)
    assert result["format"] == 1
    assert set(result["files"]) == {p.name for p in store.folder(ONE).iterdir()} - {"result.json"}
    assert store.records(ONE) == [{"step": 1, "val": {"loss": 0.5}}]
    assert torch.equal(store.weights(ONE)["head.weight"], torch.ones(2, 3))
    assert torch.equal(store.weights(ONE, "last")["head.weight"], torch.full((2, 3), 2.0))
    assert torch.equal(store.predictions(ONE)["val/output"], torch.ones(3))
    stage = store.stage(ONE)
    assert stage is not None
    assert (stage["name"], stage["attempts"], stage["spec"]) == ("pretrain", 1, {"seed": 0})


def test_the_newest_two_states_are_kept_and_later_records_are_cut_on_resume(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = partial(store)
    assert sorted(p.name for p in path.glob("state-*")) == ["state-2.safetensors", "state-3.safetensors"]
    assert len(store.records(ONE)) == 4
    with store.claim(ONE, DOCUMENT) as folder:
        tensors, meta = begin(folder)
        assert folder is not None
        assert (meta, folder.attempts, folder.notices) == ({"at": 3}, 2, [])
        assert torch.equal(tensors["head.weight"], torch.full((2, 3), 3.0))
    assert [r["step"] for r in store.records(ONE)] == [1, 2, 3]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_state_gives_way_to_the_one_before_and_says_so(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    newest = partial(store) / "state-3.safetensors"
    whole = bytearray(newest.read_bytes())
    if damage == "flip":
        whole[-5] ^= 16
    newest.write_bytes(whole if damage == "flip" else whole[: 200 if damage == "cut" else 0])
    with store.claim(ONE, DOCUMENT) as folder:
        _, meta = begin(folder)
        assert folder is not None
        assert meta == {"at": 2}
        assert len(folder.notices) == 1
        assert "state-3.safetensors: " in folder.notices[0]
        assert folder.notices[0].endswith("; the state of step 2 is used")
        assert [r["step"] for r in store.records(ONE)] == [1, 2]
        folder.append({"step": 3})
        folder.save(3, weights(3.0), {"at": 3})
    assert len(store.records(ONE)) == 3


def test_where_no_state_is_sound_the_stage_starts_again_and_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for path in partial(store).glob("state-*"):
        path.write_bytes(b"")
    with store.claim(ONE, DOCUMENT) as folder:
        assert begin(folder) is None
        assert folder is not None
        assert len(folder.notices) == 2
        assert all(n.endswith("; the stage starts again at step 0") for n in folder.notices)
    assert store.records(ONE) == []


def test_a_state_whose_records_are_lost_is_not_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    records = partial(store) / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(lines[0] + lines[1])
    with store.claim(ONE, DOCUMENT) as folder:
        _, meta = begin(folder)
        assert meta == {"at": 2}
        assert folder is not None
        assert "the records before it are damaged" in folder.notices[0]


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_finished_stage_is_set_aside_and_said_whichever_file(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    finish(store, ONE)
    assert store.problem(ONE) is None
    path = store.folder(ONE) / name
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    assert name in str(store.problem(ONE))
    with store.claim(ONE, DOCUMENT) as folder:
        assert folder is not None
        assert folder.finished() is None
        assert name in folder.notices[0]
        assert f"kept as {ONE}.damaged-1 and is done again" in folder.notices[0]
    assert store.status(ONE) == "absent"
    finish(store, ONE)
    assert store.problem(ONE) is None
    assert [e.identity for e in store.listing()] == [ONE]


def test_a_lost_file_of_a_finished_stage_is_damage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, ONE)
    (store.folder(ONE) / "last.safetensors").unlink()
    assert str(store.problem(ONE)).endswith("last.safetensors: is missing")


def test_frozen_weights_are_a_reference_to_the_parent(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, ONE)
    finish(store, TWO, {"encoder.weight": {"identity": ONE, "weights": "best"}})
    own, _ = files.unseal(store.folder(TWO) / "best.safetensors")
    assert set(own) == {"head.weight"}
    assert set(store.weights(TWO)) == {"head.weight", "encoder.weight"}
    assert torch.equal(store.weights(TWO)["encoder.weight"], torch.arange(4.0))
    for path in store.folder(ONE).iterdir():
        path.unlink()
    assert f"those of stage {ONE}, which is not there" in str(store.problem(TWO))


def test_weights_of_another_stage_in_its_place_are_noticed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, ONE)
    finish(store, TWO)
    best = store.folder(TWO) / "best.safetensors"
    best.write_bytes((store.folder(ONE) / "best.safetensors").read_bytes())
    with pytest.raises(Damaged, match=r"best\.safetensors: belongs to"):
        store.weights(TWO)


def test_a_failure_says_why_keeps_the_states_and_is_forgotten_on_the_next_attempt(tmp_path: Path) -> None:
    store = Store(tmp_path)
    partial(store)
    with store.claim(ONE, DOCUMENT) as folder:
        begin(folder)
        assert folder is not None
        folder.fail("ValueError: too bad", "Traceback ...")
    entry = store.entry(ONE)
    assert (entry.status, entry.message) == ("failed", "ValueError: too bad")
    assert "Traceback ..." in (store.folder(ONE) / "failure.txt").read_text()
    with store.claim(ONE, DOCUMENT) as folder:
        assert begin(folder)[1] == {"at": 3}
        assert folder is not None
        folder.cut("the time limit of 5 s was reached")
    assert store.entry(ONE).message == "the time limit of 5 s was reached"
    assert store.status(ONE) == "cut"


def test_a_full_disk_while_saving_keeps_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    with store.claim(ONE, DOCUMENT) as folder:
        begin(folder)
        assert folder is not None
        folder.append({"step": 1})
        folder.save(1, weights(1.0), {"at": 1})

        def full(file: int, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(atomic, "write_all", full)
        with pytest.raises(OSError, match="No space"):
            folder.save(2, weights(2.0), {"at": 2})
        folder.fail("full", "")  # cannot be written either; must not raise
        monkeypatch.undo()
    with store.claim(ONE, DOCUMENT) as folder:
        assert begin(folder)[1] == {"at": 1}


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, ONE)
    path = store.folder(ONE) / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 3}))
    with pytest.raises(BadInput, match="format 3 is newer"):
        store.result(ONE)
    with pytest.raises(BadInput, match="format 3 is newer"):
        store.listing()


def test_an_identity_is_found_by_its_first_digits_and_nothing_else_is_a_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(BadInput, match="no stage's id begins with '01'; it is empty"):
        store.find("01")
    finish(store, ONE)
    finish(store, "01" + "0" * 14)
    assert store.find("0123") == ONE
    with pytest.raises(BadInput, match="give more"):
        store.find("01")
    with pytest.raises(BadInput, match="no stage's id begins with '02'; `headstart ls` lists its 2 stages"):
        store.find("02")
    with pytest.raises(BadInput, match="did you mean '0123456789abcdef'"):
        store.find("0123456789abcdee")
    with pytest.raises(BadInput, match="is not an identity"):
        store.status("../../etc")
    with pytest.raises(BadInput, match="is absent, not finished; run its study first"):
        store.weights(TWO)


def _hold(root: str, connection: Any) -> None:
    with Store(root).claim(ONE, DOCUMENT) as folder:
        connection.send(folder is not None)
        connection.recv()


def test_a_stage_is_claimed_by_one_process_at_a_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_hold, args=(str(tmp_path), there))
    process.start()
    try:
        assert here.recv() is True
        with Store(tmp_path).claim(ONE, DOCUMENT) as folder:
            assert folder is None
        assert Store(tmp_path).status(ONE) == "running"
        here.send(None)
        process.join(10)
        with Store(tmp_path).claim(ONE, DOCUMENT) as folder:
            assert folder is not None
    finally:
        process.kill()


@pytest.mark.parametrize("key", ["spec", "name", "parent"])
def test_a_stage_that_says_nothing_of_its_settings_is_refused_in_words(key: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, ONE)
    document = files.read_json(store.folder(ONE) / "stage.json")
    del document[key]
    files.publish_json(store.folder(ONE) / "stage.json", document)
    with pytest.raises(
        BadInput, match=f"stage {ONE}: its stage.json has no '{key}'; name a stage that `headstart run`"
    ):
        headstart.load(ONE, store=tmp_path)
