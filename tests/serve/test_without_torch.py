"""A served model that is no network answers without torch, whose import takes longer than most predictions."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.made_models import made, texts, walks

from headstart.serve.folder import load_model, save_model

PROGRAM = """
import sys
from headstart.cli import main
try:
    main(["predict", *sys.argv[1:]])
except SystemExit as done:
    loaded = sorted(name for name in ("torch", "scipy", "sklearn", "pyarrow.compute") if name in sys.modules)
    sys.exit(f"{done.code} {loaded}")
"""


def predict(*words: object) -> tuple[str, list[str]]:
    """(standard output, lines of standard error, the last: exit code and modules that take long to import)."""
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr.splitlines()


CASES = [("kernels", False, ()), ("kernels", True, ()), ("kernels", True, ("--use", "kernels"))]
CASES += [(name, True, ()) for name in ("summary", "majority", "ngrams")]


@pytest.mark.parametrize(("name", "network", "use"), CASES)
def test_predict_of_a_model_without_a_network_does_not_import_torch(
    name: str, network: bool, use: tuple[str, ...], tmp_path: Path
) -> None:
    s = texts("text") if name == "ngrams" else walks(least=12, most=12)
    served = made(s, (name,), network=network, serve="network" if use else name)
    save_model(served, tmp_path / "model")
    file = tmp_path / "new.csv"
    lines = [
        s.speak(row) if name == "ngrams" else ",".join(map(str, s.values[12 * row : 12 * row + 12, 0]))
        for row in range(12)
    ]
    head = "sequence" if name == "ngrams" else ",".join(f"t{i}" for i in range(12))
    file.write_text("\n".join([head, *lines]) + "\n")
    options = ("--values", "sequence") if name == "ngrams" else ("--values", "t*", "--layout", "wide")
    out, messages = predict(tmp_path / "model", file, *options, *use)
    assert messages[-1] == "0 []"
    shares = [[float(row[f"p_{label}"]) for label in s.classes] for row in csv.DictReader(out.splitlines())]
    expected = load_model(tmp_path / "model").predict(s, name)
    np.testing.assert_allclose(shares, expected, atol=2e-6)


def test_scores_of_labelled_rows_do_not_import_scikit_learn(tmp_path: Path) -> None:
    s = walks(least=12, most=12)
    save_model(made(s, ("kernels",), serve="kernels"), tmp_path / "model")
    lines = [",".join([*(f"t{i}" for i in range(12)), "label"])]
    lines += [",".join(map(str, [*s.values[12 * row : 12 * row + 12, 0], s.labels[row]])) for row in range(12)]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    _, messages = predict(
        tmp_path / "model", tmp_path / "new.csv", "--values", "t*", "--layout", "wide", "--target", "label"
    )
    assert messages[-1] == "0 []"
    assert any("on the 12 rows with a label: accuracy" in line for line in messages)


def test_a_network_that_does_not_answer_is_not_read(tmp_path: Path) -> None:
    served = made(walks(), ("majority",), serve="majority")
    save_model(served, tmp_path / "model")
    assert load_model(tmp_path / "model", others=False).choices == ("majority",)
    assert load_model(tmp_path / "model", "network", others=False).choices == ("network", "majority")
    assert load_model(tmp_path / "model").choices == ("network", "majority")
