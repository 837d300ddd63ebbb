"""The Python API on a real (tiny) study."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headstart
from headstart.report.page import write_report
from headstart.sequence import collate
from headstart.store import Store
from headstart.study.language.files import study_path, study_text, to_toml
from headstart.tasks import open_task
from headstart.tasks.recall import MqarSpec

STUDY: dict[str, Any] = {
    "name": "tiny",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"steps": 6}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 6}},
    },
    "columns": {
        "digits": {
            "task": {"kind": "digits", "labelled": 100},
            "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
        }
    },
    "arms": {
        "scratch": {},
        "frozen": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"], "trainable": "head"}},
    },
    "axes": {"seed": [0, 1]},
    "report": {"against": "scratch"},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api") / "runs"


@pytest.fixture(scope="module")
def results(store: Path) -> headstart.Results:
    return headstart.run(STUDY, store=store)


def test_run_returns_rows_a_frame_and_a_notebook_view(results: headstart.Results) -> None:
    assert [row["arm"] for row in results.rows()] == ["scratch", "frozen"]
    frame = results.to_pandas()
    assert list(frame["n"]) == [2, 2]
    assert "<table>" in results._repr_html_()


def test_running_again_trains_nothing(results: headstart.Results, store: Path) -> None:
    events: list[Any] = []
    again = headstart.run(STUDY, store=store, on_event=events.append)
    assert {type(event).__name__ for event in events} == {"Skipped"}
    assert again.rows() == results.rows()


def test_what_a_program_has_set_in_torch_changes_no_result(
    tmp_path: Path, store: Path, results: headstart.Results
) -> None:
    assert results.rows()
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium")
    try:
        study = headstart.Study(STUDY, ["arms=['scratch']", "seed=[0]"], store=tmp_path)
        headstart.run(study)
        assert (torch.get_default_dtype(), torch.get_float32_matmul_precision()) == (torch.float64, "medium")
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
    identity = next(iter(study.plan.stages))
    ours, plain = Store(tmp_path).weights(identity, "last"), Store(store).weights(identity, "last")
    assert all(torch.equal(ours[name], plain[name]) for name in plain)


def test_load_gives_the_model_that_made_the_predictions(results: headstart.Results, store: Path) -> None:
    study = headstart.Study(STUDY, store=store)
    planned = next(cell.chain[-1] for cell in study.plan.cells if cell.arm == "frozen")
    model = headstart.load(planned.identity[:12], store=store)
    test = open_task(planned.spec.task, study.data).test
    predictions = Store(store).predictions(planned.identity)
    with torch.no_grad():
        answer = model(collate(test, np.arange(test.units)))
    assert torch.allclose(answer, predictions["test/output"], atol=1e-5)
    score = float((answer.argmax(-1) == torch.from_numpy(test.target)).float().mean())
    result = Store(store).result(planned.identity)
    assert result is not None
    assert score == pytest.approx(result["scores"]["best"]["test"]["accuracy"], abs=0.003)


def test_load_refuses_what_is_not_there(store: Path, results: headstart.Results) -> None:
    with pytest.raises(headstart.BadInput, match="store"):
        headstart.load("0123456789abcdef", store=store)
    with pytest.raises(headstart.BadInput, match="there are 'best' and 'last'"):
        headstart.load(results.table[0].stages[0], weights="newest", store=store)


@pytest.mark.parametrize(
    ("inputs", "lengths", "message"),
    [
        (torch.zeros(2, 64, 3), None, r"trained on numbers; give floats of the shape \(B, L\) or \(B, L, 1\)"),
        (torch.zeros(2, 64, dtype=torch.long), None, "trained on numbers"),
        (torch.zeros(2, 0, 1), None, r"inputs: have the shape \(2, 0, 1\)"),
        (torch.zeros(64), None, r"inputs: have the shape \(64,\)"),
        (torch.zeros(2, 64), torch.tensor([0, 64]), r"lengths: \[0, 64\]; give 2 whole numbers from 1 to 64"),
        (torch.zeros(2, 64), torch.tensor([64, 70]), "from 1 to 64"),
    ],
)
def test_a_loaded_model_refuses_inputs_of_another_kind(
    results: headstart.Results, store: Path, inputs: torch.Tensor, lengths: Any, message: str
) -> None:
    model = headstart.load(results.table[0].stages[-1], store=store)
    assert model(torch.zeros(2, 64), lengths=torch.tensor([3, 64])).shape[0] == 2
    with pytest.raises(headstart.BadInput, match=message):
        model(inputs, lengths=lengths)


def test_a_frozen_backbone_is_stored_as_a_reference(results: headstart.Results, store: Path) -> None:
    identity = results.table[1].stages[-1]
    result = Store(store).result(identity)
    assert result is not None
    assert result["references"]
    assert set(Store(store).weights(identity)) > set(result["references"])


def test_a_split_of_a_task_comes_as_arrays_that_make_the_same_examples() -> None:
    X, y, lengths = headstart.arrays("mqar", "test", length=32, pairs=3, test=10)
    assert X.shape == (10, 32)
    assert y is not None
    assert ((y >= 0).sum(1) == 3).all()
    test, made = MqarSpec(length=32, pairs=3, test=10).load(Path()).test, headstart.Examples.from_arrays(X, y, lengths)
    assert np.array_equal(made.values, test.values)
    assert np.array_equal(np.asarray(made.target), np.asarray(test.target))


def test_arrays_of_rows_of_several_lengths_are_padded_and_missing_numbers_are_nan(tmp_path: Path) -> None:
    lines = [f"x,{i},2,\ny,{i},,5\n" for i in range(20)]
    (tmp_path / "own.csv").write_text("label,a,b,c\n" + "".join(lines))
    X, y, lengths = headstart.arrays("own", data=tmp_path, file="own.csv", values=["a", "b", "c"], target="label")
    assert sorted(set(lengths.tolist())) == [2, 3]
    for row, length in zip(X[..., 0], lengths, strict=True):
        assert np.isnan(row).tolist() == [False, length == 3, False]
        assert length == 3 or row[2] == 0
    assert y is not None
    assert set(y.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("task", "split", "settings", "words"),
    [
        ("mqr", "train", {}, "task: no 'mqr'; did you mean 'mqar'?"),
        ("mqar", "tset", {}, "split: no 'tset'; did you mean 'test'?"),
        ("mqar", "test", {"lenght": 3}, r"task\.lenght: .*did you mean 'length'\?"),
    ],
)
def test_arrays_refuse_what_is_not_there(task: str, split: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(headstart.BadInput, match=words):
        headstart.arrays(task, split, **settings)


def test_a_study_says_what_it_is() -> None:
    assert repr(headstart.Study(STUDY)) == "Study('tiny': 4 runs of 9 stages, store 'runs')"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fit_all'"):
        _ = headstart.fit_all


def test_other_settings_do_not_write_over_a_studys_page() -> None:
    plain, other = headstart.Study(STUDY), headstart.Study(STUDY, ["seed=[0]"])
    assert plain.report_folder.name == "tiny"
    assert other.report_folder.name.startswith("tiny-")
    assert headstart.Study(STUDY, ["seed=[0]"]).report_folder == other.report_folder


def test_the_study_that_lies_in_a_report_reports_to_where_it_lies(tmp_path: Path) -> None:
    folder = headstart.Study("digits", ["seed=[0]"], store=tmp_path).report_folder
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(study_text(study_path("digits")))
    assert headstart.Study(folder / "study.toml", store=tmp_path).report_folder == folder
    assert headstart.Study(folder / "study.toml", store=tmp_path / "other").report_folder != folder


def test_two_studies_of_one_name_have_a_report_each_and_an_edited_or_moved_one_keeps_its_own(tmp_path: Path) -> None:
    first, second, moved = (tmp_path / f"{name}.toml" for name in ("first", "second", "moved"))
    table = {**STUDY, "stages": {"finetune": STUDY["stages"]["finetune"]}, "arms": {"scratch": {}}}
    for file in (first, second):
        file.write_text(to_toml(table))

    def bound(source: Any) -> headstart.Study:
        return headstart.Study(source, store=tmp_path / "runs")

    study = bound(first)
    write_report(study.plan, study.results(baselines=False), study.store, study.report_folder, origin=study.origin)
    first.write_text(to_toml({**table, "axes": {"seed": [0, 1, 2]}}))
    assert bound(first).report_folder == study.report_folder == tmp_path / "runs/reports/tiny"
    assert bound(first).notes == []
    other = bound(second)
    assert other.report_folder != study.report_folder
    assert other.notes == [
        f"{study.report_folder} holds the report of ../first.toml, another study named 'tiny': the report of this one "
        f"goes to {other.report_folder.name}; give one of them another name"
    ]
    assert bound(table).report_folder not in (study.report_folder, other.report_folder)
    again = bound(study.report_folder / "study.toml")
    assert (again.report_folder, again.origin) == (study.report_folder, "../first.toml")
    first.rename(moved)
    assert bound(moved).report_folder == study.report_folder
