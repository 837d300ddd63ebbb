"""The model that serves is fitted again with what validation chose, not with what leaked rows would choose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command import command

from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.summary import SummarySpec
from headstart.sequence import Examples, Signature


def noise(rows: int, classes: int = 2) -> Examples:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(rows * 20, 1)).astype(np.float32)
    return Examples(values, np.arange(rows + 1) * 20, draw.integers(0, classes, rows), np.arange(rows))


FLOATS = Signature("floats", 1, 20, 20, "class", classes=2)
TOKENS = Signature("tokens", 4, 20, 20, "class", classes=2)


@pytest.mark.parametrize("spec", [SummarySpec(), KernelsSpec(features=84)], ids=["logistic", "ridge"])
def test_a_fit_with_the_choices_of_another_chooses_nothing(spec: SummarySpec | KernelsSpec) -> None:
    train, val, nothing = noise(60), noise(20), noise(20).take(np.arange(0))
    first = spec.fit(train, val, FLOATS, 0)
    settled = spec.model_copy(update=spec.choices(first.facts))
    again = settled.fit(train, nothing, FLOATS, 0)
    assert again.facts.strength == pytest.approx(first.facts.strength)
    assert again.facts.temperature == first.facts.temperature
    np.testing.assert_allclose(again.predict(val), first.predict(val), atol=1e-6)


def test_n_grams_are_those_that_were_chosen_though_a_row_of_another_length_has_come() -> None:
    draw = np.random.default_rng(0)
    values = draw.integers(0, 4, 400 * 20).astype(np.uint8)
    examples = Examples(values, np.arange(401) * 20, (values.reshape(400, 20)[:, 7] > 1).astype(int), np.arange(400))
    spec = KernelsSpec()
    first = spec.fit(examples.take(np.arange(300)), examples.take(np.arange(300, 400)), TOKENS, 0)
    assert first.facts.sizes["placed"] == 20
    odd = Examples(values[:-1], np.append(np.arange(400) * 20, 7999), examples.target, examples.index)
    again = spec.model_copy(update=spec.choices(first.facts)).fit(odd, examples.take(np.arange(0)), TOKENS, 0)
    assert again.facts.sizes == first.facts.sizes
    # Without choices of another: whatever a fifth chooses is fitted, wherever the odd row stands.
    assert spec.fit(odd, examples.take(np.arange(0)), TOKENS, 0).facts.sizes["longest"] in (3, 6)


def test_subjects_that_come_back_do_not_make_the_served_model_sure(tmp_path: Path) -> None:
    """Noise of 12 rows a subject, labels by subject: a penalty chosen across rows of one subject would be far too weak."""
    draw = np.random.default_rng(0)
    lines = ["person,label," + ",".join(f"t{i}" for i in range(16))]
    for person in range(24):
        own = draw.normal(size=16) * 2
        for _ in range(8):
            row = own + draw.normal(size=16) * 0.3
            lines.append(f"p{person},{'ab'[person % 2]}," + ",".join(f"{x:.3f}" for x in row))
    (tmp_path / "train.csv").write_text("\n".join(lines))
    words = ("--target", "label", "--group", "person", "--serve", "summary", "--time", "5s", "--workers", "0")
    done = command("fit", "train.csv", *words, "-o", "model", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    served = json.loads((tmp_path / "model" / "config.json").read_text())["classics"]["summary"]
    study = (tmp_path / "model" / "study.toml").read_text()
    (alpha,) = {
        float(line.split("alpha = ")[1].split(",")[0].split(" ")[0].rstrip("}"))
        for line in study.splitlines()
        if "alpha = " in line
    }
    assert served["strength"][0] == pytest.approx(1 / alpha)
