"""What people's files really hold, through the whole of `headstart fit`: refused with the way out, or fitted."""

import contextlib
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headstart.cli import main
from headstart.errors import BadInput
from headstart.estimator import SequenceClassifier
from headstart.fit import prepared
from headstart.verbs.fit import _usable_folder

QUICK = [
    "--seeds",
    "1",
    "--workers",
    "0",
    "finetune.optim.lr=3e-3",
    "finetune.budget.steps=2",
    "pretrain.budget.steps=2",
]
RNG = np.random.default_rng(0)


def fit(folder: Path, *words: str, quick: bool = True) -> int:
    """Exit code of `headstart fit` in this folder, in this process."""
    with contextlib.chdir(folder):
        try:
            main(["fit", *words, *(QUICK if quick else [])])
        except SystemExit as done:
            return int(done.code or 0)
    return 0


def rows(count: int = 24, length: int = 5, label=lambda i: "ab"[i % 2], first: str = "id,label") -> list[str]:
    """Lines of a wide table with a header."""
    head = ",".join([first, *(f"t{i}" for i in range(length))])
    values = np.random.default_rng(0).normal(size=(count, length))  # the same whatever tests ran before
    lines = [",".join([f"s{i}", str(label(i)), *(f"{x:.3f}" for x in values[i])]) for i in range(count)]
    return [head, *lines]


def changed(line: int, old: str, new: str) -> str:
    """The table with a piece of one line replaced."""
    lines = rows()
    cells = lines[line].split(",")
    cells[2] = new
    lines[line] = ",".join(cells) if old == "" else lines[line].replace(old, new)
    return "\n".join(lines)


REFUSED = {
    "empty file": ("", "train.csv: is empty"),
    "header only": (rows()[0] + "\n", "no row"),
    "ragged rows": ("\n".join([*rows(), "s99,a,1.0"]), "train.csv:26"),
    "duplicate columns": ("\n".join(["id,label,t0,t0,t1,t2,t3", *rows()[1:]]), "'t0'"),
    "wrong delimiter": ("\n".join(rows()), "delimiter"),
    "a word among numbers": (changed(3, "", "bad"), "'bad' is not a number"),
    "infinity": (changed(3, "", "inf"), "inf"),
    "1e400": (changed(3, "", "1e400"), "1e400"),
    "one class": ("\n".join(rows(label=lambda _: "a")), "every label is 'a'"),
    "no labels at all": (
        "\n".join(rows(label=lambda _: "")),
        "no row has a label in 'label'; fill it, or name another",
    ),
    "length 0": ("\n".join([*rows(), "s99,a,,,,,"]), "train.csv:26: every value of the sequence is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_cannot_be_fitted_is_refused_before_anything_is_trained(case: str, tmp_path, capsys) -> None:
    text, message = REFUSED[case]
    (tmp_path / "train.csv").write_text(text)
    more = ["--delimiter", ";"] if case == "wrong delimiter" else []
    assert fit(tmp_path, "train.csv", "--target", "label", *more) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "model" / "config.json").exists()


def _gone(line: str) -> str:
    cells = line.split(",")
    return ",".join([*cells[:2], "", *cells[3:]])


FITTED = {
    "BOM": "﻿" + "\n".join(rows()),
    "CRLF": "\r\n".join(rows()) + "\r\n",
    "quoted newlines": "\n".join(rows(label=lambda i: '"two\nlines"' if i % 2 else "one")),
    "integer labels": "\n".join(rows(label=lambda i: i % 3)),
    "labels as markup, formulas and emoji": "\n".join(rows(label=lambda i: ["[red]<u>x", "=1+1", "\U0001f600"][i % 3])),
    "missing values": "\n".join([rows()[0], *(_gone(line) if i % 3 else line for i, line in enumerate(rows()[1:]))]),
    "a constant channel": "\n".join(
        line if i == 0 else ",".join([*line.split(",")[:2], *["1.5"] * 5]) if i % 4 == 0 else line
        for i, line in enumerate(rows())
    ),
    "length 1": "\n".join(rows(length=1)),
    "a class with one member": "\n".join(rows(label=lambda i: "ab"[i % 2] if i else "c")),
    "duplicate ids": "\n".join([*rows(), rows()[1]]),
    "unequal lengths": "\n".join(
        line if i % 5 else ",".join([*line.split(",")[:5], "", ""]) for i, line in enumerate(rows())
    ),
    "rows without a label": "\n".join(rows(40, label=lambda i: "ab"[i % 2] if i % 4 else "")),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FITTED)
def test_a_file_that_looks_odd_is_fitted_and_served(case: str, tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_bytes(FITTED[case].encode())
    more = ["--values", "t0"] if case == "length 1" else []
    assert fit(tmp_path, "train.csv", "--target", "label", *more) == 0, capsys.readouterr().err
    assert (tmp_path / "model" / "model.safetensors").exists()
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as done:
        main(["predict", "model", "train.csv", "-o", "out.csv"])
    assert not done.value.code
    lines = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("id,prediction,p_")
    assert sum(line.startswith("s") for line in lines[1:]) == FITTED[case].count("\ns")
    page = (tmp_path / "model" / "report.html").read_text("utf-8")
    assert "<u>" not in page
    for path in (tmp_path / "model").iterdir():
        content = path.read_bytes()
        # study.toml names the file, from the folder of the data on, so that `headstart run` can read it again.
        assert path.name == "study.toml" or b"train.csv" not in content, path.name
        assert str(tmp_path).encode() not in content, path.name


def test_float_labels_are_numbers_and_predicted_in_their_own_unit(tmp_path, capsys) -> None:
    values = RNG.normal(size=(60, 6))
    lines = ["y," + ",".join(f"t{i}" for i in range(6))]
    lines += [f"{1000 + 100 * row.sum():.2f}," + ",".join(f"{x:.3f}" for x in row) for row in values]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    assert fit(tmp_path, "train.csv", "--target", "y") == 0, capsys.readouterr().err
    with contextlib.chdir(tmp_path), contextlib.suppress(SystemExit):
        main(["predict", "model", "train.csv", "-o", "out.csv"])
    predicted = [float(line.split(",")[1]) for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    truth = [float(line.split(",")[0]) for line in lines[1:]]
    assert np.corrcoef(predicted, truth)[0, 1] > 0.9
    assert 700 < np.mean(predicted) < 1300


ARRAYS = {
    "Fortran order": np.asfortranarray(RNG.normal(size=(24, 6)).astype(np.float32)),
    "big-endian": RNG.normal(size=(24, 6)).astype(">f8"),
    "float16": RNG.normal(size=(24, 6)).astype(np.float16),
    "uint8": RNG.integers(0, 200, (24, 6)).astype(np.uint8),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_of_any_form_are_fitted(case: str, tmp_path, capsys) -> None:
    np.savez(tmp_path / "train.npz", X=ARRAYS[case], label=np.array(["a", "b"] * 12))
    assert fit(tmp_path, "train.npz", "--target", "label", "--kind", "numbers") == 0, capsys.readouterr().err


def test_an_array_of_objects_is_refused_and_not_unpickled(tmp_path, capsys) -> None:
    class Loud:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "unpickled"),))

    np.savez(tmp_path / "train.npz", X=np.array([Loud(), Loud()], dtype=object), label=np.array(["a", "b"]))
    assert fit(tmp_path, "train.npz", "--target", "label") == 2
    assert "object" in capsys.readouterr().err
    assert not (tmp_path / "unpickled").exists()


def test_a_channel_that_is_all_missing_is_refused_by_its_name(tmp_path, capsys) -> None:
    lines = ["id,step,label,x,y"]
    lines += [f"s{i},{t},{'ab'[i % 2]},{RNG.normal():.3f}," for i in range(24) for t in range(6)]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    words = ["train.csv", "--target", "label", "--layout", "long", "--id", "id", "--time-column", "step"]
    code = fit(tmp_path, *words, "--values", "x", "--values", "y")
    output = capsys.readouterr()
    assert code == 2 or "'y'" in output.out, "told, and never silent"
    assert "'y'" in output.out + output.err


def test_one_sequence_a_thousand_times_longer_than_the_rest_is_cut_and_said(tmp_path, capsys) -> None:
    lines = ["id,step,label,x"]
    for i in range(24):
        lines += [f"s{i},{t},{'ab'[i % 2]},{RNG.normal():.3f}" for t in range(6_000 if i == 0 else 6)]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    words = ["train.csv", "--target", "label", "--layout", "long", "--id", "id", "--time-column", "step"]
    assert fit(tmp_path, *words) == 0
    assert "positions of a sequence are read" in capsys.readouterr().out


def _images(folder: Path) -> str:
    from PIL import Image

    for i in range(24):
        path = folder / "train" / "ab"[i % 2]
        path.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 255, (4, 4)).astype(np.uint8)).save(path / f"{i}.png")
    return "train"


def _written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def _parquet(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"x": [list(row) for row in RNG.normal(size=(24, 5))], "label": ["a", "b"] * 12})
    pyarrow.parquet.write_table(table, folder / "train.parquet")
    return "train.parquet"


FORMATS = {
    "JSON lines of texts": lambda folder: _written(
        folder,
        "train.jsonl",
        "\n".join(f'{{"text": "good day number {i}" , "label": "{"ab"[i % 2]}"}}' for i in range(24)),
    ),
    "FASTA": lambda folder: _written(
        folder,
        "train.fasta",
        "\n".join(f">s{i} {'ab'[i % 2]}\n{''.join(RNG.choice(list('ACGT'), 12))}" for i in range(24)),
    ),
    ".ts": lambda folder: _written(
        folder,
        "train.ts",
        "\n".join(
            [
                "@problemName made",
                "@timeStamps false",
                "@univariate true",
                "@classLabel true a b",
                "@data",
                *(",".join(f"{x:.2f}" for x in RNG.normal(size=6)) + f":{'ab'[i % 2]}" for i in range(24)),
            ]
        ),
    ),
    "Parquet": _parquet,
    "a folder of images": _images,
}


@pytest.mark.parametrize("case", FORMATS)
def test_every_format_gets_from_fit_to_predictions(case: str, tmp_path, capsys) -> None:
    name = FORMATS[case](tmp_path)
    more = ["--target", "label"] if case in ("JSON lines of texts", "Parquet") else []
    more += ["--target", "word 2"] if case == "FASTA" else []
    assert fit(tmp_path, name, *more) == 0, capsys.readouterr().err
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as done:
        main(["predict", "model", name, "-o", "out.csv"])
    assert not done.value.code
    lines = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert len(lines) == 25
    assert lines[0].endswith("prediction,p_a,p_b")


def test_letters_in_little_time_are_fitted_without_a_network_until_one_is_asked_for(tmp_path, capsys) -> None:
    words = [FORMATS["FASTA"](tmp_path), "--target", "word 2", "--time", "9s", "--workers", "0", "--seeds", "1"]
    assert fit(tmp_path, *words, quick=False) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no network is trained: the time of 9.0 s is too little for 1,000 steps of training" in out
    assert "of training on" not in out
    assert "how the networks learnt" not in (tmp_path / "model" / "README.md").read_text("utf-8")
    asked = [*(word.replace("9s", "40s") for word in words), "--serve", "network", "--no-pretrain", "-o", "asked"]
    assert fit(tmp_path, *asked, "finetune.budget.steps=20", "finetune.optim.lr=1e-3", quick=False) == 0
    assert "predict serves scratch" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("content", ["[" * 100_000, None])
def test_a_folder_whose_plan_is_no_document_or_a_pipe_is_another_programs(content, tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    (tmp_path / "theirs").mkdir()
    plan = tmp_path / "theirs" / "plan.json"
    os.mkfifo(plan) if content is None else plan.write_text(content)
    assert fit(tmp_path, "train.csv", "--target", "label", "-o", "theirs") == 2
    assert "'theirs' holds other things" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["config.json", "plan.json"])
def test_a_folder_of_another_program_is_not_written_over(name: str, tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / name).write_text('{"model_type": "bert"}')
    (tmp_path / "theirs" / "README.md").write_text("mine")
    assert fit(tmp_path, "train.csv", "--target", "label", "-o", "theirs") == 2
    assert "'theirs' holds other things" in capsys.readouterr().err
    assert (tmp_path / "theirs" / "README.md").read_text() == "mine"


def test_a_fit_that_was_killed_while_its_folder_had_nothing_whole_goes_on(tmp_path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    _usable_folder(folder)
    unfinished = folder / ".plan.json.0123456789abcdef.tmp"
    unfinished.write_text("{")
    _usable_folder(folder)
    (folder / "notes.tmp").write_text("mine")
    with pytest.raises(BadInput, match="holds other things"):
        _usable_folder(folder)


def test_a_diverged_network_costs_itself_alone(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(40)))
    words = ["pretrain.optim.lr=1e38", "pretrain.budget.steps=40"]
    quick = [word for word in QUICK if not word.startswith("pretrain")]
    assert fit(tmp_path, "train.csv", "--target", "label", *quick, *words, quick=False) == 0
    out = capsys.readouterr().out
    assert "Whether self-pretraining helped is not known" in " ".join(out.split())
    assert "Not every stage was trained (finetune, whose parent failed or diverged)" in out
    assert (tmp_path / "model" / "config.json").exists()


def test_the_time_of_a_fit_counts_from_its_command_however_old_the_process_is(tmp_path, capsys, monkeypatch) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    spent: list[float] = []
    original = prepared.prepare
    monkeypatch.setattr(prepared, "prepare", lambda *words: spent.append(words[-1]) or original(*words))
    begun = time.monotonic()
    assert fit(tmp_path, "train.csv", "--target", "label", "--dry-run") == 0
    assert 0 < spent[0] <= time.monotonic() - begun


def test_validation_of_one_value_chooses_by_squared_error_and_says_so(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(10, label=lambda i: 0.5 + (i == 0))))
    assert fit(tmp_path, "train.csv", "--target", "label", "--folds", "1", "layout.target_kind=number") == 0
    message = capsys.readouterr().out
    assert "All validation sequences have one target: models were chosen by their squared error there." in message


def test_of_validation_of_one_value_the_model_nearest_to_it_is_served(tmp_path, capsys) -> None:
    """R² is 0 for all of them there, and must not make a tie that the mean wins."""
    levels = np.random.default_rng(0).uniform(0, 10, size=40)
    for name, values in (("train.csv", levels), ("val.csv", np.full(12, 4.0))):
        lines = [",".join([f"{x:.4f}", *(f"{x + 0.01 * i:.4f}" for i in range(5))]) for x in values]
        (tmp_path / name).write_text("\n".join(["label,t0,t1,t2,t3,t4", *lines]))
    assert fit(tmp_path, "train.csv", "--target", "label", "--val", "val.csv", "layout.target_kind=number") == 0
    assert "The best model is majority" not in capsys.readouterr().out


def test_a_folder_with_other_things_and_a_file_are_no_place_for_a_model(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("dear")
    assert fit(tmp_path, "train.csv", "-o", "mine") == 2
    assert "'mine' holds other things; name a new folder" in capsys.readouterr().err
    assert fit(tmp_path, "train.csv", "-o", "train.csv") == 2
    assert "is a file; name a folder" in capsys.readouterr().err
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "dear"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc cannot be written on Linux alone")
def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    assert fit(tmp_path, "train.csv", "-o", "/proc/headstart-model") == 2
    assert "cannot be made" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_fit_that_is_refused_leaves_no_empty_folder(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    assert fit(tmp_path, "train.csv", "--target", "nothing", "-o", "models/first") == 2
    assert "nothing" in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "lable"], "did you mean 'label'?"),
        (["--time", "soon"], "--time: 'soon' is not a time"),
        (["--serve", "kernel"], "did you mean 'kernels'?"),
        (["--test", "nowhere.csv"], "--test: 'nowhere.csv' does not exist; give the path of a file"),
        (["--unlabelled", "nowhere.csv"], "--unlabelled: 'nowhere.csv' does not exist"),
        (["--device", "tpu"], "--device: 'tpu'"),
        (["--val-share", "0.9", "--test-share", "0.5"], "headstart: --val-share: 0.9 and --test-share: 0.5 leave no"),
        (["--split", "times"], "headstart: --split: no 'times'"),
        (["--start", "nowhere"], "headstart: --start: there is no folder 'nowhere'"),
        (["--encoding", "klingon"], "train.csv: --encoding: 'klingon' is not an encoding"),
        (["fintune.optim.lr=1e-3"], "did you mean 'finetune'?"),
        (["layout.shap=wide"], "did you mean 'shape'?"),
    ],
)
def test_wrong_words_are_told_before_anything_is_trained(words: list[str], message: str, tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    assert fit(tmp_path, "train.csv", *words, quick=False) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_prints_card_and_plan_and_leaves_no_model(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    assert fit(tmp_path, "train.csv", "--target", "label", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "24, all of them labelled" in out
    assert "plan:" in out
    assert "self-pretraining: " in out
    assert not (tmp_path / "model").exists()


def test_a_fit_is_exported_for_scikit_learn(tmp_path, capsys) -> None:
    skops = pytest.importorskip("skops.io")
    source = tmp_path / "f.csv"
    source.write_text("\n".join(rows()))
    assert fit(tmp_path, str(source), "--export", "sklearn") == 0
    file = tmp_path / "model" / "model.skops"
    assert file.name in capsys.readouterr().out
    again = skops.load(file, trusted=["headstart.estimator.exported.ExportedClassifier"])
    assert set(again.predict(np.zeros((3, 5)))) <= {"a", "b"}
    assert fit(tmp_path, str(source), "--export", "onnx") == 2
    assert "--export: 'onnx' is not known; give sklearn" in capsys.readouterr().err


def test_images_of_a_table_are_told_fitted_with_patches_saved_and_exported(tmp_path, capsys) -> None:
    """Two kinds of bars; what is saved answers with the bits of what was fitted."""
    skops, draw = pytest.importorskip("skops.io"), np.random.default_rng(0)
    images = draw.normal(0, 0.1, (60, 10, 10))
    for i, image in enumerate(images):
        down, across = draw.integers(1, 8), draw.integers(0, 6)
        (image if i % 2 else image.T)[down : down + 2, across : across + 5] += 1
    lines = [",".join([*(f"{x:.3f}" for x in image.flat), "ab"[i % 2]]) for i, image in enumerate(images)]
    (tmp_path / "bars.csv").write_text("\n".join([",".join([*(f"p{i}" for i in range(100)), "label"]), *lines]))
    assert fit(tmp_path, "bars.csv", "--export", "sklearn", "-o", "model", "--serve", "kernels") == 0
    out = capsys.readouterr().out
    assert "read as images of 10 x 10, row by row" in out
    assert "convolution kernels with ridge, and patches of images" in (tmp_path / "model" / "report.html").read_text()
    again = skops.load(tmp_path / "model" / "model.skops", trusted=["headstart.estimator.exported.ExportedClassifier"])
    rows = [image.reshape(-1, 1).round(3) for image in images]
    first = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert np.array_equal(again.predict_proba(rows), first.predict_proba(rows))
    assert (first.predict(rows) == np.array(["a", "b"] * 30)).mean() > 0.9
    with pytest.raises(BadInput, match="images of 10 x 10 pixels were"), pytest.warns(UserWarning, match="the length"):
        first.predict([row[:81] for row in rows])


def test_balanced_classes_are_chosen_and_said_by_balanced_accuracy(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(60, label=lambda i: "a" if i % 6 else "b")))
    assert fit(tmp_path, "train.csv", "--target", "label", "--balanced", "--serve", "network") == 0
    out = capsys.readouterr().out
    assert "each class weighing the same" in out
    assert "test class-weighted accuracy" in out
    words = " ".join(out.split())
    assert "As asked for, predict serves" in words or "It is what predict serves" in words
    page = (tmp_path / "model" / "report.html").read_text("utf-8")
    assert "class-weighted accuracy" in page
    assert "Validation curves that pretraining never trained on" in page
    assert "without that option hidden stretches" not in page
    for text in (out, re.sub('<style>.*?</style>|base64,[^"]*', "", page, flags=re.DOTALL)):
        assert not re.findall(r"\b(?:arms?|absent|detectable|partial)\b", text), "words of studies"


def test_numbers_as_targets_get_their_own_measures(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(60, label=lambda i: i + 0.5)))
    assert fit(tmp_path, "train.csv", "--target", "label", "--serve", "network") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("validation R²", "test R²", "squared error"))
    page = (tmp_path / "model" / "report.html").read_text()
    assert all(name in page for name in ("MAE", "RMSE", "squared error"))


def test_numbers_have_no_classes_to_be_balanced(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(60, label=lambda i: i + 0.5)))
    assert fit(tmp_path, "train.csv", "--target", "label", "--balanced") == 2
    assert "--balanced: the target of train.csv is a number, no class; leave it out" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("word", "there"), [("--pretrain", True), ("--no-pretrain", False)])
def test_a_second_network_is_self_pretrained_or_not_as_the_command_says(word, there, tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    assert fit(tmp_path, "train.csv", "--target", "label", "--time", "5m", word) == 0
    assert ("self_pretrained" in capsys.readouterr().out) == there


def test_each_model_without_a_network_is_named_as_it_begins_and_then_each_further_run(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(60)))
    words = ("train.csv", "--target", "label", "--folds", "3", "--time", "10m", "--no-pretrain")
    assert fit(tmp_path, *words, *QUICK[2:-1], quick=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("fitting")] == [
        "fitting majority ...",
        "fitting summary ...",
        "fitting kernels ...",
        "fitting kernels, run 2 of 3 ...",
        "fitting kernels, run 3 of 3 ...",
    ]
    usable = next(i for i, line in enumerate(lines) if line.startswith("a first usable model after"))
    assert lines.index("fitting summary ...") < usable < lines.index("fitting kernels, run 2 of 3 ..."), (
        "a majority is none"
    )
    assert fit(tmp_path, *words, *QUICK[2:-1], quick=False) == 0
    assert "fitting" not in capsys.readouterr().out, "nothing is fitted again"


def test_the_same_command_again_trains_nothing_and_says_the_same(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(40)))
    outputs, written = [], []
    for _ in range(2):
        assert fit(tmp_path, "train.csv", "--target", "label") == 0
        outputs.append(capsys.readouterr())
        written.append({path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/result.json")})
    # Three networks, a pretraining, three models without gradients, and one of all these fitted again to be served.
    assert len(written[0]) == 8
    assert written[0] == written[1]
    tables = [
        [line for line in output.out.splitlines() if line.strip().startswith(("scratch", "self_pretrained"))]
        for output in outputs
    ]
    assert tables[0] == tables[1]
    assert "7 of 7 stages done, 0 running" in outputs[1].err


@pytest.mark.slow
def test_the_study_that_a_fit_wrote_repeats_it(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(40)))
    assert fit(tmp_path, "train.csv", "--target", "label") == 0
    out = capsys.readouterr().out
    before = {path: path.read_bytes() for path in (tmp_path / "runs").glob("*/result.json")}
    with contextlib.chdir(tmp_path), contextlib.suppress(SystemExit):
        main(["run", "model/study.toml", "--data", ".", "--workers", "0"])
    again = capsys.readouterr().out
    assert all(path.read_bytes() == content for path, content in before.items()), "what was fitted is not done again"
    for arm in ("scratch", "self_pretrained", "kernels"):
        short, whole = (_scores(text, arm) for text in (out, again))
        assert len(short) == 2
        assert set(short) <= {score.split()[0] for score in whole}


def _scores(text: str, arm: str) -> list[str]:
    """Scores in the first line of a table that begins with an arm; that it is fitted again is said in a line, too."""
    line = next(line for line in text.splitlines() if line.split()[:1] == [arm] and " fitted again " not in line)
    return re.findall(r"\d\.\d{3}(?: ± \d\.\d{3})?", line.split("lr")[-1])[-9:]


def test_val_that_repeats_train_is_said_before_anything_is_trained(tmp_path, capsys) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows()))
    assert fit(tmp_path, "train.csv", "--val", str(tmp_path / "train.csv"), "--dry-run", quick=False) == 0
    assert "scores will be too good: of the 24 val sequences" in capsys.readouterr().out


@pytest.mark.parametrize(("limit", "cut"), [("2s", True), ("10m", False)])
def test_a_plan_of_more_training_than_the_limit_says_that_it_is_cut_off(tmp_path, capsys, limit, cut) -> None:
    (tmp_path / "train.csv").write_text("\n".join(rows(200, 300)))
    assert fit(tmp_path, "train.csv", "--dry-run", "--target", "label", "--time", limit, quick=False) == 0
    assert ("cut off at the limit of 2.0 s" in capsys.readouterr().out) == cut
