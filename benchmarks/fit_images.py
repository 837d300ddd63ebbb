"""Kernels over rows and columns of small images beside today's kernels over their pixels in a row.

    python benchmarks/fit_images.py --data DATA

Rule and claim, written before, are on docs/benchmarks/fit-images.md; this writes fit-images.json beside it.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch.nn.functional import conv2d

from headstart.baselines.convolve import WEIGHT_PLACES
from headstart.baselines.kernels import KernelsSpec
from headstart.sequence import Examples, Signature

LABELS, DRAWS, SCORED, FEATURES, GOLDEN = 500, 3, 1_000, 10_000, (5**0.5 + 1) / 2
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "fit-images.json"
KERNELS = np.full((len(WEIGHT_PLACES), 9), -1, np.float32)
np.put_along_axis(KERNELS, WEIGHT_PLACES, 2, 1)


class Plane:
    """84 kernels of 3 x 3 (2 at three places, -1 at six) at dilations 1, 2, 4, 8, padded; biases are quantiles of outputs of
    train; a feature is the share of outputs above a bias, of the whole image or of a quarter. Images: (n, F, H, W)."""

    def __init__(self, train: np.ndarray, seed: int, grids: tuple[int, ...]) -> None:
        rng, (n, channels, *self.sides) = np.random.default_rng(seed), train.shape
        self.dilations = [d for d in (1, 2, 4, 8) if d <= (min(self.sides) - 1) // 2]
        self.grids, parts = grids, sum(side**2 for side in grids)
        self.each = max(1, round(FEATURES / (84 * len(self.dilations) * parts)))
        self.mean, self.spread = (f(train, (0, 2, 3), keepdims=True) for f in (np.mean, np.std))
        self.biases = np.empty((len(self.dilations), 84, self.each), np.float32)
        self.channels = rng.random((len(self.dilations), 84, channels)) < 0.5
        self.channels[~self.channels.any(2), 0] = True
        for at in range(len(self.dilations)):
            some = self.seen(train[rng.integers(0, n, 84)])
            for kernel in range(84):
                outputs = self.outputs(some[kernel : kernel + 1], at, kernel).numpy()
                first = (at * 84 + kernel) * self.each + 1
                self.biases[at, kernel] = np.quantile(outputs, np.arange(first, first + self.each) * GOLDEN % 1)

    def seen(self, images: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((images - self.mean) / (self.spread + 1e-8)).astype(np.float32))

    def outputs(self, seen: torch.Tensor, at: int, kernel: int) -> torch.Tensor:
        """(n, H, W)."""
        x = seen[:, torch.from_numpy(self.channels[at, kernel])].sum(1, keepdim=True)
        weights = torch.from_numpy(KERNELS[kernel].reshape(1, 1, 3, 3))
        return conv2d(x, weights, padding=self.dilations[at], dilation=self.dilations[at])[:, 0]

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, P)."""
        seen, out = self.seen(images), []
        for at in range(len(self.dilations)):
            for kernel in range(84):
                biases = torch.from_numpy(self.biases[at, kernel])[:, None, None, None]
                over = (self.outputs(seen, at, kernel) > biases).float()
                for side in self.grids:
                    ends = [np.linspace(0, size, side + 1).round().astype(int) for size in self.sides]
                    for a, b in zip(ends[0][:-1], ends[0][1:], strict=True):
                        for c, d in zip(ends[1][:-1], ends[1][1:], strict=True):
                            out.append(over[:, :, a:b, c:d].mean((2, 3)))
        return torch.cat(out).T.numpy()


def sets(data: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images (n, F, H, W) of train and labels; digits chose the parts of an image."""
    pixels, kinds = load_digits(return_X_y=True)
    raw, labels = (
        np.frombuffer(
            gzip.decompress((data / "mnist" / f"train-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=skipped
        )
        for kind, skipped in (("images-idx3", 16), ("labels-idx1", 8))
    )
    colour, names = [], []
    with tarfile.open(data / "cifar10" / "cifar10_jpeg.tar.xz") as archive:
        for member in archive:
            path = Path(member.name)
            if member.isfile() and path.parts[-3] == "train" and int(path.stem) < 600:
                colour.append(np.asarray(Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB")))  # type: ignore[union-attr]
                names.append(path.parts[-2])
    pictures, classes = (
        np.stack(colour).transpose(0, 3, 1, 2).astype(np.float32),
        np.unique(names, return_inverse=True)[1],
    )
    return {
        "digits": (pixels.reshape(-1, 1, 8, 8).astype(np.float32), kinds),
        "MNIST": (raw.reshape(-1, 1, 28, 28)[:6_000].astype(np.float32), labels[:6_000].astype(np.int64)),
        "CIFAR-10, grey": (pictures.mean(1, keepdims=True), classes),
        "CIFAR-10": (pictures, classes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    out = list[dict[str, Any]]()
    torch.set_num_threads(1)
    for name, (images, labels) in sets(parser.parse_args().data).items():
        scored = min(SCORED, len(images) - LABELS)
        order = np.random.default_rng(0).permutation(len(images))
        test, rest = order[:scored], order[scored:]
        for draw in range(DRAWS):
            train = (
                rest[draw * LABELS : (draw + 1) * LABELS]
                if len(rest) >= DRAWS * LABELS
                else np.random.default_rng(draw).choice(rest, LABELS, False)
            )
            sequences = [
                Examples.from_arrays(list(images[i].reshape(len(i), images.shape[1], -1).transpose(0, 2, 1)), labels[i])
                for i in (train, test)
            ]
            flat = images.reshape(len(images), -1)
            size = images.shape[2] * images.shape[3]
            signature = Signature("floats", images.shape[1], size, size, "class", classes=10)

            def plane(*grids: int) -> np.ndarray:
                made = Plane(images[train], draw, grids)
                scaler = StandardScaler().fit(rows := made(images[train]))
                model = RidgeClassifierCV(np.logspace(-3, 5, 17)).fit(scaler.transform(rows), labels[train])
                return np.asarray(model.predict(scaler.transform(made(images[test]))))

            def kernels() -> np.ndarray:
                none = sequences[0].take(np.arange(0))
                return (
                    KernelsSpec(also=("hydra",))
                    .fit(sequences[0], none, signature, draw)
                    .predict(sequences[1])
                    .argmax(1)
                )

            models = {
                "kernels": kernels,
                "rows and columns": lambda: plane(1, 2),
                "the same, whole image": lambda: plane(1),
                "support vectors on pixels": lambda: make(flat[train], labels[train], flat[test]),
            }
            for model, answer in models.items():
                begun = time.process_time()
                accuracy = float((answer() == labels[test]).mean())
                seconds = round(time.process_time() - begun, 1)
                out.append(
                    {"set": name, "draw": draw, "model": model, "accuracy": round(accuracy, 4), "seconds": seconds}
                )
                print(out[-1], flush=True)
    PAGE.write_text(json.dumps({"labels": LABELS, "rows": out}) + "\n")


def make(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Of support vectors with radial kernels, C = 10."""
    scaler = StandardScaler().fit(train)
    return np.asarray(SVC(C=10).fit(scaler.transform(train), labels).predict(scaler.transform(test)))


if __name__ == "__main__":
    main()
