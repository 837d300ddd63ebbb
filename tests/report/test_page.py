"""The page: one file that is whole, safe, offline, and in which every number leads to its stages."""

from __future__ import annotations

import csv
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.finished import NASTY, Done, fill, paper_study, study, with_paper, written
from support.html_reader import Reader
from support.made_up import make_plan as make_up
from support.made_up import result, shelf

from headstart.report.answer import answer
from headstart.report.figures.collect import drawings
from headstart.report.methods import methods
from headstart.report.page import write_report
from headstart.store import Store
from headstart.study.language.files import to_toml
from headstart.study.language.papers import Claim
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise


def test_the_report_is_two_pages_three_tables_a_study_and_figures(done: Done) -> None:
    _, results, page = done
    names = {path.name for path in page.parent.iterdir()}
    of_digits = ("sweep-digits", "curves-digits", "reconstruction-digits")
    assert names == {
        "page.html",
        "results.md",
        "table.md",
        "table.csv",
        "table.tex",
        "study.toml",
        *(f"{name}.{form}" for name in ("forest", *of_digits) for form in ("png", "svg", "pdf")),
    }
    assert page.name == "page.html"
    rows = list(csv.DictReader((page.parent / "table.csv").read_text().splitlines()))
    assert [row["arm"] for row in rows[:2]] == list(results.arms)


def test_the_page_loads_nothing_and_runs_nothing(done: Done) -> None:
    text = done[2].read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    output = Reader(text)
    assert not {"script", "iframe", "object", "link", "form"} & set(output.tags)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in output.sources)
    assert len(output.sources) == 8
    assert all(link.startswith("#") for link in output.links)
    assert "url(" not in text
    assert "@import" not in text
    assert str(done[2].parent.parent) not in text


def test_every_link_of_the_page_has_its_place_and_no_place_is_named_twice(done: Done) -> None:
    plan, _, page = done
    output = Reader(page.read_text())
    assert len(output.ids) == len(set(output.ids))
    assert {link[1:] for link in output.links} <= set(output.ids)
    assert {f"stage-{identity}" for identity in plan.every_stage} <= set(output.ids)


def test_every_number_of_the_table_leads_to_what_stands_behind_it(done: Done) -> None:
    text = done[2].read_text()
    body = text[text.index("<tbody") : text.index("</tbody>")]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", body)
    numbers = [cell for cell in cells if re.search(r"\d", re.sub("<[^>]*>", "", cell))]
    assert len(numbers) >= 12
    assert all(cell.startswith('<a href="#') for cell in numbers)


def test_the_runs_behind_a_row_name_each_seeds_stages_and_difference(done: Done) -> None:
    plan, results, page = done
    text = page.read_text()
    row = results.table[1]
    part = text[text.index('id="row-2"') :]
    part = part[: part.index("<details>")]
    assert all(f"#stage-{identity}" in part for identity in row.stages)
    for gap in ("+0.200", "+0.210", "+0.220"):
        assert gap in part
    assert {planned.identity for planned in plan.stages.values()} >= set(row.stages)


def test_the_other_scores_are_there_and_lead_to_their_runs_too(done: Done) -> None:
    text = done[2].read_text()
    part = text[text.index("Train, the last weights and steps") :]
    part = part[: part.index("</details>")]
    assert "train at the last step" in part
    assert part.count('<a href="#row-') >= 8


def test_the_paper_and_the_outcome_of_its_claims_stand_under_the_table(tmp_path: Path) -> None:
    _, page = with_paper(tmp_path)
    text = page.read_text()
    output = Reader(text)
    assert {"paper", "claims"} <= set(output.ids)
    assert "Beside Doe, table 1. Scale tiny (smoke test). Stand-in data: digits for digits." in text
    assert "not run on these data" in text
    message = output.said
    assert "It helps (self_pretrained less scratch, test): holds on digits (+0.210 [0.185, 0.235]" in message
    assert text.index('id="table"') < text.index('id="paper"') < text.index('id="claims"')
    assert {link[1:] for link in output.links} <= set(output.ids)
    names = {path.name for path in page.parent.iterdir()}
    assert {"beside.md", "beside.csv", "beside.tex"} <= names


def test_without_a_paper_nothing_stands_beside(done: Done) -> None:
    assert not {"paper", "claims"} & set(Reader(done[2].read_text()).ids)
    assert not (done[2].parent / "beside.md").exists()


def test_stand_in_data_head_every_form_of_the_table_and_every_figure(tmp_path: Path) -> None:
    results, page = with_paper(tmp_path)
    for name in ("table.md", "table.tex", "beside.md", "beside.tex", "results.md", "page.html"):
        assert "Stand-in data: digits for digits" in (page.parent / name).read_text(), name
    rows = list(csv.DictReader((page.parent / "table.csv").read_text().splitlines()))
    assert [row["stand_in"] for row in rows if row["kind"] == "arm"] == ["digits for digits"] * 2
    store = Store(page.parent.parent / "runs")
    for drawn in drawings(make_plan(read_study(paper_study()), page.parent.parent), results, store)[0]:
        figure = drawn.figure()
        assert figure is not None
        heads = [figure.get_suptitle(), *(legend.get_title().get_text() for legend in figure.legends)]
        assert any(head.startswith("Stand-in data: digits for digits") for head in heads)
        assert drawn.caption.startswith("Stand-in data: digits for digits.")
    assert answer(results).startswith(
        "With stand-in data: the claim of the paper, “It helps”, holds. On digits, self_pretrained beats scratch"
    )


def test_stand_in_data_are_said_to_be_of_the_rows_that_rest_on_them() -> None:
    def answer_of(stood_in: Any) -> str:
        plan = make_up(columns={"a": "digits", "b": "mnist"}, stood_in=stood_in)
        return answer(summarise(plan, shelf(plan).find))

    assert answer_of({"a": "waves", "b": "waves"}).startswith("With stand-in data: ")
    assert answer_of({"a": "waves"}).startswith("With stand-in data in 1 of 2 columns: ")
    assert answer_of({"b": {"pretrain": "waves"}}).startswith("With stand-in data in 1 of 4 rows: ")
    assert "tand-in" not in answer_of({})


def test_figures_of_trained_models_join_the_others_and_missing_ones_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstart.report.figures import collect
    from headstart.report.figures.style import Drawing
    from headstart.report.figures.sweep import sweep

    def plan_of(plan: object, results: Any, store: object, wanted: tuple[str, ...]) -> Any:
        assert wanted == ("kernels",)
        item = Drawing("kernels-digits", "Kernels", "What they look like.", lambda dark: sweep(results, "digits", dark))
        return [item], ["No kernels of scratch: it has <none>."]

    monkeypatch.setattr(collect, "trained_drawings", plan_of)
    table = study()
    table["report"]["figures"] = ["kernels"]
    page = written(tmp_path, table)[2]
    assert (page.parent / "kernels-digits.png").is_file()
    assert "No kernels of scratch: it has &lt;none&gt;." in page.read_text()
    text = (page.parent / "results.md").read_text()
    assert "![What they look like.](kernels-digits.png)" in text
    assert "No kernels of scratch: it has &lt;none&gt;." in text


def test_a_figure_of_the_data_meant_has_no_such_head(done: Done) -> None:
    plan, results, page = done
    for drawn in drawings(plan, results, Store(page.parent.parent / "runs"))[0]:
        figure = drawn.figure()
        assert figure is not None
        assert figure.get_suptitle() == ""
        assert not any(legend.get_title().get_text() for legend in figure.legends)
    assert "stand_in" not in (page.parent / "table.csv").read_text()


@pytest.mark.parametrize("where", ["title", "arm", "column"])
def test_foreign_text_is_never_markup(tmp_path: Path, where: str) -> None:
    table = study(NASTY if where == "title" else "Title")
    if where == "arm":
        table["arms"] = {"scratch": {}, NASTY: table["arms"]["self_pretrained"]}
    if where == "column":
        table["columns"] = {NASTY: table["columns"]["digits"]}
    page = written(tmp_path, table)[2]
    assert "<script" not in (page.parent / "results.md").read_text()
    output = Reader(page.read_text())
    assert "script" not in output.tags
    assert NASTY in output.said
    assert "49" not in re.findall(r"</script>(\S+)", output.said)
    assert all(path.parent == page.parent for path in page.parent.rglob("*"))


def test_an_unfinished_study_has_a_page_that_says_so(tmp_path: Path) -> None:
    _, results, page = written(tmp_path, keep=3)
    text = page.read_text()
    assert "So far (3 of 12 runs done)" in text
    assert "partial" in text
    assert results.table[1].status == "absent"
    Reader(text)


def test_a_study_of_which_nothing_is_finished_has_a_page_too(tmp_path: Path) -> None:
    page = written(tmp_path, keep=0)[2]
    assert "no run is finished" in page.read_text()
    Reader(page.read_text())


def test_damaged_records_and_predictions_cost_their_figure_and_nothing_else(tmp_path: Path) -> None:
    plan, results, page = written(tmp_path)
    for identity in plan.stages:
        (tmp_path / "runs" / identity / "predictions.safetensors").write_bytes(b"broken")
        (tmp_path / "runs" / identity / "records.jsonl").write_text("{\n")
    page = write_report(plan, results, Store(tmp_path / "runs"), tmp_path / "again")
    assert {path.name for path in page.parent.glob("*.png")} == {"forest.png", "sweep-digits.png"}


def test_the_same_store_gives_the_same_bytes(done: Done, tmp_path: Path) -> None:
    plan, results, page = done
    again = write_report(plan, results, Store(page.parent.parent / "runs"), tmp_path / "again")
    for path in page.parent.iterdir():
        assert path.read_bytes() == (again.parent / path.name).read_bytes(), path.name


def test_the_study_beside_the_page_reads_back_as_the_same_study(done: Done) -> None:
    plan, _, page = done
    again = read_study(str(page.parent / "study.toml"))
    assert again == plan.study
    assert list(make_plan(again, plan.data).stages) == list(plan.stages)
    text = page.read_text()
    assert "headstart run study.toml" in text
    assert "In the folder of this page, whose <code>study.toml</code> holds the study with its overrides." in text


@pytest.mark.parametrize("name", ["coser-4", "coser-5", "amos-8", "amos-f3", "rothermel-1", "digits"])
def test_a_scaled_study_of_a_paper_keeps_its_scale_stand_ins_and_paper_beside_the_page(
    name: str, tmp_path: Path
) -> None:
    model = read_study(name, data=tmp_path)
    assert read_study(tomllib.loads(to_toml(model.model_dump(mode="json")))) == model


def test_toml_keeps_any_text_and_number() -> None:
    table = {
        "name": "n",
        "title": 'a "quoted" \\ line\nand \x7f é',
        "stages": {"a": {"x": [1e-4, 1.0, 2, True]}},
        "arms": {"odd name": {}, "b": {"t": {"k": "v", "none": None}}},
        "axes": {"a.optim.lr": [1e-3, 1e22]},
        "report": {"choose": None, "against": None},
    }
    read = tomllib.loads(to_toml(table))
    assert read["title"] == table["title"]
    assert read["stages"] == table["stages"]
    assert read["arms"] == {"odd name": {}, "b": {"t": {"k": "v"}}}
    assert read["axes"] == table["axes"]
    assert "report" not in read
    with pytest.raises(TypeError, match="not TOML serializable"):
        to_toml({"name": "n", "axes": {"a": object()}})


def test_the_answer_is_one_sentence_made_of_the_numbers(done: Done) -> None:
    results = done[1]
    assert answer(results) == (
        "On digits, self_pretrained beats scratch: test accuracy 0.650 ± 0.006 against 0.440 ± 0.000, a "
        "difference of +0.210 (95 % interval 0.185 to 0.235, 3 paired seeds)."
    )
    flat = replace(results.table[1], difference=replace(results.table[1].difference, low=-0.1))  # type: ignore[type-var]
    assert "whether self_pretrained is better than scratch is undecided: test" in answer(
        replace(results, table=(results.table[0], flat))
    )
    tied = replace(flat, val=results.table[0].val)
    assert "On digits, self_pretrained and scratch are equal on validation, and whether" in answer(
        replace(results, table=(results.table[0], tied))
    )
    assert answer(
        replace(results, table=tuple(replace(row, difference=None) for row in results.table), against=None)
    ) == ("On digits, self_pretrained has the best validation accuracy: test 0.650 ± 0.006 (3 seeds).")


def test_an_arm_that_a_claim_is_about_is_compared_with_what_the_claim_holds_it_against() -> None:
    """Not with the arm that the study compares all with, from which it may differ in its mixer besides."""
    arms = {"scratch": False, "other": False, "other_pretrained": True}
    up = {"scratch": 0.0, "other": 0.3, "other_pretrained": 0.35}

    def score(cell: Any) -> tuple[float, float]:
        wiggle = {"scratch": 0.001, "other": 0.01, "other_pretrained": 0.0}[cell.arm] * (cell.seed % 2)
        return 0.4 + up[cell.arm], 0.4 + up[cell.arm] + wiggle

    plan = make_up(arms=arms, columns={"a": "digits"}, seeds=(0, 1, 2))
    results = summarise(plan, shelf(plan, score).find)
    claim = Claim(says="S", higher="other_pretrained", lower="other")
    assert answer(results).startswith("On a, other_pretrained beats scratch: test accuracy 0.750 ± 0.000 against 0.400")
    assert (
        "On a, other_pretrained beats other: test accuracy 0.750 ± 0.000 against 0.703 ± 0.003, a difference of "
        "+0.047 (" in answer(replace(results, claims=(claim,)))
    )
    # Other sides than a single arm, other numbers than test: these say nothing of what is to be compared here.
    for more in ({"quantity": "train"}, {"within": 0.1}, {"lower": ("scratch", "other")}):
        replaced = claim.model_copy(update=more)
        assert "other_pretrained beats scratch" in answer(replace(results, claims=(replaced,)))
    # Half-way through, the two may have no seed in common: then it is the study's own comparison.
    done = {"scratch": (0, 1, 2), "other": (2,), "other_pretrained": (0, 1)}
    apart = shelf(plan, lambda cell: score(cell) if cell.seed in done[cell.arm] else None)
    assert "other_pretrained beats scratch" in answer(replace(summarise(plan, apart.find), claims=(claim,)))
    plan = make_up(arms=arms, columns={"a": "digits", "b": "mnist"}, seeds=(0, 1, 2))
    wide = replace(summarise(plan, shelf(plan, score).find), claims=(claim,))
    assert (
        "other_pretrained is better than other (95 % interval above 0) in both columns, also after Holm's correction "
        "for 4 differences." in answer(wide)
    )


def test_one_arm_is_told_and_not_called_the_best(done: Done) -> None:
    results = replace(done[1], table=done[1].table[:1], against=None)
    assert answer(results) == (
        "One arm, scratch, so that nothing is compared; its test accuracy is 0.440 ± 0.000 (3 seeds) on digits."
    )
    row = results.table[0]
    wide = replace(results, columns=("a", "b"), table=(replace(row, column="a"), replace(row, column="b", metric="r2")))
    assert answer(wide) == (
        "One arm, scratch, so that nothing is compared; its test is accuracy 0.440 ± 0.000 "
        "(3 seeds) on a and R² 0.440 ± 0.000 (3 seeds) on b."
    )
    names = tuple("abcdefg")
    assert answer(replace(results, columns=names, table=tuple(replace(row, column=name) for name in names))) == (
        "One arm, scratch, so that nothing is compared; its test accuracy is 0.440 to 0.440 over 7 columns."
    )


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (
            ["holds", "holds", "not measured"],
            "The claims of the study hold in both comparisons (the same after Holm's correction for their number); 1 more "
            "could not be checked here. On digits, self_pretrained beats scratch",
        ),
        (
            ["the other way round", "undecided", "holds", "undecided", "does not hold"],
            "The claims of the study hold in 1 of 5 comparisons, 1 is the other way round, 1 does not hold and 2 are "
            "undecided (the same after Holm's correction for their number). On digits,",
        ),
        (
            ["holds", ("holds", "undecided"), ("holds", "undecided")],
            "The claims of the study hold in all 3 comparisons (1 holds and 2 are undecided after Holm's correction "
            "for their number). On digits,",
        ),
        (
            ["undecided", "undecided"],
            "The claims of the study hold in none of 2 comparisons and 2 are undecided (the same after Holm's correction "
            "for their number). On digits,",
        ),
        (
            [("holds", "exploratory"), "holds", ("undecided", "exploratory")],
            "The claims of the study hold in 2 of 3 comparisons and 1 is undecided (the same after Holm's correction for "
            "their number; 1 is exploratory: its claim was written after the first runs). On digits,",
        ),
        (
            [("holds", "exploratory")],
            "The claim of the study, “More labels help”, holds (exploratory: it was written after the first runs). On",
        ),
        (["undecided"], "The claim of the study, “More labels help”, is undecided. On digits,"),
        (["not measured"], "No claim of the study could be checked here. On digits,"),
        ([], "On digits, self_pretrained beats scratch"),
    ],
)
def test_the_outcome_of_the_claims_comes_first(
    outcomes: list[str | tuple[str, str]], message: str, done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstart.report import answer as module

    def part(item: str | tuple[str, str]) -> SimpleNamespace:
        first, second = (item, "") if isinstance(item, str) else item
        if second == "exploratory":
            return SimpleNamespace(outcome=first, uncorrected=None, standing=second)
        return SimpleNamespace(outcome=second or first, uncorrected=first if second else None, standing="")

    claim = SimpleNamespace(says="More labels help.")
    output = [SimpleNamespace(parts=[part(item)], claim=claim) for item in outcomes]
    monkeypatch.setattr(module, "verdicts", lambda *_: [*output, SimpleNamespace(parts=())])
    assert answer(done[1]).startswith(message)
    if len(outcomes) > 1:
        alone = [SimpleNamespace(parts=[part(item) for item in outcomes], claim=claim), SimpleNamespace(parts=())]
        monkeypatch.setattr(module, "verdicts", lambda *_: alone)
        assert answer(done[1]).startswith(
            message.replace("The claims of the study hold", "The claim of the study holds")
        )
    assert answer(replace(done[1], table=())) == "No run is finished."


def test_the_answer_over_columns_counts_them(tmp_path: Path) -> None:
    table = study()
    task = table["columns"]["digits"]
    table["columns"] = {"a": task, "b": {**task, "task": {"kind": "digits", "labelled": 100}}}
    table["report"]["average"] = {"over": "columns"}
    plan = make_plan(read_study(table), tmp_path)
    store = Store(tmp_path / "runs")
    fill(plan, store)
    results = summarise(plan, store.result)
    assert answer(results).startswith(
        "self_pretrained is better than scratch (95 % interval above 0) in both columns, also after Holm's correction for 2 "
        "differences; on average "
        "+0.210"
    )
    errors = [replace(row, greater=False) for row in results.table]
    assert answer(replace(results, table=tuple(errors), averages=())).startswith(
        "self_pretrained is worse than scratch (95 % interval above 0) in both columns"
    )
    unsure = [replace(row, difference=row.difference and replace(row.difference, low=-0.1)) for row in results.table]
    assert answer(replace(results, table=tuple(unsure), averages=())) == (
        "self_pretrained is undecided against scratch (the 95 % interval contains 0) in both columns."
    )
    mixed = [row if row.column == "a" else flat for row, flat in zip(results.table, unsure, strict=True)]
    assert answer(replace(results, table=tuple(mixed), averages=())) == (
        "self_pretrained is better than scratch (95 % interval above 0) in 1 of 2 columns (a), also after Holm's correction "
        "for 2 differences and is undecided against scratch (the 95 % interval contains 0) in 1 of 2 columns (b)."
    )


def test_the_methods_say_what_was_swept_chosen_and_on_what(done: Done) -> None:
    plan, results, _ = done
    text = methods(plan, results, [result("0" * 16, 0.1, 0.1)])
    for part in (
        "2 arms (scratch and self_pretrained) on digits",
        "1,097 training examples (200 of them labelled)",
        "1 block of attention (2 heads), width 8, rotary positions",
        "for 2 epochs",
        "In self_pretrained, stage pretrain reconstructed 50 % of the positions",
        "started from the best weights of pretrain by take(all-head)",
        "repeated with 3 seeds",
        "swept finetune.optim.lr over {0.001, 0.003}",
        "best mean validation accuracy",
        "lr 0.003 in every arm",
        "not used for any choice",
        "n = 3 seeds",
        "torch 2.13.0",
    ):
        assert part in text, part
    assert "\n" not in text
