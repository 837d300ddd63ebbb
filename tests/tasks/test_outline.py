"""A task without its data: the same signature and sizes as the task itself, and nothing generated or read."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstart.errors import BadInput
from headstart.spec import read
from headstart.tasks import TASKS, TaskSpec, open_task
from headstart.tasks.outline import outlined, probe_task


def spec_of(kind: str, **fields: object) -> TaskSpec:
    spec: TaskSpec = read(TASKS[kind].load(), {"kind": kind, **fields})
    return spec


def test_a_large_generated_task_has_its_sizes_without_being_generated(tmp_path: Path) -> None:
    task = outlined(spec_of("pathfinder", size=256, fraction=0.5), tmp_path)
    assert task is not None
    assert (task.signature.length, task.train.units, task.val.units) == (65_536, 80_000, 20_000)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("pathfinder", {"size": 16, "contour_length": 6, "train": 401, "val": 20, "test": 30}),
        ("bit_xor", {"train": 401, "val": 20, "test": 30, "bits": 12}),
        ("waves", {"train": 401, "val": 20, "test": 30}),
        ("pairs", {"train": 401, "val": 20, "test": 30}),
    ],
)
def test_an_outline_has_the_signature_and_the_units_of_the_task(
    kind: str, fields: dict[str, int], tmp_path: Path
) -> None:
    spec = spec_of(kind, **fields, fraction=0.9)
    outline, task = outlined(spec, tmp_path), open_task(spec, tmp_path)
    assert outline is not None
    for name in ("input", "width", "target", "classes", "targets", "per_position", "paired", "levels", "missing"):
        assert getattr(outline.signature, name) == getattr(task.signature, name), name
    for name in ("train", "val", "test"):
        assert outline.split(name).units == task.split(name).units
        target, own = outline.split(name).target, task.split(name).target
        assert target is not None
        assert own is not None
        assert target.shape[1:] == own.shape[1:]
        assert len(outline.split(name).labelled_units()) == len(task.split(name).labelled_units())


@pytest.mark.parametrize("fields", [{}, {"fraction": 0.5}, {"labelled": 100}, {"endless": False}])
def test_an_outline_says_whether_examples_are_new_in_each_epoch(fields: dict[str, object], tmp_path: Path) -> None:
    """No features of frozen layers are kept of them, which a plan must know to say what a stage costs."""
    spec = spec_of("bit_xor", train=401, val=20, test=30, bits=12, **fields)
    outline = outlined(spec, tmp_path)
    assert outline is not None
    assert (outline.fresh is None) == (open_task(spec, tmp_path).fresh is None) == bool(fields)


def test_an_outline_says_whether_images_are_augmented(tmp_path: Path) -> None:
    plain, changed = (outlined(spec_of("mnist", augment=augment), tmp_path) for augment in (False, True))
    assert plain is None or plain.augment is None
    assert changed is None or changed.augment is not None


def test_labelled_units_are_as_many_as_the_spec_says(tmp_path: Path) -> None:
    task = outlined(spec_of("text", length=100, labelled=30), tmp_path)
    assert task is not None
    assert (task.train.units, len(task.train.labelled_units())) == (22_500, 30)


def test_where_only_the_data_know_the_sizes_there_is_no_outline(tmp_path: Path) -> None:
    spec = spec_of("ucr", name="ECG200")
    assert outlined(spec, tmp_path) is None
    with pytest.raises(BadInput, match=r"task\.kind: the sizes of 'ucr' are not known until its data are in"):
        probe_task(spec, tmp_path, 100, 10)
