"""Frozen tensors are kept once per content; each stage's folder is whole by itself all the same."""

import errno
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support.made_tasks import MadeSpec

from headstart import atomic
from headstart.errors import BadInput, Damaged
from headstart.runner.events import Finished
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.spec import merge
from headstart.stage import StageSpec, identity, read_stage
from headstart.store import Store, files, tensors

DOCUMENT = {"name": "frozen", "spec": {}, "parent": None}
SIDE = 200
"""200 x 200 numbers: 160,000 bytes, above `tensors.LARGE`."""


def name(number: int) -> str:
    return f"{number:016x}"


def finish(store: Store, number: int, backbone: float = 1.0, head: float = 0.0, **more: Any) -> dict[str, Any]:
    """A stage with one large frozen tensor, a small frozen one, and a head that has been trained."""

    def weights(trained: float) -> dict[str, torch.Tensor]:
        large = torch.full((SIDE, SIDE), backbone)
        return {"large": large, "small": torch.ones(3), "head": torch.full((4,), trained)}

    with store.claim(name(number), DOCUMENT) as claimed:
        assert claimed is not None
        claimed.begin()
        names = ("large", "small")
        return claimed.finish({"status": "complete"}, weights(head), weights(head + 1), {}, frozen=names, **more)


def large_file(store: Store, number: int) -> Path:
    """The file of the large tensor."""
    return max((store.folder(name(number)) / tensors.FROZEN).iterdir(), key=lambda path: path.stat().st_size)


def occupied(root: Path) -> int:
    """Bytes of all tensor files, a file under two names counted once."""
    stats = [path.stat() for path in root.rglob("*.safetensors")]
    return sum({(stat.st_dev, stat.st_ino): stat.st_size for stat in stats}.values())


def test_stages_share_the_file_of_a_frozen_tensor_and_give_back_equal_weights(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(5):
        result = finish(store, number, head=float(number))
        assert result["format"] == 2
        assert store.problem(name(number)) is None
    assert occupied(tmp_path) < 1.1 * 4 * SIDE**2 + 5 * 3 * 1024
    for number in range(5):
        best, last = store.weights(name(number)), store.weights(name(number), "last")
        assert torch.equal(best["large"], torch.ones(SIDE, SIDE))
        assert torch.equal(last["large"], best["large"])
        assert torch.equal(best["head"], torch.full((4,), float(number)))
        assert torch.equal(last["head"], torch.full((4,), number + 1.0))
        assert set(best) == {"large", "small", "head"}


def test_other_contents_other_types_and_other_shapes_have_files_of_their_own(tmp_path: Path) -> None:
    tensors_of = {
        "one": torch.zeros(SIDE, SIDE),
        "flat": torch.zeros(SIDE * SIDE),
        "double": torch.zeros(SIDE, SIDE, dtype=torch.float64),
        "same as one": torch.zeros(SIDE, SIDE),
    }
    folder = tmp_path / "stage"
    folder.mkdir()
    names = tensors.keep(folder, tensors_of)
    assert names["one"] == names["same as one"]
    assert len(set(names.values())) == 3
    for key, value in tensors.read(folder, names).items():
        assert value.dtype == tensors_of[key].dtype
        assert torch.equal(value, tensors_of[key])


def test_what_trains_and_what_best_and_last_do_not_share_stays_in_the_stages_own_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.claim(name(1), DOCUMENT) as claimed:
        assert claimed is not None
        claimed.begin()
        best, last = {"a": torch.zeros(SIDE, SIDE)}, {"a": torch.ones(SIDE, SIDE)}
        result = claimed.finish({"status": "complete"}, best, last, {}, frozen=["a"])
    assert "tensors" not in result
    assert result["format"] == 1, "an older headstart can read this"
    assert not (tmp_path / tensors.TENSOR_INDEX).exists()
    assert torch.equal(store.weights(name(1), "last")["a"], last["a"])


def test_a_tensor_that_a_parent_holds_is_a_reference_and_no_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 1)
    result = finish(store, 2, references={"large": {"identity": name(1), "weights": "best"}})
    assert "tensors" not in result
    assert torch.equal(store.weights(name(2))["large"], torch.ones(SIDE, SIDE))


def test_deleting_a_stage_leaves_the_others_whole_and_the_last_one_frees_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 1)
    finish(store, 2)
    shutil.rmtree(store.folder(name(1)))
    assert store.problem(name(2)) is None
    assert torch.equal(store.weights(name(2))["large"], torch.ones(SIDE, SIDE))
    shutil.rmtree(store.folder(name(2)))
    finish(store, 3, backbone=2.0)
    assert len(list((tmp_path / tensors.TENSOR_INDEX).iterdir())) == 2, "the large tensor, and the small ones"


def test_a_copied_folder_is_whole_without_the_store_that_it_comes_from(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "a"), Store(tmp_path / "b")
    finish(store, 1)
    shutil.copytree(store.folder(name(1)), other.folder(name(1)))
    shutil.rmtree(tmp_path / "a")
    assert other.problem(name(1)) is None
    assert torch.equal(other.weights(name(1))["large"], torch.ones(SIDE, SIDE))


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damage_of_a_shared_file_is_seen_by_every_stage_and_mended_for_the_next(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    finish(store, 1)
    finish(store, 2)
    path = large_file(store, 1)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else content[:1000])
    assert "digest does not fit" in str(store.problem(name(1))) or "is missing" in str(store.problem(name(1)))
    assert (store.problem(name(2)) is None) == (damage == "gone")
    with pytest.raises(Damaged):
        store.weights(name(1))
    with store.claim(name(1), DOCUMENT) as claimed:
        assert claimed is not None
        assert claimed.finished() is None
        assert "damaged-1" in claimed.notices[0]
    finish(store, 1)
    assert store.problem(name(1)) is None
    assert torch.equal(store.weights(name(1))["large"], torch.ones(SIDE, SIDE))


@pytest.mark.parametrize("error", [errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP])
def test_where_files_have_one_name_each_stage_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise OSError(error, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    store = Store(tmp_path)
    finish(store, 1)
    finish(store, 2)
    assert store.problem(name(1)) is None
    assert torch.equal(store.weights(name(2))["large"], torch.ones(SIDE, SIDE))
    assert not list((tmp_path / tensors.TENSOR_INDEX).iterdir())


def test_a_file_that_another_process_prunes_before_it_is_linked_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    finish(store, 1)
    real, pruned = os.link, []

    def pruning(source: Path, target: Path) -> None:
        if source.parent.name == tensors.TENSOR_INDEX and source.name not in pruned:
            pruned.append(source.name)
            os.unlink(source)
        real(source, target)

    monkeypatch.setattr(os, "link", pruning)
    finish(store, 2)
    assert len(pruned) == 2, "the large tensor and the small ones"
    assert store.problem(name(2)) is None
    assert large_file(store, 2).samefile(tmp_path / tensors.TENSOR_INDEX / large_file(store, 2).name)


def test_of_two_processes_that_write_a_file_at_once_the_second_takes_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    real = tensors.publish

    def publish(path: Path, data: bytes) -> None:
        monkeypatch.setattr(tensors, "publish", real)
        finish(store, 1)
        real(path, data)

    monkeypatch.setattr(tensors, "publish", publish)
    finish(store, 2)
    for number in (1, 2):
        assert store.problem(name(number)) is None
        assert large_file(store, number).samefile(tmp_path / tensors.TENSOR_INDEX / large_file(store, number).name)


def test_a_full_disk_ends_the_stage_and_a_later_attempt_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    real = atomic.write_all

    def full(file: int, data: Any) -> None:
        if len(data) > 4 * SIDE**2:
            real(file, memoryview(data)[:5000])
            raise OSError(errno.ENOSPC, "no space left")
        real(file, data)

    monkeypatch.setattr(atomic, "write_all", full)
    with pytest.raises(OSError, match="no space"):
        finish(store, 1)
    assert store.status(name(1)) == "partial"
    assert not list(tmp_path.rglob(".*.tmp"))
    monkeypatch.undo()
    finish(store, 1)
    assert store.problem(name(1)) is None


def test_files_of_an_attempt_that_died_before_its_result_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)

    class Killed(BaseException):
        pass

    real = files.publish_json

    def die(path: Path, *rest: Any) -> None:
        if path.name == "result.json":
            raise Killed
        real(path, *rest)

    monkeypatch.setattr("headstart.store.claim.publish_json", die)
    with pytest.raises(Killed):
        finish(store, 1, backbone=5.0)
    left = large_file(store, 1)
    monkeypatch.undo()
    finish(store, 1)
    assert large_file(store, 1).name != left.name
    names = {path.name for path in (store.folder(name(1)) / tensors.FROZEN).iterdir()}
    assert {path.name for path in (tmp_path / tensors.TENSOR_INDEX).iterdir()} == names


def _finish_in_a_process(root: str, number: int, barrier: Any) -> None:
    barrier.wait()
    for backbone in range(6):
        finish(Store(root), 100 * number + backbone, float(backbone))


@pytest.mark.slow
def test_processes_that_write_the_same_content_at_once_both_hold_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=_finish_in_a_process, args=(str(tmp_path), n, barrier)) for n in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    store = Store(tmp_path)
    for number in (1, 2):
        for backbone in range(6):
            assert store.problem(name(100 * number + backbone)) is None
            assert float(store.weights(name(100 * number + backbone))["large"].mean()) == backbone
            assert large_file(store, 100 + backbone).samefile(large_file(store, 200 + backbone))


def test_a_result_of_an_older_store_is_read_and_a_newer_format_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.claim(name(1), DOCUMENT) as claimed:
        assert claimed is not None
        claimed.begin()
        weights = {"large": torch.ones(SIDE, SIDE)}
        assert claimed.finish({"status": "complete"}, weights, weights, {})["format"] == 1
    assert torch.equal(store.weights(name(1))["large"], weights["large"])
    path = store.folder(name(1)) / "result.json"
    files.publish_json(path, {"status": "complete"}, files.SHARING + 1)
    with pytest.raises(BadInput, match="format 3 is newer"):
        store.result(name(1))


@pytest.mark.slow
def test_a_table_of_forty_frozen_stages_takes_little_more_than_its_distinct_backbones(tmp_path: Path) -> None:
    class Planned:
        def __init__(self, spec: StageSpec) -> None:
            self.name, self.spec, self.identity = "frozen", spec, identity(spec, Path("none"))

    base: dict[str, Any] = {
        "task": MadeSpec(),
        "objective": {"kind": "classify"},
        "budget": {"epochs": 1},
        "model": {"width": 192, "blocks": 2, "mixer": {"kind": "attention"}},
        "trainable": "head",
    }
    rates = [1e-3 * 2**i for i in range(20)]
    stages = [
        Planned(read_stage({**merge(base, {"optim": {"lr": rate}}), "seed": seed})) for seed in (0, 1) for rate in rates
    ]
    events = list(perform(stages, Store(tmp_path), Runtime(data=tmp_path / "none")))
    assert sum(isinstance(event, Finished) for event in events) == 40
    whole = Store(tmp_path).weights(stages[0].identity)
    head = sum(value.nbytes for key, value in whole.items() if key.startswith("head."))
    backbone = sum(value.nbytes for value in whole.values()) - head
    trained = sum(path.stat().st_size for path in tmp_path.rglob("predictions.safetensors")) + 40 * 2 * (
        head + 2048
    )  # and the names of its tensors
    assert occupied(tmp_path) <= 1.2 * 2 * backbone + trained
