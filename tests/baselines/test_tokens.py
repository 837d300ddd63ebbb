"""Counts of tokens as models: against loops over positions, and as stages beside networks that predict tokens."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headstart
from headstart.baselines import from_arrays
from headstart.baselines.tokens import BigramSpec, CopySpec, TokensSpec, UnigramSpec
from headstart.errors import BadInput
from headstart.seeds import uniform
from headstart.sequence import Examples, Signature
from headstart.stage import begin, identity, load_model, read_stage
from headstart.tasks import open_task

TEXT = [[0, 1, 1, 2, 0, 1], [3, 1], [1, 1, 1, 0]]
SIGNATURE = Signature("tokens", 5, 6, 2, "none")
KINDS = [UnigramSpec, BigramSpec, CopySpec]


def expected(kind: str, before: int | None, token: int) -> float:
    """The probability of `token` behind `before`, counted by hand in TEXT."""
    counts = Counter(t for row in TEXT for t in row)
    alone = (counts[token] + 1) / (sum(counts.values()) + 5)
    pairs = Counter(pair for row in TEXT for pair in itertools.pairwise(row))
    if kind == "unigram" or before is None:
        return alone
    if kind == "bigram":
        whole = sum(count for (first, _), count in pairs.items() if first == before)
        return (pairs[before, token] + alone) / (whole + 1)
    share = (sum(count for (a, b), count in pairs.items() if a == b) + 1) / (sum(pairs.values()) + 2)
    return share * (before == token) + (1 - share) * alone


@pytest.mark.parametrize("cls", KINDS)
def test_probabilities_are_those_counted_by_hand_and_survive_a_file(cls: type[TokensSpec]) -> None:
    train = Examples.from_arrays([np.array(row) for row in TEXT])
    fitted = cls.model_validate({}).fit(train, train, SIGNATURE, 0)
    again: Any = from_arrays(fitted.facts.model_dump(mode="json"), fitted.arrays())
    table = again.after(np.array([-1, 0, 1, 2, 3, 4]))
    assert table.sum(1) == pytest.approx(np.ones(6))
    for row, before in enumerate([None, 0, 1, 2, 3, 4]):
        assert table[row] == pytest.approx([expected(cls.model_fields["kind"].default, before, t) for t in range(5)])
    predicted = again.predict(train)
    assert np.array_equal(predicted[6], table[0]), "the first token of a sequence follows none"
    assert np.array_equal(predicted[7], table[4])


def test_numbers_and_objectives_with_a_target_are_refused() -> None:
    train = Examples.from_arrays(np.zeros((4, 3, 1), dtype=np.float32))
    with pytest.raises(BadInput, match=r"model.kind: 'bigram' counts tokens, and the task has numbers"):
        BigramSpec().fit(train, train, Signature("floats", 1, 3, 3, "none"), 0)
    with pytest.raises(BadInput, match=r"'classify' asks for a target, .* 'copy' predicts tokens of the input; use"):
        read_stage({"task": {"kind": "mqar"}, "objective": {"kind": "classify"}, "model": {"kind": "copy"}})


@pytest.fixture
def text(tmp_path: Path) -> Path:
    words = b"the sea the sky the sand see the sea " * 40
    (tmp_path / "text.txt").write_bytes(words)
    return tmp_path


@pytest.mark.parametrize("kind", ["unigram", "bigram", "copy"])
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_a_stage_of_counts_is_scored_as_a_network_is(kind: str, objective: str, text: Path) -> None:
    stage: Any = read_stage(
        {
            "task": {"kind": "language", "file": "text.txt", "length": 20, "val_share": 0.2},
            "objective": {"kind": objective, **({"mask_rate": 0.4} if objective == "masked" else {})},
            "model": {"kind": kind},
        }
    )
    task = open_task(stage.task, text)
    outcome = begin(stage, task, None).finish()
    model = load_model(stage, task, outcome.best, {"model": outcome.model})
    losses, hits = [], []
    for row in range(task.val.units):
        tokens = task.val.inputs(row).tolist()
        noise = uniform(0, "mask", 0, np.array([[task.val.index[row]]]), np.arange(len(tokens)))[0]
        hidden = (noise < 0.4) | (noise == noise.min())
        for position, token in enumerate(tokens):
            before = -1 if position == 0 or (objective == "masked" and hidden[position - 1]) else tokens[position - 1]
            if (objective == "causal" and position) or (objective == "masked" and hidden[position]):
                share = model.after(np.array([before]))[0]
                losses.append(-math.log(share[token]))
                hits.append(share.argmax() == token)
    assert outcome.scores["best"]["val"]["loss"] == pytest.approx(np.mean(losses))
    assert outcome.scores["best"]["val"]["accuracy"] == pytest.approx(np.mean(hits))
    assert identity(stage, text) == identity(stage.model_copy(update={"seed": 1}), text), "seeds change nothing"


def test_a_study_of_language_reports_what_counts_alone_give(text: Path) -> None:
    study = {
        "name": "bytes",
        "stages": {"train": {"objective": {"kind": "causal"}, "budget": {"steps": 2}}},
        "columns": {"text": {"task": {"kind": "language", "file": "text.txt", "length": 20, "val_share": 0.2}}},
        "arms": {"small": {"model": {"width": 8, "blocks": 1, "causal": True}}},
    }
    results = headstart.run(study, store=text / "runs", data=text)
    scores = {row.arm: row.val.mean for row in results.baselines if row.val is not None}
    assert len(scores) == 3
    unigram, bigram, copy = (
        next(v for k, v in scores.items() if k.startswith(word)) for word in ("unigram", "bigram", "copy")
    )
    assert bigram < copy
    assert bigram < unigram
    assert {row.metric for row in results.baselines} == {"bits_per_token"}
