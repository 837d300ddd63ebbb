"""Data in memory become a file of task `own`, and come back as they were."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.command import command

from headstart.baselines import FittedSpec
from headstart.data import LayoutSpec, read_sequences, sources
from headstart.data.splits import dealt_in_time
from headstart.errors import BadInput
from headstart.fit.arms import without_gradients
from headstart.models import MODELS
from headstart.request.settings import FitSettings
from headstart.request.source import from_memory, read_source
from headstart.sequence import IGNORE
from headstart.spec import read
from headstart.tasks.own import OwnSpec
from headstart.verbs.data import layout_of
from headstart.verbs.fit import split_settings
from headstart.verbs.options import LayoutOptions

RNG = np.random.default_rng(0)
LABELS = ["a", "b"] * 10


def _ragged() -> list[np.ndarray]:
    rows = [RNG.normal(size=(5 + i, 2)) for i in range(20)]
    rows[3][2, 1] = rows[7][-1, 0] = np.nan
    return rows


GIVEN = {
    "an array": (RNG.normal(size=(20, 8)), "numbers"),
    "several channels": (RNG.normal(size=(20, 8, 3)), "numbers"),
    "unequal lengths, with gaps": (_ragged(), "numbers"),
    "texts": ([f"row {i}\n\U0001f600 é" for i in range(20)], "text"),
    "DNA": (["".join(RNG.choice(list("ACGTN"), 12)) for _ in range(20)], "dna"),
    "tokens": ([[int(x) for x in RNG.integers(0, 4, 6 + i % 3)] for i in range(20)], "tokens"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_sequences_in_memory_come_back_from_their_file_as_they_were(name: str, tmp_path) -> None:
    table, kind = GIVEN[name]
    groups = [str(i // 2) for i in range(20)]
    layout = LayoutSpec(kind=kind)
    output = from_memory(table, FitSettings(layout=layout), tmp_path, LABELS, groups, None)
    again = read_sequences(output.task["file"], read(LayoutSpec, output.task["layout"]))
    first = output.sequences
    assert again.kind == first.kind == kind
    assert np.array_equal(again.values, first.values)
    assert np.array_equal(again.offsets, first.offsets)
    assert (again.observed is None) == (first.observed is None)
    if first.observed is not None:
        assert np.array_equal(again.observed, first.observed)
    assert again.labels == first.labels == tuple(LABELS)
    assert again.groups == tuple(groups)


def test_more_sequences_without_labels_join_train(tmp_path) -> None:
    more = RNG.normal(size=(7, 8))
    output = from_memory(GIVEN["an array"][0], FitSettings(), tmp_path, LABELS, None, more)
    task = read(OwnSpec, dict(output.task)).load(tmp_path)
    assert task.train.units - len(task.train.labelled_units()) == 7
    assert task.train.units + task.val.units + task.test.units == 27


def test_files_beside_data_in_memory_are_refused(tmp_path) -> None:
    with pytest.raises(BadInput, match="X_unlabelled"):
        from_memory([[1.0]], FitSettings(test=tmp_path), tmp_path, ["a"], None, None)


def test_a_file_that_changed_while_python_runs_is_another_file(tmp_path) -> None:
    from headstart.fit.perform import fit_sequences

    def write(sign: int) -> None:
        rows = RNG.normal(size=(30, 5))
        head = ["label,t0,t1,t2,t3,t4"]
        lines = head + [f"{'ab'[int(sign * row.sum() > 0)]}," + ",".join(map(str, row)) for row in rows]
        (tmp_path / "train.csv").write_text("\n".join(lines))

    settings = FitSettings(
        layout=LayoutSpec(target="label"), time=None, seeds=(0,), rates=(1e-3,), epochs=1.0, pretrain_epochs=1.0
    )
    output = []
    for sign in (1, -1):
        write(sign)
        output.append(fit_sequences(tmp_path / "train.csv", settings, store=tmp_path / "runs"))
    stages = [{identity for row in item.results.table for identity in row.stages} for item in output]
    assert not stages[0] & stages[1]


REFUSED = """
import sys
from headstart.cli import main
try:
    main(["fit", sys.argv[1], "--target", "label", "-o", sys.argv[2]])
except SystemExit as end:
    loaded = [name for name in ("torch", "sklearn", "scipy", "matplotlib") if name in sys.modules]
    print(f"exit {end.code}, loaded {loaded}", file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("rows", "message"),
    [("1,2,a\n3,x,b\n", "'x' is not a number"), ("1,2,a\n3,4,a\n", "every label is 'a'")],
    ids=["a cell that is not a number", "labels of one class"],
)
def test_a_mistake_in_a_file_is_reported_before_heavy_libraries_are_loaded(
    rows: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.csv"
    file.write_text("x0,x1,label\n" + rows, "utf-8")
    program = [sys.executable, "-c", REFUSED, str(file), str(tmp_path / "model")]
    result = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert message in result.stderr
    assert "exit 2, loaded []" in result.stderr


def test_every_model_without_gradients_may_be_served() -> None:
    kinds = {{"joined": "embedding"}.get(name, name) for name in without_gradients()}
    assert all(issubclass(MODELS[kind].load(), FittedSpec) for kind in kinds)


def test_a_fit_reads_its_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    read_file = sources._file
    monkeypatch.setattr(sources, "_file", lambda path, *rest: reads.append(path) or read_file(path, *rest))
    file = tmp_path / "train.csv"
    lines = [f"{i % 5},{i % 3},{i % 7},{'ab'[i % 2]}" for i in range(30)]
    file.write_text("x0,x1,x2,label\n" + "\n".join(lines), "utf-8")
    source = read_source(file, FitSettings(layout=LayoutSpec(target="label")), tmp_path)
    read(OwnSpec, dict(source.task)).load(tmp_path)
    assert reads == [file]
    file.write_text("x0,x1,x2,label\n" + "\n".join(lines[:-1]), "utf-8")
    assert len(read_sequences(file, LayoutSpec(target="label"))) == 29, "a file that has changed is read again"


def test_whether_whole_numbers_are_classes_is_asked_and_taken_as_an_option_or_a_setting(tmp_path, monkeypatch) -> None:
    rows = "".join(f"{10 * (i % 25)},{i},{i % 7},{i % 5}\n" for i in range(100))
    (tmp_path / "ages.csv").write_text("age,t0,t1,t2\n" + rows)
    monkeypatch.chdir(tmp_path)
    refused = command("fit", "ages.csv", "--target", "age", "--dry-run")
    assert refused.returncode == 2
    assert (
        "ages.csv: the target 'age' has 25 different whole numbers (0, 10, 20, 30, 40 and 20 more) in 100 rows"
        in " ".join(refused.stderr.split())
    )
    for layout in (
        layout_of(LayoutOptions(target="age", target_kind="class")),
        layout_of(LayoutOptions(target="age"), ["target_kind=class"]),
    ):
        assert read_source("ages.csv", FitSettings(layout=layout), tmp_path).sequences.target == "class"
    assert split_settings(["target_kind=class", "layout.na=['x']", "finetune.optim.lr=[1e-3]"]) == (
        ["target_kind=class", "layout.na=['x']"],
        ("finetune.optim.lr=[1e-3]",),
    )


TAGS = ("cat", "dog", "bird", "fish")


def _rows(head: str, cells: list[str]) -> str:
    return f"id,{head},t0,t1,t2\n" + "".join(f"s{i},{cell},{i % 3}.5,{i % 5},{i % 7}\n" for i, cell in enumerate(cells))


SEVERAL = {
    "a mark in the cell": (
        "train.csv",
        _rows("label", [";".join(t for j, t in enumerate(TAGS) if (i + j) % 3) for i in range(40)]),
        (),
        "train.csv: labels such as 'dog;bird' (train.csv:2) look like several targets separated by ';' (--target-kind "
        "class takes each such label for one class), and fit learns one target of a sequence; fit each target by itself, from a column",
    ),
    "one such cell among labels": (
        "train.csv",
        _rows("label", ["cat", "dog", "bird", "dog"] * 9 + ["cat; dog", "cat", "dog", "bird"]),
        (),
        "train.csv: labels such as 'cat; dog' (train.csv:38) look like several targets separated by ';' (--target-kind "
        "class takes each such label for one class), and fit learns one target of a sequence; fit each target by",
    ),
    "lists of JSON as text": (
        "train.csv",
        _rows("label", ['"[""cat"",""dog""]"', '"[""bird""]"'] * 20),
        (),
        'train.csv: labels such as \'["cat","dog"]\' (train.csv:2) are lists of several targets (--target-kind class '
        "takes each such label for one class), and fit learns one target of a sequence; fit each target by itself",
    ),
    "lists of Python as text": (
        "train.csv",
        _rows("label", ["bird", "\"['cat', 'dog']\""] * 20),
        ("--target", "label"),
        "train.csv: labels such as \"['cat', 'dog']\" (train.csv:3) are lists of several targets",
    ),
    "columns": (
        "train.csv",
        _rows("label_cat,label_dog", [f"{i % 2},{i // 2 % 2}" for i in range(40)]),
        (),
        "train.csv: columns 'label_cat', 'label_dog' look like several targets, and fit learns one target",
    ),
    "columns by name": (
        "train.csv",
        _rows("label_cat,label_dog", [f"{i % 2},{i // 2 % 2}" for i in range(40)]),
        ("--target", "label_cat,label_dog"),
        "train.csv: target: 'label_cat,label_dog' names several columns; name one, and fit each by itself",
    ),
    "lists": (
        "train.jsonl",
        "".join(f'{{"label": ["cat", "dog"], "x": [{i % 3}.5, {i % 5}, {i % 7}]}}\n' for i in range(40)),
        (),
        "train.jsonl: column 'label' holds a list for each sequence, and fit learns one target",
    ),
    "lists by name": (
        "train.jsonl",
        "".join(f'{{"label": ["cat", "dog"], "x": [{i % 3}.5, {i % 5}, {i % 7}]}}\n' for i in range(40)),
        ("--target", "label"),
        "labels: column 'label' holds a list for each sequence; give one value for each, a column for each of several",
    ),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_several_targets_of_a_sequence_are_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    name, text, words, message = SEVERAL[case]
    (tmp_path / name).write_text(text, "utf-8")
    result = command("fit", name, *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        (LayoutSpec(), ["sitting", '"walking, upstairs"', '"walking, downstairs"', "walking"] * 10),
        (LayoutSpec(target_kind="class"), ["cat;dog", "cat;bird", "dog;bird", "cat"] * 10),
        (LayoutSpec(), ["high/low", "low/high", "high", "low"] * 10),
        (LayoutSpec(), ["[unknown]", '"[1, 2)"', '"[""walk""]"', "['"] * 10),
    ],
    ids=["commas in names", "classes as they stand", "another mark", "brackets"],
)
def test_a_mark_in_the_name_of_a_class_is_no_second_target(layout: LayoutSpec, cells: list[str], tmp_path) -> None:
    (tmp_path / "train.csv").write_text(_rows("label", cells), "utf-8")
    source = read_source(tmp_path / "train.csv", FitSettings(layout=layout), tmp_path)
    assert len(source.sequences.classes) == len(set(cells))


def _dated(tmp_path: Path, count: int = 120) -> Path:
    """Rows in no order of time, whose classes change places half-way through it."""
    order = np.random.default_rng(1).permutation(count)
    rows = [
        f"2024-{1 + i // 28:02d}-{1 + i % 28:02d},{'ab'[i % 2]},{i % 2 + i / 50},{i},{i % 7}" for i in order.tolist()
    ]
    (tmp_path / "dated.csv").write_text("day,label,t0,t1,t2\n" + "\n".join(rows), "utf-8")
    return tmp_path / "dated.csv"


def test_split_by_time_trains_on_the_earliest_and_tests_on_the_latest(tmp_path: Path) -> None:
    layout = LayoutSpec(target="label", time="day", values=("t*",))
    source = read_source(_dated(tmp_path), FitSettings(layout=layout, split="time"), tmp_path)
    task = read(OwnSpec, {**source.task, "standardise": False}).load(tmp_path)
    ages = [task.split(name).values.reshape(-1, 3)[:, 1] for name in ("train", "val", "test")]
    assert [len(part) for part in ages] == [72, 24, 24]
    assert ages[0].max() < ages[1].min()
    assert ages[1].max() < ages[2].min()
    assert any(note.startswith("split by time: train is earlier than validation") for note in task.notes)
    assert source.layout.time == "", "a model serves files without the column"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--values", "t*", "--id", ""), "a column of times, and none is named; name it with --time-column"),
        (("--time-column", "day", "--group", "t2"), "'time' and groups cannot both say where a row goes"),
        (("--time-column", "day", "--folds", "3"), "folds: 3 of rows that are split by time would train on later ones"),
        (("--time-column", "label", "--target", "t2"), "the time 'a' is neither a number nor a date"),
    ],
    ids=["no column", "groups", "folds", "no times"],
)
def test_a_split_by_time_that_cannot_be_is_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    path = _dated(tmp_path)
    result = command("fit", path.name, "--split", "time", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())


def test_copies_and_rows_of_one_time_stay_on_one_side_of_a_split_by_time() -> None:
    target = np.array([0, 1, 0, 1, 0, 1, 0, IGNORE, IGNORE, 1])
    times = np.array([0.0, 1, 2, 3, 4, 4, 6, 7, 1, 9])
    block = np.array([0, 1, 2, 3, 4, 5, 0, 7, 8, 9])
    sides = dealt_in_time(target, block, times, {"val": 0.25, "test": 0.25})
    assert {name: rows.tolist() for name, rows in sides.items()} == {
        "train": [0, 1, 2, 3, 8],
        "val": [4, 5],
        "test": [9],
    }


def test_a_column_of_labels_beside_labels_of_their_own_is_left_alone(tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": LABELS[::-1], **{f"t{i}": RNG.normal(size=20) for i in range(4)}})
    source = read_source(frame, FitSettings(), tmp_path, LABELS)
    assert source.sequences.labels == tuple(LABELS)
    assert source.sequences.layout.unused == ("label",)


def test_copies_of_data_are_for_nobody_else(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "label,x,y\n" + "".join(f"{'ab'[i % 2]},{i * 7 % 11},{i * 5 % 13}\n" for i in range(40))
    )
    read(OwnSpec, {"kind": "own", "file": "a.csv"}, "task").load(tmp_path)
    from_memory(np.ones((4, 3)), FitSettings(), tmp_path / "kept", list("abab"), None, None)
    copies = [*(own_cache / "prepared").glob("own-????????????????/*"), *(tmp_path / "kept").iterdir()]
    assert len(copies) > 4
    for file in copies:
        assert file.stat().st_mode & 0o077 == 0, file
        assert file.parent.stat().st_mode & 0o077 == 0, file.parent
