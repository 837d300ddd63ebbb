"""All numbers of a study as data: tidy rows in Python, CSV and Parquet, and JSON that stands alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from support.finished import fill, study
from support.made_up import LR

from headstart.api import Study
from headstart.errors import BadInput
from headstart.study.results.results import Results
from headstart.verbs.run import Outputs, report_study, tidy_bytes


@pytest.fixture
def bound(tmp_path: Path) -> Study:
    """A finished study of two arms, two rates, three seeds and two sizes side by side, with a name like a formula."""
    table = study()
    table["axes"]["task.labelled"] = [100, 200]
    table["columns"]["=1+1"] = table["columns"].pop("digits")
    table["columns"]["=1+1"]["task"].pop("labelled")
    finished = Study(table, store=tmp_path / "runs", data=tmp_path)
    fill(finished.plan, finished.store)
    return finished


def by_hand(results: Results, split: str) -> dict[tuple[str, str, float, int], float | None]:
    """(arm, column, rate, seed) -> score, out of the rows of the table."""
    return {
        (row.arm, row.column, point.settings[LR], run.seed): getattr(run, split)
        for row in results.table
        for point in row.points
        for run in point.runs
    }


def test_scores_are_one_row_per_run_seed_sweep_point_and_split_with_every_axis(bound: Study) -> None:
    results = bound.results()
    rows = [row for row in results.scores() if row["kind"] == "arm"]
    assert {row["column"] for row in rows} == {"=1+1"}, "the axis has a column of its own"
    for split in ("val", "test"):
        scores = {
            (row["arm"], f"=1+1 labelled={row['task.labelled']}", row[LR], row["seed"]): row["score"]
            for row in rows
            if (row["split"], row["weights"]) == (split, "best")
        }
        assert scores == by_hand(results, split)
        assert len(scores) == 2 * 2 * 2 * 3
    assert {row["metric"] for row in rows} == {"accuracy"}
    assert {row["identity"] for row in rows} <= set(bound.plan.stages)
    for row in results.table:
        marked = {line[LR] for line in rows if line["chosen"] and line["arm"] == row.arm}
        assert marked == {row.chosen[LR]}


def test_baselines_are_rows_too_and_means_over_seeds_are_those_of_the_table(bound: Study) -> None:
    results = bound.results()
    frame = results.to_pandas(tidy=True)
    assert set(frame[frame["kind"] == "baseline"]["arm"]) == {base.arm for base in results.baselines}
    chosen = frame[frame["chosen"] & (frame["split"] == "test") & (frame["weights"] == "best")]
    means = chosen.groupby(["arm", "task.labelled"])["score"].mean()
    for row in results.table:
        size = int(row.column.split("=")[-1])
        assert row.test is not None
        assert means[row.arm, size] == pytest.approx(row.test.mean)


def test_curves_hold_every_recorded_number_of_every_stage(bound: Study) -> None:
    lines = bound.results().curves()
    assert {(line["stage"], line["split"], line["metric"]) for line in lines} == {
        (stage, split, metric)
        for stage, score in (("pretrain", "r2"), ("finetune", "accuracy"))
        for split, metric in (("train", "loss"), ("val", "loss"), ("val", score))
    }
    one_run = [line for line in lines if line["arm"] == "scratch" and line["metric"] == "accuracy"]
    assert len(one_run) == 2 * 2 * 3 * 2, "two sizes, two rates, three seeds, two epochs"
    assert [line["value"] for line in one_run[:2]] == [0.1, 0.2]
    with pytest.raises(ValueError, match="made without records"):
        Results("n", "t", (), (), None, (), ()).curves()


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_files_hold_the_same_rows_and_a_spreadsheet_runs_no_formula(
    ending: str, bound: Study, tmp_path: Path
) -> None:
    results = bound.results()
    report_study(bound, Outputs(tidy=str(tmp_path / f"all{ending}")))
    for name, rows in (("all", results.scores()), ("all-curves", results.curves())):
        path = tmp_path / f"{name}{ending}"
        if ending == ".parquet":
            assert pyarrow.parquet.read_table(path).to_pylist() == rows
        else:
            lines = list(csv.DictReader(path.read_text().splitlines()))
            assert len(lines) == len(rows)
            assert {line["column"] for line in lines} == {"'=1+1"}
            key = "score" if name == "all" else "value"
            numbers = [float(line[key]) if line[key] else None for line in lines]
            assert numbers == [row[key] for row in rows], "numbers are whole"


def test_values_of_several_kinds_and_tables_are_texts() -> None:
    rows = [{"a": 1, "b": [1, 2]}, {"a": "x", "b": {"c": 1}}, {"a": None, "b": None}]
    assert tidy_bytes(rows, ".csv").decode().splitlines() == ["a,b", '1,"[1, 2]"', 'x,"{""c"": 1}"', ","]
    table = pyarrow.parquet.read_table(pyarrow.BufferReader(tidy_bytes(rows, ".parquet"))).to_pydict()
    assert table == {"a": ["1", "x", None], "b": ["[1, 2]", '{"c": 1}', None]}


def test_json_has_errors_of_both_splits_sweep_points_and_stages_by_name_and_seed(bound: Study, tmp_path: Path) -> None:
    report_study(bound, Outputs(json=str(tmp_path / "rows.json")))
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    pretrained = next(row for row in rows if row["arm"] == "self_pretrained")
    assert pretrained["metric"] == "accuracy"
    tests = [seed["test"] for seed in pretrained["seeds"].values()]
    assert pretrained["test_sem"] == pretrained["sem"] == pytest.approx(np.std(tests, ddof=1) / 3**0.5)
    assert pretrained["val_sem"] is not None
    assert {point["settings"][LR] for point in pretrained["points"]} == {1e-3, 3e-3}
    for seed in ("0", "1", "2"):
        stages = pretrained["seeds"][seed]["stages"]
        assert list(stages) == ["pretrain", "finetune"]
        assert set(stages.values()) <= set(pretrained["stages"])


@pytest.mark.slow
def test_a_dash_prints_json_alone(bound: Study, capsys: pytest.CaptureFixture[str]) -> None:
    report_study(bound, Outputs(json="-"))
    output = capsys.readouterr()
    assert json.loads(output.out)["study"] == "tried"
    assert "self_pretrained" in output.err


@pytest.mark.slow
def test_what_is_cut_off_while_the_table_is_printed_has_been_written_before(
    bound: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(table: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("headstart.verbs.run.to_rich", closed)
    with pytest.raises(BrokenPipeError):
        report_study(bound, Outputs(json=str(tmp_path / "rows.json"), tidy=str(tmp_path / "all.csv")))
    assert (bound.report_folder / "page.html").exists()
    assert (tmp_path / "rows.json").exists()
    assert (tmp_path / "all-curves.csv").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("all.xlsx", r"--tidy: '.*all\.xlsx' ends neither in \.csv nor in \.parquet"),
        ("no/such/all.csv", "--tidy: .* is not a file in an existing folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_done(
    name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        Outputs(tidy=str(tmp_path / name))
