"""Words and shapelets as models of a fit, on sets of the UCR archive: docs/benchmarks/fit-members.md.

    python benchmarks/fit_words.py --ucr FOLDER --work DIR SET [SET ...]

FOLDER/SET/SET_TRAIN.tsv and SET_TEST.tsv (or SET_TEST_*.npy). One JSON a set, as `members_of` of fit_members.py makes it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from fit_members import FEATURES, answer, dealt_folds

from headstart.sequence import Examples

TAPS = 11
MODELS = {
    "both": ("shares", "competing"),
    "shares": ("shares",),
    "competing": ("competing",),
    "quantiles": ("quantiles",),
    "shapelets": ("shapelets",),
    "words": ("words",),
}


def windows(x: np.ndarray, taps: int, dilation: int) -> np.ndarray:
    """(n, P, taps) of (n, L)."""
    n, length = x.shape
    shape = (n, length - (taps - 1) * dilation, taps)
    return np.lib.stride_tricks.as_strided(x, shape, (x.strides[0], x.strides[1], x.strides[1] * dilation))


def standard(w: np.ndarray) -> np.ndarray:
    w = w - w.mean(-1, keepdims=True)
    spread = w.std(-1, keepdims=True)
    return np.asarray(w / np.where(spread > 1e-6, spread, 1))


def shapelets(x: np.ndarray, y: np.ndarray, number: int = 2_500, seed: int = 0) -> list[Any]:
    """Groups (dilation, standardised?, shapelets (S, 11), thresholds (S,)) of one dilation each."""
    rng = np.random.default_rng(seed)
    n, length = x.shape
    dilations = (2 ** rng.uniform(0, np.log2(max((length - 1) / (TAPS - 1), 1)), number)).astype(int)
    flags, rows, groups = rng.random(number) < 0.8, rng.integers(n, size=number), []
    for dilation in np.unique(dilations).tolist():
        for flag in (False, True):
            chosen = np.flatnonzero((dilations == dilation) & (flags == flag))
            if not len(chosen):
                continue
            start = rng.integers(length - (TAPS - 1) * dilation, size=len(chosen))
            taken = x[rows[chosen][:, None], start[:, None] + dilation * np.arange(TAPS)].astype(np.float32)
            taken = standard(taken) if flag else taken
            limits = np.empty(len(chosen), np.float32)
            for j, row in enumerate(rows[chosen]):
                same = np.flatnonzero(y == y[row])
                same = same[same != row] if len(same) > 1 else same
                w = windows(x[rng.choice(same)][None], TAPS, dilation)[0]
                distance = (((standard(w) if flag else w) - taken[j]) ** 2).sum(-1)
                limits[j] = rng.uniform(*np.quantile(distance, (0.05, 0.10)))
            groups.append((dilation, flag, taken, limits))
    return groups


def shapelet_rows(x: np.ndarray, groups: list[Any], cells: int = 1 << 20) -> np.ndarray:
    """(n, 3 S): least distance, its place, how often it is below the threshold."""
    tables = []
    for dilation, flag, taken, limits in groups:
        w = windows(x, TAPS, dilation)
        places, out = w.shape[1], np.empty((len(x), len(taken), 3), np.float32)
        step = max(1, cells // (places * len(taken)))
        for at in range(0, len(x), step):
            some = w[at : at + step].astype(np.float32)
            some = standard(some) if flag else some
            products = (some.reshape(-1, TAPS) @ taken.T).reshape(*some.shape[:2], -1)
            distance = (some**2).sum(-1)[..., None] - 2 * products + (taken**2).sum(1)
            out[at : at + step, :, 0] = np.sqrt(np.maximum(distance.min(1), 0))
            out[at : at + step, :, 1] = distance.argmin(1) / places
            out[at : at + step, :, 2] = (distance < limits).mean(1)
        tables.append(out.reshape(len(x), -1))
    return np.concatenate(tables, 1)


def coefficients(x: np.ndarray, taps: int, dilation: int, flag: bool, basis: np.ndarray) -> np.ndarray:
    w = windows(np.ascontiguousarray(x, dtype=np.float32), taps, dilation)
    if not flag:
        return np.asarray(w @ basis)
    spread = w.std(-1, keepdims=True)
    return np.asarray((w @ basis) / np.where(spread > 1e-6, spread, 1))


def words(x: np.ndarray, number: int = 100, seed: int = 0) -> list[Any]:
    """Windows (taps, dilation, steps?, standardised?, basis (taps, letters), cuts (letters,))."""
    rng = np.random.default_rng(seed)
    n, length = x.shape
    top = 84 if length >= 250 and n >= 250 else 44 if n >= 250 or length >= 100 else 24
    out = []
    for _ in range(number):
        taps = int(rng.integers(4, max(min(top, length // 2), 5) + 1))
        dilation = int(2 ** rng.uniform(0, np.log2(max((length - 1) / (taps - 1), 1))))
        steps, flag = bool(rng.integers(2)), bool(rng.integers(2))
        dilation = max(1, min(dilation, (length - 2) // (taps - 1)))
        letters = int(rng.choice([7, 8]))
        angles = 2 * np.pi * np.outer(np.arange(taps), np.arange(int(flag), min(taps // 2, 16) + 1)) / taps
        basis = np.concatenate([np.cos(angles), -np.sin(angles)], 1).astype(np.float32)
        some = (np.diff(x) if steps else x)[rng.choice(n, min(n, 200), replace=False)]
        values = coefficients(some, taps, dilation, flag, basis).reshape(-1, basis.shape[1])
        chosen = np.sort(np.argsort(-values.var(0))[:letters])
        values = values[:, chosen]
        cuts = np.quantile(values, 0.5, axis=0) if rng.integers(2) else (values.min(0) + values.max(0)) / 2
        out.append((taps, dilation, steps, flag, basis[:, chosen], cuts.astype(np.float32)))
    return out


def word_rows(x: np.ndarray, fitted: list[Any]) -> np.ndarray:
    """Square roots of counts of each window's words."""
    tables = []
    for taps, dilation, steps, flag, basis, cuts in fitted:
        values = np.diff(x) if steps else x
        code = (coefficients(values, taps, dilation, flag, basis) > cuts) @ (1 << np.arange(len(cuts)))
        cell = np.repeat(np.arange(len(code)), code.shape[1]) * (1 << len(cuts)) + code.ravel()
        tables.append(np.sqrt(np.bincount(cell, minlength=len(code) << len(cuts)).reshape(len(code), -1)))
    return np.concatenate(tables, 1).astype(np.float32)


def rows_of(folder: Path, name: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(n, L) float32 and labels; a missing value is 0."""
    arrays = sorted((folder / name).glob(f"{name}_{split}*.npy"))
    table = np.load(arrays[0]) if arrays else np.loadtxt(folder / name / f"{name}_{split}.tsv", delimiter="\t")
    return np.nan_to_num(table[:, 1:]).astype(np.float32), table[:, 0]


def plain(values: np.ndarray, labels: np.ndarray) -> Examples:
    n, length = values.shape
    return Examples(values.reshape(-1, 1), np.arange(n + 1) * length, labels, np.arange(n))


def measured(folder: Path, name: str) -> dict[str, Any]:
    """Probabilities of train rows out of fold, and of test rows, by model."""
    (a, labels), (b, others) = (rows_of(folder, name, split) for split in ("TRAIN", "TEST"))
    names, y = np.unique(labels, return_inverse=True)
    truth, classes, folds = np.searchsorted(names, others), len(names), list(dealt_folds(y))
    tables = {}
    for feature in ("shares", "competing", "quantiles"):
        model = FEATURES[feature](plain(a, labels), 0)
        tables[feature] = model.transform(plain(a, labels)), model.transform(plain(b, others))
    fitted = words(a)
    counted = word_rows(a, fitted), word_rows(b, fitted)
    tables["words"] = counted[0][:, counted[0].std(0) > 0], counted[1][:, counted[0].std(0) > 0]
    drawn = shapelets(a, y)
    tables["shapelets"] = shapelet_rows(a, drawn), shapelet_rows(b, drawn)
    sides: dict[str, dict[str, Any]] = {"out": {}, "test": {}}
    inner = []
    for held in folds:
        seen = np.setdiff1d(np.arange(len(y)), held)
        own = shapelets(a[seen], y[seen])
        inner.append((shapelet_rows(a[seen], own), shapelet_rows(a[held], own)))
    for title, parts in MODELS.items():
        unseen = np.zeros((len(y), classes))
        for number, held in enumerate(folds):
            seen = np.setdiff1d(np.arange(len(y)), held)
            own = "shapelets" in parts
            rows = inner[number][0] if own else np.concatenate([tables[part][0][seen] for part in parts], 1)
            rest = inner[number][1] if own else np.concatenate([tables[part][0][held] for part in parts], 1)
            unseen[held] = answer(rows, y[seen], rest, classes)
        train, test = (np.concatenate([tables[part][side] for part in parts], 1) for side in (0, 1))
        sides["out"][title], sides["test"][title] = unseen.tolist(), answer(train, y, test, classes).tolist()
    return sides | {"target": y.tolist(), "truth": truth.tolist()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ucr", type=Path, required=True)
    options.add_argument("--work", type=Path, required=True)
    options.add_argument("sets", nargs="+")
    chosen = options.parse_args()
    for name in chosen.sets:
        (chosen.work / f"{name}.json").write_text(json.dumps(measured(chosen.ucr, name)))


if __name__ == "__main__":
    main()
