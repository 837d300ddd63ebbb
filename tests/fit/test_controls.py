"""Controls of a whole fit: what must not be learnt from labels that say nothing, and what must be learnt from the order of values alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headstart.cli import main

COUNT, LENGTH, TOOTH = 200, 24, 8
FIT = ["--no-pretrain", "--serve", "network", "--workers", "0", "--seeds", "1"]
TRAINING = ["finetune.budget.steps=60", "finetune.optim.lr=3e-3"]
CLASSES = ("rising", "falling")


def teeth() -> tuple[np.ndarray, list[str]]:
    """(200, 24) teeth of a saw at any phase that rise slowly and fall at once, or the other way round, and which of both.

    Turned in time, one class is the other, and both have values of the same distribution at every position.
    """
    rng = np.random.default_rng(0)
    values = (np.arange(LENGTH) + rng.integers(0, TOOTH, COUNT)[:, None]) % TOOTH / TOOTH
    values = values + 0.1 * rng.normal(size=values.shape)
    falling = np.arange(COUNT) % 2
    return np.where(falling[:, None] == 1, values[:, ::-1], values), [CLASSES[k] for k in falling]


def write(path: Path, values: np.ndarray, labels: Sequence[str]) -> None:
    head = ",".join(["label", *(f"t{i}" for i in range(LENGTH))])
    rows = (",".join([label, *(f"{x:.4f}" for x in row)]) for label, row in zip(labels, values, strict=True))
    path.write_text("\n".join([head, *rows]), "utf-8")


def command(folder: Path, *words: str) -> None:
    with contextlib.chdir(folder), contextlib.suppress(SystemExit):
        main(list(words))


def test_labels_that_are_shuffled_are_predicted_at_chance_by_every_model_and_the_page_says_so(tmp_path: Path) -> None:
    values, labels = teeth()
    write(tmp_path / "train.csv", values, [labels[i] for i in np.random.default_rng(1).permutation(COUNT)])
    command(tmp_path, "fit", "train.csv", *FIT, *TRAINING)
    page = re.sub(r"<[^>]*>", "", (tmp_path / "model" / "report.html").read_text("utf-8"))
    (sentence,) = re.findall(r"(.*) are at chance: not above a test accuracy of 0\.500 by two standard errors\.", page)
    scores = {name: float(score) for name, score in re.findall(r"(\w+) \(([\d.]+)\)", sentence)}
    assert scores.keys() >= {"scratch", "kernels", "summary"}, "a network and both models without gradients"
    error = (0.25 / (COUNT * 0.2)) ** 0.5
    assert all(abs(score - 0.5) < 3 * error for score in scores.values())
    assert "no better on test than a trivial baseline: majority (0.500)" in page
    (curve,) = re.findall(
        r"With 30, 60 and 120 labelled train sequences \w+ has a test accuracy of (.*) \(\d draws\)", page
    )
    assert all(abs(float(score) - 0.5) < 3 * error for score in re.findall(r"0\.\d+", curve)), "flat, at chance"
    assert "that 100 more labels like these would help is not shown" in page


@pytest.mark.slow
def test_what_only_the_order_tells_is_learnt_and_turned_in_time_it_is_the_other_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, labels = teeth()
    write(tmp_path / "train.csv", values, labels)
    write(tmp_path / "turned.csv", values[:, ::-1], labels)
    command(tmp_path, "fit", "train.csv", *FIT, *TRAINING)
    for name, accuracy in (("train.csv", "1"), ("turned.csv", "0")):
        capsys.readouterr()
        command(tmp_path, "predict", "model", name, "-o", f"{name}.predictions.csv", "--target", "label")
        assert f"rows with a label: accuracy {accuracy}," in capsys.readouterr().err
