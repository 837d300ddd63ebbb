"""Proteins by ESM-2 beside n-grams, and DNA read from both strands, by the number of labels.

    python benchmarks/fit_letters.py WEIGHTS/esm2-haemolysis --data DATA

Three draws of labels that share no sequence, a fifth of which chooses; accuracy and log-loss on the same test. The rule
and the claims, written before, are on docs/benchmarks/fit-letters.md; this writes fit-letters.json beside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from harness import _fasta, _promoters, unpack

from headstart.baselines.embedding import EmbeddingSpec
from headstart.baselines.fitting import FittedSpec
from headstart.baselines.ngrams import NgramsSpec
from headstart.data.alphabets import ALPHABETS
from headstart.data.letters import both_strands, one_strand, other_strand
from headstart.sequence import Examples, Signature

LABELS, DRAWS, SCORED = (50, 200, 340), 3, 600
PLACES = ("Nucleus", "Cytoplasm", "Extracellular", "Cell.membrane")
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "fit-letters.json"
Rows = list[tuple[str, str]]
"""(label, letters)."""


def proteins(data: Path, work: Path) -> Iterator[tuple[str, Rows, Rows]]:
    """DeepLoc: soluble or of a membrane, and which of its four most frequent places; train and test."""
    folder = unpack(data / "biology" / "protein.tar.xz", work)
    sides = list[Rows]()
    for name in ("deeploc_our_val_set", "deeploc_test_set"):
        file = next(folder.rglob(f"{name}.fasta"))
        heads = [line.split()[1] for line in file.read_text().splitlines() if line.startswith(">")]
        sides.append(list(zip(heads, _fasta(file), strict=True)))
    for name in ("membrane", "place"):

        def asked(side: Rows, name: str = name) -> Rows:
            if name == "membrane":
                return [(head[-1], letters) for head, letters in side if head[-1] in "MS"]
            return [(head[:-2], letters) for head, letters in side if head[:-2] in PLACES]

        yield f"proteins, {name}", asked(sides[0]), asked(sides[1])


def pieces_of_dna(data: Path, work: Path) -> Iterator[tuple[str, Rows]]:
    """Promoters of three species, and splice junctions; all are read on the strand that they stand on."""
    folder = unpack(data / "biology" / "dna.tar.xz", work)
    for name in ("Ecoli", "Mouse_tata", "Arabidopsis_tata"):
        lines = _promoters(folder, name, work / name).read_text().splitlines()[1:]
        yield f"promoters {name}", [tuple(line.split("\t")) for line in lines]  # type: ignore[misc]
    rows = [line.split("\t") for line in next(folder.rglob("uci_splice.tsv")).read_text().splitlines()[1:]]
    yield "splice junctions", [(label, letters) for label, _, letters in rows]


def examples(rows: Rows, kind: str, names: list[str]) -> Examples:
    ids = {letter: number for number, letter in enumerate(ALPHABETS[kind])}
    values = [np.array([ids[letter] for letter in letters], np.uint8) for _, letters in rows]
    return Examples.from_arrays(values, np.array([names.index(label) for label, _ in rows]))


def read_as(x: Examples, strand: str, order: np.random.Generator) -> Examples:
    """hidden: each sequence from either strand by chance. both: as `--strand both` reads them."""
    parts = [x.values[a:b] for a, b in itertools.pairwise(x.offsets.tolist())]
    if "hidden" in strand:
        parts = [part if order.random() < 0.5 else other_strand(part) for part in parts]
    if "both" not in strand:
        return Examples.from_arrays(parts, x.target)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    flat, offsets = both_strands(one_strand(np.concatenate(parts), offsets), offsets)
    return Examples.from_arrays([flat[a:b] for a, b in itertools.pairwise(offsets.tolist())], x.target)


def scored(
    name: str, model: str, spec: FittedSpec, train: Examples, test: Examples, kind: str, classes: int
) -> Iterator[dict[str, object]]:
    """Of each number of labels, and draw."""
    lengths = np.concatenate([train.lengths, test.lengths])
    width = len(ALPHABETS[kind])
    signature = Signature("tokens", width, int(lengths.max()), int(lengths.min()), "class", classes=classes)
    for labels in LABELS:
        for draw in range(DRAWS):
            begun, first = time.process_time(), draw * max(LABELS)
            rows = np.arange(first, first + labels)
            own = spec.fit(train.take(rows[labels // 5 :]), train.take(rows[: labels // 5]), signature, draw)
            answers = own.predict(test)
            right = answers[np.arange(len(test)), test.target]
            yield {
                **{"set": name, "model": model, "labels": labels, "draw": draw},
                "accuracy": round(float((answers.argmax(1) == test.target).mean()), 4),
                "log_loss": round(float(-np.log(np.maximum(right, 1e-12)).mean()), 4),
                "seconds": round(time.process_time() - begun, 2),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights")
    parser.add_argument("--data", type=Path, default=Path("data"))
    options = parser.parse_args()
    out, begun = list[dict[str, object]](), time.process_time()

    def run(name: str, train: Rows, test: Rows, kind: str, models: Mapping[str, tuple[str, FittedSpec]]) -> None:
        order = np.random.default_rng(0)
        names = sorted({label for label, _ in train})
        some = examples([train[i] for i in order.permutation(len(train))[: DRAWS * max(LABELS)]], kind, names)
        held = examples([test[i] for i in order.permutation(len(test))[:SCORED]], kind, names)
        for model, (strand, spec) in models.items():
            order = np.random.default_rng(1)  # the same strands are hidden from each
            sides = (read_as(some, strand, order), read_as(held, strand, order)) if strand else (some, held)
            for row in scored(name, model, spec, *sides, kind, len(names)):
                out.append(row)
                print(row, flush=True)

    with TemporaryDirectory() as work:
        for name, rows in pieces_of_dna(options.data, Path(work)):
            mixed = [rows[i] for i in np.random.default_rng(2).permutation(len(rows))]
            cut = DRAWS * max(LABELS)
            ways = {way: (way, NgramsSpec()) for way in ("as read", "both", "hidden", "hidden, both")}
            run(name, mixed[:cut], mixed[cut:], "dna", ways)
        for name, train, test in proteins(options.data, Path(work)):
            models = {
                "n-grams": ("", NgramsSpec()),
                "frozen": ("", EmbeddingSpec(source=options.weights)),
                "joined": ("", EmbeddingSpec(source=options.weights, ngrams=True)),
            }
            run(name, train, test, "protein", models)
    PAGE.write_text(
        json.dumps({"weights": Path(options.weights).name, "seconds": time.process_time() - begun, "rows": out}) + "\n"
    )


if __name__ == "__main__":
    main()
