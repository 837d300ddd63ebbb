"""Can Pathfinder's labels be learned, and not by a shortcut? A small CNN, and logistic regressions.

Claims: on 2,000 test images of 32 x 32 with contours of 14, a small CNN is right at least 10 standard errors
more often than half the time; logistic regressions on the pixels and on the number of lit pixels stay within
3. The CNN sees every train image once: first contours of 6, then of 9, then of 14 (from 14 alone it learns
too, in many more images).
Run: OMP_NUM_THREADS=1 python benchmarks/pathfinder_shortcuts.py   (2 minutes)
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from headstart.tasks.pathfinder.generate import images
from headstart.tasks.pathfinder.geometry import recipe, tables

TEST = 2_000
STANDARD_ERROR = 0.5 / math.sqrt(TEST)


CURRICULUM = {6: 40_000, 9: 30_000, 14: 60_000}
"""Contour length: train images, in this order."""
AT_ONCE = 10_000

Split = tuple[np.ndarray, np.ndarray]


def draw(split: str, contour: int, first: int, count: int) -> Split:
    """(count, 32, 32) uint8 images and (count,) labels of the task itself, from its image `first` on."""
    stream, step, last = f"pathfinder/32/{contour}/{split}", 2048, first + count
    parts = [images(tables(recipe(32, contour)), 0, stream, i, min(step, last - i)) for i in range(first, last, step)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]).astype(np.int64)


class Residual(nn.Module):
    """Two 3 x 3 convolutions beside the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, width, H, W) -> the same shape."""
        return torch.relu(x + self.inner(x))


def network(width: int = 32, blocks: int = 3) -> nn.Module:
    """One strided convolution to 16 x 16, residual blocks, the same at 8 x 8, maximum over the image."""
    return nn.Sequential(
        nn.Conv2d(1, width, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *[Residual(width) for _ in range(blocks)],
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        *[Residual(2 * width) for _ in range(blocks)],
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 2),
    )


def train_cnn(
    curriculum: dict[int, int], test: Split, batch: int = 64, rate: float = 3e-3
) -> Iterator[tuple[int, int, float]]:
    """(contour length, images of it seen, accuracy on `test`) after every 10,000 images."""
    torch.manual_seed(0)
    model = network().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optim = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    steps = sum(curriculum.values()) // AT_ONCE * (AT_ONCE // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optim, rate, total_steps=steps, pct_start=0.1)
    for contour, count in curriculum.items():
        for first in range(0, count, AT_ONCE):
            pixels, label = draw("train", contour, first, AT_ONCE)
            model.train()
            for i in range(0, AT_ONCE - batch + 1, batch):
                logits = answer(model, pixels[i : i + batch])
                loss = nn.functional.cross_entropy(logits, torch.from_numpy(label[i : i + batch]))
                optim.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optim.step()
                schedule.step()
            yield contour, first + AT_ONCE, accuracy(model, test)


def answer(model: nn.Module, pixels: np.ndarray) -> torch.Tensor:
    """(B, 2) float32 scores of uint8 images, computed in bfloat16 (twice as fast where the processor has it)."""
    x = torch.from_numpy(pixels).float()[:, None] / 255
    with torch.autocast("cpu", torch.bfloat16):
        scores: torch.Tensor = model(x.contiguous(memory_format=torch.channels_last))
    return scores.float()


def accuracy(model: nn.Module, split: Split) -> float:
    """Share of right answers."""
    model.eval()
    with torch.no_grad():
        answers = [answer(model, split[0][i : i + 500]).argmax(1) for i in range(0, len(split[0]), 500)]
    return float((torch.cat(answers).numpy() == split[1]).mean())


def logistic_scores(train: Split, test: Split) -> dict[str, float]:
    """Test accuracy of logistic regressions on the pixels, and on the number of lit ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    def lit(x: np.ndarray) -> np.ndarray:
        return np.asarray((x > 0).sum((1, 2))[:, None], dtype=float)

    def flat(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), -1) / 255.0

    out = {}
    for name, of in {"pixels": flat, "number of lit pixels": lit}.items():
        scale = StandardScaler().fit(of(train[0]))
        model = LogisticRegression(max_iter=500).fit(scale.transform(of(train[0])), train[1])
        out[name] = float(model.score(scale.transform(of(test[0])), test[1]))
    return out


def errors(score: float) -> float:
    """Standard errors above one half."""
    return float((score - 0.5) / STANDARD_ERROR)


def main() -> None:
    """Print every score with its distance from one half in standard errors."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    test = draw("test", 14, 0, TEST)
    for name, score in logistic_scores(draw("train", 14, 0, 20_000), test).items():
        print(f"logistic regression on the {name}: {score:.4f} ({errors(score):+.1f} standard errors)")
    began = time.perf_counter()
    for contour, seen, score in train_cnn(CURRICULUM, test):
        print(
            f"CNN after {seen} images with contours of {contour}: {score:.4f} "
            f"({errors(score):+.1f} standard errors), {time.perf_counter() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
