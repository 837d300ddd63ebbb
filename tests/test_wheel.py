"""The wheel, installed into an environment of its own outside the checkout, does what the README says first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="needs the extra [dev]: pip install 'headstart[dev]'")

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
"""What a wheel and an sdist are made of."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist and of the wheel made from it; the checkout is left as it is."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(path, source / name)
    python(Path(sys.executable), "-m", "build", "--no-isolation", str(source))
    return source / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel; other packages are those of the running environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    interpreter = folder / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = ("-m", "pip", "--python", str(interpreter), "install", "--no-deps", "--no-index", "--quiet")
    python(Path(sys.executable), *pip, str(wheel))
    (packages,) = folder.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    return interpreter


def python(interpreter: Path, *words: str, cwd: Path | None = None) -> str:
    """What a command prints, in an environment without PYTHONPATH; its errors are those of the test."""
    names = ("PYTHONPATH", "HEADSTART_STORE", "HEADSTART_DATA", "HEADSTART_WEIGHTS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [interpreter, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_sdist_and_wheel_hold_all_files_of_the_package(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    package = ROOT / "src"
    files = {str(path.relative_to(package)) for path in (package / "headstart").rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as archive:
        assert not files - set(archive.namelist())
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in files} | {"README.md", "LICENSE", "pyproject.toml"} <= names


@pytest.mark.slow
def test_the_wheel_alone_shows_help_and_studies_fits_and_predicts(installed: Path, tmp_path: Path) -> None:
    def headstart(*words: str) -> str:
        return python(installed, "-m", "headstart", *words, cwd=tmp_path)

    origin = python(installed, "-c", "import headstart; print(headstart.__file__)", cwd=tmp_path).strip()
    assert Path(origin).is_relative_to(installed.parents[1])
    assert "Compare training from scratch and self-pretraining" in headstart("demo", "--help")
    assert "few-labels" in headstart("ls", "studies")
    rows = [f"{('low', 'high')[i % 2]},{i % 2},{i % 2 + 0.1 * (i % 5)},{i % 3}" for i in range(60)]
    (tmp_path / "train.csv").write_text("\n".join(["label,a,b,c", *rows]) + "\n")
    headstart("fit", "train.csv", "--target", "label", "--time", "5s", "--device", "cpu", "-o", "model")
    headstart("predict", "model", "train.csv", "-o", "answers.csv")
    answers = (tmp_path / "answers.csv").read_text().splitlines()
    assert len(answers) == 1 + 60
    assert sum(("low", "high")[i % 2] in line for i, line in enumerate(answers[1:])) > 50
