"""DNA on either strand: a sequence and its reverse complement are read alike, and other letters are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.ngrams import NgramsSpec, fit_ngrams
from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput
from headstart.models import MODELS
from headstart.sequence import Examples, Signature

PAIRS = str.maketrans("ACGTRYSWKMBDHVN", "TGCAYRSWMKVHDBN")


def other(text: str) -> str:
    """The reference: letter by letter from the end."""
    return "".join(letter.translate(PAIRS) for letter in reversed(text))


def texts(count: int = 24) -> list[str]:
    rng = np.random.default_rng(0)
    made = ["".join(rng.choice(list("ACGT"), rng.integers(9, 30))) for _ in range(count)]
    return [text[:4] + "TATAAT" + text[4:] if i % 2 else text for i, text in enumerate(made)]


def table(path: Path, sequences: list[str]) -> Path:
    path.write_text("dna,label\n" + "".join(f"{text},{'ab'[i % 2]}\n" for i, text in enumerate(sequences)))
    return path


def examples(path: Path, strand: Literal["", "one", "both"]) -> Examples:
    whole = read_sequences(path, LayoutSpec(strand=strand, target="label"))
    return Examples(whole.values, whole.offsets, whole.codes(("a", "b")), np.arange(len(whole)))


@pytest.mark.parametrize("strand", ["one", "both"])
def test_every_model_answers_a_sequence_and_its_reverse_complement_alike(
    tmp_path: Path, strand: Literal["one", "both"]
) -> None:
    x = examples(table(tmp_path / "a.csv", texts()), strand)
    y = examples(table(tmp_path / "b.csv", [other(text) for text in texts()]), strand)
    assert np.array_equal(x.values, y.values)
    assert np.array_equal(x.offsets, y.offsets)
    signature = Signature("tokens", 15, int(x.lengths.max()), int(x.lengths.min()), "class", classes=2)
    specs = [MODELS[kind].load()() for kind in ("ngrams", "summary", "linear", "majority")]
    for spec in (*specs, KernelsSpec(rough=True), NgramsSpec(rough=True, sizes={"longest": 3, "placed": 0, "near": 2})):
        model = spec.fit(x, x, signature, 0)
        assert np.array_equal(model.predict(x), model.predict(y)), spec


def test_both_strands_stand_one_behind_the_other_in_an_order_of_their_own(tmp_path: Path) -> None:
    """The reference: from the texts themselves."""
    whole = read_sequences(table(tmp_path / "a.csv", texts()), LayoutSpec(strand="both", target="label"))
    order = "ACGTRYSWKMBDHVN"
    for row, text in enumerate(texts()):
        ids = whole.values[whole.offsets[row] : whole.offsets[row + 1]]
        first = min(text, other(text), key=lambda t: [order.index(letter) for letter in t])
        assert "".join(order[i] for i in ids) == first + other(first)


def test_a_motif_on_either_strand_counts_as_one(tmp_path: Path) -> None:
    x = examples(table(tmp_path / "a.csv", ["CCCCTATAATCCCC", other("CCCCTATAATCCCC")] * 3), "both")
    rows = fit_ngrams(x, 3).transform(x).toarray()
    assert np.ptp(rows, axis=0).max() == 0


def test_other_letters_are_refused_in_one_line(tmp_path: Path) -> None:
    proteins = tmp_path / "p.csv"
    rng = np.random.default_rng(0)
    rows = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 30)) for _ in range(9)]
    proteins.write_text("protein,label\n" + "".join(f"{row},{'ab'[i % 2]}\n" for i, row in enumerate(rows)))
    numbers = tmp_path / "n.csv"
    numbers.write_text("label,t0,t1,t2\n" + "a,0.1,0.2,0.3\nb,0.4,0.2,0.1\n" * 5)
    for path, what in ((proteins, "proteins, letter by letter"), (numbers, "numbers")):
        for strand in ("one", "both"):
            with pytest.raises(BadInput, match=rf"--strand {strand} is of DNA, and the sequences are {what}; leave it"):
                read_sequences(path, LayoutSpec(strand=strand, target="label"))
