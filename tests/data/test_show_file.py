"""`headstart show FILE`: the card as a person meets it, in a real process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import command
from support.made_tables import numbers, wide, write


def show(*words, cwd):
    return command("show", *words, cwd=cwd, env={**os.environ, "COLUMNS": "200"})


def test_a_file_is_shown_with_its_layout_and_foreign_text_stays_text(tmp_path):
    write(tmp_path / "train.csv", "\n".join(wide(label=lambda i: ["[red]x", "=1+1", "😀"][i % 3])))
    done = show("train.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "train.csv: comma-separated with a header; a row per sequence" in done.stdout
    assert all(name in done.stdout for name in ("[red]x", "=1+1", "😀"))
    assert "fewer than 5 members" in done.stdout


def test_options_and_settings_say_how_a_file_is_read(tmp_path):
    write(tmp_path / "train.csv", "\n".join(wide(mark=";")).replace("s03;b;0", "s03;b;n/a;0", 1))
    write(tmp_path / "odd.csv", "who;what;x;y;z\n" + "".join(f"p{i % 3};{'ab'[i % 2]};1.5;n/a;{i}\n" for i in range(9)))
    done = show(
        "odd.csv",
        "--target",
        "what",
        "--group",
        "who",
        "--na",
        "n/a",
        "--values",
        "x",
        "--values",
        "z",
        "--layout",
        "wide",
        'ends="missing"',
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "target 'what', groups 'who'; not used: 'y'." in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train.csv", "--target", "lable"],
            "headstart: train.csv: --target: no column 'lable'; did you mean 'label'?",
        ),
        (
            ["train.csv", "--layout", "tall"],
            "headstart: --layout: 'tall' should be 'auto', 'wide', 'text', 'list', 'long' or 'columns'",
        ),
        (["train.csv", "shap=wide"], "headstart: layout.shap: no 'shap'; did you mean 'shape'?"),
        (["nothere.csv"], "headstart: nothere.csv: is not there; give the path of a file or a folder"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_with_exit_code_2(tmp_path, words, message):
    write(tmp_path / "train.csv", "\n".join(wide()))
    done = show(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr


def test_neither_torch_nor_scipy_is_imported_to_show_a_file(tmp_path):
    write(tmp_path / "train.csv", "\n".join(wide()))
    code = (
        "import sys; from headstart.cli import main\ntry: main(['show', 'train.csv'])\nexcept SystemExit: pass\n"
        "print({'torch', 'scipy', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("set()")


@pytest.mark.parametrize(
    ("folder", "pattern", "message"),
    [
        ("ucr", "**/GunPoint_TRAIN.tsv", ("50, all of them labelled", "2 classes", "150")),
        ("uea", "**/JapaneseVowels_TRAIN.ts", ("270, all of them labelled", "9 classes", "12 channels")),
        ("biology", "**/uci_splice.tsv", ("3,190, all of them labelled", "3 classes", "DNA, letter by letter")),
    ],
)
def test_files_of_the_archives_are_shown(linked, tmp_path, folder, pattern, message):
    result = _unpacked(linked / folder, Path(pattern).name, tmp_path)
    if result is None:
        pytest.skip(f"{Path(pattern).name} is not in the data folder")
    done = show(str(result), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in message)


def _unpacked(folder, name, out):
    """A file of this name below the folder, or out of an archive in it."""
    import tarfile

    result = next(iter(folder.rglob(name)), None) if folder.is_dir() else None
    for path in sorted(folder.glob("*.tar.*")) if folder.is_dir() and result is None else []:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith(f"/{name}") or member.name == name:
                    content = archive.extractfile(member)
                    return write(out / name, content.read()) if content is not None else None
    return result


def test_a_wide_table_of_five_hundred_rows_is_shown(tmp_path):
    lines = ["id,label," + ",".join(f"t{i}" for i in range(100))]
    lines += [f"s{i},{i % 3}," + ",".join(map(str, row)) for i, row in enumerate(numbers(500, 100))]
    write(tmp_path / "train.csv", "\n".join(lines))
    assert "500, all of them labelled" in show("train.csv", cwd=tmp_path).stdout


def test_a_folder_whose_name_may_be_an_id_is_shown(tmp_path):
    for name in "ab":
        (tmp_path / "face1" / name).mkdir(parents=True)
    for i in range(4):
        write(tmp_path / "face1" / "ab"[i % 2] / f"{i}.csv", "x,y\n" + "\n".join(f"{k},{k % 3}.5" for k in range(9)))
    done = show("face1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a folder of tables" in done.stdout
    assert "no stage's id begins with" in show("face2", cwd=tmp_path).stderr
