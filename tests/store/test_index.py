"""The index of finished stages: derived, never believed against the files, gone or damaged without harm."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.kept_store import STAGES, command, copied

import headstart
from headstart.store import Store, publish_json
from headstart.store.index import INDEX_FOLDER
from headstart.study.results.listing import stage_rows, states
from headstart.verbs import terminal


@pytest.fixture
def store(study: headstart.Study, tmp_path: Path) -> Store:
    """A copy of its store, whose index is there."""
    copy = copied(study, tmp_path)
    stage_rows(copy)
    assert (copy.root / INDEX_FOLDER).is_file()
    return copy


def without_index(store: Store) -> list[dict[str, Any]]:
    (store.root / INDEX_FOLDER).unlink(missing_ok=True)
    return stage_rows(store)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reads: list[str] = []
    real = Store.entry

    def entry(self: Store, identity: str) -> Any:
        reads.append(identity)
        return real(self, identity)

    monkeypatch.setattr(Store, "entry", entry)
    return reads


def change(store: Store, identity: str, value: float) -> None:
    """Another test score in a stage's result."""
    document = store.result(identity)
    assert document is not None
    document["scores"]["best"]["test"]["accuracy"] = value
    publish_json(store.folder(identity) / "result.json", document, document["format"])


def finetuned(study: headstart.Study) -> str:
    return study.plan.cells[0].chain[-1].identity


def test_a_listing_from_the_index_is_that_from_the_files_and_reads_no_stage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = count_reads(monkeypatch)
    rows = stage_rows(store)
    assert len(rows) == STAGES
    assert reads == []
    assert without_index(store) == rows
    assert sorted(reads) == store.names()
    day = str(rows[0]["date"])[:10]
    assert stage_rows(store, [f"date={day}"]) == [row for row in rows if str(row["date"]).startswith(day)] != []
    assert stage_rows(store, ["stage=pre*"]) == [row for row in rows if row["stage"] == "pretrain"]


def test_states_are_those_of_the_store(study: headstart.Study, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = count_reads(monkeypatch)
    names = [*study.plan.stages, "0" * 16]
    assert states(store, names) == {name: store.status(name) for name in names}
    assert "0" * 16 in reads


def test_a_result_that_is_another_file_is_read_again(
    study: headstart.Study, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = finetuned(study)
    change(store, name, 0.875)
    reads = count_reads(monkeypatch)
    assert next(row for row in stage_rows(store) if row["id"] == name)["test"] == 0.875
    assert reads == [name]


def test_a_stage_that_is_deleted_damaged_or_new_is_seen(study: headstart.Study, store: Store) -> None:
    first, second, third = store.names()[:3]
    for path in store.folder(first).rglob("*"):
        if path.is_file():
            path.unlink()
    (store.folder(second) / "result.json").write_bytes(b"{")
    (store.folder(third) / "result.json").unlink()
    rows = {row["id"]: row["state"] for row in stage_rows(store)}
    assert first not in rows
    assert (rows[second], rows[third]) == ("failed", "partial")
    assert rows == {row["id"]: row["state"] for row in without_index(store)}


@pytest.mark.parametrize("damage", ["empty", "cut", "digit", "form", "deep", "folder"])
def test_a_damaged_index_is_ignored_and_made_again(store: Store, damage: str) -> None:
    path, rows = store.root / INDEX_FOLDER, stage_rows(store)
    content = path.read_bytes()
    head, body = content.split(b"\n")
    changed = {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "digit": content.replace(b'"seed":0', b'"seed":7', 1),
        "form": json.dumps({**json.loads(head), "form": "id"}).encode() + b"\n" + body,
        "deep": b"[" * 100_000,
    }
    assert changed.get("digit") != content
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(changed[damage])
    assert stage_rows(store) == rows
    if damage != "folder":
        assert path.read_bytes() == content


def test_a_store_that_cannot_be_written_is_listed_without_an_index(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = stage_rows(store)
    (store.root / INDEX_FOLDER).unlink()

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "read-only")

    monkeypatch.setattr("headstart.store.index.publish", refuse)
    assert stage_rows(store) == rows
    assert not (store.root / INDEX_FOLDER).exists()


def _list_often(root: str, offset: int, study_stages: list[str], barrier: Any) -> None:
    store = Store(root)
    barrier.wait(60)
    for i in range(15):
        change(store, study_stages[(i + offset) % len(study_stages)], offset + i / 100)
        assert len(stage_rows(store)) == STAGES


def test_processes_that_write_the_index_at_once_leave_a_true_one(study: headstart.Study, store: Store) -> None:
    names = [cell.chain[-1].identity for cell in study.plan.cells]
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    halves = names[::2], names[1::2]
    workers = [
        context.Process(target=_list_often, args=(str(store.root), i, half, barrier)) for i, half in enumerate(halves)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    rows = stage_rows(store)
    assert rows == without_index(store)
    assert not list(store.root.glob(".*.tmp"))


def test_the_dry_run_of_finished_stages_says_so_from_the_index(
    study: headstart.Study, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", study.source, "--dry-run", "--store", store.root) == 0
    with_it = capsys.readouterr().out
    assert f"{STAGES} finished" in with_it
    os.unlink(store.root / INDEX_FOLDER)
    assert command("run", study.source, "--dry-run", "--store", store.root) == 0
    assert f"{STAGES} finished" in capsys.readouterr().out


def test_a_very_long_table_has_a_line_for_each_row_and_the_same_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = ["name", "number", "what stands last"]
    rows = [[f"row-{i}", 10**i, "a word or two\nand more"] for i in range(8)]
    words = []
    for many in (8, 7):
        monkeypatch.setattr(terminal, "FRAMED_ROWS", many)
        terminal.console().print(terminal.table(heads, rows, right=(1,)))
        lines = capsys.readouterr().out.splitlines()
        words.append([word for line in lines for word in line.split() if not word.startswith("\u2500")])
    assert words[0] == words[1]
    assert len(lines) == 1 + len(rows)
    ends = [
        line.index(text) + len(text)
        for line, text in zip(lines, ["number", *(str(10**i) for i in range(8))], strict=True)
    ]
    assert len(set(ends)) == 1, "numbers end in one column"


@pytest.mark.parametrize("many", [2, 9])
def test_a_narrow_terminal_is_told_which_columns_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], many: int
) -> None:
    monkeypatch.setattr(terminal, "console", lambda: Console(width=30))
    monkeypatch.setattr(terminal, "FRAMED_ROWS", many)
    terminal.console().print(terminal.table(["name", "score", "note"], [["a" * 12, "0.5", "b" * 12]] * 3))
    text = capsys.readouterr().out
    assert "Left out in 30 columns: note." in " ".join(text.split())
    assert "b" * 12 not in text
