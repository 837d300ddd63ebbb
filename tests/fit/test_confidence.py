"""Sets of classes and intervals: how sure the held-out sequences of a fit make its predictions."""

import csv
import json
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from support.command import command

from headstart.errors import BadInput
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel, held_out
from headstart.serve.config import HeldOut
from headstart.serve.predictions import predictions_of, to_csv


def _rows(count: int, seed: int, number: bool) -> str:
    rng = np.random.default_rng(seed)
    lines = ["label," + ",".join(f"t{i}" for i in range(16))]
    for i in range(count):
        name = "aaaaaabbbc"[i % 10]
        wave = np.sin(np.arange(16) * (0.5 + 0.2 * "abc".index(name)) + rng.uniform(0, 6)) + rng.normal(0, 0.9, 16)
        label = f"{wave.mean() + rng.normal(0, 0.3):.4f}" if number else name
        lines.append(label + "," + ",".join(f"{x:.3f}" for x in wave))
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("number", [False, True], ids=["classes", "numbers"])
def test_sets_and_intervals_of_a_real_fit_hold_the_truth_as_often_as_asked(number: bool, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(_rows(600, 0, number))
    (tmp_path / "new.csv").write_text(_rows(900, 1, number))
    fitted = command(
        "fit", "train.csv", "--serve", "summary", "--time", "8s", "--workers", "0", "--seeds", "1", cwd=tmp_path
    )
    assert fitted.returncode == 0, fitted.stderr
    done = command("predict", "model", "new.csv", "-o", "out.csv", "--confidence", "0.8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "look unlike" not in done.stderr, "they come from the same source"
    # Fitted again on train and validation it is "about", where there was no time for that "at least".
    promise = r"conformal, by 120 sequences held out \(test\): the truth is inside for (about|at least) 0\.8"
    assert re.search(promise, done.stderr)
    truth = [row["label"] for row in csv.DictReader((tmp_path / "new.csv").read_text().splitlines())]
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    if number:
        inside = [
            float(row["low"]) <= float(label) <= float(row["high"]) for row, label in zip(rows, truth, strict=True)
        ]
    else:
        inside = [row[f"in_{label}"] == "1" for row, label in zip(rows, truth, strict=True)]
        assert all(row[f"in_{row['prediction']}"] == "1" for row in rows)
        # 12 held-out sequences of the rare class leave a standard deviation of 0.11, 90 new ones one of 0.04.
        shares = [float(row[f"p_{label}"]) for row, label in zip(rows, truth, strict=True)]
        held = json.loads((tmp_path / "model" / "config.json").read_text())["held_out"]["summary"]
        alone = [1 - share <= np.quantile(held["errors"], 0.8) for share in shares]
        by_class = {
            name: [np.mean([h for h, t in zip(each, truth, strict=True) if t == name]) for each in (inside, alone)]
            for name in "abc"
        }
        for name, (own, _) in by_class.items():
            assert 0.8 - 0.3 < own <= 1.0, f"the coverage of {name}"
        assert by_class["c"][1] < 0.5, "the control: one threshold for all loses the rare class"
        assert 1.0 < np.mean([sum(row[f"in_{name}"] == "1" for name in "abc") for row in rows]) < 3.0
    # The 120 held-out errors leave a standard deviation of 0.037, the 900 new ones one of 0.013.
    assert 0.8 - 0.12 < np.mean(inside) < 0.8 + 0.12
    lines = (tmp_path / "new.csv").read_text().splitlines()
    moved = [",".join([row.split(",")[0], *(f"{float(x) + 9:.3f}" for x in row.split(",")[1:])]) for row in lines[1:]]
    (tmp_path / "moved.csv").write_text("\n".join([lines[0], *moved]))
    shifted = command("predict", "model", "moved.csv", "-o", "moved-out.csv", cwd=tmp_path)
    assert (
        "these sequences look unlike those of the fit, so that predictions may be wrong: the mean of" in shifted.stderr
    )
    refused = command("predict", "model", "new.csv", "--confidence", "0.999", cwd=tmp_path)
    assert refused.returncode == 2
    allowed = (
        "120 held-out sequences allow; give at most 0.99" if number else "72 held-out sequences of the largest class"
    )
    assert f"0.999 is more than {allowed}" in refused.stderr


def test_coverage_over_many_draws_is_what_was_asked() -> None:
    rng, covered = np.random.default_rng(0), []
    for _ in range(400):
        held_out = HeldOut(errors=tuple(np.sort(rng.exponential(size=99)).tolist()), source="test")
        covered.append(1 - np.exp(-held_out.reach(0.9)))
    assert abs(np.mean(covered) - 0.9) < 3 * 0.03 / 400**0.5


def test_the_guarantee_says_whether_it_is_exact() -> None:
    errors = tuple(np.linspace(0, 1, 50).tolist())
    assert "for at least 0.9 of new" in HeldOut(errors=errors, source="test").says(0.9)
    assert "for about 0.9 of new" in HeldOut(errors=errors, source="test", again=True).says(0.9)
    assert "for about 0.9 of new" in HeldOut(errors=errors, source="folds").says(0.9)
    for confidence, message in (
        (0.0, "not between 0 and 1"),
        (90.0, "90 is not between 0 and 1; give a coverage such as 0.9"),
        (float("nan"), "not between 0 and 1"),
        (0.99, r"at most 0\.98"),
    ):
        with pytest.raises(BadInput, match=message):
            HeldOut(errors=errors, source="test").reach(confidence)


def test_errors_are_those_of_all_folds_of_one_split_or_of_a_large_test() -> None:
    def model(fold: int, tests: int) -> TrainedModel:
        shares = np.tile([[0.9 - fold / 10, 0.1 + fold / 10]], (4, 1))
        tested = Answers(np.zeros(tests, dtype=np.int64), np.tile([[0.75, 0.25]], (tests, 1)))
        # Folds in proportion may have equal targets in equal order.
        return TrainedModel(fold, f"{fold}", Answers(np.array([0, 1, 0, 1]), shares), tested, (fold, 0.0))

    few = FitCandidate(None, "", models=(model(0, 3), model(1, 3)))
    assert held_out(few, False, 2).errors == pytest.approx((0.1, 0.1, 0.2, 0.2, 0.8, 0.8, 0.9, 0.9), rel=2e-5)
    assert held_out(few, False, 2).source == "folds"
    assert held_out(few, False, 1).errors == pytest.approx((0.2, 0.2, 0.8, 0.8), rel=2e-5)
    assert held_out(few, False, 1).source == "validation"
    again = FitCandidate(None, "", models=tuple(model(fold, 3) for fold in range(4)))
    assert len(held_out(again, False, 2).errors) == 8, "two folds, dealt twice: each row counts once"
    large = held_out(FitCandidate(None, "", models=(model(0, 100),)), True, 1)
    assert (large.source, large.again, len(large.errors)) == ("test", True, 100)
    assert large.errors == pytest.approx((0.25,) * 100, rel=2e-5)


class NoNames:
    """One sequence without an id."""

    ids = windows = None

    def __len__(self) -> int:
        return 1


def test_a_class_that_made_the_threshold_is_in_its_set() -> None:
    """Shares of 1/2, 1/3 and 1/6 for all: the rarest class is within the error that it has itself made."""
    shares = np.tile([[1 / 2, 1 / 3, 1 / 6]], (600, 1))
    truth = np.repeat([0, 1, 2], [300, 200, 100])
    model = TrainedModel(0, "0", Answers(truth[:0], shares[:0]), Answers(truth, shares), (0.0, 0.0))
    reach = held_out(FitCandidate(None, "", models=(model,)), False, 1).reach(0.95)
    predictions = predictions_of(cast(Any, NoNames()), shares[:1], ("a", "b", "c"), reach)
    assert [float(predictions.shares[f"in_{name}"][0]) for name in "abc"] == [1, 1, 1]


def test_an_interval_has_the_digits_of_its_prediction() -> None:
    predictions = predictions_of(cast(Any, NoNames()), np.array([1234567.8]), (), 0.5)
    assert to_csv(predictions).splitlines()[1] == "1,1234567.8,1234567.3,1234568.3"
