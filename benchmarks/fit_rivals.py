"""A rival of `fit` on one set: fitted on its train rows, asked for its test rows; run by benchmarks/fit_against.py.

    python benchmarks/fit_rivals.py METHOD SEED DATA.npz OUT.json

Runs in the environment of benchmarks/fit_against.txt and imports nothing of headstart. DATA holds train and test (n, F, L)
float32 and target (n,) int64. OUT gets the predicted classes and the seconds of fitting and predicting, without imports.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

INCEPTION_SECONDS = 120.0
"""What the network may train for; its authors train for 1,500 epochs on a GPU."""
EPOCHS = 1_500


def minirocket(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """aeon's MiniRocket with its ridge classifier (Dempster et al. 2021)."""
    from aeon.classification.convolution_based import MiniRocketClassifier

    return np.asarray(MiniRocketClassifier(random_state=seed, n_jobs=1).fit(train, target).predict(test))


def multirocket_hydra(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """aeon's MultiRocket with Hydra (Dempster et al. 2023)."""
    from aeon.classification.convolution_based import MultiRocketHydraClassifier

    return np.asarray(MultiRocketHydraClassifier(random_state=seed, n_jobs=1).fit(train, target).predict(test))


def hydra(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """aeon's Hydra alone."""
    from aeon.classification.convolution_based import HydraClassifier

    return np.asarray(HydraClassifier(random_state=seed, n_jobs=1).fit(train, target).predict(test))


def quant(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """aeon's QUANT with its extremely randomised trees (Dempster et al. 2024)."""
    from aeon.classification.interval_based import QUANTClassifier

    return np.asarray(QUANTClassifier(random_state=seed).fit(train, target).predict(test))


def boosting(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """scikit-learn's gradient boosting on summaries of the whole sequence and of its quarters."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=seed, min_samples_leaf=min(20, max(1, len(train) // 20)))
    return np.asarray(model.fit(_summaries(train), target).predict(_summaries(test)))


def _summaries(x: np.ndarray) -> np.ndarray:
    """(n, P) mean, deviation, least, greatest, quartiles, slope and mean step of the whole and of each quarter."""
    parts = [x, *np.array_split(x, min(4, x.shape[-1]), axis=-1)]
    out = []
    for part in parts:
        position = np.arange(part.shape[-1]) - (part.shape[-1] - 1) / 2
        slope = (part * position).sum(-1) / max((position**2).sum(), 1.0)
        steps = np.abs(np.diff(part, axis=-1)).mean(-1) if part.shape[-1] > 1 else np.zeros_like(slope)
        quartiles = np.quantile(part, (0.25, 0.5, 0.75), axis=-1)
        out += [part.mean(-1), part.std(-1), part.min(-1), part.max(-1), *quartiles, slope, steps]
    return np.concatenate(out, axis=1)


def inception(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """One InceptionTime network (Fawaz et al. 2020): six modules of 32 filters of lengths 40, 20 and 10, in torch.

    Adam at 0.001, halved where the train loss stands still for 50 epochs; the weights of the least train loss are kept, as
    its authors do. It stops after 1,500 epochs or `INCEPTION_SECONDS`.
    """
    import torch
    from torch import nn

    split: Any = torch.split
    torch.manual_seed(seed)
    torch.set_num_threads(1)

    class Module(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            narrow = 32 if width > 1 else 1
            self.narrow = nn.Conv1d(width, 32, 1, bias=False) if width > 1 else nn.Identity()
            self.wide = nn.ModuleList(nn.Conv1d(narrow, 32, k, padding="same", bias=False) for k in (39, 19, 9))
            self.pooled = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(width, 32, 1, bias=False))
            self.norm = nn.BatchNorm1d(128)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.narrow(x)
            return torch.relu(self.norm(torch.cat([*(c(inner) for c in self.wide), self.pooled(x)], 1)))

    class Network(nn.Module):
        def __init__(self, width: int, classes: int) -> None:
            super().__init__()
            self.modules_ = nn.ModuleList(Module(width if i == 0 else 128) for i in range(6))
            self.shortcuts = nn.ModuleList(
                nn.Sequential(nn.Conv1d(w, 128, 1, bias=False), nn.BatchNorm1d(128)) for w in (width, 128)
            )
            self.head = nn.Linear(128, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = x
            for i, module in enumerate(self.modules_):
                x = module(x)
                if i % 3 == 2:
                    x = torch.relu(x + self.shortcuts[i // 3](before))
                    before = x
            out: torch.Tensor = self.head(x.mean(-1))
            return out

    scale = train.std() or 1.0
    inputs, wanted = (torch.from_numpy(a) for a in ((train - train.mean()) / scale, target))
    model = Network(train.shape[1], int(target.max()) + 1)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    slower = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=50, min_lr=1e-4)
    size, begun, least = min(64, max(2, len(train) // 10 or 2)), time.monotonic(), np.inf
    best = {k: v.clone() for k, v in model.state_dict().items()}
    for _ in range(EPOCHS):
        total = 0.0
        model.train()
        for some in split(torch.randperm(len(train)), size):
            if len(some) < 2 or time.monotonic() - begun > INCEPTION_SECONDS:
                continue
            loss: Any = nn.functional.cross_entropy(model(inputs[some]), wanted[some])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(some)
        if time.monotonic() - begun > INCEPTION_SECONDS:
            break
        slower.step(total)
        if total < least:
            least, best = total, {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(best if np.isfinite(least) else model.state_dict())
    model.eval()
    with torch.no_grad():
        rows = split(torch.from_numpy((test - train.mean()) / scale), 64)
        return np.concatenate([model(some).argmax(1).numpy() for some in rows])


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]] = {
    "minirocket": minirocket,
    "multirocket_hydra": multirocket_hydra,
    "hydra": hydra,
    "quant": quant,
    "boosting": boosting,
    "inception": inception,
}


def main() -> None:
    method, seed, source, out = sys.argv[1:]
    data: Any = np.load(source, allow_pickle=False)
    begun = time.monotonic()
    predicted = METHODS[method](data["train"], data["target"], data["test"], int(seed))
    seconds = time.monotonic() - begun
    Path(out).write_text(json.dumps({"predicted": np.asarray(predicted).tolist(), "inner": seconds}))


if __name__ == "__main__":
    main()
