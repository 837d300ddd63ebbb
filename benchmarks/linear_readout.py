"""How much can be read linearly from frozen features, at whatever rate an output layer was trained on them?

    python benchmarks/linear_readout.py COLUMN RESULTS.json:ARM RESULTS.json:OTHER ... [--data DATA] [--store STORE] [--json FILE]

For each seed of arms of which the output layer alone trained, one class to a sequence: what that layer reads in the stages of the store, each
number standardised on train; a ridge classifier (scikit-learn), its penalty chosen on validation; accuracy on test. Then
the first arm less each other one, paired by seed, with a 95 % t-interval. FILE is added to, column by column.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from harness import parser_of
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

import headstart
from headstart import words
from headstart.statistics import paired_difference
from headstart.study.paper.snapshot import read_snapshot

PENALTIES, BATCH = (0.1, 1.0, 10.0, 100.0, 1000.0), 500


def features(model: torch.nn.Module, X: np.ndarray) -> np.ndarray:
    """What the last linear layer of a model reads of sequences (n, L) or (n, L, F): (n, D)."""
    read: list[torch.Tensor] = []
    last = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
    hook = last.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].float()))
    with torch.inference_mode():
        for first in range(0, len(X), BATCH):
            model(torch.from_numpy(X[first : first + BATCH]))
    hook.remove()
    return torch.cat(read).numpy().astype(float)


def readout(model: torch.nn.Module, splits: dict[str, headstart.Arrays]) -> float:
    """Accuracy on test of the ridge classifier that is best on validation."""
    raw = {name: features(model, split.X) for name, split in splits.items()}
    scaler = StandardScaler().fit(raw["train"])
    scaled = {name: scaler.transform(values) for name, values in raw.items()}
    fitted = [RidgeClassifier(alpha=alpha).fit(scaled["train"], splits["train"].y) for alpha in PENALTIES]
    best = max(fitted, key=lambda ridge: float(ridge.score(scaled["val"], splits["val"].y)))
    return float(best.score(scaled["test"], splits["test"].y))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("column")
    parser.add_argument("arms", nargs="+")
    for name in ("--data", "--store", "--json"):
        parser.add_argument(name)
    options = parser.parse_args()
    scores: dict[str, dict[int, float]] = {}
    splits: dict[str, headstart.Arrays] = {}
    for arm in options.arms:
        file, _, name = arm.rpartition(":")
        snapshot = read_snapshot([Path(file)])
        row = snapshot.results().row(name, options.column)
        assert row is not None, f"{file} has no arm {name!r} on {options.column!r}"
        for run in row.runs:
            _, identity = run.stages[-1]
            for split in () if splits else ("train", "val", "test"):
                splits[split] = headstart.arrays(snapshot.plan.stages[identity].spec.task, split, data=options.data)
            model = headstart.load(identity, store=options.store, data=options.data)
            scores.setdefault(arm, {})[run.seed] = readout(model, splits)
            print(arm, run.seed, words.score(scores[arm][run.seed]), flush=True)
    for arm in options.arms[1:]:
        gap = paired_difference(scores[options.arms[0]], scores[arm])
        print(f"{options.arms[0]} less {arm} on {options.column}: {words.difference(gap)}")
    if options.json:
        file = Path(options.json)
        before = json.loads(file.read_text("utf-8")) if file.exists() else {}
        file.write_text(json.dumps({**before, options.column: scores}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
