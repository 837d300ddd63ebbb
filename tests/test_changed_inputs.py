"""What a run rests on changes under it: data, a parent's weights, a result in another folder, a disk that fails."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from support.command import command

import headstart
from headstart.errors import Damaged
from headstart.runner.events import Failed, Notice, Skipped, Started
from headstart.runner.job import Runtime, close_tasks, training
from headstart.runner.perform import _jobs, perform
from headstart.runner.worker import perform_one
from headstart.store import files as store_files
from headstart.store.files import unseal
from headstart.training import optim
from headstart.verbs import run as verbs

STUDY: dict[str, Any] = {
    "name": "tiny",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 4}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 4}, "trainable": "head"},
    },
    "columns": {
        "digits": {
            "task": {"kind": "digits", "fraction": 0.1},
            "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
            "optim": {"batch_size": 16},
        }
    },
    "arms": {"frozen": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}},
    "axes": {"seed": [0]},
    "report": {"baselines": False},
}


def done(root: Path) -> tuple[headstart.Study, str, str]:
    """A finished run, with its report: the study, the parent's identity and the child's."""
    root.mkdir()
    file = root.parent / "tiny.toml"
    file.write_text(tomli_w.dumps(STUDY))
    assert answer("run", str(file), "--workers", "0", store=root)[0] == 0
    study = headstart.Study(STUDY, store=root)
    names = {planned.name: identity for identity, planned in study.plan.stages.items()}
    return study, names["pretrain"], names["finetune"]


def answer(*words: str, store: Path) -> tuple[int, str]:
    """Exit status of a command on a store, and all that it prints, on one line."""
    result = command(*words, "--store", str(store))
    return result.returncode, " ".join((result.stdout + result.stderr).split())


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def other_weights(study: headstart.Study, parent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train the parent again, to other numbers, as another kind of machine would."""
    spoil(study.store.folder(parent) / "last.safetensors")
    with monkeypatch.context() as patch:
        numbers = optim.step_numbers
        patch.setattr("headstart.training.loop.step_numbers", lambda *args: [1.01 * x for x in numbers(*args)])
        stages = [planned for planned in study.plan.stages.values() if planned.identity == parent]
        list(perform(stages, study.store, Runtime(study.data)))
    assert study.store.problem(parent) is None


def test_a_file_that_is_edited_after_the_plan_is_made_trains_nothing(tmp_path: Path) -> None:
    def table(first: str) -> None:
        rows = [f"{first if i % 2 else 'c'},{i % 7},{i % 5},{i % 3},{i}.5" for i in range(40)]
        (tmp_path / "my.csv").write_text("label,t0,t1,t2,t3\n" + "\n".join(rows) + "\n")

    task = {"kind": "own", "file": "my.csv"}
    columns = {"own": {**STUDY["columns"]["digits"], "task": task}}
    document = {**STUDY, "columns": columns, "arms": {"scratch": {}}}
    table("a")
    study = headstart.Study(document, store=tmp_path / "runs", data=tmp_path)
    stages = list(study.plan.stages.values())
    close_tasks()
    table("b")
    (event,) = [e for e in perform(stages, study.store, Runtime(tmp_path)) if isinstance(e, Failed)]
    assert event.message.startswith("the data of task 'own' have changed since this run began, and nothing was trained")
    assert study.store.result(event.identity) is None
    table("a")
    assert not [e for e in perform(stages, study.store, Runtime(tmp_path)) if isinstance(e, Failed)]


def test_a_child_whose_frozen_weights_were_trained_again_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, parent, child = done(tmp_path / "runs")
    before = study.store.weights(child)
    other_weights(study, parent, monkeypatch)
    why = study.store.problem(child)
    assert why is not None
    assert f"are those of stage {parent}, which has been trained again and has other weights now" in why
    assert list(store_files.damages(study.store.folder(child))) == [why]
    events = list(perform(study.plan.stages.values(), study.store, Runtime(study.data)))
    assert [type(e) for e in events if isinstance(e, (Skipped, Started))] == [Skipped, Started]
    after = study.store.weights(child)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert study.store.problem(child) is None


def test_a_packed_child_is_refused_where_its_parent_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, parent, child = done(tmp_path / "runs")
    file = study.store.root / "reports" / "tiny" / "study.toml"
    assert answer("store", "pack", str(file), "-o", str(tmp_path / "tiny.zip"), store=study.store.root)[0] == 0
    shutil.rmtree(study.store.folder(child))
    other_weights(study, parent, monkeypatch)
    _, text = answer("store", "unpack", str(tmp_path / "tiny.zip"), store=study.store.root)
    assert "has been trained again and has other weights now" in text
    assert not study.store.folder(child).exists()


def test_a_state_of_another_parents_child_is_not_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, parent, child = done(tmp_path / "runs")
    shutil.rmtree(study.store.folder(child))
    stages = [planned for planned in study.plan.stages.values() if planned.identity == child]
    asked = iter([None, None])
    (job,) = _jobs(stages, training(), study.data)
    runtime = Runtime(study.data, save_every=0.0)
    list(perform_one(job, study.store, runtime, training(), lambda: next(asked, "limit")))
    assert store_files.states(study.store.folder(child))
    other_weights(study, parent, monkeypatch)
    events = list(perform(stages, study.store, Runtime(study.data)))
    (start,) = [e for e in events if isinstance(e, Started)]
    assert start.step == 0
    texts = [e.text for e in events if isinstance(e, Notice)]
    assert f"{parent}, from which it starts, has been trained again and has other weights now" in texts[0]
    assert len(study.store.records(child)) == len({r["step"] for r in study.store.records(child)})


def test_a_state_that_cannot_be_read_just_now_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _, child = done(tmp_path / "runs")
    folder = study.store.folder(child)
    state = folder / "state-2.safetensors"
    (folder / "result.json").unlink()
    state.write_bytes((folder / "best.safetensors").read_bytes())
    opened = store_files.opened

    def failing(path: Path, **more: Any) -> Any:
        if path == state:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return opened(path, **more)

    monkeypatch.setattr(store_files, "opened", failing)
    events = list(perform(study.plan.stages.values(), study.store, Runtime(study.data)))
    (failed,) = [e for e in events if isinstance(e, Failed)]
    assert "Input/output error" in failed.message
    assert state.exists()


def test_too_little_memory_for_a_sound_file_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _, child = done(tmp_path / "runs")
    path = study.store.folder(child) / "best.safetensors"

    def load(data: bytes) -> Any:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("safetensors.torch.load", load)
    with pytest.raises(RuntimeError, match="allocate"):
        unseal(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(Damaged, match="cut short"):
        unseal(path)


def test_a_result_in_another_stages_folder_is_refused(tmp_path: Path) -> None:
    study, parent, child = done(tmp_path / "runs")
    first, second = (study.store.folder(identity) for identity in (parent, child))
    os.rename(first, tmp_path / "aside")
    os.rename(second, first)
    os.rename(tmp_path / "aside", second)
    text = study.store.problem(child)
    assert text is not None
    assert f"is the result of stage {parent}" in text
    with pytest.raises(Damaged, match=f"is the result of stage {parent}"):
        study.store.result(child)
    code, text = answer("report", str(study.store.root / "reports" / "tiny" / "study.toml"), store=study.store.root)
    assert code == 2
    assert text.count("is the result of stage") == 2


def test_records_of_a_finished_stage_are_those_that_it_wrote(tmp_path: Path) -> None:
    study, _, child = done(tmp_path / "runs")
    path = study.store.folder(child) / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "val": {"accuracy": 0.95}}) + "\n" for line in lines))
    with pytest.raises(Damaged, match=r"records.jsonl: its digest does not fit"):
        study.store.records(child)
    assert answer("show", child, store=study.store.root)[0] == 2


def test_an_output_never_replaces_what_is_read(tmp_path: Path) -> None:
    study, _, child = done(tmp_path / "runs")
    file, before = tmp_path / "tiny.toml", (tmp_path / "tiny.toml").read_bytes()
    best = study.store.folder(child) / "best.safetensors"
    for words, way in (
        (("report", str(file), "--json", str(file)), "--json: .* is a file that is read; name another one"),
        (("run", str(file), "--json", str(file)), "--json: .* is a file that is read"),
        (("store", "pack", str(file), "-o", str(file)), "-o: .* is a file that is read"),
        (("export", child, "-o", str(best)), "-o: .* would be written into the folder of a stage"),
    ):
        code, text = answer(*words, store=study.store.root)
        assert code == 2, words
        assert re.search(way, text), text
    assert file.read_bytes() == before
    assert study.store.problem(child) is None


@pytest.mark.slow
def test_an_output_replaces_what_headstart_wrote_and_nothing_else(tmp_path: Path) -> None:
    study, _, child = done(tmp_path / "runs")
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"of another program")
    file, notes, table = str(tmp_path / "tiny.toml"), tmp_path / "notes.md", tmp_path / "data.csv"
    notes.write_text("# My notes\n")
    table.write_text("x,label\n1,a\n")
    for words, way in (
        (
            ("report", file, "-o", str(notes)),
            "--out: .*notes.md' is there, and headstart did not write it; name another",
        ),
        (("report", file, "--tidy", str(table)), "--tidy: .*data.csv' is there, and headstart did not write it"),
        (("report", file, "--json", str(table)), "--json: .*data.csv' is there, and headstart did not write it"),
        (("export", "model", "--sklearn", str(table)), "--sklearn: .*data.csv' does not end in .skops"),
        (("export", child, "-o", str(weights)), "-o: .*w.safetensors' is there, and headstart did not write it"),
        (("store", "pack", file, "-o", str(table)), "-o: .*data.csv' is there, and headstart did not write it"),
        (("ls", "--json", str(table)), "--json: .*data.csv' is there, and headstart did not write it"),
        (
            ("report", file, "-o", str(table)),
            "--out: .*data.csv' is a file, or looks like the name of one; name a folder",
        ),
        (("report", file, "-o", "page.html"), "--out: 'page.html' is a file, or looks like the name of one"),
        (
            ("store", "unpack", str(tmp_path)),
            "store unpack: '.*' is a folder; name a file that `headstart store pack` wr",
        ),
    ):
        code, text = answer(*words, store=study.store.root)
        assert (code, bool(re.search(way, text))) == (2, True), text
    assert (notes.read_text(), table.read_text()) == ("# My notes\n", "x,label\n1,a\n")
    for _ in range(2):
        for tidy in ("t.csv", "t.parquet"):
            outputs = (("-o", "page.md"), ("--tidy", tidy), ("--json", "r.json"))
            options = [word for option, name in outputs for word in (option, str(tmp_path / name))]
            code, text = answer("report", file, *options, store=study.store.root)
            assert code == 0, text
    weights.unlink()
    for words in (("export", child, "-o", str(weights)), ("store", "pack", file, "-o", str(tmp_path / "t.pack"))):
        assert [answer(*words, store=study.store.root)[0] for _ in range(2)] == [0, 0]
    listing = str(tmp_path / "ls.json")
    for words in (("arm=nobody",), ("arm=nobody",), (), ()):
        assert answer("ls", *words, "--json", listing, store=study.store.root)[0] == 0


def test_stages_of_a_run_that_has_no_page_yet_are_not_cleaned_away(tmp_path: Path) -> None:
    study, parent, child = done(tmp_path / "runs")
    folder = study.store.root / "reports" / "tiny"
    for file in folder.iterdir():
        if file.name != "study.toml":
            file.unlink()
    for path in study.store.folder(parent).rglob("*"):
        os.utime(path, (0, 0))
    code, text = answer("store", "gc", "--yes", store=study.store.root)
    assert (code, "removed 0 folders" in text) == (0, True), text
    assert study.store.status(child) == study.store.status(parent) == "complete"


def test_a_run_writes_down_its_study_before_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = headstart.Study(STUDY, store=tmp_path / "runs")
    seen: list[bool] = []

    def trained(*_: Any, **__: Any) -> Iterator[Any]:
        seen.append((study.report_folder / "study.toml").is_file())
        yield from ()

    monkeypatch.setattr("headstart.api.perform", trained)
    verbs.run_study(study, Runtime(study.data))
    assert seen == [True]
