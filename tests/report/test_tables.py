"""One table, four ways, and nothing foreign read as markup."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from support.made_up import LR, Cell, Stage, facts, make_plan, shelf, usual

from headstart import words
from headstart.checkpoints.spec import CheckpointSpec
from headstart.errors import BadInput
from headstart.report.methods import tried
from headstart.report.tables.report_table import ReportTable, markdown, to_csv, to_latex, to_markdown, to_rich
from headstart.report.tables.scores import differences, make_table, note, pivot_table, quantities, windows
from headstart.report.tables.settings import settings_table
from headstart.study.paper.snapshot import read_snapshot
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results
from headstart.text import column_widths

RESULTS = Path(__file__).parents[2] / "docs" / "results"
NASTY = "=1+1|<b>[red]\\input{x}_%&$#\x1b[31m\n"


def demo(name: str = "self_pretrained", **more: object) -> Results:
    plan = make_plan(arms={"scratch": False, name: True}, **more)  # type: ignore[arg-type]
    return summarise(plan, shelf(plan).find, facts=facts())


def printed(table: ReportTable, width: int = 160) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(to_rich(table))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_terminal_table_shows_arms_settings_errors_intervals_and_baselines() -> None:
    text = printed(make_table(demo()))
    line = next(row for row in text.splitlines() if row.strip().startswith("self_pretrained"))
    for part in ("lr 0.003", "0.508 ±0.009", "0.488 ±0.009", " 5 ", "+0.138 [0.128,0.148]", "90 epochs"):
        assert part in line
    assert "majority" in text
    assert "logistic regression" in text
    assert "95 % t-interval" in note(demo())


def test_the_caption_says_that_weights_read_from_a_checkpoint_are_one_draw() -> None:
    plan = make_plan()
    stored = shelf(plan)
    assert "draw" not in note(summarise(plan, stored.find))
    parent = next(cell.chain[0] for cell in plan.cells if len(cell.chain) > 1)
    read = replace(parent.spec, model=CheckpointSpec(source="gpt2"))
    cells = tuple(
        replace(cell, chain=(replace(parent, spec=read), *cell.chain[1:])) if parent in cell.chain else cell
        for cell in plan.cells
    )
    read_plan = replace(plan, cells=cells, stages={planned.identity: planned for c in cells for planned in c.chain})
    assert note(summarise(read_plan, stored.find)).endswith(" Pretrained weights are one draw.")


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_breaks_no_number(width: int) -> None:
    text = printed(make_table(demo()), width)
    assert all(part in text for part in ("0.508", "±0.009", "+0.138", "[0.128,0.148]", "accuracy", "scratch"))
    assert max(len(line) for line in text.splitlines()) <= width


def test_a_narrow_terminal_breaks_no_name_and_says_which_columns_it_leaves_out() -> None:
    text = printed(make_table(demo()), 80)
    assert "self_pretrained" in text
    assert "Left out in 80 columns: budget and tried." in " ".join(text.split())
    assert "Left out" not in printed(make_table(demo()))


def test_a_name_too_long_for_its_column_is_broken_behind_a_joint_as_in_every_table() -> None:
    text = printed(make_table(demo("a_long_mixer_self_pretrained")), 80)
    assert re.search("(?m)^ a_long_mixer_self_ ", text)
    assert re.search("(?m)^ pretrained ", text)


def test_no_word_is_broken_where_columns_are_narrowed() -> None:
    columns = [["arm", "self_pretrained (at chance)"], ["test", "0.508 ±0.009"], ["budget", "90 epochs"]]
    assert column_widths(columns, 80) == [27, 12, 9]
    assert column_widths(columns, 44) == [18, 9, 9]
    assert column_widths(columns, 36) == [15, 6, 7]
    assert column_widths(columns, 34) == [18, 10]
    assert column_widths([["x" * 40], ["y"]], 20) == [24, 1]
    rows = [["arm", "scratch"], ["test", "0.430"], ["budget", "1.0k epochs, 161 GFLOP, 36 s"]]
    assert column_widths(rows, 30) == [7, 5, 10]
    assert column_widths(rows, 30, lines=2) == [7, 5], "a cell of three lines is left out"


def test_the_csv_holds_full_numbers_under_their_names() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(make_table(demo())))))
    arm = next(row for row in rows if row["arm"] == "self_pretrained")
    result = demo().table[1]
    assert result.test is not None
    assert result.difference is not None
    assert float(arm["test"]) == result.test.mean
    assert float(arm["low"]) == result.difference.low
    assert (arm["kind"], arm["status"], arm["tried"], arm["n"]) == ("arm", "measured", "3", "5")
    base = next(row for row in rows if row["kind"] == "baseline")
    assert (base["arm"], base["test"], base["difference"]) == ("majority", "0.1", "")


@pytest.mark.parametrize("first", ["=", "+", "-", "@", " ="])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(first: str) -> None:
    text = to_csv(make_table(demo(f"{first}cmd()")))
    assert f"'{first}cmd()" in text
    cells = [cell.lstrip() for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


def test_a_negative_number_stays_a_number_in_the_csv() -> None:
    plan = make_plan()
    worse = shelf(plan, lambda c: (usual(c)[0], 0.5 - 0.1 * (c.arm != "scratch") + 0.01 * c.seed))
    rows = list(csv.DictReader(io.StringIO(to_csv(make_table(summarise(plan, worse.find))))))
    assert float(rows[1]["difference"]) == pytest.approx(-0.1)


def test_no_foreign_text_is_markup_in_markdown_latex_or_the_terminal() -> None:
    table = make_table(demo(NASTY))
    markdown = to_markdown(table)
    assert "<b>" not in markdown
    assert "=1+1\\|&lt;b&gt;\\[red\\]" in markdown
    assert len({line.count(" | ") for line in markdown.splitlines() if line.startswith("|")}) == 1
    tex = to_latex(table)
    assert "\\input" not in tex
    assert "\\textbackslash{}input\\{x\\}\\_\\%\\&\\$\\#" in tex
    text = printed(table, 300)
    assert "\x1b" not in text
    assert "[red]" in text


def test_a_command_in_backticks_stays_code_in_markdown_and_nothing_else_does() -> None:
    assert markdown("`headstart run` draws a_b") == "`headstart run` draws a\\_b"
    assert markdown("`<b>` and `a*b` and `c") == "\\`&lt;b&gt;\\` and \\`a\\*b\\` and \\`c"


def test_the_best_arm_on_validation_is_bold_whatever_test_says() -> None:
    plan = make_plan()
    result = shelf(plan, lambda c: (usual(c)[0], 0.9 if c.arm == "scratch" else 0.1), None)
    table = make_table(summarise(plan, result.find))
    assert [line.best for line in table.lines] == [False, True]
    assert "**self\\_pretrained**" in to_markdown(table)
    (line,) = [line for line in to_latex(table).splitlines() if "textbf" in line]
    assert line.startswith("{}\\textbf{self\\_pretrained} & ")
    assert line.count("\\textbf{") == 3  # the name and its scores on validation and test
    assert r"\caption{A made-up study. Mean" in to_latex(table)


def test_a_partial_diverged_or_chance_row_says_what_it_is() -> None:
    plan = make_plan()
    result = shelf(plan, lambda c: None if c.arm == "scratch" and c.seed == 4 else (0.1, 0.1))
    table = make_table(summarise(plan, result.find, facts=facts()))
    names = [line.cells["arm"].text for line in table.lines]
    assert names[:3] == ["scratch (partial)", "self_pretrained (at chance)", "majority"]
    assert table.lines[0].cells["n"].text == "4 of 5"
    for entry in result.results.values():
        entry["status"] = "diverged"
    table = make_table(summarise(plan, result.find))
    assert "diverged" in to_markdown(table)
    empty = make_table(summarise(plan, lambda _: None))
    assert [line.cells["arm"].text for line in empty.lines] == ["scratch (absent)", "self_pretrained (absent)"]
    assert "\N{EM DASH}" in printed(empty)


def test_several_columns_name_themselves_and_end_with_averages() -> None:
    plan = make_plan(columns={"a": "digits", "b": "mnist"}, average=SimpleNamespace(columns=(), missing="chance"))
    table = make_table(summarise(plan, shelf(plan).find, facts=facts()))
    assert table.heads[0] == "column"
    kinds = ["arm", "arm", "baseline", "baseline", "arm", "arm", "baseline", "baseline", "average", "average"]
    assert [line.kind for line in table.lines] == kinds
    assert "average of 2" in to_latex(table)


def test_a_pivot_has_arms_by_columns_with_the_best_of_each_column_on_validation_in_bold() -> None:
    plan = make_plan(columns={"a": "digits", "arm": "mnist"}, average=SimpleNamespace(columns=(), missing="chance"))

    def score(cell: Cell) -> tuple[float, float]:
        val, test = usual(cell)
        return (val, test) if cell.column == "a" or cell.arm == "scratch" else (0.1 + 0.01 * cell.seed, test)

    results = summarise(plan, shelf(plan, score).find, facts=facts())
    table = pivot_table(results)
    assert table.heads == ("arm", "a", "arm", "average")
    scratch, pretrained, majority, linear = table.lines
    assert [cell.text for cell in scratch.cells.values()][:2] == ["scratch", "0.350 ± 0.007"]
    assert [cell.best for cell in scratch.cells.values()] == [False, False, True, False]
    assert [cell.best for cell in pretrained.cells.values()] == [False, True, False, False]
    assert majority.cells["test a"].text == majority.cells["test arm"].text == "0.100"
    assert (linear.kind, linear.cells["average"].text) == ("baseline", "\N{EM DASH}")
    best = pretrained.cells["test a"].text
    assert f"| **{best}** |" in to_markdown(table)
    assert f"\\textbf{{{best.replace('±', '$' + chr(92) + 'pm$')}}}" in to_latex(table)
    assert best.replace("± ", "±") in printed(table)
    row = next(csv.DictReader(io.StringIO(to_csv(table))))
    value = results.table[0].test
    assert value is not None
    assert (float(row["test a"]), float(row["test a_sem"])) == (value.mean, value.sem)


def test_a_cell_of_a_pivot_says_that_its_runs_diverged_or_are_missing() -> None:
    plan = make_plan(columns={"a": "digits", "b": "mnist"}, rates=(1e-3,))
    stored = shelf(plan, lambda cell: None if cell.column == "b" else (0.5, 0.5))
    assert [line.cells["test b"].text for line in pivot_table(summarise(plan, stored.find)).lines][:2] == [
        "(absent)"
    ] * 2


def test_a_pivot_of_one_column_is_refused() -> None:
    with pytest.raises(BadInput, match="--pivot: study 'made-up' has one column, digits; leave --pivot out"):
        pivot_table(demo())


def test_latex_lines_have_one_cell_per_column() -> None:
    table = make_table(demo())
    lines = [line for line in to_latex(table).splitlines() if line.startswith("{}")]
    assert len(lines) == len(table.lines)
    assert {line.count(" & ") for line in lines} == {len(table.heads) - 1}


def test_a_table_of_r2_says_what_it_is_and_that_a_scaled_target_changes_nothing() -> None:
    plan = make_plan()
    result = shelf(plan, lambda c: (usual(c)[0], usual(c)[1] - 1.0), metric="r2")
    table = make_table(summarise(plan, result.find))
    assert table.heads[2:4] == ("val R²", "test R²")
    assert "\N{MINUS SIGN}0.650 ± 0.007" in to_markdown(table)
    assert "the same for targets in their own unit and scaled" in table.note
    assert "$^2$" in to_latex(table)
    assert "scaled" not in make_table(demo()).note


def test_the_csv_holds_train_and_the_last_weights_too() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(make_table(demo())))))
    assert float(rows[0]["train"]) == pytest.approx(0.9)
    assert rows[0]["last_test"] == rows[0]["test"]
    assert "reach" not in rows[0]


def test_the_number_of_configurations_tried_is_one_sentence() -> None:
    assert tried(demo()) == "Configurations tried: 3 in every arm and column."
    plan = make_plan(rates_of={"scratch": (1e-3,)})
    assert tried(summarise(plan, lambda _: None)) == "Configurations tried: scratch 1 and self_pretrained 3."


def test_how_differences_were_taken_stands_below_the_table() -> None:
    table = make_table(demo())
    assert "detectable" not in table.heads
    assert (
        "Differences are on test, paired by seed, with a 95 % t-interval over seeds alone in brackets. Budget: "
        in table.note
    )
    plan = make_plan(rates=(3e-3,), seeds=range(6))
    apart = shelf(plan, lambda cell: usual(cell) if (cell.seed < 3) == (cell.arm == "scratch") else None)
    assert "on test, unpaired (Welch), as no arms share 2 seeds, with" in note(summarise(plan, apart.find))


def test_the_page_alone_has_both_intervals_of_a_difference_its_p_values_and_what_more_seeds_would_do() -> None:
    table = differences(demo())
    assert table is not None
    (line,) = table.lines
    texts = {name: cell.text for name, cell in line.cells.items()}
    assert texts["paired by seed"] == "+0.138 [0.128, 0.148]"
    assert texts["unpaired (Welch)"].startswith("+0.138 [0.1")
    assert (texts["smallest p"], texts["rule"], texts["more seeds to halve"]) == ("0.062", "paired", "8")
    assert texts["p"] == texts["p (Holm)"]
    assert differences(summarise(make_plan(seeds=(0,)), shelf(make_plan(seeds=(0,))).find)) is None


def test_the_page_alone_has_the_rates_within_reach_of_the_best() -> None:
    table = windows(demo())
    assert table is not None
    assert [line.cells["window"].text for line in table.lines] == ["0.003 alone; 1 of 3 rates"] * 2
    assert [line.cells["best"].text for line in table.lines] == ["0.003"] * 2
    assert windows(summarise(make_plan(rates=(1e-3,)), shelf(make_plan(rates=(1e-3,))).find)) is None


class SlowHead(Stage):
    """A stage with a rate of its own for the head."""

    def model_dump(self, mode: str = "json") -> dict[str, Any]:
        return {**super().model_dump(mode), "optim": {"rate_shares": {"head": 0.1}}}


def settings_of(page: str) -> list[tuple[str, ...]]:
    """The lines of the table of settings of a published page, without the column that they hold for."""
    snapshot = read_snapshot([RESULTS / f"{page}.json"])
    table = settings_table(snapshot.plan, snapshot.results())
    assert table is not None
    return [tuple(cell.text for key, cell in line.cells.items() if key != "columns") for line in table.lines]


def test_the_page_has_the_settings_that_two_arms_have_otherwise() -> None:
    """What readers of the published pages needed an hour for."""
    lines = settings_of("positive-control")
    for setting, value, other in (("model.dropout", "0.1", "0"), ("optim.weight_decay", "0.05", "0")):
        assert ("s4 and s4_self_pretrained", "finetune", setting, value, "scratch", other) in lines
    assert ("self_pretrained and s4_self_pretrained", "finetune", "start", "[take(all-head)]", "scratch", "[]") in lines
    mixer = [line[2] for line in lines if line[2].startswith("model.mixer")]
    assert mixer == ["model.mixer.kind"]
    assert (
        "self_pretrained, only_query_key and s4_self_pretrained",
        "pretrain",
        "the stage itself",
        "yes",
        "scratch",
        "no",
    ) in lines
    # Against what starts from it, a parent's model: language was pretrained from smaller weights, and without dropout.
    lines = settings_of("lu-2")
    assert ("fpt and statistics", "language", "model.init", "gpt2", "finetune", "gpt2_scaled") in lines
    assert ("fpt and statistics", "language", "model.dropout", "0", "finetune", "0.1") in lines
    # A stage that one alone has; of an arm without a finished run nothing is chosen yet, and nothing is said.
    plan = make_plan()
    results = summarise(plan, shelf(plan).find, facts=facts())
    table = settings_table(plan, results)
    assert table is not None
    texts = [[cell.text for cell in line.cells.values()] for line in table.lines]
    assert ["self_pretrained", "pretrain", "the stage itself", "yes", "scratch", "no"] in texts
    assert settings_table(plan, summarise(plan, {}.get, facts=facts())) is None
    # A setting that one alone has: rates of parts, of which the other names none.
    lasts = [cell.chain[-1] for cell in plan.cells if cell.arm == "self_pretrained"]
    shares = {last.identity: replace(last, spec=SlowHead(**vars(last.spec))) for last in lasts}
    table = settings_table(replace(plan, stages={**plan.stages, **shares}), results)
    assert table is not None
    texts = [[cell.text for cell in line.cells.values()] for line in table.lines]
    assert ["self_pretrained", "finetune", "optim.rate_shares.head", "0.1", "scratch", words.NONE] in texts
    # Chosen rates that differ; where arms are alike there is no table.
    assert ("attention_frozen", "finetune", "optim.lr", "0.001", "scratch", "0.003") in settings_of("coser-3")
    plan = make_plan(arms={"scratch": False})
    assert settings_table(plan, summarise(plan, shelf(plan).find, facts=facts())) is None


def test_the_other_scores_have_a_table_once_a_run_is_finished() -> None:
    table = quantities(demo())
    assert table is not None
    assert table.heads == ("arm", "train", "test", "train at the last step", "test at the last step")
    assert [cell.text for cell in table.lines[0].cells.values()] == [
        "scratch",
        "0.900 ± 0.000",
        "0.350 ± 0.007",
        "0.900 ± 0.000",
        "0.350 ± 0.007",
    ]
    assert quantities(summarise(make_plan(), lambda _: None)) is None


def test_steps_to_match_stand_in_the_table_of_an_arm_that_is_to_be_matched() -> None:
    plan = make_plan(match="scratch", rates=(1e-3,))
    scored = {c.chain[-1].identity: 0.5 if c.arm == "scratch" else 0.4 for c in plan.cells}
    results = summarise(plan, shelf(plan).find, records=lambda i: [{"step": 1200, "val": {"accuracy": scored[i]}}])
    table = quantities(results)
    assert table is not None
    assert table.heads[-2:] == ("steps to converge", "steps to match scratch")
    assert [line.cells["reach"].text for line in table.lines] == ["1,200 (5 of 5)", "not reached (0 of 5)"]


def test_a_setting_is_named_as_short_as_it_can_be() -> None:
    assert LR.endswith(".lr")
    assert "lr 0.003" in to_markdown(make_table(demo()))
