"""The Markdown page of a study: what was run, what came out, beside what, at which cost, on what."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.finished import NASTY, Done, study, with_paper, written
from support.made_up import LR

from headstart.api import Study
from headstart.report.claims import TOO_SMALL, Part, Verdict
from headstart.report.content import command, read_content
from headstart.report.figures.forest import brief_names
from headstart.report.results_page import results_page, short_answer, trained_with
from headstart.statistics import Difference
from headstart.store import Store
from headstart.study.language.papers import Claim
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.verbs.run import print_scale, report_study


def page_of(done: Done) -> str:
    return (done[2].parent / "results.md").read_text()


def sections(text: str) -> list[str]:
    """What stands on the first screen under a heading of its own, and what is below a fold."""
    return re.findall(r"^(?:## |<details markdown=\"1\"><summary>)(.*?)(?:</summary>)?$", text, re.MULTILINE)


def screen(text: str) -> str:
    """What stands above the folds."""
    return text.split("<details")[0]


def test_the_page_has_the_answer_the_command_the_tables_and_the_figures(done: Done) -> None:
    text = page_of(done)
    assert text.startswith("# Does it help?\n\nOn digits, self\\_pretrained beats scratch")
    assert "```\nheadstart run study.toml\n```" in text
    assert sections(text) == [
        "What to keep in mind",
        "All of the table",
        "Differences to scratch",
        "Learning rates within reach of the best",
        "Settings in which arms differ",
        "Train, the last weights and steps",
        "The sweep",
        "Learning curves",
        "What pretraining learnt to fill in",
        "More to keep in mind",
        "Data and methods",
        "Cost and provenance",
    ]
    assert "| **self-pretrained** |" in screen(text)
    assert "| **self\\_pretrained** |" in text
    assert "Configurations tried: 2 in every arm and column." in text


def test_every_figure_is_named_beside_the_page_and_says_what_it_shows(done: Done) -> None:
    text = page_of(done)
    output = re.findall(r"^!\[([^\]]+)\]\(([^)]+)\)$", text, re.MULTILINE)
    names = ["forest.png", "sweep-digits.png", "curves-digits.png", "reconstruction-digits.png"]
    assert [name for _, name in output] == names
    assert "forest.png" in screen(text)
    assert all((done[2].parent / name).is_file() for _, name in output)
    assert all(len(message) > 40 for message, _ in output)


def test_the_cost_counts_each_distinct_stage_once(done: Done) -> None:
    plan, _, _ = done
    text = page_of(done)
    # 3 pretrainings and 2 arms x 2 rates x 3 seeds of fine-tuning, 60 GFLOP and 2.5 s each, as made up.
    assert len(plan.stages) == 15
    assert "| pretrain | 3 | 3 | 180 GFLOP | 7.5 s |" in text
    assert "| finetune | 12 | 12 | 720 GFLOP | 30 s |" in text
    assert "| baseline | 3 | 3 | 180 GFLOP | 7.5 s |" in text
    assert "| all | 18 | 18 | 1.1 TFLOP | 45 s |" in text


def test_versions_machine_threads_and_the_date_come_from_the_stages(done: Done) -> None:
    text = page_of(done)
    for line in (
        "Begun: 2026-01-01",
        "Machine: laptop",
        "Device: cpu",
        "Threads: 1",
        "Precision: float32",
        "Versions: torch 2.13.0, headstart 0.1.0",
    ):
        assert f"\n- {line}\n" in text


def test_stages_of_several_days_and_machines_are_all_named(done: Done) -> None:
    plan, results, page = done
    store = Store(page.parent.parent / "runs")

    class Moved(Store):
        """The same store, the first stage of which ran elsewhere and later."""

        def result(self, identity: str):  # type: ignore[no-untyped-def]
            output = store.result(identity)
            if identity == next(iter(plan.stages)) and output is not None:
                output["provenance"] |= {"machine": "cluster", "started": "2026-02-03T10:00:00"}
            return output

    text = results_page(read_content(plan, results, Moved(store.root)))
    assert "- Begun: 2026-01-01 to 2026-02-03" in text
    assert "- Machine: cluster and laptop" in text


def test_an_unfinished_study_has_a_page_that_counts_what_is_there(tmp_path: Path) -> None:
    text = (written(tmp_path, keep=3)[2].parent / "results.md").read_text()
    assert "So far (3 of 12 runs done)" in text
    assert "| finetune | 12 | 3 |" in text
    nothing = (written(tmp_path / "none", keep=0)[2].parent / "results.md").read_text()
    assert "| all | 18 | 0 |" in nothing
    assert "Begun" not in nothing


def test_the_scale_its_note_and_the_stand_ins_stand_before_the_table(tmp_path: Path) -> None:
    text = (with_paper(tmp_path)[1].parent / "results.md").read_text()
    assert "Scale tiny (smoke test). Stand-in data: digits for digits." in screen(text).split("\n| ")[0]
    assert "Scale tiny (smoke test): one block. Stand-in data: digits for digits." in text
    assert "Claims of the paper, checked here" in sections(text)
    assert "Beside the paper, cell by cell" in sections(text)
    assert "- It helps (self\\_pretrained less scratch, test): holds on digits (+0.210 \\[0.185, 0.235\\]" in text


def test_the_data_that_were_read_are_named_apart_from_generated_ones_and_stand_ins(tmp_path: Path) -> None:
    table = study()
    listops = {"kind": "listops", "min_length": 4, "max_length": 16, "train": 40, "val": 20, "test": 20}
    own = tmp_path / "secret" / "own.csv"
    own.parent.mkdir()
    own.write_text("a,b,label\n" + "".join(f"{i * 7 % 60}.5,{i % 7},{'xy'[i % 2]}\n" for i in range(60)))
    task = {"kind": "own", "file": str(own)}
    table["columns"] |= {
        "own": {**table["columns"]["digits"], "task": task},
        "listops": {**table["columns"]["digits"], "task": listops},
        "image": {**table["columns"]["digits"], "task": {"kind": "image"}},
    }
    table["scales"] = {"tiny": {"stand_in": {"image": {"task": {"kind": "digits"}}}}}

    def before(*words: str) -> str:
        plan = make_plan(read_study(table, words, data=tmp_path), tmp_path)
        page = results_page(read_content(plan, summarise(plan, lambda _: None), Store(tmp_path / "none")))
        return page

    message = before()
    assert (
        "Data read: own; generated or bundled: digits and listops. Scale tiny (smoke test). Stand-in data: digits for im"
        in message
    )
    assert "secret" not in message
    assert "Data read: none. Scale tiny (smoke test). Stand-in data: digits for image." in before('columns=["image"]')


def test_the_terminal_names_the_stage_whose_data_are_stood_in_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_scale(Study("coser-5", data=tmp_path, store=tmp_path / "runs"))
    assert (
        "stand-in data: digits for image_1; digits for image in stage elsewhere of pathfinder_1 (not in "
        in capsys.readouterr().out.replace("\n", " ")
    )
    print_scale(Study("coser-5", ['arms=["scratch"]', 'columns=["pathfinder_1"]'], data=tmp_path, store=tmp_path))
    assert "stand-in" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_figure_without_printed_numbers_tells_its_source_and_note_with_the_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = study(paper="amos-f5")
    page = written(tmp_path, table)[2]
    noted = "Never Train from Scratch, figure 5. A figure without printed numbers: training accuracy"
    text = (page.parent / "results.md").read_text()
    assert "Beside the paper, cell by cell" not in sections(text)
    claims = text[text.index("<summary>Claims of the paper") : text.index("<summary>The sweep")]
    assert noted in claims
    assert noted in page.read_text()
    report_study(Study(table, store=tmp_path / "runs", data=tmp_path))
    message = capsys.readouterr().out
    assert noted in message[message.index("Claims of the paper") : message.index("What to keep in mind")]
    # Where there are cells, their table brings the note: once.
    with_cells = (written(tmp_path / "cells", study(paper="rothermel-1"))[2].parent / "results.md").read_text()
    assert with_cells.count("The 12 blocks of GPT-2") == 1


@pytest.mark.slow
def test_test_at_every_setting_has_a_table_and_a_panel_only_where_the_study_asks(done: Done, tmp_path: Path) -> None:
    mark = {"setting": LR, "value": 2e-3, "says": "the rate of Doe"}
    table = study(report={"choose": [LR], "against": "scratch", "sweep": "test", "mark": mark, "gain": True})
    page = written(tmp_path, table)[2]
    text = (page.parent / "results.md").read_text()
    assert "| scratch | 0.400 ± 0.000 (3) | 0.440 ± 0.000 (3)\\* |" in text
    sweep = text[text.index("<summary>The sweep") : text.index("<summary>Learning curves")]
    assert "Every choice was made on validation; test is only shown." in sweep
    assert "The dotted line, at lr 0.002, is the rate of Doe." in sweep
    assert "Test accuracy at every lr" in page.read_text()
    assert {"sweep.csv", "sweep.md", "sweep.tex", "gains.png"} <= {path.name for path in page.parent.iterdir()}
    assert "![Gain in test score over scratch, in percent of its score at the same seed: mean" in text
    again = read_study(str(page.parent / "study.toml"))
    assert again.report == read_study(table).report
    assert "at every" not in page_of(done)
    assert not (done[2].parent / "sweep.csv").exists()
    assert not (done[2].parent / "gains.png").exists()


def test_foreign_text_is_never_markup_in_markdown(tmp_path: Path) -> None:
    text = (with_paper(tmp_path, source=f"{NASTY} ![x](http://e.x)")[1].parent / "results.md").read_text()
    assert "<script" not in text
    assert "![x](" not in text
    assert "http://e.x" in text


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_a_built_in_study_is_made_again_by_its_name_and_scale(
    tmp_path: Path, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import headstart.study.language.files as files

    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\n[stages.finetune]\ntask = { kind = "digits" }\n'
        'objective = { kind = "classify" }\nbudget = { epochs = 1 }\n'
        'model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }\n'
        "[columns.digits]\n[arms.scratch]\n[axes]\nseed = [0, 1]\n"
        '[scales.tiny]\nnote = "n"\n[scales.small]\nmodel = { width = 16 }\n'
    )
    monkeypatch.setattr(files, "built_in_studies", lambda: {"own": own})
    plain = make_plan(read_study("own", scale=scale), tmp_path)
    assert command(plain) == f"headstart run own --scale {scale}"
    seeds = make_plan(read_study("own", ["seed=[0, 4]"], scale=scale), tmp_path)
    assert command(seeds) == f"headstart run own 'seed=[0, 4]' --scale {scale}"
    other = make_plan(read_study("own", ["finetune.budget.epochs=2"], scale=scale), tmp_path)
    assert command(other) == "headstart run study.toml"
    words = ["columns=digits", "finetune.optim.lr=[0.01, 0.001]", "seed=[0]"]
    swept = make_plan(read_study("own", words, scale=scale), tmp_path)
    overrides = command(swept).removeprefix("headstart run own ").removesuffix(f" --scale {scale}")
    assert read_study("own", shlex.split(overrides), scale=scale).axes == swept.study.axes
    renoted = swept.study.model_copy(update={"scale_note": "on another machine"})
    assert command(replace(swept, study=renoted)) == command(swept), "what is told makes no other results"


def test_a_page_without_a_study_beside_it_begins_with_a_command_that_there_is(done: Done) -> None:
    plan, results, page = done
    content = read_content(plan, results, Store(page.parent.parent / "runs"))
    text = results_page(content, numbers="here.json")
    before = screen(text)
    assert "study.toml" not in before
    assert "They stand in here.json beside this page" in before
    assert "```\nheadstart report --from here.json -o here.md\n```" in before


def test_a_study_without_scales_is_made_again_by_its_name_alone(tmp_path: Path) -> None:
    assert command(make_plan(read_study("digits"), tmp_path)) == "headstart run digits"
    assert command(make_plan(read_study(study()), tmp_path)) == "headstart run study.toml"
    # A study of one's own that has a built-in one's name is not that one.
    assert command(make_plan(read_study({**study(), "name": "digits"}), tmp_path)) == "headstart run study.toml"


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        (["0.1.0 (commit ab12)"], "Trained with headstart 0.1.0 (commit ab12)."),
        (
            ["unknown", "0.1.0"],
            "Trained with a version of headstart that was not recorded and headstart 0.1.0 (commit not recorded).",
        ),
        ([], "No stage is trained yet."),
    ],
)
def test_a_page_says_which_version_trained_its_stages(versions: list[str], text: str) -> None:
    results = {str(i): {"provenance": {"versions": {"headstart": name}}} for i, name in enumerate(versions)}
    assert trained_with(SimpleNamespace(finished=results)) == text  # type: ignore[arg-type]


def test_a_long_name_of_an_arm_is_drawn_without_its_brackets_where_no_other_is_called_so() -> None:
    printed = {
        "a": "STANDARD",
        "b": "+SELF-PRETRAINING (OUR REPRODUCTION)",
        "c": "+SELF-PRETRAINING (THEIR NUMBERS OF IT)",
    }
    for arms, second in ((("a", "b"), "+SELF-PRETRAINING"), (("a", "b", "c"), printed["b"])):
        results = SimpleNamespace(arms=arms, printed=printed.get)
        assert brief_names(results)["b"] == second  # type: ignore[arg-type]


def test_the_answer_says_why_a_clear_interval_is_no_verdict() -> None:
    def text(part: Part, **claim: object) -> str:
        verdict = Verdict(Claim.model_validate({"says": "It helps.", "higher": "a", **claim}), (part,))
        return short_answer(SimpleNamespace(verdicts=[verdict], answer=""))  # type: ignore[arg-type]

    clear, open_ = Difference(0.03, 0.004, 0.02, 0.04, 6), Difference(0.01, 0.02, -0.04, 0.06, 6)
    part = Part("mnist", "undecided", clear)
    assert "+0.030 [0.020, 0.040], n 6, reaches beyond ±0.02" in text(part, lower="b", within=0.02)
    assert "n 6, not clear among all verdicts of this page" in text(replace(part, uncorrected="holds"), lower="b")
    assert text(replace(part, difference=open_), lower="b").endswith(
        "undecided on mnist (+0.010 [−0.040, 0.060], n 6)."
    )
    assert text(replace(part, outcome="withdrawn"), lower="b").endswith(f"n 6), since {TOO_SMALL}.")
    assert "(+0.030 [0.020, 0.040] over 0.9, n 6)" in text(replace(part, outcome="holds"), than=0.9)
