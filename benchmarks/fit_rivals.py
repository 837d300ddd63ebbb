"""A rival of `fit` on one set: fitted on its train rows, asked for its test rows; run by benchmarks/fit_against.py.

    python benchmarks/fit_rivals.py METHOD SEED DATA.npz OUT.json [WEIGHTS]

Runs in the environment of benchmarks/fit_against.txt (`mantis`: fit_mantis.txt) and imports nothing of headstart. DATA holds
train and test (n, F, L) float32, train_letters and test_letters (n,) bytes where they are letters, and target (n,) int64. OUT gets the predicted classes and the seconds of fitting and predicting,
without imports. WEIGHTS: the folder of a pretrained model, which `mantis` alone reads.
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
"""Processor seconds that the network may train for; its authors train for 1,500 epochs on a GPU."""
EPOCHS, RISE = 1_500, 0.25
MORE: dict[str, Any] = {}
"""What a method says of itself beside its answer."""
GIVEN_UP = "given up: "
"""What the last line of stderr begins with where a method says why it has no answer."""


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

    Adam whose rate rises to 0.001 over a quarter of the time and falls to 0 by its end (one cycle, as tsai trains it), for
    1,500 epochs or `INCEPTION_SECONDS`, whichever is shorter; it has no answer where no epoch ends by then.
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
    size, begun, epochs = min(64, max(2, len(train) // 10 or 2)), time.process_time(), 0

    def share() -> float:
        spent = time.process_time() - begun
        return 1.0 if spent >= INCEPTION_SECONDS else max(spent / INCEPTION_SECONDS, epochs / EPOCHS)

    while share() < 1:
        for some in split(torch.randperm(len(train)), size):
            done = share()
            if len(some) < 2 or done == 1:
                continue
            angle = done / RISE - 1 if done < RISE else (done - RISE) / (1 - RISE)
            optimiser.param_groups[0]["lr"] = 1e-3 * (1 + np.cos(np.pi * angle)) / 2
            loss: Any = nn.functional.cross_entropy(model(inputs[some]), wanted[some])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        epochs += share() < 1 or epochs + 1 == EPOCHS
    MORE["epochs"] = epochs
    if not epochs:
        sys.exit(f"{GIVEN_UP}no epoch of its training ends within {INCEPTION_SECONDS:g} processor seconds")
    model.eval()
    with torch.no_grad():
        rows = split(torch.from_numpy((test - train.mean()) / scale), 64)
        return np.concatenate([model(some).argmax(1).numpy() for some in rows])


def ngrams(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """scikit-learn's TF-IDF of words or of runs of 2 to 5 letters and logistic regression, both chosen on three folds.

    train, test: (n,) bytes.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import Pipeline

    texts, asked = ([row.decode("latin-1") for row in rows] for rows in (train, test))
    steps = [("ngrams", TfidfVectorizer(min_df=2, sublinear_tf=True)), ("linear", LogisticRegression(max_iter=1_000))]
    choices = {"ngrams__analyzer": ["char"], "ngrams__ngram_range": [(2, 3), (2, 5)]}
    words = {"ngrams__analyzer": ["word"], "ngrams__ngram_range": [(1, 1), (1, 2)]}
    grid = [{**units, "linear__C": [1, 10, 100]} for units in ([choices, words] if " " in texts[0] else [choices])]
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    return np.asarray(GridSearchCV(Pipeline(steps), grid, cv=folds).fit(texts, target).predict(asked))


def mantis(train: np.ndarray, target: np.ndarray, test: np.ndarray, seed: int, weights: str) -> np.ndarray:
    """Logistic regression on frozen features of a Mantis model, as its authors use it (Feofanov et al. 2025, mantis-tsfm).

    weights: a folder with config.json and model.safetensors of Mantis or MantisV2. Each channel is stretched to the length that
    the model was trained on; its features are the class token and the mean of the others after the third layer, which its
    authors found best on UCR; those of several channels stand side by side, each with mean 0 and deviation 1 over train.
    """
    import torch
    from mantis.architecture import MantisV1, MantisV2
    from mantis.trainer import MantisTrainer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    torch.set_num_threads(1)
    config = json.loads((Path(weights) / "config.json").read_text("utf-8"))
    kind = MantisV2 if "kernel_size" in config else MantisV1
    network = kind(device="cpu", return_transf_layer=2, output_token="combined")  # noqa: S106 - a token of a sequence
    network = network.from_pretrained(weights)
    trainer = MantisTrainer(device="cpu", network=network)

    def features(x: np.ndarray) -> np.ndarray:
        stretched = torch.nn.functional.interpolate(torch.from_numpy(x), config.get("seq_len", 512), mode="linear")
        return np.asarray(trainer.transform(stretched.numpy()))

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000, random_state=seed))
    return np.asarray(model.fit(features(train), target).predict(features(test)))


METHODS: dict[str, Callable[..., np.ndarray]] = {
    "minirocket": minirocket,
    "multirocket_hydra": multirocket_hydra,
    "hydra": hydra,
    "quant": quant,
    "boosting": boosting,
    "inception": inception,
    "ngrams": ngrams,
    "mantis": mantis,
}


def main() -> None:
    method, seed, source, out, *weights = sys.argv[1:]
    data: Any = np.load(source, allow_pickle=False)
    begun = time.monotonic()
    train, test = (data[f"{side}_letters" if method == "ngrams" else side] for side in ("train", "test"))
    predicted = METHODS[method](train, data["target"], test, int(seed), *weights)
    seconds = time.monotonic() - begun
    Path(out).write_text(json.dumps({"predicted": np.asarray(predicted).tolist(), "inner": seconds, **MORE}))


if __name__ == "__main__":
    main()
