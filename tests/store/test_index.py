"""The index of finished stages: derived, never believed against the files, gone or damaged without harm."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from support.kept_store import STAGES, command, copied, make_store

import headstart
from headstart.store import Store, publish_json
from headstart.store.index import INDEX
from headstart.study.listing import KEPT, PLANS, stage_rows, states
from headstart.verbs import terminal


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> headstart.Study:
    return make_store(tmp_path_factory.mktemp("index"))


@pytest.fixture
def store(study: headstart.Study, tmp_path: Path) -> Store:
    """A copy of its store, whose index is there."""
    copy = copied(study, tmp_path)
    stage_rows(copy)
    assert (copy.root / INDEX).is_file()
    return copy


def without_index(store: Store) -> list[dict[str, Any]]:
    (store.root / INDEX).unlink(missing_ok=True)
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
    path, rows = store.root / INDEX, stage_rows(store)
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
    (store.root / INDEX).unlink()

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "read-only")

    monkeypatch.setattr("headstart.store.index.publish", refuse)
    assert stage_rows(store) == rows
    assert not (store.root / INDEX).exists()


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
    os.unlink(store.root / INDEX)
    assert command("run", study.source, "--dry-run", "--store", store.root) == 0
    assert f"{STAGES} finished" in capsys.readouterr().out


def dry_run(store: Store, source: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `run --dry-run` prints."""
    assert command("run", source, *words, "--dry-run", "--store", store.root) == 0
    return capsys.readouterr().out


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the studies that are planned from now on."""
    names: list[str] = []
    real = headstart.Study._planned

    def counted(self: headstart.Study, *arguments: Any) -> Any:
        names.append(self.source)
        return real(self, *arguments)

    monkeypatch.setattr(headstart.Study, "_planned", counted)
    return names


def test_a_finished_plan_is_printed_again_without_planning(
    store: Store, study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], planned: list[str]
) -> None:
    source = shutil.copy(study.source, tmp_path / "kept.toml")
    first = dry_run(store, source, capsys)
    assert dry_run(store, source, capsys) == first
    assert len(planned) == 1
    program = "import sys; from headstart.cli import main; code = main(sys.argv[1:]); assert 'torch' not in sys.modules"
    words = ["run", source, "--dry-run", "--store", str(store.root)]
    done = subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True, text=True)
    assert f"{STAGES} distinct stages, {STAGES} finished" in done.stdout


@pytest.mark.parametrize(
    "change_of", ["study", "base", "override", "stage", "environment", "data", "package", "damage"]
)
def test_a_kept_plan_is_not_printed_once_anything_that_it_was_made_of_has_changed(
    store: Store,
    study: headstart.Study,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    planned: list[str],
    change_of: str,
) -> None:
    base, words, file = tmp_path / "base.toml", list[str](), tmp_path / "kept.toml"
    base.write_text(Path(study.source).read_text())
    file.write_text('extends = "base.toml"\nname = "kept"\n')
    dry_run(store, str(file), capsys)
    dry_run(store, str(file), capsys)
    assert len(planned) == 1
    if change_of in ("study", "base"):
        path = file if change_of == "study" else base
        path.write_text(path.read_text() + "# read again\n")
    elif change_of == "override":
        words = ["seed=0"]
    elif change_of == "stage":
        shutil.rmtree(store.folder(finetuned(study)))
    elif change_of == "environment":
        monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path))
    elif change_of == "data":
        words = ["--data", str(tmp_path)]
    elif change_of == "package":
        monkeypatch.setattr("headstart.study.listing.stamps", lambda files: [(str(path), 0, 0) for path in files])
    else:
        (store.root / PLANS).write_bytes((store.root / PLANS).read_bytes().replace(b"complete", b"absent!!"))
    text = dry_run(store, str(file), capsys, *words)
    assert len(planned) == 2
    assert f"{STAGES - (change_of == 'stage')} finished" in text


def test_a_plan_is_kept_only_where_files_alone_decide_it(
    store: Store, study: headstart.Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], planned: list[str]
) -> None:
    unfinished, like = tmp_path / "unfinished.toml", tmp_path / "like.toml"
    text = Path(study.source).read_text()
    unfinished.write_text(text.replace("1e-3, 3e-3", "1e-3, 2e-3"))
    like.write_text(text + "# like = weights that are elsewhere\n")
    for source in (unfinished, unfinished, like, like):
        dry_run(store, str(source), capsys)
    assert len(planned) == 4
    assert not (store.root / PLANS).exists()
    for count in range(KEPT + 2):  # the last ones are kept
        dry_run(store, study.source, capsys, "seed=0", "--threads", str(count + 1))
    assert len(json.loads((store.root / PLANS).read_bytes().split(b"\n")[1])) == KEPT


def test_the_plan_of_a_study_that_reads_files_is_kept_until_they_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], planned: list[str]
) -> None:
    data, source = tmp_path / "signs.csv", tmp_path / "signs.toml"
    rows = [f"{'up' if i % 2 else 'down'},{i % 2},{1 - i % 2},{i % 3}" for i in range(60)]
    data.write_text("\n".join(["label,a,b,c", *rows]) + "\n")
    source.write_text(
        f"""
name = "signs"
[stages.finetune]
objective = {{ kind = "classify" }}
task = {{ kind = "own", file = "{data}", layout = {{ target = "label" }} }}
model = {{ width = 8, blocks = 1 }}
budget = {{ steps = 1 }}
[arms.scratch]
[report]
baselines = false
"""
    )
    store = Store(tmp_path / "runs")
    assert command("run", source, "--store", store.root, "--workers", "0") == 0
    capsys.readouterr()
    planned.clear()
    first = dry_run(store, str(source), capsys)
    assert "complete" in first
    assert dry_run(store, str(source), capsys) == first
    assert len(planned) == 1
    data.write_text(data.read_text().replace("up,1", "up,9", 1))
    assert "absent" in dry_run(store, str(source), capsys)
    assert len(planned) == 2


@pytest.mark.parametrize("width", [24, 80, 200])
@pytest.mark.parametrize(
    "cell", ["plain", "wide " * 30, "ü", "two\nlines", "[red]no markup[/red]", Text("styled", "red")]
)
def test_a_long_table_looks_as_a_short_one(monkeypatch: pytest.MonkeyPatch, width: int, cell: str | Text) -> None:
    heads = ["name", "number", "last"]
    rows = [[cell if i == 3 else f"row {i}", 10**i, "x" * i] for i in range(8)]

    def drawn() -> str:
        out = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, force_terminal=True)
        out.print(terminal.table(heads, rows, right=(1,)))
        return out.file.getvalue()  # type: ignore[attr-defined]

    by_rich = drawn()
    monkeypatch.setattr(terminal, "MANY", 2)
    assert drawn() == by_rich
