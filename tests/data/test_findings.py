"""Findings: each is made from data that have it, names a number and a place, and goes away with its option; data as they
should be have none."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.made_tables import read, write

from headstart.data import LayoutSpec, Sequences, data_card, read_sequences
from headstart.data.card import card_facts
from headstart.data.findings import FINDINGS
from headstart.data.findings.labels import far_ends
from headstart.data.findings.marks import sentinels
from headstart.ways import in_python, option


def noise(rows: int = 40, length: int = 24) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(rows, length)).round(3)


def table(path: Path, values: np.ndarray, **columns: list[Any]) -> Path:
    """A wide table of numbers (n, L) or (n, L, F) behind columns, `label` of two classes among them."""
    whole = values if values.ndim == 3 else values[:, :, None]
    columns = {"label": ["a", "b"] * (len(values) // 2)} | columns
    names = [f"{'uvw'[f]}{i}" for f in range(whole.shape[2]) for i in range(whole.shape[1])]
    lines = [",".join([*columns, *names])]
    for row in range(len(values)):
        cells = whole[row].T.reshape(-1).tolist()
        lines.append(",".join([*(str(column[row]) for column in columns.values()), *(f"{cell:g}" for cell in cells)]))
    return write(path / "f.csv", "\n".join(lines))


def put(values: np.ndarray, cells: Callable[[np.ndarray], None]) -> np.ndarray:
    cells(values)
    return values


def padded(way: str) -> np.ndarray:
    values = noise()
    for i, row in enumerate(values):
        if way in ("front", "both"):
            row[: 4 + i % 7] = 0
        if way != "front":
            row[20 - i % 7 :] = {"zeros": 0, "both": 0, "-5": -5}.get(way, row[19 - i % 7])
    return values


def with_channel(second: np.ndarray | float) -> np.ndarray:
    return np.stack([noise(), np.broadcast_to(second, (40, 24))], axis=2)


def holds() -> np.ndarray:
    """Temperatures that rise, stay for a while and rise on."""
    rng = np.random.default_rng(0)
    return np.stack(
        [
            np.interp(np.arange(200), [0, 80 + i % 7, 110, 199], [20, *2 * [60 + rng.random()], 95 + rng.random()])
            for i in range(40)
        ]
    ).round(2)


def dead(values: np.ndarray) -> np.ndarray:
    values[6], values[9] = 2.5, 0
    return values


def windows() -> np.ndarray:
    walk = np.random.default_rng(2).normal(size=12 * 40 + 24).round(3)
    return np.stack([walk[12 * i : 12 * i + 24] for i in range(40)])


def copied_with_noise() -> np.ndarray:
    rng = np.random.default_rng(7)
    return (rng.normal(size=(40, 24))[np.arange(120) % 40] + rng.normal(size=(120, 24)) / 30).round(3)


def fasta(path: Path, texts: list[str]) -> Path:
    return write(path / "f.fa", "".join(f">s{i} {'ab'[i % 2]}\n{text}\n" for i, text in enumerate(texts)))


def bases(rows: int = 20) -> list[str]:
    rng = np.random.default_rng(4)
    return ["".join(rng.choice(list("ACGT"), 50)) for _ in range(rows)]


def strands(path: Path) -> Path:
    texts = bases()
    texts[7] = texts[3][::-1].translate(str.maketrans("ACGT", "TGCA"))
    return fasta(path, texts)


class Case(NamedTuple):
    """Data that have a finding, what it says, and the field of the layout that mends it."""

    name: str
    make: Callable[[Path], Path]
    words: str
    mend: Mapping[str, Any]
    settings: Mapping[str, Any] = MappingProxyType({})


NUMBERS = {"target": "label", "target_kind": "number"}
TARGETS = np.linspace(1, 9, 40).round(2).tolist()
CASES = [
    Case(
        "missing marks",
        lambda p: table(p, put(noise(), lambda x: x.__setitem__((slice(0, 12), 7), -9999))),
        "channel 'u' holds -9999 in 12 of 40 sequences, 12 times ({}:2 column 'u7')",
        {"na": ("-9999",)},
    ),
    Case(
        "missing marks",
        lambda p: table(p, put(noise(), lambda x: x.__setitem__((slice(5, 9), 2), 70))),
        "channel 'u' holds 70 in 4 of 40 sequences, 4 times ({}:7 column 'u2')",
        {"na": ("70",)},
    ),
    Case(
        "padding",
        lambda p: table(p, padded("zeros")),
        "40 of 40 sequences end in 3 or more zeros ({}:2: 4)",
        {"padding": "zeros"},
    ),
    Case(
        "padding",
        lambda p: table(p, padded("last")),
        "40 of 40 sequences end in 3 or more equal values ({}:2: 5)",
        {"padding": "last"},
    ),
    Case(
        "padding",
        lambda p: table(p, padded("-5")),
        "40 of 40 sequences end in 3 or more equal values ({}:2: 4)",
        {"na": ("-5",)},
    ),
    Case(
        "padding",
        lambda p: table(p, padded("front")),
        "40 of 40 sequences begin with 3 or more zeros ({}:2: 4)",
        {"padding": "front"},
    ),
    Case(
        "padding",
        lambda p: table(p, padded("both")),
        "40 of 40 sequences begin and end in 3 or more zeros ({}:2: 4)",
        {"padding": "both"},
    ),
    Case(
        "padding",
        lambda p: table(p, np.concatenate([padded("zeros")[:4], noise()[4:]])),
        "4 of 40 sequences end in 3 or more zeros ({}:2: 4)",
        {"padding": "zeros"},
    ),
    Case(
        "stuck",
        lambda p: table(p, put(noise(40, 60), lambda x: x[3:5, 20:50].fill(0.5))),
        "channel 'u' keeps one value for 20 positions or more in 2 of 40 sequences ({}:5 column 'u20': 0.5 for 30)",
        {},
    ),
    Case(
        "saturation",
        lambda p: table(p, np.clip(np.sin(np.arange(24) / 3 + noise(40, 1)) * 6 + 9 + noise() / 50, 4, 99)),
        "channel 'u' stands at its smallest value 4 in runs of 3 or more, ",
        {"na": ("4",)},
    ),
    Case(
        "saturation",
        lambda p: table(p, np.clip(np.sin(np.arange(24) / 3 + noise(40, 1)) * 6 + noise() / 50, -9, 5)),
        "channel 'u' stands at its largest value 5 in runs of 3 or more, ",
        {"na": ("5",)},
    ),
    Case(
        "dead rows",
        lambda p: table(p, dead(noise())),
        "channel 'u' does not change in 2 of 40 sequences ({}:8: 2.5 throughout)",
        {},
    ),
    Case(
        "constant channels",
        lambda p: table(p, with_channel(3.0)),
        "1 channel is constant ('v'); --values 'u*' leaves it out",
        {"values": ("u*",)},
    ),
    Case(
        "small numbers",
        lambda p: table(p, noise() * 1e-46),
        "channel 'u': no number is further from 0 than 3.3e-46, and below 1e-35 a fit takes all for 0; multiply them",
        {},
    ),
    Case(
        "missing channels",
        lambda p: table(p, with_channel(np.nan)),
        "1 channel is missing everywhere ('v'); --values 'u*' leaves it out",
        {"values": ("u*",)},
    ),
    Case(
        "missing words",
        lambda p: table(p, noise(), label=["a", "b", "NA", "a"] * 10),
        "the class 'NA' (10) may be the absence of a label",
        {"na": ("NA",)},
    ),
    Case(
        "missing words",
        lambda p: table(p, noise(), label=["a", "b", "(not recorded)", "a"] * 10),
        "the class '(not recorded)' (10) may be the absence of a label",
        {"na": ("(not recorded)",)},
    ),
    Case(
        "alike names",
        lambda p: table(p, noise(), label=["caf\u00e9", "tea", "cafe\u0301\u200b", "tea"] * 10),
        "differ in marks that nobody sees, or in how letters are encoded",
        {"label_case": "fold"},
    ),
    Case(
        "alike names",
        lambda p: table(p, noise(), label=["Walk fast", "rest", "walk_fast", "rest"] * 10),
        "the classes 'Walk fast' (10) and 'walk_fast' (10) differ in case or blanks alone",
        {"label_case": "fold"},
    ),
    Case(
        "odd targets",
        lambda p: table(p, noise(), label=[*TARGETS[:38], 4500.5, 8100.5]),
        "2 targets, such as 8100.5, lie far from all others ({}:41 column 'label'; the others are 1 to 8.59)",
        {"na": ("4500.5", "8100.5")},
        NUMBERS,
    ),
    Case(
        "odd targets",
        lambda p: table(p, noise(), label=[*TARGETS[:38], 56.5, 3.5]),
        "the target 56.5 lies far from all others ({}:40 column 'label'; the others are 1 to 8.59)",
        {"na": ("56.5",)},
        NUMBERS,
    ),
    Case(
        "odd targets",
        lambda p: table(p, noise(), label=[-999, *TARGETS[:39]]),
        "the target is -999 in 1 row ({}:2 column 'label')",
        {"na": ("-999",)},
        NUMBERS,
    ),
    Case(
        "neighbours",
        lambda p: table(p, windows(), tape=[f"t{i // 10}" for i in range(40)]),
        "neighbouring rows have 50 % of their values in common",
        {"group": "tape"},
    ),
    Case(
        "order",
        lambda p: table(
            p,
            noise(80) + np.repeat(np.arange(8) % 3, 10)[:, None],
            label=["ab"[i * 7 % 5 % 2] for i in range(80)],
            sitting=[f"t{i // 10}" for i in range(80)],
        ),
        "rows that follow each other are alike beside their class",
        {"group": "sitting"},
    ),
    Case(
        "groups",
        lambda p: table(p, noise(), who=[f"p{i % 8}" if i < 20 else f"P0{i % 8}" for i in range(40)]),
        "8 groups are written in several ways, such as 'p0' (3) and 'P00' (2): where these are one",
        {},
        {"group": "who"},
    ),
    Case(
        "near copies",
        lambda p: table(p, copied_with_noise(), made_of=[f"r{i % 40}" for i in range(120)]),
        "120 of 120 rows looked at are far nearer to a few others than to the rest ({}:",
        {"group": "made_of"},
    ),
    Case(
        "unshared symbols",
        lambda p: write(
            p / "f.csv", "label,events\n" + "".join(f"{'ab'[i % 2]},{2 * i} {2 * i + 1}\n" for i in range(40))
        ),
        "no symbol stands in two of 40 sequences",
        {"kind": "numbers"},
        {"kind": "tokens"},
    ),
    Case(
        "both strands",
        strands,
        "2 of 20 sequences are the reverse complement of another ({}:7 and 15)",
        {"strand": "one"},
    ),
    Case(
        "subjects",
        lambda p: table(p, noise(), rat=[f"R{1 + i % 8}" for i in range(40)]),
        "column 'rat' (8 different in 40 sequences) is not used",
        {"group": "rat"},
    ),
    Case(
        "subjects",
        lambda p: table(p, noise(), voice=["ann", "bob", "cid", "dora", "eva"] * 8),
        "column 'voice' (5 different in 40 sequences) is not used",
        {"group": "voice"},
    ),
    Case(
        "subjects",
        lambda p: table(
            p,
            noise(),
            code=[f"{'kqxvtw'[i // 5 % 6]}{'mz'[i // 20]}" for i in range(40)],
            label=list("a" * 10 + "b" * 30),
        ),
        "column 'code' (8 different in 40 sequences) is not used",
        {"group": "code"},
    ),
    Case(
        "layout",
        lambda p: write(
            p / "f.csv",
            "\n".join(["label,mass,age,size", *(f"{'ab'[i % 2]},{i % 7}.5,{i},{i % 3}.1" for i in range(40))]),
        ),
        "the columns 'mass' to 'size' have names that do not count up",
        {"shape": "wide"},
    ),
    Case(
        "leaks",
        lambda p: fasta(p, [text[: 50 - 10 * (i % 2)] for i, text in enumerate(bases(40))]),
        "the length alone tells the class of 40 of 40 sequences",
        {"window": "40"},
    ),
    Case(
        "leaks",
        lambda p: write(
            p / "f.csv",
            "label,text\n" + "".join(f"{'ab'[i % 2]},some {'more ' * (1 + i % 2)}words of {i:02}\n" for i in range(40)),
        ),
        "the length alone tells the class of 40 of 40 sequences",
        {"window": "21"},
    ),
    Case(
        "lengths",
        lambda p: fasta(p, [*bases(), 12 * bases()[0]]),
        "1 sequence is more than 10 times as long as the median, the longest with 600 positions ({}:41)",
        {"window": "50"},
    ),
    Case(
        "dropouts",
        lambda p: table(p, put(80 + 12 * noise(), lambda x: x[3:9, 5:8].fill(0))),
        "channel 'u' is 0 in 6 runs of 2 or more, while its other values lie around 80.2 ({}:5 column 'u5')",
        {"na": ("0",)},
    ),
]
IDS = [f"{case.name}, {', '.join(case.mend) or 'by hand'} {i}" for i, case in enumerate(CASES)]


def findings(name: str, s: Sequences) -> list[str]:
    return [finding.text for finding in FINDINGS[name](s, card_facts(s))]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_finding_names_a_number_a_place_and_the_option_that_mends_it(tmp_path: Path, case: Case) -> None:
    path = case.make(tmp_path)
    texts = findings(case.name, read(path, **case.settings))
    assert len(texts) == 1
    assert case.words.format(path) in texts[0]
    for field, value in case.mend.items():
        unnamed = case.name in ("neighbours", "order", "near copies")  # which column it is, nobody knows
        named = value if isinstance(value, tuple) else () if unnamed else (value,)
        assert all(word in texts[0] for word in shlex.split(option(field, *named)) if "*" not in word)
        assert not findings(case.name, read(path, **{**case.settings, **case.mend}))
    with in_python():
        argument = findings(case.name, read(path, **case.settings))[0]
    assert not case.mend or "layout={" in argument


def test_each_finding_has_a_case_here_or_is_mended_by_hand() -> None:
    by_hand = ("class or number", "copies", "class sizes", "lost steps", "splits", "repeated ids")
    assert {case.name for case in CASES} | set(by_hand) == set(FINDINGS)


def test_a_finding_on_a_page_names_no_row_and_no_file(tmp_path: Path) -> None:
    for case in CASES:
        path = case.make(tmp_path)
        s = read(path, **case.settings)
        for finding in FINDINGS[case.name](s, card_facts(s)):
            assert str(path) not in finding.plain
        assert str(path) not in str(data_card(s).facts)


@pytest.mark.parametrize("case", [case for case in CASES if case.mend], ids=lambda case: case.name)
def test_what_mends_a_finding_reads_alike_where_a_model_is_served(tmp_path: Path, case: Case) -> None:
    path = case.make(tmp_path)
    fitted = read(path, **{**case.settings, **case.mend})
    served = read_sequences(path, fitted.layout.fixed())
    assert np.array_equal(served.values, fitted.values)
    assert np.array_equal(served.offsets, fitted.offsets)
    assert served.labels == fitted.labels


def ecg() -> np.ndarray:
    """Beats on a wandering line, of which two in a thousand values are cut off at the top."""
    time = np.arange(250)
    beats = sum(np.exp(-(((time - middle) / 3) ** 2)) for middle in (40, 120, 200)) * (4 + noise(40, 1))
    signal = beats + np.sin(time / 40 + noise(40, 1)) / 2 + np.random.default_rng(1).normal(size=(40, 250)) / 20
    return np.minimum(signal, np.quantile(signal, 0.998))


def spectrogram(floor: float) -> np.ndarray:
    """Of three bands, loud now and then."""
    power = np.random.default_rng(3).gamma(0.6, size=(40, 30, 3)) * (1 + np.sin(np.arange(30) / 2))[:, None] ** 2
    return np.maximum(10 * np.log10(power + 1e-12), floor) if floor else np.maximum(power - 0.3, 0)


def rain() -> np.ndarray:
    return np.where(noise() > 0.8, np.abs(noise()) * 20, 0).round(1)


HONEST: dict[str, Callable[[], np.ndarray]] = {
    "noise": noise,
    "heavy tails": lambda: np.random.default_rng(0).standard_cauchy((40, 60)),
    "counts": lambda: np.random.default_rng(0).poisson(30, (40, 60)).astype(float),
    "an ECG that is seldom clipped": ecg,
    "powers with a floor of zero": lambda: spectrogram(0),
    "decibels with a floor": lambda: spectrogram(-80.0),
    "rain": rain,
    "pulses of one height": lambda: np.repeat(np.random.default_rng(0).integers(0, 2, (40, 12)), 5, axis=1) * 5.0,
    "steps of a coarse converter": lambda: (np.cumsum(noise(40, 90), axis=1) * 2).round(),
    "a window that fades out": lambda: noise() * np.hanning(24),
    "a programme that holds": holds,
    "counts of a few": lambda: np.random.default_rng(0).poisson(3, (40, 100)).astype(float),
    "levels that are set": lambda: np.repeat(noise(40, 4), 25, axis=1),
    "levels that are set, and noise": lambda: np.concatenate([np.repeat(noise(20, 4), 25, 1), noise(20, 100)]),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_data_have_no_finding(name: str) -> None:
    data = HONEST[name]()
    card = data_card(read_sequences(data, LayoutSpec(kind="numbers"), labels=["a", "b"] * 20))
    assert not [text for text in card.findings if "every sequence has the same value" not in text]


def test_digits_are_not_called_padded_clipped_or_dead() -> None:
    from sklearn.datasets import load_digits

    for data in (load_digits().data, load_digits().images):
        texts = data_card(read_sequences(data[:400], LayoutSpec(kind="numbers", time_axis="first"))).findings
        assert not [text for text in texts if "every sequence has the same value" not in text]


def test_columns_that_are_no_subject_are_not_called_one(tmp_path: Path) -> None:
    more = {"sex": ["f", "m"] * 20, "age": list(range(20, 60)), "rat": list(range(40)), "device": ["one"] * 40}
    assert not findings("subjects", read(table(tmp_path, noise(), **more)))


def test_palindromes_are_no_second_strand(tmp_path: Path) -> None:
    half = bases()
    texts = [text[:20] + text[:20][::-1].translate(str.maketrans("ACGT", "TGCA")) for text in half]
    assert not findings("both strands", read(fasta(tmp_path, texts)))


def test_a_repeated_end_within_the_reach_of_the_others_is_no_mark() -> None:
    values = np.linspace(0, 10, 200)
    assert not sentinels(np.concatenate([values, 4 * [19.9]]))
    assert sentinels(np.concatenate([values, 4 * [25.0]])) == {25.0: 4}
    assert not sentinels(np.concatenate([values, 2 * [25.0]]))
    assert sentinels(np.concatenate([100 * values, 4 * [-300.0]])) == {-300.0: 4}
    assert not sentinels(np.concatenate([100 * values - 1, 4 * [-300.0]]))


def test_targets_with_heavy_tails_are_not_called_odd(tmp_path: Path) -> None:
    for draw in ("exponential", "lognormal", "standard_normal", "gumbel"):
        rng = np.random.default_rng(1)
        for _ in range(4):
            targets = getattr(rng, draw)(size=40).round(4).tolist()
            assert not findings("odd targets", read(table(tmp_path, noise(), label=targets), **NUMBERS)), draw


@pytest.mark.parametrize("name", ["lognormal", "standard_t"])
def test_targets_of_heavy_tails_are_hardly_ever_called_odd_and_slipped_decimals_among_others_are(name: str) -> None:
    rng = np.random.default_rng(0)
    clean = [getattr(rng, name)(*[2] * (name == "standard_t"), size=12 + i % 39) for i in range(150)]
    assert sum(any(far_ends(np.sort(x))) for x in clean) <= 2
    slipped = rng.normal(50, 8, (60, 30)) * np.where(np.arange(30) == 15, 10 ** rng.integers(1, 3, (60, 1)), 1)
    assert sum([end] == [max(x)] for x in slipped for (end, *_), _ in far_ends(np.sort(x))) > 50


def test_padding_is_cut_to_the_same_sequences_that_were_filled(tmp_path: Path) -> None:
    whole = [row[: 12 + i % 9] for i, row in enumerate(noise(40, 24) + 10)]
    filled = np.stack([np.pad(row, (0, 24 - len(row))) for row in whole])
    repeated = np.stack([np.pad(row, (0, 24 - len(row)), mode="edge") for row in whole])
    front = np.stack([np.pad(row, (24 - len(row), 0)) for row in whole])
    both = np.pad(filled, ((0, 0), (5, 0)))
    for values, padding in ((filled, "zeros"), (repeated, "last"), (front, "front"), (both, "both")):
        s = read_sequences(values, LayoutSpec(padding=padding))
        assert s.lengths.tolist() == [len(row) for row in whole]
        assert np.allclose(s.values[:, 0], np.concatenate(whole))
        assert any("padding was cut off 40 sequences" in note for note in s.notes)


@pytest.mark.parametrize("way", ["front", "both"])
def test_zeros_that_fill_sequences_up_are_no_sensor_that_is_stuck(way: str) -> None:
    values = noise(40, 400)
    for i, row in enumerate(values[:: 3 if way == "front" else 1]):
        row[: 20 + i % 5] = 0
        row[len(row) - (3 + i % 5) * (way == "both") :] = 0
    texts = data_card(read_sequences(values)).findings
    assert any("3 or more zeros" in text for text in texts)
    assert not any("keeps one value" in text for text in texts)


def test_the_background_of_images_is_no_bottom_at_which_a_sensor_is_clipped() -> None:
    (y, x), rng = np.mgrid[:14, :14], np.random.default_rng(0)
    disks = [(*rng.uniform(5, 9, 2), rng.uniform(2.5, 4.5)) for _ in range(80)]
    values = np.stack([np.clip(255 * (r - np.hypot(y - b, x - a)), 0, 255).round().ravel() for a, b, r in disks])
    assert not [text for text in data_card(read_sequences(values)).findings if "smallest value 0" in text]


@pytest.mark.parametrize("names", [("(+)", "(-)"), ("->", "<-"), ("+", "-"), ("10²", "102"), ("x²", "x2")])
def test_signs_and_powers_are_classes_of_their_own(names: tuple[str, str]) -> None:
    card = data_card(read_sequences(noise(), labels=list(names) * 20))
    assert not card.findings


def test_odd_targets_of_many_rows_are_looked_for_in_a_moment() -> None:
    x = np.sort(np.random.default_rng(0).normal(size=100_000))
    before = time.process_time()
    assert not any(far_ends(x))
    assert time.process_time() - before < 0.25  # 0.8 s where the range of all is computed for each count
    assert not any(far_ends(x[:1]))


def test_a_channel_of_nothing_but_zeros_and_missing_cells_is_no_dropout(tmp_path: Path) -> None:
    cells = [["0", ""][i % 2] for i in range(80)]
    rows = [f"{i // 20},{i},{i % 7}.5,{cell}" for i, cell in enumerate(cells)]
    assert findings("dropouts", read(write(tmp_path / "f.csv", "\n".join(["id,time,x,y", *rows])))) == []


def test_a_class_of_many_brackets_takes_no_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,x_0,x_1,x_2\n" + "b,1,2,3\n" * 4 + "[{(" * 70_000 + ",1,2,3\n")
    began = time.process_time()
    data_card(read_sequences(tmp_path / "a.csv"))
    assert time.process_time() - began < 5
