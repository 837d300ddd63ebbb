"""Runs of letters at rough places, with gaps, and of classes of amino acids, beside n-grams: docs/benchmarks/fit-members.md has the rule.

    python benchmarks/fit_runs.py --data DIR [--work DIR] [--confirm] [--designs NAME ...] SET ...

As fit_letters.py: choosing sets (and `shuffled`, `random`, `long proteins`) are answered in five folds, with --confirm test rows.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fit_letters import control, dealt, joined
from harness import all_sets, files_of, other_sets, parser_of, plain_name
from scipy.sparse import csr_matrix, hstack

from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.linear import Split, logistic
from headstart.baselines.measures import log_loss, softmax
from headstart.baselines.ngrams import fit_ngrams, sizes_tried
from headstart.data import read_sequences
from headstart.data.alphabets import ALPHABETS
from headstart.sequence import Examples, Signature

Keys = tuple[np.ndarray, np.ndarray]
"""Row and key of each of some runs."""
CLASSES = ["AGPST", "CFILMVWY", "DE", "HKR", "NQ", "BUOXZ"]


def coded(rows: Examples, places: list[int], width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, first position, code) of letters at these distances from each position, none across sequences."""
    values, row = rows.values.astype(np.int64), np.repeat(np.arange(len(rows)), rows.lengths)
    runs = max(len(values) - places[-1], 0)
    inside = row[:runs] == row[places[-1] :]
    code = np.zeros(runs, np.int64)
    for place in places:
        code = code * width + values[place : place + runs]
    position = np.arange(len(values)) - rows.offsets[row]
    return row[:runs][inside], position[:runs][inside], code[inside]


def windows(size: int, longest: int) -> Callable[[Examples, int, bool], list[Keys]]:
    """Runs by window: two tilings, or doubling steps from either end."""

    def keys(rows: Examples, width: int, aligned: bool) -> list[Keys]:
        out = []
        for length in range(1, longest + 1):
            row, position, code = coded(rows, list(range(length)), width)
            if aligned:
                places = [(position + shift) // size for shift in ((0, size // 2) if size > 1 else (0,))]
            else:
                rest = rows.lengths[row] - position - 1
                places = [np.minimum(np.log2(1 + side // size).astype(int), 5) for side in (position, rest)]
            for tiling, place in enumerate(places):
                out.append((row, ((code * 256 + place) * 2 + tiling) * 8 + length))
        return out

    return keys


def gaps(longest: int, run: int) -> Callable[[Examples, int, bool], list[Keys]]:
    """Pairs of runs of one or two letters with so many letters between them."""

    def keys(rows: Examples, width: int, aligned: bool) -> list[Keys]:
        del aligned
        out = []
        for gap in range(1, longest + 1):
            for length in range(1, run + 1):
                row, _, code = coded(rows, [*range(length), *range(length + gap, 2 * length + gap)], width)
                out.append((row, (code * 64 + gap) * 8 + length))
        return out

    return keys


def classed(longest: int) -> Callable[[Examples, int, bool], list[Keys]]:
    """Runs of classes of amino acids."""

    def keys(rows: Examples, width: int, aligned: bool) -> list[Keys]:
        del width, aligned
        table = np.array([next(i for i, letters in enumerate(CLASSES) if a in letters) for a in ALPHABETS["protein"]])
        small = replace(rows, values=table[rows.values])
        out = []
        for length in range(2, longest + 1):
            row, _, code = coded(small, list(range(length)), len(CLASSES))
            out.append((row, code * 16 + length))
        return out

    return keys


DESIGNS: dict[str, dict[str, list[Any]]] = {
    "W": {f"{size}, runs {longest}": [windows(size, longest)] for size in (4, 8, 16, 32) for longest in (3, 4)},
    "G": {f"{longest}, runs {run}": [gaps(longest, run)] for longest in (4, 16) for run in (1, 2)},
    "W 8": {"runs 4": [windows(8, 4)]},
    "W, G 8": {"runs 4": [windows(8, 4), gaps(16, 2)]},
    "W short": {f"{size}": [windows(size, 3)] for size in (4, 8, 16)},
    "R": {str(longest): [classed(longest)] for longest in (5, 6)},
    "W, G": {f"{size}": [windows(size, 4), gaps(16, 2)] for size in (8, 16)},
    "W, W": {f"{size}": [windows(size, 4), windows(4 * size, 4)] for size in (1, 4, 8)},
    "W, W, G": {f"{size}": [windows(size, 4), windows(4 * size, 4), gaps(16, 2)] for size in (2, 4)},
    "W, R": {f"{size}": [windows(size, 3), classed(5)] for size in (8, 16)},
}


class Block:
    """Counts of keys that two sequences of train or more have: log(1 + count) x rarity, rows of length 1."""

    def __init__(self, make: Any, train: Examples, width: int, aligned: bool) -> None:
        self.make, self.width, self.aligned = make, width, aligned
        _, key, _ = self.counted(train)
        self.keys, having = np.unique(key, return_counts=True)
        self.keys, having = self.keys[having >= 2], having[having >= 2]
        self.rarity = 1 + np.log((1 + len(train)) / (1 + having))

    def counted(self, rows: Examples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = self.make(rows, self.width, self.aligned)
        row, key = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        order = np.lexsort((key, row))
        row, key = row[order], key[order]
        first = np.flatnonzero(np.concatenate([[True], (np.diff(row) != 0) | (np.diff(key) != 0)]))
        return row[first], key[first], np.diff(np.append(first, len(row)))

    def transform(self, rows: Examples) -> csr_matrix:
        row, key, count = self.counted(rows)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        there = self.keys[at] == key
        row, at, value = row[there], at[there], np.log1p(count[there]) * self.rarity[at[there]]
        norm = np.sqrt(np.bincount(row, value**2, len(rows)))
        return csr_matrix(((value / norm[row]).astype(np.float32), (row, at)), (len(rows), len(self.keys)))


def answered(rows: Examples, y: np.ndarray, rest: Examples, classes: int, width: int, names: list[str]) -> Any:
    """Probabilities of the rest by n-grams and with each design; a fifth of the rows chooses."""
    part = dealt(y, 5, 1)
    seen, held = np.flatnonzero(part), np.flatnonzero(part == 0)
    train, more = rows.take(seen), joined(rows.take(held), rest)
    signature = Signature("tokens", width, int(rows.lengths.max()), int(rows.lengths.min()), "class", classes)
    aligned = bool((rows.lengths == rows.lengths[0]).all())

    def fitted(a: Any, b: Any) -> tuple[float, np.ndarray]:
        readout = logistic(Split(a, y[seen]), Split(b[: len(held)], y[held]), classes)
        chances = softmax(readout.scores(b), readout.temperature)
        return log_loss(y[held], chances[: len(held)]), chances[len(held) :]

    if names == ["rough"]:
        a, b = (replace(rows.take(some), target=y[some]) for some in (seen, held))
        took, out, chosen = {}, {}, {}
        for name, spec in (("n-grams", KernelsSpec()), ("rough", KernelsSpec(rough=True))):
            begun = time.process_time()
            model = spec.fit(a, b, signature, 0)
            out[name], chosen[name] = model.predict(rest), str(model.facts.sizes)
            took[name] = time.process_time() - begun
            took[f"{name}, reckoned"] = spec.seconds(len(a), len(more), signature, rows.lengths)
        return out, took, chosen
    begun, tried = time.process_time(), []
    for longest, placed in sizes_tried(signature, train.lengths):
        made = fit_ngrams(train, longest, placed, width)
        a, b = made.transform(train), made.transform(more)
        tried.append((*fitted(a, b), a, b, f"{longest}, {placed}"))
    least, plain, a, b, name = min(tried, key=lambda each: each[0])
    out, chosen, took = {"n-grams": plain}, {"n-grams": name}, {"n-grams": time.process_time() - begun}
    for design in names:
        begun, best = time.process_time(), (least, plain, "none")
        for variant, makes in DESIGNS[design].items():
            blocks = [Block(make, train, width, aligned) for make in makes]
            own, others = ([block.transform(x) for block in blocks] for x in (train, more))
            loss, chances = fitted(hstack([a, *own], "csr"), hstack([b, *others], "csr"))
            out[f"{design} {variant}"] = chances
            if loss < best[0]:
                best = loss, chances, variant
        out[design], chosen[design], took[design] = best[1], best[2], time.process_time() - begun
    return out, took, chosen


def long_proteins(data: Path) -> tuple[Examples, np.ndarray]:
    """500 of the 501 to 1,000 residues of DeepLoc's validation set, and the place of each."""
    with tarfile.open(data / "biology" / "protein.tar.xz") as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith("/deeploc_our_val_set.fasta"))
        text = archive.extractfile(member).read().decode()  # type: ignore[union-attr]
    found = []
    for record in text.split(">")[1:]:
        head, _, letters = record.partition("\n")
        sequence = letters.replace("\n", "").upper()
        if 500 < len(sequence) <= 1_000:
            found.append((head.split()[1].rpartition("-")[0], sequence))
    found = [found[i * len(found) // 500] for i in range(500)] if len(found) > 500 else found
    table = {letter: i for i, letter in enumerate(ALPHABETS["protein"])}
    values = np.concatenate([[table[letter] for letter in sequence] for _, sequence in found]).astype(np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(sequence) for _, sequence in found])])
    return Examples(values, offsets, None, np.arange(len(found))), np.unique(
        [x for x, _ in found], return_inverse=True
    )[1]


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-runs"))
    words.add_argument("--confirm", action="store_true")
    words.add_argument("--designs", nargs="*", default=["W", "G"])
    words.add_argument("--folds", nargs="*", type=int, default=[*range(5)])
    words.add_argument("sets", nargs="+", metavar="SET")
    options = words.parse_args()
    work = options.work.absolute()
    sets = {dataset.name: dataset for dataset in [*all_sets(options.data, work), *other_sets(options.data)]}
    for name in options.sets:
        if name == "long proteins":
            rows, y = long_proteins(options.data)
            classes, width, theirs = int(y.max()) + 1, len(ALPHABETS["protein"]), rows
        else:
            dataset = sets["promoters Bacillus" if name in ("shuffled", "random") else name]
            paths = files_of(dataset, work)
            read = read_sequences(paths[0], dataset.layout)
            other = read_sequences(paths[1], read.layout.fixed())
            rows, theirs = (
                Examples(x.values.astype(np.uint8), x.offsets, None, np.arange(len(x))) for x in (read, other)
            )
            y, z, classes, width = read.codes(read.classes), other.codes(read.classes), len(read.classes), read.width
            if not options.confirm:
                rows, y = joined(rows, theirs), np.concatenate([y, z])
            if name in ("shuffled", "random"):
                rows, y = control(name, rows, y)
        result: dict[str, Any] = {"took": [], "chosen": []}
        if options.confirm:
            out, took, chosen = answered(rows, y, theirs, classes, width, options.designs)
            answers, y = out, z
            result["took"].append(took)
            result["chosen"].append(chosen)
        else:
            fold, answers = dealt(y, 5, 0), dict[str, np.ndarray]()
            for number in options.folds:
                seen, rest = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
                out, took, chosen = answered(rows.take(seen), y[seen], rows.take(rest), classes, width, options.designs)
                for key, value in out.items():
                    answers.setdefault(key, np.zeros((len(y), classes)))[rest] = value
                result["took"].append(took)
                result["chosen"].append(chosen)
        done = np.isin(fold, options.folds) if not options.confirm else np.full(len(y), True)
        y, answers = y[done], {key: value[done] for key, value in answers.items()}
        result |= {"target": y.tolist(), "answers": {key: value.tolist() for key, value in answers.items()}}
        (work / f"runs-{plain_name(name)}{'-test' if options.confirm else ''}.json").write_text(json.dumps(result))
        print(name, len(y), {key: round(value, 1) for key, value in result["took"][0].items()}, flush=True)
        for key, value in answers.items():
            loss = -np.log(np.maximum(value[np.arange(len(y)), y], 1e-6)).mean()
            served = [each[key] for each in result["chosen"] if key in each]
            print(f"  {key:20} {(value.argmax(1) == y).mean():.3f} {loss:.4f} {served}", flush=True)


if __name__ == "__main__":
    main()
