"""Pairs of one or two sources: against a slow writer, what is and what is not to be read from them, the task."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trivial import trivial_scores

from headstart.data.splits import overlaps
from headstart.errors import BadInput
from headstart.seeds import below, bits
from headstart.spec import read
from headstart.tasks.stand_ins import PairsSpec
from headstart.tasks.task import SPLITS, open_task

NOWHERE = Path("nowhere")
SMALL: dict[str, Any] = {"train": 40, "val": 10, "test": 20}


def slow_sequence(spec: PairsSpec, split: str, row: int, source: int) -> list[int]:
    """What a source writes, one symbol after another."""
    orders, liked, stream, seed = spec.orders()[source], spec.liked()[source], f"pairs/{split}", spec.data_seed
    room = spec.max_length - spec.min_length + 1
    out: list[int] = []
    for t in range(spec.min_length + int(below(seed, f"{stream}/length", room, row))):
        word = int(bits(seed, f"{stream}/steps", t, row))
        eighth, rest = word % 8, word // 8 * (spec.symbols // 2) // 2**29
        if t > 0 and eighth < 6:
            out.append(int(orders[eighth // 3][out[-1]]))
        else:
            out.append(int(liked[rest]))
    return out


def test_sequences_are_what_sources_write_symbol_by_symbol() -> None:
    spec = PairsSpec(data_seed=2, symbols=11, min_length=16, max_length=33, **SMALL)
    task = spec.load(NOWHERE)
    for split in SPLITS:
        writers, label = spec.writers(split, np.arange(10))
        assert np.array_equal(label, writers[:, 0] == writers[:, 1])
        x = task.split(split)
        assert np.array_equal(x.target[:20], np.repeat(label, 2))
        for row in range(20):
            assert x.inputs(row).tolist() == slow_sequence(spec, split, row, writers[row // 2, row % 2])


def test_half_of_the_pairs_have_one_source_and_no_place_tells_which() -> None:
    spec = PairsSpec()
    writers, label = spec.writers("train", np.arange(8000))
    assert (label.reshape(-1, 2).sum(1) == 1).all()
    assert 0.4 < label[::2].mean() < 0.6
    for side in (0, 1):
        for value in (0, 1):
            counts = np.bincount(writers[label == value, side], minlength=8)
            assert ((counts - 500) ** 2 / 500).sum() < 7 + 4 * math.sqrt(14)


def test_sources_have_orders_of_their_own() -> None:
    orders = PairsSpec().orders()
    assert orders.shape == (8, 2, 16)
    assert (np.sort(orders, -1) == np.arange(16)).all()
    assert len({order.tobytes() for order in orders.reshape(16, 16)}) == 16


def test_sources_like_half_of_the_symbols_and_write_all_of_them() -> None:
    spec = PairsSpec(train=4000, val=1, test=1)
    assert len({frozenset(row) for row in spec.liked().tolist()}) == 8
    x, writers = spec.load(NOWHERE).train, spec.writers("train", np.arange(4000))[0].reshape(-1)
    of = np.repeat(writers, x.lengths)
    last = np.zeros(len(of), dtype=bool)
    last[x.offsets[1:] - 1] = True
    for source in range(8):
        share = np.bincount(x.values[of == source], minlength=16) / (of == source).sum()
        liked = np.isin(np.arange(16), spec.liked()[source])
        assert liked.sum() == 8
        assert share[liked].sum() > 0.55
        assert share.min() > 0.01
        here = np.flatnonzero((of == source) & ~last)
        for order in spec.orders()[source]:
            # 3/8 of the steps follow it, and some of the others by chance.
            assert 0.36 < (order[x.values[here]] == x.values[here + 1]).mean() < 0.55


def test_counts_of_symbols_tell_a_little_and_bigrams_nearly_all() -> None:
    scores = trivial_scores(PairsSpec(), PairsSpec().load(NOWHERE))
    assert scores["majority class"] == 0.5
    for name in ("logistic regression on token counts", "1-nearest neighbour on token counts"):
        assert 0.55 < scores[name] < 0.8
    assert scores["likeness of bigrams"] > 0.9


def test_the_baseline_is_a_threshold_on_the_cosine_of_bigram_counts() -> None:
    task = PairsSpec(min_length=16, max_length=20, train=60, val=20, test=40).load(NOWHERE)

    def likeness(split: str, unit: int) -> float:
        x = task.split(split)
        first, other = (Counter(pairwise(s)) for s in (x.inputs(2 * unit).tolist(), x.inputs(2 * unit + 1).tolist()))
        norm = math.sqrt(sum(v * v for v in first.values()) * sum(v * v for v in other.values()))
        return sum(first[k] * other[k] for k in first) / norm

    examples = [(likeness("train", u), int(task.train.target[2 * u])) for u in range(60)]
    best = max(sum((a > t) == b for a, b in examples) for t, _ in [*examples, (-1.0, 0)])
    levels = [t for t, _ in [*examples, (-1.0, 0)] if sum((a > t) == b for a, b in examples) == best]
    scores = {sum((likeness("test", u) > t) == task.test.target[2 * u] for u in range(40)) / 40 for t in levels}
    assert task.baselines[0].test in scores


def test_no_pair_stands_in_two_splits_and_no_sequence_occurs_twice() -> None:
    task = PairsSpec().load(NOWHERE)
    assert not any(overlaps(task).values())
    rows = [task.split(name).inputs(i).tobytes() for name in SPLITS for i in range(len(task.split(name)))]
    assert len(set(rows)) == len(rows) == 7000
    assert task.notes == ("the same 8 sources write in train, val and test",)


def test_lengths_are_uniform_between_their_bounds_and_differ_within_a_pair() -> None:
    lengths = PairsSpec(min_length=20, max_length=23).load(NOWHERE).train.lengths
    assert np.abs(np.bincount(lengths)[20:] - 1000).max() < 4 * math.sqrt(1000)
    assert 0.6 < (lengths[::2] != lengths[1::2]).mean() < 0.9


def test_a_pair_does_not_depend_on_how_many_there_are_nor_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    some = PairsSpec(**SMALL).load(NOWHERE)
    monkeypatch.setattr("headstart.tasks.stand_ins._LETTERS_AT_ONCE", 700)
    more = PairsSpec(**{**SMALL, "train": 50}).load(NOWHERE)
    assert np.array_equal(more.train.values[: some.train.offsets[-1]], some.train.values)
    assert np.array_equal(more.test.values, some.test.values)
    assert more.baselines[0].name == some.baselines[0].name


def test_another_seed_gives_other_pairs_and_the_same_one_the_same() -> None:
    first, again, other = (open_task(PairsSpec(data_seed=seed, **SMALL), NOWHERE) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(BadInput, match=r"min_length: 50 is more than max_length 40; take a smaller one"):
        read(PairsSpec, {"kind": "pairs", "min_length": 50, "max_length": 40}, "task")


def test_the_pairs_never_change() -> None:
    """Frozen: results hang on these bits."""
    task = PairsSpec(**SMALL).load(NOWHERE)
    assert task.text is not None
    assert [task.text(task.train.inputs(row))[:10] for row in (0, 1)] == ["ceamldoamf", "djiiinhgoa"]
    content = task.test.values.tobytes() + task.test.target.tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "cc5395cd234389e1"
