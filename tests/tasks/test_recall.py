"""MQAR, selective copying and induction heads, each against its definition, position by position."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart.errors import BadInput
from headstart.seeds import below
from headstart.sequence import IGNORE, Examples, collate
from headstart.spec import digest, read
from headstart.tasks.mad import CompressionSpec, FuzzyRecallSpec, InContextRecallSpec, MemorisationSpec
from headstart.tasks.recall import InductionHeadsSpec, MqarSpec, SelectiveCopyingSpec, distinct
from headstart.tasks.remarks import remarks
from headstart.tasks.task import SPLITS, open_task

NOWHERE = Path("nowhere")
SMALL: dict[str, Any] = {"train": 200, "val": 40, "test": 40}
KINDS = [MqarSpec, SelectiveCopyingSpec, InductionHeadsSpec]


def rows(x: Examples) -> list[tuple[list[int], list[int]]]:
    """Tokens and targets of each sequence."""
    assert x.target is not None
    ends = x.offsets.tolist()
    return [(x.inputs(i).tolist(), x.target[ends[i] : ends[i + 1]].tolist()) for i in range(len(x))]


def test_each_key_of_mqar_is_asked_for_once_and_its_value_is_the_target() -> None:
    task = MqarSpec(vocabulary=64, length=32, pairs=6, **SMALL).load(NOWHERE)
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            value_of = dict(zip(tokens[0:12:2], tokens[1:12:2], strict=True))
            assert len(value_of) == len(set(value_of.values())) == 6
            assert all(1 <= key < 32 for key in value_of)
            assert all(32 <= value < 64 for value in value_of.values())
            asked = [i for i, answer in enumerate(target) if answer != IGNORE]
            assert all(i >= 12 and i % 2 == 0 for i in asked)
            assert sorted(tokens[i] for i in asked) == sorted(value_of)
            assert [target[i] for i in asked] == [value_of[tokens[i]] for i in asked]
    assert (task.signature.classes, task.signature.width, task.signature.per_position) == (64, 64, True)
    assert [(line.val, line.test) for line in task.baselines] == [(1 / 6, 1 / 6)]


def test_gaps_of_mqar_follow_the_power_law_without_replacement() -> None:
    spec = MqarSpec(vocabulary=64, length=32, pairs=3, power=0.5)
    gaps = spec.gaps("stream", np.arange(40_000))
    share = np.arange(1, 14) ** -0.5
    share /= share.sum()
    assert np.bincount(gaps[:, 0], minlength=13) / 40_000 == pytest.approx(share, abs=0.01)
    second = [sum(share[i] * share[j] / (1 - share[j]) for j in range(13) if j != i) for i in range(13)]
    assert np.bincount(gaps[:, 1], minlength=13) / 40_000 == pytest.approx(second, abs=0.01)
    assert (np.diff(np.sort(gaps, axis=1), axis=1) > 0).all()


def test_positions_of_mqar_that_ask_nothing_are_random_or_0() -> None:
    settings: dict[str, Any] = {"vocabulary": 16, "length": 24, "pairs": 2, **SMALL}
    plain, random = (MqarSpec(random_others=others, **settings).load(NOWHERE).train for others in (False, True))
    for (tokens, target), (others, same) in zip(rows(plain), rows(random), strict=True):
        assert target == same
        rest = [i for i in range(4, 24) if target[i] == IGNORE]
        assert all(tokens[i] == 0 for i in rest)
        assert all(tokens[i] == others[i] for i in range(24) if i not in rest)
    counts = Counter(
        token for tokens, target in rows(random) for token in np.array(tokens)[4:][np.array(target)[4:] < 0]
    )
    assert set(counts) == set(range(16))


def test_selective_copying_asks_for_the_tokens_among_the_noise_in_their_order() -> None:
    task = SelectiveCopyingSpec(symbols=6, length=20, tokens=5, **SMALL).load(NOWHERE)
    places: Counter[int] = Counter()
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            copied = [token for token in tokens[:20] if token]
            assert target == [IGNORE] * 20 + copied
            assert tokens[20:] == [5] * 5
            assert len(copied) == 5
            assert set(copied) <= {1, 2, 3, 4}
            places.update(i for i in range(20) if tokens[i])
    assert min(places.values()) > 30
    assert task.text is not None
    assert task.text(np.array([0, 3, 5])) == ". c |"


def test_induction_heads_ask_for_the_token_after_the_first_trigger() -> None:
    task = InductionHeadsSpec(symbols=5, length=12, **SMALL).load(NOWHERE)
    first: Counter[int] = Counter()
    for split in SPLITS:
        for tokens, target in rows(task.split(split)):
            assert [i for i, token in enumerate(tokens) if token == 5][1:] == [11]
            assert target == [IGNORE] * 11 + [tokens[tokens.index(5) + 1]]
            first[tokens.index(5)] += 1
    assert set(first) == set(range(10))


def test_distinct_draws_one_of_those_that_are_left() -> None:
    drawn = distinct(3, "stream", 9, 9, np.arange(50))
    for number, row in enumerate(drawn.tolist()):
        left = list(range(9))
        assert row == [left.pop(int(below(3, "stream", 9 - i, number, i))) for i in range(9)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_is_the_same_whatever_the_sizes_chunks_and_splits_are(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = kind(**SMALL).load(NOWHERE)
    monkeypatch.setattr("headstart.tasks.recall._AT_ONCE", 700)
    more = kind(**{**SMALL, "train": 230}).load(NOWHERE)
    assert rows(more.train)[:200] == rows(whole.train)
    assert rows(more.val) == rows(whole.val)
    assert rows(kind(data_seed=1, **SMALL).load(NOWHERE).val) != rows(whole.val)


@pytest.mark.parametrize("kind", [*KINDS, InContextRecallSpec, FuzzyRecallSpec, CompressionSpec, MemorisationSpec])
def test_test_sequences_may_be_longer_and_reports_say_so(kind: type[Any]) -> None:
    usual, longer = (kind(length=32, test_length=size, **SMALL) for size in (None, 64))
    task, same = longer.load(NOWHERE), usual.load(NOWHERE)
    assert rows(task.train) == rows(same.train)
    assert rows(task.val) == rows(same.val)
    assert rows(task.test) == rows(kind(length=64, **SMALL).load(NOWHERE).test)
    assert task.signature.length == task.test.lengths.max() > task.train.lengths.max()
    assert any("40 of 40 test sequences are longer than any of train" in remark for remark in remarks(task))
    assert digest(usual.document()) == digest(kind(length=32, **SMALL).document()) != digest(longer.document())


def test_a_part_of_the_sequences_need_not_ask_for_every_token() -> None:
    task = open_task(MqarSpec(fraction=0.02, labelled=2, **SMALL), NOWHERE)
    assert (task.train.units, len(task.train.labelled_units())) == (4, 2)


@pytest.mark.parametrize(
    ("cls", "settings", "words"),
    [
        (MqarSpec, {"pairs": 17}, "pairs: 17 have no room in length 64 and vocabulary 8192; take at most 16"),
        (
            MqarSpec,
            {"pairs": 4, "vocabulary": 9},
            "take at most 3, or a length of at least 16 and a vocabulary of at least 10",
        ),
        (SelectiveCopyingSpec, {"tokens": 9, "length": 8}, "tokens: 9 have no room in length 8"),
        (
            MqarSpec,
            {"test_length": 8},
            "test_length: as the length of test sequences, pairs: 4 have no room in length 8",
        ),
    ],
)
def test_settings_without_room_are_refused(cls: type[Any], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(cls, settings)


MIXED: dict[str, Any] = {"vocabulary": 64, **SMALL}


def test_a_mixture_has_as_many_sequences_of_each_length_and_number_of_pairs() -> None:
    spec = read(MqarSpec, {"mixture": [[16, 2], [24, 3]], "test_mixture": [[16, 2], [24, 3], [48, 6]], **MIXED}, "task")
    task = spec.load(NOWHERE)
    for split, kinds in (("train", spec.mixture), ("val", spec.mixture), ("test", spec.test_mixture)):
        for number, (tokens, target) in enumerate(rows(task.split(split))):
            length, pairs = kinds[number % len(kinds)]
            assert (len(tokens), sum(answer != IGNORE for answer in target)) == (length, pairs)
            alone = MqarSpec(length=length, pairs=pairs, **MIXED)
            own, answers = alone.sequences(f"mqar/{split}", np.array([number]))
            assert (tokens, target) == (own[0].tolist(), answers[0].tolist())
    assert (task.signature.shortest, task.signature.length) == (16, 48)
    assert [(line.val, line.test) for line in task.baselines] == [(2 / 5, 3 / 11)]
    assert any("longer than any of train" in remark for remark in remarks(task))
    usual = MqarSpec(**MIXED)
    assert usual.load(NOWHERE).slices is None
    assert digest(usual.document()) != digest(spec.document())


def test_slices_of_a_mixture_are_length_pairs_and_distance_position_by_position() -> None:
    task = MqarSpec(mixture=((16, 2), (64, 9)), **MIXED).load(NOWHERE)
    assert task.slices is not None
    batch = collate(task.test, np.arange(8))
    slices = {name: x.tolist() for name, x in task.slices(batch).items()}
    for row, (tokens, target) in enumerate(rows(task.test)[:8]):
        asked = [i for i, answer in enumerate(target) if answer != IGNORE]
        for i in asked:
            distance = i - tokens.index(tokens[i])
            assert slices["length"][row][i] == len(tokens)
            assert slices["pairs"][row][i] == len(asked)
            assert slices["distance from"][row][i] <= distance < 2 * slices["distance from"][row][i]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mixture": [[16, 5]]}, r"mixture\[0\]: \[16, 5\] as \[length, pairs\]: pairs: 5 have no room in length 16"),
        ({"test_mixture": [[64, 4], [16]]}, r"test_mixture\[1\]: \[16\] is not \[length, pairs\]; write one such as"),
        ({"mixture": [[16, 2]], "length": 128}, "length: a mixture has lengths and pairs of its own; leave length out"),
        ({"mixture": [[16, 2]], "pairs": 8}, "pairs: a mixture has lengths and pairs of its own; leave pairs out"),
        ({"mixture": [[16, 2]], "test_length": 64}, "test_length: of a mixture, test_mixture says how long"),
        ({"mixture": [16, 2]}, r"mixture\[0\]"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused_with_a_way_out(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words) as error:
        read(MqarSpec, settings, "task")
    assert len(str(error.value).splitlines()) <= 2
