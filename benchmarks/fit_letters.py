"""Kernels over letters as a model of a fit, beside n-grams: docs/benchmarks/fit-members.md has the rule, written before the runs.

    python benchmarks/fit_letters.py --data DIR [--work DIR] [--confirm] [--designs NAME ...] SET ...

Of a choosing set all rows are answered in five folds; with --confirm the test rows, by what train rows chose. `shuffled` and `random`
are controls. One JSON per set.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import all_sets, files_of, other_sets, parser_of, plain_name

from headstart.baselines.average import choose_average
from headstart.baselines.kernels import KernelsSpec, fit_kernels, spread_dilations
from headstart.baselines.linear import Split, ridge_classes
from headstart.baselines.measures import heated, softmax
from headstart.data import read_sequences
from headstart.sequence import Examples, Signature

DESIGNS = {"kernels": 9_996, "kernels, half": 4_998, "motifs": 9_996, "motifs, half": 4_998}
BIASES = 7
TAPS = 9


@dataclass(frozen=True)
class Motifs:
    """Random weights of letters at nine places, by dilation: the greatest output, and shares of outputs above biases."""

    letters: np.ndarray
    groups: list[tuple[int, np.ndarray, np.ndarray]]
    """(dilation, weights (9 F, M), biases (M, 7))."""

    def outputs(self, rows: Examples, dilation: int, weights: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(sequences, outputs (n, R, M)), -inf beyond a sequence's end."""
        reach, order, lengths = TAPS // 2 * dilation, np.argsort(rows.lengths, kind="stable"), rows.lengths
        table = np.concatenate(
            [np.eye(len(self.letters), dtype=np.float32), np.zeros((1, len(self.letters)), np.float32)]
        )
        index = np.full(256, -1)
        index[self.letters] = np.arange(len(self.letters))
        first = 0
        while first < len(order):
            long = max(int(lengths[order[first]]), 1)
            some = order[first : first + max(1, (1 << 16) // (long * weights.shape[1]))]
            first += len(some)
            long = int(lengths[some].max())
            there = np.arange(long) < lengths[some][:, None]
            codes = np.full((len(some), long + 2 * reach), -1)
            codes[:, reach : reach + long][there] = np.concatenate(
                [index[rows.values[rows.offsets[i] : rows.offsets[i + 1]]] for i in some]
            )
            places = np.arange(long)[:, None] + dilation * np.arange(TAPS)
            out = (table[codes[:, places]].reshape(len(some) * long, -1) @ weights).reshape(len(some), long, -1)
            out[~there] = -np.inf
            yield some, out

    def transform(self, rows: Examples) -> np.ndarray:
        tables = []
        for dilation, weights, biases in self.groups:
            table = np.empty((len(rows), weights.shape[1], 1 + BIASES), np.float32)
            for some, out in self.outputs(rows, dilation, weights):
                table[some, :, 0] = out.max(1)
                for number in range(BIASES):
                    over = (out > biases[:, number]).view(np.uint8)
                    table[some, :, 1 + number] = np.add.reduce(over, axis=1, dtype=np.uint16)
            table[:, :, 1:] /= rows.lengths[:, None, None]
            tables.append(table.reshape(len(rows), -1))
        return np.concatenate(tables, 1)


def letters_of(rows: Examples) -> np.ndarray:
    """Ids of letters that at least two of a hundred sequences have."""
    row = np.repeat(np.arange(len(rows)), rows.lengths)
    having = np.bincount(np.unique(row * 256 + rows.values) % 256, minlength=256)
    return np.flatnonzero(having >= max(2, 0.02 * len(rows)))


def fit_motifs(rows: Examples, features: int, seed: int = 0) -> Motifs:
    rng, letters = np.random.default_rng(seed), letters_of(rows)
    length = int(np.sort(rows.lengths)[len(rows) // 4])
    dilations, each = spread_dilations(length, features // (1 + BIASES))
    motifs, few = Motifs(letters, []), rows.take(np.sort(rng.choice(len(rows), min(50, len(rows)), replace=False)))
    for dilation, count in zip(dilations.tolist(), each.tolist(), strict=True):
        weights = rng.normal(size=(TAPS, len(letters), count))
        weights = (weights - weights.mean(1, keepdims=True)).reshape(-1, count).astype(np.float32)
        outputs = np.concatenate([out.reshape(-1, count) for _, out in motifs.outputs(few, dilation, weights)])
        outputs = outputs[np.isfinite(outputs[:, 0])]
        biases = np.quantile(outputs, 1 - 0.5 ** np.linspace(1, 9, BIASES), axis=0).T
        motifs.groups.append((dilation, weights, biases.astype(np.float32)))
    return motifs


def channels(rows: Examples, letters: np.ndarray) -> Examples:
    return replace(rows, values=(rows.values[:, None] == letters).astype(np.float32))


def tables(design: str, train: Examples, rest: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Features of train, of which they are fitted, and of other rows."""
    if design.startswith("motifs"):
        motifs = fit_motifs(train, DESIGNS[design])
        return motifs.transform(train), motifs.transform(rest)
    letters = letters_of(train)
    made = fit_kernels(channels(train, letters), 0, DESIGNS[design])
    return made.transform(channels(train, letters)), made.transform(channels(rest, letters))


def dealt(y: np.ndarray, parts: int, seed: int) -> np.ndarray:
    """(n,) the part of each row, each class in proportion."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    out = np.empty(len(y), int)
    out[order] = np.arange(len(y)) % parts
    return out


def joined(first: Examples, second: Examples) -> Examples:
    lengths = np.concatenate([first.lengths, second.lengths])
    values = np.concatenate([first.values, second.values])
    return Examples(values, np.concatenate([[0], np.cumsum(lengths)]), None, np.arange(len(lengths)))


def answered(rows: Examples, y: np.ndarray, rest: Examples, classes: int, width: int, designs: list[str]) -> Any:
    """Probabilities of the rest by n-grams, each design, and what would be served of both; a fifth of the rows chooses."""
    signature = Signature("tokens", width, int(rows.lengths.max()), int(rows.lengths.min()), "class", classes)
    part = dealt(y, 5, 1)
    seen, held = np.flatnonzero(part), np.flatnonzero(part == 0)
    a, b = (replace(rows.take(some), target=y[some]) for some in (seen, held))
    begun = time.process_time()
    ngrams = KernelsSpec().fit(a, b, signature, 0)
    own, out = ngrams.predict(b), {"n-grams": ngrams.predict(rest)}
    took, shares = {"n-grams": time.process_time() - begun}, {}
    for design in designs:
        begun = time.process_time()
        own_rows, more = tables(design, a, joined(b, rest))
        train, both = (own_rows, more[: len(b)]), more[len(b) :]
        took[f"{design}, features"] = time.process_time() - begun
        readout = ridge_classes(Split(train[0], y[seen]), Split(train[1], y[held]), classes)
        took[design] = time.process_time() - begun
        pair = [own, softmax(readout.scores(train[1]), readout.temperature)]
        test = [out["n-grams"], softmax(readout.scores(both), readout.temperature)]
        single = int(np.argmax([((p.argmax(1) == y[held]).mean()) for p in pair]))
        chosen = choose_average(pair, y[held], np.zeros(0), single)
        out[design] = test[1]
        if chosen is None:
            served, shares[design] = test[single], [1.0 - single, float(single)]
        else:
            served = heated(np.tensordot(chosen[1], [test[i] for i in chosen[0]], axes=1), chosen[2])
            shares[design] = [dict(zip(chosen[0], chosen[1], strict=True)).get(i, 0.0) for i in (0, 1)]
        out[f"served, {design}"] = served
    return out, took, shares


def control(name: str, rows: Examples, y: np.ndarray) -> tuple[Examples, np.ndarray]:
    rng = np.random.default_rng(0)
    if name == "shuffled":
        return rows, rng.permutation(y)
    return Examples(
        rng.integers(4, size=81_000).astype(np.uint8), np.arange(1_001) * 81, None, np.arange(1_000)
    ), rng.integers(2, size=1_000)


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-letters"))
    words.add_argument("--confirm", action="store_true")
    words.add_argument("--designs", nargs="*", default=[*DESIGNS])
    words.add_argument("sets", nargs="+", metavar="SET")
    options = words.parse_args()
    work = options.work.absolute()
    sets = {dataset.name: dataset for dataset in [*all_sets(options.data, work), *other_sets(options.data)]}
    for name in options.sets:
        dataset = sets["promoters Bacillus" if name in ("shuffled", "random") else name]
        paths = files_of(dataset, work)
        read = read_sequences(paths[0], dataset.layout)
        other = read_sequences(paths[1], read.layout.fixed())
        ours, theirs = (Examples(x.values.astype(np.uint8), x.offsets, None, np.arange(len(x))) for x in (read, other))
        y, z = read.codes(read.classes), other.codes(read.classes)
        classes, width = len(read.classes), read.width
        if options.confirm:
            out, took, shares = answered(ours, y, theirs, classes, width, options.designs)
            result: dict[str, Any] = {"target": z.tolist(), "took": [took], "shares": [shares]}
            result["answers"] = {key: value.tolist() for key, value in out.items()}
        else:
            rows = joined(ours, theirs)
            y = np.concatenate([y, z])
            if name in ("shuffled", "random"):
                rows, y = control(name, rows, y)
            fold, answers, result = dealt(y, 5, 0), dict[str, np.ndarray](), {"took": [], "shares": []}
            for number in range(5):
                seen, rest = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
                out, took, shares = answered(rows.take(seen), y[seen], rows.take(rest), classes, width, options.designs)
                for key, value in out.items():
                    answers.setdefault(key, np.zeros((len(y), classes)))[rest] = value
                result["took"].append(took)
                result["shares"].append(shares)
            result |= {"target": y.tolist(), "answers": {key: value.tolist() for key, value in answers.items()}}
            z = y
        (work / f"{plain_name(name)}{'-test' if options.confirm else ''}.json").write_text(json.dumps(result))
        print(name, len(z), result["took"][0], flush=True)
        for key, value in result["answers"].items():
            p = np.array(value)
            loss = -np.log(np.maximum(p[np.arange(len(z)), z], 1e-6)).mean()
            print(
                f"  {key:26} {(p.argmax(1) == z).mean():.3f} {loss:.4f}",
                [s.get(key.removeprefix("served, ")) for s in result["shares"]] if key.startswith("served") else "",
                flush=True,
            )


if __name__ == "__main__":
    main()
