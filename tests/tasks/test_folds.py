"""Folds of train and val, val that trains too, and labels dealt out anew: fields of any task, which leave the identities of others alone."""

from pathlib import Path

import numpy as np
import pytest

from headstart.baselines.linear import fit_linear, split_of
from headstart.baselines.summary import SummarySpec
from headstart.data.splits import dealt, fold_of, with_shuffled_labels
from headstart.errors import BadInput
from headstart.fit.perform import fit_sequences
from headstart.request.settings import FitSettings
from headstart.seeds import bits
from headstart.sequence import IGNORE, Examples
from headstart.spec import read
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks.bit_strings import BitXorSpec
from headstart.tasks.digits import DigitsSpec
from headstart.tasks.own import OwnSpec
from headstart.tasks.stand_ins import PairsSpec
from headstart.tasks.task import Task, TaskSpec, content, open_task

ROWS, LENGTH = 60, 12


def write(folder: Path, groups: bool = False) -> Path:
    """60 rows of two classes, the first five without a label; with groups of three rows each, where they are asked for."""
    values = np.random.default_rng(0).normal(size=(ROWS, LENGTH)) + (np.arange(ROWS) % 2)[:, None]
    head = ["label", *(["group"] if groups else []), *(f"t{i}" for i in range(LENGTH))]
    lines = [",".join(head)]
    for row, sequence in enumerate(values):
        label = "" if row < 5 else "ab"[row % 2]
        lines.append(",".join([label, *([f"g{row // 3}"] if groups else []), *(f"{x:.4f}" for x in sequence)]))
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def own(path: Path, **more: object) -> OwnSpec:
    layout = {"target": "label", "target_kind": "class", "values": ("t*",)}
    return read(OwnSpec, {"kind": "own", "file": str(path), "layout": layout, **more}, "task")


def opened(path: Path, **more: object) -> Task:
    return open_task(own(path, **more), path.parent)


def test_each_labelled_row_of_train_and_val_chooses_once_and_test_stays(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = opened(path)
    folds = [opened(path, folds=4, fold=fold) for fold in range(4)]
    chosen = np.concatenate([task.val.index for task in folds])
    target = whole.train.target
    assert target is not None
    assert sorted(chosen) == sorted([*whole.train.index[target != IGNORE], *whole.val.index])
    both = {*whole.train.index, *whole.val.index}
    for task in folds:
        assert {*task.train.index, *task.val.index} == both
        assert not {*task.train.index} & {*task.val.index}
        assert np.array_equal(task.test.index, whole.test.index)
        assert np.array_equal(task.test.values, whole.test.values)
        counts = np.bincount(task.val.target.astype(int))  # type: ignore[union-attr]
        assert abs(counts[0] - counts[1]) <= 1
    again = opened(path, folds=4, fold=5)
    assert {*again.val.index} not in [{*task.val.index} for task in folds]


def test_the_rows_of_a_fold_are_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole, task = opened(path), opened(path, folds=3, fold=1)
    rows = {}
    for part in (whole.train, whole.val):
        for i, index in enumerate(part.index.tolist()):
            rows[index] = part.values[part.offsets[i] : part.offsets[i + 1]], part.target[i]  # type: ignore[index]
    for part in (task.train, task.val):
        for i, index in enumerate(part.index.tolist()):
            assert np.array_equal(part.values[part.offsets[i] : part.offsets[i + 1]], rows[index][0])
            assert part.target is not None
            assert part.target[i] == rows[index][1]


def test_rows_of_a_group_and_copies_stay_in_one_fold(tmp_path: Path) -> None:
    path = write(tmp_path, groups=True)
    with path.open("a") as file:  # a copy of a row under another group
        file.write(path.read_text().splitlines()[40].replace("g13", "g99") + "\n")
    copy = path.read_text().splitlines()[40].split(",")[1]
    assert copy == "g13"
    for fold in range(5):
        task = opened(path, folds=5, fold=fold)
        train, val = (
            {"g13" if i == ROWS else f"g{i // 3}" for i in part.index.tolist()} for part in (task.train, task.val)
        )
        assert val
        assert not train & val


def test_without_validation_its_rows_train_and_a_fold_means_nothing(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole, task = opened(path), opened(path, validation=0)
    assert sorted(task.train.index) == sorted([*whole.train.index, *whole.val.index])
    assert task.val.units == 0
    assert np.array_equal(task.test.index, whole.test.index)
    assert own(path, validation=0, folds=5, fold=2) == own(path, validation=0)


def test_neutral_values_leave_a_task_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert own(path).document() == own(path, validation=1, folds=None, fold=None).document()
    assert not {"fold", "folds", "validation"} & own(path).document().keys()
    same = {content(own(path, **more), tmp_path) for more in ({}, {"folds": 5, "fold": 2}, {"validation": 0})}
    assert len(same) == 1


def test_a_class_that_one_fold_holds_alone_trains() -> None:
    target = np.array([0] * 8 + [1] * 8 + [2])
    for fold in range(4):
        train, chosen = fold_of(target, np.arange(17), 4, fold, 0)
        assert 16 in train
        assert len(train) + len(chosen) == 17


@pytest.mark.parametrize(("more", "text"), [({"folds": 5}, "fold: is missing"), ({"fold": 1}, "folds: is missing")])
def test_one_of_the_two_fields_alone_is_refused(tmp_path: Path, more: dict[str, int], text: str) -> None:
    with pytest.raises(BadInput, match=text):
        own(write(tmp_path), **more)


def test_a_fold_without_a_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"task\.folds: 60 folds of 44 labelled .* fold 59 has none; give fewer folds"):
        opened(write(tmp_path), folds=60, fold=59)


@pytest.mark.parametrize(
    "plain",
    [
        BitXorSpec(train=200, val=40, test=40),
        PairsSpec(train=60, val=20, test=20),
        DigitsSpec(labelled=100),
    ],
)
def test_a_control_deals_the_labels_of_train_and_val_out_anew_and_leaves_test(plain: TaskSpec, tmp_path: Path) -> None:
    control = plain.model_copy(update={"shuffled_labels": True})
    before, after = open_task(plain, tmp_path), open_task(control, tmp_path)
    assert after.fresh is None
    for name in ("train", "val"):
        split, dealt_out = before.split(name), after.split(name)
        assert split.target is not None
        assert dealt_out.target is not None
        assert not np.array_equal(split.target, dealt_out.target)
        assert np.array_equal(np.sort(split.target), np.sort(dealt_out.target))
        assert np.array_equal(split.target == IGNORE, dealt_out.target == IGNORE)
        assert np.array_equal(split.values, dealt_out.values)
        # Each class gets all classes in proportion: by chance alone new labels would be like the old ones, or unlike them.
        old, new = (x.target[split.target != IGNORE] for x in (split, dealt_out))
        classes, counts = np.unique(old, return_counts=True)
        paired = 2 if split.paired else 1
        for old_class, count in zip(classes, counts, strict=True):
            shares = [(new[old == old_class] == new_class).sum() for new_class in classes]
            assert np.abs(shares - count * counts / counts.sum()).max() <= 2 * paired
        if split.paired:
            assert np.array_equal(dealt_out.target[::2], dealt_out.target[1::2])
    assert np.array_equal(before.test.target, after.test.target)
    assert any("dealt out anew" in note for note in after.notes)
    assert content(control, tmp_path) == content(plain, tmp_path)
    assert control.document() == {**plain.document(), "shuffled_labels": True}


@pytest.mark.parametrize("plain", [DigitsSpec(labelled=100), PairsSpec(train=60, val=20, test=20)])
def test_a_control_without_validation_deals_out_all_labels_that_train(plain: TaskSpec, tmp_path: Path) -> None:
    plain = plain.model_copy(update={"validation": 0})
    before, after = (open_task(plain.model_copy(update={"shuffled_labels": b}), tmp_path) for b in (False, True))
    assert after.val.units == 0
    assert before.train.target is not None
    assert after.train.target is not None
    assert not np.array_equal(before.train.target, after.train.target)
    assert np.array_equal(np.sort(before.train.target), np.sort(after.train.target))


def test_a_control_deals_numbers_out_anew_and_keeps_those_of_a_sequence_together() -> None:
    numbers = np.array([[1, 10], [np.nan, np.nan], [3, 30], [np.nan, 40], [5, 50], [6, 60]])
    dealt_out = with_shuffled_labels(
        Examples.from_arrays(np.zeros((6, 4)), numbers, per_position=False), 0, "train"
    ).target
    assert dealt_out is not None
    assert np.isnan(dealt_out[1]).all()
    assert not np.array_equal(dealt_out, numbers, equal_nan=True)
    assert sorted(map(str, dealt_out)) == sorted(map(str, numbers))


@pytest.mark.parametrize("groups", [False, True])
def test_as_many_folds_as_labelled_rows_or_groups_leave_one_out_each(tmp_path: Path, groups: bool) -> None:
    path = write(tmp_path, groups=groups)
    more = {"group": "group"} if groups else {}
    whole = opened(path, **more)
    assert whole.train.target is not None
    labelled = [*whole.train.index[whole.train.target != IGNORE].tolist(), *whole.val.index.tolist()]
    units = sorted({index // 3 for index in labelled}) if groups else sorted(labelled)
    chosen = [opened(path, folds=len(units), fold=fold, **more).val.index.tolist() for fold in range(len(units))]
    held = [{index // 3 if groups else index for index in rows} for rows in chosen]
    assert sorted(map(min, held)) == units
    assert all(len(rows) == 1 for rows in held)
    assert sorted(index for rows in chosen for index in rows) == sorted(labelled)


def test_folds_that_can_be_dealt_in_proportion_stay_as_they_are() -> None:
    """Of as many blocks as folds, too: what is stored was trained on them."""
    target, block = np.array([0, 1] * 6), np.repeat(np.arange(3), 4)
    sides = [fold_of(target, block, 3, fold, 0)[1] for fold in range(3)]
    drawn = int(bits(0, "task/folds", np.array([0]))[0])
    expected = dealt(target, block, {"1": 1 / 3, "2": 1 / 3}, drawn)
    assert [side.tolist() for side in sides] == [side.tolist() for side in expected.values()]


def test_each_run_of_a_study_may_choose_on_its_own_fold(tmp_path: Path) -> None:
    study = {
        "name": "folds",
        "stages": {"fit": {"objective": {"kind": "classify"}}},
        "columns": {
            "data": {"task": {**own(write(tmp_path)).model_dump(exclude_unset=True), "folds": 3, "fold": "seed"}}
        },
        "arms": {
            "summary": {"model": {"kind": "summary"}},
            "served": {"model": {"kind": "summary"}, "task": {"validation": 0}},
        },
        "axes": {"seed": [0, 1, 2]},
        "report": {"baselines": False},
    }
    plan = make_plan(read_study(study), tmp_path)
    tasks = [(cell.arm, cell.seed, cell.chain[-1].spec.task) for cell in plan.cells]
    assert [(seed, task.fold) for arm, seed, task in tasks if arm == "summary"] == [(0, 0), (1, 1), (2, 2)]
    assert {task.validation for arm, _, task in tasks if arm == "served"} == {0}
    assert len(plan.stages) == 4


def test_an_arm_without_validation_has_the_values_that_it_sets_itself_and_no_other(tmp_path: Path) -> None:
    network = {"optim": {"lr": 0.2}, "task": {"validation": 0}}
    study = {
        "name": "settled",
        "stages": {"fit": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}}},
        "columns": {"data": {"task": own(write(tmp_path)).model_dump(exclude_unset=True)}},
        "arms": {
            "chosen": {"fit": {"optim": {"lr": 0.2}}},
            "served": {"seed": 4, "fit": network},
            "rate": {"fit": network},
            "seed": {"seed": 4, "task": {"validation": 0}},
        },
        "axes": {"fit.optim.lr": [0.1, 0.2], "seed": [3, 4]},
        "report": {"baselines": False, "choose": []},
    }
    cells = make_plan(read_study(study), tmp_path).cells
    runs = {arm: [(c.chain[-1].spec.optim.lr, c.seed) for c in cells if c.arm == arm] for arm in study["arms"]}
    assert runs == {
        "chosen": [(0.1, 3), (0.1, 4), (0.2, 3), (0.2, 4)],
        "served": [(0.2, 4)],
        "rate": [(0.2, 3), (0.2, 4)],
        "seed": [(0.1, 4), (0.2, 4)],
    }
    assert all(c.chain[-1].spec.seed == c.seed for c in cells)
    assert [dict(c.settings) for c in cells if c.arm == "served"] == [{"fit.optim.lr": 0.2}]
    # Where validation is to choose among several values, an arm without has to set its own.
    text = r"arms\.seed: task\.validation = 0 .* 2 values of fit\.optim\.lr could be chosen; set fit\.optim\.lr in this"
    with pytest.raises(BadInput, match=text):
        make_plan(read_study({**study, "report": {"baselines": False}}), tmp_path)


def test_without_validation_a_fifth_of_train_chooses_and_all_of_it_is_fitted(tmp_path: Path) -> None:
    task = opened(write(tmp_path), validation=0)
    model = SummarySpec().fit(task.train, task.val, task.signature, 0)
    facts = model.facts
    # By hand: every fifth labelled row in the order of the classes chooses C and the temperature.
    labelled = task.train.labelled_units()
    assert task.train.target is not None
    order = sorted(labelled.tolist(), key=lambda row: int(task.train.target[row]))  # type: ignore[index]
    held_out = order[2::5]
    rest = [row for row in range(task.train.units) if row not in held_out]
    chosen = SummarySpec().fit(task.train.take(np.array(rest)), task.train.take(np.array(held_out)), task.signature, 0)
    assert facts.strength == chosen.facts.strength
    assert facts.temperature == chosen.facts.temperature
    alpha = 1 / chosen.facts.strength[0]
    whole = fit_linear(facts, model.features, task.train, task.val, None, alpha, False)
    assert np.array_equal(whole.readout.weights, model.readout.weights)
    assert len(split_of(model.features, task.train, facts).target) == facts.used


@pytest.mark.slow
def test_a_fit_of_few_rows_chooses_on_folds_and_serves_a_model_of_all_of_them(tmp_path: Path) -> None:
    path, root = write(tmp_path), tmp_path / "runs"
    settings = FitSettings(
        layout=own(path).layout, time=None, rates=(0.01,), epochs=1.0, pretrain=False, serve="kernels"
    )
    outcome = fit_sequences(path, settings, out=tmp_path / "model", store=root)
    kernels = outcome.candidate("kernels")
    assert outcome.seeds == (0, 1, 2, 3, 4)
    assert outcome.again
    specs = [(Store(root).stage(model.identity) or {})["spec"] for model in kernels.models]
    assert [spec["task"]["fold"] for spec in specs] == [0, 1, 2, 3, 4]
    assert kernels.row.n == kernels.row.expected == outcome.candidate("scratch").row.expected == 5
    # What is served has seen every row that is not of test; its score is that of the runs that chose it.
    assert outcome.served.config.classics["kernels"].labels == sum(
        len(split.labelled_units()) for split in (opened(path).train, opened(path).val)
    )
    assert {model.test.labelled.target.size for model in kernels.models} == {outcome.sizes["test"]}


def test_a_fit_in_folds_needs_no_test_split(tmp_path: Path) -> None:
    layout = own(write(tmp_path)).layout
    settings = FitSettings(layout=layout, time=None, rates=(0.01,), epochs=1.0, pretrain=False, test_share=0, folds=2)
    outcome = fit_sequences(tmp_path / "rows.csv", settings, out=tmp_path / "model", store=tmp_path / "runs")
    assert outcome.seeds == (0, 1)
    assert outcome.sizes["test"] == 0
    assert outcome.again


def test_folds_beside_a_file_of_validation_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match="folds: 5 deal validation out anew, and --val names a file of it; leave one out"
    ):
        FitSettings(folds=5, val=tmp_path / "val.csv")


def test_single_rows_are_dealt_as_the_rule_of_whole_blocks_deals_them() -> None:
    rng = np.random.default_rng(0)
    for seed in range(60):
        count, classes = int(rng.integers(3, 120)), int(rng.integers(1, 12))
        target = rng.choice(classes, count, p=rng.dirichlet(np.ones(classes)))
        shares = [{"val": 0.2, "test": 0.2}, {str(i): 0.2 for i in range(1, 5)}][seed % 2]
        sides = dealt(target, np.arange(count), shares, seed)
        side, total = np.zeros(count, dtype=int), np.bincount(target, minlength=classes)
        left = np.array([1 - sum(shares.values()), *shares.values()])[:, None] * total
        waiting, learnt = list[int](), set[int]()
        for row in np.argsort(bits(seed, "task/sides", np.arange(count)), kind="stable").tolist():
            of = int(target[row])
            if left[:, of].max().round(9) < 1:
                waiting.append(row)
                continue
            lacks = (left[:, of] * (1 / total[of])).round(9)
            side[row] = np.lexsort((-left.sum(1).round(9), -lacks))[0]
            left[side[row], of] -= 1
            learnt |= {of} if side[row] == 0 else set()
        for row in waiting:
            of = int(target[row])
            side[row] = np.argmax(left.sum(1).round(9)) if of in learnt else 0
            left[side[row], of] -= 1
            learnt |= {of} if side[row] == 0 else set()
        assert [rows.tolist() for rows in sides.values()] == [
            np.flatnonzero(side == i).tolist() for i in range(len(sides))
        ]
