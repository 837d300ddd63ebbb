"""A search: what a study may say, which trials are drawn, what is chosen and what is reported."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command import command
from support.finished import study as finished_study
from support.made_up import LR, result

from headstart.api import Study
from headstart.errors import BadInput
from headstart.report.figures.collect import drawings
from headstart.report.figures.search import search_figure
from headstart.report.tables.search import best_so_far, expected_best, search_table
from headstart.store import Store
from headstart.study.language.files import to_toml
from headstart.study.language.plan import Cell, Plan, make_plan
from headstart.study.language.search import SPACES, space_of
from headstart.study.language.spec import read_study
from headstart.study.paper.snapshot import read_file, take_snapshot
from headstart.study.paper.summary import summarise
from headstart.study.results.searching import Searched
from headstart.study.results.selection import select
from headstart.verbs.store import clean_store

pytest.importorskip("optuna")
OVER = {LR: "loguniform 1e-4 1e-1", "model.width": "choice 8 16"}
Results = dict[str, dict[str, Any]]


def study(seeds: tuple[int, ...] = (0, 1, 2), report: Mapping[str, Any] | None = None, **search: Any) -> dict[str, Any]:
    table = finished_study()
    table |= {"axes": {"seed": list(seeds)}, "report": {"against": "scratch"} if report is None else dict(report)}
    return {**table, "search": {"with": "optuna", "trials": 8, "batch": 4, "over": dict(OVER), **search}}


def searched(tmp_path: Path, **search: Any) -> Searched:
    return Searched(make_plan(read_study(study(**search)), tmp_path))


def near(rate: float) -> float:
    """A score that is best at a rate of 0.01."""
    return 0.9 - 0.1 * abs(math.log10(rate) + 2)


def score(cell: Cell) -> tuple[float, float]:
    """(val, test): test is best where validation is worst."""
    val = near(cell.settings[LR]) + 0.001 * cell.settings.get("model.width", 0)
    return val, 1 - val


Score = Callable[[Cell], tuple[float, float] | None]


def finish(plan: Plan, done: Results, scored: Score = score, most: int = 10**6) -> int:
    """Results of stages that are drawn and not finished, of at most so many runs; returns of how many."""
    count = 0
    for cell in (*plan.trials, *plan.cells):
        if cell.last.identity in done or count == most:
            continue
        count += 1
        for planned in cell.chain[:-1]:
            done[planned.identity] = result(planned.identity, 0.4, 0.4, metric="r2")
        pair = scored(cell)
        status = "complete" if pair else "diverged"
        done[cell.last.identity] = result(cell.last.identity, *(pair or (None, None)), status=status)
    return count


def whole(search: Searched, scored: Score = score, most: int = 10**6) -> tuple[Plan, Results]:
    """The plan of a search that has run to its end, `most` stages between two looks at what is to be drawn."""
    done: Results = {}
    plan = search.plan(done.get)
    while finish(plan, done, scored, most):
        plan = search.plan(done.get)
    return plan, done


def drawn(plan: Plan, arm: str) -> list[dict[str, Any]]:
    return [dict(cell.settings) for cell in plan.trials if cell.arm == arm]


def test_every_arm_and_column_has_as_many_trials_with_one_seed_and_its_chosen_setting_all_fresh_seeds(
    tmp_path: Path,
) -> None:
    table = study()
    table["columns"]["more"] = {**table["columns"]["digits"], "task": {"kind": "digits", "labelled": 100}}
    plan, _ = whole(Searched(make_plan(read_study(table), tmp_path)))
    keys = [(cell.arm, cell.column) for cell in plan.trials]
    assert {key: keys.count(key) for key in keys} == dict.fromkeys(
        itertools.product(["scratch", "self_pretrained"], ["digits", "more"]), 8
    )
    assert {cell.seed for cell in plan.trials} == {1000}
    assert {
        (c.arm, c.column): [d.seed for d in plan.cells if (d.arm, d.column) == (c.arm, c.column)] for c in plan.cells
    } == {key: [0, 1, 2] for key in keys}
    assert len({repr(cell.settings) for cell in plan.cells if cell.arm == "scratch"}) <= 2  # of each column
    assert plan.choose == tuple(OVER)


def test_the_choice_is_made_on_validation_and_test_is_not_read(tmp_path: Path) -> None:
    plan, _ = whole(searched(tmp_path))
    best = max(plan.trials[:8], key=lambda cell: score(cell)[0])
    assert {repr(cell.settings) for cell in plan.cells if cell.arm == "scratch"} == {repr(best.settings)}
    other, _ = whole(searched(tmp_path), lambda cell: (score(cell)[0], 0.123))
    assert [cell.chain for cell in other.cells] == [cell.chain for cell in plan.cells]


def test_all_arms_begin_with_the_same_settings_and_a_new_name_draws_no_others(tmp_path: Path) -> None:
    plan, _ = whole(searched(tmp_path))
    assert drawn(plan, "scratch")[:4] == drawn(plan, "self_pretrained")[:4]
    table = study()
    table["arms"] = {"other": {}, **table["arms"]}
    table["report"] = {}
    renamed, _ = whole(Searched(make_plan(read_study(table), tmp_path)))
    assert drawn(renamed, "other") == drawn(plan, "scratch")
    assert drawn(renamed, "self_pretrained") == drawn(plan, "self_pretrained")


def test_a_search_that_was_stopped_halfway_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    whole_plan, _ = whole(searched(tmp_path))
    first, done = searched(tmp_path), Results()
    for _ in range(6):  # of 8 trials of the first arm, one at a time
        finish(first.plan(done.get), done, most=1)
    again = searched(tmp_path)
    plan = again.plan(done.get)
    assert not plan.cells
    assert len(plan.trials) == 8 + 4
    while finish(plan, done):
        plan = again.plan(done.get)
    assert plan.stages.keys() == whole_plan.stages.keys()


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_how_many_stages_run_at_a_time_changes_no_trial(workers: int, tmp_path: Path) -> None:
    plan, _ = whole(searched(tmp_path), most=workers)
    assert plan.trials == whole(searched(tmp_path))[0].trials


def test_later_trials_depend_on_scores_and_random_ones_do_not(tmp_path: Path) -> None:
    def otherwise(cell: Cell) -> tuple[float, float]:
        return 1 - score(cell)[0], 0.5

    for sampler, same in (("tpe", False), ("random", True)):
        plan, other = (whole(searched(tmp_path, trials=16, sampler=sampler), each)[0] for each in (score, otherwise))
        assert drawn(plan, "scratch")[:10] == drawn(other, "scratch")[:10]
        assert (drawn(plan, "scratch") == drawn(other, "scratch")) is same


def test_a_trial_that_diverges_is_a_trial_that_cannot_be_chosen(tmp_path: Path) -> None:
    def lost(cell: Cell) -> tuple[float, float] | None:
        return None if cell.seed == 1000 and cell.settings["model.width"] == 16 else score(cell)

    plan, done = whole(searched(tmp_path), lost)
    assert {cell.settings["model.width"] for cell in plan.cells} == {8}
    row = select(plan, done.get).table[0]
    assert len(row.trials) == row.settings_tried == 8
    assert None in row.trials
    assert whole(searched(tmp_path), lambda _: None)[0].cells  # where all diverged, so do the runs that are reported


def test_an_arm_whose_trial_is_not_finished_holds_up_no_other(tmp_path: Path) -> None:
    search, done = searched(tmp_path), Results()
    for _ in range(5):
        plan = search.plan(done.get)
        finish(replace(plan, trials=tuple(cell for cell in plan.trials if cell.arm == "scratch")), done)
    plan = search.plan(done.get)
    assert {cell.arm for cell in plan.cells} == {"scratch"}
    texts = [str(caveat) for caveat in summarise(plan, done.get).caveats]
    assert "self_pretrained has no row: its search is not finished, so that nothing is chosen." in texts


def test_another_seed_on_the_axis_changes_neither_trials_nor_choice(tmp_path: Path) -> None:
    plan, done = whole(searched(tmp_path))
    more = searched(tmp_path, seeds=(3, 4)).plan(done.get)
    assert more.trials == plan.trials
    assert {repr(cell.settings) for cell in more.cells} == {repr(cell.settings) for cell in plan.cells}
    assert {cell.seed for cell in more.cells} == {3, 4}


def test_the_table_has_the_fresh_seeds_alone_and_the_best_so_far_beside(tmp_path: Path) -> None:
    plan, done = whole(searched(tmp_path, trials=12, batch=5))
    results = select(plan, done.get)
    for row in results.table:
        assert sorted(run.seed for run in row.runs) == [0, 1, 2]
        assert len(row.points) == 1
        assert set(row.chosen) == set(OVER)
        assert len(row.trials) == 12
    table = search_table(results, plan.study.search)
    assert table is not None
    first, random = table.lines[:2]
    assert first.cells["best 12"].values["best 12"] == max(results.table[0].trials)
    assert random.cells["best 10"].values["best 10"] == max(results.table[0].trials[:10])
    assert random.cells["best 12"].values["best 12"] is None
    assert "search.random_baseline=true" in table.note


@pytest.mark.parametrize("prune", [False, True])
def test_random_search_of_the_same_size_stands_beside_and_changes_neither_trials_nor_choice(
    prune: bool, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"trials": 15, "prune": prune, "over": {LR: OVER[LR]}}
    plain, _ = whole(searched(tmp_path, **settings))
    search = searched(tmp_path, **settings, random_baseline=True)
    plan, done = whole(search)
    assert plan.cells == plain.cells
    added = [cell for cell in plan.trials if cell not in plain.trials]
    assert [len([cell for cell in added if cell.arm == arm]) for arm in ("scratch", "self_pretrained")] == [3, 3]
    assert [c.settings for c in added[:3]] == [c.settings for c in added[3:]]
    alone, _ = whole(searched(tmp_path, **settings, sampler="random"))
    assert [c.settings for c in (*plan.trials[:12], *added[:3])] == [c.settings for c in alone.trials[:15]]
    assert sum(search.times().values()) == len(plan.stages)
    assert search.trials == len(plan.trials)
    results = select(plan, done.get)
    scores = [score(cell)[0] for cell in (*plan.trials[:12], *added[:3])]
    table = search_table(results, plan.study.search)
    assert table is not None
    assert table.lines[1].cells["best 15"].values["best 15"] == pytest.approx(max(scores))
    assert "The first 12 trials and 3 trials beside the search are drawn at random" in table.note
    del done[added[1].last.identity]
    assert select(plan, done.get).table[0].random_trials == ()
    assert len(results.table[0].trials) == 15


def test_the_best_so_far_is_a_picture_beside_the_table_with_random_search_and_trials_that_diverged(
    tmp_path: Path,
) -> None:
    def lost(cell: Cell) -> tuple[float, float] | None:
        return None if cell.settings[LR] > 0.03 else score(cell)

    plan, done = whole(searched(tmp_path, trials=14), lost)
    results, spec = select(plan, done.get), plan.study.search
    assert spec is not None
    drawing = next(d for d in drawings(plan, results, Store(tmp_path / "runs"))[0] if d.name == "search-digits")
    assert "the first 12 trials are drawn at random" in drawing.text.lower()
    figure = drawing.figure()
    assert figure is not None
    steps, random, crosses = figure.axes[0].lines[:3]
    best = [float(y) for y in steps.get_ydata()]  # type: ignore[union-attr]
    assert best == sorted(best)
    assert best[-1] == max(s for s in results.table[0].trials if s is not None)
    assert len(random.get_xdata()) == 12  # type: ignore[arg-type]
    assert [int(x) for x in crosses.get_xdata()] == [  # type: ignore[union-attr]
        i for i, s in enumerate(results.table[0].trials, 1) if s is None
    ]
    alone, finished = whole(searched(tmp_path, sampler="random"))
    drawn_at_random = search_figure(select(alone, finished.get), "digits", alone.study.search)  # type: ignore[arg-type]
    assert drawn_at_random is not None
    assert len(drawn_at_random.axes[0].lines) == 2 * 2


def test_the_best_of_random_trials_is_the_mean_over_their_orders() -> None:
    scores = [0.1, 0.5, 0.4, 0.9, None]
    values = [0.1 if score is None else score for score in scores]
    for greater, best in ((True, np.maximum), (False, np.minimum)):
        worst = values if greater else [0.9 if score is None else score for score in scores]
        orders = [best.accumulate([worst[i] for i in order]) for order in itertools.permutations(range(5))]
        assert expected_best(scores, greater) == pytest.approx(np.mean(orders, axis=0).tolist())
    assert expected_best([None], True) == []
    assert best_so_far([None, 0.2, 0.1, 0.3], True) == [None, 0.2, 0.2, 0.3]


@pytest.mark.parametrize("over", [OVER, {LR: "choice 0.01 0.001"}])
@pytest.mark.parametrize("prune", [False, True])
def test_a_file_of_results_has_the_trials(prune: bool, over: dict[str, Any], tmp_path: Path) -> None:
    """Of few values a search draws some twice."""
    plan, done = whole(searched(tmp_path, prune=prune, over=over))
    store = Store(tmp_path / "runs")
    results = select(plan, done.get)
    document = take_snapshot(plan, results, store).document(results, [])
    file = tmp_path / "results.json"
    file.write_text(json.dumps(document))
    read = read_file(file).plan
    assert read.trials == plan.trials
    assert len(results.table[0].trials) == 8
    assert read.cells == plan.cells
    assert list(read.stages) == list(plan.stages)


def test_a_study_without_a_search_imports_no_optuna_and_has_no_trials(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    table = finished_study()
    plan = Study(table, store=tmp_path / "runs", data=tmp_path).plan
    assert not plan.trials
    assert plan.stages.keys() == make_plan(read_study(table), tmp_path).stages.keys()
    with pytest.raises(BadInput, match=r"optuna is not installed; pip install 'headstart\[search\]'"):
        Study(study(), store=tmp_path / "runs", data=tmp_path)


def test_what_a_whole_search_comes_to_is_known_before_it(tmp_path: Path) -> None:
    table = study()
    table["search"]["over"] = {LR: OVER[LR]}
    search = Searched(make_plan(read_study(table), tmp_path))
    plan, _ = whole(search)
    assert sum(search.times().values()) == len(plan.stages) == 2 * 3 + 3 + 2 * 8 + 1
    assert search.trials == 16


def test_pruned_trials_have_a_quarter_of_the_budget_and_the_best_quarter_of_them_chooses_at_the_whole(
    tmp_path: Path,
) -> None:
    def whole_is_other(cell: Cell) -> tuple[float, float]:
        val, test = score(cell)
        return (val, test) if cell.last.spec.budget.epochs == 0.5 else (1 - val, 1 - test)

    plan, done = whole(searched(tmp_path, prune=True, trials=9), whole_is_other)
    for arm in ("scratch", "self_pretrained"):
        own = [cell for cell in plan.trials if cell.arm == arm]
        short, final = own[:9], own[9:]
        assert {(c.last.spec.budget.epochs, c.last.spec.budget.scored) for c in short} == {(0.5, "val")}
        assert {(c.last.spec.budget.epochs, c.last.spec.budget.scored) for c in final} == {(2.0, "all")}
        assert {c.chain[0].spec.budget.epochs for c in own if len(c.chain) == 2} <= {3.0}, "pretraining is whole"
        best = sorted(short, key=lambda cell: -score(cell)[0])[:3]
        assert [dict(c.settings) for c in final] == [dict(c.settings) for c in best]
        chosen = max(final, key=lambda cell: whole_is_other(cell)[0])
        reported = [cell for cell in plan.cells if cell.arm == arm]
        assert {repr(c.settings) for c in reported} == {repr(chosen.settings)} != {repr(best[0].settings)}
        assert {c.last.spec.budget.epochs for c in reported} == {2.0}
    results = select(plan, done.get)
    assert [len(row.trials) for row in results.table] == [9, 9], "scores of the whole budget are not among those"
    table = search_table(results, plan.study.search)
    assert table is not None
    assert "Trials had 1/4 of the last stage's budget; the best 3 of them were trained anew" in table.note


def test_a_pruned_search_goes_on_where_it_was_and_what_it_comes_to_is_known(tmp_path: Path) -> None:
    whole_plan, _ = whole(searched(tmp_path, prune=True))
    for workers in (1, 3):
        assert whole(searched(tmp_path, prune=True), most=workers)[0].trials == whole_plan.trials
    search = searched(tmp_path, prune=True, over={LR: OVER[LR]})
    plan, _ = whole(search)
    assert sum(search.times().values()) == len(plan.stages) == 2 * 3 + 3 + 2 * (8 + 2) + 1
    assert sum(search.times(short=0.25).values()) == 2 * 3 + 3 + 2 * (2 + 2) + 1
    assert search.trials == len(plan.trials) == 20


def test_arms_have_equally_many_whole_trials_however_many_of_the_short_ones_diverged(tmp_path: Path) -> None:
    def lost(cell: Cell) -> tuple[float, float] | None:
        return None if cell.arm == "scratch" and cell.last.spec.budget.epochs == 0.5 else score(cell)

    search = searched(tmp_path, prune=True)
    plan, _ = whole(search, lost)
    assert [len(drawn(plan, arm)) for arm in ("scratch", "self_pretrained")] == [8 + 2, 8 + 2]
    assert drawn(plan, "scratch")[8:] == drawn(plan, "scratch")[:2], "in their order"
    assert search.trials == len(plan.trials)


def test_trials_whose_part_of_the_budget_is_nothing_or_shorter_than_their_schedule_are_refused(tmp_path: Path) -> None:
    table = study(prune=True)
    for more, message in (
        ({"budget": {"steps": 1}}, r"search.prune: of 1/4 of the budget finetune.budget: is no whole step.*4 steps"),
        ({"budget": {"steps": 40}, "optim": {"warmup_steps": 20}}, r"search.prune: .*optim.warmup_steps: 20 is more"),
        ({"budget": {"epochs": 4}, "optim": {"warmup_steps": 20}}, r"search.prune: .*optim.warmup_steps: 20 is more"),
        ({"budget": {"epochs": 4}, "optim": {"average": 0.9}}, r"search.prune: .*optim.average: 0.9 averages over"),
        ({"budget": {"epochs": 1}, "optim": {"warmup_steps": 60}}, r"^stages.finetune.optim.warmup_steps: 60 is more"),
    ):
        table["stages"]["finetune"] |= more
        with pytest.raises(BadInput, match=message):
            Searched(make_plan(read_study(table), tmp_path))


@pytest.mark.parametrize("text", SPACES.values())
def test_a_space_holds_its_ends_and_nothing_beyond(text: str) -> None:
    space = space_of(text)
    assert all(map(space.holds, space.values))
    assert not space.holds(1e9)
    assert not space.holds(True)
    assert not space.holds("other")


def test_a_choice_may_be_of_words_numbers_and_truth() -> None:
    assert space_of("choice cosine constant").values == ("cosine", "constant")
    assert space_of("choice 0.1 0 true").values == (0.1, 0, True)


REFUSED = {
    "no space": ({"over": {LR: "normal 0 1"}}, r"search.over.finetune.optim.lr: .*'normal'.*loguniform 1e-5 1e-2"),
    "nothing": ({"over": {LR: ""}}, r"search.over.finetune.optim.lr: "),
    "one number": ({"over": {LR: "uniform 1"}}, r"needs a lowest and a highest"),
    "one value": ({"over": {LR: "uniform 0.1 0.1"}}, r"has one value"),
    "one choice": ({"over": {"model.width": "choice 8"}}, r"needs two values or more"),
    "a choice twice": ({"over": {"model.width": "choice 8 8"}}, r"each once"),
    "upside down": ({"over": {LR: "uniform 1 0"}}, r"the first number is the lowest"),
    "no number": ({"over": {LR: "uniform a b"}}, r"both numbers"),
    "nan": ({"over": {LR: "uniform nan 1"}}, r"both numbers|the first number"),
    "broken integer": ({"over": {"model.width": "integer 1 2.5"}}, r"both whole numbers"),
    "logarithm of 0": ({"over": {LR: "loguniform 0 1"}}, r"above 0"),
    "unknown key": ({"over": {"finetune.optim.rate": "uniform 0 1"}}, r"search.over.finetune.optim.rate.*rate"),
    "unknown stage": ({"over": {"finetun.optim.lr": "uniform 0 1"}}, r"search.over: .*finetune"),
    "unknown setting of models": ({"over": {"model.widht": "choice 8 16"}}, r"search.over.model.widht: .*width"),
    "no stage": ({"over": {"optim.lr": "uniform 0 1"}}, r"search.over: .*finetune.optim.lr"),
    "a whole stage": ({"over": {"finetune": "choice a b"}}, r"names no single setting"),
    "seeds": ({"over": {"seed": "integer 1 8"}}, r"a seed is not chosen"),
    "tasks": ({"over": {"task.labelled": "integer 100 200"}}, r"columns"),
    "twice": ({"over": {"model.width": "choice 8 16", "finetune.model.width": "choice 8 16"}}, r"sets the same thing"),
    "wrong type": ({"over": {"model.width": "uniform 8 16"}}, r"search.over.model.width: "),
    "out of bounds": ({"over": {LR: "uniform -1 1"}}, r"search.over.finetune.optim.lr: "),
    "one trial": ({"trials": 1}, r"search.trials: .*2"),
    "nothing searched": ({"over": {}}, r"search.over"),
    "another tool": ({"with": "hyperopt"}, r"with.*optuna"),
    "a wrong key": ({"trails": 3}, r"search.trails: .*trials"),
    "random beside random": ({"random_baseline": True, "sampler": "random"}, r"search.*random_baseline: all 8 trials"),
    "too few to add random ones": ({"random_baseline": True}, r"search.*all 8 trials.*give more trials"),
    "no such sampler": ({"sampler": "grid"}, r"search.sampler"),
    "a seed of the axis": ({"seed": 1}, r"search.seed: 1 is a seed of the axis.*such as 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_search_that_cannot_be_is_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    search, message = REFUSED[name]
    with pytest.raises(BadInput, match=message) as caught:
        Study(study(**search), store=tmp_path / "runs", data=tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_search_beside_other_axes_claims_at_a_setting_or_no_seeds_is_refused(tmp_path: Path) -> None:
    for more, message in (
        ({"axes": {LR: [0.1, 0.2], "seed": [0]}}, r"axes.finetune.optim.lr: the search is over the same setting"),
        ({"axes": {"finetune.optim.decay": [0.1, 0.2], "seed": [0]}}, r"no axis but seed"),
        ({"axes": {}}, r"axes.seed: .*fresh seeds"),
        (
            {"claims": [{"says": "more", "higher": "self_pretrained", "lower": "scratch", "at": {LR: 0.1}}]},
            r"claims\[0\].at: ",
        ),
    ):
        with pytest.raises(BadInput, match=message):
            read_study({**study(), **more})
    claim = {"says": "more", "higher": "self_pretrained", "lower": "scratch"}
    with pytest.raises(BadInput, match=r"search.prune: claims\[0\] asks which arm is better.*leave 'prune' out"):
        read_study({**study(prune=True), "claims": [claim]})
    assert read_study({**study(), "claims": [claim]}).claims
    with pytest.raises(BadInput, match=r"override: finetune.optim.lr: the search is over"):
        read_study(study(), ["finetune.optim.lr=0.1"])
    assert read_study(study(), ["search.trials=5"]).search.trials == 5  # type: ignore[union-attr]


def test_what_a_search_has_drawn_is_cleared_away_by_nobody_who_cannot_know_it(tmp_path: Path) -> None:
    table = {**study(), "columns": {"mine": {**study()["columns"]["digits"], "task": {"kind": "image"}}}}
    file = tmp_path / "s.toml"
    file.write_text(to_toml(table))
    with pytest.raises(BadInput, match=r"later trials follow"):
        clean_store([str(file)], str(tmp_path / "runs"), str(tmp_path / "data"), [])


@pytest.mark.slow
def test_a_search_runs_from_the_command_line_and_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(FILE)
    words = ["run", "s.toml", "--store", "runs", "--workers", "0"]
    before = command(*words, "--dry-run", cwd=tmp_path)
    assert before.returncode == 0, before.stderr
    assert "0 of 6 trials are finished" in before.stdout
    early = command("report", "s.toml", "--store", "runs", cwd=tmp_path)
    assert early.returncode == 2
    done = command(*words, "--json", "results.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The search: validation accuracy over trials" in done.stdout
    stages = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/result.json")}
    again = command(*words, "search.trials=4", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (
        stages.items()
        <= {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/result.json")}.items()
    )
    report = command("report", "--from", "results.json", "--out", "page", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "The search" in report.stdout
    wrong = command(*words, "search.trials=1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert len(wrong.stderr.strip().splitlines()) == 1


FILE = """
name = "searched"
title = "Does it help?"
[search]
with = "optuna"
trials = 3
batch = 2
over = { "finetune.optim.lr" = "loguniform 1e-4 1e-1", "model.width" = "choice 8 16" }
[stages.pretrain]
objective = { kind = "masked" }
budget = { steps = 1 }
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 1 }
[columns.digits]
task = { kind = "digits", labelled = 100 }
model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }
[arms.scratch]
[arms.self_pretrained]
finetune = { parent = "pretrain", start = ["take(all-head)"] }
[axes]
seed = [0, 1]
[report]
against = "scratch"
"""
