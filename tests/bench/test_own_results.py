"""The page of a person's own data: what is served beside the other models, losses first; numbers as they were measured."""

from __future__ import annotations

import json
import math
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import harness
import own_results
import pretraining_pays
import publish_results

from headstart.data import read_sequences


def measured(
    name: str, served: float, tests: dict[str, float], gain: tuple[float, float, float] | None
) -> dict[str, Any]:
    models = {m: {"n": 3, "test": {"mean": test, "sem": 0.01}} for m, test in tests.items()}
    return {
        "name": name,
        "family": "UCR",
        "time": 300.0,
        "seconds": 60.0,
        "sizes": {"labelled": 1200, "test": 900},
        "classes": 3,
        "length": 128.0,
        "serves": "kernels",
        "served": served,
        "plan": ["split: so", "training: 600 steps of 8 sequences, 3 seeds; cross-entropy"],
        "models": models,
        "gain": None if gain is None else {"mean": gain[0], "low": gain[1], "high": gain[2], "n": 3},
        "machine": "linux",
        "versions": {"torch": "2", "headstart": "1"},
        "date": "2026-11-26",
    }


RESULTS = [
    measured(
        "CBF", 0.95, {"scratch": 0.9, "self_pretrained": 0.8, "kernels": 0.94, "majority": 0.3}, (-0.1, -0.2, -0.05)
    ),
    measured(
        "Worms", 0.7, {"scratch": 0.6, "self_pretrained": 0.75, "kernels": 0.7, "majority": 0.4}, (0.15, 0.1, 0.2)
    ),
    measured("films", 0.8, {"kernels": 0.8, "majority": 0.5}, None),
]
RESULTS[0]["plan"][0] = "split: so, test from its own file"
RESULTS[2]["plan"].append("the time of 5 min 0 s leaves 17% of the steps that would be taken with more time")


def test_a_set_where_another_model_or_a_rival_is_better_comes_first() -> None:
    rows = [
        {"set": "CBF", "method": "quant", "seed": 0, "accuracy": 0.97, "test": 900},
        {"set": "CBF", "method": "boosting", "seed": 0, "accuracy": None, "test": 900},
        {"set": "CBF", "method": "quant", "seed": 1, "accuracy": 1.0, "test": 900},
        {"set": "CBF", "method": "boosting", "seed": 0, "accuracy": 0.99, "test": 100},
        {"set": "Worms", "method": "quant", "seed": 0, "accuracy": 1.0, "test": 900},
        {"set": "CBF", "method": "fit", "seed": 0, "accuracy": 0.99, "test": 900},
    ]
    seen = own_results.same_rows(RESULTS, rows)
    assert [row["test"] for row in seen] == [900] * 4, "Worms has no test file, and others saw fewer rows of CBF's"
    rivals = own_results.rivals_of(seen)
    assert rivals == {"CBF": 0.97}, "our own row is no rival"
    gaps = {result["name"]: round(own_results.gap_of(result, rivals), 3) for result in RESULTS}
    assert gaps == {"CBF": -0.02, "Worms": -0.05, "films": 0.3}, "the runs that chose what is served are no rival of it"


def test_what_the_fits_of_the_other_page_serve_with_the_same_time_stands_beside_it() -> None:
    fits = [("CBF", 300.0, "kernels"), ("Worms", 300.0, "ensemble"), ("films", 20.0, "network")]
    rows = [{"set": name, "method": "fit", "given": seconds, "serves": serves} for name, seconds, serves in fits]
    text = "on 1 of 2 sets, not on Worms (kernels here, ensemble there)"
    assert own_results.same_served(RESULTS, [*rows, {"set": "films", "method": "quant"}]) == text
    scratch = [RESULTS[0] | {"serves": "scratch"}]
    assert own_results.same_served(scratch, [rows[0] | {"serves": "network"}]) == "on 1 of 1 sets", "both are networks"


@pytest.mark.usefixtures("whole_figures")
def test_the_page_counts_its_sets_and_is_made_of_the_numbers_beside_it(tmp_path: Path) -> None:
    (tmp_path / own_results.NUMBERS.name).write_text(json.dumps(RESULTS))
    own_results.publish(tmp_path)
    text = (tmp_path / "own.md").read_text()
    assert text == own_results.page_of(RESULTS)
    assert "On 3 sets, `headstart fit` with 5 min 0 s a set" in text
    assert (
        "clearly on 1 sets and lowers it clearly on 1 (2 after Holm's correction for 2 sets): CBF −0.100 and Worms +0.150"
        in text
    )
    assert "furthest behind on" in text
    assert "The time left less than half of the usual steps on films (17 %)." in text
    assert "A network is ahead of kernels (n-grams) on 1." in text
    assert (tmp_path / "figures" / "own.png").stat().st_size > 1000
    assert own_results.ranks(RESULTS) == {}, "no set has all five models"
    assert text.count("![") == 1, "a picture of gains"
    # Demsar 2006, table 5a: q of 2.728 for five models at 5 %.
    assert own_results.critical(5, 29) == pytest.approx(2.728 * math.sqrt(5 * 6 / (6 * 29)), abs=1e-3)
    assert publish_results.studies(tmp_path) == [], "its numbers are no results of a study"


def test_what_each_set_gained_counts_for_the_rule_of_fit_where_its_networks_had_time(tmp_path: Path) -> None:
    late = RESULTS[1] | {"name": "late", "plan": ["the time is too little for networks"]}
    films = RESULTS[0] | {"name": "IMDb, 200 labels"}
    (tmp_path / "own.json").write_text(json.dumps([*RESULTS, late, films]))
    points = pretraining_pays.points_of_own(tmp_path / "own.json")
    assert [(point.name, point.rows - point.labels, point.gain) for point in points] == [
        ("CBF", 0, -0.1),
        ("Worms", 0, 0.15),
        ("IMDb, 200 labels", 1000, -0.1),
    ]


def test_the_page_has_each_default_with_its_gain_or_says_that_it_was_not_measured() -> None:
    section = (own_results.RESULTS.parent / "benchmarks" / "fit-defaults.md").read_text("utf-8")
    heads, _, *lines = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert heads[4] == "gain in validation accuracy"
    assert len(lines) > 15
    for line in lines:
        assert len(line) == len(heads)
        assert re.search(r"[\u2212+]?0|not measured|not kept", line[4]), line
    assert {line[4] for line in lines if line[5] == "none |"} == {"not measured"}


def test_official_test_rows_in_an_array_become_a_test_file(tmp_path: Path) -> None:
    folder = tmp_path / "ucr" / "Beats"
    folder.mkdir(parents=True)
    (folder / "Beats_TRAIN.tsv").write_text("1\t0.5\t0.25\n2\t0.125\t1\n")
    rows = np.array([[1, 0.5, -0.1], [2, 3, 1e-7]], np.float32)
    np.save(folder / "Beats_TEST_2rows.npy", rows)
    with tarfile.open(tmp_path / "ucr.tar.xz", "w:xz") as archive:
        archive.add(folder, "Beats")
    (tmp_path / "data" / "ucr").mkdir(parents=True)
    (tmp_path / "ucr.tar.xz").rename(tmp_path / "data" / "ucr" / "ucr.tar.xz")
    (dataset,) = harness._ucr(tmp_path / "data", tmp_path / "work")
    train, test, _ = dataset.files(tmp_path)
    assert test is not None
    read = read_sequences(test, read_sequences(train, dataset.layout).layout.fixed())
    assert read.labels == ("1", "2")
    np.testing.assert_array_equal(read.values.astype(np.float32).reshape(2, 2), rows[:, 1:])
