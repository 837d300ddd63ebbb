"""The paper's cells with ours beside them, and what is seen of its claims."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.made_up import Cell, facts, make_plan, shelf, usual
from support.papers import beside, made
from test_tables import printed

from headstart.report.claims import verdicts
from headstart.report.tables import paper as paper_table
from headstart.report.tables.report_table import ReportTable, to_csv, to_latex, to_markdown
from headstart.report.tables.scores import quantities
from headstart.study.language.papers import OWN_UNITS, Paper
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results

NONE = "\N{EM DASH}"
AVERAGE = SimpleNamespace(over="columns", columns=(), missing="chance")


def run(paper: Paper | None = None, score: Any = usual, records: Any = None, **more: Any) -> tuple[Results, Paper]:
    plan = make_plan(**{"columns": {"a": "digits", "b": "mnist"}, "average": AVERAGE, **more})
    paper = paper or made()
    return replace(summarise(plan, shelf(plan, score).find, facts=facts(), records=records), paper=paper), paper


def cells(table: ReportTable) -> dict[tuple[str, str], dict[str, str]]:
    """(column, arm) as shown -> head -> text."""
    result = [dict(zip(table.heads, (cell.text for cell in line.cells.values()), strict=True)) for line in table.lines]
    return {(item["column"], item["arm"]): item for item in result}


def full(table: ReportTable) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(table))))


def test_every_cell_of_the_paper_has_a_line_with_what_is_printed_and_ours() -> None:
    results, paper = run()
    table = beside(results, paper)
    assert len(table.lines) == sum(len(row.cells) for row in paper.rows) == 9
    line = cells(table)["a (paper: DIGITS)", "scratch"]
    assert line == {
        "column": "a (paper: DIGITS)",
        "arm": "scratch",
        "paper": "40.2",
        "ours": "35.0 ± 0.7",
        "n": "5",
        "chosen": "lr 0.003",
        "budget": "60 epochs, 60.0 GFLOP",
        "status": "measured",
    }
    assert table.title == "Beside Doe and Roe, A made-up paper, table 1"
    assert cells(table)["b (paper: MNIST)", "scratch"]["paper"] == "41.0 ± 0.5"


def test_a_column_or_an_arm_that_was_not_run_is_shown_as_such() -> None:
    results, paper = run(arms={"scratch": False})
    lines = cells(beside(results, paper))
    for key in (("c (paper: PATHX)", "scratch"), ("a (paper: DIGITS)", "self_pretrained")):
        texts = next(line for (column, arm), line in lines.items() if (column, arm.split(" [")[0]) == key)
        assert (texts["ours"], texts["n"], texts["status"]) == (NONE, NONE, "not run here")
    assert lines["c (paper: PATHX)", "scratch"]["paper"] == "x (at chance)"


def test_a_row_without_an_arm_keeps_the_papers_label_and_says_why() -> None:
    results, paper = run()
    table = beside(results, paper)
    line = cells(table)["a (paper: DIGITS)", "S4 (OTHERS) [2]"]
    assert (line["paper"], line["ours"], line["status"]) == ("88.7 (quoted)", NONE, "not run here")
    assert "[2] quoted from another paper." in table.note


def test_an_erratum_is_a_note_and_the_cell_stays_as_printed() -> None:
    results, paper = run()
    table = beside(results, paper)
    assert cells(table)["a (paper: DIGITS)", "self_pretrained"]["paper"] == "56.0 (+0.8) [1]"
    assert "[1] printed +0.8; 56.0 is 15.8 over 40.2." in table.note
    assert full(table)[1]["paper_text"] == "56.0 (+0.8)"


def test_the_average_stands_beside_the_average_and_says_over_what() -> None:
    results, paper = run()
    line = cells(beside(results, paper))["average (paper: AVG.)", "self_pretrained"]
    assert (line["paper"], line["ours"], line["n"]) == ("62.0", "48.8 ± 0.9", "5")
    assert line["chosen"] == "over 2 of 3 columns"
    bare, _ = run(average=None)
    assert cells(beside(bare, paper))["average (paper: AVG.)", "scratch"]["status"] == "not run here"


def test_ours_stands_in_the_papers_unit_and_the_csv_in_shares() -> None:
    results, paper = run()
    first = full(beside(results, paper))[0]
    assert float(first["ours"]) == pytest.approx(0.35)
    assert float(first["paper"]) == pytest.approx(0.402)
    assert (first["row"], first["n"], first["epochs"]) == ("FROM SCRATCH", "5", "60.0")
    share = made(unit="share", rows=[{"row": "S", "arm": "scratch", "cells": {"a": "0.402"}}], claims=[])
    assert cells(beside(results, share))["a (paper: DIGITS)", "scratch"]["ours"] == "0.350 ± 0.007"


def test_parameters_stand_there_where_models_of_several_sizes_ran_on_one_task() -> None:
    def compared(sizes: dict[str, int], columns: dict[str, str]) -> tuple[ReportTable, list[str]]:
        plan = make_plan(columns=columns)
        result = shelf(plan)
        for cell in plan.cells:
            result.results[cell.chain[-1].identity]["parameters"]["total"] = sizes[cell.column]
        table = beside(summarise(plan, result.find, facts=facts()), made())
        return table, [row["parameters"] for row in full(table)]

    one_task, of_each = compared({"a": 9_512, "b": 104_618}, {"a": "digits", "b": "digits"})
    assert cells(one_task)["a (paper: DIGITS)", "scratch"]["parameters"] == "9.5k"
    assert cells(one_task)["b (paper: MNIST)", "self_pretrained"]["parameters"] == "105k"
    assert cells(one_task)["c (paper: PATHX)", "scratch"]["parameters"] == NONE
    assert set(of_each) == {"9512", "104618", ""}
    two_tasks, of_each = compared({"a": 9_512, "b": 104_618}, {"a": "digits", "b": "mnist"})
    assert "parameters" not in two_tasks.heads
    assert set(of_each) == {"9512", "104618", ""}


def test_one_table_may_have_a_column_in_another_unit_and_score() -> None:
    paper = made(
        heads={"a": "DIGITS", "b": {"head": "HR", "metric": "r2", "unit": "share"}},
        rows=[{"row": "S", "arm": "scratch", "cells": {"a": "40.2", "b": "0.91"}}],
        claims=[],
    )
    assert (paper.in_percent("a"), paper.in_percent("b")) == (True, False)
    results, _ = run(paper)
    line = cells(beside(results, paper))["b (paper: HR)", "scratch"]
    # Ours is an accuracy there, which is not a R2: it says so.
    assert line["ours"] == "accuracy 0.350 ± 0.007"


def test_scores_of_train_and_of_the_last_weights_are_told_apart() -> None:
    rows = [
        {"row": "TRAIN", "arm": "scratch", "quantity": "last_train", "cells": {"a": "58.1"}},
        {"row": "TEST", "arm": "scratch", "quantity": "last_test", "cells": {"a": "57.5"}},
    ]
    results, paper = run(made(rows=rows, claims=[]))
    table = beside(results, paper)
    assert table.heads[2] == "quantity"
    assert [(line.cells["quantity"].text, line.cells["ours"].text) for line in table.lines] == [
        ("train at the last step", "90.0 ± 0.0"),
        ("test at the last step", "35.0 ± 0.7"),
    ]


def test_steps_to_match_are_those_of_the_mean_curve_and_say_how_many_seeds_got_there() -> None:
    rows = [
        {"row": name, "arm": name, "quantity": "reach", "cells": {"a": text}, "kind": kind}
        for name, text, kind in (("scratch", "1.9×10^5", "measured"), ("self_pretrained", "-", "not reached"))
    ]
    plan = make_plan(columns={"a": "digits"}, rates=(1e-3,), seeds=(0, 1), match="scratch")
    curves = {
        c.chain[-1].identity: [0.1, 0.4 + 0.1 * c.seed] if c.arm == "scratch" else [0.1, 0.46 * c.seed]
        for c in plan.cells
    }

    def records(identity: str) -> list[dict[str, Any]]:
        return [{"step": 700 * (i + 1), "val": {"accuracy": v}} for i, v in enumerate(curves.get(identity, []))]

    results = summarise(plan, shelf(plan).find, records=records)
    table = beside(results, made(rows=rows, claims=[]))
    texts = [(line.cells["paper"].text, line.cells["ours"].text, line.cells["n"].text) for line in table.lines]
    assert texts == [("1.9×10^5", "1,400 (1 of 2)", "1 of 2"), ("- (not reached)", "not reached (1 of 2)", "1 of 2")]
    assert "read on validation" in table.note
    assert [row["ours_together"] for row in full(table)] == ["1400", ""]


def test_a_partial_and_a_diverged_row_say_so_beside_the_paper() -> None:
    results, paper = run(score=lambda c: None if c.arm == "scratch" and c.seed == 4 else usual(c))
    line = cells(beside(results, paper))["a (paper: DIGITS)", "scratch"]
    assert (line["n"], line["status"]) == ("4 of 5", "partial")


def test_scores_that_stand_for_lost_last_weights_say_so_in_their_cells() -> None:
    rows = [
        {"row": arm, "arm": arm, "quantity": quantity, "cells": {"a": "50.0"}}
        for arm in ("scratch", "self_pretrained")
        for quantity in ("test", "last_train", "last_test")
    ]
    plan = make_plan(columns={"a": "digits"}, rates=(1e-3,), seeds=(0, 1))
    result = shelf(plan)
    for cell in plan.cells:
        if cell.arm == "scratch" and cell.seed == 0:
            item = result.results[cell.chain[-1].identity]
            item["status"] = "diverged"
            item["scores"] = {**item["scores"], "last": {}}
    table = beside(summarise(plan, result.find), made(rows=rows, claims=[]))
    ours = [line.cells["ours"].text for line in table.lines]
    assert [text.endswith(" [1]") for text in ours] == [False, True, True, False, False, False]
    assert "[1] A diverged run has no last weights: those at its best stand for them." in table.note
    assert [line.status for line in table.lines] == ["diverged"] * 3 + ["measured"] * 3


def test_stand_in_data_of_one_arm_mark_its_cells_and_not_the_column() -> None:
    results, paper = run(scale="tiny", stood_in={"b": {"pretrain": "waves"}})
    table = beside(results, paper)
    lines = cells(table)
    assert table.title.endswith("Stand-in data: waves for b in stage pretrain of b")
    assert lines["b (paper: MNIST)", "self_pretrained"]["status"] == "not run on these data"
    assert lines["b (paper: MNIST)", "scratch"]["status"] == "measured"


def test_no_number_on_stand_in_data_stands_beside_one_of_the_paper() -> None:
    results, paper = run(scale="tiny", stood_in={"b": "digits"})
    table = beside(results, paper)
    assert table.title.endswith("table 1. Scale tiny (smoke test). Stand-in data: digits for b")
    lines = cells(table)
    assert {lines[column, "scratch"]["ours"] for column in ("b (paper: MNIST)", "average (paper: AVG.)")} == {NONE}
    assert lines["b (paper: MNIST)", "scratch"]["status"] == "not run on these data"
    assert lines["a (paper: DIGITS)", "scratch"]["ours"] != NONE
    for text in (to_markdown(table), to_latex(table), printed(table, 200)):
        assert "Stand-in data: digits for b" in text


def test_seconds_of_an_epoch_stand_beside_the_papers_at_its_own_scale_alone() -> None:
    rows = [
        {"row": "1 EPOCH", "arm": "self_pretrained", "quantity": quantity, "cells": {"a": "48s"}}
        for quantity in ("epoch_seconds", "parent_epoch_seconds")
    ]
    results, paper = run(made(rows=rows, claims=[]), scale="tiny")
    assert {line["status"] for line in full(beside(results, paper))} == {"not measured at this scale"}
    results, paper = run(made(rows=rows, claims=[]), scale="paper")
    row = results.row("self_pretrained", "a")
    assert row is not None
    of_chain, of_last = (
        {key: amounts[key] for key in ("seconds", "epochs")} for amounts in (row.runs[0].budget, row.runs[0].last)
    )
    last, parents = (float(line["ours"]) for line in full(beside(results, paper)))
    assert last == pytest.approx(of_last["seconds"] / of_last["epochs"])
    rest = {key: of_chain[key] - of_last[key] for key in of_chain}
    assert parents == pytest.approx(rest["seconds"] / rest["epochs"])


def test_trained_numbers_and_speed_ups_stand_in_their_own_units() -> None:
    printed_cells = {"parameters": "117M", "trained": "106K", "epoch_speedup": "40×"}
    rows = [
        {"row": name, "arm": "self_pretrained", "quantity": name, "cells": {"a": text}}
        for name, text in printed_cells.items()
    ]
    plan = make_plan(columns={"a": "digits"}, against="scratch")
    result = shelf(plan)
    for cell in plan.cells:
        document = result.results[cell.chain[-1].identity]
        document["parameters"] |= {"total": 117_000_000, "trainable": 106_234}
        document["budget"] |= {"seconds": 8.0 if cell.arm == "scratch" else 2.0, "epochs": 50.0}
    results = replace(summarise(plan, result.find, facts=facts()), paper=made(rows=rows, claims=[]))
    lines = cells(beside(results, made(rows=rows, claims=[])))
    assert [line["ours"] for line in lines.values()][-1] == "4×"
    assert [(float(line["paper"]), float(line["ours"])) for line in full(beside(results, results.paper))] == [
        (117e6, 117e6),
        (106e3, 106_234),
        (40.0, pytest.approx(4.0)),
    ]
    for cell in plan.cells:  # members of a stack share its seconds: they are held against no stage alone
        if cell.arm == "scratch":
            result.results[cell.chain[-1].identity]["provenance"]["way"] = "stack"
    apart = replace(summarise(plan, result.find, facts=facts()), paper=results.paper)
    assert "[1]" in [line["ours"] for line in cells(beside(apart, results.paper)).values()][-1]
    assert "some of these stages trained alone and some in a stack" in beside(apart, results.paper).note
    more = quantities(results)
    assert more is not None
    shown = {
        line.cells["arm"].text: [line.cells[name].text for name in OWN_UNITS if name in line.cells]
        for line in more.lines
    }
    assert shown == {
        "scratch": ["117M", "106k", "0.2 s", NONE],
        "self_pretrained": ["117M", "106k", "0.0 s", "4×"],
    }


def test_no_text_of_a_paper_is_markup() -> None:
    nasty = "=1+1|<b>[red]\\input{x}_%&$#"
    rows = [{"row": nasty, "why": nasty, "cells": {"a": {"text": nasty, "kind": "not reported"}}}]
    results, paper = run(made(rows=rows, source=nasty, claims=[]))
    table = beside(results, paper)
    assert "<b>" not in to_markdown(table)
    assert "\\input" not in to_latex(table)
    assert "[red]" in printed(table, 300)
    assert "'=1+1" in to_csv(table)


def test_a_column_of_several_axis_values_has_a_line_for_each() -> None:
    plan = make_plan(columns={"a": "digits"}, rates=(1e-3,))
    plan = replace(
        plan,
        choose=(),
        cells=tuple(
            replace(
                cell,
                settings={"task.fraction": f},
                chain=tuple(replace(p, identity=f"{p.identity[:13]}{f:.1f}") for p in cell.chain),
            )
            for cell in plan.cells
            for f in (0.1, 0.5)
        ),
    )
    table = beside(summarise(plan, lambda _: None), made(claims=[]))
    heads = [line.cells["column"].text for line in table.lines]
    assert heads[:4] == ["a fraction=0.1 (paper: DIGITS)", "a fraction=0.5 (paper: DIGITS)"] * 2


# ---------------------------------------------------------------- verdicts


def status_of(results: Results, paper: Paper | None) -> dict[str, str]:
    (verdict,) = verdicts(results, paper)
    return {part.column: part.outcome for part in verdict.parts}


def level(gap_a: float, gap_b: float) -> Any:
    """Scores in which the pretrained arm is so much above on each column, give or take the seed."""

    def score(cell: Cell) -> tuple[float, float]:
        up = {"a": gap_a, "b": gap_b}[cell.column] if cell.arm == "self_pretrained" else 0.0
        test = 0.4 + up + 0.01 * (cell.seed % 2 if cell.arm == "scratch" else cell.seed % 3)
        return usual(cell)[0], test

    return score


def test_a_claim_holds_where_the_whole_interval_of_the_paired_difference_is_above_0() -> None:
    results, paper = run(score=level(0.1, 0.0))
    assert status_of(results, paper) == {"a": "holds", "b": "undecided", "c": "not measured"}
    (verdict,) = verdicts(results, paper)
    row = results.row("self_pretrained", "a")
    assert row is not None
    assert verdict.parts[0].difference == row.difference
    assert str(verdict) == (
        "Self-pretraining beats training from scratch (self_pretrained less scratch, test): "
        f"holds on a (+0.104 [0.090, 0.118], 5 paired seeds, preliminary); undecided on b ({_gap(results, 'b')}, 5 paired seeds; "
        "the interval contains 0); not measured on c (not run here)."
    )


def _gap(results: Results, column: str) -> str:
    from headstart.words import difference

    row = results.row("self_pretrained", column)
    assert row is not None
    return difference(row.difference)


def test_the_other_way_round_is_said_as_loudly_as_what_holds() -> None:
    results, paper = run(score=level(-0.1, 0.1))
    assert status_of(results, paper) == {"a": "the other way round", "b": "holds", "c": "not measured"}


def test_a_verdict_says_which_arm_diverged() -> None:
    results, paper = run(score=level(0.1, 0.1))
    table = tuple(replace(row, status="diverged") if row.key == "a/scratch" else row for row in results.table)
    message = str(verdicts(replace(results, table=table), paper)[0])
    assert "holds on a (+0.104 [0.090, 0.118], 5 paired seeds, preliminary; scratch diverged) and b (" in message


def test_columns_without_a_verdict_for_one_reason_are_told_together() -> None:
    results, paper = run(made(heads={"a": "A", "d": "D", "e": "E"}, rows=[]))
    assert str(verdicts(results, paper)[0]).endswith("; not measured on d and e (not run here).")


def test_one_seed_gives_no_verdict_and_says_the_difference() -> None:
    results, paper = run(seeds=(0,))
    assert set(status_of(results, paper).values()) == {"not measured"}
    assert "+0.130, 1 paired seed; one seed has no interval" in str(verdicts(results, paper)[0])


def test_a_claim_of_other_arms_than_the_one_compared_with_is_checked_too() -> None:
    claim = {"says": "S", "higher": "scratch", "lower": "self_pretrained", "columns": ["a"]}
    results, paper = run(made(claims=[claim]), against=None)
    assert status_of(results, paper) == {"a": "the other way round"}


def test_a_claim_of_the_average_is_that_of_the_averages_paired_by_seed() -> None:
    claim = {"says": "S", "higher": "self_pretrained", "lower": "scratch", "columns": ["average"]}
    results, paper = run(made(claims=[claim]))
    assert status_of(results, paper) == {"average": "holds"}
    turned = made(claims=[{**claim, "higher": "scratch", "lower": "self_pretrained"}])
    assert status_of(results, turned) == {"average": "the other way round"}
    (part,) = verdicts(results, turned)[0].parts
    assert part.difference is not None
    assert part.difference.interval is not None
    low, high = part.difference.interval
    assert low < part.difference.mean < high < 0


def test_a_claim_of_train_is_checked_on_train() -> None:
    claim = {"says": "S", "higher": "self_pretrained", "lower": "scratch", "columns": ["a"], "quantity": "train"}
    results, paper = run(made(claims=[claim]))
    # All train scores of the made-up runs are equal: a difference of 0 is not a sign of anything.
    assert status_of(results, paper) == {"a": "undecided"}


def test_a_claim_about_another_score_than_ours_is_not_measured() -> None:
    paper = made(metric="r2")
    results, _ = run(paper)
    assert status_of(results, paper)["a"] == "not measured"
    assert "the score here is accuracy" in str(verdicts(results, paper)[0])


def test_steps_that_an_arm_never_needs_are_not_measured_and_named() -> None:
    claim = {"says": "S", "higher": "scratch", "lower": "self_pretrained", "columns": ["a"], "quantity": "reach"}
    paper = made(claims=[claim])
    results, _ = run(paper, match="scratch")
    assert "no steps to match of scratch and self_pretrained" in str(verdicts(results, paper)[0])


def test_a_claim_without_two_arms_is_told_and_not_checked() -> None:
    results, paper = run(made(claims=[{"says": "Kernels decay."}]))
    assert str(verdicts(results, paper)[0]) == "Kernels decay: not checked here."


def test_unfinished_runs_give_no_verdict() -> None:
    results, paper = run(score=lambda c: usual(c) if c.arm == "scratch" else None)
    assert status_of(results, paper)["a"] == "not measured"
    assert "no test of self_pretrained" in str(verdicts(results, paper)[0])


def test_every_paper_that_comes_with_the_package_can_stand_beside_any_results() -> None:
    from headstart.study.language.papers import built_in_papers, read_paper

    results, _ = run()
    for name in built_in_papers():
        paper = read_paper(name)
        assert all(str(verdict).endswith(".") for verdict in verdicts(results, paper))
        if not paper.rows:
            assert paper_table.beside(replace(results, paper=paper)) is None
            continue
        table = beside(results, paper)
        assert len(table.lines) == sum(len(row.cells) for row in paper.rows)
        assert to_markdown(table).count("\n| ") == len(table.lines) + 2
