"""Verdicts, answers and pooled gains of results that are written down number by number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from headstart.report.answer import answer
from headstart.report.claims import verdicts
from headstart.statistics import estimate, paired_difference
from headstart.study.language.papers import Claim
from headstart.study.paper.compare import Gain, pooled
from headstart.study.results.collect import read_run
from headstart.study.results.columns import averages
from headstart.study.results.results import Results
from headstart.study.results.rows import Point, Row, Run
from headstart.study.results.rows import test_gap as gap_on_test


def row_of(arm: str, tests: Mapping[int, float], column: str = "digits", val: float | None = None) -> Row:
    """An arm on a column: its test score by seed, which is its validation score too where `val` is not given."""
    runs = tuple(
        Run(seed, "complete", (("finetune", f"{arm} {column} {seed}"),), test if val is None else val, test, {}, {})
        for seed, test in tests.items()
    )
    on_val, on_test = estimate(run.val for run in runs), estimate(run.test for run in runs)
    point = Point({}, "complete", on_val, on_test, runs)
    fields: tuple[Any, ...] = (arm, column, {}, "measured", "accuracy", True, len(runs), len(runs), on_val, on_test)
    return Row(*fields, None, {}, {}, {}, (point,), runs, "task")


def results_of(rows: Sequence[Row], against: str, **more: Any) -> Results:
    """Results whose rows are held against one arm."""
    base = {row.column: row for row in rows if row.arm == against}
    table = tuple(
        row
        if row.arm == against
        else replace(row, difference=gap_on_test(row, base[row.column]), base=base[row.column])
        for row in rows
    )
    arms, columns = (tuple(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("arm", "column"))
    return Results("s", "S", arms, columns, against, (), table, **more)


def test_what_rounding_leaves_of_equal_differences_is_no_verdict() -> None:
    rows = [
        row_of(arm, dict.fromkeys(range(3), score)) for arm, score in zip("abcd", (0.1, 0.2, 0.2, 0.3), strict=True)
    ]
    claim = Claim(says="The gap closes.", higher=("b", "a"), lower=("d", "c"))
    (part,) = verdicts(results_of(rows, "a", claims=(claim,)), None)[0].parts
    assert part.difference is not None
    assert (part.difference.mean, part.outcome) == (0.0, "undecided")


def test_a_claim_on_averages_is_judged_for_each_group_of_columns() -> None:
    draw = random.Random(0)
    rows = [
        row_of(arm, {seed: 0.7 + up * (arm == "new") + draw.gauss(0, 0.003) for seed in range(5)}, f"{name} {group}")
        for group, up in (("fraction=0.1", 0.1), ("fraction=1", -0.1))
        for name in ("one", "two")
        for arm in ("new", "old")
    ]
    claim = Claim(says="On average it helps.", higher="new", lower="old", columns=("average",))
    results = results_of(rows, "old", claims=(claim,))
    spec: Any = SimpleNamespace(columns=(), missing="skip")
    results = replace(results, averages=averages(results, spec, ("one", "two")))
    parts = verdicts(results, None)[0].parts
    assert [(part.column, part.outcome) for part in parts] == [
        ("average fraction=0.1", "holds"),
        ("average fraction=1", "the other way round"),
    ]


def test_the_answer_of_many_arms_calls_an_interval_undecided_that_holms_correction_does_not_leave() -> None:
    base = {seed: 0.7 + 0.01 * seed for seed in range(5)}
    gaps = (0.05, 0.02, 0.06, 0.01, 0.03)
    top = row_of("top", {seed: base[seed] + gap for seed, gap in zip(base, gaps, strict=True)}, val=0.9)
    others = [
        row_of(f"arm{i}", {seed: base[seed] + 0.01 * (-1) ** (seed + i) for seed in base}, val=0.5) for i in range(6)
    ]
    assert answer(results_of([row_of("base", base, val=0.6), top], "base")).startswith("On digits, top beats base")
    text = answer(results_of([row_of("base", base, val=0.6), *others, top], "base"))
    assert "whether top is better than base is undecided" in text
    assert "clear alone, but not among 7 differences (Holm's correction, p = " in text


def test_gains_of_arms_without_a_common_seed_all_count() -> None:
    gap = paired_difference({0: 0.1, 1: 0.2}, {0: 0.0, 1: 0.0})
    assert gap is not None
    gains = [
        Gain("s", arm, "c", "digits", "accuracy", 8, 10, 100, gap, frozenset({(f"stage of {arm}", "")}))
        for arm in "abc"
    ]
    assert pooled(gains).rows[0][5:7] == ("3", "3 of 3")


def test_a_run_without_validation_has_not_diverged() -> None:
    planned = SimpleNamespace(name="finetune", identity="a")
    cell: Any = SimpleNamespace(seed=0, chain=(planned,))
    for split, status in (
        ({}, "complete"),
        ({"val": {}}, "complete"),
        ({"val": {"accuracy": float("nan")}}, "diverged"),
    ):
        result = {"status": "complete", "scores": {"best": {"test": {"accuracy": 0.8}, **split}}, "budget": {}}
        run = read_run(cell, {"a": result}.get, lambda _: "complete", "accuracy")
        assert run.status == status
