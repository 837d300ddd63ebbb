"""Studies with code of a person's own: what runs is what was hashed, and a stage says what it was made with."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.command import command
from support.own_code import (
    EXAMPLE,
    HELPED,
    LISTOPS,
    MIXER,
    MODEL,
    OBJECTIVE,
    REGISTERED,
    TASK,
    Cells,
    clean_process,
    study,
)
from support.own_code import headstart as main_verb

import headstart
from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.models.model import ModelSpec
from headstart.plugins.load import load_plugin
from headstart.runner.events import Failed, Finished, Started
from headstart.spec import read
from headstart.store import Store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with clean_process():
        yield tmp_path


def result_of(bound: headstart.Study) -> dict[str, Any]:
    (identity,) = bound.plan.stages
    result = bound.store.result(identity)
    assert result is not None
    return result


def test_an_edit_while_workers_start_fails_the_stage_in_words(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    bound = headstart.Study(study(), plugins=["my_mixer.py"])
    (folder / "my_mixer.py").write_text(REGISTERED.replace("FACTOR = 1.0", "FACTOR = 2.0"))
    (event,) = [event for event in bound.perform(workers=1) if isinstance(event, (Failed, Finished))]
    assert isinstance(event, Failed)
    assert event.message == "my_mixer.py has changed since this run began; give the command again"
    assert bound.store.status(event.identity) == "failed"
    assert "has changed" in bound.store.entry(event.identity).message


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_edit_between_two_stages_is_seen_by_who_runs_them(folder: Path, workers: int) -> None:
    (folder / "my_mixer.py").write_text(HELPED)
    (folder / "my_factor.py").write_text("FACTOR = 1.0\n")
    bound = headstart.Study(study(axes={"seed": [0, 1]}), plugins=["my_mixer.py"])
    ends = []
    for event in bound.perform(workers=workers):
        if isinstance(event, Started):
            (folder / "my_factor.py").write_text("FACTOR = 2.0\n")
        if isinstance(event, (Failed, Finished)):
            ends.append(event)
    assert [type(end) for end in ends] == [Finished, Failed]
    assert isinstance(ends[1], Failed)
    assert ends[1].message == "my_factor.py has changed since this run began; give the command again"
    (folder / "my_factor.py").write_text("FACTOR = 1.0  # as it was\n")
    assert [type(e) for e in bound.perform(workers=workers) if not isinstance(e, Started)][-1] is Finished


def test_a_notebook_that_edits_and_runs_again_runs_the_new_code(folder: Path) -> None:
    path = folder / "my_mixer.py"
    path.write_text(HELPED)
    helper = folder / "my_factor.py"
    helper.write_text("FACTOR = 1.0\n")
    first = headstart.Study(study(), plugins=["my_mixer.py"])
    list(first.perform())
    stamp = helper.stat()
    helper.write_text("FACTOR = 9.0\n")
    os.utime(helper, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # the same size and time: caches see no change
    second = headstart.Study(study(), plugins=["my_mixer.py"])
    list(second.perform())
    assert set(first.plan.stages) != set(second.plan.stages)
    assert result_of(first)["scores"] != result_of(second)["scores"]
    helper.write_text("FACTOR = 1.0\n")
    assert set(headstart.Study(study(), plugins=["my_mixer.py"]).plan.stages) == set(first.plan.stages)


def test_an_older_study_runs_its_own_code_or_none(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    first = headstart.Study(study(), plugins=["my_mixer.py"])
    (folder / "my_mixer.py").write_text(REGISTERED.replace("FACTOR = 1.0", "FACTOR = 2.0"))
    headstart.Study(study(), plugins=["my_mixer.py"])
    (event,) = [event for event in first.perform() if isinstance(event, (Failed, Finished))]
    assert isinstance(event, Failed)
    (folder / "my_mixer.py").write_text(REGISTERED)
    assert isinstance(list(first.perform())[-1], Finished)


def test_what_python_had_imported_before_does_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "my_factor.py").write_text("FACTOR = 1.0\n")
    __import__("my_factor")
    (folder / "my_factor.py").write_text("FACTOR = 9.0\n")
    (folder / "my_mixer.py").write_text(HELPED)
    load_plugin("my_mixer.py")
    assert sys.modules["my_mixer"].FACTOR == 9.0


def test_a_module_imported_late_is_the_one_that_was_hashed(folder: Path) -> None:
    late = HELPED.replace("from my_factor import FACTOR", "").replace(
        "return FACTOR *", "from my_factor import FACTOR\n        return FACTOR *"
    )
    (folder / "my_mixer.py").write_text(late)
    (folder / "my_factor.py").write_text("FACTOR = 1.0\n")
    load_plugin("my_mixer.py")
    (folder / "my_factor.py").write_text("FACTOR = 9.0\n")
    assert __import__("my_factor").FACTOR == 1.0


def test_an_import_that_its_text_does_not_show_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    hidden = "import importlib\nFACTOR = getattr(importlib, 'import_' + 'module')('my_factor').FACTOR"
    (folder / "my_mixer.py").write_text(REGISTERED.replace("FACTOR = 1.0", hidden))
    (folder / "my_factor.py").write_text("FACTOR = 1.0\n")
    with pytest.raises(BadInput, match="imports my_factor in a way that its text does not show"):
        load_plugin("my_mixer.py")


def test_a_helper_that_another_plugin_has_imported_counts(folder: Path) -> None:
    (folder / "other.py").write_text(HELPED.replace("scale", "other"))
    (folder / "my_mixer.py").write_text(HELPED)
    losses = {}
    for factor in (1.0, 9.0):
        (folder / "my_factor.py").write_text(f"FACTOR = {factor}\n")
        bound = headstart.Study(study(), plugins=["other.py", "my_mixer.py"])
        list(bound.perform())
        (identity,) = bound.plan.stages
        losses[identity] = result_of(bound)["scores"]["best"]["val"]["loss"]
    assert len(losses) == len(set(losses.values())) == 2


def test_each_of_two_folders_has_its_own_helper(folder: Path) -> None:
    late = HELPED.replace("from my_factor import FACTOR", "").replace(
        "return FACTOR *", "from my_factor import FACTOR\n        return FACTOR *"
    )
    for name, factor in (("first", 1.0), ("second", 9.0)):
        (folder / name).mkdir()
        (folder / name / f"{name}.py").write_text(late.replace("scale", name))
        (folder / name / "my_factor.py").write_text(f"FACTOR = {factor}\n")
    fresh = headstart.Study(study("first"), plugins=["first/first.py"], store="one")
    list(fresh.perform())
    headstart.Study(study("second"), plugins=["second/second.py"], store="two")
    again = headstart.Study(study("first"), plugins=["first/first.py"], store="two")
    list(again.perform())
    assert result_of(again)["scores"] == result_of(fresh)["scores"]


def test_the_identity_is_the_same_whatever_the_file_is_called_and_however_it_is_named(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    (folder / "yours.py").write_text("# A copy.\n" + REGISTERED)
    plain = set(headstart.Study(study(), plugins=["my_mixer.py"]).plan.stages)
    assert set(headstart.Study(study(), plugins=["yours.py"]).plan.stages) == plain
    assert set(headstart.Study(study(), plugins=[folder / "my_mixer.py"]).plan.stages) == plain
    assert set(headstart.Study(study(), plugins=["my_mixer"]).plan.stages) == plain
    twin = headstart.Study(study("attention"), mixer="my_mixer:ScaleSpec")
    assert plain < set(twin.plan.stages)


def test_a_file_whose_name_is_no_word_of_python_is_a_plugin(folder: Path) -> None:
    (folder / "my-mixer.v2.py").write_text(REGISTERED)
    bound = headstart.Study(study(), plugins=["my-mixer.v2.py"])
    assert isinstance(list(bound.perform())[-1], Finished)


def test_stages_of_kinds_that_come_with_headstart_keep_their_identity(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    before = set(headstart.Study(study("attention")).plan.stages)
    assert set(headstart.Study(study("attention"), plugins=["my_mixer.py"]).plan.stages) == before


def test_the_source_is_kept_with_the_stage_and_never_run_from_there(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(HELPED)
    (folder / "my_factor.py").write_text("FACTOR = 1.0\n")
    bound = headstart.Study(study(), plugins=["my_mixer.py"])
    list(bound.perform())
    (identity,) = bound.plan.stages
    result = result_of(bound)
    assert {"source/my_mixer.py", "source/my_factor.py"} <= set(result["files"])
    assert (folder / "runs" / identity / "source" / "my_mixer.py").read_text() == HELPED
    (recorded,) = result["provenance"]["plugins"]
    assert recorded["digest"] == bound.plan.plugins[0].digest
    assert recorded["packages"]["torch"]
    shown = command("show", identity).stdout
    assert f"plugin   my_mixer {recorded['digest']}" in shown
    assert f"runs/{identity}/source" in shown
    with clean_process():
        pass
    with pytest.raises(BadInput, match=rf"stage {identity}: the plugin my_mixer \(digest {recorded['digest']}\)"):
        headstart.load(identity)
    assert "my_mixer" not in sys.modules
    model = headstart.load(identity, plugins=["my_mixer.py"])
    assert type(model.blocks[0].mixer).__name__ == "Scale"  # type: ignore[union-attr, index]
    (folder / "my_factor.py").write_text("FACTOR = 2.0\n")
    with pytest.raises(BadInput, match="its code differs"):
        headstart.load(identity, plugins=["my_mixer.py"])


def test_a_damaged_source_is_damage_of_the_stage(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    bound = headstart.Study(study(), plugins=["my_mixer.py"])
    list(bound.perform())
    (identity,) = bound.plan.stages
    (folder / "runs" / identity / "source" / "my_mixer.py").write_text("X = 1\n")
    assert "its digest does not fit" in str(Store("runs").problem(identity))


def test_a_task_and_an_objective_of_ones_own_stand_in_a_study_like_others(folder: Path) -> None:
    (folder / "my_task.py").write_text(TASK)
    (folder / "my_loss.py").write_text(OBJECTIVE)
    (folder / "my_mixer.py").write_text(REGISTERED)
    table = study(task={"kind": "signs", "length": 4}, axes={"finetune.objective.weight": [1.0, 3.0]})
    table["stages"]["finetune"]["objective"] = {"kind": "sure"}
    table["arms"] = {"plain": {}, "twice": {"model": {"mixer": {"kind": "scale", "by": 2.0}}}}
    results = headstart.run(table, plugins=["my_task.py", "my_loss.py", "my_mixer.py"])
    assert len(results.table) == 2
    bound = headstart.Study(table, plugins=["my_task.py", "my_loss.py", "my_mixer.py"])
    before = set(bound.plan.stages)
    assert bound.spec.requires.keys() == {"my_task", "my_loss", "my_mixer"}
    (folder / "my_task.py").write_text(TASK.replace("SIZE = 32", "SIZE = 24"))
    again = headstart.Study(table, plugins=["my_task.py", "my_loss.py", "my_mixer.py"])
    assert not before & set(again.plan.stages)
    list(again.perform())
    assert again.plan.cells[0].chain[0].spec.task.load(folder).train.units == 24


def test_a_model_of_ones_own_is_an_arm_and_a_baseline_beside_it_gets_no_twin(folder: Path) -> None:
    (folder / "my_model.py").write_text(MODEL)
    (folder / "my_mixer.py").write_text(MIXER)
    table = study("attention", arms={"mine": {}, "network": {}})
    table["columns"]["c"] = {"task": LISTOPS}
    table["arms"] = {"mine": {"model": {"kind": "shares"}}, "network": {"model": {"width": 8, "blocks": 1}}}
    bound = headstart.Study(table, plugins=["my_model.py"], mixer="my_mixer:ScaleSpec")
    assert list(bound.spec.arms) == ["mine", "network", "network with scale"]
    assert [type(event) for event in bound.perform() if isinstance(event, (Failed, Finished))] == [Finished] * 3
    first = next(cell for cell in bound.plan.cells if cell.arm == "mine").chain[0].identity
    result = bound.store.result(first)
    assert result is not None
    assert "source/my_model.py" in result["files"]
    (folder / "my_model.py").write_text(MODEL + "X = 1\n")
    again = headstart.Study(table, plugins=["my_model.py"])
    assert first not in again.plan.stages


def test_a_class_is_named_on_the_command_line_or_in_python_and_never_in_a_file(folder: Path) -> None:
    (folder / "my_task.py").write_text(TASK.replace("\nheadstart.register", "\n# headstart.register"))
    by_class = headstart.Study(study("attention", task={"kind": "my_task:SignsSpec", "length": 4}))
    words = headstart.Study(study("attention"), ['task={kind="my_task:SignsSpec", length=4}'])
    study_of_mine = headstart.Study(study("attention", task={}), ["task.kind=my_task:SignsSpec", "task.length=4"])
    assert set(by_class.plan.stages) == set(words.plan.stages) == set(study_of_mine.plan.stages)
    with clean_process():
        pass
    text = """name = "x"
    [stages.s]
    objective = { kind = "classify" }
    budget = { steps = 1 }
    [columns.c]
    task = { kind = "my_task:SignsSpec" }
    [arms.a]
    """
    (folder / "x.toml").write_text(text)
    with pytest.raises(BadInput, match="'my_task:SignsSpec' names code, which only the command line and Python may"):
        headstart.Study("x.toml")
    assert "my_task" not in sys.modules


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("", ""), ""),
        (('register_mixer("scale"', 'register_mixer("attention"'), "names no kind 'attention'"),
        (('Literal["scale"] = "scale"', 'Literal["s4"] = "s4"'), "names no kind 'scale'"),
        (('"scale"', '"s4"'), "'s4' is a mixer of headstart's own; give yours another name"),
        (("register_mixer", "register_task"), "ScaleSpec is not a subclass of TaskSpec"),
        (("register_mixer", "register_task"), "my_mixer.py, line "),
        (("ScaleSpec)\n", "3)\n"), "register_mixer: 3 is not a class; write a subclass of headstart"),
        (('headstart.register_mixer("scale", ScaleSpec)', ""), "my_mixer.py registers nothing"),
        (("FACTOR = 1.0", "FACTOR = 1.0 / 0"), "my_mixer.py, line 32: ZeroDivisionError"),
        (("FACTOR = 1.0", "raise SystemExit(3)"), "my_mixer.py, line 32: ends the process; let a plugin register"),
        (("FACTOR = 1.0", "import not_there_at_all"), "my_mixer.py cannot be imported: No module named"),
        (("ScaleSpec)\n", "MixerSpec)\n"), "is defined in headstart.models.mixers.mixer, which is not part of"),
    ],
)
def test_what_a_plugin_may_not_do_is_said(folder: Path, change: tuple[str, str], message: str) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED.replace(*change))
    if not message:
        headstart.Study(study(), plugins=["my_mixer.py"])
        return
    before = dict(MIXERS)
    with pytest.raises(BadInput) as error:
        headstart.Study(study(), plugins=["my_mixer.py"])
    assert message in str(error.value)
    assert before == MIXERS


def test_two_plugins_with_one_kind_or_one_module_are_refused(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    (folder / "other.py").write_text(REGISTERED + "X = 1\n")
    with pytest.raises(BadInput, match="'scale' is registered by my_mixer:ScaleSpec and by other:ScaleSpec"):
        headstart.Study(study(), plugins=["my_mixer.py", "other.py"])
    (folder / "a").mkdir()
    (folder / "a" / "my_mixer.py").write_text(REGISTERED.replace('"scale"', '"scale2"'))
    with pytest.raises(BadInput, match="two plugins have a module 'my_mixer'"):
        headstart.Study(study(), plugins=["my_mixer.py", "a/my_mixer.py"])


def test_a_class_that_is_not_registered_is_refused(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    load_plugin("my_mixer.py")

    class Hidden(MIXERS["scale"].load()):  # type: ignore[misc]
        """A subclass, whose own code would not count."""

    with pytest.raises(BadInput, match="Hidden is not registered"):
        read(ModelSpec, {"mixer": Hidden()})


def test_a_plain_import_registers_what_stands_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "my_mixer.py").write_text(REGISTERED)
    __import__("my_mixer")
    first = headstart.Study(study())
    list(first.perform(workers=1))
    assert result_of(first)["status"] == "complete"
    (folder / "my_mixer.py").write_text(REGISTERED.replace("FACTOR = 1.0", "FACTOR = 9.0"))
    second = headstart.Study(study())
    list(second.perform())
    assert result_of(first)["scores"] != result_of(second)["scores"]


def test_a_class_of_a_notebook_counts_with_what_it_uses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = Cells(monkeypatch)
    cells.run("FACTOR = 1.0\n")
    cells.run(MIXER.replace("FACTOR = 1.0", ""))
    cells.run('import headstart\nheadstart.register_mixer("scale", ScaleSpec)\n')
    first = headstart.Study(study())
    list(first.perform())
    assert (
        "class ScaleSpec" in (folder / "runs" / next(iter(first.plan.stages)) / "source" / "ScaleSpec.py").read_text()
    )
    with pytest.raises(BadInput, match="--workers: ScaleSpec is defined in a notebook or script"):
        list(first.perform(workers=1))
    cells.run("FACTOR = 9.0\n")
    (event,) = [e for e in headstart.Study(study(axes={"seed": [5]})).perform() if isinstance(e, (Failed, Finished))]
    assert isinstance(event, Finished), "a new study has the identity of the cells as they are now"
    shutil.rmtree(folder / "runs")
    (event,) = [e for e in first.perform() if isinstance(e, (Failed, Finished))]
    assert isinstance(event, Failed), "the old one has not"
    assert "has changed since this run began" in event.message
    second = headstart.Study(study())
    assert set(first.plan.stages) != set(second.plan.stages)
    cells.run("import torch\nFACTOR = torch.Generator()\n")
    with pytest.raises(
        BadInput,
        match=r"Scale uses 'FACTOR', a Generator, whose content cannot be hashed; put the code into a file of its own",
    ):
        cells.run('headstart.register_mixer("scale", ScaleSpec)\n')


def test_a_class_without_source_is_refused(folder: Path) -> None:
    code = MIXER + '\nimport headstart\nheadstart.register_mixer("scale", ScaleSpec)\n'
    inner = f"import sys\ntry:\n    exec({code!r})\nexcept ValueError as error:\n    print(error)\n"
    program = [sys.executable, "-c", inner + code]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=folder)
    for text in (done.stdout, done.stderr):
        assert "the source of ScaleSpec cannot be had" in text, text


def test_ipython_keeps_the_source_of_cells(folder: Path) -> None:
    """In a real shell, in a process of its own."""
    pytest.importorskip("IPython")
    register = 'import headstart\nheadstart.register_mixer("scale", ScaleSpec)\n'
    code = (
        "import sys, types\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "sys.modules['__main__'] = shell.user_module\n"
        f"for cell in ({MIXER!r}, {register!r}):\n"
        "    shell.run_cell(cell).raise_error()\n"
        "from headstart.models.mixers import MIXERS\n"
        "print('digest', MIXERS['scale'].load().source_digest)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "IPYTHONDIR": str(folder)},
    )
    assert "digest " in done.stdout, done.stdout + done.stderr


STUDY = """
name = "mine"
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 2 }
optim = { batch_size = 8 }
[columns.c]
task = { kind = "listops", train = 24, val = 8, test = 8, min_length = 5, max_length = 12 }
model = { width = 8, blocks = 1 }
[arms.attention]
[arms.mine]
model = { mixer = { kind = "scale" } }
"""


@pytest.mark.slow
def test_the_page_of_a_study_says_what_it_needs_and_does_it_again(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    (folder / "mine.toml").write_text(STUDY)
    done = command("run", "mine.toml", "--plugin", "my_mixer.py", "--workers", "0")
    assert done.returncode == 0, done.stderr
    page = folder / "runs" / "reports" / "mine"
    line = "headstart run study.toml --plugin source/my_mixer.py"
    assert line in (page / "page.html").read_text()
    digest = json.loads((folder / "runs" / str(stage_with_plugin(folder)) / "stage.json").read_text())["plugins"]
    assert f'[requires]\nmy_mixer = "{digest["my_mixer"]}"' in (page / "study.toml").read_text()
    beside = command("compare", "runs/reports/mine", "mine.toml", "--plugin", "my_mixer.py")
    assert beside.returncode == 0, beside.stderr
    assert "mine" in beside.stdout
    os.environ.pop("HEADSTART_STORE", None)
    try:
        os.chdir(page)
        again = command(*line.split()[1:], "--dry-run")
        assert "7 finished" in again.stdout, again.stdout + again.stderr
        without = command("report", "study.toml")
        assert without.returncode == 2
        assert "requires.my_mixer: the plugin my_mixer (digest" in without.stderr
        assert "--plugin my_mixer.py" in without.stderr
        (page / "source" / "my_mixer.py").write_text(REGISTERED.replace("FACTOR = 1.0", "FACTOR = 2.0"))
        other = command("check", "study.toml", "--plugin", "source/my_mixer.py")
        assert other.returncode == 2
        assert "its code differs" in other.stderr
    finally:
        os.chdir(folder)


def stage_with_plugin(folder: Path) -> str:
    return next(path.parent.parent.name for path in (folder / "runs").glob("*/source/my_mixer.py"))


def test_check_and_bench_take_plugins(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED.replace("FACTOR * self.by * self.layer(x)", "self.layer(x)"))
    done = command("check", "--plugin", "my_mixer.py")
    assert "check: mixer 'scale' does not keep the contract" in done.stderr, done.stderr
    words = ["--mixers", "scale", "--lengths", "8", "--width", "8", "-o", "out", "--device", "cpu"]
    done = command("bench", "mixers", "--plugin", "my_mixer.py", *words)
    assert done.returncode == 0, done.stderr
    assert "scale" in (folder / "out" / "mixers.md").read_text()


def test_a_plugin_that_cannot_be_imported_or_is_named_without_its_option_says_the_way_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "my_task.py").write_text("from headstart.tasks import no_such_name\n")
    assert main_verb("check", "my_task") == 2
    assert "'my_task.py' is code; `headstart check --plugin my_task.py` checks" in capsys.readouterr().err
    assert main_verb("check", "--plugin", "my_task.py") == 2
    error = capsys.readouterr().err
    assert "my_task.py cannot be imported: cannot import name 'no_such_name'" in error
    assert "run from its folder" not in error


def test_twins_that_say_nothing_are_left_out_and_said(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(MIXER)
    bound = headstart.Study("digits", ["seed=[0]"], mixer="my_mixer:ScaleSpec")
    assert list(bound.spec.arms)[3:] == ["scratch with scale, sinusoidal", "self_pretrained with scale, sinusoidal"]
    (note,) = bound.notes
    assert note.startswith("the arm 'query_key with scale, sinusoidal' is left out: start: take(query_key): ")
    assert "selects nothing" in note
    twin = "scratch with scale, sinusoidal"
    chosen = headstart.Study("digits", ["seed=[0]", f'arms=["scratch", "{twin}"]'], mixer="my_mixer:ScaleSpec")
    assert list(chosen.spec.arms) == ["scratch", twin]
    relative = study("attention", arms={"a": {}})
    relative["columns"]["c"]["model"]["position"] = {"kind": "relative"}
    bound = headstart.Study(relative, mixer="my_mixer:ScaleSpec")
    assert list(bound.spec.arms) == ["a", "a with scale, sinusoidal"]
    table = study("attention", arms={"a": {}, "b": {"model": {"mixer": {"kind": "s4", "state": 4}}}})
    bound = headstart.Study(table, mixer="my_mixer:ScaleSpec")
    assert list(bound.spec.arms) == ["a", "b", "a with scale"]
    assert bound.notes == ["the arm 'b with scale' is left out: its stages are those of the arm 'a with scale'"]
    own = {**table, "arms": {**table["arms"], "mine": {"model": {"mixer": {"kind": "scale"}}}}}
    bound = headstart.Study(own, ['arms=["a with scale", "mine"]'], mixer="my_mixer:ScaleSpec")
    assert list(bound.spec.arms) == ["mine"], "an arm of the study stays, in whatever order arms are named"
    del table["arms"]["a"]
    table["arms"]["b"]["finetune"] = {"trainable": "query_key"}
    with pytest.raises(BadInput, match=r"arms: none is left: 'b with scale': trainable: 'query_key' selects nothing"):
        headstart.Study(table, ['arms=["b with scale"]'], mixer="my_mixer:ScaleSpec")


def test_a_single_plugin_and_a_single_override_need_no_list(folder: Path) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED)
    bound = headstart.Study(study(), "seed=[3]", plugins="my_mixer.py")
    assert [planned.spec.seed for planned in bound.plan.stages.values()] == [3]


@pytest.mark.parametrize(
    ("own", "kind", "message"),
    [
        (
            REGISTERED.replace("self.by * self.layer(x)", "self.by * torch.nn.functional.dropout(self.layer(x), 0.5)"),
            {"mixer": "scale"},
            r"model: Scale gives two answers for one batch; draw random numbers with `draw\(name, shape\)`",
        ),
        (
            REGISTERED.replace("self.by * self.layer(x)", "self.by * self.layer(x) * (2.0 if self.training else 1.0)"),
            {"mixer": "scale"},
            "model: Scale gives two answers for one batch",
        ),
        (
            OBJECTIVE.replace('sums["loss"]}', 'sums["loss"] + torch.rand(())}'),
            {"mixer": "attention", "objective": "sure"},
            "objective: SureSpec gives two values for one batch; make its random numbers from `seed`",
        ),
    ],
)
def test_random_numbers_that_no_seed_repeats_are_refused(
    folder: Path, own: str, kind: dict[str, str], message: str
) -> None:
    (folder / "mine.py").write_text(f"import torch\n{own}")
    table = study(kind["mixer"])
    table["stages"]["finetune"]["objective"]["kind"] = kind.get("objective", "classify")
    failed = [
        event
        for event in headstart.Study(table, plugins=["mine.py"], store=folder / "runs").perform(workers=0)
        if isinstance(event, Failed)
    ]
    assert len(failed) == 1
    assert re.search(message, failed[0].message)


HOLDERS = """from types import SimpleNamespace

FACTOR, SIZES, CONFIG = 1.0, {'k': 1.0}, SimpleNamespace(scale=1.0)


class Box:
    def __init__(self):
        self.scale = 1.0


class Outer:
    class Inner:
        SCALE = 1.0


def grow(by=1.0):
    return by * grow.scale


grow.scale = 1.0
BOX = Box()
"""


@pytest.mark.parametrize(
    "edit",
    [
        "FACTOR = 20.0",
        "Scale.forward = lambda self, x, valid, draw=None: 20.0 * x",
        "SIZES['k'] = 20.0",
        "SIZES = {}",
        "CONFIG.scale = 20.0",
        "BOX.scale = 20.0",
        "Outer.Inner.SCALE = 20.0",
        "grow.__defaults__ = (20.0,)",
        "grow.scale = 20.0",
    ],
)
def test_what_was_set_in_a_loaded_plugin_does_not_run_under_its_name(folder: Path, edit: str) -> None:
    source = REGISTERED.replace("FACTOR = 1.0", HOLDERS).replace(
        "FACTOR *", "FACTOR * SIZES['k'] * CONFIG.scale * BOX.scale * Outer.Inner.SCALE * grow() *"
    )
    (folder / "my_mixer.py").write_text(source)

    def loss(store: str) -> Any:
        bound = headstart.Study(study(), plugins=["my_mixer.py"], store=folder / store)
        list(bound.perform(workers=0))
        return result_of(bound)["scores"]["best"]["val"]["loss"]

    first = loss("first")
    exec(edit, sys.modules["my_mixer"].__dict__)  # noqa: S102
    assert loss("second") == first
    bound = headstart.Study(study(), plugins=["my_mixer.py"], store=folder / "third")
    exec(edit, sys.modules["my_mixer"].__dict__)  # noqa: S102
    list(bound.perform(workers=0))
    assert result_of(bound)["scores"]["best"]["val"]["loss"] == first


def test_a_plugin_that_changes_settings_of_torch_is_refused(folder: Path) -> None:
    before = torch.get_default_dtype()
    (folder / "my_mixer.py").write_text(REGISTERED + "import torch\ntorch.set_default_dtype(torch.float64)\n")
    try:
        with pytest.raises(
            BadInput, match=r"my_mixer\.py changes torch's default type of numbers .*their old identity"
        ):
            load_plugin("my_mixer.py")
    finally:
        torch.set_default_dtype(before)


def test_a_masked_objective_of_a_plugin_pretrains_a_module(folder: Path) -> None:
    (folder / "often.py").write_text(
        "from typing import Literal\nimport headstart\nfrom headstart.objectives import MaskedSpec\n"
        'class OftenSpec(MaskedSpec):\n    kind: Literal["often"] = "often"\n'
        'headstart.register_objective("often", OftenSpec)\n'
    )
    load_plugin("often.py")
    X = np.random.default_rng(0).normal(size=(24, 8, 2)).astype(np.float32)
    losses = []
    for objective in ("often", "masked"):
        torch.manual_seed(0)
        done = headstart.pretrain(
            torch.nn.Linear(2, 4), X[:16], X[16:], objective=objective, budget={"epochs": 2}, device="cpu"
        )
        losses.append(done.scores["loss"])
    assert losses[0] == losses[1]


def test_a_plugin_that_is_no_name_and_a_model_that_builds_nothing_are_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="3 is no name; give the path of a file"):
        headstart.run(study(), plugins=[3])  # type: ignore[list-item]
    head, _, rest = EXAMPLE.partition("    def build(self")
    (folder / "my_net.py").write_text(head + "\n\nclass ConvNet" + rest.partition("class ConvNet")[2])
    (folder / "nets.toml").write_text(
        STUDY.replace('model = { mixer = { kind = "scale" } }', 'model = { kind = "my_conv" }')
    )
    done = command("check", "nets.toml", "--plugin", "my_net.py")
    assert done.returncode == 2
    assert "'my_conv' builds nothing; give its class `build(signature)`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("by: float = 1.0", 'by: float = "x"'), "ScaleSpec.by: its default 'x' is not of the type"),
        (('"scale"', '"a b.c"'), "'a b.c' is not a name of a kind"),
        (("by: float = 1.0", "by: nn.Module = None"), "line 10: a field of this class is of the type .*Module'"),
        (("by: float = 1.0", "by: float = 1.0\0"), "my_mixer.py: .*source code .* null bytes"),
    ],
)
def test_a_spec_whose_defaults_do_not_fit_is_refused(folder: Path, change: tuple[str, str], message: str) -> None:
    (folder / "my_mixer.py").write_text(REGISTERED.replace(*change))
    with pytest.raises(BadInput, match=message):
        load_plugin("my_mixer.py")


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        (
            REGISTERED,
            ("width: int, length: int, causal: bool) -> nn.Module", "width) -> nn.Module"),
            "build of ScaleSpec does not take",
        ),
        (
            REGISTERED,
            ("return Scale(width, self.by)", "return None"),
            "build of ScaleSpec gives NoneType; return a torch nn.Module",
        ),
        (
            REGISTERED,
            ("return 2.0 * length * width**2", "return None"),
            "flops of ScaleSpec gives None; return the FLOPs",
        ),
        (REGISTERED, ("return 2.0 * length * width**2", "return -1"), "flops of ScaleSpec gives -1; return the FLOPs"),
        (
            TASK,
            ("return Task(Signature", "return dict(s=Signature"),
            "load of SignsSpec gives dict; return a headstart.tasks.Task",
        ),
        (TASK, ("def load(self, data: Path)", "def load(self)"), "load of SignsSpec does not take"),
    ],
)
def test_a_class_that_headstart_cannot_call_is_refused_in_words(
    folder: Path, capsys: pytest.CaptureFixture[str], source: str, change: tuple[str, str], message: str
) -> None:
    assert change[0] in source
    (folder / "mine.py").write_text(source.replace(*change))
    table = study() if source is REGISTERED else {**study(), "columns": {"signs": {"task": {"kind": "signs"}}}}
    if source is TASK:
        table["columns"]["signs"]["model"] = {"width": 8, "blocks": 1}
    with pytest.raises(BadInput) as error:
        list(headstart.Study(table, plugins=["mine.py"]).survey())
    assert message in str(error.value)
