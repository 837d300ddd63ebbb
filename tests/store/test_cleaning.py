"""`store gc` removes what no study reaches, and nothing that a study, a process or the last day may still need."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from support.kept_store import STAGES, command, copied, tree

import headstart
from headstart.store import Store
from headstart.store.cleaning import read_contents
from headstart.store.files import damages

Output = pytest.CaptureFixture[str]


def of_arm(study: headstart.Study, arm: str) -> set[str]:
    return {planned.identity for cell in study.plan.cells if cell.arm == arm for planned in cell.chain}


def narrow(study: headstart.Study, folder: Path, arm: str) -> Path:
    """The study with one arm."""
    path = folder / f"{arm}.toml"
    lines = Path(study.source).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("[arms."))
    end = lines.index("[axes]")
    arms = "\n".join(lines[start:end]).split("[arms.")
    chosen = next(text for text in arms if text.startswith(f"{arm}]"))
    path.write_text("\n".join([*lines[:start], f"[arms.{chosen}", *lines[end:]]))
    return path


def test_nothing_is_removed_without_yes(study: headstart.Study, tmp_path: Path, capsys: Output) -> None:
    store = copied(study, tmp_path)
    before = tree(store.root)
    assert command("store", "gc", "--store", store.root) == 0
    out = capsys.readouterr().out
    assert f"nothing was removed; --yes removes {STAGES} folders" in out
    assert tree(store.root) == before


def test_what_a_named_study_reaches_stays_with_its_parents_and_the_rest_goes(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    before = tree(store.root)
    file = narrow(study, tmp_path, "frozen")
    assert command("store", "gc", file, "--yes", "--store", store.root) == 0
    stages = of_arm(study, "frozen")
    assert len(stages) == 3, "a parent and its two children"
    assert set(store.names()) == stages
    assert f"removed {STAGES - 3} folders" in capsys.readouterr().out
    after = tree(store.root)
    assert after == {name: content for name, content in before.items() if name.partition("/")[0] in stages}
    assert all(store.problem(name) is None for name in stages)


def test_what_it_says_it_frees_is_what_it_frees(study: headstart.Study, tmp_path: Path) -> None:
    store = copied(study, tmp_path)

    def occupied() -> int:
        stats = [path.stat() for path in store.root.rglob("*") if path.is_file() and ".locks" not in path.parts]
        return sum({stat.st_ino: stat.st_size for stat in stats}.values())

    contents = read_contents(store)
    drawn = sorted(of_arm(study, "drawn"))
    assert contents.freed(drawn[:1]) < contents.size(drawn[:1]), "the two share their frozen tensors"
    assert contents.freed(drawn) == contents.size(drawn)
    before = occupied()
    for names in (drawn[:1], drawn[1:]):
        expected = read_contents(store).freed(names)
        assert dict(read_contents(store).remove(names)) == {names[0]: ""}
        assert before - (before := occupied()) == expected
    assert not list((store.root / ".tensors").iterdir())


def test_a_page_of_the_store_keeps_its_stages_without_plan_and_data(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    assert command("report", study.source, "finetune.optim.lr=[1e-3]", "--store", store.root) == 0
    (report,) = (store.root / "reports").iterdir()
    (report / "study.toml").write_text("not TOML, and not needed")
    capsys.readouterr()
    assert command("store", "gc", "--yes", "--store", store.root) == 0
    assert f"reports/{report.name}" in capsys.readouterr().out
    assert set(store.names()) == {p.identity for p in study.plan.stages.values() if p.name == "pretrain"} | {
        cell.chain[-1].identity for cell in study.plan.cells if cell.settings["finetune.optim.lr"] == 1e-3
    }


def test_a_study_of_the_store_without_a_page_is_planned_or_nothing_is_removed(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    folder = store.root / "reports" / "mine"
    folder.mkdir(parents=True)
    shutil.copy(narrow(study, tmp_path, "scratch"), folder / "study.toml")
    assert command("store", "gc", "--store", store.root) == 0
    assert f"--yes removes {STAGES - 2} folders" in capsys.readouterr().out
    (folder / "study.toml").write_text("broken = ")
    before = tree(store.root)
    assert command("store", "gc", "--yes", "--store", store.root) == 2
    assert "which stages are its own is not known" in capsys.readouterr().err
    assert tree(store.root) == before


def test_a_stage_whose_data_are_absent_is_known_by_its_spec(tmp_path: Path, capsys: Output) -> None:
    table = tmp_path / "rows.csv"
    lines = [",".join([f"s{i}", "ab"[i % 2], *(f"{(i * j) % 7}.5" for j in range(6))]) for i in range(24)]
    table.write_text("\n".join(["id,label,t0,t1,t2,t3,t4,t5", *lines]))
    file = tmp_path / "own.toml"
    file.write_text(
        'name = "own"\n[stages.finetune]\nobjective = { kind = "classify" }\nbudget = { steps = 1 }\n'
        f'task = {{ kind = "own", file = "{table}" }}\nmodel = {{ width = 8, blocks = 1 }}\n[arms.scratch]\n'
        "[report]\nbaselines = false\n"
    )
    study = headstart.Study(str(file), store=tmp_path / "runs")
    list(study.perform())
    (name,) = study.store.names()
    table.rename(tmp_path / "elsewhere.csv")
    assert command("store", "gc", file, "--yes", "--store", study.store.root) == 0, capsys.readouterr().err
    assert study.store.names() == [name]


def partial(store: Store, number: int, parent: str | None = None) -> str:
    name = f"{number:016x}"
    with store.claim(name, {"name": "partial", "spec": {}, "parent": parent}) as claimed:
        assert claimed is not None
        claimed.begin()
    return name


def make_older(folder: Path, days: float = 2.0) -> None:
    then = time.time() - days * 86_400
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then))


def test_an_unfinished_stage_of_the_last_day_stays_with_its_parent_until_it_is_asked_for(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    parent = next(p.identity for p in study.plan.stages.values() if p.name == "pretrain")
    young, old = partial(store, 1, parent), partial(store, 2)
    make_older(store.folder(old))
    assert command("store", "gc", "--yes", "--store", store.root) == 0
    out = capsys.readouterr().out
    assert set(store.names()) == {young, parent}
    assert f"kept: {young}: partial, changed within the last day; --recent removes it too" in out
    assert f"kept: {parent}: a stage that is kept starts from it" in out
    assert command("store", "gc", "--yes", "--recent", "--store", store.root) == 0
    assert store.names() == []


def _hold(root: str, name: str, parent: str, ready: Any, done: Any) -> None:
    with Store(root).claim(name, {"name": "held", "spec": {}, "parent": parent}) as claimed:
        assert claimed is not None
        claimed.begin()
        ready.set()
        done.wait(60)


def test_a_stage_that_another_process_holds_stays_however_old_with_all_it_may_need(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    parent = next(p.identity for p in study.plan.stages.values() if p.name == "pretrain")
    old = sorted(of_arm(study, "drawn"))
    for name in old:
        make_older(store.folder(name))
    name = f"{7:016x}"
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(store.root), name, parent, ready, done))
    holder.start()
    try:
        assert ready.wait(60)
        make_older(store.folder(name))
        assert command("store", "gc", "--yes", "--recent", "--store", store.root) == 0
        out = capsys.readouterr().out
        assert f"kept: {name}: a process is at work on it" in out
        assert {name, parent} <= set(store.names())
        assert set(store.names()).isdisjoint(old)
        assert "finished within the last day while another stage runs" in out
        contents = read_contents(store)
        assert dict(contents.remove([name])) == {name: "a process is at work on it"}
    finally:
        done.set()
        holder.join(60)
    assert holder.exitcode == 0


def test_a_stage_that_changes_after_it_was_read_is_left(study: headstart.Study, tmp_path: Path) -> None:
    store = copied(study, tmp_path)
    name = store.names()[0]
    contents = read_contents(store)
    (store.folder(name) / "new").write_text("x")
    os.utime(store.folder(name), (time.time() + 5, time.time() + 5))
    assert dict(contents.remove([name])) == {name: "it has changed just now"}
    assert store.problem(name) is None


def test_a_removal_that_is_killed_leaves_no_stage_half_there(
    study: headstart.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    store = copied(study, tmp_path)

    class Killed(BaseException):
        pass

    real = shutil.rmtree

    def die(path: Path, *words: Any, **more: Any) -> None:
        if more.get("ignore_errors"):
            return real(path, *words, **more)
        (Path(path) / "best.safetensors").unlink()
        raise Killed

    monkeypatch.setattr(shutil, "rmtree", die)
    with pytest.raises(Killed):
        command("store", "gc", "--yes", "--store", store.root)
    monkeypatch.undo()
    assert len(store.names()) == STAGES - 1
    assert all(
        list(damages(store.folder(name))) == []
        for name in store.names()
        if "frozen weights" not in str(store.problem(name))
    )
    assert command("store", "gc", "--yes", "--store", store.root) == 0
    assert [path.name for path in store.root.iterdir() if not path.name.startswith((".locks", ".tensors"))] == []


def test_a_damaged_stage_that_was_set_aside_goes_and_a_damaged_one_that_is_needed_stops_it(
    study: headstart.Study, tmp_path: Path, capsys: Output
) -> None:
    store = copied(study, tmp_path)
    aside = store.root / f"{store.names()[0]}.damaged-1"
    shutil.copytree(store.folder(store.names()[0]), aside)
    assert command("store", "gc", study.source, "--yes", "--store", store.root) == 0
    assert not aside.exists()
    assert len(store.names()) == STAGES
    (store.folder(store.names()[0]) / "stage.json").write_bytes(b"{")
    capsys.readouterr()
    assert command("store", "gc", study.source, "--yes", "--store", store.root) == 2
    assert "what it rests on is not known" in capsys.readouterr().err


def test_the_demo_is_reached_at_every_scale_by_its_name(study: headstart.Study, tmp_path: Path, capsys: Output) -> None:
    store = copied(study, tmp_path)
    assert command("store", "gc", "coser-1", "--store", store.root) == 0
    assert "coser-1" in capsys.readouterr().out
    assert command("store", "gc", "few-labls", "--store", store.root) == 2
    assert "did you mean 'few-labels'" in capsys.readouterr().err


def test_an_empty_store_has_nothing_to_remove(tmp_path: Path, capsys: Output) -> None:
    assert command("store", "gc", "--yes", "--store", tmp_path / "none") == 0
    assert "removed 0 folders" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
