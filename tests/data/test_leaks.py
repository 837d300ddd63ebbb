"""What tells the label of pure noise beside its values is said before a score is believed, and noise without it is not
accused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_outcomes import outcome
from support.made_tables import read, write

from headstart.data import LayoutSpec, Sequences, alike, card, data_card, flatters, neighbours, padding, read_sequences
from headstart.data.findings import FINDINGS
from headstart.data.findings.leaks import about_leaks
from headstart.data.neighbours import about_order, about_pieces, beginning_inside
from headstart.estimator.inputs import warn_of_leaks
from headstart.fitted.page import write_page
from headstart.ways import in_python

ROWS = 80
CLASS = np.arange(ROWS) % 2
LABELS = ["ab"[k] for k in CLASS]


def noise(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ragged(lengths: np.ndarray) -> Sequences:
    """Sequences of noise of these lengths."""
    return read_sequences([noise(i).normal(size=length) for i, length in enumerate(lengths)], labels=LABELS)


def with_gaps(gaps: Any) -> Sequences:
    """Sequences of two channels of noise; gaps: (row, values (40, 2)) -> None."""
    values = noise().normal(size=(ROWS, 40, 2))
    for row in range(ROWS):
        gaps(row, values[row])
    return read_sequences(values, labels=LABELS)


def long(path: Path, each: Any, label: Any = lambda i: LABELS[i]) -> Sequences:
    """A long table of recordings of 12 positions; each: recording -> (first time, step, setting)."""
    rng, lines = noise(), ["recording,time,x,gain,label"]
    for i in range(ROWS):
        begin, step, gain = each(i)
        lines += [f"r{i},{begin + t * step:.4f},{rng.normal():.4f},{gain},{label(i)}" for t in range(12)]
    return read(write(path / "f.csv", "\n".join(lines)))


def one_or_other(row: int, values: np.ndarray) -> None:
    values[5:20, CLASS[row]] = np.nan


def scattered_or_whole(row: int, values: np.ndarray) -> None:
    first = int(noise(row).integers(5, 25))
    values[first : first + (6 if CLASS[row] else 12) : 1 if CLASS[row] else 2] = np.nan


def padded(row: int, values: np.ndarray) -> None:
    values[(36 if CLASS[row] else 30) - row % 3 :] = 0


LENGTHS = 30 + 8 * CLASS + noise().integers(0, 10, ROWS)
LEAKS = {
    "the length": lambda _: ragged(LENGTHS),
    "the number of equal values at the end": lambda _: with_gaps(padded),
    "the number of gaps": lambda _: with_gaps(scattered_or_whole),
    "the share of missing values of 'channel 1'": lambda _: with_gaps(one_or_other),
    "the step of time": lambda path: long(path, lambda i: (0, 0.010 + 0.001 * CLASS[i], i % 7)),
    "the channel 'gain', which does not change within any sequence,": lambda path: long(
        path, lambda i: (0, 0.01, 20 + 2 * CLASS[i] + noise(i).normal() / 3)
    ),
}


def table(path: Path, values: np.ndarray, columns: dict[str, Any] | None = None, names: Any = None) -> Sequences:
    """A wide table of numbers (ROWS, L), with further columns before them."""
    columns = {"label": LABELS} | (columns or {})
    names = names or [f"t{i}" for i in range(values.shape[1])]
    lines = [",".join([*columns, *names])]
    for i, row in enumerate(values):
        lines.append(",".join([*(str(cells[i]) for cells in columns.values()), *(f"{x:.4f}" for x in row)]))
    return read(write(path / "f.csv", "\n".join(lines)))


def marked(path: Path) -> Sequences:
    """Recordings with a channel that is 0 but for a mark of the class at some position."""
    rng, lines = noise(), ["recording,time,x,trigger,label"]
    for i in range(ROWS):
        at = int(rng.integers(2, 10))
        lines += [f"r{i},{t / 100},{rng.normal():.4f},{(1 + CLASS[i]) * (t == at)},{LABELS[i]}" for t in range(12)]
    return read(write(path / "f.csv", "\n".join(lines)))


def spoilt(letters: np.ndarray, k: int) -> str:
    """DNA of which one class has more bases that nobody knows."""
    letters[noise(k).choice(len(letters), 6 if k else 1, replace=False)] = "N"
    return "".join(letters)


def gap(row: int, values: np.ndarray) -> None:
    first = int(noise(row).integers(2, 12)) + 18 * CLASS[row]
    values[first : first + 6] = np.nan


def begun(row: int, values: np.ndarray) -> None:
    values[: (10 if CLASS[row] else 4) - row % 3] = values[0]


WORDS = ["rain", "the", "film", "was", "of", "long", "people"]
SAID = [f"__label__{k} " + " ".join(noise(i).choice(WORDS, 12)) for i, k in enumerate(["pos", "neg"] * (ROWS // 2))]
NO_VALUE: dict[str, Callable[[Path], Sequences]] = {
    "the place of the first gap": lambda _: with_gaps(gap),
    "the number of equal values at the beginning": lambda _: with_gaps(begun),
    "which marks stand in the channel 'trigger'": marked,
    "the column '440'": lambda path: table(
        path,
        np.insert(noise().normal(size=(ROWS, 20)), 8, 3 - CLASS, axis=1),
        None,
        [f"{400 + 5 * i}" for i in range(21)],
    ),
    "the column 'camera', which is not used,": lambda path: table(
        path, noise().normal(size=(ROWS, 20)), {"camera": [f"cam{k}" for k in CLASS]}
    ),
    "the column 'day', which is not used,": lambda path: table(
        path, noise().normal(size=(ROWS, 20)), {"day": [f"2024-05-0{1 + k + 2 * (i % 3)}" for i, k in enumerate(CLASS)]}
    ),
    "the share of N": lambda _: read_sequences(
        [spoilt(noise(i).choice(list("ACGT"), 60), k) for i, k in enumerate(CLASS)], labels=LABELS
    ),
    "what stands in the first 8 places": lambda _: read_sequences(
        [["ACGTTGCATG", "TTGACCATGG"][k] + "".join(noise(i).choice(list("ACGT"), 60)) for i, k in enumerate(CLASS)],
        labels=LABELS,
    ),
    "the name of a class in a text": lambda _: read_sequences(SAID, labels=["pos", "neg"] * (ROWS // 2)),
}
"""What is no value, or is the label itself, and tells the class of noise."""


@pytest.mark.parametrize("name", NO_VALUE)
def test_what_is_no_value_of_noise_is_named_where_it_tells_the_class_and_only_there(name: str, tmp_path: Path) -> None:
    s = NO_VALUE[name](tmp_path)
    (text,) = about_leaks(s)
    assert text.startswith(f"{name} alone tells the class of 80 of 80 sequences (the commonest class: 40)")
    assert flatters(text)
    assert text in data_card(s).facts["doubts"]
    for seed in range(5):
        assert not about_leaks(replace(s, labels=tuple(noise(seed).permutation(s.labels).tolist())))


def test_a_target_that_stands_among_the_values_is_named() -> None:
    values = noise().normal(size=(ROWS, 30)).astype(np.float32)
    spec = LayoutSpec(target_kind="number")
    (text,) = about_leaks(read_sequences(values, spec, labels=[repr(float(x)) for x in values[:, 7]]))
    assert text.startswith("position 8 alone goes with the target (rank correlation 1.00)")
    near = values[:, 7] + noise(1).normal(size=ROWS) / 1000
    assert not about_leaks(read_sequences(values, spec, labels=[repr(float(x)) for x in near]))


def sessions() -> np.ndarray:
    """Rows of noise of ten sessions, each with a level of its own."""
    return noise().normal(size=(120, 30)) + np.repeat(noise(1).normal(size=10) * 2, 12)[:, None]


def campaign() -> np.ndarray:
    """Rows of noise of a sensor that drifts from day to day."""
    return noise().normal(size=(120, 30)) + np.linspace(0, 5, 120)[:, None]


@pytest.mark.parametrize("make", [sessions, campaign])
def test_rows_that_are_like_those_beside_them_are_named_until_a_group_keeps_them_together(
    make: Callable[[], np.ndarray],
) -> None:
    values, labels = make(), np.repeat(["a", "b"], 60)
    (text,) = about_order(read_sequences(values, labels=labels.tolist()))
    assert text.startswith("rows that follow each other are alike beside their class (rank correlation of the mean of ")
    assert flatters(text)
    assert text in data_card(read_sequences(values, labels=labels.tolist())).findings
    groups = [f"g{i // 12}" for i in range(120)]
    assert not about_order(read_sequences(values, labels=labels.tolist(), groups=groups))
    short = [row[: 20 if i == 119 else 30] for i, row in enumerate(values)]  # in the order of their lengths
    assert about_order(read_sequences(short, labels=labels.tolist()))
    mixed = noise(2).permutation(120)
    assert not about_order(read_sequences(values[mixed], labels=labels[mixed].tolist()))


def test_rows_in_the_order_of_their_class_target_or_size_are_no_session() -> None:
    for seed in range(10):
        rng = noise(seed)
        values = rng.normal(size=(120, 30)) + np.repeat([0, 3, 5], 40)[:, None]
        assert not about_order(read_sequences(values, labels=[*np.repeat(["a", "b", "c"], 40)]))
        target = np.sort(rng.normal(size=120))
        sloped = rng.normal(size=(120, 30)) + 3 * target[:, None]
        spec = LayoutSpec(target_kind="number")
        assert not about_order(read_sequences(sloped, spec, labels=[f"{x:.4f}" for x in target]))
        curved = rng.normal(size=(120, 30)) + 3 * np.sin(np.linspace(0, 20, 120))[:, None]
        assert not about_order(read_sequences(curved, spec, labels=[f"{x:.4f}" for x in target]))
        sizes = values[np.argsort(values.mean(1))]
        assert not about_order(read_sequences(sizes, labels=[*rng.permutation(["a", "b"] * 60)]))


def test_windows_that_overlap_are_told_though_each_was_standardised() -> None:
    windows = pieces(20, 40)[:, :, 0]
    each = (windows - windows.mean(1, keepdims=True)) / windows.std(1, keepdims=True)
    (text,) = about_pieces(read_sequences(each))
    assert text.startswith("neighbouring rows overlap but for their scale and level")
    assert flatters(text)
    assert not about_pieces(read_sequences(each, groups=["x", "y"] * 30))
    waves = np.sin(np.arange(40) * 0.4 + noise().uniform(0, 6, (60, 1)))
    assert not about_pieces(read_sequences(waves))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            [f"s{i % 10:02}" if i % 4 < 2 else f"S{i % 10}" for i in range(ROWS)],
            "10 groups are written in several ways",
        ),
        (
            [f"s{i // 2 % 10}_{k}" for i, k in enumerate(LABELS)],
            "the names of 20 groups hold their class, such as 's0_a'",
        ),
    ],
)
def test_groups_that_are_one_as_it_seems_are_named(groups: list[str], words: str) -> None:
    s = read_sequences(noise().normal(size=(ROWS, 20)), labels=LABELS, groups=groups)
    (finding,) = FINDINGS["groups"](s, {})
    assert finding.text.startswith(words)
    assert flatters(finding.text)
    assert not any(group in finding.plain for group in groups)
    other = [f"s{i % 16:02}" for i in range(ROWS)]
    assert not list(FINDINGS["groups"](replace(s, groups=tuple(other)), {}))
    counted = [f"{k}_{i // 4:02}" for i, k in enumerate(LABELS)]  # others of each class, as patient_01 and control_01
    assert not list(FINDINGS["groups"](replace(s, groups=tuple(counted)), {}))


@pytest.mark.parametrize("name", LEAKS)
def test_what_tells_the_label_of_noise_is_named_with_how_often_it_does(name: str, tmp_path: Path) -> None:
    s = LEAKS[name](tmp_path)
    (text,) = about_leaks(s)
    assert text.startswith(f"{name} alone tells the class of ")
    assert "of 80 sequences (the commonest class: 40)" in text
    assert flatters(text)
    card = data_card(s)
    assert text in card.findings
    assert text in card.facts["doubts"]


def test_a_length_that_goes_with_a_number_is_named() -> None:
    lengths = noise().integers(20, 60, ROWS)
    values = [noise(i).normal(size=length) for i, length in enumerate(lengths)]
    s = read_sequences(values, LayoutSpec(target_kind="number"), labels=[f"{x / 7:.3f}" for x in lengths])
    assert about_leaks(s)[0].startswith("the length alone goes with the target (rank correlation 1.00)")


def test_lengths_of_texts_and_letters_are_looked_at() -> None:
    rng = noise()
    texts = [" ".join(rng.choice(["red", "blue", "green"], 8 + 5 * k)) for k in CLASS]
    assert about_leaks(read_sequences(texts, labels=LABELS))[0].startswith("the length alone tells the class of ")
    letters = ["".join(rng.choice(list("ACGT"), 40 + 20 * k)) for k in CLASS]
    assert about_leaks(read_sequences(letters, labels=LABELS))[0].startswith("the length alone tells the class of 80 ")


@pytest.mark.parametrize(
    ("ends", "name"),
    [((" ", ""), "a blank or an empty line at the end"), (("\r\nx", "\nx"), "a carriage return at the ends of lines")],
)
def test_blanks_and_ends_of_lines_that_nobody_sees_are_named_where_they_tell_the_class(
    ends: tuple[str, str], name: str
) -> None:
    rng = noise()
    texts = [" ".join(rng.choice(["red", "blue", "green"], int(rng.integers(4, 20)))) for _ in CLASS]
    (text,) = about_leaks(read_sequences([text + ends[k] for text, k in zip(texts, CLASS, strict=True)], labels=LABELS))
    assert text.startswith(f"{name} alone tells the class of 80 of 80 sequences")
    mixed = [text + ends[int(rng.integers(2))] for text in texts]
    assert not about_leaks(read_sequences(mixed, labels=LABELS))


def test_runs_of_equal_values_that_stand_anywhere_are_no_filling() -> None:
    rng = noise()
    on = (rng.random((ROWS, 40, 1)) < (0.1 + 0.4 * CLASS)[:, None, None]) * 230.0
    assert not about_leaks(read_sequences(on, LayoutSpec(kind="numbers"), labels=LABELS))
    pulses = np.zeros((ROWS, 60, 1))
    for row, k in enumerate(CLASS):
        begin = 3 + int(rng.integers(3))
        pulses[row, begin : begin + 25 + 15 * k] = rng.random((25 + 15 * k, 1)) + 1
    assert not about_leaks(read_sequences(pulses, labels=LABELS))
    still = rng.normal(size=(ROWS, 40, 1)) * CLASS[:, None, None]  # one class does not change
    assert not about_leaks(read_sequences(still, labels=LABELS))


@pytest.mark.parametrize("seed", range(5))
def test_traits_that_tell_nothing_are_not_named(seed: int, tmp_path: Path) -> None:
    rng = noise(seed)
    values = [rng.normal(size=length) for length in rng.integers(5, 60, ROWS)]
    assert not about_leaks(read_sequences(values, labels=[*rng.permutation(LABELS)]))
    assert not about_leaks(read_sequences(values, labels=[*rng.choice(list("abcdefgh"), ROWS)]))
    numbers = [f"{x:.3f}" for x in rng.normal(size=ROWS)]
    assert not about_leaks(read_sequences(values, LayoutSpec(target_kind="number"), labels=numbers))
    gaps = rng.random((ROWS, 40, 2)) < 0.1
    assert not about_leaks(with_gaps(lambda row, x: x.__setitem__(gaps[row], np.nan)))
    assert not about_leaks(long(tmp_path, lambda _: (0, 0.01 + rng.random() / 1000, rng.integers(0, 5))))


def test_what_makes_sequences_alike_takes_the_leak_away(tmp_path: Path) -> None:
    values = [noise(i).normal(size=length) for i, length in enumerate(LENGTHS)]
    (text,) = about_leaks(read_sequences(values, labels=LABELS))
    assert "--window 30 cuts pieces of one length" in text
    assert not about_leaks(read_sequences(values, LayoutSpec(window=30), labels=LABELS))
    (text,) = about_leaks(long(tmp_path, lambda i: (0, 0.01, CLASS[i])))
    assert "--values x leaves it out" in text
    assert not about_leaks(read(tmp_path / "f.csv", values=("x",)))


def pieces(step: int, length: int = 20, rows: int = 60) -> np.ndarray:
    """(rows, length, 2) pieces of one recording, of which each begins `step` positions behind the one before."""
    walk = np.cumsum(noise().normal(size=(step * rows + length, 2)), axis=0)
    return np.stack([walk[step * i : step * i + length] for i in range(rows)])


def test_pieces_of_one_recording_that_follow_each_other_are_told_though_they_share_no_value() -> None:
    wave = np.sin(np.arange(1200) * 0.13).reshape(60, 20)
    for values in (pieces(20), wave + noise().normal(size=(60, 20)) / 100):
        (text,) = about_pieces(read_sequences(values))
        assert text.startswith("rows begin where the row before them ends, as pieces of one recording do")
        assert flatters(text)
        assert "--group" in text
        assert not about_pieces(read_sequences(values, groups=["x", "y"] * 30))


def test_pieces_that_overlap_are_told_in_whatever_order_they_stand() -> None:
    values = pieces(6)[noise().permutation(60)]
    (text,) = about_pieces(read_sequences(values))
    assert text.startswith("59 of 60 rows begin with values that stand inside of another row")
    assert flatters(text)


@pytest.mark.parametrize("at_once", [7, 100, neighbours.MARKED_AT_ONCE])
def test_rows_that_begin_inside_of_others_are_counted_as_a_plain_search_counts_them(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "MARKED_AT_ONCE", at_once)
    rng = noise()
    values = pieces(3, rows=40)[rng.permutation(40)]
    values[::7, 2:5] = np.nan
    values[::5, :8] = values[::5, :1]  # too even to tell anything
    s = read_sequences([row[: rng.integers(5, 21)] for row in values])
    rows = [row for row in np.split(s.values, s.offsets[1:-1]) if len(row) >= 8]
    stretches = [[row[i : i + 8].tobytes() for i in range(len(row) - 7)] for row in rows]
    lively = [len(np.unique(row[:8, 0])) >= 6 for row in rows]
    inner = {stretch for row, alive in zip(stretches, lively, strict=True) for stretch in row[alive:]}
    assert 5 < beginning_inside(s) < 40
    assert beginning_inside(s) == sum(a and row[0] in inner for row, a in zip(stretches, lively, strict=True))


@pytest.mark.parametrize("way", ["zeros", "front", "last"])
def test_a_card_that_looks_at_few_values_at_a_time_finds_what_it_finds_at_once(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = noise()
    rows = [rng.normal(size=(rng.integers(12, 40), 2)) for _ in range(ROWS)]
    for row in rows[::2]:
        row[-4:] = row[-4] if way == "last" else 0
        row[: 4 * (way == "front")] = 0
    for row in rows[1::8]:
        row[:, 1] = 3.5
    s = read_sequences(
        [*rows, *(row + rng.normal(size=row.shape) / 1e4 for row in rows[:30])], labels=[*LABELS, *LABELS[:30]]
    )
    at_once, filling = data_card(s), padding.filled(s.values, s.offsets, way)
    assert len(at_once.findings) > 2
    assert filling.any()
    sizes = {alike: "ASKED_AT_ONCE", card: "SUMMED_AT_ONCE", neighbours: "MARKED_AT_ONCE", padding: "FILLED_AT_ONCE"}
    for module, name in sizes.items():
        monkeypatch.setattr(module, name, 10)
    assert data_card(s).findings == at_once.findings
    assert data_card(s).tables == at_once.tables
    np.testing.assert_array_equal(padding.filled(s.values, s.offsets, way), filling)


def test_a_card_takes_a_few_times_the_memory_of_its_values() -> None:
    """Copies in eight bytes of all values, or of where each stands, were the peak of a fit of many rows."""
    values = noise().normal(size=(4_000, 1_000)).astype(np.float32)
    s = read_sequences(values, labels=LABELS * 50)
    tracemalloc.start()
    data_card(s)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * values.nbytes, peak / values.nbytes


def test_rows_that_are_recordings_of_their_own_are_no_pieces() -> None:
    rng, time = noise(), np.arange(40) / 40
    examples = {
        "noise": rng.normal(size=(60, 40)),
        "walks from 0": np.cumsum(rng.normal(size=(60, 40)), axis=1),
        "beats that begin and end at 0": np.sin(time * np.pi) * rng.normal(size=(60, 1))
        + rng.normal(size=(60, 40)) / 50,
        "sorted by class": rng.normal(size=(60, 40)) + np.repeat([0, 5, 9], 20)[:, None],
        "a drift from row to row": np.cumsum(rng.normal(size=(60, 40)), axis=1) + np.arange(60)[:, None],
        "counts": rng.poisson(3, (60, 40)),
        "one wave": np.sin(time * 9) + rng.normal(size=(60, 40)) / 20,
        "padded by zeros": rng.normal(size=(60, 40)) * (time > 0.4),
    }
    for name, values in examples.items():
        assert not about_pieces(read_sequences(values, LayoutSpec(kind="numbers"))), name


def test_a_leak_stands_beside_the_answer_of_a_page_and_first_among_the_notes() -> None:
    s = ragged(LENGTHS)
    (text,) = about_leaks(s)
    item = replace(outcome(("a", "b")), card=data_card(s), notes=("a caveat",), occlusion=None, records={})
    assert item.gravest == (text,)
    assert f"\n! {text}\n" in repr(item)
    with in_python(), pytest.warns(UserWarning, match="the length alone tells the class of"):
        warn_of_leaks(item)
    page = write_page(item)
    answer, fold = page.index("The answer"), page.index('<details class="fold">')
    assert answer < page.index("The length alone tells the class of", answer) < fold
