"""Runs of tokens against counting them one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.made_series import examples, words

from headstart.baselines import ngrams
from headstart.baselines.fitting import facts_of, from_arrays
from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.ngrams import HASH_BUCKETS, Ngrams, fit_ngrams, sizes_tried
from headstart.seeds import bits
from headstart.sequence import Signature


def runs_of(row: np.ndarray, longest: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row[i : i + k].tolist()) for k in range(1, longest + 1) for i in range(len(row) - k + 1))


def bucket(run: tuple[int, ...]) -> int:
    return int(bits(len(run), "classic/ngram", *run)) % HASH_BUCKETS


def test_runs_are_counted_within_their_sequence_and_weighted_by_rarity() -> None:
    x = examples([np.array(r) for r in ([0, 1, 2, 0, 1], [2], [0, 1], [2, 2, 2, 2])])
    result = fit_ngrams(x, 3)
    rows = [runs_of(x.values[a:b], 3) for a, b in zip(x.offsets[:-1], x.offsets[1:], strict=True)]
    every = {run for row in rows for run in row}
    assert result.columns.tolist() == sorted(bucket(run) for run in every)
    got = result.transform(x).toarray()
    for row, counts in enumerate(rows):
        wanted = np.zeros(len(result.columns))
        for run, count in counts.items():
            having = sum(run in other for other in rows)
            at = result.columns.tolist().index(bucket(run))
            wanted[at] = np.log1p(count) * (1 + np.log(5 / (1 + having)))
        assert got[row] == pytest.approx(wanted / np.linalg.norm(wanted), rel=1e-5)


@pytest.mark.parametrize("placed", [0, 19])
def test_runs_are_counted_apart_by_rough_place_too(placed: int) -> None:
    rng = np.random.default_rng(0)
    sizes = [19] * 25 if placed else rng.integers(5, 140, 25).tolist()
    x = examples([rng.integers(3, size=size) for size in sizes])

    def places(at: int, size: int) -> list[tuple[str, int]]:
        """Two tilings of windows of 8; or how often the distance from either end, in windows, doubles: 1, 2, 4, ..."""
        if placed:
            return [("0", at // 8), ("4", (at + 4) // 8)]
        return [(end, min(len(f"{far // 8 + 1:b}") - 1, 5)) for end, far in (("first", at), ("last", size - 1 - at))]

    def counted(row: np.ndarray) -> Counter[int]:
        out = Counter({bucket(run): count for run, count in runs_of(row, 2).items()})
        for k in (1, 2, 3):
            for i in range(len(row) - k + 1):
                for name, window in places(i, len(row)):
                    hashed = bits(k, f"classic/ngram/{name}", *row[i : i + k].tolist(), window)
                    out[int(hashed) % HASH_BUCKETS + HASH_BUCKETS] += 1
        return out

    rows = [counted(x.values[a:b]) for a, b in zip(x.offsets[:-1], x.offsets[1:], strict=True)]
    having = Counter(run for row in rows for run in row)
    result = fit_ngrams(x, 2, placed, 3, near=3)
    assert result.columns.tolist() == sorted(run for run, count in having.items() if count > 1)
    got = result.transform(x).toarray()[:, : len(result.columns)]
    for row, counts in enumerate(rows):
        values = [np.log1p(counts[run]) * (1 + np.log(26 / (1 + having[run]))) for run in result.columns.tolist()]
        for side in (result.columns < HASH_BUCKETS, result.columns >= HASH_BUCKETS):
            wanted = np.where(side, values, 0)
            assert got[row][side] == pytest.approx((wanted / np.linalg.norm(wanted))[side], rel=1e-5)


def test_beyond_the_places_of_training_no_run_has_a_rough_place() -> None:
    rows = np.random.default_rng(0).integers(3, size=(25, 19))
    result = fit_ngrams(examples([*rows]), 1, 19, 3, near=1)
    longer = np.concatenate([rows[0], rows[1]])
    plain = replace(result, near=0, placed=0, width=0)
    apart = result.transform(examples([rows[0], longer])).toarray()[:, : len(result.columns)] > 0
    runs = plain.transform(examples([rows[0], longer])).toarray() > 0
    assert (apart[1] & ~runs[1]).sum() == (apart[0] & ~runs[0]).sum(), "those of the first 19 alone"


def test_rough_places_are_tried_of_few_letters_alone_and_a_fit_on_all_rows_takes_what_was_chosen() -> None:
    tokens = Signature("tokens", 15, 9, 9, "class", 2)
    assert sizes_tried(tokens, np.full(4, 9), rough=True) == [(3, 0, 0), (3, 9, 4), (6, 0, 0), (6, 9, 4)]
    assert sizes_tried(tokens, np.array([9, 8]), rough=True) == [(3, 0, 0), (3, 0, 4), (6, 0, 0), (6, 0, 4)]
    assert sizes_tried(replace(tokens, width=25), np.array([9, 8]), rough=True)[1] == (3, 0, 1)
    assert sizes_tried(replace(tokens, width=256), np.full(4, 9), rough=True) == [(4, 0, 0)]
    rng = np.random.default_rng(0)
    rows = rng.integers(15, size=(80, 9))
    rows[::2, 3:5] = 1  # a motif in one window of half of the rows, in another of the others
    rows[1::2, 7:] = 1
    train = replace(examples([*rows]), target=np.arange(80) % 2)
    first = KernelsSpec(rough=True).fit(train.take(np.arange(40)), train.take(np.arange(40, 80)), tokens, 0)
    assert first.facts.sizes["near"] == 4
    again = KernelsSpec(**KernelsSpec(rough=True).choices(first.facts)).fit(train, train.take(np.arange(0)), tokens, 0)
    assert again.facts.sizes == first.facts.sizes
    read = from_arrays(first.facts.model_dump(mode="json"), first.arrays())
    assert np.array_equal(read.predict(train), first.predict(train))


def test_a_file_of_before_has_no_rough_places() -> None:
    spec, rows = KernelsSpec(), examples([np.arange(6) % 3] * 4)
    facts = facts_of(spec.kind, replace(rows, target=np.arange(4) % 2), Signature("tokens", 3, 6, 6, "class", 2))
    old = facts.model_copy(update={"features": "ngrams", "size": 3, "sizes": {"longest": 2, "placed": 0}})
    arrays: dict[str, np.ndarray] = {"columns": np.arange(3), "rarity": np.ones(3, np.float32)}
    assert Ngrams.from_arrays(old, arrays).near == 0


def test_a_run_that_was_not_seen_in_training_is_nothing() -> None:
    result = fit_ngrams(examples([np.array([0, 1, 0])]), 2)
    rows = result.transform(examples([np.array([3, 4]), np.array([0, 3])])).toarray()
    assert rows[0].tolist() == [0.0] * result.size
    assert np.linalg.norm(rows[1]) == pytest.approx(1)


def test_what_only_one_of_many_sequences_has_is_left_out() -> None:
    x = examples([np.array([0, 1])] * 19 + [np.array([0, 5])])
    assert sorted(fit_ngrams(x, 1).columns) == sorted([bucket((0,)), bucket((1,))])


def test_the_commonest_runs_are_kept_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "MOST_BUCKETS", 1)
    x = examples([np.array([0, 1]), np.array([1]), np.array([1, 2])])
    assert fit_ngrams(x, 2).columns.tolist() == [bucket((1,))]


def test_tokens_at_their_places_are_features_of_their_own() -> None:
    x = examples([np.array([0, 2, 1]), np.array([2, 2, 0])])
    result = fit_ngrams(x, 1, placed=3, width=3)
    rows = result.transform(examples([np.array([0, 2, 1]), np.array([1, 2, 1, 0, 0]), np.array([2])])).toarray()
    path = rows[:, -9:].reshape(3, 3, 3) * 3**0.5
    eye = np.eye(3)
    assert path[0] == pytest.approx(eye[[0, 2, 1]])
    assert path[1] == pytest.approx(eye[[1, 2, 1]])
    assert path[2] == pytest.approx(np.stack([eye[2], np.zeros(3), np.zeros(3)]))


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = words(20, 0)
    whole = fit_ngrams(x, 4).transform(x).toarray()
    monkeypatch.setattr(ngrams, "TOKENS_AT_ONCE", 50)
    assert np.array_equal(fit_ngrams(x, 4).transform(x).toarray(), whole)


def test_what_a_prediction_sums_is_the_product_with_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "TOKENS_AT_ONCE", 50)
    x = words(20, 0)
    result = fit_ngrams(x, 3, placed=4, width=int(x.values.max()) + 1)
    weights = np.random.default_rng(0).standard_normal((result.size, 2))
    ((rows, first, entries),) = result.tables(x)
    assert (rows, first, entries.shape) == (slice(None), 0, (20, result.size))
    np.testing.assert_allclose(entries @ weights, result.transform(x).toarray() @ weights, rtol=1e-12, atol=1e-12)


def test_symbols_that_no_two_sequences_share_are_counted_though_they_tell_nothing_of_others() -> None:
    x = examples([np.arange(3) + 3 * i for i in range(24)])
    assert fit_ngrams(x, 1).size > 60
    assert fit_ngrams(examples([np.arange(3) + i for i in range(24)]), 1).size == 24
