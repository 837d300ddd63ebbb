"""The command line as a person meets it: real processes, real answers, no traceback."""

import errno
import inspect
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
import typer
from support.command import command

from headstart import Study, __version__, run
from headstart.api import Ways
from headstart.atomic import writing
from headstart.cli import app
from headstart.errors import DiskFull
from headstart.verbs.options import (
    ArmOptions,
    FitOptions,
    LayoutOptions,
    RunOptions,
    StudyOptions,
    WorkOptions,
    as_words,
    option_name,
)
from headstart.verbs.terminal import print_error

TINY = """
name = "tiny"
[stages.pretrain]
objective = { kind = "masked" }
budget = { steps = 4 }
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 4 }
[columns.digits]
task = { kind = "digits", labelled = 100 }
model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }
[arms.scratch]
[arms.self_pretrained]
finetune = { parent = "pretrain", start = ["take(all-head)"] }
[axes]
"finetune.optim.lr" = [1e-3, 3e-3]
seed = [0, 1]
[report]
against = "scratch"
"""


def headstart(*words: str, cwd: Path, drawn: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"COLUMNS": "200", "HEADSTART_CACHE": str(cwd / "cache"), **environment}
    return command(*words, cwd=cwd, env={**os.environ, **environment}, drawn=drawn)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny study was performed."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.toml").write_text(TINY)
    done = headstart("run", "tiny.toml", "--workers", "0", "--json", "rows.json", cwd=folder, drawn=True)
    assert done.returncode == 0, done.stderr
    figures = [path for path in (folder / "runs" / "reports" / "tiny").rglob("*") if path.suffix in (".png", ".svg")]
    assert figures
    assert all(path.stat().st_size > 1_000 for path in figures)
    return folder


@pytest.mark.parametrize(
    ("numbers", "answer"),
    [
        ((0.5, 1.5, 2.25), "target     a number, 0.5 to 2.25"),
        ((10, 20, 40), "3 different whole numbers (10, 20, 40) in"),
    ],
    ids=["fractions", "gaps"],
)
def test_whether_a_target_is_a_class_is_answered_alike_everywhere(
    tmp_path: Path, numbers: tuple[float, ...], answer: str
) -> None:
    rows = [f"{numbers[i % 3]},{i * 7 % 11},{i * 5 % 13},{i}" for i in range(60)]
    (tmp_path / "f.csv").write_text("\n".join(["y,a,b,c", *rows]) + "\n")
    asks = "whole" in answer
    file = headstart("show", "f.csv", "--target", "y", cwd=tmp_path)
    assert answer in file.stdout
    fit = headstart("fit", "f.csv", "--target", "y", "--dry-run", "-o", "m", cwd=tmp_path)
    own = headstart("show", "own", "file=f.csv", "target=y", "--data", ".", cwd=tmp_path)
    assert (fit.returncode, own.returncode) == (2 * asks, 2 * asks), fit.stderr + own.stderr
    assert answer in (fit.stderr if asks else fit.stdout)
    assert answer in own.stderr if asks else "target     numbers" in own.stdout
    assert asks or 'task = { kind = "own", file = "f.csv", target = "y"' in own.stdout


def test_a_task_that_needs_a_file_is_shown_by_its_keys_until_the_file_is_named(tmp_path: Path) -> None:
    done = headstart("show", "own", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "`headstart show own file=...` also shows its splits, its labels and an example." in done.stdout
    assert "A file whose rows join train without their labels." in " ".join(done.stdout.split())
    lost = headstart("show", "own", "file=f.csv", cwd=tmp_path)
    assert lost.returncode == 2
    assert "f.csv" in lost.stderr


def test_a_file_of_code_is_checked_as_a_plugin(tmp_path: Path) -> None:
    done = headstart("check", "my_net.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "headstart: check: 'my_net.py' is code; `headstart check --plugin my_net.py` checks the kinds that it registers\n"
    )


@pytest.mark.slow
def test_a_run_whose_output_nobody_reads_trains_and_writes_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY.replace("[0, 1]", "[0]").replace("[1e-3, 3e-3]", "[1e-3]"))
    reader, writer = os.pipe()
    os.close(reader)
    for verb in (("run", "tiny.toml", "--workers", "0", "--json", "rows.json"), ("report", "tiny.toml")):
        done = subprocess.run(
            [sys.executable, "-m", "headstart", *verb],
            cwd=tmp_path,
            stdout=writer,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HEADSTART_CACHE": str(tmp_path / "cache")},
            check=False,
        )
        assert done.returncode == 0
        page = tmp_path / "runs" / "reports" / "tiny" / "page.html"
        assert page.is_file()
        page.unlink()
    assert json.loads((tmp_path / "rows.json").read_text())
    os.close(writer)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
def test_a_run_at_a_terminal_draws_its_progress_and_ends_with_the_table(tmp_path: Path) -> None:
    import pty

    (tmp_path / "tiny.toml").write_text(TINY)
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "headstart", "run", "tiny.toml", "seed=0", "--store", "runs", "--workers", "0"]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm-256color"}
    with subprocess.Popen(words, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as run:
        os.close(theirs)
        screen = b""
        try:
            while part := os.read(ours, 65536):
                screen += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
    text = screen.decode()
    assert run.returncode == 0, text
    assert "stages done" in text
    assert "\x1b[" in text
    assert "Traceback" not in text
    assert "self_pretrained" in text.rpartition("stages done")[2]


def test_the_verbs_are_those_that_were_decided() -> None:
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names == {
        "demo",
        "run",
        "report",
        "challenge",
        "compare",
        "fit",
        "predict",
        "export",
        "ls",
        "show",
        "check",
        "prepare",
        "schema",
        "slurm",
        "doctor",
        "bench",
        "store",
    }
    assert {verb for verb in options_of(typer.main.get_command(app)) if verb.startswith("store ")} == {
        "store gc",
        "store pack",
        "store unpack",
        "store verify",
    }


LAYOUT = (
    "--target --id --time-column --group --values --layout --kind --target-kind --na --delimiter --decimal --quote "
    "--encoding --skip --units-row --comment --thousands --time-format --label-from --padding --label-case "
    "--strand --window --step --window-label --rate --time-unit --sheet"
)
OPTIONS = {
    "demo": "--store --workers --threads --json",
    "run": "--dry-run --measure --workers --threads --device --stack --ranks --on --gpus-per-stage --store --data --json --tidy "
    "--figure-width --mixer --scale --pivot --track --serve",
    "report": "--store --data --json --tidy --figure-width --mixer --scale --checklist --neurips --from -o --out --pivot --pool",
    "fit": f"{LAYOUT} -o --out --val --test --unlabelled --time --seeds --folds --balanced --serve --split-seed --val-share "
    "--test-share --no-group --show-examples --dry-run --workers --threads --device --store --backbone --weights --memory",
    "compare": "--store --data --scale --plugin",
    "challenge": "--seeds --workers --threads --device --stack --store --data",
    "predict": f"{LAYOUT} -o --out --spans --use --memory",
    "export": "--onnx --use",
    "ls": "--store --data --json --plugin",
    "show": f"{LAYOUT} --json --store --data --plugin",
    "check": "--data --mixer --scale",
    "prepare": "--data --workers --list --clear",
    "bench mixers": "--mixers --mixer --lengths --width --batch --device --threads --limit -o --out",
    "store gc": "--yes --recent --store --data --plugin",
    "store pack": "-o --out --store --data --mixer --plugin --scale",
    "store unpack": "--store",
    "store verify": "--store",
    "schema": "--plugin",
    "slurm": "--nodes --cpus --gpus --time --partition --gpus-per-stage --workers --threads --store --data --mixer --scale",
    "doctor": "--store --data",
}
"""Options that a verb has at least (docs/decisions/0013-verbs-options-formats.md)."""


def options_of(command: Any, name: str = "") -> dict[str, set[str]]:
    if hasattr(command, "commands"):
        parts = (options_of(inner, f"{name} {word}".strip()) for word, inner in command.commands.items())
        return {verb: options for part in parts for verb, options in part.items()}
    return {name: {word for p in command.params if p.param_type_name == "option" for word in p.opts}}


def test_no_verb_has_lost_an_option() -> None:
    options = options_of(typer.main.get_command(app))
    assert {verb: lost for verb, words in OPTIONS.items() if (lost := set(words.split()) - options[verb])} == {}


def test_the_options_of_a_layout_and_of_a_fit_are_fields_of_their_specs() -> None:
    from headstart.data import LayoutSpec
    from headstart.request.settings import FitSettings

    layout = [field.name for field in fields(LayoutOptions)]
    assert set(layout) <= set(LayoutSpec.model_fields)
    assert [option_name(LayoutOptions, name) for name in layout] == LAYOUT.split()
    settings = {field.name: field.default for field in fields(FitSettings)}
    for field in (*fields(FitOptions), *fields(ArmOptions)):
        if field.name not in ("no_group", "time", "augment"):
            assert settings[field.name] == field.default, field.name


def test_the_command_line_and_python_perform_a_study_by_the_same_words() -> None:
    words = [field.name for field in fields(RunOptions)]
    assert words == [*Ways.__annotations__] == [*inspect.signature(Study.runtime).parameters][1:]
    with pytest.raises(TypeError, match="unexpected keyword argument 'wokers'"):
        run("digits", wokers=2)  # type: ignore[call-arg]


def test_options_are_written_as_they_are_read() -> None:
    words = as_words(StudyOptions(plugin=["a.py", "b"], scale="small"), WorkOptions(workers=0))
    assert words == ["--plugin", "a.py", "--plugin", "b", "--scale", "small", "--workers", "0", "--threads", "1"]


def test_run_prints_the_store_the_table_the_caveats_and_the_page(finished: Path) -> None:
    again = headstart("run", "tiny.toml", "--workers", "0", cwd=finished)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("store runs\n")
    assert "13 done before" in again.stdout, "ten of networks, three baselines"
    for word in ("scratch", "self_pretrained", "majority", "difference to scratch", "2 seeds"):
        assert word in again.stdout
    page = again.stdout.split("\npage ")[1].split("\n")[0]
    text = (finished / page).read_text("utf-8")
    assert "<html" in text
    assert "http-equiv" in text
    assert "<script" not in text


def test_json_rows_hold_what_they_promise(finished: Path) -> None:
    rows = json.loads((finished / "rows.json").read_text())["rows"]
    assert [(row["arm"], row["column"], row["n"]) for row in rows] == [
        ("scratch", "digits", 2),
        ("self_pretrained", "digits", 2),
    ]
    for row in rows:
        assert {
            "arm",
            "column",
            "chosen",
            "n",
            "val",
            "test",
            "sem",
            "difference",
            "interval",
            "budget",
            "stages",
        } <= set(row)
        assert row["test"] == pytest.approx(sum(entry["test"] for entry in row["seeds"].values()) / len(row["seeds"]))
        assert len(row["seeds"]) == row["n"]
        for stage in row["stages"]:
            assert (finished / "runs" / stage / "result.json").is_file()


def test_report_says_the_same_without_training(finished: Path) -> None:
    report = headstart("report", "tiny.toml", "--json", "again.json", cwd=finished)
    assert report.returncode == 0, report.stderr
    first, second = (json.loads((finished / name).read_text())["rows"] for name in ("rows.json", "again.json"))
    assert first == second


def test_ls_and_show_say_what_is_in_the_store(finished: Path) -> None:
    listed = headstart("ls", cwd=finished)
    assert listed.stdout.count("complete") == 13
    rows = json.loads((finished / "rows.json").read_text())["rows"]
    shown = headstart("show", rows[1]["stages"][-1][:10], cwd=finished)
    assert shown.returncode == 0, shown.stderr
    for word in ("complete", "finetune", "parent", "take(all-head)", "accuracy", "query_key"):
        assert word in shown.stdout
    records = [line for line in shown.stdout.splitlines() if line.count("accuracy") == line.count("loss") == 2]
    assert records, "train and val of each record"


def test_ls_filters_stages_by_arm_and_writes_them_as_json(finished: Path) -> None:
    done = headstart("ls", "arm=scratch", "rate=0.001", "--json", "-", cwd=finished)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["stage"], row["arm"], row["rate"]) for row in rows] == [("finetune", "scratch", 1e-3)] * 2
    assert {row["seed"] for row in rows} == {0, 1}
    assert all(row["metric"] == "accuracy" and row["date"] > "2026" and 0 <= row["test"] <= 1 for row in rows)
    pretrained = headstart("ls", "stages", "arm=self*", "stage=pre*", cwd=finished)
    assert pretrained.stdout.count("self_pretrained") == 2
    assert headstart("ls", "arm=nobody", cwd=finished).stdout == "store runs\nno stage fits\n"


@pytest.mark.parametrize("verbs", [[], ["bench"], ["store"]])
def test_without_a_verb_the_help_is_shown_as_it_is(tmp_path: Path, verbs: list[str]) -> None:
    done = headstart(*verbs, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: headstart")
    assert "headstart: " not in done.stderr


def test_an_option_of_one_value_is_given_once(tmp_path: Path) -> None:
    done = headstart("fit", "train.csv", "--target", "a", "--target=b", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "headstart: --target: is given 2 times; give it once\n")
    done = headstart("check", "--plugin", "a.py", "--plugin", "b.py", cwd=tmp_path)
    assert "times" not in done.stderr


def test_the_version_is_said(tmp_path: Path) -> None:
    done = headstart("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"headstart {__version__}\n")


def test_a_full_disk_is_no_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error(OSError(errno.ENOSPC, "No space left on device", "runs/x")) == 1
    assert print_error(OSError(errno.EACCES, "Permission denied", "runs/x")) == 2
    with pytest.raises(DiskFull, match=r"^x: the disk is full; make room, or name fold") as full, writing(Path("x")):
        raise OSError(errno.EDQUOT, "Disk quota exceeded", "x")
    assert print_error(full.value) == 1
    assert capsys.readouterr().err.startswith("headstart: runs/x: the disk is full; make room")
    assert print_error(ValueError("a fault of headstart's own")) is None


@pytest.mark.parametrize("words", [["--help"], ["ls"], ["show", "STAGE"]])
def test_quick_verbs_import_nothing_heavy(finished: Path, words: list[str]) -> None:
    stage = json.loads((finished / "rows.json").read_text())["rows"][0]["stages"][0]
    asked = [stage if word == "STAGE" else word for word in words]
    code = (
        "import sys; sys.argv = ['headstart', *sys.argv[1:]]\n"
        "from headstart.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "bad = {'torch', 'scipy', 'sklearn', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *asked], cwd=finished, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_folder_that_has_the_name_of_a_task_is_named_with_the_command_that_shows_it(tmp_path: Path) -> None:
    (tmp_path / "ucr" / "a").mkdir(parents=True)
    (tmp_path / "ucr" / "a" / "1.csv").write_text("time,x\n" + "".join(f"{i / 10},{i % 7}\n" for i in range(30)))
    assert "the folder or file of this name: headstart show ./ucr" in headstart("show", "ucr", cwd=tmp_path).stdout
    assert "a folder of tables" in headstart("show", "./ucr", cwd=tmp_path).stdout


def test_the_keys_of_a_table_and_of_a_kind_are_shown(tmp_path: Path) -> None:
    optim = headstart("show", "optim", cwd=tmp_path).stdout
    assert "weight_decay" in optim
    assert "number, at least 0" in optim
    kind = headstart("show", "classify", cwd=tmp_path).stdout
    assert 'objective = { kind = "classify" }' in kind
    assert "label_smoothing" in kind
    assert "did you mean 'optim'" in headstart("show", "optm", cwd=tmp_path).stderr


def test_the_checklist_is_filled_in_from_the_store(finished: Path) -> None:
    done = headstart("report", "tiny.toml", "--checklist", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (finished / "runs" / "reports" / "tiny" / "checklist.md").read_text()
    for text in (
        "digits (digits): 1,097 train (100 labelled), 200 val and 500 test.",
        "finetune.optim.lr: 0.001, 0.003; seed: 0, 1.",
        "How many configurations did each arm try?** scratch on digits 2; self\\_pretrained on digits 2.",
        "the best mean validation score over seeds",
        "8 (8 complete), seeds 0 and 1.",
        "How much compute?** 13 stages took ",
        "1 thread, float32.",
        "torch ",
        "| arm | column | runs | validation | test | difference to scratch |",
    ):
        assert text in done.stdout, text
    assert "Not recorded" not in done.stdout
    both = headstart("report", "tiny.toml", "--checklist", "--json", "x.json", cwd=finished)
    assert (both.returncode, (finished / "x.json").exists()) == (2, False)


def test_a_report_is_made_again_from_its_file_without_store_and_data(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_bytes((finished / "rows.json").read_bytes())
    done = headstart("report", "--from", "rows.json", "rows.json", "--out", "page.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = headstart("report", "tiny.toml", cwd=finished).stdout
    assert store.split("\n", 1)[1].rpartition("\npage ")[0] == done.stdout.rpartition("\npage ")[0]
    assert {path.name for path in tmp_path.iterdir()} == {"rows.json", "page.md", "page.json", "figures"}
    listed = headstart("report", "--from", "page.json", "--neurips", cwd=tmp_path)
    assert "How many runs are there?** 8 (8 complete), seeds 0 and 1." in listed.stdout


def test_a_pivot_shows_arms_by_columns_in_the_terminal_and_on_the_page(finished: Path) -> None:
    done = headstart("report", "tiny.toml", "report.choose=[]", "--pivot", "-o", "wide", cwd=finished)
    assert done.returncode == 0, done.stderr
    heads = next(line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["arm"])
    assert heads == ["arm", "digits", "lr=0.001", "digits", "lr=0.003"]
    assert "detectable" not in done.stdout.split("Bold: best of the column")[0]
    names = {path.name for path in (finished / "wide").iterdir()}
    assert {"pivot.md", "pivot.csv", "pivot.tex", "table.md"} <= names
    pivot = (finished / "wide" / "pivot.md").read_text()
    assert pivot in (finished / "wide" / "results.md").read_text()
    page = (finished / "wide" / "page.html").read_text()
    assert page.index("Bold: best of the column on validation") < page.index("Tried: settings per arm")
    assert 'class="num top"' in page
    for verb in ("run", "report"):
        refused = headstart(verb, "tiny.toml", "--pivot", cwd=finished)
        assert refused.returncode == 2
        assert "--pivot: study 'tiny' has one column, digits; leave --pivot out" in refused.stderr


def test_a_report_and_a_study_are_compared_and_two_stages_too(finished: Path) -> None:
    (finished / "wider.toml").write_text(TINY.replace("width = 8", "width = 12"))
    done = headstart("compare", "runs/reports/tiny", "wider.toml", cwd=finished)
    assert done.returncode == 0, done.stderr
    (width,) = [line.split() for line in done.stdout.splitlines() if "model.width" in line]
    assert width == ["columns.digits.model.width", "8", "12"]
    rows = json.loads((finished / "rows.json").read_text())["rows"]
    first, second = rows[0]["stages"][:2]
    stages = headstart("compare", first[:8], second[:8], cwd=finished)
    assert stages.returncode == 0, stages.stderr
    (seed,) = [line.split() for line in stages.stdout.splitlines() if line.strip().startswith("seed")]
    assert seed == ["seed", "0", "1"]
    assert "test accuracy, best weights" in stages.stdout
    mixed = headstart("compare", first, "wider.toml", cwd=finished)
    assert (mixed.returncode, mixed.stdout) == (2, "")
    assert f"compare: '{first}' is a stage and 'wider.toml' is none; name two stages, or two studies" in mixed.stderr


def test_the_same_seeds_of_two_machines_are_refused_when_joined_and_compared_side_by_side(finished: Path) -> None:
    document = json.loads((finished / "rows.json").read_text())
    document["machines"] = [{**machine, "machine": "another processor"} for machine in document["machines"]]
    for stage in document["stages"].values():
        if "accuracy" in stage.get("scores", {}).get("best", {}).get("test", {}):
            stage["scores"]["best"]["test"]["accuracy"] += 0.25
    (finished / "there.json").write_text(json.dumps(document))
    joined = headstart("report", "--from", "rows.json", "there.json", cwd=finished)
    assert joined.returncode == 2
    assert "`headstart compare rows.json there.json` shows what differs, and the machines" in " ".join(
        joined.stderr.split()
    )
    done = headstart("compare", "rows.json", "there.json", cwd=finished)
    assert done.returncode == 0, done.stderr
    (machines,) = [line for line in done.stdout.splitlines() if line.strip().startswith("machines")]
    assert machines.strip().endswith("[another processor]")
    (scratch,) = [
        line for line in done.stdout.splitlines() if line.split()[:2] == ["scratch", "digits"] and "±" in line
    ]
    assert "+0.250 on 2 of 2" in scratch


def test_a_dry_run_shows_stages_and_cost_and_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    done = headstart("run", "tiny.toml", "--dry-run", "seed=[5]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 runs, 8 distinct stages, 0 finished" in done.stdout, "5 of the arms and 3 baselines"
    assert all(f"baseline ({name})" in done.stdout for name in ("majority", "linear", "nearest"))
    assert "Times follow from FLOPs; --measure times" in done.stdout
    assert not (tmp_path / "runs").exists()
    timed = headstart("run", "tiny.toml", "--dry-run", "--measure", "seed=[5]", cwd=tmp_path)
    assert "kinds of stages were timed just now" in timed.stdout
    alone = headstart("run", "tiny.toml", "--measure", cwd=tmp_path)
    assert (alone.returncode, "give --dry-run with it" in alone.stderr) == (2, True)


def test_at_the_scale_of_a_paper_a_dry_run_tells_gpu_hours_and_no_years(tmp_path: Path) -> None:
    done = headstart("run", "coser-1", "--scale", "paper", "--dry-run", "--data", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "GPU hours" in done.stdout
    assert "years with" not in done.stdout


def test_a_shell_completes_verbs_and_studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(words: str) -> list[str]:
        count = str(words.count(" "))
        shell = {"_HEADSTART_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
        for name, value in shell.items():
            monkeypatch.setenv(name, value)
        return headstart(cwd=tmp_path).stdout.split()

    assert completed("headstart re") == ["report"]
    assert completed("headstart run coser-4") == ["coser-4-described", "coser-4-published"]


def test_every_verb_has_a_summary_that_fits_a_line(tmp_path: Path) -> None:
    for words in ([], ["bench"], ["store"]):
        _, _, verbs = headstart(*words, "--help", cwd=tmp_path).stdout.partition("Commands:")
        assert "..." not in verbs
        assert len(verbs.split("\n")) > 2


def test_a_dry_run_without_data_shows_sizes_and_cost_and_generates_nothing(tmp_path: Path) -> None:
    words = ["columns=['text','pathfinder']", "arms=['scratch']", "finetune.budget.steps=20", "seed=[0]"]
    (tmp_path / "mine").mkdir()
    done = headstart("run", "coser-1", *words, "--scale", "paper", "--dry-run", "--data", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "unknown" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("finetune")]
    assert {(row[2] == "open", "20" in row) for row in rows} == {(True, True), (False, True)}
    assert "0FLOP" not in done.stdout
    assert "are not in mine; sizes are those of the papers" in done.stdout
    assert "absent data: task.kind: 'text' looks for" in done.stdout
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in written) < 1e6, written


BAD: list[tuple[list[str], str]] = [
    (["run", "tiny.toml", "finetune.optim.lrr=1e-3"], "finetune.optim.lrr: no 'lrr'; did you mean 'lr'?"),
    (["run", "tiny.toml", "finetune.optim.lr='fast'"], "finetune.optim.lr: 'fast' should be a valid number"),
    (["run", "tiny.toml", "optim.lr=1e-3"], "'optim.lr' names no stage"),
    (["run", "tiny.toml", "task.kind=digts"], "task.kind: no 'digts'; did you mean 'digits'?"),
    (["run", "tiny.toml", "model.mixer.kind=atention"], "model.mixer.kind: no 'atention'; did you mean 'attention'?"),
    (["run", "tiny.toml", "task.fraction=0.001"], "task.fraction: 0.001 leaves no train example of class"),
    (
        ["run", "tiny.toml", "finetune.optim.batch_size=500"],
        "finetune.optim.batch_size: 500 is more than the 100 train examples",
    ),
    (["run", "tiny.toml", "finetune.trainable=kernel"], "finetune.trainable"),
    (["run", "tiny.toml", "finetune.trainable=attnetion"], "finetune.trainable"),
    (["run", "tiny.toml", "task={kind='mnist'}", "--data", "nowhere"], "nowhere"),
    (["run", "tiny.toml", "model.mixer.heads=3"], "3 heads do not divide columns.digits.model.width = 8"),
    (["run", "tiny.toml", "arms.scratch.model.width=7"], "2 heads do not divide arms.scratch."),
    (["run", "missing.toml"], "no file 'missing.toml'"),
    (["run", "empty.toml"], "stages: is missing"),
    (["run", "noarms.toml"], "arms: is missing"),
    (["run", "tiny.toml", "--json", "no/such/folder.json"], "--json"),
    (["run", "tiny.toml", "--device", "tpu"], "device"),
    (["report", "tiny.toml"], "no stage of 'tiny' is finished"),
    (["report"], "report: name a study, or files of its results (--from FILE ...)"),
    (["report", "--from", "a.json", "--store", "runs"], "--store: 'runs': --from reads files of results alone"),
    (["report", "--from", "empty.toml", "b.json"], "--from: 'empty.toml' is not JSON"),
    (["report", "tiny.toml", "--out", "no/such/page.md"], "--out: 'no/such/page.md' is not a file in an existing"),
    (["show", "digit"], "did you mean 'digits'?"),
    (["show", "abcdef12"], "store"),
    (["ls", "task"], "ls: no 'task'; did you mean 'tasks'?"),
    (["ls", "arms=scratch"], "ls: arms=scratch: no 'arms'; did you mean 'arm'?"),
    (
        ["ls", "stages", "scratch"],
        "ls: no 'scratch'; there are: arms, checkpoints, mixers, models, objectives, optimizers, readers, schedules, stages, studies, tasks; stages are filtered by",
    ),
    (["ls", "tasks", "--json", "-"], "ls: --json is for stages; leave it out, or list stages"),
    (["check", "atention"], "did you mean 'attention'?"),
    (["prepare", "imagenet"], "prepare: no 'imagenet'"),
    (["prepare", "mnist", "--data", "nowhere"], "nowhere"),
    (["show", "empty.toml", "--kind", "dnaa"], "--kind: 'dnaa' should be 'auto', 'numbers'"),
    (["show", "empty.toml", "--layout", "wide", "layout.kind=dnaa"], "layout.kind: 'dnaa' should be 'auto'"),
    (["run", "tiny.toml", "seed=100000000000000000000"], "override: seed: 100000000000000000000 should be less than"),
    (["run", "tiny.toml", "task.split_seed=99999999999999999999"], "override: task.split_seed: 99999999999999999999"),
    (["run", "tiny.toml", "model.width=1000000000000"], "override: model.width: 1000000000000 should"),
    (["check", "attention", "haeds=3"], "mixer.haeds: no 'haeds'; did you mean 'heads'?"),
    (["check", "digits", "columns.digits.model.widht=8"], "override: columns.digits.model.widht: no 'widht'; did you"),
    (["check", "digits", "arms.scratch.model.widht=8"], "override: arms.scratch.model.widht: no 'widht'; did you"),
    (["run", "tiny.toml", "--dry-run", "--device", "cuda:9"], "--device"),
    (["run", "tiny.toml", "--store", "empty.toml"], "--store: 'empty.toml' is not a folder; name another one"),
    (["run", "tiny.toml", "--store", "/proc/nowhere"], "--store: '/proc/nowhere' cannot be made"),
    (["ls", "--store", "empty.toml/runs"], "--store: 'empty.toml' is not a folder"),
    (["run", "tiny.toml", "--threads", "99999"], "--threads"),
    (["run", "tiny.toml", "--json", ""], "--json: '' is not a file"),
    (["run", "x" * 300], "study: no 'xxx"),
    (["run", "x" * 300 + ".toml"], "study: no file 'xxx"),
    (["run", "."], "study: '.' is a folder; name a study file (.toml) in it"),
    (["run", "latin.toml"], "latin.toml: this is not valid TOML: it is not UTF-8 text"),
    (["show", "latin.toml"], "latin.toml: this is not valid TOML: it is not UTF-8 text"),
    (["run", "coser-4", "--scale", "tinny"], "coser-4-described.toml: --scale: no 'tinny'; did you mean 'tiny'?"),
    (["run", "tiny.toml", "--scale", "tiny"], "tiny.toml: --scale: this study has no scales"),
    (["run", "coser-4", "--scale", "paper", "--data", "."], "columns.image: its data are not there"),
    (
        ["run", "coser-4", "--scale", "tiny", "--data", "nowhere"],
        "--data: there is no folder 'nowhere'; name the folder",
    ),
    (["run", "coser-4", "report.figures=['atention']"], "report.figures[0]: 'atention' should be 'kernels', 'att"),
    (["run", "coser-4", "report.match=nope"], "report.match: no 'nope'"),
    (["run", "coser-4", "arms=[]"], "override: arms: the list is empty; there are: scratch, full, query_key"),
    (["run", "coser-4", "finetune.budget.share=2"], "finetune.budget.share: 2 should be less than or equal to 1"),
    (["run", "coser-4", "finetune.budget.share=half"], "finetune.budget.share: 'half' should be a valid number"),
    (["run", "based.toml"], "based.toml: extends: no file 'folder.toml'"),
    (["run", "amos-f44"], "study: no 'amos-f44'; did you mean 'amos-f4'?"),
    (["check", "papers.toml"], "papers.toml: paper: no 'coser-44'; did you mean 'coser-4'?"),
    (["fit", "tiny.toml", "empty.toml"], "override: 'empty.toml' is one more file; name it with its option, such as"),
    (["frobnicate"], "frobnicate"),
    (["run"], "STUDY"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words)[:60] for words, _ in BAD])
def test_bad_input_gets_one_message_and_exit_code_2(
    tmp_path: Path, words: list[str], message: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstart.cli import main

    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "noarms.toml").write_text('name = "x"\n[stages.a]\nobjective = {kind = "classify"}\n')
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"\n')
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "based.toml").write_text('name = "x"\nextends = "folder.toml"\n')
    (tmp_path / "papers.toml").write_text('name = "x"\nextends = "coser-4"\npaper = "coser-44"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as stop:
        main(words)
    error = capfd.readouterr().err
    assert stop.value.code == 2, error
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists(), "nothing was trained"


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize(
    ("words", "column", "folder", "source"),
    [
        (["coser-1"], "image", "cifar10", "https://www.cs.toronto.edu/~kriz/cifar.html"),
        (["lu-20", 'columns=["mnist"]'], "mnist", "mnist", "https://yann.lecun.com"),
        (["amos-3", 'columns=["speech"]'], "speech", "speech_commands", "http://download.tensorflow.org"),
        (["amos-2", 'columns=["retrieval"]'], "retrieval", "lra_release", "https://storage.googleapis.com"),
    ],
)
def test_only_tiny_runs_without_the_data_of_a_column_the_others_say_which_and_where_they_are(
    words: list[str],
    column: str,
    folder: str,
    source: str,
    scale: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headstart.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as stop:
        main(["run", *words, "--scale", scale, "--data", ".", "--workers", "0"])
    output = capfd.readouterr()
    assert stop.value.code == 2
    for part in (f"columns.{column}: its data are not there", folder, source, "--data", "--scale tiny"):
        assert part in output.err
    assert not output.out
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("width", "there"), [(80, False), (160, True)])
def test_a_narrow_terminal_lists_studies_without_their_questions(
    width: int, there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from headstart.verbs import look, terminal

    for module in (look, terminal):
        monkeypatch.setattr(module, "console", lambda: Console(width=width, markup=False, emoji=False, highlight=False))
    look.print_listing(["studies"], str(tmp_path / "runs"))
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.split()[:2] == ["coser-4", "tiny"])
    assert ("One block" in line) == there
    assert any(line.split()[:2] == ["rothermel-1", "tiny"] for line in lines), "no name is broken over lines"


def test_studies_are_listed_with_the_cost_of_the_data_that_are_at_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    from headstart.verbs import look, terminal

    for module in (look, terminal):
        monkeypatch.setattr(module, "console", lambda: Console(width=200, markup=False, emoji=False, highlight=False))

    def listed() -> list[str]:
        look.print_listing(["studies"], str(tmp_path / "runs"), data=str(tmp_path / "data"))
        return [line.partition("Frozen or not")[0] for line in capsys.readouterr().out.splitlines()]

    def line_of(name: str, scale: str, lines: list[str]) -> list[str]:
        first = next(i for i, line in enumerate(lines) if line.split()[:1] == [name])
        return next(line.split() for line in lines[first:] if scale in line.split()[:2])

    (tmp_path / "data").mkdir()
    without = line_of("rothermel-1", "tiny", listed())
    (tmp_path / "data" / "mnist").mkdir()
    for which in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "data" / "mnist" / f"{which}-ubyte.gz").write_bytes(b"")
    there = line_of("rothermel-1", "tiny", listed())
    assert without[-1] == "stand-in"
    assert there[-2:] == ["mnist;", "stand-in"], "letters stand in for language still"
    assert without[3:5] != there[3:5], "other data cost other amounts"
    assert "lacks" in line_of("rothermel-1", "paper", listed())


def test_a_loss_that_is_no_number_ends_its_stage_as_diverged_and_the_study_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    done = headstart(
        "run",
        "tiny.toml",
        "finetune.optim.lr=[1e-3,1e30]",
        "finetune.budget.steps=40",
        "seed=[0]",
        "--workers",
        "0",
        "--json",
        "rows.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "diverged" in done.stdout + done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {row["chosen"]["finetune.optim.lr"] for row in rows} == {1e-3}


def test_tables_and_lists_as_axes_reach_the_page_and_strange_names_stay_text(tmp_path: Path) -> None:
    odd = TINY.replace("[arms.scratch]", '[arms."[red]x<script>"]\n[arms.scratch]')
    odd = odd.replace("columns.digits", 'columns."a/b"')
    (tmp_path / "odd.toml").write_text(odd)
    done = headstart(
        "run",
        "odd.toml",
        "finetune.optim=[{lr=1e-3},{lr=3e-3}]",
        "seed=[0]",
        "--workers",
        "0",
        "--json",
        "rows.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "[red]x<script>" in done.stdout
    (folder,) = (tmp_path / "runs" / "reports").iterdir()
    assert "<script" not in (folder / "page.html").read_text("utf-8")
    assert not [path for path in folder.iterdir() if path.is_dir()]
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert all("lr" in row["chosen"]["finetune.optim"] for row in rows)


def test_a_damaged_stage_is_said_and_not_a_traceback(finished: Path, tmp_path: Path) -> None:
    store = tmp_path / "runs"
    shutil.copytree(finished / "runs", store)
    for path in store.glob("*/records.jsonl"):
        path.write_text("{\n")
    stage = next(store.glob("*/stage.json")).parent
    shown = headstart("show", stage.name, "--store", str(store), cwd=finished)
    assert (shown.returncode, "Traceback" in shown.stderr) == (2, False)
    assert "records.jsonl: its digest does not fit" in shown.stderr
    assert "does a damaged stage anew" in shown.stderr
    for path in store.glob("*/result.json"):
        path.write_text("{")
    report = headstart("report", "tiny.toml", "--store", str(store), cwd=finished)
    assert (report.returncode, "Traceback" in report.stderr) == (2, False)
    assert "result.json" in report.stderr


def test_ctrl_c_saves_and_exits_with_130(tmp_path: Path) -> None:
    import signal

    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["run", "tiny.toml", "finetune.budget.steps=100000", "pretrain.budget.steps=100000", "seed=[0]"]
    child = subprocess.Popen(
        [sys.executable, "-m", "headstart", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not list((tmp_path / "runs").glob("*/stage.json")) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=30)
    assert child.returncode == 130, error
    assert "Traceback" not in error
    assert list((tmp_path / "runs").glob("*/state-*.safetensors")), "what ran has been saved"


def test_python_m_headstart_runs_no_file_of_the_working_directory(tmp_path: Path) -> None:
    for name in ("json", "dataclasses", "typer"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    words = [sys.executable, "-m", "headstart", "ls", "tasks"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stream_and_one_without_a_sign_for_a_letter_are_no_fault(tmp_path: Path) -> None:
    (tmp_path / "dé.csv").write_text("label,t0,t1,t2\n" + "a,0.5,0.1,0.3\nb,0.2,0.6,0.4\n" * 10)
    program = f"{shlex.quote(sys.executable)} -m headstart"
    for line in ("ls tasks >&-", "ls --store none >&- 2>&-", "show dé.csv >&-"):
        shell = ["bash", "-c", f"{program} {line}"]
        done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), line
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    words = [*shlex.split(program), "show", "dé.csv"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "d\\xe9.csv" in done.stdout


def test_a_mistake_in_a_file_is_told_by_fit_before_torch_is_imported(tmp_path: Path) -> None:
    lines = ["id,label,t0,t1,t2", *(f"r{i},{'ab'[i % 2]},{i},2,3" for i in range(12)), "r12,a,1,oops,3"]
    (tmp_path / "f.csv").write_text("\n".join(lines))
    code = (
        "import sys; sys.argv = ['headstart', 'fit', 'f.csv', '--time', '5s']\n"
        "from headstart.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.exit('imported torch' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "f.csv:14 column 't1': 'oops' is not a number" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processor time is read from /proc")
@pytest.mark.parametrize("verb", [("show",), ("fit", "-o", "m")], ids=["show", "fit"])
def test_the_first_line_of_a_file_and_a_mistake_in_a_megabyte_come_within_a_second(
    tmp_path: Path, verb: tuple[str, ...]
) -> None:
    """0.43 s and 0.8 s of processor time on a quiet core; on one that others share, each second is longer."""

    def answer(file: str) -> tuple[float, str]:
        """Processor seconds until the first text, and its first line."""
        words = [sys.executable, "-m", "headstart", verb[0], file, *verb[1:]]
        process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.stdout is not None
        lines = [os.read(process.stdout.fileno(), 2**16).decode()]
        while "is not a number" not in lines[-1] and file == "large.csv" and lines[-1]:
            lines.append(os.read(process.stdout.fileno(), 2**16).decode())
        times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        process.kill()
        process.wait()
        process.stdout.close()
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK"), lines[-1].splitlines()[0]

    rows = [f"{'ab'[i % 2]},{','.join(f'{(i * j) % 977 / 97:.5f}' for j in range(100))}" for i in range(1300)]
    head = ",".join(["label", *(f"t{j}" for j in range(100))])
    (tmp_path / "small.csv").write_text("\n".join([head, *rows[:40]]))
    rows[1100] = rows[1100].replace(".", "x", 1)
    (tmp_path / "large.csv").write_text("\n".join([head, *rows]))
    assert (tmp_path / "large.csv").stat().st_size > 10**6
    seconds, line = answer("small.csv")
    assert line.startswith("store " if verb[0] == "fit" else "layout ")
    assert seconds < 1.0, "at most 0.5 s on a quiet core"
    seconds, line = answer("large.csv")
    assert line.startswith("headstart: large.csv:1102 column 't0': '")
    assert seconds < 1.6, "at most 1 s on a quiet core"


@pytest.mark.parametrize("words", [["show", "f.csv"], ["predict", "model", "f.csv", "-o", "p.csv"], ["fit", "f.csv"]])
def test_ctrl_c_in_a_short_command_ends_with_130_and_without_a_trace(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from headstart.cli import main

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.csv").write_text("label,a0,a1,a2\na,1,2,3.5\nb,2,3,4.5\n")
    monkeypatch.setattr("headstart.data.sources.read_sequences", pressed)
    monkeypatch.setattr("headstart.data.sources.explained_sequences", pressed)
    monkeypatch.setattr("headstart.verbs.fit.read_source", pressed)
    monkeypatch.setattr("headstart.serve.folder.load_model", pressed)
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 130
    assert "Traceback" not in "".join(capsys.readouterr())
    assert not (tmp_path / "p.csv").exists()


def test_predictions_that_ctrl_c_cuts_short_leave_no_file(tmp_path: Path) -> None:
    from headstart.serve.predictions import Predictions, writing_predictions

    def interrupted() -> None:
        with writing_predictions(tmp_path / "p.csv") as output:
            output.add(Predictions("row", [1], ["a"], {}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


CYCLE = """
import sys
class Cycle:
    def __init__(self): self.own = self
    def __del__(self): sys.stdout.write("looked for")
kept = Cycle()
from headstart.cli import main
main()
"""


def test_a_command_ends_without_a_search_for_cycles() -> None:
    done = subprocess.run([sys.executable, "-c", CYCLE, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("headstart ")
    assert "looked for" not in done.stdout


def test_ctrl_c_within_an_import_is_not_lost() -> None:
    from headstart.cli import interrupt

    importing = SimpleNamespace(f_code=SimpleNamespace(co_filename="<frozen importlib._bootstrap>"))
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        interrupt(signal.SIGINT, cast(FrameType, importing))
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
        with pytest.raises(KeyboardInterrupt):
            interrupt(signal.SIGINT, None)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_reader_that_stops_reading_is_no_fault_of_any_verb(tmp_path: Path) -> None:
    """As `head -1` does; a shell with `pipefail` would take another end for a failure."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "headstart", "schema"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_date_of_the_environment_that_is_none_is_said_before_a_library_ends_in_its_own_error() -> None:
    command = [sys.executable, "-P", "-m", "headstart", "ls"]
    ended = subprocess.run(
        command, env={**os.environ, "SOURCE_DATE_EPOCH": "abc"}, capture_output=True, text=True, check=False
    )
    words = "headstart: SOURCE_DATE_EPOCH: 'abc' is not a whole number of seconds; set one, or unset it\n"
    assert (ended.returncode, ended.stderr) == (2, words)


def test_a_working_directory_that_is_gone_is_said_before_libraries_end_in_errors_of_their_own(tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "headstart", "ls", "tasks"]
    line = "import os, subprocess, sys; os.rmdir(os.getcwd()); sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    done = subprocess.run([sys.executable, "-c", line, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "headstart: the working directory is gone; go to another one (`cd`), and give the command again\n"
    )
