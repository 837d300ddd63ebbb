"""Random patches of small images beside the kernels over their pixels in a row, and both in one regression.

    python benchmarks/fit_images.py --data DIR [--shuffled]

Rule and claim, written before, are on docs/benchmarks/fit-images.md; this writes fit-patches.json beside it. --shuffled: the labels of
train are dealt anew, so that nothing can be learnt; this prints alone.
"""

import gzip
import io
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import PAGES, made_here, parser_of
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import StandardScaler

from headstart.baselines.hydra import fit_hydra
from headstart.baselines.kernels import fit_kernels
from headstart.sequence import Examples

LABELS, DRAWS, SCORED, PATCHES = 1_000, 5, 1_000, 500
SETS = ("digits", "MNIST", "CIFAR-10, grey")
CHOSEN = (0.5, 3)
"""What an output must be above, and parts to a side: chosen on digits, before the others were run."""


class Patches:
    """Whitened patches of train images, of `side` pixels, as filters of unit length; what an output is above `over`, and what
    it is below -`over`, summed over each of parts x parts equal parts of an image. Images: (n, H, W), standardised."""

    def __init__(self, train: np.ndarray, seed: int, over: float, parts: int, side: int) -> None:
        rng = np.random.default_rng(seed)
        self.side, self.over, self.parts = side, over, parts
        some = np.concatenate([self.cut(image)[rng.integers(0, self.places(train), 20)] for image in train])
        self.mean = some.mean(0)
        values, vectors = np.linalg.eigh(np.cov(some.T))
        self.whitening = vectors @ np.diag((values + 0.1) ** -0.5) @ vectors.T
        drawn = (some[rng.choice(len(some), PATCHES, False)] - self.mean) @ self.whitening
        self.filters = (self.whitening @ (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).T).astype(np.float32)
        self.offset = (self.mean @ self.filters).astype(np.float32)

    def places(self, images: np.ndarray) -> int:
        return int((images.shape[1] - self.side + 1) * (images.shape[2] - self.side + 1))

    def cut(self, image: np.ndarray) -> np.ndarray:
        """(places, side²), each patch less its mean over its deviation."""
        out = np.lib.stride_tricks.sliding_window_view(image, (self.side, self.side)).reshape(-1, self.side**2)
        out = out - out.mean(1, keepdims=True)
        return (out / np.sqrt(out.var(1, keepdims=True) + 0.01)).astype(np.float32)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, 2 parts² PATCHES)."""
        height, width = (size - self.side + 1 for size in images.shape[1:])
        at = [np.linspace(0, size, self.parts + 1).round().astype(int)[:-1] for size in (height, width)]
        out = []
        for image in images:
            z = (self.cut(image) @ self.filters - self.offset).reshape(height, width, -1)
            both = np.concatenate([np.maximum(z - self.over, 0), np.maximum(-z - self.over, 0)], 2)
            out.append(np.add.reduceat(np.add.reduceat(both, at[0], 0), at[1], 1).reshape(-1))
        return np.stack(out)


def images_of(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, H, W) of official train files, and labels."""
    if name == "digits":
        pixels, labels = load_digits(return_X_y=True)
        return pixels.reshape(-1, 8, 8), labels
    if name == "MNIST":
        parts = (("images-idx3", 16), ("labels-idx1", 8))
        raw, labels = (
            np.frombuffer(
                gzip.decompress((data / "mnist" / f"train-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=at
            )
            for kind, at in parts
        )
        return raw.reshape(-1, 28, 28)[:10_000].astype(float), labels[:10_000].astype(int)
    grey, names = [], []
    with tarfile.open(data / "cifar10" / "cifar10_jpeg.tar.xz") as archive:
        for member in archive:
            path = Path(member.name)
            if member.isfile() and path.parts[-3] == "train" and int(path.stem) < 1_000:
                grey.append(np.asarray(Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB")))  # type: ignore[union-attr]
                names.append(path.parts[-2])
    return np.stack(grey).mean(3), np.unique(names, return_inverse=True)[1]


def kernel_features(images: np.ndarray, labels: np.ndarray, train: np.ndarray, draw: int) -> np.ndarray:
    """(n, P) of today's kernels, random and competing, fitted on `train`."""
    rows = Examples.from_arrays(list(images.reshape(len(images), -1, 1)), labels)
    few = rows.take(train)
    return np.concatenate([f(few, draw).transform(rows) for f in (fit_kernels, fit_hydra)], 1)


def accuracy(rows: np.ndarray, labels: np.ndarray, train: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    """Of ridge regression, its penalty chosen by leaving one out."""
    scaler = StandardScaler().fit(rows[train])
    model = RidgeClassifierCV(np.logspace(-3, 5, 17)).fit(scaler.transform(rows[train]), labels[train])
    return float((model.predict(scaler.transform(rows[test])) == truth[test]).mean())


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--shuffled", action="store_true")
    words.add_argument("sets", nargs="*", default=SETS)
    options, out = words.parse_args(), list[dict[str, Any]]()
    for name in options.sets:
        images, truth = images_of(name, options.data)
        labelled = min(LABELS, len(images) // 3)
        for draw in range(1 if options.shuffled else DRAWS):
            order = np.random.default_rng(draw if name == "digits" else 0).permutation(len(images))
            order = order if name == "digits" else np.roll(order, -draw * (LABELS + SCORED))
            order = order[: labelled + SCORED]
            few, kinds = images[order], truth[order]
            train, test = np.arange(labelled), np.arange(labelled, len(few))
            few = (few - few[train].mean()) / few[train].std()
            labels = np.concatenate([np.random.default_rng(1).permutation(kinds[train]), kinds[test]])
            labels = labels if options.shuffled else kinds
            begun = time.process_time()
            wide, seconds = kernel_features(few, labels, train, draw), time.process_time() - begun
            tables = {"kernels": wide}
            for over in (0.25, 0.5, 1.0) if name == "digits" else (CHOSEN[0],):
                for parts in (2, 3) if name == "digits" else (CHOSEN[1],):
                    begun = time.process_time()
                    own = Patches(few[train], draw, over, parts, 3 if name == "digits" else 6)(few)
                    took = time.process_time() - begun
                    tables |= {f"patches {over} {parts}": own, f"joined {over} {parts}": np.concatenate([wide, own], 1)}
            scores = {kind: accuracy(rows, labels, train, test, kinds) for kind, rows in tables.items()}
            out.append({"set": name, "draw": draw, "seconds": [seconds, took], **scores})
            print(out[-1], flush=True)
    if not options.shuffled and tuple(options.sets) == SETS:
        text = json.dumps({"made": made_here("headstart"), "rows": out}, indent=1)
        (PAGES / "fit-patches.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
