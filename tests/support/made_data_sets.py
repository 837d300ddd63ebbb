"""Small files of data sets that are not at hand, so that their tasks are held to the contract too."""

import json
from pathlib import Path

import numpy as np

from support.words import saved_bert

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def homology(root: Path) -> Path:
    """TAPE's three files, with 3 folds."""
    folder = root / "remote_homology"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 120), ("valid", 12), ("test_fold_holdout", 15)):
        rows = [{"primary": "".join(rng.choice(list(LETTERS), 20 + i % 30)), "fold_label": i % 3} for i in range(count)]
        (folder / f"remote_homology_{name}.json").write_text("\n".join(map(json.dumps, rows)))
    return root


def bidmc(root: Path, length: int = 40) -> Path:
    """Windows of heart rates: the first channel is quicker where the number is greater."""
    folder = root / "bidmc"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, count in (("TRAIN", 80), ("TEST", 20)):
        lines = [
            "@problemName BIDMC32HR",
            "@timeStamps false",
            "@missing false",
            "@univariate false",
            "@dimension 2",
            "@equalLength true",
            f"@seriesLength {length}",
            "@targetLabel true",
            "@data",
        ]
        for _ in range(count):
            rate = rng.uniform(50, 120)
            waves = np.sin(np.arange(length) * rate / 60 + rng.uniform(0, 6)), rng.normal(size=length)
            lines.append(":".join([*(",".join(f"{x:.5f}" for x in wave) for wave in waves), f"{rate:.3f}"]))
        (folder / f"BIDMC32HR_{name}.ts").write_text("\n".join(lines) + "\n")
    return root


def own(root: Path) -> Path:
    """Waves in two channels, slow or quick, of which the second has gaps, and a column that is not used."""
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    lines = [",".join(["id", "label", *(f"{channel}_{i}" for channel in "xy" for i in range(12))])]
    for i in range(150):
        waves = [np.sin(np.arange(12) * (0.4 + i % 3 * 0.5)) + 0.2 * rng.normal(size=12) for _ in "xy"]
        cells = [f"{x:.4f}" for x in np.concatenate(waves)]
        for gap in rng.integers(12, 23, size=i % 4):
            cells[gap] = ""
        lines.append(",".join([f"s{i}", ["slow", "quick", "quicker"][i % 3], *cells]))
    (root / "own.csv").write_text("\n".join(lines) + "\n")
    return root


def language(root: Path) -> Path:
    """A text of 4,000 bytes."""
    root.mkdir(parents=True, exist_ok=True)
    words = np.random.default_rng(0).choice(["one", "two", "three", "four"], 1000)
    (root / "text.txt").write_text(" ".join(words)[:4000])
    return root


def pieces(root: Path) -> Path:
    """Reviews, and a small BERT with its tokeniser beside them."""
    saved_bert(root / "bert")
    draw, lines = np.random.default_rng(0), ["text,label"]
    for i in range(150):
        words = draw.choice(["the", "film", "plot", "was", "a", "very", "is"], draw.integers(3, 12)).tolist()
        lines.append(f"{' '.join(words)} {'good' if i % 2 else 'bad'},{'pos' if i % 2 else 'neg'}")
    (root / "reviews.csv").write_text("\n".join(lines) + "\n")
    return root


def cifar(root: Path) -> Path:
    """CIFAR-10's six batches of random images: 400 of train, 50 of test."""
    folder = root / "cifar10"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for name, count in (*((f"data_batch_{i}", 80) for i in range(1, 6)), ("test_batch", 50)):
        pixels = rng.integers(0, 256, (count, 3 * 32 * 32)).astype(np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / f"{name}.bin").write_bytes(np.column_stack([labels, pixels]).tobytes())
    return root


PICTURES = ("image", "cifar_patches", "scifar")
MADE = {
    "homology": homology,
    "bidmc": bidmc,
    "own": own,
    "language": language,
    "pieces": pieces,
    **dict.fromkeys(PICTURES, cifar),
}
"""Writers of a task's files into a data folder."""
