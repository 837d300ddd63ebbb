"""What can be read and may be wrong all the same: words and numbers for missing, odd letters, rows that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import LayoutSpec, data_card, read_sequences
from headstart.data.findings.marks import sentinels
from headstart.data.sequences import shared_with_neighbours
from headstart.errors import BadInput
from headstart.spec import read as read_spec
from headstart.tasks.own import OwnSpec

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(24, 12)).round(3)


def table(path: Path, labels: Sequence[object], values: np.ndarray = VALUES) -> Path:
    rows = [",".join(["label", *(f"t{i}" for i in range(values.shape[1]))])]
    rows += [",".join([str(label), *map(str, row.tolist())]) for label, row in zip(labels, values, strict=True)]
    return write(path, "\n".join(rows))


def card_text(path: Path, **settings: object) -> str:
    card = data_card(read(path, **settings))
    return "\n".join([*card.findings, *(text for _, text in card.head)])


@pytest.mark.parametrize("word", ["NA", "None", "null", "n/a", "?", "N/A", "missing", "unknown"])
def test_a_class_that_is_a_word_for_missing_is_said(tmp_path: Path, word: str) -> None:
    path = table(tmp_path / "f.csv", [*(6 * [word]), *(9 * ["a", "b"])])
    text = card_text(path)
    assert f"the class '{word}' (6) may be the absence of a label; where that is so, give --na" in text
    assert "absence of a label" not in card_text(path, na=(word,))


def test_a_class_named_nan_is_said_to_be_lost(tmp_path: Path) -> None:
    path = table(tmp_path / "f.csv", [*(6 * ["nan"]), *(9 * ["a", "b"])])
    assert (
        "the label 'nan' of 6 rows is taken for a missing one; where it is a class, give it another name"
        in card_text(path)
    )
    assert "taken for" not in card_text(path, na=("nan",))
    assert "taken for" not in card_text(table(tmp_path / "g.csv", ["nan", *np.arange(23) / 7]), target="label")


def test_classes_that_differ_in_case_are_said_and_marks_of_a_grade_are_not(tmp_path: Path) -> None:
    text = card_text(table(tmp_path / "f.csv", 6 * ["Walk fast", "walk_fast", "rest", "rest"]))
    assert "the classes 'Walk fast' (6) and 'walk_fast' (6) differ in case or blanks alone" in text
    for labels in (["A", "A-", "A+"], ["-1", "1", "+2"]):
        assert "differ in case" not in card_text(table(tmp_path / "g.csv", 8 * labels, VALUES), target_kind="class")


@pytest.mark.parametrize("mark", [-9999.0, -999.0, -32768.0, 999.0, 65535.0, -999.25, 99999.9])
def test_sentinels_are_said_in_channels_and_in_the_target(tmp_path: Path, mark: float) -> None:
    values, target = VALUES.copy(), RNG.uniform(0, 9, 24).round(2)
    values[3, 4] = values[5, 1] = target[2] = mark
    name = f"{mark:g}"
    text = card_text(table(tmp_path / "f.csv", target.tolist(), values), target="label")
    assert f"channel 't' holds {name} in 2 of 24 sequences, 2 times ({tmp_path}/f.csv:5 column 't4'), far" in text
    assert f"the target is {name} in 1 row ({tmp_path}/f.csv:4 column 'label'), far" in text
    assert f"--na {name} reads it so" in text
    assert "far from" not in card_text(table(tmp_path / "f.csv", target.tolist(), values), target="label", na=(name,))


def test_numbers_within_the_range_of_the_others_are_no_sentinels() -> None:
    assert not sentinels(np.arange(-1200.0, 1000.0))
    assert not sentinels(np.array([-32768.0, -32000.0, 5.0, 31000.0, 32767.0]))
    assert not sentinels(np.array([0.0, 999.0]))
    assert sentinels(np.array([1.0, 2.0, 3.0, -999.0, -9999.0, -9999.0])) == {-9999.0: 2, -999.0: 1}


def test_a_target_far_from_all_others_and_one_that_never_changes_are_said(tmp_path: Path) -> None:
    target = [*RNG.uniform(0, 9, 23).round(2).tolist(), 1234.5]
    assert "the target 1234.5 lies far from all others" in card_text(table(tmp_path / "f.csv", target), target="label")
    assert "every target is 5.5, so that" in card_text(table(tmp_path / "g.csv", 24 * [5.5]), target="label")


@pytest.mark.parametrize(
    ("letters", "kind", "noun"), [("ACGT", "dna", "base"), ("ACDEFGHIKLMNPQRSTVWY", "protein", "amino acid")]
)
@pytest.mark.parametrize("odd", ["-", "7", "J"])
def test_an_odd_letter_makes_no_text_of_letters(tmp_path: Path, letters: str, kind: str, noun: str, odd: str) -> None:
    texts = ["".join(RNG.choice(list(letters), 60)) for _ in range(20)]
    plain = write(tmp_path / "f.fa", "".join(f">s{i} {'ab'[i % 2]}\n{text}\n" for i, text in enumerate(texts)))
    assert read(plain).kind == kind
    texts[3] = texts[3][:7] + odd + texts[3][8:]
    path = write(tmp_path / "f.fa", "".join(f">s{i} {'ab'[i % 2]}\n{text}\n" for i, text in enumerate(texts)))
    message = why(path)
    assert message.startswith(f"f.fa:7 column 'sequence': letter 8 is '{odd}', no {noun}")
    assert "--kind text reads all as text" in message
    assert read(path, kind="text").kind == "text"


def windows(step: int, length: int = 40, count: int = 20) -> np.ndarray:
    walk = np.cumsum(RNG.normal(size=(count * step + length, 2)), axis=0)
    return np.stack([walk[i * step : i * step + length] for i in range(count)])


@pytest.mark.parametrize(("step", "share"), [(20, 0.5), (10, 0.75), (36, 0.1), (40, 0.0)])
def test_rows_that_overlap_are_measured(step: int, share: float) -> None:
    array = windows(step)
    assert shared_with_neighbours(read_sequences(array)) == pytest.approx(share, abs=1e-6)
    assert shared_with_neighbours(read_sequences(array[::-1])) == pytest.approx(share, abs=1e-6)
    assert not shared_with_neighbours(read_sequences(array[RNG.permutation(20)])) > share / 2


def test_rows_that_are_alike_by_their_nature_do_not_overlap() -> None:
    waves = np.sin(np.arange(40) * 2 * np.pi / 8)[None] * np.ones((20, 1))
    still = np.concatenate([RNG.normal(size=(20, 10)), np.zeros((20, 30))], axis=1)
    bits = RNG.integers(0, 2, (20, 40))
    texts = ["".join(RNG.choice(list("ACGT"), 80)) for _ in range(20)]
    for data in (waves, np.roll(still, 30, axis=1), still, bits, ["ab" * 30, "ba" * 30] * 10, texts):
        assert shared_with_neighbours(read_sequences(data)) == 0


def test_overlapping_rows_without_a_group_make_every_score_optimistic(tmp_path: Path) -> None:
    path = table(tmp_path / "f.csv", 12 * ["a", "b"], windows(10, 40, 24)[:, :, 0])
    words = "neighbouring rows have 75 % of their values in common"
    assert words in card_text(path)
    assert "every score is optimistic; name the recording with --group" in card_text(path)
    task = read_spec(OwnSpec, {"file": str(path)}).load(tmp_path)
    assert any(words in note for note in task.notes)
    grouped = read_sequences(windows(10), LayoutSpec(), groups=["x", "y"] * 10)
    assert not any("optimistic" in text for text in data_card(grouped).findings)


def test_a_protein_with_a_letter_that_has_no_id_is_refused_by_its_place_and_is_no_text(tmp_path: Path) -> None:
    rows = [f">p{i} {kind}\nMGVMPXBZUOJIMGLNNRAQ" for i, kind in enumerate(["soluble", "membrane"] * 4)]
    (tmp_path / "a.faa").write_text("\n".join(rows))
    with pytest.raises(BadInput, match=r"letter 11 is 'J', no amino acid"):
        read_sequences(tmp_path / "a.faa")
