"""The page of a fit: whole, offline, safe; the answer first; every number as the fit has it; no data unless asked."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.html_reader import Reader
from support.made_outcomes import NASTY, examples, outcome

from headstart import words
from headstart.baselines.measures import reliability
from headstart.fitted.evidence import single
from headstart.fitted.outcome import Answers, Outcome
from headstart.fitted.page import write_page
from headstart.fitted.wording import caveats, in_plain_words, in_short, own_score
from headstart.report.figures.predictions import FEW_CLASSES, confusion_of
from headstart.report.figures.reconstruction import read_predictions
from headstart.report.page import Anchors, filled, page_table
from headstart.report.tables.report_table import ReportTable, TableCell, TableLine, text_table
from headstart.sequence import IGNORE
from headstart.serve.config import HeldOut

FORTY = tuple(f"word {i}" for i in range(40))


@cache
def an_outcome(name: str) -> Outcome:
    """Outcomes that tests only read."""
    kinds: dict[str, Any] = {
        "classes": lambda: outcome(),
        "numbers": lambda: outcome((), test=60),
        "nasty": lambda: outcome(NASTY, channels=2),
        "many": lambda: outcome(FORTY, test=200),
        "untested": lambda: outcome(test=0),
        "classic": lambda: replace(
            outcome(("a", "b"), pretrained=False, serves="summary", winner="summary"),
            occlusion=None,
            records={},
            uncalibrated=None,
        ),
        "balanced": lambda: outcome(metric="balanced_accuracy"),
    }
    result: Outcome = kinds[name]()
    return result


def lean(item: Outcome) -> Outcome:
    """Without most figures, which take the time."""
    return replace(item, occlusion=None, records={})


@cache
def page(name: str) -> str:
    return write_page(an_outcome(name))


def text_of(name: str) -> str:
    return " ".join(Reader(page(name)).said.split())


def titles(text: str) -> list[str]:
    return [re.sub("<[^>]*>", "", title) for title in re.findall("<h2[^>]*>(.*?)</h2>", text)]


ALL = ("classes", "numbers", "nasty", "many", "untested", "classic", "balanced")


@pytest.mark.parametrize("name", ALL)
def test_the_page_is_whole_and_loads_and_runs_nothing(name: str) -> None:
    text = page(name)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    output = Reader(text)
    assert not {"script", "iframe", "object", "link", "form"} & set(output.tags)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in output.sources)
    assert all(link.startswith("#") for link in output.links)
    assert len(output.ids) == len(set(output.ids))
    assert "url(" not in text
    assert "@import" not in text
    for source in output.sources:
        drawn = base64.b64decode(source.partition(",")[2]).decode()
        assert "<script" not in drawn
        assert "<image" not in drawn


@pytest.mark.parametrize("name", ALL)
def test_the_answer_comes_first_where_nothing_is_drawn_and_tables_and_caveats_stand_below_a_fold(name: str) -> None:
    text, item = page(name), an_outcome(name)
    fold = text.index('<details class="fold">')
    brief = in_short(item) or item.answer
    assert text.index(brief.replace(" %", "\u00a0%")) < fold < text.index("The models</h2>")
    assert titles(text)[0] == ("The models" if name == "untested" else "The answer")
    assert text.index("What to keep in mind") > fold


@pytest.mark.parametrize("name", ALL)
def test_every_model_stands_in_the_table_with_its_scores(name: str) -> None:
    text, item = page(name), an_outcome(name)
    lines = table_lines(text)
    scores = [candidate.row.val for candidate in item.candidates if candidate.row.val is not None]
    assert len(lines) == len(item.candidates)
    for line, candidate in zip(lines, item.candidates, strict=True):
        row, plain = candidate.row, " ".join(re.sub("<[^>]*>", "", f"<tr {line}").split())
        assert plain.startswith(candidate.name)
        assert ("(predicts)" in plain) == (candidate.name == item.serves)
        assert words.plus_minus(row.val) in plain
        assert row.test is None or words.plus_minus(row.test) in plain
        assert row.difference is None or words.difference(row.difference) in plain
        assert ("best" in line.split(">")[0]) == (row.val == max(scores, key=lambda score: score.mean))


def table_lines(text: str) -> list[str]:
    """The lines of the first table."""
    text = text[text.index("The models</h2>") :]
    return text[text.index("<tbody") : text.index("</tbody>")].split("<tr ")[1:]


def test_each_measure_of_the_table_is_explained_beneath_it() -> None:
    assert all(f"{name}: " in text_of("classes") for name in ("Accuracy", "Balanced accuracy", "Macro-F1"))
    assert all(f"{name}: " in text_of("numbers") for name in ("R²", "MAE", "RMSE"))
    assert "Accuracy:" not in text_of("numbers")
    assert "val balanced accuracy" in text_of("balanced")
    assert "lr 0.003" in text_of("classes")


def test_heads_of_the_table_are_words_of_a_person_who_knows_no_studies() -> None:
    text = text_of("classes").partition("The models ")[2].partition("What to keep in mind")[0]
    assert "The cost of a run includes its self-pretraining." in text
    assert not re.search(r"\bTried\b|\bBudget\b|over n |\bn is\b|\bstages?\b", text)


def test_what_was_asked_for_is_told_apart_from_what_is_best() -> None:
    other = write_page(replace(lean(an_outcome("classes")), serves="scratch"))
    lines = table_lines(other)
    assert "scratch (predicts)" in lines[0]
    assert "best" not in lines[0].split(">")[0]
    assert "best" in lines[1].split(">")[0]
    assert "The model that is served was asked for." in other
    assert "was asked for" not in page("classes")


def test_the_matrix_counts_each_answer_under_its_true_class() -> None:
    target = np.array([0, 0, 0, 1, 1, IGNORE])
    matrix = confusion_of(target, np.array([0, 0, 1, 1, 1, 0]), ("a", "b", "c"))
    assert [[count for count, _, _ in cells] for _, _, cells, _ in matrix.rows] == [[2, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert matrix.rows[0][2][1][1] == pytest.approx(1 / 3)
    assert [recall for *_, recall in matrix.rows] == [("2 of 3", "67 %"), ("2 of 2", "100 %"), ("0 of 0", words.NONE)]
    assert matrix.precision == (("2 of 2", "100 %"), ("2 of 3", "67 %"), ("0 of 0", words.NONE))
    assert matrix.heads == ("a", "b", "c")
    assert not matrix.lettered


@pytest.mark.parametrize(
    ("classes", "lettered"),
    [
        (tuple(map(str, range(10))), False),
        (tuple(f"k{i}" for i in range(20)), False),
        (tuple(f"class number {i}" for i in range(3)), True),
        (tuple(map(str, range(1001, 1010))), True),
    ],
)
def test_columns_of_the_matrix_have_the_names_of_the_classes_or_letters(
    classes: tuple[str, ...], lettered: bool
) -> None:
    index = np.arange(len(classes))
    matrix = confusion_of(index, index, classes)
    assert matrix.heads == (tuple("ABCDEFGHIJKLMNOPQRST"[: len(classes)]) if lettered else classes)
    assert [(letter, name) for letter, name, *_ in matrix.rows] == list(
        zip("ABCDEFGHIJKLMNOPQRST", classes, strict=False)
    )
    assert matrix.lettered is lettered
    assert ("letters of the rows" in matrix.caption) is lettered


def test_a_name_in_a_table_keeps_its_commas() -> None:
    table = text_table(("class", "rows"), [["walking, upstairs (partial, served)", "3, 4"]])
    item = an_outcome("classes")
    (line,) = page_table(table, item.results, Anchors(item.results, stages=False))["lines"]
    assert [cell["parts"] for cell in line["cells"]] == [["walking, upstairs (partial, served)"], ["3", "4"]]


def test_a_class_that_test_does_not_hold_has_a_dash_for_its_share() -> None:
    item = lean(an_outcome("classes"))
    few = replace(item, test=Answers(np.array([0, 0]), item.test.predicted[:2]), uncalibrated=None)
    text = Reader(write_page(few)).said
    assert "0 of 0" in text
    assert "nan" not in text


def test_of_many_classes_the_commonest_mistakes_are_listed_and_each_class_by_itself() -> None:
    classes = tuple(str(i) for i in range(FEW_CLASSES + 1))
    target = np.array([5] * 4 + [7] * 9 + [2])
    matrix = confusion_of(target, np.array([6, 6, 6, 5] + [8, 8] + [7] * 7 + [2]), classes)
    assert matrix.rows == ()
    mistakes = [[cell.text for cell in line.cells.values()] for line in matrix.tables[0].lines]
    assert mistakes == [["5", "6", "3", "75 %"], ["7", "8", "2", "22 %"]]
    assert 'class="matrix' not in page("many")
    assert "too many for a matrix" in text_of("many")
    text = page("many")
    part = text[text.index("Each class by itself") :]
    assert part[: part.index("</tbody>")].count("<tr ") == 1 + len(FORTY)


def test_a_hundred_classes_and_two_fit_too() -> None:
    Reader(write_page(lean(outcome(tuple(f"{i:03}" for i in range(100)), test=300))))
    right = lean(outcome(("yes", "no")))
    sure = np.eye(2)[right.test.target]
    Reader(write_page(replace(right, test=Answers(right.test.target, sure), uncalibrated=sure)))


def test_the_calibration_error_is_told_before_and_after() -> None:
    item = an_outcome("classes")
    assert item.uncalibrated is not None
    for probabilities in (item.test.predicted, item.uncalibrated):
        assert words.score(reliability(item.test.target, probabilities).error) in text_of("classes")
    assert "one temperature, 1.7, chosen on validation" in text_of("classes")
    assert "without calibration" not in text_of("classic")


def test_the_served_models_own_test_score_has_an_interval_for_the_draw() -> None:
    item = an_outcome("classes")
    right = int((item.test.predicted.argmax(1) == item.test.target).sum())
    assert f"right on {right} of 120 test sequences, {words.score(right / 120)}" in text_of("classes")
    off = float(np.abs(an_outcome("numbers").test.predicted - an_outcome("numbers").test.target).mean())
    assert f"{words.score(off)} off on average" in text_of("numbers")


def test_an_interval_over_rows_of_groups_says_that_it_is_too_narrow() -> None:
    outcome = an_outcome("classes")
    assert "too narrow" not in own_score(outcome)
    grouped = replace(outcome.card, head=[*outcome.card.head, ("groups", "24")])
    assert "those of one group (there are 24 in all) are alike, so that it is too narrow" in own_score(
        replace(outcome, card=grouped)
    )


@pytest.mark.parametrize(("right", "count"), [(0, 10), (10, 10), (7, 10), (450, 500), (1, 1)])
def test_the_interval_of_a_share_ends_where_the_share_lies_just_1_96_of_its_own_errors_off(
    right: int, count: int
) -> None:
    predicted = np.eye(3)[[0] * right + [1] * (count - right)]
    text = own_score(replace(an_outcome("classes"), test=Answers(np.zeros(count, np.int64), predicted)))
    low, high = (float(end) for end in re.findall(r"may be ([\d.]+) to ([\d.]+) \(95 % interval\)", text)[0])
    assert 0 <= low <= round(right / count, 3) <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            error = (end * (1 - end) / count) ** 0.5
            assert abs(end - right / count) / error == pytest.approx(1.959964, rel=0.05)


def test_numbers_have_errors_where_classes_have_a_matrix() -> None:
    heads = titles(page("numbers"))
    assert "Right and wrong on test" in heads
    assert "Can its probabilities be believed?" not in heads
    assert 'class="matrix' not in page("numbers")
    assert "SequenceRegressor" in text_of("numbers")
    assert "the absolute error grows" in text_of("numbers")


@pytest.mark.parametrize(
    ("predicted", "end"),
    [
        ([0, 0, 1, 1], "always naming the commonest class would be right on 2."),
        ([0, 0, 0, 0], "always naming the commonest class would be as good, right on 2."),
        ([1, 0, 2, 1], "always naming the commonest class would be better, right on 2."),
    ],
)
def test_an_answer_no_better_than_one_class_for_all_says_so(predicted: list[int], end: str) -> None:
    answers = Answers(np.array([0, 0, 1, 2]), np.eye(3)[predicted])
    item = replace(an_outcome("classes"), test=answers, labels=("a", "b", "c"))
    assert in_short(item).endswith(end)


def test_a_number_that_is_farther_off_than_the_middle_one_says_so() -> None:
    item = replace(an_outcome("numbers"), test=Answers(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])))
    assert in_short(item).endswith("always predicting their median would be better, off by 0.667.")


def test_without_a_test_split_the_page_says_so_and_shows_what_it_has() -> None:
    heads = titles(page("untested"))
    assert "No sequence was held out for a test" in text_of("untested")
    assert not {"Right and wrong on test", "Can its probabilities be believed?"} & set(heads)
    assert "test accuracy" not in text_of("untested").split("The runs behind each row")[0]
    assert "Where the model looks" in heads
    Reader(write_page(lean(outcome((), test=0))))


def test_without_self_pretraining_nothing_is_said_of_it() -> None:
    assert "What self-pretraining learnt to fill in" not in titles(page("classic"))
    assert "--no-examples" not in text_of("classic")
    assert "How the networks learnt" not in titles(page("classic"))


def test_without_any_network_the_page_stands_on_the_classic_models() -> None:
    item = an_outcome("classic")
    config = item.served.config.model_copy(update={"network": None})
    bare = replace(
        item,
        served=replace(item.served, config=config, network=None),
        candidates=item.candidates[1:],
        results=replace(item.results, table=item.results.table[1:]),
        seeds=(),
        plan=(),
        versions={},
    )
    text = " ".join(Reader(write_page(bare)).said.split())
    assert "Served is summary: a linear model of summary features." in text
    assert "--use NAME" not in text


def test_foreign_names_are_never_markup() -> None:
    item = lean(an_outcome("nasty"))
    channel = ("<b>ch</b>", "0", "1", "2", "3", "4")
    replaced = replace(
        item, title=NASTY[0], answer=NASTY[3], notes=NASTY, plan=NASTY, card=replace(item.card, channels=(channel,))
    )
    text = write_page(replaced)
    output = Reader(text)
    assert "script" not in output.tags
    assert "b" not in output.tags
    for name in (*NASTY, "<b>ch</b>"):
        assert name in output.said
    assert "49 $x" not in output.said


def test_the_score_of_filling_in_is_told_and_how_to_see_it() -> None:
    assert "explains 0.850 of the variance of the hidden values" in text_of("classes")
    assert "without that option hidden stretches stand here" in text_of("classes")
    item = an_outcome("classes")
    tokens = {name: [{**r, "val": {"accuracy": 0.25}} for r in lines] for name, lines in item.records.items()}
    assert "names 25 % of the hidden symbols right" in write_page(replace(item, records=tokens, occlusion=None))


def test_data_come_into_the_page_only_as_examples_that_were_given() -> None:
    item = an_outcome("classes")
    without, whole = Reader(page("classes")), Reader(write_page(item, examples()))
    assert len(whole.sources) == len(without.sources) + 2
    assert "It holds no sequence, id or file name" in without.said
    assert "It holds no sequence" not in whole.said
    assert "hidden stretches stand here" not in whole.said
    assert "Validation curves that pretraining never trained on" in whole.said


def test_neither_files_nor_places_nor_the_command_stand_on_the_page() -> None:
    item = an_outcome("classes")
    assert any("secret" in text for _, text in item.card.head)
    assert any("row" in text for text in item.card.findings)
    text = write_page(replace(lean(item), notes=(*item.card.findings, "Kept.")))
    assert "secret" not in text
    assert "/home" not in text
    assert "Kept." in text
    assert not any(finding in Reader(text).said for finding in item.card.findings)
    assert "1 sequence is an exact copy of another" in text


def test_patches_are_positions_again_before_they_are_drawn() -> None:
    output = read_predictions(examples(patch=4, channels=3, length=10))
    assert output is not None
    whole = single(output, 4)
    assert whole.inputs.shape == (4, 40, 3)
    assert whole.masked.shape == whole.valid.shape == (4, 40)
    assert (whole.inputs[:, 5] == output.inputs[:, 1, 3:6]).all()
    assert (whole.masked[:, 5] == output.masked[:, 1]).all()
    Reader(write_page(lean(outcome(patch=4, channels=3)), examples(patch=4, channels=3)))


def test_tokens_are_drawn_as_strips() -> None:
    rng = np.random.default_rng(0)
    tokens = {
        "val/inputs": rng.integers(0, 4, (3, 12)),
        "val/masked": rng.random((3, 12)) < 0.4,
        "val/valid": np.ones((3, 12), dtype=bool),
        "val/output": rng.normal(size=(3, 12, 4)),
    }
    text = Reader(write_page(lean(an_outcome("classes")), tokens)).said
    assert "Validation tokens that pretraining never trained on" in text


def test_each_seed_and_each_setting_stands_behind_its_network() -> None:
    text = page("classes")
    first, second, *_ = an_outcome("classes").results.table
    for row in (first, second):
        part = text[text.index(f"<h3>{row.arm} ") :]
        part = part[: part.index('<div class="row"')]
        lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall("<tr>(.*?)</tr>", part)[1:4]]
        scores = [[str(run.seed), words.score(run.val), words.score(run.test)] for run in row.runs]
        assert [line[:3] for line in lines] == scores
        assert "lr 0.003 (chosen)" in part
    gaps = [second.by_seed()[seed] - first.by_seed()[seed] for seed in (0, 1, 2)]
    assert [line[3] for line in lines] == [words.signed(gap) for gap in gaps]
    assert 'href="#stage' not in text


def test_the_same_outcome_gives_the_same_bytes() -> None:
    assert write_page(an_outcome("classes")) == page("classes")


def test_the_page_warns_before_sets_of_classes_are_used_where_too_few_of_a_class_were_held_out() -> None:
    fit = outcome()
    errors = {"errors": (0.1,) * 30, "source": "validation", "class_errors": (0.1,) * 30}

    def lines_of(*counts: int) -> list[str]:
        held = {fit.served.config.serve: HeldOut(**errors, class_counts=counts)}
        served = replace(fit.served, config=fit.served.config.model_copy(update={"held_out": held}))
        return [text for text in caveats(replace(fit, served=served)) if "sets of classes" in text]

    assert lines_of(10, 10, 10) == []
    (text,) = lines_of(18, 9, 3)
    assert text == (
        "Before sets of classes are used (predict with --confidence 0.9): too few sequences were held out of 'run' (3): "
        "0.9 takes 9 of each class, so that every set holds these; label more of them, or ask for less."
    )


def test_a_column_that_holds_nothing_is_left_out_and_models_without_a_score_come_last() -> None:
    lines = tuple(
        TableLine("arm", {"arm": TableCell(name), "chosen": TableCell(), "val": TableCell(val)}, status)
        for name, val, status in (("scratch (absent)", "—", "absent"), ("kernels", "0.9", "measured"))
    )
    table = in_plain_words(ReportTable("", ("arm", "chosen", "val"), (False, False, True), lines))
    assert (table.heads, table.numeric) == (("model", "val"), (False, True))
    assert [line.cells["arm"].text for line in table.lines] == ["kernels", "scratch (not trained)"]


def test_an_option_in_a_sentence_is_not_broken_at_its_hyphens_and_the_sentence_stays_escaped(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("{{ text | whole }}")
    text = filled(tmp_path / "page.html", text="give more --time or <b>--no-examples</b>")
    assert text == (
        'give more <span class="option">--time</span> or &lt;b&gt;<span class="option">--no-examples</span>&lt;/b&gt;'
    )
