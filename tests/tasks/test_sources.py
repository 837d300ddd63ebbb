"""Sequences of made-up sources: against a slow writer, what counts of symbols tell, and the task."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.trivial import trivial_scores

from headstart.data.splits import overlaps
from headstart.seeds import below, bits
from headstart.tasks.stand_ins import SourcesSpec
from headstart.tasks.task import SPLITS, open_task

NOWHERE = Path("nowhere")
SMALL: dict[str, Any] = {"train": 40, "val": 16, "test": 24}


def slow_sequence(spec: SourcesSpec, split: str, row: int, source: int) -> list[int]:
    """What a source writes, one symbol after another."""
    order, stream, seed = spec.orders()[source, 0], f"sources/{split}", spec.data_seed
    room = spec.max_length - spec.min_length + 1
    out: list[int] = []
    for t in range(spec.min_length + int(below(seed, f"{stream}/length", room, row))):
        word = int(bits(seed, f"{stream}/steps", t, row))
        follows = t >= spec.lag and word % 8 < 6
        out.append(int(order[out[t - spec.lag]]) if follows else word // 8 * spec.symbols // 2**29)
    return out


@pytest.mark.parametrize("lag", [1, 3])
def test_sequences_are_what_sources_write_symbol_by_symbol(lag: int) -> None:
    spec = SourcesSpec(data_seed=2, symbols=11, min_length=16, max_length=33, lag=lag, **SMALL)
    task = spec.load(NOWHERE)
    for split in SPLITS:
        x = task.split(split)
        assert x.target is not None
        for row in range(len(x)):
            assert x.inputs(row).tolist() == slow_sequence(spec, split, row, int(x.target[row]))


def test_every_source_writes_as_much_and_no_sequence_occurs_twice() -> None:
    task = SourcesSpec().load(NOWHERE)
    assert task.labels == tuple(f"source {i}" for i in range(1, 9))
    assert np.bincount(task.train.target).tolist() == [250] * 8
    assert not any(overlaps(task).values())


def test_no_source_writes_a_symbol_more_often_and_what_follows_at_the_lag_tells_it() -> None:
    spec = SourcesSpec(sources=4, symbols=8, lag=3, train=4000, val=8, test=8)
    x = spec.load(NOWHERE).train
    orders = spec.orders()[:, 0]
    right = 0
    for source in range(4):
        counts = np.bincount(np.concatenate([x.inputs(row) for row in np.flatnonzero(x.target == source)]), minlength=8)
        assert np.abs(counts / counts.sum() - 1 / 8).max() < 0.01
    for row in range(400):
        symbols = x.inputs(row)
        follows = Counter({source: int((orders[source][symbols[:-3]] == symbols[3:]).sum()) for source in range(4)})
        right += follows.most_common(1)[0][0] == x.target[row]
    assert right >= 396


def test_counts_tell_a_little_of_the_source_because_short_cycles_repeat_their_symbols() -> None:
    spec = SourcesSpec(symbols=8, min_length=32, max_length=32, labelled=40)
    scores = trivial_scores(spec, open_task(spec, NOWHERE))
    assert scores["majority class"] == 0.125
    assert 0.3 < scores["1-nearest neighbour on token counts"] < 0.6


def test_the_sequences_never_change() -> None:
    """Frozen: results of the demo hang on these bits."""
    task = SourcesSpec(**SMALL).load(NOWHERE)
    assert task.text is not None
    assert task.text(task.train.inputs(0))[:10] == "efmhbjnbak"
    content = task.test.values.tobytes() + task.test.target.tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "b4d86bff6ae9f16f"
