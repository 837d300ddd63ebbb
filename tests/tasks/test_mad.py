"""The tasks of MAD, each against its definition, position by position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart.errors import BadInput
from headstart.sequence import IGNORE, Examples
from headstart.spec import read
from headstart.stage import read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks.mad import CompressionSpec, FuzzyRecallSpec, InContextRecallSpec, MemorisationSpec, NoisyRecallSpec
from headstart.tasks.task import SPLITS

NOWHERE = Path("nowhere")
SMALL: dict[str, Any] = {"train": 60, "val": 20, "test": 20}


def rows(x: Examples) -> list[tuple[list[int], list[int]]]:
    """Tokens and targets of each sequence."""
    assert x.target is not None
    ends = x.offsets.tolist()
    return [(x.inputs(i).tolist(), x.target[ends[i] : ends[i + 1]].tolist()) for i in range(len(x))]


@pytest.mark.parametrize(
    ("cls", "settings", "noise"), [(InContextRecallSpec, {}, 0), (NoisyRecallSpec, {"noise": 0.4}, 16)]
)
def test_a_key_that_comes_again_is_asked_for_its_value(cls: type[Any], settings: dict[str, Any], noise: int) -> None:
    task = cls(length=40, **settings, **SMALL).load(NOWHERE)
    shares = []
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            value_of: dict[int, int] = {}
            assert len(tokens) == 39
            for position in range(0, 39, 2):
                key = tokens[position]
                if key >= 16:
                    shares.append(1)
                    assert all(16 <= token < 16 + noise for token in tokens[position : position + 2])
                    assert target[position : position + 2] == [IGNORE] * 2
                    continue
                shares.append(0)
                assert 0 <= key < 8
                assert target[position] == value_of.get(key, IGNORE)
                if position < 38:
                    assert 8 <= tokens[position + 1] < 16
                    assert value_of.setdefault(key, tokens[position + 1]) == tokens[position + 1]
                    assert target[position + 1] == IGNORE
            assert target[-1] != IGNORE
    assert np.mean(shares) == pytest.approx(0.4 * 18 / 20 if noise else 0.0, abs=0.04)
    assert (task.signature.classes, task.signature.per_position) == (16 + noise, True)


def test_motifs_that_come_again_are_asked_for_token_by_token_and_val_has_the_longest_keys_alone() -> None:
    task = FuzzyRecallSpec(vocabulary=6, key_size=2, value_size=2, length=40, **SMALL).load(NOWHERE)
    sizes: dict[str, set[int]] = {split: set() for split in SPLITS}
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            value_of: dict[tuple[int, ...], tuple[int, ...]] = {}
            shown = [*tokens, target[-1]]  # the last token of the last value is not shown
            position = next(i for i, token in enumerate(shown) if token != 6)
            while position < len(shown):
                ends = position
                while shown[ends] < 3:
                    ends += 1
                stop = ends
                while stop < len(shown) and shown[stop] >= 3:
                    stop += 1
                key, value = tuple(shown[position:ends]), tuple(shown[ends:stop])
                assert len(set(key)) == len(key)
                assert len(set(value)) == len(value) <= 2
                asked = list(value) if key in value_of else [IGNORE] * len(value)
                assert target[ends - 1 : stop - 1] == asked
                assert value_of.setdefault(key, value) == value
                sizes[split].add(len(key))
                position = stop
            assert target[-1] != IGNORE
    assert sizes == {"train": {1, 2}, "val": {2}, "test": {2}}


def test_compression_asks_for_all_tokens_at_the_markers() -> None:
    task = CompressionSpec(vocabulary=5, length=6, **SMALL).load(NOWHERE)
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            assert tokens[6:] == [4] * 6
            assert max(tokens[:6]) < 4
            assert target == [IGNORE] * 6 + tokens[:6]


def test_memorisation_has_one_value_of_each_key_in_all_splits_and_shows_none() -> None:
    spec = MemorisationSpec(vocabulary=21, length=12, **SMALL)
    task, value_of = spec.load(NOWHERE), dict[int, int]()
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            assert tokens[1::2] == [20] * 6
            assert target[::2] == [IGNORE] * 6
            for key, value in zip(tokens[::2], target[1::2], strict=True):
                assert value_of.setdefault(key, value) == value
    assert set(value_of) == set(range(10))
    assert set(value_of.values()) == set(range(10, 20))
    other = rows(MemorisationSpec(vocabulary=21, length=12, data_seed=1, **SMALL).load(NOWHERE).train)
    assert any(value_of[key] != value for t, y in other for key, value in zip(t[::2], y[1::2], strict=True))


def test_a_sequence_is_the_same_whatever_the_sizes_and_chunks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FuzzyRecallSpec(**SMALL).load(NOWHERE)
    monkeypatch.setattr("headstart.tasks.recall._AT_ONCE", 700)
    more = FuzzyRecallSpec(**{**SMALL, "train": 70}).load(NOWHERE)
    assert rows(more.train)[:60] == rows(whole.train)
    assert rows(more.val) == rows(whole.val)


@pytest.mark.parametrize(
    ("cls", "settings", "words"),
    [
        (NoisyRecallSpec, {"length": 17}, "length: 17 is odd, and pairs have two tokens; take 18"),
        (MemorisationSpec, {"length": 7}, "length: 7 is odd, and a mark stands behind each key; take 8"),
        (
            FuzzyRecallSpec,
            {"vocabulary": 5},
            "vocabulary: 5 tokens make no motifs of 3 different ones; take 6 or more",
        ),
        (FuzzyRecallSpec, {"length": 17}, "length: 17 has no room for three pairs of 6 tokens; take 18 or more"),
    ],
)
def test_settings_without_room_are_refused_in_words(cls: type[Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(cls, settings)


def test_a_model_in_both_directions_is_refused_where_it_would_read_the_answer() -> None:
    stage: dict[str, Any] = {
        "task": {"kind": "in_context_recall", "length": 20, **SMALL},
        "objective": {"kind": "classify"},
        "model": {"width": 8, "blocks": 1},
        "budget": {"steps": 1},
    }
    spec: Any = read_stage(stage)
    with pytest.raises(
        BadInput, match=r"model\.causal: task 'in_context_recall' shows what .* set model\.causal = true"
    ):
        TrainedRun(spec, spec.task.load(NOWHERE))
    causal: Any = read_stage({**stage, "model": {"width": 8, "blocks": 1, "causal": True}})
    TrainedRun(causal, causal.task.load(NOWHERE))
