"""Task `own`: a file without labels beside the first, a cut, no test split, and what a served model must know."""

import numpy as np
import pytest

from headstart.errors import BadInput
from headstart.sequence import IGNORE
from headstart.spec import read
from headstart.stage import identity, read_stage
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import open_task


def _file(path, count=60, length=6, label="ab", seed=0, group=False):
    rng = np.random.default_rng(seed)
    rows = [",".join(["id", "label", *(["who"] if group else []), *(f"t{i}" for i in range(length))])]
    for i in range(count):
        named = [f"s{seed}-{i}", label[i % len(label)] if label else "", *([f"p{i // 3}"] if group else [])]
        rows.append(",".join([*named, *(f"{x:.4f}" for x in rng.normal(3, 2, length))]))
    path.write_text("\n".join(rows) + "\n")
    return path


def _spec(folder, **more):
    return read(OwnSpec, {"kind": "own", "file": str(folder / "train.csv"), "target": "label", **more})


def test_rows_of_the_unlabelled_file_are_in_train_without_a_label(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    _file(tmp_path / "more.csv", 25, seed=1)
    task = open_task(_spec(tmp_path, unlabelled=str(tmp_path / "more.csv")), tmp_path)
    assert int((task.train.target == IGNORE).sum()) == 25
    assert not (task.val.target == IGNORE).any()
    assert any(note.startswith("25 of ") for note in task.notes)


def test_an_unlabelled_row_that_is_a_copy_of_a_test_row_is_left_out(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    (tmp_path / "more.csv").write_text((tmp_path / "train.csv").read_text())
    task = open_task(_spec(tmp_path, unlabelled=str(tmp_path / "more.csv")), tmp_path)
    seen = {row.tobytes() for row in task.train.values.reshape(task.train.units, -1)}
    for split in (task.val, task.test):
        assert not seen & {row.tobytes() for row in split.values.reshape(split.units, -1)}


def test_an_unlabelled_file_of_another_form_is_refused(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    (tmp_path / "more.csv").write_text("id,label,text\n1,a,hello there\n2,b,good day\n")
    with pytest.raises(BadInput, match=r"more\.csv"):
        open_task(_spec(tmp_path, unlabelled=str(tmp_path / "more.csv")), tmp_path)


def test_the_first_positions_are_kept_and_splits_stay_as_they_were(tmp_path) -> None:
    _file(tmp_path / "train.csv", length=9)
    whole, cut = (open_task(_spec(tmp_path, **more), tmp_path) for more in ({}, {"longest": 4}))
    assert cut.signature.length == 4
    for split in ("train", "val", "test"):
        long, short = whole.split(split), cut.split(split)
        assert np.array_equal(long.index, short.index)
        assert np.array_equal(long.values.reshape(-1, 9)[:, :4], short.values.reshape(-1, 4))
    assert "60 sequences are longer than 4 positions, of which the first are kept" in cut.notes


def test_without_a_test_share_no_row_is_held_out_as_a_test(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    task = open_task(_spec(tmp_path, test_share=0.0), tmp_path)
    assert task.test.units == 0
    assert task.train.units + task.val.units == 60


def test_what_a_served_model_must_know_prepares_other_rows_alike(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    spec = _spec(tmp_path)
    facts, task = spec.facts(tmp_path), open_task(spec, tmp_path)
    assert facts.labels == ("a", "b")
    assert sum(facts.counts) == task.train.units
    raw = np.loadtxt(tmp_path / "train.csv", delimiter=",", skiprows=1, usecols=range(2, 8))
    again = (raw[task.test.index] - facts.mean[0]) / facts.deviation[0]
    assert task.test.values.reshape(-1, 6) == pytest.approx(again, abs=1e-5)
    assert facts.layout.target == "label"


def test_numbers_stand_as_their_range_says(tmp_path) -> None:
    rows = ["label,t0,t1"] + [f"{i * 2.5 + 10},{i},{i * i % 7}" for i in range(40)]
    (tmp_path / "train.csv").write_text("\n".join(rows))
    spec = _spec(tmp_path, layout={"target_kind": "number"})
    facts, task = spec.facts(tmp_path), open_task(spec, tmp_path)
    assert facts.low is not None
    assert facts.high is not None
    back = (task.test.target + 1) / 2 * (facts.high - facts.low) + facts.low
    assert back == pytest.approx(task.test.index * 2.5 + 10, rel=1e-5)


def test_where_the_unlabelled_file_lies_is_no_identity_and_what_is_in_it_is(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        _file(tmp_path / f"{name}.csv", 10, seed=seed)
    identities = []
    for name in ("one", "two", "three"):
        spec = _spec(tmp_path, unlabelled=str(tmp_path / f"{name}.csv"))
        stage = {"task": spec.model_dump(), "objective": {"kind": "classify"}, "budget": {"steps": 1}}
        identities.append(identity(read_stage(stage), tmp_path))
    assert identities[0] == identities[1] != identities[2]


@pytest.mark.parametrize("each", [1, 2, 3])
def test_many_classes_of_a_few_rows_reach_every_side(each) -> None:
    from headstart.data.splits import dealt

    target = np.repeat(np.arange(50), each)
    rows = dealt(target, np.arange(len(target)), {"val": 0.2, "test": 0.2}, 0)
    assert sorted(np.concatenate(list(rows.values())).tolist()) == list(range(len(target)))
    assert len(np.unique(target[rows["train"]])) == 50, "train has every class"
    if each > 1:
        for side in ("val", "test"):
            assert 0.1 * len(target) < len(rows[side]) < 0.3 * len(target)


def test_large_classes_are_dealt_in_proportion_to_the_row() -> None:
    from headstart.data.splits import dealt

    target = np.repeat(np.arange(3), [57, 31, 12])
    rows = dealt(target, np.arange(100), {"val": 0.2, "test": 0.2}, 1)
    for side, share in (("train", 0.6), ("val", 0.2), ("test", 0.2)):
        assert abs(len(rows[side]) - 100 * share) <= 1
        for k, count in enumerate((57, 31, 12)):
            assert abs(int((target[rows[side]] == k).sum()) - share * count) < 1


def test_groups_hold_beside_a_test_file_that_names_none(tmp_path) -> None:
    _file(tmp_path / "train.csv", group=True)
    _file(tmp_path / "test.csv", 20, seed=3)
    spec = _spec(tmp_path, group="who", test=str(tmp_path / "test.csv"))
    task = open_task(spec, tmp_path)
    who = [line.split(",")[2] for line in (tmp_path / "train.csv").read_text().splitlines()[1:]]
    train, val = ({who[i] for i in task.split(side).index} for side in ("train", "val"))
    assert not train & val
    assert task.test.units == 20
    assert any("has no 'who': each of its rows is taken for a group of its own" in note for note in task.notes)


def test_train_val_and_test_files_are_the_splits(tmp_path) -> None:
    for seed, name in enumerate(("train", "val", "test")):
        _file(tmp_path / f"{name}.csv", 20 + 10 * seed, seed=seed, group=True)
    copied = (tmp_path / "train.csv").read_text().splitlines()[1]
    with (tmp_path / "val.csv").open("a") as file:
        file.write(copied + "\n" + "last,,p99," + "1.5," * 5 + "2.5\n")
    spec = _spec(tmp_path, val=str(tmp_path / "val.csv"), test=str(tmp_path / "test.csv"), group="who")
    assert (spec.val_share, spec.test_share) == (None, None)
    task = open_task(spec, tmp_path)
    assert [task.split(name).units for name in ("train", "val", "test")] == [20, 31, 40]
    notes = " ".join(task.notes)
    assert "of the 31 val sequences, 1 also stand in train" in notes
    assert "1 sequence of the val file has no label and is left out" in notes
    assert "groups of val also stand in train (the val file's own rows and the test file's own rows)" in notes
    drawn = open_task(_spec(tmp_path, val=str(tmp_path / "val.csv"), test_share=0.5), tmp_path)
    assert [drawn.split(name).units for name in ("train", "val", "test")] == [10, 31, 10]


def test_a_validation_file_leaves_no_share_and_needs_labels(tmp_path) -> None:
    _file(tmp_path / "train.csv")
    _file(tmp_path / "val.csv", label="", seed=1)
    val = str(tmp_path / "val.csv")
    with pytest.raises(BadInput, match=r"val_share: the validation split is the file task\.val; leave one of them out"):
        _spec(tmp_path, val=val, val_share=0.3)
    with pytest.raises(BadInput, match=r"task\.val: .*val\.csv has no label in 'label'; leave task\.val out"):
        open_task(_spec(tmp_path, val=val), tmp_path)
    with pytest.raises(BadInput, match=r"task\.val: .*gone\.csv is not there"):
        open_task(_spec(tmp_path, val=str(tmp_path / "gone.csv")), tmp_path)


def test_where_the_splits_are_drawn_the_identity_is_what_it_was(tmp_path) -> None:
    document = _spec(tmp_path).document(places=False)
    assert (document["val_share"], document["test_share"]) == (0.2, 0.2)
    assert not {"val", "target_kind"} & set(document)
