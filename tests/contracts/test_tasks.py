"""What every task of the table promises. A new task is in here by its line in the table alone."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from support.made_data_sets import MADE, PICTURES

from headstart.errors import BadInput
from headstart.objectives import MaskedSpec
from headstart.sequence import IGNORE, collate
from headstart.spec import digest, read
from headstart.tasks import TASKS, open_task
from headstart.tasks.contract import TASK_CHECKS, check_task
from headstart.tasks.task import SPLITS, Baseline, content, fingerprint, prepare, unit_targets
from headstart.verbs.task_view import HIDDEN_MARK, describe

SMALL = {
    "listops": {"min_length": 3, "max_length": 40, "train": 400, "val": 60, "test": 60},
    "pathfinder": {"train": 60, "val": 20, "test": 20},
    "retrieval": {"source": "imdb_films"},
    "bidmc": {"length": 40},
    "speech": {"source": "digits", "pad": False},
    "uea": {"name": "JapaneseVowels"},
    "bit_memory": {"train": 60, "val": 20, "test": 20},
    "bit_xor": {"train": 60, "val": 20, "test": 20},
    "waves": {"train": 60, "val": 20, "test": 20},
    "mqar": {"train": 60, "val": 20, "test": 20},
    "selective_copying": {"train": 60, "val": 20, "test": 20},
    "induction_heads": {"train": 60, "val": 20, "test": 20},
    **{kind: {"train": 60, "val": 20, "test": 20} for kind in ("in_context_recall", "noisy_recall", "fuzzy_recall")},
    **{kind: {"train": 60, "val": 20, "test": 20} for kind in ("compression", "memorisation")},
    "pairs": {"train": 60, "val": 20, "test": 20},
    "language": {"file": "text.txt", "length": 16},
    "pieces": {"file": "reviews.csv", "target": "label", "tokeniser": "bert", "length": 12},
    "own": {"file": "own.csv", "values": ["x_*", "y_*"]},
    **{kind: {"val": 50} for kind in PICTURES},
}
"""Settings that make a task small enough to build here, or name a source that may be here."""
LARGE = 10_000
"""Examples of a split that are looked at."""


def spec_of(kind, **settings):
    return read(TASKS[kind].load(), {"kind": kind, **SMALL.get(kind, {}), **settings}, "task")


@cache
def whole(kind, folder):
    return spec_of(kind).load(Path(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(params=list(TASKS))
def kind(request):
    return request.param


@pytest.fixture
def data(kind, folder, linked):
    """The folder that a task is read from: real data, made files, or an empty one for what is generated."""
    if kind in MADE and not (folder / f"{kind}-made").exists():
        MADE[kind](folder / f"{kind}-made")
    if kind in MADE:
        return folder / f"{kind}-made"
    return folder if TASKS[kind].load().generated else linked


@pytest.fixture
def task(kind, data):
    if not spec_of(kind).generated:
        try:
            spec_of(kind).files(data)
        except BadInput as error:
            pytest.skip(f"the data of {kind} are not here: {error}")
    return whole(kind, str(data))


@pytest.fixture
def opened(kind, data, task, monkeypatch):
    """Open the task with settings that apply after loading, without loading it again."""
    monkeypatch.setattr(TASKS[kind].load(), "load", lambda *_: task)
    return lambda **settings: open_task(spec_of(kind, **settings), data)


@pytest.mark.parametrize("promise", TASK_CHECKS)
def test_a_task_keeps_its_promises(promise, kind, task):
    assert TASK_CHECKS[promise](spec_of(kind), task) == ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", PICTURES)
def test_a_task_of_the_real_pictures_keeps_its_promises(kind, linked):
    """All 60,000, which take 14 s to decode; every day those of `made_data_sets` stand in."""
    if not (linked / "cifar10").is_dir():
        pytest.skip("no CIFAR-10 in ../shared/data/cifar10")
    assert not any(check_task(read(TASKS[kind].load(), {"kind": kind}, "task"), linked).values())


BROKEN = {
    "the signature is true of the data": (
        lambda task: replace(task, signature=replace(task.signature, width=2)),
        r"train has values of shape \(.*\), the signature says 2 per position",
    ),
    "every class occurs in train and has a name": (
        lambda task: replace(task, labels=task.labels[:9]),
        "9 labels name 10 classes",
    ),
    "levels are whole numbers within their range": (
        lambda task: replace(task, signature=replace(task.signature, levels=3)),
        "example 0 of val has inputs that are none of the 3 levels",
    ),
    "every example has its own number": (
        lambda task: replace(task, val=replace(task.val, index=task.val.index + 1 - task.val.index)),
        "examples share the number of another",
    ),
    "splits are disjoint or the notes say that they are not": (
        lambda task: replace(task, val=task.test),
        "500 of test also stand in val, and no note says so",
    ),
    "the class says what the data are and what a score does not show": (
        lambda task: replace(task, baselines=(Baseline("odd", 2.0, None),)),
        r"a baseline is not in \[0, 1\]",
    ),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_contract_says_in_words_which_promise_is_broken(promise, tmp_path):
    spec, (broken, words) = spec_of("digits"), BROKEN[promise]
    assert re.search(words, TASK_CHECKS[promise](spec, broken(whole("digits", str(tmp_path)))))


def test_a_task_that_loads_differently_each_time_is_told(monkeypatch, tmp_path):
    spec, first = spec_of("digits"), whole("digits", str(tmp_path))
    loads = iter((first, replace(first, val=first.test)))
    monkeypatch.setattr(type(spec), "load", lambda *_: next(loads))
    assert check_task(spec, tmp_path)["it loads the same twice"] == "a second load gives other arrays"


def test_a_batch_of_the_task_is_what_models_expect(task):
    s = task.signature
    for name in SPLITS:
        batch = collate(task.split(name), np.arange(3))
        rows = 6 if s.paired else 3
        assert batch.inputs.shape[0] == rows
        assert batch.inputs.ndim == (2 if s.input == "tokens" else 3)
        assert batch.inputs.dtype == (torch.int64 if s.input == "tokens" else torch.float32)
        assert torch.isfinite(batch.inputs.double()).all()
        if s.target == "class":
            assert batch.target.dtype == torch.int64
            assert ((batch.target == IGNORE) | (batch.target >= 0) & (batch.target < s.classes)).all()


def test_a_task_loads_the_same_twice(kind, data, task):
    again = spec_of(kind).load(data)
    assert fingerprint(again) == fingerprint(task)
    assert again.signature == task.signature
    assert again.fingerprint == task.fingerprint


def test_fractions_are_nested_and_leave_val_and_test_alone(task, opened):
    tenth, half = opened(fraction=0.25), opened(fraction=0.5)
    assert half.train.units == round(0.5 * task.train.units)
    assert tenth.train.units == round(0.25 * task.train.units)
    assert set(tenth.train.index) < set(half.train.index) < set(task.train.index)
    for name in ("val", "test"):
        assert np.array_equal(half.split(name).index, task.split(name).index)


def test_a_fraction_holds_each_class_in_proportion(task, opened):
    target = unit_targets(task.train)
    if target is None or task.signature.target != "class":
        pytest.skip("no class per sequence")
    targets = unit_targets(opened(fraction=0.5).train)
    counts = np.bincount(target, minlength=task.signature.classes)
    assert np.abs(np.bincount(targets, minlength=task.signature.classes) - counts / 2).max() <= 1


def test_another_split_seed_gives_another_fraction(opened):
    assert set(opened(fraction=0.5).train.index) != set(opened(fraction=0.5, split_seed=1).train.index)


def test_labelled_keeps_that_many_labels_and_all_sequences(task, opened):
    if task.train.target is None:
        pytest.skip("no target")
    twenty, forty = opened(labelled=20).train, opened(labelled=40).train
    assert forty.units == task.train.units
    assert len(forty.labelled_units()) == 40
    assert set(twenty.labelled_units()) < set(forty.labelled_units())
    units = forty.labelled_units()
    assert np.array_equal(forty.take(units).target, task.train.take(units).target)
    assert len(opened(labelled=20, fraction=0.5).train.labelled_units()) == 20


def test_too_many_labels_are_refused(task, opened):
    if task.train.target is None:
        pytest.skip("no target")
    with pytest.raises(BadInput, match=r"task\.labelled: \d+ is more than the \d+ train examples; give at most"):
        opened(labelled=task.train.units + 1)


def test_a_fraction_that_leaves_a_class_empty_is_refused(task, opened):
    if task.signature.target != "class" or unit_targets(task.train) is None:
        pytest.skip("no class per sequence")
    with pytest.raises(BadInput, match=r"task\.fraction: .* leaves no train example of class .*; take more"):
        opened(fraction=1.1 / task.train.units)
    with pytest.raises(BadInput, match=r"task\.labelled: 1 leaves no train example of class .*; take more"):
        opened(labelled=1)


def test_patches_join_neighbouring_positions(task, opened):
    s = task.signature
    if s.input != "floats" or s.per_position:
        way = r"join tokens with model\.encoder\.patch" if s.input == "tokens" else "leave it at 1"
        with pytest.raises(BadInput, match=rf"task\.patch: 4 needs float inputs .*; {way}$"):
            opened(patch=4)
        return
    joined = opened(patch=4)
    assert joined.signature.width == 4 * s.width
    assert joined.signature.length == -(-s.length // 4)
    first = collate(task.val, np.arange(1)).inputs.reshape(-1)
    assert torch.equal(collate(joined.val, np.arange(1)).inputs.reshape(-1)[: len(first)], first)


def test_a_generated_task_needs_no_data_and_a_loaded_one_says_what_it_misses(kind, tmp_path):
    spec = spec_of(kind)
    if spec.generated:
        assert content(spec, tmp_path) is None
        return
    with pytest.raises(BadInput) as caught:
        spec.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "--data" in str(caught.value)
    assert kind in ("own", "language", "pieces") or "http" in str(caught.value), (
        "a person's own data come from nowhere else"
    )


def test_the_content_of_loaded_files_is_remembered(kind, task, tmp_path, data, monkeypatch):
    if spec_of(kind).generated:
        pytest.skip("generated: its spec says what the data are")
    monkeypatch.setattr("headstart.data.prepared.cache_folder", lambda: tmp_path)
    monkeypatch.setattr(TASKS[kind].load(), "load", lambda *_: task)
    first = content(spec_of(kind), data)
    monkeypatch.setattr(TASKS[kind].load(), "load", None)
    assert content(spec_of(kind, fraction=0.5, labelled=30), data) == first


def test_the_spec_has_an_identity(kind):
    assert digest(spec_of(kind).document()) == digest(spec_of(kind).document())
    assert digest(spec_of(kind, split_seed=1).document()) != digest(spec_of(kind).document())


def test_preparing_gives_the_task(kind, data, task):
    messages = []
    ready = prepare(spec_of(kind), data, 2, lambda done, total: messages.append((done, total)))
    assert ready.fingerprint
    assert fingerprint(replace(ready)) == fingerprint(task)
    assert all(0 <= done <= total for done, total in messages)


def test_the_default_loss_fits_the_input(kind, task):
    spec = spec_of(kind)
    assert MaskedSpec(loss=spec.loss).resolved_loss(task.signature) == spec.defaults(task.signature)["loss"]
    assert 0 < spec.mask_rate < 1


def test_every_rule_of_a_task_stands_in_the_baselines_of_its_spec(kind, task):
    named = [model["name"] for model in spec_of(kind).baselines if model["kind"] == "task"]
    assert named == [baseline.name for baseline in task.baselines]


def test_a_picture_is_grey_or_coloured_within_0_and_1(task):
    if task.picture is None:
        pytest.skip("no picture")
    image = task.picture(collate(task.val, np.arange(1)).inputs[0].numpy())
    assert image.ndim == 2 or image.shape[2] == 3
    assert image.min() >= 0
    assert image.max() <= 1
    assert image.max() > image.min()


def test_a_person_sees_what_the_model_sees(kind, task, opened):
    spec, ready = spec_of(kind), opened()
    blocks = describe(spec, ready)
    assert all(isinstance(block, str) for block in blocks)
    assert kind in blocks[0]
    assert HIDDEN_MARK not in blocks[-2].partition("\n")[2]
    assert HIDDEN_MARK in blocks[-1].partition("\n")[2]
    assert all(f"{name:<10} {task.split(name).units:,}" in blocks[1] for name in SPLITS)


def test_the_table_says_what_a_task_is(kind):
    assert TASKS[kind].summary
    assert TASKS[kind].source
