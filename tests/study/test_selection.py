"""Choosing, pairing and what is said aloud, on made-up results."""

from __future__ import annotations

import builtins
import inspect
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.made_up import LR, Cell, facts, make_plan, result, shelf, usual
from support.planning import planned

from headstart.models.model import ModelSpec
from headstart.report.tables.report_table import to_markdown
from headstart.report.tables.scores import make_table
from headstart.study.language.spec import AverageSpec
from headstart.study.paper import caveats
from headstart.study.paper.summary import summarise
from headstart.study.results import selection
from headstart.study.results.results import Results
from headstart.study.results.rows import on_other_machines
from headstart.study.results.selection import Candidate, choose, reference

KEYS = {
    "metric",
    "points",
    "val_sem",
    "test_sem",
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
    "status",
    "tried",
    "seeds",
    "train",
    "last_train",
    "last_val",
    "last_test",
    "converge",
    "reach",
    "fit",
    "paired",
    "pairs",
    "intervals",
    "detectable",
    "p",
    "p_holm",
    "smallest_p",
    "seeds_to_halve",
    "windows",
}


def kinds(results: Results) -> set[str]:
    return {caveat.kind for caveat in results.caveats}


def caveats_of(results: Results, kind: str) -> str:
    return " | ".join(str(c) for c in results.caveats if c.kind == kind)


# ---------------------------------------------------------------- choosing


def test_the_best_mean_on_validation_is_chosen_and_ties_go_to_the_earlier() -> None:
    tied = [Candidate({0: 0.1, 1: 0.2}), Candidate({0: 0.3, 1: 0.1}), Candidate({0: 0.2, 1: 0.2})]
    assert choose(tied) == 1
    # As many of all validation examples are right, though 0.1 + 0.2 is not 0.3 to the last bit.
    thirds = [Candidate({0: 0.1, 1: 0.2}), Candidate({0: 0.3, 1: 0.0})]
    assert [choose(order) for order in (thirds, thirds[::-1])] == [0, 0]
    assert [choose(order, greater=False) for order in (thirds, thirds[::-1])] == [0, 0]
    assert choose([Candidate({0: 1.0}), Candidate({0: 0.5}), Candidate({0: 0.5})], greater=False) == 1


def test_a_setting_with_a_diverged_seed_is_out_unless_all_have_one() -> None:
    assert choose([Candidate({0: 0.9}, diverged=True), Candidate({0: 0.1})]) == 1
    assert choose([Candidate({0: 0.1}, diverged=True), Candidate({0: 0.9}, diverged=True)]) == 1


def test_no_setting_wins_by_having_only_the_easy_seed() -> None:
    assert choose([Candidate({0: 0.5, 1: 0.1}), Candidate({0: 0.4}), Candidate({})]) == 0
    assert choose([Candidate({1: 0.1}), Candidate({0: 0.4})]) == 1


def test_nothing_is_chosen_where_nothing_is_finished() -> None:
    assert choose([]) is None
    assert choose([Candidate({}), Candidate({}, diverged=True)]) is None


def test_a_candidate_has_no_place_for_a_test_score() -> None:
    assert set(Candidate.__dataclass_fields__) == {"val", "diverged"}
    assert set(inspect.signature(choose).parameters) == {"candidates", "greater"}


def test_test_scores_are_not_read_before_the_choice_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sealed(dict[str, Any]):
        """Scores whose test part may be read only after the choice."""

        def get(self, key: str, default: Any = None) -> Any:
            assert key != "test" or opened, "test was read before the choice"
            return super().get(key, default)

    opened: list[bool] = []
    plan = make_plan(arms={"scratch": False})
    stored = shelf(plan)
    for entry in stored.results.values():
        entry["scores"]["best"] = Sealed(entry["scores"]["best"])
    original = selection.choose

    def watched(candidates: Any, greater: bool = True) -> int | None:
        picked = original(candidates, greater)
        opened.append(True)
        return picked

    monkeypatch.setattr(selection, "choose", watched)
    assert summarise(plan, stored.find).table[0].test is not None
    assert opened == [True]


@pytest.mark.parametrize("order", [1, -1])
def test_no_test_score_can_change_what_is_chosen(order: int) -> None:
    plan = make_plan()

    def turned(cell: Cell) -> tuple[float, float]:
        return usual(cell)[0], 0.5 + order * cell.settings[LR]

    results = summarise(plan, shelf(plan, turned).find)
    assert [row.chosen for row in results.table] == [{LR: 3e-3}, {LR: 3e-3}]


# ---------------------------------------------------------------- rows


def test_a_row_carries_means_errors_budget_and_the_stages_behind_them() -> None:
    plan = make_plan()
    results = summarise(plan, shelf(plan).find, facts=facts())
    scratch, pretrained = results.table
    assert scratch.test is not None
    assert scratch.test.mean == pytest.approx(0.35)
    assert scratch.test.sem == pytest.approx(0.01 * (2.5 / 5) ** 0.5)
    assert (scratch.n, scratch.status, scratch.chosen) == (5, "measured", {LR: 3e-3})
    assert pretrained.difference is not None
    assert pretrained.difference.mean == pytest.approx(0.13 + 0.01 * (0 + 1 + 2 + 0 + 1) / 5)
    assert pretrained.difference.n == 5
    assert scratch.difference is None
    assert (pretrained.budget["epochs"], pretrained.last["epochs"]) == (90, 60)
    # Five shared parents of 30 epochs and 15 fine-tunings of 60: each stage once.
    assert pretrained.tried["epochs"] == 5 * 30 + 15 * 60
    assert len(pretrained.stages) == 10
    assert all(s in plan.stages for s in pretrained.stages)


def test_the_rows_of_json_have_exactly_their_keys_and_survive_json() -> None:
    plan = make_plan()
    rows = summarise(plan, shelf(plan).find, facts=facts()).rows()
    assert all(set(row) == KEYS for row in rows)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert rows[1]["interval"][0] < rows[1]["difference"] < rows[1]["interval"][1]


def test_one_seed_has_neither_a_standard_error_nor_an_interval() -> None:
    plan = make_plan(seeds=(0,))
    row = summarise(plan, shelf(plan).find).rows()[1]
    assert (row["n"], row["sem"], row["interval"]) == (1, None, None)
    assert row["difference"] == pytest.approx(0.13)


def test_unfinished_runs_give_a_partial_row_and_unbegun_ones_an_absent_row() -> None:
    plan = make_plan()
    some = shelf(plan, lambda cell: usual(cell) if cell.arm == "scratch" and cell.seed < 2 else None)
    scratch, pretrained = summarise(plan, some.find).table
    assert (scratch.status, scratch.n, scratch.expected) == ("partial", 2, 5)
    assert (pretrained.status, pretrained.n, pretrained.val) == ("absent", 0, None)
    results = summarise(plan, some.find)
    assert results.partial
    assert "9 of 15 runs not finished" in caveats_of(results, "partial")


def test_a_failed_run_leaves_its_row_partial_and_is_said() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-3,), seeds=(0, 1, 2))
    some = shelf(plan, lambda cell: usual(cell) if cell.seed else None)
    results = summarise(plan, some.find, state=lambda _: "failed")
    assert results.table[0].status == "partial"
    assert "1 of 3 runs failed" in caveats_of(results, "failed")
    nothing = summarise(plan, lambda _: None, state=lambda _: "failed")
    assert nothing.table[0].status == "failed"


def test_a_child_of_a_failed_parent_counts_as_failed() -> None:
    plan = make_plan(arms={"self_pretrained": True}, rates=(1e-3,), seeds=(0,), against=None)
    parent = plan.cells[0].chain[0].identity
    results = summarise(plan, lambda _: None, state=lambda i: "failed" if i == parent else "absent")
    assert results.table[0].status == "failed"


def test_a_diverged_setting_is_not_chosen_however_good_it_looked() -> None:
    plan = make_plan(arms={"scratch": False})
    stored = shelf(plan)
    bad = next(c for c in plan.cells if c.settings[LR] == 1e-2 and c.seed == 3).chain[-1].identity
    stored.results[bad] = result(bad, 0.99, 0.99, status="diverged")
    results = summarise(plan, stored.find)
    assert results.table[0].chosen == {LR: 3e-3}
    assert results.table[0].status == "measured"
    assert "1 run diverged at lr 0.01, which were not chosen" in caveats_of(results, "diverged")


def test_a_row_whose_every_setting_diverged_is_shown_as_diverged() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-2,), seeds=(0, 1))
    stored = shelf(plan)
    for entry in stored.results.values():
        entry["status"] = "diverged"
        entry["scores"]["best"]["val"]["accuracy"] = None
    row = summarise(plan, stored.find).table[0]
    assert (row.status, row.val, row.chosen) == ("diverged", None, {})


def test_a_score_that_is_no_number_counts_as_diverged() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-3, 1e-2), seeds=(0, 1, 2))
    stored = shelf(plan, lambda c: (float("nan"), 0.9) if c.settings[LR] == 1e-2 else usual(c))
    assert summarise(plan, stored.find).table[0].chosen == {LR: 1e-3}


def test_a_diverged_parent_makes_its_children_diverged() -> None:
    plan = make_plan(arms={"self_pretrained": True}, rates=(1e-3,), seeds=(0, 1), against=None)
    stored = shelf(plan)
    stored.results[plan.cells[0].chain[0].identity]["status"] = "diverged"
    assert summarise(plan, stored.find).table[0].status == "diverged"


def test_a_loss_is_better_when_it_is_smaller() -> None:
    plan = make_plan(arms={"scratch": False}, seeds=(0, 1, 2))
    stored = shelf(plan, metric="loss", greater=False)
    row = summarise(plan, stored.find).table[0]
    assert (row.chosen, row.greater) == ({LR: 1e-3}, False)


def test_a_row_has_train_and_the_last_weights_too_with_their_errors() -> None:
    plan = make_plan(rates=(1e-3,), seeds=(0, 1, 2))
    stored = shelf(plan)
    for cell in plan.cells:
        scores = stored.results[cell.chain[-1].identity]["scores"]
        scores["best"] = {**scores["best"], "train": {"accuracy": 0.9 + 0.01 * cell.seed}}
        scores["last"] = {
            "train": {"accuracy": 0.95},
            "val": {"accuracy": 0.2},
            "test": {"accuracy": 0.3 - 0.1 * cell.seed},
        }
    row = summarise(plan, stored.find).table[0]
    train, last = row.estimate("train"), row.estimate("last_test")
    assert train is not None
    assert last is not None
    assert (train.mean, train.sem, train.n) == (pytest.approx(0.91), pytest.approx(0.01 / 3**0.5), 3)
    assert (last.mean, last.sem) == (pytest.approx(0.2), pytest.approx(0.1 / 3**0.5))
    assert row.by_seed("last_test") == pytest.approx({0: 0.3, 1: 0.2, 2: 0.1})
    assert row.estimate("test") == row.test
    assert row.estimate("val") == row.val
    assert row.document()["last_train"] == pytest.approx(0.95)
    assert row.document()["last_val"] == pytest.approx(0.2)
    assert row.document()["tried"] == 1
    with pytest.raises(ValueError, match="no 'best_train'; there are val, test, train"):
        row.estimate("best_train")


def test_a_quantity_that_no_run_has_is_none_and_not_zero() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-3,), seeds=(0,))
    stored = shelf(plan)
    for entry in stored.results.values():
        del entry["scores"]["last"]
    row = summarise(plan, stored.find).table[0]
    assert row.estimate("last_test") is None
    assert row.document()["last_test"] is None


def test_a_diverged_run_keeps_its_last_finite_number() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-2,), seeds=(0, 1))
    stored = shelf(plan)
    last = {split: {"accuracy": None} for split in ("train", "val", "test")}
    for entry in stored.results.values():
        entry["status"], entry["scores"]["last"] = "diverged", last
    scored = [{"step": 10, "val": {"accuracy": 0.4}}, {"step": 20, "val": {"accuracy": 0.25}}, {"step": 30}]
    results = summarise(plan, stored.find, records=lambda _: scored)
    row = results.table[0]
    assert row.status == "diverged"
    assert row.test is not None
    assert row.by_seed("last_test") == row.by_seed("test") != {}
    assert row.by_seed("last_val") == {0: 0.25, 1: 0.25}
    assert "its numbers are those at the best weights before" in caveats_of(results, "diverged")
    assert "The last finite validation accuracy was 0.250." in caveats_of(results, "diverged")
    # Without its records a run falls back to its best weights.
    assert summarise(plan, stored.find).table[0].by_seed("last_val") == row.by_seed("val")


def test_stand_in_data_and_the_scale_are_said_before_all_else() -> None:
    plan = make_plan(columns={"image": "digits", "text": "digits"}, scale="tiny", stood_in={"image": "digits"})
    results = summarise(plan, shelf(plan).find, facts=facts())
    assert [c.kind for c in results.caveats[:2]] == ["stand-in", "scale"]
    assert str(results.caveats[0]).startswith("image: Stand-in data (digits for image)")
    assert str(results.caveats[1]) == "Scale tiny (smoke test): one block."
    assert results.heading == "A made-up study. Scale tiny (smoke test). Stand-in data: digits for image"
    assert results.stand_in("text") == ""
    assert "Stand-in data: digits for image" in results._repr_html_()
    plain = summarise(make_plan(), lambda _: None)
    assert plain.heading == "A made-up study"
    assert not {"stand-in", "scale"} & kinds(plain)


def test_stand_in_data_of_one_stage_mark_only_the_rows_that_rest_on_it() -> None:
    from headstart.report.tables.report_table import to_markdown
    from headstart.report.tables.scores import make_table

    plan = make_plan(columns={"a": "digits"}, scale="tiny", stood_in={"a": {"pretrain": "digits"}})
    results = summarise(plan, shelf(plan).find, facts=facts())
    scratch, pretrained = results.table
    assert (scratch.stand_in, pretrained.stand_in) == ("", "digits for a in stage pretrain of a")
    assert (results.apart(scratch), results.apart(pretrained)) == (False, True)
    assert caveats_of(results, "stand-in").startswith(
        "self_pretrained: stand-in data (digits for a in stage pretrain of a): no score of it"
    )
    text = to_markdown(make_table(results))
    assert "self\\_pretrained (stand-in data)" in text
    assert "scratch (stand-in data)" not in text
    both = summarise(
        make_plan(arms={"one": True, "two": True}, stood_in={"digits": {"pretrain": "waves"}}), lambda _: None
    )
    assert not any(both.apart(row) for row in both.table)
    assert "(stand-in data" not in to_markdown(make_table(both))


def test_a_study_of_a_paper_brings_the_papers_cells() -> None:
    from headstart.study.language.papers import built_in_papers, read_paper

    plan = make_plan()
    assert summarise(plan, lambda _: None).paper is None
    for name in list(built_in_papers())[:1]:
        plan.study.paper = name
        assert summarise(plan, lambda _: None).paper == read_paper(name)


EPOCHS = "pretrain.budget.epochs"


def widened(values: dict[str, list[Any]]) -> Any:
    """The usual plan with an axis that is not chosen over: arm -> its values (None: it lacks the axis)."""
    plan = make_plan(seeds=(0, 1))
    cells = []
    for cell in plan.cells:
        for value in values[cell.arm]:
            last = cell.chain[-1]
            more = {} if value is None else {EPOCHS: value}
            renamed = replace(last, identity=f"{last.identity[:12]}{value!s:>4}".replace(" ", "0"))
            chain = cell.chain if value is None else (*cell.chain[:-1], renamed)
            cells.append(replace(cell, settings={**cell.settings, **more}, chain=chain))
    return replace(plan, cells=tuple(cells))


def test_an_axis_that_is_not_chosen_over_makes_columns_and_an_arm_without_it_stands_in_each() -> None:
    plan = widened({"scratch": [None], "self_pretrained": [30, 60]})
    results = summarise(plan, shelf(plan).find, facts=facts())
    assert [(r.column, r.arm, r.n) for r in results.table] == [
        ("digits epochs=30", "scratch", 2),
        ("digits epochs=30", "self_pretrained", 2),
        ("digits epochs=60", "scratch", 2),
        ("digits epochs=60", "self_pretrained", 2),
    ]
    assert all(set(r.chosen) == {LR} and len(r.points) == 3 for r in results.table)
    assert results.table[0].stages == results.table[2].stages
    finetuned = [{run.stages[-1] for run in results.table[i].runs} for i in (1, 3)]
    assert not finetuned[0] & finetuned[1]
    assert all(r.difference is not None for r in results.table if r.arm != "scratch")


def test_a_value_that_drops_its_stage_keeps_its_own_column() -> None:
    plan = widened({"scratch": [None], "self_pretrained": [None, 60]})
    results = summarise(plan, shelf(plan).find)
    assert [(r.column, r.arm) for r in results.table] == [
        ("digits", "scratch"),
        ("digits", "self_pretrained"),
        ("digits epochs=60", "scratch"),
        ("digits epochs=60", "self_pretrained"),
    ]


def test_a_row_is_compared_with_the_same_column_only() -> None:
    def row(arm: str, column: str) -> Any:
        return SimpleNamespace(arm=arm, column=column)

    rows = [row("scratch", "digits"), row("scratch", "mnist")]
    assert reference(row("x", "mnist"), rows, "scratch") is rows[1]
    assert reference(row("x", "listops"), rows, "scratch") is None
    assert reference(rows[0], rows, "scratch") is None


# ---------------------------------------------------------------- averages


def test_an_average_is_paired_by_seed_and_fills_a_missing_column_with_chance() -> None:
    columns = {"digits": "digits", "mnist": "mnist"}
    plan = make_plan(columns=columns, average=SimpleNamespace(over="columns", columns=(), missing="chance"))
    stored = shelf(plan, lambda c: None if (c.arm, c.column) == ("scratch", "mnist") else usual(c))
    both = {**facts("digits"), **facts("mnist")}
    scratch, pretrained = summarise(plan, stored.find, facts=both).averages
    assert scratch.value is not None
    assert pretrained.value is not None
    assert scratch.value.mean == pytest.approx((0.35 + 0.1) / 2)
    assert scratch.chance == ("mnist",)
    assert pretrained.value.mean == pytest.approx(0.35 + 0.138)
    assert pretrained.value.n == 5
    assert (scratch.rank, pretrained.rank) == (2.0, 1.0)
    assert pretrained.difference is not None
    assert pretrained.difference.n == 5
    skipping = make_plan(columns=columns, average=SimpleNamespace(over="columns", columns=(), missing="skip"))
    scratch, pretrained = summarise(skipping, stored.find, facts=both).averages
    assert (scratch.columns, scratch.missing, pretrained.difference) == (1, ("mnist",), None)


def test_an_accuracy_and_an_r2_have_no_common_average() -> None:
    plan = make_plan(columns={"a": "digits", "b": "mnist"}, average=SimpleNamespace(columns=(), missing="chance"))
    stored = shelf(plan)
    for cell in plan.cells:
        if cell.column == "b":
            last = cell.chain[-1].identity
            stored.results[last] = result(last, 0.2, 0.2, metric="r2")
    assert summarise(plan, stored.find).averages == ()


# ---------------------------------------------------------------- caveats


def test_a_sound_study_is_told_only_what_always_holds() -> None:
    plan = make_plan(arms={"scratch": False, "other": False})
    results = summarise(plan, shelf(plan).find, facts=facts())
    assert kinds(results) == {"test set", "error", "benchmark"}
    # sqrt(0.488 * 0.512 / 500)
    assert "500 examples: its own binomial standard error is 0.022 at the best arm's score" in caveats_of(
        results, "test set"
    )


def test_a_test_set_that_is_all_right_has_an_error_rate_below_what_it_can_show() -> None:
    plan = make_plan(arms={"scratch": False, "other": False})
    results = summarise(plan, shelf(plan, lambda _: (1.0, 1.0)).find, facts=facts())
    # 0.994 to the power of 500 is 0.05.
    text = "The test set has 500 examples: the best arm has all of them right, so that its error rate is below 0.006 (95 %)"
    assert caveats_of(results, "test set").startswith(text)


def test_the_error_of_a_test_set_counts_the_targets_of_positions() -> None:
    plan = make_plan(arms={"scratch": False, "other": False})
    changed = {key: replace(value, positions=50_000) for key, value in facts().items()}
    results = summarise(plan, shelf(plan).find, facts=changed)
    text = caveats_of(results, "test set")
    assert "50,000 targets of positions: its own binomial standard error is 0.002 at the best arm's score" in text
    # sqrt(0.488 * 0.512 / 500): positions of one example are no independent draws.
    assert "were they independent, and 0.022 were each of the 500 examples that they stand in but one draw" in text
    changed = {key: replace(value, chance={}, asked=3_280) for key, value in facts().items()}
    assert "has 3,280 scored positions: its" in caveats_of(summarise(plan, shelf(plan).find, facts=changed), "test set")
    changed = {key: replace(value, chance={}, asked=0) for key, value in facts().items()}
    assert not caveats_of(summarise(plan, shelf(plan).find, facts=changed), "test set"), "what it scores is not known"


def test_what_a_model_says_that_its_scores_do_not_show_is_a_caveat_of_its_arms() -> None:
    plan = make_plan()
    model = ModelSpec(causal=True, norm="batch")
    stages = {
        i: replace(planned, spec=replace(planned.spec, model=model)) if planned.name == "pretrain" else planned
        for i, planned in plan.stages.items()
    }
    results = summarise(replace(plan, stages=stages), shelf(plan).find)
    assert caveats_of(results, "start") == f"self_pretrained: {model.shows_not}"


def test_a_chosen_value_at_the_edge_of_its_sweep_is_said() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-3, 3e-3))
    results = summarise(plan, shelf(plan).find)
    assert "the chosen lr 0.003 is the highest of its sweep (0.001, 0.003)" in caveats_of(results, "edge")
    two = make_plan(arms={"scratch": False, "other": False}, columns={"l": "digits", "m": "mnist"}, rates=(1e-3, 3e-3))
    fallen = {("scratch", "m"): (0.9, 0.5)}
    results = summarise(
        two, shelf(two, lambda c: fallen.get((c.arm, c.column), usual(c)) if c.settings[LR] < 2e-3 else usual(c)).find
    )
    assert caveats_of(results, "edge") == (
        "every arm on l; other on m: the chosen lr 0.003 is the highest of its sweep (0.001, 0.003); a wider sweep may do "
        "better. | m: scratch: the chosen lr 0.001 is the lowest of its sweep (0.001, 0.003); a wider sweep may do better."
    )
    # A rate that was tried above and diverged is not an edge that a wider sweep could pass.
    wider = make_plan(arms={"scratch": False})
    stored = shelf(wider)
    for cell in wider.cells:
        if cell.settings[LR] == 1e-2:
            stored.results[cell.chain[-1].identity]["status"] = "diverged"
    assert "edge" not in kinds(summarise(wider, stored.find))


def test_what_holds_for_many_arms_names_all_or_all_but_one_in_short() -> None:
    names = ["scratch", "b", "c", "d", "e"]
    plan = make_plan(arms=dict.fromkeys(names, False), seeds=(0,))
    results = summarise(plan, shelf(plan).find)
    assert caveats_of(results, "seeds") == "every arm has 1 seed: one seed has no standard error."
    stored = shelf(plan)
    gone = [cell.chain[-1].identity for cell in plan.cells if cell.arm == "d"]
    for identity in gone:
        del stored.results[identity]
    assert caveats_of(summarise(plan, stored.find), "seeds").startswith("every arm but d has 1 seed")


def test_unequal_budgets_and_numbers_of_settings_are_said() -> None:
    plan = make_plan(rates_of={"scratch": (1e-3, 3e-3)})
    results = summarise(plan, shelf(plan).find)
    assert caveats_of(results, "budget") == (
        "self_pretrained read 1.50 times as many training examples as scratch, pretraining included; "
        "in the last stage alone as many."
    )
    assert "scratch 2 and self_pretrained 3" in caveats_of(results, "configurations")


def test_few_seeds_an_interval_with_zero_and_a_better_baseline_are_said() -> None:
    plan = make_plan(seeds=(0, 1))
    flat = shelf(plan, lambda c: (0.3, 0.3 + 0.01 * (c.seed if c.arm == "scratch" else 1 - c.seed)), 0.5)
    results = summarise(plan, flat.find, facts=facts())
    assert {"seeds", "interval", "baseline"} <= kinds(results)
    assert "Whether scratch differs from self_pretrained (" in caveats_of(results, "interval")
    assert caveats_of(results, "baseline") == (
        "scratch (0.305) and self_pretrained (0.305) are no better on test than a trivial baseline: "
        "logistic regression (0.500)."
    )
    assert caveats_of(results, "seeds").startswith("scratch and self_pretrained have 2 seeds")


def test_an_arm_within_two_errors_of_chance_is_shown_at_chance() -> None:
    plan = make_plan(arms={"scratch": False})
    results = summarise(plan, shelf(plan, lambda _: (0.1, 0.11)).find, facts=facts())
    # Two binomial errors of 500 examples at 0.1 are 0.027.
    assert results.table[0].status == "at chance"
    assert caveats_of(results, "at chance") == (
        "scratch (0.110 ± 0.000) is at chance: not above a test accuracy of 0.100 by two standard errors."
    )
    above = summarise(plan, shelf(plan, lambda _: (0.1, 0.13)).find, facts=facts())
    assert above.table[0].status == "measured"


def test_arms_at_chance_are_said_together() -> None:
    plan = make_plan(columns={"l": "digits", "m": "mnist"})
    levels = {("scratch", "m"): 0.09}
    both = {**facts("digits"), **facts("mnist")}
    results = summarise(plan, shelf(plan, lambda c: (0.1, levels.get((c.arm, c.column), 0.1))).find, facts=both)
    assert caveats_of(results, "at chance") == (
        "scratch (0.100 ± 0.000 and 0.090 ± 0.000) and self_pretrained (0.100 ± 0.000) are at chance: not above a "
        "test accuracy of 0.100 by two standard errors."
    )


def test_a_pretraining_that_learnt_nothing_is_said_of_the_arms_that_start_from_it() -> None:
    plan = make_plan(arms={"scratch": False, "a": True, "b": True}, columns={"x": "digits", "y": "mnist"})
    stored = shelf(plan)
    assert "pretraining" not in kinds(summarise(plan, stored.find))
    for cell in plan.cells:
        if cell.column == "y" and len(cell.chain) > 1:
            parent = cell.chain[0].identity
            stored.results[parent] = result(parent, -0.18, -0.18, metric="r2")
    text = caveats_of(summarise(plan, stored.find), "pretraining")
    assert text.startswith("y: a and b: stage pretrain learnt next to nothing.")
    assert "(R² −0.180; the mean has 0)" in text
    for identity, document in stored.results.items():
        if document["monitor"]["name"] == "r2":
            stored.results[identity] = result(identity, 0.2, 0.2, metric="r2")
    assert "pretraining" not in kinds(summarise(plan, stored.find))


def test_a_table_that_mixes_machines_or_threads_says_so() -> None:
    plan = make_plan()
    stored = shelf(plan)
    stored.results[plan.cells[5].chain[-1].identity]["provenance"]["threads"] = 2
    assert "mixes thread counts: 1 and 2" in caveats_of(summarise(plan, stored.find), "mixed")
    provenance = stored.results[plan.cells[5].chain[-1].identity]["provenance"]
    provenance |= {"threads": 1, "way": "2 ranks (gloo)"}
    assert "mixes ways of training: 2 ranks (gloo) and alone. Intervals do not" in caveats_of(
        summarise(plan, stored.find), "mixed"
    )


def test_a_table_of_stages_in_a_stack_and_alone_says_so() -> None:
    plan = make_plan()
    stored = shelf(plan)
    for identity in stored.results:
        stored.results[identity]["provenance"]["way"] = "stack"
    assert "mixed" not in kinds(summarise(plan, stored.find))
    first = plan.cells[5].chain[-1].identity
    stored.results[first]["provenance"]["way"] = "alone then stack"
    assert "mixes ways of training: alone then stack and stack" in caveats_of(summarise(plan, stored.find), "mixed")
    del stored.results[first]["provenance"]["way"]  # as it stands with a stage that trained alone
    stored.results[first]["budget"]["steps"] = 5
    assert "mixes ways of training: alone and stack" in caveats_of(summarise(plan, stored.find), "mixed")
    stored.results[first]["budget"]["steps"] = 0  # fitted, in no way of these
    assert "mixed" not in kinds(summarise(plan, stored.find))


def test_a_table_of_several_machines_compares_them_and_says_that_seeds_do_not_cover_it() -> None:
    plan = make_plan(rates=(3e-3,), seeds=range(4))
    stored = shelf(plan, lambda cell: (0.5, 0.50 + 0.01 * cell.seed - (0.04 if cell.seed > 1 else 0.0)))
    assert "machines" not in kinds(summarise(plan, stored.find))
    for cell in plan.cells:
        if cell.arm == "self_pretrained" and cell.seed > 1:
            stored.results[cell.chain[-1].identity]["provenance"]["machine"] = "server"
    results = summarise(plan, stored.find)
    assert caveats_of(results, "machines") == (
        "The table mixes machines: laptop and server. Seeds do not cover what another processor changes; test by "
        "machine: self_pretrained 0.505 ± 0.005 on laptop (2 seeds) and 0.485 ± 0.005 on server (2 seeds)."
    )
    assert {run["machine"] for run in results.rows()[1]["seeds"].values()} == {"laptop", "server"}
    scratch, other = results.table
    assert on_other_machines([scratch, other])
    assert not on_other_machines([scratch, scratch])


def test_arms_without_a_common_seed_are_compared_unpaired_and_json_has_both_ways() -> None:
    plan = make_plan(rates=(3e-3,), seeds=range(6))
    apart = shelf(plan, lambda cell: usual(cell) if (cell.seed < 3) == (cell.arm == "scratch") else None)
    document = summarise(plan, apart.find).rows()[1]
    assert (document["paired"], document["pairs"]) == (False, 3)
    assert document["intervals"] == {"paired": None, "unpaired": document["interval"], "seeds_and_examples": None}
    document = summarise(plan, shelf(plan).find).rows()[1]
    assert (document["paired"], document["pairs"], document["smallest_p"]) == (True, 6, 2 / 64)
    assert document["intervals"]["paired"] == document["interval"] != document["intervals"]["unpaired"]
    assert 0 < document["detectable"] < document["difference"]
    assert document["p_holm"] == document["p"] < 0.05


def test_the_window_of_rates_ends_where_validation_is_a_standard_error_below_its_best() -> None:
    rates = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    plan = make_plan(arms={"scratch": False}, rates=rates)
    level = dict(zip(rates, (0.9, 0.99, 1.0, 0.995, 0.9, 0.995), strict=True))

    def score(cell: Cell) -> tuple[float, float]:
        return level[cell.settings[LR]] + 0.01 * (cell.seed - 2), 0.5

    # Standard error of the best: 0.01 * sqrt(2.5 / 5) = 0.0071; 3e-2 is near too, but not next to the best.
    row = summarise(plan, shelf(plan, score).find).table[0]
    assert str(row.windows[LR]) == "0.001 to 0.003, a factor of 3; 2 of 6 rates"
    assert row.document()["windows"][LR] == {
        "low": 1e-3,
        "high": 3e-3,
        "within": 2,
        "of": 6,
        "open": False,
        "factor": pytest.approx(3.0),
    }
    level |= {3e-3: 0.9}
    row = summarise(plan, shelf(plan, score).find).table[0]
    assert str(row.windows[LR]) == "0.001 alone; 1 of 6 rates"
    level |= dict.fromkeys(rates[:3], 1.0)
    row = summarise(plan, shelf(plan, score).find).table[0]
    assert str(row.windows[LR]) == "0.0001 to 0.001, at least a factor of 10; 3 of 6 rates"
    alone = make_plan(arms={"scratch": False}, rates=rates, seeds=(0,))
    assert summarise(alone, shelf(alone, score).find).table[0].windows == {}


def test_a_rate_at_which_a_seed_diverged_is_outside_the_window() -> None:
    plan = make_plan(arms={"scratch": False}, rates=(1e-3, 3e-3))
    stored = shelf(plan, lambda cell: (0.5 + 0.01 * cell.seed, 0.5))
    assert stored.results
    assert summarise(plan, stored.find).table[0].windows[LR].within == 2
    lost = next(cell.chain[-1].identity for cell in plan.cells if cell.settings[LR] == 3e-3)
    stored.results[lost]["status"] = "diverged"
    assert summarise(plan, stored.find).table[0].windows[LR].within == 1


def test_a_caveat_of_some_columns_names_them_and_one_of_all_does_not() -> None:
    plan = make_plan(columns={"a": "digits", "b": "mnist"}, seeds=(0, 1))
    results = summarise(plan, shelf(plan).find)
    assert all(not c.where for c in results.caveats if c.kind == "seeds")
    assert {c.where for c in results.caveats if c.kind == "benchmark"} == {("a",), ("b",)}


# ---------------------------------------------------------------- views


def test_a_data_frame_has_a_row_per_arm_and_a_column_per_setting() -> None:
    plan = make_plan()
    frame = summarise(plan, shelf(plan).find).to_pandas()
    assert list(frame["arm"]) == ["scratch", "self_pretrained"]
    assert list(frame[f"chosen.{LR}"]) == [3e-3, 3e-3]
    assert list(frame["budget.epochs"]) == [60, 90]


def test_without_pandas_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **more)

    results = summarise(make_plan(), lambda _: None)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install pandas"):
        results.to_pandas()


def test_printed_results_are_their_table_and_caveats() -> None:
    plan = make_plan()
    results = summarise(plan, shelf(plan).find, facts=facts())
    heading, _, heads, *lines = str(results).splitlines()
    assert heading == results.heading
    assert heads.split()[:5] == ["arm", "column", "chosen", "n", "val"]
    assert [line.split()[0] for line in lines[: len(results.table)]] == list(results.arms)
    assert len([line for line in lines if line.startswith("- ")]) == len(results.caveats)
    assert repr(results) == str(results)


def test_results_that_are_held_against_nothing_have_no_column_of_differences() -> None:
    plan = make_plan(against=None)
    heads, *lines = summarise(plan, shelf(plan).find, facts=facts())._lines()
    assert heads == ["arm", "column", "chosen", "n", "val", "test", "status"]
    assert {len(line) for line in lines} == {7}


def test_the_notebook_view_escapes_foreign_names() -> None:
    plan = make_plan(arms={"<script>alert(1)</script>": False}, against=None, columns={"a&b": "digits"})
    view = summarise(plan, shelf(plan).find, facts=facts())._repr_html_()
    assert "<script>" not in view
    assert "&lt;script&gt;" in view
    assert "a&amp;b" in view
    assert "majority" in view


def printed_caveats(results: Results) -> list[str]:
    return str(results).split("\n\n")[-1].splitlines()


def test_what_is_printed_has_the_gravest_caveats_at_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(arms={"scratch": False, "other": False})
    results = summarise(plan, shelf(plan).find, facts=facts())
    few = len(results.caveats)
    assert few < 5
    monkeypatch.setenv("COLUMNS", "60")
    lines = printed_caveats(results)
    assert [line[:2] for line in lines].count("- ") == few
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines) == " ".join(f"- {caveat}" for caveat in results.caveats)
    many = replace(results, caveats=results.caveats * 3)
    lines = printed_caveats(many)
    assert [line[:2] for line in lines].count("- ") == 6
    assert lines[-1] == f"- and {3 * few - 5} more on the page, and in `caveats`"


# ---------------------------------------------------------------- what counts once


def test_two_arms_that_draw_nothing_are_one_pair_whatever_the_seeds() -> None:
    plan = make_plan(arms={"scratch": False, "other": False}, rates=(1e-3,))
    same = {arm: next(cell.chain for cell in plan.cells if cell.arm == arm) for arm in ("scratch", "other")}
    fixed = replace(plan, cells=tuple(replace(cell, chain=same[cell.arm]) for cell in plan.cells))
    stored = shelf(plan, lambda cell: (0.5, {"scratch": 0.5, "other": 0.6}[cell.arm]))
    gap = summarise(fixed, stored.find).row("other", "digits").difference
    assert gap is not None
    assert (gap.n, gap.interval) == (1, None)
    drawn = summarise(plan, stored.find).row("other", "digits").difference
    assert drawn is not None
    assert drawn.n == 5
    half = tuple(replace(cell, chain=same["scratch"]) if cell.arm == "scratch" else cell for cell in plan.cells)
    against_fixed = summarise(replace(plan, cells=half), stored.find).row("other", "digits").difference
    assert against_fixed is not None
    assert against_fixed.n == 5


def test_a_run_with_seed_minus_one_is_no_chance() -> None:
    average = SimpleNamespace(over="columns", columns=(), missing="chance")
    plan = make_plan(columns={"l": "digits", "m": "mnist"}, seeds=(-1, 0, 1), average=average)
    stored = shelf(plan, lambda cell: (0.5, 0.5 + 0.1 * cell.seed))
    averages = summarise(plan, stored.find, facts={**facts("digits"), **facts("mnist")}).averages
    assert [sorted(average.seeds) for average in averages] == [[-1, 0, 1], [-1, 0, 1]]
    assert averages[0].seeds[-1] == pytest.approx(0.4)


def test_unequal_regularisation_is_said_and_no_tuned_one(tmp_path: Path) -> None:
    def summarised(plan: Any) -> Results:
        return summarise(plan, shelf(plan, lambda cell: (0.5, 0.01 * cell.seed), logistic=None).find)

    plan, alike = (planned(name, "tiny", tmp_path) for name in ("lu-18", "lu-2"))
    results = summarised(plan)
    texts = [str(caveat) for caveat in results.caveats if caveat.kind == "regularisation"]
    assert texts
    assert all("dropout 0.1 in output_input" in text and "none in output" in text for text in texts)
    assert not [caveat for caveat in summarised(alike).caveats if caveat.kind == "regularisation"]

    def with_values(*values: float) -> Results:
        name = "finetune.model.dropout"
        rows = [
            replace(row, points=[replace(row.points[0], settings={name: value}) for value in values])
            for row in results.table
        ]
        return replace(results, table=tuple(rows))

    assert list(caveats._regularisation(with_values(0.1), plan)), "an axis of one value tunes nothing"
    # So is an output layer that alone trains at one rate, where two arms have one.
    at_one = [str(caveat) for caveat in results.caveats if caveat.kind == "output layer"]
    assert at_one
    assert all(
        "output and random_output: the output layer alone trains, at one learning rate." in text for text in at_one
    )
    swept = [
        replace(row, points=[replace(row.points[0], settings={LR: rate}) for rate in (1e-3, 1e-2)])
        for row in results.table
    ]
    assert not list(caveats._output_layers(replace(results, table=tuple(swept)), plan))
    assert not list(caveats._regularisation(with_values(0.1, 0.2), plan))


def test_unequal_flops_at_equal_examples_are_said() -> None:
    plan = make_plan(arms={"scratch": False, "other": False})
    stored = shelf(plan)
    for cell in plan.cells:
        stored.results[cell.chain[-1].identity]["budget"]["flops"] = 1e9 * (1.6 if cell.arm == "other" else 1)
    expected = "FLOPs differ at as many training examples: 1.60 (other) times those of scratch."
    assert caveats_of(summarise(plan, stored.find), "budget") == expected
    for cell in plan.cells:
        stored.results[cell.chain[-1].identity]["budget"]["flops"] = 1e9 * (1.05 if cell.arm == "other" else 1)
    assert not caveats_of(summarise(plan, stored.find), "budget")


def test_an_average_over_columns_says_where_its_arms_ran_on_different_machines() -> None:
    columns = {"digits": "digits", "mnist": "mnist"}
    plan = make_plan(rates=(3e-3,), seeds=range(3), columns=columns, average=AverageSpec())
    stored = shelf(plan)
    assert not any(average.elsewhere for average in summarise(plan, stored.find).averages)
    for cell in plan.cells:
        if (cell.arm, cell.column) == ("self_pretrained", "mnist"):
            stored.results[cell.chain[-1].identity]["provenance"]["machine"] = "server"
    results = summarise(plan, stored.find)
    assert {average.arm: average.elsewhere for average in results.averages} == {
        "scratch": False,
        "self_pretrained": True,
    }
    assert "its arms on different kinds of machines" in to_markdown(make_table(results))
