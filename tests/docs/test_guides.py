"""The guides' files and commands, word for word, in an empty folder."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import GPT2, saved
from support.command import command
from support.made_files import signals, workbook

from headstart import cli
from headstart.verbs import terminal

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```", re.M | re.S)
COMMANDS = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def walk(guide: str, folder: Path) -> list[subprocess.CompletedProcess[str]]:
    text = (GUIDES / guide).read_text("utf-8")
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    done = []
    for line in "".join(COMMANDS.findall(text)).splitlines():
        words = shlex.split(line)
        assert words[0] in ("headstart", "python"), line
        env = {**os.environ, "HEADSTART_CACHE": str(folder / "cache")}
        if words[0] == "headstart":
            done.append(command(*words[1:], cwd=folder, env=env, drawn=True))
        else:
            program = [sys.executable, *words[1:]]
            done.append(
                subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240, env=env, check=False)
            )
        assert done[-1].returncode == 0, f"{line}\n{done[-1].stdout}\n{done[-1].stderr}"
    return done


@pytest.mark.slow
def test_a_mixer_of_ones_own_gets_from_its_file_to_its_table(tmp_path: Path) -> None:
    checked, planned, ran, listed, twins = walk("your-own-mixer.md", tmp_path)
    assert checked.stdout.count(" ok") >= 9
    assert "24 runs, 35 distinct stages" in planned.stdout
    assert "decay_self_pretrained" in ran.stdout
    assert "s4_scratch" in ran.stdout
    assert listed.stdout.count("complete") >= 16
    assert "is left out" not in twins.stdout
    assert "distinct stages" in twins.stdout
    (tmp_path / "my_mixer.py").write_text((tmp_path / "my_mixer.py").read_text() + "\nEDITED = True\n")
    again = command("run", "mine.toml", "--plugin", "my_mixer.py", "--dry-run", cwd=tmp_path)
    states = [line.split()[3] for line in again.stdout.splitlines() if line.split()[:1] in (["pretrain"], ["finetune"])]
    assert {"complete", "absent"} == set(states), "only the stages of the edited mixer are new"


@pytest.mark.slow
def test_a_whole_model_of_ones_own_gets_from_its_file_to_its_table(tmp_path: Path) -> None:
    checks, small, checked, ran = walk("your-own-model.md", tmp_path)
    assert checks.stdout.count(" ok") == small.stdout.count(" ok") == 9
    assert (tmp_path / "my_net.py").read_text() == (GUIDES.parents[1] / "examples" / "my_net.py").read_text()
    assert "is sound" in checked.stdout
    assert "my_net_self_pretrained" in ran.stdout


def test_the_kinds_of_the_guide_keep_their_contracts_as_typed(tmp_path: Path) -> None:
    plugin, by_class, mixer, objective, model, ran, optimiser = walk("adding.md", tmp_path)
    assert plugin.stdout.count(" ok") == by_class.stdout.count(" ok") >= 9
    assert mixer.stdout.count(" ok") >= 9
    assert model.stdout.count(" ok") >= 9
    assert objective.stdout.count(" ok") == 6
    assert re.search(
        r"from which turned starts, was trained on digits: validation accuracy [\d.]+ \(1 seed\)\.", ran.stdout
    )
    assert optimiser.stdout.count(" ok") >= 2


@pytest.mark.slow
def test_the_guide_to_the_loop_trains_once_and_loads_what_is_finished(tmp_path: Path) -> None:
    first, again = walk("own-loop.md", tmp_path)
    assert "step " in first.stdout
    assert first.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]
    assert float(first.stdout.split()[-1]) > 0.8
    assert len(again.stdout.splitlines()) == 2, "nothing was trained again"


@pytest.mark.slow
def test_the_guide_to_the_papers_says_commands_that_work(tmp_path: Path) -> None:
    dry, at_paper, alone, halves = walk("papers.md", tmp_path)
    assert "scale tiny" in dry.stdout
    assert "distinct stages" in dry.stdout
    assert "whose data are not in" in at_paper.stdout
    assert "distinct stages" in alone.stdout
    assert "halves at scale tiny is sound" in halves.stdout


SMALLER = {
    "train = 2000, val = 500, test = 500": "train = 40, val = 12, test = 12",
    "max_length = 60": "max_length = 12",
    "width = 32, blocks = 2": "width = 8, blocks = 1",
    "epochs = 10": "epochs = 1",
    "seed = [0, 1, 2]": "seed = [0]",
}
"""Of the study of the guide to studies, what keeps a test of its commands short."""


@pytest.mark.slow
def test_the_guide_to_studies_says_commands_that_work(tmp_path: Path) -> None:
    text = (GUIDES / "studies.md").read_text("utf-8")
    study = text.split("```toml\n")[1].partition("```")[0]
    for usual, small in SMALLER.items():
        assert usual in study
        study = study.replace(usual, small)
    (tmp_path / "my-question.toml").write_text(study)
    (tmp_path / "study.toml").write_text(study.replace("my-question", "study"))
    lines = [line.partition("  #")[0] for line in re.findall(r"^headstart .+", text, re.M)]
    lines += re.findall(r"`(headstart report [^`|]+? (?:--tidy|--figure-width) [^`\s]+)", text.replace("\n", " "))
    compared = [line for line in lines if line.startswith("headstart compare")]
    pooled = [line for line in lines if line.endswith(("digits.json", "which.json", "pooled.md"))]
    assert (len(lines), len(compared), len(pooled)) == (21, 3, 3)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        done = command(*words, cwd=tmp_path, env={**os.environ, "HEADSTART_CACHE": str(tmp_path / "cache")})
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    for line in lines:
        if line not in (*compared, *pooled):
            run(*shlex.split(line.replace("--serve 8080", "--serve 0"))[1:])
    run("report", "study.toml", "--json", "earlier.json")
    first, second = (stage["id"][:8] for stage in json.loads(run("ls", "--json", "-").stdout)[:2])
    for line in compared:
        run(*shlex.split(line.replace("3f2a9c", first).replace("81b0d4", second))[1:])
    run(*shlex.split(pooled[-1].replace("digits.json which.json", "all.json"))[1:])
    assert "Gains of self-pretraining" in (tmp_path / "pooled.md").read_text()


@pytest.mark.slow
def test_the_guide_to_ones_own_file_gets_from_the_file_to_its_table(tmp_path: Path) -> None:
    shown, checked, ran, listed, cleared = walk("own-file.md", tmp_path)
    assert "8 groups, each in one split" in shown.stdout
    assert "have no label and serve pretraining alone" in shown.stdout
    assert "steps is sound" in checked.stdout
    assert "self_pretrained" in ran.stdout
    assert "own-" in listed.stdout
    assert "removed" in cleared.stdout
    moved = tmp_path / "elsewhere.csv"
    (tmp_path / "steps.csv").rename(moved)
    study = (tmp_path / "steps.toml").read_text().replace("steps.csv", str(moved))
    (tmp_path / "steps.toml").write_text(study)
    again = command("run", "steps.toml", "--dry-run", cwd=tmp_path)
    states = [line.split()[3] for line in again.stdout.splitlines() if line.split()[:1] in (["pretrain"], ["finetune"])]
    assert set(states) == {"complete"}, "a file that moved is the same file"


@pytest.mark.slow
def test_the_guide_to_own_data_gets_from_a_file_to_predictions(tmp_path: Path) -> None:
    _, shown, planned, fitted, _, python = walk("your-own-data.md", tmp_path)
    assert "p" in shown.stdout
    assert "self-pretraining: " in planned.stdout
    assert re.search("elf-pretraining (helped|hurt)", fitted.stdout), "the verdict is said, whatever it is"
    for name in ("config.json", "model.safetensors", "plan.json", "report.html", "README.md"):
        assert (tmp_path / "model" / name).is_file(), name
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert lines[0] == "id,prediction,p_run,p_stairs,p_walk"
    assert [line.split(",")[0] for line in lines[1:]] == [f"r{row:03}" for row in range(30)]
    assert "up" in python.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guide", "shown", "fitted", "head"),
    [
        ("ecg.md", "groups     20", "class-weighted", "row,prediction,p_ectopic,p_normal,in_ectopic,in_normal"),
        ("dna.md", "DNA, letter by letter", "a linear model of n-grams", "id,prediction,p_bound,p_free"),
        (
            "instruments.md",
            "line 6 was passed over as units",
            "(predicts)",
            "Recording,prediction,p_sound,p_worn",
        ),
        ("sound.md", "8,000 samples per second", "neighbouring positions", "file,prediction,p_finch,p_frog,p_warbler,"),
    ],
)
def test_a_guide_gets_from_what_people_have_to_predictions(
    guide: str, shown: str, fitted: str, head: str, tmp_path: Path
) -> None:
    _, card, fit, _ = walk(guide, tmp_path)
    assert shown in card.stdout
    assert fitted in fit.stdout
    lines = (tmp_path / "new.csv").read_text().splitlines()
    assert lines[0].startswith(head)
    assert len(lines) == (10 if guide == "sound.md" else 21)


def made_forms(folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """The files of the page of forms, those that need a library too, and each command of the page on them."""
    rng = np.random.default_rng(0)
    for i in range(8):
        signals(folder / "nights" / ["well", "ill"][i % 2] / f"n{i}.edf", rng.normal(0, 1, (400, 2)))
    rows = [["id", "state", "t0", "t1", "t2"]]
    rows += [[f"r{i}", ["sound", "worn"][i % 2], *rng.normal(0, 1, 3).round(3).tolist()] for i in range(20)]
    workbook(folder / "log.xlsx", {"About": [["a pump"]], "Export": rows})
    made, *cards = walk("which-form.md", folder)
    assert made.returncode == 0
    return cards


@pytest.mark.slow
def test_each_form_of_a_file_is_read_by_the_command_beside_its_picture_and_told_alike_to_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = partial(terminal._Door, highlight=False, markup=False, emoji=False, width=4000)
    monkeypatch.setattr(terminal, "console", wide)

    def output(*words: str) -> str:
        with pytest.raises(SystemExit, match="0"):
            cli.main(list(words))
        return capsys.readouterr().out

    cards = made_forms(tmp_path)
    monkeypatch.chdir(tmp_path)
    for done in cards:
        assert "2 classes" in done.stdout, done.args
        assert "all of them labelled" in done.stdout, done.args
        words = done.args[done.args.index("show") :]
        people, programs = output(*words), output(*words, "--json")
        lines, document = [" ".join(line.split()) for line in people.splitlines()], json.loads(programs)
        head = [*document["head"].items(), *(("note", text) for text in document["notes"])]
        assert lines[: len(head)] == [" ".join(f"{name} {text}".split()) for name, text in head], words
        for column in document["columns"]:
            name = column["column"] or "(the table)"
            name += f" to {column['last']} ({column['count']:,})" if column["last"] else ""
            role = f"{document['shape']}: " if column["role"] == "shape" else column["role"] or "not used"
            facts = [column["confidence"], column["why"], ", ".join(column["otherwise"]), column["option"]]
            row = next(line for line in lines if line.startswith(f"{name} {role}"))
            assert row.endswith(" ".join(" ".join(facts).split())), words
        after = next(i for i, line in enumerate(lines) if line.startswith(("worth a look:", "nothing looks wrong")))
        rows = (
            len(document["columns"]) + len(document["facts"]["target"]["classes"]) + len(document["facts"]["channels"])
        )
        tables = [line for line in lines[len(head) : after] if line and not set(line) <= set("─ ")]
        assert len(tables) == rows + 1 + (1 if document["facts"]["channels"] else 0) + 1, words
        assert [line.removeprefix("- ") for line in lines[after + 1 :]] == document["findings"], words


def test_each_form_of_the_page_has_a_picture_and_a_command() -> None:
    _, *forms = (GUIDES / "which-form.md").read_text("utf-8").partition("## The files of this page")[0].split("\n## ")
    assert len(forms) > 12
    for form in forms:
        assert re.search(r"^!\[.+\]\(\.\./images/forms/\w+\.svg\)$", form, re.M), form
        assert re.search(r"^headstart show ", form, re.M), form


def test_the_pictures_of_the_forms_are_as_their_program_draws_them() -> None:
    spec = importlib.util.spec_from_file_location("forms", DOCS / "forms.py")
    assert spec is not None
    assert spec.loader is not None
    forms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(forms)
    page = (GUIDES / "which-form.md").read_text("utf-8")
    for name in forms.FORMS:
        stored = (DOCS / "images" / "forms" / f"{name}.svg").read_text("utf-8")
        assert stored == forms.picture(name), "run `python docs/forms.py`"
        assert f"(../images/forms/{name}.svg)" in page


@pytest.mark.slow
def test_the_guide_to_pandas_fits_each_form_of_frames(tmp_path: Path) -> None:
    (done,) = walk("pandas.md", tmp_path)
    *fitted, new = done.stdout.splitlines()
    assert [line.split("  ")[0].strip() for line in fitted] == [
        "wide",
        "long",
        "MultiIndex",
        "nested series",
        "list of frames",
        "dict of frames",
    ]
    assert all(float(re.search(r" (\d\.\d\d) ", line)[1]) > 0.9 for line in fitted)  # type: ignore[index]
    assert new == "['fast']"


@pytest.mark.slow
def test_the_guide_to_windows_gets_from_long_recordings_to_spans(tmp_path: Path) -> None:
    _, card, fitted, _, joined = walk("windows.md", tmp_path)
    assert "spans of predictions of" in joined.stderr
    assert "24 recordings are cut into 936 windows of 2s (40 positions) every 1s" in " ".join(card.stdout.split())
    assert "model" in fitted.stdout
    lines = (tmp_path / "windows.csv").read_text().splitlines()
    assert lines[0] == "recording,start,end,prediction,p_run,p_sit,p_walk"
    assert [line.split(",")[1:3] for line in lines[1:3]] == [["0", "2"], ["1", "3"]]
    assert len(lines) == 40
    spans = [line.split(",") for line in (tmp_path / "spans.csv").read_text().splitlines()]
    assert spans[0] == ["recording", "start", "end", "prediction", "p"]
    assert [row[1] for row in spans[2:]] == [row[2] for row in spans[1:-1]], "spans follow each other"
    assert 3 < len(spans) < 15


@pytest.mark.slow
def test_the_guide_to_backbones_gets_from_a_folder_of_weights_to_its_table(tmp_path: Path) -> None:
    saved(tmp_path / "weights" / "gpt2", {**GPT2, "n_embd": 16, "n_layer": 3, "n_positions": 100})
    ready, shown, dry, ran = walk("backbones.md", tmp_path)
    assert "gpt2 is ready" in ready.stdout
    assert "weights/gpt2" in ready.stdout
    assert "blocks.{i}.mixer.query.weight" in shown.stdout
    assert "6 runs, 10 distinct stages" in dry.stdout
    assert "gpt2 (checkpoint)" in dry.stdout
    assert "the pretrained weights are one draw" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guide", "sound", "planned"),
    [
        ("chains.md", "transfer is sound: 16 runs of 27 distinct stages", "27 distinct stages"),
        ("hybrids.md", "parts is sound: 32 runs of 37 distinct stages", "37 distinct stages"),
        ("budgets.md", "equal is sound: 16 runs of 23 distinct stages", "23 distinct stages"),
    ],
)
def test_the_studies_of_the_guides_are_sound(tmp_path: Path, guide: str, sound: str, planned: str) -> None:
    checked, dry = walk(guide, tmp_path)
    assert sound in checked.stdout
    assert planned in dry.stdout


@pytest.mark.slow
def test_jobs_of_a_queue_share_a_store_and_their_report(tmp_path: Path) -> None:
    batch, first, second, report = walk("clusters.md", tmp_path)
    assert "#SBATCH --nodes=2\n" in batch.stdout
    assert "self_pretrained" in first.stdout
    assert second.returncode == 0
    table = next(line for line in report.stdout.splitlines() if line.strip().startswith("scratch"))
    assert " 2 " in table, "both seeds, of two jobs"
    assert not list((tmp_path / "runs").glob("*/failure.txt"))


@pytest.mark.slow
def test_a_stage_is_shared_by_two_ranks(tmp_path: Path) -> None:
    walk("several-gpus.md", tmp_path)
    results = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/result.json")]
    assert [r["provenance"]["way"] for r in results if r["budget"]["steps"]] == ["2 ranks (gloo)"]


def test_the_first_five_minutes_say_commands_that_work(tmp_path: Path) -> None:
    shown, planned, keys = walk("../start.md", tmp_path)
    assert "positions masked" in shown.stdout
    assert "23 distinct stages" in planned.stdout
    assert "weight_decay" in keys.stdout


DOCS = GUIDES.parent
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("path", [*DOCS.glob("*.md"), *GUIDES.glob("*.md"), DOCS.parent / "README.md"], ids=str)
def test_a_page_links_to_what_is_there(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        made = target in (
            "reference/keys.md",
            "reference/cli.md",
            "reference/python.md",
            "security.md",
            "contributing.md",
        )
        assert made or (path.parent / target).exists(), target


def test_every_page_stands_in_the_navigation_of_the_site() -> None:
    config = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    for path in [*DOCS.glob("*.md"), *GUIDES.glob("*.md"), *(DOCS / "reference").glob("*.md")]:
        assert f": {path.relative_to(DOCS)}\n" in config, path


BROKEN = """
from typing import Literal
import torch
from torch import nn
from headstart.models.mixers.mixer import MixerSpec

class LeakySpec(MixerSpec):
    kind: Literal["leaky"] = "leaky"
    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Leaky(width)
    def flops(self, width: int, length: int, causal: bool) -> float:
        return 2.0 * length * width**2

class Leaky(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x, valid, draw=None):
        return self.layer(x + x.mean(1, keepdim=True))

class Nothing:
    pass
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("leaky:LeakySpec", "does not keep the contract"),
        ("leaky:LeakSpec", "did you mean 'LeakySpec'"),
        ("leaky:Nothing", "is not a subclass of MixerSpec"),
        ("leeky:LeakySpec", "cannot be imported"),
        ("leaky", "is not of the form module:Class"),
    ],
)
def test_a_class_that_does_not_keep_the_contract_is_told_why(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "leaky.py").write_text(BROKEN)
    done = command("check", "--mixer", source, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if source == "leaky:LeakySpec":
        assert "padding" in done.stderr
        assert "causality" in done.stderr


@pytest.mark.slow
def test_the_sweep_of_the_guide_trains_as_one_stack(tmp_path: Path) -> None:
    (ran,) = walk("stacks.md", tmp_path)
    assert "6 runs of" in ran.stdout
    results = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/result.json")]
    trained = [result for result in results if result["budget"]["steps"]]
    assert [result["provenance"]["way"] for result in trained] == ["stack"] * 6
    assert "mixes" not in ran.stdout


@pytest.mark.slow
def test_the_guide_to_the_store_verifies_packs_unpacks_and_cleans_as_typed(tmp_path: Path) -> None:
    _, verified, packed, unpacked, reported, shown, cleaned = walk("store.md", tmp_path)
    assert "5 finished stages, every file as it was written" in verified.stdout
    assert "packed 5 stages" in packed.stdout
    assert "unpacked 5 of 5 stages" in unpacked.stdout
    assert "scratch" in reported.stdout
    assert "reports/kept" in shown.stdout
    assert "there is nothing to remove" in shown.stdout
    assert "removed 0 folders" in cleaned.stdout
