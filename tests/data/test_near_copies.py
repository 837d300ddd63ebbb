"""Copies with a little noise, on both sides of a split, are named before a score is believed; rows that are near each
other as rows are, and copies that a group keeps together, are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headstart.data import LayoutSpec, Sequences, alike, data_card, flatters, read_sequences
from headstart.data.alike import COPIED_SHARE, about_files, near_copies
from headstart.data.findings import FINDINGS

ROWS = 200
WAY = "far nearer to a few others than to the rest"
TIME = np.arange(50) / 50


def named(s: Sequences) -> bool:
    nearest = near_copies(s)
    return nearest is not None and nearest.near >= COPIED_SHARE * nearest.asked


def sequences(values: np.ndarray, labels: list[str], groups: list[str] | None = None) -> Sequences:
    return read_sequences(values, LayoutSpec(kind="numbers", target_kind="class"), labels=labels, groups=groups)


def labels_of(rng: np.random.Generator, count: int) -> list[str]:
    return rng.choice(list("abc"), count).tolist()


CLEAN: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "noise": lambda rng: rng.normal(size=(ROWS, 40)),
    "walks": lambda rng: np.cumsum(rng.normal(size=(ROWS, 60)), 1),
    "waves": lambda rng: np.sin(6.28 * (2 * TIME + rng.random((ROWS, 1)))) + rng.normal(size=(ROWS, 50)) / 10,
    "one wave of any size": lambda rng: np.sin(6.28 * TIME) * rng.normal(size=(ROWS, 1)),
    "pulses of any height": lambda rng: np.stack(
        [
            (abs(np.arange(64) - c) < w) * h
            for c, w, h in zip(rng.integers(5, 40, ROWS), rng.integers(2, 5, ROWS), 1 + rng.random(ROWS), strict=True)
        ]
    ),
    "events": lambda rng: (rng.random((ROWS, 40)) < 0.1) * 1.0,
    "few values": lambda rng: np.where(rng.random((ROWS, 40)) < 0.05, rng.normal(size=(ROWS, 40)), 0),
    "counts": lambda rng: rng.poisson(2, (ROWS, 40)).astype(float),
    "outliers": lambda rng: rng.standard_t(2, (ROWS, 40)),
    "loud and quiet": lambda rng: rng.normal(size=(ROWS, 40)) * np.exp(2 * rng.normal(size=(ROWS, 1))),
    "short": lambda rng: rng.normal(size=(ROWS, 8)),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CLEAN)
def test_rows_that_are_as_near_as_rows_are_no_copies(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert not named(sequences(CLEAN[name](rng), labels_of(rng, ROWS)))


def test_a_few_rows_that_lie_near_each_other_by_chance_are_no_copies() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        steps = np.arange(20) + rng.uniform(0, 9, (24, 1))
        kind = np.arange(24) % 2
        values = np.sin(steps * (0.3 + 0.9 * kind[:, None])) + rng.normal(0, 0.1, (24, 20))
        assert not named(sequences(values, list("ab") * 12)), seed


def test_waves_of_any_rate_and_rows_that_share_a_value_far_outside_are_no_copies() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        turns = np.arange(200) / rng.uniform(5, 10, (60, 1)) + rng.uniform(0, 6, (60, 1))
        assert not named(sequences(3 * np.sin(turns) + rng.normal(0, 0.03, turns.shape), list("ab") * 30)), seed
        values = rng.normal(size=(300, 100))
        assert not named(sequences(np.where(rng.random(values.shape) < 0.003, 40, values), list("ab") * 150)), seed


def test_classes_of_a_few_like_rows_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    labels = [f"class {i % 60}" for i in range(240)]
    values = rng.normal(size=(60, 40))[np.arange(240) % 60] + rng.normal(size=(240, 40)) / 20
    assert not named(sequences(values, labels))
    assert named(sequences(values, labels_of(rng, 240)))


BASES = {"noise": CLEAN["noise"], "walks": CLEAN["walks"]}


@pytest.mark.parametrize("share", [1.0, 0.2])
@pytest.mark.parametrize("name", BASES)
def test_copies_with_noise_are_named_with_two_of_them_and_a_group_mends_it(name: str, share: float) -> None:
    rng = np.random.default_rng(1)
    base, labels = BASES[name](rng), labels_of(rng, ROWS)
    copied = rng.permutation(ROWS)[: int(share * ROWS)]
    noise = rng.normal(size=(len(copied), base.shape[1])) * base.std() / 30
    order = rng.permutation(ROWS + len(copied))
    source = np.concatenate([np.arange(ROWS), copied])[order]
    values = np.concatenate([base, base[copied] + noise])[order]
    s = sequences(values, [labels[i] for i in source])
    (text,) = [text for text in data_card(s).findings if WAY in text]
    assert flatters(text)
    assert "--group" in text
    assert len([plain for plain in data_card(s).facts["doubts"] if WAY in plain and flatters(plain)]) == 1
    alike = near_copies(s)
    assert alike is not None
    assert source[alike.pair[0]] == source[alike.pair[1]]
    assert not named(sequences(values, [labels[i] for i in source], [f"g{i}" for i in source]))


@pytest.mark.parametrize(
    ("kind", "letters", "length"), [("dna", "ACGT", 120), ("protein", "ACDEFGHIKLMNPQRSTVWY", 150)]
)
def test_letters_of_which_a_few_are_changed_are_near_copies(kind: str, letters: str, length: int) -> None:
    rng = np.random.default_rng(2)
    base = rng.choice(list(letters), (ROWS, length))
    copies = np.where(rng.random(base.shape) < 0.02, rng.choice(list(letters), base.shape), base)
    spec = LayoutSpec(kind=kind, target_kind="class")  # type: ignore[arg-type]
    texts = ["".join(row) for row in [*base, *copies]]
    labels = labels_of(rng, ROWS)
    assert named(read_sequences(texts, spec, labels=labels * 2))
    assert not named(read_sequences(texts[:ROWS], spec, labels=labels))


def test_texts_of_one_form_are_no_copies() -> None:
    rng = np.random.default_rng(3)
    texts = [
        f"Dear {rng.choice(['Ann', 'Bob', 'Cy'])}, your order {rng.integers(1e6)} of {rng.choice(['tea', 'rice'])} is due"
        for _ in range(ROWS)
    ]
    assert not named(read_sequences(texts, LayoutSpec(target_kind="class"), labels=labels_of(rng, ROWS)))


def test_near_copies_that_are_looked_for_in_a_sample_of_many_rows_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(size=(ROWS, 30))
    s = sequences(np.concatenate([base, base + rng.normal(size=base.shape) / 30]), labels_of(rng, 2 * ROWS))
    monkeypatch.setattr(alike, "MOST_SKETCHED", ROWS)
    (text,) = [finding.text for finding in FINDINGS["near copies"](s, {})]
    assert f" looked at, among {ROWS:,} of {2 * ROWS:,}, are far nearer" in text
    (note,) = about_files(s, {"test": np.arange(ROWS, 2 * ROWS)})
    assert f" looked at, among {ROWS:,} of {2 * ROWS:,}, also stand in train" in note


@pytest.mark.parametrize("name", BASES)
def test_near_copies_of_train_in_a_test_file_are_named_and_other_rows_are_not(name: str) -> None:
    rng = np.random.default_rng(1)
    base = BASES[name](rng)
    labels, rows = labels_of(rng, ROWS + 40), {"test": np.arange(ROWS, ROWS + 40)}
    copies = base[:40] + rng.normal(size=(40, base.shape[1])) * base.std() / 30
    (note,) = about_files(sequences(np.concatenate([base, copies]), labels), rows)
    assert note.startswith("40 of 40 test sequences looked at also stand in train but for some noise")
    assert flatters(note)
    assert not about_files(sequences(np.concatenate([base, BASES[name](rng)[:40]]), labels), rows)
    # Copies within one file are the other finding's.
    inside = np.concatenate([base[:160], base[:40] + rng.normal(size=(40, base.shape[1])) / 30, BASES[name](rng)[:40]])
    assert not about_files(sequences(inside, labels), rows)


CHANGED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "moved": lambda x: x + 0.7,
    "scaled": lambda x: 1.4 * x,
    "standardised each": lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True),
}


@pytest.mark.parametrize("way", CHANGED)
def test_copies_of_train_in_a_test_file_on_another_scale_or_level_are_named(way: str) -> None:
    rng = np.random.default_rng(2)
    for base in (rng.normal(size=(ROWS, 40)), np.cumsum(rng.normal(size=(ROWS, 40)), 1)):
        values = np.concatenate([base, CHANGED[way](base[:40])])
        (note,) = about_files(sequences(values, labels_of(rng, ROWS + 40)), {"test": np.arange(ROWS, ROWS + 40)})
        assert "test sequences looked at also stand in train but for some noise" in note


def test_windows_of_a_test_file_that_overlap_those_of_train_are_named() -> None:
    rng = np.random.default_rng(3)
    recordings = np.cumsum(rng.normal(size=(ROWS, 60)), 1)
    rows, labels = {"test": np.arange(ROWS, ROWS + 40)}, labels_of(rng, ROWS + 40)
    for first, second in ((0, 7), (7, 0)):
        values = np.concatenate([recordings[:, first : first + 50], recordings[:40, second : second + 50]])
        (note,) = about_files(sequences(values, labels), rows)
        assert note.startswith("the beginnings of 40 sequences of the test file or of others also stand in the other")
        assert flatters(note)
